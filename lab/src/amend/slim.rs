//! Which of a policy's steps can go while it stays safe on a machine.
//!
//! 1. Every step that the policy plans at some moment is a candidate; the one planned most often first.
//! 2. A candidate goes, in addition to those gone before, if the policy is still safe in the whole scope.
//!    So what stays is needed: with any of it gone as well, the search has a counterexample. Earlier
//!    counterexamples are tried first.
//! 3. What went is confirmed in a larger scope. Where that has a counterexample, the steps go back in that
//!    prevent it, and no others.
//!
//! Steps that do nothing on the machine (a second level that it has not, an empty write buffer) are no
//! candidates: nothing could be learned of them here.

use std::sync::Arc;

use machine::Profile;
use pmap::Policy;
use pmap::edit::{Change, Edit, Moment, PlanEdit, Which};

use super::{Asked, Counterexample, Ground, Judgement, Runner, edited};
use crate::oracle::Kind;

/// What became of a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It can go.
    Gone,
    /// It is needed: without it there is such a finding.
    Needed(Kind, u32),
    /// The search did not come to an end.
    Unknown,
}

/// One step at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// How often it was planned among the states looked at.
    pub planned: u64,
    /// The edit that drops it.
    pub edit: Edit,
    /// What became of it.
    pub fate: Fate,
}

/// The candidates, the most often planned first.
pub fn candidates(asked: &Asked, profile: &Profile) -> Vec<Candidate> {
    let mut out: Vec<_> = asked
        .values()
        .flat_map(|(at, steps)| steps.iter().map(|(name, n)| (*at, *name, *n)))
        .filter(|(_, name, _)| works(name, profile))
        .map(|(at, name, planned)| Candidate {
            planned,
            edit: drop_of(at, name),
            fate: Fate::Unknown,
        })
        .collect();
    out.sort_by_key(|c| std::cmp::Reverse(c.planned));
    out
}

/// Whether a step does anything on a machine.
fn works(name: &str, profile: &Profile) -> bool {
    let l2 = name.starts_with("l2cache") && profile.l2.is_none();
    let drain = name == "drain_writebuf" && profile.write_buffer.entries == 0;
    let fetch = name == "flush_fetch" && profile.fetch_buffer.words <= 1;
    !(l2 || drain || fetch)
}

fn drop_of(at: Moment, name: &'static str) -> Edit {
    let change = Change::Drop(Which::all(name));
    Edit::Plan(PlanEdit { at, change })
}

/// Decides every candidate; `tell` hears of each.
///
/// # Errors
/// The policy is not safe as it is, or a search failed.
pub fn slim(
    policy: &Policy,
    ground: &Ground,
    confirm: &Ground,
    mut tell: impl FnMut(&Candidate),
) -> Result<Vec<Candidate>, String> {
    if let Judgement::Unsafe(found) = ground.judge(policy)? {
        return Err(format!(
            "{} is not safe in scope {}: {} after {} actions; try `pmaplab repair {}`",
            policy.name,
            ground.scope.name,
            found.kind.name(),
            found.depth,
            policy.name
        ));
    }
    let mut all = candidates(&ground.asked(policy)?, &ground.profile);
    let mut known: Vec<Counterexample> = Vec::new();
    let mut runner = Runner::new(ground, policy)?;
    for n in 0..all.len() {
        let mut edits = gone(&all);
        edits.push(all[n].edit);
        let trial = edited(policy, &edits);
        let shared = Arc::new(trial.clone());
        let hit = known
            .iter()
            .find_map(|c| Some((runner.run(&shared, &c.ops)?, c.depth)));
        all[n].fate = match hit {
            Some((kind, depth)) => Fate::Needed(kind, depth),
            None => match ground.judge(&trial)? {
                Judgement::Safe { .. } => Fate::Gone,
                Judgement::Unknown { .. } => Fate::Unknown,
                Judgement::Unsafe(found) => {
                    let fate = Fate::Needed(found.kind, found.depth);
                    known.push(found);
                    fate
                }
            },
        };
        tell(&all[n]);
    }
    put_back(policy, confirm, &mut all)?;
    Ok(all)
}

/// The edits of what can go.
pub fn gone(all: &[Candidate]) -> Vec<Edit> {
    let gone = all.iter().filter(|c| c.fate == Fate::Gone);
    gone.map(|c| c.edit).collect()
}

/// Confirms in the larger scope and puts back what that needs.
fn put_back(policy: &Policy, ground: &Ground, all: &mut [Candidate]) -> Result<(), String> {
    let mut runner = Runner::new(ground, policy)?;
    loop {
        let found = match ground.judge(&edited(policy, &gone(all)))? {
            Judgement::Safe { .. } => return Ok(()),
            Judgement::Unknown { states } => {
                return Err(format!(
                    "scope {} did not close within {states} states",
                    ground.scope.name
                ));
            }
            Judgement::Unsafe(found) => found,
        };
        let before = gone(all).len();
        let mut passes = |all: &[Candidate]| {
            let trial = Arc::new(edited(policy, &gone(all)));
            runner.run(&trial, &found.ops).is_none()
        };
        let mut back = Vec::new();
        for n in (0..all.len()).rev() {
            if passes(all) {
                break;
            }
            if all[n].fate == Fate::Gone {
                all[n].fate = Fate::Needed(found.kind, found.depth);
                back.push(n);
            }
        }
        // Of those put back, all but the ones that prevent it go again.
        for n in back {
            let needed = std::mem::replace(&mut all[n].fate, Fate::Gone);
            if !passes(all) {
                all[n].fate = needed;
            }
        }
        if gone(all).len() == before {
            return Err(format!(
                "{} is not safe in scope {}: {} after {} actions",
                policy.name,
                ground.scope.name,
                found.kind.name(),
                found.depth
            ));
        }
    }
}
