//! No step of a policy called `reference` can go wrong unseen: what `tests/mutants` says of each mutant is
//! still so, and nothing is open that is not written there as open.
//!
//! `always-flush` has no record: it repeats its work at every hook, so that nearly every step covers another.
//!
//! `cargo run --release -- mutate --write` runs the whole campaign and writes those files;
//! `PMAPLAB_TIMES=20 cargo test -p tests --test planted mutants` tries that many more random sequences here.

use lab::fuzz::Budget;
use lab::mutate::Campaign;
use lab::mutate::record::{self, Fate};
use pmap::Status;

use super::here;
use crate::common;

fn check(name: &str) {
    let policy = common::policy(name);
    let (killers, cases) = (here("mutants"), here("cases"));
    let recorded = record::read_fates(&record::file(&killers, name)).unwrap();
    let mut campaign = Campaign::new(&policy, &killers, &cases).unwrap();
    let budget = Budget::of(0);
    campaign.random(1_000 * (budget.inputs as u32), budget.seed);
    let mutants = campaign.mutants();
    let mut wrong = Vec::new();
    let mut inert = 0;
    for mutant in &mutants {
        let said = recorded.iter().find(|(m, _)| *m == mutant.name);
        let confirmed = said.is_some_and(|(_, f)| campaign.confirms(mutant, &mutants, f));
        let fate = match said {
            Some((_, fate)) if confirmed || *fate == Fate::Open => fate.clone(),
            _ => campaign.judge(mutant, &mutants, None),
        };
        inert += usize::from(fate == Fate::Inert);
        let known = said.is_some_and(|(_, fate)| *fate == Fate::Open);
        if fate == Fate::Open && !known {
            wrong.push(&mutant.name);
        }
    }
    let gone = |m: &&String| !mutants.iter().any(|n| n.name == **m);
    let gone: Vec<&String> = recorded.iter().map(|(m, _)| m).filter(gone).collect();
    let command = format!("cargo run --release -- mutate --policy {name} --write");
    assert!(
        wrong.is_empty(),
        "{name}: nothing finds these: {wrong:#?}\nsee: {command}"
    );
    assert!(
        gone.is_empty(),
        "{name}: no mutants any more: {gone:#?}\nrun: {command}"
    );
    assert!(
        inert * 10 < mutants.len(),
        "{name}: {inert} of {} mutants change nothing: the cases are too weak\nsee: {command}",
        mutants.len()
    );
}

macro_rules! policies {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_reference_policy_is_mutated() {
            let mutated = |p: &pmap::Policy| p.status == Status::Reference && p.name != "always-flush";
            let all = pmap::policy::all().filter(mutated);
            let all: Vec<&str> = all.map(|p| p.name).collect();
            assert_eq!(all, [$($name),*]);
        }
    };
}

policies! {
    netbsd_vivt_repaired: "netbsd-vivt-repaired";
    freebsd_2010_repaired: "freebsd-2010-repaired";
    repaired_write_drop: "repaired-write-drop";
}

#[test]
fn every_killer_is_named_by_some_mutant() {
    assert_eq!(
        record::unnamed(&here("mutants")).unwrap(),
        Vec::<String>::new()
    );
}
