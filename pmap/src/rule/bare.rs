//! `bare`: TLB maintenance, PTE sync and the switch flush only. A yardstick: recycled frames, pages that
//! a device filled and copy windows go stale under it.

use crate::hook::{Facts, Hook, View};
use crate::plan::{Do, Plan};
use crate::rule::life;
use crate::types::SpaceId;

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Switch { .. } | Hook::Activate => life::plan(hook, view, facts, plan),
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
        }
        _ => {
            life::plan(hook, view, facts, plan);
            plan.steps.retain(|s| s.what.is_tlb());
            // The fourth page of a removal stands for every later one: flush at the end.
        }
    }
}
