//! Laws of pv lists and page tables: the verbs beside a naive model, over random histories.
//!
//! The model is two lists a page, written from the rule alone: a single unmanaged mapping is in `pv_kva`, a
//! second mapping moves it to the list, and it moves back when it is alone again (`pmap-freebsd-netbsd.md`
//! 1.3). Tables are judged by a walk of the hardware, which sees only what was synced.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{Abort, CpuId, Frame, Hw, Machine, Mark, Profile, Step, VirtAddr, Width};
use quickcheck::{Arbitrary, Gen, QuickCheck};

use crate::policy::{self, Policy};
use crate::{Pmap, PmapCtx, PmapVerbs, Prot, PvFlags, SpaceId};

const CPU: CpuId = CpuId(0);
const K: SpaceId = SpaceId::KERNEL;

/// A machine with a pmap and nobody watching.
struct Bench {
    machine: Machine,
    pmap: Pmap,
    policy: Policy,
}

impl Bench {
    /// Two user spaces, the first running.
    fn new(machine: &str, policy: &str) -> Self {
        let profile: Arc<Profile> = Profile::embedded(machine).expect("an embedded machine");
        let mut machine = Machine::new(profile);
        let pmap = Pmap::bootstrap(&mut machine);
        let policy = policy::by_name(policy).expect("a policy");
        let mut bench = Self {
            machine,
            pmap,
            policy,
        };
        assert_eq!(bench.pmap_create(CPU), Some(SpaceId(1)));
        assert_eq!(bench.pmap_create(CPU), Some(SpaceId(2)));
        bench.cpu_switch(CPU, Some(SpaceId(1)));
        bench
    }
}

impl Hw for Bench {
    fn hw(&self) -> &Machine {
        &self.machine
    }
    fn step(&mut self, cpu: CpuId, step: Step) {
        self.machine.apply(cpu, &step, &mut ());
    }
    fn load(&mut self, cpu: CpuId, va: VirtAddr, width: Width, user: bool) -> Result<u32, Abort> {
        self.machine.load(cpu, va, width, user, &mut ())
    }
    fn store(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
    ) -> Result<(), Abort> {
        self.machine.store(cpu, va, width, value, user, &mut ())
    }
    fn mark(&mut self, _cpu: CpuId, _mark: Mark) {}
    fn charge(&mut self, _cpu: CpuId, _operation: &'static str) {}
}

impl PmapCtx for Bench {
    fn pmap(&self) -> &Pmap {
        &self.pmap
    }
    fn pmap_mut(&mut self) -> &mut Pmap {
        &mut self.pmap
    }
    fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// A verb, by small numbers.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Enter {
        space: u16,
        slot: u32,
        page: u32,
        write: bool,
    },
    Remove {
        space: u16,
        slot: u32,
        pages: u32,
    },
    RemovePages(u16),
    Protect {
        space: u16,
        slot: u32,
    },
    RemoveAll(u32),
    RemoveWrite(u32),
    ClearReference(u32),
    Kenter {
        slot: u32,
        page: u32,
    },
    Kremove(u32),
    Switch(u16),
}

impl Arbitrary for Verb {
    fn arbitrary(g: &mut Gen) -> Self {
        let space = 1 + u16::arbitrary(g) % 2;
        let (slot, page) = (u32::arbitrary(g) % 4, u32::arbitrary(g) % 3);
        match u8::arbitrary(g) % 16 {
            0..=4 => Verb::Enter {
                space,
                slot,
                page,
                write: bool::arbitrary(g),
            },
            5..=6 => Verb::Remove {
                space,
                slot,
                pages: 1 + page,
            },
            7 => Verb::RemovePages(space),
            8 => Verb::Protect { space, slot },
            9 => Verb::RemoveAll(page),
            10 => Verb::RemoveWrite(page),
            11 => Verb::ClearReference(page),
            12..=13 => Verb::Kenter { slot, page },
            14 => Verb::Kremove(slot),
            _ => Verb::Switch(space),
        }
    }
}

/// One page's mappings, newest first, and its single untracked one.
#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    list: Vec<(SpaceId, u32)>,
    kva: Option<u32>,
}

impl Page {
    fn enter(&mut self, space: SpaceId, va: u32) {
        if space == K && self.list.is_empty() && self.kva.is_none() {
            self.kva = Some(va);
            return;
        }
        let moved = self.kva.take().map(|kva| (K, kva));
        self.list
            .splice(0..0, [Some((space, va)), moved].into_iter().flatten());
    }

    fn leave(&mut self, space: SpaceId, va: u32) {
        if space == K && self.kva == Some(va) {
            self.kva = None;
        }
        self.list.retain(|m| *m != (space, va));
        if let [(K, kva)] = self.list[..] {
            self.list.clear();
            self.kva = Some(kva);
        }
    }
}

#[derive(Default)]
struct Model {
    pages: [Page; 3],
    maps: BTreeMap<(SpaceId, u32), u32>,
}

impl Model {
    fn leave(&mut self, space: SpaceId, va: u32) {
        if let Some(page) = self.maps.remove(&(space, va)) {
            self.pages[page as usize].leave(space, va);
        }
    }
}

/// Addresses of a machine.
struct Ground {
    user: u32,
    kernel: u32,
    page: u32,
    first: u32,
}

impl Ground {
    fn new(bench: &Bench) -> Self {
        let layout = &bench.pmap.layout;
        let flat = layout.first_frame == 0;
        Self {
            user: if flat { 0 } else { 0x000f_e000 },
            kernel: layout.buffer_map.0.0,
            page: layout.page,
            first: layout.first_frame,
        }
    }

    fn user(&self, slot: u32) -> u32 {
        self.user + slot * self.page
    }

    fn kernel(&self, slot: u32) -> u32 {
        self.kernel + slot * self.page
    }
}

fn apply(bench: &mut Bench, model: &mut Model, ground: &Ground, verb: Verb) {
    let frame = |page: u32| Frame(ground.first + page);
    match verb {
        Verb::Enter {
            space,
            slot,
            page,
            write,
        } => {
            let (space, va) = (SpaceId(space), ground.user(slot));
            let prot = if write {
                Prot::READ | Prot::WRITE
            } else {
                Prot::READ
            };
            bench.pmap_enter(CPU, space, VirtAddr(va), frame(page), prot, false);
            if model.maps.get(&(space, va)) != Some(&page) {
                model.leave(space, va);
                model.maps.insert((space, va), page);
                model.pages[page as usize].enter(space, va);
            }
        }
        Verb::Remove { space, slot, pages } => {
            let (space, start) = (SpaceId(space), ground.user(slot));
            let end = ground.user((slot + pages).min(4));
            bench.pmap_remove(CPU, space, VirtAddr(start), VirtAddr(end));
            let all = (start..end).step_by(ground.page as usize);
            all.for_each(|va| model.leave(space, va));
        }
        Verb::RemovePages(space) => {
            bench.pmap_remove_pages(CPU, SpaceId(space));
            (0..4).for_each(|slot| model.leave(SpaceId(space), ground.user(slot)));
        }
        Verb::Protect { space, slot } => {
            let (start, end) = (ground.user(slot), ground.user(slot + 1));
            bench.pmap_protect(
                CPU,
                SpaceId(space),
                VirtAddr(start),
                VirtAddr(end),
                Prot::READ,
            );
        }
        Verb::RemoveAll(page) => {
            // With an unmanaged mapping on the list, historic skeletons lose track (B27).
            if !model.pages[page as usize].list.iter().any(|(s, _)| *s == K) {
                bench.pmap_remove_all(CPU, frame(page));
                let gone = model.pages[page as usize].list.clone();
                gone.into_iter().for_each(|(s, va)| model.leave(s, va));
            }
        }
        Verb::RemoveWrite(page) => bench.pmap_remove_write(CPU, frame(page)),
        Verb::ClearReference(page) => drop(bench.pmap_ts_referenced(CPU, frame(page))),
        Verb::Kenter { slot, page } => {
            let va = ground.kernel(slot);
            if let std::collections::btree_map::Entry::Vacant(free) = model.maps.entry((K, va)) {
                bench.pmap_kenter(CPU, VirtAddr(va), frame(page));
                free.insert(page);
                model.pages[page as usize].enter(K, va);
            }
        }
        Verb::Kremove(slot) => {
            let va = ground.kernel(slot);
            if model.maps.contains_key(&(K, va)) {
                bench.pmap_kremove(CPU, VirtAddr(va));
                model.leave(K, va);
            }
        }
        Verb::Switch(space) => bench.cpu_switch(CPU, Some(SpaceId(space))),
    }
}

/// What the pmap has for a page.
fn recorded(pmap: &Pmap, frame: Frame) -> Page {
    let kva = pmap.page(frame).kva.0;
    Page {
        list: pmap.mappings(frame).map(|m| (m.space, m.va.0)).collect(),
        kva: (kva != 0).then_some(kva),
    }
}

fn agree(bench: &mut Bench, model: &Model, ground: &Ground) -> Result<(), String> {
    for (n, page) in model.pages.iter().enumerate() {
        let has = recorded(&bench.pmap, Frame(ground.first + n as u32));
        if has != *page {
            return Err(format!("page {n}: {has:x?}, the model has {page:x?}"));
        }
    }
    let listed: usize = model.pages.iter().map(|p| p.list.len()).sum();
    if bench.pmap.pvs.len() > listed.max(3 * 12) {
        return Err("records of mappings that are gone are not used again".to_owned());
    }
    for space in [K, SpaceId(1), SpaceId(2)] {
        for slot in 0..4 {
            let va = if space == K {
                ground.kernel(slot)
            } else {
                ground.user(slot)
            };
            walked(bench, model, ground, (space, va))?;
        }
    }
    Ok(())
}

/// What `pmap_extract` says of every space, and the hardware's walk of the running one.
fn walked(
    bench: &mut Bench,
    model: &Model,
    ground: &Ground,
    (space, va): (SpaceId, u32),
) -> Result<(), String> {
    let mapped = model
        .maps
        .get(&(space, va))
        .map(|p| Frame(ground.first + p));
    let extracted = bench.pmap_extract(space, VirtAddr(va));
    if extracted != mapped {
        return Err(format!(
            "{space} {va:#x} maps {mapped:?}, extract says {extracted:?}"
        ));
    }
    if space != K && bench.pmap.cpus[0].current != Some(space) {
        return Ok(());
    }
    if space == K {
        // `pmap_kremove` does not sync the zero that it stores (3.2); it may wait in the write buffer.
        bench.step(CPU, Step::Drain);
    }
    let walk = bench.machine.walk(CPU, VirtAddr(va), &mut ());
    // An entry may be invalid for reference emulation, or its slot another space's: never wrong.
    let found = walk
        .ok()
        // The slot may be another space's: then its domain keeps this one out.
        .filter(|e| (bench.machine.cpu(CPU).dacr >> (e.domain * 2)) & 3 != 0)
        .map(|e| bench.machine.frame_of(machine::PhysAddr(e.base)));
    match found {
        Some(frame) if mapped != Some(frame) => Err(format!(
            "{space} {va:#x} maps {mapped:?}, the walk finds {frame}"
        )),
        _ => Ok(()),
    }
}

fn follows(machine: &str, policy: &str, verbs: &[Verb]) -> Result<(), String> {
    let mut bench = Bench::new(machine, policy);
    let (mut model, ground) = (Model::default(), Ground::new(&bench));
    for verb in verbs {
        apply(&mut bench, &mut model, &ground, *verb);
        agree(&mut bench, &model, &ground).map_err(|e| format!("{verb:?}: {e}"))?;
    }
    Ok(())
}

#[test]
fn lists_and_tables_follow_the_naive_model() {
    fn law(verbs: Vec<Verb>) -> Result<(), String> {
        let tiny = ["none", "freebsd-2010", "always-flush"];
        tiny.iter()
            .try_for_each(|p| follows("tiny-vivt", p, &verbs))?;
        follows("sheevaplug", "freebsd-2010", &verbs)
    }
    let mut quick = QuickCheck::new().tests(150);
    quick.quickcheck(law as fn(Vec<Verb>) -> Result<(), String>);
}

#[test]
fn a_page_is_writeable_while_a_managed_mapping_may_write_it() {
    fn law(verbs: Vec<Verb>) -> bool {
        let mut bench = Bench::new("tiny-vivt", "freebsd-2010");
        let (mut model, ground) = (Model::default(), Ground::new(&bench));
        verbs.iter().all(|verb| {
            apply(&mut bench, &mut model, &ground, *verb);
            (0..3).map(Frame).all(|frame| {
                let managed = |m: &&crate::PvEntry| !m.flags.contains(PvFlags::UNMAN);
                let mut maps = bench.pmap.mappings(frame).filter(managed);
                let writer = maps.any(|m| m.flags.contains(PvFlags::WRITE));
                !writer || bench.pmap.page(frame).writeable
            })
        })
    }
    let mut quick = QuickCheck::new().tests(300);
    quick.quickcheck(law as fn(Vec<Verb>) -> bool);
}
