//! ARM state: the sixteen data-processing operations with their three forms of second operand.
//!
//! Source: ARM ARM (DDI 0100), "Data-processing instructions" and "Addressing Mode 1".
//!
//! Absent on purpose: the S form with r15 as destination, which restores an SPSR that user mode
//! does not have, and the 26-bit P forms of the compares; both are reported as UNPREDICTABLE.

use super::multiply_or_extra;
use crate::cpu::Bus;
use crate::cpu::alu::{self, Shift, Shifted, Sum, add_carry};
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Why};

/// The operations, by bits 24 to 21; MVN is what remains.
pub(super) mod opcode {
    pub(in crate::cpu::arm) const AND: u32 = 0;
    pub(in crate::cpu::arm) const EOR: u32 = 1;
    pub(in crate::cpu::arm) const SUB: u32 = 2;
    pub(in crate::cpu::arm) const RSB: u32 = 3;
    pub(in crate::cpu::arm) const ADD: u32 = 4;
    pub(in crate::cpu::arm) const ADC: u32 = 5;
    pub(in crate::cpu::arm) const SBC: u32 = 6;
    pub(in crate::cpu::arm) const RSC: u32 = 7;
    pub(in crate::cpu::arm) const TST: u32 = 8;
    pub(in crate::cpu::arm) const TEQ: u32 = 9;
    pub(in crate::cpu::arm) const CMP: u32 = 10;
    pub(in crate::cpu::arm) const CMN: u32 = 11;
    pub(in crate::cpu::arm) const ORR: u32 = 12;
    pub(in crate::cpu::arm) const MOV: u32 = 13;
    pub(in crate::cpu::arm) const BIC: u32 = 14;
    pub(in crate::cpu::arm) const MVN: u32 = 15;
}

/// `op rd, rn, #immediate`.
#[inline(always)]
pub(super) fn immediate<B: Bus, const OPCODE: u32>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let second = alu::rotated_immediate(w, core.regs.carry());
    operate::<B, OPCODE>(core, w, second)
}

/// The register forms, and in the same space, with bits 7 and 4 set, something else.
#[inline(always)]
pub(super) fn registers<B: Bus, const OPCODE: u32>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if !bit(w, 4) {
        return shifted_by_immediate::<B, OPCODE>(core, w);
    }
    if bit(w, 7) {
        return multiply_or_extra(core, w);
    }
    shifted_by_register::<B, OPCODE>(core, w)
}

/// `op rd, rn, rm, shift #immediate`.
#[inline(always)]
fn shifted_by_immediate<B: Bus, const OPCODE: u32>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let value = core.regs.r[field(w, 0)];
    let kind = Shift::from_bits(w >> 5);
    let second = alu::shift_by_immediate(kind, w >> 7 & 31, value, core.regs.carry());
    operate::<B, OPCODE>(core, w, second)
}

/// `op rd, rn, rm, shift rs`, which takes one cycle more and knows no r15.
fn shifted_by_register<B: Bus, const OPCODE: u32>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, rs, rm) = (field(w, 16), field(w, 12), field(w, 8), field(w, 0));
    if rn == 15 || rd == 15 || rs == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    let (kind, amount) = (Shift::from_bits(w >> 5), core.regs.r[rs]);
    let second = alu::shift_by_register(kind, amount, core.regs.r[rm], core.regs.carry());
    core.bus.stall(1);
    operate::<B, OPCODE>(core, w, second)
}

/// Compiled once for each operation.
#[inline(always)]
fn operate<B: Bus, const OPCODE: u32>(core: &mut Core<'_, B>, w: u32, second: Shifted) -> Outcome {
    let (a, b, carry) = (core.regs.r[field(w, 16)], second.value, core.regs.carry());
    match OPCODE {
        opcode::AND => logic(core, w, a & b, second.carry),
        opcode::EOR => logic(core, w, a ^ b, second.carry),
        opcode::SUB => arithmetic(core, w, add_carry(a, !b, true)),
        opcode::RSB => arithmetic(core, w, add_carry(b, !a, true)),
        opcode::ADD => arithmetic(core, w, add_carry(a, b, false)),
        opcode::ADC => arithmetic(core, w, add_carry(a, b, carry)),
        opcode::SBC => arithmetic(core, w, add_carry(a, !b, carry)),
        opcode::RSC => arithmetic(core, w, add_carry(b, !a, carry)),
        opcode::TST => test(core, w, a & b, second.carry),
        opcode::TEQ => test(core, w, a ^ b, second.carry),
        opcode::CMP => compare(core, w, add_carry(a, !b, true)),
        opcode::CMN => compare(core, w, add_carry(a, b, false)),
        opcode::ORR => logic(core, w, a | b, second.carry),
        opcode::MOV => logic(core, w, b, second.carry),
        opcode::BIC => logic(core, w, a & !b, second.carry),
        _ => logic(core, w, !b, second.carry),
    }
}

/// AND, EOR, ORR, MOV, BIC and MVN: V stays.
#[inline(always)]
fn logic<B: Bus>(core: &mut Core<'_, B>, w: u32, value: u32, carry: bool) -> Outcome {
    arithmetic(
        core,
        w,
        Sum {
            value,
            carry,
            overflow: core.regs.overflow(),
        },
    )
}

/// The operations with a result.
#[inline(always)]
fn arithmetic<B: Bus>(core: &mut Core<'_, B>, w: u32, sum: Sum) -> Outcome {
    let (rd, sets_flags) = (field(w, 12), bit(w, 20));
    if rd == 15 {
        return if sets_flags {
            core.refuse(Why::NoSpsr)
        } else {
            core.branch(sum.value)
        };
    }
    if sets_flags {
        core.regs.set_sum(sum);
    }
    core.regs.r[rd] = sum.value;
    Ok(Flow::Next)
}

/// TST and TEQ.
#[inline(always)]
fn test<B: Bus>(core: &mut Core<'_, B>, w: u32, value: u32, carry: bool) -> Outcome {
    compare(
        core,
        w,
        Sum {
            value,
            carry,
            overflow: core.regs.overflow(),
        },
    )
}

/// The operations that set the flags only. (Without S these words are other instructions.)
#[inline(always)]
fn compare<B: Bus>(core: &mut Core<'_, B>, w: u32, sum: Sum) -> Outcome {
    if field(w, 12) == 15 {
        return core.refuse(Why::NoSpsr);
    }
    core.regs.set_sum(sum);
    Ok(Flow::Next)
}
