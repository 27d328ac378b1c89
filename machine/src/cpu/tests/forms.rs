//! One word for every form that accesses memory, with registers that let it retire.

use super::{Bench, DATA};

/// ARM words for ARMv5TE; r1 is the base, r2 the offset, r4 and on the data.
const ARM: &[u32] = &[
    0xe591_4004, // ldr r4, [r1, #4]
    0xe5b1_4004, // ldr r4, [r1, #4]!
    0xe411_4004, // ldr r4, [r1], #-4
    0xe791_4102, // ldr r4, [r1, r2, lsl #2]
    0xe691_4002, // ldr r4, [r1], r2
    0xe591_f010, // ldr pc, [r1, #16]
    0xe5b1_f010, // ldr pc, [r1, #16]!
    0xe5d1_4001, // ldrb
    0xe5f1_4001, // ldrb, written back
    0xe581_4004, // str
    0xe5a1_4004, // str, written back
    0xe6a1_4002, // strt r4, [r1], r2
    0xe5c1_4001, // strb
    0xe1d1_40b2, // ldrh
    0xe1f1_40b2, // ldrh, written back
    0xe1d1_40d1, // ldrsb
    0xe0d1_40f2, // ldrsh r4, [r1], #2
    0xe1c1_40b2, // strh
    0xe1a1_40b2, // strh r4, [r1, r2]!
    0xe1c1_40d8, // ldrd
    0xe1e1_40d8, // ldrd, written back
    0xe1c1_40f8, // strd
    0xe0c1_40f8, // strd r4, [r1], #8
    0xe8b1_00f0, // ldmia r1!, {r4-r7}
    0xe991_00f0, // ldmib r1, {r4-r7}
    0xe831_00f0, // ldmda r1!, {r4-r7}
    0xe931_00f0, // ldmdb r1!, {r4-r7}
    0xe891_0012, // ldmia r1, {r1, r4}
    0xe8b1_8070, // ldmia r1!, {r4-r6, pc}
    0xe8a1_00f0, // stmia r1!, {r4-r7}
    0xe8a1_00f2, // stmia r1!, {r1, r4-r7}
    0xe901_80f0, // stmdb r1, {r4-r7, pc}
    0xe101_4095, // swp r4, r5, [r1]
    0xe141_4094, // swpb r4, r4, [r1]
];

/// ARM words for ARMv6K.
const V6: &[u32] = &[
    0xe191_4f9f, // ldrex
    0xe1b1_4f9f, // ldrexd
    0xe1d1_4f9f, // ldrexb
    0xe1f1_4f9f, // ldrexh
    0xe181_4f95, // strex r4, r5, [r1]
    0xe1a1_4f96, // strexd r4, r6, [r1]
    0xe1c1_4f95, // strexb
    0xe1e1_4f95, // strexh
];

/// Thumb halfwords.
const THUMB: &[u16] = &[
    0x4c02, // ldr r4, [pc, #8]
    0x588c, // ldr r4, [r1, r2]
    0x508c, // str r4, [r1, r2]
    0x528c, // strh
    0x548c, // strb
    0x568c, // ldrsb
    0x5a8c, // ldrh
    0x5c8c, // ldrb
    0x5e8c, // ldrsh
    0x684c, // ldr r4, [r1, #4]
    0x604c, // str
    0x784c, // ldrb
    0x704c, // strb
    0x884c, // ldrh
    0x804c, // strh
    0x9c01, // ldr r4, [sp, #4]
    0x9401, // str
    0xb4f0, // push {r4-r7}
    0xb530, // push {r4, r5, lr}
    0xbcf0, // pop {r4-r7}
    0xbd70, // pop {r4-r6, pc}
    0xc9f0, // ldmia r1!, {r4-r7}
    0xc992, // ldmia r1!, {r1, r4, r7}
    0xc1f0, // stmia r1!, {r4-r7}
    0x5889, // ldr r1, [r1, r2]
];

/// Every form, ready to execute once.
pub(super) fn all() -> Vec<Bench> {
    let data: Vec<u32> = (0..16).map(|i| 0x200 + 4 * i).collect();
    let ready = |bench: Bench| {
        let bench = bench
            .with(&[0, DATA, 4, 3, 44, 55, 66, 77])
            .with_r(14, 0x200);
        bench.data(&data).flags(0b0110)
    };
    let arm = ARM.iter().map(|&word| ready(Bench::arm(&[word])));
    let v6 = V6.iter().map(|&word| {
        let mut bench = ready(Bench::arm(&[word]).v6());
        bench.regs.tag(DATA);
        bench
    });
    let thumb = THUMB.iter().map(|&half| ready(Bench::thumb(&[half])));
    arm.chain(v6).chain(thumb).collect()
}
