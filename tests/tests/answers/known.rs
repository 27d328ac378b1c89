//! What cases and random walks find on the searched machine, the search finds, and what it finds is replayed.
//!
//! A case fits a scope if each of its operations on pages is one of the scope's moves and the contract allows
//! them in that order, with a switch, an acquisition or a release put in where the contract asks for one. So
//! what such a case finds lies within the scope by construction. Addresses, pages and rights are those of the
//! tiny machine: a case's first buffer is the buffer, and "r" is "rx".

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use lab::case::{Action, Case, read, suite};
use lab::explore::model::Done;
use lab::explore::scope::{Act, Phase, with_value};
use lab::explore::{Fingerprints, Limits, Scope, Search, Symmetry, WorldModel, witness};
use lab::op::{Event, Op, Page, Rights, Space, Va};
use lab::oracle::Kind;
use machine::Profile;
use pmap::Policy;

const MACHINE: &str = "tiny-line";
/// States that a search may look at to find what is known.
const STATES: u64 = 400_000;

/// Kinds, the fewest actions known to lead to each, and what knows them.
type Known = BTreeMap<Kind, (u32, String)>;

/// The world that is walked: never packed, with values of its own.
struct Walk {
    model: WorldModel,
    actions: u32,
    known: Known,
}

impl Walk {
    fn new(profile: &Arc<Profile>, policy: &Policy, scope: &Scope) -> Self {
        let model = WorldModel::new(profile, policy.clone(), scope, Symmetry::Off);
        Self {
            model: model.expect("it fits"),
            actions: 0,
            known: Known::new(),
        }
    }

    /// Takes a move. False if it is impossible, or if what was found ends the walk, as it ends a search's path.
    fn take(&mut self, number: usize, value: u32, who: &str) -> bool {
        let ops = self.model.moves()[number].ops.iter();
        let mut ops: Vec<Op> = ops.map(|op| with_value(*op, value)).collect();
        let Done::Yes(bad) = self.model.run_ops(number, &mut ops) else {
            return false;
        };
        self.actions += 1;
        let Some(kind) = bad else {
            return true;
        };
        let first = (self.actions, who.to_owned());
        let known = self.known.entry(kind).or_insert(first);
        known.0 = known.0.min(self.actions);
        false
    }

    fn allowed(&self) -> Vec<usize> {
        let (facts, moves) = (self.model.facts(), self.model.moves());
        (0..moves.len())
            .filter(|n| facts.allow(moves[*n].act))
            .collect()
    }

    /// The allowed move that does this and the least besides.
    fn move_for(&self, op: Op) -> Option<usize> {
        let value = match op {
            Op::Store(_, _, v) | Op::KernelStore(_, v) | Op::DmaRead(_, v) => v,
            _ => 0,
        };
        let moves = self.model.moves();
        let does = |n: &usize| moves[*n].ops.iter().any(|m| with_value(*m, value) == op);
        let allowed = self.allowed().into_iter().filter(does);
        allowed.min_by_key(|n| moves[*n].ops.len())
    }

    /// Moves that the contract may ask for before the one that is wanted.
    fn before(&self, op: Op) -> Vec<usize> {
        let idle = |n: &usize| match self.model.moves()[*n].act {
            Act::Idle(Phase::Reading | Phase::Writing) | Act::Held(Some(Phase::Idle)) => true,
            Act::Switch(space) => match op {
                Op::Enter(s, ..) | Op::Remove(s, ..) | Op::Protect(s, ..) | Op::Fetch(s, _) => {
                    s == space
                }
                Op::Load(s, _) | Op::Store(s, ..) | Op::Sync(s, ..) => s == space,
                _ => false,
            },
            _ => false,
        };
        self.allowed().into_iter().filter(idle).collect()
    }

    /// Takes the move for an operation; `None` if it is not in the scope, false if the walk is over.
    fn follow(&mut self, op: Op, who: &str) -> Option<bool> {
        let value = match op {
            Op::Store(_, _, v) | Op::KernelStore(_, v) | Op::DmaRead(_, v) => v,
            _ => 0,
        };
        if let Some(n) = self.move_for(op) {
            return Some(self.take(n, value, who));
        }
        for n in self.before(op) {
            let start = (self.model.world.clone(), self.model.phase());
            let known = self.known.len();
            if self.take(n, 0, who)
                && let Some(n) = self.move_for(op)
            {
                return Some(self.take(n, value, who));
            }
            if self.known.len() > known {
                return Some(false);
            }
            self.actions -= 1;
            self.model.world.clone_from(&start.0);
            self.model.set_phase(start.1);
        }
        None
    }
}

/// A case's operations on the tiny machine, without those that are parts of moves.
fn tiny(case: &Case, scope: &Scope, buffer: Va) -> Option<Vec<Op>> {
    let (mut user, mut kernel, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    let number = |known: &mut Vec<u32>, n: u32| {
        known.iter().position(|k| *k == n).unwrap_or_else(|| {
            known.push(n);
            known.len() - 1
        }) as u32
    };
    let mut at = |v: Va| {
        let place = number(&mut user, v.0);
        (place < scope.user_pages).then_some(Va(place * 8))
    };
    let mut of_kernel = |v: Va| (number(&mut kernel, v.0) == 0).then_some(buffer);
    let mut page = |p: Page| {
        let n = number(&mut pages, u32::from(p.0));
        (n < 2).then_some(Page(n as u8))
    };
    let rights = |r: Rights| match r {
        Rights::R | Rights::Rx => Some(Rights::Rx),
        Rights::Rw => Some(Rights::Rw),
        Rights::Rwx => None,
    };
    let mut out = Vec::new();
    for line in &case.lines {
        let Action::Bare(op) = line.action else {
            return None;
        };
        out.push(match op {
            Op::Buffer(Event::AcquiredRead | Event::AcquiredWrite | Event::Released, ..)
            | Op::Buffer(Event::CopiedWrite | Event::IoDoneRead, ..)
            | Op::Use(..) => continue,
            Op::Enter(s, v, p, r) => Op::Enter(s, at(v)?, page(p)?, rights(r)?),
            Op::Remove(s, v, 1) => Op::Remove(s, at(v)?, 1),
            Op::Protect(s, v, 1, r) => Op::Protect(s, at(v)?, 1, rights(r)?),
            Op::Sync(s, v, _) => Op::Sync(s, at(v)?, 4),
            Op::Fetch(s, v) => Op::Fetch(s, at(v)?),
            Op::Load(s, v) => Op::Load(s, at(v)?),
            Op::Store(s, v, value) => Op::Store(s, at(v)?, value),
            Op::Kenter(v, p) | Op::Qenter(v, p, 1) => Op::Qenter(of_kernel(v)?, page(p)?, 1),
            Op::Kremove(v) | Op::Qremove(v, 1) => Op::Qremove(of_kernel(v)?, 1),
            Op::KernelLoad(v) => Op::KernelLoad(of_kernel(v)?),
            Op::KernelStore(v, value) => Op::KernelStore(of_kernel(v)?, value),
            Op::DmaRead(v, seed) => Op::DmaRead(of_kernel(v)?, seed),
            Op::DmaWrite(v) => Op::DmaWrite(of_kernel(v)?),
            Op::RemoveAll(p) => Op::RemoveAll(page(p)?),
            Op::RemoveWrite(p) => Op::RemoveWrite(page(p)?),
            Op::ClearModify(p) => Op::ClearModify(page(p)?),
            Op::ClearReference(p) => Op::ClearReference(page(p)?),
            Op::Recycle(p) => Op::Recycle(page(p)?),
            Op::Zero(p) => Op::Zero(page(p)?),
            Op::Copy(a, b) => Op::Copy(page(a)?, page(b)?),
            Op::Switch(s) if s.0 <= scope.spaces => Op::Switch(s),
            Op::SwitchKernel => Op::SwitchKernel,
            _ => return None,
        });
    }
    Some(out)
}

fn of_spaces(op: &Op, most: u8) -> bool {
    let fine = |s: &Space| (1..=most).contains(&s.0);
    match op {
        Op::Enter(s, ..) | Op::Remove(s, ..) | Op::Protect(s, ..) | Op::Sync(s, ..) => fine(s),
        Op::Fetch(s, _) | Op::Load(s, _) | Op::Store(s, ..) => fine(s),
        _ => true,
    }
}

/// What a case finds within a scope, if it fits.
fn by_case(
    (name, case): &(String, Case),
    profile: &Arc<Profile>,
    policy: &Policy,
    scope: &Scope,
) -> Option<Known> {
    let mut walk = Walk::new(profile, policy, scope);
    let buffer = Va(walk.model.world.state.pmap.layout.buffer_map.0.0);
    let ops = tiny(case, scope, buffer)?;
    if !ops.iter().all(|op| of_spaces(op, scope.spaces)) {
        return None;
    }
    for op in ops {
        if !walk.follow(op, name)? {
            break;
        }
    }
    Some(walk.known)
}

/// What random walks find within a scope.
fn by_walks(profile: &Arc<Profile>, policy: &Policy, scope: &Scope) -> Known {
    const WALKS: u32 = 150;
    const STEPS: u32 = 14;
    let mut walk = Walk::new(profile, policy, scope);
    let start = (walk.model.world.clone(), walk.model.phase());
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..WALKS {
        walk.model.world.clone_from(&start.0);
        walk.model.set_phase(start.1);
        walk.actions = 0;
        for step in 0..STEPS {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let allowed = walk.allowed();
            let n = allowed[(random >> 8) as usize % allowed.len()];
            if !walk.take(n, 0xe000_0001 + step, "a random walk") {
                break;
            }
        }
    }
    walk.known
}

/// Searches until all that is known is found, no later than it is known to be; and replays what is found.
fn check(known: &Known, profile: &Arc<Profile>, policy: &Policy, scope: &Scope) {
    let model = WorldModel::new(profile, policy.clone(), scope, Symmetry::On).expect("it fits");
    let mut search = Search::new(model, Fingerprints::default());
    let missing = |search: &Search<WorldModel>| -> Vec<String> {
        let told = |k: &Kind, n: u32| search.found.iter().any(|f| f.bad == *k && f.depth <= n);
        let missing = known.iter().filter(|(k, (n, _))| !told(k, *n));
        missing
            .map(|(k, (n, who))| format!("{} after {n} actions, by {who}", k.name()))
            .collect()
    };
    let mut states = 0;
    while !missing(&search).is_empty() {
        states += 2_000;
        let limits = Limits {
            states,
            bytes: 1 << 30,
            first: false,
        };
        search.run(&limits, |_| ControlFlow::Continue(()));
        let missing = missing(&search);
        assert!(
            missing.is_empty() || states < STATES,
            "{} in scope {}: the search does not find {missing:?}, only {:?}",
            policy.name,
            scope.name,
            search.found,
        );
    }
    for finding in search.found.clone() {
        let machine = (profile, MACHINE);
        witness::case(&mut search, &finding, machine, policy, scope)
            .unwrap_or_else(|e| panic!("{} in scope {}: {e}", policy.name, scope.name));
    }
}

#[test]
fn what_cases_find_the_search_finds_and_replay_confirms() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let files = suite::files(&root, "kdl").expect("the cases can be read");
    let cases: Vec<(String, Case)> = files
        .iter()
        .map(|f| {
            let name = f.file_stem().unwrap_or_default().to_string_lossy();
            (name.into_owned(), read(f).expect("a case"))
        })
        .collect();
    let profile = Profile::embedded(MACHINE).expect("an embedded machine");
    let scopes = ["default", "modify", "alias", "windows", "paging"];
    let mut fitting = Vec::new();
    for policy in pmap::policy::all() {
        let mut known: BTreeMap<&str, Known> = BTreeMap::new();
        for case in &cases {
            let found = scopes.iter().find_map(|name| {
                let scope = Scope::by_name(name).expect("a scope");
                Some((*name, by_case(case, &profile, &policy, &scope)?))
            });
            let Some((scope, found)) = found else {
                continue;
            };
            fitting.push(case.0.clone());
            let all = known.entry(scope).or_default();
            for (kind, (n, who)) in found {
                let first = all.entry(kind).or_insert((n, who.clone()));
                if n < first.0 {
                    *first = (n, who);
                }
            }
        }
        for (scope, known) in known {
            let scope = Scope::by_name(scope).expect("a scope");
            check(&known, &profile, &policy, &scope);
        }
    }
    fitting.sort();
    fitting.dedup();
    assert!(fitting.len() >= 15, "cases that fit a scope: {fitting:?}");
}

#[test]
fn what_random_walks_find_the_search_finds_and_replay_confirms() {
    let profile = Profile::embedded(MACHINE).expect("an embedded machine");
    let scope = Scope::by_name("small-modify").expect("a scope");
    for policy in pmap::policy::all() {
        let known = by_walks(&profile, &policy, &scope);
        let safe = policy.status == pmap::Status::Reference;
        assert_eq!(known.is_empty(), safe, "{}: {known:?}", policy.name);
        check(&known, &profile, &policy, &scope);
    }
}
