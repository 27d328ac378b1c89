//! The SheevaPlug story (seeds/001), two acts on one booted machine.
//!
//! Read act: a program runs twice, `cat` reads its file, it runs twice again; a policy that uncaches a page
//! while the buffer cache keeps a writable mapping makes the second pair slow. Write act: a program maps a
//! code file, calls it, overwrites it by one write(2), and calls it again, with the file's pages mapped
//! before they were ever read, and after; a policy that forgets a cache operation makes it execute old
//! words.

use std::sync::Arc;

use kern::{KernCtx, KernVerbs, Limits};
use machine::{Costs, Profile};
use pmap::{Policy, PvFlags};
use serde::Serialize;
use std::collections::BTreeMap;
use vfs_sim::VfsVerbs;

use crate::guests;
use crate::oracle::{Kind, Oracle, Verdicts};
use crate::system::{self, CPU0, ProgramRun};
use crate::world::World;

/// Turns of the loop by default; the seed's 0.78 s takes [`FULL_TURNS`].
pub const TURNS: u32 = 200_000;
/// Turns that take about the seed's 0.78 s on the cached machine.
pub const FULL_TURNS: u32 = 104_000_000;
/// The seed's ratio, 10.09 s to 0.78 s.
pub const SEED_RATIO: f64 = 10.090_336 / 0.782_453;

/// Instructions after which a program's first pages are faulted in.
const FAULTED_IN: u64 = 300;

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
    /// What the program's second run printed before `cat`, seconds.
    pub elapsed_before_s: f64,
    /// What its second run printed after `cat`, seconds.
    pub elapsed_after_s: f64,
    /// After over before.
    pub ratio: f64,
    /// Share of the program's resident text pages whose entry is uncached when the run starts, percent.
    pub uncached_percent: BeforeAfter,
    /// Cycles of the whole story by class.
    pub cycles: BTreeMap<&'static str, u64>,
    /// Findings by act.
    pub verdicts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Old versions that the write act's program saw, by order.
    pub old_versions: BTreeMap<&'static str, Option<u32>>,
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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            turns: TURNS,
            program: "testsimple",
            footprint: true,
        }
    }
}

/// Tells the story under one policy.
///
/// # Errors
/// A program could not be run to its end; says which.
pub fn tell(profile: &Arc<Profile>, policy: Policy, options: &Options) -> Result<Row, String> {
    let span = tracing::info_span!("story", policy = policy.name);
    let _entered = span.enter();
    let mut stage = Stage::new(profile.clone(), policy);
    if !options.footprint {
        stage.world.state.kern.config.footprints = kern::Footprints::default();
    }
    let program = format!("/bin/{}", options.program);
    let turns = options.turns.to_string();
    stage.act("read act");
    stage.timed(&program, &turns)?;
    let (before, cold) = stage.timed(&program, &turns)?;
    stage.run("/bin/cat", &["-q", &program])?;
    let (_, warm) = stage.timed(&program, &turns)?;
    let (after, _) = stage.timed(&program, &turns)?;
    let mut verdicts = BTreeMap::from([("read", stage.findings())]);
    let mut old_versions = BTreeMap::new();
    for order in ["map-first", "read-first"] {
        stage.act(order);
        let run = stage.run("/bin/patchlib", &[order, &format!("/lib/{order}.code")])?;
        old_versions.insert(order, run.exit_code);
        verdicts.insert(order, stage.findings());
    }
    let cost = stage.world.state.machine.cost;
    Ok(Row {
        policy: stage.world.policy.name.to_owned(),
        elapsed_before_s: before,
        elapsed_after_s: after,
        ratio: after / before,
        uncached_percent: BeforeAfter {
            before: cold,
            after: warm,
        },
        cycles: by_class(&cost),
        verdicts,
        old_versions,
    })
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

/// A booted machine on which acts are played.
pub struct Stage {
    /// Its world.
    pub world: World<Oracle>,
    told: Verdicts,
}

impl Stage {
    /// Boots a machine with a code file for each order of the write act.
    pub fn new(profile: Arc<Profile>, policy: Policy) -> Self {
        let mut state = system::boot(profile, |_| {});
        let code = guests::by_name("patchlib.code")
            .expect("it comes with the project")
            .bytes;
        for order in ["map-first", "read-first"] {
            let added = state.vfs.fs_add_file(&format!("/lib/{order}.code"), code);
            added.expect("an empty disk has room for a page");
        }
        let oracle = system::oracle(&state);
        Self {
            world: system::world(state, policy, oracle),
            told: Verdicts::default(),
        }
    }

    /// Names what follows in reports.
    pub fn act(&mut self, name: &str) {
        self.world.observer.set_context(name);
    }

    /// Findings since the last call.
    pub fn findings(&mut self) -> BTreeMap<&'static str, u64> {
        let now = self.world.observer.verdicts.clone();
        let fresh = |(kind, count): (&Kind, &u64)| {
            let new = count - self.told.of(*kind);
            (new > 0).then(|| (kind.name(), new))
        };
        let out = now.counts().iter().filter_map(fresh).collect();
        self.told = now;
        out
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn run(&mut self, path: &str, args: &[&str]) -> Result<ProgramRun, String> {
        let limits = Limits::instructions(1 << 34);
        system::run(&mut self.world, path, args, limits).map_err(|e| e.to_string())
    }

    /// Runs a program that prints how long its loop took; returns that, seconds, and the share of its
    /// resident text pages that are uncached when it starts, percent.
    ///
    /// # Errors
    /// It cannot be executed, or did not print a time.
    pub fn timed(&mut self, path: &str, turns: &str) -> Result<(f64, f64), String> {
        let captured = self.world.kern().stdout.len();
        let name = path.rsplit('/').next().unwrap_or(path);
        let spawned = self.world.spawn(CPU0, path, &[name, turns], &[]);
        spawned.map_err(|e| e.to_string())?;
        // The first instructions fault the text in; then its entries can be looked at.
        self.world.run(CPU0, Limits::instructions(FAULTED_IN));
        let uncached = self.uncached_share().unwrap_or(0.0);
        let end = self.world.run(CPU0, Limits::instructions(1 << 36));
        let out = String::from_utf8_lossy(&self.world.kern().stdout[captured..]).into_owned();
        let printed = out
            .split("Elapsed ")
            .nth(1)
            .and_then(|t| t.trim().parse().ok());
        let seconds =
            printed.ok_or_else(|| format!("{path} ended ({end}) without a time: {out:?}"))?;
        Ok((seconds, uncached))
    }

    /// Runs a program until its text is faulted in and ends it; returns the share of its mapped text pages
    /// that are uncached, percent.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn share_after(&mut self, path: &str) -> Result<f64, String> {
        let pid = self
            .world
            .spawn(CPU0, path, &[path], &[])
            .map_err(|e| e.to_string())?;
        self.world.run(CPU0, Limits::instructions(20_000));
        let share = self.uncached_share();
        if self.world.kern().find(pid).is_some() {
            self.world.run(CPU0, Limits::instructions(1 << 34));
        }
        share.ok_or_else(|| format!("{path} ended before its text could be looked at"))
    }

    /// Of the text pages that the running process maps, the share whose entry is uncached, percent.
    fn uncached_share(&self) -> Option<f64> {
        let pmap = &self.world.state.pmap;
        let space = pmap.cpus[0].live?;
        let text = (0..pmap.frames_known())
            .flat_map(|n| pmap.mappings(machine::Frame(n)))
            .filter(|m| m.space == space && m.flags.contains(PvFlags::EXEC) && m.pte.valid());
        let (mut all, mut uncached) = (0u32, 0u32);
        for mapping in text.filter(|m| !m.flags.contains(PvFlags::WRITE)) {
            all += 1;
            uncached += u32::from(!mapping.pte.cacheable());
        }
        (all > 0).then(|| 100.0 * f64::from(uncached) / f64::from(all))
    }

    /// Buffers of every file are recycled, as when other files are read.
    pub fn recycle_buffers(&mut self) -> u32 {
        self.world.buf_recycle(CPU0, None)
    }
}
