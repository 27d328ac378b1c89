//! The SheevaPlug story says what seeds/001 says, and what it predicts follows from the model.

use std::sync::{Arc, LazyLock};

use lab::scenario::company::{Effect, Visit, visits};
use lab::scenario::predictions::{Prediction, predict};
use lab::scenario::sheevaplug::{Options, Row, SEED_RATIO, tell, worst};
use machine::Profile;

const TURNS: u32 = 200_000;

fn row(policy: &str, footprint: bool) -> Row {
    let profile = Profile::embedded("sheevaplug").unwrap();
    let policy = pmap::policy::by_name(policy).unwrap();
    let options = Options {
        turns: TURNS,
        footprint,
        ..Options::default()
    };
    tell(&profile, policy, &options).unwrap()
}

fn clean(row: &Row, act: &str) -> bool {
    row.verdicts[act].keys().all(|kind| *kind == "permitted")
}

#[test]
fn freebsd_2010_is_slow_after_cat_and_stale_only_if_the_file_was_read_first() {
    let row = row("freebsd-2010", true);
    assert!(
        (row.ratio / SEED_RATIO - 1.0).abs() < 0.03,
        "{} for {SEED_RATIO}",
        row.ratio
    );
    assert_eq!(
        (row.uncached_percent.before, row.uncached_percent.after),
        (0.0, 100.0)
    );
    assert!(clean(&row, "read"), "{:?}", row.verdicts);
    assert!(clean(&row, "map-first"), "{:?}", row.verdicts);
    assert_eq!(row.old_versions["map-first"], Some(0));
    assert!(row.verdicts["read-first"]["stale-exec"] > 0, "B23");
    assert!(row.old_versions["read-first"] > Some(0), "B23");
}

#[test]
fn none_is_fast_and_stale_in_both_orders() {
    let row = row("none", true);
    assert!(row.ratio < 1.02, "{}", row.ratio);
    assert!(clean(&row, "read"), "{:?}", row.verdicts);
    assert!(
        row.old_versions["map-first"] > Some(20),
        "{:?}",
        row.old_versions
    );
    assert!(
        row.old_versions["read-first"] > Some(20),
        "{:?}",
        row.old_versions
    );
}

#[test]
fn without_the_kernels_own_lines_none_sees_every_old_version() {
    let row = row("none", false);
    assert_eq!(row.old_versions["read-first"], Some(32));
    assert_eq!(row.old_versions["map-first"], Some(32));
}

#[test]
fn always_flush_and_the_write_drop_are_fast_and_clean_at_a_price() {
    let none = row("none", true);
    for policy in ["always-flush", "write-drop-bqrelse-explicit"] {
        let row = row(policy, true);
        assert!(row.ratio < 1.02, "{policy}: {}", row.ratio);
        assert_eq!(worst(&row), None, "{policy}: {:?}", row.verdicts);
        assert_eq!(row.old_versions["map-first"], Some(0), "{policy}");
        assert_eq!(row.old_versions["read-first"], Some(0), "{policy}");
        assert!(
            row.cycles["maintenance"] > none.cycles["maintenance"],
            "{policy}"
        );
    }
    let drop = row("write-drop-bqrelse-explicit", true);
    assert!(drop.cycles["walk"] > none.cycles["walk"], "more TLB work");
}

#[test]
fn bare_is_stale_in_the_write_act() {
    let row = row("bare", true);
    assert!(row.ratio < 1.02, "{}", row.ratio);
    for order in ["map-first", "read-first"] {
        assert!(row.verdicts[order]["stale-exec"] > 0, "{:?}", row.verdicts);
        // It dies before it can count: its own data is as old as the code.
        assert_eq!(row.old_versions[order], None, "{order}");
    }
    assert!(
        row.first
            .is_some_and(|first| first.starts_with("stale-read"))
    );
}

static PREDICTED: LazyLock<Vec<Prediction>> = LazyLock::new(|| {
    let profile: Arc<Profile> = Profile::embedded("sheevaplug").unwrap();
    predict(&profile, &pmap::policy::by_name("freebsd-2010").unwrap()).unwrap()
});

fn predicted(what: &str) -> f64 {
    let found = PREDICTED.iter().find(|p| p.what == what);
    found
        .unwrap_or_else(|| panic!("no prediction {what:?}"))
        .value
}

#[test]
fn exec_poisons_nothing_a_read_its_blocks_and_recycling_heals() {
    assert_eq!(predicted("`big` uncached after exec alone"), 0.0);
    let header = predicted("`big` uncached after a read of 4 KB");
    assert!(
        (4.0..10.0).contains(&header),
        "4 of about 65 pages: {header}"
    );
    assert_eq!(predicted("`big` uncached after a read of all"), 100.0);
    assert_eq!(
        predicted("`big` uncached after its buffers were recycled"),
        0.0
    );
}

#[test]
fn the_order_of_mapping_and_reading_decides_between_a_flush_and_a_fault() {
    assert_eq!(
        predicted("text pages flushed to uncache them, map-first"),
        1.0
    );
    assert_eq!(
        predicted("text pages flushed to uncache them, read-first"),
        0.0
    );
}

#[test]
fn the_loops_length_in_bursts_decides_how_slow_it_gets() {
    let four = predicted("slowdown, 4-word loop");
    let five = predicted("slowdown, 5-word loop");
    let eight = predicted("slowdown, 8-word loop");
    assert!(four < eight && eight < five, "{four} {eight} {five}");
    assert!(predicted("slowdown, 5-word loop, uncalibrated") > five);
}

#[test]
fn a_look_at_a_header_by_read_poisons_clusters_and_by_mmap_nothing() {
    for (kb, pages) in [(16, 36.0), (32, 40.0)] {
        let of = |what: &str| predicted(&format!("header of {what}, {kb} KB blocks"));
        // The block that was read, and a cluster of 128 KB ahead of it: 80 to 160 KB (4.3).
        assert_eq!(of("`big` by read"), pages);
        assert_eq!(of("a library by read"), pages);
        assert_eq!(of("a library by mmap"), 0.0);
    }
}

#[test]
fn clustered_writes_damage_a_copy_in_lines_and_noclusterw_helps() {
    let copy = |how: &str| predicted(&format!("copy of `big` under {how}"));
    assert_eq!(copy("freebsd-2006"), 0.0, "read-allocate hides B1");
    let damaged = copy("freebsd-2006, write-allocate");
    assert!(damaged > 100.0, "{damaged}");
    let without_reads = copy("freebsd-2006, write-allocate, noclusterr");
    assert!(without_reads > 100.0, "{without_reads}");
    assert_eq!(copy("freebsd-2006, write-allocate, noclusterw"), 0.0);
    assert!(copy("freebsd-2009, write-allocate") > 0.0, "B23");
    assert_eq!(copy("freebsd-2010-repaired, write-allocate"), 0.0);
}

fn company(policy: &str) -> Vec<Visit> {
    let profile = Profile::embedded("sheevaplug").unwrap();
    visits(&profile, &pmap::policy::by_name(policy).unwrap())
}

fn effect(visits: &[Visit], guest: &str) -> Effect {
    visits.iter().find(|v| v.company == guest).unwrap().effect
}

#[test]
fn no_company_changes_a_clean_policys_verdict() {
    for policy in [
        "always-flush",
        "freebsd-2010-repaired",
        "repaired-write-drop",
        "netbsd-vivt-repaired",
        "linux-vivt-2.6.24",
        "linux-vivt-2.6.37",
    ] {
        let visits = company(policy);
        assert_eq!(visits.len(), 7, "nobody, five guests, all");
        for visit in visits {
            assert!(visit.clean(), "{policy}: {visit:?}");
        }
    }
}

#[test]
fn a_switch_to_a_process_hides_and_a_page_daemon_shows() {
    let found = company("freebsd-2010");
    assert_eq!(effect(&found, "nobody"), Effect::Same);
    assert_eq!(effect(&found, "process"), Effect::Hid, "the switch flushes");
    assert_eq!(effect(&found, "pagedaemon"), Effect::HidAndShowed, "B25");
    let pagedaemon = found.iter().find(|v| v.company == "pagedaemon").unwrap();
    assert!(pagedaemon.verdicts["read"]["stale-translation"] > 0, "B25");
    // Clean alone, and not clean: the repair of one defect leaves another.
    let found = company("write-drop-bqrelse-explicit");
    assert!(found[0].clean(), "{:?}", found[0]);
    assert_eq!(effect(&found, "all"), Effect::Showed, "B25");
    // Where "current" follows the hardware, a thread's work on the live space is seen. (With a second
    // process too it is not: two spaces that share a first-level table leave each other's TLB copies in.)
    let found = company("freebsd-2010-lazy");
    let pagedaemon = found.iter().find(|v| v.company == "pagedaemon").unwrap();
    let mut kinds = pagedaemon.verdicts.values().flat_map(|v| v.keys());
    assert!(!kinds.any(|k| *k == "stale-translation"), "{pagedaemon:?}");
}
