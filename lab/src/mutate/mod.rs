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
pub mod list;
pub mod proof;
pub mod record;

use std::path::Path;
use std::sync::Arc;

use machine::Profile;
use pmap::Policy;

use crate::case::{self, Case, Row, suite};
use crate::fuzz::Inputs;
use crate::op::Op;
use bench::{Bench, Move};
use list::Mutant;
use proof::Proof;
use record::{Fate, Fates, Killer};

/// The machines that inputs run on, and how many random inputs each gets of a hundred.
pub const MACHINES: [(&str, u32); 5] = [
    ("tiny-vivt", 25),
    ("tiny-l2", 25),
    ("tiny-line", 20),
    ("tiny-line-ra", 25),
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
    /// Cycles of all of them.
    cycles: u64,
}

/// What a mutant changed on the inputs that it ran.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// Some state differed from its base's.
    state: bool,
    /// Cycles more than its base took.
    cycles: i64,
    /// The shortest input that took more.
    dearer: Option<usize>,
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
            places: None,
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
            cycles: bench.cycles,
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
        let mut changed = Changed::default();
        for n in 0..self.inputs.len() {
            let Some(policy) = &policies[self.inputs[n].machine] else {
                continue;
            };
            if self.kills(n, policy, &mut changed) && self.steady(n) {
                return self.killed(n, mutant, policy);
            }
        }
        if let Some(by) = self.killed_by_case(mutant, &mut changed) {
            return Fate::Killed { by };
        }
        if !changed.state {
            return Fate::Inert;
        }
        if let Some(by) = self.hunted(mutant) {
            return Fate::Killed { by };
        }
        if mutant.does_less
            && let Some(by) = self.slower(mutant, changed, &policies)
        {
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

    /// The killer made of what a search found.
    fn witnessed(&mut self, mutant: &Mutant, machine: &str, ops: &[Op]) -> Option<String> {
        let machine = MACHINES.iter().position(|(name, _)| *name == machine)?;
        let policy = self.mutated(&[mutant], machine);
        let known = self.know(None, machine, bench::plain(ops));
        let bench = &mut self.benches[machine];
        if !known.clean || bench.try_run(&policy, &known.moves).is_none() {
            return None;
        }
        self.inputs.push(known);
        let last = self.inputs.len() - 1;
        Some(self.keep(last, &mutant.name, std::slice::from_ref(&policy), &[]))
    }

    /// If all inputs together are dearer under a mutant: the case that shows it, shrunk and kept.
    fn slower(
        &mut self,
        mutant: &Mutant,
        changed: Changed,
        policies: &[Option<Arc<Policy>>],
    ) -> Option<String> {
        let n = changed.dearer.filter(|_| changed.cycles > 0)?;
        if let Some(name) = self.inputs[n].name.clone() {
            return Some(name);
        }
        let (machine, moves) = (self.inputs[n].machine, self.inputs[n].moves.clone());
        let (base, policy) = (self.base.clone(), policies[machine].clone()?);
        let bench = &mut self.benches[machine];
        let moves = bench.shrink(&moves, |bench, trial| bench.dearer(&base, &policy, trial));
        Some(self.keep_as(&mutant.name, machine, moves))
    }

    /// Whether what was recorded is still so, as far as killers and random inputs can tell: the quick way.
    pub fn confirms(&mut self, mutant: &Mutant, all: &[Mutant], said: &Fate) -> bool {
        match said {
            Fate::Killed { by } | Fate::Covered { by, .. } => {
                self.again(mutant, all, Some(said), by).is_some()
            }
            Fate::Slower { by } => self.shows(mutant, by),
            // Searches take seconds each; `pmaplab mutate` repeats them.
            Fate::Proved => self.tried(mutant).is_some(),
            Fate::Inert => self.tried(mutant).is_some_and(|changed| !changed.state),
            Fate::Open => false,
        }
    }

    /// What a mutant changes on all inputs, if none of them kills it.
    fn tried(&mut self, mutant: &Mutant) -> Option<Changed> {
        let policies = self.mutated_on_all(&[mutant]);
        let mut changed = Changed::default();
        for n in 0..self.inputs.len() {
            if let Some(policy) = &policies[self.inputs[n].machine]
                && self.kills(n, policy, &mut changed)
                && self.steady(n)
            {
                return None;
            }
        }
        Some(changed)
    }

    /// Whether a killer is dearer under the mutant.
    fn shows(&mut self, mutant: &Mutant, by: &str) -> bool {
        let named = |i: &Known| i.name.as_deref() == Some(by);
        let Some(input) = self.inputs.iter().find(|i| named(i)) else {
            return false;
        };
        let policy = self.mutated(&[mutant], input.machine);
        self.benches[input.machine].dearer(&self.base, &policy, &input.moves)
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
        let holds = matches!(said?, Fate::Killed { .. })
            && self.case_kills(at, mutant, &mut Changed::default());
        holds.then(|| said.cloned()).flatten()
    }

    fn kills_alone(&mut self, n: usize, mutants: &[&Mutant]) -> Option<bool> {
        let policies = self.mutated_on_all(mutants);
        let policy = policies[self.inputs[n].machine].as_ref()?;
        Some(self.kills(n, policy, &mut Changed::default()))
    }

    /// Whether input `n` kills a policy; notes what differs from the base.
    fn kills(&mut self, n: usize, policy: &Arc<Policy>, changed: &mut Changed) -> bool {
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
        let run = std::panic::AssertUnwindSafe(|| {
            bench.run(policy, &input.moves, |world| {
                same &= !look || prints.get(at) == Some(&print(world));
                at += 1;
                true
            })
        });
        let found = std::panic::catch_unwind(run);
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
        let taken = |name: &str| self.inputs.iter().any(|i| i.name.as_deref() == Some(name));
        let numbered = (2..).map(|n| format!("{slug}-{n}"));
        let mut names = std::iter::once(slug.clone()).chain(numbered);
        names.find(|name| !taken(name)).unwrap_or(slug)
    }

    fn killed_by_case(&mut self, mutant: &Mutant, changed: &mut Changed) -> Option<String> {
        (0..self.cases.len())
            .find(|n| self.case_kills(*n, mutant, changed))
            .map(|n| self.cases[n].name.clone())
    }

    fn case_kills(&self, n: usize, mutant: &Mutant, changed: &mut Changed) -> bool {
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
        changed.state |= row.prints != known.row.prints;
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
            policy.is_some_and(|p| self.found(*n, &p))
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
