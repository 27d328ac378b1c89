//! `pmaplab diff`: what differs between two policies, or between a policy and a snapshot of its decisions.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use pmap::Policy;
use serde::Serialize;
use serde_json::json;

use super::{Ended, Failure, policy, print};
use crate::case::{self, Row, suite};
use crate::decide::{Difference, Table, difference, table};

/// Largest snapshot, bytes.
const SNAPSHOT_MAX: u64 = 4 << 20;

/// Arguments of `diff`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab diff freebsd-2010 none
  pmaplab diff freebsd-2010 always-flush my-cases/ --json
  pmaplab diff freebsd-2010 --snapshot tests/decisions/freebsd-2010.snap

Exit codes: 0 nothing differs, 1 something does, 2 wrong use.")]
pub struct DiffArgs {
    /// The first policy
    a: String,
    /// The second one
    #[arg(required_unless_present = "snapshot")]
    b: Option<String>,
    /// Cases to compare verdicts and costs on: a file, or a directory of them
    #[arg(default_value = "tests/cases", conflicts_with = "snapshot")]
    cases: PathBuf,
    /// Compare the policy's decisions with those of a committed table
    #[arg(long, conflicts_with = "b")]
    snapshot: Option<PathBuf>,
    /// Print JSON instead of sentences
    #[arg(long)]
    json: bool,
}

/// How two policies fare on one case.
#[derive(Serialize)]
struct CaseDifference {
    case: String,
    machine: String,
    verdicts: Option<[String; 2]>,
    /// Classes whose cycles differ.
    cycles: BTreeMap<&'static str, [u64; 2]>,
}

/// Runs the call.
pub fn run(args: &DiffArgs) -> super::Result {
    let a = policy(&args.a)?;
    let Some(b) = &args.b else {
        return against_snapshot(args, &a);
    };
    let b = policy(b)?;
    let decisions = difference(&table(&a), &table(&b));
    let cases = compare_cases(&args.cases, &a, &b)?;
    let differs = !decisions.is_empty() || !cases.is_empty();
    if args.json {
        let value = json!({"a": a.name, "b": b.name, "decisions": decisions, "cases": cases});
        print(&format!("{value}\n"));
    } else {
        let mut out = sentences(&decisions, a.name, b.name);
        tell_cases(&mut out, &cases, a.name, b.name);
        print(&out);
    }
    Ok(ended(differs))
}

fn ended(differs: bool) -> Ended {
    if differs {
        Ended::Verdict
    } else {
        Ended::Clean
    }
}

fn against_snapshot(args: &DiffArgs, a: &Policy) -> super::Result {
    let file = args.snapshot.as_deref().unwrap_or(Path::new(""));
    let then = read_table(file)?;
    let decisions = difference(&then, &table(a));
    if args.json {
        let value = json!({"a": file.display().to_string(), "b": a.name, "decisions": decisions});
        print(&format!("{value}\n"));
    } else {
        print(&sentences(&decisions, "snapshot", "now"));
    }
    Ok(ended(!decisions.is_empty()))
}

fn read_table(file: &Path) -> Result<Table, Failure> {
    let shown = file.display();
    let meta = std::fs::metadata(file).map_err(|e| Failure(format!("{shown}: {e}")))?;
    if meta.len() > SNAPSHOT_MAX {
        return Err(Failure(format!(
            "{shown}: larger than {SNAPSHOT_MAX} bytes"
        )));
    }
    let text = std::fs::read_to_string(file).map_err(|e| Failure(format!("{shown}: {e}")))?;
    Table::parse(&text).map_err(|e| Failure(format!("{shown}:{e}")))
}

fn sentences(decisions: &[Difference], a: &str, b: &str) -> String {
    if decisions.is_empty() {
        return "Decisions: none differs.\n".to_owned();
    }
    let mut out = format!("Decisions: {} differ.\n", decisions.len());
    for d in decisions {
        let _ = write!(out, "\n{}", d.sentence(a, b));
    }
    out
}

fn compare_cases(path: &Path, a: &Policy, b: &Policy) -> Result<Vec<CaseDifference>, Failure> {
    let files = if path.is_dir() {
        suite::files(path, "kdl").map_err(|e| Failure(format!("{}: {e}", path.display())))?
    } else {
        vec![path.to_owned()]
    };
    let mut differing = Vec::new();
    for file in files {
        let case = case::read(&file)?;
        for profile in suite::machines(&file, &case)? {
            let [a, b] = [a, b].map(|p| case::run_one(&case, profile.clone(), p.clone()));
            differing.extend(compare_rows(&file, &a, &b));
        }
    }
    Ok(differing)
}

fn compare_rows(file: &Path, a: &Row, b: &Row) -> Option<CaseDifference> {
    let verdicts = [suite::verdict(a), suite::verdict(b)];
    let both = |class: &&'static str| (*class, [a.cycles[*class], b.cycles[*class]]);
    let cycles: BTreeMap<_, _> = a
        .cycles
        .keys()
        .map(both)
        .filter(|(_, [a, b])| a != b)
        .collect();
    let verdicts = (verdicts[0] != verdicts[1]).then_some(verdicts);
    let differs = verdicts.is_some() || !cycles.is_empty();
    differs.then(|| CaseDifference {
        case: file.display().to_string(),
        machine: a.machine.clone(),
        verdicts,
        cycles,
    })
}

fn tell_cases(out: &mut String, cases: &[CaseDifference], a: &str, b: &str) {
    let verdicts: Vec<_> = cases
        .iter()
        .filter_map(|c| Some((c, c.verdicts.as_ref()?)))
        .collect();
    let _ = writeln!(out, "\nVerdicts: {} cases differ.", verdicts.len());
    for (case, [of_a, of_b]) in verdicts {
        let _ = writeln!(out, "\n{} on {}:", case.case, case.machine);
        let _ = writeln!(out, "    {a}: {of_a}\n    {b}: {of_b}");
    }
    let costs: Vec<_> = cases.iter().filter(|c| !c.cycles.is_empty()).collect();
    let _ = writeln!(out, "\nCosts: {} cases differ.", costs.len());
    for case in costs {
        let _ = writeln!(out, "\n{} on {}:", case.case, case.machine);
        for (class, [of_a, of_b]) in &case.cycles {
            let more = *of_b as i64 - *of_a as i64;
            let _ = writeln!(
                out,
                "    {class}: {of_a} under {a}, {of_b} under {b} ({more:+})"
            );
        }
    }
}
