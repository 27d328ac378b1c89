//! `pmaplab replay`: cases under policies.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{Ended, machine, policies, print};
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
        for name in machines(args, &case) {
            let profile = machine(&beside(file, &name))?;
            for policy in policies(names(args, &case))? {
                let expected = case.expected(policy.name).cloned();
                let row = case::run_one(&case, profile.clone(), policy);
                print(&show(args, file, &case, &row));
                let unmet = expected.is_some_and(|e| !e.met(&row));
                found |= unmet || !row.verdicts.clean();
            }
        }
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

fn machines(args: &ReplayArgs, case: &Case) -> Vec<String> {
    match &args.machine {
        Some(name) => vec![name.clone()],
        None if case.machines.is_empty() => vec!["sheevaplug".to_owned()],
        None => case.machines.clone(),
    }
}

/// A profile that a case names by a path is looked for beside the case first.
fn beside(file: &std::path::Path, name: &str) -> String {
    let near = file.with_file_name(name);
    let is_path = name.ends_with(".toml") && near.exists();
    let near = is_path.then(|| near.display().to_string());
    near.unwrap_or_else(|| name.to_owned())
}

fn names<'a>(args: &'a ReplayArgs, case: &'a Case) -> &'a [String] {
    if args.policy.is_empty() {
        &case.policies
    } else {
        &args.policy
    }
}

fn show(args: &ReplayArgs, file: &std::path::Path, case: &Case, row: &Row) -> String {
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
    let expected = match case.expected(row.policy) {
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
