//! `pmaplab run`: a scenario under policies.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use machine::Profile;
use pmap::Policy;
use serde_json::{Value, json};

use super::{Ended, Failure, machine, on_terminal, policies, policy, print};
use crate::parallel;
use crate::scenario::{self, company, predictions, sheevaplug, shell};
use crate::tree::Tree;

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab run
  pmaplab run sheevaplug --policy freebsd-2010 --policy always-flush
  pmaplab run --json > story.json
  pmaplab run --full --policy freebsd-2010      the loop at the length of the seed's 0.78 s
  pmaplab run shell --root target/armel         a real shell and its copy")]
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
    /// Directory with a real shell for the scenario `shell`, as tools/fetch-armel.sh makes it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
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
    match args.scenario.as_str() {
        "shell" => shell(args, profile, policies),
        _ if args.root.is_some() => Err(Failure(format!(
            "--root: scenario `{}` uses the project's guests only; expected scenario `shell`",
            args.scenario
        ))),
        _ => sheevaplug(args, profile, policies),
    }
}

/// How the machine was chosen, to be said again.
fn on(args: &RunArgs) -> String {
    match args.machine.as_str() {
        "sheevaplug" => String::new(),
        machine => format!(" --machine {machine}"),
    }
}

/// The shell's story.
fn shell(args: &RunArgs, profile: Arc<Profile>, policies: Vec<Policy>) -> super::Result {
    let tree = match &args.root {
        Some(dir) => Some(Tree::read(dir).map_err(Failure)?),
        None => None,
    };
    let machine = profile.name.clone();
    let stage = shell::Stage::new(profile, tree).map_err(Failure)?;
    let progress = progress(policies.len() as u64);
    let rows = rows(policies, &progress, |policy| stage.tell(policy))?;
    progress.finish_and_clear();
    let found = rows.iter().any(|r| shell::worst(r).is_some());
    let story = shell::Story {
        scenario: "shell",
        machine,
        program: stage.program(),
        rows,
    };
    if args.json {
        print(&format!("{}\n", serde_json::to_value(&story)?));
    } else {
        let root = args.root.as_ref();
        let root = root.map_or(String::new(), |dir| format!(" --root {}", dir.display()));
        let call = format!("pmaplab run shell{root}");
        print(&shell::table(&story, &call, &on(args)));
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

/// The story of seeds/001.
fn sheevaplug(args: &RunArgs, profile: Arc<Profile>, policies: Vec<Policy>) -> super::Result {
    let mut options = sheevaplug::Options::default();
    if args.full {
        options.turns = sheevaplug::FULL_TURNS;
    }
    let progress = progress(policies.len() as u64 + 1);
    let tell = |policy: Policy| {
        let company = company::visits(&profile, &policy);
        let row = sheevaplug::tell(&profile, policy, &options)?;
        Ok(sheevaplug::Row { company, ..row })
    };
    let rows = rows(policies, &progress, tell)?;
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
        print(&scenario::table(&story, &predicted, &on(args)));
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

/// Tells the story under each policy.
fn rows<T: Send>(
    policies: Vec<Policy>,
    progress: &ProgressBar,
    tell: impl Fn(Policy) -> Result<T, String> + Sync,
) -> Result<Vec<T>, Failure> {
    let told = parallel::map(&policies, |policy| {
        let row = tell(policy.clone());
        progress.set_message(policy.name);
        progress.inc(1);
        row
    });
    told.into_iter().map(|row| row.map_err(Failure)).collect()
}

fn progress(steps: u64) -> ProgressBar {
    if !on_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
