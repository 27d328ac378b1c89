//! `pmaplab slim`: which steps of a policy can go while it stays safe, and what that saves.

use clap::Args;
use pmap::Policy;
use serde_json::json;

use super::amend::{GroundArgs, cycles};
use super::{Ended, Failure, policy, print};
use crate::amend::edited;
use crate::amend::slim::{Candidate, Fate, gone, slim};

/// Arguments of `slim`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab slim always-flush
  pmaplab slim freebsd-2010-repaired --machine tiny-line-ra --json

What can go can go on this machine and within the scope confirmed in; what the scope leaves out is told by
`pmaplab explore`.

Exit codes: 0 decided, 2 wrong use, or the policy is not safe.")]
pub struct SlimArgs {
    /// The policy
    policy: String,
    #[command(flatten)]
    ground: GroundArgs,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the call.
pub fn run(args: &SlimArgs) -> super::Result {
    let policy = policy(&args.policy)?;
    let (ground, confirm) = (args.ground.ground()?, args.ground.confirm()?);
    if !args.json {
        print(&format!(
            "steps of {} on {}, in scope {}, confirmed in scope {}\n",
            policy.name, ground.profile.name, ground.scope.name, confirm.scope.name
        ));
    }
    let all = slim(&policy, &ground, &confirm, |candidate| {
        if !args.json {
            print(&line(candidate));
        }
    })
    .map_err(Failure)?;
    let saved = args.ground.scenario()?;
    let (before, after) = (
        cycles(&saved, &policy)?,
        cycles(&saved, &edited(&policy, &gone(&all)))?,
    );
    if args.json {
        print(&format!("{}\n", value(&policy, &all, before, after)));
    } else {
        print(&summary(&all, &saved.name, before, after));
    }
    Ok(Ended::Clean)
}

fn line(candidate: &Candidate) -> String {
    let fate = match candidate.fate {
        Fate::Gone => "can go".to_owned(),
        Fate::Needed(kind, depth) => format!("needed: {} after {depth} actions", kind.name()),
        Fate::Unknown => "unknown: the search did not end".to_owned(),
    };
    format!("  {:<52} {fate}\n", candidate.edit.to_string())
}

fn summary(all: &[Candidate], machine: &str, before: u64, after: u64) -> String {
    let mut out = String::from("\ncan go together, also in the scope confirmed in:\n");
    let gone = gone(all);
    if gone.is_empty() {
        out.push_str("  none: each step is needed\n");
    }
    gone.iter().for_each(|e| out.push_str(&format!("  {e}\n")));
    let percent = (before as f64 - after as f64) * 100.0 / before as f64;
    out.push_str(&format!(
        "\nthe sheevaplug scenario on {machine}: {before} cycles, without these steps {after}: {percent:.2} % saved\n"
    ));
    out
}

fn value(policy: &Policy, all: &[Candidate], before: u64, after: u64) -> serde_json::Value {
    let rows: Vec<_> = all
        .iter()
        .map(|c| {
            let (fate, depth) = match c.fate {
                Fate::Gone => ("gone", None),
                Fate::Needed(kind, depth) => (kind.name(), Some(depth)),
                Fate::Unknown => ("unknown", None),
            };
            json!({"edit": c.edit.to_string(), "planned": c.planned, "fate": fate, "depth": depth})
        })
        .collect();
    json!({"policy": policy.name, "steps": rows, "cycles_before": before, "cycles_after": after})
}
