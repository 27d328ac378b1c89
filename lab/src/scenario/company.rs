//! Company: a second process and the kernel's threads, which take turns before a story's acts, between its
//! programs and inside them.
//!
//! A switch to another process flushes the first-level caches and so may hide what a policy forgot; a
//! kernel thread under a lazy switch flushes nothing, and what it does to a page of the interrupted program
//! may show what an undisturbed run does not. [`visits`] measures both, one guest at a time and all
//! together, on the acts of seeds/001 (`sheevaplug.rs`). Turns are counted in instructions, so every policy
//! is visited at the same moments.
//!
//! Absent on purpose: guests inside the kernel's own operations (`lab::inject` and the explorer do that).

use std::collections::BTreeMap;
use std::sync::Arc;

use kern::{KernCtx, KernVerbs, Limits, Pid, RunEnd, Thread, Turn};
use machine::{Observer, Profile};
use pmap::Policy;
use serde::Serialize;

use super::sheevaplug::{self, ORDERS, Options};
use super::stage::Stage;
use crate::oracle::Kind;
use crate::system::CPU0;
use crate::world::World;

/// Instructions between two visits inside a program: fewer than lie between a write and the end of the
/// calls that follow it.
const VISIT_EVERY: u64 = 200;
/// Instructions of the second process's turn.
const VISIT: u64 = 200;
/// The second process: text all over the instruction cache, for longer than any story.
const SECOND: (&str, [&str; 3]) = ("/bin/big", ["big", "1", "4000000000"]);
/// Turns of the loop in a story that is told for its verdicts.
const TURNS: u32 = 500;
/// Instructions that a program of a story may take; one that executes old words may never end.
const BUDGET: u64 = 1 << 36;
/// The same in a story that is told for its verdicts, whose programs take a few ten thousand.
const VISITED_BUDGET: u64 = 1 << 16;

/// Somebody who takes a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guest {
    /// A second process.
    Process,
    /// A kernel thread, for one round.
    Thread(Thread),
}

impl Guest {
    /// All of them.
    pub const ALL: [Guest; 5] = [
        Guest::Process,
        Guest::Thread(Thread::Syncer),
        Guest::Thread(Thread::Bufdaemon),
        Guest::Thread(Thread::Pagedaemon),
        Guest::Thread(Thread::GUp),
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Guest::Process => "process",
            Guest::Thread(thread) => thread.name(),
        }
    }
}

/// When company comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before an act.
    Before,
    /// Before each program of an act.
    Between,
    /// While a program runs, every few instructions.
    Inside,
}

impl When {
    /// All three.
    pub const ALL: [When; 3] = [When::Before, When::Between, When::Inside];
}

/// Who comes, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Company {
    /// Who.
    pub guests: Vec<Guest>,
    /// When.
    pub moments: Vec<When>,
    /// Instructions that a program of the story may take.
    pub budget: u64,
    second: Option<Pid>,
}

impl Default for Company {
    fn default() -> Self {
        Self::new(&[], &[])
    }
}

impl Company {
    /// These guests at these moments.
    pub fn new(guests: &[Guest], moments: &[When]) -> Self {
        Self {
            guests: guests.to_vec(),
            moments: moments.to_vec(),
            budget: BUDGET,
            second: None,
        }
    }

    /// Starts the second process, if there is to be one.
    pub(super) fn arrive<O: Observer + Clone>(
        &mut self,
        world: &mut World<O>,
    ) -> Result<(), String> {
        if self.guests.contains(&Guest::Process) {
            let (path, argv) = SECOND;
            let spawned = world.spawn(CPU0, path, &argv, &[]);
            self.second = Some(spawned.map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    /// Every guest takes a turn, if this is a moment for it.
    pub(super) fn call<O: Observer + Clone>(
        &self,
        world: &mut World<O>,
        when: When,
    ) -> Result<(), String> {
        if !self.moments.contains(&when) {
            return Ok(());
        }
        for guest in &self.guests {
            match guest {
                Guest::Process => {
                    if let Some(pid) = self.second {
                        turn(world, pid, VISIT);
                    }
                }
                Guest::Thread(thread) => {
                    let done = world.run_thread(CPU0, *thread);
                    done.map_err(|stop| format!("{}: {stop:?}", thread.name()))?;
                }
            }
        }
        Ok(())
    }

    /// A program runs for so many instructions, and nobody else.
    pub(super) fn slice<O: Observer + Clone>(
        &self,
        world: &mut World<O>,
        pid: Pid,
        instructions: u64,
    ) -> RunEnd {
        match self.second {
            Some(_) => turn(world, pid, instructions),
            None => world.run(CPU0, Limits::instructions(instructions)),
        }
    }

    /// A program runs to its end, with company inside.
    pub(super) fn run<O: Observer + Clone>(
        &self,
        world: &mut World<O>,
        pid: Pid,
    ) -> Result<RunEnd, String> {
        let inside = self.moments.contains(&When::Inside) && !self.guests.is_empty();
        let every = match (inside, self.second) {
            (true, _) => VISIT_EVERY,
            (false, Some(_)) => 500 * VISIT_EVERY,
            (false, None) => self.budget,
        };
        let alive = |world: &World<O>| world.kern().find(pid).is_some_and(|p| p.is_alive());
        let mut left = self.budget;
        while left > 0 && alive(world) {
            let end = self.slice(world, pid, every.min(left));
            if end != RunEnd::Instructions {
                return Ok(end);
            }
            left = left.saturating_sub(every);
            if alive(world) {
                self.call(world, When::Inside)?;
            }
        }
        Ok(match left {
            0 => RunEnd::Instructions,
            _ => RunEnd::Exited,
        })
    }
}

/// The next turn is this process's.
fn turn<O: Observer + Clone>(world: &mut World<O>, pid: Pid, instructions: u64) -> RunEnd {
    world.kern_mut().sched.script = vec![Turn::Proc(pid, instructions)];
    world.run(CPU0, Limits::instructions(instructions))
}

/// What a story came to with some company.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Visit {
    /// Who came, before, between and inside the acts; `nobody` for the story by itself, `all` for all.
    pub company: &'static str,
    /// Old versions that the write act's program saw, by order; nothing if it did not end.
    pub old_versions: BTreeMap<&'static str, Option<u32>>,
    /// Findings by act.
    pub verdicts: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Why the story ended before its time.
    pub stopped: Option<String>,
    /// What the company did to what nobody's company finds.
    pub effect: Effect,
}

/// What company did to the findings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The same old versions and kinds of findings.
    Same,
    /// Fewer.
    Hid,
    /// More.
    Showed,
    /// Fewer here, more there.
    HidAndShowed,
}

impl Visit {
    /// Whether nothing was found.
    pub fn clean(&self) -> bool {
        let old = self.old_versions.values().any(|n| *n != Some(0));
        !old && self.stopped.is_none() && self.kinds().is_empty()
    }

    /// Acts and the kinds found in them.
    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        let permitted = Kind::Permitted.name();
        let acts = self.verdicts.iter();
        acts.flat_map(|(act, found)| found.keys().map(|kind| (*act, *kind)))
            .filter(|(_, kind)| *kind != permitted)
            .collect()
    }

    fn against(&self, alone: &Visit) -> Effect {
        let more = |a: &Visit, b: &Visit| {
            let old = |v: &Visit, order| v.old_versions.get(order).copied().flatten();
            let other = b.kinds();
            ORDERS.iter().any(|order| old(a, order) > old(b, order))
                || a.kinds().iter().any(|k| !other.contains(k))
        };
        match (more(alone, self), more(self, alone)) {
            (false, false) => Effect::Same,
            (true, false) => Effect::Hid,
            (false, true) => Effect::Showed,
            (true, true) => Effect::HidAndShowed,
        }
    }
}

/// The story by itself, with each guest, and with all of them.
pub fn visits(profile: &Arc<Profile>, policy: &Policy) -> Vec<Visit> {
    let mut visits = vec![visit(profile, policy, "nobody", &[])];
    for guest in Guest::ALL {
        visits.push(visit(profile, policy, guest.name(), &[guest]));
    }
    visits.push(visit(profile, policy, "all", &Guest::ALL));
    let alone = visits[0].clone();
    for visit in &mut visits {
        visit.effect = visit.against(&alone);
    }
    visits
}

/// One telling, for its verdicts.
fn visit(profile: &Arc<Profile>, policy: &Policy, name: &'static str, guests: &[Guest]) -> Visit {
    let options = Options {
        turns: TURNS,
        company: Company {
            budget: VISITED_BUDGET,
            ..Company::new(guests, &When::ALL)
        },
        ..Options::default()
    };
    let mut stage = Stage::new(profile.clone(), policy.clone());
    let mut acts = sheevaplug::Acts::new();
    let told = acts.play(&mut stage, &options);
    acts.note(&mut stage);
    Visit {
        company: name,
        old_versions: acts.old_versions,
        verdicts: acts.verdicts,
        stopped: told.err(),
        effect: Effect::Same,
    }
}
