//! From references to the accesses that caches of one line size see.
//!
//! A batch is parted once into fetches and data; then each kind of cache gets its own stream: lines
//! of its size, those left out that repeat the line before ([`super::level`], idle accesses). Both
//! loops write without branching on what they read, because a trace is not predictable.

use std::hint::select_unpredictable;

use super::geometry::{Modify, Straddle};
use super::level::{Access, MODIFY, Memo, NONE, READ, Stores, WRITE};
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
        let (fetches_to, data_to) = (&mut fetches[..], &mut data[..]);
        let (mut f, mut d) = (0, 0);
        let (mut writes, mut both, mut bytes) = (0, 0, 0);
        for (at, record) in batch.iter().enumerate() {
            let kind = record.kind as usize & 3;
            let sided = Sided {
                va: record.va,
                at: at as u32,
                size: record.size as u16,
                operation: operation[kind],
            };
            // Both get it, and only one keeps it: cheaper than asking which.
            fetches_to[f] = sided;
            data_to[d] = sided;
            let fetch = usize::from(record.kind == Kind::Fetch);
            f += fetch;
            d += 1 - fetch;
            let (write, modify) = (u64::from(kind == 2), u64::from(sided.operation) >> 1);
            writes += write;
            both += modify;
            bytes += u64::from(record.size) & (write | modify).wrapping_neg();
        }
        fetches.truncate(f);
        data.truncate(d);
        self.records.fetches += f as u64;
        self.records.reads += d as u64 - writes;
        self.records.writes += writes + both;
        self.records.bytes_written += bytes;
    }
}

/// The accesses of one side in lines of one size.
pub(crate) struct Stream {
    side: Side,
    shift: u32,
    /// log2 of the bytes that share a dirty bit.
    part_shift: u32,
    rule: Memo,
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
            rule: Memo::new(key.stores),
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
        // All are loads, until stores are taken away.
        self.reads += sided.len() as u64;
        let mut rest = &sided[..];
        let mut kept = 0;
        loop {
            let within = if self.part_shift == self.shift {
                self.within_lines::<false>(rest, &mut kept)
            } else {
                self.within_lines::<true>(rest, &mut kept)
            };
            let Some(one) = rest.get(within) else { break };
            self.straddle(one, &mut kept);
            rest = &rest[within + 1..];
        }
        self.accesses.truncate(kept);
    }

    /// Takes references that stay within a line, up to the first that does not; returns its index.
    #[inline]
    fn within_lines<const PARTS: bool>(&mut self, sided: &[Sided], kept: &mut usize) -> usize {
        let accesses = &mut self.accesses[..];
        let (shift, part_shift, operations) = (self.shift, self.part_shift, self.operations);
        let line_mask = !((1_u64 << shift) - 1);
        let rule = self.rule;
        let (mut memo, mut next) = (self.memo, *kept);
        let (mut stored, mut modified) = (0, 0);
        let mut done = 0;
        for one in sided {
            let line = one.va & line_mask;
            if (one.last() ^ one.va) & line_mask != 0 {
                break;
            }
            let operation = u64::from(one.operation) & operations;
            let line = line | operation;
            let whole = u8::from(operation != READ);
            let parts = if PARTS {
                parts(one.va, one.last(), shift, part_shift) & whole.wrapping_neg()
            } else {
                whole
            };
            let (at, bytes) = (one.at, one.size);
            accesses[next] = Access {
                line,
                at,
                bytes,
                parts,
            };
            let idle = rule.idle(memo, line);
            next += usize::from(!idle);
            memo = select_unpredictable(idle, memo, rule.after(memo, line));
            stored += operation & WRITE;
            modified += operation >> 1;
            done += 1;
        }
        (self.memo, *kept) = (memo, next);
        self.writes += stored + modified;
        self.reads -= stored;
        done
    }

    /// Forgets which line was last: something else than an access has changed the caches.
    pub(crate) fn forget(&mut self) {
        self.memo = NONE;
    }

    /// Takes a reference that touches several lines.
    fn straddle(&mut self, one: &Sided, kept: &mut usize) {
        let operation = u64::from(one.operation) & self.operations;
        let (first, last) = (one.va >> self.shift, one.last() >> self.shift);
        let stores = u8::from(operation != READ).wrapping_neg();
        let room = self.accesses.len() + (last - first) as usize;
        self.accesses.resize(room, Access::default());
        for number in first..=last {
            let line = number << self.shift;
            let from = one.va.max(line);
            let to = one.last().min(line | ((1 << self.shift) - 1));
            let access = Access {
                line: line | operation,
                at: one.at,
                bytes: (to - from + 1) as u16,
                parts: parts(from, to, self.shift, self.part_shift) & stores,
            };
            self.accesses[*kept] = access;
            if !self.rule.idle(self.memo, access.line) {
                *kept += 1;
                self.memo = self.rule.after(self.memo, access.line);
            }
        }
        let extra = match self.straddle {
            Straddle::Split => last - first,
            Straddle::Cachegrind => 0,
        };
        let (read, written) = (u64::from(operation != WRITE), u64::from(operation != READ));
        self.writes += written * (1 + extra);
        self.reads = self.reads + read * (1 + extra) - 1;
    }
}

/// The dirty parts that the bytes `from` to `to` of a line are in.
#[inline]
fn parts(from: u64, to: u64, shift: u32, part_shift: u32) -> u8 {
    let part = |va: u64| (va & ((1 << shift) - 1)) >> part_shift;
    (0xff_u8 << part(from)) & (0xff_u8 >> (7 - part(to)))
}

impl Sided {
    /// Address of the last byte; the reader has checked that there is one.
    #[inline]
    fn last(&self) -> u64 {
        self.va.wrapping_add(u64::from(self.size)).wrapping_sub(1)
    }
}
