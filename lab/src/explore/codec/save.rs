//! From a world to its canonical bytes.

use machine::cache::Cache;
use machine::tlb::{EMPTY, TlbEntry};
use machine::{Frame, Machine, PhysAddr, Place, Pte, Unit};
use pmap::{PvFlags, SpaceId};

use super::{Codec, FRAMES, Names, OTHER, Symmetry, first_word, word_of};
use crate::explore::scope::Phase;
use crate::op::CPU0;
use crate::oracle::Oracle;
use crate::world::World;

impl Codec {
    /// Writes the canonical bytes of a state; true if spaces and frames keep their names.
    pub fn save(&self, world: &World<Oracle>, phase: Phase, out: &mut Vec<u8>) -> bool {
        out.clear();
        let mut names = self.names(world);
        let state = &world.state.pmap.cpus[0];
        let id = |s: Option<SpaceId>| s.map_or(0, |s| names.space(s));
        out.push(phase as u8 | id(state.current) << 4 | id(state.live) << 6);
        self.save_truth(world, &mut names, out);
        self.save_tables(world, &names, out);
        self.save_pages(world, &names, out);
        let cpu = &world.state.machine.cpus[0];
        for (unit, cache) in [
            (Unit::L1I(CPU0), &cpu.icache),
            (Unit::L1D(CPU0), &cpu.dcache),
        ] {
            self.save_cache(&world.observer, cache, unit, &mut names, out);
        }
        self.save_buffer(world, &mut names, out);
        self.save_tlb(&world.state.machine, &names, out);
        names.spaces == [0, 1, 2, 3] && names.order.is_sorted()
    }

    fn names(&self, world: &World<Oracle>) -> Names {
        let live = world.state.pmap.cpus[0].live.map_or(1, |s| s.0);
        let canonical = self.symmetry == Symmetry::On;
        let spaces = match live {
            2 if canonical => [0, 2, 1, 3],
            _ => [0, 1, 2, 3],
        };
        let identity = std::array::from_fn(|n| n as u8);
        let mut names = Names {
            spaces,
            frames: identity,
            order: identity,
            values: [0; 128],
            used: u8::from(self.zero),
            exact: !canonical,
        };
        if canonical {
            self.order_frames(world, &mut names);
        }
        names
    }

    /// Numbers the frames in order of appearance.
    fn order_frames(&self, world: &World<Oracle>, names: &mut Names) {
        let machine = &world.state.machine;
        let (mut seen, mut count) = (0u32, 0);
        let mut meet = |frame: u32| {
            if seen & 1 << frame == 0 {
                seen |= 1 << frame;
                names.order[count] = frame as u8;
                names.frames[frame as usize] = count as u8;
                count += 1;
            }
            seen.count_ones() + 1 >= u32::from(self.frames)
        };
        let pages = self.table_pages(names.spaces);
        let tables = pages
            .map(|(s, p)| self.raw(machine, s, p))
            .filter(|raw| *raw != 0);
        let cpu = &machine.cpus[0];
        let copies = cpu
            .tlb
            .slots()
            .filter(|e| **e != EMPTY)
            .map(|e| e.base / self.page);
        let page = self.page;
        let lines = [&cpu.icache, &cpu.dcache]
            .into_iter()
            .flat_map(|cache| cache.valid_slots().map(move |slot| cache.pa(slot) / page));
        let mut all = tables
            .map(|raw| Pte(raw).frame().0)
            .chain(copies)
            .chain(lines);
        let all_met = all.any(&mut meet);
        let mut rest: [u8; FRAMES] = std::array::from_fn(|n| n as u8);
        let rest = &mut rest[..usize::from(self.frames)];
        if !all_met {
            rest.sort_by_key(|f| self.signature(world, *f));
        }
        for frame in rest.iter() {
            if !names.order[..count].contains(frame) {
                names.order[count] = *frame;
                names.frames[usize::from(*frame)] = count as u8;
                count += 1;
            }
        }
    }

    /// What tells frames apart that nothing names.
    fn signature(&self, world: &World<Oracle>, frame: u8) -> u64 {
        let base = PhysAddr(u32::from(frame) * self.page);
        let page = world.state.pmap.page(Frame(u32::from(frame)));
        let word = world.observer.word_truth(base);
        let held = world.state.machine.memory.word(base);
        let bits = u64::from(word.valid)
            | u64::from(word.in_memory) << 1
            | u64::from(word.base.is_some()) << 2
            | u64::from(word.many) << 3
            | u64::from(word.valid && held == word.truth) << 4
            | u64::from(word.base == Some(held)) << 5;
        let attrs = if self.paging { page.attrs.bits() } else { 0 };
        bits << 24 | u64::from(attrs) << 8 | u64::from(page.bits)
    }

    fn raw(&self, machine: &Machine, space: u32, page: u32) -> u32 {
        machine.flat[(space * (self.user + self.kernel) + page) as usize]
    }

    fn save_truth(&self, world: &World<Oracle>, names: &mut Names, out: &mut Vec<u8>) {
        let frames = usize::from(self.frames);
        let order = names.order;
        let bases = order[..frames]
            .iter()
            .map(|f| PhysAddr(u32::from(*f) * self.page));
        for base in bases.clone() {
            let word = world.observer.word_truth(base);
            out.push(
                u8::from(word.valid)
                    | u8::from(word.in_memory) << 1
                    | u8::from(word.base.is_some()) << 2
                    | u8::from(word.many) << 3,
            );
            if word.valid {
                out.push(names.value(word.truth, true));
            }
            if let Some(base) = word.base {
                // Where any value passes, none is told apart.
                let told = !word.many;
                out.push(if told { names.value(base, true) } else { OTHER });
            }
        }
        for base in bases {
            out.push(names.value(world.state.machine.memory.word(base), false));
        }
    }

    fn save_tables(&self, world: &World<Oracle>, names: &Names, out: &mut Vec<u8>) {
        let machine = &world.state.machine;
        let raws = self
            .table_pages(names.spaces)
            .map(|(s, p)| self.raw(machine, s, p));
        out.extend(raws.map(|raw| self.pte(names, raw)));
    }

    /// Flags of mappings that nobody asks for.
    fn untold(&self) -> PvFlags {
        if self.paging {
            PvFlags::empty()
        } else {
            PvFlags::MOD
        }
    }

    fn save_pages(&self, world: &World<Oracle>, names: &Names, out: &mut Vec<u8>) {
        let pmap = &world.state.pmap;
        for n in 0..usize::from(self.frames) {
            let frame = Frame(u32::from(names.order[n]));
            let page = pmap.page(frame);
            if self.paging {
                out.extend(page.attrs.bits().to_le_bytes());
                out.push(u8::from(page.writeable));
            }
            out.push(page.bits);
            out.push((page.kva.0 / self.page) as u8);
            out.push(self.pte(names, page.kva_pte.0));
            let at = out.len();
            out.push(0);
            for m in pmap.mappings(frame) {
                out[at] += 1;
                out.push(names.space(m.space) | ((m.va.0 / self.page) as u8 * 4));
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
        let len = cache.line_bytes();
        for slot in 0..cache.slots() {
            if !cache.valid(slot) {
                out.push(0);
                continue;
            }
            let pa = cache.pa(slot);
            let frame = names.frames[(pa / self.page) as usize];
            let part = (pa % self.page / len) as u8;
            out.push(1 + frame * (self.page / len) as u8 + part);
            out.push((cache.tag_address(slot) / len) as u8);
            out.push(cache.dirty(slot));
            if part == 0 {
                out.push(names.value(word_of(cache.line(slot), 0), false));
                let dead = !oracle.word_truth(PhysAddr(pa)).valid;
                let last = dead || oracle.has_last(first_word(unit, slot), PhysAddr(pa));
                out.push(u8::from(last));
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
            let frame = names.frames[(entry.pa / self.page) as usize];
            out.push(frame << 4 | (entry.pa % self.page / 4) as u8);
            let kept = entry.pa.is_multiple_of(self.page);
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
            let dead = !kept || !world.observer.word_truth(pa).valid;
            let last = dead || world.observer.has_last(place, pa);
            out.push(u8::from(last) | u8::from(entry.outer) << 1);
        }
    }

    fn save_tlb(&self, machine: &Machine, names: &Names, out: &mut Vec<u8>) {
        let tlb = &machine.cpus[0].tlb;
        let (main, micro) = tlb.sizes();
        for (n, entry) in tlb.slots().enumerate() {
            let of_data = (main..main + micro).contains(&n);
            let told = *entry != EMPTY && !(of_data && self.redundant(machine, entry));
            if !told {
                out.push(0);
                continue;
            }
            let frame = names.frames[(entry.base / self.page) as usize];
            let bits = u8::from(entry.cacheable) | u8::from(entry.bufferable) << 1;
            out.push(1 + (entry.tag / self.page) as u8);
            out.push(frame << 5 | bits << 2 | entry.ap);
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
