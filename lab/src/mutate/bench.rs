//! Machines on which mutants and their base run the same inputs.
//!
//! A machine is booted once, under the base policy; before each input, what operations on bare pages can
//! change is put back. An input is a legal sequence of operations, some with something that the hardware
//! does before a micro-step of theirs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arbitrary::Unstructured;
use machine::{Hw, Profile};
use pmap::Policy;

use crate::case::{self, Action, Case};
use crate::fuzz::Inputs;
use crate::fuzz::generate;
use crate::fuzz::legal::{self, Caller, Ground, Legal};
use crate::inject::Injection;
use crate::journal::Detail;
use crate::op::{CPU0, Op, Va, evict_all};
use crate::oracle::{Kind, Oracle};
use crate::shrink;
use crate::world::World;

/// Operations of the longest sequence.
const OPS_MAX: usize = 48;
/// Bytes of the longest input of the generator.
const BYTES_MAX: usize = 320;
/// The hardware acts before one of the first so many micro-steps of an operation.
const STEPS: u64 = 48;

/// An operation, and what the hardware does before micro-step number n of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The hardware's act.
    pub during: Option<(u32, Op)>,
    /// The operation.
    pub op: Op,
}

/// A machine with a base policy.
#[derive(Clone, Debug)]
pub struct Bench {
    start: World<Oracle>,
    world: World<Oracle>,
    ground: Ground,
    caller: Caller,
    /// In the last run, an act of the hardware came too late for its operation.
    late: bool,
    /// Cycles of the last run.
    pub cycles: u64,
}

impl Bench {
    /// A bench with the first of two spaces running.
    pub fn new(profile: Arc<Profile>, base: &Policy) -> Self {
        let ground = Ground::new(&profile);
        let start = legal::start(profile, base.clone());
        Self {
            world: start.clone(),
            start,
            ground,
            caller: Caller::of(base),
            late: false,
            cycles: 0,
        }
    }

    /// The machine.
    pub fn profile(&self) -> Arc<Profile> {
        self.start.hw().profile_arc()
    }

    /// Whether a page has lines that an operation can miss.
    pub fn has_lines(&self) -> bool {
        self.start.hw().cpu(CPU0).dcache.line_bytes() < self.ground.page
    }

    /// Bytes of a data line.
    pub fn line(&self) -> u32 {
        self.start.hw().cpu(CPU0).dcache.line_bytes()
    }

    /// The world before any input.
    pub fn start(&self) -> &World<Oracle> {
        &self.start
    }

    /// How much of what happens is recorded.
    pub fn journal(&mut self, detail: Detail) {
        self.world.journal.detail = detail;
        self.world.journal.take();
    }

    /// Runs an input under a policy; what was found first, if anything. `each` sees the world after each
    /// operation and says whether to go on.
    pub fn run(
        &mut self,
        policy: &Arc<Policy>,
        moves: &[Move],
        mut each: impl FnMut(&mut World<Oracle>) -> bool,
    ) -> Option<Kind> {
        let world = &mut self.world;
        world.put_back(&self.start);
        world.policy = policy.clone();
        self.late = false;
        let before = world.state.machine.cost.total();
        for Move { during, op } in moves {
            world.injection = during.map(|(n, hardware)| {
                Injection::at(u64::from(n), move |world: &mut World<Oracle>| {
                    hardware.run(world);
                })
            });
            op.run(world);
            self.late |= world.injection.take().is_some_and(|i| !i.ran);
            if let Some(kind) = found(world) {
                return Some(kind);
            }
            if !each(world) {
                return None;
            }
        }
        self.cycles = world.state.machine.cost.total() - before;
        evict_all(world);
        found(world)
    }

    /// The same for a policy that may make the pmap panic: then that is what was found.
    pub fn try_run(&mut self, policy: &Arc<Policy>, moves: &[Move]) -> Option<Kind> {
        let run = AssertUnwindSafe(|| self.run(policy, moves, |_| true));
        catch_unwind(run).unwrap_or(Some(Kind::Panic))
    }

    /// Whether an input is clean under two policies, and takes more cycles under the second.
    pub fn dearer(&mut self, base: &Arc<Policy>, policy: &Arc<Policy>, moves: &[Move]) -> bool {
        let mut cycles = |policy| self.try_run(policy, moves).is_none().then_some(self.cycles);
        match (cycles(base), cycles(policy)) {
            (Some(before), Some(after)) => after > before,
            _ => false,
        }
    }

    /// Whether nothing is found wherever in its operation each act of the hardware comes, alone, and with all
    /// of them where they are. (A mutant's operation has other micro-steps than its base's.)
    pub fn steady(&mut self, base: &Arc<Policy>, moves: &[Move]) -> bool {
        let mut moves = moves.to_vec();
        for at in 0..moves.len() {
            let Some((then, hardware)) = moves[at].during else {
                continue;
            };
            let others: Vec<Move> = moves.clone();
            for n in 0.. {
                moves.iter_mut().for_each(|m| m.during = None);
                moves[at].during = Some((n, hardware));
                if self.run(base, &moves, |_| true).is_some() {
                    return false;
                }
                if self.late {
                    break;
                }
            }
            moves = others;
            moves[at].during = Some((then, hardware));
        }
        self.run(base, &moves, |_| true).is_none()
    }

    /// A random input; every other one has acts of the hardware. While another space comes to run, it fetches nothing
    /// ahead: between the flush of the caches and the new table a line would come in through the old one, and no
    /// policy here promises more.
    pub fn random(&self, inputs: &mut Inputs) -> Vec<Move> {
        let bytes = inputs.next(BYTES_MAX).to_vec();
        let mut u = Unstructured::new(&bytes);
        let ops = generate::sequence(&mut u, &self.ground, self.caller, OPS_MAX);
        let acts = inputs.word() % 2 == 1;
        let ops = ops.unwrap_or_default();
        let switches = switches(&self.ground, self.caller, &ops);
        let ops = ops.into_iter().zip(switches);
        ops.map(|(op, switches)| {
            let during = (acts && inputs.word().is_multiple_of(4)).then(|| {
                let most = [STEPS / 8, STEPS][inputs.word() as usize % 2];
                let n = (inputs.word() % most) as u32;
                (n, self.hardware(inputs, &op, !switches))
            });
            Move { during, op }
        })
        .collect()
    }

    /// A random input that begins with these moves.
    pub fn continued(&self, beginning: &[Move], inputs: &mut Inputs) -> Vec<Move> {
        let bytes = inputs.next(BYTES_MAX / 2).to_vec();
        let mut u = Unstructured::new(&bytes);
        let given: Vec<Op> = beginning.iter().map(|m| m.op).collect();
        let ops_max = given.len() + OPS_MAX / 2;
        let ops = generate::sequence_after(&mut u, &self.ground, self.caller, &given, ops_max);
        let more = ops.unwrap_or_default().into_iter().skip(given.len());
        let more = more.map(|op| Move { during: None, op });
        beginning.iter().copied().chain(more).collect()
    }

    /// An act of the hardware during an operation; at the operation's own address, every other time. Whether it may
    /// fetch ahead is said.
    fn hardware(&self, inputs: &mut Inputs, op: &Op, ahead: bool) -> Op {
        let ground = &self.ground;
        let places = [&ground.user[..], &ground.kernel[..], &ground.scratch[..]].concat();
        let any = places[inputs.word() as usize % places.len()];
        let page = match op.va() {
            Some(va) if inputs.word().is_multiple_of(2) => va.0 & !(ground.page - 1),
            _ => any,
        };
        let va = Va(page + ground.word(inputs.word() as u8));
        match inputs.word() % 10 {
            0..=2 if ahead => Op::Prefetch(va),
            3..=4 if ahead => Op::PrefetchInstruction(va),
            5 => Op::EvictAll,
            6 => Op::Drain,
            7 => Op::TlbDrop(va),
            _ => Op::Evict(va),
        }
    }

    /// The smallest form of an input for which `fails` holds; operations stay legal.
    pub fn shrink(
        &mut self,
        moves: &[Move],
        mut fails: impl FnMut(&mut Self, &[Move]) -> bool,
    ) -> Vec<Move> {
        let (ground, caller) = (self.ground.clone(), self.caller);
        let simpler = |m: &Move| match m.during {
            Some(_) => vec![Move { during: None, ..*m }],
            None => Vec::new(),
        };
        let moves = shrink::minimise(moves, simpler, |trial| {
            let ops: Vec<Op> = trial.iter().map(|m| m.op).collect();
            let legal = || {
                let switches = switches(&ground, caller, &ops);
                let ahead = |m: &Move| m.during.is_some_and(|(_, op)| looks_ahead(&op));
                !trial.iter().zip(switches).any(|(m, s)| s && ahead(m))
            };
            Legal::allows(&ground, caller, &ops) && legal() && fails(self, trial)
        });
        if moves.iter().any(|m| m.during.is_some()) {
            return moves;
        }
        let ops: Vec<Op> = moves.iter().map(|m| m.op).collect();
        let ops = shrink::operations(&ops, &ground, |ops| {
            Legal::allows(&ground, caller, ops) && fails(self, &plain(ops))
        });
        plain(&ops)
    }
}

/// For each operation, whether another space comes to run in it.
fn switches(ground: &Ground, caller: Caller, ops: &[Op]) -> Vec<bool> {
    let mut legal = Legal::new(ground, caller);
    let switches = |op| {
        let ran = legal.running;
        legal.take(op);
        legal.running != ran
    };
    ops.iter().map(switches).collect()
}

fn looks_ahead(op: &Op) -> bool {
    matches!(op, Op::Prefetch(_) | Op::PrefetchInstruction(_))
}

/// Operations as an input without acts of the hardware.
pub fn plain(ops: &[Op]) -> Vec<Move> {
    ops.iter()
        .map(|op| Move {
            during: None,
            op: *op,
        })
        .collect()
}

fn found(world: &World<Oracle>) -> Option<Kind> {
    let verdicts = &world.observer.verdicts;
    if !verdicts.clean() {
        return verdicts.worst();
    }
    world.state.pmap.check().map(|_| Kind::BrokenRule)
}

/// A case's lines as an input, if it is one of bare pages and two spaces.
pub fn moves(case: &Case) -> Option<Vec<Move>> {
    let mut out = Vec::new();
    let mut during = None;
    for line in &case.lines {
        match line.action {
            Action::Bare(op) => out.push(Move {
                during: during.take(),
                op,
            }),
            Action::During(n, op) => during = Some((n, op)),
            Action::Process(_) => return None,
        }
    }
    Some(out)
}

/// An input as lines of a case.
pub fn lines(moves: &[Move]) -> Vec<case::Line> {
    let line = |action: Action, text: String| case::Line {
        number: 0,
        text,
        action,
    };
    let mut out = Vec::new();
    for m in moves {
        if let Some((n, op)) = m.during {
            let text = format!("{} during={n}", case::op_text(&op));
            out.push(line(Action::During(n, op), text));
        }
        out.push(line(Action::Bare(m.op), case::op_text(&m.op)));
    }
    out
}
