//! Makes a policy's table: enters every set of mappings in a tiny world and does everything to it.

use std::collections::BTreeMap;
use std::iter::repeat;

use machine::{Access, Hw, Step};
use pmap::{BufferEvent, DmaOp, KernelUse, PmapVerbs, Policy, Prot};

use super::mapping::{self, A, B, Bench, Caching, Situation, Way, Who, difference};
use super::record::Record;
use super::{Outcomes, Point, Table};
use crate::op::{CPU0, Op, Page, Va, frame};

/// Largest set of mappings.
const SET_MAX: usize = 3;

/// A policy's decision table.
pub fn table(policy: &Policy) -> Table {
    let base = |situation| (situation, Bench::new(policy, situation));
    let mut probe = Probe {
        bases: [base(Situation::Runs), base(Situation::Thread)],
        record: Record::default(),
        entered: BTreeMap::new(),
        tallies: Default::default(),
        table: Table {
            policy: policy.name.to_owned(),
            ..Table::default()
        },
    };
    probe.table.sections[0] = skeleton(policy);
    for situation in [Situation::Runs, Situation::Thread] {
        for set in sets() {
            probe.entered(situation, &set);
        }
    }
    for situation in [Situation::Runs, Situation::Thread] {
        for set in sets() {
            probe.orders(situation, &set);
            probe.changes(situation, &set);
            probe.later(situation, &set);
        }
    }
    probe.ranges();
    for (section, tally) in [3, 4].into_iter().zip(std::mem::take(&mut probe.tallies)) {
        probe.table.sections[section] = told(tally, super::SECTIONS[section].1);
    }
    let (mappings, whole) = probe.record.outcomes();
    probe.table.sections[5] = mappings;
    probe.table.sections[6] = whole;
    probe.table
}

/// Every set: the makers in the order of [`Who`], each mapping with every right.
fn sets() -> Vec<Vec<Way>> {
    let mut all: Vec<Vec<Way>> = Vec::new();
    let mut grown: Vec<Vec<Way>> = vec![Vec::new()];
    for _ in 0..SET_MAX {
        let longer = |set: &Vec<Way>| {
            let (set, last) = (set.clone(), set.last().map(|w| w.0));
            let ways = mapping::ways().into_iter();
            let ways = ways.filter(move |w| last.is_none_or(|who| w.0 >= who));
            ways.map(move |w| {
                let mut longer = set.clone();
                longer.push(w);
                longer
            })
        };
        grown = grown.iter().flat_map(longer).collect();
        all.extend(grown.iter().cloned());
    }
    all
}

struct Probe {
    bases: [(Situation, Bench); 2],
    record: Record,
    table: Table,
    /// How the mappings of each set are when they were entered in the table's order.
    entered: BTreeMap<Point, Vec<Option<Caching>>>,
    /// For the sections of what happens later: how often a mapping ended how.
    tallies: [Tally; 2],
}

/// Outcomes of one mapping over all sets, with how many sets each is in.
type Tally = BTreeMap<Point, BTreeMap<String, u32>>;

/// A verb's effect on a set.
type Verb<'a> = &'a dyn Fn(&mut Bench);

impl Probe {
    fn base(&self, situation: Situation) -> Bench {
        let found = self.bases.iter().find(|(s, _)| *s == situation);
        found
            .map(|(_, bench)| bench.clone())
            .expect("one for each situation")
    }

    fn build(&mut self, situation: Situation, ways: &[Way]) -> Bench {
        let mut bench = self.base(situation);
        for (n, way) in ways.iter().enumerate() {
            bench.enter(*way);
            self.record.take(&mut bench, Some(n));
        }
        bench
    }

    fn set(&mut self, section: usize, point: Point, outcome: String) {
        if !outcome.is_empty() {
            self.table.sections[section].insert(point, outcome);
        }
    }

    fn entered(&mut self, situation: Situation, ways: &[Way]) {
        let states = self.build(situation, ways).states(0..ways.len());
        let point = point(situation, ways);
        let seen = difference(&states, repeat(Some(Caching::USUAL)));
        self.set(1, point.clone(), seen);
        self.entered.insert(point, states);
    }

    /// How the mappings of a set are that were entered as they are now.
    fn as_entered(&self, situation: Situation, ways: &[Way]) -> Vec<Option<Caching>> {
        let found = self.entered.get(&point(situation, ways));
        found.cloned().unwrap_or_default()
    }

    fn orders(&mut self, situation: Situation, ways: &[Way]) {
        let usual = self.as_entered(situation, ways);
        for order in orders(ways.len()) {
            let other: Vec<Way> = order.iter().map(|n| ways[*n]).collect();
            if other.iter().zip(ways).all(|(a, b)| a.0 == b.0) {
                continue;
            }
            let bench = self.build(situation, &other);
            let states = bench.states(0..other.len());
            let seen = difference(&states, order.iter().map(|n| usual[*n]));
            self.set(2, point(situation, &other), seen);
        }
    }

    fn changes(&mut self, situation: Situation, ways: &[Way]) {
        let built = self.build(situation, ways);
        for n in 0..ways.len() {
            let mut bench = built.clone();
            bench.leave(n);
            self.record.take(&mut bench, Some(n));
            let mut rest = ways.to_vec();
            rest.remove(n);
            let states = bench.states((0..ways.len()).filter(|m| *m != n));
            self.compare(situation, ("gone", ways[n]), (&rest, None), &states);
            self.rights(situation, &built, n);
        }
    }

    /// Mapping `n` loses and gains write permission.
    fn rights(&mut self, situation: Situation, built: &Bench, n: usize) {
        let (who, prot) = built.ways[n];
        if who == Who::Buffer {
            return;
        }
        let mut bench = built.clone();
        let what = if prot.contains(Prot::WRITE) {
            bench.protect(n);
            "write taken"
        } else {
            bench.ways[n].1 = prot | Prot::WRITE;
            bench.make(n);
            "write given"
        };
        self.record.take(&mut bench, Some(n));
        let (now, states) = (bench.ways.clone(), bench.states(0..bench.ways.len()));
        self.compare(situation, (what, now[n]), (&now, Some(n)), &states);
    }

    /// Compares each mapping with how it were if all had been entered as they are now.
    fn compare(
        &mut self,
        situation: Situation,
        (what, whom): (&str, Way),
        (ways, it): (&[Way], Option<usize>),
        states: &[Option<Caching>],
    ) {
        let usual = self.as_entered(situation, ways);
        for (n, (is, was)) in states.iter().zip(usual).enumerate() {
            let role = if it == Some(n) { "it" } else { "another" };
            let mut point = vec![what.to_owned(), mapping::name(whom)];
            point.extend([situation.name().to_owned(), role.to_owned()]);
            point.push(mapping::name(ways[n]));
            self.tally(3, point, *is, was);
        }
    }

    fn tally(&mut self, section: usize, point: Point, is: Option<Caching>, was: Option<Caching>) {
        let Some(now) = is else { return };
        let usual = super::SECTIONS[section].1;
        let outcome = match is == was {
            true => usual.to_owned(),
            false => now.name(),
        };
        let of_point = self.tallies[section - 3].entry(point).or_default();
        *of_point.entry(outcome).or_default() += 1;
    }

    fn later(&mut self, situation: Situation, ways: &[Way]) {
        let built = self.build(situation, ways);
        for (what, verb) in page_verbs() {
            self.then(situation, &built, what, verb);
        }
        if ways[0].0 == Who::Buffer {
            for (what, event) in BUFFER_EVENTS {
                let verb = move |b: &mut Bench| {
                    let (va, page) = (b.va(0), b.page());
                    b.world.buffer_event(CPU0, event, va, &[page]);
                };
                self.then(situation, &built, what, &verb);
            }
            let verb = |b: &mut Bench| {
                let (va, page) = (b.va(0), b.page());
                b.world
                    .buffer_event(CPU0, BufferEvent::Released, va, &[page]);
                Op::KernelStore(Va(va.0), 1).run(&mut b.world);
            };
            self.then(situation, &built, "buffer released then stored into", &verb);
            self.buffer_uses(situation, &built);
        }
    }

    fn buffer_uses(&mut self, situation: Situation, built: &Bench) {
        let uses = [
            ("kernel read", KernelUse::Read),
            ("kernel write", KernelUse::Write),
            ("kernel pio", KernelUse::Pio),
            ("kernel poke", KernelUse::Poke),
        ];
        for (what, of) in uses {
            let verb = move |b: &mut Bench| {
                let (va, bytes) = (b.va(0), b.world.hw().page_bytes());
                b.world.kernel_will(CPU0, of, va, bytes);
                b.world.kernel_did(CPU0, of, va, bytes);
            };
            self.then(situation, built, what, &verb);
        }
        let ops = [
            DmaOp::PreRead,
            DmaOp::PostRead,
            DmaOp::PreWrite,
            DmaOp::PostWrite,
        ];
        for op in ops {
            let verb = move |b: &mut Bench| {
                let (va, bytes) = (b.va(0), b.world.hw().page_bytes());
                let map = b.world.bus_dma_load(va, bytes);
                b.world.bus_dma_sync(CPU0, op, map);
            };
            self.then(situation, built, "dma", &verb);
        }
    }

    fn then(&mut self, situation: Situation, built: &Bench, what: &str, verb: Verb<'_>) {
        let mut bench = built.clone();
        verb(&mut bench);
        self.record.take(&mut bench, None);
        let left = bench.present();
        let before = built.states(left.iter().copied());
        let after = bench.states(left.iter().copied());
        for (n, (is, was)) in left.into_iter().zip(after.into_iter().zip(before)) {
            let mut point = vec![what.to_owned(), situation.name().to_owned()];
            point.push(mapping::name(built.ways[n]));
            self.tally(4, point, is, was);
        }
    }

    /// Verbs over four pages, and those of a page or a CPU without mappings.
    fn ranges(&mut self) {
        for situation in [Situation::Runs, Situation::Thread] {
            for verb in [remove_four, protect_four, release_four] {
                let mut bench = self.base(situation);
                let bytes = bench.world.hw().page_bytes();
                for n in 0..4 {
                    let (va, page) = (n * bytes, frame(&bench.world, Page(n as u8)));
                    let va = machine::VirtAddr(va);
                    bench
                        .world
                        .pmap_enter(CPU0, A, va, page, Prot::all(), false);
                }
                bench.world.journal.take();
                verb(&mut bench);
                self.record.take(&mut bench, None);
            }
        }
    }
}

fn remove_four(b: &mut Bench) {
    let bytes = b.world.hw().page_bytes();
    let zero = machine::VirtAddr(0);
    b.world.pmap_remove(CPU0, A, zero, zero.add(4 * bytes));
}

fn protect_four(b: &mut Bench) {
    let bytes = b.world.hw().page_bytes();
    let zero = machine::VirtAddr(0);
    b.world
        .pmap_protect(CPU0, A, zero, zero.add(4 * bytes), Prot::READ);
}

fn release_four(b: &mut Bench) {
    b.world.pmap_remove_pages(CPU0, A);
    b.world.pmap_release(CPU0, A);
}

const BUFFER_EVENTS: [(&str, BufferEvent); 9] = [
    (
        "buffer acquired to read",
        BufferEvent::Acquired { write: false },
    ),
    (
        "buffer acquired to write",
        BufferEvent::Acquired { write: true },
    ),
    ("buffer io start read", BufferEvent::IoStart { read: true }),
    (
        "buffer io start write",
        BufferEvent::IoStart { read: false },
    ),
    ("buffer io done read", BufferEvent::IoDone { read: true }),
    ("buffer io done write", BufferEvent::IoDone { read: false }),
    ("buffer copied from", BufferEvent::Copied { write: false }),
    ("buffer copied into", BufferEvent::Copied { write: true }),
    ("buffer released", BufferEvent::Released),
];

/// What can be done to a page, or on its CPU, whatever maps it.
fn page_verbs() -> [(&'static str, Verb<'static>); 13] {
    [
        ("remove_all", &|b| b.world.pmap_remove_all(CPU0, b.page())),
        ("remove_write", &|b| {
            b.world.pmap_remove_write(CPU0, b.page())
        }),
        ("clear_modify", &|b| {
            b.world.pmap_clear_modify(CPU0, b.page())
        }),
        ("ts_referenced", &|b| {
            b.world.pmap_ts_referenced(CPU0, b.page());
        }),
        ("store after clear_modify", &|b| {
            b.world.pmap_clear_modify(CPU0, b.page());
            fault(b, Access::Store);
        }),
        ("fetch after ts_referenced", &|b| {
            b.world.pmap_ts_referenced(CPU0, b.page());
            fault(b, Access::Fetch);
        }),
        ("zero", &|b| b.world.pmap_zero_page(CPU0, b.page())),
        ("copy from", &|b| {
            let other = frame(&b.world, Page(1));
            b.world.pmap_copy_page(CPU0, b.page(), other);
        }),
        ("copy to", &|b| {
            let other = frame(&b.world, Page(1));
            b.world.pmap_copy_page(CPU0, other, b.page());
        }),
        ("switch to A", &|b| b.world.cpu_switch(CPU0, Some(A))),
        ("switch to B", &|b| b.world.cpu_switch(CPU0, Some(B))),
        ("switch to a thread", &|b| b.world.cpu_switch(CPU0, None)),
        ("sync", &|b| {
            let va = b.va(b.ways.len() - 1);
            b.world.pmap_sync_icache(CPU0, A, va, 8);
        }),
    ]
}

/// The last mapping's fault, if the CPU can take it.
fn fault(b: &mut Bench, access: Access) {
    let last = b.ways.len() - 1;
    let (space, va) = (b.ways[last].0.space(), b.va(last));
    b.world.step(CPU0, Step::Exception);
    b.world
        .pmap_fault_fixup(CPU0, space, va, access, !space.is_kernel());
}

fn point(situation: Situation, ways: &[Way]) -> Point {
    let names = ways.iter().map(|w| mapping::name(*w));
    std::iter::once(situation.name().to_owned())
        .chain(names)
        .collect()
}

/// Tallies as outcomes: the usual one alone is not told, and of several each with its sets.
fn told(tally: Tally, usual: &str) -> Outcomes {
    let one = |(point, outcomes): (Point, BTreeMap<String, u32>)| {
        if outcomes.keys().all(|o| o == usual) {
            return None;
        }
        let all = outcomes.len() == 1;
        let parts = outcomes.into_iter().map(|(outcome, sets)| match all {
            true => outcome,
            false => format!("{outcome} in {sets}"),
        });
        Some((point, parts.collect::<Vec<_>>().join(" / ")))
    };
    tally.into_iter().filter_map(one).collect()
}

fn orders(len: usize) -> Vec<Vec<usize>> {
    match len {
        1 => vec![],
        2 => vec![vec![1, 0]],
        _ => vec![
            vec![0, 2, 1],
            vec![1, 0, 2],
            vec![1, 2, 0],
            vec![2, 0, 1],
            vec![2, 1, 0],
        ],
    }
}

/// The skeleton's fields, whichever there are, by its debug form.
fn skeleton(policy: &Policy) -> Outcomes {
    let debug = format!("{:?}", policy.skeleton);
    let inner = debug.split_once('{').map_or("", |(_, rest)| rest);
    let inner = inner.trim_end_matches(['}', ' ']);
    let field = |text: &str| {
        let (name, value) = text.split_once(": ")?;
        let value: String = value.chars().filter(|c| !"[],\"".contains(*c)).collect();
        (name != "name").then(|| (vec![name.trim().replace('_', " ")], value))
    };
    fields(inner).into_iter().filter_map(field).collect()
}

/// Splits at commas outside of brackets.
fn fields(text: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0, 0);
    let mut all = Vec::new();
    for (n, c) in text.char_indices() {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(text[start..n].trim());
                start = n + 1;
            }
            _ => {}
        }
    }
    all.push(text[start..].trim());
    all
}
