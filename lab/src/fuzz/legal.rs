//! Which operations a kernel above the pmap may make next, on bare pages.
//!
//! Fuzzers, property tests and the shrinker ask here, so that a finding is the policy's fault and never the
//! caller's. The rules are the contracts of the verbs (`pmap-freebsd-netbsd.md` 3) and of busdma:
//!
//! 1. `enter_quick` and `kenter` go to addresses that map nothing; `kremove` and `qremove` to what was made.
//! 2. A frame changes hands, is zeroed or copied into only while nobody maps it.
//! 3. The kernel loads and stores between `will` and `did`, and in a buffer only while it holds it.
//! 4. A device writes a page that no user maps and whose bytes do not matter; it reads one that no user may
//!    write at that time. Buffers are told.
//! 5. A program executes only what is mapped executable; `remove_pages` is of who runs, and `activate` comes from
//!    a process that runs, whose space stays or is exchanged (exec). A program syncs a page that it maps once: lines of
//!    another address are not reached by the one that it names.
//!
//! How a kernel calls its pmap differs ([`Caller`]): whether a writer says so when it takes a buffer, and whether
//! a page may have two kernel addresses, as FreeBSD's clustered transfers make them and NetBSD's never do.
//!
//! Absent: several CPUs, wired user mappings, prefetches that in-order cores do not make.

use std::sync::Arc;

use machine::Profile;
use machine::profile::TableProfile;
use pmap::skeleton::Part;
use pmap::{Layout, Policy};

use crate::op::{Event, Op, Page, Rights, Space, Use, Va};
use crate::oracle::Oracle;
use crate::system;
use crate::world::World;

/// User spaces.
pub const SPACES: usize = 2;

/// The world that legal sequences start from.
///
/// # Panics
/// The machine has no room for two spaces.
pub fn start(profile: Arc<Profile>, policy: Policy) -> World<Oracle> {
    system::bare(profile, policy, SPACES as u8).expect("a machine has room for two spaces")
}

/// The addresses and pages that sequences use on a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ground {
    /// Page size, bytes.
    pub page: u32,
    /// How many pages.
    pub pages: u8,
    /// User pages' addresses.
    pub user: Vec<u32>,
    /// Kernel pages' addresses: windows, then buffers.
    pub kernel: Vec<u32>,
    /// How many of them are windows.
    pub windows: usize,
    /// Where the pmap maps pages that it zeroes and copies.
    pub scratch: [u32; 2],
}

impl Ground {
    /// The ground on a machine: all of a tiny one, a few pages of another.
    pub fn new(profile: &Profile) -> Self {
        let layout = Layout::new(profile);
        let page = layout.page;
        let flat = matches!(profile.table, TableProfile::Flat { .. });
        let first = if flat { 0 } else { 0x8000 };
        let users = if flat { layout.user_end.0 / page } else { 4 };
        let windows = (layout.pager_map.1 / page).min(2);
        let buffers = (layout.buffer_map.1 / page).min(4);
        let at = |start: u32, n: u32| start + n * page;
        let kernel = (0..windows).map(|n| at(layout.pager_map.0.0, n));
        let buffer = (0..buffers).map(|n| at(layout.buffer_map.0.0, n));
        Self {
            page,
            pages: profile.frames().min(4) as u8,
            user: (0..users).map(|n| at(first, n)).collect(),
            kernel: kernel.chain(buffer).collect(),
            windows: windows as usize,
            scratch: layout.scratch.map(|va| va.0),
        }
    }

    /// The offset of one of four words of a page: the first, the last and two between, where there are so many.
    pub fn word(&self, n: u8) -> u32 {
        let last = self.page - 4;
        last.min(u32::from(n % 4) * (self.page / 3)) & !3
    }

    fn user_slot(&self, va: u32) -> Option<usize> {
        let base = va & !(self.page - 1);
        self.user.iter().position(|at| *at == base)
    }

    fn kernel_slot(&self, va: u32) -> Option<usize> {
        let base = va & !(self.page - 1);
        self.kernel.iter().position(|at| *at == base)
    }
}

/// A user mapping as the layer above knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserMap {
    /// Which page.
    pub page: u8,
    /// Rights given.
    pub rights: Rights,
    /// Whether a store goes through without a fault that the VM must handle.
    pub write: bool,
}

/// Who holds a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// Nobody: it lingers.
    No,
    /// A reader.
    Read,
    /// A writer.
    Write,
}

/// A kernel mapping as the layer above knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelMap {
    /// Which page.
    pub page: u8,
    /// A buffer's first slot and pages; `None` for a window.
    pub buffer: Option<(u8, u8)>,
    /// Who holds the buffer.
    pub held: Held,
}

/// What must come next, hardware aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    /// Kernel accesses, then `did`.
    Use(Use, u32, u32),
    /// A buffer's event.
    Tell(Event, u32),
    /// A transfer into (`true`) or out of a buffer, and its end.
    Io(bool, u32),
}

/// How the kernel that calls the pmap works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Whether writers announce themselves when they acquire a buffer.
    pub announces: bool,
    /// Whether a page may have two kernel mappings at a time.
    pub aliases: bool,
}

impl Caller {
    /// The caller that a policy is written for.
    pub fn of(policy: &Policy) -> Self {
        Self {
            announces: !policy.name.ends_with("-fault"),
            aliases: policy.skeleton.kenter.contains(&Part::Track),
        }
    }
}

/// What the layer above the pmap knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Legal {
    /// Addresses.
    pub ground: Ground,
    /// User mappings.
    pub users: [Vec<Option<UserMap>>; SPACES],
    /// Kernel mappings.
    pub kernel: Vec<Option<KernelMap>>,
    /// Pages whose bytes do not matter.
    fresh: Vec<bool>,
    /// The space of the process that runs.
    pub running: Option<u8>,
    open: Option<Open>,
    caller: Caller,
}

impl Legal {
    /// Nothing mapped, the first space running.
    pub fn new(ground: &Ground, caller: Caller) -> Self {
        let user = vec![None; ground.user.len()];
        Self {
            users: [user.clone(), user],
            kernel: vec![None; ground.kernel.len()],
            fresh: vec![true; usize::from(ground.pages)],
            running: Some(1),
            open: None,
            caller,
            ground: ground.clone(),
        }
    }

    /// Whether every operation of a sequence is legal where it stands.
    pub fn allows(ground: &Ground, caller: Caller, ops: &[Op]) -> bool {
        let mut legal = Self::new(ground, caller);
        ops.iter().all(|op| legal.take(op)) && legal.open.is_none()
    }

    /// Notes the operation if it is legal now.
    pub fn take(&mut self, op: &Op) -> bool {
        let legal = self.admits(op);
        if legal {
            self.note(op);
        }
        legal
    }

    /// The user mapping at an address.
    pub fn user(&self, space: Space, va: Va) -> Option<UserMap> {
        let space = usize::from(space.0)
            .checked_sub(1)
            .filter(|s| *s < SPACES)?;
        self.users[space][self.ground.user_slot(va.0)?]
    }

    /// The kernel mapping at an address.
    pub fn at(&self, va: Va) -> Option<KernelMap> {
        self.kernel[self.ground.kernel_slot(va.0)?]
    }

    /// Whether nobody maps the page.
    pub fn unmapped(&self, page: Page) -> bool {
        let kernel = self.kernel.iter().flatten().any(|m| m.page == page.0);
        !kernel && !self.user_maps(page).any(|_| true)
    }

    fn user_maps(&self, page: Page) -> impl Iterator<Item = &UserMap> {
        let all = self.users.iter().flatten().flatten();
        all.filter(move |m| m.page == page.0)
    }

    fn known(&self, page: Page) -> bool {
        page.0 < self.ground.pages
    }

    fn is_fresh(&self, page: Page) -> bool {
        self.fresh.get(usize::from(page.0)) == Some(&true)
    }

    fn admits(&self, op: &Op) -> bool {
        if let Some(open) = self.open {
            return hardware(op) || self.closes(open, op);
        }
        let user = |s: &Space, v: &Va| self.user(*s, *v);
        let slot = |s: &Space, v: &Va| {
            usize::from(s.0) <= SPACES && s.0 > 0 && self.ground.user_slot(v.0).is_some()
        };
        match op {
            Op::Enter(s, v, p, _) => slot(s, v) && self.known(*p),
            Op::EnterQuick(s, v, p, _) => slot(s, v) && self.known(*p) && user(s, v).is_none(),
            Op::Remove(s, v, n) | Op::Protect(s, v, n, _) => {
                let last = Va(v.0 + u32::from(n.saturating_sub(1)) * self.ground.page);
                *n > 0 && slot(s, v) && slot(s, &last)
            }
            Op::RemovePages(s) => self.running == Some(s.0),
            Op::Activate(s) => self.running.is_some() && s.0 > 0 && usize::from(s.0) <= SPACES,
            Op::RemoveAll(p) | Op::RemoveWrite(p) => self.known(*p),
            Op::ClearModify(p) | Op::ClearReference(p) => self.known(*p),
            Op::Switch(s) => s.0 > 0 && usize::from(s.0) <= SPACES,
            Op::SwitchKernel => true,
            Op::Fetch(s, v) => {
                user(s, v).is_some_and(|m| matches!(m.rights, Rights::Rx | Rights::Rwx))
            }
            Op::Load(s, v) => user(s, v).is_some(),
            Op::Store(s, v, _) => user(s, v).is_some_and(|m| m.write),
            Op::Sync(s, v, len) => {
                let inside = (v.0 & (self.ground.page - 1)) + len <= self.ground.page;
                let once = |m: UserMap| {
                    let maps = self.users[usize::from(s.0) - 1].iter().flatten();
                    maps.filter(|other| other.page == m.page).count() == 1
                };
                user(s, v).is_some_and(once) && inside && *len > 0
            }
            Op::Recycle(p) => self.known(*p) && self.unmapped_by_users(*p),
            Op::Zero(p) => self.is_fresh(*p) && self.unmapped(*p),
            Op::Copy(a, b) => a != b && self.known(*a) && self.is_fresh(*b) && self.unmapped(*b),
            _ => self.admits_kernel(op),
        }
    }

    /// A frame that a kernel window maps may still be given new contents.
    fn unmapped_by_users(&self, page: Page) -> bool {
        let user = self.user_maps(page).any(|_| true);
        let idle = |m: &&KernelMap| m.page == page.0 && m.buffer.is_some() && m.held == Held::No;
        !user && !self.kernel.iter().flatten().any(|m| idle(&m))
    }

    fn admits_kernel(&self, op: &Op) -> bool {
        let slot = |v: &Va| self.ground.kernel_slot(v.0);
        match op {
            Op::Kenter(v, p) => {
                let free = slot(v).is_some_and(|n| n < self.ground.windows);
                free && self.at(*v).is_none() && self.known(*p) && self.may_alias(p.0)
            }
            Op::Kremove(v) => self.at(*v).is_some_and(|m| m.buffer.is_none()),
            Op::Qenter(v, p, n) => self.may_qenter(*v, *p, *n),
            Op::Qremove(v, n) => self.at(*v).is_some_and(|m| {
                let whole = slot(v).map(|s| (s as u8, *n));
                m.buffer == whole && m.held == Held::No
            }),
            Op::Use(false, what, v, len) => {
                let inside = (v.0 & (self.ground.page - 1)) + len <= self.ground.page;
                inside && *len > 0 && self.may_use(*what, *v)
            }
            Op::Buffer(event, v, p, n) => self.may_tell(*event, *v, *p, *n),
            Op::DmaRead(v, _) | Op::DmaWrite(v) => {
                let window = self.at(*v).is_some_and(|m| m.buffer.is_none());
                window && self.may_transfer(op)
            }
            Op::KernelLoad(_) | Op::KernelStore(..) | Op::Use(true, ..) => false,
            _ => hardware(op),
        }
    }

    fn may_alias(&self, page: u8) -> bool {
        self.caller.aliases || !self.kernel.iter().flatten().any(|m| m.page == page)
    }

    /// Whether a device may read or write the page mapped there.
    fn may_transfer(&self, op: &Op) -> bool {
        match op {
            Op::DmaRead(v, _) => self.at(*v).is_some_and(|m| {
                let page = Page(m.page);
                self.is_fresh(page) && self.user_maps(page).next().is_none()
            }),
            Op::DmaWrite(v) => self
                .at(*v)
                .is_some_and(|m| !self.user_maps(Page(m.page)).any(|u| u.write)),
            _ => false,
        }
    }

    fn may_qenter(&self, va: Va, first: Page, count: u8) -> bool {
        let Some(slot) = self.ground.kernel_slot(va.0) else {
            return false;
        };
        let slots = slot..slot + usize::from(count);
        let pages = first.0..first.0.saturating_add(count);
        let buffers = self.kernel.iter().flatten().filter(|m| m.buffer.is_some());
        count > 0
            && slot >= self.ground.windows
            && slots.end <= self.kernel.len()
            && pages.end <= self.ground.pages
            && self.kernel[slots].iter().all(Option::is_none)
            && !buffers.into_iter().any(|m| pages.contains(&m.page))
            && pages.into_iter().all(|p| self.may_alias(p))
    }

    fn may_use(&self, what: Use, va: Va) -> bool {
        self.at(va).is_some_and(|m| match (m.buffer, what) {
            (None, _) => true,
            (Some(_), Use::Read) => m.held != Held::No,
            (Some(_), _) => {
                m.held == Held::Write || (!self.caller.announces && m.held == Held::Read)
            }
        })
    }

    fn may_tell(&self, event: Event, va: Va, page: Page, count: u8) -> bool {
        let held = self.at(va).map_or(Held::No, |m| m.held);
        self.is_buffer(va, page, count)
            && match event {
                Event::AcquiredRead => held == Held::No,
                Event::AcquiredWrite => held == Held::No && self.caller.announces,
                Event::Released | Event::IoStartRead | Event::IoStartWrite => held != Held::No,
                _ => false,
            }
    }

    /// Whether a buffer of so many pages begins at an address with this page.
    fn is_buffer(&self, va: Va, page: Page, count: u8) -> bool {
        let first = self.ground.kernel_slot(va.0).map(|s| (s as u8, count));
        self.at(va)
            .is_some_and(|m| m.buffer == first && m.page == page.0)
    }

    /// Whether an address lies in the buffer that begins at `first`.
    fn inside(&self, first: Va, va: u32) -> bool {
        let pages = self.at(first).and_then(|m| m.buffer).map_or(0, |b| b.1);
        (first.0..first.0 + u32::from(pages) * self.ground.page).contains(&va)
    }

    fn closes(&self, open: Open, op: &Op) -> bool {
        match (open, op) {
            (Open::Use(_, va, len), Op::KernelLoad(v)) => v.0 >= va && v.0 + 4 <= va + len,
            (Open::Use(what, va, len), Op::KernelStore(v, _)) => {
                what != Use::Read && v.0 >= va && v.0 + 4 <= va + len
            }
            (Open::Use(what, va, len), Op::Use(true, w, v, l)) => (what, va, len) == (*w, v.0, *l),
            (Open::Tell(event, va), Op::Buffer(e, v, p, n)) => {
                event == *e && self.is_buffer(*v, *p, *n) && self.inside(*v, va)
            }
            (Open::Io(read, va), Op::Buffer(e, v, p, n)) => {
                let ends = if read {
                    Event::IoDoneRead
                } else {
                    Event::IoDoneWrite
                };
                ends == *e && va == v.0 && self.is_buffer(*v, *p, *n)
            }
            (Open::Io(true, va), Op::DmaRead(v, _)) | (Open::Io(false, va), Op::DmaWrite(v)) => {
                self.inside(Va(va), v.0) && self.may_transfer(op)
            }
            _ => false,
        }
    }

    fn note(&mut self, op: &Op) {
        if let Some(open) = self.open {
            return self.note_open(open, op);
        }
        match op {
            Op::Enter(s, v, p, rights) => self.map_user(*s, *v, *p, *rights),
            Op::EnterQuick(s, v, p, rights) => {
                let rights = match rights {
                    Rights::R | Rights::Rw => Rights::R,
                    Rights::Rx | Rights::Rwx => Rights::Rx,
                };
                self.map_user(*s, *v, *p, rights);
            }
            Op::Remove(s, v, n) => self.user_range(*s, *v, *n, |m| *m = None),
            Op::Protect(s, v, n, rights) => {
                let rights = *rights;
                self.user_range(*s, *v, *n, |m| protect(m, rights));
            }
            Op::RemovePages(s) => self.users[usize::from(s.0) - 1].fill(None),
            Op::RemoveAll(p) => self.of_page(*p, |m| *m = None),
            Op::RemoveWrite(p) => self.of_page(*p, |m| {
                if let Some(m) = m {
                    m.write = false;
                }
            }),
            Op::Switch(s) | Op::Activate(s) | Op::Fetch(s, _) | Op::Load(s, _) => {
                self.running = Some(s.0);
            }
            Op::Sync(s, ..) => self.running = Some(s.0),
            Op::Store(s, v, _) => {
                self.running = Some(s.0);
                if let Some(m) = self.user(*s, *v) {
                    self.stored(m.page);
                }
            }
            Op::SwitchKernel => self.running = None,
            Op::Recycle(p) => self.fresh[usize::from(p.0)] = true,
            Op::Zero(p) | Op::Copy(_, p) => self.stored(p.0),
            _ => self.note_kernel(op),
        }
    }

    fn note_kernel(&mut self, op: &Op) {
        let slot = |l: &Self, v: &Va| l.ground.kernel_slot(v.0).unwrap_or(0);
        let map = |page, buffer| KernelMap {
            page,
            buffer,
            held: Held::No,
        };
        match op {
            Op::Kenter(v, p) => {
                let n = slot(self, v);
                self.kernel[n] = Some(map(p.0, None));
            }
            Op::Kremove(v) => {
                let n = slot(self, v);
                self.kernel[n] = None;
            }
            Op::Qenter(v, p, n) => {
                let first = slot(self, v);
                for k in 0..*n {
                    let buffer = Some((first as u8, *n));
                    self.kernel[first + usize::from(k)] = Some(map(p.0 + k, buffer));
                }
            }
            Op::Qremove(v, n) => {
                let first = slot(self, v);
                self.kernel[first..first + usize::from(*n)].fill(None);
            }
            Op::Use(false, what, v, len) => self.open = Some(Open::Use(*what, v.0, *len)),
            Op::Buffer(event, v, _, n) => self.told(*event, *v, slot(self, v), *n),
            Op::DmaRead(v, _) => self.filled(*v),
            _ => {}
        }
    }

    fn told(&mut self, event: Event, va: Va, first: usize, count: u8) {
        let held = match event {
            Event::AcquiredRead => Held::Read,
            Event::AcquiredWrite => Held::Write,
            Event::Released => Held::No,
            _ => {
                let read = event == Event::IoStartRead;
                self.open = Some(Open::Io(read, va.0));
                return;
            }
        };
        let buffer = &mut self.kernel[first..first + usize::from(count)];
        buffer.iter_mut().flatten().for_each(|m| m.held = held);
    }

    /// The page mapped there has contents.
    fn filled(&mut self, va: Va) {
        if let Some(m) = self.at(va) {
            self.stored(m.page);
        }
    }

    fn note_open(&mut self, open: Open, op: &Op) {
        match (open, op) {
            (Open::Use(..), Op::KernelStore(v, _)) | (Open::Io(..), Op::DmaRead(v, _)) => {
                self.filled(*v);
            }
            (Open::Use(what, va, _), Op::Use(true, ..)) => {
                let buffer = self.at(Va(va)).is_some_and(|m| m.buffer.is_some());
                let event = match what {
                    Use::Read => Some(Event::CopiedRead),
                    Use::Write => Some(Event::CopiedWrite),
                    Use::Pio | Use::Poke => None,
                };
                self.open = event.filter(|_| buffer).map(|e| Open::Tell(e, va));
            }
            (Open::Tell(..) | Open::Io(..), Op::Buffer(..)) => self.open = None,
            _ => {}
        }
    }

    fn stored(&mut self, page: u8) {
        self.fresh[usize::from(page)] = false;
    }

    fn map_user(&mut self, space: Space, va: Va, page: Page, rights: Rights) {
        let write = matches!(rights, Rights::Rw | Rights::Rwx);
        let map = UserMap {
            page: page.0,
            rights,
            write,
        };
        self.user_range(space, va, 1, |m| *m = Some(map));
    }

    fn user_range(&mut self, s: Space, va: Va, pages: u8, change: impl Fn(&mut Option<UserMap>)) {
        let first = self.ground.user_slot(va.0).unwrap_or(0);
        let range = first..first + usize::from(pages);
        let maps = &mut self.users[usize::from(s.0) - 1];
        maps.get_mut(range).into_iter().flatten().for_each(change);
    }

    fn of_page(&mut self, page: Page, change: impl Fn(&mut Option<UserMap>)) {
        let all = self.users.iter_mut().flatten();
        let here = |m: &&mut Option<UserMap>| m.is_some_and(|m| m.page == page.0);
        all.filter(here).for_each(change);
    }
}

fn protect(map: &mut Option<UserMap>, rights: Rights) {
    let Some(m) = map else { return };
    let has = |r: Rights| {
        (
            matches!(r, Rights::Rw | Rights::Rwx),
            matches!(r, Rights::Rx | Rights::Rwx),
        )
    };
    let ((w, x), (may_w, may_x)) = (has(m.rights), has(rights));
    m.rights = match (w && may_w, x && may_x) {
        (true, true) => Rights::Rwx,
        (true, false) => Rights::Rw,
        (false, true) => Rights::Rx,
        (false, false) => Rights::R,
    };
    m.write &= may_w;
}

/// What hardware may do at any time, on an in-order core.
fn hardware(op: &Op) -> bool {
    matches!(
        op,
        Op::EvictAll
            | Op::EvictInstructions
            | Op::Evict(_)
            | Op::EvictInstruction(_)
            | Op::TlbDrop(_)
            | Op::Drain
    )
}
