//! The SheevaPlug story (seeds/001), two acts on one booted machine.
//!
//! Read act: a program runs twice, `cat` reads its file, it runs twice again; a policy that uncaches a page
//! while the buffer cache keeps a writable mapping makes the second pair slow. Write act: a program maps a
//! code file, calls it, overwrites it by one write(2), and calls it again, with the file's pages mapped
//! before they were ever read, and after; a policy that forgets a cache operation makes it execute old
//! words.

use std::sync::Arc;

use machine::{Costs, Profile};
use pmap::Policy;
use serde::Serialize;
use std::collections::BTreeMap;

use super::company::{Company, Visit};
use super::stage::Stage;
use crate::oracle::{Kind, Verdict};

/// Turns of the loop by default; the seed's 0.78 s takes [`FULL_TURNS`].
pub const TURNS: u32 = 200_000;
/// Turns that take about the seed's 0.78 s on the cached machine.
pub const FULL_TURNS: u32 = 104_000_000;
/// The seed's ratio, 10.09 s to 0.78 s.
pub const SEED_RATIO: f64 = 10.090_336 / 0.782_453;

/// A share before and after.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct BeforeAfter {
    /// Before `cat`.
    pub before: f64,
    /// After it.
    pub after: f64,
}

/// One policy's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Policy.
    pub policy: String,
    /// What the program's second run printed before `cat`, seconds; not a number if the story did not get
    /// that far.
    pub elapsed_before_s: f64,
    /// What its second run printed after `cat`, seconds; likewise.
    pub elapsed_after_s: f64,
    /// After over before.
    pub ratio: f64,
    /// Share of the program's resident text pages whose entry is uncached when the run starts, percent.
    pub uncached_percent: BeforeAfter,
    /// Cycles of the whole story by class.
    pub cycles: BTreeMap<&'static str, u64>,
    /// Findings by act.
    pub verdicts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// The first finding, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Old versions that the write act's program saw, by order; nothing if it did not end well.
    pub old_versions: BTreeMap<&'static str, Option<u32>>,
    /// Why the story ended early: a program that could not be executed, or did not end well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The same story with company, if it was told ([`super::company::visits`]).
    pub company: Vec<Visit>,
}

/// The story's table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Story {
    /// `sheevaplug`.
    pub scenario: &'static str,
    /// Machine.
    pub machine: String,
    /// One row a policy.
    pub rows: Vec<Row>,
}

/// What a story is told with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns of the program's loop.
    pub turns: u32,
    /// Which program is measured.
    pub program: &'static str,
    /// Whether kernel functions touch lines of their own (`kern::footprint`). Without them nothing but the
    /// story's own data displaces a line.
    pub footprint: bool,
    /// Who takes turns before, between and inside the acts.
    pub company: Company,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            turns: TURNS,
            program: "testsimple",
            footprint: true,
            company: Company::default(),
        }
    }
}

/// The write act's orders.
pub const ORDERS: [&str; 2] = ["map-first", "read-first"];

/// Functions of the write act's code file.
const FUNCTIONS: u32 = 32;

/// What the acts came to, also when they were not played to their end.
#[derive(Clone, Debug)]
pub(super) struct Acts {
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) uncached: (f64, f64),
    /// Findings by act.
    pub(super) verdicts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Old versions by order.
    pub(super) old_versions: BTreeMap<&'static str, Option<u32>>,
    act: Option<&'static str>,
}

impl Acts {
    pub(super) fn new() -> Self {
        let acts = ["read"].into_iter().chain(ORDERS);
        Self {
            before: f64::NAN,
            after: f64::NAN,
            uncached: (f64::NAN, f64::NAN),
            verdicts: acts.map(|act| (act, BTreeMap::new())).collect(),
            old_versions: ORDERS.map(|order| (order, None)).into(),
            act: None,
        }
    }

    /// Plays both acts, as far as it goes. What the last one found is still to be noted.
    pub(super) fn play(&mut self, stage: &mut Stage, options: &Options) -> Result<(), String> {
        if !options.footprint {
            stage.world.state.kern.config.footprints = kern::Footprints::default();
        }
        stage.invite(options.company.clone())?;
        let program = format!("/bin/{}", options.program);
        let turns = options.turns.to_string();
        self.begin(stage, "read")?;
        stage.timed(&program, &turns)?;
        (self.before, self.uncached.0) = stage.timed(&program, &turns)?;
        stage.run("/bin/cat", &["-q", &program])?;
        (_, self.uncached.1) = stage.timed(&program, &turns)?;
        (self.after, _) = stage.timed(&program, &turns)?;
        for order in ORDERS {
            self.begin(stage, order)?;
            let run = stage.run("/bin/patchlib", &[order, &format!("/lib/{order}.code")])?;
            // Any other code is a signal's or the program's complaint.
            let old = run.exit_code.filter(|n| *n <= FUNCTIONS);
            self.old_versions.insert(order, old);
        }
        Ok(())
    }

    fn begin(&mut self, stage: &mut Stage, act: &'static str) -> Result<(), String> {
        self.note(stage);
        self.act = Some(act);
        stage.act(act)
    }

    /// Notes what the act that is played has found by now.
    pub(super) fn note(&mut self, stage: &mut Stage) {
        let found = stage.findings();
        if let Some(act) = self.act {
            let all = self.verdicts.entry(act).or_default();
            found
                .into_iter()
                .for_each(|(kind, n)| *all.entry(kind).or_default() += n);
        }
    }
}

/// Tells the story under one policy.
///
/// # Errors
/// It ended early although nothing was found; says why.
pub fn tell(profile: &Arc<Profile>, policy: Policy, options: &Options) -> Result<Row, String> {
    let span = tracing::info_span!("story", policy = policy.name);
    let _entered = span.enter();
    let mut stage = Stage::new(profile.clone(), policy);
    let mut acts = Acts::new();
    let stopped = acts.play(&mut stage, options).err();
    acts.note(&mut stage);
    let cost = stage.world.state.machine.cost;
    let (before, after) = acts.uncached;
    let row = Row {
        policy: stage.world.policy.name.to_owned(),
        elapsed_before_s: acts.before,
        elapsed_after_s: acts.after,
        ratio: acts.after / acts.before,
        uncached_percent: BeforeAfter { before, after },
        cycles: by_class(&cost),
        verdicts: acts.verdicts,
        first: stage.world.observer.verdicts.first.first().map(in_words),
        old_versions: acts.old_versions,
        stopped,
        company: Vec::new(),
    };
    match &row.stopped {
        Some(why) if worst(&row).is_none() => Err(why.clone()),
        _ => Ok(row),
    }
}

fn in_words(v: &Verdict) -> String {
    let at = v.va.map_or(String::new(), |va| format!(" at {va}"));
    format!("{}{at}, {}: {}", v.kind.name(), v.during, v.because)
}

/// The worst kind a row found.
pub fn worst(row: &Row) -> Option<Kind> {
    let names = row.verdicts.values().flat_map(|v| v.keys());
    names
        .filter_map(|n| Kind::by_name(n))
        .filter(|k| *k != Kind::Permitted)
        .min()
}

fn by_class(cost: &Costs) -> BTreeMap<&'static str, u64> {
    machine::Class::ALL
        .iter()
        .map(|c| (c.name(), cost.of(*c)))
        .collect()
}
