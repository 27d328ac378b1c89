//! The trace simulation against a small simulator of its own kind: one list of slots a set, no
//! memo, no chains, one reference after the other. Geometries, policies and traces are generated.

use lab::trace::{
    Choice, Counts, Format, Kind, L2Feed, Modify, Reader, Ref, Rules, Setup, Shape, Simulation,
    Straddle, Unit, UnitCounts, Writer,
};
use machine::profile::Replacement;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[derive(Clone, Copy)]
struct Slot {
    line: u64,
    dirty: bool,
    stamp: u64,
}

/// What an access did.
#[derive(Default)]
struct Done {
    missed: bool,
    filled: bool,
    /// A dirty line that left.
    left: Option<u64>,
}

/// A cache that is looked through from end to end.
struct Plain {
    unit: Unit,
    line: u64,
    sets: Vec<Vec<Option<Slot>>>,
    pointers: Vec<usize>,
    now: u64,
}

impl Plain {
    fn new(unit: &Unit, page: u32) -> Self {
        let line = if unit.shape.line == 0 {
            page
        } else {
            unit.shape.line
        };
        let slots = if unit.shape.line == 0 {
            unit.shape.size
        } else {
            unit.shape.size / line
        };
        let sets = (slots / unit.shape.ways) as usize;
        Self {
            unit: *unit,
            line: u64::from(line),
            sets: vec![vec![None; unit.shape.ways as usize]; sets],
            pointers: vec![0; sets],
            now: 0,
        }
    }

    fn set(&self, line: u64) -> usize {
        (line % self.sets.len() as u64) as usize
    }

    /// Accesses the line of that number.
    fn access(&mut self, line: u64, store: bool) -> Done {
        self.now += 1;
        let (n, rule, now) = (self.set(line), self.unit.choice.rule, self.now);
        let dirties = store && self.unit.write_back;
        if let Some(slot) = self.sets[n].iter_mut().flatten().find(|s| s.line == line) {
            slot.dirty |= dirties;
            if rule == Replacement::Lru {
                slot.stamp = now;
            }
            return Done::default();
        }
        if store && !self.unit.write_allocate {
            let missed = true;
            return Done {
                missed,
                ..Done::default()
            };
        }
        let way = self.victim(n);
        let new = Slot {
            line,
            dirty: dirties,
            stamp: now,
        };
        let old = self.sets[n][way].replace(new);
        Done {
            missed: true,
            filled: true,
            left: old.filter(|s| s.dirty).map(|s| s.line),
        }
    }

    fn victim(&mut self, n: usize) -> usize {
        let set = &self.sets[n];
        if let Some(way) = set.iter().position(Option::is_none) {
            return way;
        }
        if self.unit.choice.rule == Replacement::RoundRobin {
            let way = self.pointers[n];
            self.pointers[n] = (way + 1) % set.len();
            return way;
        }
        let oldest = set.iter().flatten().map(|s| s.stamp).min().expect("full");
        let is_oldest = |s: &Option<Slot>| s.is_some_and(|s| s.stamp == oldest);
        set.iter().position(is_oldest).expect("one of them")
    }

    fn in_range(&self, record: &Ref, line: u64) -> bool {
        let last = record.va + u64::from(record.size).max(1) - 1;
        record.size == 0 || (record.va / self.line..=last / self.line).contains(&line)
    }

    /// Lines written back by a clean of the record's range.
    fn clean(&mut self, record: &Ref) -> u64 {
        let mut written = 0;
        for n in 0..self.sets.len() {
            for way in 0..self.sets[n].len() {
                let dirty = self.sets[n][way].filter(|s| s.dirty);
                if let Some(slot) = dirty.filter(|s| self.in_range(record, s.line)) {
                    written += 1;
                    self.sets[n][way] = Some(Slot {
                        dirty: false,
                        ..slot
                    });
                }
            }
        }
        written
    }

    fn invalidate(&mut self, record: &Ref) {
        for n in 0..self.sets.len() {
            for way in 0..self.sets[n].len() {
                if self.sets[n][way].is_some_and(|s| self.in_range(record, s.line)) {
                    self.sets[n][way] = None;
                }
            }
        }
    }

    fn dirty(&self) -> u64 {
        let slots = self.sets.iter().flatten().flatten();
        slots.filter(|s| s.dirty).count() as u64
    }
}

/// Two first-level units of one kind and what is behind them.
struct Half {
    fronts: [Option<Plain>; 2],
    behind: Option<Plain>,
    feed: L2Feed,
    counts: [UnitCounts; 3],
}

impl Half {
    fn back(&mut self, address: u64, store: bool) {
        let Some(behind) = &mut self.behind else {
            return;
        };
        let counts = &mut self.counts[2];
        if store {
            counts.writes += 1;
        } else {
            counts.reads += 1;
        }
        if store && self.feed == L2Feed::Misses {
            return;
        }
        let done = behind.access(address / behind.line, store);
        counts.missed.reads += u64::from(done.missed && !store);
        counts.missed.writes += u64::from(done.missed && store);
        counts.missed.writebacks += u64::from(done.left.is_some());
    }

    fn reference(&mut self, side: usize, record: &Ref, stores: &[bool], rule: Straddle) {
        let Some(line) = self.fronts[side].as_ref().map(|f| f.line) else {
            return;
        };
        let last = record.va + u64::from(record.size) - 1;
        let (mut read_missed, mut write_missed) = (false, false);
        for number in record.va / line..=last / line {
            let first = number == record.va / line;
            for store in stores {
                let missed = self.one(side, number, *store);
                let counts = &mut self.counts[side];
                if first || rule == Straddle::Split {
                    counts.reads += u64::from(!store);
                    counts.writes += u64::from(*store);
                }
                let seen = if *store {
                    &mut write_missed
                } else {
                    &mut read_missed
                };
                let again = *seen && rule == Straddle::Cachegrind;
                *seen |= missed;
                counts.missed.reads += u64::from(missed && !store && !again);
                counts.missed.writes += u64::from(missed && *store && !again);
            }
        }
    }

    /// One line; whether it missed.
    fn one(&mut self, side: usize, number: u64, store: bool) -> bool {
        let front = self.fronts[side].as_mut().expect("asked before");
        let (line, back) = (front.line, front.unit.write_back);
        let done = front.access(number, store);
        if done.filled {
            self.back(number * line, false);
        }
        if let Some(left) = done.left {
            self.counts[side].missed.writebacks += 1;
            self.back(left * line, true);
        }
        if store && (!back || (done.missed && !done.filled)) {
            self.back(number * line, true);
        }
        done.missed
    }
}

/// The whole of a setup.
fn plainly(trace: &[Ref], setup: &Setup, rules: Rules) -> Counts {
    let plain = |unit: &Option<Unit>| unit.as_ref().map(|u| Plain::new(u, setup.page));
    let mut caches = Half {
        fronts: [plain(&setup.l1i), plain(&setup.l1d)],
        behind: plain(&setup.l2),
        feed: setup.l2_feed,
        counts: [UnitCounts::default(); 3],
    };
    let mut tlbs = Half {
        fronts: [plain(&setup.itlb), plain(&setup.dtlb)],
        behind: plain(&setup.tlb),
        feed: L2Feed::Misses,
        counts: [UnitCounts::default(); 3],
    };
    for record in trace {
        let stores: &[bool] = match record.kind {
            Kind::Fetch | Kind::Read => &[false],
            Kind::Write => &[true],
            Kind::Modify if rules.modify == Modify::Read => &[false],
            Kind::Modify => &[false, true],
            Kind::Clean | Kind::Invalidate => {
                operate(&mut caches, record);
                continue;
            }
        };
        let side = usize::from(record.kind != Kind::Fetch);
        caches.reference(side, record, stores, rules.straddle);
        tlbs.reference(side, record, &[false], rules.straddle);
    }
    let count = |half: &Half, n: usize, there: bool| {
        let unit = if n == 2 {
            &half.behind
        } else {
            &half.fronts[n]
        };
        let dirty_at_end = unit.as_ref().map_or(0, Plain::dirty);
        let counts = half.counts[n];
        there.then_some(UnitCounts {
            dirty_at_end,
            ..counts
        })
    };
    Counts {
        l1i: count(&caches, 0, setup.l1i.is_some()),
        l1d: count(&caches, 1, setup.l1d.is_some()),
        l2: count(&caches, 2, setup.l2.is_some()),
        itlb: count(&tlbs, 0, setup.itlb.is_some()),
        dtlb: count(&tlbs, 1, setup.dtlb.is_some()),
        tlb: count(&tlbs, 2, setup.tlb.is_some()),
    }
}

fn operate(caches: &mut Half, record: &Ref) {
    if record.kind == Kind::Clean {
        let Some(l1d) = &mut caches.fronts[1] else {
            return operate_behind(caches, record);
        };
        let line = l1d.line;
        let dirty: Vec<u64> = l1d
            .sets
            .iter()
            .flatten()
            .flatten()
            .filter(|s| s.dirty)
            .map(|s| s.line)
            .collect();
        let dirty: Vec<u64> = dirty
            .into_iter()
            .filter(|n| l1d.in_range(record, *n))
            .collect();
        caches.counts[1].missed.writebacks += l1d.clean(record);
        // A range is cleaned in order of its addresses, a whole cache slot by slot.
        let mut dirty = dirty;
        if record.size != 0 {
            dirty.sort_unstable();
        }
        dirty.iter().for_each(|n| caches.back(n * line, true));
    } else {
        caches
            .fronts
            .iter_mut()
            .flatten()
            .for_each(|f| f.invalidate(record));
    }
    operate_behind(caches, record);
}

fn operate_behind(caches: &mut Half, record: &Ref) {
    let Some(behind) = &mut caches.behind else {
        return;
    };
    if record.kind == Kind::Clean {
        caches.counts[2].missed.writebacks += behind.clean(record);
    } else {
        behind.invalidate(record);
    }
}

/// The counts that both sides keep: parts and stores around are of the first only.
fn comparable(mut counts: Counts) -> Counts {
    let units = [
        &mut counts.l1i,
        &mut counts.l1d,
        &mut counts.l2,
        &mut counts.itlb,
        &mut counts.dtlb,
        &mut counts.tlb,
    ];
    for unit in units.into_iter().flatten() {
        (
            unit.missed.parts,
            unit.missed.around,
            unit.missed.around_bytes,
        ) = (0, 0, 0);
    }
    counts
}

fn simulated(trace: &[Ref], setups: &[Setup], rules: Rules) -> Vec<Counts> {
    let mut run = Simulation::new(setups, rules, false);
    trace.chunks(97).for_each(|batch| run.push(batch));
    run.counts().into_iter().map(comparable).collect()
}

fn any_rule() -> impl Strategy<Value = Choice> {
    const RULES: [Replacement; 3] = [Replacement::Lru, Replacement::Fifo, Replacement::RoundRobin];
    prop::sample::select(&RULES[..]).prop_map(Choice::from)
}

prop_compose! {
    fn any_unit(line: u32)(
        sets in 0..5_u32, ways in 1..6_u32, choice in any_rule(),
        write_back: bool, write_allocate: bool, parts in 0..3_u32,
    ) -> Unit {
        let lines = (1 << sets) * ways;
        let shape = if line == 0 {
            Shape { size: lines, ways, line }
        } else {
            Shape { size: lines * line, ways, line }
        };
        let dirty_bytes = if line == 0 { 0 } else { line >> parts };
        Unit { shape, choice, write_back, write_allocate, dirty_bytes }
    }
}

prop_compose! {
    fn any_setup_of(line: u32, behind: u32)(
        l1i in prop::option::of(any_unit(line)), l1d in any_unit(line),
        l2 in prop::option::of(any_unit(behind)), traffic: bool,
        itlb in prop::option::of(any_unit(0)), dtlb in any_unit(0),
        tlb in prop::option::of(any_unit(0)),
    ) -> Setup {
        let l2_feed = if traffic { L2Feed::Traffic } else { L2Feed::Misses };
        let (l1d, dtlb) = (Some(l1d), Some(dtlb));
        Setup { l1i, l1d, l2, l2_feed, itlb, dtlb, tlb, page: 256 }
    }
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let lines = (2..6_u32, 0..3_u32);
    lines.prop_flat_map(|(line, more)| any_setup_of(1 << line, 1 << (line + more)))
}

fn any_ref() -> impl Strategy<Value = Ref> {
    let address = prop_oneof![
        8 => 0..0x400_u64,
        4 => (0..16_u64).prop_map(|n| n * 0x100),
        1 => (0..64_u64).prop_map(|n| u64::MAX - 0x80 + n),
    ];
    let kind = prop_oneof![
        6 => Just(Kind::Fetch),
        6 => Just(Kind::Read),
        6 => Just(Kind::Write),
        2 => Just(Kind::Modify),
        1 => prop_oneof![Just(Kind::Clean), Just(Kind::Invalidate)],
    ];
    (kind, address, 0..20_u32, prop::bool::ANY).prop_map(|(kind, va, size, small)| {
        let size = if small { 1 + size % 4 } else { size };
        let size = if kind.is_operation() {
            size
        } else {
            size.max(1)
        };
        Ref { va, size, kind }
    })
}

prop_compose! {
    fn any_rules()(cachegrind: bool, both: bool) -> Rules {
        Rules {
            straddle: if cachegrind { Straddle::Cachegrind } else { Straddle::Split },
            modify: if both { Modify::ReadWrite } else { Modify::Read },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_geometry_counts_as_the_plain_simulator_does(
        setup in any_setup(), rules in any_rules(),
        trace in prop::collection::vec(any_ref(), 1..400),
    ) {
        let expected = plainly(&trace, &setup, rules);
        prop_assert_eq!(simulated(&trace, &[setup], rules), vec![expected]);
    }

    #[test]
    fn several_setups_in_one_pass_count_as_each_alone(
        setups in prop::collection::vec(any_setup(), 2..6), rules in any_rules(),
        trace in prop::collection::vec(any_ref(), 1..400),
    ) {
        let expected: Vec<_> = setups.iter().map(|s| plainly(&trace, s, rules)).collect();
        prop_assert_eq!(simulated(&trace, &setups, rules), expected);
    }

    #[test]
    fn a_sweep_over_one_line_size_counts_as_each_alone(
        units in prop::collection::vec(any_unit(16), 2..8), back: bool, allocate: bool,
        rules in any_rules(), trace in prop::collection::vec(any_ref(), 1..600),
    ) {
        // One chain: all see the same stream.
        let one = |unit: &Unit| {
            let (write_back, write_allocate, dirty_bytes) = (back, allocate, 0);
            let l1d = Some(Unit { write_back, write_allocate, dirty_bytes, ..*unit });
            Setup { l1d, ..Setup::empty() }
        };
        let setups: Vec<_> = units.iter().map(one).collect();
        let expected: Vec<_> = setups.iter().map(|s| plainly(&trace, s, rules)).collect();
        prop_assert_eq!(simulated(&trace, &setups, rules), expected);
    }

    #[test]
    fn the_binary_form_loses_nothing(trace in prop::collection::vec(any_ref(), 1..300)) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for r in &trace {
            writer.record(r.kind, r.va, r.size).unwrap();
        }
        let bytes = std::io::Cursor::new(writer.finish().unwrap());
        let mut reader = Reader::new("memory", bytes, Format::Auto).unwrap();
        let mut batch = Vec::new();
        prop_assert!(reader.next_batch(&mut batch).unwrap());
        prop_assert_eq!(batch, trace);
    }
}

/// The TLBs of a trace run are caches of pages; the machine's own TLB, filled on every miss, must
/// hit and miss alike.
#[test]
fn tlbs_agree_with_the_machines_tlb() {
    use machine::tlb::{Found, Tlb, TlbEntry};
    let profile = machine::Profile::embedded("sheevaplug").expect("embedded");
    let mut setup = Setup::of_profile(&profile);
    (setup.l1i, setup.l1d, setup.l2) = (None, None, None);
    let trace = lab::trace::Synthetic::records(300_000);
    let counts = simulated(&trace, &[setup], Rules::default())[0];
    let mut tlb = Tlb::new(&profile.tlb, profile.page);
    let (mut micro, mut main) = ([0; 2], 0);
    for record in &trace {
        let (fetch, va) = (record.kind == Kind::Fetch, record.va as u32);
        let found = tlb.lookup(fetch, va).map(|(_, found)| found);
        micro[usize::from(fetch)] += u64::from(found != Some(Found::Micro));
        if found.is_none() {
            main += 1;
            let (mask, tag) = (!0xfff, va & !0xfff);
            let entry = TlbEntry {
                tag,
                mask,
                base: tag,
                ..TlbEntry::default()
            };
            tlb.fill(fetch, va, entry);
        }
    }
    assert_eq!(counts.itlb.expect("there").missed.reads, micro[1]);
    assert_eq!(counts.dtlb.expect("there").missed.reads, micro[0]);
    assert_eq!(counts.tlb.expect("there").missed.reads, main);
}
