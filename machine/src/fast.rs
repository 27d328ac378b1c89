//! The fast path of a running program: what an access found is remembered while nothing can change it.
//!
//! It gives the counts, costs, state and verdicts of the plain path (`path.rs`), which it falls back to
//! whenever it does not know the answer, and which is the reference ([`Machine::set_plain`]):
//!
//! - a **page** remembers that one kind of access to it is allowed and cacheable, and which micro-TLB
//!   copy said so, provided it is the only one that matches. It is forgotten when that copy is replaced
//!   or another comes in that matches too;
//! - a **line** remembers in which slot it was; it counts while its page is known and the tag of that slot
//!   confirms it;
//! - the **line fetched last** is copied out; instruction lines change only by a fetch that misses, and
//!   every fetch that is not served from the copy replaces it.
//!
//! All of it lives as long as one call of [`Machine::run`]. Steps, marks, other CPUs, table and domain
//! registers act between two calls, so nothing has to be told of them. Within one call only an access
//! that takes the plain path changes TLBs or tags. Costs that are the same for each access are counted
//! and charged when the call ends ([`Port::finish`]): nobody looks at them before.
//!
//! An observer that judges pages and lines as a whole ([`Observer::agrees`], [`Observer::trusts`]) is
//! not asked again for each word. Lines are remembered only where it agrees with the page.
//!
//! An access to a known page whose line is not in takes the plain path from the translation on, all others
//! the whole of it: uncached accesses, write-through stores, unknown pages.

use crate::cost::Class;
use crate::machine::Machine;
use crate::memo::{Hit, Memo, NONE, Page};
use crate::observer::{Observer, Place, Seen, Unit};
use crate::tlb::TlbEntry;
use crate::types::{Abort, Access, CpuId, PhysAddr, VirtAddr, Width};

/// A CPU's way to the machine while it runs a program.
pub(crate) struct Port<'a, O: Observer> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) cpu: CpuId,
    pub(crate) obs: &'a mut O,
    memo: Memo,
    /// What is charged at the end: cycles that instructions took beyond one, loads and stores of the fast
    /// path; and fetches that charged themselves.
    pub(crate) stalls: u64,
    loads: u64,
    stores: u64,
    fetches_charged: u64,
}

impl<'a, O: Observer> Port<'a, O> {
    pub(crate) fn new(machine: &'a mut Machine, cpu: CpuId, obs: &'a mut O) -> Self {
        let memo = Memo::new(machine, cpu, obs.naming());
        Self {
            machine,
            cpu,
            obs,
            memo,
            stalls: 0,
            loads: 0,
            stores: 0,
            fetches_charged: 0,
        }
    }

    /// Charges what was counted, of so many fetches in all.
    pub(crate) fn finish(self, fetches: u64) {
        let fetches = fetches - self.fetches_charged;
        let rules = self.machine.rules;
        let cost = &mut self.machine.cost;
        cost.accesses += fetches + self.loads + self.stores;
        cost.spend_times(Class::Instruction, rules.instruction, fetches);
        cost.spend_times(Class::Instruction, 1, self.stalls);
        cost.spend_times(Class::L1, rules.l1_load, self.loads);
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
        if O::ACTIVE && !self.memo.line_trusted {
            self.report_fetch(va, width, word);
        }
        word
    }

    #[cold]
    #[inline(never)]
    fn report_fetch(&mut self, va: VirtAddr, width: Width, word: u32) {
        let entry = *self.machine.cpu(self.cpu).tlb.used(true).1;
        let slot = self.memo.line_slot;
        self.report_fetch_by(entry, slot, va, width, word);
    }

    fn report_fetch_by(
        &mut self,
        entry: TlbEntry,
        slot: u32,
        va: VirtAddr,
        width: Width,
        word: u32,
    ) {
        let seen = Seen {
            cpu: self.cpu,
            va,
            width,
            access: Access::Fetch,
            user: true,
            entry,
            place: Place::Line {
                unit: Unit::L1I(self.cpu),
                slot,
                offset: va.0 & !self.memo.line_mask,
            },
        };
        self.obs.fetched(self.machine, &seen, word);
    }

    /// Fetches from another line than the last.
    #[inline(never)]
    fn fetch_elsewhere(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        let icache = &self.machine.cpus[usize::from(self.cpu.0)].icache;
        let Some(hit) = self.memo.line(Access::Fetch, icache, va.0) else {
            return self.fetch_far(va, width);
        };
        self.open_line(hit, self.memo.naming, va);
        Ok(self.fetch_open(va, width))
    }

    /// Fetches from a line that is not known.
    #[inline(never)]
    fn fetch_far(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.memo.line = NONE;
        let page = match self.page(Access::Fetch, va)? {
            Ok(page) => page,
            Err(entry) => {
                self.fetches_charged += 1;
                let (machine, obs) = (&mut *self.machine, &mut *self.obs);
                return Ok(machine.fetch_by(entry, self.cpu, va, width, true, obs));
            }
        };
        let icache = &self.machine.cpus[usize::from(self.cpu.0)].icache;
        match icache.find(icache.keys(va.0, va.0 ^ page.flip)) {
            Some(slot) => {
                self.open_page(&page, va, slot);
                Ok(self.fetch_open(va, width))
            }
            None => Ok(self.fetch_absent(&page, va, width)),
        }
    }

    /// Fetches from a line of a known page that is not in, as the plain path does.
    fn fetch_absent(&mut self, page: &Page, va: VirtAddr, width: Width) -> u32 {
        let entry = self.copy_of(true, page);
        let (cpu, pa) = (self.cpu, entry.translate(va.0));
        let slot = self.machine.fill_instruction(cpu, va, pa, self.obs);
        if O::ACTIVE {
            let offset = va.0 & !self.memo.line_mask;
            let word = self.machine.cpu(cpu).icache.take(slot, offset, width);
            self.report_fetch_by(entry, slot, va, width, word);
        }
        self.open_page(page, va, slot);
        self.memo.word(va.0, width)
    }

    /// Copies a line of a known page, which is in this slot, and remembers it.
    fn open_page(&mut self, page: &Page, va: VirtAddr, slot: u32) {
        let agreed = self.keeps(page);
        if agreed {
            self.memo.keep_line(Access::Fetch, page, va.0, slot);
        }
        let hit = Hit {
            slot,
            pa: PhysAddr(va.0 ^ page.flip),
            micro: page.micro,
            agreed,
        };
        self.open_line(hit, page.naming, va);
    }

    /// Copies a line that is in: a hit.
    #[inline(always)]
    fn open_line(&mut self, hit: Hit, naming: u32, va: VirtAddr) {
        let memo = &mut self.memo;
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        cpu.tlb.use_again(true, hit.micro);
        cpu.icache.touch(hit.slot);
        memo.copy(va.0, &cpu.icache, hit.slot);
        memo.line = va.0 & memo.line_mask;
        if O::ACTIVE {
            memo.line_slot = hit.slot;
            memo.line_pa = PhysAddr(hit.pa.0 & memo.line_mask);
            memo.line_naming = naming;
            self.trust_line();
        }
    }

    /// The page of `va`, or the copy that translates it if no page is remembered for this access.
    fn page(&mut self, access: Access, va: VirtAddr) -> Result<Result<Page, TlbEntry>, Abort> {
        if O::ACTIVE && self.memo.naming != self.obs.naming() {
            self.memo.forget();
            self.memo.naming = self.obs.naming();
        }
        if let Some(page) = self.memo.page(access, va.0) {
            return Ok(Ok(page));
        }
        let entry = (self.machine).translate(self.cpu, va, access, true, self.obs)?;
        Ok(self.learn(access, va, &entry).ok_or(entry))
    }

    /// Whether lines of a page are remembered.
    #[inline(always)]
    fn keeps(&self, page: &Page) -> bool {
        !O::ACTIVE || self.agreed(page.naming)
    }

    /// The copy that translates a known page, used again.
    #[inline(always)]
    fn copy_of(&mut self, fetch: bool, page: &Page) -> TlbEntry {
        let tlb = &mut self.machine.cpus[usize::from(self.cpu.0)].tlb;
        tlb.use_again(fetch, page.micro);
        *tlb.used(fetch).1
    }

    /// The data line of `va`, if it is known.
    #[inline(always)]
    fn known_line(&self, access: Access, va: VirtAddr) -> Option<Hit> {
        if O::ACTIVE && self.memo.naming != self.obs.naming() {
            return None;
        }
        let dcache = &self.machine.cpus[usize::from(self.cpu.0)].dcache;
        self.memo.line(access, dcache, va.0)
    }

    /// The data line of `va`, on a known page, if it is in.
    #[inline]
    fn line_in(&mut self, access: Access, page: &Page, va: VirtAddr) -> Option<Hit> {
        let pa = va.0 ^ page.flip;
        let dcache = &self.machine.cpus[usize::from(self.cpu.0)].dcache;
        let slot = dcache.find(dcache.keys(va.0, pa))?;
        // A line that was filled from another frame is not of the page, and told in full.
        let of_page = || dcache.pa(slot) == pa & !(dcache.line_bytes() - 1);
        let agreed = !O::ACTIVE || (self.agreed(page.naming) && of_page());
        if agreed {
            self.memo.keep_line(access, page, va.0, slot);
        }
        Some(Hit {
            slot,
            pa: PhysAddr(pa),
            micro: page.micro,
            agreed,
        })
    }

    /// Loads: from a line of a known page, or down the plain path.
    #[inline(always)]
    pub(crate) fn load_memo(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        match self.known_line(Access::Load, va) {
            Some(hit) => Ok(self.load_hit(hit, va, width)),
            None => self.load_far(va, width),
        }
    }

    #[inline(always)]
    fn load_hit(&mut self, hit: Hit, va: VirtAddr, width: Width) -> u32 {
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        cpu.tlb.use_again(false, hit.micro);
        cpu.dcache.touch(hit.slot);
        self.loads += 1;
        let offset = va.0 & (cpu.dcache.line_bytes() - 1);
        let value = cpu.dcache.take(hit.slot, offset, width);
        if O::ACTIVE && !(hit.agreed && self.trusted(hit)) {
            self.report_load(va, width, value, hit);
        }
        value
    }

    #[inline(always)]
    fn trusted(&self, hit: Hit) -> bool {
        self.obs.trusts(Unit::L1D(self.cpu), hit.slot, hit.pa)
    }

    /// Loads from a line that is not known.
    #[inline(never)]
    fn load_far(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        let entry = match self.page(Access::Load, va)? {
            Ok(page) => match self.line_in(Access::Load, &page, va) {
                Some(hit) => return Ok(self.load_hit(hit, va, width)),
                None => self.copy_of(false, &page),
            },
            Err(entry) => entry,
        };
        let (machine, obs) = (&mut *self.machine, &mut *self.obs);
        Ok(machine.load_by(entry, self.cpu, va, width, true, obs))
    }

    /// Loads words of one known line that need no report.
    #[inline(always)]
    pub(crate) fn load_some_memo(&mut self, va: VirtAddr, words: &mut [u32]) -> usize {
        let Some(hit) = self.known_line(Access::Load, va) else {
            return 0;
        };
        if O::ACTIVE && !self.trusted(hit) {
            return 0;
        }
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        let line = cpu.dcache.line_bytes();
        let offset = va.0 & (line - 1);
        let count = words.len().min(((line - offset) / 4) as usize);
        cpu.tlb.use_again(false, hit.micro);
        cpu.dcache.touch(hit.slot);
        self.loads += count as u64;
        cpu.dcache.take_words(hit.slot, offset, &mut words[..count]);
        count
    }

    /// Reports a load; if the translation was agreed with, the line is worth a look.
    #[inline(never)]
    fn report_load(&mut self, va: VirtAddr, width: Width, value: u32, hit: Hit) {
        let seen = self.seen_data(Access::Load, va, width, hit.slot);
        self.obs.loaded(self.machine, &seen, value);
        if hit.agreed {
            let unit = Unit::L1D(self.cpu);
            self.obs.examine(self.machine, unit, hit.slot, hit.pa);
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

    /// Stores: into a write-back line of a known page, or down the plain path.
    #[inline(always)]
    pub(crate) fn store_memo(
        &mut self,
        va: VirtAddr,
        width: Width,
        value: u32,
    ) -> Result<(), Abort> {
        match self.known_line(Access::Store, va) {
            Some(hit) => self.store_hit(hit, va, width, value),
            None => return self.store_far(va, width, value),
        }
        Ok(())
    }

    #[inline(always)]
    fn store_hit(&mut self, hit: Hit, va: VirtAddr, width: Width, value: u32) {
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        cpu.tlb.use_again(false, hit.micro);
        cpu.dcache.touch(hit.slot);
        self.stores += 1;
        let offset = va.0 & (cpu.dcache.line_bytes() - 1);
        cpu.dcache.put(hit.slot, offset, width, value);
        cpu.dcache.soil(hit.slot, offset);
        if O::ACTIVE {
            self.report_store(va, width, value, hit);
        }
    }

    /// Stores into a line that is not known.
    #[inline(never)]
    fn store_far(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        let entry = match self.page(Access::Store, va)? {
            Ok(page) => match self.line_in(Access::Store, &page, va) {
                Some(hit) => {
                    self.store_hit(hit, va, width, value);
                    return Ok(());
                }
                None => self.copy_of(false, &page),
            },
            Err(entry) => entry,
        };
        let (machine, obs) = (&mut *self.machine, &mut *self.obs);
        machine.store_by(entry, self.cpu, va, width, value, true, obs);
        if O::ACTIVE {
            self.distrust_line();
        }
        Ok(())
    }

    /// Stores words into one known write-back line.
    #[inline(always)]
    pub(crate) fn store_some_memo(&mut self, va: VirtAddr, words: &[u32]) -> usize {
        let Some(hit) = self.known_line(Access::Store, va) else {
            return 0;
        };
        let cpu = &mut self.machine.cpus[usize::from(self.cpu.0)];
        let line = cpu.dcache.line_bytes();
        let offset = va.0 & (line - 1);
        let count = words.len().min(((line - offset) / 4) as usize);
        cpu.tlb.use_again(false, hit.micro);
        cpu.dcache.touch(hit.slot);
        self.stores += count as u64;
        if !O::ACTIVE {
            cpu.dcache.put_words(hit.slot, offset, &words[..count]);
            return count;
        }
        for (n, value) in (0..).zip(&words[..count]) {
            let cache = &mut self.machine.cpus[usize::from(self.cpu.0)].dcache;
            cache.put_words(hit.slot, offset + 4 * n, &[*value]);
            let hit = Hit {
                pa: hit.pa.add(4 * n),
                agreed: self.memo.naming == self.obs.naming(),
                ..hit
            };
            self.report_store(VirtAddr(va.0 + 4 * n), Width::Word, *value, hit);
        }
        count
    }

    /// Reports a store.
    #[inline(always)]
    fn report_store(&mut self, va: VirtAddr, width: Width, value: u32, hit: Hit) {
        if hit.agreed {
            (self.obs).stored_agreed(self.cpu, hit.slot, hit.pa, width, value);
        } else {
            self.report_store_seen(va, width, value, hit.slot);
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

    /// After a translation: accounts for what it changed, and remembers the page if it may be.
    fn learn(&mut self, access: Access, va: VirtAddr, entry: &TlbEntry) -> Option<Page> {
        if !self.memo.enabled {
            return None;
        }
        let fetch = access == Access::Fetch;
        let tlb = &self.machine.cpus[usize::from(self.cpu.0)].tlb;
        let only = self.memo.account(fetch, tlb);
        let (micro, _) = tlb.used(fetch);
        if !(only || tlb.unambiguous(fetch, va.0)) || !servable(access, entry) {
            return None;
        }
        let start = self.memo.page_start(va.0);
        let flip = start ^ entry.translate(start);
        let naming = self.naming(access, va, *entry);
        let page = Page::new(start, flip, naming, micro);
        Some(self.memo.keep(access, page))
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

/// Whether a hit under this copy, which allows the access, is the fast path's business: cached so that only
/// the line takes part.
fn servable(access: Access, entry: &TlbEntry) -> bool {
    entry.cacheable && (access != Access::Store || entry.bufferable)
}
