//! Thumb state: arithmetic on the low registers, all of which sets the flags.
//!
//! Source: ARM ARM (DDI 0100), "Thumb data-processing instructions"; the ARMv6 extend and reverse
//! instructions. MUL takes 4 cycles, as MULS does in ARM state (ARM9EJ-S TRM, DDI 0222).
//!
//! Absent on purpose: operations on r8 to r15, which are in the parent module.

use super::low;
use crate::cpu::Bus;
use crate::cpu::alu::{Shift, Shifted, Sum, add_carry, shift_by_immediate, shift_by_register};
use crate::cpu::core::{Core, bit};
use crate::cpu::exit::{Flow, Outcome, Stop};

fn set_logic<B: Bus>(core: &mut Core<'_, B>, rd: usize, value: u32) {
    core.regs.set_nz(value);
    core.regs.r[rd] = value;
}

fn set_sum<B: Bus>(core: &mut Core<'_, B>, rd: usize, sum: Sum) {
    core.regs.set_sum(sum);
    core.regs.r[rd] = sum.value;
}

fn set_shifted<B: Bus>(core: &mut Core<'_, B>, rd: usize, shifted: Shifted) {
    core.regs.set_carry(shifted.carry);
    set_logic(core, rd, shifted.value);
}

/// Sets the flags by `a - b`.
#[inline(always)]
pub(super) fn compare<B: Bus>(core: &mut Core<'_, B>, a: u32, b: u32) {
    core.regs.set_sum(add_carry(a, !b, true));
}

/// LSL, LSR and ASR by an immediate.
#[inline(always)]
pub(super) fn shift_immediate<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (value, kind) = (core.regs.r[low(h, 3)], Shift::from_bits(h >> 11));
    let shifted = shift_by_immediate(kind, h >> 6 & 31, value, core.regs.carry());
    set_shifted(core, low(h, 0), shifted);
    Ok(Flow::Next)
}

/// ADD and SUB of a register or a three-bit immediate.
#[inline(always)]
pub(super) fn add_subtract<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let a = core.regs.r[low(h, 3)];
    let b = if bit(h, 10) {
        h >> 6 & 7
    } else {
        core.regs.r[low(h, 6)]
    };
    let sum = if bit(h, 9) {
        add_carry(a, !b, true)
    } else {
        add_carry(a, b, false)
    };
    set_sum(core, low(h, 0), sum);
    Ok(Flow::Next)
}

/// MOV, CMP, ADD and SUB of an eight-bit immediate.
#[inline(always)]
pub(super) fn immediate<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (rd, b) = (low(h, 8), h & 0xff);
    let a = core.regs.r[rd];
    match h >> 11 & 3 {
        0 => set_logic(core, rd, b),
        1 => compare(core, a, b),
        2 => set_sum(core, rd, add_carry(a, b, false)),
        _ => set_sum(core, rd, add_carry(a, !b, true)),
    }
    Ok(Flow::Next)
}

/// The sixteen operations on two low registers.
pub(super) fn registers<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (rd, b) = (low(h, 0), core.regs.r[low(h, 3)]);
    let (a, carry) = (core.regs.r[rd], core.regs.carry());
    match h >> 6 & 15 {
        0 => set_logic(core, rd, a & b),
        1 => set_logic(core, rd, a ^ b),
        2 => shift(core, rd, Shift::Lsl, b),
        3 => shift(core, rd, Shift::Lsr, b),
        4 => shift(core, rd, Shift::Asr, b),
        5 => set_sum(core, rd, add_carry(a, b, carry)),
        6 => set_sum(core, rd, add_carry(a, !b, carry)),
        7 => shift(core, rd, Shift::Ror, b),
        8 => core.regs.set_nz(a & b),
        9 => set_sum(core, rd, add_carry(0, !b, true)),
        10 => compare(core, a, b),
        11 => core.regs.set_sum(add_carry(a, b, false)),
        12 => set_logic(core, rd, a | b),
        13 => multiply(core, rd, a.wrapping_mul(b)),
        14 => set_logic(core, rd, a & !b),
        _ => set_logic(core, rd, !b),
    }
    Ok(Flow::Next)
}

fn shift<B: Bus>(core: &mut Core<'_, B>, rd: usize, kind: Shift, amount: u32) {
    let shifted = shift_by_register(kind, amount, core.regs.r[rd], core.regs.carry());
    set_shifted(core, rd, shifted);
    core.bus.stall(1);
}

fn multiply<B: Bus>(core: &mut Core<'_, B>, rd: usize, product: u32) {
    set_logic(core, rd, product);
    core.bus.stall(3);
}

/// SXTH, SXTB, UXTH and UXTB; ARMv6, no flags.
pub(super) fn extend<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Flow {
    let value = core.regs.r[low(h, 3)];
    core.regs.r[low(h, 0)] = match h >> 6 & 3 {
        0 => value as i16 as u32,
        1 => value as i8 as u32,
        2 => value & 0xffff,
        _ => value & 0xff,
    };
    Flow::Next
}

/// REV, REV16 and REVSH; ARMv6, no flags.
pub(super) fn reverse<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let value = core.regs.r[low(h, 3)];
    core.regs.r[low(h, 0)] = match h >> 6 & 3 {
        0 => value.swap_bytes(),
        1 => value.swap_bytes().rotate_right(16),
        3 => (value as u16).swap_bytes() as i16 as u32,
        _ => return core.stop(Stop::Undefined),
    };
    Ok(Flow::Next)
}
