//! The write buffer and the eviction buffer: stores and victims on their way to the bus.
//!
//! Only data loads look in here; instruction fetches, walks and devices do not (Furber, StrongARM;
//! `hardware.md` 7.10). Only the last entry merges. A drain empties both buffers (7.11).

use crate::memory::{hash_bytes, mix};
use crate::profile::WriteBufferProfile;

/// Bytes of the largest entry and line.
pub const LINE_MAX: usize = 64;

/// One block of stores waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Physical address of the block.
    pub pa: u32,
    /// Which bytes are stored, one bit each.
    pub mask: u32,
    /// The bytes.
    pub data: [u8; 32],
    /// Whether they go through the second level.
    pub outer: bool,
}

impl Entry {
    /// Whether all of `len` bytes at `pa` are stored in it.
    pub fn covers(&self, pa: u32, len: u32) -> bool {
        let offset = pa.wrapping_sub(self.pa);
        offset < 32 && offset + len <= 32 && {
            let wanted = ((1u64 << len) - 1) << offset;
            u64::from(self.mask) & wanted == wanted
        }
    }
}

/// A dirty victim waiting.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// Physical address of the line.
    pub pa: u32,
    /// Which parts are dirty, one bit each.
    pub dirty: u8,
    /// The whole line.
    pub data: [u8; LINE_MAX],
}

/// A FIFO of entries in a ring, and one victim.
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    ring: Vec<Entry>,
    head: u32,
    len: u32,
    block: u32,
    line: u32,
    /// The victim in the eviction buffer.
    pub victim: Option<Victim>,
}

impl WriteBuffer {
    /// An empty buffer.
    pub fn new(profile: &WriteBufferProfile, line: u32) -> Self {
        let ring = vec![Entry::default(); profile.entries as usize];
        Self {
            ring,
            head: 0,
            len: 0,
            block: profile.bytes,
            line,
            victim: None,
        }
    }

    /// Whether neither buffer holds anything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.victim.is_none()
    }

    /// Entries waiting, the victim not counted.
    pub fn waiting(&self) -> u32 {
        self.len
    }

    /// Whether stores are buffered at all, and one more block would not fit.
    pub fn full(&self) -> bool {
        self.len as usize == self.ring.len()
    }

    /// Whether stores are buffered at all.
    pub fn exists(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Whether the store would merge into the last entry.
    pub fn merges(&self, pa: u32, outer: bool) -> bool {
        self.len > 0 && {
            let last = &self.ring[self.index(self.len - 1)];
            last.pa == pa & !(self.block - 1) && last.outer == outer
        }
    }

    fn index(&self, n: u32) -> usize {
        let slot = (self.head + n) as usize;
        if slot < self.ring.len() {
            slot
        } else {
            slot - self.ring.len()
        }
    }

    /// Adds a store that fits one block; merges with the last entry or takes a new one (the caller
    /// has made room). Returns the ring slot and the offset in the block.
    pub fn push(&mut self, pa: u32, bytes: &[u8], outer: bool) -> (u32, u32) {
        if !self.merges(pa, outer) {
            let slot = self.index(self.len);
            let entry = Entry {
                pa: pa & !(self.block - 1),
                outer,
                ..Entry::default()
            };
            self.ring[slot] = entry;
            self.len += 1;
        }
        let slot = self.index(self.len - 1);
        let offset = pa & (self.block - 1);
        let entry = &mut self.ring[slot];
        let n = offset as usize;
        match bytes {
            [a, b, c, d] => entry.data[n..n + 4].copy_from_slice(&[*a, *b, *c, *d]),
            _ => entry.data[n..n + bytes.len()].copy_from_slice(bytes),
        }
        entry.mask |= (u32::MAX >> (32 - bytes.len())) << n;
        (slot as u32, offset)
    }

    /// Takes the oldest entry out, with its ring slot.
    pub fn pop(&mut self) -> Option<(u32, Entry)> {
        if self.len == 0 {
            return None;
        }
        let slot = self.head;
        self.head = (self.head + 1) % self.ring.len() as u32;
        self.len -= 1;
        Some((slot, self.ring[slot as usize]))
    }

    /// Whether anything waiting belongs to the block of `len` bytes at `pa`.
    #[inline]
    pub fn overlaps(&self, pa: u32, len: u32) -> bool {
        !self.is_empty() && self.overlaps_slow(pa, len)
    }

    fn overlaps_slow(&self, pa: u32, len: u32) -> bool {
        let meets = |at: u32, size: u32| at < pa + len && pa < at + size;
        self.victim_overlaps(pa, len) || self.entries().any(|(_, e)| meets(e.pa, self.block))
    }

    /// Whether the eviction buffer holds part of the block of `len` bytes at `pa`.
    pub fn victim_overlaps(&self, pa: u32, len: u32) -> bool {
        self.victim
            .is_some_and(|v| v.pa < pa + len && pa < v.pa + self.line)
    }

    /// Bytes of one entry.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// The entries with their ring slots, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Entry)> {
        (0..self.len).map(|n| {
            let slot = self.index(n);
            (slot as u32, &self.ring[slot])
        })
    }

    /// A hash of what waits, in order.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = u64::from(self.len);
        for (_, entry) in self.entries() {
            hash = mix(hash, u64::from(entry.pa) << 32 | u64::from(entry.mask));
            hash = mix(hash_bytes(hash, &entry.data), u64::from(entry.outer));
        }
        if let Some(victim) = &self.victim {
            hash = mix(hash, u64::from(victim.pa) << 8 | u64::from(victim.dirty));
            hash = hash_bytes(hash, &victim.data);
        }
        hash
    }
}
