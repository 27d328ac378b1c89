//! `always-flush`: write back and invalidate both first-level caches and the second, and drain, at every
//! hook, kernel reads and writes included. A yardstick: nothing can be stale, at the highest price.
//!
//! 1. Kernel aliases never make a page uncached: a hook lies between every use of one alias and the next.
//! 2. User aliases of one space with a writer among them are uncached: no hook lies between a store and a
//!    load of the same program.
//! 3. TLB maintenance, windows and copies are those of `life`, with cached windows; but TLB copies of both
//!    sides go, and all of them at a switch, for pages are executed that nobody made executable and
//!    mappings removed that are not current.
//!
//! Its skeleton is `freebsd-2010` without the two mistakes of bookkeeping that no maintenance can make good
//! (B26, B27).

use machine::LineOp::CleanInvalidate;

use crate::ask::everything;
use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::{Do, Plan, PlanStep};
use crate::rule::life;
use crate::skeleton::{CoherentMap, Skeleton, freebsd_2010};
use crate::types::{PvFlags, SpaceId};

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    everything(plan);
    match *hook {
        Hook::Zero(frame) => {
            let to = facts.scratch[1];
            let window = Do::Window {
                frame,
                cached: true,
                write: true,
            };
            plan.push(window, SpaceId::KERNEL, to, facts.page);
            plan.push(Do::TlbD, SpaceId::KERNEL, to, 0);
            plan.push(Do::Zero, SpaceId::KERNEL, to, facts.page);
            everything(plan);
        }
        Hook::Copy(from, to) => {
            life::windows(plan, from, to, facts);
            let [source, target] = facts.scratch;
            plan.push(
                Do::Copy { from: source },
                SpaceId::KERNEL,
                target,
                facts.page,
            );
            everything(plan);
        }
        Hook::Entered | Hook::Changed | Hook::Left(_) => aliases(plan, view),
        _ => {
            let mut own = Plan::default();
            life::plan(hook, view, facts, &mut own);
            let tlb = own.steps.into_iter().filter(|s| s.what.is_tlb());
            plan.steps.extend(tlb.map(both_sides));
            if matches!(hook, Hook::Switch { same: false, .. }) {
                // Spaces of one first-level table keep their TLB copies over a switch.
                plan.whole(Do::TlbAll);
            }
        }
    }
}

/// The skeleton.
pub fn skeleton() -> Skeleton {
    Skeleton {
        name: "always-flush",
        clearbit_skips_unmanaged: true,
        remove_all_skips_unmanaged: true,
        current_is_live: true,
        coherent_map: CoherentMap::Unmarked,
        ..freebsd_2010()
    }
}

/// A TLB operation on both sides.
fn both_sides(step: PlanStep) -> PlanStep {
    match step.what {
        Do::TlbD => PlanStep {
            what: Do::TlbId,
            ..step
        },
        _ => step,
    }
}

/// Uncaches the mappings of each user space that has two or more with a writer; caches the others again.
fn aliases(plan: &mut Plan, view: &View<'_>) {
    for m in view.mappings.iter().filter(|m| !m.space.is_kernel()) {
        let of_space = |o: &&Mapping| o.space == m.space;
        let several = view.mappings.iter().filter(of_space).count() > 1;
        let writer = view
            .mappings
            .iter()
            .filter(of_space)
            .any(|o| o.flags.contains(PvFlags::WRITE));
        let uncached = several && writer;
        // Entry and flag both count: entering a mapping again makes its entry cacheable and leaves the flag.
        let flagged = m.flags.contains(PvFlags::NC);
        if m.pte.present() && (m.pte.cacheable() == uncached || flagged != uncached) {
            let (set, clear) = if uncached {
                (PvFlags::NC, PvFlags::empty())
            } else {
                (PvFlags::empty(), PvFlags::NC)
            };
            plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
            plan.push(Do::PteCache(!uncached), m.space, m.va, 0);
            plan.push(Do::TlbId, m.space, m.va, 0);
            plan.whole(Do::IdcacheAll);
            plan.whole(Do::L2All(CleanInvalidate));
        }
    }
}
