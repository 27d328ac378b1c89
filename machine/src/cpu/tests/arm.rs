//! ARM state: one instruction of each class, with the quirks of r15, and what they cost.

use super::{Bench, CODE, DATA};
use crate::cpu::Exit;

#[test]
fn r15_reads_as_eight_ahead() {
    assert_eq!(
        Bench::arm(&[0xe1a0_000f]).run(1).r(0),
        CODE + 8,
        "mov r0, pc"
    );
    assert_eq!(
        Bench::arm(&[0xe28f_0004]).run(1).r(0),
        CODE + 12,
        "add r0, pc, #4"
    );
}

#[test]
fn data_processing_to_r15_branches_in_arm_state() {
    let bench = Bench::arm(&[0xe1a0_f000]).with(&[0x200]).run(1);
    assert_eq!(
        (bench.r(15), bench.regs.t, bench.bus.stalled),
        (0x200, false, 2),
        "mov pc, r0"
    );
    let bench = Bench::arm(&[0xe08f_f100]).with(&[3]).run(1);
    assert_eq!(bench.r(15), CODE + 8 + 12, "add pc, pc, r0, lsl #2");
}

#[test]
fn branches_link_and_exchange() {
    let bench = Bench::arm(&[0xeaff_fffe]).run(1);
    assert_eq!((bench.r(15), bench.bus.stalled), (CODE, 2), "b .");
    let bench = Bench::arm(&[0xeb00_0001]).run(1);
    assert_eq!((bench.r(15), bench.r(14)), (CODE + 12, CODE + 4), "bl .+12");
    let bench = Bench::arm(&[0xfb00_0001]).run(1);
    assert_eq!(
        (bench.r(15), bench.r(14), bench.regs.t),
        (CODE + 14, CODE + 4, true),
        "blx .+14"
    );
    let bench = Bench::arm(&[0xfa00_0001]).run(1);
    assert_eq!((bench.r(15), bench.regs.t), (CODE + 12, true), "blx .+12");
    let bench = Bench::arm(&[0xe12f_ff13]).with_r(3, 0x201).run(1);
    assert_eq!((bench.r(15), bench.regs.t), (0x200, true), "bx r3");
    let bench = Bench::arm(&[0xe12f_ff3e]).with_r(14, 0x200).run(1);
    assert_eq!(
        (bench.r(15), bench.r(14)),
        (0x200, CODE + 4),
        "blx lr reads before it links"
    );
}

#[test]
fn a_switch_of_state_continues_in_the_other() {
    // add r0, pc, #1; bx r0; then in Thumb state: mov r1, #7; bx pc (aligned); nop; mov r2, #9.
    let bench = Bench::arm(&[0xe28f_0001, 0xe12f_ff10, 0x4778_2107, 0xe3a0_2009]).with(&[0]);
    let bench = bench.run(3);
    assert_eq!(
        (bench.r(1), bench.regs.t, bench.r(15)),
        (7, true, CODE + 10)
    );
}

#[test]
fn multiplies() {
    let bench = Bench::arm(&[0xe000_0291]).with(&[0, 7, 6]).run(1);
    assert_eq!((bench.r(0), bench.bus.stalled), (42, 1), "mul r0, r1, r2");
    let bench = Bench::arm(&[0xe031_0291]).with(&[0, 0, 6]).flags(3).run(1);
    assert_eq!(
        (bench.r(1), bench.nzcv(), bench.bus.stalled),
        (0, 0b0111, 3),
        "muls keeps C, V"
    );
    let bench = Bench::arm(&[0xe020_3291]).with(&[0, 7, 6, 1]).run(1);
    assert_eq!(bench.r(0), 43, "mla r0, r1, r2, r3");
    let bench = Bench::arm(&[0xe083_2190]).with(&[1, 1]).run(1);
    assert_eq!(bench.bus.stalled, 2, "umull");
    let bench = Bench::arm(&[0xe093_2190]).with(&[1, 1]).run(1);
    assert_eq!(bench.bus.stalled, 4, "umulls");
}

#[test]
fn dsp_multiplies() {
    let bench = Bench::arm(&[0xe120_02a1])
        .with(&[0, 0x8000_0000, 0x4000])
        .run(1);
    assert_eq!(
        bench.r(0),
        0xe000_0000,
        "smulwb r0, r1, r2: (-2^31 * 2^14) >> 16"
    );
    let bench = Bench::arm(&[0xe120_3281])
        .with(&[0, 0x7fff_ffff, 0x7fff, i32::MAX as u32])
        .run(1);
    assert!(bench.regs.q, "smlawb overflows its accumulator");
    let bench = Bench::arm(&[0xe141_0382]).with(&[u32::MAX, 0, 1, 1]).run(1);
    assert_eq!(
        (bench.r(0), bench.r(1), bench.bus.stalled),
        (0, 1, 1),
        "smlalbb carries"
    );
}

#[test]
fn status_register_moves_see_only_the_flags() {
    let bench = Bench::arm(&[0xe128_f000, 0xe10f_1000])
        .with(&[0xffff_ffff])
        .run(2);
    assert_eq!(bench.r(1), 0xf800_0010, "msr cpsr_f, r0; mrs r1, cpsr");
    let bench = Bench::arm(&[0xe127_f000]).with(&[0xffff_ffff]).run(1);
    assert_eq!(
        bench.regs.cpsr(),
        0x10,
        "msr cpsr_cxs does nothing in user mode"
    );
    let bench = Bench::arm(&[0xe328_f202]).run(1);
    assert_eq!(bench.nzcv(), 2, "msr cpsr_f, #0x20000000");
}

#[test]
fn shift_by_register_costs_a_cycle() {
    let bench = Bench::arm(&[0xe1a0_0211]).with(&[0, 3, 4]).run(1);
    assert_eq!(
        (bench.r(0), bench.bus.stalled),
        (48, 1),
        "mov r0, r1, lsl r2"
    );
}

#[test]
fn scaled_offsets_and_loads_of_r15_cost_cycles() {
    let bench = Bench::arm(&[0xe791_0102]).with(&[0, DATA, 1]).run(1);
    assert_eq!(bench.bus.stalled, 1, "ldr r0, [r1, r2, lsl #2]");
    let bench = Bench::arm(&[0xe791_0002]).with(&[0, DATA, 4]).run(1);
    assert_eq!(bench.bus.stalled, 0, "ldr r0, [r1, r2]");
    let bench = Bench::arm(&[0xe591_f000])
        .with(&[0, DATA])
        .data(&[0x200])
        .run(1);
    assert_eq!((bench.r(15), bench.bus.stalled), (0x200, 4), "ldr pc, [r1]");
}

#[test]
fn barriers_reach_the_bus() {
    let bench = Bench::arm(&[0xee07_0f95, 0xee07_0f9a]).run(2);
    assert_eq!(bench.bus.barriers, [true, false]);
}

#[test]
fn pld_and_hints_do_nothing() {
    let words = [0xf5d1_f000, 0xf7d1_f002, 0xe320_f000];
    let bench = Bench::arm(&words).with(&[0, 0xffff_ff00, 4]).run(3);
    assert_eq!(bench.r(15), CODE + 12);
}

#[test]
fn what_needs_the_kernel_is_an_exit() {
    assert_eq!(Bench::arm(&[0xe120_0070]).fails(), Exit::Breakpoint);
    for word in [
        0xe7f0_00f0, // udf
        0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0
        0xed91_0b00, // vldr d0, [r1]
        0xe630_0f12, // sadd16: ARMv6
        0xe6ff_0071, // uxth: ARMv6
        0xe191_0f9f, // ldrex: ARMv6
        0xf57f_f01f, // clrex: ARMv6K
        0xe1c1_10d0, // ldrd with an odd register
        0xe300_0000, // movw: ARMv6T2
        0xf100_0000, // cps
        0xf891_0a00, // rfe
    ] {
        assert_eq!(Bench::arm(&[word]).fails(), Exit::Undefined { word });
    }
}
