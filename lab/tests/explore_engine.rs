//! The search finds as many states and transitions as stateright's breadth-first checker.
//!
//! Four models: the packed toy that other checkers were measured on, two-phase commit (whose counts are in
//! stateright's own tests), Dijkstra's ring, and the real code in a small scope, where stateright asks
//! the same world for its successors.

use std::ops::ControlFlow;
use std::sync::Mutex;

use lab::explore::engine::{Model, Queue, Seen};
use lab::explore::store::{Bitmap, Fingerprints};
use lab::explore::{Ended, Limits, Outcome, Scope, Search, Symmetry, WorldModel};
use machine::Profile;
use stateright::Checker as _;

const NO_LIMITS: Limits = Limits {
    states: u64::MAX,
    bytes: usize::MAX,
    first: false,
};

/// Unique states and transitions by our search.
fn ours<M: Model>(model: M, seen: M::Seen) -> (u64, u64) {
    let mut search = Search::new(model, seen);
    let ended = search.run(&NO_LIMITS, |_| ControlFlow::Continue(()));
    assert_eq!(ended, Ended::Closed);
    (search.states(), search.transitions)
}

/// The same by stateright; it counts initial states as generated ones.
fn theirs<M>(model: M) -> (u64, u64)
where
    M: stateright::Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + Send + Sync + PartialEq,
    M::Action: Clone + PartialEq + Send + Sync,
{
    let initial = model.init_states().len();
    let checker = model.checker().spawn_bfs().join();
    let transitions = checker.state_count() - initial;
    (checker.unique_state_count() as u64, transitions as u64)
}

/// A toy whose state is a small number: successors by a plain function.
#[derive(Clone)]
struct Numbered {
    bound: u32,
    successors: fn(u32, u32) -> Vec<u32>,
    /// How many parts it has.
    parts: u32,
}

impl Model for Numbered {
    type State = u32;
    type Bad = ();
    type Queue = Vec<u32>;
    type Seen = Bitmap;

    fn start(&mut self, mut each: impl FnMut(&u32)) {
        each(&0);
    }

    fn expand(&mut self, state: &u32, mut each: impl FnMut(u16, Outcome<'_, Self>)) {
        for (n, next) in (self.successors)(*state, self.parts).iter().enumerate() {
            each(n as u16, Outcome::State(next));
        }
    }
}

impl stateright::Model for Numbered {
    type State = u32;
    type Action = u32;

    fn init_states(&self) -> Vec<u32> {
        vec![0]
    }

    fn actions(&self, state: &u32, actions: &mut Vec<u32>) {
        actions.extend((self.successors)(*state, self.parts));
    }

    fn next_state(&self, _state: &u32, action: u32) -> Option<u32> {
        Some(action)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        // A checker without an open property stops at once.
        vec![stateright::Property::always("", |_, _| true)]
    }
}

/// Lines of a memory value (3), a data line (4) and an instruction line (4). A store writes the next value, a
/// clean writes it back and drops it, an invalidate drops the instruction line, a fetch fills it from memory.
fn lines(state: u32, count: u32) -> Vec<u32> {
    let mut out = Vec::new();
    for scale in (0..count).map(|n| 48u32.pow(n)) {
        let line = state / scale % 48;
        let (memory, data, code) = (line % 3, line / 3 % 4, line / 12);
        let stored = if data == 0 {
            (memory + 1) % 3
        } else {
            data % 3
        };
        for (m, d, c) in [
            (memory, stored + 1, code),
            (if data == 0 { memory } else { data - 1 }, 0, code),
            (memory, data, 0),
            (memory, data, if code == 0 { memory + 1 } else { code }),
        ] {
            out.push(state - line * scale + (m + d * 3 + c * 12) * scale);
        }
    }
    out
}

/// Two-phase commit (Gray and Lamport; stateright's example): resource managers of 4 states, a transaction
/// manager of 3, who is known to be prepared, and the messages sent.
fn two_phase(state: u32, managers: u32) -> Vec<u32> {
    let field = |n: u32| state >> (2 * n) & 3;
    let tm_at = 2 * managers;
    let known_at = tm_at + 2;
    let sent_at = known_at + managers;
    let (commit, abort) = (1 << (sent_at + managers), 1 << (sent_at + managers + 1));
    let tm = state >> tm_at & 3;
    let known = state >> known_at & ((1 << managers) - 1);
    let mut out = Vec::new();
    if tm == 0 && known == (1 << managers) - 1 {
        out.push(state | 1 << tm_at | commit);
    }
    if tm == 0 {
        out.push(state | 2 << tm_at | abort);
    }
    for rm in 0..managers {
        let with = |to: u32| state & !(3 << (2 * rm)) | to << (2 * rm);
        let prepared = 1 << (sent_at + rm);
        if tm == 0 && state & prepared != 0 {
            out.push(state | 1 << (known_at + rm));
        }
        if field(rm) == 0 {
            out.push(with(1) | prepared);
            out.push(with(3));
        }
        if state & commit != 0 {
            out.push(with(2));
        }
        if state & abort != 0 {
            out.push(with(3));
        }
    }
    out
}

/// Dijkstra's self-stabilising ring with as many values as nodes: the first node steps when it equals the
/// last, the others copy. Any node may also be corrupted to zero.
fn ring(state: u32, nodes: u32) -> Vec<u32> {
    let digit = |n: u32| state / nodes.pow(n) % nodes;
    let with = |n: u32, to: u32| state - digit(n) * nodes.pow(n) + to * nodes.pow(n);
    let mut out = Vec::new();
    if digit(0) == digit(nodes - 1) {
        out.push(with(0, (digit(0) + 1) % nodes));
    }
    for n in 1..nodes {
        if digit(n) != digit(n - 1) {
            out.push(with(n, digit(n - 1)));
        }
        out.push(with(n, 0));
    }
    out
}

fn agree(successors: fn(u32, u32) -> Vec<u32>, parts: u32, bound: u32) -> (u64, u64) {
    let model = Numbered {
        bound,
        successors,
        parts,
    };
    let seen = Bitmap::new(model.bound);
    let counts = ours(model.clone(), seen);
    assert_eq!(counts, theirs(model));
    counts
}

#[test]
fn the_packed_toy_has_the_counts_that_five_checkers_agree_on() {
    let model = Numbered {
        bound: 48u32.pow(4),
        successors: lines,
        parts: 4,
    };
    let seen = Bitmap::new(model.bound);
    assert_eq!(ours(model, seen), (5_308_416, 84_934_656));
    assert_eq!(agree(lines, 3, 48u32.pow(3)), (110_592, 1_327_104));
}

#[test]
fn two_phase_commit_has_the_counts_of_stateright() {
    assert_eq!(agree(two_phase, 3, 1 << 16).0, 288);
    assert_eq!(agree(two_phase, 5, 1 << 26).0, 8832);
}

#[test]
fn dijkstras_ring_has_the_counts_of_stateright() {
    for nodes in 3..=6 {
        assert!(agree(ring, nodes, nodes.pow(nodes)).0 > u64::from(nodes));
    }
}

/// stateright over the real code: one world, asked from several places.
struct Real(Mutex<WorldModel>);

impl stateright::Model for Real {
    type State = Vec<u8>;
    type Action = (u16, Vec<u8>);

    fn init_states(&self) -> Vec<Vec<u8>> {
        vec![self.0.lock().expect("no panic").initial().to_vec()]
    }

    fn actions(&self, state: &Vec<u8>, actions: &mut Vec<Self::Action>) {
        let mut model = self.0.lock().expect("no panic");
        model.expand(state, |n, outcome| {
            if let Outcome::State(next) = outcome {
                actions.push((n, next.to_vec()));
            }
        });
    }

    fn next_state(&self, _state: &Vec<u8>, action: Self::Action) -> Option<Vec<u8>> {
        Some(action.1)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        vec![stateright::Property::always("", |_, _| true)]
    }
}

#[test]
fn the_real_code_has_the_counts_of_stateright() {
    let model = || {
        let profile = Profile::embedded("tiny-line").expect("an embedded machine");
        let policy = pmap::policy::by_name("always-flush").expect("a policy");
        let scope = Scope::by_name("tiny").expect("a scope");
        WorldModel::new(&profile, policy, &scope, Symmetry::On).expect("it fits")
    };
    let ours = ours(model(), Fingerprints::default());
    assert!(ours.0 > 100, "{ours:?}");
    assert_eq!(ours, theirs(Real(Mutex::new(model()))));
}

#[test]
fn stores_keep_what_is_put_in() {
    let mut arena = lab::explore::store::Arena::default();
    let mut seen = Fingerprints::default();
    for n in 0..10_000u32 {
        let state = vec![n as u8; (n % 7) as usize + 1];
        arena.push(&state);
        let new = seen.insert(<Fingerprints as Seen<[u8]>>::key(&state));
        assert_eq!(new, (0..n).all(|m| m % 256 != n % 256 || m % 7 != n % 7));
        assert_eq!(Queue::get(&arena, n as usize), state.as_slice());
        if n > 2000 {
            break;
        }
    }
}
