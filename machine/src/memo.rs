//! What the fast path (`fast.rs`) remembers: pages that are known, slots of their lines, the line fetched last.

use crate::cache::Cache;
use crate::machine::Machine;
use crate::tlb::Tlb;
use crate::types::{Access, CpuId, PhysAddr, Width};
use crate::write_buffer::LINE_MAX;

/// No page or line has this address.
pub(crate) const NONE: u32 = 1;
const PAGES: usize = 32;
/// A power of two, and at least the lines of a page.
const LINES: usize = 512;

/// One page and one kind of access.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Page {
    /// Its virtual address.
    pub(crate) va: u32,
    /// The bits in which its physical address differs from the virtual one.
    pub(crate) flip: u32,
    /// What [`Observer::naming`] was when the observer agreed with the translation; 0 if it did not.
    ///
    /// [`Observer::naming`]: crate::observer::Observer::naming
    pub(crate) naming: u32,
    /// The number of this translation of this page; what is known of its lines names it. A page whose
    /// copy leaves the micro-TLB and comes back the same keeps its number.
    number: u32,
    /// The number again while the micro-TLB holds the copy that was used, else 0.
    live: u32,
    /// Which copy.
    pub(crate) micro: u8,
}

/// Where a line was when it was last looked at, if it is of the page with this number.
#[derive(Clone, Copy)]
struct Line {
    page: u32,
    slot: u32,
}

const NO_LINE: Line = Line {
    page: u32::MAX,
    slot: 0,
};

/// A first-level line that an access hits.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) slot: u32,
    /// The physical address accessed.
    pub(crate) pa: PhysAddr,
    /// The micro-TLB copy that translates it.
    pub(crate) micro: u8,
    /// Whether an observer agrees that this is the line, so that it need not look at the translation.
    pub(crate) agreed: bool,
}

/// What is remembered.
pub(crate) struct Memo {
    pub(crate) enabled: bool,
    page_mask: u32,
    page_shift: u32,
    pub(crate) line_mask: u32,
    /// By kind of access, as [`Access`] counts: bits of an offset in a line, and whether lines are compared
    /// by physical address.
    line_shift: [u32; 3],
    physical: [bool; 3],
    /// What [`Observer::naming`] was when anything here was remembered.
    ///
    /// [`Observer::naming`]: crate::observer::Observer::naming
    pub(crate) naming: u32,
    /// The line fetched last, by its virtual address.
    pub(crate) line: u32,
    pub(crate) line_slot: u32,
    pub(crate) line_pa: PhysAddr,
    /// Its page's.
    pub(crate) line_naming: u32,
    /// Whether fetches from it need no report.
    pub(crate) line_trusted: bool,
    bytes: [u8; LINE_MAX],
    /// By kind of access.
    pages: [[Page; PAGES]; 3],
    lines: [[Line; LINES]; 3],
    /// Numbers given to pages.
    numbers: u32,
    /// For each micro-TLB copy, data side and fetch side, the places of `pages` that may hang on it,
    /// one bit each.
    hangers: [[u32; 8]; 2],
    /// Refills of the micro-TLBs that are accounted for: data side, fetch side.
    refills: [u32; 2],
}

impl Page {
    /// One found through this micro-TLB copy, to be remembered.
    pub(crate) fn new(va: u32, flip: u32, naming: u32, micro: u8) -> Self {
        Self {
            va,
            flip,
            naming,
            number: 0,
            live: 0,
            micro,
        }
    }
}

impl Memo {
    pub(crate) fn new(machine: &Machine, cpu: CpuId, naming: u32) -> Self {
        let page = machine.page_bytes();
        let cpu = machine.cpu(cpu);
        let none = Page::new(NONE, 0, 0, 0);
        let caches = [&cpu.icache, &cpu.dcache, &cpu.dcache];
        let fits = caches.iter().all(|c| page / c.line_bytes() <= LINES as u32);
        Self {
            enabled: !machine.plain && fits,
            page_mask: !(page - 1),
            page_shift: page.trailing_zeros(),
            line_mask: !(cpu.icache.line_bytes() - 1),
            line_shift: caches.map(Cache::line_shift),
            physical: caches.map(Cache::physical),
            naming,
            line: NONE,
            line_slot: 0,
            line_pa: PhysAddr(0),
            line_naming: 0,
            line_trusted: false,
            bytes: [0; LINE_MAX],
            pages: [[none; PAGES]; 3],
            lines: [[NO_LINE; LINES]; 3],
            numbers: 0,
            hangers: [[0; 8]; 2],
            refills: [cpu.tlb.refills(false), cpu.tlb.refills(true)],
        }
    }

    /// Where a page is remembered.
    #[inline(always)]
    fn place(&self, va: u32) -> usize {
        (va >> self.page_shift) as usize % PAGES
    }

    /// The first address of a page.
    pub(crate) fn page_start(&self, va: u32) -> u32 {
        va & self.page_mask
    }

    /// The page of `va`, if this access to it is known.
    #[inline(always)]
    pub(crate) fn page(&self, access: Access, va: u32) -> Option<Page> {
        let page = self.pages[access as usize][self.place(va)];
        (page.va == va & self.page_mask && page.live != 0).then_some(page)
    }

    /// The line of `va`, if it is known and still in. The tags have the last word: whoever takes a line out
    /// need not tell.
    #[inline(always)]
    pub(crate) fn line(&self, access: Access, cache: &Cache, va: u32) -> Option<Hit> {
        let kind = access as usize;
        let page = &self.pages[kind][self.place(va)];
        let number = va >> self.line_shift[kind];
        let line = self.lines[kind][number as usize % LINES];
        let tag = if self.physical[kind] {
            (va ^ page.flip) >> self.line_shift[kind]
        } else {
            number
        };
        let known =
            page.va == va & self.page_mask && page.live == line.page && cache.holds(line.slot, tag);
        known.then_some(Hit {
            slot: line.slot,
            pa: PhysAddr(va ^ page.flip),
            micro: page.micro,
            agreed: true,
        })
    }

    /// Remembers where a line of a known page is.
    #[inline]
    pub(crate) fn keep_line(&mut self, access: Access, page: &Page, va: u32, slot: u32) {
        let kind = access as usize;
        let place = (va >> self.line_shift[kind]) as usize % LINES;
        let page = page.number;
        self.lines[kind][place] = Line { page, slot };
    }

    /// A word or halfword of the line fetched last.
    #[inline(always)]
    pub(crate) fn word(&self, va: u32, width: Width) -> u32 {
        let b = &self.bytes;
        match width {
            Width::Word => {
                let n = (va as usize % LINE_MAX) & !3;
                u32::from_le_bytes([b[n], b[n + 1], b[n + 2], b[n + 3]])
            }
            _ => {
                let n = (va as usize % LINE_MAX) & !1;
                u32::from(u16::from_le_bytes([b[n], b[n + 1]]))
            }
        }
    }

    /// Copies a line out, to where the low bits of its address say.
    #[inline(always)]
    pub(crate) fn copy(&mut self, va: u32, cache: &Cache, slot: u32) {
        let at = (va & self.line_mask) as usize % LINE_MAX;
        // The usual length is known to the compiler.
        match (cache.line_of_32(slot), self.bytes.as_chunks_mut::<32>().0) {
            (Some(line), halves) => halves[at / 32] = *line,
            (None, _) => {
                let line = cache.line(slot);
                self.bytes[at..at + line.len()].copy_from_slice(line);
            }
        }
    }

    /// Remembers a page, found through this micro-TLB copy.
    pub(crate) fn keep(&mut self, access: Access, mut page: Page) -> Page {
        let place = self.place(page.va);
        let fetch = access == Access::Fetch;
        self.hangers[usize::from(fetch)][usize::from(page.micro) % 8] |= 1 << place;
        let kept = &mut self.pages[access as usize][place];
        let same = (kept.va, kept.flip, kept.naming) == (page.va, page.flip, page.naming);
        let number = if same { kept.number } else { self.numbers + 1 };
        self.numbers = self.numbers.max(number);
        (page.number, page.live) = (number, number);
        *kept = page;
        if number == u32::MAX {
            self.forget();
        }
        page
    }

    /// If a copy came into this side's micro-TLB, forgets the pages whose answer it may change. Says
    /// whether that is known to be the only copy of its page.
    #[inline]
    pub(crate) fn account(&mut self, fetch: bool, tlb: &Tlb) -> bool {
        let refills = tlb.refills(fetch);
        let known = std::mem::replace(&mut self.refills[usize::from(fetch)], refills);
        if refills == known {
            return false;
        }
        // An access refills once at most; then the copy that came in is the one it used. A copy of one
        // page comes in only if none matched that page, so the other pages keep their answers.
        let (micro, entry) = tlb.used(fetch);
        let one = refills == known.wrapping_add(1) && entry.mask == self.page_mask;
        let hangers = &mut self.hangers[usize::from(fetch)];
        let mut places = if one {
            std::mem::take(&mut hangers[usize::from(micro) % 8])
        } else {
            *hangers = [0; 8];
            u32::MAX
        };
        let kinds = if fetch { 0..1 } else { 1..3 };
        while places != 0 {
            let place = places.trailing_zeros() as usize % PAGES;
            for pages in &mut self.pages[kinds.clone()] {
                let page = &mut pages[place];
                // The place may have gone to a page that hangs on another copy.
                if !one || page.micro == micro {
                    page.live = 0;
                }
            }
            places &= places - 1;
        }
        one
    }

    /// Forgets all pages and lines.
    #[cold]
    pub(crate) fn forget(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            (page.va, page.number, page.live) = (NONE, 0, 0);
        }
        for line in self.lines.iter_mut().flatten() {
            *line = NO_LINE;
        }
        self.numbers = 0;
    }
}
