//! A world for tests of the VM: a SheevaPlug, the real pmap, and a pager whose file pages hold their
//! own index. Absent: disks and buffers (`vfs_sim` has them).

use machine::{Abort, CpuId, Frame, Hw, Machine, Mark, PhysAddr, Profile, Step, VirtAddr, Width};
use pmap::{Pmap, PmapCtx, PmapVerbs, Policy, Prot, SpaceId};
use vm::{
    Backing, Errno, KResult, MapFlags, MmapArgs, ObjectId, Pager, Stop, VALID_ALL, Vm, VmCtx,
    VmVerbs, VmspaceId, VnodeId,
};

/// The only CPU.
pub const CPU: CpuId = CpuId(0);
/// Page size.
pub const PAGE: u32 = 4096;
/// Pages of the file.
pub const FILE_PAGES: u32 = 40;

/// The world.
#[derive(Clone)]
pub struct World {
    pub machine: Machine,
    pub pmap: Pmap,
    pub policy: Policy,
    pub vm: Vm,
    /// Marks sent.
    pub marks: Vec<Mark>,
    /// Runs of pages brought in and written, `(pindex, count)`.
    pub paged_in: Vec<(u32, u32)>,
    pub paged_out: Vec<(u32, u32)>,
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
        self.marks.push(mark);
    }
    fn charge(&mut self, _cpu: CpuId, _operation: &'static str) {}
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
}

impl Pager for World {
    fn pager_haspage(&mut self, _cpu: CpuId, _object: ObjectId, pindex: u32) -> Option<(u32, u32)> {
        (pindex < FILE_PAGES).then(|| (pindex, FILE_PAGES - 1 - pindex))
    }

    fn pager_getpages(
        &mut self,
        _cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
    ) -> KResult<()> {
        self.paged_in.push((pindex, count));
        for n in pindex..pindex + count {
            let frame = self.vm.lookup(object, n).expect("the VM put it there");
            for at in (0..PAGE).step_by(4) {
                let pa = PhysAddr(frame.0 * PAGE + at);
                self.machine
                    .memory
                    .write(pa, &(n * 0x1000 + at).to_le_bytes());
            }
            self.vm.page_mut(frame).valid = VALID_ALL;
            self.vm_page_wakeup(frame);
            self.vm.requeue(frame, vm::Queue::Inactive);
        }
        Ok(())
    }

    fn pager_putpages(
        &mut self,
        _cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
        _sync: bool,
    ) -> KResult<()> {
        self.paged_out.push((pindex, count));
        for n in pindex..pindex + count {
            let frame = self.vm.lookup(object, n).expect("resident");
            self.vm_page_undirty(frame);
        }
        Ok(())
    }

    fn pager_unreferenced(&mut self, _cpu: CpuId, _object: ObjectId) {}
}

impl World {
    /// A booted world under `policy`, whose current process has an empty space.
    pub fn new(policy: &str) -> (Self, VmspaceId) {
        Self::with_frames(policy, 0)
    }

    /// The same with only `frames` frames for the VM (0: all).
    pub fn with_frames(policy: &str, frames: u32) -> (Self, VmspaceId) {
        let mut machine = Machine::new(Profile::embedded("sheevaplug").unwrap());
        let pmap = Pmap::bootstrap(&mut machine);
        let mut layout = pmap.layout;
        if frames > 0 {
            layout.end_frame = layout.first_frame + frames;
        }
        let mut world = Self {
            machine,
            vm: Vm::for_layout(&layout),
            pmap,
            policy: pmap::policy::by_name(policy).unwrap(),
            marks: Vec::new(),
            paged_in: Vec::new(),
            paged_out: Vec::new(),
        };
        let space = world.vmspace_alloc(CPU).unwrap();
        world.vmspace_switch(CPU, Some(space));
        (world, space)
    }

    /// A file's object, held by its vnode.
    pub fn file(&mut self) -> ObjectId {
        self.vm_object_allocate(Some(VnodeId(1)), FILE_PAGES)
            .unwrap()
    }

    /// Maps `len` bytes anywhere.
    pub fn map(&mut self, space: VmspaceId, backing: Backing, len: u32, flags: MapFlags) -> u32 {
        let args = MmapArgs {
            addr: VirtAddr(0),
            len,
            prot: Prot::READ | Prot::WRITE,
            max_prot: Prot::all(),
            flags,
            backing,
        };
        self.vm_mmap(CPU, space, args).unwrap().0
    }

    /// A load by the current process's program.
    pub fn peek(&mut self, va: u32) -> KResult<u32> {
        let mut word = [0; 4];
        self.copyin_bytes(CPU, VirtAddr(va), &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// A store by it.
    pub fn poke(&mut self, va: u32, value: u32) -> KResult<()> {
        self.copyout_bytes(CPU, &value.to_le_bytes(), VirtAddr(va))
    }

    /// The frame behind an address.
    pub fn frame_at(&self, space: VmspaceId, va: u32) -> Option<Frame> {
        self.pmap_extract(self.vm.pmap_of(space), VirtAddr(va))
    }

    /// Everything agrees, and no operation was left open.
    pub fn check(&self) {
        assert_eq!(self.vm.check(), Ok(()));
        let count = |f: fn(&&Mark) -> bool| self.marks.iter().filter(f).count();
        let begun = count(|m| matches!(m, Mark::Begin(_)));
        assert_eq!(begun, count(|m| matches!(m, Mark::End)));
        assert_eq!(self.pmap.check(), None);
    }

    /// The kernel's space, for tests that map there.
    pub const KERNEL: SpaceId = SpaceId::KERNEL;
}

/// `EFAULT` as a result.
pub fn efault<T>() -> KResult<T> {
    Err(Stop::Errno(Errno::EFAULT))
}
