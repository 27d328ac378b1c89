//! `pmaplab repair`: the cheapest few edits that make an unsafe policy safe, or that there are none.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use pmap::Policy;
use pmap::edit::Edit;
use serde_json::json;

use super::amend::{GroundArgs, cycles};
use super::{Ended, Failure, machine, policy, print};
use crate::amend::edited;
use crate::amend::repair::{Outcome, repair};
use crate::fuzz::Budget;
use crate::fuzz::policy_ops::Bench;

/// Machine that the fuzz body runs on.
const FUZZ_MACHINE: &str = "tiny-vivt";
/// Bytes of a fuzz input.
const INPUT: usize = 256;

/// Arguments of `repair`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab repair tinguely-bypass-intent
  pmaplab repair freebsd-2010 --edits 1 --json

Tried are: conditions of the skeleton, neighbouring parts of a verb exchanged, steps moved or added. A result
is safe in both scopes, and the fuzz body's findings outside them are told.

Exit codes: 0 repaired, 1 no set of so many edits repairs it, 2 wrong use, or there is nothing to repair.")]
pub struct RepairArgs {
    /// The policy
    policy: String,
    /// Edits in a set
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..=2))]
    edits: usize,
    /// Stop after so many seconds
    #[arg(long, default_value_t = 600)]
    max_seconds: u64,
    /// Sequences of the fuzz body that a result is run on
    #[arg(long, default_value_t = 20_000)]
    fuzz: u32,
    #[command(flatten)]
    ground: GroundArgs,
    /// Print one JSON object instead of sentences
    #[arg(long)]
    json: bool,
}

/// Runs the call.
pub fn run(args: &RepairArgs) -> super::Result {
    let policy = policy(&args.policy)?;
    let grounds = (&args.ground.ground()?, &args.ground.confirm()?);
    let time = Duration::from_secs(args.max_seconds);
    let outcome = repair(&policy, grounds, args.edits, time, |so_far| {
        if let (false, Some(last)) = (args.json, so_far.known.last()) {
            let (kind, depth) = (last.kind.name(), last.depth);
            let (tried, searched) = (so_far.tried, so_far.searched);
            print(&format!(
                "  set {tried}, search {searched}: {kind} after {depth} actions\n"
            ));
        }
    })
    .map_err(Failure)?;
    let found = match &outcome.edits {
        Some(edits) => Some(verify(args, &policy, edits)?),
        None => None,
    };
    if args.json {
        print(&format!("{}\n", value(&policy, &outcome, found.as_ref())));
    } else {
        print(&sentences(args, &policy, &outcome, found.as_ref()));
    }
    Ok(match outcome.edits {
        Some(_) => Ended::Clean,
        None => Ended::Verdict,
    })
}

/// What is known of a repaired policy besides that it is safe in the scopes.
struct Verified {
    sequences: u64,
    finding: Option<&'static str>,
    before: u64,
    after: u64,
}

fn verify(args: &RepairArgs, policy: &Policy, edits: &[Edit]) -> Result<Verified, Failure> {
    let repaired = edited(policy, edits);
    let mut bench = Bench::new(machine(FUZZ_MACHINE)?, repaired.clone());
    let (mut sequences, mut finding) = (0, None);
    Budget::of(args.fuzz).spend(|inputs| {
        if finding.is_none() {
            sequences += 1;
            let ops = bench.sequence(inputs.next(INPUT));
            finding = bench.run(&ops).map(|k| k.name());
        }
    });
    let profile = args.ground.scenario()?;
    Ok(Verified {
        sequences,
        finding,
        before: cycles(&profile, policy)?,
        after: cycles(&profile, &repaired)?,
    })
}

fn sentences(
    args: &RepairArgs,
    policy: &Policy,
    outcome: &Outcome,
    found: Option<&Verified>,
) -> String {
    let mut out = format!(
        "{}: {} candidates, {} sets tried, {} searched, {} counterexamples\n",
        policy.name,
        outcome.candidates,
        outcome.tried,
        outcome.searched,
        outcome.known.len()
    );
    match (&outcome.edits, found) {
        (Some(edits), Some(v)) => {
            out.push_str("safe with:\n");
            edits.iter().for_each(|e| out.push_str(&format!("  {e}\n")));
            let fuzz = match v.finding {
                None => format!("{} sequences, nothing found", v.sequences),
                Some(kind) => format!("{kind} in sequence {}, outside the scope", v.sequences),
            };
            out.push_str(&format!("fuzz body on {FUZZ_MACHINE}: {fuzz}\n"));
            out.push_str(&format!(
                "the sheevaplug scenario: {} cycles before, {} repaired\n",
                v.before, v.after
            ));
        }
        _ if outcome.stopped => out.push_str("stopped at --max-seconds: not every set was tried\n"),
        _ => out.push_str(&format!(
            "no set of up to {} of these edits makes it safe: each is refuted by one of the counterexamples\n",
            args.edits
        )),
    }
    out
}

fn value(policy: &Policy, outcome: &Outcome, found: Option<&Verified>) -> serde_json::Value {
    let edits = outcome.edits.as_ref();
    let edits = edits.map(|edits| edits.iter().map(Edit::to_string).collect::<Vec<_>>());
    json!({
        "policy": policy.name,
        "edits": edits,
        "candidates": outcome.candidates,
        "tried": outcome.tried,
        "searched": outcome.searched,
        "counterexamples": outcome.known.len(),
        "stopped": outcome.stopped,
        "fuzz_sequences": found.map(|v| v.sequences),
        "fuzz_finding": found.and_then(|v| v.finding),
        "cycles_before": found.map(|v| v.before),
        "cycles_after": found.map(|v| v.after),
    })
}
