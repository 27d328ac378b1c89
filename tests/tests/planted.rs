//! Planted faults: each edits a policy that is right, or the marks that the oracle is told, and expects a
//! verdict that names both places, the access and what should have prevented it.

mod common;
mod mutants;

use lab::World;
use lab::case::{self, Action, Case, Line};
use lab::inject::Injection;
use lab::op::{Op, Outcome, Page, Rights, Space, Va};
use lab::oracle::{Kind, Oracle, Verdict, Verdicts};
use machine::{CpuId, Hw, Mark};
use pmap::{PmapVerbs, SpaceId};

const BASE: &str = "freebsd-2010-repaired";

/// Runs a case under the base policy with edits.
fn run(case: &Case, machine: &str, edits: &str) -> case::Row {
    let policy = common::policy(BASE).edited_by(edits);
    let policy = policy.unwrap_or_else(|e| panic!("{edits}: {e}"));
    case::run_one(case, common::machine(machine), policy)
}

/// The case is clean as it is, and with the edit there is a verdict of that kind whose two places read so.
fn planted(case: &Case, machine: &str, edit: &str, kind: Kind, access: &str, before: &str) {
    let sound = run(case, machine, "");
    let told = common::told(&sound.verdicts.first);
    assert!(sound.verdicts.clean(), "without a fault:\n{told}");
    let row = run(case, machine, edit);
    let told = common::told(&row.verdicts.first);
    let is =
        |v: &&Verdict| v.kind == kind && v.during.contains(access) && v.because.contains(before);
    let found = row.verdicts.first.iter().find(is);
    assert!(
        found.is_some(),
        "`{edit}`: expected {} at `{access}` because `{before}`, found:\n{told}",
        kind.name()
    );
}

fn parse(text: &str) -> Case {
    case::parse("planted", text).unwrap_or_else(|e| panic!("{e}"))
}

fn dirty_buffer() -> Case {
    common::read("vivt/dirty-buffer-line-is-written-back-when-a-program-maps-the-page.kdl")
}

#[test]
fn a_clean_dropped_from_a_plan() {
    planted(
        &dirty_buffer(),
        "sheevaplug",
        "drop dcache_wbinv at entered",
        Kind::StaleRead,
        "A load 0x10000",
        "stored by step 4, K store 0xd0400000 0x2222; it is still in cpu0's dirty data-cache line",
    );
}

#[test]
fn a_clean_turned_into_an_invalidate() {
    planted(
        &dirty_buffer(),
        "sheevaplug",
        "replace dcache_wbinv with dcache_inv at entered",
        Kind::LostWrite,
        "A enter 0x10000",
        "stored by step 4, K store 0xd0400000 0x2222; the copy that had it was dropped",
    );
}

#[test]
fn a_clean_that_misses_the_first_line() {
    planted(
        &dirty_buffer(),
        "sheevaplug",
        "narrow dcache_wbinv start 32 at entered",
        Kind::StaleRead,
        "A load 0x10000",
        "it is still in cpu0's dirty data-cache line",
    );
}

#[test]
fn a_second_level_clean_dropped() {
    let name = "vivt/page-of-a-space-that-does-not-run-leaves-the-second-level.kdl";
    planted(
        &common::read(name),
        "sheevaplug-l2-write-back",
        "drop l2cache_wbinv at entered",
        Kind::StaleRead,
        "K load 0xd0400000",
        "stored by step 6, B store 0x10000 0x2222; it is still in the second-level line",
    );
}

#[test]
fn a_second_level_invalidate_dropped_before_zeroing() {
    planted(
        &common::read("vivt/zeroed-frame-shows-zeros-through-the-second-level.kdl"),
        "sheevaplug",
        "drop l2cache_inv at zero",
        Kind::StaleRead,
        "B load 0x20000",
        "K zero page=0",
    );
}

#[test]
fn a_page_that_is_never_zeroed() {
    planted(
        &common::read("vivt/zeroed-frame-shows-zeros-through-the-second-level.kdl"),
        "sheevaplug",
        "drop zero at zero",
        Kind::StaleRead,
        "B load 0x20000",
        "stored by step 9, K zero page=0, pmap_zero_page; it is nowhere any more",
    );
}

#[test]
fn a_page_that_is_never_copied() {
    planted(
        &common::read("linux/copied-text-is-fetched-as-copied.kdl"),
        "tiny-vivt",
        "drop copy at copy",
        Kind::StaleExec,
        "fetch",
        "pmap_copy_page; it is nowhere any more",
    );
}

#[test]
fn a_tlb_flush_forgotten() {
    planted(
        &common::read("vivt/pagedaemon-takes-a-page-from-the-interrupted-program.kdl"),
        "sheevaplug",
        "drop tlb_flush_id at gone:remove-all",
        Kind::StaleTranslation,
        "A load 0x10000",
        "the entry was removed, its TLB copy was not",
    );
}

#[test]
fn a_tlb_flush_of_the_wrong_side() {
    planted(
        &common::read("vivt/page-executed-without-permission-leaves-no-lines.kdl"),
        "sheevaplug",
        "replace tlb_flush_id with tlb_flush_d at gone:remove",
        Kind::StaleTranslation,
        "A fetch 0x8000",
        "the table names another frame: the TLB copy was not invalidated",
    );
}

#[test]
fn an_entry_that_is_never_stored() {
    planted(
        &dirty_buffer(),
        "sheevaplug",
        "drop pte_cache_off at entered",
        Kind::BrokenRule,
        "A enter 0x10000",
        "is flagged uncached, its entry cacheable",
    );
}

#[test]
fn a_switch_that_empties_nothing() {
    let case = parse(
        r#"
        claim "a load of one space never hits another's line"
        K kenter 0xd0400000 page=0
        K dma-read 0xd0400000 seed=0x1000
        K kremove 0xd0400000
        K kenter 0xd0400000 page=1
        K dma-read 0xd0400000 seed=0x2000
        K kremove 0xd0400000
        A enter 0x10000 page=0 prot="r"
        B enter 0x10000 page=1 prot="r"
        A load 0x10000
        B load 0x10000
        "#,
    );
    planted(
        &case,
        "sheevaplug",
        "drop idcache_wbinv_all at switch",
        Kind::StaleRead,
        "B load 0x10000",
        "stored by step 5, K dma-read 0xd0400000 seed=0x2000; memory has it",
    );
}

/// A case in two parts: the hardware acts somewhere in the first operation of the second.
struct Split {
    before: Case,
    after: Case,
    hardware: Op,
}

impl Split {
    fn new(text: &str, hardware: Op) -> Self {
        let (before, after) = text
            .split_once("HW")
            .expect("the place of the hardware's step");
        Self {
            before: parse(before),
            after: parse(after),
            hardware,
        }
    }

    /// The first micro-step before which the hardware's act leads to a verdict, and what was found.
    fn anywhere(&self, edits: &str) -> Option<(u64, Verdicts)> {
        let policy = common::policy(BASE).edited_by(edits).unwrap();
        let mut world = common::world(&common::machine("sheevaplug"), policy);
        world.pmap_create(CpuId(0));
        world.cpu_switch(CpuId(0), Some(SpaceId(1)));
        self.before.lines.iter().for_each(|l| play(&mut world, l));
        for n in 0.. {
            let mut world = world.clone();
            let hardware = self.hardware;
            world.injection = Some(Injection::at(n, move |world| {
                hardware.run(world);
            }));
            let mut ended = false;
            for line in &self.after.lines {
                play(&mut world, line);
                ended |= world.injection.take().is_some_and(|i| !i.ran);
            }
            let found = world.observer.verdicts;
            if !found.clean() {
                return Some((n, found));
            }
            if ended {
                break;
            }
        }
        None
    }
}

fn play(world: &mut World<Oracle>, line: &Line) {
    let Action::Bare(op) = &line.action else {
        panic!("{}: an operation on bare pages was expected", line.text)
    };
    world.observer.set_context(&line.text);
    op.run(world);
}

/// Clean wherever the hardware acts; with the edit there is a point where it is not.
fn planted_between(text: &str, hardware: Op, edit: &str, kind: Kind, before: &str) {
    let split = Split::new(text, hardware);
    if let Some((n, found)) = split.anywhere("") {
        let told = common::told(&found.first);
        panic!("without a fault, at micro-step {n}:\n{told}");
    }
    let (n, found) = split
        .anywhere(edit)
        .unwrap_or_else(|| panic!("`{edit}`: nothing found at any micro-step"));
    let told = common::told(&found.first);
    let is = |v: &Verdict| v.kind == kind && v.because.contains(before);
    assert!(
        found.first.iter().any(is),
        "`{edit}` at micro-step {n}: expected {} because `{before}`, found:\n{told}",
        kind.name()
    );
}

#[test]
fn instructions_invalidated_before_data_is_cleaned() {
    let text = r#"
        claim "what a program stores and syncs it executes"
        K kenter 0xd0400000 page=0
        K dma-read 0xd0400000 seed=0xe3a00001
        K kremove 0xd0400000
        A enter 0x8000 page=0 prot="rwx"
        A load 0x8000
        A fetch 0x8000
        A store 0x8000 0xe3a00002
        HW
        A sync-icache 0x8000 4
        A fetch 0x8000
        "#;
    planted_between(
        text,
        Op::PrefetchInstruction(Va(0x8000)),
        "move icache_inv first at sync",
        Kind::StaleExec,
        "stored by A store 0x8000 0xe3a00002; memory has it: cpu0's instruction-cache line",
    );
}

const KENTER_OVER_TEXT: &str = r#"
        claim "a kernel store reaches the next fetch wherever the hardware looks ahead"
        K kenter 0xd0410000 page=0
        K dma-read 0xd0410000 seed=0xe3a00001
        K kremove 0xd0410000
        A enter 0x8000 page=0 prot="rx"
        A fetch 0x8000
        HW
        K kenter 0xd0400000 page=0
        K store 0xd0400000 0xe3a00002
        A fetch 0x8000
        "#;

#[test]
fn an_entry_stored_after_its_lines_were_flushed() {
    planted_between(
        KENTER_OVER_TEXT,
        Op::PrefetchInstruction(Va(0x8000)),
        "move pte_cache_off after idcache_wbinv at entered",
        Kind::StaleExec,
        "stored by K store 0xd0400000 0xe3a00002",
    );
}

/// The same with a second store: what the hardware looked up in between is a TLB copy, and no line yet, for
/// the lines are flushed afterwards. The first fetch fills one through it, which the second store misses.
#[test]
fn a_tlb_copy_flushed_before_its_entry_is_stored() {
    let text = format!(
        "{KENTER_OVER_TEXT}
        K store 0xd0400000 0xe3a00003
        A fetch 0x8000
        "
    );
    planted_between(
        &text,
        Op::PrefetchInstruction(Va(0x8000)),
        "move pte_cache_off after tlb_flush_id at entered",
        Kind::StaleExec,
        "stored by K store 0xd0400000 0xe3a00003",
    );
}

/// A routine of a CPU that needs no drain, on one that does: what was cleaned waits in the write buffer when
/// the device reads.
#[test]
fn a_routine_that_does_not_drain() {
    let case = parse(
        r#"
        claim "a device reads what the kernel stored"
        K kenter 0xd0400000 page=0
        K dma-read 0xd0400000 seed=0x1000
        K load 0xd0400000
        K store 0xd0400000 0x2222
        K dma-write 0xd0400000
        "#,
    );
    let machine = common::machine("arm926ejs");
    let row = case::run_one(&case, machine.clone(), common::policy(BASE));
    assert!(
        row.verdicts.clean(),
        "{}",
        common::told(&row.verdicts.first)
    );
    let mut wrong = (*machine).clone();
    wrong.routine = "arm9".to_owned();
    let row = case::run_one(&case, wrong.into(), common::policy(BASE));
    let told = common::told(&row.verdicts.first);
    assert!(row.verdicts.of(Kind::StaleRead) > 0, "{told}");
    for place in [
        "K dma-write 0xd0400000",
        "stored by step 4",
        "eviction buffer",
    ] {
        assert!(told.contains(place), "`{place}` is not in:\n{told}");
    }
}

#[test]
fn an_entry_zeroed_after_its_tlb_copy_was_flushed() {
    let text = r#"
        claim "a kernel address that maps another page reads that page"
        K kenter 0xd0400000 page=0
        K dma-read 0xd0400000 seed=0x1000
        HW
        K kremove 0xd0400000
        K kenter 0xd0400000 page=1
        K dma-read 0xd0400000 seed=0x2000
        K load 0xd0400000
        "#;
    planted_between(
        text,
        Op::Prefetch(Va(0xd040_0000)),
        "skeleton kremove move gone before zero",
        Kind::StaleTranslation,
        "the table names another frame",
    );
}

/// A kernel store into text, with or without the mark that says it is for the program, then the fetch.
fn kernel_store(for_program: bool) -> World<Oracle> {
    let mut world = common::world(&common::machine("sheevaplug"), common::policy("none"));
    world.pmap_create(CpuId(0));
    let (text, buffer) = (Va(0x8000), Va(0xd040_0000));
    let ops = [
        Op::Kenter(buffer, Page(0)),
        Op::DmaRead(buffer, 0xe3a0_0001),
        Op::Enter(Space(1), text, Page(0), Rights::Rx),
        Op::Fetch(Space(1), text),
    ];
    for op in ops {
        assert!(!matches!(op.run(&mut world), Outcome::Skipped(_)), "{op:?}");
    }
    world.mark(CpuId(0), Mark::ForProgram(for_program));
    Op::KernelStore(buffer, 0xe3a0_0002).run(&mut world);
    world.mark(CpuId(0), Mark::ForProgram(false));
    Op::Fetch(Space(1), text).run(&mut world);
    world
}

#[test]
fn an_oracle_told_the_wrong_writer() {
    let right = kernel_store(false).observer.verdicts;
    let told = common::told(&right.first);
    assert_eq!(right.of(Kind::StaleExec), 1, "{told}");
    assert!(told.contains("the true bytes were stored by"), "{told}");
    let wrong = kernel_store(true).observer.verdicts;
    assert_eq!(
        wrong.of(Kind::StaleExec),
        0,
        "{}",
        common::told(&wrong.first)
    );
    assert_eq!(
        wrong.of(Kind::Permitted),
        1,
        "the word is old, and nobody's duty"
    );
    assert!(
        !right.clean() && wrong.clean(),
        "so an expectation of stale-exec fails"
    );
}
