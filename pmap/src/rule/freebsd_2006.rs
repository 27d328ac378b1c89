//! `freebsd-2006`: `pmap_vac_me_harder` as FreeBSD had it, with what was wrong around it.
//!
//! Source: FreeBSD r1.42 (2006-03), `pmap-freebsd-netbsd.md` 2.1, 3.2 and 5.2; the skeleton of that year
//! holds B9 and B10.
//!
//! When the alias policy is asked:
//! 1. A mapping was entered, or its write permission flipped: yes. The flip is decided before the entry is
//!    stored, which then is stored cacheable all the same (B24).
//! 2. A mapping left: only if it could write (B22). `-fixed`: always.
//!
//! What is flushed:
//! 3. `pmap_remove`: three pages one by one, at the fourth everything, later ones from the TLB only.
//! 4. `pmap_remove_all`: nothing (B11). `-fixed`: each mapping's page, written back if it may write.
//! 5. `pmap_remove_pages`: everything, but after the entries are gone (B12). `-fixed`: before.
//! 6. A page is zeroed through a cached window, which is then written back.
//! 7. DMA: nothing before a device writes memory (B14). `-fixed`: as `life`.
//! 8. The rest as `life`; `qenter`, `qremove` and `clearbit` as in 2010.
//!
//! kenter mappings are on no list, so nothing is done for buffers (B1, B2), in `-fixed` neither.

use machine::Frame;
use machine::LineOp::CleanInvalidate;

use crate::hook::{Facts, Hook, Mapping, Verb, View};
use crate::plan::{Do, Plan};
use crate::rule::vac_me_harder::harder;
use crate::rule::{flush, freebsd_2010, life, tlb};
use crate::types::{PvFlags, SpaceId};
use crate::verbs::DmaOp;

/// The rule, as found.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Left(flags) if !flags.contains(PvFlags::WRITE) => {}
        Hook::WillLeave {
            verb: Verb::RemoveAll,
            ..
        }
        | Hook::Begins {
            verb: Verb::RemovePages,
            ..
        } => {}
        Hook::Ends {
            verb: Verb::RemovePages,
            ..
        } => {
            plan.whole(Do::IdcacheAll);
            plan.whole(Do::TlbAll);
        }
        Hook::Dma(DmaOp::PreRead, ..) => plan.whole(Do::Drain),
        _ => fixed(hook, view, facts, plan),
    }
}

/// The rule without B11, B12, B14 and B22.
pub fn fixed(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Entered | Hook::Changed | Hook::Left(_) => aliases(hook, view, facts, plan),
        Hook::Zero(frame) => zero(plan, frame, facts, false),
        Hook::WillLeave { verb, nth } => {
            if let Some(m) = &view.subject {
                will_leave(plan, verb, m, nth, facts);
            }
        }
        Hook::Ends {
            verb: Verb::Remove, ..
        } => {}
        _ => freebsd_2010::plan(hook, view, facts, plan),
    }
}

fn aliases(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let Some(s) = view.subject else { return };
    let va = matches!(hook, Hook::Entered).then_some(s.va);
    harder(plan, view, facts, (s.space, va));
}

fn will_leave(plan: &mut Plan, verb: Verb, m: &Mapping, nth: u32, facts: &Facts) {
    match verb {
        Verb::Remove if m.current => clean_list(plan, m, nth, facts),
        Verb::RemoveAll => flush(plan, m, facts.page),
        Verb::Remove => {}
        _ => life::of_leaving(plan, verb, m, nth, facts),
    }
}

/// Three pages one by one, at the fourth everything, later ones from the TLB only.
fn clean_list(plan: &mut Plan, m: &Mapping, nth: u32, facts: &Facts) {
    match nth {
        0..3 => {
            if m.flags.been_execd() {
                plan.range(Do::Idcache, m.space, m.va, facts.page);
            } else if m.flags.been_refd() {
                plan.range(Do::Dcache(CleanInvalidate), m.space, m.va, facts.page);
            }
            tlb(plan, m);
        }
        3 => {
            plan.whole(Do::IdcacheAll);
            plan.whole(Do::TlbAll);
        }
        _ => tlb(plan, m),
    }
}

/// Zeroes a page through a cached window that is then written back; NetBSD unmaps it before that.
pub(crate) fn zero(plan: &mut Plan, frame: Frame, facts: &Facts, unmap_first: bool) {
    let to = facts.scratch[1];
    let window = Do::Window {
        frame,
        cached: true,
        write: true,
    };
    plan.push(window, SpaceId::KERNEL, to, facts.page);
    plan.push(Do::TlbD, SpaceId::KERNEL, to, 0);
    plan.push(Do::Zero, SpaceId::KERNEL, to, facts.page);
    if unmap_first {
        plan.push(Do::Unwindow, SpaceId::KERNEL, to, 0);
    }
    plan.range(Do::Dcache(CleanInvalidate), SpaceId::KERNEL, to, facts.page);
}
