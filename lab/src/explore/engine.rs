//! Breadth-first search, to a fixpoint or a bound, over anything that is a [`Model`].
//!
//! The engine knows no machines. It keeps two levels of states, a set of the states seen, and for every
//! state its parent and the action that led to it: 8 bytes each, so that a shortest path can be read back.
//! States of one level are expanded in the order found, so equal models give equal paths.
//!
//! A model brings its own store for a level ([`Queue`]) and its own set ([`Seen`]): a bitmap where states
//! are numbers, 64-bit fingerprints where they are bytes. Two different states with one fingerprint would
//! be taken for one; among ten million states the chance of any such pair is below 3 in a million.

use std::ops::{ControlFlow, Range};

/// What can be searched.
pub trait Model {
    /// A state, as it is handed around.
    type State: ?Sized;
    /// What can be wrong after an action.
    type Bad: Copy + PartialEq;
    /// Keeps the states of one level.
    type Queue: Queue<Self::State>;
    /// Keeps which states were seen.
    type Seen: Seen<Self::State>;

    /// Hands over the initial states.
    fn start(&mut self, each: impl FnMut(&Self::State));

    /// Hands over the outcome of every action that is possible in `state`.
    fn expand(&mut self, state: &Self::State, each: impl FnMut(u16, Outcome<'_, Self>));

    /// Whether a search that wants one finding stops at this one.
    fn stops(&self, _bad: Self::Bad) -> bool {
        true
    }
}

/// What an action leads to. An action may report something bad and a state as well.
pub enum Outcome<'a, M: Model + ?Sized> {
    /// A state.
    State(&'a M::State),
    /// Something bad.
    Bad(M::Bad),
}

/// A store of states, in order.
pub trait Queue<S: ?Sized>: Default {
    /// Adds a state.
    fn push(&mut self, state: &S);
    /// The state added `n`th.
    fn get(&self, n: usize) -> &S;
    /// How many there are.
    fn count(&self) -> usize;
    /// Forgets all of them.
    fn clear(&mut self);
    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

/// A set of states, known by keys.
pub trait Seen<S: ?Sized> {
    /// What a state is known by.
    type Key: Copy;
    /// The key of a state.
    fn key(state: &S) -> Self::Key;
    /// Adds a state; false if it was in.
    fn insert(&mut self, key: Self::Key) -> bool;
    /// Whether a state is in.
    fn contains(&self, key: Self::Key) -> bool;
    /// Bytes of memory.
    fn bytes(&self) -> usize;
    /// Bytes more that it takes to grow, if that may be soon.
    fn bytes_to_grow(&self) -> usize {
        0
    }
}

impl<S: Copy> Queue<S> for Vec<S> {
    #[inline]
    fn push(&mut self, state: &S) {
        Vec::push(self, *state);
    }

    #[inline]
    fn get(&self, n: usize) -> &S {
        &self[n]
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<S>()
    }
}

/// Where a search stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// States.
    pub states: u64,
    /// Bytes of memory: looked at every thousand states, and before the set of states seen is doubled.
    pub bytes: usize,
    /// Stop at the first finding that stops.
    pub first: bool,
}

/// Why a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Every reachable state was expanded.
    Closed,
    /// Something bad was found.
    Found,
    /// The limit of states was reached.
    States,
    /// The limit of memory was reached.
    Memory,
    /// Whoever watches said so.
    Stopped,
}

/// Something bad, first met after the fewest actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finding<B> {
    /// What.
    pub bad: B,
    /// The state before the last action, by its number.
    pub parent: u32,
    /// The last action.
    pub action: u16,
    /// Actions from an initial state.
    pub depth: u32,
}

/// States that threads expand before what they found is put together.
const BATCH: usize = 2048;

/// The parent of an initial state.
const NOBODY: u32 = u32::MAX;

/// A search under way.
pub struct Search<M: Model> {
    /// What is searched.
    pub model: M,
    pub(super) seen: M::Seen,
    pub(super) level: M::Queue,
    pub(super) next: M::Queue,
    /// The next state of the level to expand.
    pub(super) at: usize,
    /// The number of the level's first state.
    pub(super) first: u32,
    pub(super) parents: Vec<u32>,
    pub(super) actions: Vec<u16>,
    /// Outcomes of actions so far.
    pub transitions: u64,
    /// Actions from an initial state to the level's states.
    pub depth: u32,
    /// Findings, one of each kind, the shallowest first.
    pub found: Vec<Finding<M::Bad>>,
}

impl<M: Model> Search<M> {
    /// A search that has seen the initial states only.
    pub fn new(mut model: M, mut seen: M::Seen) -> Self {
        let mut level = M::Queue::default();
        model.start(|state| {
            if seen.insert(M::Seen::key(state)) {
                level.push(state);
            }
        });
        let initial = level.count();
        Self {
            model,
            seen,
            level,
            next: M::Queue::default(),
            at: 0,
            first: 0,
            parents: vec![NOBODY; initial],
            actions: vec![0; initial],
            transitions: 0,
            depth: 0,
            found: Vec::new(),
        }
    }

    /// Different states met.
    pub fn states(&self) -> u64 {
        self.parents.len() as u64
    }

    /// States of the present level expanded, its size, and states of the next level so far.
    pub fn progress(&self) -> (usize, usize, usize) {
        (self.at, self.level.count(), self.next.count())
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        let paths = self.parents.capacity() * 4 + self.actions.capacity() * 2;
        self.seen.bytes() + self.level.bytes() + self.next.bytes() + paths
    }

    /// Goes on until the search ends. `watch` is called every few thousand states and may stop it.
    pub fn run(&mut self, limits: &Limits, watch: impl FnMut(&Self) -> ControlFlow<()>) -> Ended {
        self.go(limits, watch, Self::expand_one)
    }

    /// The same with a thread for each helper beside this one; what is found is the same.
    pub fn run_with(
        &mut self,
        helpers: &mut [M],
        limits: &Limits,
        watch: impl FnMut(&Self) -> ControlFlow<()>,
    ) -> Ended
    where
        M: Send,
        M::Bad: Send,
        M::Queue: Send + Sync,
        M::Seen: Sync,
        Key<M>: Send,
    {
        self.go(limits, watch, |search| {
            if search.level.count() - search.at < BATCH / 8 {
                search.expand_one();
            } else {
                search.expand_batch(helpers, limits.first);
            }
        })
    }

    fn go(
        &mut self,
        limits: &Limits,
        mut watch: impl FnMut(&Self) -> ControlFlow<()>,
        mut advance: impl FnMut(&mut Self),
    ) -> Ended {
        loop {
            while self.at < self.level.count() {
                if let Some(ended) = self.limit(limits) {
                    return ended;
                }
                if self.at.is_multiple_of(2 * BATCH) && watch(self).is_break() {
                    return Ended::Stopped;
                }
                advance(self);
            }
            if limits.first && self.stopped() {
                return Ended::Found;
            }
            if self.next.count() == 0 {
                return Ended::Closed;
            }
            self.first += self.level.count() as u32;
            std::mem::swap(&mut self.level, &mut self.next);
            self.next.clear();
            self.at = 0;
            self.depth += 1;
        }
    }

    fn stopped(&self) -> bool {
        self.found.iter().any(|f| self.model.stops(f.bad))
    }

    fn limit(&self, limits: &Limits) -> Option<Ended> {
        if limits.first && self.stopped() {
            return Some(Ended::Found);
        }
        if self.states() >= limits.states.min(u64::from(NOBODY - 1)) {
            return Some(Ended::States);
        }
        let look = self.at.is_multiple_of(1024);
        // The set is doubled by making it anew, which is what takes most at once.
        let soon = || self.bytes() + self.seen.bytes_to_grow();
        (look && soon() > limits.bytes).then_some(Ended::Memory)
    }

    #[inline]
    fn expand_one(&mut self) {
        let Self {
            model,
            seen,
            level,
            next,
            at,
            first,
            parents,
            actions,
            transitions,
            depth,
            found,
        } = self;
        let parent = *first + *at as u32;
        let state = level.get(*at);
        model.expand(state, |action, outcome| match outcome {
            Outcome::State(state) => {
                *transitions += 1;
                if seen.insert(M::Seen::key(state)) {
                    next.push(state);
                    parents.push(parent);
                    actions.push(action);
                }
            }
            Outcome::Bad(bad) => {
                if found.iter().all(|f| f.bad != bad) {
                    let depth = *depth + 1;
                    found.push(Finding {
                        bad,
                        parent,
                        action,
                        depth,
                    });
                }
            }
        });
        self.at += 1;
    }

    /// Expands many states at once: each thread a part, keeping what is not seen yet. Then the parts are gone
    /// through in order, as if one thread had expanded one state after the other.
    fn expand_batch(&mut self, helpers: &mut [M], first: bool)
    where
        M: Send,
        M::Bad: Send,
        M::Queue: Send + Sync,
        M::Seen: Sync,
        Key<M>: Send,
    {
        let end = self.level.count().min(self.at + BATCH);
        let size = (end - self.at).div_ceil(helpers.len() + 1);
        let (level, seen) = (&self.level, &self.seen);
        let range = |n: usize| {
            let start = (self.at + n * size).min(end);
            start..(start + size).min(end)
        };
        let mine = &mut self.model;
        let parts: Vec<Part<M>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..)
                .zip(helpers)
                .map(|(n, model)| scope.spawn(move || Part::expand(model, level, seen, range(n))))
                .collect();
            let mut parts = vec![Part::expand(mine, level, seen, range(0))];
            parts.extend(
                others
                    .into_iter()
                    .map(|t| t.join().expect("no model panics")),
            );
            parts
        });
        for part in &parts {
            let mut from = 0;
            for (outcomes, to) in &part.parents {
                self.transitions += outcomes;
                part.kept[from..*to]
                    .iter()
                    .for_each(|kept| self.merge(part, kept));
                from = *to;
                self.at += 1;
                if first && self.stopped() {
                    return;
                }
            }
        }
    }

    fn merge(&mut self, part: &Part<M>, (action, kept): &(u16, Kept<M>)) {
        let parent = self.first + self.at as u32;
        match kept {
            Kept::State(n, key) => {
                if self.seen.insert(*key) {
                    self.next.push(part.states.get(*n));
                    self.parents.push(parent);
                    self.actions.push(*action);
                }
            }
            Kept::Bad(bad) if self.found.iter().all(|f| f.bad != *bad) => {
                self.found.push(Finding {
                    bad: *bad,
                    parent,
                    action: *action,
                    depth: self.depth + 1,
                });
            }
            Kept::Bad(_) => {}
        }
    }

    /// The actions from an initial state to the state of that number.
    pub fn path(&self, number: u32) -> Vec<u16> {
        let mut out = Vec::new();
        let mut at = number;
        while self.parents[at as usize] != NOBODY {
            out.push(self.actions[at as usize]);
            at = self.parents[at as usize];
        }
        out.reverse();
        out
    }
}

/// What one thread found out about its part of a batch.
struct Part<M: Model> {
    states: M::Queue,
    /// Of each state expanded: outcomes that are states, and where what was kept of it ends.
    parents: Vec<(u64, usize)>,
    kept: Vec<(u16, Kept<M>)>,
}

type Key<M> = <<M as Model>::Seen as Seen<<M as Model>::State>>::Key;

/// An outcome that may be new.
enum Kept<M: Model> {
    /// The n-th of the part's states.
    State(usize, Key<M>),
    Bad(M::Bad),
}

impl<M: Model> Part<M> {
    fn expand(model: &mut M, level: &M::Queue, seen: &M::Seen, range: Range<usize>) -> Self {
        let mut part = Self {
            states: M::Queue::default(),
            parents: Vec::with_capacity(range.len()),
            kept: Vec::new(),
        };
        // Keys of a whole state's outcomes are looked up together: each is far away in memory, and the
        // processor fetches several at a time.
        let mut outcomes = M::Queue::default();
        let mut keys = Vec::new();
        for n in range {
            outcomes.clear();
            keys.clear();
            model.expand(level.get(n), |action, outcome| match outcome {
                Outcome::State(state) => {
                    keys.push((action, M::Seen::key(state)));
                    outcomes.push(state);
                }
                Outcome::Bad(bad) => part.kept.push((action, Kept::Bad(bad))),
            });
            for (n, (action, key)) in keys.iter().enumerate() {
                if !seen.contains(*key) {
                    let kept = Kept::State(part.states.count(), *key);
                    part.kept.push((*action, kept));
                    part.states.push(outcomes.get(n));
                }
            }
            part.parents.push((keys.len() as u64, part.kept.len()));
        }
        part
    }
}
