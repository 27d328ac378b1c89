//! Operations: the one type that cases, property tests, laws, fuzzers and the explorer share.
//!
//! The operations here drive the pmap directly on bare pages, without files or processes. Pages are
//! numbered from 0; they are consecutive frames of the machine.

use arbitrary::Arbitrary;
use machine::{Access, CpuId, Frame, Hw, Mark, Observer, PhysAddr, Step, VirtAddr, Width};
use pmap::{BufferEvent, DmaOp, KernelUse, PmapCtx, PmapVerbs, Prot, SpaceId};

use crate::world::World;

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

    /// Runs the operation.
    pub fn run<O: Observer + Clone>(&self, world: &mut World<O>) -> Outcome {
        if let Some(why) = self.senseless(world) {
            return Outcome::Skipped(why);
        }
        let bytes = world.hw().page_bytes();
        let id = |s: &Space| SpaceId(u16::from(s.0));
        let va = |v: &Va| VirtAddr(v.0);
        match self {
            Op::Enter(s, v, p, r) => {
                let page = frame(world, *p);
                let made = world.pmap_enter(CPU0, id(s), va(v), page, r.prot(), false);
                return if made {
                    Outcome::Done
                } else {
                    Outcome::Skipped("no memory for a table")
                };
            }
            Op::EnterQuick(s, v, p, r) => {
                let page = frame(world, *p);
                world.pmap_enter_quick(CPU0, id(s), va(v), page, r.prot());
            }
            Op::Remove(s, v, n) => {
                world.pmap_remove(CPU0, id(s), va(v), va(v).add(u32::from(*n) * bytes));
            }
            Op::Protect(s, v, n, r) => {
                let end = va(v).add(u32::from(*n) * bytes);
                world.pmap_protect(CPU0, id(s), va(v), end, r.prot());
            }
            Op::RemovePages(s) => world.pmap_remove_pages(CPU0, id(s)),
            Op::Switch(s) => world.cpu_switch(CPU0, Some(id(s))),
            Op::SwitchKernel => world.cpu_switch(CPU0, None),
            Op::Activate(s) => world.pmap_activate(CPU0, id(s)),
            Op::Fetch(s, v) => return user_access(world, id(s), Access::Fetch, va(v), 0),
            Op::Load(s, v) => return user_access(world, id(s), Access::Load, va(v), 0),
            Op::Store(s, v, value) => {
                return user_access(world, id(s), Access::Store, va(v), *value);
            }
            Op::KernelLoad(v) => return kernel_access(world, Access::Load, va(v), 0),
            Op::KernelStore(v, value) => {
                return kernel_access(world, Access::Store, va(v), *value);
            }
            _ => self.run_page(world),
        }
        Outcome::Done
    }

    fn run_page<O: Observer + Clone>(&self, world: &mut World<O>) {
        let at = |w: &World<O>, p: &Page| frame(w, *p);
        match self {
            Op::RemoveAll(p) => world.pmap_remove_all(CPU0, at(world, p)),
            Op::RemoveWrite(p) => world.pmap_remove_write(CPU0, at(world, p)),
            Op::ClearModify(p) => world.pmap_clear_modify(CPU0, at(world, p)),
            Op::ClearReference(p) => drop(world.pmap_ts_referenced(CPU0, at(world, p))),
            Op::Kenter(v, p) => world.pmap_kenter(CPU0, VirtAddr(v.0), at(world, p)),
            Op::Kremove(v) => world.pmap_kremove(CPU0, VirtAddr(v.0)),
            Op::Qenter(v, p, n) => {
                let frames = frames(world, *p, *n);
                world.pmap_qenter(CPU0, VirtAddr(v.0), &frames);
            }
            Op::Qremove(v, n) => world.pmap_qremove(CPU0, VirtAddr(v.0), u32::from(*n)),
            Op::Zero(p) => world.pmap_zero_page(CPU0, at(world, p)),
            Op::Copy(a, b) => world.pmap_copy_page(CPU0, at(world, a), at(world, b)),
            Op::Buffer(event, v, p, n) => {
                let frames = frames(world, *p, *n);
                world.buffer_event(CPU0, event.buffer_event(), VirtAddr(v.0), &frames);
            }
            Op::Recycle(p) => {
                let freed = at(world, p);
                world.mark(CPU0, Mark::FrameFreed(freed));
                world.mark(CPU0, Mark::FrameAllocated(freed));
            }
            Op::Use(false, what, v, len) => {
                world.kernel_will(CPU0, what.kernel_use(), VirtAddr(v.0), *len);
            }
            Op::Use(true, what, v, len) => {
                world.kernel_did(CPU0, what.kernel_use(), VirtAddr(v.0), *len);
            }
            Op::Sync(s, v, len) => {
                let space = SpaceId(u16::from(s.0));
                run_space(world, space);
                world.pmap_sync_icache(CPU0, space, VirtAddr(v.0), *len);
                world.mark(
                    CPU0,
                    Mark::Sync {
                        va: VirtAddr(v.0),
                        len: *len,
                    },
                );
            }
            Op::DmaRead(v, seed) => dma_read(world, VirtAddr(v.0), *seed),
            Op::DmaWrite(v) => dma_write(world, VirtAddr(v.0)),
            _ => self.run_hardware(world),
        }
    }

    fn run_hardware<O: Observer + Clone>(&self, world: &mut World<O>) {
        match self {
            Op::EvictAll => evict_all(world),
            Op::EvictInstructions => {
                let slots: Vec<u32> = world.hw().cpu(CPU0).icache.valid_slots().collect();
                slots
                    .into_iter()
                    .for_each(|s| world.step(CPU0, Step::EvictInstruction(s)));
            }
            Op::Evict(v) => {
                if let Some(slot) = holder(&world.hw().cpu(CPU0).dcache, v.0) {
                    world.step(CPU0, Step::EvictData(slot));
                }
            }
            Op::EvictInstruction(v) => {
                if let Some(slot) = holder(&world.hw().cpu(CPU0).icache, v.0) {
                    world.step(CPU0, Step::EvictInstruction(slot));
                }
            }
            Op::Prefetch(v) => world.step(CPU0, Step::PrefetchData(VirtAddr(v.0))),
            Op::PrefetchInstruction(v) => {
                world.step(CPU0, Step::PrefetchInstruction(VirtAddr(v.0)));
            }
            Op::TlbDrop(v) => world.step(CPU0, Step::TlbDrop(VirtAddr(v.0))),
            Op::Drain => world.step(CPU0, Step::Drain),
            _ => {}
        }
    }

    /// Why the operation would break the pmap's contract in this state, if it would.
    fn senseless<O: Observer + Clone>(&self, world: &World<O>) -> Option<&'static str> {
        let layout = &world.pmap().layout;
        let kernel = |v: &Va, n: u32| {
            let end = v.0.checked_add(n * layout.page);
            let inside = v.0 >= layout.sf_map.0.0.min(layout.pager_map.0.0)
                && end.is_some_and(|e| e <= layout.kernel_end.0);
            (!inside).then_some("not an address of the kernel's map")
        };
        let user = |v: &Va, n: u32| {
            let end = v.0.checked_add(n * layout.page);
            let inside = end.is_some_and(|e| e <= layout.user_end.0);
            (!inside).then_some("not a user address")
        };
        let of = |s: &Space, v: &Va, n: u32| if s.0 == 0 { kernel(v, n) } else { user(v, n) };
        match self {
            Op::Enter(s, v, _, _) | Op::EnterQuick(s, v, _, _) => of(s, v, 1),
            Op::Remove(s, v, n) | Op::Protect(s, v, n, _) => of(s, v, u32::from(*n)),
            Op::Kenter(v, _) | Op::Kremove(v) => kernel(v, 1),
            Op::Qenter(v, _, n) | Op::Qremove(v, n) => kernel(v, u32::from(*n)),
            Op::Buffer(_, v, p, n) => kernel(v, u32::from(*n)).or_else(|| {
                let frames = frames(world, *p, *n);
                let page = layout.page;
                // A policy may have unmapped it since.
                let mapped = |(i, f): (usize, &Frame)| {
                    let at = VirtAddr(v.0 + i as u32 * page);
                    world
                        .pmap_extract(SpaceId::KERNEL, at)
                        .is_none_or(|there| there == *f)
                };
                (!frames.iter().enumerate().all(mapped)).then_some("not this buffer's address")
            }),
            Op::KernelLoad(v) | Op::KernelStore(v, _) | Op::DmaRead(v, _) | Op::DmaWrite(v) => {
                let unmapped = world.pmap_extract(SpaceId::KERNEL, VirtAddr(v.0)).is_none();
                kernel(v, 1).or(unmapped.then_some("nothing is mapped there"))
            }
            Op::Fetch(_, v) | Op::Load(_, v) | Op::Store(_, v, _) | Op::Sync(_, v, _) => user(v, 1),
            _ => None,
        }
    }
}

fn frames<O: Observer + Clone>(world: &World<O>, first: Page, count: u8) -> Vec<Frame> {
    (0..count)
        .map(|n| frame(world, Page(first.0.saturating_add(n))))
        .collect()
}

/// The slot of the line with this tag.
fn holder(cache: &machine::cache::Cache, tag: u32) -> Option<u32> {
    let line = tag & !(cache.line_bytes() - 1);
    cache
        .valid_slots()
        .find(|slot| cache.tag_address(*slot) == line)
}

/// Switches to a space unless it runs.
fn run_space<O: Observer + Clone>(world: &mut World<O>, space: SpaceId) {
    if world.pmap().cpus[0].current != Some(space) {
        world.cpu_switch(CPU0, Some(space));
    }
}

/// Faults that one access may take: the first-level slot, the reference, the modification.
const FAULTS_MAX: u32 = 4;

/// A user access, retried after each fault that `pmap_fault_fixup` repairs.
fn user_access<O: Observer + Clone>(
    world: &mut World<O>,
    space: SpaceId,
    access: Access,
    va: VirtAddr,
    value: u32,
) -> Outcome {
    let va = VirtAddr(va.0 & !3);
    run_space(world, space);
    for _ in 0..FAULTS_MAX {
        let machine = &mut world.state.machine;
        let observer = &mut world.observer;
        let got = match access {
            Access::Fetch => machine.fetch(CPU0, va, Width::Word, true, observer),
            Access::Load => machine.load(CPU0, va, Width::Word, true, observer),
            Access::Store => machine
                .store(CPU0, va, Width::Word, value, true, observer)
                .map(|()| value),
        };
        match got {
            Ok(_) if access == Access::Store => return Outcome::Done,
            Ok(word) => return Outcome::Value(word),
            Err(_) => {
                world.step(CPU0, Step::Exception);
                if !world.pmap_fault_fixup(CPU0, space, va, access, true) {
                    return Outcome::Fault;
                }
            }
        }
    }
    hangs(world, va)
}

/// The pmap says that it repaired the fault, and did not.
fn hangs<O: Observer + Clone>(world: &mut World<O>, va: VirtAddr) -> Outcome {
    let why = format!("the access at {va} aborts again and again");
    world.mark(CPU0, Mark::Hang(why));
    Outcome::Fault
}

/// A kernel access. A fault goes the way of the abort handler, which asks `pmap_fault_fixup` in the space of
/// the process that runs (B26); what that does not repair is a panic, for the buffer map is NOFAULT.
fn kernel_access<O: Observer + Clone>(
    world: &mut World<O>,
    access: Access,
    va: VirtAddr,
    value: u32,
) -> Outcome {
    let va = VirtAddr(va.0 & !3);
    for _ in 0..FAULTS_MAX {
        let got = match access {
            Access::Store => world
                .store(CPU0, va, Width::Word, value, false)
                .map(|()| None),
            _ => world.load(CPU0, va, Width::Word, false).map(Some),
        };
        match got {
            Ok(word) => return word.map_or(Outcome::Done, Outcome::Value),
            Err(_) => world.step(CPU0, Step::Exception),
        }
        let space = world.pmap().cpus[0].current.unwrap_or(SpaceId::KERNEL);
        if !world.pmap_fault_fixup(CPU0, space, va, access, false) {
            let why = format!("vm_fault: fault on nofault entry, addr: {va}");
            world.mark(CPU0, Mark::Panic(why));
            return Outcome::Fault;
        }
    }
    hangs(world, va)
}

fn page_address<O: Observer + Clone>(world: &World<O>, va: VirtAddr) -> Option<PhysAddr> {
    let frame = world.pmap_extract(SpaceId::KERNEL, va)?;
    Some(world.hw().frame_address(frame))
}

fn dma_read<O: Observer + Clone>(world: &mut World<O>, va: VirtAddr, seed: u32) {
    let Some(pa) = page_address(world, va) else {
        return;
    };
    let len = world.hw().page_bytes();
    let map = world.bus_dma_load(va, len);
    world.mark(CPU0, Mark::Dead { pa, len });
    world.bus_dma_sync(CPU0, DmaOp::PreRead, map);
    world.mark(CPU0, Mark::DmaInBegin { pa, len });
    let beat = len.min(32);
    for at in (0..len).step_by(beat as usize) {
        let mut bytes = [0; 32];
        for n in (0..beat as usize).step_by(4) {
            let word = seed.wrapping_add(at + n as u32);
            bytes[n..n + 4].copy_from_slice(&word.to_le_bytes());
        }
        world.step(
            CPU0,
            Step::DmaIn {
                pa: pa.add(at),
                bytes,
                len: beat as u8,
            },
        );
    }
    world.bus_dma_sync(CPU0, DmaOp::PostRead, map);
    world.mark(CPU0, Mark::DmaEnd { pa, len });
}

fn dma_write<O: Observer + Clone>(world: &mut World<O>, va: VirtAddr) {
    let Some(pa) = page_address(world, va) else {
        return;
    };
    let len = world.hw().page_bytes();
    let map = world.bus_dma_load(va, len);
    world.bus_dma_sync(CPU0, DmaOp::PreWrite, map);
    world.mark(CPU0, Mark::DmaOutBegin { pa, len });
    let beat = len.min(32);
    for at in (0..len).step_by(beat as usize) {
        world.step(
            CPU0,
            Step::DmaOut {
                pa: pa.add(at),
                len: beat as u8,
            },
        );
    }
    world.bus_dma_sync(CPU0, DmaOp::PostWrite, map);
    world.mark(CPU0, Mark::DmaEnd { pa, len });
}

/// Empties every cache in the worst order: lines whose bytes are the newest first, so that an older copy
/// that is still dirty overwrites them.
pub fn evict_all<O: Observer + Clone>(world: &mut World<O>) {
    for n in 0..world.hw().cpus.len() {
        let cpu = CpuId(n as u8);
        world.step(cpu, Step::Drain);
        let cache = &world.hw().cpu(cpu).dcache;
        let slots: Vec<u32> = cache.valid_slots().collect();
        let newest = |slot: &u32| world.observer.holds_newest(world.hw(), cpu, *slot);
        let (first, last): (Vec<u32>, Vec<u32>) = slots.into_iter().partition(newest);
        for slot in first.into_iter().chain(last) {
            world.step(cpu, Step::EvictData(slot));
        }
        world.step(cpu, Step::Drain);
    }
    let l2: Vec<u32> = world
        .hw()
        .l2
        .as_ref()
        .map_or(Vec::new(), |l2| l2.valid_slots().collect());
    l2.into_iter()
        .for_each(|slot| world.step(CPU0, Step::EvictL2(slot)));
}
