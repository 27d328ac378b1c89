//! The canonical form loses nothing, and the search finds planted faults where they must be.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lab::amend::slim::Fate;
use lab::amend::{Ground, Judgement, edited, repair, slim};
use lab::case::run_one;
use lab::explore::codec::Codec;
use lab::explore::engine::Model;
use lab::explore::model::Done;
use lab::explore::scope::with_value;
use lab::explore::{
    Ended, Finding, Fingerprints, Limits, Outcome, Scope, Search, Symmetry, WorldModel, witness,
};
use lab::op::Rights;
use lab::oracle::Kind;
use machine::{LineOp, Profile};
use pmap::edit::Edit;
use pmap::hook::{Facts, Hook, View};
use pmap::plan::{Do, Plan};
use pmap::rule::{Rule, always_flush};
use pmap::{Policy, PvFlags, SpaceId};

const MACHINE: &str = "tiny-line";

fn profile(name: &str) -> Arc<Profile> {
    Profile::embedded(name).expect("an embedded machine")
}

fn policy(name: &str) -> Policy {
    pmap::policy::by_name(name).expect("a policy")
}

fn scope(name: &str) -> Scope {
    Scope::by_name(name).expect("a scope")
}

fn model(machine: &str, policy: Policy, scope: &Scope, symmetry: Symmetry) -> WorldModel {
    WorldModel::new(&profile(machine), policy, scope, symmetry).expect("it fits")
}

fn search(model: WorldModel, first: bool) -> (Ended, Search<WorldModel>) {
    let mut search = Search::new(model, Fingerprints::default());
    let limits = Limits {
        states: 3_000_000,
        bytes: 1 << 30,
        first,
    };
    let ended = search.run(&limits, |_| ControlFlow::Continue(()));
    (ended, search)
}

fn kinds(found: &[Finding<Kind>]) -> Vec<(Kind, u32)> {
    let mut out: Vec<_> = found.iter().map(|f| (f.bad, f.depth)).collect();
    out.sort();
    out
}

#[test]
fn symmetry_changes_no_verdict_and_no_depth() {
    for policy in pmap::policy::all() {
        // What is safe has to be searched to the end, and without symmetry that is large.
        let scopes: &[&str] = match (policy.status, policy.name) {
            (pmap::Status::Reference, _) => &["user"],
            (_, "freebsd-2010" | "bare") => &["user", "default"],
            _ => &["default"],
        };
        for scope in scopes.iter().map(|s| scope(s)) {
            let run = |symmetry| search(model(MACHINE, policy.clone(), &scope, symmetry), true);
            let (with, without) = (run(Symmetry::On), run(Symmetry::Off));
            let name = (policy.name, scope.name);
            assert_eq!(with.0, without.0, "{name:?}");
            assert_eq!(kinds(&with.1.found), kinds(&without.1.found), "{name:?}");
            assert!(with.1.states() < without.1.states(), "{name:?}");
        }
    }
}

#[test]
fn a_restored_state_has_the_bytes_it_was_restored_from() {
    for machine in [MACHINE, "tiny-line-ra"] {
        let scope = scope("windows");
        let make = || model(machine, policy("freebsd-2010"), &scope, Symmetry::On);
        let (mut walker, mut checker) = (make(), make());
        let mut states = vec![walker.initial().to_vec()];
        for n in 0..400 {
            let state = states[n].clone();
            checker.restore(&state);
            assert_eq!(checker.pack(), state.as_slice(), "{machine}, state {n}");
            walker.expand(&state, |_, outcome| {
                if let Outcome::State(next) = outcome
                    && !states.iter().any(|s| s == next)
                {
                    states.push(next.to_vec());
                }
            });
        }
    }
}

/// A world that was never packed, with values of its own, makes only steps that the canonical model makes.
#[test]
fn every_real_step_is_a_step_of_the_canonical_form() {
    for (machine, name) in [
        (MACHINE, "none"),
        ("tiny-line-ra", "bare"),
        (MACHINE, "freebsd-2010"),
        (MACHINE, "freebsd-2006-fixed"),
    ] {
        let scope = scope("windows");
        let mut canonical = model(machine, policy(name), &scope, Symmetry::On);
        let codec = Codec::new(&profile(machine), Symmetry::On, &scope).expect("it fits");
        let mut random = 12345u32;
        for run in 0..60 {
            let mut real = model(machine, policy(name), &scope, Symmetry::Off);
            let mut before = canonical.initial().to_vec();
            for step in 0..40 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let n = (random >> 8) as usize % real.moves().len();
                if !real.facts().allow(real.moves()[n].act) {
                    continue;
                }
                let value = 0xe000_0001 + step;
                let ops = real.moves()[n].ops.iter();
                let mut ops: Vec<_> = ops.map(|op| with_value(*op, value)).collect();
                if real.run_ops(n, &mut ops) != Done::Yes(None) {
                    break;
                }
                let mut after = Vec::new();
                codec.save(&real.world, real.phase(), &mut after);
                let mut met = false;
                canonical.expand(&before, |_, outcome| {
                    met |= matches!(outcome, Outcome::State(s) if s == after);
                });
                assert!(met, "{machine} {name}: run {run}, step {step}, {ops:?}");
                before = after;
            }
        }
    }
}

/// What makes it right that MOD is left out of states.
#[test]
fn no_rule_looks_at_mod() {
    use machine::{Ap, Frame, Pte, VirtAddr};
    use pmap::hook::{Mapping, Verb};
    let mapping = |space: u16, va: u32, flags: PvFlags| Mapping {
        space: SpaceId(space),
        va: VirtAddr(va),
        flags,
        pte: Pte::new(Frame(1), Ap::User).with_cache(!flags.contains(PvFlags::NC)),
        current: true,
        live: true,
    };
    let sets = [
        PvFlags::empty(),
        PvFlags::WRITE,
        PvFlags::REF,
        PvFlags::EXEC,
        PvFlags::WRITE | PvFlags::REF,
        PvFlags::EXEC | PvFlags::REF,
        PvFlags::WRITE | PvFlags::NC,
    ];
    let (old, new) = (Pte::new(Frame(1), Ap::User), Pte::ZERO);
    let verb = Verb::Remove;
    let hooks = [
        Hook::Entered,
        Hook::Changed,
        Hook::Left(PvFlags::WRITE),
        Hook::WillStore { verb, old, new },
        Hook::Stored { verb, old, new },
        Hook::WillLeave { verb, nth: 0 },
        Hook::Gone { verb, nth: 0 },
        Hook::Ends {
            verb: Verb::ClearWrite,
            pages: 1,
            start: VirtAddr(0),
            len: 8,
        },
    ];
    let facts = Facts {
        page: 8,
        scratch: [VirtAddr(0x30), VirtAddr(0x38)],
        l2: false,
    };
    for policy in pmap::policy::all() {
        for n in 0..sets.len().pow(3) {
            let flags = |place: u32| sets[n / sets.len().pow(place) % sets.len()];
            let (a, b, c) = (flags(0), flags(1), flags(2));
            let plans = [PvFlags::empty(), PvFlags::MOD].map(|more| {
                let mappings = [
                    mapping(0, 0x20, a | more),
                    mapping(1, 0, b | more),
                    mapping(2, 0, c | more),
                ];
                let view = View {
                    mappings: &mappings,
                    kva: None,
                    subject: Some(mappings[1]),
                    frame: Some(Frame(1)),
                    bits: 0,
                    counts: Default::default(),
                    uncacheable: false,
                };
                hooks.map(|hook| {
                    let mut plan = Plan::default();
                    (policy.rule)(&hook, &view, &facts, &mut plan);
                    plan
                })
            });
            assert_eq!(plans[0], plans[1], "{}: {a:?} {b:?} {c:?}", policy.name);
        }
    }
}

/// `always-flush` with something wrong.
fn planted(rule: Rule) -> Policy {
    Policy {
        rule,
        ..policy("always-flush")
    }
}

fn no_tlb(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    always_flush::plan(hook, view, facts, plan);
    // Without the flush of a repaired fault, the access would fault for ever: another finding.
    let repairs = matches!(hook, Hook::Fixed(_));
    plan.steps.retain(|s| repairs || !s.what.is_tlb());
}

fn no_write_back(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    always_flush::plan(hook, view, facts, plan);
    for step in &mut plan.steps {
        if step.what == Do::IdcacheAll {
            step.what = Do::DcacheAll(LineOp::Invalidate);
        }
    }
}

fn no_instruction_invalidate(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    always_flush::plan(hook, view, facts, plan);
    for step in &mut plan.steps {
        if step.what == Do::IdcacheAll {
            step.what = Do::DcacheAll(LineOp::CleanInvalidate);
        }
    }
}

fn no_kernel_uses(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    if !matches!(hook, Hook::Will(..) | Hook::Did(..) | Hook::Buffer(..)) {
        always_flush::plan(hook, view, facts, plan);
    }
}

fn no_dma(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    if !matches!(hook, Hook::Dma(..)) {
        always_flush::plan(hook, view, facts, plan);
    }
}

fn flag_without_entry(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    always_flush::plan(hook, view, facts, plan);
    if let (Hook::Entered, Some(m)) = (hook, view.subject)
        && m.space != SpaceId::KERNEL
    {
        let (set, clear) = (PvFlags::NC, PvFlags::empty());
        plan.push(Do::Flags { set, clear }, m.space, m.va, 0);
    }
}

/// Each fault, what it leads to, and after how many actions at the soonest:
/// - without TLB operations: enter, load, enter another page (or remove), load;
/// - without write-back: map the buffer, kernel store (the hook after it drops the line);
/// - without instruction invalidation: map the buffer, enter, fetch, kernel store, fetch;
/// - without hooks at kernel uses: map the buffer, enter, kernel store, load;
/// - without hooks at DMA: map the buffer, enter, store, device read;
/// - a flag that the entry does not follow: enter.
const FAULTS: &[(&str, Rule, Kind, u32)] = &[
    ("no TLB operation", no_tlb, Kind::StaleTranslation, 4),
    ("no write-back", no_write_back, Kind::LostWrite, 2),
    (
        "no icache invalidate",
        no_instruction_invalidate,
        Kind::StaleExec,
        5,
    ),
    ("no kernel-use hooks", no_kernel_uses, Kind::StaleRead, 4),
    ("no DMA hooks", no_dma, Kind::StaleRead, 4),
    (
        "flag without entry",
        flag_without_entry,
        Kind::BrokenRule,
        1,
    ),
];

#[test]
fn a_planted_fault_of_each_kind_is_found_at_its_shortest_depth_and_confirmed() {
    let scope = scope("default");
    for (what, rule, kind, depth) in FAULTS {
        let policy = planted(*rule);
        let model = model(MACHINE, policy.clone(), &scope, Symmetry::On);
        let mut search = Search::new(model, Fingerprints::default());
        let limits = Limits {
            states: 30_000,
            bytes: 1 << 30,
            first: true,
        };
        search.run(&limits, |_| ControlFlow::Continue(()));
        let found = search.found.iter().find(|f| f.bad == *kind).copied();
        let found = found.unwrap_or_else(|| panic!("{what}: {:?}", search.found));
        assert_eq!(found.depth, *depth, "{what}: {:?}", search.found);
        let profile = profile(MACHINE);
        let case = witness::case(&mut search, &found, (&profile, MACHINE), &policy, &scope)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(
            run_one(&case, profile, policy).verdicts.of(*kind) > 0,
            "{what}"
        );
    }
}

/// Finds no difference between a search by one thread and by three: counts, findings, paths.
#[test]
fn threads_change_nothing() {
    for name in ["always-flush", "bare"] {
        let scope = scope("small");
        let make = || model(MACHINE, policy(name), &scope, Symmetry::On);
        let limits = Limits {
            states: 40_000,
            bytes: 1 << 30,
            first: false,
        };
        let mut one = Search::new(make(), Fingerprints::default());
        one.run(&limits, |_| ControlFlow::Continue(()));
        let mut three = Search::new(make(), Fingerprints::default());
        three.run_with(
            &mut [make(), make()],
            &limits,
            |_| ControlFlow::Continue(()),
        );
        assert!(one.states() >= 40_000 || !one.found.is_empty());
        assert_eq!(one.found, three.found, "{name}");
        let both = one.states().min(three.states()) as u32;
        assert!(
            (0..both).step_by(97).all(|n| one.path(n) == three.path(n)),
            "{name}"
        );
    }
}

/// A search to be stopped and gone on with.
fn stoppable() -> WorldModel {
    let policy = policy("always-flush");
    model(MACHINE, policy, &scope("user"), Symmetry::On)
}

#[test]
fn a_checkpoint_goes_on_where_it_stopped() {
    let (ended, whole) = search(stoppable(), false);
    assert_eq!(ended, Ended::Closed);
    let mut part = Search::new(stoppable(), Fingerprints::default());
    let limits = Limits {
        states: 5000,
        bytes: 1 << 30,
        first: false,
    };
    part.run(&limits, |_| ControlFlow::Continue(()));
    let path = std::env::temp_dir().join(format!("pmaplab-checkpoint-{}", std::process::id()));
    lab::explore::checkpoint::save(&part, "key", &path).expect("it can be written");
    assert!(lab::explore::checkpoint::load(stoppable(), "other", &path).is_err());
    let mut rest =
        lab::explore::checkpoint::load(stoppable(), "key", &path).expect("it can be read");
    std::fs::remove_file(&path).expect("it is there");
    let limits = Limits {
        states: u64::MAX,
        bytes: 1 << 30,
        first: false,
    };
    assert_eq!(
        rest.run(&limits, |_| ControlFlow::Continue(())),
        Ended::Closed
    );
    assert_eq!(
        (rest.states(), rest.transitions),
        (whole.states(), whole.transitions)
    );
    assert_eq!(rest.depth, whole.depth);
}

/// An action undone leaves the state that restoring leaves: each action of many states has the outcome that it
/// has on a state restored for it alone.
#[test]
fn an_action_undone_leaves_nothing_behind() {
    for (machine, name, scope_name) in [
        (MACHINE, "freebsd-2010-repaired", "default"),
        (MACHINE, "freebsd-2006-fixed", "default"),
        ("tiny-line-ra", "freebsd-2010-repaired", "paging"),
        (MACHINE, "always-flush", "windows"),
    ] {
        let scope = scope(scope_name);
        let make = || model(machine, policy(name), &scope, Symmetry::On);
        let (mut walker, mut alone) = (make(), make());
        let mut states = vec![walker.initial().to_vec()];
        let mut known: HashSet<Vec<u8>> = states.iter().cloned().collect();
        for n in 0..1500 {
            let state = states[n].clone();
            let mut outcomes = Vec::new();
            walker.expand(&state, |action, outcome| {
                if let Outcome::State(next) = outcome {
                    outcomes.push((usize::from(action), next.to_vec()));
                }
            });
            for (action, next) in outcomes {
                alone.restore(&state);
                assert!(matches!(alone.run(action), Done::Yes(_)));
                let ops = &walker.moves()[action].ops;
                assert_eq!(alone.pack(), next, "{machine} {name}, state {n}: {ops:?}");
                if known.insert(next.clone()) {
                    states.push(next);
                }
            }
        }
    }
}

/// Where amendments are judged: quickly.
fn ground(name: &str) -> Ground {
    Ground {
        profile: profile(MACHINE),
        scope: scope(name),
        threads: 1,
        states: 200_000,
    }
}

/// What goes can go together, and what stays cannot go as well: judged anew by searches of their own.
#[test]
fn slim_drops_what_is_not_needed_and_nothing_else() {
    let (policy, ground) = (policy("freebsd-2010-repaired"), ground("user"));
    let mut told = 0;
    let all = slim::slim(&policy, &ground, &ground, |_| told += 1).expect("it is safe");
    assert_eq!(told, all.len());
    let gone = slim::gone(&all);
    let judge = |edits: &[Edit]| ground.judge(&edited(&policy, edits)).expect("a search");
    assert!(!gone.is_empty() && gone.len() < all.len(), "{all:?}");
    assert!(matches!(judge(&gone), Judgement::Safe { .. }), "{gone:?}");
    for candidate in all.iter().filter(|c| c.fate != Fate::Gone) {
        let more = [&gone[..], &[candidate.edit]].concat();
        assert!(
            matches!(judge(&more), Judgement::Unsafe(_)),
            "{candidate:?}"
        );
    }
}

/// A scope in which nobody stores slims more than one in which programs do allows: what that one needs comes
/// back.
#[test]
fn slim_puts_back_what_the_larger_scope_needs() {
    let policy = policy("freebsd-2010-repaired");
    let wide = ground("user");
    let mut narrow = ground("user");
    narrow.scope.rights = &[Rights::Rx];
    let all = slim::slim(&policy, &narrow, &wide, |_| ()).expect("it is safe");
    let gone = slim::gone(&all);
    let judged = |edits: &[Edit]| wide.judge(&edited(&policy, edits)).expect("a search");
    assert!(matches!(judged(&gone), Judgement::Safe { .. }), "{gone:?}");
    let back: Vec<_> = all
        .iter()
        .filter(|c| c.fate != Fate::Gone)
        .filter(|c| {
            let without = [&gone[..], &[c.edit]].concat();
            let narrowly = narrow.judge(&edited(&policy, &without));
            matches!(narrowly, Ok(Judgement::Safe { .. }))
        })
        .collect();
    assert!(!back.is_empty(), "{all:?}");
    for candidate in back {
        let more = [&gone[..], &[candidate.edit]].concat();
        assert!(
            matches!(judged(&more), Judgement::Unsafe(_)),
            "{candidate:?}"
        );
    }
}

const NO_WRITE_BACK: &str = "drop dcache_wbinv at gone:kremove";
const NO_TLB_FLUSH: &str = "drop tlb_flush_d at stored:protect";

fn repaired_by_one(broken: &str, confirm: &Ground) -> (Policy, repair::Outcome) {
    let policy = policy("freebsd-2010-repaired")
        .edited_by(broken)
        .expect("edits");
    let time = Duration::from_secs(600);
    let out = repair::repair(&policy, (&ground("tiny"), confirm), 1, time, |_| ());
    (policy, out.expect("it is unsafe"))
}

/// A step taken away is put right by one edit, which a search confirms.
#[test]
fn repair_finds_what_makes_a_broken_policy_safe() {
    for broken in [NO_WRITE_BACK, NO_TLB_FLUSH] {
        let confirm = ground("tiny");
        let (policy, out) = repaired_by_one(broken, &confirm);
        let found = out
            .edits
            .unwrap_or_else(|| panic!("{broken}: none of {}", out.tried));
        assert_eq!(found.len(), 1);
        let judged = confirm.judge(&edited(&policy, &found)).expect("a search");
        assert!(
            matches!(judged, Judgement::Safe { .. }),
            "{broken}: {found:?}"
        );
    }
}

/// Two faults that no single edit repairs: every candidate is tried, and refuted.
#[test]
fn repair_says_that_there_is_none() {
    let both = format!("{NO_WRITE_BACK}\n{NO_TLB_FLUSH}");
    let (_, out) = repaired_by_one(&both, &ground("tiny"));
    assert_eq!((out.edits, out.stopped), (None, false));
    assert_eq!(out.tried, out.candidates as u64);
}

/// A bound of memory ends a search near it, with what is known; with more memory it goes on from there and comes
/// to what a search without a bound comes to.
#[test]
fn a_search_stops_at_its_memory_and_goes_on_with_more() {
    let (_, whole) = search(stoppable(), false);
    let mut part = Search::new(stoppable(), Fingerprints::default());
    let limits = |bytes| Limits {
        states: u64::MAX,
        bytes,
        first: false,
    };
    let mut stops = 0;
    for bytes in [100 << 10, 200 << 10] {
        let ended = part.run(&limits(bytes), |_| ControlFlow::Continue(()));
        assert_eq!(ended, Ended::Memory);
        assert!(part.bytes() < bytes * 3 / 2, "{} of {bytes}", part.bytes());
        assert!(part.states() > stops);
        stops = part.states();
    }
    assert_eq!(
        part.run(&limits(1 << 30), |_| ControlFlow::Continue(())),
        Ended::Closed
    );
    assert_eq!(
        (part.states(), part.transitions),
        (whole.states(), whole.transitions)
    );
}
