//! Runs one program and says how fast: for wall time, and under callgrind for instructions.
//!
//! ```text
//! cargo run --release -p lab --example speed -- [--oracle] [--plain] PROGRAM [ARG…]
//! valgrind --tool=callgrind --toggle-collect='machine::cpu::run*' target/release/examples/speed …
//! ```
//!
//! PROGRAM is a guest's name or a file. Callgrind's total, divided by the accesses printed, is the
//! number of host instructions a guest access takes; unlike the time it does not depend on what else
//! the host does. `--toggle-collect` counts only the program's run, not booting nor the kernel.

use std::time::Instant;

use kern::Limits;
use lab::{World, guests, system};
use machine::{Observer, Profile};

/// What the command line asks for.
struct Call {
    oracle: bool,
    plain: bool,
    instructions: u64,
    machine: String,
    policy: String,
    words: Vec<String>,
}

fn call() -> Option<Call> {
    let mut call = Call {
        oracle: false,
        plain: false,
        instructions: 100_000_000,
        machine: "sheevaplug".to_owned(),
        policy: "always-flush".to_owned(),
        words: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--oracle" => call.oracle = true,
            "--plain" => call.plain = true,
            "--instructions" => call.instructions = args.next()?.parse().ok()?,
            "--machine" => call.machine = args.next()?,
            "--policy" => call.policy = args.next()?,
            _ => {
                call.words.push(arg);
                call.words.extend(args.by_ref());
            }
        }
    }
    (!call.words.is_empty()).then_some(call)
}

fn main() {
    let Some(call) = call() else {
        eprintln!(
            "speed [--oracle] [--plain] [--instructions N] [--machine M] [--policy P] PROGRAM [ARG…]"
        );
        std::process::exit(2);
    };
    let profile = Profile::embedded(&call.machine).expect("an embedded machine");
    let mut state = system::boot(profile, |_| {});
    state.machine.set_plain(call.plain);
    let file = &call.words[0];
    let name = file.rsplit('/').next().unwrap_or(file);
    let path = format!("/bin/{name}");
    if guests::by_name(name).is_none() {
        let bytes = std::fs::read(file).expect("a readable file");
        state.vfs.fs_add_file(&path, &bytes).expect("room for it");
    }
    let policy = pmap::policy::by_name(&call.policy).expect("a policy");
    if call.oracle {
        let oracle = system::oracle(&state);
        run(&call, &path, system::world(state, policy, oracle));
    } else {
        run(&call, &path, system::world(state, policy, ()));
    }
}

fn run<O: Observer + Clone>(call: &Call, path: &str, mut world: World<O>) {
    let args: Vec<&str> = call.words[1..].iter().map(String::as_str).collect();
    let limits = Limits::instructions(call.instructions);
    let start = Instant::now();
    let run = system::run(&mut world, path, &args, limits).expect("a program");
    let seconds = start.elapsed().as_secs_f64();
    let accesses = run.cost.accesses;
    println!(
        "{accesses} accesses, {} instructions, {} cycles in {seconds:.3} s: {:.1} M accesses/s",
        run.cost.instructions,
        run.cost.total(),
        accesses as f64 / seconds / 1e6,
    );
}
