//! Forms that are reported as UNPREDICTABLE, and forms like them that are not.

use super::{Bench, DATA};
use crate::cpu::Exit;

fn reports(bench: Bench, word: u32, part: &str) {
    match bench.fails() {
        Exit::Unpredictable { word: told, why } if told == word => {
            assert!(why.contains(part), "{word:08x}: {why}");
        }
        exit => panic!("{word:08x}: {exit:?}"),
    }
}

#[test]
fn arm_forms() {
    for (word, part) in [
        (0xe1b0_f00e, "SPSR"),        // movs pc, lr
        (0xe150_f001, "SPSR"),        // cmpp r0, r1
        (0xe14f_0000, "SPSR"),        // mrs r0, spsr
        (0xe168_f000, "SPSR"),        // msr spsr_f, r0
        (0xe1a0_f110, "r15"),         // mov pc, r0, lsl r1
        (0xe1a0_011f, "r15"),         // mov r0, pc, lsl r1
        (0xe00f_0291, "r15"),         // mul pc, r1, r2
        (0xe083_3190, "two must"),    // umull r3, r3, r0, r1
        (0xe791_000f, "r15"),         // ldr r0, [r1, pc]
        (0xe5d1_f000, "r15"),         // ldrb pc, [r1]
        (0xe5c1_f000, "r15"),         // strb pc, [r1]
        (0xe5b1_1004, "back"),        // ldr r1, [r1, #4]!
        (0xe481_1004, "back"),        // str r1, [r1], #4
        (0xe5bf_0004, "back"),        // ldr r0, [pc, #4]!
        (0xe7b1_0001, "offset"),      // ldr r0, [r1, r1]!
        (0xe1c1_e0d0, "r15"),         // ldrd lr, [r1]
        (0xe1e4_40d8, "back"),        // ldrd r4, [r4, #8]!
        (0xe181_00d0, "two must"),    // ldrd r0, [r1, r0]
        (0xe0f1_00b2, "meaning"),     // ldrh r0, [r1], #2 with W
        (0xe8d1_0009, "user bank"),   // ldm r1, {r0, r3}^
        (0xe891_0000, "no register"), // ldm r1, {}
        (0xe89f_0001, "r15"),         // ldm pc, {r0}
        (0xe8b1_0003, "back"),        // ldm r1!, {r0, r1}
        (0xe8a1_0003, "back"),        // stm r1!, {r0, r1}
        (0xe101_0091, "two must"),    // swp r0, r1, [r1]
        (0x0120_0070, "meaning"),     // bkpteq
        (0xe12f_ff3f, "r15"),         // blx pc
    ] {
        let bench = Bench::arm(&[word])
            .with(&[0, DATA, 4, 4, DATA])
            .with_r(14, 0x200)
            .flags(4);
        reports(bench, word, part);
    }
}

#[test]
fn targets_aligned_for_neither_state() {
    for word in [
        0xe1a0_f000,
        0xe12f_ff10,
        0xe12f_ff30,
        0xe591_f000,
        0xe891_8000,
    ] {
        let bench = Bench::arm(&[word]).with(&[0x202, DATA]).data(&[0x202]);
        reports(bench, word, "neither");
    }
    let bench = Bench::arm(&[0xe1a0_f000]).with(&[0x201]);
    reports(bench, 0xe1a0_f000, "neither");
    let bench = Bench::arm(&[0xe591_f000]).with(&[0, DATA + 1]);
    reports(bench, 0xe591_f000, "neither");
}

#[test]
fn misaligned_halfwords_and_doublewords() {
    for word in [
        0xe1d1_00b0,
        0xe1c1_00b0,
        0xe1d1_00f0,
        0xe1c1_40d0,
        0xe1c1_40f0,
    ] {
        reports(Bench::arm(&[word]).with(&[0, DATA + 1]), word, "misaligned");
    }
    reports(
        Bench::thumb(&[0x8808]).with(&[0, DATA + 1]),
        0x8808,
        "misaligned",
    );
}

#[test]
fn thumb_forms() {
    for (half, part) in [
        (0xb400u16, "no register"), // push {}
        (0xbc00, "no register"),    // pop {}
        (0xc800, "no register"),    // ldmia r0!, {}
        (0xc103, "back"),           // stmia r1!, {r0, r1}
        (0x47f8, "r15"),            // blx pc
        (0x4587, "r15"),            // cmp pc, r0
        (0x4408, "meaning"),        // add r0, r1 as a high-register form
        (0x4608, "meaning"),        // mov r0, r1 as a high-register form, before ARMv6
    ] {
        reports(Bench::thumb(&[half]).with(&[DATA, DATA]), half.into(), part);
    }
    let bench = Bench::thumb(&[0x46c0, 0x4778]).run(1);
    reports(bench, 0x4778, "neither");
}

#[test]
fn exclusives() {
    for (word, part) in [
        (0xe191_ff9f, "r15"),      // ldrex pc, [r1]
        (0xe1b1_3f9f, "r15"),      // ldrexd r3, [r1]
        (0xe181_1f90, "two must"), // strex r1, r0, [r1]
        (0xe1a1_3f92, "two must"), // strexd r3, r2, [r1]
    ] {
        reports(Bench::arm(&[word]).v6().with(&[0, DATA]), word, part);
    }
}

#[test]
fn forms_that_are_fine() {
    for word in [
        0xe001_0291,             // mul r1, r1, r2: once thought UNPREDICTABLE
        0xe591_1000,             // ldr r1, [r1]
        0xe581_f000,             // str pc, [r1]
        0xe791_0001 & !0xf,      // ldr r0, [r1, r0]
        0xe13f_0000 | 0x10_0000, // teq pc, r0
    ] {
        Bench::arm(&[word]).with(&[0, DATA, 3]).run(1);
    }
}
