//! A world for tests of the file layer: a SheevaPlug, the real pmap and VM, a disk with files.

#![allow(dead_code, reason = "each test file uses a part")]

use machine::{Abort, CpuId, Hw, Machine, Mark, Profile, Step, VirtAddr, Width};
use pmap::{Pmap, PmapCtx, Policy, Prot};
use vfs_sim::{IoFlags, Sequential, Vfs, VfsConfig, VfsCtx, VfsVerbs};
use vm::{
    Backing, Channel, KResult, MapFlags, MmapArgs, ObjectId, Pager, Stop, Uio, Vm, VmCtx, VmVerbs,
    VmspaceId, VnodeId,
};

/// The only CPU.
pub const CPU: CpuId = CpuId(0);
/// Page size.
pub const PAGE: u32 = 4096;
/// Block size.
pub const BLOCK: u32 = 16384;

/// The world.
#[derive(Clone)]
pub struct World {
    pub machine: Machine,
    pub pmap: Pmap,
    pub policy: Policy,
    pub vm: Vm,
    pub vfs: Vfs,
    /// Marks sent.
    pub marks: Vec<Mark>,
    /// Where the program's buffer is.
    pub user: VirtAddr,
    /// Its space.
    pub space: VmspaceId,
    /// Channels woken.
    pub woken: Vec<Channel>,
    /// Operations charged.
    pub charged: Vec<&'static str>,
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
    fn charge(&mut self, _cpu: CpuId, operation: &'static str) {
        self.charged.push(operation);
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
        self.woken.push(channel);
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

impl Pager for World {
    fn pager_haspage(&mut self, cpu: CpuId, object: ObjectId, pindex: u32) -> Option<(u32, u32)> {
        self.vnode_pager_haspage(cpu, object, pindex)
    }
    fn pager_getpages(&mut self, cpu: CpuId, object: ObjectId, n: u32, count: u32) -> KResult<()> {
        self.vnode_pager_getpages(cpu, object, n, count)
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

impl World {
    /// A booted world whose process has a buffer of 256 KB.
    pub fn new(policy: &str) -> Self {
        Self::with(policy, |_| {})
    }

    /// The same with other sizes or modes.
    pub fn with(policy: &str, change: impl FnOnce(&mut VfsConfig)) -> Self {
        let mut machine = Machine::new(Profile::embedded("sheevaplug").unwrap());
        let pmap = Pmap::bootstrap(&mut machine);
        let mut config = VfsConfig::new(machine.profile(), &pmap.layout);
        change(&mut config);
        let mut world = Self {
            machine,
            vm: Vm::for_layout(&pmap.layout),
            vfs: Vfs::new(config).unwrap(),
            pmap,
            policy: pmap::policy::by_name(policy).unwrap(),
            marks: Vec::new(),
            user: VirtAddr(0),
            space: VmspaceId(0),
            woken: Vec::new(),
            charged: Vec::new(),
        };
        world.space = world.vmspace_alloc(CPU).unwrap();
        world.vmspace_switch(CPU, Some(world.space));
        let rw = Prot::READ | Prot::WRITE;
        world.user = world.map(Backing::Anonymous, 64 * PAGE, rw, MapFlags::PRIVATE);
        world
    }

    /// Maps something anywhere.
    pub fn map(&mut self, backing: Backing, len: u32, prot: Prot, flags: MapFlags) -> VirtAddr {
        let args = MmapArgs {
            addr: VirtAddr(0),
            len,
            prot,
            max_prot: Prot::all(),
            flags,
            backing,
        };
        self.vm_mmap(CPU, self.space, args).unwrap()
    }

    /// Maps a file, opened.
    pub fn map_file(&mut self, vnode: VnodeId, prot: Prot, flags: MapFlags) -> VirtAddr {
        let object = self.vnode_open(CPU, vnode).unwrap();
        let len = self.vfs.attr(vnode).size.max(1);
        self.map(Backing::Object { object, offset: 0 }, len, prot, flags)
    }

    /// Does what may sleep until it is done; the disk interrupts meanwhile.
    pub fn awake<T>(&mut self, mut call: impl FnMut(&mut Self) -> KResult<T>) -> KResult<T> {
        for _ in 0..1000 {
            match call(self) {
                Err(Stop::Wait(channel)) => {
                    self.woken.clear();
                    while !self.woken.contains(&channel) {
                        let more = self.disk_interrupt(CPU).unwrap();
                        assert!(more, "nobody will wake {channel:?}");
                    }
                }
                other => return other,
            }
        }
        panic!("sleeps for ever");
    }

    /// pread(2) of up to 256 KB.
    pub fn pread(&mut self, vnode: VnodeId, offset: u64, len: u32) -> KResult<Vec<u8>> {
        self.pread_with(vnode, offset, len, IoFlags::empty())
    }

    /// The same with flags.
    pub fn pread_with(
        &mut self,
        vnode: VnodeId,
        offset: u64,
        len: u32,
        flags: IoFlags,
    ) -> KResult<Vec<u8>> {
        let mut uio = Uio::user_read(self.user, len, offset);
        let mut seq = Sequential::default();
        self.awake(|w| w.vn_read(CPU, vnode, &mut uio, flags, &mut seq))?;
        let mut out = vec![0; (len - uio.resid) as usize];
        let user = self.user;
        self.awake(|w| w.copyin_bytes(CPU, user, &mut out))?;
        Ok(out)
    }

    /// pwrite(2) of up to 256 KB.
    pub fn pwrite(&mut self, vnode: VnodeId, offset: u64, bytes: &[u8]) -> KResult<()> {
        self.pwrite_with(vnode, offset, bytes, IoFlags::empty())
    }

    /// The same with flags.
    pub fn pwrite_with(
        &mut self,
        vnode: VnodeId,
        offset: u64,
        bytes: &[u8],
        flags: IoFlags,
    ) -> KResult<()> {
        let user = self.user;
        self.awake(|w| w.copyout_bytes(CPU, bytes, user))?;
        let mut uio = Uio::user_write(user, bytes.len() as u32, offset);
        let mut seq = Sequential::default();
        self.awake(|w| w.vn_write(CPU, vnode, &mut uio, flags, &mut seq))
    }

    /// A load by the program.
    pub fn peek(&mut self, va: VirtAddr) -> KResult<u32> {
        let mut word = [0; 4];
        self.awake(|w| w.copyin_bytes(CPU, va, &mut word))?;
        Ok(u32::from_le_bytes(word))
    }

    /// Everything agrees, no operation is left open, nothing panicked.
    pub fn check(&self) {
        assert_eq!(self.vm.check(), Ok(()));
        assert_eq!(self.vfs.check(), Ok(()));
        let count = |f: fn(&&Mark) -> bool| self.marks.iter().filter(f).count();
        let begun = count(|m| matches!(m, Mark::Begin(_)));
        assert_eq!(begun, count(|m| matches!(m, Mark::End)));
        let bad = |m: &&Mark| matches!(m, Mark::Panic(_) | Mark::Hang(_) | Mark::Misuse(_));
        assert_eq!(self.marks.iter().find(bad), None);
    }

    /// The kernel mappings of a file's page.
    pub fn kernel_mappings(&self, vnode: VnodeId, pindex: u32) -> usize {
        let object = self.vfs.object(vnode).unwrap();
        let frame = self.vm.lookup(object, pindex).unwrap();
        let listed = self.pmap.mappings(frame).filter(|m| m.space.is_kernel());
        listed.count() + usize::from(self.pmap.page(frame).kva.0 != 0)
    }
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|n| ((n ^ seed).wrapping_mul(0x9e37_79b1) >> 24) as u8 | 1)
        .collect()
}
