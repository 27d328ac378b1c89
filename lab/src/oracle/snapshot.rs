//! What an exhaustive search keeps of the oracle: for every word its truth, and of every copy only whether
//! it is the last store.
//!
//! Stamps themselves stay out: a judgement asks only whether a copy has the stamp of the byte's last store,
//! and a copy that once has not never will again. Between operations nothing else is remembered: no pmap
//! operation, transfer or kernel operation is going on, and names follow the machine's own tables.
//!
//! Only for machines with flat tables whose stores are whole words.

use machine::{Machine, PhysAddr, Place};

use super::{Oracle, Verdicts};

/// Stamps given to restored copies: an older store, or the last one.
const OLD: u32 = 1;
const LAST: u32 = 2;

/// What the oracle knows of an aligned word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WordTruth {
    /// Somebody stored it since its frame was given out.
    pub valid: bool,
    /// The value last stored.
    pub truth: u32,
    /// Memory has that store.
    pub in_memory: bool,
    /// What fetches had to see before stores that they need not see yet, if there are such.
    pub base: Option<u32>,
    /// There were several such stores: fetches may see anything.
    pub many: bool,
}

impl Oracle {
    /// What is known of the word at `pa`.
    pub fn word_truth(&self, pa: PhysAddr) -> WordTruth {
        let (number, at) = self.shadow.split(pa);
        let Some(page) = self.shadow.page(number) else {
            return WordTruth::default();
        };
        if !page.valid.get(at) {
            return WordTruth::default();
        }
        let word = |bytes: &[u8]| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let undue = page.undue.as_ref().filter(|u| u.mask.get(at));
        WordTruth {
            valid: true,
            truth: word(&page.truth),
            in_memory: page.memory[at] == page.stamp[at],
            base: undue.map(|u| word(&u.base)),
            many: undue.is_some_and(|u| u.many.get(at)),
        }
    }

    /// Whether the copy of the word at `pa` in a place is the last store.
    pub fn has_last(&self, place: Place, pa: PhysAddr) -> bool {
        let (number, at) = self.shadow.split(pa);
        match (self.places.stamps(place, 4), self.shadow.page(number)) {
            (Some(held), Some(page)) => held[0] == page.stamp[at],
            _ => true,
        }
    }

    /// Forgets everything but what a machine with flat tables shows; then [`Oracle::restore_page`] and
    /// [`Oracle::restore_copy`] fill the rest in.
    pub fn restart(&mut self, machine: &Machine) {
        self.names.restart(machine);
        self.transfers.clear();
        self.owners.truncate(1);
        self.clock = u64::from(LAST);
        self.places.fetched.fill(LAST);
        if !self.verdicts.counts().is_empty() {
            self.verdicts = Verdicts::default();
        }
    }

    /// Restores a page's first word; the others do not matter.
    pub fn restore_page(&mut self, pa: PhysAddr, word: WordTruth) {
        let number = self.shadow.split(pa).0;
        let page = self.shadow.page_mut(number);
        let len = page.truth.len();
        page.truth[..4].copy_from_slice(&word.truth.to_le_bytes());
        page.stamp.fill(LAST);
        let memory = if word.in_memory || !word.valid {
            LAST
        } else {
            OLD
        };
        page.memory.fill(LAST);
        page.memory[..4].fill(memory);
        page.valid.put(0, len, false);
        page.valid.put(0, 4, word.valid);
        page.restore_undue(word.base, word.many);
        page.lost = None;
    }

    /// Restores whether a copy of a word is the last store.
    pub fn restore_copy(&mut self, place: Place, last: bool) {
        if let Some(stamps) = self.places.stamps_mut(place, 4) {
            stamps.fill(if last { LAST } else { OLD });
        }
    }
}
