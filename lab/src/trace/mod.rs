//! Recorded traces through the machine's caches and TLBs: `pmaplab trace`.
//!
//! A trace is read batch by batch ([`Reader`]) and pushed through any number of [`Setup`]s at once
//! ([`Simulation`]), which are made of the machine's own cache code without bytes
//! ([`machine::cache::Cache::tags_only`]). Hits and misses equal those of Dinero IV, drcachesim and
//! cachegrind where these agree on a rule.
//!
//! ```
//! use lab::trace::{Choice, Kind, Ref, Rules, Setup, Simulation, Unit, parse_cache};
//!
//! let shape = parse_cache("16384:4:32")?;
//! let mut setup = Setup::empty();
//! setup.l1d = Some(Unit::new(shape, "lru".parse::<Choice>()?));
//! let mut run = Simulation::new(&[setup], Rules::default(), false);
//! let load = |va| Ref { va, size: 4, kind: Kind::Read };
//! run.push(&[load(0x1000), load(0x1004), load(0x2000)]);
//! assert_eq!(run.counts()[0].l1d.unwrap().missed.reads, 2);
//! # Ok::<(), String>(())
//! ```
//!
//! Not here: pseudo-LRU, prefetch, sub-block fetches and sectors, coherence, physical addresses,
//! and time (cycles are counts times costs).

mod binary;
mod command;
mod convert;
mod geometry;
mod level;
mod options;
mod packed;
mod pages;
mod plot;
mod progress;
mod reader;
mod record;
mod results;
mod reuse;
mod sim;
mod source;
mod stream;
mod symbols;
mod synth;
mod table;
mod text;
mod timeline;

pub use binary::Writer;
pub use command::run;
pub use convert::convert;
pub use geometry::{
    Choice, L2Feed, Modify, Setup, Shape, Straddle, Sweep, Unit, parse_cache, parse_page,
    parse_size, parse_tlb,
};
pub use level::Missed;
pub use options::{Allocate, ConvertArgs, TraceArgs, TraceCommand, Write, machine};
pub use packed::Packed;
pub use pages::{Functions, Pages, Row, Tally};
pub use reader::{BATCH, Format, Reader};
pub use record::{Kind, Place, Ref, SIZE_MAX, TraceError};
pub use results::{Basis, DataCache, FetchCache, Results, SecondLevel, TlbResult};
pub use reuse::{Histogram, Reuse};
pub use sim::{Counts, Follow, Misses, Rules, Simulation, UnitCounts};
pub use source::Position;
pub use stream::Records;
pub use symbols::Symbols;
pub use synth::Synthetic;
pub use timeline::{Step, Timeline};

/// Body of the fuzz target `trace_file`: any bytes are a trace or a message, and what is read can
/// be simulated and written again.
pub fn fuzz_one(data: &[u8]) {
    fuzz_trace(data.to_vec());
    // As the records of a block too, which no mutation would find behind its checksum.
    if let Some(block) = binary::block_of(data) {
        fuzz_trace(block);
    }
}

fn fuzz_trace(data: Vec<u8>) {
    let Ok(mut reader) = Reader::new("input", std::io::Cursor::new(data), Format::Auto) else {
        return;
    };
    let Ok(sheevaplug) = machine("sheevaplug") else {
        return;
    };
    let setup = Setup::of_profile(&sheevaplug);
    let mut run = Simulation::new(&[setup], Rules::default(), false);
    let mut writer = Writer::new(Vec::new()).expect("memory takes everything");
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while let Ok(true) = reader.next_batch(&mut batch) {
        run.push(&batch);
        all.extend_from_slice(&batch);
        // What a packing blows up need not be read to its end.
        if all.len() > 1 << 16 {
            break;
        }
    }
    for record in &all {
        let written = writer.record(record.kind, record.va, record.size);
        written.expect("what was read can be written");
    }
    let bytes = writer.finish().expect("memory takes everything");
    assert_eq!(read_all(bytes), all, "the binary form loses nothing");
    assert_eq!(run.counts().len(), 1);
}

/// The records of a trace that is known to be sound.
fn read_all(bytes: Vec<u8>) -> Vec<Ref> {
    let input = std::io::Cursor::new(bytes);
    let Ok(mut reader) = Reader::new("memory", input, Format::Binary) else {
        return Vec::new();
    };
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while let Ok(true) = reader.next_batch(&mut batch) {
        all.extend_from_slice(&batch);
    }
    all
}
