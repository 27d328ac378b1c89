//! ARM state: the 32-bit and 64-bit multiplies, and the 16-bit ones of the E extension.
//!
//! Source: ARM ARM (DDI 0100), "Multiply instructions" and "Enhanced DSP instructions". From ARMv5
//! on the S forms leave C and V alone. Rd may equal Rm: the manual withdrew that restriction for
//! all implementations. Stalls: ARM9EJ-S TRM (DDI 0222), "Instruction cycle count summary"; UMAAL:
//! ARM1176JZF-S TRM (DDI 0301), "Multiplies".
//!
//! Absent on purpose: early termination, which the ARM9EJ-S does not have; the ARMv6 SIMD and
//! most-significant-word multiplies.

use crate::cpu::Bus;
use crate::cpu::alu::{saturate, signed_half};
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stop, Why};
use crate::cpu::regs::Arch;

/// MUL, MLA, UMAAL (ARMv6), UMULL, UMLAL, SMULL and SMLAL.
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    match w >> 21 & 7 {
        0 | 1 => short(core, w),
        2 if core.arch == Arch::V6k && !bit(w, 20) => long(core, w),
        4..=7 => long(core, w),
        _ => core.stop(Stop::Undefined),
    }
}

/// MUL and MLA: 2 cycles, and with flags 4.
fn short<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rd, rn, rs, rm) = (field(w, 16), field(w, 12), field(w, 8), field(w, 0));
    let accumulates = bit(w, 21);
    if rd == 15 || rs == 15 || rm == 15 || (accumulates && rn == 15) {
        return core.refuse(Why::PcOperand);
    }
    let r = &mut core.regs.r;
    let addend = if accumulates { r[rn] } else { 0 };
    r[rd] = r[rm].wrapping_mul(r[rs]).wrapping_add(addend);
    let value = r[rd];
    if bit(w, 20) {
        core.regs.set_nz(value);
    }
    core.bus.stall(if bit(w, 20) { 3 } else { 1 });
    Ok(Flow::Next)
}

/// The 64-bit multiplies: 3 cycles, and with flags 5.
fn long<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (high, low, rs, rm) = (field(w, 16), field(w, 12), field(w, 8), field(w, 0));
    if high == 15 || low == 15 || rs == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    if high == low {
        return core.refuse(Why::Overlap);
    }
    let r = &mut core.regs.r;
    let value = long_value(w >> 21 & 7, r[rm], r[rs], r[high], r[low]);
    (r[high], r[low]) = ((value >> 32) as u32, value as u32);
    if bit(w, 20) {
        core.regs.set_nz_long(value);
    }
    core.bus.stall(if bit(w, 20) { 4 } else { 2 });
    Ok(Flow::Next)
}

fn long_value(opcode: u32, a: u32, b: u32, high: u32, low: u32) -> u64 {
    let unsigned = u64::from(a).wrapping_mul(u64::from(b));
    let signed = i64::from(a as i32).wrapping_mul(i64::from(b as i32)) as u64;
    let accumulator = u64::from(high) << 32 | u64::from(low);
    match opcode {
        2 => unsigned
            .wrapping_add(u64::from(high))
            .wrapping_add(u64::from(low)),
        4 => unsigned,
        5 => unsigned.wrapping_add(accumulator),
        6 => signed,
        _ => signed.wrapping_add(accumulator),
    }
}

/// SMLAxy, SMLAWy, SMULWy, SMLALxy and SMULxy: one cycle, SMLALxy two.
pub(super) fn halves<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rd, rn, rs, rm) = (field(w, 16), field(w, 12), field(w, 8), field(w, 0));
    let (x, y) = (bit(w, 5), bit(w, 6));
    let opcode = w >> 21 & 3;
    let reads_rn = opcode == 0 || opcode == 2 || (opcode == 1 && !x);
    if rd == 15 || rs == 15 || rm == 15 || (reads_rn && rn == 15) {
        return core.refuse(Why::PcOperand);
    }
    let (a, b) = (core.regs.r[rm], signed_half(core.regs.r[rs], y));
    let product = signed_half(a, x) * b;
    let wide = (i64::from(a as i32) * b) >> 16;
    match opcode {
        0 => accumulate(core, rd, product, rn),
        1 if x => core.regs.r[rd] = wide as u32,
        1 => accumulate(core, rd, wide, rn),
        2 => return accumulate_long(core, rd, rn, product),
        _ => core.regs.r[rd] = product as u32,
    }
    Ok(Flow::Next)
}

/// `rd = rn + product`, wrapping; Q tells of the overflow.
fn accumulate<B: Bus>(core: &mut Core<'_, B>, rd: usize, product: i64, rn: usize) {
    let sum = i64::from(core.regs.r[rn] as i32) + product;
    core.regs.q |= saturate(sum).1;
    core.regs.r[rd] = sum as u32;
}

fn accumulate_long<B: Bus>(
    core: &mut Core<'_, B>,
    high: usize,
    low: usize,
    product: i64,
) -> Outcome {
    if high == low {
        return core.refuse(Why::Overlap);
    }
    let r = &mut core.regs.r;
    let sum = (u64::from(r[high]) << 32 | u64::from(r[low])).wrapping_add(product as u64);
    (r[high], r[low]) = ((sum >> 32) as u32, sum as u32);
    core.bus.stall(1);
    Ok(Flow::Next)
}

/// QADD, QSUB, QDADD and QDSUB.
pub(super) fn saturating<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, rm) = (field(w, 16), field(w, 12), field(w, 0));
    if rn == 15 || rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    let a = i64::from(core.regs.r[rm] as i32);
    let b = i64::from(core.regs.r[rn] as i32);
    let (b, first) = if bit(w, 22) {
        saturate(2 * b)
    } else {
        (b as u32, false)
    };
    let b = i64::from(b as i32);
    let (value, second) = saturate(if bit(w, 21) { a - b } else { a + b });
    core.regs.q |= first | second;
    core.regs.r[rd] = value;
    Ok(Flow::Next)
}
