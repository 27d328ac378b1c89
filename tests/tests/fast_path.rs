//! Every guest program, under several policies, fast and plain, watched and alone: counts, costs by class,
//! verdicts, output and the state at the end are the same.

use kern::Limits;
use lab::oracle::Oracle;
use lab::{World, system};
use machine::{Costs, Observer, Profile};

/// Programs with arguments that let them do their work; `loop` and `forkbomb` end by the budget.
const PROGRAMS: [&[&str]; 27] = [
    &["args", "a", "b"],
    &["badptr"],
    &["bench", "1", "4000"],
    &["big", "3"],
    &["bigwrite", "/tmp/w"],
    &["cat", "-q", "/bin/big"],
    &["dl", "mmap", "/bin/libdemo.so"],
    &["dl", "read", "/bin/libtext.so", "sync"],
    &["dl", "mmap", "/bin/libtext.so", "nosync"],
    &["execer", "-f", "/bin/args", "x"],
    &["forkbomb"],
    &["forker"],
    &["forker", "code"],
    &["jit", "sync"],
    &["jit", "nosync"],
    &["jit", "cold"],
    &["loop"],
    &["patchlib", "map-first", "/bin/patchlib.code"],
    &["patchlib", "read-first", "/bin/patchlib.code", "private"],
    &["pipes", "20"],
    &["selfcheck"],
    &["sig"],
    &["testsimple", "20000"],
    &["testsimple1k", "20000"],
    &["testsimple4", "20000"],
    &["testsimple8", "20000"],
    &["tracer"],
];
const INSTRUCTIONS: u64 = 400_000;

/// What must be the same.
#[derive(PartialEq, Eq, Debug)]
struct Result {
    exit_code: Option<u32>,
    end: String,
    cost: Costs,
    stdout: Vec<u8>,
    state: u64,
}

fn run<O: Observer + Clone>(world: &mut World<O>, plain: bool, words: &[&str]) -> Result {
    world.state.machine.set_plain(plain);
    let path = format!("/bin/{}", words[0]);
    let limits = Limits::instructions(INSTRUCTIONS);
    let run = system::run(world, &path, &words[1..], limits).unwrap();
    Result {
        exit_code: run.exit_code,
        end: run.end.to_string(),
        cost: run.cost,
        stdout: run.stdout,
        state: world.state.fingerprint(),
    }
}

fn watched(policy: &str, plain: bool, words: &[&str]) -> (Result, World<Oracle>) {
    let state = system::boot(Profile::embedded("sheevaplug").unwrap(), |_| {});
    let oracle = system::oracle(&state);
    let mut world = system::world(state, pmap::policy::by_name(policy).unwrap(), oracle);
    (run(&mut world, plain, words), world)
}

fn alone(policy: &str, plain: bool, words: &[&str]) -> Result {
    let state = system::boot(Profile::embedded("sheevaplug").unwrap(), |_| {});
    let mut world = system::world(state, pmap::policy::by_name(policy).unwrap(), ());
    run(&mut world, plain, words)
}

/// Returns the verdicts, counted.
fn compare(policy: &str, words: &[&str]) -> u64 {
    let (plain, by_plain) = watched(policy, true, words);
    let (fast, by_fast) = watched(policy, false, words);
    assert_eq!(fast, plain, "{policy}, {words:?}");
    let counts = by_plain.observer.verdicts.named();
    assert_eq!(
        by_fast.observer.verdicts.named(),
        counts,
        "{policy}, {words:?}"
    );
    let first = |world: &World<Oracle>| format!("{:?}", world.observer.verdicts.first);
    assert_eq!(first(&by_fast), first(&by_plain), "{policy}, {words:?}");
    let truth = by_plain.observer.fingerprint();
    assert_eq!(by_fast.observer.fingerprint(), truth, "{policy}, {words:?}");
    assert_eq!(alone(policy, false, words), plain, "{policy}, {words:?}");
    counts.values().copied().sum()
}

#[test]
fn every_guest_is_the_same_under_always_flush() {
    PROGRAMS.iter().for_each(|words| {
        compare("always-flush", words);
    });
}

#[test]
fn every_guest_is_the_same_under_freebsd_2010() {
    PROGRAMS.iter().for_each(|words| {
        compare("freebsd-2010", words);
    });
}

#[test]
fn every_guest_is_the_same_under_bare_with_its_many_verdicts() {
    let verdicts: u64 = PROGRAMS.iter().map(|words| compare("bare", words)).sum();
    assert!(verdicts > 1000, "only {verdicts} verdicts compared");
}
