//! What the journal says was done at each hook, taken apart by mapping.

use std::collections::{BTreeMap, BTreeSet};

use machine::VirtAddr;
use pmap::hook::Hook;
use pmap::plan::{Do, PlanStep};
use pmap::{PmapCtx, SpaceId};

use super::mapping::{self, Bench};
use super::{Outcomes, Point};
use crate::journal::Entry;

/// What was seen so far; a point may have been seen with several outcomes.
#[derive(Default)]
pub struct Record {
    mappings: BTreeMap<Point, BTreeSet<String>>,
    whole: BTreeMap<Point, BTreeSet<String>>,
}

/// A moment at which the rule was asked, and its plan.
pub(crate) struct Moment {
    pub(crate) hook: Hook,
    left: usize,
    pub(crate) steps: Vec<PlanStep>,
}

impl Record {
    /// Takes what a verb did. `about` is the number of the mapping it was called for.
    pub fn take(&mut self, bench: &mut Bench, about: Option<usize>) {
        let entries = bench.world.journal.take();
        for moment in moments(entries.into_iter().map(|(_, e)| e)) {
            self.note(bench, about, &moment);
        }
    }

    fn note(&mut self, bench: &Bench, about: Option<usize>, moment: &Moment) {
        let hook = hook_name(&moment.hook);
        let mut whole = Vec::new();
        let mut own: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for step in &moment.steps {
            let subject = |n: &usize| {
                let space = bench.ways[*n].0.space();
                (space, bench.va(*n)) == (step.space, step.va)
            };
            match (0..bench.ways.len()).find(subject) {
                Some(n) if !is_whole(step) => push(own.entry(n).or_default(), bench, step),
                _ => push(&mut whole, bench, step),
            }
        }
        for (n, steps) in own.into_iter().filter(|(_, s)| !s.is_empty()) {
            let role = match about {
                Some(m) if m == n => "it",
                Some(_) => "another",
                None => "each",
            };
            let point = vec![
                hook.clone(),
                role.to_owned(),
                standing(bench, n).to_owned(),
                mapping::rights(bench.ways[n]),
            ];
            let seen = self.mappings.entry(point).or_default();
            seen.insert(steps.join(" "));
        }
        if !whole.is_empty() {
            let seen = self.whole.entry(vec![hook]).or_default();
            seen.insert(whole.join(" "));
        }
    }

    /// The two sections.
    pub fn outcomes(self) -> (Outcomes, Outcomes) {
        let joined = |seen: BTreeMap<Point, BTreeSet<String>>| {
            let one = |(point, all): (Point, BTreeSet<String>)| {
                let all: Vec<String> = all.into_iter().collect();
                (point, all.join(" / "))
            };
            seen.into_iter().map(one).collect()
        };
        (joined(self.mappings), joined(self.whole))
    }
}

/// Plans nest: a step may make the pmap ask again before the next step of the outer plan.
pub(crate) fn moments(entries: impl Iterator<Item = Entry>) -> Vec<Moment> {
    let mut open: Vec<Moment> = Vec::new();
    let mut done = Vec::new();
    for entry in entries {
        match entry {
            Entry::Asked(hook, left) => open.push(Moment {
                hook,
                left,
                steps: Vec::new(),
            }),
            Entry::Planned(step) => {
                while open.last().is_some_and(|m| m.left == 0) {
                    done.extend(open.pop());
                }
                if let Some(moment) = open.last_mut() {
                    moment.left -= 1;
                    moment.steps.push(step);
                }
            }
            _ => {}
        }
    }
    done.extend(open);
    done
}

fn is_whole(step: &PlanStep) -> bool {
    step.space == SpaceId::KERNEL && step.va == VirtAddr(0) && step.len == 0
}

/// Adds a step's name; the second level's part of a range operation is a suffix, flags are seen elsewhere.
fn push(steps: &mut Vec<String>, bench: &Bench, step: &PlanStep) {
    let page = bench.world.pmap().layout.page;
    let range = match step.len {
        0 => String::new(),
        n if n == page => String::new(),
        n => format!("[{n}]"),
    };
    match (step.what, steps.last_mut()) {
        (Do::Flags { .. }, _) => {}
        (Do::L2(_), Some(last)) if !last.ends_with("+l2") => last.push_str("+l2"),
        _ => steps.push(format!("{}{range}", step.what.name())),
    }
}

/// How a mapping's space stands to the CPU.
fn standing(bench: &Bench, n: usize) -> &'static str {
    let space = bench.ways[n].0.space();
    let cpu = bench.world.pmap().cpus[0];
    if space.is_kernel() {
        "kernel"
    } else if cpu.current == Some(space) {
        "current"
    } else if cpu.live == Some(space) {
        "live only"
    } else {
        "away"
    }
}

/// A hook's name, without the values that no table needs.
pub fn hook_name(hook: &Hook) -> String {
    match hook {
        Hook::WillStore { verb, .. } => format!("WillStore {verb:?}"),
        Hook::Stored { verb, .. } => format!("Stored {verb:?}"),
        Hook::WillLeave { verb, nth } => format!("WillLeave {verb:?} {}", nth + 1),
        Hook::Gone { verb, nth } => format!("Gone {verb:?} {}", nth + 1),
        Hook::Fault(access) => format!("Fault {access:?}"),
        Hook::Begins { verb, .. } => format!("Begins {verb:?}"),
        Hook::Ends { verb, pages, .. } => format!("Ends {verb:?} of {pages}"),
        Hook::Page(verb) => format!("Page {verb:?}"),
        Hook::Fixed(access) => format!("Fixed {access:?}"),
        Hook::Will(what, ..) => format!("Will {what:?}"),
        Hook::Did(what, ..) => format!("Did {what:?}"),
        Hook::Dma(op, ..) => format!("Dma {op:?}"),
        Hook::Buffer(event, _) => format!("Buffer {event:?}").replace(": ", "="),
        Hook::Switch { lazy, same, .. } => match (lazy, same) {
            (true, _) => "Switch to a thread".to_owned(),
            (_, true) => "Switch to the live space".to_owned(),
            _ => "Switch to another space".to_owned(),
        },
        _ => {
            let debug = format!("{hook:?}");
            let end = debug.find(['(', ' ', '{']).unwrap_or(debug.len());
            debug[..end].to_owned()
        }
    }
}
