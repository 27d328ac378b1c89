//! Which mutants a policy has: one for each way to get one of its steps wrong.
//!
//! A plan's step is known by the hook and its name, as the policy was seen to plan it on cases and on random
//! sequences; only fixed scripts (zero, copy) do one thing twice, and there each counts by itself.
//!
//! 1. Dropped: every step, every part of a skeleton, every kind of micro-step of a routine.
//! 2. Narrowed by a line at either end: every range. Widened: ranges that discard; a wider write-back is only
//!    slower.
//! 3. The data side only where both were meant, the instruction side only, and the one for the other.
//! 4. Late: what comes before a page-table entry's store is done after it, and the store after what follows it.
//! 5. Early: a flag that follows the store.
//! 6. A skeleton's neighbours swapped, where somebody can see the order: two stores of bookkeeping, or
//!    bookkeeping and a store that asks nobody, have none.

use std::collections::BTreeMap;

use machine::{Hw, VirtAddr};
use pmap::edit::{
    Change, Edit, Moment, PartChange, PlanEdit, RoutineEdit, RoutineName, SkeletonEdit, Spot,
    StepKind, VerbParts, Which, call_routine,
};
use pmap::hook::Verb;
use pmap::plan::{Do, PlanStep};
use pmap::skeleton::Part;
use pmap::{Policy, routine};

use super::Campaign;
use super::bench::Bench;
use crate::decide::moments;
use crate::journal::{Detail, Entry};
use crate::op::CPU0;

/// A mutant: how a policy is changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// Its name, the edit as text; ranges count in lines.
    pub name: String,
    /// Whether it only drops something.
    pub drops: bool,
    change: Mutation,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Mutation {
    Edit(Edit),
    /// So many lines narrower at the start and the end.
    Lines(Moment, Which, i32, i32),
}

impl Mutant {
    fn of(edit: Edit) -> Self {
        let drops = matches!(
            edit,
            Edit::Plan(PlanEdit {
                change: Change::Drop(_),
                ..
            }) | Edit::Routine(_)
                | Edit::Skeleton(SkeletonEdit {
                    change: PartChange::Drop(_),
                    ..
                })
        );
        Self {
            name: edit.to_string(),
            drops,
            change: Mutation::Edit(edit),
        }
    }

    fn lines(at: Moment, which: Which, start: i32, end: i32) -> Self {
        let change = Change::Narrow { which, start, end };
        let name = Edit::Plan(PlanEdit { at, change }).to_string();
        Self {
            name: name
                .replace("start 1 ", "start line ")
                .replace("end 1 ", "end line "),
            drops: false,
            change: Mutation::Lines(at, which, start, end),
        }
    }

    /// Whether both are about one kind of step: the second edit would not find what the first one changed.
    pub fn same_step(&self, other: &Mutant) -> bool {
        match (self.step(), other.step()) {
            (Some(mine), Some(others)) => mine == others,
            _ => self.name == other.name,
        }
    }

    fn step(&self) -> Option<(Moment, Option<&'static str>)> {
        match self.change {
            Mutation::Lines(at, which, ..) => Some((at, which.name)),
            Mutation::Edit(Edit::Plan(PlanEdit { at, change })) => Some((at, change.which()?.name)),
            Mutation::Edit(_) => None,
        }
    }

    /// Whether it is about lines of a page.
    pub fn needs_lines(&self) -> bool {
        matches!(self.change, Mutation::Lines(..))
    }

    /// Whether it does less than its base, or another thing in its place: what is dearer then was there for speed.
    pub fn does_less(&self) -> bool {
        match self.change {
            Mutation::Edit(Edit::Plan(PlanEdit { change, .. })) => {
                self.drops || matches!(change, Change::Replace(..))
            }
            Mutation::Edit(_) => self.drops,
            Mutation::Lines(_, _, start, end) => start >= 0 && end >= 0,
        }
    }

    /// Whether it is about a step for the second level.
    pub fn is_second_level(&self) -> bool {
        let step = self.step().and_then(|(_, name)| name);
        step.is_some_and(|name| name.starts_with("l2cache"))
    }

    /// The edit on a machine with lines of so many bytes.
    pub fn edit(&self, line: u32) -> Edit {
        match self.change {
            Mutation::Edit(edit) => edit,
            Mutation::Lines(at, which, start, end) => {
                let bytes = line as i32;
                let (start, end) = (start * bytes, end * bytes);
                let change = Change::Narrow { which, start, end };
                Edit::Plan(PlanEdit { at, change })
            }
        }
    }
}

/// What was seen of one kind of step at one kind of hook.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Moment,
    what: Do,
    ranged: bool,
    /// Most steps of the name in one plan.
    count: u32,
    /// It was seen before or behind a store of a page-table entry.
    early: bool,
    late: bool,
}

type AllSeen = BTreeMap<(String, &'static str), Seen>;

fn is_entry(step: &PlanStep) -> bool {
    matches!(step.what, Do::PteCache(_))
}

fn look(seen: &mut AllSeen, entries: impl Iterator<Item = Entry>) {
    for moment in moments(entries) {
        let at = Moment::of(&moment.hook);
        let steps = &moment.steps;
        let first = steps.iter().position(is_entry);
        let last = steps.iter().rposition(is_entry);
        for (n, step) in steps.iter().enumerate() {
            let name = step.what.name();
            let entry = seen.entry((at.to_string(), name)).or_insert(Seen {
                at,
                what: step.what,
                ranged: false,
                count: 0,
                early: false,
                late: false,
            });
            entry.ranged |= step.len > 0;
            entry.early |= last.is_some_and(|last| n < last);
            entry.late |= first.is_some_and(|first| n > first);
            let same = steps.iter().filter(|s| s.what.name() == name);
            entry.count = entry.count.max(same.count() as u32);
        }
    }
}

/// Every mutant of the campaign's policy, in a fixed order.
pub fn mutants(campaign: &mut Campaign) -> Vec<Mutant> {
    let mut seen = AllSeen::new();
    let mut kinds: BTreeMap<(RoutineName, StepKind), ()> = BTreeMap::new();
    let base = campaign.base.clone();
    for input in &campaign.inputs {
        let bench = &mut campaign.benches[input.machine];
        bench.journal(Detail::Plans);
        let mut entries = Vec::new();
        bench.run(&base, &input.moves, |world| {
            entries.extend(world.journal.take());
            true
        });
        look(&mut seen, entries.into_iter().map(|(_, e)| e));
        bench.journal(Detail::Off);
    }
    for case in &campaign.cases {
        for step in &case.row.steps {
            look(&mut seen, step.journal.iter().cloned());
        }
    }
    for bench in &campaign.benches {
        for seen in seen.values() {
            for kind in routine_kinds(bench, seen.what) {
                kinds.insert(kind, ());
            }
        }
        for kind in sync_kinds(bench) {
            kinds.insert(kind, ());
        }
    }
    let mut out: Vec<Mutant> = seen.values().flat_map(of_step).collect();
    out.extend(of_skeleton(&base, &seen));
    out.extend(
        kinds
            .into_keys()
            .map(|(routine, drop)| Mutant::of(Edit::Routine(RoutineEdit { routine, drop }))),
    );
    out
}

fn routine_kinds(bench: &Bench, what: Do) -> Vec<(RoutineName, StepKind)> {
    let Some(name) = RoutineName::of(what) else {
        return Vec::new();
    };
    let mut world = bench.start().clone();
    world.journal.detail = Detail::Steps;
    let line = bench.line();
    call_routine(&mut world, CPU0, what, VirtAddr(0), line);
    let steps = world.journal.take().into_iter();
    steps
        .filter_map(|(_, e)| kind(&e))
        .map(|k| (name, k))
        .collect()
}

fn sync_kinds(bench: &Bench) -> Vec<(RoutineName, StepKind)> {
    let mut world = bench.start().clone();
    if matches!(
        world.hw().profile().table,
        machine::profile::TableProfile::Flat { .. }
    ) {
        return Vec::new();
    }
    world.journal.detail = Detail::Steps;
    let tables = world.state.pmap.layout.tables.0;
    routine::pte_sync(&mut world, CPU0, tables);
    let steps = world.journal.take().into_iter();
    let kinds = steps.filter_map(|(_, e)| kind(&e));
    kinds.map(|k| (RoutineName::PteSync, k)).collect()
}

fn kind(entry: &Entry) -> Option<StepKind> {
    match entry {
        Entry::Step(step) => StepKind::of(step),
        _ => None,
    }
}

fn of_step(seen: &Seen) -> Vec<Mutant> {
    let name = seen.what.name();
    let script = matches!(seen.at, Moment::Zero | Moment::Copy);
    let which: Vec<Which> = match script && seen.count > 1 {
        true => (0..seen.count).map(|n| Which::nth(name, n)).collect(),
        false => vec![Which::all(name)],
    };
    let mut out = Vec::new();
    for which in which {
        let mut push = |change| {
            let at = seen.at;
            out.push(Mutant::of(Edit::Plan(PlanEdit { at, change })));
        };
        push(Change::Drop(which));
        others(seen.what)
            .iter()
            .for_each(|what| push(Change::Replace(which, *what)));
        let entry = is_entry(&PlanStep {
            what: seen.what,
            space: pmap::SpaceId::KERNEL,
            va: VirtAddr(0),
            len: 0,
        });
        let flags = matches!(seen.what, Do::Flags { .. });
        if entry && seen.early {
            push(Change::Move(which, Spot::Last));
        }
        if !entry && !flags && seen.early {
            push(Change::Move(which, Spot::Last));
        }
        if flags && seen.late && !seen.early {
            push(Change::Move(which, Spot::First));
        }
        if seen.ranged && seen.what.is_maintenance() && !seen.what.is_tlb() {
            out.push(Mutant::lines(seen.at, which, 1, 0));
            out.push(Mutant::lines(seen.at, which, 0, 1));
            if discards(seen.what) {
                out.push(Mutant::lines(seen.at, which, -1, 0));
                out.push(Mutant::lines(seen.at, which, 0, -1));
            }
        }
    }
    out
}

fn discards(what: Do) -> bool {
    use machine::LineOp::Invalidate;
    matches!(what, Do::Dcache(Invalidate) | Do::L2(Invalidate))
}

/// One side where both were meant, and the other side.
fn others(what: Do) -> &'static [Do] {
    use machine::LineOp::{Clean, CleanInvalidate};
    match what {
        Do::Idcache => &[Do::Dcache(CleanInvalidate), Do::Icache],
        Do::IdcacheAll => &[Do::DcacheAll(CleanInvalidate), Do::IcacheAll],
        Do::IcacheSync => &[Do::Dcache(Clean), Do::Icache],
        Do::Dcache(_) => &[Do::Icache],
        Do::DcacheAll(_) => &[Do::IcacheAll],
        Do::Icache => &[Do::Dcache(Clean)],
        Do::IcacheAll => &[Do::DcacheAll(Clean)],
        Do::TlbId => &[Do::TlbD],
        _ => &[],
    }
}

/// Whether a part that only asks is ever answered with a step; else it is no part of this policy.
fn answered(verb: VerbParts, part: Part, seen: &AllSeen) -> bool {
    let at = |verb: &Verb| match part {
        Part::WillStore => Some(Moment::WillStore(Some(*verb))),
        Part::Stored => Some(Moment::Stored(Some(*verb))),
        Part::Entered => Some(Moment::Entered),
        Part::WillLeave => Some(Moment::WillLeave(Some(*verb))),
        Part::Gone => Some(Moment::Gone(Some(*verb))),
        _ => None,
    };
    let planned = |at: Moment| seen.values().any(|seen| seen.at == at);
    verb.verbs().iter().any(|verb| at(verb).is_none_or(planned))
}

fn of_skeleton(policy: &Policy, seen: &AllSeen) -> Vec<Mutant> {
    let mut skeleton = policy.skeleton.clone();
    let mut out = Vec::new();
    for verb in VerbParts::all() {
        let parts = verb.parts_mut(&mut skeleton).iter().copied();
        let parts: Vec<Part> = parts.filter(|part| answered(verb, *part, seen)).collect();
        let mut push = |change| out.push(Mutant::of(Edit::Skeleton(SkeletonEdit { verb, change })));
        parts.iter().for_each(|part| push(PartChange::Drop(*part)));
        for pair in parts.windows(2) {
            if order_shows(pair[0], pair[1]) {
                push(PartChange::MoveAfter(pair[0], pair[1]));
            }
        }
    }
    out
}

/// What a part does: asks the rule, stores what the walk sees, or only keeps books.
#[derive(PartialEq)]
enum Does {
    Asks,
    Stores,
    Keeps,
}

fn order_shows(a: Part, b: Part) -> bool {
    let does = |part| match part {
        Part::Track | Part::Unlink | Part::Reflag => Does::Keeps,
        Part::Store | Part::Zero | Part::Break | Part::Sync | Part::FixSlot => Does::Stores,
        _ => Does::Asks,
    };
    let slots = [a, b].contains(&Part::FixSlot) && does(a) == does(b);
    match (does(a), does(b)) {
        (Does::Asks, _) | (_, Does::Asks) => true,
        (Does::Stores, Does::Stores) => !slots,
        _ => false,
    }
}
