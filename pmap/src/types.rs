//! Words of the pmap: spaces, protections, flags of a mapping.

use bitflags::bitflags;
use machine::{Frame, VirtAddr};

/// An address space; the kernel's is number 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u16);

impl SpaceId {
    /// The kernel's space.
    pub const KERNEL: SpaceId = SpaceId(0);

    /// Whether this is the kernel's.
    pub fn is_kernel(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for SpaceId {
    /// `K` for the kernel, `A`, `B`, ... for user spaces, as the golden vectors name them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => write!(f, "K"),
            n @ 1..=10 => write!(f, "{}", char::from(b'A' + n as u8 - 1)),
            n => write!(f, "U{n}"),
        }
    }
}

bitflags! {
    /// What a mapping allows.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct Prot: u8 {
        /// Read.
        const READ = 1;
        /// Write.
        const WRITE = 2;
        /// Execute.
        const EXEC = 4;
    }
}

bitflags! {
    /// Flags of a pv entry (FreeBSD 2009 and later; `pmap-freebsd-netbsd.md` 1.2).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct PvFlags: u16 {
        /// Modified.
        const MOD = 0x01;
        /// Referenced.
        const REF = 0x02;
        /// Wired.
        const WIRED = 0x04;
        /// The mapping may be written, even if the entry is read-only for the moment.
        const WRITE = 0x08;
        /// Created with execute permission.
        const EXEC = 0x10;
        /// Uncached by the policy.
        const NC = 0x20;
        /// Uncached because of another mapping of the same user space, one of them writable.
        const MWC = 0x40;
        /// Made for an unmanaged mapping (kenter).
        const UNMAN = 0x80;
    }
}

impl PvFlags {
    /// Its name in tables and JSON, in bit order.
    pub fn names(self) -> Vec<&'static str> {
        self.iter_names().map(|(name, _)| name).collect()
    }

    /// Referenced and executable: instruction lines may exist.
    pub fn been_execd(self) -> bool {
        self.contains(PvFlags::REF | PvFlags::EXEC)
    }

    /// Referenced: data lines may exist.
    pub fn been_refd(self) -> bool {
        self.contains(PvFlags::REF)
    }
}

/// A run of pages mapped at kernel addresses: a buffer's data.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct KernelRange {
    /// First address.
    pub va: VirtAddr,
    /// The pages, in order.
    pub frames: Vec<Frame>,
}
