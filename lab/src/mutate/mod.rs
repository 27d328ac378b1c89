//! Mutation: is any step of a correct policy there for nothing, or its loss unseen?
//!
//! Every mutant of a policy ([`list`]) runs the committed killers, then random legal sequences with acts of
//! the hardware, then the cases. It is
//!
//! - *killed* if an input gives a verdict under it and none under its base;
//! - *inert* if no input made any state of machine or pmap differ from its base's, after any operation;
//! - *covered* by another step if an input gives a verdict only when both are dropped;
//! - *slower* if it does less, there is no verdict, and all inputs together take more cycles: the step is there for
//!   speed;
//! - *proved* if searches that reach its step ([`proof`]) close and find nothing: the step is not needed there;
//! - *open* otherwise: then a case is missing, or a step is not needed.
//!
//! A search that finds something kills: its shortest sequence is the killer. (Searches come last: they take
//! seconds.)
//!
//! "No verdict under its base" is meant strictly: where the hardware acts within an operation, the base must
//! be clean wherever in that operation it acts. A new killer is shrunk and kept ([`record`]); the shortest one
//! is named.
//!
//! Verified is what the inputs reach: one CPU, sequences of at most 48 operations, the machines of [`MACHINES`].

pub mod bench;
mod inputs;
mod killers;
pub mod list;
pub mod proof;
pub mod record;
mod trial;

use std::sync::Arc;

use pmap::Policy;

use bench::Bench;
pub use inputs::{Known, KnownCase, MACHINES};
use list::Mutant;
use proof::Proof;
use record::{Fate, Fates, Killer};
use trial::Changed;

/// A policy with everything that its mutants run on.
pub struct Campaign {
    /// The policy.
    pub base: Arc<Policy>,
    /// A bench for each of [`MACHINES`].
    pub benches: Vec<Bench>,
    /// Killers and random inputs.
    pub inputs: Vec<Known>,
    /// Cases.
    pub cases: Vec<KnownCase>,
    /// Killers found, not written yet.
    pub found: Vec<Killer>,
    /// Inputs left out because the base is not clean on them.
    pub unclean: usize,
    /// Where searches judge, once one is asked for.
    places: Option<Vec<proof::Place>>,
}

/// What came of a campaign.
pub struct Outcome {
    /// Every mutant with its fate.
    pub fates: Fates,
}

/// The names of [`Outcome::counts`].
pub const COUNTS: [&str; 7] = [
    "mutants", "killed", "inert", "covered", "slower", "proved", "open",
];

impl Outcome {
    /// How many mutants there are, and how many of each fate ([`COUNTS`]).
    pub fn counts(&self) -> [usize; 7] {
        let of = |is: fn(&Fate) -> bool| self.fates.iter().filter(|(_, f)| is(f)).count();
        [
            self.fates.len(),
            of(|f| matches!(f, Fate::Killed { .. })),
            of(|f| *f == Fate::Inert),
            of(|f| matches!(f, Fate::Covered { .. })),
            of(|f| matches!(f, Fate::Slower { .. })),
            of(|f| *f == Fate::Proved),
            self.open(),
        ]
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.fates.iter().filter(|(_, f)| *f == Fate::Open).count()
    }
}

impl Campaign {
    /// What searches say of a mutant.
    fn searched(&mut self, mutant: &Mutant) -> Proof {
        if mutant.needs_lines() || mutant.is_second_level() {
            return Proof::Unknown;
        }
        let places = self.places.get_or_insert_with(|| proof::places(&self.base));
        proof::search(&self.base, places, |line| mutant.edit(line))
    }

    /// Every mutant.
    pub fn mutants(&mut self) -> Vec<Mutant> {
        list::mutants(self)
    }

    /// Runs one mutant. `recorded` is what was said of it the last time.
    pub fn judge(&mut self, mutant: &Mutant, all: &[Mutant], recorded: Option<&Fate>) -> Fate {
        if let Some(fate @ (Fate::Killed { .. } | Fate::Covered { .. })) = recorded
            && self.confirms(mutant, all, fate)
        {
            return fate.clone();
        }
        let mut changed = match self.tried(mutant) {
            Ok(changed) => changed,
            Err(n) => return self.killed(n, mutant),
        };
        if let Some(by) = self.killed_by_case(mutant, &mut changed) {
            return Fate::Killed { by };
        }
        if !changed.state {
            return Fate::Inert;
        }
        if let Some(by) = self.hunted(mutant) {
            return Fate::Killed { by };
        }
        if let Some(by) = self.slower(mutant, changed) {
            return Fate::Slower { by };
        }
        if let Some(fate) = self.covered(mutant, all) {
            return fate;
        }
        match self.searched(mutant) {
            Proof::Unsafe { machine, ops } => match self.witnessed(mutant, machine, &ops) {
                Some(by) => Fate::Killed { by },
                None => Fate::Open,
            },
            Proof::Needless => Fate::Proved,
            Proof::Unknown => Fate::Open,
        }
    }

    /// Whether what was recorded is still so, as far as killers and random inputs can tell: the quick way.
    pub fn confirms(&mut self, mutant: &Mutant, all: &[Mutant], said: &Fate) -> bool {
        match said {
            Fate::Killed { by } => match self.named(by) {
                Some(n) => self.kills_alone(n, &[mutant]),
                None => {
                    let at = self.cases.iter().position(|c| c.name == *by);
                    at.is_some_and(|at| self.case_kills(at, mutant, &mut Changed::default()))
                }
            },
            Fate::Covered { with, by } => {
                let other = all.iter().find(|m| m.name == *with);
                let (Some(n), Some(other)) = (self.named(by), other) else {
                    return false;
                };
                let alone = [[mutant], [other]].map(|one| self.kills_alone(n, &one));
                alone == [false; 2] && self.kills_alone(n, &[mutant, other])
            }
            Fate::Slower { by } => self.shows(mutant, by),
            // Searches take seconds each; `pmaplab mutate` repeats them.
            Fate::Proved => self.tried(mutant).is_ok(),
            Fate::Inert => self.tried(mutant).is_ok_and(|changed| !changed.state),
            Fate::Open => false,
        }
    }
}

/// Runs every mutant of a campaign. `told` hears of each.
pub fn run(
    campaign: &mut Campaign,
    recorded: &Fates,
    mut told: impl FnMut(usize, usize),
) -> Outcome {
    let mutants = campaign.mutants();
    let (inputs, unclean) = (campaign.inputs.len(), campaign.unclean);
    tracing::info!(mutants = mutants.len(), inputs, unclean, "listed");
    let mut fates = Vec::with_capacity(mutants.len());
    for (n, mutant) in mutants.iter().enumerate() {
        told(n, mutants.len());
        let said = recorded.iter().find(|(name, _)| *name == mutant.name);
        let fate = campaign.judge(mutant, &mutants, said.map(|(_, fate)| fate));
        tracing::info!(mutant = mutant.name, %fate, "judged");
        fates.push((mutant.name.clone(), fate));
    }
    for (mutant, (_, fate)) in mutants.iter().zip(&mut fates) {
        if let Fate::Killed { by } = fate
            && let Some(shortest) = campaign.shortest(mutant)
        {
            *by = shortest;
        }
    }
    Outcome { fates }
}
