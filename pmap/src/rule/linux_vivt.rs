//! `linux-vivt-2.6.24` and `linux-vivt-2.6.37`: Linux on ARM with VIVT caches, up to v5.
//!
//! Source: `linux-policies-and-bugs.md` A.0, A.2, A.12 rows 1 and 2.
//!
//! 1. The kernel wrote a page (`flush_dcache_page`): if no user maps it, the page is only marked; else the
//!    kernel's lines are written back and dropped, the whole instruction cache with them, and the lines of
//!    each mapping in the space that the hardware holds. The same before the kernel reads a page that a
//!    user may write, and before a debugger stores.
//! 2. A mapping was entered (`update_mmu_cache`): a marked page's kernel lines go, as in 1. Then
//!    `make_coherent`: if the same space maps the page elsewhere too, each of these mappings is flushed and
//!    made uncached, the entered one also. None is ever cached again.
//! 3. A mapping changes or goes: its page is flushed before, if the hardware holds its space; the TLB after.
//! 4. A switch to another space empties both caches and the TLB.
//! 5. A page is copied or zeroed through a cached window whose lines are dropped *before* the stores: the
//!    cache must not allocate on stores, or the new page stays in it.
//!
//! What differs:
//! - 2.6.24: the mark says "dirty". Only pages of files are looked at in 2, so an anonymous page is never
//!   synced for execution; without another mapping the entered page is flushed; no second level.
//! - 2.6.37: the mark says "clean", so a page is not clean until it has been flushed once, anonymous ones
//!   too; a mapping that becomes uncached is flushed from the second level.
//!
//! A page is a file's here once the kernel mapped it as a buffer, until it is zeroed or copied into. Left
//! out: whether a mapping is shared (every one counts), bufferable but uncached entries, highmem.

use machine::LineOp::{CleanInvalidate, Invalidate};
use machine::{Frame, VirtAddr};

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::rule::life;
use crate::types::{PvFlags, SpaceId};
use crate::verbs::KernelUse;

const K: SpaceId = SpaceId::KERNEL;
/// PG_dcache_dirty in 2.6.24, PG_dcache_clean in 2.6.37.
const MARK: u8 = 1;
/// The page is a file's.
const FILE: u8 = 2;

/// What differs from one kernel to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Era {
    mark_is_clean: bool,
    anonymous: bool,
    flushes_lone: bool,
    outer: bool,
}

const OLD: Era = Era {
    mark_is_clean: false,
    anonymous: false,
    flushes_lone: true,
    outer: false,
};

const NEW: Era = Era {
    mark_is_clean: true,
    anonymous: true,
    flushes_lone: false,
    outer: true,
};

/// The rule of 2.6.24.
pub fn plan_2_6_24(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    answer(OLD, hook, view, facts, plan);
}

/// The rule of 2.6.37.
pub fn plan_2_6_37(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    answer(NEW, hook, view, facts, plan);
}

fn answer(era: Era, hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Entered => entered(era, view, facts, plan),
        Hook::Left(_) => {
            if let Some(m) = view.subject.filter(|m| m.current) {
                plan.push(Do::TlbId, m.space, m.va, 0);
            }
        }
        Hook::Changed | Hook::Page(_) => {}
        Hook::Did(KernelUse::Write | KernelUse::Pio, ..) | Hook::Will(KernelUse::Poke, ..) => {
            flush_dcache_page(era, view, facts, plan);
        }
        Hook::Will(KernelUse::Read, ..) if users(view).any(|m| m.pte.writable()) => {
            flush_dcache_page(era, view, facts, plan);
        }
        Hook::Did(KernelUse::Poke, va, len) if users(view).any(|m| m.current) => {
            plan.push(Do::IcacheSync, K, va, len);
        }
        Hook::WillStore { old, new, .. } => {
            let write_goes = old.writable() && !new.writable();
            flush_subject(view, facts, plan, write_goes || !new.valid());
        }
        Hook::WillLeave { verb, .. } => will_leave(verb, view, facts, plan),
        Hook::Switch { same: false, .. } => {
            plan.whole(Do::IdcacheAll);
            plan.whole(Do::Drain);
            plan.whole(Do::TlbAll);
        }
        Hook::Zero(frame) => zero(plan, frame, facts),
        Hook::Copy(from, to) => copy(plan, from, to, facts),
        _ => life::plan(hook, view, facts, plan),
    }
}

fn users<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a Mapping> {
    view.mappings.iter().filter(|m| !m.space.is_kernel())
}

/// The kernel's mappings of the page, which stand for its place in the linear map.
fn aliases<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a Mapping> {
    let listed = view.mappings.iter().filter(|m| m.space.is_kernel());
    listed.chain(&view.kva)
}

fn mark(plan: &mut Plan, view: &View<'_>, set: u8, clear: u8) {
    let Some(frame) = view.frame else { return };
    if view.bits & clear != 0 || !view.bits & set != 0 {
        plan.push(Do::PageBits { frame, set, clear }, K, VirtAddr(0), 0);
    }
}

/// Notes that the kernel's lines of the page are (or are not) where fetches and users look.
fn note_synced(era: Era, plan: &mut Plan, view: &View<'_>, synced: bool) {
    if synced == era.mark_is_clean {
        mark(plan, view, MARK, 0);
    } else {
        mark(plan, view, 0, MARK);
    }
}

fn is_synced(era: Era, view: &View<'_>) -> bool {
    (view.bits & MARK != 0) == era.mark_is_clean
}

/// `__flush_dcache_page` for the kernel's mappings: on ARM926 and Feroceon it takes the whole instruction
/// cache along.
fn flush_kernel(plan: &mut Plan, view: &View<'_>, facts: &Facts) {
    for m in aliases(view) {
        plan.push(Do::Dcache(CleanInvalidate), K, m.va, facts.page);
    }
    plan.whole(Do::IcacheAll);
    plan.whole(Do::Drain);
}

/// `flush_cache_page`.
fn flush_page(plan: &mut Plan, m: &Mapping, facts: &Facts, outer: bool) {
    if !m.current {
        return;
    }
    let what = if m.flags.contains(PvFlags::EXEC) {
        Do::Idcache
    } else {
        Do::Dcache(CleanInvalidate)
    };
    if outer {
        plan.range(what, m.space, m.va, facts.page);
    } else {
        plan.push(what, m.space, m.va, facts.page);
    }
}

fn flush_subject(view: &View<'_>, facts: &Facts, plan: &mut Plan, needed: bool) {
    if let Some(m) = view.subject.filter(|_| needed) {
        flush_page(plan, &m, facts, false);
    }
}

fn flush_dcache_page(era: Era, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    if users(view).next().is_none() {
        return note_synced(era, plan, view, false);
    }
    flush_kernel(plan, view, facts);
    users(view).for_each(|m| flush_page(plan, m, facts, false));
    note_synced(era, plan, view, true);
}

fn entered(era: Era, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let Some(s) = view.subject else { return };
    if s.space.is_kernel() {
        return mark(plan, view, FILE, 0);
    }
    let file = view.bits & FILE != 0;
    if file || era.anonymous {
        if !is_synced(era, view) {
            flush_kernel(plan, view, facts);
            note_synced(era, plan, view, true);
        }
        make_coherent(era, view, &s, facts, plan);
    }
}

fn make_coherent(era: Era, view: &View<'_>, s: &Mapping, facts: &Facts, plan: &mut Plan) {
    let same_space = |m: &&Mapping| m.space == s.space && m.pte.present();
    let mappings: Vec<&Mapping> = users(view).filter(same_space).collect();
    if mappings.len() > 1 {
        let adjusted = mappings.iter().filter(|m| m.pte.cacheable());
        return adjusted.for_each(|m| demote(era, m, facts, plan));
    }
    if s.flags.contains(PvFlags::NC) || mappings.iter().any(|m| m.flags.contains(PvFlags::NC)) {
        // It was entered anew, with a cacheable entry, and is alone now.
        let (set, clear) = (PvFlags::empty(), PvFlags::NC);
        plan.push(Do::Flags { set, clear }, s.space, s.va, 0);
    }
    if era.flushes_lone {
        flush_page(plan, s, facts, false);
    }
}

/// `adjust_pte`.
fn demote(era: Era, m: &Mapping, facts: &Facts, plan: &mut Plan) {
    flush_page(plan, m, facts, era.outer);
    let (set, clear) = (PvFlags::NC, PvFlags::empty());
    plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
    plan.push(Do::PteCache(false), m.space, m.va, 0);
    if m.current {
        plan.push(Do::TlbId, m.space, m.va, 0);
    }
}

fn will_leave(verb: Verb, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let Some(m) = &view.subject else { return };
    match verb {
        Verb::Kremove | Verb::Buffer => life::of_leaving(plan, verb, m, 0, facts),
        _ => flush_page(plan, m, facts, false),
    }
}

fn zero(plan: &mut Plan, frame: Frame, facts: &Facts) {
    let to = facts.scratch[1];
    let window = Do::Window {
        frame,
        cached: true,
        write: true,
    };
    plan.push(window, K, to, facts.page);
    plan.push(Do::TlbD, K, to, 0);
    plan.push(Do::Dcache(Invalidate), K, to, facts.page);
    plan.push(Do::Zero, K, to, facts.page);
    filled(plan, frame);
}

fn copy(plan: &mut Plan, from: Frame, to: Frame, facts: &Facts) {
    let [source, target] = facts.scratch;
    life::windows(plan, from, to, facts);
    plan.push(Do::Dcache(Invalidate), K, target, facts.page);
    plan.push(Do::Copy { from: source }, K, target, facts.page);
    plan.push(Do::Dcache(Invalidate), K, source, facts.page);
    filled(plan, to);
}

/// The page is an anonymous one, and neither dirty nor clean.
fn filled(plan: &mut Plan, frame: Frame) {
    plan.whole(Do::Drain);
    let clear = FILE | MARK;
    plan.push(
        Do::PageBits {
            frame,
            set: 0,
            clear,
        },
        K,
        VirtAddr(0),
        0,
    );
}
