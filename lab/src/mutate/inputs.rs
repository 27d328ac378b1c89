//! What the mutants of a policy run on: cases, killers and random inputs, each with what the base did.

use std::path::Path;
use std::sync::Arc;

use machine::Profile;
use pmap::Policy;

use super::Campaign;
use super::bench::{Bench, Move};
use super::record::{self, Killer};
use crate::World;
use crate::case::{self, Case, Row, suite};
use crate::fuzz::Inputs;
use crate::oracle::Oracle;

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

/// An input with what the base did.
pub struct Known {
    /// Its name, if it is a killer.
    pub name: Option<String>,
    /// Which of [`MACHINES`].
    pub machine: usize,
    /// Operations.
    pub moves: Vec<Move>,
    /// The base is clean, wherever the hardware acts.
    pub(super) clean: bool,
    /// Fingerprints of the state after each operation.
    pub(super) prints: Vec<u64>,
    /// Cycles of all of them.
    pub(super) cycles: u64,
}

impl Known {
    /// Whether the hardware acts only between operations. Where it acts within one, its place is counted in
    /// micro-steps, and a mutant that makes one more or less differs for that alone.
    pub(super) fn plain(&self) -> bool {
        self.moves.iter().all(|m| m.during.is_none())
    }
}

/// A case with what the base did.
pub struct KnownCase {
    /// `area/slug`, and `on MACHINE` if it has several.
    pub name: String,
    pub(super) case: Case,
    pub(super) profile: Arc<Profile>,
    /// The base's row.
    pub row: Row,
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

    pub(super) fn add_killer(&mut self, killer: &Killer) {
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

    pub(super) fn know(&mut self, name: Option<String>, machine: usize, moves: Vec<Move>) -> Known {
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
}

/// A fingerprint of machine and pmap.
pub(super) fn print(world: &mut World<Oracle>) -> u64 {
    let state = &mut world.state;
    machine::memory::mix(state.machine.fingerprint(), state.pmap.fingerprint())
}
