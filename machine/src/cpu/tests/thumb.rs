//! Thumb state: one instruction of each class.

use super::{Bench, CODE, DATA};
use crate::cpu::Exit;

#[test]
fn shifts_and_immediates() {
    let bench = Bench::thumb(&[0x0048, 0x0848, 0x1048]).with(&[0, 0x8000_0001]);
    assert_eq!(bench.clone().run(1).r(0), 2, "lsl r0, r1, #1");
    assert_eq!(bench.clone().run(2).r(0), 0x4000_0000, "lsr r0, r1, #1");
    assert_eq!(bench.clone().run(3).r(0), 0xc000_0000, "asr r0, r1, #1");
    assert_eq!(bench.run(3).nzcv(), 0b1010, "carry is the bit shifted out");
    let bench = Bench::thumb(&[0x20ff, 0x3001, 0x3802, 0x28fe]).run(4);
    assert_eq!(
        (bench.r(0), bench.nzcv()),
        (0xfe, 0b0110),
        "mov, add, sub, cmp"
    );
    let bench = Bench::thumb(&[0x1888, 0x1a8b, 0x1dcc, 0x1e4d])
        .with(&[0, 7, 5])
        .run(4);
    assert_eq!(
        bench.regs.r[..6],
        [12, 7, 5, 2, 14, 6],
        "three-operand add and sub"
    );
}

#[test]
fn register_operations() {
    for (half, expected) in [
        (0x4008, 0x10),        // and
        (0x4048, 0xe6),        // eor
        (0x4308, 0xf6),        // orr
        (0x4388, 0x64),        // bic
        (0x43c8, 0xffff_ff6d), // mvn
        (0x4348, 0x4228),      // mul
        (0x4248, 0xffff_ff6e), // neg
    ] {
        assert_eq!(
            Bench::thumb(&[half]).with(&[0x74, 0x92]).run(1).r(0),
            expected,
            "{half:04x}"
        );
    }
    let bench = Bench::thumb(&[0x4348]).with(&[3, 4]).run(1);
    assert_eq!(
        (bench.r(0), bench.bus.stalled),
        (12, 3),
        "mul takes four cycles"
    );
    let bench = Bench::thumb(&[0x4088]).with(&[1, 33]).run(1);
    assert_eq!(
        (bench.r(0), bench.nzcv(), bench.bus.stalled),
        (0, 0b0100, 1),
        "lsl r0, r1"
    );
}

#[test]
fn high_registers_set_no_flags_but_compare() {
    let bench = Bench::thumb(&[0x4480, 0x4641, 0x4580])
        .with(&[5])
        .with_r(8, 6)
        .run(3);
    assert_eq!(
        (bench.r(8), bench.r(1), bench.nzcv()),
        (11, 11, 0b0010),
        "add, mov, cmp"
    );
    let bench = Bench::thumb(&[0x4487]).with(&[0x21]).run(1);
    assert_eq!(
        (bench.r(15), bench.regs.t),
        (CODE + 4 + 0x20, true),
        "add pc, r0"
    );
    let bench = Bench::thumb(&[0x4678]).run(1);
    assert_eq!(bench.r(0), CODE + 4, "mov r0, pc");
}

#[test]
fn branches() {
    let bench = Bench::thumb(&[0xd0fe]).flags(4).run(1);
    assert_eq!((bench.r(15), bench.bus.stalled), (CODE, 2), "beq .");
    let bench = Bench::thumb(&[0xd0fe]).run(1);
    assert_eq!(
        (bench.r(15), bench.bus.stalled),
        (CODE + 2, 0),
        "beq not taken"
    );
    assert_eq!(Bench::thumb(&[0xe7fe]).run(1).r(15), CODE, "b .");
    let bench = Bench::thumb(&[0xf7ff, 0xfffe]).run(2);
    assert_eq!((bench.r(15), bench.r(14)), (CODE, CODE + 5), "bl .");
    let bench = Bench::thumb(&[0xf000, 0xe804]).run(2);
    assert_eq!(
        (bench.r(15), bench.r(14), bench.regs.t),
        (CODE + 12, CODE + 5, false),
        "blx"
    );
    let bench = Bench::thumb(&[0x4718]).with_r(3, 0x200).run(1);
    assert_eq!((bench.r(15), bench.regs.t), (0x200, false), "bx r3");
    let bench = Bench::thumb(&[0x47f0]).with_r(14, 0x201).run(1);
    assert_eq!((bench.r(15), bench.r(14)), (0x200, CODE + 3), "blx lr");
}

#[test]
fn transfers() {
    let bench = |half| {
        Bench::thumb(&[half])
            .with(&[0, DATA, 2])
            .data(&[0x80ff_8180, 0x1234_5678])
    };
    for (half, expected) in [
        (0x6848, 0x1234_5678), // ldr r0, [r1, #4]
        (0x7848, 0x81),        // ldrb r0, [r1, #1]
        (0x8848, 0x80ff),      // ldrh r0, [r1, #2]
        (0x5688, 0xffff_ffff), // ldrsb r0, [r1, r2]
        (0x5a88, 0x80ff),      // ldrh r0, [r1, r2]
        (0x5c88, 0xff),        // ldrb r0, [r1, r2]
        (0x5e88, 0xffff_80ff), // ldrsh r0, [r1, r2]
        (0x9801, 0x1234_5678), // ldr r0, [sp, #4]
    ] {
        assert_eq!(bench(half).run(1).r(0), expected, "{half:04x}");
    }
    assert_eq!(
        bench(0x5888).with_r(2, 4).run(1).r(0),
        0x1234_5678,
        "ldr r0, [r1, r2]"
    );
    for (half, expected) in [
        (0x6048, [0x80ff_8180, 0xaabb_ccdd]), // str r0, [r1, #4]
        (0x7048, [0x80ff_dd80, 0x1234_5678]), // strb r0, [r1, #1]
        (0x8048, [0xccdd_8180, 0x1234_5678]), // strh r0, [r1, #2]
        (0x5288, [0xccdd_8180, 0x1234_5678]), // strh r0, [r1, r2]
        (0x5488, [0x80dd_8180, 0x1234_5678]), // strb r0, [r1, r2]
        (0x9001, [0x80ff_8180, 0xaabb_ccdd]), // str r0, [sp, #4]
    ] {
        let bus = bench(half).with(&[0xaabb_ccdd]).run(1).bus;
        assert_eq!([bus.word(DATA), bus.word(DATA + 4)], expected, "{half:04x}");
    }
    let bench = Bench::thumb(&[0x46c0, 0x4801, 0x0000, 0x0000, 0x5678, 0x1234]).run(2);
    assert_eq!(bench.r(0), 0x1234_5678, "ldr r0, [pc, #4] rounds pc down");
}

#[test]
fn stacks_and_multiples() {
    let bench = Bench::thumb(&[0xb502, 0xb082, 0xb002, 0xbd04])
        .with(&[0, 7, 8])
        .with_r(14, 0x201);
    let pushed = bench.clone().run(1);
    assert_eq!(
        (pushed.r(13), pushed.bus.word(DATA - 8)),
        (DATA - 8, 7),
        "push {{r1, lr}}"
    );
    assert_eq!(bench.clone().run(2).r(13), DATA - 16, "sub sp, #8");
    let popped = bench.run(4);
    assert_eq!(
        (popped.r(2), popped.r(15), popped.r(13)),
        (7, 0x200, DATA),
        "pop {{r2, pc}}"
    );
    let bench = Bench::thumb(&[0xc806]).with(&[DATA]).data(&[1, 2]).run(1);
    assert_eq!(bench.regs.r[..3], [DATA + 8, 1, 2], "ldmia r0!, {{r1, r2}}");
    let bench = Bench::thumb(&[0xc803]).with(&[DATA]).data(&[1, 2]).run(1);
    assert_eq!(
        bench.regs.r[..2],
        [1, 2],
        "ldmia r0!, {{r0, r1}} writes nothing back"
    );
    let bench = Bench::thumb(&[0xc006]).with(&[DATA, 5, 6]).run(1);
    assert_eq!(
        (bench.bus.word(DATA + 4), bench.r(0)),
        (6, DATA + 8),
        "stmia r0!, {{r1, r2}}"
    );
}

#[test]
fn addresses() {
    assert_eq!(
        Bench::thumb(&[0x46c0, 0xa001]).run(2).r(0),
        CODE + 8,
        "add r0, pc, #4"
    );
    assert_eq!(
        Bench::thumb(&[0xa801]).run(1).r(0),
        DATA + 4,
        "add r0, sp, #4"
    );
}

#[test]
fn what_needs_the_kernel_is_an_exit() {
    let mut bench = Bench::thumb(&[0xdf07]);
    let exit = crate::cpu::step(&mut bench.regs, bench.arch, &mut bench.bus);
    assert_eq!(
        (exit, bench.r(15)),
        (Some(Exit::Svc { comment: 7 }), CODE + 2)
    );
    assert_eq!(Bench::thumb(&[0xbe00]).fails(), Exit::Breakpoint);
    for half in [0xde00u16, 0xe801, 0xb200, 0xba00, 0xb650, 0xb100, 0xbf00] {
        let word = u32::from(half);
        assert_eq!(
            Bench::thumb(&[half]).fails(),
            Exit::Undefined { word },
            "{half:04x}"
        );
    }
}
