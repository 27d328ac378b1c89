//! `pmaplab replay`: cases under policies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use machine::Profile;
use serde_json::json;

use super::{Ended, Failure, machine, policies, print};
use crate::case::suite;
use crate::case::{self, Case, Row};

/// Arguments of `replay`.
#[derive(Args)]
pub struct ReplayArgs {
    /// Case files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Policy to run (repeatable); the ones the case names, or all, if none is given
    #[arg(long)]
    policy: Vec<String>,
    /// An edit of the policies, as `pmaplab mutate` names them (repeatable): "drop tlb_flush_id at entered"
    #[arg(long)]
    edit: Vec<String>,
    /// Machine, by name or path; the one the case names, or sheevaplug, if none is given
    #[arg(long)]
    machine: Option<String>,
    /// Tell the story step by step
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print one JSON object a step
    #[arg(long)]
    json: bool,
}

/// Runs the call.
pub fn run(args: &ReplayArgs) -> super::Result {
    let mut found = false;
    for file in &args.files {
        let case = case::read(file)?;
        for profile in machines(args, file, &case)? {
            for policy in policies(names(args, &case))? {
                let policy = policy.edited_by(&args.edit.join("\n"))?;
                let expected = case.expected(policy.name, &profile.name).cloned();
                let row = case::run_one(&case, profile.clone(), policy);
                print(&show(args, file, &case, &row));
                let unmet = expected.is_some_and(|e| !e.met(&row));
                found |= unmet || !row.verdicts.clean();
            }
        }
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

type Machines = Result<Vec<Arc<Profile>>, Failure>;

fn machines(args: &ReplayArgs, file: &Path, case: &Case) -> Machines {
    match &args.machine {
        Some(name) => Ok(vec![machine(name)?]),
        None => Ok(suite::machines(file, case)?),
    }
}

fn names<'a>(args: &'a ReplayArgs, case: &'a Case) -> &'a [String] {
    if args.policy.is_empty() {
        &case.policies
    } else {
        &args.policy
    }
}

fn show(args: &ReplayArgs, file: &Path, case: &Case, row: &Row) -> String {
    if args.explain {
        return case::explain(case, row);
    }
    if args.json {
        let lines = row.steps.iter().map(|step| {
            let mut value = step.json();
            value["case"] = json!(file.display().to_string());
            value["policy"] = json!(row.policy);
            value["machine"] = json!(row.machine);
            format!("{value}\n")
        });
        return lines.collect();
    }
    let worst = row.verdicts.worst().map_or("clean", |k| k.name());
    let expected = match case.expected(row.policy, &row.machine) {
        None => String::new(),
        Some(e) if e.met(row) => "  as expected".to_owned(),
        Some(e) => format!(
            "  EXPECTED {}{} ({}:{})",
            e.kind.map_or("clean", |k| k.name()),
            e.uncached
                .map_or(String::new(), |n| format!(" and {n} uncached")),
            file.display(),
            e.number
        ),
    };
    let count: u64 = row.cycles.values().sum();
    format!(
        "{:<30} {worst:<18} {count:>12} cycles  {}{expected}\n",
        row.policy, case.claim
    )
}
