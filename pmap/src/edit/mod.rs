//! Edits of a policy, as data: steps dropped from a plan, moved, replaced, narrowed or added; parts of a
//! skeleton dropped, moved or swapped, its conditions set; micro-steps left out of a CPU routine.
//!
//! A rule is a plain function; its answers can still be changed without touching it, because a policy
//! carries a list of edits that are applied after the rule was asked. Planted faults, mutants, slimmed and
//! repaired policies are all the same thing: a policy and a list of edits. An edit is one line of text:
//!
//! ```text
//! drop dcache_wbinv#0 at will-leave:kremove
//! move tlb_flush_id last at entered
//! move tlb_flush_d#1 before pte_cache_off at any
//! replace idcache_wbinv with dcache_wbinv at will-leave:remove
//! narrow dcache_wb start 32 at begins:protect
//! widen dcache_inv end 32 at dma:post-read
//! insert tlb_flush_id subject first at stored:clear-write
//! skeleton remove drop sync
//! skeleton kremove move zero before will-leave
//! condition sticky-uncached on
//! routine idcache_range drop drain
//! ```
//!
//! `#n` picks the n-th step of that name in the plan (from 0); without it the edit works on every one.

mod condition;
mod moment;
mod plan;
pub(crate) mod routine;
mod skeleton;
mod text;

pub use condition::{Condition, ConditionEdit};
pub use moment::Moment;
pub use plan::{Change, PlanEdit, Spot, Target, Which};
pub use routine::{RoutineEdit, RoutineName, StepKind, call as call_routine};
pub use skeleton::{PartChange, SkeletonEdit, VerbParts};

use crate::policy::Policy;

/// One edit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Edit {
    /// Of what the rule plans.
    Plan(PlanEdit),
    /// Of a verb's order.
    Skeleton(SkeletonEdit),
    /// Of a fact of its bookkeeping.
    Condition(ConditionEdit),
    /// Of a CPU routine.
    Routine(RoutineEdit),
}

impl Policy {
    /// The policy with an edit more; skeleton edits work at once, the others when the rule is asked and
    /// its plan is carried out.
    #[must_use]
    pub fn edited(mut self, edit: Edit) -> Self {
        match edit {
            Edit::Plan(edit) => self.edits.push(edit),
            Edit::Skeleton(edit) => edit.apply(&mut self.skeleton),
            Edit::Condition(edit) => edit.apply(&mut self.skeleton),
            Edit::Routine(edit) => self.routine_edits.push(edit),
        }
        self
    }

    /// The policy with the edits that `text` has, one a line; empty lines are skipped.
    ///
    /// # Errors
    /// The first line that is no edit, with what was expected.
    pub fn edited_by(self, text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        lines
            .map(str::parse::<Edit>)
            .try_fold(self, |policy, edit| edit.map(|edit| policy.edited(edit)))
    }
}
