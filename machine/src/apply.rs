//! What each micro-step does to the machine.

use crate::cost::Class;
use crate::machine::{FetchBuffer, Machine};
use crate::observer::{Observer, Place, Unit};
use crate::profile::DrainsOn;
use crate::step::{LineOp, Step};
use crate::types::{Access, CpuId, PhysAddr, VirtAddr};

impl Machine {
    /// Applies one micro-step of `cpu`. Operations by address look a VIVT cache up without a
    /// translation; where a translation is needed and there is none, nothing happens.
    pub fn apply<O: Observer>(&mut self, cpu: CpuId, step: &Step, obs: &mut O) {
        match *step {
            Step::Dcache(..) | Step::DcacheSlot(..) | Step::DcacheTest(_) => {
                self.apply_dcache(cpu, step, obs);
            }
            Step::DcacheInvalidateAll => {
                self.all_op();
                self.drop_lines(Unit::L1D(cpu), obs);
            }
            Step::Icache(_) | Step::IcacheAll => self.apply_icache(cpu, step, obs),
            Step::L2(..) | Step::L2Physical(..) | Step::L2Slot(..) => self.apply_l2(cpu, step, obs),
            Step::TlbAll | Step::Tlb(_) | Step::TlbData(_) | Step::TlbDrop(_) => {
                self.apply_tlb(cpu, step);
            }
            Step::Drain => {
                let cycles = self.profile().cost.drain;
                self.spend(Class::Drain, cycles);
                self.drain(cpu, obs);
            }
            Step::FlushFetch => self.cpu_mut(cpu).fetch = FetchBuffer::default(),
            Step::SetTtb(ttb) => self.cpu_mut(cpu).ttb = ttb,
            Step::SetDacr(dacr) => self.cpu_mut(cpu).dacr = dacr,
            Step::FlatPte { space, page, raw } => {
                let index = self.flat_index(space, page).expect("a page of the space");
                self.flat[index] = raw;
                obs.flat_stored(Some(index), raw);
            }
            Step::DmaIn { .. } | Step::DmaOut { .. } => self.apply_dma(step, obs),
            Step::EvictData(_)
            | Step::EvictInstruction(_)
            | Step::EvictL2(_)
            | Step::PrefetchData(_)
            | Step::PrefetchInstruction(_) => self.apply_adversary(cpu, step, obs),
            Step::Exception => {
                let cycles = self.profile().cost.exception;
                self.spend(Class::Exception, cycles);
                self.cpu_mut(cpu).fetch = FetchBuffer::default();
                if self.drains_on(DrainsOn::Exception) {
                    self.drain(cpu, obs);
                }
            }
            Step::Interrupts(on) => self.cpu_mut(cpu).interrupts = on,
            Step::Spend(class, cycles) => self.spend(class, cycles),
            Step::Software(_) | Step::Owner(_) => {}
        }
        obs.stepped(cpu, step);
    }

    fn line_op(&mut self) {
        let cycles = self.profile().cost.line_op;
        self.spend(Class::Maintenance, cycles);
    }

    fn all_op(&mut self) {
        let cycles = self.profile().cost.all_op;
        self.spend(Class::Maintenance, cycles);
    }

    fn apply_dcache<O: Observer>(&mut self, cpu: CpuId, step: &Step, obs: &mut O) {
        self.line_op();
        match *step {
            Step::Dcache(op, va) => {
                let Some(pa) = self.maintenance_pa(cpu, va, self.cpu(cpu).dcache.needs_pa(), obs)
                else {
                    return;
                };
                let cache = &self.cpu(cpu).dcache;
                if let Some(slot) = cache.find(cache.keys(va.0, pa)) {
                    self.operate(cpu, op, slot, obs);
                }
            }
            Step::DcacheSlot(op, slot) => {
                if self.cpu(cpu).dcache.valid(slot) {
                    self.operate(cpu, op, slot, obs);
                }
            }
            Step::DcacheTest(op) => {
                let cache = &self.cpu(cpu).dcache;
                let dirty = (0..cache.slots()).find(|s| cache.dirty(*s) != 0);
                match dirty {
                    Some(slot) => self.operate(cpu, op, slot, obs),
                    None if op.invalidates() => {
                        self.all_op();
                        self.drop_lines(Unit::L1D(cpu), obs);
                    }
                    None => {}
                }
            }
            _ => unreachable!("only data-cache steps come here"),
        }
    }

    fn operate<O: Observer>(&mut self, cpu: CpuId, op: LineOp, slot: u32, obs: &mut O) {
        if op.cleans() {
            self.write_out(cpu, slot, Class::Maintenance, obs);
        }
        if op.invalidates() {
            self.drop_line(Unit::L1D(cpu), slot, obs);
        }
    }

    /// Empties a cache.
    fn drop_lines<O: Observer>(&mut self, unit: Unit, obs: &mut O) {
        for slot in 0..self.cache(unit).slots() {
            if self.cache(unit).valid(slot) {
                self.drop_line(unit, slot, obs);
            }
        }
    }

    fn apply_icache<O: Observer>(&mut self, cpu: CpuId, step: &Step, obs: &mut O) {
        let unit = Unit::L1I(cpu);
        match *step {
            Step::Icache(va) => {
                self.line_op();
                let Some(pa) = self.maintenance_pa(cpu, va, self.cpu(cpu).icache.needs_pa(), obs)
                else {
                    return;
                };
                let cache = &self.cpu(cpu).icache;
                if let Some(slot) = cache.find(cache.keys(va.0, pa)) {
                    self.drop_line(unit, slot, obs);
                }
            }
            _ => {
                self.all_op();
                self.drop_lines(unit, obs);
            }
        }
    }

    fn apply_l2<O: Observer>(&mut self, cpu: CpuId, step: &Step, obs: &mut O) {
        if self.l2.is_none() {
            return;
        }
        self.line_op();
        let (op, slot) = match *step {
            Step::L2(op, va) => {
                let Some(pa) = self.maintenance_pa(cpu, va, true, obs) else {
                    return;
                };
                (op, self.l2_find(pa))
            }
            Step::L2Physical(op, pa) => (op, self.l2_find(pa.0)),
            Step::L2Slot(op, slot) => (op, Some(slot)),
            _ => unreachable!("only second-level steps come here"),
        };
        let Some(slot) = slot else { return };
        if op.cleans() {
            self.l2_write_out(slot, Class::Maintenance, obs);
        }
        if op.invalidates() {
            self.drop_line(Unit::L2, slot, obs);
        }
    }

    fn l2_find(&self, pa: u32) -> Option<u32> {
        let l2 = self.l2.as_ref()?;
        l2.find(l2.keys(pa, pa))
    }

    /// The physical address an operation by address works on; 0 where the cache needs none.
    fn maintenance_pa<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        needed: bool,
        obs: &mut O,
    ) -> Option<u32> {
        if !needed {
            return Some(0);
        }
        let entry = self.translate(cpu, va, Access::Load, false, obs).ok()?;
        Some(entry.translate(va.0))
    }

    fn apply_tlb(&mut self, cpu: CpuId, step: &Step) {
        self.line_op();
        let tlb = &mut self.cpu_mut(cpu).tlb;
        match *step {
            Step::TlbAll => tlb.invalidate_all(),
            Step::Tlb(va) | Step::TlbDrop(va) => tlb.invalidate(va.0, false),
            Step::TlbData(va) => tlb.invalidate(va.0, true),
            _ => unreachable!("only TLB steps come here"),
        }
    }

    fn apply_dma<O: Observer>(&mut self, step: &Step, obs: &mut O) {
        let cycles = self.profile().cost.dma_beat;
        self.spend(Class::Disk, cycles);
        match *step {
            Step::DmaIn { pa, bytes, len } => {
                let bytes = &bytes[..usize::from(len)];
                self.device_write(pa, bytes);
                obs.dma_in(self, pa, bytes);
                self.tell_updated(pa, u32::from(len), obs);
            }
            Step::DmaOut { pa, len } => {
                let mut bytes = [0; 32];
                let bytes = &mut bytes[..usize::from(len)];
                self.device_read(pa, bytes);
                obs.dma_out(self, pa, bytes);
            }
            _ => unreachable!("only DMA steps come here"),
        }
    }

    fn device_write(&mut self, pa: PhysAddr, bytes: &[u8]) {
        self.memory.write(pa, bytes);
        let reaches_l2 = !self.profile().dma_bypasses_l2;
        let coherent = self.profile().dma_coherent;
        if let Some(l2) = self.l2.as_mut().filter(|_| reaches_l2 || coherent) {
            update(l2, pa, bytes);
        }
        if coherent {
            self.cpus
                .iter_mut()
                .for_each(|c| update(&mut c.dcache, pa, bytes));
        }
    }

    /// Reports the lines that took what a device wrote.
    fn tell_updated<O: Observer>(&self, pa: PhysAddr, len: u32, obs: &mut O) {
        let coherent = self.profile().dma_coherent;
        let outer = self.l2.is_some() && (coherent || !self.profile().dma_bypasses_l2);
        let first = (0..self.cpus.len()).map(|n| Unit::L1D(CpuId(n as u8)));
        let units = first.filter(|_| coherent).chain(outer.then_some(Unit::L2));
        for unit in units {
            let cache = self.cache(unit);
            let (line, end) = (cache.line_bytes(), pa.0 + len);
            let mut at = pa.0;
            while at < end {
                let stop = end.min((at | (line - 1)) + 1);
                let (from, offset) = (PhysAddr(at), at & (line - 1));
                for slot in cache.holders(at) {
                    let to = Place::Line { unit, slot, offset };
                    obs.moved(self, Place::Memory(from), to, from, stop - at);
                }
                at = stop;
            }
        }
    }

    /// What a device reads: memory, or a nearer copy where the profile says that devices look there.
    pub fn device_read(&self, pa: PhysAddr, bytes: &mut [u8]) {
        self.memory.read(pa, bytes);
        if let Some(l2) = self.l2.as_ref().filter(|_| !self.profile().dma_bypasses_l2) {
            overlay(l2, pa, bytes);
        }
        if self.profile().dma_coherent {
            self.cpus.iter().for_each(|c| overlay(&c.dcache, pa, bytes));
        }
    }

    fn apply_adversary<O: Observer>(&mut self, cpu: CpuId, step: &Step, obs: &mut O) {
        match *step {
            Step::EvictData(slot) if self.cpu(cpu).dcache.valid(slot) => {
                self.operate(cpu, LineOp::CleanInvalidate, slot, obs);
            }
            Step::EvictInstruction(slot) => self.drop_line(Unit::L1I(cpu), slot, obs),
            Step::EvictL2(slot) if self.l2.as_ref().is_some_and(|l2| l2.valid(slot)) => {
                self.l2_write_out(slot, Class::Memory, obs);
                self.drop_line(Unit::L2, slot, obs);
            }
            Step::PrefetchData(va) => {
                if let Ok(entry) = self.translate(cpu, va, Access::Load, false, obs)
                    && entry.cacheable
                {
                    let pa = entry.translate(va.0);
                    let cache = &self.cpu(cpu).dcache;
                    if cache.find(cache.keys(va.0, pa)).is_none() {
                        self.fill_data(cpu, va, pa, obs);
                    }
                }
            }
            Step::PrefetchInstruction(va) => {
                if let Ok(entry) = self.translate(cpu, va, Access::Fetch, false, obs)
                    && entry.cacheable
                {
                    let pa = entry.translate(va.0);
                    let cache = &self.cpu(cpu).icache;
                    if cache.find(cache.keys(va.0, pa)).is_none() {
                        self.fill_instruction(cpu, va, pa, obs);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Writes a device's bytes into the lines that hold them.
fn update(cache: &mut crate::cache::Cache, pa: PhysAddr, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        let at = pa.0 + n as u32;
        let slots: Vec<u32> = cache.holders(at).collect();
        let offset = (at & (cache.line_bytes() - 1)) as usize;
        slots
            .into_iter()
            .for_each(|slot| cache.line_mut(slot)[offset] = *byte);
    }
}

/// Lays dirty bytes of a cache over what memory says.
fn overlay(cache: &crate::cache::Cache, pa: PhysAddr, bytes: &mut [u8]) {
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = pa.0 + n as u32;
        let offset = at & (cache.line_bytes() - 1);
        let part = 1u8 << (offset / cache.part_bytes());
        if let Some(slot) = cache.holders(at).find(|s| cache.dirty(*s) & part != 0) {
            *byte = cache.line(slot)[offset as usize];
        }
    }
}
