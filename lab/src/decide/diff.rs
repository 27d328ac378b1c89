//! What differs between two tables, in words.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Outcomes, Point, SECTIONS, Table, boxes};

/// One difference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// Which section of the table, in a word.
    pub section: &'static str,
    /// Where, as a table's line begins.
    pub place: String,
    /// The first one's outcome.
    pub a: String,
    /// The second one's.
    pub b: String,
}

/// What differs, in the order of the tables; neighbours that differ alike are one.
pub fn difference(a: &Table, b: &Table) -> Vec<Difference> {
    let sections = SECTIONS.iter().zip(a.sections.iter().zip(&b.sections));
    let each = sections.flat_map(|((title, usual), (a, b))| of_section(title, usual, a, b));
    each.collect()
}

fn of_section(title: &'static str, usual: &str, a: &Outcomes, b: &Outcomes) -> Vec<Difference> {
    let points: BTreeSet<&Point> = a.keys().chain(b.keys()).collect();
    let mut differing = Outcomes::new();
    let mut pairs: BTreeMap<String, (String, String)> = BTreeMap::new();
    for point in points {
        let of = |side: &Outcomes| side.get(point).cloned().unwrap_or(usual.to_owned());
        let (a, b) = (of(a), of(b));
        if a != b {
            let both = format!("{a}\n{b}");
            differing.insert(point.clone(), both.clone());
            pairs.insert(both, (a, b));
        }
    }
    let section = title.split(':').next().unwrap_or(title);
    let joined = boxes::join(&differing).into_iter();
    let told = joined.map(|(place, both)| {
        let (a, b) = pairs[&both].clone();
        Difference {
            section,
            place: boxes::text(&place),
            a,
            b,
        }
    });
    told.collect()
}

impl Difference {
    /// The difference as a sentence; `a` and `b` are the names of the two.
    pub fn sentence(&self, a: &str, b: &str) -> String {
        let place = self.place.split("  ").map(str::trim);
        let place: Vec<&str> = place.filter(|p| !p.is_empty()).collect();
        let (first, rest) = place.split_first().unwrap_or((&"", &[]));
        let rest = rest.join(" then ");
        let where_ = match self.section {
            "skeleton" => format!("the skeleton's {first}:"),
            "entered" | "order" => format!("mapped in this order, {first}: {rest}:"),
            "changed" | "later" => format!("{first}, {rest}:"),
            "mapping" => {
                let of_mapping = place.iter().skip(1).copied().collect::<Vec<_>>();
                format!("at {first}, to {}:", of_mapping.join(", "))
            }
            _ => format!("at {first}, besides:"),
        };
        format!("{where_}\n    {a}: {}\n    {b}: {}\n", self.a, self.b)
    }
}
