//! The table that is printed: cases, equal, and differing by reason, for each class.

use crate::judge::Verdict;
use machine::cpu::Arch;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Default)]
struct Row {
    cases: u64,
    equal: u64,
    reasons: BTreeMap<&'static str, u64>,
    unexplained: u64,
}

/// Counts by architecture and class.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<(&'static str, &'static str), Row>,
    again: u64,
}

impl Table {
    /// Counts one case.
    pub fn add(&mut self, arch: Arch, class: &'static str, verdict: &Verdict) {
        let arch = if arch == Arch::V5te { "v5te" } else { "v6k" };
        let row = self.rows.entry((arch, class)).or_default();
        row.cases += 1;
        match verdict {
            Verdict::Equal => row.equal += 1,
            Verdict::Explained(reason) => *row.reasons.entry(reason).or_default() += 1,
            Verdict::Unexplained(_) => row.unexplained += 1,
        }
    }

    /// Counts one difference for which a new reference was asked.
    pub fn again(&mut self) {
        self.again += 1;
    }

    /// Differences without a reason.
    pub fn unexplained(&self) -> u64 {
        self.rows.values().map(|row| row.unexplained).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:5} {:25} {:>8} {:>8} {:>8}",
            "", "class", "cases", "equal", "bugs"
        )?;
        let mut total = Row::default();
        for ((arch, class), row) in &self.rows {
            let (cases, equal, bugs) = (row.cases, row.equal, row.unexplained);
            writeln!(f, "{arch:5} {class:25} {cases:8} {equal:8} {bugs:8}")?;
            for (reason, count) in &row.reasons {
                writeln!(f, "{:32}{count:8} {reason}", "")?;
                *total.reasons.entry(reason).or_default() += count;
            }
            total.cases += cases;
            total.equal += equal;
            total.unexplained += bugs;
        }
        writeln!(
            f,
            "{:31} {:8} {:8} {:8}",
            "all", total.cases, total.equal, total.unexplained
        )?;
        for (reason, count) in &total.reasons {
            writeln!(f, "{:32}{count:8} {reason}", "")?;
        }
        writeln!(
            f,
            "{:32}{:8} asked again of a new unicorn instance",
            "", self.again
        )
    }
}
