//! ARM state: loads and stores, their addressing modes, and misalignment.

use super::{Bench, CODE, DATA, END, misaligned, unmapped};
use crate::cpu::Exit;
use crate::types::Access;

#[test]
fn word_and_byte_transfers_in_every_mode() {
    // word, r1 before, address accessed, r1 after
    for (word, base, va, after) in [
        (0xe591_0004, DATA, DATA + 4, DATA),       // ldr r0, [r1, #4]
        (0xe511_0004, DATA, DATA - 4, DATA),       // ldr r0, [r1, #-4]
        (0xe5b1_0004, DATA, DATA + 4, DATA + 4),   // ldr r0, [r1, #4]!
        (0xe491_0004, DATA, DATA, DATA + 4),       // ldr r0, [r1], #4
        (0xe411_0004, DATA, DATA, DATA - 4),       // ldr r0, [r1], #-4
        (0xe4b1_0004, DATA, DATA, DATA + 4),       // ldrt r0, [r1], #4
        (0xe791_0002, DATA, DATA + 8, DATA),       // ldr r0, [r1, r2]
        (0xe731_0102, DATA, DATA - 32, DATA - 32), // ldr r0, [r1, -r2, lsl #2]!
        (0xe691_00a2, DATA, DATA, DATA + 4),       // ldr r0, [r1], r2, lsr #1
    ] {
        let mut bench = Bench::arm(&[word]).with(&[0, base, 8]);
        bench.bus.put(va, 0x8765_4321);
        let bench = bench.run(1);
        assert_eq!((bench.r(0), bench.r(1)), (0x8765_4321, after), "{word:08x}");
        let byte = bench.bus.clone();
        let mut bytes = Bench::arm(&[word | 1 << 22]).with(&[0, base, 8]);
        bytes.bus.bytes[va as usize..].copy_from_slice(&byte.bytes[va as usize..]);
        assert_eq!(bytes.run(1).r(0), 0x21, "{word:08x} as ldrb");
        let stored = Bench::arm(&[word & !(1 << 20)])
            .with(&[0x1122_3344, base, 8])
            .run(1);
        assert_eq!(stored.bus.word(va), 0x1122_3344, "{word:08x} as str");
    }
}

#[test]
fn halfword_signed_and_double_transfers() {
    let bench = |word| {
        Bench::arm(&[word])
            .with(&[0, DATA, 2])
            .data(&[0x80ff_8180, 0x1234_5678])
    };
    assert_eq!(bench(0xe1d1_00b0).run(1).r(0), 0x8180, "ldrh");
    assert_eq!(bench(0xe1d1_00d0).run(1).r(0), 0xffff_ff80, "ldrsb");
    assert_eq!(bench(0xe1d1_00f0).run(1).r(0), 0xffff_8180, "ldrsh");
    assert_eq!(bench(0xe191_00b2).run(1).r(0), 0x80ff, "ldrh r0, [r1, r2]");
    let loaded = bench(0xe1c1_40d0).run(1);
    assert_eq!(
        (loaded.r(4), loaded.r(5)),
        (0x80ff_8180, 0x1234_5678),
        "ldrd r4, [r1]"
    );
    let stored = bench(0xe1e1_40f8).with_r(4, 1).with_r(5, 2).run(1);
    assert_eq!(
        (stored.bus.word(DATA + 8), stored.bus.word(DATA + 12)),
        (1, 2),
        "strd"
    );
    assert_eq!(stored.r(1), DATA + 8, "strd writes back");
    let stored = bench(0xe0c1_00b2).with(&[0xdead_beef]).run(1);
    assert_eq!(
        (stored.bus.word(DATA), stored.r(1)),
        (0x80ff_beef, DATA + 2),
        "strh r0, [r1], #2"
    );
}

#[test]
fn multiple_transfers_in_every_direction() {
    // word (ldm r0!, {r1, r3}), lowest address accessed, r0 after
    for (word, start, after) in [
        (0xe8b0_000a, DATA, DATA + 8),     // ia
        (0xe9b0_000a, DATA + 4, DATA + 8), // ib
        (0xe830_000a, DATA - 4, DATA - 8), // da
        (0xe930_000a, DATA - 8, DATA - 8), // db
    ] {
        let mut bench = Bench::arm(&[word]).with(&[DATA]);
        bench.bus.put(start, 11);
        bench.bus.put(start + 4, 33);
        let bench = bench.run(1);
        assert_eq!(
            (bench.r(1), bench.r(3), bench.r(0)),
            (11, 33, after),
            "{word:08x}"
        );
        let stored = Bench::arm(&[word & !(1 << 20)])
            .with(&[DATA, 5, 6, 7])
            .run(1);
        assert_eq!(
            (stored.bus.word(start), stored.bus.word(start + 4)),
            (5, 7),
            "{word:08x}"
        );
        assert_eq!(stored.r(0), after);
    }
}

#[test]
fn multiple_transfers_and_their_base() {
    let bench = Bench::arm(&[0xe890_0003])
        .with(&[DATA])
        .data(&[1, 2])
        .run(1);
    assert_eq!((bench.r(0), bench.r(1)), (1, 2), "ldmia r0, {{r0, r1}}");
    let bench = Bench::arm(&[0xe8a0_0003]).with(&[DATA, 9]).run(1);
    assert_eq!(
        (bench.bus.word(DATA), bench.r(0)),
        (DATA, DATA + 8),
        "stmia r0!, {{r0, r1}}"
    );
    let bench = Bench::arm(&[0xe880_8000]).with(&[DATA]).run(1);
    assert_eq!(bench.bus.word(DATA), CODE + 8, "stmia r0, {{pc}}");
    let bench = Bench::arm(&[0xe8bd_8010]).data(&[4, 0x201]).run(1);
    assert_eq!(
        (bench.r(4), bench.r(15), bench.regs.t),
        (4, 0x200, true),
        "pop {{r4, pc}}"
    );
    assert_eq!((bench.r(13), bench.bus.stalled), (DATA + 8, 4));
}

#[test]
fn swaps() {
    let bench = Bench::arm(&[0xe101_0092])
        .with(&[0, DATA, 7])
        .data(&[0x1122_3344])
        .run(1);
    assert_eq!(
        (bench.r(0), bench.bus.word(DATA)),
        (0x1122_3344, 7),
        "swp r0, r2, [r1]"
    );
    let bench = Bench::arm(&[0xe141_0090])
        .with(&[0x99, DATA])
        .data(&[0x1122_3344])
        .run(1);
    assert_eq!(
        (bench.r(0), bench.bus.word(DATA)),
        (0x44, 0x1122_3399),
        "swpb r0, r0, [r1]"
    );
}

#[test]
fn misaligned_words_rotate_on_v5() {
    let load = |va| {
        Bench::arm(&[0xe591_0000])
            .with(&[0, va])
            .data(&[0x4433_2211])
    };
    assert_eq!(load(DATA + 1).run(1).r(0), 0x1144_3322);
    assert_eq!(load(DATA + 2).run(1).r(0), 0x2211_4433);
    assert_eq!(load(DATA + 3).run(1).r(0), 0x3322_1144);
    let bench = Bench::arm(&[0xe581_0000]).with(&[7, DATA + 3]).run(1);
    assert_eq!(bench.bus.word(DATA), 7, "a store ignores the low bits");
    let bench = Bench::arm(&[0xe891_0009])
        .with(&[0, DATA + 2])
        .data(&[5, 6])
        .run(1);
    assert_eq!((bench.r(0), bench.r(3)), (5, 6), "ldm ignores them, too");
    let bench = Bench::arm(&[0xe101_0092])
        .with(&[0, DATA + 1, 7])
        .data(&[0x4433_2211])
        .run(1);
    assert_eq!(
        (bench.r(0), bench.bus.word(DATA)),
        (0x1144_3322, 7),
        "swp does both"
    );
}

#[test]
fn misaligned_accesses_abort_where_checked() {
    for (word, access) in [
        (0xe591_0000, Access::Load),  // ldr
        (0xe581_0000, Access::Store), // str
        (0xe1d1_00b0, Access::Load),  // ldrh
        (0xe1c1_00b0, Access::Store), // strh
        (0xe1c1_40d0, Access::Load),  // ldrd
        (0xe1c1_40f0, Access::Store), // strd
        (0xe891_0009, Access::Load),  // ldm
        (0xe881_0009, Access::Store), // stm
        (0xe101_0092, Access::Load),  // swp
        (0xe591_f000, Access::Load),  // ldr pc
    ] {
        let exit = Bench::arm(&[word])
            .checked()
            .with(&[0, DATA + 1, 7])
            .fails();
        assert_eq!(
            exit,
            Exit::DataAbort(misaligned(DATA + 1, access)),
            "{word:08x}"
        );
    }
}

#[test]
fn a_doubleword_at_a_word_is_misaligned() {
    let exit = Bench::arm(&[0xe1c1_40d0])
        .checked()
        .with(&[0, DATA + 4])
        .fails();
    assert_eq!(exit, Exit::DataAbort(misaligned(DATA + 4, Access::Load)));
}

#[test]
fn an_abort_tells_the_address_that_failed() {
    let exit = Bench::arm(&[0xe8b1_0009]).with(&[0, END - 4]).fails();
    assert_eq!(
        exit,
        Exit::DataAbort(unmapped(END, Access::Load)),
        "second word of ldmia"
    );
}
