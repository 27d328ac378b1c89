//! `freebsd-2010-repaired`: the decision of `freebsd-2010`, carried out so that nothing is ever stale.
//!
//! 1. A page is uncached while the kernel and somebody else map it and one of them may write, or while one
//!    space maps it twice and may write: then every mapping is, the other spaces' too (they would fill the
//!    second level behind the uncached stores). Else every mapping is cached.
//! 2. Going uncached: the entry first, then its TLB copy, then its lines in both first-level caches, whoever
//!    referenced it (B23, B28); and once a page the second level's lines, which uncached accesses do not look
//!    at (B46), through a mapping that is live, or all of them if none is.
//! 3. Going cached: the entry, then its TLB copy (B45). There are no lines: nothing filled one meanwhile.
//! 4. A mapping that goes: entry, TLB copy, lines, in this order (B28); lines by virtual address, or all
//!    of them from the fourth page on. Every cache here keeps the physical address with the line, so that a
//!    write-back needs no translation.
//! 5. Write permission that goes is preceded by a write-back, so that lines of read-only mappings are never
//!    dirty and two of them in one space agree.
//! 6. TLB copies go whether or not the space is live: a switch between two spaces of one first-level table
//!    keeps them. Lines only if it is live: a switch to another space empties the first level.
//! 7. A frame is zeroed past the caches only after the second level has forgotten it. Windows are unmapped after
//!    use, their TLB copies flushed then; so there are none when one is mapped.
//! 8. A program's sync cleans data before it invalidates instructions.
//!
//! Its skeleton: unmanaged mappings have REF (B23), an uncached mapping stays so when entered again (B24),
//! "current" follows what is live (B25), `clearbit` and `remove_all` leave unmanaged mappings alone (B26, B27)
//! and after `clearbit` the decision is made anew. Qremove invalidates nobody's lines (B44). All user pages
//! count as executed: ARMv5 cannot forbid it.

use machine::LineOp::{Clean, CleanInvalidate, Invalidate};
use machine::{Frame, VirtAddr};

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::types::{PvFlags, SpaceId};
use crate::verbs::DmaOp;

const K: SpaceId = SpaceId::KERNEL;

/// From this length on, a range operation works on the whole cache.
const WHOLE: u32 = 0x4000;

/// Gives a buffer's mapping write permission or takes it: as in 5, lines are written back first; then the entry, then
/// its TLB copy.
pub(crate) fn buffer_write(plan: &mut Plan, va: VirtAddr, write: bool, facts: &Facts) {
    if !write {
        plan.push(Do::Dcache(Clean), K, va, facts.page);
    }
    plan.push(Do::BufferWrite(write), K, va, facts.page);
    plan.push(Do::TlbD, K, va, 0);
}

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Entered | Hook::Changed | Hook::Left(_) => decide(view, facts, plan),
        Hook::Ends {
            verb, pages, len, ..
        } => ends(verb, pages, len, view, facts, plan),
        Hook::Begins {
            verb: Verb::Protect,
            start,
            len,
        } => protect(view, start, len, plan),
        Hook::WillStore { verb, old, new } => {
            let write_goes = old.writable() && !new.writable();
            let clean = matches!(verb, Verb::Enter | Verb::ClearWrite | Verb::ClearModify);
            if let Some(m) = view.subject.filter(|m| write_goes && clean && m.live) {
                plan.push(Do::Dcache(Clean), m.space, m.va, facts.page);
            }
        }
        Hook::Stored { old, new, .. } => {
            // Fetches do not ask whether a store is allowed.
            let write_alone = old.with_write(new.writable()) == new;
            let tlb = if write_alone { Do::TlbD } else { Do::TlbId };
            if let Some(m) = view.subject {
                plan.push(tlb, m.space, m.va, 0);
            }
        }
        Hook::Fixed(_) => {
            // The TLB may have the copy of another space of this first-level table, by its domain.
            if let Some(m) = view.subject {
                plan.push(Do::TlbId, m.space, m.va, 0);
            }
        }
        Hook::Gone { verb, nth } => gone(verb, nth, view, facts, plan),
        Hook::Zero(frame) => zero(frame, view, facts, plan),
        Hook::Copy(from, to) => copy(from, to, facts, plan),
        Hook::Dma(op, va, len) => dma(op, va, len, plan),
        Hook::Switch { same: false, .. } | Hook::Activate => plan.whole(Do::IdcacheAll),
        Hook::Sync(va, len) => sync(va, len, plan),
        _ => {}
    }
}

/// Whether the page must be uncached.
fn conflict(mappings: &[Mapping]) -> bool {
    let write = |m: &Mapping| m.flags.contains(PvFlags::WRITE);
    let kernel = mappings.iter().any(|m| m.space.is_kernel());
    if kernel && mappings.len() > 1 && mappings.iter().any(write) {
        return true;
    }
    let of = |space: SpaceId| mappings.iter().filter(move |m| m.space == space);
    mappings.iter().any(|m| write(m) && of(m.space).count() > 1)
}

fn decide(view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let uncached = conflict(view.mappings);
    let wrong = |m: &&Mapping| m.pte.present() && m.pte.cacheable() == uncached;
    let (set, clear) = match uncached {
        true => (PvFlags::NC, PvFlags::empty()),
        false => (PvFlags::empty(), PvFlags::NC | PvFlags::MWC),
    };
    for m in view.mappings.iter().filter(wrong) {
        plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
        plan.push(Do::PteCache(!uncached), m.space, m.va, 0);
        plan.push(Do::TlbId, m.space, m.va, 0);
        if uncached {
            lines(m, facts, plan);
        }
    }
    // The mapping that enters was cached for a moment only; the others may have been for long.
    let enters = |m: &Mapping| {
        view.subject
            .is_some_and(|s| s.space == m.space && s.va == m.va)
    };
    let filled = view.mappings.iter().filter(wrong).any(|m| !enters(m));
    if uncached && filled && facts.l2 {
        forget_l2(view.mappings, facts, plan);
    }
}

/// A mapping's lines in the first-level caches.
fn lines(m: &Mapping, facts: &Facts, plan: &mut Plan) {
    if !m.live {
        return;
    }
    let what = match m.space.is_kernel() {
        true => Do::Dcache(CleanInvalidate),
        false => Do::Idcache,
    };
    plan.push(what, m.space, m.va, facts.page);
}

/// The page's lines in the second level, through whichever mapping translates.
fn forget_l2(mappings: &[Mapping], facts: &Facts, plan: &mut Plan) {
    match mappings.iter().find(|m| m.live && m.pte.valid()) {
        Some(m) => plan.push(Do::L2(CleanInvalidate), m.space, m.va, facts.page),
        None => plan.whole(Do::L2All(CleanInvalidate)),
    }
}

fn gone(verb: Verb, nth: u32, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let Some(m) = view.subject else { return };
    if verb == Verb::Remove && nth >= 3 {
        return;
    }
    plan.push(Do::TlbId, m.space, m.va, 0);
    if m.pte.cacheable() {
        lines(&m, facts, plan);
    }
}

fn ends(verb: Verb, pages: u32, len: u32, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let live = view.subject.is_none_or(|m| m.live);
    match verb {
        Verb::ClearWrite => decide(view, facts, plan),
        Verb::Protect if pages > 0 && len >= 4 * facts.page => plan.whole(Do::TlbAll),
        Verb::Remove if pages > 3 => {
            plan.whole(Do::TlbAll);
            if live {
                plan.whole(Do::IdcacheAll);
            }
        }
        Verb::RemovePages => {
            plan.whole(Do::TlbAll);
            plan.whole(Do::IdcacheAll);
        }
        _ => {}
    }
}

fn protect(view: &View<'_>, start: VirtAddr, len: u32, plan: &mut Plan) {
    let Some(m) = view.subject.filter(|m| m.live) else {
        return;
    };
    match len >= WHOLE {
        true => plan.whole(Do::DcacheAll(Clean)),
        false => plan.push(Do::Dcache(Clean), m.space, start, len),
    }
}

fn zero(frame: Frame, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let to = facts.scratch[1];
    let window = Do::Window {
        frame,
        cached: false,
        write: true,
    };
    // Nobody maps a page that is zeroed; whoever does sees the zeros.
    let mapped = view.mappings.iter().chain(&view.kva);
    mapped.for_each(|m| lines(m, facts, plan));
    plan.push(window, K, to, facts.page);
    if facts.l2 {
        plan.push(Do::L2(Invalidate), K, to, facts.page);
    }
    plan.push(Do::Zero, K, to, facts.page);
    plan.push(Do::Unwindow, K, to, 0);
    plan.push(Do::TlbD, K, to, 0);
}

fn copy(from: Frame, to: Frame, facts: &Facts, plan: &mut Plan) {
    let [source, target] = facts.scratch;
    plan.whole(Do::DcacheAll(CleanInvalidate));
    plan.whole(Do::L2All(CleanInvalidate));
    for (frame, va) in [(from, source), (to, target)] {
        let window = Do::Window {
            frame,
            cached: true,
            write: va == target,
        };
        plan.push(window, K, va, facts.page);
    }
    plan.push(Do::Copy { from: source }, K, target, facts.page);
    for va in [source, target] {
        plan.range(Do::Dcache(CleanInvalidate), K, va, facts.page);
        plan.push(Do::Unwindow, K, va, 0);
        plan.push(Do::TlbD, K, va, 0);
    }
}

fn dma(op: DmaOp, va: VirtAddr, len: u32, plan: &mut Plan) {
    match op {
        DmaOp::PreWrite => plan.range(Do::Dcache(Clean), K, va, len),
        DmaOp::PreRead | DmaOp::PostRead => plan.range(Do::Dcache(Invalidate), K, va, len),
        DmaOp::PostWrite => {}
    }
}

fn sync(va: VirtAddr, len: u32, plan: &mut Plan) {
    if len >= WHOLE {
        return plan.whole(Do::IdcacheAll);
    }
    plan.push(Do::Dcache(Clean), K, va, len);
    plan.push(Do::Icache, K, va, len);
}
