//! Boxes: sets of points that are a product of alternatives, one list for each coordinate.

use std::collections::BTreeMap;

use super::{Outcomes, Point};

/// Alternatives of each coordinate, in order.
pub type Box = Vec<Vec<String>>;

/// Names of sets of rights.
const SETS: [(&str, &[&str]); 3] = [
    ("any", &["r", "rw", "rwx", "rx"]),
    ("w", &["rw", "rwx"]),
    ("ro", &["r", "rx"]),
];

/// Joins points of equal outcome into boxes: from the last coordinate to the first, boxes that differ in
/// that one only become one. Sorted by their places.
pub fn join(outcomes: &Outcomes) -> Vec<(Box, String)> {
    let single = |(p, o): (&Point, &String)| {
        let place: Box = p.iter().map(|c| vec![c.clone()]).collect();
        (place, o.clone())
    };
    let mut boxes: Vec<(Box, String)> = outcomes.iter().map(single).collect();
    let dimensions = outcomes.keys().map(Vec::len).max().unwrap_or(0);
    for dimension in (0..dimensions).rev() {
        boxes = join_along(boxes, dimension);
    }
    boxes.sort();
    boxes
}

fn join_along(boxes: Vec<(Box, String)>, dimension: usize) -> Vec<(Box, String)> {
    let mut joined: BTreeMap<(Box, String), Vec<String>> = BTreeMap::new();
    let mut done = Vec::new();
    for (mut place, outcome) in boxes {
        if dimension >= place.len() {
            done.push((place, outcome));
            continue;
        }
        let alternatives = std::mem::take(&mut place[dimension]);
        joined
            .entry((place, outcome))
            .or_default()
            .extend(alternatives);
    }
    for ((mut place, outcome), mut alternatives) in joined {
        alternatives.sort();
        place[dimension] = alternatives;
        done.push((place, outcome));
    }
    done
}

/// A box as text: coordinates set apart by two spaces or more.
pub fn text(place: &Box) -> String {
    let texts: Vec<String> = place.iter().map(|a| alternatives(a)).collect();
    let width = |n: usize| if n == 0 { 10 } else { 12 };
    let last = texts.len().saturating_sub(1);
    let padded = texts.iter().enumerate().map(|(n, text)| match n == last {
        true => text.clone(),
        false => format!("{text:<0$}", width(n)),
    });
    padded.collect::<Vec<_>>().join("  ")
}

/// `A:r`, `A:rx`, `k` become `A:ro,k`.
fn alternatives(all: &[String]) -> String {
    let mut rights: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in all {
        let (who, right) = one.split_once(':').unwrap_or((one, ""));
        rights.entry(who).or_default().push(right);
    }
    let named = |(who, list): (&str, Vec<&str>)| {
        let set = SETS.iter().find(|(_, set)| **set == list);
        match (list.as_slice(), set) {
            ([""], _) => who.to_owned(),
            (_, Some((name, _))) => format!("{who}:{name}"),
            _ => format!("{who}:{}", list.join("|")),
        }
    };
    rights.into_iter().map(named).collect::<Vec<_>>().join(",")
}

/// The points of a box's text.
pub fn points(text: &str) -> Vec<Point> {
    let coordinates = text.split("  ").map(str::trim).filter(|c| !c.is_empty());
    let mut points = vec![Vec::new()];
    for coordinate in coordinates {
        let choices = expand(coordinate);
        let with = |p: &Point| {
            let p = p.clone();
            choices.iter().map(move |c| {
                let mut longer = p.clone();
                longer.push(c.clone());
                longer
            })
        };
        points = points.iter().flat_map(with).collect();
    }
    points
}

fn expand(coordinate: &str) -> Vec<String> {
    let one = |part: &str| -> Vec<String> {
        let Some((who, rights)) = part.split_once(':') else {
            return vec![part.to_owned()];
        };
        let set = SETS.iter().find(|(name, _)| *name == rights);
        let list = set.map_or_else(|| rights.split('|').collect(), |(_, set)| set.to_vec());
        list.iter().map(|r| format!("{who}:{r}")).collect()
    };
    coordinate.split(',').flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(points: &[(&str, &str)]) -> Outcomes {
        let read = |(p, o): &(&str, &str)| {
            let point = p.split(' ').map(str::to_owned).collect();
            (point, (*o).to_owned())
        };
        points.iter().map(read).collect()
    }

    #[test]
    fn neighbours_of_equal_outcome_become_one_line() {
        let joined = join(&outcomes(&[
            ("A:r k", "x"),
            ("A:rx k", "x"),
            ("B:r k", "x"),
            ("B:rx k", "x"),
            ("A:rw k", "y"),
        ]));
        let texts: Vec<String> = joined
            .iter()
            .map(|(b, o)| format!("{}={o}", text(b)))
            .collect();
        assert_eq!(texts, ["A:ro,B:ro   k=x", "A:rw        k=y"]);
    }

    #[test]
    fn a_text_gives_its_points_back() {
        let points = points("A:w,k  any one  B:r|rwx");
        let texts: Vec<String> = points.iter().map(|p| p.join("/")).collect();
        let expected = [
            "A:rw/any one/B:r",
            "A:rw/any one/B:rwx",
            "A:rwx/any one/B:r",
            "A:rwx/any one/B:rwx",
            "k/any one/B:r",
            "k/any one/B:rwx",
        ];
        assert_eq!(texts, expected);
    }
}
