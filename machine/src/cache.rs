//! One cache: tags, the physical address kept with each line, dirty parts and the bytes themselves.
//!
//! A line is written back to the physical address it was filled from, whatever the page tables say
//! by then (ARM920T and ARM926EJ-S keep it in a tag RAM of its own; `hardware.md` 7.4). Dirt is kept
//! by parts of a line, half a line on ARM9 (7.3). What a miss, a store or an operation does with
//! the line is decided by the caller; this file only finds, chooses and keeps.
//!
//! Without bytes ([`Cache::tags_only`]) the same code counts hits of a recorded trace.

use crate::memory::{hash_bytes, mix};
use crate::profile::{CacheProfile, Lookup, Replacement};
use crate::types::Width;

const INVALID: u64 = u64::MAX;

/// Size, ways and line of a cache, and how it chooses victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// log2 of the line size.
    pub line_shift: u32,
    /// Sets less one; the number of sets is a power of two.
    pub set_mask: u32,
    /// Ways of a set.
    pub ways: u32,
    /// Victim choice.
    pub replacement: Replacement,
}

/// A cache. Lines are named by slot: `set * ways + way`.
#[derive(Clone, Debug)]
pub struct Cache {
    geometry: Geometry,
    lookup: Lookup,
    invalid_first: bool,
    dirty_shift: u32,
    /// Sets that the physical address tells apart: a page's offset is the same in both addresses.
    sets_known: u32,
    /// Line number of the tag address, or `INVALID`.
    tags: Vec<u64>,
    /// Physical address of each line.
    pa: Vec<u32>,
    /// One bit a dirty part.
    dirty: Vec<u8>,
    data: Vec<u8>,
    /// LRU: when each slot was last used. FIFO: when filled. 0 if it is invalid.
    used: Vec<u64>,
    /// Round robin: the next victim's way, one a set (or one in all).
    next: Vec<u8>,
    clock: u64,
    random: u64,
}

impl Cache {
    /// An empty cache with bytes, on a machine with pages of `page` bytes.
    pub fn new(profile: &CacheProfile, page: u32) -> Self {
        let sets = profile.size / profile.line / profile.ways;
        let geometry = Geometry {
            line_shift: profile.line.trailing_zeros(),
            set_mask: sets - 1,
            ways: profile.ways,
            replacement: profile.replacement,
        };
        let mut cache = Self::tags_only(geometry);
        cache.lookup = profile.lookup;
        cache.invalid_first = profile.invalid_first;
        if profile.lookup != Lookup::Pipt {
            cache.sets_known = sets.min(page / profile.line);
        }
        cache.dirty_shift = profile.dirty_bytes().trailing_zeros();
        cache.pa = vec![0; cache.tags.len()];
        cache.data = vec![0; profile.size as usize];
        cache
    }

    /// An empty cache that keeps no bytes and no physical addresses, for counting.
    pub fn tags_only(geometry: Geometry) -> Self {
        let sets = geometry.set_mask as usize + 1;
        let slots = sets * geometry.ways as usize;
        let aged = matches!(geometry.replacement, Replacement::Lru | Replacement::Fifo);
        Self {
            geometry,
            lookup: Lookup::Pipt,
            invalid_first: true,
            dirty_shift: geometry.line_shift,
            sets_known: geometry.set_mask + 1,
            tags: vec![INVALID; slots],
            pa: Vec::new(),
            dirty: vec![0; slots],
            data: Vec::new(),
            used: vec![0; if aged { slots } else { 0 }],
            next: vec![0; sets],
            clock: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Seeds the random replacement.
    pub fn seed(&mut self, seed: u64) {
        self.random = seed | 1;
    }

    /// Keeps dirt by parts of `bytes` (a power of two, at least an eighth of a line), not by lines.
    pub fn part_dirt(&mut self, bytes: u32) {
        self.dirty_shift = bytes.trailing_zeros().min(self.geometry.line_shift);
    }

    /// Line size, bytes.
    pub fn line_bytes(&self) -> u32 {
        1 << self.geometry.line_shift
    }

    /// log2 of the line size.
    #[inline]
    pub(crate) fn line_shift(&self) -> u32 {
        self.geometry.line_shift
    }

    /// Number of lines.
    pub fn slots(&self) -> u32 {
        self.tags.len() as u32
    }

    /// Ways of a set.
    pub fn ways(&self) -> u32 {
        self.geometry.ways
    }

    /// The address that indexes and the one that is compared, for an access.
    #[inline]
    pub fn keys(&self, va: u32, pa: u32) -> (u64, u64) {
        match self.lookup {
            Lookup::Vivt => (u64::from(va), u64::from(va)),
            Lookup::Vipt => (u64::from(va), u64::from(pa)),
            Lookup::Pipt => (u64::from(pa), u64::from(pa)),
        }
    }

    /// Whether finding a line needs a translation.
    pub fn needs_pa(&self) -> bool {
        self.lookup != Lookup::Vivt
    }

    /// The first slot of the set that `index` falls into.
    #[inline]
    fn set_base(&self, index: u64) -> usize {
        let set = (index >> self.geometry.line_shift) as u32 & self.geometry.set_mask;
        set as usize * self.geometry.ways as usize
    }

    /// The slot that holds the line, if it is in.
    #[inline]
    pub fn find(&self, (index, tag): (u64, u64)) -> Option<u32> {
        let base = self.set_base(index);
        let line = tag >> self.geometry.line_shift;
        let ways = &self.tags[base..base + self.geometry.ways as usize];
        way_of(ways, line).map(|way| (base + way) as u32)
    }

    /// Whether this slot holds the line of this number: address by line size.
    #[inline(always)]
    pub(crate) fn holds(&self, slot: u32, number: u32) -> bool {
        self.tags.get(slot as usize) == Some(&u64::from(number))
    }

    /// Whether lines are compared by physical addresses.
    pub(crate) fn physical(&self) -> bool {
        self.lookup != Lookup::Vivt
    }

    /// Reads a value out of a line.
    #[inline(always)]
    pub(crate) fn take(&self, slot: u32, offset: u32, width: Width) -> u32 {
        let n = ((slot << self.geometry.line_shift) + offset) as usize;
        match width {
            Width::Byte => u32::from(self.data[n]),
            Width::Half => {
                let b = &self.data[n..n + 2];
                u32::from(u16::from_le_bytes([b[0], b[1]]))
            }
            Width::Word => {
                let b = &self.data[n..n + 4];
                u32::from_le_bytes([b[0], b[1], b[2], b[3]])
            }
        }
    }

    /// Writes a value into a line.
    #[inline(always)]
    pub(crate) fn put(&mut self, slot: u32, offset: u32, width: Width, value: u32) {
        let n = ((slot << self.geometry.line_shift) + offset) as usize;
        let b = value.to_le_bytes();
        match width {
            Width::Byte => self.data[n] = b[0],
            Width::Half => self.data[n..n + 2].copy_from_slice(&b[..2]),
            Width::Word => self.data[n..n + 4].copy_from_slice(&b),
        }
    }

    /// Reads words out of a line.
    #[inline(always)]
    pub(crate) fn take_words(&self, slot: u32, offset: u32, words: &mut [u32]) {
        let n = ((slot << self.geometry.line_shift) + offset) as usize;
        let bytes = self.data[n..n + 4 * words.len()].chunks_exact(4);
        for (word, b) in words.iter_mut().zip(bytes) {
            *word = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
    }

    /// Writes words, at least one, into a line and marks their parts dirty.
    #[inline(always)]
    pub(crate) fn put_words(&mut self, slot: u32, offset: u32, words: &[u32]) {
        let n = ((slot << self.geometry.line_shift) + offset) as usize;
        let bytes = self.data[n..n + 4 * words.len()].as_chunks_mut().0;
        for (word, bytes) in words.iter().zip(bytes) {
            *bytes = word.to_le_bytes();
        }
        let last = offset + 4 * words.len() as u32 - 1;
        let (first, last) = (offset >> self.dirty_shift, last >> self.dirty_shift);
        self.dirty[slot as usize] |= (((2 << (last - first)) - 1) << first) as u8;
    }

    /// Counts a use of a line that is in, for LRU.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.geometry.replacement == Replacement::Lru {
            self.clock += 1;
            self.used[slot as usize] = self.clock;
        }
    }

    /// The slot that the next line of this set will take: an invalid one (if the cache looks for one), or
    /// the victim.
    pub fn victim(&mut self, (index, _): (u64, u64)) -> u32 {
        let base = self.set_base(index);
        let ways = self.geometry.ways as usize;
        if !self.used.is_empty() {
            // An invalid slot was never used, so it is the first of the oldest.
            return (base + first_least(&self.used[base..base + ways])) as u32;
        }
        let invalid = way_of(&self.tags[base..base + ways], INVALID);
        if let Some(way) = invalid.filter(|_| self.invalid_first) {
            return (base + way) as u32;
        }
        let way = match self.geometry.replacement {
            Replacement::Lru | Replacement::Fifo => unreachable!("they have ages"),
            Replacement::RoundRobin => self.advance(base / ways),
            Replacement::RoundRobinGlobal => self.advance(0),
            Replacement::Random => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                (self.random % ways as u64) as usize
            }
        };
        (base + way) as u32
    }

    fn advance(&mut self, pointer: usize) -> usize {
        let way = self.next[pointer];
        self.next[pointer] = if u32::from(way) + 1 == self.geometry.ways {
            0
        } else {
            way + 1
        };
        usize::from(way)
    }

    /// Puts a line into a slot, clean. With bytes, the caller copies them in.
    pub fn install(&mut self, slot: u32, (_, tag): (u64, u64), pa: u32) {
        let n = slot as usize;
        self.tags[n] = tag >> self.geometry.line_shift;
        self.dirty[n] = 0;
        let base = pa & !(self.line_bytes() - 1);
        if let Some(kept) = self.pa.get_mut(n) {
            *kept = base;
        }
        if !self.used.is_empty() {
            self.clock += 1;
            self.used[n] = self.clock;
        }
    }

    /// Whether the slot holds a line.
    #[inline]
    pub fn valid(&self, slot: u32) -> bool {
        self.tags[slot as usize] != INVALID
    }

    /// Empties the slot; what was dirty in it is gone.
    pub fn invalidate(&mut self, slot: u32) {
        self.tags[slot as usize] = INVALID;
        self.dirty[slot as usize] = 0;
        if let Some(used) = self.used.get_mut(slot as usize) {
            *used = 0;
        }
    }

    /// The address the line was filled from.
    pub fn pa(&self, slot: u32) -> u32 {
        self.pa[slot as usize]
    }

    /// The tag address of a valid line: virtual in a VIVT cache.
    pub fn tag_address(&self, slot: u32) -> u32 {
        (self.tags[slot as usize] << self.geometry.line_shift) as u32
    }

    /// The tag address of a valid line, all of it: a trace's addresses have up to 64 bits.
    pub fn line_address(&self, slot: u32) -> u64 {
        self.tags[slot as usize] << self.geometry.line_shift
    }

    /// The dirty parts, one bit each from the line's start; 0 is clean.
    #[inline]
    pub fn dirty(&self, slot: u32) -> u8 {
        self.dirty[slot as usize]
    }

    /// Bytes of one dirty part.
    pub fn part_bytes(&self) -> u32 {
        1 << self.dirty_shift
    }

    /// Marks the part that holds `offset` dirty.
    #[inline]
    pub fn soil(&mut self, slot: u32, offset: u32) {
        self.dirty[slot as usize] |= 1 << (offset >> self.dirty_shift);
    }

    /// Marks several parts dirty, one bit each from the line's start.
    #[inline]
    pub fn soil_parts(&mut self, slot: u32, parts: u8) {
        self.dirty[slot as usize] |= parts;
    }

    /// Marks the whole line clean.
    pub fn cleaned(&mut self, slot: u32) {
        self.dirty[slot as usize] = 0;
    }

    /// The line's bytes.
    #[inline]
    pub fn line(&self, slot: u32) -> &[u8] {
        let at = (slot as usize) << self.geometry.line_shift;
        &self.data[at..at + (1 << self.geometry.line_shift)]
    }

    /// The same where lines have 32 bytes, as nearly all have: then copying is a few instructions.
    #[inline(always)]
    pub(crate) fn line_of_32(&self, slot: u32) -> Option<&[u8; 32]> {
        if self.geometry.line_shift != 5 {
            return None;
        }
        self.data.as_chunks().0.get(slot as usize)
    }

    /// The line's bytes, to write.
    #[inline]
    pub fn line_mut(&mut self, slot: u32) -> &mut [u8] {
        let at = (slot as usize) << self.geometry.line_shift;
        &mut self.data[at..at + (1 << self.geometry.line_shift)]
    }

    /// The valid slots whose line was filled from the line-sized block at `pa`, in order: one set of
    /// each colour is looked at.
    pub fn holders(&self, pa: u32) -> impl Iterator<Item = u32> + '_ {
        let block = pa & !(self.line_bytes() - 1);
        let low = (block >> self.geometry.line_shift) & (self.sets_known - 1);
        let sets = (low..=self.geometry.set_mask).step_by(self.sets_known as usize);
        let ways = self.geometry.ways;
        sets.flat_map(move |set| set * ways..(set + 1) * ways)
            .filter(move |s| self.valid(*s) && self.pa(*s) == block)
    }

    /// The valid slots, in order. Most of a large cache is often empty, so groups are asked first.
    pub fn valid_slots(&self) -> impl Iterator<Item = u32> + '_ {
        const GROUP: usize = 16;
        let (groups, rest) = self.tags.as_chunks::<GROUP>();
        let used = |tags: &[u64; GROUP]| tags.iter().fold(INVALID, |all, tag| all & tag) != INVALID;
        let first = (0..).step_by(GROUP);
        let used = groups.iter().zip(first).filter(move |(tags, _)| used(tags));
        let last = (groups.len() * GROUP) as u32;
        used.flat_map(|(tags, first)| tags.iter().zip(first..))
            .chain(rest.iter().zip(last..))
            .filter(|(tag, _)| **tag != INVALID)
            .map(|(_, slot)| slot)
    }

    /// How addresses find lines.
    pub fn lookup(&self) -> Lookup {
        self.lookup
    }

    /// How victims are chosen.
    pub fn replacement(&self) -> Replacement {
        self.geometry.replacement
    }

    /// The round-robin pointers, for snapshots.
    pub fn pointers(&self) -> &[u8] {
        &self.next
    }

    /// The same, to restore.
    pub fn pointers_mut(&mut self) -> &mut [u8] {
        &mut self.next
    }

    /// A hash of all that decides future behaviour: valid lines with their bytes, and the victim
    /// choice. Ages enter by their order only.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = 0;
        for slot in 0..self.slots() {
            let n = slot as usize;
            if self.tags[n] == INVALID {
                hash = mix(hash, INVALID);
                continue;
            }
            hash = mix(hash, self.tags[n]);
            hash = mix(hash, u64::from(self.dirty[n]) << 32 | u64::from(self.pa[n]));
            hash = mix(hash, hash_bytes(2, self.line(slot)));
            if !self.used.is_empty() {
                hash = mix(hash, self.rank(n) as u64);
            }
        }
        let random = if self.geometry.replacement == Replacement::Random {
            self.random
        } else {
            0
        };
        mix(hash_bytes(hash, &self.next), random)
    }

    fn rank(&self, slot: usize) -> usize {
        let ways = self.geometry.ways as usize;
        let base = slot / ways * ways;
        self.used[base..base + ways]
            .iter()
            .filter(|u| **u < self.used[slot])
            .count()
    }

    /// Checks what must always hold; panics with the values otherwise. For tests.
    pub fn check(&self) {
        for slot in 0..self.slots() {
            let n = slot as usize;
            assert!(
                self.valid(slot) || self.dirty[n] == 0,
                "slot {slot}: dirty but invalid"
            );
            let base = n / self.geometry.ways as usize * self.geometry.ways as usize;
            let twins = self.tags[base..n]
                .iter()
                .any(|t| *t != INVALID && *t == self.tags[n]);
            assert!(!twins, "slot {slot}: its line is in another way too");
        }
    }
}

/// The way that holds a line. All ways of a group are compared before asking whether one is it:
/// which way hits cannot be predicted, whether one hits mostly can.
#[inline]
fn way_of(ways: &[u64], line: u64) -> Option<usize> {
    let mut groups = ways.chunks_exact(4);
    for (n, group) in groups.by_ref().enumerate() {
        let hits = group
            .iter()
            .rev()
            .fold(0_u32, |hits, tag| hits << 1 | u32::from(*tag == line));
        if hits != 0 {
            return Some(4 * n + hits.trailing_zeros() as usize);
        }
    }
    let rest = groups.remainder();
    let way = rest.iter().position(|tag| *tag == line)?;
    Some(ways.len() - rest.len() + way)
}

/// Index of the least number, the first if there are several. Without a branch: ages are not
/// predictable.
#[inline]
fn first_least(numbers: &[u64]) -> usize {
    let mut least = (u64::MAX, 0);
    for (n, number) in numbers.iter().enumerate() {
        least.1 = std::hint::select_unpredictable(*number < least.0, n, least.1);
        least.0 = least.0.min(*number);
    }
    least.1
}
