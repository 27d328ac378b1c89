//! The whole kernel beside a naive coherent model: processes, files, mappings and daemons, under every policy
//! that claims to be correct. Values are equal, the oracle is clean, every layer's check holds, and the same
//! operations give the same fingerprints.
//!
//! proptest draws, the project's own shrinker shrinks: it counts what was applied, and it knows which
//! sequences a correct program could have made. `PMAPLAB_CASES` sets how many sequences are drawn.

mod model;

use std::cell::RefCell;
use std::sync::Arc;

use lab::case::{self, Action, Content, Line};
use lab::op::{Outcome, Rights};
use lab::oracle::{Kind, Oracle};
use lab::process::{Daemon, Do, Players, ProcessOp, program};
use lab::shrink::{Finding, minimise};
use lab::{State, World, system};
use machine::Profile;
use model::{BUFFER, Expected, MAPS, Model, PAGE, SLOTS};
use pmap::{Policy, Status};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A draft: what to try, by numbers; what fits the state comes of it.
type Draft = (u8, u8, u8, u8);

/// The operation that a draft stands for in a state, if a correct program could do it.
fn operation(model: &Model, (kind, a, b, c): Draft, serial: u32) -> Option<ProcessOp> {
    let processes = model.processes();
    let pid = match processes.len() {
        0 => 1,
        n => processes[usize::from(a) % n],
    };
    let pages = model.pages(pid);
    let page = pages.get(usize::from(b) % pages.len().max(1)).copied();
    let slot = MAPS + u32::from(b) % SLOTS * PAGE;
    let page = page.unwrap_or(slot);
    let word = page + u32::from(c) * 16 % PAGE;
    let rights = [Rights::R, Rights::Rx, Rights::Rw, Rights::Rwx][usize::from(c) % 4];
    let path = ["/f", "/f", "/bin/a", "/bin/b"][usize::from(b) % 4].to_owned();
    let (offset, bytes) = (u32::from(b & 0xf) * 512, 4 << (c % 12));
    let value = 0xe3a0_0000 | serial << 4;
    let what = match kind % 24 {
        0 => Do::Exec(path, Vec::new()),
        1 => Do::Fork(1 + c % 3),
        2 => Do::Exit,
        3..=4 => Do::Read {
            path,
            offset,
            bytes,
        },
        5..=6 => Do::Write {
            path: "/f".to_owned(),
            offset,
            bytes,
            value,
        },
        7..=9 => Do::Mmap {
            path: if b & 0x40 == 0 {
                "/f".to_owned()
            } else {
                String::new()
            },
            at: slot,
            bytes: PAGE * (1 + u32::from(b >> 6)),
            rights,
            shared: b & 0x20 == 0,
        },
        10 => Do::Munmap(page, PAGE),
        11 => Do::Mprotect(page, PAGE, rights),
        12..=13 => Do::Load(word),
        14..=16 => Do::Store(word, value),
        17..=18 => Do::Fetch(word),
        19 => Do::Sync(page, PAGE),
        20 => Do::Msync(page, PAGE),
        21 => Do::Load(BUFFER + u32::from(c) * 4),
        22 => Do::Recycle(String::new()),
        _ => Do::Daemon(
            [
                Daemon::Syncer,
                Daemon::Bufdaemon,
                Daemon::Pagedaemon,
                Daemon::GUp,
            ][usize::from(c) % 4],
        ),
    };
    let pid = if processes.is_empty() { 1 + c % 3 } else { pid };
    let op = ProcessOp { pid, what };
    model.admits(&op).then_some(op)
}

/// The operations that drafts stand for; the first makes a process.
fn operations(drafts: &[Draft]) -> Vec<ProcessOp> {
    let mut model = Model::new();
    let first = ProcessOp {
        pid: 1,
        what: Do::Exec("/bin/a".to_owned(), Vec::new()),
    };
    model.apply(&first);
    let mut ops = vec![first];
    for (n, draft) in drafts.iter().enumerate() {
        if let Some(op) = operation(&model, *draft, n as u32) {
            model.apply(&op);
            ops.push(op);
        }
    }
    ops
}

fn legal(ops: &[ProcessOp]) -> bool {
    let mut model = Model::new();
    ops.iter().all(|op| {
        let legal = model.admits(op);
        if legal {
            model.apply(op);
        }
        legal
    })
}

thread_local! {
    static BOOTED: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// A world with the files of the model.
fn world(policy: &Policy) -> World<Oracle> {
    let state = BOOTED.with_borrow_mut(|booted| booted.get_or_insert_with(boot).clone());
    let oracle = system::oracle(&state);
    World::new(state, policy.clone(), oracle)
}

fn boot() -> State {
    let machine: Arc<Profile> = Profile::embedded("sheevaplug").expect("an embedded machine");
    let mut state = State::boot(machine);
    for (n, file) in model::files().iter().enumerate() {
        let bytes = match file.content {
            Content::Program(words) => program(words, n as u32),
            Content::Data(bytes) => (0..bytes).map(|b| (b / 4 + n as u32) as u8).collect(),
            Content::Guest(_) => Vec::new(),
        };
        state
            .vfs
            .fs_add_file(&file.path, &bytes)
            .expect("room for it");
    }
    state
}

/// What went wrong: a verdict, or something that only the model sees.
#[derive(Clone, PartialEq, Debug)]
struct Wrong {
    kind: Option<Kind>,
    what: String,
}

/// Runs operations beside the model. Returns the fingerprints, one an operation.
fn run(policy: &Policy, ops: &[ProcessOp]) -> Result<Vec<u64>, Wrong> {
    let (mut world, mut players, mut model) = (world(policy), Players::default(), Model::new());
    let mut prints = Vec::new();
    for op in ops {
        let expected = model.apply(op);
        let outcome = players.play(&mut world, op);
        let fails = |kind, what| {
            let what = format!("{}: {what}", op.text());
            Err(Wrong { kind, what })
        };
        if let Some(verdict) = world.observer.verdicts.first.first() {
            return fails(Some(verdict.kind), format!("{verdict:?}"));
        }
        if let Some(broken) = world.state.check() {
            return fails(Some(Kind::BrokenRule), broken);
        }
        let right = match (expected, outcome) {
            (Expected::Value(want), Outcome::Value(got)) => want == got,
            (Expected::Done, Outcome::Done | Outcome::Value(_)) => true,
            (Expected::Any, Outcome::Done | Outcome::Value(_)) => true,
            _ => false,
        };
        if !right {
            return fails(None, format!("expected {expected:x?}, got {outcome:x?}"));
        }
        prints.push(world.state.fingerprint());
    }
    Ok(prints)
}

/// Shrinks and reports.
fn report(policy: &Policy, ops: &[ProcessOp], wrong: &Wrong) -> String {
    let same =
        |ops: &[ProcessOp]| legal(ops) && run(policy, ops).is_err_and(|w| w.kind == wrong.kind);
    let least = minimise(ops, |_| Vec::new(), same);
    let lines: Vec<Line> = least
        .iter()
        .map(|op| Line {
            number: 0,
            text: op.text(),
            action: Action::Process(op.clone()),
        })
        .collect();
    let why = run(policy, &least).expect_err("it fails").what;
    let machine = Profile::embedded("sheevaplug").expect("an embedded machine");
    let kind = wrong.kind.unwrap_or(Kind::Misuse);
    let mut finding = Finding::of_lines("kernel_model", lines, machine, policy, kind);
    finding.case.files = model::files();
    if wrong.kind.is_some() {
        return format!("{why}\n{}", finding.report());
    }
    format!(
        "{why}\nno verdict, but the model disagrees:\n{}\nreplay it:\n  PMAPLAB_CASES={} cargo test -p tests --test kernel_model\n",
        case::write(&finding.case),
        cases()
    )
}

fn cases() -> u32 {
    let wanted = std::env::var("PMAPLAB_CASES").ok();
    wanted.and_then(|n| n.parse().ok()).unwrap_or(60)
}

#[test]
fn every_reference_policy_gives_what_a_coherent_machine_would() {
    let policies: Vec<Policy> = pmap::policy::all()
        .filter(|p| p.status == Status::Reference)
        .collect();
    let config = Config {
        cases: cases(),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let drafts = proptest::collection::vec(any::<Draft>(), 10..60);
    let mut applied = 0;
    let counted = RefCell::new(&mut applied);
    let result = runner.run(&drafts, |drafts| {
        let ops = operations(&drafts);
        **counted.borrow_mut() += ops.len();
        for policy in &policies {
            let first = run(policy, &ops);
            if let Err(wrong) = &first {
                return Err(TestCaseError::fail(report(policy, &ops, wrong)));
            }
            prop_assert_eq!(first.ok(), run(policy, &ops).ok(), "fingerprints");
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(
        applied as u32 > cases() * 8,
        "only {applied} operations were applied"
    );
}

#[test]
fn a_policy_without_maintenance_for_sharing_is_caught_and_the_case_replays() {
    let policy = pmap::policy::by_name("none").expect("it exists");
    let mut rng = lab::fuzz::Inputs::new(1);
    for _ in 0..400 {
        let drafts: Vec<Draft> = (0..50)
            .map(|_| {
                let [a, b, c, d, ..] = rng.word().to_le_bytes();
                (a, b, c, d)
            })
            .collect();
        let ops = operations(&drafts);
        if let Err(wrong) = run(&policy, &ops)
            && wrong.kind.is_some()
        {
            let told = report(&policy, &ops, &wrong);
            assert!(told.contains("replay it:"), "{told}");
            return;
        }
    }
    panic!("nothing found");
}
