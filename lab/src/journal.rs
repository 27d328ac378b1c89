//! The journal: what happened, step by step, for reports. It decides nothing and is off by default.

use machine::{CpuId, Mark, Step};
use pmap::hook::{Hook, View};
use pmap::plan::{Plan, PlanStep};

/// Entries kept; a longer story keeps its end.
const KEPT: usize = 1 << 16;

/// One thing that happened.
#[derive(Clone, PartialEq, Debug)]
pub enum Entry {
    /// The rule was asked and planned so many steps.
    Asked(Hook, usize),
    /// A plan's step was carried out.
    Planned(PlanStep),
    /// A micro-step.
    Step(Step),
    /// A mark.
    Mark(Mark),
}

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    Off,
    /// Plans' steps and marks.
    Plans,
    /// Micro-steps too.
    Steps,
}

/// The record.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// What is recorded.
    pub detail: Detail,
    entries: Vec<(CpuId, Entry)>,
}

impl Journal {
    /// Takes what was recorded since the last call.
    pub fn take(&mut self) -> Vec<(CpuId, Entry)> {
        std::mem::take(&mut self.entries)
    }

    fn push(&mut self, cpu: CpuId, entry: Entry) {
        if self.entries.len() >= KEPT {
            self.entries.drain(..KEPT / 2);
        }
        self.entries.push((cpu, entry));
    }

    #[inline]
    pub(crate) fn stepped(&mut self, cpu: CpuId, step: &Step) {
        if self.detail >= Detail::Steps {
            self.push(cpu, Entry::Step(*step));
        }
    }

    pub(crate) fn marked(&mut self, cpu: CpuId, mark: &Mark) {
        if self.detail >= Detail::Plans {
            self.push(cpu, Entry::Mark(mark.clone()));
        }
    }

    pub(crate) fn asked(&mut self, cpu: CpuId, hook: &Hook, _view: &View<'_>, plan: &Plan) {
        if self.detail >= Detail::Plans {
            self.push(cpu, Entry::Asked(*hook, plan.steps.len()));
        }
    }

    #[inline]
    pub(crate) fn planned(&mut self, cpu: CpuId, step: &PlanStep) {
        if self.detail >= Detail::Plans {
            self.push(cpu, Entry::Planned(*step));
        }
    }
}
