//! Micro-steps: everything that the hardware or another CPU can see of a kernel's work, one at a
//! time. Loads and stores have their own functions; all else is a [`Step`].

use crate::types::{Frame, PhysAddr, VirtAddr};

/// What is done to a cache line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LineOp {
    /// Write dirty parts out; the line stays.
    Clean,
    /// Drop the line; dirty parts are lost.
    Invalidate,
    /// Write dirty parts out, then drop the line.
    CleanInvalidate,
}

impl LineOp {
    /// Whether dirty parts are written out.
    pub fn cleans(self) -> bool {
        self != LineOp::Invalidate
    }

    /// Whether the line is gone afterwards.
    pub fn invalidates(self) -> bool {
        self != LineOp::Clean
    }
}

/// One micro-step of one CPU (or of a device or an adversary).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Data cache, one line by address.
    Dcache(LineOp, VirtAddr),
    /// Data cache, one line by slot (set and way).
    DcacheSlot(LineOp, u32),
    /// Data cache, test and clean: works on the first dirty line; without one, drops every line if
    /// the operation invalidates.
    DcacheTest(LineOp),
    /// Data cache, drop everything, dirty or not.
    DcacheInvalidateAll,
    /// Instruction cache, drop one line by address.
    Icache(VirtAddr),
    /// Instruction cache, drop everything.
    IcacheAll,
    /// Second level, one line by virtual address: looked up in the TLB, nothing without a mapping.
    L2(LineOp, VirtAddr),
    /// Second level, one line by physical address.
    L2Physical(LineOp, PhysAddr),
    /// Second level, one line by slot.
    L2Slot(LineOp, u32),
    /// TLB, all but locked entries.
    TlbAll,
    /// TLB, one page, both sides.
    Tlb(VirtAddr),
    /// TLB, one page, data side.
    TlbData(VirtAddr),
    /// Drain the write and eviction buffers.
    Drain,
    /// Empty the fetch buffer (a branch, an isb, an exception).
    FlushFetch,
    /// Load the translation table base: an address, or a space's number under flat tables.
    SetTtb(u32),
    /// Load the domain access register.
    SetDacr(u32),
    /// Store a page-table entry of a flat table.
    FlatPte {
        /// Space.
        space: u32,
        /// Virtual page number.
        page: u32,
        /// The entry.
        raw: u32,
    },
    /// A device writes up to 32 bytes of memory.
    DmaIn {
        /// Where.
        pa: PhysAddr,
        /// What.
        bytes: [u8; 32],
        /// How many.
        len: u8,
    },
    /// A device reads up to 32 bytes of memory.
    DmaOut {
        /// Where.
        pa: PhysAddr,
        /// How many.
        len: u8,
    },
    /// A change of kernel data that another CPU may test: a flag, a lock, a policy bit. The machine
    /// only marks the moment.
    Software(&'static str),
    /// Interrupts on or off.
    Interrupts(bool),
    /// Adversary: a data line leaves as if displaced.
    EvictData(u32),
    /// Adversary: an instruction line leaves.
    EvictInstruction(u32),
    /// Adversary: a second-level line leaves.
    EvictL2(u32),
    /// Adversary: the data side fetches a line nobody asked for.
    PrefetchData(VirtAddr),
    /// Adversary: the instruction side does.
    PrefetchInstruction(VirtAddr),
    /// Adversary: the TLB forgets a page.
    TlbDrop(VirtAddr),
    /// The exception entry of a trap or interrupt.
    Exception,
    /// Time passes: cycles of one class.
    Spend(crate::cost::Class, u32),
    /// A whole frame is about to be named by a new owner; nothing happens in hardware.
    Owner(Frame),
}
