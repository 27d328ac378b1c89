//! Counts of other simulators, exact: those on which Dinero IV, drcachesim, cachegrind and a small
//! reference agreed when they were run on these traces.
//!
//! `gzip-full.xdin.xz` is a recorded run of gzip, `gzip-200k.xdin.gz` its first 200,000 references;
//! the synthetic trace is [`Synthetic`], 4 million references. Caches have 32-byte lines; what is not
//! said is LRU, write-back, write-allocate, separate instruction and data caches.

use lab::trace::{
    Choice, Counts, Format, L2Feed, Position, Reader, Ref, Results, Rules, Setup, Simulation,
    Straddle, Synthetic, Unit, parse_cache, parse_tlb,
};

fn trace(name: &str) -> Vec<Ref> {
    let file = format!("{}/data/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let opened = Reader::open(&file, Format::Auto, &Position::default());
    let (mut reader, _) = opened.expect("test data");
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).expect("test data") {
        all.extend_from_slice(&batch);
    }
    all
}

fn gzip_full() -> Vec<Ref> {
    let all = trace("gzip-full.xdin.xz");
    assert_eq!(all.len(), 4_905_016);
    all
}

fn run(trace: &[Ref], setups: &[Setup], straddle: Straddle) -> Vec<Counts> {
    let rules = Rules {
        straddle,
        ..Rules::default()
    };
    let mut run = Simulation::new(setups, rules, false);
    trace.chunks(4096).for_each(|batch| run.push(batch));
    run.counts()
}

fn unit(shape: &str, rule: &str) -> Unit {
    let choice: Choice = rule.parse().expect("a rule");
    Unit::new(parse_cache(shape).expect("possible"), choice)
}

fn caches(shape: &str, rule: &str) -> Setup {
    let unit = unit(&format!("{shape}:32"), rule);
    Setup {
        l1i: Some(unit),
        l1d: Some(unit),
        ..Setup::empty()
    }
}

const SHAPES: [&str; 5] = ["16k:4", "32k:4", "16k:1", "16k:64", "4k:2"];

fn setups(rule: &str) -> Vec<Setup> {
    SHAPES.iter().map(|shape| caches(shape, rule)).collect()
}

/// Instruction misses, data read misses, data write misses.
fn misses(counts: &Counts) -> [u64; 3] {
    let (l1i, l1d) = (counts.l1i.expect("there"), counts.l1d.expect("there"));
    [l1i.missed.reads, l1d.missed.reads, l1d.missed.writes]
}

fn accesses(counts: &Counts) -> [u64; 3] {
    let (l1i, l1d) = (counts.l1i.expect("there"), counts.l1d.expect("there"));
    [l1i.reads, l1d.reads, l1d.writes]
}

/// Dirty lines written back, the end of the run included.
fn written_back(counts: &Counts) -> u64 {
    let l1d = counts.l1d.expect("there");
    l1d.missed.writebacks + l1d.dirty_at_end
}

#[test]
fn gzip_lru_one_access_a_line() {
    let counts = run(&gzip_full(), &setups("lru"), Straddle::Split);
    for one in &counts {
        assert_eq!(accesses(one), [4_065_459, 819_252, 347_861]);
    }
    let found: Vec<_> = counts.iter().map(misses).collect();
    let expected = [
        [2519, 38254, 5183],
        [2377, 18646, 5065],
        [3554, 61068, 8121],
        [2428, 35889, 5093],
        [9306, 111_972, 8302],
    ];
    assert_eq!(found, expected);
    let written: Vec<_> = counts.iter().map(written_back).collect();
    assert_eq!(written, [12655, 10810, 19290, 11653, 24115]);
}

#[test]
fn gzip_lru_one_access_a_reference() {
    let counts = run(&gzip_full(), &setups("lru")[..4], Straddle::Cachegrind);
    for one in &counts {
        assert_eq!(accesses(one), [3_738_107, 819_126, 347_783]);
    }
    let found: Vec<_> = counts.iter().map(misses).collect();
    let expected = [
        [2491, 38247, 5183],
        [2352, 18639, 5065],
        [3521, 61061, 8121],
        [2403, 35882, 5093],
    ];
    assert_eq!(found, expected);
}

#[test]
fn gzip_fifo() {
    let all = setups("fifo");
    let some = [&all[0], &all[1], &all[3], &all[4]].map(Clone::clone);
    let counts = run(&gzip_full(), &some, Straddle::Split);
    let found: Vec<_> = counts.iter().map(misses).collect();
    let expected = [
        [2684, 43439, 5496],
        [2450, 22655, 5174],
        [2633, 41646, 5341],
        [8472, 116_722, 9105],
    ];
    assert_eq!(found, expected);
}

#[test]
fn gzip_write_through_without_write_allocate() {
    let trace = gzip_full();
    let mut setups = [caches("16k:4", "lru"), caches("32k:4", "lru")];
    for setup in &mut setups {
        let l1d = setup.l1d.as_mut().expect("there");
        (l1d.write_back, l1d.write_allocate) = (false, false);
    }
    let mut run = Simulation::new(&setups, Rules::default(), false);
    trace.chunks(4096).for_each(|batch| run.push(batch));
    let expected = [[39137, 105_949], [19738, 105_735]];
    for (counts, expected) in run.counts().iter().zip(expected) {
        assert_eq!(misses(counts)[1..], expected);
        assert_eq!(written_back(counts), 0);
        let basis = lab::trace::Basis {
            records: run.records(),
            line: 32,
            write_back: false,
            cost: None,
        };
        let l1d = Results::new(counts, &basis).l1d.expect("there");
        assert_eq!(l1d.bytes_out, 1_416_134);
    }
}

#[test]
fn gzip_first_200_000() {
    let trace = trace("gzip-200k.xdin.gz");
    assert_eq!(trace.len(), 200_000);
    let all = setups("lru");
    let some = [&all[0], &all[1], &all[2], &all[4]].map(Clone::clone);
    let counts = run(&trace, &some, Straddle::Split);
    assert_eq!(accesses(&counts[0]), [163_355, 31284, 14905]);
    let found: Vec<_> = counts.iter().map(misses).collect();
    let expected = [
        [2126, 2265, 883],
        [2011, 2027, 843],
        [3091, 3111, 1121],
        [3921, 4461, 1258],
    ];
    assert_eq!(found, expected);
}

#[test]
fn synthetic_lru_under_both_rules() {
    let trace = Synthetic::records(4_000_000);
    for straddle in [Straddle::Split, Straddle::Cachegrind] {
        let counts = run(&trace, &setups("lru"), straddle);
        for one in &counts {
            assert_eq!(accesses(one), [1_999_804, 1_500_361, 499_835]);
        }
        let found: Vec<_> = counts.iter().map(misses).collect();
        let expected = [
            [269_768, 616_030, 307_389],
            [180_341, 419_628, 141_060],
            [269_659, 609_255, 299_641],
            [269_673, 616_820, 307_744],
            [337_261, 785_239, 450_420],
        ];
        assert_eq!(found, expected);
        let written: Vec<_> = counts[..2].iter().map(written_back).collect();
        assert_eq!(written, [388_771, 231_642]);
    }
}

#[test]
fn synthetic_fifo() {
    let trace = Synthetic::records(4_000_000);
    let counts = run(&trace, &setups("fifo")[..2], Straddle::Split);
    let found: Vec<_> = counts.iter().map(misses).collect();
    let expected = [[269_821, 624_490, 314_847], [180_344, 459_614, 175_807]];
    assert_eq!(found, expected);
}

fn tlbs(shape: &str) -> Setup {
    let unit = Unit::new(
        parse_tlb(shape).expect("possible"),
        "lru".parse().expect("a rule"),
    );
    Setup {
        itlb: Some(unit),
        dtlb: Some(unit),
        ..Setup::empty()
    }
}

fn tlb_misses(counts: &Counts) -> [u64; 2] {
    [counts.itlb, counts.dtlb].map(|tlb| tlb.expect("there").missed.reads)
}

#[test]
fn tlbs_of_4_kib_pages() {
    let shapes = ["32:32", "64:64", "64:2", "16:1"].map(tlbs);
    let counts = run(&gzip_full(), &shapes, Straddle::Split);
    let found: Vec<_> = counts.iter().map(tlb_misses).collect();
    let expected = [[104, 2288], [81, 157], [91, 12997], [320, 124_976]];
    assert_eq!(found, expected);

    let counts = run(
        &Synthetic::records(4_000_000),
        &shapes[..2],
        Straddle::Split,
    );
    let found: Vec<_> = counts.iter().map(tlb_misses).collect();
    assert_eq!(found, [[16, 98102], [16, 6275]]);
}

/// drcachesim's LL sees first-level misses only; Dinero's L2 sees write-backs too and finds two
/// misses fewer.
#[test]
fn second_level_by_either_rule() {
    let trace = gzip_full();
    let mut all = Vec::new();
    for feed in [L2Feed::Misses, L2Feed::Traffic] {
        for shape in ["16k:4", "32k:4"] {
            let mut setup = caches(shape, "lru");
            (setup.l2, setup.l2_feed) = (Some(unit("256k:8:32", "lru")), feed);
            all.push(setup);
        }
    }
    let counts = run(&trace, &all, Straddle::Split);
    let l2 = |n: usize| {
        let l2 = counts[n].l2.expect("there");
        (l2.reads - l2.missed.reads, l2.missed.reads)
    };
    assert_eq!([l2(0), l2(1)], [(36412, 9544), (16550, 9538)]);
    assert_eq!([l2(2).1, l2(3).1], [9542, 9535]);
}
