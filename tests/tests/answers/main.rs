//! ANSWERS.md says what the tool says, in a scope small enough for the gate.

mod known;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use lab::explore::{Ended, Fingerprints, Limits, Scope, Search, Symmetry, WorldModel};
use machine::Profile;
use pmap::Policy;
use pmap::PvFlags;
use pmap::hook::{Facts, Hook, Mapping, View};
use pmap::plan::Plan;
use pmap::rule::{Rule, repaired};

/// Verdict and depth of a policy in a scope on `tiny-line`: the gravest finding of the shallowest level, as
/// `pmaplab explore` prints it.
fn verdict(policy: Policy, scope: &str) -> String {
    let profile = Profile::embedded("tiny-line").expect("an embedded machine");
    let scope = Scope::by_name(scope).expect("a scope");
    let model = WorldModel::new(&profile, policy, &scope, Symmetry::On).expect("it fits");
    let mut search = Search::new(model, Fingerprints::default());
    let limits = Limits {
        states: 2_000_000,
        bytes: 1 << 30,
        first: true,
    };
    let ended = search.run(&limits, |_| ControlFlow::Continue(()));
    match search.found.iter().min_by_key(|f| f.bad) {
        Some(found) => format!("{} {}", found.bad.name(), found.depth),
        None if ended == Ended::Closed => "safe".to_owned(),
        None => "unknown".to_owned(),
    }
}

/// The rows of the table behind a marker, without head and rule: cells, trimmed.
fn rows(marker: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ANSWERS.md");
    let text = fs::read_to_string(path).expect("ANSWERS.md is there");
    let table = text
        .split(&format!("<!-- {marker} -->"))
        .nth(1)
        .expect("the marker is there");
    let lines = table.lines().skip_while(|l| !l.starts_with('|'));
    let lines = lines.take_while(|l| l.starts_with('|')).skip(2);
    let cells = |l: &str| {
        l.trim_matches('|')
            .split('|')
            .map(|c| c.trim().trim_matches('`').to_owned())
            .collect()
    };
    lines.map(cells).collect()
}

#[test]
fn the_verdict_table_agrees_with_the_search() {
    let said = rows("verdicts");
    let names: Vec<&str> = said.iter().map(|r| r[0].as_str()).collect();
    assert_eq!(names, pmap::policy::names().collect::<Vec<_>>());
    let found: Vec<(String, String)> = pmap::policy::all()
        .map(|p| (p.name.to_owned(), verdict(p, "small")))
        .collect();
    let table: String = found.iter().map(|(p, v)| format!("{p} | {v}\n")).collect();
    for (row, (_, verdict)) in said.iter().zip(&found) {
        assert_eq!(row[1], *verdict, "{}; all of them:\n{table}", row[0]);
    }
}

/// `freebsd-2010-repaired`, but a page that somebody executes, that is nowhere uncached and of which the
/// chosen ones of Tinguely's facts hold is left alone. Bit n is fact n + 1; bit 5 is that nobody may write.
fn bypass<const FACTS: u8>(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let asks = matches!(hook, Hook::Entered | Hook::Changed | Hook::Left(_));
    if !(asks && holds(FACTS, view.mappings)) {
        repaired::plan(hook, view, facts, plan);
    }
}

fn holds(facts: u8, mappings: &[Mapping]) -> bool {
    let has = |m: &Mapping, flag| m.flags.contains(flag);
    let of_kernel = |m: &&Mapping| m.space.is_kernel();
    let programs = || mappings.iter().filter(|m| !m.space.is_kernel());
    let twice = |m: &Mapping| programs().filter(|o| o.space == m.space).count() > 1;
    let values = [
        programs().count() <= 1,
        programs().all(|m| has(m, PvFlags::EXEC)),
        !programs().any(twice),
        programs().all(|m| !has(m, PvFlags::WRITE)),
        mappings.iter().filter(of_kernel).count() <= 1,
        mappings.iter().all(|m| !has(m, PvFlags::WRITE)),
    ];
    let chosen = |n: &usize| facts >> n & 1 != 0;
    let executed = mappings.iter().any(|m| has(m, PvFlags::EXEC));
    let cached = mappings.iter().all(|m| !has(m, PvFlags::NC));
    executed && cached && (0..values.len()).filter(chosen).all(|n| values[n])
}

macro_rules! rules {
    ($($n:literal)*) => { [$(bypass::<$n>),*] };
}

const RULES: [Rule; 33] = rules!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);

#[test]
fn none_of_the_five_facts_makes_the_bypass_safe_and_that_nobody_writes_does() {
    let base = pmap::policy::by_name("freebsd-2010-repaired").expect("a policy");
    let found: Vec<String> = RULES
        .iter()
        .map(|rule| Policy {
            rule: *rule,
            ..base.clone()
        })
        .map(|policy| verdict(policy, "small"))
        .collect();
    let said = rows("facts");
    assert_eq!(said.len(), RULES.len(), "{found:#?}");
    for (n, (row, verdict)) in said.iter().zip(&found).enumerate() {
        let names = (0..6)
            .filter(|bit| n >> bit & 1 != 0)
            .map(|bit| (bit + 1).to_string());
        let names: Vec<String> = names.collect();
        assert_eq!(
            (&row[0], &row[1]),
            (&names.join(" "), verdict),
            "{found:#?}"
        );
    }
}
