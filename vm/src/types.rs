//! Words of the VM: handles, results, errors, sleeping channels, flags of a mapping.
//!
//! Source: FreeBSD `sys/errno.h`, `sys/mman.h`, `vm/vm_map.h`. Absent: errors that nothing here
//! returns, and mapping flags without an effect on caches.

use bitflags::bitflags;
use machine::{Frame, VirtAddr};

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
    };
}

handle!(
    /// A vm_object, an index into the table of objects.
    ObjectId
);
handle!(
    /// A process's address space: its map and its pmap.
    VmspaceId
);
handle!(
    /// A vnode. The VM only carries it; `vfs_sim` gives it meaning.
    VnodeId
);

/// FreeBSD's error numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i32)]
#[allow(missing_docs, reason = "the numbers and names of sys/errno.h")]
pub enum Errno {
    EPERM = 1,
    ENOENT = 2,
    ESRCH = 3,
    EINTR = 4,
    EIO = 5,
    E2BIG = 7,
    ENOEXEC = 8,
    EBADF = 9,
    ECHILD = 10,
    EDEADLK = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    EBUSY = 16,
    EEXIST = 17,
    ENODEV = 19,
    ENOTDIR = 20,
    EISDIR = 21,
    EINVAL = 22,
    ENFILE = 23,
    EMFILE = 24,
    ENOTTY = 25,
    ETXTBSY = 26,
    EFBIG = 27,
    ENOSPC = 28,
    ESPIPE = 29,
    EROFS = 30,
    EPIPE = 32,
    EAGAIN = 35,
    EOPNOTSUPP = 45,
    ENAMETOOLONG = 63,
    ENOTEMPTY = 66,
    EPROCLIM = 67,
    ENOSYS = 78,
}

impl Errno {
    /// The number that a system call returns.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// What a sleeper waits for. Whoever brings it about calls [`crate::VmCtx::wakeup`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Channel {
    /// A page is busy: another fault or a transfer has it.
    Page(Frame),
    /// A buffer is locked or in I/O, by its number.
    Buffer(u32),
    /// No buffer can be had until one is released or written.
    NoBuffer,
    /// All pager buffers are in use.
    NoPagerBuffer,
    /// A child's change of state, by the parent's number.
    Child(u32),
    /// A pipe, by its number.
    Pipe(u32),
    /// Anything else that a layer above numbers itself.
    Other(u32),
}

/// Why a kernel operation did not return a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It failed.
    Errno(Errno),
    /// It must sleep. What it did so far is in kernel objects (a busy page, a buffer in I/O, an
    /// advanced [`crate::Uio`]); after the wakeup the same call is made again.
    Wait(Channel),
    /// The kernel panicked; [`machine::Mark::Panic`] has been sent.
    Panic(String),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::Errno(errno)
    }
}

/// What every kernel operation returns.
pub type KResult<T> = Result<T, Stop>;

bitflags! {
    /// How a range is mapped (`sys/mman.h`; the values are ours).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct MapFlags: u16 {
        /// Stores reach the object and everyone who maps it.
        const SHARED = 1;
        /// Stores reach only a private copy.
        const PRIVATE = 2;
        /// Exactly at the address given; what was there is unmapped.
        const FIXED = 4;
        /// Resident pages are mapped at once, read-only (exec's MAP_PREFAULT, mmap's
        /// MAP_PREFAULT_READ).
        const PREFAULT = 8;
        /// Grows down from its end at faults below it.
        const STACK = 16;
    }
}

/// The order in which free frames are given out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum FreeOrder {
    /// The last one freed first: an owner soon gets what another just left.
    #[default]
    Lifo,
    /// The one freed longest ago first, after every frame never used.
    Fifo,
}

/// What backs a new mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Zero-filled memory.
    Anonymous,
    /// An object, from a byte offset on, a multiple of the page size. The mapping takes its own
    /// reference.
    Object {
        /// Which.
        object: ObjectId,
        /// Bytes from its start.
        offset: u32,
    },
}

/// Arguments of [`crate::VmVerbs::vm_mmap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MmapArgs {
    /// Hint, or with [`MapFlags::FIXED`] the address itself.
    pub addr: VirtAddr,
    /// Bytes; rounded up to pages.
    pub len: u32,
    /// Protection.
    pub prot: pmap::Prot,
    /// The most that mprotect may give later.
    pub max_prot: pmap::Prot,
    /// Flags; exactly one of SHARED and PRIVATE.
    pub flags: MapFlags,
    /// What is mapped.
    pub backing: Backing,
}

/// Tunables of the VM, all deterministic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VmConfig {
    /// Order of free frames.
    pub free_order: FreeOrder,
    /// Whether a read fault also maps resident neighbours.
    pub prefault: bool,
    /// Pages before and after a fault that prefault looks at (PFBAK, PFFOR: 4).
    pub prefault_pages: u32,
    /// Pages after the faulting one that a page-in may bring (vm_fault_read_ahead: 8).
    pub read_ahead: u32,
    /// Pages before it (vm_fault_read_behind: 7).
    pub read_behind: u32,
    /// Lowest user address.
    pub user_start: VirtAddr,
    /// End of user addresses; the kernel's begin here.
    pub user_end: VirtAddr,
    /// Where mmap looks first when there is no hint.
    pub mmap_start: VirtAddr,
    /// Most mappings of one space.
    pub entries_max: u32,
    /// Most spaces, and most objects.
    pub tables_max: u32,
}
