//! The fast path of a running program: what an access found is remembered while nothing can change it.
//!
//! It gives the counts, costs, state and verdicts of the plain path (`path.rs`), which it falls back to
//! whenever it does not know the answer, and which is the reference ([`Machine::set_plain`]):
//!
//! - a **page** remembers that one kind of access to it is allowed and cacheable, and which micro-TLB
//!   copy said so, provided it is the only one that matches. It is forgotten when that copy is replaced
//!   or another comes in that matches too;
//! - the **line** fetched last is copied out; instruction lines change only by a fetch that misses, and
//!   every fetch that is not served from the copy replaces it;
//! - a **way** is a guess which the tags confirm.
//!
//! All of it lives as long as one call of [`Machine::run`]. Steps, marks, other CPUs, table and domain
//! registers act between two calls, so nothing has to be told of them. Within one call only an access
//! that takes the plain path changes TLBs or tags.
//!
//! An observer that judges pages and lines as a whole ([`Observer::agrees`], [`Observer::trusts`]) is
//! not asked again for each word.
//!
//! Left out: uncached accesses, write-through stores, stores that miss; they take the plain path.

use crate::cache::Cache;
use crate::cost::Class;
use crate::machine::Machine;
use crate::observer::{Observer, Place, Seen, Unit};
use crate::tlb::{Tlb, TlbEntry};
use crate::types::{Abort, Access, CpuId, PhysAddr, VirtAddr, Width};
use crate::write_buffer::LINE_MAX;

/// No page or line has this address.
const NONE: u32 = 1;
const PAGES: usize = 16;
const WAYS: usize = 512;

/// One page and one kind of access.
#[derive(Clone, Copy)]
struct Page {
    /// Its virtual address.
    va: u32,
    /// Its physical address.
    pa: u32,
    /// The micro-TLB copy that was used.
    micro: u8,
    /// What [`Observer::naming`] was when the observer agreed with the translation; 0 if it did not.
    naming: u32,
}

/// What is remembered.
pub(crate) struct Memo {
    enabled: bool,
    page_mask: u32,
    page_shift: u32,
    line_mask: u32,
    /// The line fetched last, by its virtual address.
    line: u32,
    line_slot: u32,
    line_pa: PhysAddr,
    /// Its page's.
    line_naming: u32,
    /// Whether fetches from it need no report.
    line_trusted: bool,
    words: [u32; LINE_MAX / 4],
    /// By kind of access, as [`Access`] counts.
    pages: [[Page; PAGES]; 3],
    /// Guesses, by line number: instruction side, data side.
    ways: [[u8; WAYS]; 2],
    /// Refills of the micro-TLBs that are accounted for: data side, fetch side.
    refills: [u32; 2],
}

impl Memo {
    fn new(machine: &Machine, cpu: CpuId) -> Self {
        let page = machine.page_bytes();
        let cpu = machine.cpu(cpu);
        let none = Page {
            va: NONE,
            pa: 0,
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
            words: [0; LINE_MAX / 4],
            pages: [[none; PAGES]; 3],
            ways: [[0; WAYS]; 2],
            refills: [cpu.tlb.refills(false), cpu.tlb.refills(true)],
        }
    }

    /// Where a page is remembered.
    #[inline(always)]
    fn place(&self, va: u32) -> usize {
        (va >> self.page_shift) as usize % PAGES
    }

    /// The page of `va`, if this access to it is known.
    #[inline(always)]
    fn page(&self, access: Access, va: u32) -> Option<Page> {
        let page = self.pages[access as usize][self.place(va)];
        (page.va == va & self.page_mask).then_some(page)
    }

    /// The physical address of `va` in a known page.
    #[inline(always)]
    fn pa(&self, page: &Page, va: u32) -> u32 {
        page.pa | va & !self.page_mask
    }

    /// The slot of a line, if it is in.
    #[inline(always)]
    fn slot(&mut self, side: usize, cache: &Cache, keys: (u64, u64)) -> Option<u32> {
        let guess = &mut self.ways[side][(keys.1 >> cache.line_shift()) as usize % WAYS];
        cache.find_near(keys, guess)
    }

    /// A copy came into this side's micro-TLB: forgets the pages whose answer it may change.
    #[inline]
    fn account(&mut self, fetch: bool, tlb: &Tlb) {
        let refills = tlb.refills(fetch);
        let known = std::mem::replace(&mut self.refills[usize::from(fetch)], refills);
        if refills == known {
            return;
        }
        // An access refills once at most; then the copy that came in is the one it used.
        let one = refills == known.wrapping_add(1);
        let (micro, entry) = tlb.used(fetch);
        let kinds = if fetch { 0..1 } else { 1..3 };
        for page in self.pages[kinds].iter_mut().flatten() {
            if !one || page.micro == micro || entry.matches(page.va) {
                page.va = NONE;
            }
        }
    }
}

/// A CPU's way to the machine while it runs a program.
pub(crate) struct Port<'a, O: Observer> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) cpu: CpuId,
    pub(crate) obs: &'a mut O,
    memo: Memo,
}

impl<'a, O: Observer> Port<'a, O> {
    pub(crate) fn new(machine: &'a mut Machine, cpu: CpuId, obs: &'a mut O) -> Self {
        let memo = Memo::new(machine, cpu);
        Self {
            machine,
            cpu,
            obs,
            memo,
        }
    }

    /// Fetches: from the copy of the line fetched last, or elsewhere.
    #[inline(always)]
    pub(crate) fn fetch_memo(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        if va.0 & self.memo.line_mask != self.memo.line {
            return self.fetch_elsewhere(va, width);
        }
        let word = self.memo.words[(va.0 / 4) as usize % (LINE_MAX / 4)];
        let word = match width {
            Width::Word => word,
            _ => word >> (8 * (va.0 & 2)) & 0xffff,
        };
        self.count_fetch();
        if O::ACTIVE && !self.memo.line_trusted {
            self.report_fetch(va, width, word);
        }
        Ok(word)
    }

    #[inline(always)]
    fn count_fetch(&mut self) {
        let cost = &mut self.machine.cost;
        cost.accesses += 1;
        cost.spend(Class::Instruction, self.machine.rules.instruction);
    }

    #[cold]
    #[inline(never)]
    fn report_fetch(&mut self, va: VirtAddr, width: Width, word: u32) {
        let entry = *self.machine.cpu(self.cpu).tlb.used(true).1;
        let seen = Seen {
            cpu: self.cpu,
            va,
            width,
            access: Access::Fetch,
            user: true,
            entry,
            place: Place::Line {
                unit: Unit::L1I(self.cpu),
                slot: self.memo.line_slot,
                offset: va.0 & !self.memo.line_mask,
            },
        };
        self.obs.fetched(self.machine, &seen, word);
    }

    /// Fetches from another line than the last.
    #[inline(never)]
    fn fetch_elsewhere(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        if self.open_line(va) {
            return self.fetch_memo(va, width);
        }
        self.memo.line = NONE;
        let word = self.machine.fetch(self.cpu, va, width, true, self.obs);
        self.learn(Access::Fetch, va);
        word
    }

    /// Copies the line of `va` if its page is known and it is in: a hit, but for counting it.
    #[inline(always)]
    fn open_line(&mut self, va: VirtAddr) -> bool {
        let memo = &mut self.memo;
        let Some(page) = memo.page(Access::Fetch, va.0) else {
            return false;
        };
        let pa = memo.pa(&page, va.0);
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        let keys = cpu.icache.keys(va.0, pa);
        let Some(slot) = memo.slot(0, &cpu.icache, keys) else {
            return false;
        };
        cpu.tlb.use_again(true, page.micro);
        cpu.icache.touch(slot);
        let line = cpu.icache.line(slot);
        // The copy repeats a short line, so that a word's place is the same for every line size.
        let first = (va.0 & memo.line_mask) / 4;
        for (n, word) in line.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            memo.words[(first as usize + n) % (LINE_MAX / 4)] = word;
        }
        memo.line = va.0 & memo.line_mask;
        memo.line_slot = slot;
        if O::ACTIVE {
            memo.line_pa = PhysAddr(pa & memo.line_mask);
            memo.line_naming = page.naming;
            self.trust_line();
        }
        true
    }

    /// Loads: from a line of a known page, or down the plain path.
    #[inline(always)]
    pub(crate) fn load_memo(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        let Some((page, slot)) = self.hit(Access::Load, va) else {
            return self.load_plain(va, width);
        };
        let cost = &mut self.machine.cost;
        cost.accesses += 1;
        cost.spend(Class::L1, self.machine.rules.l1_load);
        let cache = &self.machine.cpus[usize::from(self.cpu.0)].dcache;
        let offset = va.0 & (cache.line_bytes() - 1);
        let value = crate::path::take(cache.line(slot), offset, width);
        if O::ACTIVE {
            self.report_load(va, width, &page, slot, value);
        }
        Ok(value)
    }

    /// The data line of `va`, if its page is known and it is in, used once more.
    #[inline(always)]
    fn hit(&mut self, access: Access, va: VirtAddr) -> Option<(Page, u32)> {
        let memo = &mut self.memo;
        let page = memo.page(access, va.0)?;
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        let keys = cpu.dcache.keys(va.0, memo.pa(&page, va.0));
        let slot = memo.slot(1, &cpu.dcache, keys)?;
        cpu.tlb.use_again(false, page.micro);
        cpu.dcache.touch(slot);
        Some((page, slot))
    }

    #[inline(always)]
    fn report_load(&mut self, va: VirtAddr, width: Width, page: &Page, slot: u32, value: u32) {
        let agreed = self.agreed(page.naming);
        let unit = Unit::L1D(self.cpu);
        let pa = PhysAddr(self.memo.pa(page, va.0));
        if !(agreed && self.obs.trusts(unit, slot, pa)) {
            self.report_load_slow(va, width, slot, value);
            if agreed {
                self.obs.examine(self.machine, unit, slot, pa);
            }
        }
    }

    #[inline(never)]
    fn report_load_slow(&mut self, va: VirtAddr, width: Width, slot: u32, value: u32) {
        let seen = self.seen_data(Access::Load, va, width, slot);
        self.obs.loaded(self.machine, &seen, value);
    }

    #[inline(always)]
    fn seen_data(&self, access: Access, va: VirtAddr, width: Width, slot: u32) -> Seen {
        let cpu = self.machine.cpu(self.cpu);
        Seen {
            cpu: self.cpu,
            va,
            width,
            access,
            user: true,
            entry: *cpu.tlb.used(false).1,
            place: Place::Line {
                unit: Unit::L1D(self.cpu),
                slot,
                offset: va.0 & (cpu.dcache.line_bytes() - 1),
            },
        }
    }

    #[inline(never)]
    fn load_plain(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        let value = self.machine.load(self.cpu, va, width, true, self.obs);
        self.learn(Access::Load, va);
        value
    }

    /// Stores: into a write-back line of a known page, or down the plain path.
    #[inline(always)]
    pub(crate) fn store_memo(
        &mut self,
        va: VirtAddr,
        width: Width,
        value: u32,
    ) -> Result<(), Abort> {
        let Some((page, slot)) = self.hit(Access::Store, va) else {
            return self.store_plain(va, width, value);
        };
        self.machine.cost.accesses += 1;
        let cache = &mut self.machine.cpus[usize::from(self.cpu.0)].dcache;
        let offset = va.0 & (cache.line_bytes() - 1);
        crate::path::put(cache.line_mut(slot), offset, width, value);
        cache.soil(slot, offset);
        if O::ACTIVE {
            let agreed = self.agreed(page.naming);
            self.report_store(va, width, value, slot, agreed);
        }
        Ok(())
    }

    #[inline(never)]
    fn report_store(&mut self, va: VirtAddr, width: Width, value: u32, slot: u32, agreed: bool) {
        let seen = self.seen_data(Access::Store, va, width, slot);
        if agreed {
            self.obs.stored_agreed(self.machine, &seen, value);
        } else {
            self.obs.stored(self.machine, &seen, value);
        }
        self.distrust_line();
    }

    /// Asks whether fetches from the line just opened need no report.
    #[inline]
    fn trust_line(&mut self) {
        let (unit, slot, pa) = (Unit::L1I(self.cpu), self.memo.line_slot, self.memo.line_pa);
        self.memo.line_trusted = self.agreed(self.memo.line_naming)
            && (self.obs.trusts(unit, slot, pa) || self.obs.examine(self.machine, unit, slot, pa));
    }

    /// After a store that was reported: the line being executed may be no longer the truth.
    #[inline(always)]
    fn distrust_line(&mut self) {
        if self.memo.line_trusted {
            let unit = Unit::L1I(self.cpu);
            self.memo.line_trusted = self.agreed(self.memo.line_naming)
                && self
                    .obs
                    .trusts(unit, self.memo.line_slot, self.memo.line_pa);
        }
    }

    /// Whether the observer still agrees with a translation.
    #[inline(always)]
    fn agreed(&self, naming: u32) -> bool {
        naming != 0 && naming == self.obs.naming()
    }

    #[inline(never)]
    fn store_plain(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        let done = self
            .machine
            .store(self.cpu, va, width, value, true, self.obs);
        if O::ACTIVE {
            self.distrust_line();
        }
        self.learn(Access::Store, va);
        done
    }

    /// After an access down the plain path: accounts for what it changed, and remembers its page if
    /// it went through.
    fn learn(&mut self, access: Access, va: VirtAddr) {
        if !self.memo.enabled {
            return;
        }
        let fetch = access == Access::Fetch;
        let tlb = &self.machine.cpus[usize::from(self.cpu.0)].tlb;
        self.memo.account(fetch, tlb);
        let place = self.memo.place(va.0);
        if self.memo.pages[access as usize][place].va == va.0 & self.memo.page_mask {
            return;
        }
        let (micro, entry) = tlb.used(fetch);
        let entry = *entry;
        if !tlb.unambiguous(fetch, va.0) || !self.servable(access, &entry, va) {
            return;
        }
        let page = Page {
            va: va.0 & self.memo.page_mask,
            pa: entry.translate(va.0 & self.memo.page_mask),
            micro,
            naming: self.naming(access, va, entry),
        };
        self.memo.pages[access as usize][place] = page;
    }

    /// Whether a hit under this copy is the fast path's business: allowed, and cached so that only
    /// the line takes part.
    fn servable(&self, access: Access, entry: &TlbEntry, va: VirtAddr) -> bool {
        let store = access == Access::Store;
        let dacr = self.machine.cpu(self.cpu).dacr;
        entry.matches(va.0)
            && crate::mmu::permits(entry, dacr, true, store).is_ok()
            && entry.cacheable
            && (!store || entry.bufferable)
    }

    /// What [`Page::naming`] is for a page.
    fn naming(&mut self, access: Access, va: VirtAddr, entry: TlbEntry) -> u32 {
        if !O::ACTIVE {
            return 0;
        }
        let seen = Seen {
            cpu: self.cpu,
            va,
            width: Width::Byte,
            access,
            user: true,
            entry,
            place: Place::Memory(PhysAddr(entry.translate(va.0))),
        };
        let agrees = self.obs.agrees(self.machine, &seen);
        if agrees { self.obs.naming() } else { 0 }
    }
}
