//! From references to the accesses that caches of one line size see.
//!
//! A batch is parted once into fetches and data; then each kind of cache gets its own stream: lines
//! of its size, those left out that repeat the line before ([`super::level`], idle accesses). Both
//! loops write without branching on what they read, because a trace is not predictable.

use super::geometry::{Modify, Straddle};
use super::level::{Access, MODIFY, NONE, READ, Stores, WRITE};
use super::record::{Kind, Ref};

/// Fetches or data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) enum Side {
    Fetch,
    Data,
}

/// A reference of one side.
#[derive(Clone, Copy, Debug, Default)]
struct Sided {
    va: u64,
    at: u32,
    size: u16,
    operation: u8,
}

/// A batch, by sides.
#[derive(Default)]
pub(crate) struct Parted {
    sides: [Vec<Sided>; 2],
    pub records: Records,
}

/// References of a trace by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Records {
    /// Instruction fetches.
    pub fetches: u64,
    /// Loads.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Bytes stored.
    pub bytes_written: u64,
}

impl Parted {
    /// Parts a batch that has no operation in it.
    pub(crate) fn part(&mut self, batch: &[Ref], modify: Modify) {
        let [fetches, data] = &mut self.sides;
        fetches.resize(batch.len(), Sided::default());
        data.resize(batch.len(), Sided::default());
        let modified = match modify {
            Modify::Read => READ as u8,
            Modify::ReadWrite => MODIFY as u8,
        };
        let operation = [READ as u8, READ as u8, WRITE as u8, modified];
        let written = operation.map(|op| if op == READ as u8 { 0 } else { u64::MAX });
        let (mut f, mut d) = (0, 0);
        let mut bytes = 0;
        let mut counts = [0_u64; 4];
        for (at, record) in batch.iter().enumerate() {
            let kind = record.kind as usize & 3;
            let sided = Sided {
                va: record.va,
                at: at as u32,
                size: record.size as u16,
                operation: operation[kind],
            };
            fetches[f] = sided;
            data[d] = sided;
            let fetch = usize::from(record.kind == Kind::Fetch);
            f += fetch;
            d += 1 - fetch;
            counts[kind] += 1;
            bytes += u64::from(record.size) & written[kind];
        }
        fetches.truncate(f);
        data.truncate(d);
        let stored = if modify == Modify::ReadWrite {
            counts[3]
        } else {
            0
        };
        self.records.fetches += counts[0];
        self.records.reads += counts[1] + counts[3];
        self.records.writes += counts[2] + stored;
        self.records.bytes_written += bytes;
    }
}

/// The accesses of one side in lines of one size.
pub(crate) struct Stream {
    side: Side,
    shift: u32,
    /// log2 of the bytes that share a dirty bit.
    part_shift: u32,
    stores: Stores,
    straddle: Straddle,
    /// Operations that the caches can tell apart: a TLB takes everything for a load.
    operations: u64,
    memo: u64,
    /// Accesses made, the idle ones too.
    pub reads: u64,
    pub writes: u64,
    /// What the caches must see.
    pub accesses: Vec<Access>,
}

/// What makes a stream: caches that agree in it can share one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct StreamKey {
    pub side: Side,
    pub shift: u32,
    pub part_shift: u32,
    pub stores: Stores,
    /// Loads and stores are all translations.
    pub translations: bool,
}

impl Stream {
    pub(crate) fn new(key: StreamKey, straddle: Straddle) -> Self {
        Self {
            side: key.side,
            shift: key.shift,
            part_shift: key.part_shift,
            stores: key.stores,
            straddle,
            operations: if key.translations { 0 } else { u64::MAX },
            memo: NONE,
            reads: 0,
            writes: 0,
            accesses: Vec::new(),
        }
    }

    /// Takes a batch.
    pub(crate) fn run(&mut self, parted: &Parted) {
        let sided = &parted.sides[self.side as usize];
        self.accesses.clear();
        self.accesses.resize(sided.len(), Access::default());
        let line_mask = !((1_u64 << self.shift) - 1);
        let (mut memo, mut kept) = (self.memo, 0);
        let (mut stored, mut modified) = (0, 0);
        for one in sided {
            let operation = u64::from(one.operation) & self.operations;
            let (line, last) = (one.va & line_mask, one.last() & line_mask);
            stored += operation & WRITE;
            modified += operation >> 1;
            let first = self.access(
                one,
                line | operation,
                one.va,
                one.last().min(line | !line_mask),
            );
            self.accesses[kept] = first;
            let idle = self.stores.idle(memo, first.line);
            kept += usize::from(!idle);
            memo = if idle {
                memo
            } else {
                self.stores.after(memo, first.line)
            };
            if line != last {
                (memo, kept) = self.straddle(one, memo, kept);
            }
        }
        self.accesses.truncate(kept);
        self.memo = memo;
        self.writes += stored + modified;
        self.reads += sided.len() as u64 - stored;
    }

    /// Forgets which line was last: something else than an access has changed the caches.
    pub(crate) fn forget(&mut self) {
        self.memo = NONE;
    }

    /// The lines after the first of a reference that touches several.
    #[cold]
    fn straddle(&mut self, one: &Sided, mut memo: u64, mut kept: usize) -> (u64, usize) {
        let operation = u64::from(one.operation) & self.operations;
        let (first, last) = (one.va >> self.shift, one.last() >> self.shift);
        self.accesses.resize(
            self.accesses.len() + (last - first) as usize,
            Access::default(),
        );
        for number in first + 1..=last {
            let from = number << self.shift;
            let to = one.last().min(from | ((1 << self.shift) - 1));
            let access = self.access(one, from | operation, from, to);
            self.accesses[kept] = access;
            kept += 1;
            memo = self.stores.after(memo, access.line);
        }
        if self.straddle == Straddle::Split {
            self.reads += if operation == WRITE { 0 } else { last - first };
            self.writes += if operation == READ { 0 } else { last - first };
        }
        (memo, kept)
    }

    /// The access to `line` that touches the bytes `from` to `to` of it.
    #[inline]
    fn access(&self, one: &Sided, line: u64, from: u64, to: u64) -> Access {
        let part = |va: u64| (va & ((1 << self.shift) - 1)) >> self.part_shift;
        let parts = if self.part_shift == self.shift {
            1
        } else {
            (0xff_u8 << part(from)) & (0xff_u8 >> (7 - part(to)))
        };
        Access {
            line,
            at: one.at,
            bytes: (to - from + 1) as u16,
            parts,
        }
    }
}

impl Sided {
    /// Address of the last byte; the reader has checked that there is one.
    #[inline]
    fn last(&self) -> u64 {
        self.va.wrapping_add(u64::from(self.size)).wrapping_sub(1)
    }
}
