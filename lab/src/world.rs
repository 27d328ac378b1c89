//! The world: the state of machine and kernel, the policy in force, what watches it and what perturbs it.
//!
//! The state is a value; observer, journal and injection stand outside and decide nothing. [`World`] is
//! the one implementation of every layer's context trait, and its door is the one place where steps are
//! applied.

use std::sync::Arc;

use machine::{Abort, CpuId, Hw, Machine, Mark, Observer, Profile, Step, VirtAddr, Width};
use pmap::hook::{Hook, View};
use pmap::plan::{Plan, PlanStep};
use pmap::{Pmap, PmapCtx, Policy};

use crate::inject::Injection;
use crate::journal::Journal;

/// Everything that decides the future.
#[derive(Clone, Debug)]
pub struct State {
    /// Hardware.
    pub machine: Machine,
    /// Physical maps.
    pub pmap: Pmap,
}

impl State {
    /// A booted machine with the kernel's space and nothing else.
    pub fn boot(profile: Arc<Profile>) -> Self {
        let mut machine = Machine::new(profile);
        let pmap = Pmap::bootstrap(&mut machine);
        Self { machine, pmap }
    }

    /// A hash of the whole state: equal inputs give equal fingerprints at every operation.
    pub fn fingerprint(&mut self) -> u64 {
        machine::memory::mix(self.machine.fingerprint(), self.pmap.fingerprint())
    }
}

/// A state with its policy, its observer and its perturbation.
#[derive(Clone, Debug)]
pub struct World<O> {
    /// The state.
    pub state: State,
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// Who watches.
    pub observer: O,
    /// What happened, if it is recorded.
    pub journal: Journal,
    /// Another CPU's operation that is due at some step.
    pub injection: Option<Injection<O>>,
}

impl<O: Observer + Clone> World<O> {
    /// A world around a state.
    pub fn new(state: State, policy: Policy, observer: O) -> Self {
        Self {
            state,
            policy: Arc::new(policy),
            observer,
            journal: Journal::default(),
            injection: None,
        }
    }

    /// Runs the injected operation if it is due at this micro-step.
    #[inline]
    fn knock(&mut self, cpu: CpuId) {
        if self.injection.is_some() {
            Injection::knock(self, cpu);
        }
    }
}

impl<O: Observer + Clone> Hw for World<O> {
    fn hw(&self) -> &Machine {
        &self.state.machine
    }

    fn step(&mut self, cpu: CpuId, step: Step) {
        self.knock(cpu);
        self.journal.stepped(cpu, &step);
        self.state.machine.apply(cpu, &step, &mut self.observer);
    }

    fn load(&mut self, cpu: CpuId, va: VirtAddr, width: Width, user: bool) -> Result<u32, Abort> {
        self.knock(cpu);
        self.state.machine.spend(machine::Class::Copy, 1);
        self.state
            .machine
            .load(cpu, va, width, user, &mut self.observer)
    }

    fn store(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
    ) -> Result<(), Abort> {
        self.knock(cpu);
        self.state.machine.spend(machine::Class::Copy, 1);
        self.state
            .machine
            .store(cpu, va, width, value, user, &mut self.observer)
    }

    fn mark(&mut self, cpu: CpuId, mark: Mark) {
        self.journal.marked(cpu, &mark);
        self.observer.mark(cpu, &mark);
    }

    fn charge(&mut self, _cpu: CpuId, _operation: &'static str) {}
}

impl<O: Observer + Clone> PmapCtx for World<O> {
    fn pmap(&self) -> &Pmap {
        &self.state.pmap
    }

    fn pmap_mut(&mut self) -> &mut Pmap {
        &mut self.state.pmap
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn asked(&mut self, cpu: CpuId, hook: &Hook, view: &View<'_>, plan: &Plan) {
        self.journal.asked(cpu, hook, view, plan);
    }

    fn planned(&mut self, cpu: CpuId, step: &PlanStep) {
        self.journal.planned(cpu, step);
    }

    fn infeasible(&mut self, why: &'static str) {
        if let Some(injection) = &mut self.injection {
            injection.infeasible = Some(why);
        }
    }
}
