//! Operations: the one type that cases, property tests, laws, fuzzers and the explorer share.
//!
//! The operations here drive the pmap directly on bare pages, without files or processes. Pages are
//! numbered from 0; they are consecutive frames of the machine.

mod run;

use arbitrary::Arbitrary;
use machine::{CpuId, Frame, Observer, VirtAddr};
use pmap::{BufferEvent, KernelUse, PmapCtx, PmapVerbs, Prot, SpaceId};

use crate::world::World;
pub use run::evict_all;

/// The CPU that operations run on where they name none.
pub const CPU0: CpuId = CpuId(0);

/// One operation on bare pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Arbitrary)]
pub enum Op {
    /// `pmap_enter`.
    Enter(Space, Va, Page, Rights),
    /// `pmap_enter_quick`.
    EnterQuick(Space, Va, Page, Rights),
    /// `pmap_remove` of so many pages.
    Remove(Space, Va, u8),
    /// `pmap_protect` of so many pages.
    Protect(Space, Va, u8, Rights),
    /// `pmap_remove_pages`.
    RemovePages(Space),
    /// `pmap_remove_all`.
    RemoveAll(Page),
    /// `pmap_remove_write`.
    RemoveWrite(Page),
    /// `pmap_clear_modify`.
    ClearModify(Page),
    /// `pmap_ts_referenced`.
    ClearReference(Page),
    /// `pmap_kenter`.
    Kenter(Va, Page),
    /// `pmap_kremove`.
    Kremove(Va),
    /// `pmap_qenter` of consecutive pages.
    Qenter(Va, Page, u8),
    /// `pmap_qremove`.
    Qremove(Va, u8),
    /// `pmap_zero_page`.
    Zero(Page),
    /// `pmap_copy_page`.
    Copy(Page, Page),
    /// `cpu_switch` to a space.
    Switch(Space),
    /// `cpu_switch` to a kernel thread.
    SwitchKernel,
    /// `pmap_activate`.
    Activate(Space),
    /// The program asks for a sync. Like the three accesses below, it switches to its space first if
    /// another one runs.
    Sync(Space, Va, u32),
    /// A user instruction fetch.
    Fetch(Space, Va),
    /// A user load.
    Load(Space, Va),
    /// A user store.
    Store(Space, Va, u32),
    /// A kernel load.
    KernelLoad(Va),
    /// A kernel store.
    KernelStore(Va, u32),
    /// The kernel announces or reports a use of its addresses.
    Use(bool, Use, Va, u32),
    /// A buffer's owner does something with it: its address, first page and pages.
    Buffer(Event, Va, Page, u8),
    /// A device fills the page mapped at a kernel address, with busdma around it.
    DmaRead(Va, u32),
    /// A device reads it.
    DmaWrite(Va),
    /// The frame changes hands: its bytes do not matter until they are stored again.
    Recycle(Page),
    /// Hardware: every line leaves, newest bytes first.
    EvictAll,
    /// Hardware: the instruction cache empties itself.
    EvictInstructions,
    /// Hardware: one data line leaves, by its tag: the virtual address in a VIVT cache.
    Evict(Va),
    /// Hardware: one instruction line leaves.
    EvictInstruction(Va),
    /// Hardware: a data line nobody asked for.
    Prefetch(Va),
    /// Hardware: an instruction line nobody asked for.
    PrefetchInstruction(Va),
    /// Hardware: the TLB forgets a page.
    TlbDrop(Va),
    /// Hardware: the write buffer drains.
    Drain,
}

/// A space: 1 is A; 0 is the kernel's, for managed mappings (a generated one is a user's).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Space(pub u8);

impl<'a> Arbitrary<'a> for Space {
    fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(u.int_in_range(1..=2)?))
    }
}

/// A page of the case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Page(pub u8);

impl<'a> Arbitrary<'a> for Page {
    fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(u.int_in_range(0..=1)?))
    }
}

/// A virtual address. A generated one is a number that [`Op::place`] turns into an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Va(pub u32);

impl<'a> Arbitrary<'a> for Va {
    fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(u32::from(u.arbitrary::<u8>()?)))
    }
}

/// Rights of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Arbitrary)]
pub enum Rights {
    /// Read.
    R,
    /// Read and execute.
    Rx,
    /// Read and write.
    Rw,
    /// Everything.
    Rwx,
}

impl Rights {
    /// As the pmap names them.
    pub fn prot(self) -> Prot {
        match self {
            Rights::R => Prot::READ,
            Rights::Rx => Prot::READ | Prot::EXEC,
            Rights::Rw => Prot::READ | Prot::WRITE,
            Rights::Rwx => Prot::all(),
        }
    }
}

/// [`KernelUse`], to generate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Arbitrary)]
pub enum Use {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Device data by stores.
    Pio,
    /// A debugger's stores.
    Poke,
}

impl Use {
    /// As the pmap names it.
    pub fn kernel_use(self) -> KernelUse {
        match self {
            Use::Read => KernelUse::Read,
            Use::Write => KernelUse::Write,
            Use::Pio => KernelUse::Pio,
            Use::Poke => KernelUse::Poke,
        }
    }
}

/// [`BufferEvent`], to generate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Arbitrary)]
pub enum Event {
    /// Given to a reader.
    AcquiredRead,
    /// Given to a writer who says so.
    AcquiredWrite,
    /// Released.
    Released,
    /// A device read into it.
    IoDoneRead,
    /// The kernel stored into it.
    CopiedWrite,
    /// The kernel loaded from it.
    CopiedRead,
    /// A device will write it.
    IoStartRead,
    /// A device will read it.
    IoStartWrite,
    /// A device has read it.
    IoDoneWrite,
}

impl Event {
    /// As the pmap names it.
    pub fn buffer_event(self) -> BufferEvent {
        match self {
            Event::AcquiredRead => BufferEvent::Acquired { write: false },
            Event::AcquiredWrite => BufferEvent::Acquired { write: true },
            Event::Released => BufferEvent::Released,
            Event::IoDoneRead => BufferEvent::IoDone { read: true },
            Event::CopiedWrite => BufferEvent::Copied { write: true },
            Event::CopiedRead => BufferEvent::Copied { write: false },
            Event::IoStartRead => BufferEvent::IoStart { read: true },
            Event::IoStartWrite => BufferEvent::IoStart { read: false },
            Event::IoDoneWrite => BufferEvent::IoDone { read: false },
        }
    }
}

/// What an operation gave back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing to tell.
    Done,
    /// An access's value.
    Value(u32),
    /// An access failed, also after `pmap_fault_fixup`.
    Fault,
    /// The operation makes no sense in this state and did nothing.
    Skipped(&'static str),
}

/// The frame of a case's page.
pub fn frame<C: PmapCtx>(world: &C, page: Page) -> Frame {
    let layout = &world.pmap().layout;
    let spare = if layout.first_frame == 0 { 0 } else { 256 };
    Frame(layout.first_frame + spare + u32::from(page.0))
}

impl Op {
    /// The page the operation names, or the one mapped where it works, before it runs.
    pub fn page<O: Observer + Clone>(&self, world: &World<O>) -> Option<Frame> {
        let of = |p: &Page| Some(frame(world, *p));
        let at = |s: SpaceId, va: &Va| world.pmap_extract(s, VirtAddr(va.0));
        match self {
            Op::Enter(_, _, p, _) | Op::EnterQuick(_, _, p, _) | Op::RemoveAll(p) => of(p),
            Op::RemoveWrite(p) | Op::ClearModify(p) | Op::ClearReference(p) => of(p),
            Op::Kenter(_, p) | Op::Qenter(_, p, _) | Op::Zero(p) | Op::Copy(_, p) => of(p),
            Op::Buffer(_, _, p, _) | Op::Recycle(p) => of(p),
            Op::Remove(s, va, _) | Op::Protect(s, va, _, _) => at(SpaceId(u16::from(s.0)), va),
            Op::Kremove(va) | Op::Qremove(va, _) | Op::KernelLoad(va) => at(SpaceId::KERNEL, va),
            Op::KernelStore(va, _) | Op::DmaRead(va, _) => at(SpaceId::KERNEL, va),
            Op::DmaWrite(va) | Op::Use(_, _, va, _) => at(SpaceId::KERNEL, va),
            Op::Fetch(s, va) | Op::Load(s, va) | Op::Store(s, va, _) | Op::Sync(s, va, _) => {
                at(SpaceId(u16::from(s.0)), va)
            }
            _ => None,
        }
    }

    /// The address where it works, if it has one.
    pub fn va(&self) -> Option<Va> {
        match *self {
            Op::Enter(_, va, ..) | Op::EnterQuick(_, va, ..) | Op::Remove(_, va, _) => Some(va),
            Op::Protect(_, va, ..) | Op::Kenter(va, _) | Op::Kremove(va) => Some(va),
            Op::Qenter(va, ..) | Op::Qremove(va, _) | Op::Use(_, _, va, _) => Some(va),
            Op::Buffer(_, va, ..) | Op::DmaRead(va, _) | Op::DmaWrite(va) => Some(va),
            Op::KernelLoad(va) | Op::KernelStore(va, _) | Op::Sync(_, va, _) => Some(va),
            Op::Fetch(_, va) | Op::Load(_, va) | Op::Store(_, va, _) => Some(va),
            Op::Evict(va) | Op::EvictInstruction(va) | Op::TlbDrop(va) => Some(va),
            Op::Prefetch(va) | Op::PrefetchInstruction(va) => Some(va),
            _ => None,
        }
    }
}
