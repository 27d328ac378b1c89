//! `pmaplab list`: what there is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use machine::Profile;
use pmap::Policy;
use serde_json::{Value, json};

use super::{Ended, print};
use crate::case::corpus::Corpus;

/// Arguments of `list`.
#[derive(Args)]
pub struct ListArgs {
    /// What to list; everything but the corpus if none
    what: Option<What>,
    /// Where the corpus is
    #[arg(long, default_value = "tests/cases")]
    cases: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Policies,
    Machines,
    Scenarios,
    Guests,
    /// Every case with its verdict under each policy, as CORPUS.md; takes a while
    Corpus,
}

/// Runs the call.
pub fn run(args: &ListArgs) -> super::Result {
    if args.what == Some(What::Corpus) {
        let corpus = Corpus::gather(&args.cases)?;
        print(&match args.json {
            true => format!("{}\n", serde_json::to_value(&corpus)?),
            false => corpus.markdown(),
        });
        return Ok(Ended::Clean);
    }
    let all = [
        What::Policies,
        What::Machines,
        What::Scenarios,
        What::Guests,
    ];
    let wanted = |w: &What| args.what.is_none_or(|a| a == *w);
    let mut lists = serde_json::Map::new();
    let mut text = String::new();
    for what in all.into_iter().filter(wanted) {
        let rows = rows(what);
        text.push_str(&format!("{}\n", heading(what)));
        for (name, about) in &rows {
            text.push_str(&format!("  {name:<30} {about}\n"));
            if args.what == Some(What::Policies) {
                let policy = pmap::policy::by_name(name);
                text.push_str(&policy.map_or(String::new(), |p| exceptions(&p)));
            }
        }
        let values: Vec<Value> = rows
            .iter()
            .map(|(n, a)| json!({"name": n, "about": a}))
            .collect();
        let values = match what {
            What::Policies => with_status(values),
            _ => values,
        };
        lists.insert(heading(what).to_owned(), Value::Array(values));
    }
    if args.json {
        text = format!("{}\n", Value::Object(lists));
    }
    print(&text);
    Ok(Ended::Clean)
}

/// What each policy claims to be, on each machine.
fn with_status(mut rows: Vec<Value>) -> Vec<Value> {
    for (row, policy) in rows.iter_mut().zip(pmap::policy::all()) {
        row["status"] = json!(policy.status.to_string());
        let machines = Profile::names().filter_map(Profile::embedded);
        let on = machines.map(|m| (m.name.clone(), json!(policy.status_on(&m))));
        row["status_on"] = Value::Object(on.collect());
    }
    rows
}

/// Where a policy's claim is another than in general, for the list of policies alone.
fn exceptions(policy: &Policy) -> String {
    let general = policy.status.to_string();
    let mut by_claim: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for machine in Profile::names().filter_map(Profile::embedded) {
        let here = policy.status_on(&machine);
        if here != general {
            by_claim.entry(here).or_default().push(machine.name.clone());
        }
    }
    let told = by_claim
        .iter()
        .map(|(claim, machines)| format!("{:32} on {}: {claim}\n", "", machines.join(", ")));
    told.collect()
}

fn heading(what: What) -> &'static str {
    match what {
        What::Policies => "policies",
        What::Machines => "machines",
        What::Scenarios => "scenarios",
        What::Guests => "guests",
        What::Corpus => "corpus",
    }
}

fn rows(what: What) -> Vec<(String, String)> {
    match what {
        What::Policies => pmap::policy::all()
            .map(|p| (p.name.to_owned(), format!("{} ({})", p.about, p.status)))
            .collect(),
        What::Machines => Profile::names()
            .filter_map(Profile::embedded)
            .map(|p| (p.name.clone(), p.about.clone()))
            .collect(),
        What::Scenarios => crate::scenario::names()
            .map(|(name, about)| (name.to_owned(), about.to_owned()))
            .collect(),
        What::Guests => crate::guests::all()
            .map(|g| (g.name.to_owned(), format!("{} bytes", g.bytes.len())))
            .collect(),
        What::Corpus => Vec::new(),
    }
}
