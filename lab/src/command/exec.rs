//! `pmaplab exec`: runs an ARM program.

use std::fmt::Write;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use kern::{KernCtx, KernVerbs, Limits, RunEnd};
use machine::{Class, Observer};
use serde_json::{Map, Value, json};

use super::{Ended, Failure, machine, policy, print};
use crate::oracle::Verdicts;
use crate::record::Recorder;
use crate::system::{self, CPU0, ProgramRun, Start};
use crate::tree::Tree;
use crate::world::World;

/// Largest file that is read from the host, bytes.
const FILE_MAX: u64 = crate::tree::FILE_BYTES_MAX;
/// Most bytes of standard input.
const STDIN_MAX: u64 = 16 << 20;
/// Most accesses of a saved trace.
const TRACE_MAX: u64 = 1 << 30;
/// Where programs of a tree look for others.
const TREE_PATH: &str = "PATH=/bin:/usr/bin:/sbin:/usr/sbin";

/// Arguments of `exec`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab exec guest/bin/testsimple 1000
  pmaplab exec --policy bare --json guest/bin/big
  pmaplab exec --machine my-board.toml --max-instructions 1000000 guest/bin/loop
  pmaplab exec --root target/armel /bin/busybox sh -c 'ls -l / | sort'
  pmaplab exec --save-trace run.trace guest/bin/testsimple 1000
  pmaplab exec --save-trace run.xdin.gz guest/bin/testsimple 1000

The guest sees only simulated files: with --root those of DIR, else the project's guests and the program
itself, in /bin; and /tmp. What it writes stays there. Its standard input is pmaplab's, read when it asks
for it. Its exit code is data; pmaplab's own is 0, 1 if anything was stale, or 2.")]
pub struct ExecArgs {
    /// Policy in force
    #[arg(long, default_value = "always-flush")]
    policy: String,
    /// Machine, by name or path of a profile
    #[arg(long, default_value = "sheevaplug")]
    machine: String,
    /// Directory that becomes the simulated file system: copied in, never written to
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// NAME=VALUE for the program's environment (repeatable); HOME and PATH are there anyway
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<String>,
    /// Record every access for `pmaplab trace`; a name that ends in .xdin makes text, with each access's cost class
    #[arg(long, value_name = "FILE")]
    save_trace: Option<PathBuf>,
    /// End the run after so many instructions
    #[arg(long, default_value_t = 1 << 32)]
    max_instructions: u64,
    /// Take no shortcut: every access goes the whole way, the reference for the fast path
    #[arg(long)]
    plain: bool,
    /// Print one JSON object on stdout instead of the program's output
    #[arg(long)]
    json: bool,
    /// The program: an ELF file for ARM, of the host or with --root of DIR
    elf: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the call.
pub fn run(args: &ExecArgs) -> super::Result {
    let profile = machine(&args.machine)?;
    let policy = policy(&args.policy)?;
    if profile.page != 4096 {
        let page = profile.page;
        return Err(Failure(format!(
            "machine `{}` has pages of {page} bytes; programs need 4096",
            args.machine
        )));
    }
    let mut tree = match &args.root {
        Some(dir) => Tree::read(dir).map_err(Failure)?,
        None => Tree::of_guests(),
    };
    let path = place(&mut tree, args)?;
    let state = system::boot_tree(profile, &tree, |_| {}).map_err(Failure)?;
    let oracle = system::oracle(&state);
    let Some(file) = &args.save_trace else {
        let mut world = system::world(state, policy, oracle);
        world.state.machine.set_plain(args.plain);
        let run = play(&mut world, args, &path)?;
        return report(args, &world, &run, &world.observer.verdicts);
    };
    let wrong = |e: std::io::Error| Failure(format!("{}: {e}", file.display()));
    let recorder = Recorder::create(oracle, file, TRACE_MAX).map_err(wrong)?;
    let mut world = system::world(state, policy, recorder);
    world.observer.begin();
    world.state.machine.set_plain(args.plain);
    let run = play(&mut world, args, &path)?;
    let (accesses, cut) = world.observer.finish().map_err(wrong)?;
    let more = if cut { ", the rest left out" } else { "" };
    eprintln!("{}: {accesses} accesses{more}", file.display());
    report(args, &world, &run, &world.observer.inner.verdicts)
}

/// Runs the program to its end, with standard input when it asks for it.
fn play<O: Observer + Clone>(
    world: &mut World<O>,
    args: &ExecArgs,
    path: &str,
) -> Result<ProgramRun, Failure> {
    let words: Vec<&str> = args.args.iter().map(String::as_str).collect();
    let mut environment = system::ENVIRONMENT.to_vec();
    if args.root.is_some() {
        environment = vec!["HOME=/", TREE_PATH];
    }
    let name = |pair: &str| pair.split('=').next().map(str::to_owned);
    environment.retain(|pair| !args.environment.iter().any(|e| name(e) == name(pair)));
    environment.extend(args.environment.iter().map(String::as_str));
    let start = Start {
        path,
        args: &words,
        environment: &environment,
    };
    world.kern_mut().stdin_open = true;
    let started = system::start(world, &start)
        .map_err(|e| Failure(format!("{}: {e}", args.elf.display())))?;
    let begun = world.state.machine.cost.instructions;
    let end = loop {
        let used = world.state.machine.cost.instructions - begun;
        let left = Limits::instructions(args.max_instructions.saturating_sub(used));
        match world.run(CPU0, left) {
            RunEnd::Input => world.kern_mut().feed(standard_input()?),
            end => break end,
        }
    };
    Ok(started.finish(world, end))
}

/// All of standard input: at once, so that a run does not depend on how it arrives.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(STDIN_MAX + 1)
        .read_to_end(&mut bytes);
    read.map_err(|e| Failure(format!("standard input: {e}")))?;
    match bytes.len() as u64 > STDIN_MAX {
        true => Err(Failure(format!(
            "standard input: expected at most {STDIN_MAX} bytes"
        ))),
        false => Ok(bytes),
    }
}

/// Prints what came of it.
fn report<O: Observer + Clone>(
    args: &ExecArgs,
    world: &World<O>,
    run: &ProgramRun,
    verdicts: &Verdicts,
) -> super::Result {
    if args.json {
        print(&format!("{}\n", to_json(run, verdicts)));
    } else {
        print_bytes(&run.stdout);
        let _ = std::io::stderr().write_all(&run.stderr);
        let messages = world
            .kern()
            .messages
            .iter()
            .fold(String::new(), |s, m| s + m + "\n");
        let _ = std::io::stderr().write_all((messages + &summary(run, verdicts)).as_bytes());
    }
    match &run.end {
        RunEnd::Exited if verdicts.clean() => Ok(Ended::Clean),
        RunEnd::Exited => Ok(Ended::Verdict),
        _ if !verdicts.clean() => Ok(Ended::Verdict),
        end => Err(Failure(format!(
            "{}: the run was ended: {end}",
            args.elf.display()
        ))),
    }
}

/// The program's path in the simulated file system, where it is put if it is not there.
fn place(tree: &mut Tree, args: &ExecArgs) -> Result<String, Failure> {
    let file = &args.elf;
    let inside = format!("/{}", file.display()).replace("//", "/");
    if args.root.is_some() && tree.file(&inside).is_some() {
        return Ok(inside);
    }
    let bytes = host_file(file)?;
    let name = file
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("program");
    let path = format!("/bin/{name}");
    if tree.file(&path) == Some(&bytes) {
        return Ok(path);
    }
    let path = format!("/bin/exec/{name}");
    tree.add(&path, &bytes).map_err(Failure)?;
    Ok(path)
}

fn host_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let shown = file.display();
    let meta = std::fs::metadata(file).map_err(|e| Failure(format!("{shown}: {e}")))?;
    if !meta.is_file() || meta.len() > FILE_MAX {
        return Err(Failure(format!(
            "{shown}: expected a file of at most {FILE_MAX} bytes"
        )));
    }
    std::fs::read(file).map_err(|e| Failure(format!("{shown}: {e}")))
}

fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Cycles by class, for JSON.
pub fn cycles(cost: &machine::Costs) -> Map<String, Value> {
    Class::ALL
        .iter()
        .map(|c| (c.name().to_owned(), json!(cost.of(*c))))
        .collect()
}

fn to_json(run: &ProgramRun, verdicts: &Verdicts) -> Value {
    json!({
        "exit_code": run.exit_code,
        "end": run.end.to_string(),
        "stdout": String::from_utf8_lossy(&run.stdout),
        "instructions": run.cost.instructions,
        "accesses": run.cost.accesses,
        "cycles": cycles(&run.cost),
        "verdicts": verdicts.named(),
    })
}

fn summary(run: &ProgramRun, verdicts: &Verdicts) -> String {
    let mut out = String::new();
    let code = run.exit_code.map_or("none".to_owned(), |c| c.to_string());
    let _ = writeln!(out, "exit code {code}; {}", run.end);
    let total = run.cost.total();
    let _ = writeln!(
        out,
        "{} instructions, {total} cycles",
        run.cost.instructions
    );
    for class in Class::ALL {
        let cycles = run.cost.of(class);
        if cycles > 0 {
            let share = 100.0 * cycles as f64 / total as f64;
            let _ = writeln!(out, "  {:<12} {cycles:>14}  {share:>5.1} %", class.name());
        }
    }
    for (name, count) in verdicts.named() {
        let _ = writeln!(out, "{name}: {count}");
    }
    if let Some(first) = verdicts.first.first() {
        crate::case::tell_verdict(&mut out, first);
    }
    out
}
