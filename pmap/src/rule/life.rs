//! Maintenance that belongs to one mapping's or one frame's own life, as FreeBSD 2010 to 2012 does it
//! (`pmap-freebsd-netbsd.md` 3.1, 3.2, 4.7): unmapping, protecting, windows, DMA, the switch, exec and
//! exit. Nothing here looks at a page's other mappings.
//!
//! 1. A mapping that goes is flushed if its space is current: three pages one by one, at the fourth
//!    everything.
//! 2. Write permission that goes is preceded by a write-back.
//! 3. A page is zeroed through an uncached window, and copied through cached ones between a flush of
//!    everything and a flush of both windows.
//! 4. DMA: write back before a device reads, invalidate before and after a device writes.
//! 5. A switch to another space empties the first-level caches; exec and exit empty the second too.

use machine::LineOp::{Clean, CleanInvalidate, Invalidate};
use machine::{Frame, VirtAddr};

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::rule::{flush, tlb};
use crate::types::{PvFlags, SpaceId};
use crate::verbs::DmaOp;

const K: SpaceId = SpaceId::KERNEL;

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Zero(frame) => zero(plan, frame, facts),
        Hook::Copy(from, to) => copy(plan, from, to, facts),
        Hook::Dma(op, va, len) => dma(plan, op, va, len),
        Hook::Switch { same: false, .. } => plan.whole(Do::IdcacheAll),
        Hook::Activate => everything(plan),
        Hook::Sync(va, len) => plan.push(Do::IcacheSync, K, va, len),
        Hook::Begins { verb, start, len } => begins(plan, verb, view, start, len),
        Hook::Ends {
            verb, pages, len, ..
        } => ends(plan, verb, view, pages, len, facts),
        _ => {
            if let Some(subject) = &view.subject {
                of_mapping(hook, subject, facts, plan);
            }
        }
    }
}

fn of_mapping(hook: &Hook, m: &Mapping, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::WillStore { verb, old, new } => {
            let write_goes = old.valid() && old.writable() && !new.writable();
            will_store(plan, verb, m, write_goes, facts);
        }
        Hook::Stored { .. } => tlb(plan, m),
        Hook::WillLeave { verb, nth } => of_leaving(plan, verb, m, nth, facts),
        Hook::Fixed(_) => plan.push(Do::TlbId, m.space, m.va, 0),
        _ => {}
    }
}

fn will_store(plan: &mut Plan, verb: Verb, m: &Mapping, write_goes: bool, facts: &Facts) {
    let cached = m.current && !m.flags.contains(PvFlags::NC);
    if !cached {
        return;
    }
    match verb {
        Verb::Enter if write_goes => plan.range(Do::Dcache(Clean), m.space, m.va, facts.page),
        Verb::ClearWrite | Verb::ClearModify if write_goes => {
            if m.flags.been_execd() {
                plan.range(Do::Idcache, m.space, m.va, facts.page);
            } else if m.flags.been_refd() {
                plan.range(Do::Dcache(Clean), m.space, m.va, facts.page);
            }
        }
        Verb::ClearReference if m.flags.been_refd() => {
            // By the entry: lines of one that is read-only for the moment are clean.
            let mut by_entry = *m;
            by_entry.flags.set(PvFlags::WRITE, m.pte.writable());
            flush(plan, &by_entry, facts.page);
        }
        _ => {}
    }
}

/// Answers `WillLeave`.
pub(crate) fn of_leaving(plan: &mut Plan, verb: Verb, m: &Mapping, nth: u32, facts: &Facts) {
    match verb {
        Verb::Enter if !m.flags.contains(PvFlags::NC) && m.pte.present() => {
            flush(plan, m, facts.page);
        }
        Verb::Kremove | Verb::Buffer => {
            plan.range(Do::Dcache(CleanInvalidate), m.space, m.va, facts.page);
            plan.push(Do::TlbD, m.space, m.va, 0);
        }
        Verb::RemoveAll if m.current => {
            plan.range(Do::Dcache(Invalidate), m.space, m.va, facts.page);
        }
        Verb::Remove if m.current && nth < 3 => {
            if m.flags.been_execd() {
                plan.range(Do::Idcache, m.space, m.va, facts.page);
            } else if m.flags.been_refd() {
                plan.range(Do::Dcache(CleanInvalidate), m.space, m.va, facts.page);
            }
            tlb(plan, m);
        }
        Verb::Remove if m.current && nth == 3 => everything(plan),
        _ => {}
    }
}

fn begins(plan: &mut Plan, verb: Verb, view: &View<'_>, start: VirtAddr, len: u32) {
    let current = view.subject.filter(|m| m.current);
    match verb {
        Verb::RemovePages => everything(plan),
        Verb::Protect => {
            if let Some(m) = current {
                plan.range(Do::Dcache(Clean), m.space, start, len);
            }
        }
        _ => {}
    }
}

fn ends(plan: &mut Plan, verb: Verb, view: &View<'_>, pages: u32, len: u32, facts: &Facts) {
    let current = view.subject.is_none_or(|m| m.current);
    let referenced = view.subject.is_some_and(|m| m.flags.been_refd());
    match verb {
        Verb::Remove if current && pages > 3 => plan.whole(Do::TlbAll),
        Verb::Protect if current && referenced && pages > 0 && len >= 4 * facts.page => {
            plan.whole(Do::TlbAll);
        }
        Verb::RemovePages => plan.whole(Do::TlbAll),
        Verb::RemoveAll if pages > 0 => plan.whole(Do::TlbAll),
        Verb::Release if current => {
            everything(plan);
            plan.whole(Do::TlbAll);
        }
        _ => {}
    }
}

fn everything(plan: &mut Plan) {
    plan.whole(Do::IdcacheAll);
    plan.whole(Do::L2All(CleanInvalidate));
}

fn zero(plan: &mut Plan, frame: Frame, facts: &Facts) {
    let to = facts.scratch[1];
    plan.push(
        Do::Window {
            frame,
            cached: false,
            write: true,
        },
        K,
        to,
        facts.page,
    );
    plan.push(Do::TlbD, K, to, 0);
    plan.push(Do::Zero, K, to, facts.page);
}

fn copy(plan: &mut Plan, from: Frame, to: Frame, facts: &Facts) {
    let [source, target] = facts.scratch;
    plan.whole(Do::DcacheAll(CleanInvalidate));
    plan.whole(Do::L2All(CleanInvalidate));
    windows(plan, from, to, facts);
    plan.push(Do::Copy { from: source }, K, target, facts.page);
    plan.push(Do::Dcache(Invalidate), K, source, facts.page);
    plan.push(Do::Dcache(CleanInvalidate), K, target, facts.page);
    plan.push(Do::L2(Invalidate), K, source, facts.page);
    plan.push(Do::L2(CleanInvalidate), K, target, facts.page);
}

/// Maps the cached source and target windows of a copy and flushes their TLB entries.
pub(crate) fn windows(plan: &mut Plan, from: Frame, to: Frame, facts: &Facts) {
    let [source, target] = facts.scratch;
    let window = |frame, write| Do::Window {
        frame,
        cached: true,
        write,
    };
    plan.push(window(from, false), K, source, facts.page);
    plan.push(Do::TlbD, K, source, 0);
    plan.push(window(to, true), K, target, facts.page);
    plan.push(Do::TlbD, K, target, 0);
}

fn dma(plan: &mut Plan, op: DmaOp, va: VirtAddr, len: u32) {
    match op {
        DmaOp::PreWrite => plan.range(Do::Dcache(Clean), K, va, len),
        // Unaligned ends would be written back here; transfers are whole sectors.
        DmaOp::PreRead | DmaOp::PostRead => plan.range(Do::Dcache(Invalidate), K, va, len),
        DmaOp::PostWrite => return,
    }
    plan.whole(Do::Drain);
}
