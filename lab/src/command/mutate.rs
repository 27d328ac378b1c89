//! `pmaplab mutate`: each step of correct policies got wrong, and what finds it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pmap::{Policy, Status};
use serde_json::{Value, json};

use super::{Ended, Failure, on_terminal, policies, print};
use crate::mutate::record::{self, Fate};
use crate::mutate::{Campaign, Outcome, run as judge_all};

/// Arguments of `mutate`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab mutate                                    the policies called `reference`
  pmaplab mutate --policy write-drop-bqrelse-explicit --random 5000 --json
  pmaplab mutate --policy freebsd-2010-repaired --write

A mutant is killed (some input gives a verdict under it and none under its base), inert (no input made any
state differ), covered by another step (only without both there is a verdict), or open.
Exit codes: 0 no mutant is open, 1 some are, 2 wrong use.")]
pub struct MutateArgs {
    /// Policy to mutate (repeatable); those called `reference` if none is given
    #[arg(long)]
    policy: Vec<String>,
    /// Random sequences of operations to run each survivor on
    #[arg(long, default_value_t = 20_000)]
    random: u32,
    /// Seed of the random sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the fates and killers of the last time are
    #[arg(long, default_value = "tests/mutants")]
    record: PathBuf,
    /// Where the cases are
    #[arg(long, default_value = "tests/cases")]
    cases: PathBuf,
    /// Write fates and new killers there; killers that nothing names any more are removed
    #[arg(long)]
    write: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Most random sequences.
const RANDOM_MAX: u32 = 10_000_000;

/// Runs the call.
pub fn run(args: &MutateArgs) -> super::Result {
    if args.random > RANDOM_MAX {
        return Err(Failure(format!("--random: at most {RANDOM_MAX}")));
    }
    let mut done = Vec::new();
    // A mutant may make the pmap panic: that is a finding, not a message.
    std::panic::set_hook(Box::new(|_| {}));
    for policy in chosen(args)? {
        let outcome = of_policy(args, &policy)?;
        done.push((policy, outcome));
    }
    let _ = std::panic::take_hook();
    if args.write {
        prune(&args.record)?;
    }
    print(&match args.json {
        true => format!("{}\n", as_json(args, &done)),
        false => as_text(args, &done),
    });
    let open = done.iter().any(|(_, o)| o.counts()[4] > 0);
    Ok(if open { Ended::Verdict } else { Ended::Clean })
}

fn chosen(args: &MutateArgs) -> Result<Vec<Policy>, Failure> {
    let all = policies(&args.policy)?;
    let reference = |p: &Policy| !args.policy.is_empty() || p.status == Status::Reference;
    Ok(all.into_iter().filter(reference).collect())
}

fn of_policy(args: &MutateArgs, policy: &Policy) -> Result<Outcome, Failure> {
    let recorded = record::read_fates(&record::file(&args.record, policy.name))?;
    let mut campaign = Campaign::new(policy, &args.record, &args.cases)?;
    campaign.random(args.random, args.seed);
    let progress = |n: usize, of: usize| {
        if on_terminal() {
            let mut err = std::io::stderr();
            let _ = write!(err, "\r{}: {n} of {of} mutants ", policy.name);
            let _ = err.flush();
        }
    };
    let outcome = judge_all(&mut campaign, &recorded, progress);
    if on_terminal() {
        let _ = writeln!(std::io::stderr(), "\r{:<60}", policy.name);
    }
    tracing::info!(
        policy = policy.name,
        inputs = campaign.inputs.len(),
        unclean = campaign.unclean,
        "mutated"
    );
    if args.write {
        write(args, policy, &campaign, &outcome)?;
    }
    Ok(outcome)
}

fn write(
    args: &MutateArgs,
    policy: &Policy,
    campaign: &Campaign,
    outcome: &Outcome,
) -> Result<(), Failure> {
    let failed = |path: &Path, e: std::io::Error| Failure(format!("{}: {e}", path.display()));
    std::fs::create_dir_all(&args.record).map_err(|e| failed(&args.record, e))?;
    for killer in &campaign.found {
        let path = args.record.join(format!("{}.kdl", killer.name));
        std::fs::write(&path, killer.text()).map_err(|e| failed(&path, e))?;
    }
    let path = record::file(&args.record, policy.name);
    let text = record::fates_text(policy.name, &outcome.fates);
    std::fs::write(&path, text).map_err(|e| failed(&path, e))
}

/// Removes killers that no policy's file names.
fn prune(directory: &Path) -> Result<(), Failure> {
    for killer in record::unnamed(directory)? {
        let path = directory.join(format!("{killer}.kdl"));
        std::fs::remove_file(&path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    }
    Ok(())
}

const COUNTS: [&str; 5] = ["mutants", "killed", "inert", "covered", "open"];

fn as_json(args: &MutateArgs, done: &[(Policy, Outcome)]) -> Value {
    let counted = |counts: [usize; 5]| {
        let pairs = COUNTS.iter().zip(counts);
        let pairs = pairs.map(|(name, n)| ((*name).to_owned(), json!(n)));
        pairs.collect::<serde_json::Map<_, _>>()
    };
    let mut total = [0; 5];
    let mut rows = Vec::new();
    for (policy, outcome) in done {
        let counts = outcome.counts();
        (0..5).for_each(|n| total[n] += counts[n]);
        let mut row = counted(counts);
        row.insert("policy".to_owned(), json!(policy.name));
        let fates = outcome.fates.iter();
        let fates = fates.map(|(m, f)| json!({"mutant": m, "fate": f.to_string()}));
        row.insert("fates".to_owned(), fates.collect());
        rows.push(Value::Object(row));
    }
    let mut value = counted(total);
    value.insert("random".to_owned(), json!(args.random));
    value.insert("policies".to_owned(), Value::Array(rows));
    Value::Object(value)
}

fn as_text(args: &MutateArgs, done: &[(Policy, Outcome)]) -> String {
    let mut out = format!("{:<34}", "policy");
    COUNTS.iter().for_each(|name| {
        let _ = write!(out, "{name:>9}");
    });
    out.push('\n');
    for (policy, outcome) in done {
        let _ = write!(out, "{:<34}", policy.name);
        outcome.counts().iter().for_each(|n| {
            let _ = write!(out, "{n:>9}");
        });
        out.push('\n');
    }
    for (policy, outcome) in done {
        let told = outcome
            .fates
            .iter()
            .filter(|(_, f)| !matches!(f, Fate::Killed { .. }));
        for (mutant, fate) in told {
            let _ = writeln!(out, "{}: {mutant}: {fate}", policy.name);
        }
    }
    let names: BTreeSet<&str> = done
        .iter()
        .flat_map(|(_, o)| &o.fates)
        .filter_map(|(_, f)| match f {
            Fate::Killed { by } | Fate::Covered { by, .. } => Some(by.as_str()),
            _ => None,
        })
        .collect();
    let _ = writeln!(
        out,
        "\n{} random sequences each, {} killers. A killer tells its story by\n  \
         cargo run -- replay --explain --policy POLICY --edit \"MUTANT\" {}/KILLER.kdl\n\
         (one with a slash in its name is in {}; a mutant that is covered needs a second --edit, what covers it;\n\
         `line` is a number of bytes there: 8 on the tiny machines, 32 on sheevaplug).",
        args.random,
        names.len(),
        args.record.display(),
        args.cases.display()
    );
    out
}
