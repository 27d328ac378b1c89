//! From bytes to the world that they describe.

use machine::cache::Cache;
use machine::tlb::{EMPTY, TlbEntry};
use machine::{CpuId, Frame, Machine, PhysAddr, Place, Unit, VirtAddr};
use pmap::count::Counts;
use pmap::{PvFlags, SpaceId};

use super::{
    Bytes, Codec, Ends, OTHER, SECTIONS, Symmetry, TRUTH, first_word, kept_counts, section_of,
};
use crate::explore::scope::Phase;
use crate::op::CPU0;
use crate::oracle::{Oracle, WordTruth};
use crate::world::World;

impl Codec {
    /// Rebuilds the world that the bytes describe; returns the buffer's phase and where sections end.
    pub fn restore(&self, packed: &[u8], world: &mut World<Oracle>) -> (Phase, Ends) {
        let mut bytes = Bytes(packed);
        let mut ends = Ends::default();
        world.observer.restart();
        for (section, end) in ends.iter_mut().enumerate() {
            self.restore_section(section, &mut bytes, world);
            *end = (packed.len() - bytes.0.len()) as u16;
        }
        (Phase::from_number(packed[0] & 15), ends)
    }

    /// Makes the world that `now` was saved from the one that `then` describes, if its names are its own and
    /// nothing was found and nothing stored on the way; false if only [`Codec::restore`] can.
    ///
    /// Equal truth has equal values under equal numbers, so that a section of equal bytes is as it was.
    pub fn undo(
        &self,
        (then, ends_then): (&[u8], &Ends),
        (now, ends_now): (&[u8], &Ends),
        world: &mut World<Oracle>,
    ) -> bool {
        let equal = |n| section_of(then, ends_then, n) == section_of(now, ends_now, n);
        let numbered = self.symmetry == Symmetry::On && equal(TRUTH);
        if !numbered || world.observer.stored_since_restart() {
            return false;
        }
        world.observer.restart();
        for n in (0..SECTIONS).filter(|n| *n != TRUTH) {
            if !equal(n) {
                self.restore_section(n, &mut Bytes(section_of(then, ends_then, n)), world);
            }
        }
        true
    }

    fn restore_section(&self, section: usize, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let oracle = &mut world.observer;
        let cpu = &mut world.state.machine.cpus[0];
        match section {
            0 => self.restore_kernel(bytes, world),
            TRUTH => self.restore_truth(bytes, oracle),
            2 => self.restore_memory(bytes, world),
            3 => self.restore_cache(bytes, oracle, &mut cpu.icache, Unit::L1I(CPU0)),
            4 => self.restore_cache(bytes, oracle, &mut cpu.dcache, Unit::L1D(CPU0)),
            5 => self.restore_buffer(bytes, world),
            _ => self.restore_tlb(bytes, &mut world.state.machine),
        }
    }

    fn restore_kernel(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let head = bytes.take();
        let id = |n: u8| (n != 0).then_some(SpaceId(u16::from(n)));
        let (current, live) = (id(head >> 4 & 3), id(head >> 6));
        let cpu = &mut world.state.pmap.cpus[0];
        (cpu.current, cpu.live) = (current, live);
        world.state.machine.cpus[0].ttb = live.map_or(0, |s| u32::from(s.0));
        self.restore_tables(bytes, &mut world.state.machine);
        self.restore_pages(bytes, world);
        world.observer.restore_names(&world.state.machine);
    }

    fn restore_truth(&self, bytes: &mut Bytes<'_>, oracle: &mut Oracle) {
        for n in 0..u32::from(self.frames) {
            let bits = bytes.take();
            let mut word = WordTruth {
                valid: bits & 1 != 0,
                many: bits & 8 != 0,
                ..WordTruth::default()
            };
            word.truth = if word.valid {
                self.value(bytes.take())
            } else {
                self.value(OTHER)
            };
            word.base = (bits & 4 != 0).then(|| self.value(bytes.take()));
            oracle.restore_page(PhysAddr(n << self.page_shift), word);
        }
    }

    fn restore_memory(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        bytes.each_slot(u32::from(self.frames), |bytes, n, last| {
            let pa = PhysAddr(n << self.page_shift);
            world.observer.restore_memory(pa, last);
            let value = self.value(bytes.take());
            world.state.machine.memory.write(pa, &value.to_le_bytes());
        });
    }

    /// A word for a value's number: values differ in each of their bytes, because judgements are by bytes.
    fn value(&self, number: u8) -> u32 {
        match number {
            0 if self.zero => 0,
            OTHER => u32::MAX,
            n => u32::from_le_bytes([n + 1; 4]),
        }
    }

    fn restore_tables(&self, bytes: &mut Bytes<'_>, machine: &mut Machine) {
        for n in &self.tables[0] {
            machine.flat[usize::from(*n)] = Self::pte_from(bytes.take()).0;
        }
    }

    fn restore_pages(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let kept = kept_counts(world);
        let pmap = &mut world.state.pmap;
        pmap.forget_pages();
        for n in 0..u32::from(self.frames) {
            let page = pmap.page_mut(Frame(n));
            if !self.marks.is_empty() {
                page.attrs = PvFlags::from_bits_retain(bytes.half());
                page.writeable = bytes.take() != 0;
            }
            if kept {
                page.counts = Counts {
                    kernel_read: bytes.half(),
                    kernel_write: bytes.half(),
                    user_read: bytes.half(),
                    user_write: bytes.half(),
                };
            }
            page.bits = bytes.take();
            page.kva = VirtAddr(u32::from(bytes.take()) << self.page_shift);
            page.kva_pte = Self::pte_from(bytes.take());
            let count = usize::from(bytes.take());
            let (list, rest) = bytes.0.split_at(count * 4);
            for m in list.chunks_exact(4).rev() {
                let space = SpaceId(u16::from(m[0] & 3));
                let va = VirtAddr(u32::from(m[0] >> 2) << self.page_shift);
                let flags = PvFlags::from_bits_retain(u16::from_le_bytes([m[1], m[2]]));
                pmap.restore(space, va, flags, Self::pte_from(m[3]));
            }
            bytes.0 = rest;
        }
        for space in 1..self.spaces {
            let bits = bytes.take();
            pmap.restore_space_bits(SpaceId(space), bits);
        }
    }

    fn restore_cache(
        &self,
        bytes: &mut Bytes<'_>,
        oracle: &mut Oracle,
        cache: &mut Cache,
        unit: Unit,
    ) {
        let len = cache.line_bytes();
        let (line_shift, parts) = (len.trailing_zeros(), (self.page / len) as u8);
        bytes.each_slot(cache.slots(), |bytes, slot, valid| {
            if !valid {
                if cache.valid(slot) {
                    cache.invalidate(slot);
                }
                return;
            }
            let bits = bytes.take();
            let block = bits & 0x7f;
            let tag = u64::from(bytes.take()) << line_shift;
            cache.install(slot, (tag, tag), u32::from(block) << line_shift);
            let dirty = bytes.take();
            let part = cache.part_bytes();
            (0..8)
                .filter(|n| dirty & 1 << n != 0)
                .for_each(|n| cache.soil(slot, n * part));
            if block & (parts - 1) == 0 {
                let value = self.value(bytes.take());
                cache.line_mut(slot)[..4].copy_from_slice(&value.to_le_bytes());
                oracle.restore_copy(first_word(unit, slot), bits & 0x80 != 0);
            }
        });
        if cache.ways() > 1 {
            cache
                .pointers_mut()
                .iter_mut()
                .for_each(|p| *p = bytes.take());
        }
    }

    fn restore_buffer(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let buffer = &mut world.state.machine.cpus[0].write;
        while buffer.pop().is_some() {}
        for _ in 0..bytes.take() {
            let at = bytes.take();
            let pa = (u32::from(at >> 4) << self.page_shift) + u32::from(at & 15) * 4;
            let value = self.value(bytes.take());
            let bits = bytes.take();
            let (slot, offset) = buffer.push(pa, &value.to_le_bytes(), bits & 2 != 0);
            let place = Place::WriteBuffer {
                cpu: CpuId(0),
                slot,
                offset,
            };
            world.observer.restore_copy(place, bits & 1 != 0);
        }
    }

    fn restore_tlb(&self, bytes: &mut Bytes<'_>, machine: &mut Machine) {
        let tlb = &mut machine.cpus[0].tlb;
        let (mut mask, mut left) = (0, 0);
        for entry in tlb.slots_mut() {
            if left == 0 {
                (mask, left) = (bytes.take(), 8);
            }
            let told = mask & 1 != 0;
            (mask, left) = (mask >> 1, left - 1);
            if !told {
                *entry = EMPTY;
                continue;
            }
            let tag = u32::from(bytes.take()) << self.page_shift;
            let bits = bytes.take();
            *entry = TlbEntry {
                tag,
                mask: !(self.page - 1),
                base: u32::from(bits >> 5) << self.page_shift,
                ap: bits & 3,
                domain: 0,
                cacheable: bits & 4 != 0,
                bufferable: bits & 8 != 0,
            };
        }
        if tlb.ways() > 1 {
            tlb.pointers_mut().for_each(|p| *p = bytes.take());
        }
    }
}
