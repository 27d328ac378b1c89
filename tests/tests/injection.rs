//! A second CPU's operation, injected at every micro-step of the first CPU's; and equal inputs give equal
//! worlds, of bare pages and of a whole system (I-6).

use std::sync::Arc;

use kern::{KernCtx, KernVerbs, Limits, RunEnd};
use lab::inject::Injection;
use lab::oracle::Oracle;
use lab::system::{self, CPU0};
use lab::{State, World};
use machine::{CpuId, Frame, Hw, Profile, VirtAddr, Width};
use pmap::{PmapVerbs, Prot, SpaceId};
use vfs_sim::{DiskMode, ReadAhead};

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

/// Processes that fork, copy a file and overwrite code, on a disk that makes them sleep, with clusters and
/// with every kernel thread after each turn.
fn busy(policy: &str) -> World<Oracle> {
    let profile = Profile::embedded("sheevaplug").unwrap();
    let mut state = system::boot(profile, |config| {
        config.read_ahead = ReadAhead::Cluster {
            blocks_max: 64,
            read: true,
            write: true,
        };
    });
    state.kern.config.quantum = 400;
    state.kern.config.daemon_turns = Some(3);
    let oracle = system::oracle(&state);
    let policy = pmap::policy::by_name(policy).unwrap();
    let mut world = system::world(state, policy, oracle);
    world.state.vfs.config.disk_mode = DiskMode::Queued;
    let programs: [&[&str]; 3] = [
        &["forker"],
        &[
            "script",
            "cp /bin/libdemo.so /tmp/copy",
            "sync",
            "read /tmp/copy",
        ],
        &["patchlib", "read-first", "/bin/patchlib.code"],
    ];
    for argv in programs {
        let path = format!("/bin/{}", argv[0]);
        world.spawn(CPU0, &path, argv, &[]).unwrap();
    }
    world
}

#[test]
fn a_whole_system_told_twice_is_the_same_at_every_turn_and_a_clone_goes_on_alike() {
    for policy in ["always-flush", "freebsd-2010-repaired", "netbsd-vivt"] {
        let (mut a, mut b) = (busy(policy), busy(policy));
        let mut clone = None;
        let mut turns = 0;
        loop {
            let limits = Limits::instructions(400);
            let ends = [a.run(CPU0, limits), b.run(CPU0, limits)];
            assert_eq!(ends[0], ends[1], "{policy}, turn {turns}");
            let prints =
                [&mut a, &mut b].map(|w| (w.state.fingerprint(), w.observer.fingerprint()));
            assert_eq!(prints[0], prints[1], "{policy}, turn {turns}");
            if turns == 60 {
                clone = Some(a.clone());
            }
            turns += 1;
            if ends[0] != RunEnd::Instructions {
                assert_eq!(ends[0], RunEnd::Exited, "{policy}");
                break;
            }
        }
        assert!(turns > 100, "{policy}: {turns}");
        let rounds = &a.kern().rounds;
        assert!(rounds.iter().all(|n| *n > 10), "{policy}: {rounds:?}");
        let mut clone = clone.expect("it was running then");
        assert_ne!(clone.state.fingerprint(), a.state.fingerprint());
        while clone.run(CPU0, Limits::instructions(400)) == RunEnd::Instructions {}
        assert_eq!(clone.state.fingerprint(), a.state.fingerprint(), "{policy}");
        assert_eq!(clone.observer.fingerprint(), a.observer.fingerprint());
        assert_eq!(clone.kern().stdout, a.kern().stdout);
    }
}
