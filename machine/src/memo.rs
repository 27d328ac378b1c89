//! What the fast path (`fast.rs`) remembers: pages that are known, the line fetched last, ways to try first.

use crate::cache::Cache;
use crate::machine::Machine;
use crate::tlb::Tlb;
use crate::types::{Access, CpuId, PhysAddr, Width};
use crate::write_buffer::LINE_MAX;

/// No page or line has this address.
pub(crate) const NONE: u32 = 1;
const PAGES: usize = 32;
const WAYS: usize = 4096;

/// One page and one kind of access.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Page {
    /// Its virtual address.
    pub(crate) va: u32,
    /// The bits in which its physical address differs from the virtual one.
    pub(crate) flip: u32,
    /// The same for the address that the cache is indexed with, and for the one it compares.
    pub(crate) keys: (u32, u32),
    /// The micro-TLB copy that was used.
    pub(crate) micro: u8,
    /// What [`Observer::naming`] was when the observer agreed with the translation; 0 if it did not.
    pub(crate) naming: u32,
}

/// What is remembered.
pub(crate) struct Memo {
    pub(crate) enabled: bool,
    pub(crate) page_mask: u32,
    pub(crate) page_shift: u32,
    pub(crate) line_mask: u32,
    /// The line fetched last, by its virtual address.
    pub(crate) line: u32,
    pub(crate) line_slot: u32,
    pub(crate) line_pa: PhysAddr,
    /// Its page's.
    pub(crate) line_naming: u32,
    /// Whether fetches from it need no report.
    pub(crate) line_trusted: bool,
    pub(crate) bytes: [u8; LINE_MAX],
    /// By kind of access, as [`Access`] counts.
    pub(crate) pages: [[Page; PAGES]; 3],
    /// For each micro-TLB copy, data side and fetch side, the places of `pages` that may hang on it,
    /// one bit each.
    pub(crate) hangers: [[u32; 8]; 2],
    /// Guesses, by line number: instruction side, data side.
    pub(crate) ways: [[u8; WAYS]; 2],
    /// Refills of the micro-TLBs that are accounted for: data side, fetch side.
    pub(crate) refills: [u32; 2],
}

impl Memo {
    pub(crate) fn new(machine: &Machine, cpu: CpuId) -> Self {
        let page = machine.page_bytes();
        let cpu = machine.cpu(cpu);
        let none = Page {
            va: NONE,
            flip: 0,
            keys: (0, 0),
            micro: 0,
            naming: 0,
        };
        Self {
            enabled: !machine.plain,
            page_mask: !(page - 1),
            page_shift: page.trailing_zeros(),
            line_mask: !(cpu.icache.line_bytes() - 1),
            line: NONE,
            line_slot: 0,
            line_pa: PhysAddr(0),
            line_naming: 0,
            line_trusted: false,
            bytes: [0; LINE_MAX],
            pages: [[none; PAGES]; 3],
            hangers: [[0; 8]; 2],
            ways: [[0; WAYS]; 2],
            refills: [cpu.tlb.refills(false), cpu.tlb.refills(true)],
        }
    }

    /// Where a page is remembered.
    #[inline(always)]
    pub(crate) fn place(&self, va: u32) -> usize {
        (va >> self.page_shift) as usize % PAGES
    }

    /// The page of `va`, if this access to it is known.
    #[inline(always)]
    pub(crate) fn page(&self, access: Access, va: u32) -> Option<Page> {
        let page = self.pages[access as usize][self.place(va)];
        (page.va == va & self.page_mask).then_some(page)
    }

    /// The slot of a line of a known page, if it is in.
    #[inline(always)]
    pub(crate) fn slot(&mut self, side: usize, cache: &Cache, page: &Page, va: u32) -> Option<u32> {
        let (index, tag) = (va ^ page.keys.0, va ^ page.keys.1);
        let guess = &mut self.ways[side][(tag >> cache.line_shift()) as usize % WAYS];
        cache.find_near((index, tag), guess)
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
    pub(crate) fn copy(&mut self, va: u32, line: &[u8]) {
        let at = (va & self.line_mask) as usize % LINE_MAX;
        // The usual length is known to the compiler.
        if let Ok(line) = <&[u8; 32]>::try_from(line) {
            self.bytes[at..at + 32].copy_from_slice(line);
        } else {
            self.bytes[at..at + line.len()].copy_from_slice(line);
        }
    }

    /// Remembers a page.
    pub(crate) fn keep(&mut self, access: Access, page: Page) {
        let place = self.place(page.va);
        let fetch = access == Access::Fetch;
        self.hangers[usize::from(fetch)][usize::from(page.micro)] |= 1 << place;
        self.pages[access as usize][place] = page;
    }

    /// A copy came into this side's micro-TLB: forgets the pages whose answer it may change.
    #[inline]
    pub(crate) fn account(&mut self, fetch: bool, tlb: &Tlb) {
        let refills = tlb.refills(fetch);
        let known = std::mem::replace(&mut self.refills[usize::from(fetch)], refills);
        if refills == known {
            return;
        }
        // An access refills once at most; then the copy that came in is the one it used. A copy of one
        // page comes in only if none matched that page, so the other pages keep their answers.
        let (micro, entry) = tlb.used(fetch);
        let one = refills == known.wrapping_add(1) && entry.mask == self.page_mask;
        let hangers = &mut self.hangers[usize::from(fetch)];
        let mut places = if one {
            std::mem::take(&mut hangers[usize::from(micro)])
        } else {
            *hangers = [0; 8];
            u32::MAX
        };
        let kinds = if fetch { 0..1 } else { 1..3 };
        while places != 0 {
            let place = places.trailing_zeros() as usize;
            for pages in &mut self.pages[kinds.clone()] {
                pages[place].va = NONE;
            }
            places &= places - 1;
        }
    }
}
