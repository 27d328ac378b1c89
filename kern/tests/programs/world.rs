//! A world for tests of the kernel: a SheevaPlug with everything below it real, and no observer.

use std::collections::BTreeMap;
use std::sync::Arc;

use kern::{Footprints, Kern, KernConfig, KernCtx, KernVerbs, Limits, RunEnd, Window};
use machine::cpu::Regs;
use machine::{Abort, CpuId, Exit, Hw, Machine, Mark, Profile, Step, VirtAddr, Width};
use pmap::{Pmap, PmapCtx, Policy};
use vfs_sim::{Vfs, VfsConfig, VfsCtx, VfsVerbs};
use vm::{Channel, KResult, ObjectId, Pager, Vm, VmCtx};

/// The first CPU.
pub const CPU: CpuId = CpuId(0);

/// The world.
#[derive(Clone)]
pub struct World {
    pub machine: Machine,
    pub pmap: Pmap,
    pub policy: Policy,
    pub vm: Vm,
    pub vfs: Vfs,
    pub kern: Kern,
    /// Marks that say that something went wrong.
    pub bad: Vec<Mark>,
    /// Operations begun and not ended.
    pub open: Vec<&'static str>,
    /// Syncs asked for.
    pub syncs: u32,
    /// Names charged.
    pub charged: BTreeMap<&'static str, u32>,
}

impl Hw for World {
    fn hw(&self) -> &Machine {
        &self.machine
    }
    fn step(&mut self, cpu: CpuId, step: Step) {
        self.machine.apply(cpu, &step, &mut ());
    }
    fn load(&mut self, cpu: CpuId, va: VirtAddr, width: Width, user: bool) -> Result<u32, Abort> {
        self.machine.load(cpu, va, width, user, &mut ())
    }
    fn store(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
    ) -> Result<(), Abort> {
        self.machine.store(cpu, va, width, value, user, &mut ())
    }
    fn mark(&mut self, _cpu: CpuId, mark: Mark) {
        match mark {
            Mark::Begin(name) => self.open.push(name),
            Mark::End => drop(self.open.pop().expect("an operation ends that began")),
            Mark::Sync { .. } => self.syncs += 1,
            Mark::Panic(_) | Mark::Misuse(_) | Mark::BrokenRule(_) | Mark::Hang(_) => {
                self.bad.push(mark);
            }
            _ => {}
        }
    }
    fn charge(&mut self, cpu: CpuId, operation: &'static str) {
        *self.charged.entry(operation).or_default() += 1;
        kern::charge(self, cpu, operation);
    }
}

impl PmapCtx for World {
    fn pmap(&self) -> &Pmap {
        &self.pmap
    }
    fn pmap_mut(&mut self) -> &mut Pmap {
        &mut self.pmap
    }
    fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl VmCtx for World {
    fn vm(&self) -> &Vm {
        &self.vm
    }
    fn vm_mut(&mut self) -> &mut Vm {
        &mut self.vm
    }
    fn wakeup(&mut self, channel: Channel) {
        self.kern.wakeup(channel);
    }
}

impl Pager for World {
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

impl VfsCtx for World {
    fn vfs(&self) -> &Vfs {
        &self.vfs
    }
    fn vfs_mut(&mut self) -> &mut Vfs {
        &mut self.vfs
    }
}

impl KernCtx for World {
    fn kern(&self) -> &Kern {
        &self.kern
    }
    fn kern_mut(&mut self) -> &mut Kern {
        &mut self.kern
    }
    fn run_user(&mut self, cpu: CpuId, budget: u64) -> (u64, Exit) {
        self.machine.run(cpu, budget, &mut ())
    }
    fn user_regs_mut(&mut self, cpu: CpuId) -> &mut Regs {
        &mut self.machine.cpu_mut(cpu).regs
    }
}

impl World {
    /// A booted machine under `policy` with the guest programs in `/bin`.
    pub fn new(policy: &str) -> Self {
        Self::with_cpus(policy, 1)
    }

    /// The same with several processors.
    pub fn with_cpus(policy: &str, cpus: u32) -> Self {
        let mut profile = (*Profile::embedded("sheevaplug").expect("embedded")).clone();
        profile.cpus = cpus;
        let mut machine = Machine::new(Arc::new(profile));
        let pmap = Pmap::bootstrap(&mut machine);
        let layout = pmap.layout;
        let mut config = KernConfig::for_layout(&layout);
        let window = |(start, bytes)| Window { start, bytes };
        let stacks = Window {
            start: layout.data.0.add(layout.data.1 / 2),
            bytes: 0x8000,
        };
        config.footprints =
            Footprints::freebsd(window(layout.text), window(layout.data), stacks, 0x2000);
        let vfs = Vfs::new(VfsConfig::new(machine.profile(), &layout));
        let mut world = Self {
            kern: Kern::new(config, cpus),
            vm: Vm::for_layout(&layout),
            vfs: vfs.expect("a good configuration"),
            machine,
            pmap,
            policy: pmap::policy::by_name(policy).expect("a policy"),
            bad: Vec::new(),
            open: Vec::new(),
            syncs: 0,
            charged: BTreeMap::new(),
        };
        world.vfs_mkdir_tmp();
        world
    }

    fn vfs_mkdir_tmp(&mut self) {
        self.vfs_mkdir(CPU, "/tmp").expect("a directory");
    }

    /// Puts a guest program into `/bin`.
    pub fn add(&mut self, name: &str) {
        let path = format!("{}/../guest/bin/{name}", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).expect("the built guest program");
        self.vfs
            .fs_add_file(&format!("/bin/{name}"), &bytes)
            .expect("room on the disk");
    }

    /// Runs a guest program to its end; its exit code and what it wrote.
    pub fn run_program(&mut self, name: &str, args: &[&str]) -> (u32, String) {
        let path = format!("/bin/{name}");
        if self.vfs.lookup(&path).is_err() {
            self.add(name);
        }
        let mut argv = vec![name];
        argv.extend(args);
        let before = self.kern.stdout.len();
        let pid = self
            .spawn(CPU, &path, &argv, &["HOME=/"])
            .expect("it can be executed");
        let end = self.run(CPU, Limits::instructions(200_000_000));
        let text = String::from_utf8_lossy(&self.kern.stdout[before..]).into_owned();
        self.check();
        assert_eq!(end, RunEnd::Exited, "{text} {:?}", self.kern.messages);
        let status = self.kern.status_of(pid).expect("it ended");
        (status.code(), text)
    }

    /// Everything agrees, and nothing went wrong so far.
    pub fn check(&self) {
        assert_eq!(self.bad, []);
        assert_eq!(self.open, [] as [&str; 0]);
        assert_eq!(self.kern.check(), Ok(()));
        assert_eq!(self.vm.check(), Ok(()));
        assert_eq!(self.vfs.check(), Ok(()));
        assert_eq!(self.pmap.check(), None);
    }
}
