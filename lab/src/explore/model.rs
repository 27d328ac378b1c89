//! The world as a [`Model`]: the machine, pmap, rule, routine and oracle that everything else runs, on a tiny
//! machine.
//!
//! A state is expanded by rebuilding the world from its bytes, running an action's operations, writing the bytes
//! of what came out, and undoing the action for the next one. The world's heap is reused throughout.

use std::sync::Arc;

use machine::{Mark, Observer as _, Profile};
use pmap::{PmapCtx, PmapVerbs, Policy, SpaceId};

use super::codec::{Codec, Ends, Symmetry};
use super::engine::{Model, Outcome};
use super::facts::Facts;
use super::scope::{Move, Phase, Place, Scope, moves};
use super::store::{Arena, Fingerprints};
use crate::op::{CPU0, Op, Outcome as OpOutcome, Page};
use crate::oracle::{Kind, Oracle};
use crate::system;
use crate::world::World;

/// A policy on a tiny machine within a scope.
pub struct WorldModel {
    /// The world that actions run in; its state is whatever was last expanded.
    pub world: World<Oracle>,
    codec: Codec,
    moves: Vec<Move>,
    /// Those that the contract allows in the state being expanded.
    allowed: Vec<usize>,
    /// Whether a broken rule, too, ends a search that wants one finding.
    pub strict: bool,
    phase: Phase,
    packed: Vec<u8>,
    /// Where the sections of the state last restored end.
    ends: Ends,
    /// The bytes of the initial state.
    initial: Vec<u8>,
}

/// What came of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// It is not possible: an access faulted, and the kernel took that for no error of its own.
    No,
    /// It ran, with the gravest finding, if any.
    Yes(Option<Kind>),
}

impl WorldModel {
    /// A model.
    ///
    /// # Errors
    /// Why this machine cannot be searched.
    pub fn new(
        profile: &Arc<Profile>,
        policy: Policy,
        scope: &Scope,
        symmetry: Symmetry,
    ) -> Result<Self, String> {
        let codec = Codec::new(profile, symmetry, scope)?;
        let world = system::bare(profile.clone(), policy, scope.spaces)?;
        let place = Place::new(scope, &world.state.pmap.layout);
        let room = world.state.pmap.layout.user_end.0 / place.page;
        if scope.user_pages > room || world.state.machine.profile().frames() < 2 {
            return Err(format!(
                "{}: too small for scope {}",
                profile.name, scope.name
            ));
        }
        let moves = moves(scope, &place, symmetry == Symmetry::On);
        let mut model = Self {
            world,
            codec,
            moves,
            allowed: Vec::new(),
            strict: false,
            phase: Phase::None,
            packed: Vec::new(),
            ends: Ends::default(),
            initial: Vec::new(),
        };
        model.initial = model.pack().to_vec();
        Ok(model)
    }

    /// The moves, by number.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Rebuilds a state.
    pub fn restore(&mut self, packed: &[u8]) {
        (self.phase, self.ends) = self.codec.restore(packed, &mut self.world);
    }

    /// Goes back to the state last restored from the one just packed, if that is possible.
    fn undo(&mut self, state: &[u8], ends: &Ends) -> bool {
        let (then, now) = ((state, &self.ends), (self.packed.as_slice(), ends));
        self.codec.undo(then, now, &mut self.world)
    }

    /// The bytes of the present state.
    pub fn pack(&mut self) -> &[u8] {
        self.codec.save(&self.world, self.phase, &mut self.packed);
        &self.packed
    }

    /// The bytes of the state that everything starts from.
    pub fn initial(&self) -> &[u8] {
        &self.initial
    }

    /// What the contract looks at in the present state.
    pub fn facts(&self) -> Facts<'_> {
        let va = self.buffer_va();
        let buffered = (self.phase != Phase::None)
            .then(|| self.world.pmap_extract(SpaceId::KERNEL, va))
            .flatten();
        Facts {
            world: &self.world,
            phase: self.phase,
            buffered,
        }
    }

    fn buffer_va(&self) -> machine::VirtAddr {
        self.world.state.pmap.layout.buffer_map.0
    }

    /// What the buffer's owner is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Restores what the buffer's owner is doing.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// An operation as it is in the present state: a buffer's event names the page it maps.
    pub fn real_op(&self, op: Op) -> Op {
        match (op, self.facts().buffered) {
            (Op::Buffer(event, va, _, n), Some(f)) => Op::Buffer(event, va, Page(f.0 as u8), n),
            (op, _) => op,
        }
    }

    /// Runs a move.
    pub fn run(&mut self, number: usize) -> Done {
        for n in 0..self.moves[number].ops.len() {
            if !self.run_op(self.moves[number].ops[n]) {
                return self.broken_off();
            }
        }
        self.conclude(number)
    }

    /// Runs a move with other operations than its own: with other values.
    pub fn run_ops(&mut self, number: usize, ops: &mut [Op]) -> Done {
        for op in ops {
            *op = self.real_op(*op);
            if !self.run_op(*op) {
                return self.broken_off();
            }
        }
        self.conclude(number)
    }

    /// Runs an operation; false if it faults.
    fn run_op(&mut self, op: Op) -> bool {
        let op = match op {
            Op::Buffer(..) if self.phase != Phase::None => self.real_op(op),
            op => op,
        };
        matches!(
            op.run(&mut self.world),
            OpOutcome::Done | OpOutcome::Value(_)
        )
    }

    /// What came of an action that an access ended: a fault that the VM answers is no action, one that the
    /// kernel panics at, or that comes after something else was found, is what the search is for.
    fn broken_off(&self) -> Done {
        self.finding()
            .map_or(Done::No, |kind| Done::Yes(Some(kind)))
    }

    fn conclude(&mut self, number: usize) -> Done {
        self.phase = self.moves[number].act.after(self.phase);
        if let Some(broken) = self.world.pmap().check() {
            self.world.observer.mark(CPU0, &Mark::BrokenRule(broken));
        }
        Done::Yes(self.finding())
    }

    fn finding(&self) -> Option<Kind> {
        let verdicts = &self.world.observer.verdicts;
        verdicts.worst().filter(|k| *k != Kind::Permitted)
    }
}

impl Model for WorldModel {
    type State = [u8];
    type Bad = Kind;
    type Queue = Arena;
    type Seen = Fingerprints;

    fn start(&mut self, mut each: impl FnMut(&[u8])) {
        each(&self.initial);
    }

    fn expand(&mut self, state: &[u8], mut each: impl FnMut(u16, Outcome<'_, Self>)) {
        self.restore(state);
        let phase = self.phase;
        let mut allowed = std::mem::take(&mut self.allowed);
        let facts = self.facts();
        let may = |n: &usize| facts.allow(self.moves[*n].act);
        allowed.clear();
        allowed.extend((0..self.moves.len()).filter(may));
        let mut clean = true;
        for n in allowed.iter().copied() {
            if !clean {
                self.restore(state);
            }
            clean = false;
            let Done::Yes(bad) = self.run(n) else {
                continue;
            };
            if let Some(kind) = bad {
                each(n as u16, Outcome::Bad(kind));
                if kind != Kind::BrokenRule {
                    continue;
                }
            }
            let (ends, kept) = self.codec.save(&self.world, self.phase, &mut self.packed);
            if kept && bad.is_none() {
                clean = self.undo(state, &ends);
                self.phase = phase;
            }
            each(n as u16, Outcome::State(self.packed.as_slice()));
        }
        self.allowed = allowed;
    }

    fn stops(&self, bad: Kind) -> bool {
        self.strict || bad != Kind::BrokenRule
    }
}
