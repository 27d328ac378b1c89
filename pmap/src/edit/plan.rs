//! Edits of plans.

use machine::VirtAddr;

use super::Moment;
use crate::hook::{Facts, Hook, View};
use crate::plan::{Do, Plan, PlanStep};
use crate::types::SpaceId;

/// Which steps of a plan an edit works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Which {
    /// By [`Do::name`]; `None` is every step.
    pub name: Option<&'static str>,
    /// Only the n-th of them in the plan, counted from 0.
    pub nth: Option<u32>,
}

/// Whose address an added step gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Target {
    /// The mapping the hook is about.
    Subject,
    /// Each mapping of the page, or its only one.
    Mappings,
    /// Each of them that is not the hook's.
    Others,
    /// No address.
    Whole,
}

/// Where a step goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Spot {
    /// To the front of the plan.
    First,
    /// To its end.
    Last,
    /// Before the next step of that name (the first, for an added one).
    Before(&'static str),
    /// Behind the next step of that name.
    After(&'static str),
}

/// What is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Change {
    /// The steps are gone.
    Drop(Which),
    /// They are done elsewhere in the same plan.
    Move(Which, Spot),
    /// Another thing is done in their place.
    Replace(Which, Do),
    /// Their range begins so many bytes later and ends so many bytes earlier (negative: it grows).
    Narrow {
        /// Which.
        which: Which,
        /// Bytes at the start.
        start: i32,
        /// Bytes at the end.
        end: i32,
    },
    /// A step more.
    Insert(Do, Target, Spot),
}

/// A change of what the rule plans at a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PlanEdit {
    /// When.
    pub at: Moment,
    /// What.
    pub change: Change,
}

impl Change {
    /// The steps that it is about; `None` for a step more.
    pub fn which(&self) -> Option<Which> {
        match self {
            Change::Drop(which)
            | Change::Move(which, _)
            | Change::Replace(which, _)
            | Change::Narrow { which, .. } => Some(*which),
            Change::Insert(..) => None,
        }
    }
}

impl Which {
    /// Every step of that name.
    pub fn all(name: &'static str) -> Self {
        Self {
            name: Some(name),
            nth: None,
        }
    }

    /// The n-th step of that name.
    pub fn nth(name: &'static str, nth: u32) -> Self {
        Self {
            name: Some(name),
            nth: Some(nth),
        }
    }

    /// The indices of the steps picked.
    fn pick(&self, steps: &[PlanStep]) -> Vec<usize> {
        let named = |s: &PlanStep| self.name.is_none_or(|n| s.what.name() == n);
        let found = (0..steps.len()).filter(|n| named(&steps[*n]));
        match self.nth {
            None => found.collect(),
            Some(nth) => found.skip(nth as usize).take(1).collect(),
        }
    }
}

impl PlanEdit {
    /// Applies the edit to what the rule planned at a hook; true if it changed anything.
    pub fn apply(&self, hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) -> bool {
        if !self.at.matches(hook) {
            return false;
        }
        let steps = &mut plan.steps;
        match self.change {
            Change::Drop(which) => drop_steps(steps, &which.pick(steps)),
            Change::Move(which, spot) => move_steps(steps, &which.pick(steps), spot),
            Change::Replace(which, what) => {
                let picked = which.pick(steps);
                picked.iter().for_each(|n| steps[*n].what = what);
                !picked.is_empty()
            }
            Change::Narrow { which, start, end } => {
                let picked = which.pick(steps);
                let narrowed = picked.iter().map(|n| narrow(&mut steps[*n], start, end));
                narrowed.fold(false, |any, one| any | one)
            }
            Change::Insert(what, target, spot) => {
                let new = added(what, target, view, facts);
                insert(steps, &new, spot, 0);
                !new.is_empty()
            }
        }
    }
}

fn drop_steps(steps: &mut Vec<PlanStep>, picked: &[usize]) -> bool {
    for n in picked.iter().rev() {
        steps.remove(*n);
    }
    !picked.is_empty()
}

/// Takes each step picked out and puts it at the spot nearest to where it was.
fn move_steps(steps: &mut Vec<PlanStep>, picked: &[usize], spot: Spot) -> bool {
    let before = steps.clone();
    if matches!(spot, Spot::First | Spot::Last) {
        let moved: Vec<PlanStep> = picked.iter().map(|n| steps[*n]).collect();
        drop_steps(steps, picked);
        insert(steps, &moved, spot, 0);
    } else {
        // From the last on, so that the places of those before stay as they were.
        for n in picked.iter().rev() {
            let step = steps.remove(*n);
            insert(steps, &[step], spot, *n);
        }
    }
    *steps != before
}

/// Puts steps at a spot; a named one is looked for from `from` on and then backwards when the steps are
/// to follow it, the other way round when they are to precede it.
fn insert(steps: &mut Vec<PlanStep>, new: &[PlanStep], spot: Spot, from: usize) {
    let is = |n: &usize, name: &str| steps[*n].what.name() == name;
    let ahead = |name: &str| (from..steps.len()).find(|n| is(n, name));
    let behind = |name: &str| (0..from).rev().find(|n| is(n, name));
    let at = match spot {
        Spot::First => 0,
        Spot::Last => steps.len(),
        Spot::Before(name) => behind(name).or(ahead(name)).unwrap_or(steps.len()),
        Spot::After(name) => ahead(name).or(behind(name)).map_or(steps.len(), |n| n + 1),
    };
    steps.splice(at..at, new.iter().copied());
}

fn narrow(step: &mut PlanStep, start: i32, end: i32) -> bool {
    if step.len == 0 {
        return false;
    }
    let len = (i64::from(step.len) - i64::from(start) - i64::from(end)).max(0);
    step.va = VirtAddr(step.va.0.wrapping_add_signed(start));
    step.len = u32::try_from(len).unwrap_or(u32::MAX);
    true
}

fn added(what: Do, target: Target, view: &View<'_>, facts: &Facts) -> Vec<PlanStep> {
    let step = |space: SpaceId, va: VirtAddr| PlanStep {
        what,
        space,
        va,
        len: facts.page,
    };
    let here =
        |space: SpaceId, va: VirtAddr| view.subject.is_some_and(|s| s.space == space && s.va == va);
    let all = view.mappings.iter().copied().chain(view.kva);
    match target {
        Target::Subject => view.subject.iter().map(|m| step(m.space, m.va)).collect(),
        Target::Mappings => all.map(|m| step(m.space, m.va)).collect(),
        Target::Others => all
            .filter(|m| !here(m.space, m.va))
            .map(|m| step(m.space, m.va))
            .collect(),
        Target::Whole => vec![PlanStep {
            len: 0,
            ..step(SpaceId::KERNEL, VirtAddr(0))
        }],
    }
}
