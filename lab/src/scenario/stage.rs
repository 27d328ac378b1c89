//! A booted machine on which the acts of a story are played, with company or without.

use std::collections::BTreeMap;
use std::sync::Arc;

use kern::{KernCtx, KernVerbs, Limits, RunEnd};
use machine::Profile;
use pmap::{Policy, PvFlags};
use vfs_sim::{VfsConfig, VfsVerbs};

use super::company::{Company, When};
use crate::guests;
use crate::oracle::{Kind, Oracle, Verdicts};
use crate::system::{self, CPU0, ProgramRun, Start};
use crate::world::World;

/// Instructions after which a program's first pages are faulted in.
const FAULTED_IN: u64 = 300;

/// A booted machine on which acts are played.
pub struct Stage {
    /// Its world.
    pub world: World<Oracle>,
    company: Company,
    told: Verdicts,
}

impl Stage {
    /// Boots a machine with a code file for each order of the write act.
    pub fn new(profile: Arc<Profile>, policy: Policy) -> Self {
        Self::with(profile, policy, |_| {})
    }

    /// The same, with the file layer configured by the caller.
    pub fn with(
        profile: Arc<Profile>,
        policy: Policy,
        configure: impl FnOnce(&mut VfsConfig),
    ) -> Self {
        let mut state = system::boot(profile, configure);
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
            company: Company::default(),
            told: Verdicts::default(),
        }
    }

    /// Invites company; a second process among it is started.
    ///
    /// # Errors
    /// The second process cannot be executed.
    pub fn invite(&mut self, company: Company) -> Result<(), String> {
        self.company = company;
        self.company.arrive(&mut self.world)
    }

    /// Names what follows in reports; company comes before it.
    ///
    /// # Errors
    /// The kernel panicked under it.
    pub fn act(&mut self, name: &str) -> Result<(), String> {
        self.world.observer.set_context(name);
        self.company.call(&mut self.world, When::Before)
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
        self.company.call(&mut self.world, When::Between)?;
        let environment = system::ENVIRONMENT;
        let start = Start {
            path,
            args,
            environment,
        };
        let started = system::start(&mut self.world, &start).map_err(|e| e.to_string())?;
        let end = self.company.run(&mut self.world, started.pid())?;
        Ok(started.finish(&self.world, end))
    }

    /// Runs a program that prints how long its loop took; returns that, seconds, and the share of its
    /// resident text pages that are uncached when it starts, percent.
    ///
    /// # Errors
    /// It cannot be executed, or did not print a time.
    pub fn timed(&mut self, path: &str, turns: &str) -> Result<(f64, f64), String> {
        self.company.call(&mut self.world, When::Between)?;
        let captured = self.world.kern().stdout.len();
        let name = path.rsplit('/').next().unwrap_or(path);
        let spawned = self.world.spawn(CPU0, path, &[name, turns], &[]);
        let pid = spawned.map_err(|e| e.to_string())?;
        // The first instructions fault the text in; then its entries can be looked at.
        self.company.slice(&mut self.world, pid, FAULTED_IN);
        let uncached = share(self.uncached_pages()).unwrap_or(0.0);
        let end = self.company.run(&mut self.world, pid)?;
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
        let share = share(self.uncached_pages());
        if self.world.kern().find(pid).is_some() {
            self.world.run(CPU0, Limits::instructions(1 << 34));
        }
        share.ok_or_else(|| format!("{path} ended before its text could be looked at"))
    }

    /// Runs a program to its end, looking at its mappings now and then; returns the most text pages that
    /// it had mapped uncached.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn most_uncached(&mut self, path: &str, args: &[&str]) -> Result<u32, String> {
        const LOOK_EVERY: u64 = 20_000;
        let mut argv = vec![path];
        argv.extend(args);
        let spawned = self.world.spawn(CPU0, path, &argv, &[]);
        spawned.map_err(|e| e.to_string())?;
        let mut most = 0;
        loop {
            let end = self.world.run(CPU0, Limits::instructions(LOOK_EVERY));
            if end != RunEnd::Instructions {
                return Ok(most);
            }
            most = most.max(self.uncached_pages().1);
        }
    }

    /// The text pages that the running process maps, and those among them whose entry is uncached.
    fn uncached_pages(&self) -> (u32, u32) {
        let pmap = &self.world.state.pmap;
        let Some(space) = pmap.cpus[0].live else {
            return (0, 0);
        };
        let text = (0..pmap.frames_known())
            .flat_map(|n| pmap.mappings(machine::Frame(n)))
            .filter(|m| m.space == space && m.flags.contains(PvFlags::EXEC) && m.pte.valid());
        let (mut all, mut uncached) = (0, 0);
        for mapping in text.filter(|m| !m.flags.contains(PvFlags::WRITE)) {
            all += 1;
            uncached += u32::from(!mapping.pte.cacheable());
        }
        (all, uncached)
    }

    /// Buffers of every file are recycled, as when other files are read.
    pub fn recycle_buffers(&mut self) -> u32 {
        self.world.buf_recycle(CPU0, None)
    }
}

/// The share of uncached pages, percent; nothing of nothing.
fn share((all, uncached): (u32, u32)) -> Option<f64> {
    (all > 0).then(|| 100.0 * f64::from(uncached) / f64::from(all))
}
