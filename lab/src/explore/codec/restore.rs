//! From bytes to the world that they describe.

use machine::cache::Cache;
use machine::tlb::{EMPTY, TlbEntry};
use machine::{CpuId, Frame, Machine, PhysAddr, Place, Unit, VirtAddr};
use pmap::{PvFlags, SpaceId};

use super::{Bytes, Codec, FRAMES, OTHER, first_word};
use crate::explore::scope::Phase;
use crate::op::CPU0;
use crate::oracle::{Oracle, WordTruth};
use crate::world::World;

impl Codec {
    /// Rebuilds the world that the bytes describe; returns the buffer's phase.
    pub fn restore(&self, packed: &[u8], world: &mut World<Oracle>) -> Phase {
        let mut bytes = Bytes(packed);
        let head = bytes.take();
        let id = |n: u8| (n != 0).then_some(SpaceId(u16::from(n)));
        let (current, live) = (id(head >> 4 & 3), id(head >> 6));
        let cpu = &mut world.state.pmap.cpus[0];
        (cpu.current, cpu.live) = (current, live);
        world.state.machine.cpus[0].ttb = live.map_or(0, |s| u32::from(s.0));
        let truth = self.restore_truth(&mut bytes, world);
        self.restore_tables(&mut bytes, world);
        self.restore_pages(&mut bytes, world);
        world.observer.restart(&world.state.machine);
        for (n, word) in (0..).zip(&truth[..usize::from(self.frames)]) {
            let pa = PhysAddr(n * self.page);
            world.observer.restore_page(pa, *word);
        }
        let World {
            state, observer, ..
        } = world;
        let cpu = &mut state.machine.cpus[0];
        self.restore_cache(&mut bytes, observer, &mut cpu.icache, Unit::L1I(CPU0));
        self.restore_cache(&mut bytes, observer, &mut cpu.dcache, Unit::L1D(CPU0));
        self.restore_buffer(&mut bytes, world);
        self.restore_tlb(&mut bytes, &mut world.state.machine);
        Phase::from_number(head & 15)
    }

    fn restore_truth(
        &self,
        bytes: &mut Bytes<'_>,
        world: &mut World<Oracle>,
    ) -> [WordTruth; FRAMES] {
        let mut out = [WordTruth::default(); FRAMES];
        for word in &mut out[..usize::from(self.frames)] {
            let bits = bytes.take();
            word.valid = bits & 1 != 0;
            word.in_memory = bits & 2 != 0;
            word.many = bits & 8 != 0;
            word.truth = if word.valid {
                self.value(bytes.take())
            } else {
                self.value(OTHER)
            };
            word.base = (bits & 4 != 0).then(|| self.value(bytes.take()));
        }
        for n in 0..u32::from(self.frames) {
            let value = self.value(bytes.take());
            let pa = PhysAddr(n * self.page);
            world.state.machine.memory.write(pa, &value.to_le_bytes());
        }
        out
    }

    /// A word for a value's number: values differ in each of their bytes, because judgements are by bytes.
    fn value(&self, number: u8) -> u32 {
        match number {
            0 if self.zero => 0,
            OTHER => u32::MAX,
            n => u32::from_le_bytes([n + 1; 4]),
        }
    }

    fn restore_tables(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let machine = &mut world.state.machine;
        for (space, page) in self.table_pages([0, 1, 2, 3]) {
            let pte = Self::pte_from(bytes.take());
            machine.flat[(space * (self.user + self.kernel) + page) as usize] = pte.0;
        }
    }

    fn restore_pages(&self, bytes: &mut Bytes<'_>, world: &mut World<Oracle>) {
        let pmap = &mut world.state.pmap;
        pmap.forget_pages();
        for n in 0..u32::from(self.frames) {
            let page = pmap.page_mut(Frame(n));
            (page.attrs, page.writeable) = match self.paging {
                true => (PvFlags::from_bits_retain(bytes.half()), bytes.take() != 0),
                false => (PvFlags::empty(), false),
            };
            page.bits = bytes.take();
            page.kva = VirtAddr(u32::from(bytes.take()) * self.page);
            page.kva_pte = Self::pte_from(bytes.take());
            let count = usize::from(bytes.take());
            let (list, rest) = bytes.0.split_at(count * 4);
            for m in list.chunks_exact(4).rev() {
                let space = SpaceId(u16::from(m[0] & 3));
                let va = VirtAddr(u32::from(m[0] >> 2) * self.page);
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
        let parts = (self.page / len) as u8;
        for slot in 0..cache.slots() {
            let block = bytes.take();
            if block == 0 {
                if cache.valid(slot) {
                    cache.invalidate(slot);
                }
                continue;
            }
            let block = block - 1;
            let pa = u32::from(block / parts) * self.page + u32::from(block % parts) * len;
            let tag = u64::from(bytes.take()) * u64::from(len);
            cache.install(slot, (tag, tag), pa);
            let dirty = bytes.take();
            let part = cache.part_bytes();
            (0..8)
                .filter(|n| dirty & 1 << n != 0)
                .for_each(|n| cache.soil(slot, n * part));
            if block.is_multiple_of(parts) {
                let value = self.value(bytes.take());
                cache.line_mut(slot)[..4].copy_from_slice(&value.to_le_bytes());
                oracle.restore_copy(first_word(unit, slot), bytes.take() != 0);
            }
        }
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
            let pa = u32::from(at >> 4) * self.page + u32::from(at & 15) * 4;
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
        for entry in tlb.slots_mut() {
            let tag = bytes.take();
            if tag == 0 {
                *entry = EMPTY;
                continue;
            }
            let bits = bytes.take();
            *entry = TlbEntry {
                tag: u32::from(tag - 1) * self.page,
                mask: !(self.page - 1),
                base: u32::from(bits >> 5) * self.page,
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
