//! The pmap's context: what a verb needs around it.

use machine::{CpuId, Hw};

use crate::Pmap;
use crate::hook::{Hook, View};
use crate::plan::{Plan, PlanStep};
use crate::policy::Policy;

/// A world with a pmap. The policy is only read.
pub trait PmapCtx: Hw {
    /// The pmap's state.
    fn pmap(&self) -> &Pmap;
    /// The pmap's state, to change.
    fn pmap_mut(&mut self) -> &mut Pmap;
    /// The policy in force.
    fn policy(&self) -> &Policy;
    /// Called after the rule was asked, before its plan is carried out, for reports.
    fn asked(&mut self, _cpu: CpuId, _hook: &Hook, _view: &View<'_>, _plan: &Plan) {}
    /// Called for each step of a plan as it is carried out, for reports and counts.
    fn planned(&mut self, _cpu: CpuId, _step: &PlanStep) {}
    /// Whether the injected operation must give way: a lock it needs is held by who was interrupted.
    fn infeasible(&mut self, _why: &'static str) {}
}
