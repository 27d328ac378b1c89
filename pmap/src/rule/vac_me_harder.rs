//! `pmap_vac_me_harder`, the VIVT form: which mappings of a page are uncached. Shared by the rules of the
//! kernels that have it.
//!
//! Source: FreeBSD r1.42 (2006), NetBSD to 2015, OpenBSD 4.4; `pmap-freebsd-netbsd.md` 2.1. Only mappings
//! on the list are seen.
//!
//! 1. A table, indexed by what the kernel maps (nothing, read-only, one writer, a writer and more) and what
//!    user spaces map, all together, says whether anything is to be done: no; only if something is
//!    uncached; yes. Its result stays in the page's bits. It is a filter only: what becomes of each mapping
//!    is decided below, by the list.
//! 2. A user space changed: of its mappings and the kernel's, all are uncached if there are two or more
//!    and one may write; else those that are uncached are cached again, the kernel's only if no other
//!    space may write.
//! 3. The kernel's mappings changed: 2 for each user space that may be concerned, then for the kernel,
//!    whose mappings are uncached too if any user space may write.
//!    That is the defect of 3: beside user spaces that only read, a *kernel* writer is not looked at when
//!    the kernel's own mappings are decided. A kernel mapping that may write and comes after a user's is
//!    uncached for the user's sake and then cached again for its own; the user's stays uncached and does
//!    not see what waits in the kernel's lines.
//! 4. A mapping that becomes uncached is flushed, then its TLB copy, then its entry is stored; not so the
//!    one that is being entered. Only mappings of a current space are flushed.

use machine::VirtAddr;

use crate::count::Counts;
use crate::hook::{Facts, Mapping, View};
use crate::plan::{Do, Plan};
use crate::rule::{flush, tlb};
use crate::types::{PvFlags, SpaceId};

/// The page's bit: user mappings are uncached.
pub const UNC: u8 = 1;
/// The page's bit: kernel mappings are uncached.
pub const KNC: u8 = 2;
const NC: u8 = UNC | KNC;

/// What the table says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing maps the page: forget the bits.
    Forget,
    /// These bits; if there are none and were none, nothing is to be done.
    Bits(u8),
}

/// The table, by kernel index and user index.
const TABLE: [[Verdict; 4]; 4] = {
    use Verdict::{Bits, Forget};
    [
        [Forget, Bits(0), Bits(0), Bits(UNC)],
        [Bits(0), Bits(0), Bits(NC), Bits(NC)],
        [Bits(0), Bits(NC), Bits(NC), Bits(NC)],
        [Bits(KNC), Bits(NC), Bits(NC), Bits(NC)],
    ]
};

fn index(read: u16, write: u16) -> usize {
    usize::from(read > 0 || write > 1) | usize::from(write > 0) << 1
}

/// The table's answer for a page's counts.
pub fn look_up(counts: Counts) -> Verdict {
    let kernel = index(counts.kernel_read, counts.kernel_write);
    let user = index(counts.user_read, counts.user_write);
    TABLE[kernel][user]
}

/// Plans what follows from (pm, va) being entered, or from something of pm having changed (va none).
pub fn harder(
    plan: &mut Plan,
    view: &View<'_>,
    facts: &Facts,
    (pm, va): (SpaceId, Option<VirtAddr>),
) {
    let Some(frame) = view.frame else { return };
    let bits = match look_up(view.counts) {
        Verdict::Forget => 0,
        Verdict::Bits(bits) => bits,
    };
    if bits != 0 || (view.bits & NC != 0 && look_up(view.counts) != Verdict::Forget) {
        let mut page = Page {
            list: view.mappings.to_vec(),
            counts: view.counts,
            bytes: facts.page,
            plan,
        };
        if pm.is_kernel() {
            page.kernel(va);
        } else {
            page.user(pm, va);
        }
    }
    if view.bits & NC != bits {
        let (set, clear) = (bits, NC & !bits);
        plan.push(Do::PageBits { frame, set, clear }, pm, VirtAddr(0), 0);
    }
}

/// The page while it is decided; its list changes with each decision.
struct Page<'a> {
    list: Vec<Mapping>,
    counts: Counts,
    bytes: u32,
    plan: &'a mut Plan,
}

fn uncached(m: &Mapping) -> bool {
    m.flags.contains(PvFlags::NC)
}

fn writes(m: &Mapping) -> bool {
    m.flags.contains(PvFlags::WRITE)
}

impl Page<'_> {
    /// `pmap_vac_me_user`.
    fn user(&mut self, pm: SpaceId, va: Option<VirtAddr>) {
        let mine = |m: &&Mapping| m.space == pm || m.space.is_kernel();
        let entries = self.list.iter().filter(mine).count();
        let writer = self.list.iter().filter(mine).any(writes);
        let cacheable = self.list.iter().filter(mine).filter(|m| !uncached(m));
        let cacheable = cacheable.count();
        let others = |m: &&Mapping| !mine(m);
        let other_writer = self.list.iter().filter(others).any(writes);
        let alone = entries < 2 || !writer;
        if !alone || (entries > 0 && pm.is_kernel() && other_writer) {
            let wanted = |m: &Mapping| mine(&m) && !uncached(m);
            self.each(wanted, |plan, m, bytes| {
                uncache(plan, m, va == Some(m.va) && m.space == pm, bytes);
            });
        } else if entries > cacheable {
            let wanted = |m: &Mapping| {
                uncached(m) && (m.space == pm || (m.space.is_kernel() && !other_writer))
            };
            self.each(wanted, |plan, m, _| recache(plan, m));
        }
    }

    fn each(
        &mut self,
        wanted: impl Fn(&Mapping) -> bool,
        change: impl Fn(&mut Plan, &mut Mapping, u32),
    ) {
        for m in self.list.iter_mut().filter(|m| wanted(m)) {
            change(self.plan, m, self.bytes);
        }
    }

    /// `pmap_vac_me_kpmap`.
    fn kernel(&mut self, va: Option<VirtAddr>) {
        let user = |m: &&Mapping| !m.space.is_kernel();
        let cached = self.list.iter().filter(user).filter(|m| !uncached(m));
        let (cached, users) = (cached.count() as u32, self.counts.user());
        let kernel = self.counts.kernel();
        if kernel == 0 && cached == users {
            return;
        }
        if users > 0 {
            self.spaces_beside_kernel();
        }
        if kernel > 0 {
            self.user(SpaceId::KERNEL, va);
        }
    }

    /// Each user space that the kernel's mappings may concern.
    fn spaces_beside_kernel(&mut self) {
        let (kernel, kernel_write) = (self.counts.kernel(), self.counts.kernel_write);
        let mut last = None;
        for n in 0..self.list.len() {
            let m = self.list[n];
            let settled = kernel > 0 && uncached(&m) && writes(&m);
            let harmless = kernel_write == 0 && !uncached(&m) && !writes(&m);
            if m.space.is_kernel() || last == Some(m.space) || settled || harmless {
                continue;
            }
            last = Some(m.space);
            self.user(m.space, None);
        }
    }
}

fn uncache(plan: &mut Plan, m: &mut Mapping, entering: bool, bytes: u32) {
    m.flags |= PvFlags::NC;
    let (set, clear) = (PvFlags::NC, PvFlags::empty());
    plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
    if !entering && m.pte.valid() {
        flush(plan, m, bytes);
        tlb(plan, m);
    }
    plan.push(Do::PteCache(false), m.space, m.va, 0);
}

fn recache(plan: &mut Plan, m: &mut Mapping) {
    m.flags -= PvFlags::NC;
    let (set, clear) = (PvFlags::empty(), PvFlags::NC);
    plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
    if m.pte.valid() {
        tlb(plan, m);
    }
    plan.push(Do::PteCache(true), m.space, m.va, 0);
}
