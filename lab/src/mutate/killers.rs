//! Killers: inputs that show what a mutant gets wrong, looked for, shrunk and kept.

use std::sync::Arc;

use pmap::Policy;

use super::Campaign;
use super::bench::{self, Move};
use super::inputs::{Known, MACHINES};
use super::list::Mutant;
use super::record::{Fate, Killer};
use super::trial::Changed;
use crate::fuzz::Inputs;
use crate::op::Op;

/// Inputs on which a second step is dropped to see whether it covers for a mutant.
const COVER_MAX: usize = 120;
/// Inputs from which, once a mutant has made a state differ, other ways to go on are tried, and how many.
const HUNT_MAX: usize = 60;
const HUNT_TRIES: u32 = 150;
const HUNT_SEED: u64 = 0x6d75_7461_6e74;

impl Campaign {
    /// Names the killer; a random input is shrunk and kept first.
    pub(super) fn killed(&mut self, n: usize, mutant: &Mutant) -> Fate {
        let Known { name, machine, .. } = &self.inputs[n];
        let by = match name.clone() {
            Some(name) => name,
            None => {
                let policy = self.mutated(&[mutant], *machine);
                let input = (*machine, self.inputs[n].moves.clone());
                self.keep(input, &mutant.name, &[policy], &[])
            }
        };
        Fate::Killed { by }
    }

    /// If it does less than its base, and all inputs together are dearer: the case that shows it, shrunk and kept.
    pub(super) fn slower(&mut self, mutant: &Mutant, changed: Changed) -> Option<String> {
        let dearer = changed.dearer.filter(|_| changed.cycles > 0);
        let n = dearer.filter(|_| mutant.does_less())?;
        let Known { name, machine, .. } = &self.inputs[n];
        if name.is_some() {
            return name.clone();
        }
        let (machine, moves) = (*machine, self.inputs[n].moves.clone());
        let (base, policy) = (self.base.clone(), self.mutated(&[mutant], machine));
        let bench = &mut self.benches[machine];
        let moves = bench.shrink(&moves, |bench, trial| bench.dearer(&base, &policy, trial));
        Some(self.keep_as(&mutant.name, machine, moves))
    }

    /// The killer made of what a search found.
    pub(super) fn witnessed(
        &mut self,
        mutant: &Mutant,
        machine: &str,
        ops: &[Op],
    ) -> Option<String> {
        let machine = MACHINES.iter().position(|(name, _)| *name == machine)?;
        let (policy, moves) = (self.mutated(&[mutant], machine), bench::plain(ops));
        let bench = &mut self.benches[machine];
        let kills = bench.steady(&self.base, &moves) && bench.try_run(&policy, &moves).is_some();
        kills.then(|| self.keep((machine, moves), &mutant.name, &[policy], &[]))
    }

    /// Shrinks an input that all of `dirty` fail on and all of `clean` pass, and keeps it as a killer.
    fn keep(
        &mut self,
        (machine, moves): (usize, Vec<Move>),
        name: &str,
        dirty: &[Arc<Policy>],
        clean: &[Arc<Policy>],
    ) -> String {
        let base = self.base.clone();
        let moves = self.benches[machine].shrink(&moves, |bench, trial| {
            dirty.iter().all(|p| bench.try_run(p, trial).is_some())
                && clean.iter().all(|p| bench.try_run(p, trial).is_none())
                && bench.steady(&base, trial)
        });
        self.keep_as(name, machine, moves)
    }

    fn keep_as(&mut self, name: &str, machine: usize, moves: Vec<Move>) -> String {
        let killer = Killer {
            name: self.name_for(name),
            machine: MACHINES[machine].0.to_owned(),
            moves,
        };
        self.add_killer(&killer);
        self.found.push(killer.clone());
        killer.name
    }

    /// A file's name for the killer of a mutant, not used yet.
    fn name_for(&self, mutant: &str) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let slug: String = mutant.chars().map(letter).collect();
        let numbered = (2..).map(|n| format!("{slug}-{n}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        names
            .find(|name| self.named(name).is_none())
            .unwrap_or(slug)
    }

    /// Looks further where the mutant has made a state differ: many ways to go on from there.
    pub(super) fn hunted(&mut self, mutant: &Mutant) -> Option<String> {
        let policies = self.mutated_on_all(&[mutant]);
        let mut inputs = Inputs::new(HUNT_SEED);
        let mut begun = 0;
        for n in 0..self.inputs.len() {
            let machine = self.inputs[n].machine;
            let Some(policy) = &policies[machine] else {
                continue;
            };
            let Some(at) = self.differs_at(n, policy) else {
                continue;
            };
            let beginning = self.inputs[n].moves[..=at].to_vec();
            for _ in 0..HUNT_TRIES {
                let bench = &mut self.benches[machine];
                let moves = bench.continued(&beginning, &mut inputs);
                if bench.try_run(policy, &moves).is_some() && bench.steady(&self.base, &moves) {
                    let policy = policy.clone();
                    return Some(self.keep((machine, moves), &mutant.name, &[policy], &[]));
                }
            }
            begun += 1;
            if begun == HUNT_MAX {
                break;
            }
        }
        None
    }

    /// Another dropped step together with which the mutant is killed, on inputs where the mutant alone makes
    /// a state differ.
    pub(super) fn covered(&mut self, mutant: &Mutant, all: &[Mutant]) -> Option<Fate> {
        let alone = self.mutated_on_all(&[mutant]);
        let mut differing = Vec::new();
        for n in 0..self.inputs.len() {
            if differing.len() < COVER_MAX
                && let Some(policy) = &alone[self.inputs[n].machine]
                && self.differs_at(n, policy).is_some()
            {
                differing.push(n);
            }
        }
        for other in all.iter().filter(|o| o.drops && !o.same_step(mutant)) {
            let both = self.mutated_on_all(&[mutant, other]);
            for &n in &differing {
                let machine = self.inputs[n].machine;
                let (Some(alone), Some(both)) = (&alone[machine], &both[machine]) else {
                    continue;
                };
                if !self.found(n, both) {
                    continue;
                }
                let only = self.mutated(&[other], machine);
                if self.found(n, &only) || !self.steady(n) {
                    continue;
                }
                let by = match self.inputs[n].name.clone() {
                    Some(name) => name,
                    None => {
                        let clean = [alone.clone(), only];
                        let input = (machine, self.inputs[n].moves.clone());
                        self.keep(input, &mutant.name, std::slice::from_ref(both), &clean)
                    }
                };
                let with = other.name.clone();
                return Some(Fate::Covered { with, by });
            }
        }
        None
    }
}
