//! Mutants on inputs: what each of them does otherwise than its base.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pmap::Policy;

use super::Campaign;
use super::inputs::print;
use super::list::Mutant;
use crate::case;

/// What a mutant changed on the inputs that it ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Some state differed from its base's.
    pub(super) state: bool,
    /// Cycles more than its base took.
    pub(super) cycles: i64,
    /// The shortest input that took more.
    pub(super) dearer: Option<usize>,
}

impl Campaign {
    pub(super) fn mutated(&self, mutants: &[&Mutant], machine: usize) -> Arc<Policy> {
        let line = self.benches[machine].line();
        let edited = mutants.iter().map(|m| m.edit(line));
        Arc::new(edited.fold((*self.base).clone(), Policy::edited))
    }

    pub(super) fn mutated_on_all(&self, mutants: &[&Mutant]) -> Vec<Option<Arc<Policy>>> {
        let fits =
            |n: &usize| self.benches[*n].has_lines() || !mutants.iter().any(|m| m.needs_lines());
        let of = |n: usize| fits(&n).then(|| self.mutated(mutants, n));
        (0..self.benches.len()).map(of).collect()
    }

    /// What a mutant changes on all inputs, or the first of them that kills it.
    pub(super) fn tried(&mut self, mutant: &Mutant) -> Result<Changed, usize> {
        let policies = self.mutated_on_all(&[mutant]);
        let mut changed = Changed::default();
        for n in 0..self.inputs.len() {
            if let Some(policy) = &policies[self.inputs[n].machine]
                && self.kills(n, policy, &mut changed)
                && self.steady(n)
            {
                return Err(n);
            }
        }
        Ok(changed)
    }

    /// The input that is a killer of that name.
    pub(super) fn named(&self, by: &str) -> Option<usize> {
        let is = |name: &Option<String>| name.as_deref() == Some(by);
        self.inputs.iter().position(|i| is(&i.name))
    }

    /// Whether a killer is dearer under the mutant.
    pub(super) fn shows(&mut self, mutant: &Mutant, by: &str) -> bool {
        let Some(n) = self.named(by) else {
            return false;
        };
        let input = &self.inputs[n];
        let policy = self.mutated(&[mutant], input.machine);
        self.benches[input.machine].dearer(&self.base, &policy, &input.moves)
    }

    /// Whether input `n` kills what these mutants make together.
    pub(super) fn kills_alone(&mut self, n: usize, mutants: &[&Mutant]) -> bool {
        let policies = self.mutated_on_all(mutants);
        let policy = policies[self.inputs[n].machine].as_ref();
        policy.is_some_and(|policy| self.kills(n, policy, &mut Changed::default()))
    }

    /// Whether input `n` kills a policy; notes what differs from the base.
    pub(super) fn kills(&mut self, n: usize, policy: &Arc<Policy>, changed: &mut Changed) -> bool {
        let input = &self.inputs[n];
        if !input.clean {
            return false;
        }
        if !input.plain() {
            return self.found(n, policy);
        }
        let bench = &mut self.benches[input.machine];
        let (mut at, mut same) = (0, true);
        let (look, prints) = (!changed.state, &input.prints);
        let run = AssertUnwindSafe(|| {
            bench.run(policy, &input.moves, |world| {
                same &= !look || prints.get(at) == Some(&print(world));
                at += 1;
                true
            })
        });
        let found = catch_unwind(run);
        changed.state |= !same;
        if !matches!(found, Ok(None)) {
            return true;
        }
        let more = bench.cycles as i64 - input.cycles as i64;
        changed.cycles += more;
        let shorter = |other: usize| self.inputs[other].moves.len() > input.moves.len();
        if more > 0 && changed.dearer.is_none_or(shorter) {
            changed.dearer = Some(n);
        }
        false
    }

    /// Whether the base is clean on an input wherever the hardware acts; killers were asked before.
    pub(super) fn steady(&mut self, n: usize) -> bool {
        let input = &self.inputs[n];
        input.name.is_some() || self.benches[input.machine].steady(&self.base, &input.moves)
    }

    pub(super) fn found(&mut self, n: usize, policy: &Arc<Policy>) -> bool {
        let input = &self.inputs[n];
        self.benches[input.machine]
            .try_run(policy, &input.moves)
            .is_some()
    }

    pub(super) fn killed_by_case(
        &mut self,
        mutant: &Mutant,
        changed: &mut Changed,
    ) -> Option<String> {
        (0..self.cases.len())
            .find(|n| self.case_kills(*n, mutant, changed))
            .map(|n| self.cases[n].name.clone())
    }

    pub(super) fn case_kills(&self, n: usize, mutant: &Mutant, changed: &mut Changed) -> bool {
        let known = &self.cases[n];
        if !known.row.verdicts.clean() {
            return false;
        }
        let line = known.profile.dcache.line;
        let policy = (*self.base).clone().edited(mutant.edit(line));
        let run =
            AssertUnwindSafe(|| case::run_under(&known.case, known.profile.clone(), policy, true));
        let Ok(row) = catch_unwind(run) else {
            return true;
        };
        changed.state |= row.prints != known.row.prints;
        !row.verdicts.clean()
    }

    /// After which operation of an input that the base is clean on a state first differs from the base's.
    pub(super) fn differs_at(&mut self, n: usize, policy: &Arc<Policy>) -> Option<usize> {
        let input = &self.inputs[n];
        if !input.clean || !input.plain() {
            return None;
        }
        let (mut at, mut differs) = (0, false);
        let bench = &mut self.benches[input.machine];
        let run = AssertUnwindSafe(|| {
            bench.run(policy, &input.moves, |world| {
                differs = input.prints.get(at) != Some(&print(world));
                at += usize::from(!differs);
                !differs
            })
        });
        let ran = catch_unwind(run).is_ok();
        (ran && differs).then_some(at)
    }

    /// The shortest committed or kept killer of a mutant that an input killed.
    pub fn shortest(&mut self, mutant: &Mutant) -> Option<String> {
        let policies = self.mutated_on_all(&[mutant]);
        let named = (0..self.inputs.len()).filter(|n| self.inputs[*n].name.is_some());
        let mut named: Vec<usize> = named.collect();
        named.sort_by_key(|n| (self.inputs[*n].moves.len(), self.inputs[*n].name.clone()));
        let n = named.into_iter().find(|n| {
            let policy = policies[self.inputs[*n].machine].clone();
            policy.is_some_and(|p| self.found(*n, &p))
        })?;
        self.inputs[n].name.clone()
    }
}
