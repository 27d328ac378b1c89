//! The part of ARMv6K.

use super::{Bench, DATA, misaligned};
use crate::cpu::{Exit, Regs};
use crate::types::{Access, VirtAddr};

#[test]
fn an_exclusive_pair_stores() {
    // ldrex r0, [r1]; strex r2, r3, [r1]
    let bench = Bench::arm(&[0xe191_0f9f, 0xe181_2f93])
        .v6()
        .with(&[0, DATA, 9, 7])
        .data(&[5]);
    let loaded = bench.clone().run(1);
    assert!(
        loaded.regs.is_tagged(VirtAddr(DATA + 4)) && !loaded.regs.is_tagged(VirtAddr(DATA + 8))
    );
    let done = bench.run(2);
    assert_eq!((done.r(0), done.r(2), done.bus.word(DATA)), (5, 0, 7));
    assert_eq!(done.regs.exclusive, None);
}

#[test]
fn a_store_without_its_tag_fails() {
    let alone = Bench::arm(&[0xe181_2f93])
        .v6()
        .with(&[0, DATA, 9, 7])
        .data(&[5])
        .run(1);
    assert_eq!((alone.r(2), alone.bus.word(DATA)), (1, 5));
    let words = [0xe191_0f9f, 0xf57f_f01f, 0xe181_2f93];
    let cleared = Bench::arm(&words)
        .v6()
        .with(&[0, DATA, 9, 7])
        .data(&[5])
        .run(3);
    assert_eq!(
        (cleared.r(2), cleared.bus.word(DATA)),
        (1, 5),
        "clrex between"
    );
    let words = [0xe191_0f9f, 0xe184_2f93];
    let other = Bench::arm(&words)
        .v6()
        .with(&[0, DATA, 9, 7, DATA + 8])
        .run(2);
    assert_eq!(other.r(2), 1, "another granule");
}

#[test]
fn exclusives_of_every_size() {
    // ldrexb, ldrexh and ldrexd to r4, [r1]; strex with r6 to r2, [r1]
    for (load, store, mask) in [
        (0xe1d1_4f9f, 0xe1c1_2f96, 0xff),
        (0xe1f1_4f9f, 0xe1e1_2f96, 0xffff),
        (0xe1b1_4f9f, 0xe1a1_2f96, u32::MAX),
    ] {
        let bench = Bench::arm(&[load, store])
            .v6()
            .with(&[0, DATA])
            .data(&[0x1122_3344, 0x55]);
        let bench = bench.with_r(6, 0xaabb_ccdd).with_r(7, 0xee).run(2);
        let stored = 0x1122_3344 & !mask | 0xaabb_ccdd & mask;
        assert_eq!(
            (bench.r(4), bench.r(2)),
            (0x1122_3344 & mask, 0),
            "{load:08x}"
        );
        assert_eq!(bench.bus.word(DATA), stored, "{store:08x}");
        let doubled = mask == u32::MAX;
        assert_eq!(bench.r(5), if doubled { 0x55 } else { 0 });
        assert_eq!(bench.bus.word(DATA + 4), if doubled { 0xee } else { 0x55 });
    }
}

#[test]
fn a_misaligned_exclusive_aborts_unchecked() {
    let exit = Bench::arm(&[0xe191_0f9f]).v6().with(&[0, DATA + 2]).fails();
    assert_eq!(exit, Exit::DataAbort(misaligned(DATA + 2, Access::Load)));
    let exit = Bench::arm(&[0xe1a1_2f96]).v6().with(&[0, DATA + 4]).fails();
    assert_eq!(exit, Exit::DataAbort(misaligned(DATA + 4, Access::Store)));
}

#[test]
fn extension_and_reversal() {
    for (word, expected) in [
        (0xe6bf_0f31, 0x8473_6281), // rev r0, r1
        (0xe6bf_0fb1, 0x6281_8473), // rev16
        (0xe6ff_0fb1, 0xffff_8473), // revsh
        (0xe6af_0071, 0xffff_ff84), // sxtb r0, r1
        (0xe6af_0471, 0x73),        // sxtb r0, r1, ror #8
        (0xe6bf_0071, 0x7384),      // sxth
        (0xe6bf_0871, 0xffff_8162), // sxth r0, r1, ror #16
        (0xe6ef_0071, 0x84),        // uxtb
        (0xe6ff_0071, 0x7384),      // uxth
        (0xe6e2_0071, 0x184),       // uxtab r0, r2, r1
        (0xe6a2_0071, 0x84),        // sxtab
        (0xe6cf_0071, 0x0062_0084), // uxtb16
        (0xe682_0071, 0x0062_0084), // sxtab16 r0, r2, r1: 0x100 + 0xff84 wraps
    ] {
        let bench = Bench::arm(&[word])
            .v6()
            .with(&[0, 0x8162_7384, 0x100])
            .run(1);
        assert_eq!(bench.r(0), expected, "{word:08x}");
    }
}

#[test]
fn thumb_extension_and_reversal() {
    for (half, expected) in [
        (0xba08, 0x8473_6281), // rev r0, r1
        (0xba48, 0x6281_8473), // rev16
        (0xbac8, 0xffff_8473), // revsh
        (0xb208, 0x7384),      // sxth
        (0xb248, 0xffff_ff84), // sxtb
        (0xb288, 0x7384),      // uxth
        (0xb2c8, 0x84),        // uxtb
        (0x4608, 0x8162_7384), // cpy r0, r1
    ] {
        let bench = Bench::thumb(&[half]).v6().with(&[0, 0x8162_7384]).run(1);
        assert_eq!((bench.r(0), bench.nzcv()), (expected, 0), "{half:04x}");
    }
}

#[test]
fn the_thread_register_is_read_only() {
    let mut bench = Bench::arm(&[0xee1d_0f70, 0xee0d_0f70]).v6();
    bench.regs = Regs {
        tls: 0x1234,
        ..bench.regs
    };
    let bench = bench.run(1);
    assert_eq!(bench.r(0), 0x1234, "mrc p15, 0, r0, c13, c0, 3");
    assert_eq!(bench.fails(), Exit::Undefined { word: 0xee0d_0f70 });
}

#[test]
fn barriers_reach_the_bus() {
    let bench = Bench::arm(&[0xee07_0fba, 0xee07_0f9a, 0xee07_0f95])
        .v6()
        .run(3);
    assert_eq!(bench.bus.barriers, [false, false, true], "dmb, dsb, isb");
}

#[test]
fn umaal_adds_twice() {
    let all = u32::MAX;
    let bench = Bench::arm(&[0xe043_2190])
        .v6()
        .with(&[all, all, all, all])
        .run(1);
    assert_eq!(
        (bench.r(2), bench.r(3)),
        (all, all),
        "umaal r2, r3, r0, r1 cannot overflow"
    );
}
