//! One cache or TLB of the simulation: the machine's own cache code without bytes, its counts, and
//! the accesses that need not be looked up.
//!
//! # Idle accesses
//!
//! An access to the line that was used last in its set changes nothing: it hits, and no replacement
//! rule moves (LRU would put first what is first, the others ignore hits). `memo` keeps that line
//! for every set. Lines of the set of a cache with more sets are a part of those of a cache with
//! fewer, so what is idle in the latter is idle in the former too: a chain of caches in order of
//! their sets passes only the rest on ([`Level::run`]), and a sweep of eight costs little more than
//! the smallest. For that to be true of caches that differ in anything else:
//!
//! - a line enters `memo` only by an access that brings it into every cache of the chain (with
//!   `write_allocate` off, a store does not);
//! - a store is idle only if the line has been stored to since it entered `memo`, because only then
//!   it is dirty in all of them; or if nothing depends on it (write-through without a second level).

use machine::cache::Cache;

use super::geometry::{Straddle, Unit};

/// Low bits of [`Access::line`]: what is done with the line. A line has at least 4 bytes.
const OPERATION: u64 = 3;
/// A load or fetch.
pub(crate) const READ: u64 = 0;
/// A store.
pub(crate) const WRITE: u64 = 1;
/// A load and then a store.
pub(crate) const MODIFY: u64 = 2;

/// In `memo`: stores to the line are idle too.
const QUIET: u64 = 1;
/// In `memo`: there is a line.
const HELD: u64 = 2;
/// In `memo`: no line.
pub(crate) const NONE: u64 = 0;

/// One access to one line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    /// Address of the line, with the operation in its low bits.
    pub line: u64,
    /// Index of the reference in its batch.
    pub at: u32,
    /// Bytes of the line that are accessed.
    pub bytes: u16,
    /// Dirty parts that a store touches; none for a load.
    pub parts: u8,
}

/// What a cache asks of the level behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// A line, for a load or fetch that missed.
    ReadMiss,
    /// A line, for a store that missed.
    WriteMiss,
    /// Nothing: a store missed and went around.
    WriteAround,
    /// A dirty line left.
    WriteBack,
    /// A store goes through.
    Through,
}

/// A need, where it arose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub line: u64,
    pub at: u32,
    pub need: Need,
}

/// How stores are treated: what makes accesses idle depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Stores {
    pub back: bool,
    pub allocate: bool,
    /// Each store must be seen: it goes through to a second level, or lines have dirty parts.
    pub each: bool,
}

/// The memo's rule, ready to be applied without branching on the operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memo {
    allocate: bool,
    /// Low bits of the memo after each operation.
    after: [u64; 4],
}

impl Memo {
    pub(crate) fn new(stores: Stores) -> Self {
        let quiet = |is: bool| HELD | if is { QUIET } else { 0 };
        let stored = quiet(!stores.each);
        Self {
            allocate: stores.allocate,
            after: [quiet(!stores.back && !stores.each), stored, stored, stored],
        }
    }

    /// Whether an access changes nothing.
    #[inline]
    pub(crate) fn idle(&self, memo: u64, line: u64) -> bool {
        let any = u64::from(line & OPERATION == READ);
        memo | any == line | HELD | QUIET
    }

    /// The memo after an access that was not idle.
    #[inline]
    pub(crate) fn after(&self, memo: u64, line: u64) -> u64 {
        let address = line & !OPERATION;
        let operation = line & OPERATION;
        let after = address | self.after[operation as usize];
        if self.allocate || operation != WRITE || memo & !QUIET == address | HELD {
            after
        } else {
            NONE
        }
    }
}

/// What is counted of one cache or TLB. Accesses are counted where they are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Missed {
    /// Loads and fetches.
    pub reads: u64,
    /// Stores.
    pub writes: u64,
    /// Dirty lines written back.
    pub writebacks: u64,
    /// Their dirty parts.
    pub parts: u64,
    /// Stores that missed and brought no line in.
    pub around: u64,
    /// Their bytes.
    pub around_bytes: u64,
}

/// A cache or TLB.
pub(crate) struct Level {
    cache: Cache,
    shift: u32,
    set_mask: usize,
    stores: Stores,
    /// One miss for each reference, however many of its lines miss.
    once: bool,
    last_miss: u32,
    rule: Memo,
    memo: Vec<u64>,
    pub missed: Missed,
    /// Needs of the current batch, if somebody wants them.
    pub events: Option<Vec<Event>>,
}

impl Level {
    pub(crate) fn new(unit: &Unit, page: u32, stores: Stores, straddle: Straddle) -> Self {
        let geometry = unit.geometry(page);
        let mut cache = Cache::tags_only(geometry);
        cache.seed(unit.choice.seed);
        if unit.dirty_bytes != 0 {
            cache.part_dirt(unit.dirty_bytes);
        }
        Self {
            cache,
            shift: geometry.line_shift,
            set_mask: geometry.set_mask as usize,
            stores,
            once: straddle == Straddle::Cachegrind,
            last_miss: u32::MAX,
            rule: Memo::new(stores),
            memo: vec![NONE; geometry.set_mask as usize + 1],
            missed: Missed::default(),
            events: None,
        }
    }

    /// Takes a batch's accesses and leaves in `accesses` those that a cache with at least as many
    /// sets must see.
    pub(crate) fn run(&mut self, accesses: &mut Vec<Access>) {
        self.last_miss = u32::MAX;
        let mut kept = 0;
        for n in 0..accesses.len() {
            let access = accesses[n];
            if self.is_idle(access.line) {
                continue;
            }
            accesses[kept] = access;
            kept += 1;
            self.look_up(access);
        }
        accesses.truncate(kept);
    }

    /// Whether an access changes nothing; if it does not, the memo takes it up.
    #[inline]
    fn is_idle(&mut self, line: u64) -> bool {
        let set = (line >> self.shift) as usize & self.set_mask;
        let memo = &mut self.memo[set];
        let idle = self.rule.idle(*memo, line);
        if !idle {
            *memo = self.rule.after(*memo, line);
        }
        idle
    }

    /// Takes an access by any address in the line; for a level with longer lines than those in
    /// front of it.
    pub(crate) fn take_within(&mut self, access: Access) {
        let within = (1 << self.shift) - 1;
        let line = access.line & !within | access.line & OPERATION;
        if !self.is_idle(line) {
            self.look_up(Access { line, ..access });
        }
    }

    #[inline]
    fn look_up(&mut self, access: Access) {
        let line = access.line & !OPERATION;
        let slot = match self.cache.find((line, line)) {
            Some(slot) => {
                self.cache.touch(slot);
                slot
            }
            None => match self.miss(access) {
                Some(slot) => slot,
                None => return,
            },
        };
        if self.stores.back {
            self.cache.soil_parts(slot, access.parts);
        } else if access.line & OPERATION != READ {
            self.emit(access.line, access.at, Need::Through);
        }
    }

    /// Counts a miss and brings the line in, if this access does. Returns its slot.
    #[inline(never)]
    fn miss(&mut self, access: Access) -> Option<u32> {
        let line = access.line & !OPERATION;
        let store = access.line & OPERATION == WRITE;
        let counts = !(self.once && self.last_miss == access.at);
        self.last_miss = access.at;
        self.missed.writes += u64::from(store & counts);
        self.missed.reads += u64::from(!store & counts);
        if store && !self.stores.allocate {
            self.missed.around += 1;
            self.missed.around_bytes += u64::from(access.bytes);
            self.emit(line, access.at, Need::WriteAround);
            return None;
        }
        if self.events.is_some() {
            let need = if store {
                Need::WriteMiss
            } else {
                Need::ReadMiss
            };
            self.emit(line, access.at, need);
        }
        let slot = self.cache.victim((line, line));
        self.write_back(slot, access.at);
        self.cache.install(slot, (line, line), 0);
        Some(slot)
    }

    #[inline]
    fn write_back(&mut self, slot: u32, at: u32) {
        let dirty = self.cache.dirty(slot);
        self.missed.writebacks += u64::from(dirty != 0);
        self.missed.parts += u64::from(dirty.count_ones());
        if self.events.is_some() && dirty != 0 {
            self.emit(self.cache.line_address(slot), at, Need::WriteBack);
        }
    }

    #[inline]
    fn emit(&mut self, line: u64, at: u32, need: Need) {
        if let Some(events) = &mut self.events {
            let line = line & !OPERATION;
            events.push(Event { line, at, need });
        }
    }

    /// Writes dirty lines back, those of `lines` (addresses) or all; they stay in, clean.
    pub(crate) fn clean(&mut self, lines: Option<std::ops::RangeInclusive<u64>>) {
        for slot in self.slots(lines) {
            self.write_back(slot, 0);
            self.cache.cleaned(slot);
        }
        self.memo.fill(NONE);
    }

    /// Drops lines without writing them back.
    pub(crate) fn invalidate(&mut self, lines: Option<std::ops::RangeInclusive<u64>>) {
        for slot in self.slots(lines) {
            self.cache.invalidate(slot);
        }
        self.memo.fill(NONE);
    }

    fn slots(&self, lines: Option<std::ops::RangeInclusive<u64>>) -> Vec<u32> {
        let Some(lines) = lines else {
            return self.cache.valid_slots().collect();
        };
        let (first, last) = (lines.start() >> self.shift, lines.end() >> self.shift);
        let line = |n: u64| n << self.shift;
        (first..=last)
            .filter_map(|n| self.cache.find((line(n), line(n))))
            .collect()
    }

    /// Dirty lines that are still in: what the end of a run writes back.
    pub(crate) fn dirty_lines(&self) -> u64 {
        let slots = self.cache.valid_slots();
        slots.filter(|s| self.cache.dirty(*s) != 0).count() as u64
    }
}
