//! `policy_ops`: legal pmap operations under a policy that claims to be correct.
//!
//! Every input is a correct kernel's work ([`super::legal`]); the oracle must find nothing. A finding is
//! shrunk, written as a case, run again from the file, and reported with the command that replays it.
//!
//! `PMAPLAB_POLICY` names the policy instead of the reference ones, `PMAPLAB_MACHINE` the machine instead of
//! `tiny-vivt`. The world is booted once; between sequences only what operations on bare pages can change
//! is put back: machine, pmap and oracle.

use std::cell::RefCell;
use std::sync::Arc;

use arbitrary::Unstructured;
use machine::{Hw, Profile};
use pmap::{Policy, Status};

use super::generate;
use super::legal::{self, Caller, Ground, Legal};
use crate::op::{Op, evict_all};
use crate::oracle::{Kind, Oracle};
use crate::shrink::{self, Finding};
use crate::world::World;

/// Operations of the longest sequence.
const OPS_MAX: usize = 48;

/// A policy on a machine, ready to run sequences.
#[derive(Clone, Debug)]
pub struct Bench {
    start: World<Oracle>,
    world: World<Oracle>,
    /// The addresses and pages used.
    pub ground: Ground,
    /// How the kernel above works.
    pub caller: Caller,
}

impl Bench {
    /// A bench with the first space running.
    pub fn new(profile: Arc<Profile>, policy: Policy) -> Self {
        let ground = Ground::new(&profile);
        let caller = Caller::of(&policy);
        let start = legal::start(profile, policy);
        Self {
            world: start.clone(),
            start,
            ground,
            caller,
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> &Policy {
        &self.start.policy
    }

    /// The world after the last sequence.
    pub fn world(&self) -> &World<Oracle> {
        &self.world
    }

    /// Runs a sequence and ends as every case does; what was found first, if anything.
    pub fn run(&mut self, ops: &[Op]) -> Option<Kind> {
        self.world.put_back(&self.start);
        for op in ops {
            op.run(&mut self.world);
            if let Some(kind) = self.found() {
                return Some(kind);
            }
        }
        evict_all(&mut self.world);
        self.found()
    }

    fn found(&self) -> Option<Kind> {
        let verdicts = &self.world.observer.verdicts;
        if !verdicts.clean() {
            return verdicts.worst();
        }
        self.world.state.pmap.check().map(|_| Kind::BrokenRule)
    }

    /// The sequence that bytes stand for.
    pub fn sequence(&self, data: &[u8]) -> Vec<Op> {
        let mut u = Unstructured::new(data);
        generate::sequence(&mut u, &self.ground, self.caller, OPS_MAX).unwrap_or_default()
    }

    /// Shrinks a failing sequence; operations stay legal and the kind of finding the same.
    pub fn shrink(&mut self, ops: &[Op], kind: Kind) -> Vec<Op> {
        let (ground, caller) = (self.ground.clone(), self.caller);
        shrink::operations(ops, &ground, |ops| {
            Legal::allows(&ground, caller, ops) && self.run(ops) == Some(kind)
        })
    }

    /// Shrinks, writes and re-runs a finding; the message that ends with the command to replay it.
    pub fn report(&mut self, ops: &[Op], kind: Kind) -> String {
        let least = self.shrink(ops, kind);
        let machine = self.start.hw().profile_arc();
        Finding::of_ops("policy_ops", &least, machine, self.policy(), kind).report()
    }
}

thread_local! {
    static BENCHES: RefCell<Vec<Bench>> = RefCell::new(benches());
}

/// The machine that sequences run on.
///
/// # Panics
/// If the environment names none that exists.
pub fn chosen_machine() -> Arc<Profile> {
    let name = std::env::var("PMAPLAB_MACHINE").unwrap_or_else(|_| "tiny-vivt".to_owned());
    Profile::embedded(&name).unwrap_or_else(|| panic!("PMAPLAB_MACHINE: no machine `{name}`"))
}

fn benches() -> Vec<Bench> {
    let machine = chosen_machine();
    let wanted = std::env::var("PMAPLAB_POLICY").ok();
    let mine = |p: &Policy| match &wanted {
        Some(name) => p.name == name,
        None => p.status == Status::Reference,
    };
    let chosen = pmap::policy::all().filter(mine);
    let all: Vec<_> = chosen.map(|p| Bench::new(machine.clone(), p)).collect();
    assert!(!all.is_empty(), "PMAPLAB_POLICY: no policy {wanted:?}");
    all
}

/// The body: the first byte chooses among the policies, the rest is the sequence.
pub fn body(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let found = BENCHES.with_borrow_mut(|benches| {
        let n = usize::from(*first) % benches.len();
        let bench = &mut benches[n];
        let ops = bench.sequence(rest);
        let kind = bench.run(&ops)?;
        Some(bench.report(&ops, kind))
    });
    if let Some(report) = found {
        panic!("{report}");
    }
}
