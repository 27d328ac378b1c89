//! Addresses, indices and accesses: one type for each, so that a frame number is never taken for
//! an address. All quantities are 32-bit, as on the machines modelled.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

number!(
    /// A virtual address.
    VirtAddr(u32), "{:#010x}"
);
number!(
    /// A physical address.
    PhysAddr(u32), "{:#010x}"
);
number!(
    /// A physical page number; its size is the machine's `page_bytes`.
    Frame(u32), "frame {}"
);
number!(
    /// A processor, counted from 0.
    CpuId(u8), "cpu{}"
);

impl VirtAddr {
    /// The address `bytes` further on.
    pub const fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl PhysAddr {
    /// The address `bytes` further on.
    pub const fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

/// The width of one load or store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
}

impl Width {
    /// Its size in bytes: 1, 2 or 4.
    pub const fn bytes(self) -> u32 {
        match self {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
        }
    }
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// An instruction fetch.
    Fetch,
    /// A data load.
    Load,
    /// A data store.
    Store,
}

/// Why a translation failed; the codes of the ARMv5 fault status register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// The address is not a multiple of the access's width.
    Alignment,
    /// No valid first-level descriptor.
    TranslationSection,
    /// No valid second-level descriptor.
    TranslationPage,
    /// The domain allows no access.
    Domain,
    /// The descriptor's access permissions forbid the access.
    Permission,
    /// No memory or device at that physical address.
    External,
}

/// A failed access, as the fault status and address registers tell it. Nothing of the access has
/// happened; the instruction can be restarted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Abort {
    /// The address accessed.
    pub va: VirtAddr,
    /// What the access would have done.
    pub access: Access,
    /// What was wrong.
    pub fault: Fault,
}
