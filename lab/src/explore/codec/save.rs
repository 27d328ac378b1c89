//! From a world to its canonical bytes.

use machine::cache::Cache;
use machine::tlb::TlbEntry;
use machine::{Frame, Machine, PhysAddr, Place, Pte, Unit};
use pmap::{PvFlags, SpaceId};

use super::{
    Codec, Ends, FRAMES, Names, OTHER, Symmetry, TRUTH, VALUES, first_word, kept_counts, word_of,
};
use crate::explore::scope::Phase;
use crate::op::CPU0;
use crate::oracle::Oracle;
use crate::world::World;

impl Codec {
    /// Writes the canonical bytes of a state; returns where sections end, and whether spaces and frames keep
    /// their names.
    pub fn save(&self, world: &World<Oracle>, phase: Phase, out: &mut Vec<u8>) -> (Ends, bool) {
        out.clear();
        let mut names = self.names(world);
        let mut ends = Ends::default();
        for (section, end) in ends.iter_mut().enumerate() {
            self.save_section(section, (world, phase), &mut names, out);
            *end = out.len() as u16;
        }
        let kept = !names.exchanged && names.order.is_sorted();
        (ends, kept)
    }

    #[inline(always)]
    fn save_section(
        &self,
        section: usize,
        (world, phase): (&World<Oracle>, Phase),
        names: &mut Names,
        out: &mut Vec<u8>,
    ) {
        let cpu = &world.state.machine.cpus[0];
        let oracle = &world.observer;
        match section {
            0 => self.save_kernel(world, phase, names, out),
            TRUTH => self.save_truth(oracle, names, out),
            2 => self.save_memory(world, names, out),
            3 => self.save_cache(oracle, &cpu.icache, Unit::L1I(CPU0), names, out),
            4 => self.save_cache(oracle, &cpu.dcache, Unit::L1D(CPU0), names, out),
            5 => self.save_buffer(world, names, out),
            _ => self.save_tlb(&world.state.machine, names, out),
        }
    }

    fn save_kernel(&self, world: &World<Oracle>, phase: Phase, names: &Names, out: &mut Vec<u8>) {
        let state = &world.state.pmap.cpus[0];
        let id = |s: Option<SpaceId>| s.map_or(0, |s| names.space(s));
        out.push(phase as u8 | id(state.current) << 4 | id(state.live) << 6);
        self.save_tables(world, names, out);
        self.save_pages(world, names, out);
    }

    fn names(&self, world: &World<Oracle>) -> Names {
        let live = world.state.pmap.cpus[0].live.map_or(1, |s| s.0);
        let canonical = self.symmetry == Symmetry::On;
        let exchanged = canonical && live == 2;
        let spaces = if exchanged {
            [0, 2, 1, 3]
        } else {
            [0, 1, 2, 3]
        };
        let identity = std::array::from_fn(|n| n as u8);
        let mut names = Names {
            spaces,
            exchanged,
            frames: identity,
            order: identity,
            valid: 0,
            values: [0; VALUES],
            used: u8::from(self.zero),
            exact: !canonical,
        };
        if canonical {
            self.order_frames(world, &mut names);
        }
        names
    }

    /// Numbers the frames in order of appearance in the tables, the TLB and the caches; those that appear
    /// nowhere by what tells them apart.
    fn order_frames(&self, world: &World<Oracle>, names: &mut Names) {
        let mut order = Order {
            names,
            met: 0,
            frames: self.frames,
        };
        if self.meet_all(&world.state.machine, &mut order) {
            return;
        }
        let mut rest: [u8; FRAMES] = std::array::from_fn(|n| n as u8);
        let rest = &mut rest[..usize::from(self.frames)];
        rest.sort_by_key(|f| self.signature(world, *f));
        rest.iter().for_each(|f| order.take(*f));
    }

    /// Whether all frames appear.
    fn meet_all(&self, machine: &Machine, order: &mut Order<'_>) -> bool {
        for raw in self.entries(machine, order.names.exchanged) {
            if raw != 0 && order.meet(Pte(raw).frame().0 as u8) {
                return true;
            }
        }
        let cpu = &machine.cpus[0];
        for entry in cpu.tlb.slots() {
            if !entry.is_empty() && order.meet((entry.base >> self.page_shift) as u8) {
                return true;
            }
        }
        let mut lines = [&cpu.icache, &cpu.dcache]
            .into_iter()
            .flat_map(|cache| cache.valid_slots().map(|slot| cache.pa(slot)));
        lines.any(|pa| order.meet((pa >> self.page_shift) as u8))
    }

    /// What tells frames apart that nothing names.
    fn signature(&self, world: &World<Oracle>, frame: u8) -> u64 {
        let base = PhysAddr(u32::from(frame) << self.page_shift);
        let page = world.state.pmap.page(Frame(u32::from(frame)));
        let word = world.observer.word_truth(base);
        let held = world.state.machine.memory.word(base);
        let bits = u64::from(word.valid)
            | u64::from(word.valid && world.observer.memory_has_last(base)) << 1
            | u64::from(word.base.is_some()) << 2
            | u64::from(word.many) << 3
            | u64::from(word.valid && held == word.truth) << 4
            | u64::from(word.base == Some(held)) << 5;
        let attrs = (page.attrs & self.marks).bits();
        bits << 24 | u64::from(attrs) << 8 | u64::from(page.bits)
    }

    fn entries(&self, machine: &Machine, exchanged: bool) -> impl Iterator<Item = u32> {
        let tables = &self.tables[usize::from(exchanged)];
        tables.iter().map(|n| machine.flat[usize::from(*n)])
    }

    fn bases(&self, names: &Names) -> impl Iterator<Item = (u8, PhysAddr)> + use<> {
        let (order, shift) = (names.order, self.page_shift);
        (0..usize::from(self.frames)).map(move |n| {
            let frame = order[n];
            (frame, PhysAddr(u32::from(frame) << shift))
        })
    }

    fn save_truth(&self, oracle: &Oracle, names: &mut Names, out: &mut Vec<u8>) {
        for (frame, base) in self.bases(names) {
            let word = oracle.word_truth(base);
            let undue = word.base.is_some();
            out.push(u8::from(word.valid) | u8::from(undue) << 2 | u8::from(word.many) << 3);
            if word.valid {
                names.valid |= 1 << frame;
                out.push(names.value(word.truth, true));
            }
            if let Some(base) = word.base {
                // Where any value passes, none is told apart.
                let told = !word.many;
                out.push(if told { names.value(base, true) } else { OTHER });
            }
        }
    }

    fn save_memory(&self, world: &World<Oracle>, names: &mut Names, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        for (n, (frame, base)) in self.bases(names).enumerate() {
            let dead = names.valid >> frame & 1 == 0;
            let last = dead || world.observer.memory_has_last(base);
            out[at] |= u8::from(last) << n;
            out.push(names.value(world.state.machine.memory.word(base), false));
        }
    }

    fn save_tables(&self, world: &World<Oracle>, names: &Names, out: &mut Vec<u8>) {
        for raw in self.entries(&world.state.machine, names.exchanged) {
            out.push(self.pte(names, raw));
        }
    }

    /// Flags of mappings that nobody asks for.
    fn untold(&self) -> PvFlags {
        PvFlags::MOD - self.marks
    }

    fn save_pages(&self, world: &World<Oracle>, names: &Names, out: &mut Vec<u8>) {
        let pmap = &world.state.pmap;
        for n in 0..usize::from(self.frames) {
            let frame = Frame(u32::from(names.order[n]));
            let page = pmap.page(frame);
            if !self.marks.is_empty() {
                out.extend((page.attrs & self.marks).bits().to_le_bytes());
                out.push(u8::from(page.writeable));
            }
            if kept_counts(world) {
                let c = page.counts;
                let counts = [c.kernel_read, c.kernel_write, c.user_read, c.user_write];
                out.extend(counts.iter().flat_map(|n| n.to_le_bytes()));
            }
            out.push(page.bits);
            out.push((page.kva.0 >> self.page_shift) as u8);
            out.push(self.pte(names, page.kva_pte.0));
            let at = out.len();
            out.push(0);
            for m in pmap.mappings(frame) {
                out[at] += 1;
                out.push(names.space(m.space) | (((m.va.0 >> self.page_shift) as u8) << 2));
                out.extend((m.flags - self.untold()).bits().to_le_bytes());
                out.push(self.pte(names, m.pte.0));
            }
        }
        for space in 1..usize::from(self.spaces) {
            out.push(pmap.space_bits(SpaceId(names.spaces[space])));
        }
    }

    fn save_cache(
        &self,
        oracle: &Oracle,
        cache: &Cache,
        unit: Unit,
        names: &mut Names,
        out: &mut Vec<u8>,
    ) {
        let line_shift = cache.line_bytes().trailing_zeros();
        let in_page = self.page_shift - line_shift;
        for first in (0..cache.slots()).step_by(8) {
            let at = out.len();
            out.push(0);
            for slot in (first..cache.slots().min(first + 8)).filter(|slot| cache.valid(*slot)) {
                out[at] |= 1 << (slot - first);
                let pa = cache.pa(slot);
                let real = pa >> self.page_shift;
                let part = (pa >> line_shift) as u8 & ((1 << in_page) - 1);
                let block = names.frames[real as usize] << in_page | part;
                let tag = (cache.tag_address(slot) >> line_shift) as u8;
                if part != 0 {
                    out.extend([block, tag, cache.dirty(slot)]);
                    continue;
                }
                let dead = names.valid >> real & 1 == 0;
                let last = dead || oracle.has_last(first_word(unit, slot), PhysAddr(pa));
                let value = names.value(word_of(cache.line(slot), 0), false);
                out.extend([block | u8::from(last) << 7, tag, cache.dirty(slot), value]);
            }
        }
        if cache.ways() > 1 {
            out.extend(cache.pointers());
        }
    }

    fn save_buffer(&self, world: &World<Oracle>, names: &mut Names, out: &mut Vec<u8>) {
        let buffer = &world.state.machine.cpus[0].write;
        out.push(buffer.waiting() as u8);
        for (slot, entry) in buffer.entries() {
            let real = entry.pa >> self.page_shift;
            let offset = entry.pa & (self.page - 1);
            out.push(names.frames[real as usize] << 4 | (offset / 4) as u8);
            let kept = offset == 0;
            let value = word_of(&entry.data, 0);
            out.push(if kept {
                names.value(value, false)
            } else {
                OTHER
            });
            let place = Place::WriteBuffer {
                cpu: CPU0,
                slot,
                offset: 0,
            };
            let pa = PhysAddr(entry.pa);
            let dead = !kept || names.valid >> real & 1 == 0;
            let last = dead || world.observer.has_last(place, pa);
            out.push(u8::from(last) | u8::from(entry.outer) << 1);
        }
    }

    fn save_tlb(&self, machine: &Machine, names: &Names, out: &mut Vec<u8>) {
        let tlb = &machine.cpus[0].tlb;
        let (main, micro) = tlb.sizes();
        let mut at = 0;
        for (n, entry) in tlb.slots().enumerate() {
            if n % 8 == 0 {
                at = out.len();
                out.push(0);
            }
            if entry.is_empty() {
                continue;
            }
            let of_data = (main..main + micro).contains(&n);
            if of_data && self.redundant(machine, entry) {
                continue;
            }
            out[at] |= 1 << (n % 8);
            let frame = names.frames[(entry.base >> self.page_shift) as usize];
            let bits = u8::from(entry.cacheable) | u8::from(entry.bufferable) << 1;
            out.extend([
                (entry.tag >> self.page_shift) as u8,
                frame << 5 | bits << 2 | entry.ap,
            ]);
        }
        if tlb.ways() > 1 {
            out.extend(tlb.pointers());
        }
    }

    fn redundant(&self, machine: &Machine, entry: &TlbEntry) -> bool {
        self.symmetry == Symmetry::On
            && self.roomy
            && machine.cpus[0].tlb.probe(entry.tag) == Some(*entry)
    }
}

/// Frames as they are met.
struct Order<'a> {
    names: &'a mut Names,
    met: u8,
    frames: u8,
}

impl Order<'_> {
    fn take(&mut self, frame: u8) {
        let met = usize::from(self.met);
        if !self.names.order[..met].contains(&frame) {
            self.names.order[met] = frame;
            self.names.frames[usize::from(frame)] = self.met;
            self.met += 1;
        }
    }

    /// Notes a frame; true if all are known, because one at most was not met.
    fn meet(&mut self, frame: u8) -> bool {
        self.take(frame);
        if self.met + 1 < self.frames {
            return false;
        }
        (0..self.frames).for_each(|f| self.take(f));
        true
    }
}
