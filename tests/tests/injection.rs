//! A second CPU's operation, injected at every micro-step of the first CPU's.

use std::sync::Arc;

use lab::inject::Injection;
use lab::oracle::Oracle;
use lab::{State, World};
use machine::{CpuId, Frame, Hw, Profile, VirtAddr, Width};
use pmap::{PmapVerbs, Prot, SpaceId};

const ZERO: CpuId = CpuId(0);
const ONE: CpuId = CpuId(1);
const PAGE: Frame = Frame(0);
const DATA: Frame = Frame(1);
const A: SpaceId = SpaceId(1);
const B: SpaceId = SpaceId(2);
const VA: VirtAddr = VirtAddr(0);
const K1: VirtAddr = VirtAddr(128);
const K2: VirtAddr = VirtAddr(144);
const K3: VirtAddr = VirtAddr(160);

// Flat tables: with tables in memory, a second CPU whose data cache is not coherent would read old entries,
// which is true of such a machine but is not what is tested here.

fn two_cpus(policy: &str) -> World<Oracle> {
    let mut profile = (*Profile::embedded("tiny-vivt").unwrap()).clone();
    profile.cpus = 2;
    let state = State::boot(Arc::new(profile));
    let layout = state.pmap.layout;
    let oracle = Oracle::new(&state.machine, (layout.tables.1, layout.tables.2));
    let policy = pmap::policy::by_name(policy).unwrap();
    let mut world = World::new(state, policy, oracle);
    assert_eq!(world.pmap_create(ZERO), Some(A));
    assert_eq!(world.pmap_create(ONE), Some(B));
    world.cpu_switch(ZERO, Some(A));
    world.cpu_switch(ONE, Some(B));
    world.pmap_kenter(ONE, K3, DATA);
    world
}

fn first(world: &mut World<Oracle>) {
    assert!(world.pmap_enter(ZERO, A, VA, PAGE, Prot::READ | Prot::EXEC, false));
    world.pmap_kenter(ZERO, K1, PAGE);
    world.pmap_kremove(ZERO, K1);
}

/// An operation that takes the pmap lock.
fn kenter_elsewhere(world: &mut World<Oracle>) {
    world.pmap_kenter(ONE, K2, PAGE);
    world.pmap_kremove(ONE, K2);
}

/// An operation that takes none.
fn touch(world: &mut World<Oracle>) {
    world.store(ONE, K3, Width::Word, 7, false).unwrap();
    assert_eq!(world.load(ONE, K3, Width::Word, false), Ok(7));
}

/// Injects `second` before every step of `first`; returns how often it ran and how often it could not.
fn everywhere(policy: &str, second: fn(&mut World<Oracle>)) -> (u32, u32) {
    let (mut ran, mut infeasible) = (0, 0);
    let prepared = two_cpus(policy);
    for at in 0.. {
        let mut world = prepared.clone();
        world.injection = Some(Injection::at(at, second));
        first(&mut world);
        let injection = world.injection.take().unwrap();
        if !injection.ran {
            break;
        }
        match injection.infeasible {
            Some(_) => infeasible += 1,
            None => ran += 1,
        }
        assert_eq!(world.state.pmap.check(), None, "injected at step {at}");
        assert!(world.observer.verdicts.clean(), "injected at step {at}");
        let left = world.state.pmap.mappings(PAGE).count();
        assert_eq!(
            left, 1,
            "injected at step {at}: A's mapping is what remains"
        );
    }
    (ran, infeasible)
}

#[test]
fn an_operation_without_locks_can_run_before_every_step() {
    let (ran, infeasible) = everywhere("freebsd-2010", touch);
    assert!(ran > 20, "{ran} steps");
    assert_eq!(infeasible, 0);
}

#[test]
fn an_operation_that_needs_a_held_lock_is_unwound_there_and_runs_elsewhere() {
    let (ran, infeasible) = everywhere("freebsd-2010", kenter_elsewhere);
    assert!(ran >= 3, "{ran} steps outside the lock");
    assert!(infeasible > 15, "{infeasible} steps inside");
}

#[test]
fn the_same_input_gives_the_same_world_at_every_operation() {
    let mut a = two_cpus("freebsd-2010");
    let mut b = two_cpus("freebsd-2010");
    for operation in [first, kenter_elsewhere, touch, first] {
        operation(&mut a);
        let mut clone = b.clone();
        operation(&mut b);
        operation(&mut clone);
        assert_eq!(a.state.fingerprint(), b.state.fingerprint());
        assert_eq!(a.state.fingerprint(), clone.state.fingerprint());
    }
}
