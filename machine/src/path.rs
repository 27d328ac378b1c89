//! The paths of a fetch, a load and a store through TLB, caches, buffers, second level and memory.
//!
//! Rules and their sources are in `hardware.md`: unexpected hits in section 2, the rest in section 7.
//! Left out: hit-under-miss, critical word first, bus contention; a latency is a constant.

use crate::cost::Class;
use crate::machine::Machine;
use crate::observer::{Observer, Place, Seen, Unit};
use crate::place::{copy_line, put, take};
use crate::profile::{DrainsOn, Looks, UncachedHit};
use crate::tlb::TlbEntry;
use crate::types::{Abort, Access, CpuId, PhysAddr, VirtAddr, Width};
use crate::write_buffer::LINE_MAX;

impl Machine {
    /// Fetches an instruction word (or halfword) at an aligned address.
    ///
    /// # Errors
    /// The prefetch abort.
    #[inline]
    pub fn fetch<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> Result<u32, Abort> {
        let entry = self.translate(cpu, va, Access::Fetch, user, obs)?;
        Ok(self.fetch_by(entry, cpu, va, width, user, obs))
    }

    /// A fetch from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn fetch_by<O: Observer>(
        &mut self,
        entry: TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> u32 {
        self.cost.accesses += 1;
        self.cost.spend(Class::Instruction, self.rules.instruction);
        let pa = entry.translate(va.0);
        let c = &mut self.cpus[usize::from(cpu.0)];
        let looked_up = entry.cacheable || self.rules.fetch_hit_serves;
        let found = if looked_up {
            c.icache.find(c.icache.keys(va.0, pa))
        } else {
            None
        };
        let (word, place) = match found {
            Some(slot) => {
                c.icache.touch(slot);
                let offset = va.0 & (c.icache.line_bytes() - 1);
                let word = take(c.icache.line(slot), offset, width);
                (
                    word,
                    Place::Line {
                        unit: Unit::L1I(cpu),
                        slot,
                        offset,
                    },
                )
            }
            None if entry.cacheable => self.fetch_miss(cpu, va, pa, width, obs),
            None => self.fetch_uncached(cpu, va, pa, width, obs),
        };
        if O::ACTIVE {
            let access = Access::Fetch;
            obs.fetched(
                self,
                &Seen {
                    cpu,
                    va,
                    width,
                    access,
                    user,
                    entry,
                    place,
                },
                word,
            );
        }
        word
    }

    #[inline(never)]
    fn fetch_miss<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        width: Width,
        obs: &mut O,
    ) -> (u32, Place) {
        let slot = self.fill_instruction(cpu, va, pa, obs);
        let cache = &self.cpu(cpu).icache;
        let offset = va.0 & (cache.line_bytes() - 1);
        let place = Place::Line {
            unit: Unit::L1I(cpu),
            slot,
            offset,
        };
        (take(cache.line(slot), offset, width), place)
    }

    /// Brings the line of `va` into the instruction cache from wherever fetches look.
    pub(crate) fn fill_instruction<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        obs: &mut O,
    ) -> u32 {
        let unit = Unit::L1I(cpu);
        let cache = &mut self.cpu_mut(cpu).icache;
        let keys = cache.keys(va.0, pa);
        let slot = cache.victim(keys);
        self.drop_line(unit, slot, obs);
        let len = self.cpu(cpu).icache.line_bytes();
        let base = pa & !(len - 1);
        let looks = self.profile().fetch_looks;
        let data_side = match looks {
            Looks::Memory | Looks::L2 => None,
            _ => self.find_beside(cpu, PhysAddr(base), looks),
        };
        let mut bytes = [0; LINE_MAX];
        let bytes = &mut bytes[..len as usize];
        let from = match data_side {
            Some(place) => {
                self.read_place(place, bytes);
                self.cost.spend(Class::L2, self.rules.l2);
                place
            }
            None => self.read_line(base, looks != Looks::Memory, bytes, obs),
        };
        let cache = &mut self.cpu_mut(cpu).icache;
        cache.install(slot, keys, base);
        copy_line(cache.line_mut(slot), bytes);
        obs.moved(
            self,
            from,
            Place::Line {
                unit,
                slot,
                offset: 0,
            },
            PhysAddr(base),
            len,
        );
        slot
    }

    /// Uncached code: a burst of sequential words, never across the boundary, kept until a fetch that
    /// is not the next one (`hardware.md` 3.3: the buffer's barrier is a branch).
    #[inline(never)]
    fn fetch_uncached<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        width: Width,
        obs: &mut O,
    ) -> (u32, Place) {
        let word_va = va.0 & !3;
        let buffer = self.cpu(cpu).fetch;
        let sequential = va.0 == buffer.next || (width == Width::Half && word_va + 2 == va.0);
        let held = word_va.wrapping_sub(buffer.va) / 4 < buffer.len;
        if !(sequential && held && word_va >= buffer.va) {
            self.burst(cpu, word_va, pa & !3, obs);
        }
        let buffer = &mut self.cpu_mut(cpu).fetch;
        buffer.next = va.0 + width.bytes();
        let offset = va.0 - buffer.va;
        let word = buffer.words[(offset / 4) as usize];
        let word = take(&word.to_le_bytes(), va.0 & 3, width);
        (word, Place::FetchBuffer { cpu, offset })
    }

    fn burst<O: Observer>(&mut self, cpu: CpuId, va: u32, pa: u32, obs: &mut O) {
        let profile = self.profile_arc();
        let to_boundary = (profile.fetch_buffer.boundary - va % profile.fetch_buffer.boundary) / 4;
        let len = profile.fetch_buffer.words.min(to_boundary);
        self.cost
            .spend(Class::Uncached, profile.cost.uncached_fetch);
        let mut words = [0; 8];
        for (n, word) in words[..len as usize].iter_mut().enumerate() {
            let at = PhysAddr(pa + n as u32 * 4);
            let l2 = if profile.uncached_bypasses_l2 {
                Looks::Memory
            } else {
                Looks::L2
            };
            let from = self.find_beside(cpu, at, l2).unwrap_or(Place::Memory(at));
            *word = self.word_at(from);
            let to = Place::FetchBuffer {
                cpu,
                offset: n as u32 * 4,
            };
            obs.moved(self, from, to, at, 4);
        }
        self.cpu_mut(cpu).fetch = crate::machine::FetchBuffer {
            va,
            len,
            next: va,
            words,
        };
    }

    /// Loads from an aligned address.
    ///
    /// # Errors
    /// The data abort.
    #[inline]
    pub fn load<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> Result<u32, Abort> {
        let entry = self.translate(cpu, va, Access::Load, user, obs)?;
        Ok(self.load_by(entry, cpu, va, width, user, obs))
    }

    /// A load from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn load_by<O: Observer>(
        &mut self,
        entry: TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> u32 {
        self.cost.accesses += 1;
        let pa = entry.translate(va.0);
        let c = &mut self.cpus[usize::from(cpu.0)];
        let serves = entry.cacheable || self.rules.uncached_hit == UncachedHit::HitServes;
        let found = if serves {
            c.dcache.find(c.dcache.keys(va.0, pa))
        } else {
            None
        };
        let (value, place) = match found {
            Some(slot) => {
                self.cost.spend(Class::L1, self.rules.l1_load);
                c.dcache.touch(slot);
                let offset = va.0 & (c.dcache.line_bytes() - 1);
                let value = take(c.dcache.line(slot), offset, width);
                (
                    value,
                    Place::Line {
                        unit: Unit::L1D(cpu),
                        slot,
                        offset,
                    },
                )
            }
            None if entry.cacheable => self.load_miss(cpu, va, pa, width, obs),
            None => self.load_uncached(cpu, pa, width, obs),
        };
        if O::ACTIVE {
            let access = Access::Load;
            obs.loaded(
                self,
                &Seen {
                    cpu,
                    va,
                    width,
                    access,
                    user,
                    entry,
                    place,
                },
                value,
            );
        }
        value
    }

    #[inline(never)]
    fn load_miss<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        width: Width,
        obs: &mut O,
    ) -> (u32, Place) {
        let slot = self.fill_data(cpu, va, pa, obs);
        let cache = &self.cpu(cpu).dcache;
        let offset = va.0 & (cache.line_bytes() - 1);
        let place = Place::Line {
            unit: Unit::L1D(cpu),
            slot,
            offset,
        };
        (take(cache.line(slot), offset, width), place)
    }

    /// Brings the line of `va` into the data cache; a dirty victim goes to the eviction buffer.
    pub(crate) fn fill_data<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        pa: u32,
        obs: &mut O,
    ) -> u32 {
        let unit = Unit::L1D(cpu);
        let len = self.cpu(cpu).dcache.line_bytes();
        let base = pa & !(len - 1);
        if self.drains_on(DrainsOn::Fill) || self.cpu(cpu).write.overlaps(base, len) {
            self.drain(cpu, obs);
        }
        let cache = &mut self.cpu_mut(cpu).dcache;
        let keys = cache.keys(va.0, pa);
        let slot = cache.victim(keys);
        self.write_out(cpu, slot, Class::Memory, obs);
        self.drop_line(unit, slot, obs);
        if self.cpu(cpu).write.overlaps(base, len) {
            self.drain(cpu, obs);
        }
        let mut bytes = [0; LINE_MAX];
        let bytes = &mut bytes[..len as usize];
        let from = self.read_line(base, true, bytes, obs);
        let cache = &mut self.cpu_mut(cpu).dcache;
        cache.install(slot, keys, base);
        copy_line(cache.line_mut(slot), bytes);
        obs.moved(
            self,
            from,
            Place::Line {
                unit,
                slot,
                offset: 0,
            },
            PhysAddr(base),
            len,
        );
        slot
    }

    fn load_uncached<O: Observer>(
        &mut self,
        cpu: CpuId,
        pa: u32,
        width: Width,
        obs: &mut O,
    ) -> (u32, Place) {
        if self.drains_on(DrainsOn::Uncached) || self.cpu(cpu).write.overlaps(pa, width.bytes()) {
            self.drain(cpu, obs);
        }
        self.cost.spend(Class::Uncached, self.rules.uncached_load);
        let l2 = if self.profile().uncached_bypasses_l2 {
            Looks::Memory
        } else {
            Looks::L2
        };
        let at = PhysAddr(pa);
        let place = self.find_beside(cpu, at, l2).unwrap_or(Place::Memory(at));
        let mut bytes = [0; 4];
        self.read_place(place, &mut bytes[..width.bytes() as usize]);
        (u32::from_le_bytes(bytes), place)
    }

    /// Stores to an aligned address.
    ///
    /// # Errors
    /// The data abort.
    #[inline]
    pub fn store<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
        obs: &mut O,
    ) -> Result<(), Abort> {
        let entry = self.translate(cpu, va, Access::Store, user, obs)?;
        self.store_by(entry, cpu, va, width, value, user, obs);
        Ok(())
    }

    /// A store from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn store_by<O: Observer>(
        &mut self,
        entry: TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
        obs: &mut O,
    ) {
        self.cost.accesses += 1;
        let pa = entry.translate(va.0);
        let c = &mut self.cpus[usize::from(cpu.0)];
        let serves = entry.cacheable || self.rules.uncached_hit == UncachedHit::HitServes;
        let found = if serves {
            c.dcache.find(c.dcache.keys(va.0, pa))
        } else {
            None
        };
        let allocates = self.rules.write_allocate && entry.cacheable && entry.bufferable;
        let seen = |place| {
            let access = Access::Store;
            Seen {
                cpu,
                va,
                width,
                access,
                user,
                entry,
                place,
            }
        };
        let slot = match found {
            Some(slot) => Some(slot),
            None if allocates => Some(self.fill_data(cpu, va, pa, obs)),
            None => None,
        };
        let Some(slot) = slot else {
            let place = self.store_beside(cpu, pa, width, value, &entry, obs);
            if O::ACTIVE {
                obs.stored(self, &seen(place), value);
                if let Some(line) = self.through_l2(pa, place, &entry) {
                    obs.moved(self, place, line, PhysAddr(pa), width.bytes());
                }
            }
            if !entry.cacheable && self.rules.uncached_hit == UncachedHit::BypassButWriteUpdates {
                self.update_line(cpu, va, pa, width, value, place, obs);
            }
            return;
        };
        let cache = &mut self.cpus[usize::from(cpu.0)].dcache;
        cache.touch(slot);
        let offset = va.0 & (cache.line_bytes() - 1);
        put(cache.line_mut(slot), offset, width, value);
        let place = Place::Line {
            unit: Unit::L1D(cpu),
            slot,
            offset,
        };
        let through = entry.cacheable && !entry.bufferable;
        if !through {
            cache.soil(slot, offset);
        }
        if O::ACTIVE {
            obs.stored(self, &seen(place), value);
        }
        if through {
            self.write_through(cpu, pa, width, value, place, obs);
        }
    }
}
