//! The mappings that tables are about, and the tiny world that they are made in.

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
    let rights = match prot {
        R => "r",
        RX => "rx",
        RW => "rw",
        _ => "rwx",
    };
    match who {
        Who::Buffer => "k".to_owned(),
        Who::Kernel => format!("K:{rights}"),
        Who::This => format!("A:{rights}"),
        Who::Other => format!("B:{rights}"),
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

    /// The mappings that are there.
    pub fn present(&self) -> Vec<usize> {
        let there = |n: &usize| self.look(*n).is_some();
        (0..self.ways.len()).filter(there).collect()
    }

    /// Which mappings are not cached, and what else is odd about them; empty if all are cached.
    pub fn seen(&self) -> String {
        let all: Vec<usize> = (0..self.ways.len()).collect();
        self.seen_of(&all)
    }

    /// The same of these mappings only, which are numbered from 1 in this order.
    pub fn seen_of(&self, order: &[usize]) -> String {
        let numbered = order.iter().enumerate();
        let seen: Vec<(usize, Seen)> = numbered
            .filter_map(|(place, n)| Some((place + 1, self.look(*n)?)))
            .collect();
        let list = |is: fn(&Seen) -> bool| {
            let these = seen.iter().filter(|(_, s)| is(s));
            let these: Vec<String> = these.map(|(n, _)| n.to_string()).collect();
            match these.len() {
                n if n == order.len() && n > 1 => "all".to_owned(),
                _ => these.join(" "),
            }
        };
        let parts = [
            ("uncached", list(|s| !s.cached && s.flagged)),
            ("uncached, not flagged", list(|s| !s.cached && !s.flagged)),
            (
                "flagged uncached, but cached",
                list(|s| s.cached && s.flagged),
            ),
            ("read-only", list(|s| s.buffer && !s.writable)),
        ];
        let said = parts.iter().filter(|(_, who)| !who.is_empty());
        let said: Vec<String> = said.map(|(what, who)| format!("{what}: {who}")).collect();
        said.join("; ")
    }

    fn look(&self, n: usize) -> Option<Seen> {
        let (who, va) = (self.ways[n].0, self.va(n));
        let pmap = self.world.pmap();
        let page = pmap.page(self.page());
        let buffer = who == Who::Buffer;
        if page.kva == va && who.space().is_kernel() {
            return Some(Seen {
                buffer,
                cached: page.kva_pte.cacheable(),
                flagged: false,
                writable: page.kva_pte.writable(),
            });
        }
        let entry = pmap
            .mappings(self.page())
            .find(|m| m.space == who.space() && m.va == va)?;
        Some(Seen {
            buffer,
            cached: entry.pte.cacheable(),
            flagged: entry.flags.contains(PvFlags::NC),
            writable: entry.pte.writable(),
        })
    }
}

/// One mapping, as it is.
struct Seen {
    buffer: bool,
    cached: bool,
    flagged: bool,
    writable: bool,
}
