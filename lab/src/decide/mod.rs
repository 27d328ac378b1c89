//! Decision tables: what a policy does to every set of up to three mappings of a page, at every hook, as
//! text that a person reads and `diff` compares.
//!
//! A table is a list of sections, each a map from a point to an outcome. A point is a list of coordinates
//! (who runs, the first mapping, the second, ...). Most neighbours have equal outcomes, so the text joins
//! points into boxes: a line is a box and its outcome, and changing one condition of a rule changes the
//! few lines whose boxes it cuts. [`Table::parse`] reads the text back, so that a policy can be compared
//! with a snapshot of an earlier one as well as with another policy.
//!
//! Mappings are written `who:rights`: `k` the buffer cache's (`pmap_kenter`), `K` the kernel's by
//! `pmap_enter`, `A` the user space that runs or ran last, `B` another, `m` whoever's; rights `ro` is r or rx, `w` is rw
//! or rwx, `any` is all four. Outcomes number the mappings from 1, in the order of the line. Where a line is about
//! one mapping in many sets, an outcome that not all sets have says in how many it is.

mod boxes;
mod diff;
mod mapping;
mod probe;
mod record;

pub use boxes::join as joined;
pub use diff::{Difference, difference};
pub use probe::table;
pub(crate) use record::moments;

use std::collections::BTreeMap;

/// Coordinates.
pub type Point = Vec<String>;
/// What comes out at each point; a point that is not there has the section's usual outcome.
pub type Outcomes = BTreeMap<Point, String>;

/// Title and usual outcome of each section, in the order of the text.
pub const SECTIONS: [(&str, &str); 7] = [
    ("skeleton: the order of each verb's parts", "none"),
    (
        "entered: mappings of a page, entered in this order",
        "all cached",
    ),
    (
        "order: what is otherwise if they are entered in this order",
        "as in the order above",
    ),
    (
        "changed: what one that goes, or gets or loses WRITE, leaves otherwise than entering would",
        "as if entered so",
    ),
    ("later: what else changes a mapping", "as before"),
    ("mapping: what is done to one mapping", "nothing"),
    ("whole: what is done besides", "nothing"),
];

/// A policy's decisions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// The policy's name.
    pub policy: String,
    /// One map for each of [`SECTIONS`].
    pub sections: [Outcomes; SECTIONS.len()],
}

impl Table {
    /// The table as text, one line a box.
    pub fn text(&self) -> String {
        let mut out = format!("policy {}\n", self.policy);
        for ((title, usual), outcomes) in SECTIONS.iter().zip(&self.sections) {
            out.push_str(&format!("\n[{title}; else {usual}]\n"));
            for (place, outcome) in boxes::join(outcomes) {
                out.push_str(&format!("{} -> {outcome}\n", boxes::text(&place)));
            }
        }
        out
    }

    /// Reads a text back; a snapshot's head is passed over.
    ///
    /// # Errors
    /// The line that is not a table's, and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut table = Self::default();
        let mut section = None;
        let lines = text.lines().enumerate();
        let mut lines = lines.skip_while(|(_, l)| !l.starts_with("policy "));
        let Some((_, head)) = lines.next() else {
            return Err("1: expected a line `policy NAME`".to_owned());
        };
        table.policy = head.trim_start_matches("policy ").trim().to_owned();
        for (n, line) in lines.filter(|(_, l)| !l.trim().is_empty()) {
            if let Some(title) = line.strip_prefix('[') {
                section = SECTIONS.iter().position(|(t, _)| title.starts_with(t));
                continue;
            }
            let (Some(section), Some((place, outcome))) = (section, line.split_once(" -> ")) else {
                return Err(format!("{}: expected `WHERE -> OUTCOME`", n + 1));
            };
            for point in boxes::points(place) {
                table.sections[section].insert(point, outcome.to_owned());
            }
        }
        Ok(table)
    }
}
