//! `pmaplab run`: a scenario under policies.

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::{Ended, Failure, machine, on_terminal, policies, policy, print};
use crate::scenario::{self, predictions, sheevaplug};

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab run
  pmaplab run sheevaplug --policy freebsd-2010 --policy always-flush
  pmaplab run --json > story.json
  pmaplab run --full --policy freebsd-2010      the loop at the length of the seed's 0.78 s")]
pub struct RunArgs {
    /// Scenario (see `pmaplab list scenarios`)
    #[arg(default_value = "sheevaplug")]
    scenario: String,
    /// Policy to run (repeatable); all if none is given
    #[arg(long)]
    policy: Vec<String>,
    /// Machine, by name or path of a profile
    #[arg(long, default_value = "sheevaplug")]
    machine: String,
    /// Run the loop at the length of the seed's 0.78 s; takes minutes
    #[arg(long)]
    full: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the call.
pub fn run(args: &RunArgs) -> super::Result {
    if !scenario::names().any(|(name, _)| name == args.scenario) {
        let known: Vec<_> = scenario::names().map(|(n, _)| n).collect();
        let known = known.join(", ");
        return Err(Failure(format!(
            "no scenario `{}`; expected one of: {known}",
            args.scenario
        )));
    }
    let profile = machine(&args.machine)?;
    if profile.page != 4096 {
        return Err(Failure(format!(
            "machine `{}`: programs need pages of 4096 bytes",
            args.machine
        )));
    }
    let policies = policies(&args.policy)?;
    let mut options = sheevaplug::Options::default();
    if args.full {
        options.turns = sheevaplug::FULL_TURNS;
    }
    let progress = progress(policies.len() as u64 + 1);
    let mut rows = Vec::new();
    for policy in policies {
        progress.set_message(policy.name);
        rows.push(sheevaplug::tell(&profile, policy, &options).map_err(Failure)?);
        progress.inc(1);
    }
    progress.set_message("predictions");
    let predicted = predictions::predict(&profile, &policy("freebsd-2010")?).map_err(Failure)?;
    progress.finish_and_clear();
    let found = rows.iter().any(|r| sheevaplug::worst(r).is_some());
    let story = sheevaplug::Story {
        scenario: "sheevaplug",
        machine: profile.name.clone(),
        rows,
    };
    if args.json {
        let mut value: Value = serde_json::to_value(&story)?;
        value["predictions"] = json!(predicted);
        print(&format!("{value}\n"));
    } else {
        print(&scenario::table(&story, &predicted));
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

fn progress(steps: u64) -> ProgressBar {
    if !on_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
