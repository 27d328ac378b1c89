//! Edits as text, one line each, and back.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::condition::CONDITIONS;
use super::plan::Spot;
use super::routine::{KINDS, ROUTINES};
use super::skeleton::{PARTS, VERBS};
use super::{
    Change, ConditionEdit, Edit, Moment, PartChange, PlanEdit, RoutineEdit, SkeletonEdit, Target,
    Which,
};
use crate::plan::Do;

impl Display for Edit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Edit::Plan(edit) => edit.fmt(f),
            Edit::Skeleton(edit) => edit.fmt(f),
            Edit::Condition(edit) => edit.fmt(f),
            Edit::Routine(edit) => edit.fmt(f),
        }
    }
}

impl Display for PlanEdit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.change {
            Change::Drop(which) => write!(f, "drop {which}")?,
            Change::Move(which, spot) => write!(f, "move {which} {spot}")?,
            Change::Replace(which, what) => write!(f, "replace {which} with {}", what.name())?,
            Change::Narrow { which, start, end } => narrow(f, which, start, end)?,
            Change::Insert(what, target, spot) => {
                write!(f, "insert {} {target} {spot}", what.name())?;
            }
        }
        write!(f, " at {}", self.at)
    }
}

fn narrow(f: &mut Formatter<'_>, which: Which, start: i32, end: i32) -> fmt::Result {
    let grows = start < 0 || end < 0;
    let (verb, sign) = if grows { ("widen", -1) } else { ("narrow", 1) };
    write!(f, "{verb} {which}")?;
    if start != 0 {
        write!(f, " start {}", start * sign)?;
    }
    if end != 0 || start == 0 {
        write!(f, " end {}", end * sign)?;
    }
    Ok(())
}

impl Display for Which {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.unwrap_or("*"))?;
        self.nth.map_or(Ok(()), |n| write!(f, "#{n}"))
    }
}

impl Display for Spot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Spot::First => f.write_str("first"),
            Spot::Last => f.write_str("last"),
            Spot::Before(name) => write!(f, "before {name}"),
            Spot::After(name) => write!(f, "after {name}"),
        }
    }
}

const TARGETS: &[(Target, &str)] = &[
    (Target::Subject, "subject"),
    (Target::Mappings, "mappings"),
    (Target::Others, "others"),
    (Target::Whole, "whole"),
];

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(name(TARGETS, self))
    }
}

impl Display for SkeletonEdit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let part = |p| name(PARTS, p);
        write!(f, "skeleton {} ", name(VERBS, &self.verb))?;
        match &self.change {
            PartChange::Drop(p) => write!(f, "drop {}", part(p)),
            PartChange::MoveBefore(p, o) => write!(f, "move {} before {}", part(p), part(o)),
            PartChange::MoveAfter(p, o) => write!(f, "move {} after {}", part(p), part(o)),
        }
    }
}

impl Display for ConditionEdit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = if self.on { "on" } else { "off" };
        write!(f, "condition {} {state}", name(CONDITIONS, &self.what))
    }
}

impl Display for RoutineEdit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let routine = name(ROUTINES, &self.routine);
        write!(f, "routine {routine} drop {}", name(KINDS, &self.drop))
    }
}

fn name<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let row = table.iter().find(|(v, _)| v == value);
    row.map_or("?", |(_, name)| name)
}

/// The words of one line, taken from the front.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

type Parsed<T> = Result<T, String>;

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Parsed<&'a str> {
        self.0.next().ok_or_else(|| format!("expected {what}"))
    }

    /// Takes the word if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        match self.next(word)? {
            found if found == word => Ok(()),
            found => Err(format!("`{found}`: expected `{word}`")),
        }
    }

    fn of<T: Copy>(&mut self, table: &[(T, &'static str)]) -> Parsed<T> {
        let known: Vec<_> = table.iter().map(|(_, n)| *n).collect();
        let expected = format!("one of {}", known.join(", "));
        let word = self.next(&expected)?;
        let row = table.iter().find(|(_, n)| *n == word);
        row.map(|(v, _)| *v)
            .ok_or_else(|| format!("`{word}`: expected {expected}"))
    }

    fn step_name(&mut self) -> Parsed<&'static str> {
        let word = self.next("a step's name")?;
        Do::known_name(word).ok_or_else(|| format!("no step `{word}`"))
    }

    fn step(&mut self) -> Parsed<Do> {
        let word = self.next("a step's name")?;
        Do::by_name(word).ok_or_else(|| format!("no step `{word}` that needs nothing more"))
    }

    fn which(&mut self) -> Parsed<Which> {
        let word = self.next("a step's name, or *")?;
        let (name, nth) = match word.split_once('#') {
            None => (word, None),
            Some((name, n)) => (
                name,
                Some(n.parse().map_err(|_| format!("`{n}`: no number"))?),
            ),
        };
        if name == "*" {
            return Ok(Which { name: None, nth });
        }
        let name = Do::known_name(name).ok_or_else(|| format!("no step `{name}`"))?;
        Ok(Which {
            name: Some(name),
            nth,
        })
    }

    fn spot(&mut self) -> Parsed<Spot> {
        match self.next("first, last, before STEP or after STEP")? {
            "first" => Ok(Spot::First),
            "last" => Ok(Spot::Last),
            "before" => self.step_name().map(Spot::Before),
            "after" => self.step_name().map(Spot::After),
            word => Err(format!("`{word}`: expected first, last, before or after")),
        }
    }

    /// `start N` and `end N`, either or both.
    fn bytes(&mut self, sign: i32) -> Parsed<(i32, i32)> {
        let mut both = (0, 0);
        let mut any = false;
        for (word, side) in [("start", &mut both.0), ("end", &mut both.1)] {
            if self.skip(word) {
                let n = self.next("bytes")?;
                let bytes: u16 = n.parse().map_err(|_| format!("`{n}`: 0 to 65535 bytes"))?;
                *side = i32::from(bytes) * sign;
                any = true;
            }
        }
        if any {
            Ok(both)
        } else {
            Err("expected start N or end N".to_owned())
        }
    }

    fn change(&mut self, verb: &str) -> Parsed<Change> {
        Ok(match verb {
            "drop" => Change::Drop(self.which()?),
            "move" => Change::Move(self.which()?, self.spot()?),
            "replace" => {
                let which = self.which()?;
                self.expect("with")?;
                Change::Replace(which, self.step()?)
            }
            "narrow" | "widen" => {
                let which = self.which()?;
                let (start, end) = self.bytes(if verb == "narrow" { 1 } else { -1 })?;
                Change::Narrow { which, start, end }
            }
            "insert" => Change::Insert(self.step()?, self.of(TARGETS)?, self.spot()?),
            _ => {
                return Err(format!(
                    "`{verb}`: expected drop, move, replace, narrow, widen, insert, skeleton, condition or routine"
                ));
            }
        })
    }

    fn part_change(&mut self) -> Parsed<PartChange> {
        match self.next("drop or move")? {
            "drop" => self.of(PARTS).map(PartChange::Drop),
            "move" => {
                let part = self.of(PARTS)?;
                match self.next("before or after")? {
                    "before" => Ok(PartChange::MoveBefore(part, self.of(PARTS)?)),
                    "after" => Ok(PartChange::MoveAfter(part, self.of(PARTS)?)),
                    word => Err(format!("`{word}`: expected before or after")),
                }
            }
            word => Err(format!("`{word}`: expected drop or move")),
        }
    }
}

impl FromStr for Edit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words(text.split_whitespace().peekable());
        let edit = match words.next("an edit")? {
            "skeleton" => Edit::Skeleton(SkeletonEdit {
                verb: words.of(VERBS)?,
                change: words.part_change()?,
            }),
            "condition" => Edit::Condition(ConditionEdit {
                what: words.of(CONDITIONS)?,
                on: words.of(&[(true, "on"), (false, "off")])?,
            }),
            "routine" => {
                let routine = words.of(ROUTINES)?;
                words.expect("drop")?;
                let drop = words.of(KINDS)?;
                Edit::Routine(RoutineEdit { routine, drop })
            }
            verb => {
                let change = words.change(verb)?;
                words.expect("at")?;
                let at: Moment = words.next("a hook")?.parse()?;
                Edit::Plan(PlanEdit { at, change })
            }
        };
        match words.0.next() {
            None => Ok(edit),
            Some(word) => Err(format!("`{word}`: expected nothing more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_reads_back_as_it_was_written() {
        let lines = [
            "drop dcache_wbinv#0 at will-leave:kremove",
            "drop * at any",
            "move tlb_flush_id last at entered",
            "move tlb_flush_d#1 before pte_cache_off at any",
            "move dcache_wb after pv_flags at buffer:acquired-write",
            "replace idcache_wbinv with dcache_wbinv at will-leave:remove",
            "narrow dcache_wb start 32 at begins:protect",
            "widen dcache_inv end 32 at dma:post-read",
            "insert tlb_flush_id subject first at stored:clear-write",
            "insert idcache_wbinv_all whole last at switch",
            "skeleton remove drop sync",
            "skeleton kremove move zero before will-leave",
            "condition kenter-referenced on",
            "condition lazy-switch off",
            "routine idcache_range drop drain",
        ];
        for line in lines {
            let edit: Edit = line.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(edit.to_string(), line);
        }
    }

    #[test]
    fn what_is_no_edit_is_refused_with_what_was_expected() {
        let refused = [
            ("", "expected an edit"),
            ("drop", "expected a step's name, or *"),
            ("drop dcache_wb", "expected at"),
            ("drop dcache at any", "no step `dcache`"),
            (
                "replace zero with window_map at zero",
                "no step `window_map` that needs nothing more",
            ),
            ("drop zero at zero:now", "`zero:now`: `zero` has no detail"),
            (
                "move zero up at zero",
                "`up`: expected first, last, before or after",
            ),
            ("drop zero at zero now", "`now`: expected nothing more"),
        ];
        for (line, why) in refused {
            assert_eq!(line.parse::<Edit>(), Err(why.to_owned()), "{line}");
        }
    }
}
