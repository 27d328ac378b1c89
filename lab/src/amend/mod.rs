//! Policies changed by edits and judged by exhaustive search: what can go while a policy stays safe
//! ([`slim`]), and what must come in so that it becomes safe ([`repair`]).
//!
//! An edit is [`pmap::edit::Edit`], the same that plants faults and makes mutants. Which edits there are to
//! try is not guessed: [`Ground::asked`] lists the moments at which the policy is asked within the scope and
//! the steps it plans there.

pub mod repair;
pub mod slim;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use machine::Profile;
use pmap::Policy;
use pmap::edit::{Edit, Moment};

use crate::explore::engine::Model as _;
use crate::explore::{
    Ended, Fingerprints, Limits, Outcome, Scope, Search, Symmetry, WorldModel, witness,
};
use crate::journal::{Detail, Entry};
use crate::op::Op;
use crate::oracle::{Kind, Oracle};
use crate::system;
use crate::world::World;

/// States that are looked at to learn what a policy is asked and plans.
const SAMPLE: usize = 30_000;

/// A machine and what is tried on it.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The machine.
    pub profile: Arc<Profile>,
    /// What is tried.
    pub scope: Scope,
    /// Threads of a search.
    pub threads: usize,
    /// Most states of one search.
    pub states: u64,
}

/// What a search says of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Every reachable state was seen.
    Safe {
        /// How many there are.
        states: u64,
    },
    /// A shortest sequence leads to a finding.
    Unsafe(Counterexample),
    /// The limit was reached.
    Unknown {
        /// States seen.
        states: u64,
    },
}

/// A sequence that leads to a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counterexample {
    /// What is found.
    pub kind: Kind,
    /// Actions.
    pub depth: u32,
    /// Their operations.
    pub ops: Vec<Op>,
}

/// The moments at which a policy is asked, by their text, and how often it planned each step there.
pub type Asked = BTreeMap<String, (Moment, BTreeMap<&'static str, u64>)>;

impl Ground {
    /// Searches the whole scope under a policy.
    ///
    /// # Errors
    /// The machine cannot be searched, or a finding cannot be walked again.
    pub fn judge(&self, policy: &Policy) -> Result<Judgement, String> {
        let model = || {
            let mut model =
                WorldModel::new(&self.profile, policy.clone(), &self.scope, Symmetry::On)?;
            model.strict = true;
            Ok::<_, String>(model)
        };
        let helpers: Result<Vec<_>, String> = (1..self.threads).map(|_| model()).collect();
        let mut search = Search::new(model()?, Fingerprints::default());
        let limits = Limits {
            states: self.states,
            bytes: 4 << 30,
            first: true,
        };
        let ended = search.run_with(&mut helpers?, &limits, |_| ControlFlow::Continue(()));
        let states = search.states();
        if let Some(finding) = search.found.first().copied() {
            let ops =
                witness::operations(&mut search, &finding, &self.profile, policy, &self.scope)?;
            return Ok(Judgement::Unsafe(Counterexample {
                kind: finding.bad,
                depth: finding.depth,
                ops,
            }));
        }
        Ok(match ended {
            Ended::Closed => Judgement::Safe { states },
            _ => Judgement::Unknown { states },
        })
    }

    /// What a policy is asked in the first states of the scope, and what it plans.
    ///
    /// # Errors
    /// The machine cannot be searched.
    pub fn asked(&self, policy: &Policy) -> Result<Asked, String> {
        let mut model = WorldModel::new(&self.profile, policy.clone(), &self.scope, Symmetry::On)?;
        model.world.journal.detail = Detail::Plans;
        let mut states = vec![model.initial().to_vec()];
        let mut seen: HashSet<Vec<u8>> = states.iter().cloned().collect();
        let mut asked = Asked::new();
        let mut n = 0;
        while n < states.len() {
            let state = std::mem::take(&mut states[n]);
            model.expand(&state, |_, outcome| {
                if let Outcome::State(next) = outcome
                    && states.len() < SAMPLE
                    && !seen.contains(next)
                {
                    seen.insert(next.to_vec());
                    states.push(next.to_vec());
                }
            });
            note(
                &mut asked,
                model.world.journal.take().into_iter().map(|e| e.1),
            );
            n += 1;
        }
        Ok(asked)
    }
}

fn note(asked: &mut Asked, entries: impl Iterator<Item = Entry>) {
    let mut at = None;
    for entry in entries {
        match entry {
            Entry::Asked(hook, _) => {
                let moment = Moment::of(&hook);
                let text = moment.to_string();
                asked
                    .entry(text.clone())
                    .or_insert_with(|| (moment, BTreeMap::new()));
                at = Some(text);
            }
            Entry::Planned(step) => {
                if let Some((_, steps)) = at.as_ref().and_then(|at| asked.get_mut(at)) {
                    *steps.entry(step.what.name()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}

/// Runs sequences under policies, from the state that a search starts from.
pub struct Runner {
    start: World<Oracle>,
    world: World<Oracle>,
}

impl Runner {
    /// A runner on the ground's machine.
    ///
    /// # Errors
    /// The machine has no room.
    pub fn new(ground: &Ground, policy: &Policy) -> Result<Self, String> {
        let start = system::bare(ground.profile.clone(), policy.clone(), ground.scope.spaces)?;
        Ok(Self {
            world: start.clone(),
            start,
        })
    }

    /// What a sequence finds under a policy, if anything.
    pub fn run(&mut self, policy: &Arc<Policy>, ops: &[Op]) -> Option<Kind> {
        let world = &mut self.world;
        world.put_back(&self.start);
        world.policy.clone_from(policy);
        ops.iter().find_map(|op| {
            op.run(world);
            let worst = world.observer.verdicts.worst();
            worst
                .filter(|k| *k != Kind::Permitted)
                .or_else(|| world.state.pmap.check().map(|_| Kind::BrokenRule))
        })
    }
}

/// A policy with edits.
pub fn edited(policy: &Policy, edits: &[Edit]) -> Policy {
    edits
        .iter()
        .fold(policy.clone(), |policy, edit| policy.edited(*edit))
}
