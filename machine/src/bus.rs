//! What lies behind the first-level caches: buffers, second level, memory; and how lines leave.

use crate::cost::Class;
use crate::machine::Machine;
use crate::observer::{Observer, Place, Unit};
use crate::place::copy_line;
use crate::profile::DrainsOn;
use crate::tlb::TlbEntry;
use crate::types::{CpuId, PhysAddr, VirtAddr, Width};
use crate::write_buffer::{LINE_MAX, Victim};

impl Machine {
    /// Reads a line-sized block on a first-level miss; through the second level, which keeps a copy,
    /// or from memory. Returns where the bytes came from and charges the latency.
    pub(crate) fn read_line<O: Observer>(
        &mut self,
        pa: u32,
        through_l2: bool,
        out: &mut [u8],
        obs: &mut O,
    ) -> Place {
        let memory = Place::Memory(PhysAddr(pa));
        if through_l2 && self.l2.is_some() {
            let (slot, hit) = self.l2_line(pa, obs);
            let (class, cycles) = if hit {
                (Class::L2, self.rules.l2)
            } else {
                (Class::Memory, self.rules.memory)
            };
            self.cost.spend(class, cycles);
            let l2 = self.cache(Unit::L2);
            let offset = pa & (l2.line_bytes() - 1);
            let from = &l2.line(slot)[offset as usize..offset as usize + out.len()];
            copy_line(out, from);
            return Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            };
        }
        self.cost.spend(Class::Memory, self.rules.memory);
        self.memory.read(PhysAddr(pa), out);
        memory
    }

    /// The second-level slot of `pa`'s line, filled from memory if it was not in; and whether it was.
    fn l2_line<O: Observer>(&mut self, pa: u32, obs: &mut O) -> (u32, bool) {
        let l2 = self.l2.as_mut().expect("checked by the caller");
        let keys = l2.keys(pa, pa);
        if let Some(slot) = l2.find(keys) {
            l2.touch(slot);
            return (slot, true);
        }
        let slot = l2.victim(keys);
        let len = l2.line_bytes();
        let base = pa & !(len - 1);
        self.l2_write_out(slot, Class::Memory, obs);
        self.drop_line(Unit::L2, slot, obs);
        let l2 = self.l2.as_mut().expect("checked by the caller");
        l2.install(slot, keys, base);
        self.memory.read(PhysAddr(base), l2.line_mut(slot));
        let to = Place::Line {
            unit: Unit::L2,
            slot,
            offset: 0,
        };
        obs.moved(self, Place::Memory(PhysAddr(base)), to, PhysAddr(base), len);
        (slot, false)
    }

    /// Writes a dirty second-level line's parts to memory and marks it clean.
    pub(crate) fn l2_write_out<O: Observer>(&mut self, slot: u32, class: Class, obs: &mut O) {
        let Some(l2) = &mut self.l2 else { return };
        let (dirty, part, base) = (l2.dirty(slot), l2.part_bytes(), l2.pa(slot));
        l2.cleaned(slot);
        for n in (0..8).filter(|n| dirty & 1 << n != 0) {
            let offset = n * part;
            let l2 = self.l2.as_ref().expect("it exists");
            let bytes = &l2.line(slot)[offset as usize..(offset + part) as usize];
            let pa = PhysAddr(base + offset);
            self.memory.write(pa, bytes);
            let from = Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            };
            obs.moved(self, from, Place::Memory(pa), pa, part);
            let cycles = self.profile().cost.write_back;
            self.cost.spend(class, cycles);
        }
    }

    /// A block of bytes arrives from the first level's buffers: into the second level, memory or both.
    /// It fits a second-level line.
    pub(crate) fn bus_write<O: Observer>(
        &mut self,
        pa: u32,
        bytes: &[u8],
        from: Place,
        outer: bool,
        obs: &mut O,
    ) {
        let at = PhysAddr(pa);
        let len = bytes.len() as u32;
        let l2 = if outer { self.l2_target(pa, obs) } else { None };
        let Some(slot) = l2 else {
            self.memory.write(at, bytes);
            obs.moved(self, from, Place::Memory(at), at, len);
            return;
        };
        let back = self.profile().l2.as_ref().is_some_and(|p| p.write_back);
        let l2 = self.l2.as_mut().expect("a target implies an L2");
        let offset = pa & (l2.line_bytes() - 1);
        l2.line_mut(slot)[offset as usize..(offset + len) as usize].copy_from_slice(bytes);
        if back {
            (0..len).for_each(|n| l2.soil(slot, offset + n));
        }
        obs.moved(
            self,
            from,
            Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            },
            at,
            len,
        );
        if !back {
            self.memory.write(at, bytes);
            obs.moved(self, from, Place::Memory(at), at, len);
        }
    }

    /// The second-level slot that takes a write: a hit, or a new line if it allocates on writes.
    fn l2_target<O: Observer>(&mut self, pa: u32, obs: &mut O) -> Option<u32> {
        let l2 = self.l2.as_ref()?;
        let hit = l2.find(l2.keys(pa, pa));
        let allocates = self.profile().l2.as_ref().is_some_and(|p| p.write_allocate);
        hit.or_else(|| allocates.then(|| self.l2_line(pa, obs).0))
    }

    /// A store that no data line takes: into the write buffer, or to the bus. Returns where it went.
    pub(crate) fn store_beside<O: Observer>(
        &mut self,
        cpu: CpuId,
        pa: u32,
        width: Width,
        value: u32,
        entry: &TlbEntry,
        obs: &mut O,
    ) -> Place {
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..width.bytes() as usize];
        let outer = entry.cacheable || !self.profile().uncached_bypasses_l2;
        if (entry.cacheable || entry.bufferable) && self.cpu(cpu).write.exists() {
            return self.buffer(cpu, pa, bytes, outer, obs);
        }
        let drains = !entry.cacheable && self.drains_on(DrainsOn::Uncached);
        if drains || self.cpu(cpu).write.overlaps(pa, width.bytes()) {
            self.drain(cpu, obs);
        }
        self.cost.spend(Class::Uncached, self.rules.uncached_store);
        self.write_bus_word(pa, bytes, outer)
    }

    /// Writes a store to the bus directly; returns the place that now holds it.
    fn write_bus_word(&mut self, pa: u32, bytes: &[u8], outer: bool) -> Place {
        let back = self.profile().l2.as_ref().is_some_and(|p| p.write_back);
        let hit = self
            .l2
            .as_ref()
            .filter(|_| outer)
            .and_then(|l2| l2.find(l2.keys(pa, pa)));
        if let (Some(l2), Some(slot)) = (self.l2.as_mut(), hit) {
            let offset = pa & (l2.line_bytes() - 1);
            let n = offset as usize;
            l2.line_mut(slot)[n..n + bytes.len()].copy_from_slice(bytes);
            if back {
                l2.soil(slot, offset);
                return Place::Line {
                    unit: Unit::L2,
                    slot,
                    offset,
                };
            }
        }
        self.memory.write(PhysAddr(pa), bytes);
        Place::Memory(PhysAddr(pa))
    }

    /// The second-level line that took a store on its way to `place`, memory.
    pub(crate) fn through_l2(&self, pa: u32, place: Place, entry: &TlbEntry) -> Option<Place> {
        let outer = entry.cacheable || !self.profile().uncached_bypasses_l2;
        let l2 = self.l2.as_ref().filter(|_| outer)?;
        let slot = match place {
            Place::Memory(_) => l2.find(l2.keys(pa, pa))?,
            _ => return None,
        };
        let (unit, offset) = (Unit::L2, pa & (l2.line_bytes() - 1));
        Some(Place::Line { unit, slot, offset })
    }

    /// Puts a store into the write buffer, making room by writing the oldest entry out.
    fn buffer<O: Observer>(
        &mut self,
        cpu: CpuId,
        pa: u32,
        bytes: &[u8],
        outer: bool,
        obs: &mut O,
    ) -> Place {
        // An older victim of the same bytes must reach the bus first.
        if self.cpu(cpu).write.victim_overlaps(pa, bytes.len() as u32) {
            self.write_victim(cpu, obs);
        }
        if self.cpu(cpu).write.full() && !self.cpu(cpu).write.merges(pa, outer) {
            self.retire(cpu, obs);
        }
        let (slot, offset) = self.cpu_mut(cpu).write.push(pa, bytes, outer);
        Place::WriteBuffer { cpu, slot, offset }
    }

    /// A write-through store that hit: the line has it, the bus gets it too.
    pub(crate) fn write_through<O: Observer>(
        &mut self,
        cpu: CpuId,
        pa: u32,
        width: Width,
        value: u32,
        line: Place,
        obs: &mut O,
    ) {
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..width.bytes() as usize];
        if self.cpu(cpu).write.exists() {
            let to = self.buffer(cpu, pa, bytes, true, obs);
            obs.moved(self, line, to, PhysAddr(pa), width.bytes());
        } else {
            self.bus_write(pa, bytes, line, true, obs);
        }
    }

    /// An uncached store that found its line: the line takes the value too.
    #[allow(clippy::too_many_arguments, reason = "one store, spelled out")]
    pub(crate) fn update_line<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        width: Width,
        value: u32,
        from: Place,
        obs: &mut O,
    ) {
        let cache = &mut self.cpu_mut(cpu).dcache;
        let Some(slot) = cache.find(cache.keys(va.0, pa)) else {
            return;
        };
        let offset = va.0 & (cache.line_bytes() - 1);
        let n = offset as usize;
        let len = width.bytes() as usize;
        cache.line_mut(slot)[n..n + len].copy_from_slice(&value.to_le_bytes()[..len]);
        let to = Place::Line {
            unit: Unit::L1D(cpu),
            slot,
            offset,
        };
        obs.moved(self, from, to, PhysAddr(pa), width.bytes());
    }

    /// Writes the oldest write-buffer entry to the bus.
    fn retire<O: Observer>(&mut self, cpu: CpuId, obs: &mut O) {
        let Some((slot, entry)) = self.cpu_mut(cpu).write.pop() else {
            return;
        };
        self.cost.spend(Class::Drain, self.profile().cost.drain);
        let mut n = 0;
        while n < 32 {
            let run = (entry.mask >> n).trailing_ones();
            if run == 0 {
                n += 1;
                continue;
            }
            let bytes = &entry.data[n as usize..(n + run) as usize];
            let from = Place::WriteBuffer {
                cpu,
                slot,
                offset: n,
            };
            self.bus_write(entry.pa + n, bytes, from, entry.outer, obs);
            obs.dropped(self, from, PhysAddr(entry.pa + n), run);
            n += run;
        }
    }

    /// Writes the eviction buffer's line to the bus, dirty parts only.
    fn write_victim<O: Observer>(&mut self, cpu: CpuId, obs: &mut O) {
        let Some(victim) = self.cpu_mut(cpu).write.victim.take() else {
            return;
        };
        let part = self.cpu(cpu).dcache.part_bytes();
        for n in (0..8).filter(|n| victim.dirty & 1 << n != 0) {
            let offset = n * part;
            let bytes = &victim.data[offset as usize..(offset + part) as usize];
            let from = Place::Evicted { cpu, offset };
            self.bus_write(victim.pa + offset, bytes, from, true, obs);
            obs.dropped(self, from, PhysAddr(victim.pa + offset), part);
        }
    }

    /// Empties write and eviction buffer, oldest first.
    pub(crate) fn drain<O: Observer>(&mut self, cpu: CpuId, obs: &mut O) {
        self.write_victim(cpu, obs);
        while self.cpu(cpu).write.waiting() > 0 {
            self.retire(cpu, obs);
        }
    }

    /// Sends a data line's dirty parts on their way, to the physical address it was filled from, and
    /// marks it clean. The line stays.
    pub(crate) fn write_out<O: Observer>(
        &mut self,
        cpu: CpuId,
        slot: u32,
        class: Class,
        obs: &mut O,
    ) {
        let cache = &self.cpu(cpu).dcache;
        let dirty = cache.dirty(slot);
        if dirty == 0 {
            return;
        }
        let (part, base, len) = (
            cache.part_bytes(),
            cache.pa(slot),
            cache.line_bytes() as usize,
        );
        // Older stores of the same bytes must not arrive after the line.
        if self.cpu(cpu).write.overlaps(base, len as u32) {
            self.drain(cpu, obs);
        }
        let cycles = self.profile().cost.write_back * dirty.count_ones();
        self.cost.spend(class, cycles);
        let buffered = self.profile().write_buffer.eviction;
        if buffered {
            self.write_victim(cpu, obs);
        }
        let mut data = [0; LINE_MAX];
        data[..len].copy_from_slice(self.cpu(cpu).dcache.line(slot));
        self.cpu_mut(cpu).dcache.cleaned(slot);
        for n in (0..8).filter(|n| dirty & 1 << n != 0) {
            let offset = n * part;
            let from = Place::Line {
                unit: Unit::L1D(cpu),
                slot,
                offset,
            };
            let pa = base + offset;
            if buffered {
                obs.moved(
                    self,
                    from,
                    Place::Evicted { cpu, offset },
                    PhysAddr(pa),
                    part,
                );
            } else {
                let bytes = &data[offset as usize..(offset + part) as usize];
                self.bus_write(pa, bytes, from, true, obs);
            }
        }
        if buffered {
            self.cpu_mut(cpu).write.victim = Some(Victim {
                pa: base,
                dirty,
                data,
            });
        }
    }

    /// Empties a slot and tells the observer what is gone.
    pub(crate) fn drop_line<O: Observer>(&mut self, unit: Unit, slot: u32, obs: &mut O) {
        let cache = match unit {
            Unit::L1I(cpu) => &mut self.cpu_mut(cpu).icache,
            Unit::L1D(cpu) => &mut self.cpu_mut(cpu).dcache,
            Unit::L2 => self.l2.as_mut().expect("named only where it exists"),
        };
        if !cache.valid(slot) {
            return;
        }
        let (pa, len) = (cache.pa(slot), cache.line_bytes());
        cache.invalidate(slot);
        obs.dropped(
            self,
            Place::Line {
                unit,
                slot,
                offset: 0,
            },
            PhysAddr(pa),
            len,
        );
    }
}
