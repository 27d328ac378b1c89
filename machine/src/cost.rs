//! Cycles by class.

use serde::Serialize;

/// What cycles were spent on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Instructions, kernel footprint included.
    Instruction,
    /// Load latency on first-level hits.
    L1,
    /// First-level misses served by the second level.
    L2,
    /// Lines from memory.
    Memory,
    /// Uncached loads, stores and fetches.
    Uncached,
    /// Table walks and micro-TLB refills.
    Walk,
    /// Cache and TLB operations and the write-backs they cause.
    Maintenance,
    /// Write-buffer drains.
    Drain,
    /// Exception entry and return.
    Exception,
    /// Instructions of kernel copies.
    Copy,
    /// Interprocessor interrupts.
    Ipi,
    /// Waiting for the disk.
    Disk,
}

impl Class {
    /// Every class, in the order of tables.
    pub const ALL: [Class; 12] = [
        Class::Instruction,
        Class::L1,
        Class::L2,
        Class::Memory,
        Class::Uncached,
        Class::Walk,
        Class::Maintenance,
        Class::Drain,
        Class::Exception,
        Class::Copy,
        Class::Ipi,
        Class::Disk,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Class::Instruction => "instruction",
            Class::L1 => "l1",
            Class::L2 => "l2",
            Class::Memory => "memory",
            Class::Uncached => "uncached",
            Class::Walk => "walk",
            Class::Maintenance => "maintenance",
            Class::Drain => "drain",
            Class::Exception => "exception",
            Class::Copy => "copy",
            Class::Ipi => "ipi",
            Class::Disk => "disk",
        }
    }
}

/// Counters that decide nothing: they stay out of every fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    cycles: [u64; Class::ALL.len()],
    /// Instructions executed by guests.
    pub instructions: u64,
    /// Fetches, loads and stores, the kernel's included.
    pub accesses: u64,
}

impl Costs {
    /// Adds cycles of a class.
    #[inline]
    pub fn spend(&mut self, class: Class, cycles: u32) {
        self.cycles[class as usize] += u64::from(cycles);
    }

    /// Adds many times the cycles of one.
    pub(crate) fn spend_times(&mut self, class: Class, cycles: u32, times: u64) {
        self.cycles[class as usize] += u64::from(cycles) * times;
    }

    /// Cycles of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.cycles[class as usize]
    }

    /// All cycles.
    pub fn total(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// What was spent since `earlier`.
    pub fn since(&self, earlier: &Costs) -> Costs {
        let mut out = *self;
        for (cycles, before) in out.cycles.iter_mut().zip(earlier.cycles) {
            *cycles -= before;
        }
        out.instructions -= earlier.instructions;
        out.accesses -= earlier.accesses;
        out
    }
}
