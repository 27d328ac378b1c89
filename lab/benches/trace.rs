//! References a second of `pmaplab trace`, on one core.
//!
//! The goals (issue 7): 40 M a second from the binary form and 25 M from text with 16 KiB 4-way split
//! caches; a sweep of 8 geometries in less than 4 single runs. Each is measured on the synthetic
//! trace, which is harder than a program's (every second access is somewhere else), and on a recorded
//! one.

use std::hint::black_box;
use std::io::{Cursor, Write as _};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lab::trace::{
    Choice, Format, Kind, Position, Reader, Ref, Rules, Setup, Simulation, Sweep, Synthetic, Unit,
    Writer, parse_cache,
};

/// A trace in both forms.
struct Trace {
    name: &'static str,
    records: u64,
    text: Vec<u8>,
    binary: Vec<u8>,
}

impl Trace {
    fn new(name: &'static str, records: &[Ref]) -> Self {
        let mut text = Vec::new();
        let mut writer = Writer::new(Vec::new()).expect("memory");
        for r in records {
            let label = match r.kind {
                Kind::Fetch => 'i',
                Kind::Write => 'w',
                _ => 'r',
            };
            writeln!(text, "{label} {:x} {:x}", r.va, r.size).expect("memory");
            writer.record(r.kind, r.va, r.size).expect("memory");
        }
        Self {
            name,
            records: records.len() as u64,
            text,
            binary: writer.finish().expect("memory"),
        }
    }
}

fn recorded() -> Vec<Ref> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/data/traces/gzip-full.xdin.xz"
    );
    let opened = Reader::open(file, Format::Auto, &Position::default());
    let (mut reader, _) = opened.expect("test data");
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("test data") {
        all.extend_from_slice(&batch);
    }
    all
}

fn split_caches() -> Setup {
    let shape = parse_cache("16384:4:32").expect("possible");
    let unit = Unit::new(shape, "lru".parse::<Choice>().expect("a rule"));
    Setup {
        l1i: Some(unit),
        l1d: Some(unit),
        ..Setup::empty()
    }
}

fn sweep(text: &str) -> Vec<Setup> {
    let sweep: Sweep = text.parse().expect("a sweep");
    let runs = sweep.apply(&split_caches(), "").expect("possible");
    runs.into_iter().map(|(_, setup)| setup).collect()
}

fn simulate(trace: &'static [u8], setups: &[Setup]) -> u64 {
    let mut reader = Reader::new("bench", Cursor::new(trace), Format::Auto).expect("a trace");
    let mut run = Simulation::new(setups, Rules::default(), false);
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch).expect("a trace") {
        run.push(&batch);
    }
    let counts = run.counts();
    counts
        .iter()
        .map(|c| c.l1d.map_or(0, |u| u.missed.reads))
        .sum()
}

fn benches(c: &mut Criterion) {
    let synthetic = Trace::new("synthetic", &Synthetic::records(4_000_000));
    let program = Trace::new("gzip", &recorded());
    for trace in [synthetic, program] {
        let trace: &'static Trace = Box::leak(Box::new(trace));
        let mut group = c.benchmark_group(trace.name);
        group
            .throughput(Throughput::Elements(trace.records))
            .sample_size(10);
        let runs: [(&str, &'static [u8], Vec<Setup>); 5] = [
            ("binary, one geometry", &trace.binary, vec![split_caches()]),
            ("text, one geometry", &trace.text, vec![split_caches()]),
            (
                "binary, sweep of 8 l1d",
                &trace.binary,
                sweep("l1d=2k..256k"),
            ),
            (
                "binary, sweep of 8 l1i and l1d",
                &trace.binary,
                sweep("l1=2k..256k"),
            ),
            (
                "text, sweep of 8 l1i and l1d",
                &trace.text,
                sweep("l1=2k..256k"),
            ),
        ];
        for (name, bytes, setups) in runs {
            group.bench_function(name, |b| b.iter(|| black_box(simulate(bytes, &setups))));
        }
        group.finish();
    }
}

criterion_group!(trace, benches);
criterion_main!(trace);
