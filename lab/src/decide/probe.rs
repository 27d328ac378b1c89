//! Makes a policy's table: enters every set of mappings in a tiny world and does everything to it.

use machine::{Access, Hw, Step};
use pmap::{BufferEvent, DmaOp, KernelUse, PmapVerbs, Policy, Prot};

use super::mapping::{self, A, B, Bench, Situation, Way, Who};
use super::record::Record;
use super::{Outcomes, Point, Table};
use crate::op::{CPU0, Page, frame};

/// Largest set of mappings.
const SET_MAX: usize = 3;

/// A policy's decision table.
pub fn table(policy: &Policy) -> Table {
    let mut probe = Probe {
        policy,
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

/// Every set, its mappings in the order of [`mapping::ways`].
fn sets() -> Vec<Vec<Way>> {
    let ways = mapping::ways();
    let mut all: Vec<Vec<Way>> = Vec::new();
    let mut grown: Vec<Vec<Way>> = vec![Vec::new()];
    for _ in 0..SET_MAX {
        let longer = |set: &Vec<Way>| {
            let last = set.last().copied();
            let set = set.clone();
            let from = ways.iter().position(|w| Some(*w) == last).unwrap_or(0);
            ways[from..].iter().map(move |w| {
                let mut longer = set.clone();
                longer.push(*w);
                longer
            })
        };
        grown = grown.iter().flat_map(longer).collect();
        all.extend(grown.iter().cloned());
    }
    all
}

struct Probe<'a> {
    policy: &'a Policy,
    record: Record,
    table: Table,
}

/// A verb's effect on a set.
type Verb<'a> = &'a dyn Fn(&mut Bench);

impl Probe<'_> {
    fn build(&mut self, situation: Situation, ways: &[Way]) -> Bench {
        let mut bench = Bench::new(self.policy, situation);
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
            if other == ways {
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
            let what = format!("{} left", mapping::name(ways[n]));
            self.compare(situation, &what, &rest, seen);
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
            "write taken from"
        } else {
            bench.ways[n].1 = prot | Prot::WRITE;
            bench.make(n);
            "write given to"
        };
        self.record.take(&mut bench, Some(n));
        let (now, seen) = (bench.ways.clone(), bench.seen());
        let mut sorted = now.clone();
        sorted.sort_by_key(|w| mapping::ways().iter().position(|x| x == w));
        if sorted == now {
            let what = format!("{what} {}", mapping::name(now[n]));
            self.compare(situation, &what, &now, seen);
        }
    }

    fn compare(&mut self, situation: Situation, what: &str, ways: &[Way], seen: String) {
        if seen != self.as_entered(situation, ways) {
            let point = point(situation, Some(what), ways);
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
                b.world.bus_dma_sync(CPU0, op, va, bytes);
            };
            self.then(situation, built, "dma", &verb);
        }
    }

    fn then(&mut self, situation: Situation, built: &Bench, what: &str, verb: Verb<'_>) {
        let mut bench = built.clone();
        verb(&mut bench);
        self.record.take(&mut bench, None);
        let seen = bench.seen();
        if seen != built.seen() {
            let point = point(situation, Some(what), &built.ways);
            self.set(4, point, cached_if_empty(seen));
        }
    }

    /// Verbs over four pages, and those of a page or a CPU without mappings.
    fn ranges(&mut self) {
        for situation in [Situation::Runs, Situation::Thread] {
            for verb in [remove_four, protect_four, release_four] {
                let mut bench = Bench::new(self.policy, situation);
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
    let all = match len {
        1 => vec![],
        2 => vec![vec![1, 0]],
        _ => vec![
            vec![0, 2, 1],
            vec![1, 0, 2],
            vec![1, 2, 0],
            vec![2, 0, 1],
            vec![2, 1, 0],
        ],
    };
    all
}

/// Each verb's list of parts.
fn skeleton(policy: &Policy) -> Outcomes {
    let s = &policy.skeleton;
    let verbs = [
        ("enter a new one", &s.enter_new),
        ("enter the same page", &s.enter_same),
        ("enter over another", &s.enter_other),
        ("remove", &s.remove),
        ("protect", &s.protect),
        ("kenter", &s.kenter),
        ("kremove", &s.kremove),
    ];
    let parts = |(verb, parts): (&str, &pmap::skeleton::Parts)| {
        let names: Vec<String> = parts.iter().map(|p| format!("{p:?}")).collect();
        (vec![verb.to_owned()], names.join(" "))
    };
    let mut out: Outcomes = verbs.into_iter().map(parts).collect();
    let facts = [
        ("kenter's flags", s.kenter_flags.names().join(" ")),
        ("switch is lazy", s.lazy_switch.to_string()),
        ("current is what is live", s.current_is_live.to_string()),
    ];
    out.extend(facts.map(|(fact, value)| (vec![fact.to_owned()], value)));
    out
}
