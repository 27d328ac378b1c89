//! CPU routines by their steps: orders, drains, thresholds and whole-cache cleaning as `hardware.md` 3 and
//! 5 have them.

use lab::journal::{Detail, Entry};
use lab::{State, World};
use machine::{CpuId, Frame, Hw, LineOp, Profile, Step, VirtAddr, Width};
use pmap::PmapVerbs;
use pmap::routine;
use quickcheck::quickcheck;

const CPU: CpuId = CpuId(0);
const WINDOW: VirtAddr = VirtAddr(0xd040_0000);
const PAGES: u32 = 16;
const MACHINES: [&str; 5] = [
    "sheevaplug",
    "arm926ejs",
    "arm920t",
    "sa1110",
    "xscale-pxa255",
];

/// A machine with a window of pages that the kernel may use.
fn world(profile: Profile) -> World<()> {
    let policy = pmap::policy::by_name("none").unwrap();
    let mut world = World::new(State::boot(profile.into()), policy, ());
    let frames: Vec<Frame> = (0..PAGES).map(|n| Frame(0x900 + n)).collect();
    world.pmap_qenter(CPU, WINDOW, &frames);
    world
}

fn profile(name: &str) -> Profile {
    (*Profile::embedded(name).unwrap()).clone()
}

/// The steps of an operation, one letter each: i, I instruction line, all; c, v, p data line cleaned,
/// invalidated, both; s a line by set and way; t test-and-clean; d drain.
fn steps(machine: &str, operation: impl FnOnce(&mut World<()>)) -> String {
    let mut world = world(profile(machine));
    // Test-and-clean has a step for each dirty line: none is left of the boot.
    routine::dcache_all(&mut world, CPU, LineOp::Clean);
    world.journal.take();
    world.journal.detail = Detail::Steps;
    operation(&mut world);
    let letter = |step: &Step| match step {
        Step::Icache(_) => Some('i'),
        Step::IcacheAll => Some('I'),
        Step::Dcache(LineOp::Clean, _) => Some('c'),
        Step::Dcache(LineOp::Invalidate, _) => Some('v'),
        Step::Dcache(LineOp::CleanInvalidate, _) => Some('p'),
        Step::DcacheSlot(..) => Some('s'),
        Step::DcacheTest(_) => Some('t'),
        Step::Drain => Some('d'),
        _ => None,
    };
    let entries = world.journal.take();
    let done = entries.iter().filter_map(|(_, e)| match e {
        Entry::Step(step) => letter(step),
        _ => None,
    });
    done.collect()
}

#[test]
fn instruction_sync_of_two_lines_has_each_cpus_order() {
    let sync = |machine| steps(machine, |w| routine::icache_sync(w, CPU, WINDOW, 64));
    let expected = ["icicd", "icicd", "icic", "ccdI", "cicid"];
    assert_eq!(MACHINES.map(sync), expected);
}

#[test]
fn flushing_both_caches_of_two_lines_has_each_cpus_order() {
    let flush = |machine| steps(machine, |w| routine::idcache_range(w, CPU, WINDOW, 64));
    let expected = ["ppiid", "ipipd", "ipip", "cvcvdI", "cvicvid"];
    assert_eq!(MACHINES.map(flush), expected);
}

#[test]
fn a_range_is_rounded_to_lines_and_sa1_never_only_invalidates() {
    let invalidate = |machine| {
        steps(machine, |w| {
            routine::dcache_range(w, CPU, LineOp::Invalidate, WINDOW.add(31), 2);
        })
    };
    let expected = ["vvd", "vvd", "vv", "cvcvd", "vvd"];
    assert_eq!(MACHINES.map(invalidate), expected);
}

#[test]
fn from_16_kb_on_a_range_is_the_whole_cache() {
    let whole = |machine| {
        let done = steps(machine, |w| {
            routine::dcache_range(w, CPU, LineOp::Clean, WINDOW, 0x4000);
        });
        (done.len(), done.ends_with('d'))
    };
    let sheeva = (0x4000 / 32 + 1, true);
    let expected = [sheeva, (2, true), (512, false), (1, true), (1, true)];
    assert_eq!(MACHINES.map(whole), expected);
}

/// Soils the cache: each number is a word of the window, stored to after a load if it is odd.
fn soil(world: &mut World<()>, words: &[u16]) {
    for n in words {
        let va = WINDOW.add(u32::from(*n) * 4 % (PAGES * 4096));
        let got = world.load(CPU, va, Width::Word, false).unwrap();
        if n % 2 == 1 {
            world.store(CPU, va, Width::Word, !got, false).unwrap();
        }
        if n % 5 == 0 {
            world.step(CPU, Step::Dcache(LineOp::CleanInvalidate, va));
        }
    }
}

fn dirty(world: &World<()>) -> usize {
    let cache = &world.hw().cpu(CPU).dcache;
    cache.valid_slots().filter(|s| cache.dirty(*s) != 0).count()
}

quickcheck! {
    fn everything_flushed_leaves_nothing_dirty(words: Vec<u16>) -> bool {
        MACHINES.iter().all(|machine| {
            let mut world = world(profile(machine));
            soil(&mut world, &words);
            routine::idcache_all(&mut world, CPU);
            soil(&mut world, &words);
            routine::idcache_all(&mut world, CPU);
            dirty(&world) == 0
        })
    }
}
