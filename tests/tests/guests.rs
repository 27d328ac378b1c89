//! The project's own programs under every policy: copying, running, overwriting, reading through pipes,
//! forking, signals, libraries, generated code, wrong pointers, and every table used up.
//!
//! Under a policy that calls itself a reference each does what `guest/README.md` promises and nothing is
//! found. Under any other policy a program that does not is explained: the oracle has found something.
//! Whatever a program does, the kernel's tables agree afterwards, unless that kernel panicked.

mod support;

use std::sync::{Arc, LazyLock};

use kern::{KernCtx, Limits, RunEnd};
use lab::State;
use lab::oracle::{Kind, Oracle};
use lab::system::{self, ProgramRun, Start};
use lab::world::World;
use machine::Profile;
use pmap::{Policy, Status};
use support::{Campaign, in_parallel};

const BUDGET: u64 = 5_000_000;

/// A program, its arguments, what it prints, its exit code.
type Row = (&'static str, &'static [&'static str], &'static str, u32);

const CODE: &str = "/bin/patchlib.code";
/// Copies a program, runs it, reads it, overwrites the copy by another, runs that.
const SCRIPT: &[&str] = &[
    "cp /bin/big /tmp/b",
    "run /tmp/b 7",
    "sum /tmp/b",
    "run /tmp/b 7",
    "cp /bin/args /tmp/b",
    "run /tmp/b redirected > /tmp/o",
    "read /tmp/o",
    "sync",
    "sum /tmp/o",
    "cp /bin/big /tmp/b",
    "run /tmp/b 9",
    "say done",
];
const SCRIPT_PRINTS: &str = "big ok\nsum 27703033\nbig ok\nsum 2724\nbig ok\ndone\n";

const ROWS: &[Row] = &[
    ("args", &["x", "y"], "args\nx\ny\nHOME=/\nPATH=/bin\n", 3),
    ("badptr", &[], "badptr ok\n", 0),
    ("big", &["3"], "big ok\n", 0),
    ("cat", &["-q", "/bin/patchlib.code"], "", 0),
    ("dl", &["read", "/bin/libdemo.so"], "dl ok\n", 0),
    ("dl", &["mmap", "/bin/libdemo.so"], "dl ok\n", 0),
    (
        "dl",
        &["mmap", "/bin/libtext.so", "sync"],
        "old words: 0\ndl ok\n",
        0,
    ),
    (
        "execer",
        &["-f", "/bin/args", "z"],
        "/bin/args\nz\nGUEST=execer\nstatus 512\n",
        2,
    ),
    ("forker", &[], "forker ok\n", 0),
    ("jit", &["sync"], "wrong results: 0\n", 0),
    ("limits", &[], "limits ok\n", 0),
    ("patchlib", &["map-first", CODE], "old versions: 0\n", 0),
    (
        "patchlib",
        &["read-first", CODE, "shared"],
        "old versions: 0\n",
        0,
    ),
    ("pipes", &["5"], "pipes ok\n", 0),
    ("script", SCRIPT, SCRIPT_PRINTS, 0),
    ("selfcheck", &[], "selfcheck ok\n", 0),
    ("sig", &[], "sig ok\n", 0),
    ("tracer", &[], "tracer ok\n", 0),
];

static BOOTED: LazyLock<Vec<(&'static str, State)>> = LazyLock::new(|| {
    let booted = |name| Some((name, system::boot(Profile::embedded(name)?, |_| {})));
    ["sheevaplug", "arm926ejs"]
        .into_iter()
        .filter_map(booted)
        .collect()
});

fn world(state: &State, policy: &Policy) -> World<Oracle> {
    system::world(state.clone(), policy.clone(), system::oracle(state))
}

fn run(world: &mut World<Oracle>, row: &Row) -> ProgramRun {
    let path = format!("/bin/{}", row.0);
    system::run(world, &path, row.1, Limits::instructions(BUDGET)).expect("it can be executed")
}

fn is_right(row: &Row, run: &ProgramRun) -> bool {
    // What a file of code looks like is nobody's concern.
    let text = row.0 == "cat" || run.stdout == row.2.as_bytes();
    run.end == RunEnd::Exited && run.exit_code == Some(row.3) && text
}

fn told(row: &Row, run: &ProgramRun, world: &World<Oracle>, on: &str) -> String {
    let verdicts = &world.observer.verdicts;
    format!(
        "{} {:?} under {on}: {:?}, {}, {:?}, {:?}, {:?}, {:#?}",
        row.0,
        row.1,
        run.exit_code,
        run.end,
        String::from_utf8_lossy(&run.stdout),
        world.kern().messages,
        verdicts.named(),
        verdicts.first.first(),
    )
}

#[test]
fn guests_are_right_or_explained_under_every_policy() {
    // A reference on every machine, the others on one after another.
    let jobs = pmap::policy::all().enumerate().flat_map(|(n, policy)| {
        let reference = policy.status == Status::Reference;
        let machines = BOOTED.iter().enumerate();
        let pairs = machines.flat_map(|(m, on)| ROWS.iter().enumerate().map(move |r| (m, on, r)));
        let pairs = pairs.filter(move |(m, _, (r, _))| reference || (n + r) % 2 == *m);
        pairs.map(move |(_, (machine, state), (_, row))| (*machine, state, policy.clone(), row))
    });
    in_parallel(jobs.collect(), |(machine, state, policy, row)| {
        let mut world = world(state, policy);
        let run = run(&mut world, row);
        let told = told(row, &run, &world, &format!("{} on {machine}", policy.name));
        let clean = world.observer.verdicts.clean();
        if policy.status == Status::Reference {
            assert!(is_right(row, &run) && clean, "{told}");
        }
        assert!(
            is_right(row, &run) || !clean,
            "wrong and not explained: {told}"
        );
        if !matches!(run.end, RunEnd::Panic(_)) {
            assert_eq!(world.state.check(), None, "{told}");
        }
    });
}

#[test]
fn under_bare_guests_execute_stale_words() {
    let bare = pmap::policy::by_name("bare").expect("a yardstick");
    for (_, state) in BOOTED.iter() {
        let mut hit = Vec::new();
        for row in ROWS {
            let mut world = world(state, &bare);
            let run = run(&mut world, row);
            let found = &world.observer.verdicts.first;
            let stale = found.iter().find(|v| v.kind == Kind::StaleExec);
            if let Some(verdict) = stale.filter(|_| !is_right(row, &run)) {
                assert!(!verdict.because.is_empty());
                hit.push(row.0);
            }
        }
        assert!(hit.len() >= 3, "only {hit:?}");
    }
}

#[test]
fn evictions_and_tlb_drops_change_no_output() {
    let policies = pmap::policy::all().filter(|p| p.status == Status::Reference);
    let machines = BOOTED.iter().map(|(machine, state)| (*machine, state));
    let places: Vec<_> = policies
        .flat_map(|p| {
            machines
                .clone()
                .map(move |(m, state)| (p.clone(), m, state))
        })
        .collect();
    let campaign = Campaign::asked();
    let rows = ROWS
        .iter()
        .enumerate()
        .filter(|(_, row)| campaign.takes(row.0));
    let jobs = rows.flat_map(|(n, row)| {
        let chosen = campaign.chosen(n, &places).into_iter();
        chosen.map(move |place| (place, row))
    });
    in_parallel(jobs.collect(), |((policy, machine, state), row)| {
        campaign.fight(|named, adversary| {
            let mut world = world(state, policy);
            let path = format!("/bin/{}", row.0);
            let start = Start {
                path: &path,
                args: row.1,
                environment: system::ENVIRONMENT,
            };
            let limits = Limits::instructions(BUDGET);
            let run = system::run_against(&mut world, &start, limits, adversary)
                .expect("it can be executed");
            let on = format!("{} on {machine}, {named}", policy.name);
            let fine = is_right(row, &run) && world.observer.verdicts.clean();
            assert!(fine, "{}", told(row, &run, &world, &on));
            run.cost.instructions
        });
    });
}

/// A machine with little of everything.
fn small(memory: u32, blocks: u32) -> World<Oracle> {
    let mut profile = (*Profile::embedded("sheevaplug").expect("embedded")).clone();
    profile.memory = memory;
    let state = system::boot(Arc::new(profile), |config| {
        config.files_max = 64;
        config.disk_blocks = blocks;
    });
    let policy = pmap::policy::by_name("always-flush").expect("a reference");
    world(&state, &policy)
}

fn expect(world: &mut World<Oracle>, row: Row) {
    let run = run(world, &row);
    let told = told(&row, &run, world, "always-flush, small");
    assert!(
        is_right(&row, &run) && world.observer.verdicts.clean(),
        "{told}"
    );
    assert_eq!(world.state.check(), None, "{told}");
}

#[test]
fn a_program_that_wants_more_memory_than_there_is_dies_alone() {
    let mut world = small(32 << 20, 2048);
    expect(&mut world, ("limits", &["40"], "limits ok\n", 0));
    expect(&mut world, ("big", &["7"], "big ok\n", 0));
}

#[test]
fn a_full_disk_is_enospc_and_its_room_comes_back() {
    let mut world = small(64 << 20, 100);
    let run = run(&mut world, &("bigwrite", &["/tmp/all"], "", 0));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(text.ends_with(" pages, errno 28\n"), "{text}");
    assert_eq!(run.exit_code, Some(0));
    let free = system::run(
        &mut world,
        "/bin/bigwrite",
        &["/tmp/all"],
        Limits::instructions(BUDGET),
    );
    let again = String::from_utf8_lossy(&free.expect("it can be executed").stdout).into_owned();
    assert_eq!(again, text, "O_TRUNC frees the blocks");
    assert_eq!(world.state.check(), None);
}

#[test]
fn programs_without_end_use_up_their_budget_and_no_more() {
    for name in ["loop", "forkbomb"] {
        let mut world = small(64 << 20, 2048);
        let limits = Limits {
            instructions: 300_000,
            traps: 100_000,
        };
        let run = system::run(&mut world, &format!("/bin/{name}"), &[], limits)
            .expect("it can be executed");
        assert!(
            matches!(run.end, RunEnd::Instructions | RunEnd::Traps),
            "{name}: {}",
            run.end
        );
        assert!(
            world.observer.verdicts.clean(),
            "{name}: {:?}",
            world.observer.verdicts.named()
        );
        assert!(world.kern().procs.len() <= world.kern().config.quotas.processes as usize);
        assert_eq!(world.state.check(), None, "{name}");
    }
}
