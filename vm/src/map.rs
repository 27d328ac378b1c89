//! A space's map: entries sorted by address, and what can be asked of them without side effects.
//!
//! Source: FreeBSD `vm/vm_map.c` (lookup, findspace, clip). Absent: submaps, wiring, inheritance
//! other than share and copy, coalescing of neighbours.

use machine::VirtAddr;
use machine::memory::mix;
use pmap::{Prot, SpaceId};

use crate::page::NONE;
use crate::types::{ObjectId, VmConfig};

/// A mapped range with one protection and one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First address.
    pub start: u32,
    /// End.
    pub end: u32,
    /// What is mapped; anonymous memory has none until the first fault.
    pub object: Option<ObjectId>,
    /// Where in the object, pages.
    pub offset: u32,
    /// Protection now.
    pub prot: Prot,
    /// The most it may get.
    pub max_prot: Prot,
    /// Stores are for everyone who maps the object.
    pub shared: bool,
    /// Stores go to a private copy.
    pub cow: bool,
    /// The private copy does not exist yet: the object is still somebody else's too.
    pub needs_copy: bool,
    /// How far down a fault may extend it; its own start if it is no stack.
    pub stack_limit: u32,
}

impl Entry {
    /// Its pages.
    pub fn pages(&self, page_bytes: u32) -> u32 {
        (self.end - self.start) / page_bytes
    }

    /// The object's index of the page at `va`.
    pub fn pindex(&self, va: u32, page_bytes: u32) -> u32 {
        self.offset + (va - self.start) / page_bytes
    }

    fn hash(&self, mut h: u64) -> u64 {
        let object = self.object.map_or(NONE, |o| o.0);
        h = mix(h, u64::from(self.start) << 32 | u64::from(self.end));
        h = mix(h, u64::from(object) << 32 | u64::from(self.offset));
        let flags = u32::from_le_bytes([
            self.prot.bits(),
            self.max_prot.bits(),
            u8::from(self.shared) | u8::from(self.cow) << 1 | u8::from(self.needs_copy) << 2,
            0,
        ]);
        mix(h, u64::from(self.stack_limit) << 32 | u64::from(flags))
    }
}

/// An address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vmspace {
    /// Whether the slot is in use.
    pub live: bool,
    /// Its page tables.
    pub pmap: SpaceId,
    /// What is mapped, by address.
    pub entries: Vec<Entry>,
}

impl Vmspace {
    /// The entry that holds an address.
    pub fn find(&self, va: u32) -> Option<usize> {
        let n = self.entries.partition_point(|e| e.end <= va);
        (n < self.entries.len() && self.entries[n].start <= va).then_some(n)
    }

    /// Whether nothing is mapped in `start..end`.
    pub fn is_free(&self, start: u32, end: u32) -> bool {
        let n = self.entries.partition_point(|e| e.end <= start);
        self.entries.get(n).is_none_or(|e| e.start >= end)
    }

    /// The lowest free range of `len` bytes at or above `from`, below `end`. The room that a stack
    /// may still grow into is not free.
    pub fn find_space(&self, from: u32, len: u32, end: u32) -> Option<u32> {
        let mut at = from;
        for entry in &self.entries {
            if entry.end <= at {
                continue;
            }
            if at.checked_add(len)? <= entry.start.min(entry.stack_limit) {
                break;
            }
            at = entry.end;
        }
        (at.checked_add(len)? <= end).then_some(at)
    }

    /// Splits the entry that holds `at`, so that one begins there. Returns the object that both
    /// halves now refer to, for the caller to count.
    pub(crate) fn clip(&mut self, at: u32, page_bytes: u32) -> Option<ObjectId> {
        let n = self.find(at)?;
        let entry = self.entries[n];
        if entry.start == at {
            return None;
        }
        self.entries[n].end = at;
        let upper = Entry {
            start: at,
            offset: entry.pindex(at, page_bytes),
            stack_limit: at,
            ..entry
        };
        self.entries.insert(n + 1, upper);
        entry.object
    }

    /// The entries that lie in `start..end`, after clipping.
    pub(crate) fn inside(&self, start: u32, end: u32) -> std::ops::Range<usize> {
        let first = self.entries.partition_point(|e| e.start < start);
        let last = self.entries.partition_point(|e| e.start < end);
        first..last.max(first)
    }

    /// Whether every address of `start..end` is mapped.
    pub fn covers(&self, start: u32, end: u32) -> bool {
        let mut at = start;
        while at < end {
            match self.find(at) {
                Some(n) => at = self.entries[n].end,
                None => return false,
            }
        }
        true
    }

    /// Puts an entry in its place.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let n = self.entries.partition_point(|e| e.start < entry.start);
        self.entries.insert(n, entry);
    }

    /// Extends a stack down to the page of `va`, which nothing maps: a new entry below the old one.
    /// False where no stack may grow there.
    pub(crate) fn grow_stack(&mut self, va: u32, page_bytes: u32) -> bool {
        let n = self.entries.partition_point(|e| e.end <= va);
        let start = va & !(page_bytes - 1);
        let below = n.checked_sub(1).map_or(0, |b| self.entries[b].end);
        let Some(upper) = self.entries.get_mut(n) else {
            return false;
        };
        if start < upper.stack_limit || start >= upper.start || start < below {
            return false;
        }
        let lower = Entry {
            start,
            end: upper.start,
            object: None,
            offset: 0,
            cow: false,
            needs_copy: false,
            ..*upper
        };
        upper.stack_limit = upper.start;
        self.entries.insert(n, lower);
        true
    }

    pub(crate) fn hash(&self, h: u64) -> u64 {
        let h = mix(h, u64::from(self.live) << 16 | u64::from(self.pmap.0));
        self.entries.iter().fold(h, |h, e| e.hash(h))
    }

    /// Entries are sorted, apart, aligned and inside the user's addresses.
    pub(crate) fn check(&self, config: &VmConfig, page_bytes: u32) -> Result<(), String> {
        let mut last = config.user_start;
        for entry in &self.entries {
            let aligned = (entry.start | entry.end) % page_bytes == 0;
            let sorted = entry.start >= last.0 && entry.start < entry.end;
            if !aligned || !sorted || entry.end > config.user_end.0 {
                let (start, end) = (VirtAddr(entry.start), VirtAddr(entry.end));
                return Err(format!("entry {start}-{end} is out of place"));
            }
            if entry.needs_copy && (!entry.cow || entry.object.is_none()) {
                return Err(format!("entry {} needs a copy of nothing", entry.start));
            }
            last = VirtAddr(entry.end);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: u32, end: u32) -> Entry {
        Entry {
            start,
            end,
            object: None,
            offset: 0,
            prot: Prot::READ,
            max_prot: Prot::all(),
            shared: false,
            cow: false,
            needs_copy: false,
            stack_limit: start,
        }
    }

    fn space(entries: &[(u32, u32)]) -> Vmspace {
        Vmspace {
            live: true,
            pmap: SpaceId(1),
            entries: entries.iter().map(|(s, e)| entry(*s, *e)).collect(),
        }
    }

    #[test]
    fn free_space_is_the_lowest_gap_that_fits() {
        let s = space(&[(16, 32), (48, 64), (96, 112)]);
        assert_eq!(s.find_space(0, 16, 256), Some(0));
        assert_eq!(s.find_space(16, 16, 256), Some(32));
        assert_eq!(s.find_space(16, 32, 256), Some(64));
        assert_eq!(s.find_space(16, 48, 256), Some(112));
        assert_eq!(s.find_space(16, 200, 256), None);
    }

    #[test]
    fn a_clipped_entry_covers_the_same_pages_of_its_object() {
        let mut s = space(&[(32, 96)]);
        s.entries[0].object = Some(ObjectId(3));
        assert_eq!(s.clip(64, 16), Some(ObjectId(3)));
        assert_eq!(s.entries[1].pindex(80, 16), 3);
        assert_eq!(s.clip(64, 16), None);
        assert!(s.covers(32, 96) && !s.covers(32, 97));
    }

    #[test]
    fn a_stack_grows_down_to_its_limit_and_not_over_a_neighbour() {
        let mut s = space(&[(16, 48), (208, 224)]);
        s.entries[1].stack_limit = 32;
        assert!(s.grow_stack(100, 16));
        assert_eq!((s.entries[1].start, s.entries[1].end), (96, 208));
        assert!(!s.grow_stack(20, 16));
        assert!(s.grow_stack(50, 16));
        assert!(!s.grow_stack(8, 16));
    }
}
