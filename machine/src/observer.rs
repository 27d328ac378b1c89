//! What watches a machine from outside. The machine reports every access, every movement of bytes
//! between the places that can hold them, and the marks that a kernel sends; it never reads anything
//! back.

use crate::machine::Machine;
use crate::step::Step;
use crate::tlb::TlbEntry;
use crate::types::{Access, CpuId, Frame, PhysAddr, VirtAddr, Width};

/// A cache of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Unit {
    /// A CPU's instruction cache.
    L1I(CpuId),
    /// A CPU's data cache.
    L1D(CpuId),
    /// The shared second level.
    L2,
}

/// A place that can hold bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// Memory.
    Memory(PhysAddr),
    /// A cache line, from `offset` on.
    Line {
        /// The cache.
        unit: Unit,
        /// The line's slot.
        slot: u32,
        /// Bytes from the line's start.
        offset: u32,
    },
    /// A write-buffer entry.
    WriteBuffer {
        /// Whose.
        cpu: CpuId,
        /// Its slot in the ring.
        slot: u32,
        /// Bytes from the entry's start.
        offset: u32,
    },
    /// The eviction buffer.
    Evicted {
        /// Whose.
        cpu: CpuId,
        /// Bytes from the line's start.
        offset: u32,
    },
    /// The instruction prefetch buffer.
    FetchBuffer {
        /// Whose.
        cpu: CpuId,
        /// Bytes from the buffer's start.
        offset: u32,
    },
}

impl Place {
    /// The place `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u32) -> Self {
        match self {
            Place::Memory(pa) => Place::Memory(pa.add(bytes)),
            Place::Line { unit, slot, offset } => Place::Line {
                unit,
                slot,
                offset: offset + bytes,
            },
            Place::WriteBuffer { cpu, slot, offset } => Place::WriteBuffer {
                cpu,
                slot,
                offset: offset + bytes,
            },
            Place::Evicted { cpu, offset } => Place::Evicted {
                cpu,
                offset: offset + bytes,
            },
            Place::FetchBuffer { cpu, offset } => Place::FetchBuffer {
                cpu,
                offset: offset + bytes,
            },
        }
    }
}

/// One access as the processor made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Who.
    pub cpu: CpuId,
    /// Where.
    pub va: VirtAddr,
    /// How much.
    pub width: Width,
    /// What.
    pub access: Access,
    /// User or privileged mode.
    pub user: bool,
    /// The TLB copy used.
    pub entry: TlbEntry,
    /// Where the bytes came from, or where a store put them.
    pub place: Place,
}

impl Seen {
    /// The physical address by the TLB copy used.
    pub fn pa(&self) -> PhysAddr {
        PhysAddr(self.entry.translate(self.va.0))
    }
}

/// What a kernel tells the observer. Policies cannot read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// An operation begins; operations nest.
    Begin(&'static str),
    /// The innermost operation ends.
    End,
    /// A pmap operation begins: until it ends, old and new descriptors both count.
    PmapBegin,
    /// It ends.
    PmapEnd,
    /// From here on, this CPU's kernel stores are for the program that asked (read(2) into its
    /// buffer): syncing them is its own duty.
    ForProgram(bool),
    /// A process runs on this CPU from here on.
    Running {
        /// Its number.
        pid: u32,
    },
    /// The program asked that what was stored in this range of its own space be executable.
    Sync {
        /// Start.
        va: VirtAddr,
        /// Length, bytes.
        len: u32,
    },
    /// A frame is given out; its bytes do not matter until they are written.
    FrameAllocated(Frame),
    /// A frame is free: its bytes do not matter any more.
    FrameFreed(Frame),
    /// These bytes do not matter any more (an invalidated buffer, a page about to be filled).
    Dead {
        /// From.
        pa: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// A device will read this buffer: what was due now must reach it.
    DmaOutBegin {
        /// From.
        pa: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// A device may write this buffer from now on.
    DmaInBegin {
        /// From.
        pa: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// The transfer is complete and the kernel has done what it does after one.
    DmaEnd {
        /// From.
        pa: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// A page was filled with zeros.
    Zeroed {
        /// From.
        pa: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// A page was filled with the bytes of another; each has the status of the one it was copied from.
    Copied {
        /// From.
        from: PhysAddr,
        /// To.
        to: PhysAddr,
        /// Length, bytes.
        len: u32,
    },
    /// The kernel panicked.
    Panic(String),
    /// The caller of a verb broke its contract.
    Misuse(String),
    /// An invariant of the pmap failed.
    BrokenRule(String),
    /// The same fault again and again.
    Hang(String),
    /// Something worth telling in a report: who did what to which file or page.
    Note(String),
}

/// Watches a machine. Every method does nothing unless it is written. The machine is shown as it is
/// just after what is reported.
pub trait Observer {
    /// Whether anything watches; lets the hot path skip work.
    const ACTIVE: bool = true;
    /// An instruction word was fetched and will execute.
    fn fetched(&mut self, _machine: &Machine, _seen: &Seen, _word: u32) {}
    /// A load returned.
    fn loaded(&mut self, _machine: &Machine, _seen: &Seen, _value: u32) {}
    /// A store took place.
    fn stored(&mut self, _machine: &Machine, _seen: &Seen, _value: u32) {}
    /// A program's store into this line of its CPU's data cache took place through a translation that
    /// [`Observer::agrees`] said yes to; whoever never does is not told.
    #[inline]
    fn stored_agreed(
        &mut self,
        _cpu: CpuId,
        _slot: u32,
        _pa: PhysAddr,
        _width: Width,
        _value: u32,
    ) {
    }
    /// Whether accesses of this kind to this page, through this TLB copy, need no look at the
    /// translation while [`Observer::naming`] stays the same. Only between two steps or marks.
    fn agrees(&mut self, _machine: &Machine, _seen: &Seen) -> bool {
        false
    }
    /// A number, not 0, that changes whenever [`Observer::agrees`] might answer otherwise.
    #[inline]
    fn naming(&self) -> u32 {
        0
    }
    /// Whether fetches and loads from this first-level line, which holds bytes of `pa`, need no
    /// report if the translation is agreed with. Whoever counts accesses says no.
    #[inline]
    fn trusts(&self, _unit: Unit, _slot: u32, _pa: PhysAddr) -> bool {
        false
    }
    /// Looks at a whole line and decides whether to trust it from now on.
    fn examine(&mut self, _machine: &Machine, _unit: Unit, _slot: u32, _pa: PhysAddr) -> bool {
        false
    }
    /// `len` bytes of physical address `pa` were copied from one place to another; the first place
    /// keeps its own.
    fn moved(&mut self, _machine: &Machine, _from: Place, _to: Place, _pa: PhysAddr, _len: u32) {}
    /// What `place` held of physical address `pa` is gone from there.
    fn dropped(&mut self, _machine: &Machine, _place: Place, _pa: PhysAddr, _len: u32) {}
    /// A device wrote memory.
    fn dma_in(&mut self, _machine: &Machine, _pa: PhysAddr, _bytes: &[u8]) {}
    /// A device read memory.
    fn dma_out(&mut self, _machine: &Machine, _pa: PhysAddr, _bytes: &[u8]) {}
    /// A table walk ended with this entry.
    fn walked(&mut self, _machine: &Machine, _cpu: CpuId, _va: VirtAddr, _entry: &TlbEntry) {}
    /// An entry of a flat table was stored, at this index of all tables.
    fn flat_stored(&mut self, _index: Option<usize>, _raw: u32) {}
    /// A micro-step was applied.
    fn stepped(&mut self, _cpu: CpuId, _step: &Step) {}
    /// Whether a data line's dirty bytes are the last that were stored: asked by an adversary that wants
    /// the worst order. Who watches nothing says yes.
    fn holds_newest(&self, _machine: &Machine, _cpu: CpuId, _slot: u32) -> bool {
        true
    }
    /// A kernel's mark.
    fn mark(&mut self, _cpu: CpuId, _mark: &Mark) {}
}

/// Nobody watches.
impl Observer for () {
    const ACTIVE: bool = false;
}
