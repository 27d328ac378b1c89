//! Mutation: is any step of a correct policy there for nothing, or its loss unseen?
//!
//! Every mutant of a policy ([`list`]) runs the committed killers, then random legal sequences with acts of
//! the hardware, then the cases. It is
//!
//! - *killed* if an input gives a verdict under it and none under its base;
//! - *inert* if no input made any state of machine or pmap differ from its base's, after any operation;
//! - *covered* by another step if an input gives a verdict only when both are dropped;
//! - *open* otherwise: then a case is missing, or a step is not needed.
//!
//! "No verdict under its base" is meant strictly: where the hardware acts within an operation, the base must
//! be clean wherever in that operation it acts. A new killer is shrunk and kept ([`record`]); the shortest one
//! is named.
//!
//! Verified is what the inputs reach: one CPU, sequences of at most 48 operations, the machines of [`MACHINES`].

pub mod bench;
pub mod list;
pub mod record;

use std::path::Path;
use std::sync::Arc;

use machine::Profile;
use pmap::Policy;

use crate::case::{self, Case, Row, suite};
use crate::fuzz::Inputs;
use bench::{Bench, Move};
use list::Mutant;
use record::{Fate, Fates, Killer};

/// The machines that inputs run on, and how many random inputs each gets of a hundred.
pub const MACHINES: [(&str, u32); 4] = [
    ("tiny-vivt", 35),
    ("tiny-line", 30),
    ("tiny-line-ra", 30),
    ("sheevaplug", 5),
];
/// Random inputs that mutants are listed by. Fixed, so that the list is.
const LISTING: u32 = 1_000;
/// Inputs on which a second step is dropped to see whether it covers for a mutant.
const COVER_MAX: usize = 120;
/// Inputs from which, once a mutant has made a state differ, other ways to go on are tried, and how many.
const HUNT_MAX: usize = 60;
const HUNT_TRIES: u32 = 150;
const HUNT_SEED: u64 = 0x6d75_7461_6e74;

/// An input with what the base did.
pub struct Known {
    /// Its name, if it is a killer.
    pub name: Option<String>,
    /// Which of [`MACHINES`].
    pub machine: usize,
    /// Operations.
    pub moves: Vec<Move>,
    /// The base is clean, wherever the hardware acts.
    clean: bool,
    /// Fingerprints of the state after each operation.
    prints: Vec<u64>,
}

impl Known {
    /// Whether the hardware acts only between operations. Where it acts within one, its place is counted in
    /// micro-steps, and a mutant that makes one more or less differs for that alone.
    fn plain(&self) -> bool {
        self.moves.iter().all(|m| m.during.is_none())
    }
}

/// A case with what the base did.
pub struct KnownCase {
    /// `area/slug`, and `on MACHINE` if it has several.
    pub name: String,
    case: Case,
    profile: Arc<Profile>,
    /// The base's row.
    pub row: Row,
}

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
}

/// What came of a campaign.
pub struct Outcome {
    /// Every mutant with its fate.
    pub fates: Fates,
}

impl Outcome {
    /// How many mutants there are, and how many of them are killed, inert, covered and open.
    pub fn counts(&self) -> [usize; 5] {
        let of = |is: fn(&Fate) -> bool| self.fates.iter().filter(|(_, f)| is(f)).count();
        [
            self.fates.len(),
            of(|f| matches!(f, Fate::Killed { .. })),
            of(|f| *f == Fate::Inert),
            of(|f| matches!(f, Fate::Covered { .. })),
            of(|f| *f == Fate::Open),
        ]
    }
}

impl Campaign {
    /// A campaign with the killers of a directory, the cases of another, and no random inputs yet but those
    /// that mutants are listed by.
    ///
    /// # Errors
    /// A case or killer cannot be read.
    pub fn new(base: &Policy, killers: &Path, cases: &Path) -> Result<Self, String> {
        let profiles = MACHINES
            .iter()
            .filter_map(|(name, _)| Profile::embedded(name));
        let mut campaign = Self {
            base: Arc::new(base.clone()),
            benches: profiles.map(|p| Bench::new(p, base)).collect(),
            inputs: Vec::new(),
            cases: Vec::new(),
            found: Vec::new(),
            unclean: 0,
        };
        for file in suite::files(cases, "kdl").map_err(|e| format!("{}: {e}", cases.display()))? {
            campaign.add_case(cases, &file)?;
        }
        campaign.random(LISTING, 0);
        for killer in record::read_killers(killers)? {
            campaign.add_killer(&killer);
        }
        Ok(campaign)
    }

    fn add_case(&mut self, root: &Path, file: &Path) -> Result<(), String> {
        let case = case::read(file).map_err(|e| e.to_string())?;
        let inner = file.strip_prefix(root).unwrap_or(file).with_extension("");
        for profile in suite::machines(file, &case).map_err(|e| e.to_string())? {
            if !self.base.fits(&profile) {
                continue;
            }
            let row = case::run_under(&case, profile.clone(), (*self.base).clone(), true);
            let name = match case.machines.len() {
                0 | 1 => inner.display().to_string(),
                _ => format!("{} on {}", inner.display(), profile.name),
            };
            let case = case.clone();
            self.cases.push(KnownCase {
                name,
                case,
                profile,
                row,
            });
        }
        Ok(())
    }

    fn add_killer(&mut self, killer: &Killer) {
        let machine = MACHINES
            .iter()
            .position(|(name, _)| *name == killer.machine);
        if let Some(machine) = machine {
            let known = self.know(Some(killer.name.clone()), machine, killer.moves.clone());
            // Killers come before random inputs.
            let at = self.inputs.iter().take_while(|i| i.name.is_some()).count();
            self.inputs.insert(at, known);
        }
    }

    fn know(&mut self, name: Option<String>, machine: usize, moves: Vec<Move>) -> Known {
        let mut prints = Vec::with_capacity(moves.len());
        let bench = &mut self.benches[machine];
        let steady = name.is_none() || bench.steady(&self.base, &moves);
        let found = bench.run(&self.base, &moves, |world| {
            prints.push(print(world));
            true
        });
        Known {
            name,
            machine,
            moves,
            clean: steady && found.is_none(),
            prints,
        }
    }

    /// Adds `count` random inputs of a seed.
    pub fn random(&mut self, count: u32, seed: u64) {
        for (machine, (_, share)) in MACHINES.iter().enumerate() {
            let mut inputs = Inputs::new(seed ^ (machine as u64) << 32);
            for _ in 0..count * share / 100 {
                let moves = self.benches[machine].random(&mut inputs);
                let known = self.know(None, machine, moves);
                match known.clean {
                    true => self.inputs.push(known),
                    false => self.unclean += 1,
                }
            }
        }
    }

    /// Every mutant.
    pub fn mutants(&mut self) -> Vec<Mutant> {
        list::mutants(self)
    }

    fn mutated(&self, mutants: &[&Mutant], machine: usize) -> Arc<Policy> {
        let line = self.benches[machine].line();
        let edited = mutants.iter().map(|m| m.edit(line));
        Arc::new(edited.fold((*self.base).clone(), Policy::edited))
    }

    fn mutated_on_all(&self, mutants: &[&Mutant]) -> Vec<Option<Arc<Policy>>> {
        let fits =
            |n: &usize| self.benches[*n].has_lines() || !mutants.iter().any(|m| m.needs_lines());
        let of = |n: usize| fits(&n).then(|| self.mutated(mutants, n));
        (0..self.benches.len()).map(of).collect()
    }

    /// Runs one mutant. `recorded` is what was said of it the last time.
    pub fn judge(&mut self, mutant: &Mutant, all: &[Mutant], recorded: Option<&Fate>) -> Fate {
        if let Some(Fate::Killed { by } | Fate::Covered { by, .. }) = recorded
            && let Some(fate) = self.again(mutant, all, recorded, by)
        {
            return fate;
        }
        let policies = self.mutated_on_all(&[mutant]);
        let mut differs = false;
        for n in 0..self.inputs.len() {
            let Some(policy) = &policies[self.inputs[n].machine] else {
                continue;
            };
            if self.kills(n, policy, &mut differs) && self.steady(n) {
                return self.killed(n, mutant, policy);
            }
        }
        if let Some(by) = self.killed_by_case(mutant, &mut differs) {
            return Fate::Killed { by };
        }
        if !differs {
            return Fate::Inert;
        }
        if let Some(by) = self.hunted(mutant) {
            return Fate::Killed { by };
        }
        self.covered(mutant, all).unwrap_or(Fate::Open)
    }

    /// Whether what was recorded is still so, as far as killers and random inputs can tell: the quick way.
    pub fn confirms(&mut self, mutant: &Mutant, all: &[Mutant], said: &Fate) -> bool {
        match said {
            Fate::Killed { by } | Fate::Covered { by, .. } => {
                self.again(mutant, all, Some(said), by).is_some()
            }
            Fate::Inert => {
                let policies = self.mutated_on_all(&[mutant]);
                let mut differs = false;
                for n in 0..self.inputs.len() {
                    if let Some(policy) = &policies[self.inputs[n].machine] {
                        self.kills(n, policy, &mut differs);
                    }
                }
                !differs
            }
            Fate::Open => false,
        }
    }

    /// Whether what was recorded is still so.
    fn again(
        &mut self,
        mutant: &Mutant,
        all: &[Mutant],
        said: Option<&Fate>,
        by: &str,
    ) -> Option<Fate> {
        if let Some(n) = self
            .inputs
            .iter()
            .position(|i| i.name.as_deref() == Some(by))
        {
            let alone = self.kills_alone(n, &[mutant])?;
            let holds = match said? {
                Fate::Covered { with, .. } => {
                    let other = all.iter().find(|m| m.name == *with)?;
                    let other_alone = self.kills_alone(n, &[other])?;
                    !alone && !other_alone && self.kills_alone(n, &[mutant, other])?
                }
                _ => alone,
            };
            return holds.then(|| said.cloned()).flatten();
        }
        let at = self.cases.iter().position(|c| c.name == by)?;
        let holds = matches!(said?, Fate::Killed { .. }) && self.case_kills(at, mutant, &mut false);
        holds.then(|| said.cloned()).flatten()
    }

    fn kills_alone(&mut self, n: usize, mutants: &[&Mutant]) -> Option<bool> {
        let policies = self.mutated_on_all(mutants);
        let policy = policies[self.inputs[n].machine].as_ref()?;
        Some(self.kills(n, policy, &mut false))
    }

    /// Whether input `n` kills a policy; notes if any state differs from the base's.
    fn kills(&mut self, n: usize, policy: &Arc<Policy>, differs: &mut bool) -> bool {
        let input = &self.inputs[n];
        if !input.clean {
            return false;
        }
        if *differs || !input.plain() {
            return self.found(n, policy);
        }
        let bench = &mut self.benches[input.machine];
        let mut at = 0;
        let prints = &input.prints;
        let run = std::panic::AssertUnwindSafe(|| {
            bench.run(policy, &input.moves, |world| {
                *differs |= prints.get(at) != Some(&print(world));
                at += 1;
                true
            })
        });
        let found = std::panic::catch_unwind(run);
        found.is_err() || found.is_ok_and(|f| f.is_some())
    }

    /// Whether the base is clean on an input wherever the hardware acts; killers were asked before.
    fn steady(&mut self, n: usize) -> bool {
        let input = &self.inputs[n];
        input.name.is_some() || self.benches[input.machine].steady(&self.base, &input.moves)
    }

    fn found(&mut self, n: usize, policy: &Arc<Policy>) -> bool {
        let input = &self.inputs[n];
        self.benches[input.machine]
            .try_run(policy, &input.moves)
            .is_some()
    }

    /// Names the killer; a random input is shrunk and kept first.
    fn killed(&mut self, n: usize, mutant: &Mutant, policy: &Arc<Policy>) -> Fate {
        if let Some(by) = self.inputs[n].name.clone() {
            return Fate::Killed { by };
        }
        let by = self.keep(n, &mutant.name, std::slice::from_ref(policy), &[]);
        Fate::Killed { by }
    }

    /// Shrinks an input that all of `dirty` fail on and all of `clean` pass, and keeps it as a killer.
    fn keep(
        &mut self,
        n: usize,
        name: &str,
        dirty: &[Arc<Policy>],
        clean: &[Arc<Policy>],
    ) -> String {
        let (machine, moves) = (self.inputs[n].machine, self.inputs[n].moves.clone());
        let base = self.base.clone();
        let moves = self.benches[machine].shrink(&moves, |bench, trial| {
            dirty.iter().all(|p| bench.try_run(p, trial).is_some())
                && clean.iter().all(|p| bench.try_run(p, trial).is_none())
                && bench.steady(&base, trial)
        });
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
        let taken = |name: &str| self.inputs.iter().any(|i| i.name.as_deref() == Some(name));
        let numbered = (2..).map(|n| format!("{slug}-{n}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        names.find(|name| !taken(name)).unwrap_or(slug)
    }

    fn killed_by_case(&mut self, mutant: &Mutant, differs: &mut bool) -> Option<String> {
        (0..self.cases.len())
            .find(|n| self.case_kills(*n, mutant, differs))
            .map(|n| self.cases[n].name.clone())
    }

    fn case_kills(&self, n: usize, mutant: &Mutant, differs: &mut bool) -> bool {
        let known = &self.cases[n];
        if !known.row.verdicts.clean() {
            return false;
        }
        let line = known.profile.dcache.line;
        let policy = (*self.base).clone().edited(mutant.edit(line));
        let run = std::panic::AssertUnwindSafe(|| {
            case::run_under(&known.case, known.profile.clone(), policy, true)
        });
        let Ok(row) = std::panic::catch_unwind(run) else {
            return true;
        };
        *differs |= row.prints != known.row.prints;
        !row.verdicts.clean()
    }

    /// Looks further where the mutant has made a state differ: many ways to go on from there.
    fn hunted(&mut self, mutant: &Mutant) -> Option<String> {
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
                    let known = self.know(None, machine, moves);
                    self.inputs.push(known);
                    let last = self.inputs.len() - 1;
                    return Some(self.keep(last, &mutant.name, std::slice::from_ref(policy), &[]));
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
    fn covered(&mut self, mutant: &Mutant, all: &[Mutant]) -> Option<Fate> {
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
                        self.keep(n, &mutant.name, std::slice::from_ref(both), &clean)
                    }
                };
                let with = other.name.clone();
                return Some(Fate::Covered { with, by });
            }
        }
        None
    }

    /// After which operation of an input that the base is clean on a state first differs from the base's.
    fn differs_at(&mut self, n: usize, policy: &Arc<Policy>) -> Option<usize> {
        let input = &self.inputs[n];
        if !input.clean || !input.plain() {
            return None;
        }
        let (mut at, mut differs) = (0, false);
        let bench = &mut self.benches[input.machine];
        let run = std::panic::AssertUnwindSafe(|| {
            bench.run(policy, &input.moves, |world| {
                differs = input.prints.get(at) != Some(&print(world));
                at += usize::from(!differs);
                !differs
            })
        });
        let ran = std::panic::catch_unwind(run).is_ok();
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
            policy.is_some_and(|p| self.kills(*n, &p, &mut true))
        })?;
        self.inputs[n].name.clone()
    }
}

fn print(world: &mut crate::World<crate::oracle::Oracle>) -> u64 {
    let state = &mut world.state;
    machine::memory::mix(state.machine.fingerprint(), state.pmap.fingerprint())
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
