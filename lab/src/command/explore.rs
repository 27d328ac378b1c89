//! `pmaplab explore`: every sequence of operations on a tiny machine, breadth first.

use std::io::Write as _;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use machine::Profile;
use pmap::Policy;
use serde_json::{Value, json};

use super::{Ended, Failure, machine, on_terminal, policies, print};
use crate::case::write;
use crate::explore::engine::{Ended as SearchEnded, Finding};
use crate::explore::{
    Fingerprints, LEFT_OUT, Limits, Scope, Search, Symmetry, WorldModel, checkpoint, witness,
};
use crate::oracle::Kind;

/// Arguments of `explore`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab explore                               every policy in the default scope
  pmaplab explore --policy freebsd-2010 --all   go on behind the first finding: one case a kind
  pmaplab explore --policy bare --scope user --machine my-tiny.toml --json
  pmaplab explore --policy always-flush --scope windows --state search.bin
                                                can be interrupted and started again

Exit codes: 0 safe in the scope, or nothing found within the limits; 1 a verdict; 2 wrong use.")]
pub struct ExploreArgs {
    /// Policy to search (repeatable); all of them if none is given
    #[arg(long)]
    policy: Vec<String>,
    /// Change of the policies (repeatable), such as "condition sticky-uncached on" or
    /// "drop dcache_wb at begins:protect"
    #[arg(long, value_name = "EDIT")]
    edit: Vec<String>,
    /// Machine, by name or path of a profile; a flat table, one CPU, VIVT
    #[arg(long, default_value = "tiny-line")]
    machine: String,
    /// What is tried: default, tiny, small, user, calm, wild, alias, paging, windows
    #[arg(long, default_value = "default")]
    scope: String,
    /// Stop after so many states
    #[arg(long, default_value_t = 50_000_000)]
    max_states: u64,
    /// Stop at so much memory for one search, MB
    #[arg(long, default_value_t = 4096)]
    max_memory: usize,
    /// Stop a search after so many seconds
    #[arg(long)]
    max_seconds: Option<u64>,
    /// Threads; as many as there are cores if it is not given. What is found does not depend on it
    #[arg(long)]
    threads: Option<u8>,
    /// Go on behind the first finding; report the first of each kind
    #[arg(long)]
    all: bool,
    /// Do without symmetry: a check of the canonical form
    #[arg(long)]
    no_symmetry: bool,
    /// Directory for the cases found
    #[arg(long, default_value = "explore-out")]
    out: PathBuf,
    /// Checkpoint of the search: read if it exists, written now and then and at a limit
    #[arg(long)]
    state: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// One policy's result.
struct Row {
    policy: &'static str,
    ended: SearchEnded,
    states: u64,
    transitions: u64,
    depth: u32,
    bytes: usize,
    seconds: f64,
    /// Kind, actions, case file.
    found: Vec<(Kind, u32, String)>,
}

/// Runs the call.
pub fn run(args: &ExploreArgs) -> super::Result {
    let profile = machine(&args.machine)?;
    let scope = scope(&args.scope)?;
    let edits = args.edit.join("\n");
    let policies: Result<Vec<Policy>, String> = policies(&args.policy)?
        .into_iter()
        .map(|p| p.edited_by(&edits))
        .collect();
    let policies = policies.map_err(|e| Failure(format!("--edit: {e}")))?;
    if args.state.is_some() && policies.len() != 1 {
        return Err(Failure(
            "--state keeps one search: name one --policy".to_owned(),
        ));
    }
    if !args.json {
        print(&heading(&profile, &scope));
    }
    let mut rows = Vec::new();
    for policy in policies {
        let row = explore(args, &profile, &scope, policy)?;
        if !args.json {
            print(&text(args, &row));
        }
        rows.push(row);
    }
    let found = rows.iter().any(|r| !r.found.is_empty());
    if args.json {
        let rows: Vec<Value> = rows.iter().map(|r| value(args, &scope, r)).collect();
        print(&format!("{}\n", json!({ "rows": rows })));
    } else {
        print(&format!("\nleft out of every scope: {LEFT_OUT}\n"));
    }
    Ok(if found { Ended::Verdict } else { Ended::Clean })
}

/// The scope of that name.
///
/// # Errors
/// That there is none, and which there are.
pub fn scope(name: &str) -> Result<Scope, Failure> {
    Scope::by_name(name).ok_or_else(|| {
        let known: Vec<_> = Scope::all().map(|s| s.name).collect();
        Failure(format!(
            "no scope `{name}`; expected one of: {}",
            known.join(", ")
        ))
    })
}

fn heading(profile: &Profile, scope: &Scope) -> String {
    format!(
        "machine {}: {}\nscope {}: {}\n\n{:<30} {:<18} {:>10} {:>12} {:>5} {:>6} {:>8}\n",
        profile.name,
        profile.about,
        scope.name,
        scope.about,
        "policy",
        "verdict",
        "states",
        "transitions",
        "depth",
        "closed",
        "seconds",
    )
}

fn text(args: &ExploreArgs, row: &Row) -> String {
    let mut out = format!(
        "{:<30} {:<18} {:>10} {:>12} {:>5} {:>6} {:>8.1}\n",
        row.policy,
        verdict(row),
        row.states,
        row.transitions,
        row.depth,
        if row.ended == SearchEnded::Closed {
            "yes"
        } else {
            "no"
        },
        row.seconds,
    );
    for (kind, depth, case) in &row.found {
        let (kind, replay) = (kind.name(), replay(args, row.policy, case));
        out.push_str(&format!(
            "    {kind} after {depth} actions; replay: {replay}\n"
        ));
    }
    if let Some(why) = limit(row.ended) {
        let per_state = row.bytes as u64 / row.states.max(1);
        out.push_str(&format!(
            "    stopped at {why}; {per_state} bytes a state\n"
        ));
    }
    out
}

fn limit(ended: SearchEnded) -> Option<&'static str> {
    match ended {
        SearchEnded::States => Some("--max-states"),
        SearchEnded::Memory => Some("--max-memory"),
        SearchEnded::Stopped => Some("--max-seconds"),
        SearchEnded::Closed | SearchEnded::Found => None,
    }
}

/// The command that tells a finding again. A machine's path is said once more, for the case would look for it
/// beside itself; edits are no part of a case.
fn replay(args: &ExploreArgs, policy: &str, case: &str) -> String {
    let machine = match Profile::embedded(&args.machine) {
        Some(_) => String::new(),
        None => format!(" --machine {}", args.machine),
    };
    let edits: String = args.edit.iter().map(|e| format!(" --edit '{e}'")).collect();
    format!("cargo run -- replay --explain --policy {policy}{machine}{edits} {case}")
}

/// The gravest kind; `safe` only if every reachable state was seen.
fn verdict(row: &Row) -> &'static str {
    match row.found.iter().map(|f| f.0).min() {
        Some(kind) => kind.name(),
        None if row.ended == SearchEnded::Closed => "safe",
        None => "unknown",
    }
}

fn value(args: &ExploreArgs, scope: &Scope, row: &Row) -> Value {
    let cases: Vec<Value> = row
        .found
        .iter()
        .map(|(kind, depth, case)| {
            let replay = replay(args, row.policy, case);
            json!({"verdict": kind.name(), "depth": depth, "case": case, "replay": replay})
        })
        .collect();
    let first = row.found.iter().min_by_key(|f| f.0).map(|f| f.2.clone());
    json!({
        "policy": row.policy,
        "machine": args.machine,
        "scope": scope.name,
        "edits": args.edit,
        "closed": row.ended == SearchEnded::Closed,
        "states": row.states,
        "transitions": row.transitions,
        "depth": row.depth,
        "verdict": verdict(row),
        "case": first,
        "cases": cases,
        "bytes": row.bytes,
        "left_out": LEFT_OUT,
    })
}

fn explore(
    args: &ExploreArgs,
    profile: &Arc<Profile>,
    scope: &Scope,
    policy: Policy,
) -> Result<Row, Failure> {
    let symmetry = if args.no_symmetry {
        Symmetry::Off
    } else {
        Symmetry::On
    };
    let model = WorldModel::new(profile, policy.clone(), scope, symmetry)?;
    let edits = &args.edit;
    let key = format!(
        "{} {edits:?} {symmetry:?} {scope:?} {profile:?}",
        policy.name
    );
    let mut search = match &args.state {
        Some(path) if path.exists() => checkpoint::load(model, &key, path)
            .map_err(|e| Failure(format!("{}: {e}", path.display())))?,
        _ => Search::new(model, Fingerprints::default()),
    };
    let limits = Limits {
        states: args.max_states,
        bytes: args.max_memory << 20,
        first: !args.all,
    };
    let begun = Instant::now();
    let mut watch = Watch::new(args, policy.name);
    let mut helpers = Vec::new();
    for _ in 1..threads(args) {
        helpers.push(WorldModel::new(profile, policy.clone(), scope, symmetry)?);
    }
    let ended = search.run_with(&mut helpers, &limits, |search| watch.look(search, &key));
    watch.finish();
    let seconds = begun.elapsed().as_secs_f64();
    if let (Some(path), Some(_)) = (&args.state, limit(ended)) {
        checkpoint::save(&search, &key, path)
            .map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    }
    let (states, transitions, depth) = (search.states(), search.transitions, search.depth);
    let bytes = search.bytes();
    let found = cases(args, profile, scope, &policy, &mut search)?;
    let policy = policy.name;
    Ok(Row {
        policy,
        ended,
        states,
        transitions,
        depth,
        bytes,
        seconds,
        found,
    })
}

fn threads(args: &ExploreArgs) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    args.threads.map_or_else(cores, |n| usize::from(n.max(1)))
}

/// Writes a case for each finding, confirmed by the case runner.
fn cases(
    args: &ExploreArgs,
    profile: &Arc<Profile>,
    scope: &Scope,
    policy: &Policy,
    search: &mut Search<WorldModel>,
) -> Result<Vec<(Kind, u32, String)>, Failure> {
    let findings: Vec<Finding<Kind>> = search.found.clone();
    let mut out = Vec::new();
    for finding in &findings {
        let machine = (profile, args.machine.as_str());
        let mut case = witness::case(search, finding, machine, policy, scope)
            .map_err(|e| Failure(format!("internal error, please report: {e}")))?;
        for edit in &args.edit {
            case.source.push_str(&format!(" --edit '{edit}'"));
        }
        let name = format!("{}-{}-{}.kdl", policy.name, scope.name, finding.bad.name());
        let path = args.out.join(name);
        std::fs::create_dir_all(&args.out)?;
        std::fs::File::create(&path)?.write_all(write(&case).as_bytes())?;
        out.push((finding.bad, finding.depth, path.display().to_string()));
    }
    Ok(out)
}

/// Progress, time limit and checkpoints.
struct Watch<'a> {
    args: &'a ExploreArgs,
    bar: Option<ProgressBar>,
    begun: Instant,
    saved: Instant,
}

const SAVE_EVERY: Duration = Duration::from_secs(60);

impl<'a> Watch<'a> {
    fn new(args: &'a ExploreArgs, policy: &'static str) -> Self {
        let bar = (on_terminal() && !args.json).then(|| {
            let style = "{prefix} {wide_bar} {msg}";
            let bar = ProgressBar::new(1).with_prefix(policy);
            bar.set_style(ProgressStyle::with_template(style).expect("a template"));
            bar
        });
        let begun = Instant::now();
        Self {
            args,
            bar,
            begun,
            saved: begun,
        }
    }

    fn look(&mut self, search: &Search<WorldModel>, key: &str) -> ControlFlow<()> {
        if let Some(bar) = &self.bar {
            self.show(bar, search);
        }
        if let Some(path) = &self.args.state
            && self.saved.elapsed() > SAVE_EVERY
        {
            // A checkpoint that cannot be written now may be at the next time; the last one reports.
            let _ = checkpoint::save(search, key, path);
            self.saved = Instant::now();
        }
        let limit = self.args.max_seconds.map(Duration::from_secs);
        if limit.is_some_and(|limit| self.begun.elapsed() > limit) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// The rest of this level, and how fast levels grow: how many will come is not known before they do.
    fn show(&self, bar: &ProgressBar, search: &Search<WorldModel>) {
        let (at, level, next) = search.progress();
        bar.set_length(level as u64);
        bar.set_position(at as u64);
        let rate = search.transitions as f64 / self.begun.elapsed().as_secs_f64().max(0.001);
        let growth = next as f64 / at.max(1) as f64;
        let a_state = search.transitions as f64 / (search.states() as f64).max(1.0);
        let left = (level - at) as f64 * a_state / rate.max(1.0);
        bar.set_message(format!(
            "level {}, {} states, {:.2} M transitions/s, level done in {left:.0} s, next one x{growth:.2}",
            search.depth,
            search.states(),
            rate / 1e6,
        ));
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
