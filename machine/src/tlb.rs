//! The TLB: copies of page-table entries, each with a life of its own.
//!
//! A copy keeps answering until it is invalidated, replaced or dropped, whatever the table says by
//! then. The main part is set associative; each side (fetch, data) has a small micro-TLB of copies
//! in front of it; the lockdown region survives an invalidate-all but not an invalidate by address
//! (ARM926EJ-S TRM 3.4; `linux-policies-and-bugs.md` C.1).

use crate::memory::mix;
use crate::profile::TlbProfile;

/// A translation as the TLB holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct TlbEntry {
    /// `va & mask == tag` is a match; a mask of 0 with tag 1 never matches.
    pub tag: u32,
    /// Address bits compared: page or section.
    pub mask: u32,
    /// Physical address of the page or section.
    pub base: u32,
    /// Access permission field of the descriptor, 0 to 3.
    pub ap: u8,
    /// Domain number.
    pub domain: u8,
    /// C: cacheable.
    pub cacheable: bool,
    /// B: bufferable.
    pub bufferable: bool,
}

/// An entry that matches nothing.
pub const EMPTY: TlbEntry = TlbEntry {
    tag: 1,
    mask: 0,
    base: 0,
    ap: 0,
    domain: 0,
    cacheable: false,
    bufferable: false,
};

impl TlbEntry {
    /// Whether this is the translation of `va`.
    #[inline]
    pub fn matches(&self, va: u32) -> bool {
        va & self.mask == self.tag
    }

    /// Whether it is [`EMPTY`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.mask == 0
    }

    /// The physical address of `va`.
    #[inline]
    pub fn translate(&self, va: u32) -> u32 {
        self.base | (va & !self.mask)
    }

    /// Whether user mode may read through it (AP 2 or 3).
    pub fn user_readable(&self) -> bool {
        self.ap >= 2
    }

    /// Whether user mode may write through it (AP 3).
    pub fn user_writable(&self) -> bool {
        self.ap == 3
    }

    /// Whether the kernel may write through it (AP 1 to 3; 0 is kernel read-only with S = 1).
    pub fn kernel_writable(&self) -> bool {
        self.ap != 0
    }

    fn hash(&self) -> u64 {
        let flags = u64::from(self.ap)
            | u64::from(self.domain) << 8
            | u64::from(self.cacheable) << 16
            | u64::from(self.bufferable) << 17;
        mix(
            mix(
                u64::from(self.tag) << 32 | u64::from(self.mask),
                u64::from(self.base),
            ),
            flags,
        )
    }
}

/// One side's small first level.
#[derive(Clone, Debug)]
struct Micro {
    entries: [TlbEntry; 8],
    last: u8,
    next: u8,
    /// How often an entry was replaced; decides nothing.
    refills: u32,
}

/// A TLB with its micro-TLBs.
#[derive(Clone, Debug)]
pub struct Tlb {
    sets: u32,
    ways: u32,
    page_shift: u32,
    micro_entries: u8,
    main: Vec<TlbEntry>,
    next: Vec<u8>,
    lockdown: Vec<TlbEntry>,
    micro: [Micro; 2],
}

/// Where a translation was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// In the micro-TLB.
    Micro,
    /// In the main or lockdown part.
    Main,
}

impl Tlb {
    /// An empty TLB for pages of `page` bytes.
    pub fn new(profile: &TlbProfile, page: u32) -> Self {
        let micro = Micro {
            entries: [EMPTY; 8],
            last: 0,
            next: 0,
            refills: 0,
        };
        Self {
            sets: profile.entries / profile.ways,
            ways: profile.ways,
            page_shift: page.trailing_zeros(),
            micro_entries: profile.micro as u8,
            main: vec![EMPTY; profile.entries as usize],
            next: vec![0; (profile.entries / profile.ways) as usize],
            lockdown: vec![EMPTY; profile.lockdown as usize],
            micro: [micro.clone(), micro],
        }
    }

    /// The micro-TLB entry of the last hit on this side, if it matches.
    #[inline]
    pub fn last(&self, fetch: bool, va: u32) -> Option<&TlbEntry> {
        let micro = &self.micro[usize::from(fetch)];
        let entry = &micro.entries[usize::from(micro.last & 7)];
        entry.matches(va).then_some(entry)
    }

    /// Number and copy of this side's last hit.
    #[inline]
    pub(crate) fn used(&self, fetch: bool) -> (u8, &TlbEntry) {
        let micro = &self.micro[usize::from(fetch)];
        (micro.last & 7, &micro.entries[usize::from(micro.last & 7)])
    }

    /// Hits an entry of this side's micro-TLB again.
    #[inline]
    pub(crate) fn use_again(&mut self, fetch: bool, number: u8) {
        self.micro[usize::from(fetch)].last = number;
    }

    /// Whether this side's micro-TLB holds a single copy that matches `va`, so that which one
    /// answers does not depend on the accesses between.
    pub(crate) fn unambiguous(&self, fetch: bool, va: u32) -> bool {
        let entries = &self.micro[usize::from(fetch)].entries;
        entries.iter().filter(|e| e.matches(va)).count() == 1
    }

    /// How often this side's micro-TLB took another entry.
    #[inline]
    pub(crate) fn refills(&self, fetch: bool) -> u32 {
        self.micro[usize::from(fetch)].refills
    }

    /// Looks `va` up; a main hit is copied into the micro-TLB.
    #[inline]
    pub fn lookup(&mut self, fetch: bool, va: u32) -> Option<(TlbEntry, Found)> {
        let micro = &mut self.micro[usize::from(fetch)];
        for (n, entry) in micro.entries.iter().enumerate() {
            if entry.matches(va) {
                micro.last = n as u8;
                return Some((*entry, Found::Micro));
            }
        }
        let entry = self.probe(va)?;
        self.refill_micro(fetch, entry);
        Some((entry, Found::Main))
    }

    /// The main or lockdown entry for `va`, without side effects.
    pub fn probe(&self, va: u32) -> Option<TlbEntry> {
        if let Some(entry) = self.lockdown.iter().find(|e| e.matches(va)) {
            return Some(*entry);
        }
        let page = self.set(va >> self.page_shift);
        let section = self.set(va >> 20);
        let hit = |base: usize| {
            self.main[base..base + self.ways as usize]
                .iter()
                .find(|e| e.matches(va))
                .copied()
        };
        hit(page).or_else(|| hit(section))
    }

    fn set(&self, number: u32) -> usize {
        ((number & (self.sets - 1)) * self.ways) as usize
    }

    fn refill_micro(&mut self, fetch: bool, entry: TlbEntry) {
        let limit = self.micro_entries;
        let micro = &mut self.micro[usize::from(fetch)];
        micro.entries[usize::from(micro.next)] = entry;
        micro.last = micro.next;
        micro.refills = micro.refills.wrapping_add(1);
        micro.next = if micro.next + 1 >= limit {
            0
        } else {
            micro.next + 1
        };
    }

    /// Puts the result of a walk for `va` into the main part and the side's micro-TLB.
    pub fn fill(&mut self, fetch: bool, va: u32, entry: TlbEntry) {
        let section = entry.mask == 0xfff0_0000;
        let number = if section {
            va >> 20
        } else {
            va >> self.page_shift
        };
        let base = self.set(number);
        let set = base / self.ways as usize;
        let ways = &mut self.main[base..base + self.ways as usize];
        let way = ways.iter().position(|e| *e == EMPTY).unwrap_or_else(|| {
            let way = self.next[set];
            self.next[set] = if u32::from(way) + 1 == self.ways {
                0
            } else {
                way + 1
            };
            usize::from(way)
        });
        ways[way] = entry;
        self.refill_micro(fetch, entry);
    }

    /// Locks a translation into a lockdown slot.
    pub fn lock(&mut self, slot: u32, entry: TlbEntry) {
        self.lockdown[slot as usize] = entry;
    }

    /// Invalidate all: the lockdown region stays.
    pub fn invalidate_all(&mut self) {
        self.main.fill(EMPTY);
        for micro in &mut self.micro {
            micro.entries.fill(EMPTY);
        }
    }

    /// Invalidates every copy that translates `va`, locked ones too. `data_only` leaves the fetch
    /// side's micro-TLB alone (a split TLB's data operation); the main part is unified.
    pub fn invalidate(&mut self, va: u32, data_only: bool) {
        let sides = if data_only {
            &mut self.micro[..1]
        } else {
            &mut self.micro[..]
        };
        let micro = sides.iter_mut().flat_map(|m| m.entries.iter_mut());
        for entry in self.main.iter_mut().chain(&mut self.lockdown).chain(micro) {
            if entry.matches(va) {
                *entry = EMPTY;
            }
        }
    }

    /// Every copy held, main part first, then lockdown, then micro-TLBs; for reports.
    pub fn entries(&self) -> impl Iterator<Item = &TlbEntry> {
        let micro = self.micro.iter().flat_map(|m| m.entries.iter());
        self.main
            .iter()
            .chain(&self.lockdown)
            .chain(micro)
            .filter(|e| **e != EMPTY)
    }

    /// Every slot in use, empty ones too: main part, lockdown, data side's micro-TLB, fetch side's. For
    /// snapshots.
    pub fn slots(&self) -> impl Iterator<Item = &TlbEntry> {
        let limit = usize::from(self.micro_entries.max(1));
        let micro = self.micro.iter().flat_map(move |m| &m.entries[..limit]);
        self.main.iter().chain(&self.lockdown).chain(micro)
    }

    /// The same, to restore.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut TlbEntry> {
        let limit = usize::from(self.micro_entries.max(1));
        let micro = self.micro.iter_mut();
        let micro = micro.flat_map(move |m| &mut m.entries[..limit]);
        self.main.iter_mut().chain(&mut self.lockdown).chain(micro)
    }

    /// Slots of the main and lockdown parts, and of each micro-TLB.
    pub fn sizes(&self) -> (usize, usize) {
        let limit = usize::from(self.micro_entries.max(1));
        (self.main.len() + self.lockdown.len(), limit)
    }

    /// Ways of the main part's sets.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// The victim pointers of the main part's sets, then of the micro-TLBs.
    pub fn pointers_mut(&mut self) -> impl Iterator<Item = &mut u8> {
        let micro = self.micro.iter_mut().map(|m| &mut m.next);
        self.next.iter_mut().chain(micro)
    }

    /// The same, to read.
    pub fn pointers(&self) -> impl Iterator<Item = u8> {
        let micro = self.micro.iter().map(|m| m.next);
        self.next.iter().copied().chain(micro)
    }

    /// A hash of the copies and the victim pointers.
    pub fn fingerprint(&self) -> u64 {
        let micro = self.micro.iter().flat_map(|m| m.entries.iter());
        let copies = self.main.iter().chain(&self.lockdown).chain(micro);
        let hash = copies.fold(3, |h, e| mix(h, e.hash()));
        let pointers = self.next.iter().chain(self.micro.iter().map(|m| &m.next));
        pointers.fold(hash, |h, n| mix(h, u64::from(*n)))
    }
}
