//! The one shrinker: makes a failing sequence small, writes it as a case a person can read, and runs the
//! written case again.
//!
//! 1. [`minimise`] drops parts, halves first, single ones last (delta debugging), then simplifies single
//!    operations, until nothing more can go. The caller's predicate says what still fails, and what is still
//!    a legal sequence.
//! 2. [`Finding::report`] writes a case file with claim, machine, policy and expectation, reads it back,
//!    runs it, and panics if it passes: a finding that does not replay is a defect of this project.
//!
//! Found cases go to `target/found`, or where `PMAPLAB_FOUND` says. Whoever fixes one gives it a claim of
//! its own and moves it to `tests/cases`.

use std::path::PathBuf;
use std::sync::Arc;

use machine::Profile;
use pmap::{Policy, Status};

use crate::case::{self, Action, Case, Expectation, Line};
use crate::fuzz::legal::Ground;
use crate::op::{Op, Page, Rights, Space, Va};
use crate::oracle::Kind;

/// Runs of the predicate that one shrink may take.
const TRIES_MAX: u32 = 20_000;

/// The smallest sequence found that still fails. `simpler` gives simpler forms of one item, simplest first.
pub fn minimise<T: Clone>(
    items: &[T],
    simpler: impl Fn(&T) -> Vec<T>,
    mut fails: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    let mut least = items.to_vec();
    let mut tries = 0;
    let mut still = |trial: &[T]| {
        tries += 1;
        tries <= TRIES_MAX && fails(trial)
    };
    loop {
        let dropped = drop_parts(&mut least, &mut still);
        let simplified = simplify(&mut least, &simpler, &mut still);
        if !dropped && !simplified {
            return least;
        }
    }
}

fn drop_parts<T: Clone>(least: &mut Vec<T>, fails: &mut impl FnMut(&[T]) -> bool) -> bool {
    let before = least.len();
    let mut part = least.len().div_ceil(2).max(1);
    loop {
        let mut end = least.len();
        while end > 0 {
            let start = end.saturating_sub(part);
            let trial = [&least[..start], &least[end..]].concat();
            if fails(&trial) {
                *least = trial;
            }
            end = start.min(least.len());
        }
        if part == 1 {
            break;
        }
        part /= 2;
    }
    drop_pairs(least, fails);
    least.len() < before
}

/// Two that are only legal together: what opens and what closes.
fn drop_pairs<T: Clone>(least: &mut Vec<T>, fails: &mut impl FnMut(&[T]) -> bool) {
    let mut first = 0;
    while first < least.len() {
        let gone = (first + 1..least.len()).find_map(|second| {
            let kept = |n: &usize| *n != first && *n != second;
            let indices = (0..least.len()).filter(kept);
            let trial: Vec<T> = indices.map(|n| least[n].clone()).collect();
            fails(&trial).then_some(trial)
        });
        match gone {
            Some(trial) => *least = trial,
            None => first += 1,
        }
    }
}

fn simplify<T: Clone>(
    least: &mut [T],
    simpler: &impl Fn(&T) -> Vec<T>,
    fails: &mut impl FnMut(&[T]) -> bool,
) -> bool {
    let mut any = false;
    for n in 0..least.len() {
        for form in simpler(&least[n]) {
            let before = std::mem::replace(&mut least[n], form);
            if fails(least) {
                any = true;
                break;
            }
            least[n] = before;
        }
    }
    any
}

/// Shrinks operations on bare pages. Besides single operations, a page, a space or an address is renamed
/// everywhere at once.
pub fn operations(ops: &[Op], ground: &Ground, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut least = minimise(ops, simpler, &mut fails);
    let renames = renames(ground);
    while let Some(trial) = renames.iter().find_map(|rename| {
        let trial: Vec<Op> = least.iter().map(|op| renamed(op, rename)).collect();
        (numbers(&trial) < numbers(&least) && fails(&trial)).then_some(trial)
    }) {
        least = trial;
    }
    minimise(&least, simpler, fails)
}

/// One space, page or address takes another's name, and the other way round.
enum Rename {
    Space,
    Page(u8, u8),
    /// So many bytes from the one address, and from the other.
    Va(u32, u32, u32),
}

/// Spaces, pages, pages of addresses and words, each towards the first.
fn renames(ground: &Ground) -> Vec<Rename> {
    let mut out = vec![Rename::Space];
    for n in 1..ground.pages {
        out.extend((0..n).map(|to| Rename::Page(n, to)));
    }
    let (windows, buffers) = ground.kernel.split_at(ground.windows);
    for all in [&ground.user[..], windows, buffers] {
        for (n, from) in all.iter().enumerate() {
            let swap = |to: &u32| Rename::Va(*from, *to, ground.page);
            out.extend(all[..n].iter().map(swap));
            let words = (1..4).map(|w| w * ground.page / 4);
            out.extend(words.map(|w| Rename::Va(from + w, *from, 4)));
        }
    }
    out
}

fn renamed(op: &Op, rename: &Rename) -> Op {
    let swap = |n: u8, from: u8, to: u8| match n {
        n if n == from => to,
        n if n == to => from,
        n => n,
    };
    match *rename {
        Rename::Space => map(*op, |s| Space(swap(s.0, 2, 1)), |p| p, |v| v),
        Rename::Page(from, to) => map(*op, |s| s, |p| Page(swap(p.0, from, to)), |v| v),
        Rename::Va(from, to, len) => {
            let va = |v: Va| match (v.0.wrapping_sub(from), v.0.wrapping_sub(to)) {
                (n, _) if n < len => Va(to + n),
                (_, n) if n < len => Va(from + n),
                _ => v,
            };
            map(*op, |s| s, |p| p, va)
        }
    }
}

/// Every space, page and address of a sequence, in order: renaming makes them smaller.
fn numbers(ops: &[Op]) -> Vec<u32> {
    let out = std::cell::RefCell::new(Vec::new());
    let note = |n: u32| out.borrow_mut().push(n);
    for op in ops {
        let space = |s: Space| {
            note(s.0.into());
            s
        };
        let page = |p: Page| {
            note(p.0.into());
            p
        };
        let va = |v: Va| {
            note(v.0);
            v
        };
        map(*op, space, page, va);
    }
    out.into_inner()
}

/// The operation with its spaces, pages and addresses replaced.
fn map(
    op: Op,
    space: impl Fn(Space) -> Space,
    page: impl Fn(Page) -> Page,
    va: impl Fn(Va) -> Va,
) -> Op {
    match op {
        Op::Enter(s, v, p, r) => Op::Enter(space(s), va(v), page(p), r),
        Op::EnterQuick(s, v, p, r) => Op::EnterQuick(space(s), va(v), page(p), r),
        Op::Remove(s, v, n) => Op::Remove(space(s), va(v), n),
        Op::Protect(s, v, n, r) => Op::Protect(space(s), va(v), n, r),
        Op::RemovePages(s) => Op::RemovePages(space(s)),
        Op::Switch(s) => Op::Switch(space(s)),
        Op::Activate(s) => Op::Activate(space(s)),
        Op::Sync(s, v, n) => Op::Sync(space(s), va(v), n),
        Op::Fetch(s, v) => Op::Fetch(space(s), va(v)),
        Op::Load(s, v) => Op::Load(space(s), va(v)),
        Op::Store(s, v, value) => Op::Store(space(s), va(v), value),
        Op::TlbDrop(v) => Op::TlbDrop(va(v)),
        Op::Evict(v) => Op::Evict(va(v)),
        Op::EvictInstruction(v) => Op::EvictInstruction(va(v)),
        _ => map_kernel(op, page, va),
    }
}

fn map_kernel(op: Op, page: impl Fn(Page) -> Page, va: impl Fn(Va) -> Va) -> Op {
    match op {
        Op::RemoveAll(p) => Op::RemoveAll(page(p)),
        Op::RemoveWrite(p) => Op::RemoveWrite(page(p)),
        Op::ClearModify(p) => Op::ClearModify(page(p)),
        Op::ClearReference(p) => Op::ClearReference(page(p)),
        Op::Recycle(p) => Op::Recycle(page(p)),
        Op::Zero(p) => Op::Zero(page(p)),
        Op::Copy(a, b) => Op::Copy(page(a), page(b)),
        Op::Kenter(v, p) => Op::Kenter(va(v), page(p)),
        Op::Kremove(v) => Op::Kremove(va(v)),
        Op::Qenter(v, p, n) => Op::Qenter(va(v), page(p), n),
        Op::Qremove(v, n) => Op::Qremove(va(v), n),
        Op::Buffer(e, v, p, n) => Op::Buffer(e, va(v), page(p), n),
        Op::KernelLoad(v) => Op::KernelLoad(va(v)),
        Op::KernelStore(v, value) => Op::KernelStore(va(v), value),
        Op::Use(did, what, v, n) => Op::Use(did, what, va(v), n),
        Op::DmaRead(v, seed) => Op::DmaRead(va(v), seed),
        Op::DmaWrite(v) => Op::DmaWrite(va(v)),
        other => other,
    }
}

/// Simpler forms of one operation.
fn simpler(op: &Op) -> Vec<Op> {
    let fewer = |n: u8| (1..n).collect::<Vec<_>>();
    let rights = |r: Rights| {
        let all = [Rights::R, Rights::Rx, Rights::Rw];
        all.into_iter().take_while(move |x| *x != r)
    };
    match *op {
        Op::Enter(s, v, p, r) => rights(r).map(|r| Op::Enter(s, v, p, r)).collect(),
        Op::EnterQuick(s, v, p, r) => rights(r).map(|r| Op::Enter(s, v, p, r)).collect(),
        Op::Protect(s, v, n, r) => {
            let all = fewer(n).into_iter().map(|n| Op::Protect(s, v, n, r));
            all.chain(rights(r).map(|r| Op::Protect(s, v, n, r)))
                .collect()
        }
        Op::Remove(s, v, n) => fewer(n).into_iter().map(|n| Op::Remove(s, v, n)).collect(),
        Op::Qenter(v, p, n) => fewer(n).into_iter().map(|n| Op::Qenter(v, p, n)).collect(),
        Op::Sync(s, Va(v), len) if len > 4 => vec![Op::Sync(s, Va(v), 4)],
        Op::Activate(s) => vec![Op::Switch(s)],
        _ => Vec::new(),
    }
}

/// A failing case, not written yet.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// The machine to run it on.
    pub machine: Arc<Profile>,
    /// The policy to run it under.
    pub policy: Policy,
    /// What must be found.
    pub kind: Kind,
}

impl Finding {
    /// A finding of operations on bare pages.
    pub fn of_ops(
        by: &str,
        ops: &[Op],
        machine: Arc<Profile>,
        policy: &Policy,
        kind: Kind,
    ) -> Self {
        let line = |op: &Op| Line {
            number: 0,
            text: case::op_text(op),
            action: Action::Bare(*op),
        };
        Self::of_lines(by, ops.iter().map(line).collect(), machine, policy, kind)
    }

    /// A finding of lines of a case.
    pub fn of_lines(
        by: &str,
        lines: Vec<Line>,
        machine: Arc<Profile>,
        policy: &Policy,
        kind: Kind,
    ) -> Self {
        // What claims to be correct is held to it; what is known to be wrong shows its defect.
        let wanted = (policy.status != Status::Reference).then_some(kind);
        let expectation = Expectation {
            number: 0,
            machine: String::new(),
            policy: policy.name.to_owned(),
            kind: wanted,
            uncached: None,
            because: format!("found by {by}"),
        };
        let case = Case {
            claim: format!(
                "{} gives {} for this sequence of {} lines",
                policy.name,
                kind.name(),
                lines.len()
            ),
            source: by.to_owned(),
            machines: vec![machine.name.clone()],
            policies: vec![policy.name.to_owned()],
            lines,
            expectations: vec![expectation],
            ..Case::default()
        };
        Self {
            case,
            machine,
            policy: policy.clone(),
            kind,
        }
    }

    /// Writes the case, reads it back and runs it. Returns the text and the file.
    ///
    /// # Panics
    /// If the file cannot be written, or the written case does not show the finding.
    pub fn write(&self) -> (String, PathBuf) {
        let text = case::write(&self.case);
        let name = format!(
            "{}-{}-{}-{:08x}.kdl",
            self.policy.name,
            self.machine.name,
            self.kind.name(),
            machine::memory::hash_bytes(0, text.as_bytes()) as u32
        );
        let folder = folder();
        std::fs::create_dir_all(&folder).expect("the folder for found cases can be made");
        let path = folder.join(name);
        std::fs::write(&path, &text).expect("a found case can be written");
        let again = case::read(&path).unwrap_or_else(|e| panic!("the written case is none: {e}"));
        let row = case::run_one(&again, self.machine.clone(), self.policy.clone());
        assert!(
            row.verdicts.of(self.kind) > 0,
            "the written case does not show {}; the sequence was:\n{text}",
            self.kind.name()
        );
        (text, path)
    }

    /// Writes the case; the message for whoever reads the log, the command that replays it last.
    pub fn report(&self) -> String {
        let (text, path) = self.write();
        format!(
            "{}\n{text}\nreplay it:\n  cargo run -- replay --explain --machine {} --policy {} {}\n",
            self.case.claim,
            self.machine.name,
            self.policy.name,
            path.display()
        )
    }
}

/// Where found cases go: `PMAPLAB_FOUND`, or `target/found` of the workspace that this is run in.
pub fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("PMAPLAB_FOUND") {
        // The command that replays a case is typed elsewhere than where a test runs.
        return std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder));
    }
    let here = std::env::current_dir().unwrap_or_default();
    let root = here.ancestors().filter(|d| d.join("Cargo.lock").is_file());
    let root = root.last().map_or(std::env::temp_dir(), PathBuf::from);
    root.join("target").join("found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_for_the_failure_stays() {
        let items: Vec<u32> = (0..100).collect();
        let fails = |trial: &[u32]| trial.contains(&13) && trial.contains(&77);
        assert_eq!(minimise(&items, |_| Vec::new(), fails), [13, 77]);
    }

    #[test]
    fn items_become_as_simple_as_the_failure_allows() {
        let simpler = |n: &u32| vec![0, n / 2, n.saturating_sub(1)];
        let fails = |trial: &[u32]| trial.iter().any(|n| *n >= 17);
        assert_eq!(minimise(&[3, 90, 41], simpler, fails), [17]);
    }

    #[test]
    fn what_opens_and_what_closes_go_together() {
        let legal = |t: &[i32]| t.iter().sum::<i32>() == 100 && t.iter().all(|n| *n != 0);
        let items = [1, -1, 100, 5, -5];
        assert_eq!(minimise(&items, |_| Vec::new(), legal), [100]);
    }
}
