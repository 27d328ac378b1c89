//! From a finding to a case: the actions that led to it, on concrete spaces, frames and values, checked by
//! the same code that runs cases.
//!
//! The search knows states in canonical form only. Here the real world goes along: at each step the move is
//! taken whose outcome has the canonical bytes of the search's next state. Stores get values of their own.

use std::sync::Arc;

use machine::Profile;
use pmap::Policy;

use super::codec::{Codec, Symmetry};
use super::engine::{Finding, Model, Outcome, Search};
use super::model::{Done, WorldModel};
use super::scope::{Scope, with_value};
use crate::case::{Action, Case, Expectation, Line, op_text, run_one};
use crate::op::Op;
use crate::oracle::Kind;

/// The first value that a witness stores, `mov r0, #1`; each action adds 1, so that values differ in the byte
/// that the oracle's record of a word is read from.
const FIRST: u32 = 0xe3a0_0001;

/// A case that shows the finding, confirmed.
///
/// # Errors
/// The search and the case runner disagree: a fault of the search.
pub fn case(
    search: &mut Search<WorldModel>,
    finding: &Finding<Kind>,
    (profile, machine): (&Arc<Profile>, &str),
    policy: &Policy,
    scope: &Scope,
) -> Result<Case, String> {
    let ops = operations(search, finding, profile, policy, scope)?;
    let case = write_up(&ops, finding, machine, policy, scope);
    let row = run_one(&case, profile.clone(), policy.clone());
    if row.verdicts.of(finding.bad) == 0 {
        let text = crate::case::write(&case);
        let kind = finding.bad.name();
        return Err(format!("replay does not find {kind} in\n{text}"));
    }
    Ok(case)
}

/// The operations that lead to a finding, on concrete spaces, frames and values.
///
/// # Errors
/// The path cannot be walked in the real world: a fault of the search.
pub fn operations(
    search: &mut Search<WorldModel>,
    finding: &Finding<Kind>,
    profile: &Arc<Profile>,
    policy: &Policy,
    scope: &Scope,
) -> Result<Vec<Op>, String> {
    let states = canonical_path(search, finding)?;
    concrete(&states, finding, profile, policy, scope)
}

/// The bytes of every state on the way, the initial one first.
fn canonical_path(
    search: &mut Search<WorldModel>,
    finding: &Finding<Kind>,
) -> Result<Vec<Vec<u8>>, String> {
    let mut states = vec![search.model.initial().to_vec()];
    for action in search.path(finding.parent) {
        let mut next = None;
        let from = states.last().cloned().unwrap_or_default();
        search.model.expand(&from, |n, outcome| {
            if let (true, Outcome::State(state)) = (n == action, outcome) {
                next = Some(state.to_vec());
            }
        });
        states.push(next.ok_or("a path cannot be walked again")?);
    }
    Ok(states)
}

/// Follows the states in the real world.
fn concrete(
    states: &[Vec<u8>],
    finding: &Finding<Kind>,
    profile: &Arc<Profile>,
    policy: &Policy,
    scope: &Scope,
) -> Result<Vec<Op>, String> {
    let real = WorldModel::new(profile, policy.clone(), scope, Symmetry::Off)?;
    let codec = Codec::new(profile, Symmetry::On, scope)?;
    let mut walk = Walk {
        real,
        codec,
        ops: Vec::new(),
        stores: 0,
    };
    for state in &states[1..] {
        walk.step(|real, codec, done| {
            let mut packed = Vec::new();
            codec.save(&real.world, real.phase(), &mut packed);
            matches!(done, Done::Yes(_)) && packed == *state
        })?;
    }
    walk.step(|_, _, done| done == Done::Yes(Some(finding.bad)))?;
    Ok(walk.ops)
}

struct Walk {
    real: WorldModel,
    codec: Codec,
    ops: Vec<Op>,
    stores: u32,
}

impl Walk {
    /// Takes the first move that leads where it should.
    fn step(&mut self, fits: impl Fn(&WorldModel, &Codec, Done) -> bool) -> Result<(), String> {
        let before = (self.real.world.clone(), self.real.phase());
        let value = FIRST + self.stores % 255;
        for n in 0..self.real.moves().len() {
            if !self.real.facts().allow(self.real.moves()[n].act) {
                continue;
            }
            let ops = self.real.moves()[n].ops.iter();
            let mut ops: Vec<Op> = ops.map(|op| with_value(*op, value)).collect();
            let done = self.real.run_ops(n, &mut ops);
            if fits(&self.real, &self.codec, done) {
                self.stores += 1;
                self.ops.extend(ops);
                return Ok(());
            }
            self.real.world.clone_from(&before.0);
            self.real.set_phase(before.1);
        }
        let so_far: Vec<String> = self.ops.iter().map(op_text).collect();
        Err(format!(
            "no real move leads on after\n{}",
            so_far.join("\n")
        ))
    }
}

fn write_up(
    ops: &[Op],
    finding: &Finding<Kind>,
    machine: &str,
    policy: &Policy,
    scope: &Scope,
) -> Case {
    let line = |op: &Op| Line {
        number: 0,
        text: op_text(op),
        action: Action::Bare(*op),
    };
    let kind = finding.bad.name();
    Case {
        claim: format!(
            "{kind} under {} in {} actions, none shorter",
            policy.name, finding.depth
        ),
        source: format!("pmaplab explore --scope {}", scope.name),
        machines: vec![machine.to_owned()],
        policies: vec![policy.name.to_owned()],
        files: Vec::new(),
        lines: ops.iter().map(line).collect(),
        expectations: vec![Expectation {
            number: 0,
            policy: policy.name.to_owned(),
            kind: Some(finding.bad),
            uncached: None,
            machine: String::new(),
            because: "found by exhaustive search".to_owned(),
        }],
    }
}
