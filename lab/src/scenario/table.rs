//! Draws the story's table. It knows rows, not machines.

use std::fmt::Write;

use super::company::{Effect, Visit};
use super::predictions::Prediction;
use super::sheevaplug::{Row, SEED_RATIO, Story};
use crate::oracle::Kind;

/// The story as text: the table, its predictions and three closing lines, whose commands end with how the machine
/// was chosen.
pub fn table(story: &Story, predictions: &[Prediction], on: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} on {}", story.scenario, story.machine);
    let _ = writeln!(
        out,
        "\n{:<34} {:>9} {:>9} {:>6} {:>13} {:>9} {:>8}  {:<11} {:<11}",
        "policy",
        "before",
        "after",
        "ratio",
        "uncached",
        "maint.",
        "walk",
        "map-first",
        "read-first"
    );
    for row in &story.rows {
        let share = &row.uncached_percent;
        let uncached = format!("{}->{} %", number(share.before, 0), number(share.after, 0));
        let _ = writeln!(
            out,
            "{:<34} {:>7} s {:>7} s {:>6} {:>13} {:>9} {:>8}  {:<11} {:<11}",
            row.policy,
            number(row.elapsed_before_s, 4),
            number(row.elapsed_after_s, 4),
            number(row.ratio, 2),
            uncached,
            row.cycles["maintenance"],
            row.cycles["walk"],
            act(row, "map-first"),
            act(row, "read-first"),
        );
    }
    let _ = writeln!(
        out,
        "\nbefore, after: the program's own time before and after somebody read its file; the seed has {SEED_RATIO:.1} times\nuncached: its mapped text pages; map-first, read-first: old versions executed of 32, or clean;\nfewer than 32 where the kernel's own data displaced a dirty line in time\nmaint., walk: cycles of the whole story"
    );
    for row in &story.rows {
        let died = row.old_versions.values().any(Option::is_none);
        if let (true, Some(first)) = (died, &row.first) {
            let _ = writeln!(out, "{} died of words like its first: {first}", row.policy);
        }
    }
    out.push_str(&company(story));
    if !predictions.is_empty() {
        let _ = writeln!(
            out,
            "\npredicted under freebsd-2010 (12.9 is calibrated on the 5-word loop, the rest is not)"
        );
    }
    for p in predictions {
        let _ = writeln!(
            out,
            "  {:<58} {:>7.2} {:<22} {}",
            p.what, p.value, p.unit, p.note
        );
    }
    out.push_str(&closing(story, on));
    out
}

/// A number, or a dash where the story did not get that far.
fn number(value: f64, digits: usize) -> String {
    match value.is_nan() {
        true => "-".to_owned(),
        false => format!("{value:.digits$}"),
    }
}

/// What company hides and shows; nothing if the story was told without.
fn company(story: &Story) -> String {
    let mut out = String::new();
    let told = || story.rows.iter().filter(|r| !r.company.is_empty());
    let Some(first) = told().next() else {
        return out;
    };
    let _ = write!(
        out,
        "\nold versions, map-first/read-first, when others take turns before, between and inside the acts\n\n{:<34}",
        "policy"
    );
    for visit in &first.company {
        let _ = write!(out, " {:>12}", visit.company);
    }
    out.push('\n');
    let mut calm = Vec::new();
    for row in told() {
        if row.company.iter().all(Visit::clean) {
            calm.push(row.policy.as_str());
            continue;
        }
        let _ = write!(out, "{:<34}", row.policy);
        for visit in &row.company {
            let _ = write!(out, " {:>12}", visited(visit));
        }
        out.push('\n');
    }
    if !calm.is_empty() {
        let _ = writeln!(out, "clean in any company: {}", calm.join(", "));
    }
    out.push_str("- hid, + showed (also findings of other kinds: --json); x: the program died\n");
    out
}

fn visited(visit: &Visit) -> String {
    let old = |order| match visit.old_versions.get(order).copied().flatten() {
        Some(n) => n.to_string(),
        None => "x".to_owned(),
    };
    let mark = match visit.effect {
        Effect::Same => "",
        Effect::Hid => " -",
        Effect::Showed => " +",
        Effect::HidAndShowed => " -+",
    };
    format!("{}/{}{mark}", old("map-first"), old("read-first"))
}

fn act(row: &Row, order: &str) -> String {
    let clean = row.verdicts[order]
        .keys()
        .all(|k| *k == Kind::Permitted.name());
    match row.old_versions[order] {
        Some(0) if clean => "clean".to_owned(),
        Some(n) if clean => format!("{n} old?"),
        Some(n) => format!("{n} stale"),
        None => "died".to_owned(),
    }
}

/// The worst verdict, the command that tells it, and what to try next.
fn closing(story: &Story, on: &str) -> String {
    let found = story
        .rows
        .iter()
        .find(|r| super::sheevaplug::worst(r).is_some());
    let Some(row) = found else {
        return format!(
            "\nworst: clean\ntell:  nothing to tell\nnext:  pmaplab run sheevaplug --policy bare{on}\n"
        );
    };
    let kind = super::sheevaplug::worst(row).map_or("clean", Kind::name);
    let case = "tests/cases/vivt/kernel-write-through-lingering-buffer-reaches-the-fetch.kdl";
    format!(
        "\nworst: {kind} under {0}\ntell:  pmaplab replay --explain --policy {0}{on} {case}\nnext:  pmaplab run sheevaplug --policy {0} --policy always-flush --json{on}\n",
        row.policy
    )
}
