//! Whether the contract of [`super::scope`] allows an action in the present world.

use machine::{Frame, VirtAddr};
use pmap::{PmapCtx, PvEntry, PvFlags, SpaceId};

use super::scope::{Act, Phase};
use crate::op::{Page, Space, Va, frame};
use crate::oracle::Oracle;
use crate::world::World;

/// What the contract looks at.
pub struct Facts<'a> {
    /// The world before the action.
    pub world: &'a World<Oracle>,
    /// The buffer's phase.
    pub phase: Phase,
    /// The frame that the buffer maps.
    pub buffered: Option<Frame>,
}

impl Facts<'_> {
    fn runs(&self, space: Space) -> bool {
        self.world.pmap().cpus[0].current == Some(SpaceId(u16::from(space.0)))
    }

    fn mapping(&self, space: Space, va: Va) -> Option<&PvEntry> {
        let space = SpaceId(u16::from(space.0));
        let pmap = self.world.pmap();
        let frames = [Frame(0), Frame(1)].into_iter();
        let mut all = frames.flat_map(|f| pmap.mappings(f));
        all.find(|m| m.space == space && m.va == VirtAddr(va.0))
    }

    fn flags(&self, space: Space, va: Va) -> Option<PvFlags> {
        self.mapping(space, va).map(|m| m.flags)
    }

    /// Whether the mapping there is the only one of its page in the space.
    fn once(&self, space: Space, va: Va) -> bool {
        let pmap = self.world.pmap();
        self.mapping(space, va).is_some_and(|m| {
            let same = pmap.mappings(m.frame).filter(|o| o.space == m.space);
            same.count() == 1
        })
    }

    fn frame(&self, page: Page) -> Frame {
        frame(self.world, page)
    }

    fn has_user(&self, frame: Frame) -> bool {
        let mut all = self.world.pmap().mappings(frame);
        all.any(|m| !m.space.is_kernel())
    }

    fn mapped(&self, frame: Frame) -> bool {
        self.buffered == Some(frame) || self.has_user(frame)
    }

    /// Whether the contract allows the action now.
    pub fn allow(&self, act: Act) -> bool {
        let phase = self.phase;
        match act {
            Act::User(s, va) => self.runs(s) && self.reaches(va),
            Act::Fetch(s, va) => {
                let known = self.flags(s, va);
                let fine = known.is_none_or(|f| f.contains(PvFlags::EXEC));
                self.runs(s) && fine && self.reaches(va)
            }
            Act::Enter(s, _, page) => {
                let invalid = phase == Phase::New && self.buffered == Some(self.frame(page));
                self.runs(s) && !invalid
            }
            Act::Mapped(s, va) => self.runs(s) && self.flags(s, va).is_some(),
            Act::Sync(s, va) => self.runs(s) && self.once(s, va),
            Act::Protect(s, va) => {
                let writes = |f: PvFlags| f.contains(PvFlags::WRITE);
                self.runs(s) && self.flags(s, va).is_some_and(writes)
            }
            Act::Switch(s) => !self.runs(s),
            Act::Kernel => self.world.pmap().cpus[0].current.is_some(),
            Act::Map(_) => phase == Phase::None,
            Act::Fill => phase == Phase::New && self.buffered.is_some_and(|f| !self.has_user(f)),
            Act::Idle(_) => phase == Phase::Idle,
            Act::Held(_) => phase.acquired(),
            Act::Store => phase >= Phase::Writing,
            Act::Unmapped(page) => !self.mapped(self.frame(page)),
            Act::Copy(from, page) => !self.mapped(self.frame(page)) && self.is_filled(from),
            Act::Paging(page, exempt) => {
                let frame = self.frame(page);
                let held = self.buffered == Some(frame) && (exempt || phase.acquired());
                self.has_user(frame) && !held
            }
            Act::Ahead(va) => {
                let live = self.world.pmap().cpus[0].live;
                let known = live.and_then(|s| self.flags(Space(s.0 as u8), va));
                known.is_none_or(|f| f.contains(PvFlags::EXEC)) && self.reaches(va)
            }
            Act::Drain => self.world.state.machine.cpus[0].write.waiting() > 0,
            Act::Forget(va) => self.copied(va),
            Act::Prefetch(va) => self.reaches(va),
            Act::Evict(va) => line(&self.world.state.machine.cpus[0].dcache, va),
            Act::EvictInstruction(va) => line(&self.world.state.machine.cpus[0].icache, va),
        }
    }

    /// Whether the page's word, the only one that a search knows, was stored.
    fn is_filled(&self, page: Page) -> bool {
        let bytes = self.world.pmap().layout.page;
        let pa = machine::PhysAddr(self.frame(page).0 * bytes);
        self.world.observer.word_truth(pa).valid
    }

    /// Whether a TLB copy translates the address.
    fn copied(&self, va: Va) -> bool {
        let mut copies = self.world.state.machine.cpus[0].tlb.slots();
        copies.any(|e| e.matches(va.0))
    }

    /// Whether an access there could do anything but fault: a copy or the live table translates it.
    fn reaches(&self, va: Va) -> bool {
        let machine = &self.world.state.machine;
        let index = machine.flat_index(machine.cpus[0].ttb, va.0 / machine.page_bytes());
        index.is_some_and(|n| machine.flat[n] != 0) || self.copied(va)
    }
}

fn line(cache: &machine::cache::Cache, va: Va) -> bool {
    cache.valid_slots().any(|s| cache.tag_address(s) == va.0)
}
