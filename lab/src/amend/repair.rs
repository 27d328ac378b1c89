//! The cheapest set of up to two edits that makes an unsafe policy safe, guided by counterexamples.
//!
//! 1. Candidates: a condition of the skeleton set otherwise; two neighbouring parts of a verb exchanged; a
//!    step moved to the front or the end of its plan; a step added at the front or the end of a plan, at
//!    every moment at which the policy is asked. Each has a weight, by what it costs to do.
//! 2. Sets are tried lightest first. A set under which some known counterexample still finds something is
//!    refuted by running that sequence, which takes microseconds; one that passes them all is searched, and
//!    what the search finds is a counterexample more.
//! 3. A set that is safe in the scope is searched in the larger one, and handed back only if it is safe
//!    there too; otherwise the search goes on with the counterexample found.
//!
//! If no set is left, none of up to that many of these edits repairs the policy: each was refuted by a
//! sequence that anybody can replay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use machine::LineOp::{Clean, CleanInvalidate, Invalidate};
use machine::Profile;
use pmap::Policy;
use pmap::edit::{
    Change, Condition, ConditionEdit, Edit, PartChange, PlanEdit, SkeletonEdit, Spot, Target,
    VerbParts, Which,
};
use pmap::plan::Do;

use super::{Asked, Counterexample, Ground, Judgement, Runner, edited};

/// An edit to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The edit.
    pub edit: Edit,
    /// What it costs to do, roughly: sets are tried lightest first.
    pub weight: u32,
}

/// What a repair came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The edits, if a set was found.
    pub edits: Option<Vec<Edit>>,
    /// Candidates.
    pub candidates: usize,
    /// Sets tried.
    pub tried: u64,
    /// Sets that passed every known counterexample and were searched.
    pub searched: u64,
    /// Counterexamples, the policy's own first.
    pub known: Vec<Counterexample>,
    /// The time ran out before every set was tried.
    pub stopped: bool,
}

/// The candidates, lightest first.
pub fn candidates(policy: &Policy, asked: &Asked, profile: &Profile) -> Vec<Candidate> {
    let mut out = Vec::new();
    let mut add = |edit, weight| out.push(Candidate { edit, weight });
    for what in Condition::all() {
        let on = !what.of(&policy.skeleton);
        add(Edit::Condition(ConditionEdit { what, on }), 1);
    }
    for verb in VerbParts::all() {
        let parts = verb.parts_mut(&mut policy.skeleton.clone()).to_vec();
        for pair in parts.windows(2) {
            let change = PartChange::MoveAfter(pair[0], pair[1]);
            add(Edit::Skeleton(SkeletonEdit { verb, change }), 1);
        }
    }
    for (at, steps) in asked.values() {
        let mut plan = |change, weight| add(Edit::Plan(PlanEdit { at: *at, change }), weight);
        for name in steps.keys().filter(|_| steps.len() > 1) {
            for spot in [Spot::First, Spot::Last] {
                plan(Change::Move(Which::all(name), spot), 1);
            }
        }
        for (what, target, weight) in steps_to_add(profile) {
            for spot in [Spot::First, Spot::Last] {
                plan(Change::Insert(what, target, spot), weight);
            }
        }
    }
    out.sort_by_key(|c| c.weight);
    out
}

/// What can be added, with its weight.
fn steps_to_add(profile: &Profile) -> Vec<(Do, Target, u32)> {
    let each = [
        (Do::TlbId, 1),
        (Do::Icache, 3),
        (Do::Dcache(Invalidate), 3),
        (Do::Dcache(Clean), 4),
        (Do::Dcache(CleanInvalidate), 5),
        (Do::Idcache, 6),
        (Do::PteCache(false), 8),
    ];
    let targets = [
        (Target::Subject, 0),
        (Target::Others, 1),
        (Target::Mappings, 2),
    ];
    let mut out: Vec<_> = each
        .iter()
        .flat_map(|(what, weight)| {
            targets
                .iter()
                .map(move |(target, more)| (*what, *target, weight + more))
        })
        .collect();
    out.push((Do::IdcacheAll, Target::Whole, 20));
    if profile.write_buffer.entries > 0 {
        out.push((Do::Drain, Target::Whole, 1));
    }
    out
}

/// Looks for a repair of up to `most` (1 or 2) edits.
///
/// # Errors
/// The policy is safe as it is, or a search failed.
pub fn repair(
    policy: &Policy,
    (ground, confirm): (&Ground, &Ground),
    most: usize,
    time: Duration,
    mut tell: impl FnMut(&Outcome),
) -> Result<Outcome, String> {
    let first = match confirm.judge(policy)? {
        Judgement::Unsafe(found) => found,
        _ => {
            return Err(format!(
                "{} has no finding in scope {}",
                policy.name, confirm.scope.name
            ));
        }
    };
    let all = candidates(policy, &confirm.asked(policy)?, &ground.profile);
    let mut hunt = Hunt {
        policy,
        ground,
        confirm,
        runner: Runner::new(confirm, policy)?,
        out: Outcome {
            candidates: all.len(),
            known: vec![first],
            ..Outcome::default()
        },
        until: Instant::now() + time,
    };
    let sets =
        (0..all.len())
            .map(|n| vec![n])
            .chain(if most > 1 { pairs(&all) } else { Vec::new() });
    for set in sets {
        let edits: Vec<Edit> = set.iter().map(|n| all[*n].edit).collect();
        if hunt.try_set(&edits, &mut tell)? {
            hunt.out.edits = Some(edits);
            break;
        }
        if hunt.out.tried.is_multiple_of(256) && Instant::now() > hunt.until {
            hunt.out.stopped = true;
            break;
        }
    }
    Ok(hunt.out)
}

/// Every pair, lightest first.
fn pairs(all: &[Candidate]) -> Vec<Vec<usize>> {
    let mut out: Vec<(u32, u32, u32)> = (0..all.len() as u32)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| (all[a as usize].weight + all[b as usize].weight, b, a))
        .collect();
    out.sort_unstable();
    out.into_iter()
        .map(|(_, b, a)| vec![b as usize, a as usize])
        .collect()
}

struct Hunt<'a> {
    policy: &'a Policy,
    ground: &'a Ground,
    confirm: &'a Ground,
    runner: Runner,
    out: Outcome,
    until: Instant,
}

impl Hunt<'_> {
    /// Whether a set of edits makes the policy safe.
    fn try_set(&mut self, edits: &[Edit], tell: &mut impl FnMut(&Outcome)) -> Result<bool, String> {
        self.out.tried += 1;
        let trial = edited(self.policy, edits);
        let shared = Arc::new(trial.clone());
        let runner = &mut self.runner;
        // The counterexample that refuted last refutes the next one most often.
        let known = &mut self.out.known;
        if let Some(n) = known
            .iter()
            .position(|c| runner.run(&shared, &c.ops).is_some())
        {
            if n > 0 {
                known.swap(n, n - 1);
            }
            return Ok(false);
        }
        self.out.searched += 1;
        for ground in [self.ground, self.confirm] {
            match ground.judge(&trial)? {
                Judgement::Safe { .. } => {}
                Judgement::Unknown { .. } => return Ok(false),
                Judgement::Unsafe(found) => {
                    self.out.known.push(found);
                    tell(&self.out);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
