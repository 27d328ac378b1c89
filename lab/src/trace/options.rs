//! The options of `pmaplab trace`, and the setups they describe.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use machine::Profile;

use super::geometry::{
    Choice, L2Feed, Modify, Setup, Shape, Straddle, Sweep, Unit, parse_cache, parse_page, parse_tlb,
};
use super::reader::Format;
use super::record::TraceError;

/// Most setups of one run.
const SETUPS_MAX: usize = 256;

/// Stores that hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Write {
    /// They stay in the line until it leaves.
    Back,
    /// They go through to what is behind.
    Through,
}

/// What brings a line in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Allocate {
    /// Loads only.
    Read,
    /// Loads and stores.
    Write,
}

/// Simulate caches and TLBs on a recorded trace.
///
/// Several files are one trace in parts. Without a geometry, `--machine sheevaplug` is taken. Sizes
/// may end in k or m.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TraceArgs {
    /// `convert` instead of a simulation.
    #[command(subcommand)]
    pub command: Option<TraceCommand>,

    /// Traces (lackey, din, xdin or binary; plain, gzip or xz); `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,

    /// Form of the traces.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Caches, TLBs and costs of a machine: a profile's name or file; other options change it.
    #[arg(long, value_name = "NAME|PATH")]
    pub machine: Option<String>,

    /// Instruction cache, as 16384:4:32.
    #[arg(long, value_name = "SIZE:WAYS:LINE", value_parser = parse_cache)]
    pub l1i: Option<Shape>,

    /// Data cache.
    #[arg(long, value_name = "SIZE:WAYS:LINE", value_parser = parse_cache)]
    pub l1d: Option<Shape>,

    /// Unified second level.
    #[arg(long, value_name = "SIZE:WAYS:LINE", value_parser = parse_cache)]
    pub l2: Option<Shape>,

    /// What the second level sees: `traffic` with a machine, else `misses`.
    #[arg(long, value_enum)]
    pub l2_feed: Option<L2Feed>,

    /// TLB of fetches, as 64:2.
    #[arg(long, value_name = "ENTRIES:WAYS", value_parser = parse_tlb)]
    pub itlb: Option<Shape>,

    /// TLB of loads and stores.
    #[arg(long, value_name = "ENTRIES:WAYS", value_parser = parse_tlb)]
    pub dtlb: Option<Shape>,

    /// Page size, bytes [default: the machine's, else 4096].
    #[arg(long, value_name = "BYTES", value_parser = parse_page)]
    pub page: Option<u32>,

    /// Victims of caches and TLBs: lru, fifo, round-robin, random or random:SEED [default: the
    /// machine's, else lru].
    #[arg(long, value_name = "RULE")]
    pub replacement: Option<Choice>,

    /// Stores that hit the data cache [default: the machine's, else back].
    #[arg(long, value_enum)]
    pub write: Option<Write>,

    /// What brings a line into the data cache [default: the machine's, else write].
    #[arg(long, value_enum)]
    pub allocate: Option<Allocate>,

    /// What a reference over several lines counts as.
    #[arg(long, value_enum, default_value_t)]
    pub straddle: Straddle,

    /// What a load-and-store record (lackey's M) counts as.
    #[arg(long, value_enum, default_value_t)]
    pub modify: Modify,

    /// Simulate several sizes in one pass: l1d=8192..65536 (doubling) or l1d=8k,32k; repeated, every
    /// combination.
    #[arg(long, value_name = "UNIT=SIZES")]
    pub sweep: Vec<Sweep>,

    /// List the pages with the most misses.
    #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "20")]
    pub pages: Option<usize>,

    /// List the functions of this program with the most misses.
    #[arg(long, value_name = "ELF")]
    pub functions: Option<String>,

    /// Where the program was loaded above its own addresses, hexadecimal.
    #[arg(long, value_name = "ADDRESS", default_value = "0", value_parser = parse_hex)]
    pub elf_base: u64,

    /// Draw misses.svg and reuse.svg, and sweep.svg of a sweep, into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub plot: Option<PathBuf>,

    /// After a broken record, report what was read up to it; the exit code stays 2.
    #[arg(long)]
    pub partial: bool,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What else can be done with a trace.
#[derive(Subcommand, Clone, Debug)]
pub enum TraceCommand {
    /// Write a trace in the compact binary form.
    Convert(ConvertArgs),
}

/// Options of `pmaplab trace convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertArgs {
    /// The trace; `-` is standard input.
    pub input: String,

    /// The file to write; a name that ends in .gz or .xz is packed.
    pub output: PathBuf,

    /// Form of the trace.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Keep what was read up to a broken record; the exit code stays 2.
    #[arg(long)]
    pub partial: bool,
}

fn parse_hex(text: &str) -> Result<u64, String> {
    let digits = text.trim_start_matches("0x");
    u64::from_str_radix(digits, 16).map_err(|_| "expected a hexadecimal number".to_owned())
}

/// A machine by the name of an embedded profile or a file.
///
/// # Errors
/// There is none, or it is no profile.
pub fn machine(name: &str) -> Result<Arc<Profile>, TraceError> {
    if let Some(profile) = Profile::embedded(name) {
        return Ok(profile);
    }
    let text = std::fs::read_to_string(name).map_err(|e| {
        let names: Vec<_> = Profile::names().collect();
        let known = names.join(", ");
        TraceError::Options(format!(
            "machine {name}: {e}; expected a file or one of {known}"
        ))
    })?;
    let profile = Profile::parse(&text);
    let profile = profile.map_err(|e| TraceError::Options(format!("machine {name}: {e}")))?;
    Ok(Arc::new(profile))
}

impl TraceArgs {
    /// The machine whose geometry and costs are used.
    ///
    /// # Errors
    /// As [`machine`].
    pub fn profile(&self) -> Result<Option<Arc<Profile>>, TraceError> {
        let shapes = [self.l1i, self.l1d, self.l2, self.itlb, self.dtlb];
        match &self.machine {
            Some(name) => machine(name).map(Some),
            None if shapes.iter().all(Option::is_none) => machine("sheevaplug").map(Some),
            None => Ok(None),
        }
    }

    /// The setups to simulate, each with what makes it differ from the others.
    ///
    /// # Errors
    /// A geometry that cannot be, or options that do not fit together.
    pub fn setups(&self, profile: Option<&Profile>) -> Result<Vec<(String, Setup)>, TraceError> {
        let base = self.setup(profile);
        let mut all = vec![(String::new(), base)];
        for sweep in &self.sweep {
            let mut more = Vec::new();
            for (label, setup) in &all {
                more.extend(sweep.apply(setup, label).map_err(TraceError::Options)?);
            }
            if more.len() > SETUPS_MAX {
                let what = format!("{} setups; expected at most {SETUPS_MAX}", more.len());
                return Err(TraceError::Options(what));
            }
            all = more;
        }
        if !self.sweep.is_empty() && (self.pages.is_some() || self.functions.is_some()) {
            let what = "--pages and --functions are of one setup; expected no --sweep";
            return Err(TraceError::Options(what.to_owned()));
        }
        for (_, setup) in &all {
            setup.check().map_err(TraceError::Options)?;
        }
        Ok(all)
    }

    fn setup(&self, profile: Option<&Profile>) -> Setup {
        let mut setup = profile.map_or(Setup::empty(), Setup::of_profile);
        setup.page = self.page.unwrap_or(setup.page);
        setup.l2_feed = self.l2_feed.unwrap_or(setup.l2_feed);
        let shapes = [
            ("l1i", self.l1i),
            ("l1d", self.l1d),
            ("l2", self.l2),
            ("itlb", self.itlb),
            ("dtlb", self.dtlb),
        ];
        // Who says what the first TLBs are means all there is.
        if self.itlb.is_some() || self.dtlb.is_some() {
            setup.tlb = None;
        }
        for (name, shape) in shapes {
            if let (Some(shape), Some(unit)) = (shape, setup.unit_mut(name)) {
                let new = Unit::new(shape, Choice::from(machine::profile::Replacement::Lru));
                let kept = unit.unwrap_or(new);
                let dirty_bytes = 0;
                *unit = Some(Unit {
                    shape,
                    dirty_bytes,
                    ..kept
                });
            }
        }
        self.policies(&mut setup);
        setup
    }

    fn policies(&self, setup: &mut Setup) {
        if let Some(l1d) = &mut setup.l1d {
            if let Some(write) = self.write {
                l1d.write_back = write == Write::Back;
            }
            if let Some(allocate) = self.allocate {
                l1d.write_allocate = allocate == Allocate::Write;
            }
        }
        let Some(choice) = self.replacement else {
            return;
        };
        let units = [
            &mut setup.l1i,
            &mut setup.l1d,
            &mut setup.l2,
            &mut setup.itlb,
            &mut setup.dtlb,
            &mut setup.tlb,
        ];
        for unit in units.into_iter().flatten() {
            unit.choice = choice;
        }
    }
}
