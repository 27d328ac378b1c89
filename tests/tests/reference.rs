//! Policies that claim that nothing is ever stale under them, against random sequences that keep the pmap's
//! contracts, on every machine there is, with whatever the hardware may do in between.

mod common;

use std::sync::LazyLock;

use lab::World;
use lab::op::{Event, Op, Page, Rights, Space, Use, Va};
use lab::oracle::Oracle;
use machine::CpuId;
use pmap::{PmapCtx, PmapVerbs, Status};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const MACHINES: [&str; 4] = [
    "sheevaplug",
    "sheevaplug-write-allocate",
    "sheevaplug-l2-write-back",
    "sheevaplug-hit-serves",
];

/// What the kernel or a program does, as the operations that the contracts ask for.
#[derive(Clone, Debug)]
struct Act(Vec<Op>);

/// The buffer's address of a page, and the one a clustered transfer maps it at.
fn buffer(page: u8) -> Va {
    Va(0xd040_0000 + u32::from(page) * 0x4000)
}

fn cluster(page: u8) -> Va {
    Va(0xd020_0000 + u32::from(page) * 0x1000)
}

fn event(event: Event, page: u8) -> Op {
    Op::Buffer(event, buffer(page), Page(page), 1)
}

fn write(page: u8, word: u32, value: u32) -> Vec<Op> {
    let va = Va(buffer(page).0 + word * 4);
    vec![
        event(Event::AcquiredWrite, page),
        Op::Use(false, Use::Write, va, 4),
        Op::KernelStore(va, value),
        Op::Use(true, Use::Write, va, 4),
        event(Event::CopiedWrite, page),
        event(Event::Released, page),
    ]
}

fn read(page: u8, word: u32) -> Vec<Op> {
    let va = Va(buffer(page).0 + word * 4);
    vec![
        event(Event::AcquiredRead, page),
        Op::Use(false, Use::Read, va, 4),
        Op::KernelLoad(va),
        Op::Use(true, Use::Read, va, 4),
        event(Event::CopiedRead, page),
        event(Event::Released, page),
    ]
}

fn bread(page: u8, seed: u32) -> Vec<Op> {
    vec![
        event(Event::AcquiredRead, page),
        event(Event::IoStartRead, page),
        Op::DmaRead(buffer(page), seed),
        event(Event::IoDoneRead, page),
        event(Event::Released, page),
    ]
}

fn bwrite(page: u8) -> Vec<Op> {
    vec![
        Op::RemoveWrite(Page(page)),
        event(Event::IoStartWrite, page),
        Op::DmaWrite(buffer(page)),
        event(Event::IoDoneWrite, page),
        event(Event::Released, page),
    ]
}

/// A cluster's transfer: a second kernel address, and gone again.
fn clustered(page: u8) -> Vec<Op> {
    vec![
        Op::RemoveWrite(Page(page)),
        Op::Qenter(cluster(page), Page(page), 1),
        Op::DmaWrite(cluster(page)),
        Op::Qremove(cluster(page), 1),
    ]
}

/// The frame changes hands: nobody maps it any more.
fn freed(page: u8) -> Vec<Op> {
    vec![
        Op::Qremove(buffer(page), 1),
        Op::RemoveAll(Page(page)),
        Op::Recycle(Page(page)),
    ]
}

fn kernel() -> impl Strategy<Value = Vec<Op>> {
    let page = 0..2_u8;
    prop_oneof![
        3 => page.clone().prop_map(|p| vec![Op::Qenter(buffer(p), Page(p), 1)]),
        1 => page.clone().prop_map(|p| vec![Op::Qremove(buffer(p), 1)]),
        4 => (page.clone(), 0..10_u32, any::<u32>()).prop_map(|(p, w, v)| write(p, w, v)),
        3 => (page.clone(), 0..10_u32).prop_map(|(p, w)| read(p, w)),
        3 => (page.clone(), any::<u32>()).prop_map(|(p, s)| bread(p, s)),
        2 => page.clone().prop_map(bwrite),
        1 => page.clone().prop_map(clustered),
        1 => page.clone().prop_map(|p| vec![Op::RemoveWrite(Page(p))]),
        1 => page.clone().prop_map(|p| vec![Op::ClearModify(Page(p))]),
        1 => page.clone().prop_map(|p| vec![Op::ClearReference(Page(p))]),
        1 => page.clone().prop_map(|p| vec![Op::RemoveAll(Page(p))]),
        1 => page.clone().prop_map(|p| [freed(p), vec![Op::Zero(Page(p))]].concat()),
        1 => page.prop_map(|p| [freed(p), vec![Op::Copy(Page(1 - p), Page(p))]].concat()),
        2 => Just(vec![Op::SwitchKernel]),
    ]
}

fn va() -> impl Strategy<Value = Va> {
    (
        prop::sample::select(vec![0x1_0000_u32, 0x2_0000, 0x2_1000]),
        0..10_u32,
    )
        .prop_map(|(page, word)| Va(page + word * 4))
}

fn page_va() -> impl Strategy<Value = Va> {
    va().prop_map(|v| Va(v.0 & !0xfff))
}

fn user() -> impl Strategy<Value = Vec<Op>> {
    let space = || (1..=2_u8).prop_map(Space);
    let rights = prop::sample::select(vec![Rights::R, Rights::Rx, Rights::Rw, Rights::Rwx]);
    let less = prop::sample::select(vec![Rights::R, Rights::Rx]);
    let one = prop_oneof![
        6 => (space(), page_va(), 0..2_u8, rights)
            .prop_map(|(s, v, p, r)| Op::Enter(s, v, Page(p), r)),
        1 => (space(), page_va()).prop_map(|(s, v)| Op::Remove(s, v, 1)),
        1 => space().prop_map(|s| Op::Remove(s, Va(0x1_0000), 24)),
        1 => space().prop_map(Op::RemovePages),
        1 => (space(), page_va(), less).prop_map(|(s, v, r)| Op::Protect(s, v, 2, r)),
        5 => (space(), va()).prop_map(|(s, v)| Op::Load(s, v)),
        5 => (space(), va()).prop_map(|(s, v)| Op::Fetch(s, v)),
        5 => (space(), va(), any::<u32>()).prop_map(|(s, v, n)| Op::Store(s, v, n)),
        1 => (space(), va()).prop_map(|(s, v)| Op::Sync(s, v, 64)),
        1 => space().prop_map(Op::Switch),
    ];
    one.prop_map(|op| vec![op])
}

fn hardware() -> impl Strategy<Value = Vec<Op>> {
    let any = prop_oneof![
        va(),
        (0..2_u8).prop_map(buffer),
        (0..2_u8).prop_map(cluster)
    ];
    let any = any.boxed();
    let one = prop_oneof![
        1 => Just(Op::EvictAll),
        1 => Just(Op::EvictInstructions),
        1 => Just(Op::Drain),
        3 => any.clone().prop_map(Op::Prefetch),
        2 => va().prop_map(Op::PrefetchInstruction),
        2 => any.prop_map(Op::TlbDrop),
    ];
    one.prop_map(|op| vec![op])
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![4 => kernel(), 6 => user(), 2 => hardware()].prop_map(Act)
}

fn start(machine: &str, policy: &str) -> World<Oracle> {
    let mut world = common::world(&common::machine(machine), common::policy(policy));
    for _ in 0..2 {
        assert!(world.pmap_create(CpuId(0)).is_some());
    }
    world.cpu_switch(CpuId(0), Some(pmap::SpaceId(1)));
    world
}

/// A booted world for every reference policy and machine; a sequence starts from a copy.
static STARTS: LazyLock<Vec<(&str, &str, World<Oracle>)>> = LazyLock::new(|| {
    let on = |policy| MACHINES.map(|machine| (policy, machine, start(machine, policy)));
    references().into_iter().flat_map(on).collect()
});

fn survive(
    policy: &str,
    machine: &str,
    mut world: World<Oracle>,
    acts: &[Act],
) -> Result<(), TestCaseError> {
    let ops = acts.iter().flat_map(|a| &a.0);
    let mut text = String::new();
    for op in ops.chain([&Op::EvictAll]) {
        text += &format!("{}\n", case_line(op));
        world.observer.set_context(&case_line(op));
        op.run(&mut world);
        let found = common::told(&world.observer.verdicts.first);
        let clean = world.observer.verdicts.clean();
        prop_assert!(
            clean,
            "{} on {}:\n{}{}\nreplay it:\n  PMAPLAB_CASES={} cargo test -p tests --test reference\n",
            policy,
            machine,
            text,
            found,
            cases()
        );
        prop_assert_eq!(
            world.pmap().check(),
            None,
            "{} on {}:\n{}",
            policy,
            machine,
            text
        );
    }
    Ok(())
}

fn case_line(op: &Op) -> String {
    lab::case::op_text(op)
}

fn references() -> Vec<&'static str> {
    let all = pmap::policy::all();
    all.filter(|p| p.status == Status::Reference)
        .map(|p| p.name)
        .collect()
}

#[test]
fn the_reference_policies_are_the_ones_meant() {
    let names = references();
    for name in [
        "always-flush",
        "freebsd-2010-repaired",
        "netbsd-vivt-repaired",
        "repaired-write-drop",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}

/// How many sequences a run tries; a campaign sets more.
fn cases() -> u32 {
    let wanted = std::env::var("PMAPLAB_CASES").ok();
    wanted.and_then(|n| n.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        max_shrink_iters: 4000,
        ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn nothing_is_stale_under_a_reference(acts in prop::collection::vec(act(), 1..40)) {
        for (policy, machine, world) in STARTS.iter() {
            survive(policy, machine, world.clone(), &acts)?;
        }
    }
}

/// The same sequences find what the unrepaired policy has, so the generator reaches it.
#[test]
fn the_same_sequences_are_stale_without_the_repairs() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let acts = prop::collection::vec(act(), 1..40);
    let world = start("sheevaplug", "freebsd-2010");
    let stale = (0..60).any(|_| {
        let acts = acts.new_tree(&mut runner).unwrap().current();
        survive("freebsd-2010", "sheevaplug", world.clone(), &acts).is_err()
    });
    assert!(stale, "60 sequences, none stale");
}
