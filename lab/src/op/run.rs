//! Operations carried out on a world.

use machine::{Access, CpuId, Frame, Hw, Mark, Observer, PhysAddr, Step, VirtAddr, Width};
use pmap::{DmaOp, PmapCtx, PmapVerbs, SpaceId};

use super::{CPU0, Op, Outcome, Page, Space, Va, frame};
use crate::world::World;

impl Op {
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
        let (page, word) = (layout.page, 4);
        let kernel = |v: &Va, bytes: u32| {
            let end = v.0.checked_add(bytes);
            let inside = v.0 >= layout.sf_map.0.0.min(layout.pager_map.0.0)
                && end.is_some_and(|e| e <= layout.kernel_end.0);
            (!inside).then_some("not an address of the kernel's map")
        };
        let user = |v: &Va, bytes: u32| {
            let end = v.0.checked_add(bytes);
            let inside = end.is_some_and(|e| e <= layout.user_end.0);
            (!inside).then_some("not a user address")
        };
        let pages = |n: &u8| u32::from(*n) * page;
        let of = |s: &Space, v: &Va, bytes: u32| match s.0 {
            0 => kernel(v, bytes),
            _ => user(v, bytes),
        };
        match self {
            Op::Enter(s, v, _, _) | Op::EnterQuick(s, v, _, _) => of(s, v, page),
            Op::Remove(s, v, n) | Op::Protect(s, v, n, _) => of(s, v, pages(n)),
            Op::Kenter(v, _) | Op::Kremove(v) => kernel(v, page),
            Op::Qenter(v, _, n) | Op::Qremove(v, n) => kernel(v, pages(n)),
            Op::Buffer(_, v, p, n) => kernel(v, pages(n)).or_else(|| {
                let frames = frames(world, *p, *n);
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
                let bytes = match self {
                    Op::DmaRead(..) | Op::DmaWrite(_) => page,
                    _ => word,
                };
                let unmapped = world.pmap_extract(SpaceId::KERNEL, VirtAddr(v.0)).is_none();
                kernel(v, bytes).or(unmapped.then_some("nothing is mapped there"))
            }
            Op::Fetch(_, v) | Op::Load(_, v) | Op::Store(_, v, _) => user(v, word),
            Op::Sync(_, v, bytes) => user(v, *bytes),
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

#[cfg(test)]
mod tests {
    use machine::Profile;

    use super::*;
    use crate::op::Rights;
    use crate::system;

    #[test]
    fn the_last_word_of_the_last_page_can_be_accessed() {
        let profile = Profile::embedded("tiny-vivt").expect("it is embedded");
        let policy = pmap::policy::by_name("always-flush").expect("a policy");
        let mut world = system::bare(profile, policy, 1).expect("there is room");
        let layout = world.pmap().layout;
        let last = Va(layout.user_end.0 - layout.page);
        let word = Va(layout.user_end.0 - 4);
        let (space, page) = (Space(1), Page(0));
        Op::Enter(space, last, page, Rights::Rw).run(&mut world);
        assert_eq!(Op::Store(space, word, 7).run(&mut world), Outcome::Done);
        assert_eq!(Op::Load(space, word).run(&mut world), Outcome::Value(7));
        let beyond = Op::Load(space, Va(layout.user_end.0)).run(&mut world);
        assert!(matches!(beyond, Outcome::Skipped(_)), "{beyond:?}");
    }
}
