//! Stores for a search: packed states one after the other, and sets of what was seen.

use machine::memory::hash_bytes;

use super::engine::{Queue, Seen};

/// States of any length, packed one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Queue<[u8]> for Arena {
    fn push(&mut self, state: &[u8]) {
        self.bytes.extend_from_slice(state);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, n: usize) -> &[u8] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.bytes[start..self.ends[n]]
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 8
    }
}

/// 64-bit fingerprints in an open table, at most two thirds full.
#[derive(Clone, Debug)]
pub struct Fingerprints {
    /// 0 is free.
    slots: Vec<u64>,
    used: usize,
}

impl Default for Fingerprints {
    fn default() -> Self {
        Self {
            slots: vec![0; 1 << 12],
            used: 0,
        }
    }
}

impl Fingerprints {
    /// Adds a fingerprint; false if it was in.
    pub fn add(&mut self, fingerprint: u64) -> bool {
        if (self.used + 1) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let wanted = fingerprint.max(1);
        let mask = self.slots.len() - 1;
        let mut n = wanted as usize & mask;
        loop {
            match self.slots[n] {
                0 => break,
                held if held == wanted => return false,
                _ => n = (n + 1) & mask,
            }
        }
        self.slots[n] = wanted;
        self.used += 1;
        true
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        self.used = 0;
        for fingerprint in old.into_iter().filter(|f| *f != 0) {
            self.add(fingerprint);
        }
    }

    /// What was added, in no useful order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|f| *f != 0)
    }
}

/// Any number but the length of a state, which `hash_bytes` mixes it with.
const SEED: u64 = 0x5eed_0000_0000_0001;

impl Seen<[u8]> for Fingerprints {
    type Key = u64;

    #[inline]
    fn key(state: &[u8]) -> u64 {
        hash_bytes(SEED, state)
    }

    fn insert(&mut self, key: u64) -> bool {
        self.add(key)
    }

    #[inline]
    fn contains(&self, key: u64) -> bool {
        let wanted = key.max(1);
        let mask = self.slots.len() - 1;
        let mut n = wanted as usize & mask;
        while self.slots[n] != 0 && self.slots[n] != wanted {
            n = (n + 1) & mask;
        }
        self.slots[n] == wanted
    }

    fn bytes(&self) -> usize {
        self.slots.len() * 8
    }

    fn bytes_to_grow(&self) -> usize {
        let nearly_full = self.used * 16 > self.slots.len() * 9;
        if nearly_full {
            self.slots.len() * 16
        } else {
            0
        }
    }
}

/// One bit for each state, where states are numbers below a bound.
#[derive(Clone, Debug)]
pub struct Bitmap(Vec<u64>);

impl Bitmap {
    /// No state below `bound` seen.
    pub fn new(bound: u32) -> Self {
        Self(vec![0; (bound as usize).div_ceil(64)])
    }
}

impl Seen<u32> for Bitmap {
    type Key = u32;

    #[inline]
    fn key(state: &u32) -> u32 {
        *state
    }

    #[inline]
    fn insert(&mut self, state: u32) -> bool {
        let word = &mut self.0[state as usize / 64];
        let bit = 1 << (state % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    #[inline]
    fn contains(&self, state: u32) -> bool {
        self.0[state as usize / 64] >> (state % 64) & 1 != 0
    }

    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
}
