//! The world: the state of machine and kernel, the policy in force, what watches it and what perturbs it.
//!
//! The state is a value; observer, journal and injection stand outside and decide nothing. [`World`] is
//! the one implementation of every layer's context trait, and its door is the one place where steps are
//! applied.

use std::sync::Arc;

use kern::{Footprints, Kern, KernConfig, KernCtx, Window};
use machine::cpu::Regs;
use machine::{Abort, CpuId, Exit, Hw, Machine, Mark, Observer, Profile, Step, VirtAddr, Width};
use pmap::hook::{Hook, View};
use pmap::plan::{Plan, PlanStep};
use pmap::{Pmap, PmapCtx, Policy};
use vfs_sim::{Vfs, VfsConfig, VfsCtx, VfsVerbs};
use vm::{Channel, KResult, ObjectId, Pager, Vm, VmCtx};

use crate::inject::Injection;
use crate::journal::Journal;

/// Everything that decides the future.
#[derive(Clone, Debug)]
pub struct State {
    /// Hardware.
    pub machine: Machine,
    /// Physical maps.
    pub pmap: Pmap,
    /// Pages, objects and maps.
    pub vm: Vm,
    /// Disk, files and buffers.
    pub vfs: Vfs,
    /// Processes.
    pub kern: Kern,
}

impl State {
    /// A booted machine: the kernel's space, an empty disk, no process.
    ///
    /// # Panics
    /// If the machine has no room for the smallest kernel; profiles are checked before.
    pub fn boot(profile: Arc<Profile>) -> Self {
        Self::boot_with(profile, |_| {})
    }

    /// The same, with the file layer configured by the caller.
    ///
    /// # Panics
    /// As [`State::boot`], and if the configuration cannot be.
    pub fn boot_with(profile: Arc<Profile>, configure: impl FnOnce(&mut VfsConfig)) -> Self {
        let mut machine = Machine::new(profile);
        let pmap = Pmap::bootstrap(&mut machine);
        let layout = pmap.layout;
        let mut files = VfsConfig::new(machine.profile(), &layout);
        configure(&mut files);
        let mut config = KernConfig::for_layout(&layout);
        if layout.text.1 > 0 {
            config.footprints = footprints(&layout);
        }
        let cpus = machine.cpus.len() as u32;
        Self {
            vm: Vm::for_layout(&layout),
            vfs: Vfs::new(files).expect("the layout has room for the file layer"),
            kern: Kern::new(config, cpus),
            machine,
            pmap,
        }
    }

    /// A hash of the whole state: equal inputs give equal fingerprints at every operation.
    pub fn fingerprint(&mut self) -> u64 {
        let parts = [
            self.pmap.fingerprint(),
            self.vm.fingerprint(),
            self.vfs.fingerprint(),
            self.kern.fingerprint(),
        ];
        let hash = self.machine.fingerprint();
        parts.into_iter().fold(hash, machine::memory::mix)
    }

    /// Checks what must always hold in every layer; returns what does not, in words.
    pub fn check(&self) -> Option<String> {
        let layers = [self.vm.check(), self.vfs.check(), self.kern.check()];
        self.pmap
            .check()
            .or_else(|| layers.into_iter().find_map(Result::err))
    }
}

/// What kernel functions touch, at addresses inside the kernel's sections.
fn footprints(layout: &pmap::Layout) -> Footprints {
    const STACKS: u32 = 0x8000;
    let window = |(start, bytes)| Window { start, bytes };
    let middle = layout.data.0.add(layout.data.1 / 2);
    let stacks = Window {
        start: middle,
        bytes: STACKS,
    };
    Footprints::freebsd(window(layout.text), window(layout.data), stacks, STACKS / 4)
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
    /// Why the operation that runs now cannot, if it cannot.
    pub infeasible: Option<&'static str>,
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
            infeasible: None,
        }
    }

    /// Puts back what operations on bare pages can change: machine, pmap and observer; nothing is due any more.
    pub fn put_back(&mut self, start: &Self) {
        self.state.machine.clone_from(&start.state.machine);
        self.state.pmap.clone_from(&start.state.pmap);
        self.observer.clone_from(&start.observer);
        (self.injection, self.infeasible) = (None, None);
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
        tracing::trace!(cpu = cpu.0, ?mark, "mark");
        self.journal.marked(cpu, &mark);
        self.observer.mark(cpu, &mark);
    }

    fn charge(&mut self, cpu: CpuId, operation: &'static str) {
        tracing::trace!(cpu = cpu.0, operation, "kernel");
        kern::charge(self, cpu, operation);
    }
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
        if !plan.steps.is_empty() {
            tracing::debug!(cpu = cpu.0, ?hook, steps = plan.steps.len(), "plan");
        }
        self.journal.asked(cpu, hook, view, plan);
    }

    fn planned(&mut self, cpu: CpuId, step: &PlanStep) {
        self.journal.planned(cpu, step);
    }

    fn infeasible(&mut self, why: &'static str) {
        self.infeasible = Some(why);
    }
}

impl<O: Observer + Clone> VmCtx for World<O> {
    fn vm(&self) -> &Vm {
        &self.state.vm
    }

    fn vm_mut(&mut self) -> &mut Vm {
        &mut self.state.vm
    }

    fn wakeup(&mut self, channel: Channel) {
        self.state.kern.wakeup(channel);
    }
}

impl<O: Observer + Clone> Pager for World<O> {
    fn pager_haspage(&mut self, cpu: CpuId, object: ObjectId, pindex: u32) -> Option<(u32, u32)> {
        self.vnode_pager_haspage(cpu, object, pindex)
    }

    fn pager_getpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
    ) -> KResult<()> {
        self.vnode_pager_getpages(cpu, object, pindex, count)
    }

    fn pager_putpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
        sync: bool,
    ) -> KResult<()> {
        self.vnode_pager_putpages(cpu, object, pindex, count, sync)
    }

    fn pager_unreferenced(&mut self, cpu: CpuId, object: ObjectId) {
        self.vnode_pager_unreferenced(cpu, object);
    }
}

impl<O: Observer + Clone> VfsCtx for World<O> {
    fn vfs(&self) -> &Vfs {
        &self.state.vfs
    }

    fn vfs_mut(&mut self) -> &mut Vfs {
        &mut self.state.vfs
    }
}

impl<O: Observer + Clone> KernCtx for World<O> {
    fn kern(&self) -> &Kern {
        &self.state.kern
    }

    fn kern_mut(&mut self) -> &mut Kern {
        &mut self.state.kern
    }

    fn run_user(&mut self, cpu: CpuId, budget: u64) -> (u64, Exit) {
        self.state.machine.run(cpu, budget, &mut self.observer)
    }

    fn user_regs_mut(&mut self, cpu: CpuId) -> &mut Regs {
        &mut self.state.machine.cpu_mut(cpu).regs
    }
}
