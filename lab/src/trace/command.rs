//! `pmaplab trace`: reads, simulates, prints.

use std::io::{self, Write};
use std::path::Path;

use machine::Profile;
use serde::Serialize;

use super::convert::convert;
use super::geometry::Setup;
use super::options::{TraceArgs, TraceCommand};
use super::pages::{Functions, Pages, Row};
use super::plot::{self, Series};
use super::progress::Progress;
use super::reader::Reader;
use super::record::{Ref, TraceError};
use super::results::{Basis, Results};
use super::reuse::Reuse;
use super::sim::{Follow, Rules, Simulation};
use super::source::Position;
use super::symbols::Symbols;
use super::table;
use super::timeline::Timeline;

/// Functions listed.
const FUNCTIONS_SHOWN: usize = 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// Records of the trace.
    references: u64,
    #[serde(flatten)]
    one: Option<Results>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<Vec<SweepRun>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<Vec<Row>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    functions: Option<Vec<Row>>,
    /// Why the trace was not read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<String>,
}

/// One setup of a sweep.
#[derive(Serialize)]
struct SweepRun {
    setup: String,
    #[serde(flatten)]
    results: Results,
}

/// Runs `pmaplab trace`, printing to `out`.
///
/// # Errors
/// One message, for exit code 2. With `--partial` a report has been printed before.
pub fn run(args: &TraceArgs, out: &mut dyn Write) -> Result<(), TraceError> {
    if let Some(TraceCommand::Convert(convert_args)) = &args.command {
        return convert(convert_args).map(|_| ());
    }
    let mut run = Run::new(args)?;
    let end = run.read(args);
    if end.is_err() && !(args.partial && run.simulation.taken() > 0) {
        return end;
    }
    let printed = run.print(args, end.as_ref().err(), out);
    run.draw(args)?;
    match printed {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    end
}

/// A simulation and what follows it.
struct Run {
    setups: Vec<(String, Setup)>,
    profile: Option<std::sync::Arc<Profile>>,
    simulation: Simulation,
    pages: Option<Pages>,
    functions: Option<Functions>,
    timeline: Option<Timeline>,
    reuse: Option<Reuse>,
}

impl Run {
    fn new(args: &TraceArgs) -> Result<Self, TraceError> {
        let profile = args.profile()?;
        let setups = args.setups(profile.as_deref())?;
        let first = &setups[0].1;
        let symbols = match &args.functions {
            Some(file) => Some(Symbols::open(file, args.elf_base)?),
            None => None,
        };
        if let Some(directory) = &args.plot {
            let name = directory.display().to_string();
            std::fs::create_dir_all(directory).map_err(|e| TraceError::file(&name, e))?;
        }
        let drawn = args.plot.is_some();
        let line = first.l1d.or(first.l1i).map_or(32, |unit| unit.shape.line);
        let watched = args.pages.is_some() || symbols.is_some() || drawn;
        let rules = Rules {
            straddle: args.straddle,
            modify: args.modify,
        };
        let shapes: Vec<Setup> = setups.iter().map(|(_, setup)| setup.clone()).collect();
        Ok(Self {
            simulation: Simulation::new(&shapes, rules, watched),
            pages: args.pages.map(|_| Pages::new(first.page)),
            functions: symbols.map(Functions::new),
            timeline: drawn.then(Timeline::default),
            reuse: drawn.then(|| Reuse::new(line)),
            setups,
            profile,
        })
    }

    /// Reads all files through the simulation.
    fn read(&mut self, args: &TraceArgs) -> Result<(), TraceError> {
        let mut batch = Vec::new();
        for file in &args.files {
            let position = Position::default();
            let (mut reader, size) = Reader::open(file, args.format, &position)?;
            let mut progress = Progress::new(size, position);
            loop {
                let more = reader.next_batch(&mut batch);
                self.take(&batch);
                progress.advance(batch.len());
                if !more? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, batch: &[Ref]) {
        let mut followers: Vec<&mut dyn Follow> = Vec::new();
        followers.extend(self.pages.as_mut().map(|f| f as &mut dyn Follow));
        followers.extend(self.functions.as_mut().map(|f| f as &mut dyn Follow));
        followers.extend(self.timeline.as_mut().map(|f| f as &mut dyn Follow));
        followers.extend(self.reuse.as_mut().map(|f| f as &mut dyn Follow));
        self.simulation.push_and_tell(batch, &mut followers);
    }

    fn results(&self) -> Vec<(String, Results)> {
        let counts = self.simulation.counts();
        let one = |((label, setup), counts): (&(String, Setup), _)| {
            let basis = Basis {
                records: self.simulation.records(),
                line: setup.l1d.map_or(0, |unit| unit.shape.line),
                write_back: setup.l1d.is_none_or(|unit| unit.write_back),
                cost: self.profile.as_ref().map(|profile| &profile.cost),
            };
            (label.clone(), Results::new(counts, &basis))
        };
        self.setups.iter().zip(&counts).map(one).collect()
    }

    fn print(
        &self,
        args: &TraceArgs,
        broken: Option<&TraceError>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let references = self.simulation.taken();
        let mut runs = self.results();
        let pages = self.pages.as_ref().zip(args.pages).map(|(p, n)| p.rows(n));
        let functions = self.functions.as_ref().map(|f| f.rows(FUNCTIONS_SHOWN));
        let swept = !args.sweep.is_empty();
        if args.json {
            let one = (!swept).then(|| runs.remove(0).1);
            let run = |(setup, results)| SweepRun { setup, results };
            let report = Report {
                references,
                one,
                sweep: swept.then(|| runs.into_iter().map(run).collect()),
                pages,
                functions,
                partial: broken.map(ToString::to_string),
            };
            serde_json::to_writer_pretty(&mut *out, &report)?;
            return writeln!(out);
        }
        let whole = if broken.is_some() {
            ", not the whole trace"
        } else {
            ""
        };
        writeln!(out, "{references} references{whole}")?;
        if swept {
            out.write_all(table::sweep(&runs).as_bytes())?;
        } else {
            let units = self.setups[0].1.units();
            let unit = |(name, unit): (&str, &super::geometry::Unit)| {
                format!("{name} {} {}", unit.shape, unit.choice)
            };
            writeln!(out, "{}", units.map(unit).collect::<Vec<_>>().join(", "))?;
            out.write_all(table::results(&runs[0].1).as_bytes())?;
        }
        for (title, rows) in [("page", pages), ("function", functions)] {
            if let Some(rows) = rows {
                write!(out, "\n{}", table::tallies(title, &rows))?;
            }
        }
        Ok(())
    }

    fn draw(&self, args: &TraceArgs) -> Result<(), TraceError> {
        let Some(directory) = &args.plot else {
            return Ok(());
        };
        if let Some(timeline) = &self.timeline {
            plot::misses(&directory.join("misses.svg"), timeline.steps())?;
        }
        if let Some(reuse) = &self.reuse {
            plot::reuse(&directory.join("reuse.svg"), &reuse.histogram)?;
        }
        if !args.sweep.is_empty() {
            draw_sweep(&directory.join("sweep.svg"), &self.results())?;
        }
        Ok(())
    }
}

fn draw_sweep(file: &Path, runs: &[(String, Results)]) -> Result<(), TraceError> {
    let rate = |name, of: fn(&Results) -> Option<(u64, u64)>| {
        let point = |(n, (_, run)): (usize, &(String, Results))| {
            of(run).map(|(missed, all)| (n as f64, table::percent(missed, all)))
        };
        let points: Vec<_> = runs.iter().enumerate().filter_map(point).collect();
        Series { name, points }
    };
    let series = [
        rate("l1i", |r| r.l1i.as_ref().map(|u| (u.misses, u.fetches))),
        rate("l1d", |r| {
            let l1d = r.l1d.as_ref()?;
            Some((l1d.read_misses + l1d.write_misses, l1d.reads + l1d.writes))
        }),
        rate("l2", |r| r.l2.as_ref().map(|u| (u.read_misses, u.reads))),
        rate("itlb", |r| r.itlb.as_ref().map(|u| (u.misses, u.accesses))),
        rate("dtlb", |r| r.dtlb.as_ref().map(|u| (u.misses, u.accesses))),
    ];
    let labels: Vec<String> = runs.iter().map(|(label, _)| short(label)).collect();
    let there: Vec<Series> = series
        .into_iter()
        .filter(|s| !s.points.is_empty())
        .collect();
    plot::sweep(file, &labels, &there)
}

/// The sizes of a setup's label, for the axis of a picture.
fn short(label: &str) -> String {
    let size = |part: &str| {
        let shape = part.split('=').nth(1).unwrap_or(part);
        shape.split(':').next().unwrap_or(shape).to_owned()
    };
    let sizes: Vec<String> = label.split(' ').map(size).collect();
    sizes.join("/")
}
