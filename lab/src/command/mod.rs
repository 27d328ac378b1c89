//! The command line: what each call does is a file of its own; here is what they share.
//!
//! Exit codes: 0 clean, 1 a verdict, 2 wrong use or unreadable input, with one message on stderr.

mod amend;
mod diff;
mod exec;
mod explore;
mod list;
mod mutate;
mod new;
mod repair;
mod replay;
mod run;
mod slim;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use machine::Profile;
use pmap::Policy;

const ABOUT: &str = "Emulates machines whose caches are not kept coherent and runs a FreeBSD-style \
pmap and real ARM programs on them: a policy that forgets a cache operation makes the program execute \
stale words, and the tool says where and why.";

#[derive(Parser)]
#[command(name = "pmaplab", version, about = ABOUT, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  pmaplab run                                   the SheevaPlug story under every policy
  pmaplab run sheevaplug --policy none --json   one policy, for a program to read
  pmaplab exec guest/bin/testsimple 1000        run an ARM program, its output on stdout
  pmaplab replay tests/cases/*/*.kdl            every case under every policy
  pmaplab replay --explain --policy freebsd-2010 CASE.kdl
                                                tell the story of one, step by step
  pmaplab diff freebsd-2010 always-flush        what they do differently
  pmaplab new case kernel-write-reaches-fetch   a file to start from
  pmaplab list policies                         what there is

Exit codes: 0 clean, 1 a verdict was found, 2 wrong use or unreadable input.";

#[derive(Subcommand)]
enum Command {
    /// Tell a scenario's story under policies: a table, or JSON
    Run(run::RunArgs),
    /// Run an ARM program on the emulated machine
    Exec(exec::ExecArgs),
    /// Try every sequence of operations on a tiny machine
    Explore(explore::ExploreArgs),
    /// Find which steps of a policy can go while it stays safe
    Slim(slim::SlimArgs),
    /// Find the cheapest change that makes an unsafe policy safe
    Repair(repair::RepairArgs),
    /// Get each step of correct policies wrong and see whether anything finds it
    Mutate(mutate::MutateArgs),
    /// Run cases under policies and tell what was found
    Replay(replay::ReplayArgs),
    /// Tell what differs between two policies: decisions, verdicts, costs
    Diff(diff::DiffArgs),
    /// Write a policy, case or machine to start from
    New(new::NewArgs),
    /// Simulate caches and TLBs on a recorded trace
    Trace(crate::trace::TraceArgs),
    /// Show what there is: policies, machines, scenarios, guests
    List(list::ListArgs),
}

/// How a call ended well.
pub enum Ended {
    /// Nothing was found.
    Clean,
    /// A verdict was found.
    Verdict,
}

/// A call that could not do its work: one message, exit code 2.
#[derive(Debug)]
pub struct Failure(pub String);

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// What a call comes to.
pub type Result = std::result::Result<Ended, Failure>;

/// Parses the command line and runs the call.
pub fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .with_ansi(on_terminal())
        .without_time()
        .init();
    let result = match Arguments::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Exec(args) => exec::run(&args),
        Command::Explore(args) => explore::run(&args),
        Command::Slim(args) => slim::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Mutate(args) => mutate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::New(args) => new::run(&args),
        Command::Trace(args) => trace(&args),
        Command::List(args) => list::run(&args),
    };
    match result {
        Ok(Ended::Clean) => ExitCode::SUCCESS,
        Ok(Ended::Verdict) => ExitCode::from(1),
        Err(Failure(message)) => {
            let _ = writeln!(io::stderr(), "pmaplab: {message}");
            ExitCode::from(2)
        }
    }
}

fn trace(args: &crate::trace::TraceArgs) -> Result {
    let mut out = Vec::new();
    let done = crate::trace::run(args, &mut out);
    print(&String::from_utf8_lossy(&out));
    done.map(|()| Ended::Clean).map_err(Failure::from)
}

/// Writes text to standard output; a reader that went away ends the program quietly.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    if out
        .write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .is_err()
    {
        std::process::exit(0);
    }
}

/// Whether progress may be shown.
pub fn on_terminal() -> bool {
    io::stderr().is_terminal()
}

/// The machine of that name, or of the profile file at that path.
///
/// # Errors
/// What is wrong, and what there is.
pub fn machine(name: &str) -> std::result::Result<Arc<Profile>, Failure> {
    if let Some(profile) = Profile::embedded(name) {
        return Ok(profile);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known: Vec<_> = Profile::names().collect();
        let known = known.join(", ");
        return Err(Failure(format!(
            "no machine `{name}`; expected one of {known}, or the path of a profile (.toml)"
        )));
    }
    let meta = std::fs::metadata(path).map_err(|e| Failure(format!("{name}: {e}")))?;
    if meta.len() > 64 * 1024 {
        return Err(Failure(format!(
            "{name}: {} bytes; a profile has at most 65536",
            meta.len()
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure(format!("{name}: {e}")))?;
    let profile = Profile::parse(&text).map_err(|e| Failure(format!("{name}: {e}")))?;
    if pmap::routine::Routine::by_name(&profile.routine).is_none() {
        return Err(Failure(format!("{name}: no routine `{}`", profile.routine)));
    }
    Ok(Arc::new(profile))
}

/// The policies of these names; all of them for none.
///
/// # Errors
/// Which name is unknown, and which there are.
pub fn policies(names: &[String]) -> std::result::Result<Vec<Policy>, Failure> {
    if names.is_empty() {
        return Ok(pmap::policy::all().collect());
    }
    names.iter().map(|name| policy(name)).collect()
}

/// The policy of that name.
///
/// # Errors
/// That there is none, and which there are.
pub fn policy(name: &str) -> std::result::Result<Policy, Failure> {
    pmap::policy::by_name(name).ok_or_else(|| {
        let known: Vec<_> = pmap::policy::names().collect();
        Failure(format!(
            "no policy `{name}`; expected one of: {}",
            known.join(", ")
        ))
    })
}
