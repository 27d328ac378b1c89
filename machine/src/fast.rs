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
//! - a **way** is a guess which the tags confirm; the words of one LDM or STM that lie in one line need
//!   one guess.
//!
//! All of it lives as long as one call of [`Machine::run`]. Steps, marks, other CPUs, table and domain
//! registers act between two calls, so nothing has to be told of them. Within one call only an access
//! that takes the plain path changes TLBs or tags.
//!
//! An observer that judges pages and lines as a whole ([`Observer::agrees`], [`Observer::trusts`]) is
//! not asked again for each word.
//!
//! An access to a known page whose line is not in takes the plain path from the translation on, all others
//! the whole of it: uncached accesses, write-through stores, unknown pages.

use crate::cost::Class;
use crate::machine::Machine;
use crate::memo::{Memo, NONE, Page};
use crate::observer::{Observer, Place, Seen, Unit};
use crate::tlb::TlbEntry;
use crate::types::{Abort, Access, CpuId, PhysAddr, VirtAddr, Width};

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
        Ok(self.fetch_open(va, width))
    }

    /// Fetches from the copied line.
    #[inline(always)]
    fn fetch_open(&mut self, va: VirtAddr, width: Width) -> u32 {
        let word = self.memo.word(va.0, width);
        let cost = &mut self.machine.cost;
        cost.accesses += 1;
        cost.spend(Class::Instruction, self.machine.rules.instruction);
        if O::ACTIVE && !self.memo.line_trusted {
            self.report_fetch(va, width, word);
        }
        word
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
        let Some(page) = self.memo.page(Access::Fetch, va.0) else {
            return self.fetch_plain(va, width);
        };
        if !self.open_line(&page, va) {
            return Ok(self.fetch_absent(&page, va, width));
        }
        Ok(self.fetch_open(va, width))
    }

    /// Fetches from a line of a known page that is not in: the plain path, from the translation on.
    #[inline(never)]
    fn fetch_absent(&mut self, page: &Page, va: VirtAddr, width: Width) -> u32 {
        self.memo.line = NONE;
        let entry = self.known(true, page);
        let word = self
            .machine
            .fetch_by(entry, self.cpu, va, width, true, self.obs);
        self.open_line(page, va);
        word
    }

    /// The copy that translates a known page, used again.
    #[inline(always)]
    fn known(&mut self, fetch: bool, page: &Page) -> TlbEntry {
        let tlb = &mut self.machine.cpus[usize::from(self.cpu.0)].tlb;
        tlb.use_again(fetch, page.micro);
        *tlb.used(fetch).1
    }

    #[inline(never)]
    fn fetch_plain(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.memo.line = NONE;
        let word = self.machine.fetch(self.cpu, va, width, true, self.obs);
        self.learn(Access::Fetch, va);
        word
    }

    /// Copies the line of `va`, on a known page, if it is in: a hit, but for counting it.
    #[inline(always)]
    fn open_line(&mut self, page: &Page, va: VirtAddr) -> bool {
        let memo = &mut self.memo;
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        let Some(slot) = memo.slot(0, &cpu.icache, page, va.0) else {
            return false;
        };
        cpu.tlb.use_again(true, page.micro);
        cpu.icache.touch(slot);
        memo.copy(va.0, cpu.icache.line(slot));
        memo.line = va.0 & memo.line_mask;
        memo.line_slot = slot;
        if O::ACTIVE {
            memo.line_pa = PhysAddr((va.0 ^ page.flip) & memo.line_mask);
            memo.line_naming = page.naming;
            self.trust_line();
        }
        true
    }

    /// Loads: from a line of a known page, or down the plain path.
    #[inline(always)]
    pub(crate) fn load_memo(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        let (machine, memo) = (&mut *self.machine, &mut self.memo);
        let Some(page) = memo.page(Access::Load, va.0) else {
            return self.load_plain(va, width);
        };
        let cpu = &mut machine.cpus[usize::from(self.cpu.0)];
        let Some(slot) = memo.slot(1, &cpu.dcache, &page, va.0) else {
            return Ok(self.load_absent(&page, va, width));
        };
        cpu.tlb.use_again(false, page.micro);
        cpu.dcache.touch(slot);
        machine.cost.accesses += 1;
        machine.cost.spend(Class::L1, machine.rules.l1_load);
        let offset = va.0 & (cpu.dcache.line_bytes() - 1);
        let value = cpu.dcache.take(slot, offset, width);
        if O::ACTIVE {
            let pa = PhysAddr(va.0 ^ page.flip);
            let agreed = self.agreed(page.naming);
            if !(agreed && self.obs.trusts(Unit::L1D(self.cpu), slot, pa)) {
                self.report_load(va, width, slot, value, agreed.then_some(pa));
            }
        }
        Ok(value)
    }

    /// Loads words of one line of a known page that need no report.
    #[inline(always)]
    pub(crate) fn load_some_memo(&mut self, va: VirtAddr, words: &mut [u32]) -> usize {
        let (machine, memo) = (&mut *self.machine, &mut self.memo);
        let Some(page) = memo.page(Access::Load, va.0) else {
            return 0;
        };
        let cpu = &mut machine.cpus[usize::from(self.cpu.0)];
        let Some(slot) = memo.slot(1, &cpu.dcache, &page, va.0) else {
            return 0;
        };
        if O::ACTIVE {
            let pa = PhysAddr(va.0 ^ page.flip);
            let agreed = page.naming != 0 && page.naming == self.obs.naming();
            if !(agreed && self.obs.trusts(Unit::L1D(self.cpu), slot, pa)) {
                return 0;
            }
        }
        let line = cpu.dcache.line_bytes();
        let offset = va.0 & (line - 1);
        let count = words.len().min(((line - offset) / 4) as usize);
        cpu.tlb.use_again(false, page.micro);
        cpu.dcache.touch(slot);
        machine.cost.accesses += count as u64;
        let cycles = machine.rules.l1_load * count as u32;
        machine.cost.spend(Class::L1, cycles);
        cpu.dcache.take_words(slot, offset, &mut words[..count]);
        count
    }

    /// Reports a load; if the translation was agreed with, the line is worth a look.
    #[inline(never)]
    fn report_load(
        &mut self,
        va: VirtAddr,
        width: Width,
        slot: u32,
        value: u32,
        agreed: Option<PhysAddr>,
    ) {
        let seen = self.seen_data(Access::Load, va, width, slot);
        self.obs.loaded(self.machine, &seen, value);
        if let Some(pa) = agreed {
            let unit = Unit::L1D(self.cpu);
            self.obs.examine(self.machine, unit, slot, pa);
        }
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
    fn load_absent(&mut self, page: &Page, va: VirtAddr, width: Width) -> u32 {
        let entry = self.known(false, page);
        let (machine, obs) = (&mut *self.machine, &mut *self.obs);
        machine.load_by(entry, self.cpu, va, width, true, obs)
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
        let (machine, memo) = (&mut *self.machine, &mut self.memo);
        let Some(page) = memo.page(Access::Store, va.0) else {
            return self.store_plain(va, width, value);
        };
        let cpu = &mut machine.cpus[usize::from(self.cpu.0)];
        let Some(slot) = memo.slot(1, &cpu.dcache, &page, va.0) else {
            self.store_absent(&page, va, width, value);
            return Ok(());
        };
        cpu.tlb.use_again(false, page.micro);
        cpu.dcache.touch(slot);
        machine.cost.accesses += 1;
        let offset = va.0 & (cpu.dcache.line_bytes() - 1);
        cpu.dcache.put(slot, offset, width, value);
        cpu.dcache.soil(slot, offset);
        if O::ACTIVE {
            let agreed = self.agreed(page.naming);
            let agreed = agreed.then_some(PhysAddr(va.0 ^ page.flip));
            self.report_store(va, width, value, slot, agreed);
        }
        Ok(())
    }

    /// Stores words into one write-back line of a known page.
    #[inline(always)]
    pub(crate) fn store_some_memo(&mut self, va: VirtAddr, words: &[u32]) -> usize {
        let (machine, memo) = (&mut *self.machine, &mut self.memo);
        let Some(page) = memo.page(Access::Store, va.0) else {
            return 0;
        };
        let cpu = &mut machine.cpus[usize::from(self.cpu.0)];
        let Some(slot) = memo.slot(1, &cpu.dcache, &page, va.0) else {
            return 0;
        };
        let line = cpu.dcache.line_bytes();
        let offset = va.0 & (line - 1);
        let count = words.len().min(((line - offset) / 4) as usize);
        cpu.tlb.use_again(false, page.micro);
        cpu.dcache.touch(slot);
        if !O::ACTIVE {
            machine.cost.accesses += count as u64;
            cpu.dcache.put_words(slot, offset, &words[..count]);
            return count;
        }
        let agreed = page.naming != 0 && page.naming == self.obs.naming();
        for (n, value) in (0..).zip(&words[..count]) {
            self.machine.cost.accesses += 1;
            let cache = &mut self.machine.cpus[usize::from(self.cpu.0)].dcache;
            cache.put_words(slot, offset + 4 * n, &[*value]);
            let va = VirtAddr(va.0 + 4 * n);
            let agreed = agreed.then_some(PhysAddr(va.0 ^ page.flip));
            self.report_store(va, Width::Word, *value, slot, agreed);
        }
        count
    }

    /// Reports a store; `agreed` is its address if the translation was agreed with.
    #[inline(always)]
    fn report_store(
        &mut self,
        va: VirtAddr,
        width: Width,
        value: u32,
        slot: u32,
        agreed: Option<PhysAddr>,
    ) {
        let cache = &self.machine.cpus[usize::from(self.cpu.0)].dcache;
        // A line that was filled from another frame is not of the page, and told in full.
        match agreed.filter(|pa| cache.pa(slot) == pa.0 & !(cache.line_bytes() - 1)) {
            Some(pa) => self.obs.stored_agreed(self.cpu, slot, pa, width, value),
            None => self.report_store_seen(va, width, value, slot),
        }
        self.distrust_line();
    }

    #[inline(never)]
    fn report_store_seen(&mut self, va: VirtAddr, width: Width, value: u32, slot: u32) {
        let seen = self.seen_data(Access::Store, va, width, slot);
        self.obs.stored(self.machine, &seen, value);
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
    fn store_absent(&mut self, page: &Page, va: VirtAddr, width: Width, value: u32) {
        let entry = self.known(false, page);
        let (machine, obs) = (&mut *self.machine, &mut *self.obs);
        machine.store_by(entry, self.cpu, va, width, value, true, obs);
        if O::ACTIVE {
            self.distrust_line();
        }
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
        let start = va.0 & self.memo.page_mask;
        let flip = start ^ entry.translate(start);
        let cpu = self.machine.cpu(self.cpu);
        let cache = if fetch { &cpu.icache } else { &cpu.dcache };
        let (index, tag) = cache.physical();
        let page = Page {
            va: start,
            flip,
            keys: (u32::from(index) * flip, u32::from(tag) * flip),
            micro,
            naming: self.naming(access, va, entry),
        };
        self.memo.keep(access, page);
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
