//! How fast the search is: on a packed toy, and on the real code with its parts apart.
//!
//! The toy is the one that other checkers were measured on: four lines, each with a value of memory (3), a
//! data line (4: absent, or a value) and an instruction line (4); 5,308,416 states, 84,934,656 transitions.

use std::ops::ControlFlow;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use lab::explore::engine::{Model, Seen};
use lab::explore::model::Done;
use lab::explore::store::Bitmap;
use lab::explore::{Fingerprints, Limits, Outcome, Scope, Search, Symmetry, WorldModel};
use machine::Profile;

/// Four lines of 48 states each, as one number.
struct Toy;

const LINES: u32 = 4;
const LINE: u32 = 48;
const OPS: u32 = 4;

/// The line's state after an operation: store the next value, clean (and drop), invalidate the instruction
/// line, fetch.
const fn after(line: u32, op: u32) -> u32 {
    let (memory, data, code) = (line % 3, line / 3 % 4, line / 12);
    let (memory, data, code) = match op {
        0 => (
            memory,
            if data == 0 {
                (memory + 1) % 3 + 1
            } else {
                data % 3 + 1
            },
            code,
        ),
        1 => (if data == 0 { memory } else { data - 1 }, 0, code),
        2 => (memory, data, 0),
        _ => (memory, data, if code == 0 { memory + 1 } else { code }),
    };
    memory + data * 3 + code * 12
}

const TABLE: [[u32; OPS as usize]; LINE as usize] = {
    let mut table = [[0; OPS as usize]; LINE as usize];
    let mut n = 0;
    while n < LINE * OPS {
        table[(n / OPS) as usize][(n % OPS) as usize] = after(n / OPS, n % OPS);
        n += 1;
    }
    table
};

impl Model for Toy {
    type State = u32;
    type Bad = ();
    type Queue = Vec<u32>;
    type Seen = Bitmap;

    fn start(&mut self, mut each: impl FnMut(&u32)) {
        each(&0);
    }

    #[inline]
    fn expand(&mut self, state: &u32, mut each: impl FnMut(u16, Outcome<'_, Self>)) {
        let mut scale = 1;
        let mut rest = *state;
        for line in 0..LINES {
            let one = rest % LINE;
            rest /= LINE;
            for (op, after) in TABLE[one as usize].iter().enumerate() {
                let next = state.wrapping_add(after.wrapping_sub(one).wrapping_mul(scale));
                each((line * OPS) as u16 + op as u16, Outcome::State(&next));
            }
            scale *= LINE;
        }
    }
}

fn limits(states: u64) -> Limits {
    Limits {
        states,
        bytes: usize::MAX,
        first: false,
    }
}

fn real(policy: &str, symmetry: Symmetry) -> WorldModel {
    let profile = Profile::embedded("tiny-line").expect("an embedded machine");
    let policy = pmap::policy::by_name(policy).expect("a policy");
    let scope = Scope::by_name("default").expect("a scope");
    WorldModel::new(&profile, policy, &scope, symmetry).expect("it fits")
}

/// Rates that a person wants to read; criterion shows times only.
fn tell(what: &str, states: u64, transitions: u64, seconds: f64, bytes: usize) {
    println!(
        "{what}: {states} states, {transitions} transitions, {:.2} M states/s, {:.2} M transitions/s, \
{} bytes a state",
        states as f64 / seconds / 1e6,
        transitions as f64 / seconds / 1e6,
        bytes as u64 / states.max(1),
    );
}

fn toy(c: &mut Criterion) {
    let search = || {
        let mut search = Search::new(Toy, Bitmap::new(LINE.pow(LINES)));
        search.run(&limits(u64::MAX), |_| ControlFlow::Continue(()));
        search
    };
    let begun = Instant::now();
    let done = search();
    tell(
        "toy",
        done.states(),
        done.transitions,
        begun.elapsed().as_secs_f64(),
        done.bytes(),
    );
    let mut group = c.benchmark_group("search");
    group.sample_size(10);
    group.bench_function("packed toy, all 5,308,416 states", |b| b.iter(search));
    group.finish();
}

fn world(c: &mut Criterion) {
    for policy in pmap::policy::names() {
        let model = Sampled {
            inner: real(policy, Symmetry::On),
            states: Vec::new(),
            count: 0,
        };
        let mut search = Search::new(model, Fingerprints::default());
        let begun = Instant::now();
        search.run_with(&mut [], &limits(STATES), |_| ControlFlow::Continue(()));
        let seconds = begun.elapsed().as_secs_f64();
        let (states, transitions) = (search.states(), search.transitions);
        tell(policy, states, transitions, seconds, search.bytes());
        let each = seconds / transitions as f64;
        let real = real_code(&mut search.model);
        println!(
            "    a transition: {:.0} ns, of which the real code {:.0} ns; the search's own share {:.0} %",
            each * 1e9,
            real * 1e9,
            (1.0 - real / each) * 100.0
        );
    }
    parts(c);
}

const STATES: u64 = 200_000;
/// Of so many states expanded one is kept to measure the real code on.
const EVERY: usize = 16;

/// A model that remembers some of the states expanded.
struct Sampled {
    inner: WorldModel,
    states: Vec<Vec<u8>>,
    count: usize,
}

impl Model for Sampled {
    type State = [u8];
    type Bad = <WorldModel as Model>::Bad;
    type Queue = <WorldModel as Model>::Queue;
    type Seen = Fingerprints;

    fn start(&mut self, each: impl FnMut(&[u8])) {
        self.inner.start(each);
    }

    fn expand(&mut self, state: &[u8], mut each: impl FnMut(u16, Outcome<'_, Self>)) {
        self.count += 1;
        if self.count.is_multiple_of(EVERY) {
            self.states.push(state.to_vec());
        }
        self.inner.expand(state, |action, outcome| match outcome {
            Outcome::State(s) => each(action, Outcome::State(s)),
            Outcome::Bad(bad) => each(action, Outcome::Bad(bad)),
        });
    }
}

/// Seconds that machine, pmap, rule, routine and oracle take for a transition: actions of the sampled states
/// run and undone, less the same undone without being run.
fn real_code(model: &mut Sampled) -> f64 {
    let Sampled { inner, states, .. } = model;
    let mut actions = Vec::new();
    let mut transitions = 0u32;
    for state in states.iter() {
        inner.restore(state);
        let facts = inner.facts();
        let may = |n: &usize| facts.allow(inner.moves()[*n].act);
        let allowed: Vec<usize> = (0..inner.moves().len()).filter(may).collect();
        for n in &allowed {
            inner.restore(state);
            transitions += u32::from(inner.run(*n) == Done::Yes(None));
        }
        actions.push(allowed);
    }
    let mut time = |run: bool| {
        let begun = Instant::now();
        for (state, allowed) in states.iter().zip(&actions) {
            for n in allowed {
                inner.restore(state);
                if run {
                    std::hint::black_box(inner.run(*n));
                }
            }
        }
        begun.elapsed().as_secs_f64()
    };
    let mut least = |run| (0..3).map(|_| time(run)).fold(f64::MAX, f64::min);
    (least(true) - least(false)) / f64::from(transitions)
}

/// What a transition is made of.
fn parts(c: &mut Criterion) {
    let mut model = real("freebsd-2010", Symmetry::On);
    let mut sample = Vec::new();
    let mut search = Search::new(real("freebsd-2010", Symmetry::On), Fingerprints::default());
    search.run(&limits(2000), |_| ControlFlow::Continue(()));
    let mut state = model.initial().to_vec();
    for action in search.path(1999) {
        let mut next = state.clone();
        model.expand(&state, |n, outcome| {
            if let (true, Outcome::State(s)) = (n == action, outcome) {
                next = s.to_vec();
            }
        });
        state = next;
        sample.push(state.clone());
    }
    let mut n = 0;
    let mut pick = move || {
        n = (n + 1) % sample.len();
        sample[n].clone()
    };
    let state = pick();
    c.bench_function("restore", |b| b.iter(|| model.restore(&state)));
    c.bench_function("pack", |b| b.iter(|| model.pack().len()));
    let mut seen = Fingerprints::default();
    c.bench_function("fingerprint and look up", |b| {
        b.iter(|| seen.insert(<Fingerprints as Seen<[u8]>>::key(&state)))
    });
    c.bench_function("expand a state, all actions", |b| {
        b.iter(|| {
            let mut count = 0;
            model.expand(&state, |_, _| count += 1);
            count
        })
    });
}

criterion_group!(benches, toy, world);
criterion_main!(benches);
