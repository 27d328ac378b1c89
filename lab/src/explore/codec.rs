//! A state as bytes: canonical, so that equal bytes are equal futures, and complete, so that the world can be
//! rebuilt from them.
//!
//! Of a page only the first word is kept: it is the one that operations reach. What stays out besides decides
//! nothing: cycles, stamps (see `oracle::snapshot`), free records, `dirty` (the VM's),
//! victim pointers of direct-mapped parts, the fetch buffer of one word (a fetch never finds what it wants in
//! it), and the layers above the pmap, which no operation here reaches.
//!
//! Canonical form, if symmetry is on:
//! 1. Values. Judgements compare a copy only with the truth of some word and with what its fetches had to
//!    see before; a store brings a value never seen. So these values are numbered in order of appearance,
//!    and every other value is `OTHER`. Zero keeps its identity where pages are zeroed.
//! 2. Processes. The live space is called 1. Programs of both spaces can do the same.
//! 3. Frames are numbered in order of appearance in the tables, the TLB and the caches.
//! 4. MOD, and what a page remembers of mappings gone, are left out where no page daemon asks for them: no
//!    rule looks at MOD (a test sees to it).
//! 5. A data-side micro-TLB entry that equals the main part's is left out if every page has a set of its
//!    own: whatever removes the main part's entry removes it too.
//!
//! With symmetry off nothing is renamed but values, in order of appearance, all of them apart.

use machine::cache::Cache;
use machine::profile::{CacheProfile, Lookup, Replacement, TableProfile};
use machine::tlb::{EMPTY, TlbEntry};
use machine::{CpuId, Frame, Machine, PhysAddr, Place, Profile, Pte, Unit, VirtAddr};
use pmap::{PvFlags, SpaceId};

use super::scope::{Phase, Scope};
use crate::op::CPU0;
use crate::oracle::{Oracle, WordTruth};
use crate::world::World;

/// A value that nothing can be compared with.
const OTHER: u8 = 255;
/// Most frames, and most bytes of a page.
const FRAMES: usize = 8;
const PAGE: usize = 32;

/// What makes two states equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symmetry {
    /// Canonical form.
    On,
    /// Only values are renamed.
    Off,
}

/// Reads and writes states of one machine.
#[derive(Clone, Debug)]
pub struct Codec {
    symmetry: Symmetry,
    page: u32,
    frames: u8,
    user: u32,
    kernel: u32,
    spaces: u16,
    zero: bool,
    /// The page daemon's verbs are tried: nothing else looks at what a page remembers of its mappings.
    paging: bool,
    /// Every page has a TLB set of its own.
    roomy: bool,
}

/// Where reading stands, and the names used.
struct Names {
    /// Canonical space to real one.
    spaces: [u16; 4],
    /// Real frame to canonical one.
    frames: [u8; FRAMES],
    order: [u8; FRAMES],
    values: [u32; 128],
    used: u8,
    exact: bool,
}

impl Names {
    fn value(&mut self, value: u32, distinguished: bool) -> u8 {
        let known = &self.values[..usize::from(self.used)];
        if let Some(n) = known.iter().position(|v| *v == value) {
            return n as u8;
        }
        if !(distinguished || self.exact) || usize::from(self.used) == self.values.len() {
            return OTHER;
        }
        self.values[usize::from(self.used)] = value;
        self.used += 1;
        self.used - 1
    }

    fn space(&self, real: SpaceId) -> u8 {
        let is = |s: &u16| *s == real.0;
        self.spaces.iter().position(is).unwrap_or(0) as u8
    }
}

/// A reader of packed bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    #[inline]
    fn take(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("a packed state is complete");
        self.0 = rest;
        *first
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes([self.take(), self.take()])
    }
}

/// What the codec cannot keep; in words for the user.
fn unsupported(profile: &Profile) -> Option<&'static str> {
    let aged = |c: &CacheProfile| c.ways > 1 && !matches!(c.replacement, Replacement::RoundRobin);
    let flat = matches!(profile.table, TableProfile::Flat { .. });
    let rules = [
        (flat, "a flat table"),
        (profile.cpus == 1, "one CPU"),
        (profile.l2.is_none(), "no second level"),
        (
            profile.icache.lookup == Lookup::Vivt && profile.dcache.lookup == Lookup::Vivt,
            "VIVT caches",
        ),
        (
            !aged(&profile.icache) && !aged(&profile.dcache),
            "round-robin replacement",
        ),
        (
            profile.fetch_buffer.words == 1,
            "a fetch buffer of one word",
        ),
        (!profile.write_buffer.eviction, "no eviction buffer"),
        (profile.frames() <= FRAMES as u32, "at most 8 frames"),
        (profile.page <= PAGE as u32, "pages of at most 32 bytes"),
        (profile.tlb.lockdown == 0, "no TLB lockdown"),
        (
            profile.write_buffer.bytes == 4,
            "write-buffer entries of one word",
        ),
    ];
    rules
        .iter()
        .find(|(holds, _)| !holds)
        .map(|(_, what)| *what)
}

impl Codec {
    /// A codec for a machine and what is tried on it.
    ///
    /// # Errors
    /// What the machine would have to have.
    pub fn new(profile: &Profile, symmetry: Symmetry, scope: &Scope) -> Result<Self, String> {
        if let Some(what) = unsupported(profile) {
            return Err(format!("{}: exhaustive search needs {what}", profile.name));
        }
        let TableProfile::Flat {
            spaces,
            user_pages,
            kernel_pages,
        } = profile.table
        else {
            return Err("a flat table".to_owned());
        };
        let sets = profile.tlb.entries / profile.tlb.ways;
        Ok(Self {
            symmetry,
            page: profile.page,
            frames: profile.frames() as u8,
            user: user_pages,
            kernel: kernel_pages,
            spaces: (spaces as u16).min(3),
            zero: scope.windows,
            paging: scope.paging || symmetry == Symmetry::Off,
            roomy: sets >= user_pages + kernel_pages,
        })
    }

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

    fn table_pages(&self, spaces: [u16; 4]) -> impl Iterator<Item = (u32, u32)> {
        let (user, kernel) = (self.user, self.kernel);
        let of_kernel = (user..user + kernel).map(|p| (0, p));
        let all = usize::from(self.spaces);
        let of_users =
            (1..all).flat_map(move |s| (0..user).map(move |p| (u32::from(spaces[s]), p)));
        of_kernel.chain(of_users)
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

    fn pte(&self, names: &Names, raw: u32) -> u8 {
        let pte = Pte(raw);
        if !pte.present() {
            return 0;
        }
        names.frames[pte.frame().0 as usize] << 5
            | u8::from(pte.valid()) << 4
            | ((raw >> 2 & 3) as u8) << 2
            | pte.ap()
    }

    fn pte_from(byte: u8) -> Pte {
        if byte == 0 {
            return Pte::ZERO;
        }
        let ap = [
            machine::Ap::KernelRead,
            machine::Ap::Kernel,
            machine::Ap::UserRead,
            machine::Ap::User,
        ][usize::from(byte & 3)];
        let pte = Pte::new(Frame(u32::from(byte >> 5)), ap).with_valid(byte & 16 != 0);
        Pte(pte.0 & !0xc | u32::from(byte >> 2 & 3) << 2)
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

fn first_word(unit: Unit, slot: u32) -> Place {
    Place::Line {
        unit,
        slot,
        offset: 0,
    }
}

fn word_of(bytes: &[u8], at: u32) -> u32 {
    let n = at as usize;
    u32::from_le_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]])
}
