//! `pmaplab exec`: runs an ARM program.

use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use kern::{KernCtx, Limits, RunEnd};
use machine::Class;
use serde_json::{Map, Value, json};

use super::{Ended, Failure, machine, policy, print};
use crate::oracle::Verdicts;
use crate::system::{self, ProgramRun};

/// Largest file that is read from the host, bytes.
const FILE_MAX: u64 = 64 << 20;

/// Arguments of `exec`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab exec guest/bin/testsimple 1000
  pmaplab exec --policy bare --json guest/bin/big
  pmaplab exec --machine my-board.toml --max-instructions 1000000 guest/bin/loop

The guest sees only simulated files: the program itself as /bin/NAME, the project's guests in /bin, and
an empty /tmp. Its exit code is data; pmaplab's own is 0, 1 if anything was stale, or 2.")]
pub struct ExecArgs {
    /// Policy in force
    #[arg(long, default_value = "always-flush")]
    policy: String,
    /// Machine, by name or path of a profile
    #[arg(long, default_value = "sheevaplug")]
    machine: String,
    /// End the run after so many instructions
    #[arg(long, default_value_t = 1 << 32)]
    max_instructions: u64,
    /// Take no shortcut: every access goes the whole way, the reference for the fast path
    #[arg(long)]
    plain: bool,
    /// Print one JSON object on stdout instead of the program's output
    #[arg(long)]
    json: bool,
    /// The program: an ELF file for ARM
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
    let mut state = system::boot(profile, |_| {});
    let path = place(&mut state, &args.elf)?;
    let oracle = system::oracle(&state);
    let mut world = system::world(state, policy, oracle);
    world.state.machine.set_plain(args.plain);
    let words: Vec<&str> = args.args.iter().map(String::as_str).collect();
    let limits = Limits::instructions(args.max_instructions);
    let run = system::run(&mut world, &path, &words, limits)
        .map_err(|e| Failure(format!("{}: {e}", args.elf.display())))?;
    let verdicts = &world.observer.verdicts;
    if args.json {
        print(&format!("{}\n", to_json(&run, verdicts)));
    } else {
        print_bytes(&run.stdout);
        let _ = std::io::stderr().write_all(&run.stderr);
        let messages = world
            .kern()
            .messages
            .iter()
            .fold(String::new(), |s, m| s + m + "\n");
        let _ = std::io::stderr().write_all((messages + &summary(&run, verdicts)).as_bytes());
    }
    match run.end {
        RunEnd::Exited if verdicts.clean() => Ok(Ended::Clean),
        RunEnd::Exited => Ok(Ended::Verdict),
        _ if !verdicts.clean() => Ok(Ended::Verdict),
        end => Err(Failure(format!(
            "{}: the run was ended: {end}",
            args.elf.display()
        ))),
    }
}

/// Puts a host file into the simulated `/bin`.
fn place(state: &mut crate::State, file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let meta = std::fs::metadata(file).map_err(|e| Failure(format!("{shown}: {e}")))?;
    if !meta.is_file() || meta.len() > FILE_MAX {
        return Err(Failure(format!(
            "{shown}: expected a file of at most {FILE_MAX} bytes"
        )));
    }
    let bytes = std::fs::read(file).map_err(|e| Failure(format!("{shown}: {e}")))?;
    let name = file
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("program");
    if crate::guests::by_name(name).is_some_and(|g| g.bytes == bytes) {
        return Ok(format!("/bin/{name}"));
    }
    let path = format!("/bin/exec/{name}");
    let added = state.vfs.fs_add_file(&path, &bytes);
    added.map_err(|e| Failure(format!("{shown}: does not fit the simulated disk: {e:?}")))?;
    Ok(path)
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
