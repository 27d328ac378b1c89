//! How fast programs run: accesses a second, watched by the oracle and alone, by the fast path and the
//! plain one; and what replaying a case, one input of the differential fuzzer, a clone and a fingerprint
//! of a machine in use take.
//!
//! The real shell runs if `PMAPLAB_ARMEL` names a directory with an unpacked Debian armel root that has
//! `bin/busybox`. For numbers that do not depend on what else the host does see `examples/speed.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use kern::Limits;
use lab::{World, case, fuzz, guests, system};
use machine::{Observer, Profile};

/// A program, its arguments and where it is cut off.
struct Program {
    name: &'static str,
    path: String,
    args: Vec<String>,
    bytes: Option<Vec<u8>>,
}

const INSTRUCTIONS: u64 = 20_000_000;
const SHELL_LOOP: &str = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";

/// The quickest run of each variant, and its accesses.
type Best = BTreeMap<(&'static str, bool, bool), (Duration, u64)>;

fn guest(name: &'static str, program: &str, args: &[&str]) -> Program {
    assert!(guests::by_name(program).is_some(), "{program} is a guest");
    Program {
        name,
        path: format!("/bin/{program}"),
        args: args.iter().map(|a| (*a).to_owned()).collect(),
        bytes: None,
    }
}

fn programs() -> Vec<Program> {
    let mut programs = vec![
        guest("counting loop", "testsimple", &["100000000"]),
        guest("copy and sort", "bench", &[]),
    ];
    let Some(root) = std::env::var_os("PMAPLAB_ARMEL") else {
        eprintln!("shell loop: skipped, PMAPLAB_ARMEL does not name an armel root");
        return programs;
    };
    match std::fs::read(Path::new(&root).join("bin/busybox")) {
        Ok(bytes) => programs.push(Program {
            name: "shell loop",
            path: "/bin/busybox".to_owned(),
            args: ["sh", "-c", SHELL_LOOP].map(str::to_owned).to_vec(),
            bytes: Some(bytes),
        }),
        Err(why) => eprintln!("shell loop: skipped, no bin/busybox in PMAPLAB_ARMEL: {why}"),
    }
    programs
}

fn state(program: &Program, plain: bool) -> lab::State {
    let mut state = system::boot(Profile::embedded("sheevaplug").expect("embedded"), |_| {});
    state.machine.set_plain(plain);
    if let Some(bytes) = &program.bytes {
        let added = state.vfs.fs_add_file(&program.path, bytes);
        added.expect("room on the disk");
    }
    state
}

/// Runs a program once from its start; returns the time and the accesses.
fn once<O: Observer + Clone>(base: &World<O>, program: &Program) -> (Duration, u64) {
    let mut world = base.clone();
    let args: Vec<&str> = program.args.iter().map(String::as_str).collect();
    let limits = Limits::instructions(INSTRUCTIONS);
    let start = Instant::now();
    let run = system::run(&mut world, &program.path, &args, limits).expect("a program");
    (start.elapsed(), run.cost.accesses)
}

fn bench_program<O: Observer + Clone>(
    c: &mut Criterion,
    best: &mut Best,
    program: &Program,
    variant: (bool, bool),
    base: &World<O>,
) {
    let (oracle, plain) = variant;
    let label = format!(
        "{}, {}",
        if oracle { "oracle" } else { "alone" },
        if plain { "plain" } else { "fast" }
    );
    let mut group = c.benchmark_group(program.name);
    group.sample_size(10);
    group.throughput(Throughput::Elements(once(base, program).1));
    group.bench_function(BenchmarkId::from_parameter(label), |b| {
        b.iter_custom(|times| {
            let runs = (0..times).map(|_| {
                let (time, accesses) = once(base, program);
                let kept = best
                    .entry((program.name, oracle, plain))
                    .or_insert((time, accesses));
                kept.0 = kept.0.min(time);
                time
            });
            runs.sum()
        });
    });
    group.finish();
}

fn bench_programs(c: &mut Criterion, best: &mut Best) {
    for program in programs() {
        for plain in [false, true] {
            let policy = || pmap::policy::by_name("always-flush").expect("a policy");
            let booted = state(&program, plain);
            let oracle = system::oracle(&booted);
            let watched = system::world(booted.clone(), policy(), oracle);
            let alone = system::world(booted, policy(), ());
            bench_program(c, best, &program, (false, plain), &alone);
            bench_program(c, best, &program, (true, plain), &watched);
        }
    }
}

/// The table: M accesses/s of the quickest runs, and how many times the fast path is faster.
fn print_table(best: &Best) {
    println!("\nM accesses/s, quickest runs      fast    plain    ratio");
    for ((name, oracle, plain), (time, accesses)) in best {
        let Some((slow, _)) = best.get(&(*name, *oracle, true)).filter(|_| !plain) else {
            continue;
        };
        let rate = |time: &Duration| *accesses as f64 / time.as_secs_f64() / 1e6;
        let watched = if *oracle { "oracle" } else { "alone" };
        let ratio = slow.as_secs_f64() / time.as_secs_f64();
        let (fast, plain) = (rate(time), rate(slow));
        println!("{name:<20} {watched:<10} {fast:>6.1} {plain:>8.1} {ratio:>8.2}");
    }
}

const CASE: &str = include_str!(
    "../../tests/cases/vivt/kernel-write-through-lingering-buffer-reaches-the-fetch.kdl"
);

fn bench_rest(c: &mut Criterion) {
    let profile = Profile::embedded("sheevaplug").expect("embedded");
    let policy = || pmap::policy::by_name("freebsd-2010").expect("a policy");
    let case = case::parse("case.kdl", CASE).expect("a case");
    c.bench_function("replay a case, one policy", |b| {
        b.iter(|| case::run_one(&case, profile.clone(), policy()));
    });
    let bytes: Vec<u8> = (0..8192_u64)
        .map(|n| machine::memory::mix(n, 7) as u8)
        .collect();
    c.bench_function("fuzz body differential, 8 KB", |b| {
        b.iter(|| fuzz::differential::differential(&bytes));
    });
    let booted = state(&guest("", "bench", &[]), false);
    let oracle = system::oracle(&booted);
    let mut world = system::world(booted, policy(), oracle);
    let limits = Limits::instructions(10_000_000);
    system::run(&mut world, "/bin/bench", &[], limits).expect("a program");
    c.bench_function("clone a world in use, oracle included", |b| {
        b.iter(|| world.clone());
    });
    c.bench_function("fingerprint a world in use", |b| {
        b.iter(|| world.state.fingerprint());
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut best = Best::new();
    bench_programs(&mut criterion, &mut best);
    bench_rest(&mut criterion);
    criterion.final_summary();
    print_table(&best);
}
