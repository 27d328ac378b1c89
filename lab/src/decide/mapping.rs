//! The mappings that tables are about, and the tiny world that they are made in.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{Frame, Hw, Profile, VirtAddr};
use pmap::{PmapCtx, PmapVerbs, Policy, Prot, PvFlags, SpaceId};

use crate::journal::Detail;
use crate::op::{CPU0, Page, frame};
use crate::world::{State, World};

/// The user space that runs, or ran last.
pub const A: SpaceId = SpaceId(1);
/// Another one.
pub const B: SpaceId = SpaceId(2);

/// Whose mapping it is, and how it is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// The buffer cache's.
    Buffer,
    /// The kernel's, managed.
    Kernel,
    /// The user space that runs.
    This,
    /// Another.
    Other,
}

/// A mapping: who and with which rights.
pub type Way = (Who, Prot);

const R: Prot = Prot::READ;
const RX: Prot = Prot::READ.union(Prot::EXEC);
const RW: Prot = Prot::READ.union(Prot::WRITE);

/// Every way to map a page.
pub fn ways() -> Vec<Way> {
    let mut all = vec![(Who::Buffer, RW), (Who::Kernel, R), (Who::Kernel, RW)];
    for who in [Who::This, Who::Other] {
        all.extend([R, RW, RX, Prot::all()].map(|prot| (who, prot)));
    }
    all
}

/// Its name in tables.
pub fn name((who, prot): Way) -> String {
    let space = match who {
        Who::Buffer => return "k".to_owned(),
        Who::Kernel => "K",
        Who::This => "A",
        Who::Other => "B",
    };
    format!("{space}:{}", letters(prot))
}

/// Its name where its space is told apart.
pub fn rights((who, prot): Way) -> String {
    match who {
        Who::Buffer => "k".to_owned(),
        _ => format!("m:{}", letters(prot)),
    }
}

fn letters(prot: Prot) -> &'static str {
    match prot {
        R => "r",
        RX => "rx",
        RW => "rw",
        _ => "rwx",
    }
}

impl Who {
    /// The space.
    pub fn space(self) -> SpaceId {
        match self {
            Who::Buffer | Who::Kernel => SpaceId::KERNEL,
            Who::This => A,
            Who::Other => B,
        }
    }
}

/// Who runs while mappings change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Situation {
    /// A.
    Runs,
    /// A kernel thread; A ran before and may still be live.
    Thread,
}

impl Situation {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Situation::Runs => "A runs",
            Situation::Thread => "thread",
        }
    }
}

/// A tiny world with mappings of one page.
#[derive(Clone)]
pub struct Bench {
    /// The world.
    pub world: World<()>,
    /// The mappings, in the order entered.
    pub ways: Vec<Way>,
}

impl Bench {
    /// A world without mappings.
    ///
    /// # Panics
    /// If the tiny machine is not there.
    pub fn new(policy: &Policy, situation: Situation) -> Self {
        let profile: Arc<Profile> = Profile::embedded("tiny-vivt").expect("it is embedded");
        let mut world = World::new(State::boot(profile), policy.clone(), ());
        world.journal.detail = Detail::Plans;
        assert_eq!(world.pmap_create(CPU0), Some(A));
        assert_eq!(world.pmap_create(CPU0), Some(B));
        world.cpu_switch(CPU0, Some(A));
        if situation == Situation::Thread {
            world.cpu_switch(CPU0, None);
        }
        world.journal.take();
        Self {
            world,
            ways: Vec::new(),
        }
    }

    /// The page.
    pub fn page(&self) -> Frame {
        frame(&self.world, Page(0))
    }

    /// Where mapping number `n` is.
    pub fn va(&self, n: usize) -> VirtAddr {
        let step = n as u32 * self.world.hw().page_bytes();
        match self.ways[n].0 {
            Who::Buffer | Who::Kernel => self.world.pmap().layout.buffer_map.0.add(step),
            Who::This | Who::Other => VirtAddr(step),
        }
    }

    /// Maps the page once more.
    pub fn enter(&mut self, way: Way) {
        self.ways.push(way);
        self.make(self.ways.len() - 1);
    }

    /// Makes mapping number `n`, or gives it the rights it has now.
    pub fn make(&mut self, n: usize) {
        let ((who, prot), va, page) = (self.ways[n], self.va(n), self.page());
        match who {
            Who::Buffer => self.world.pmap_kenter(CPU0, va, page),
            _ => drop(
                self.world
                    .pmap_enter(CPU0, who.space(), va, page, prot, false),
            ),
        }
    }

    /// Unmaps number `n`.
    pub fn leave(&mut self, n: usize) {
        let (va, bytes) = (self.va(n), self.world.hw().page_bytes());
        let who = self.ways[n].0;
        match who {
            Who::Buffer => self.world.pmap_kremove(CPU0, va),
            _ => self.world.pmap_remove(CPU0, who.space(), va, va.add(bytes)),
        }
    }

    /// Takes number `n`'s write permission.
    pub fn protect(&mut self, n: usize) {
        let (va, bytes) = (self.va(n), self.world.hw().page_bytes());
        let (who, prot) = self.ways[n];
        self.ways[n].1 = prot - Prot::WRITE;
        self.world
            .pmap_protect(CPU0, who.space(), va, va.add(bytes), prot - Prot::WRITE);
    }

    /// How these mappings are, in this order; nothing of those that no list knows.
    pub fn states(&self, order: impl IntoIterator<Item = usize>) -> Vec<Option<Caching>> {
        order.into_iter().map(|n| self.look(n)).collect()
    }

    /// The mappings that are there.
    pub fn present(&self) -> Vec<usize> {
        let there = |n: &usize| self.look(*n).is_some();
        (0..self.ways.len()).filter(there).collect()
    }

    fn look(&self, n: usize) -> Option<Caching> {
        let (who, va) = (self.ways[n].0, self.va(n));
        let pmap = self.world.pmap();
        let page = pmap.page(self.page());
        let buffer = who == Who::Buffer;
        if page.kva == va && who.space().is_kernel() {
            return Some(Caching {
                cached: page.kva_pte.cacheable(),
                flagged: false,
                read_only: buffer && !page.kva_pte.writable(),
            });
        }
        let entry = pmap
            .mappings(self.page())
            .find(|m| m.space == who.space() && m.va == va)?;
        Some(Caching {
            cached: entry.pte.cacheable(),
            flagged: entry.flags.contains(PvFlags::NC),
            read_only: buffer && !entry.pte.writable(),
        })
    }
}

/// One mapping, as it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caching {
    cached: bool,
    flagged: bool,
    read_only: bool,
}

impl Caching {
    /// What a mapping is when nothing speaks against it.
    pub const USUAL: Caching = Caching {
        cached: true,
        flagged: false,
        read_only: false,
    };

    /// The state in words.
    pub fn name(self) -> String {
        let cached = match (self.cached, self.flagged) {
            (true, false) => "cached",
            (false, true) => "uncached",
            (false, false) => "uncached, not flagged",
            (true, true) => "flagged uncached, but cached",
        };
        match self.read_only {
            true => format!("{cached}, read-only"),
            false => cached.to_owned(),
        }
    }
}

/// Which mappings are not as they were to be, numbered from 1; empty if all are.
pub fn difference(
    states: &[Option<Caching>],
    usual: impl Iterator<Item = Option<Caching>>,
) -> String {
    let mut by_state: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (n, (is, was)) in states.iter().zip(usual).enumerate() {
        let Some(is) = is.filter(|_| *is != was) else {
            continue;
        };
        let numbers = by_state.entry(is.name()).or_default();
        numbers.push((n + 1).to_string());
    }
    let told = by_state.into_iter().map(|(state, numbers)| {
        let all = numbers.len() == states.len() && numbers.len() > 1;
        let numbers = if all {
            "all".to_owned()
        } else {
            numbers.join(" ")
        };
        format!("{state}: {numbers}")
    });
    told.collect::<Vec<_>>().join("; ")
}
