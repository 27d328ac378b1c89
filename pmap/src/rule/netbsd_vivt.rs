//! `netbsd-vivt`: `pmap_vac_me_harder` as NetBSD has it.
//!
//! Source: NetBSD `sys/arch/arm/arm32/pmap.c` of 2015 built for VIVT, `pmap-freebsd-netbsd.md` 2.1, 2.3,
//! 3.1 and 3.2.
//!
//! When the alias policy is asked:
//! 1. A mapping was entered (at the end, after the entry is stored), left, or lost its write permission:
//!    always.
//! 2. A mapping that is flagged uncached is passed over even if it was just entered again with a cacheable
//!    entry (B24).
//!
//! What is flushed:
//! 3. `pmap_remove`: three pages one by one, at the fourth everything; the TLB once at the end
//!    (`pmap_update`).
//! 4. `pmap_page_remove`: `pmap_clean_page`, once: nothing, the one page or the whole cache, by how many
//!    cacheable mappings of current spaces there are.
//! 5. A page is zeroed through a cached window, which is unmapped and then written back. A page is copied
//!    after `pmap_clean_page` of the source's writable mappings.
//! 6. The rest as `life`.
//!
//! kenter mappings are on no list and buffers are kenter'd here, so nothing is done for what the kernel
//! writes into them: NetBSD's own file layer goes through UBC windows made by `pmap_enter`.
//!
//! `netbsd-vivt-repaired` is NetBSD's answer made right, and therefore two things: its file layer's windows,
//! tracked as `pmap_enter` tracks them, read-only for readers and gone at release where a program executes
//! the page (`windows.rs`); and below them the decision and the order of `freebsd-2010-repaired`, because
//! `pmap_vac_me_harder` shares what that repairs: an entry stored cacheable and then passed over (B24), TLB
//! copies flushed before the store (B28), other spaces' lines in the second level (B46).

use machine::Frame;
use machine::LineOp::{Clean, CleanInvalidate, Invalidate};

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::rule::freebsd_2006::zero;
use crate::rule::vac_me_harder::harder;
use crate::rule::{freebsd_2010, life, repairs, tlb};
use crate::skeleton::Skeleton;
use crate::types::{PvFlags, SpaceId};

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Entered | Hook::Changed | Hook::Left(_) => {
            if let Some(s) = view.subject {
                let va = (*hook == Hook::Entered).then_some(s.va);
                harder(plan, view, facts, (s.space, va));
            }
        }
        Hook::Page(_) => {}
        Hook::Zero(frame) => zero(plan, frame, facts, true),
        Hook::Copy(from, to) => copy(plan, view, from, to, facts),
        Hook::WillLeave { verb, nth } => will_leave(plan, verb, view, nth, facts),
        Hook::Ends {
            verb: Verb::Remove,
            pages,
            ..
        } => {
            if pages > 0 && view.subject.is_none_or(|m| m.current) {
                plan.whole(Do::TlbAll);
            }
        }
        Hook::WillStore {
            verb: Verb::ClearWrite,
            old,
            new,
        } => {
            freebsd_2010::plan(hook, view, facts, plan);
            let recached = view.subject.filter(|m| m.flags.contains(PvFlags::NC));
            if let Some(m) = recached.filter(|_| old == new) {
                tlb(plan, &m);
            }
        }
        _ => life::plan(hook, view, facts, plan),
    }
}

/// The skeleton of `netbsd-vivt-repaired`: what NetBSD's facts are (a cached pmap, clearbit that passes over
/// kernel mappings) and, in the order that is right, every mapping tracked, the file layer's windows too.
pub fn repaired_skeleton() -> Skeleton {
    Skeleton {
        name: "netbsd-vivt-repaired",
        ..repairs::repaired()
    }
}

fn will_leave(plan: &mut Plan, verb: Verb, view: &View<'_>, nth: u32, facts: &Facts) {
    let Some(m) = &view.subject else { return };
    match verb {
        Verb::Remove if m.current => {
            life::of_leaving(plan, verb, m, nth, facts);
            plan.steps.retain(|s| !s.what.is_tlb());
        }
        Verb::RemoveAll if nth == 0 => clean_page(plan, view.mappings, facts, false),
        Verb::Remove | Verb::RemoveAll => {}
        _ => life::of_leaving(plan, verb, m, nth, facts),
    }
}

/// `pmap_clean_page`: with one cacheable mapping in current spaces, its page; with several, everything. As
/// a copy's source, only mappings that may write count, and lines may stay.
fn clean_page(plan: &mut Plan, mappings: &[Mapping], facts: &Facts, source: bool) {
    let mut flags = PvFlags::REF;
    let mut found: Option<&Mapping> = None;
    for m in mappings.iter().filter(|m| m.current) {
        flags |= m.flags;
        if m.flags.contains(PvFlags::NC) {
            break;
        }
        if source && !m.flags.contains(PvFlags::WRITE) {
            continue;
        }
        if found.is_some() {
            return plan.whole(Do::IdcacheAll);
        }
        found = Some(m);
    }
    let Some(m) = found else { return };
    let write = flags.contains(PvFlags::WRITE);
    let op = match (source, write) {
        (true, _) => Clean,
        (false, true) => CleanInvalidate,
        (false, false) => Invalidate,
    };
    let what = if flags.been_execd() {
        Do::Idcache
    } else {
        Do::Dcache(op)
    };
    plan.range(what, m.space, m.va, facts.page);
}

fn copy(plan: &mut Plan, view: &View<'_>, from: Frame, to: Frame, facts: &Facts) {
    const K: SpaceId = SpaceId::KERNEL;
    let [source, target] = facts.scratch;
    clean_page(plan, view.mappings, facts, true);
    life::windows(plan, from, to, facts);
    plan.push(Do::Copy { from: source }, K, target, facts.page);
    plan.range(Do::Dcache(Invalidate), K, source, facts.page);
    plan.range(Do::Dcache(CleanInvalidate), K, target, facts.page);
    plan.push(Do::Unwindow, K, source, 0);
    plan.push(Do::Unwindow, K, target, 0);
}
