//! The paths of a fetch, a load and a store through TLB, caches, buffers, second level and memory.
//!
//! Rules and their sources are in `hardware.md`: unexpected hits in section 2, the rest in section 7.
//! Left out: hit-under-miss, critical word first, bus contention; a latency is a constant.

use crate::cost::Class;
use crate::machine::Machine;
use crate::mmu::{self, permits, read_word};
use crate::observer::{Observer, Place, Seen, Unit};
use crate::profile::{DrainsOn, Looks, TableProfile, UncachedHit};
use crate::tlb::{Found, TlbEntry};
use crate::types::{Abort, Access, CpuId, Fault, PhysAddr, VirtAddr, Width};
use crate::write_buffer::LINE_MAX;

impl Machine {
    /// Translates as the hardware does: micro-TLB, TLB, walk; then checks the rights of the copy it
    /// found. A failed walk leaves no entry.
    ///
    /// # Errors
    /// The abort that the access takes.
    #[inline]
    pub fn translate<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        access: Access,
        user: bool,
        obs: &mut O,
    ) -> Result<TlbEntry, Abort> {
        let fetch = access == Access::Fetch;
        let entry = match self.cpu(cpu).tlb.last(fetch, va.0) {
            Some(entry) => *entry,
            None => self.translate_slow(cpu, va, access, obs)?,
        };
        let dacr = self.cpu(cpu).dacr;
        permits(&entry, dacr, user, access == Access::Store).map_err(|fault| Abort {
            va,
            access,
            fault,
        })?;
        Ok(entry)
    }

    #[inline(never)]
    fn translate_slow<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<TlbEntry, Abort> {
        let fetch = access == Access::Fetch;
        if let Some((entry, found)) = self.cpu_mut(cpu).tlb.lookup(fetch, va.0) {
            if found == Found::Main {
                let cycles = self.profile().cost.micro_tlb;
                self.spend(Class::Walk, cycles);
            }
            return Ok(entry);
        }
        let entry = self
            .walk(cpu, va, obs)
            .map_err(|fault| Abort { va, access, fault })?;
        self.cpu_mut(cpu).tlb.fill(fetch, va.0, entry);
        obs.walked(self, cpu, va, &entry);
        Ok(entry)
    }

    /// Walks the tables for `va` without touching the TLB.
    ///
    /// # Errors
    /// The translation fault, or `External` where the entry names no memory.
    pub fn walk<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        obs: &mut O,
    ) -> Result<TlbEntry, Fault> {
        let cycles = self.profile().cost.walk;
        self.spend(Class::Walk, cycles);
        if self.drains_on(DrainsOn::Walk) {
            self.drain(cpu, obs);
        }
        let ttb = self.cpu(cpu).ttb;
        let entry = match self.profile().table {
            TableProfile::ArmShort => mmu::walk_short(ttb, va.0, |pa| self.walk_read(cpu, pa))?,
            TableProfile::Flat { .. } => self.flat_entry(ttb, va)?,
        };
        if !self.memory.holds(PhysAddr(entry.base), self.page_bytes()) {
            return Err(Fault::External);
        }
        Ok(entry)
    }

    fn flat_entry(&self, space: u32, va: VirtAddr) -> Result<TlbEntry, Fault> {
        let page = self.page_bytes();
        let index = self
            .flat_index(space, va.0 / page)
            .ok_or(Fault::TranslationSection)?;
        let pte = mmu::Pte(self.flat[index]);
        if !pte.valid() {
            return Err(Fault::TranslationPage);
        }
        Ok(pte.to_tlb(va.0, page, true, 0))
    }

    /// The word a walk sees at `pa`.
    fn walk_read(&self, cpu: CpuId, pa: PhysAddr) -> u32 {
        let looks = self.profile().walk_looks;
        let found = self.find_beside(cpu, pa, looks);
        found.map_or_else(|| read_word(&self.memory, pa), |place| self.word_at(place))
    }

    /// The nearest copy of `pa` that a reader beside the data side finds, if it looks further than
    /// memory.
    fn find_beside(&self, cpu: CpuId, pa: PhysAddr, looks: Looks) -> Option<Place> {
        let in_d = |owner: usize| {
            let cache = &self.cpus[owner].dcache;
            let slot = cache.holders(pa.0).find(|s| cache.dirty(*s) != 0)?;
            let offset = pa.0 & (cache.line_bytes() - 1);
            Some(Place::Line {
                unit: Unit::L1D(CpuId(owner as u8)),
                slot,
                offset,
            })
        };
        let data = match looks {
            Looks::Memory => return None,
            Looks::L2 => None,
            Looks::OwnD => in_d(usize::from(cpu.0)),
            Looks::AllD => (0..self.cpus.len()).find_map(in_d),
        };
        data.or_else(|| {
            let l2 = self.l2.as_ref()?;
            let slot = l2.find(l2.keys(pa.0, pa.0))?;
            let offset = pa.0 & (l2.line_bytes() - 1);
            Some(Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            })
        })
    }

    fn word_at(&self, place: Place) -> u32 {
        let mut bytes = [0; 4];
        self.read_place(place, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Reads the bytes that a place holds; for reports and tests.
    pub fn read_place(&self, place: Place, out: &mut [u8]) {
        match place {
            Place::Memory(pa) => self.memory.read(pa, out),
            Place::Line { unit, slot, offset } => {
                let from = offset as usize;
                let line = self.cache(unit).line(slot);
                out.copy_from_slice(&line[from..from + out.len()]);
            }
            _ => out.fill(0),
        }
    }

    /// The word that CPU 0's kernel would load from `va`, mapped to `pa`, without side effects: its data
    /// line, its write buffer, the second level, memory.
    pub fn peek_word(&self, va: VirtAddr, pa: PhysAddr) -> u32 {
        let cpu = &self.cpus[0];
        if let Some(slot) = cpu.dcache.find(cpu.dcache.keys(va.0, pa.0)) {
            return take(
                cpu.dcache.line(slot),
                va.0 & (cpu.dcache.line_bytes() - 1),
                Width::Word,
            );
        }
        let waiting = cpu
            .write
            .entries()
            .filter(|(_, e)| e.covers(pa.0, 4))
            .last();
        if let Some((_, entry)) = waiting {
            return take(&entry.data, pa.0 - entry.pa, Width::Word);
        }
        let place = self.find_beside(CpuId(0), pa, Looks::L2);
        place.map_or_else(|| read_word(&self.memory, pa), |place| self.word_at(place))
    }

    /// A cache by name; the second level must exist.
    pub fn cache(&self, unit: Unit) -> &crate::cache::Cache {
        match unit {
            Unit::L1I(cpu) => &self.cpu(cpu).icache,
            Unit::L1D(cpu) => &self.cpu(cpu).dcache,
            Unit::L2 => self.l2.as_ref().expect("an L2 place implies an L2"),
        }
    }

    pub(crate) fn drains_on(&self, event: DrainsOn) -> bool {
        self.profile().write_buffer.drains_on.contains(&event)
    }

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
        Ok(self.fetch_by(&entry, cpu, va, width, user, obs))
    }

    /// A fetch from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn fetch_by<O: Observer>(
        &mut self,
        entry: &TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> u32 {
        let entry = *entry;
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
        cache.line_mut(slot).copy_from_slice(bytes);
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
        Ok(self.load_by(&entry, cpu, va, width, user, obs))
    }

    /// A load from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn load_by<O: Observer>(
        &mut self,
        entry: &TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        user: bool,
        obs: &mut O,
    ) -> u32 {
        let entry = *entry;
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
        cache.line_mut(slot).copy_from_slice(bytes);
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
        self.store_by(&entry, cpu, va, width, value, user, obs);
        Ok(())
    }

    /// A store from its translation on.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn store_by<O: Observer>(
        &mut self,
        entry: &TlbEntry,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
        obs: &mut O,
    ) {
        let entry = *entry;
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

/// Reads a value out of a line.
#[inline]
fn take(line: &[u8], offset: u32, width: Width) -> u32 {
    let n = offset as usize;
    match width {
        Width::Byte => u32::from(line[n]),
        Width::Half => u32::from(u16::from_le_bytes([line[n], line[n + 1]])),
        Width::Word => u32::from_le_bytes([line[n], line[n + 1], line[n + 2], line[n + 3]]),
    }
}

/// Writes a value into a line.
#[inline]
fn put(line: &mut [u8], offset: u32, width: Width, value: u32) {
    let n = offset as usize;
    let b = value.to_le_bytes();
    match width {
        Width::Byte => line[n] = b[0],
        Width::Half => line[n..n + 2].copy_from_slice(&b[..2]),
        Width::Word => line[n..n + 4].copy_from_slice(&b),
    }
}
