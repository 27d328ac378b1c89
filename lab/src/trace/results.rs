//! What a run found, as `--json` prints it, and what it would cost on a machine.
//!
//! Cycles are an estimate of the machine's cost table over the counts: an instruction each fetch
//! record, the load latency of hits, misses by the level that serves them, table walks, write-backs
//! by dirty part, and one write-buffer drain each store that goes round or through the first level
//! (the machine's buffer merges some of them). What is dirty at the end is not charged.

use std::collections::BTreeMap;

use machine::profile::CostProfile;
use serde::Serialize;

use super::sim::{Counts, UnitCounts};
use super::stream::Records;

/// Instruction cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FetchCache {
    /// Accesses.
    pub fetches: u64,
    /// Misses.
    pub misses: u64,
}

/// Data cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataCache {
    /// Loads.
    pub reads: u64,
    /// Loads that miss.
    pub read_misses: u64,
    /// Stores.
    pub writes: u64,
    /// Stores that miss.
    pub write_misses: u64,
    /// Dirty lines written back, those that the end of the run writes back included.
    pub writebacks: u64,
    /// Those of the end of the run.
    pub writebacks_at_end: u64,
    /// Bytes that went on towards memory: written-back lines and the stores that went around, or
    /// every store of a write-through cache.
    pub bytes_out: u64,
}

/// Second level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecondLevel {
    /// Lines asked for by the first level.
    pub reads: u64,
    /// Those that were not in.
    pub read_misses: u64,
    /// Write-backs and stores that the first level sent.
    pub writes: u64,
    /// Those that were not in; 0 where the second level sees misses only.
    pub write_misses: u64,
    /// Dirty lines that it wrote back, the end of the run excluded.
    pub writebacks: u64,
}

/// A TLB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TlbResult {
    /// Translations.
    pub accesses: u64,
    /// Those that were not in.
    pub misses: u64,
}

/// What one setup found. `None` (`null`) is a unit that the setup does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Results {
    /// Instruction cache.
    pub l1i: Option<FetchCache>,
    /// Data cache.
    pub l1d: Option<DataCache>,
    /// Second level.
    pub l2: Option<SecondLevel>,
    /// TLB of fetches.
    pub itlb: Option<TlbResult>,
    /// TLB of data.
    pub dtlb: Option<TlbResult>,
    /// Main TLB behind both.
    pub tlb: Option<TlbResult>,
    /// Cycles in all, if a machine gives the costs.
    pub cycles: Option<u64>,
    /// Cycles by class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cycles_by_class: BTreeMap<&'static str, u64>,
}

/// What results need besides counts.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// References of the trace.
    pub records: Records,
    /// Bytes of a data cache line.
    pub line: u32,
    /// Whether the data cache writes back.
    pub write_back: bool,
    /// The machine's costs.
    pub cost: Option<&'a CostProfile>,
}

impl Results {
    /// Results of what one setup counted.
    pub fn new(counts: &Counts, basis: &Basis) -> Self {
        let cycles_by_class = match basis.cost {
            Some(cost) => cycles(counts, basis, cost),
            None => BTreeMap::new(),
        };
        let cycles = basis.cost.map(|_| cycles_by_class.values().sum());
        Self {
            l1i: counts.l1i.map(|u| FetchCache {
                fetches: u.reads,
                misses: u.missed.reads,
            }),
            l1d: counts.l1d.map(|u| data(&u, basis)),
            l2: counts.l2.map(|u| SecondLevel {
                reads: u.reads,
                read_misses: u.missed.reads,
                writes: u.writes,
                write_misses: u.missed.writes,
                writebacks: u.missed.writebacks,
            }),
            itlb: counts.itlb.map(|u| tlb(&u)),
            dtlb: counts.dtlb.map(|u| tlb(&u)),
            tlb: counts.tlb.map(|u| tlb(&u)),
            cycles,
            cycles_by_class,
        }
    }
}

fn tlb(unit: &UnitCounts) -> TlbResult {
    TlbResult {
        accesses: unit.reads,
        misses: unit.missed.reads,
    }
}

fn data(unit: &UnitCounts, basis: &Basis) -> DataCache {
    let writebacks = unit.missed.writebacks + unit.dirty_at_end;
    let bytes_out = if basis.write_back {
        writebacks * u64::from(basis.line) + unit.missed.around_bytes
    } else {
        basis.records.bytes_written
    };
    DataCache {
        reads: unit.reads,
        read_misses: unit.missed.reads,
        writes: unit.writes,
        write_misses: unit.missed.writes,
        writebacks,
        writebacks_at_end: unit.dirty_at_end,
        bytes_out,
    }
}

fn cycles(counts: &Counts, basis: &Basis, cost: &CostProfile) -> BTreeMap<&'static str, u64> {
    let none = UnitCounts::default();
    let (l1i, l1d) = (counts.l1i.unwrap_or(none), counts.l1d.unwrap_or(none));
    let (itlb, dtlb) = (counts.itlb.unwrap_or(none), counts.dtlb.unwrap_or(none));
    let (l2, tlb) = (counts.l2.unwrap_or(none), counts.tlb.unwrap_or(none));
    // A store that misses and allocates waits for its line as a load does.
    let missed = l1i.missed.reads + l1d.missed.reads + l1d.missed.writes;
    let fills = counts
        .l2
        .map_or(missed.saturating_sub(l1d.missed.around), |l2| l2.reads);
    let from_memory = counts.l2.map_or(fills, |l2| l2.missed.reads);
    let lookups = itlb.missed.reads + dtlb.missed.reads;
    let walks = counts.tlb.map_or(lookups, |t| t.missed.reads);
    let parts = l1d.missed.parts + l2.missed.parts;
    let drains = if basis.write_back {
        l1d.missed.around
    } else {
        l1d.writes
    };
    let by = |n: u64, each: u32| n * u64::from(each);
    let written = by(parts, cost.write_back);
    let micro = by(tlb.reads - tlb.missed.reads, cost.micro_tlb);
    BTreeMap::from([
        ("instruction", by(basis.records.fetches, cost.instruction)),
        ("l1", by(l1d.reads - l1d.missed.reads, cost.l1_load)),
        ("l2", by(fills - from_memory, cost.l2)),
        ("memory", by(from_memory, cost.memory) + written),
        ("walk", by(walks, cost.walk) + micro),
        ("drain", by(drains, cost.drain)),
    ])
}
