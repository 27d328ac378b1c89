//! `freebsd-2010`: a page is uncached while a kernel mapping may write it and anything else maps it.
//!
//! Source: FreeBSD `pmap_fix_cache`, r1.130 (2010-06) to 2016, `pmap-freebsd-netbsd.md` 2.2; `qenter`,
//! `qremove` and `clearbit` from 3.2. It is the policy of seeds/001.
//!
//! For each mapping p of the page, when (pm, va) was entered or something of pm changed (va none), the
//! first that holds:
//! 1. pm is a user space with two mappings and a writer, and p is pm's or the kernel's: uncached.
//! 2. A kernel mapping may write and there is another mapping; or other spaces write and p is the
//!    kernel's, a writer or already out for reason 1: uncached.
//! 3. pm is the kernel and p is not out for reason 1: cached again.
//! 4. pm is a user space, not out for reason 1, and p is pm's or the kernel's: cached again.
//!
//! What it gets wrong, on purpose: unmanaged kernel mappings never have REF, so they are switched without
//! write-back and without a TLB flush (B23); an entered mapping's entry is stored cacheable before the
//! flag is looked at (B24); only the current space's mappings are flushed (B25, B46).

use machine::LineOp::{Clean, CleanInvalidate, Invalidate};
use machine::VirtAddr;

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::rule::{flush, life, tlb};
use crate::types::{PvFlags, SpaceId};

/// Gives a buffer's mapping write permission or takes it, the kernel's own lines and TLB copy flushed before and
/// after, as the bypass patches do it.
pub(crate) fn buffer_write(plan: &mut Plan, va: VirtAddr, write: bool, facts: &Facts) {
    let own_copies = |plan: &mut Plan| {
        plan.range(Do::Dcache(CleanInvalidate), SpaceId::KERNEL, va, facts.page);
        plan.push(Do::TlbD, SpaceId::KERNEL, va, 0);
    };
    own_copies(plan);
    plan.push(Do::BufferWrite(write), SpaceId::KERNEL, va, facts.page);
    own_copies(plan);
}

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Entered => {
            if let Some(s) = view.subject {
                fix_cache(plan, view, facts, s.space, Some(s.va));
            }
        }
        Hook::Changed => {
            if let Some(s) = view.subject {
                fix_cache(plan, view, facts, s.space, None);
            }
        }
        Hook::Left(flags) => left(plan, view, facts, flags),
        Hook::Page(Verb::Qenter) => {
            for m in view.mappings.iter().filter(|m| m.current) {
                if m.flags.contains(PvFlags::WRITE) {
                    plan.range(Do::Dcache(Clean), m.space, m.va, facts.page);
                }
            }
        }
        Hook::Page(Verb::Qremove) => {
            for m in view.mappings.iter().filter(|m| m.current) {
                plan.range(Do::Dcache(Invalidate), m.space, m.va, facts.page);
            }
        }
        Hook::WillStore {
            verb: Verb::ClearWrite,
            ..
        } => {
            life::plan(hook, view, facts, plan);
            recache_cleared(plan, view);
        }
        _ => life::plan(hook, view, facts, plan),
    }
}

/// `pmap_nuke_pv`: the policy is asked again only if the mapping that left was uncached for a reason that
/// others share.
fn left(plan: &mut Plan, view: &View<'_>, facts: &Facts, flags: PvFlags) {
    let Some(s) = view.subject else { return };
    let shared =
        s.space.is_kernel() || flags.contains(PvFlags::WRITE) || !flags.contains(PvFlags::MWC);
    if flags.contains(PvFlags::NC) && shared {
        fix_cache(plan, view, facts, s.space, None);
    }
}

/// `pmap_clearbit` for write: an uncached mapping is cached again, without a TLB flush (B45).
fn recache_cleared(plan: &mut Plan, view: &View<'_>) {
    if let Some(s) = view.subject.filter(|s| s.flags.contains(PvFlags::NC)) {
        plan.push(Do::PteCache(true), s.space, s.va, 0);
        let clear = PvFlags::NC | PvFlags::MWC;
        plan.push(
            Do::Flags {
                set: PvFlags::empty(),
                clear,
            },
            s.space,
            s.va,
            0,
        );
    }
}

/// Who maps the page, counted as the first pass does.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    writable: u32,
    kernel_writable: u32,
    user_writable: u32,
    kernel: u32,
    users: u32,
    mine: u32,
}

impl Count {
    fn of(mappings: &[Mapping], pm: SpaceId) -> Self {
        let mut n = Self::default();
        for m in mappings {
            let write = u32::from(m.flags.contains(PvFlags::WRITE));
            n.writable += write;
            if m.space.is_kernel() {
                n.kernel += 1;
                n.kernel_writable += write;
            } else {
                n.users += 1;
            }
            if m.space == pm && !pm.is_kernel() {
                n.mine += 1;
                n.user_writable += write;
            }
        }
        n
    }

    /// Two mappings of one user space, one of them writable.
    fn duplicate(&self) -> bool {
        (self.mine > 1 && self.user_writable > 0) || self.user_writable > 1
    }

    /// Whether p must be uncached because of a kernel mapping.
    fn kernel_conflict(&self, p: &Mapping) -> bool {
        let out = p.space.is_kernel() || p.flags.intersects(PvFlags::WRITE | PvFlags::MWC);
        (self.kernel_writable > 0 && (self.users > 0 || self.kernel > 1))
            || self.kernel_writable > 1
            || (self.kernel_writable != self.writable && self.kernel > 0 && out)
    }
}

/// The second pass.
pub(crate) fn fix_cache(
    plan: &mut Plan,
    view: &View<'_>,
    facts: &Facts,
    pm: SpaceId,
    va: Option<VirtAddr>,
) {
    let n = Count::of(view.mappings, pm);
    let user = !pm.is_kernel();
    let duplicate = user && n.duplicate();
    for m in view.mappings {
        let mut p = *m;
        let near = p.space == pm || p.space.is_kernel();
        let entering = va == Some(p.va) && p.space == pm;
        if user && near && duplicate {
            if !p.space.is_kernel() {
                flag(plan, &mut p, PvFlags::MWC, PvFlags::empty());
            }
            uncache(plan, &mut p, entering, facts.page);
            continue;
        }
        if user && near {
            flag(plan, &mut p, PvFlags::empty(), PvFlags::MWC);
        }
        if n.kernel_conflict(&p) {
            uncache(plan, &mut p, entering, facts.page);
        } else if !user {
            if !p.flags.contains(PvFlags::MWC) {
                recache(plan, &mut p, PvFlags::NC);
            }
        } else if near {
            recache(plan, &mut p, PvFlags::NC | PvFlags::MWC);
        }
    }
}

fn flag(plan: &mut Plan, p: &mut Mapping, set: PvFlags, clear: PvFlags) {
    let after = (p.flags - clear) | set;
    if after != p.flags {
        p.flags = after;
        plan.push(Do::Flags { set, clear }, p.space, p.va, 0);
    }
}

/// `pmap_set_cache_entry`, off: flush and TLB flush by the flags, then the store.
fn uncache(plan: &mut Plan, p: &mut Mapping, entering: bool, page: u32) {
    if p.flags.contains(PvFlags::NC) {
        return;
    }
    flag(plan, p, PvFlags::NC, PvFlags::empty());
    if !entering && p.pte.present() {
        flush(plan, p, page);
        tlb(plan, p);
    }
    plan.push(Do::PteCache(false), p.space, p.va, 0);
}

/// `pmap_set_cache_entry`, on: TLB flush by the flags, then the store; no cache operation.
fn recache(plan: &mut Plan, p: &mut Mapping, clear: PvFlags) {
    if !p.flags.contains(PvFlags::NC) {
        return;
    }
    flag(plan, p, PvFlags::empty(), clear);
    if p.pte.present() {
        tlb(plan, p);
    }
    plan.push(Do::PteCache(true), p.space, p.va, 0);
}
