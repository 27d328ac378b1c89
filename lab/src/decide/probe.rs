//! Makes a policy's table: enters every set of mappings in a tiny world and does everything to it.

use machine::{Access, Hw, Step};
use pmap::{BufferEvent, DmaOp, KernelUse, PmapVerbs, Policy, Prot};

use super::mapping::{self, A, B, Bench, Situation, Way, Who};
use super::record::Record;
use super::{Outcomes, Point, Table};
use crate::op::{CPU0, Op, Page, Va, frame};

/// Largest set of mappings.
const SET_MAX: usize = 3;
const ORDINALS: [&str; SET_MAX] = ["1st", "2nd", "3rd"];

/// A policy's decision table.
pub fn table(policy: &Policy) -> Table {
    let base = |situation| (situation, Bench::new(policy, situation));
    let mut probe = Probe {
        bases: [base(Situation::Runs), base(Situation::Thread)],
        record: Record::default(),
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
}

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
        let usual = super::SECTIONS[section].1;
        if !outcome.is_empty() && outcome != usual {
            self.table.sections[section].insert(point, outcome);
        }
    }

    fn entered(&mut self, situation: Situation, ways: &[Way]) {
        let seen = self.build(situation, ways).seen();
        self.set(1, point(situation, None, ways), seen);
    }

    /// What [`Probe::entered`] said of a set.
    fn as_entered(&self, situation: Situation, ways: &[Way]) -> String {
        let found = self.table.sections[1].get(&point(situation, None, ways));
        found.cloned().unwrap_or_default()
    }

    fn orders(&mut self, situation: Situation, ways: &[Way]) {
        let usual = self.build(situation, ways).seen();
        for order in orders(ways.len()) {
            let other: Vec<Way> = order.iter().map(|n| ways[*n]).collect();
            if other.iter().zip(ways).all(|(a, b)| a.0 == b.0) {
                continue;
            }
            let bench = self.build(situation, &other);
            let place = |n| order.iter().position(|m| *m == n).unwrap_or(n);
            let inverse: Vec<usize> = (0..ways.len()).map(place).collect();
            if bench.seen_of(&inverse) != usual {
                let seen = cached_if_empty(bench.seen());
                self.set(2, point(situation, None, &other), seen);
            }
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
            let rest_order: Vec<usize> = (0..ways.len()).filter(|m| *m != n).collect();
            let seen = bench.seen_of(&rest_order);
            let what = format!("gone from {}", ORDINALS[n]);
            self.compare(situation, (&what, Some(ways[n])), &rest, seen);
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
            "write taken from the"
        } else {
            bench.ways[n].1 = prot | Prot::WRITE;
            bench.make(n);
            "write given to the"
        };
        self.record.take(&mut bench, Some(n));
        let (now, seen) = (bench.ways.clone(), bench.seen());
        let what = format!("{what} {}", ORDINALS[n]);
        self.compare(situation, (&what, None), &now, seen);
    }

    fn compare(
        &mut self,
        situation: Situation,
        (what, gone): (&str, Option<Way>),
        ways: &[Way],
        seen: String,
    ) {
        if seen != self.as_entered(situation, ways) {
            let mut point = point(situation, Some(what), ways);
            let gone = gone.map(mapping::name);
            point.splice(1..1, gone);
            self.set(3, point, cached_if_empty(seen));
        }
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
        let seen = bench.seen_of(&left);
        if seen != built.seen_of(&left) {
            let point = point(situation, Some(what), &built.ways);
            self.set(4, point, cached_if_empty(seen));
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

fn point(situation: Situation, what: Option<&str>, ways: &[Way]) -> Point {
    let mut point: Point = what.map(str::to_owned).into_iter().collect();
    point.push(situation.name().to_owned());
    point.extend(ways.iter().map(|w| mapping::name(*w)));
    point
}

fn cached_if_empty(seen: String) -> String {
    match seen.is_empty() {
        true => "all cached".to_owned(),
        false => seen,
    }
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
