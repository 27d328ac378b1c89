//! The mutation engine says what is so: a step that is needed is killed and its killer kept, one that does
//! nothing is inert, one whose work another repeats is covered by it, one that only saves cycles is slower without it,
//! and a needless one is proved to be so.

mod record;

use std::path::{Path, PathBuf};

use lab::mutate::Campaign;
use lab::mutate::list::Mutant;
use lab::mutate::record::Fate;

/// Two drains more: the first repeats the end of the cache routine before it, the second is not needed.
const DRAINS: &str = "insert drain_writebuf whole after dcache_wbinv_all at copy
    insert drain_writebuf whole last at switch";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn find<'a>(mutants: &'a [Mutant], name: &str) -> &'a Mutant {
    let found = mutants.iter().find(|m| m.name == name);
    found.unwrap_or_else(|| panic!("no mutant `{name}`"))
}

#[test]
fn mutants_are_killed_inert_covered_slower_or_proved() {
    let policy = super::common::policy(super::BASE)
        .edited_by(DRAINS)
        .unwrap();
    // Neither killers nor cases: random sequences alone.
    let nothing = here("data/machines");
    let mut campaign = Campaign::new(&policy, &nothing, &nothing).unwrap();
    campaign.random(2_000, 1);
    assert_eq!(campaign.unclean, 0, "the base fails on random input");
    let mutants = campaign.mutants();
    let mut judge = |name: &str| {
        let mutant = find(&mutants, name);
        let fate = campaign.judge(mutant, &mutants, None);
        let held = fate == Fate::Open || campaign.confirms(mutant, &mutants, &fate);
        assert!(held, "{name}: {fate}, but not when looked at again");
        fate
    };
    for name in [
        "drop pv_flags at changed",
        "drop dcache_wb at begins:protect",
    ] {
        let fate = judge(name);
        assert!(matches!(fate, Fate::Killed { .. }), "{name}: {fate}");
    }
    assert_eq!(judge("drop drain_writebuf at copy"), Fate::Inert);
    let slower = judge("drop pte_cache_off at changed");
    assert!(matches!(slower, Fate::Slower { .. }), "{slower}");
    let twice = judge("drop dcache_wbinv#0 at copy");
    assert!(matches!(twice, Fate::Covered { .. }), "{twice}");
    assert_eq!(judge("drop drain_writebuf at switch"), Fate::Proved);
    let kept = campaign.found.iter().map(|k| k.moves.len());
    assert!(
        kept.clone().count() >= 2 && kept.max() <= Some(16),
        "{:?}",
        campaign.found
    );
}
