//! One page, two user spaces A (current) and B, and the kernel K, under a policy: what the golden vectors
//! and the restatement of the alias policy are run on.

use lab::journal::{Detail, Entry};
use lab::{State, World};
use machine::{CpuId, Frame, Profile, VirtAddr};
use pmap::{PmapVerbs, Prot, PvFlags, SpaceId};

pub const CPU: CpuId = CpuId(0);
pub const PAGE: Frame = Frame(0x900);
pub const K: SpaceId = SpaceId::KERNEL;
pub const A: SpaceId = SpaceId(1);
pub const B: SpaceId = SpaceId(2);
pub const R: Prot = Prot::READ;
pub const RX: Prot = Prot::READ.union(Prot::EXEC);
pub const RW: Prot = Prot::READ.union(Prot::WRITE);

/// The first or second address of a space.
pub fn at(space: SpaceId, n: u32) -> VirtAddr {
    let base = if space == K { 0xd040_0000 } else { 0x0001_0000 };
    VirtAddr(base + u32::from(space.0) * 0x0010_0000 + (n - 1) * 0x1_0000)
}

/// `K@1`, `A@2`, ... as the vectors name mappings; an address of its own otherwise.
pub fn name(space: SpaceId, va: VirtAddr) -> String {
    match [1, 2].into_iter().find(|n| at(space, *n) == va) {
        Some(n) => format!("{space}@{n}"),
        None => format!("{space}@{va}"),
    }
}

/// A page under a policy.
pub struct Bench(pub World<()>);

impl Bench {
    pub fn new(policy: &str) -> Self {
        let profile = Profile::embedded("sheevaplug").unwrap();
        let policy = pmap::policy::by_name(policy).unwrap();
        let mut world = World::new(State::boot(profile), policy, ());
        assert_eq!(world.pmap_create(CPU), Some(A));
        assert_eq!(world.pmap_create(CPU), Some(B));
        world.cpu_switch(CPU, Some(A));
        world.journal.detail = Detail::Plans;
        Self(world)
    }

    /// Runs one verb and returns the maintenance it did, in order: `operation mapping`. The second-level
    /// operation that goes with each range operation is not written.
    pub fn run(&mut self, verb: impl FnOnce(&mut World<()>)) -> Vec<String> {
        self.0.journal.take();
        verb(&mut self.0);
        let entries = self.0.journal.take();
        let steps = entries.iter().filter_map(|(_, e)| match e {
            Entry::Planned(s) if s.what.is_maintenance() => Some(*s),
            _ => None,
        });
        let text = |s: pmap::plan::PlanStep| match (s.va.0, s.len) {
            (0, 0) => s.what.name().to_owned(),
            _ => format!("{} {}", s.what.name(), name(s.space, s.va)),
        };
        steps
            .filter(|s| !s.what.name().starts_with("l2"))
            .map(text)
            .collect()
    }

    pub fn enter(&mut self, space: SpaceId, n: u32, prot: Prot) -> Vec<String> {
        self.run(|w| assert!(w.pmap_enter(CPU, space, at(space, n), PAGE, prot, false)))
    }

    pub fn remove(&mut self, space: SpaceId, n: u32) -> Vec<String> {
        let va = at(space, n);
        self.run(|w| w.pmap_remove(CPU, space, va, va.add(4096)))
    }

    /// The page's mappings, newest first: name, flag NC, entry cacheable.
    pub fn list(&self) -> Vec<(String, bool, bool)> {
        let mappings = self.0.state.pmap.mappings(PAGE);
        let nc = |m: &pmap::PvEntry| m.flags.contains(PvFlags::NC);
        mappings
            .map(|m| (name(m.space, m.va), nc(m), m.pte.cacheable()))
            .collect()
    }

    /// The mappings in order of their names, `C` or `u` by their flag, and their entry where it differs.
    pub fn mappings(&self) -> String {
        let c = |uncached: bool| if uncached { 'u' } else { 'C' };
        let mut list = self.list();
        list.sort();
        let text = |(name, nc, cacheable): &(String, bool, bool)| {
            let entry = if *nc == *cacheable {
                format!("(pte {})", c(!cacheable))
            } else {
                String::new()
            };
            format!("{name} {}{entry}", c(*nc))
        };
        list.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
