//! Thumb state: which class a halfword belongs to, branches, and everything that is neither
//! arithmetic nor an access to memory.
//!
//! Source: ARM ARM (DDI 0100), "The Thumb Instruction Set" and "Thumb instruction set encoding".
//! The two halves of BL and BLX (1) are two instructions, each of which can abort and be restarted.
//!
//! Absent on purpose: Thumb-2, SETEND and CPS.

mod alu;
mod memory;

use super::Bus;
use super::core::{Core, bit};
use super::exit::{Flow, Outcome, Stop, Why};
use super::regs::Arch;

/// The three-bit register number at `shift`.
#[inline(always)]
fn low(h: u32, shift: u32) -> usize {
    (h >> shift & 7) as usize
}

/// Executes the halfword `h`.
#[inline(always)]
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    match h >> 11 {
        0..=2 => alu::shift_immediate(core, h),
        3 => alu::add_subtract(core, h),
        4..=7 => alu::immediate(core, h),
        8 if !bit(h, 10) => alu::registers(core, h),
        8 => high_registers(core, h),
        9 => memory::literal(core, h),
        10 | 11 => memory::register_offset(core, h),
        12..=15 => memory::immediate_offset(core, h),
        16 | 17 => memory::half_immediate_offset(core, h),
        18 | 19 => memory::stack_relative(core, h),
        20 | 21 => address(core, h),
        22 | 23 => miscellaneous(core, h),
        24 | 25 => memory::multiple(core, h),
        26 | 27 => conditional_branch(core, h),
        28 => core.jump(core.regs.r[15].wrapping_add(signed(h, 11))),
        29 if bit(h, 0) => core.stop(Stop::Undefined),
        29 => long_branch_exchange(core, h),
        30 => Ok(long_branch_prefix(core, h)),
        _ => long_branch(core, h),
    }
}

/// The low `bits` of `h` as a signed count of halfwords, in bytes.
#[inline(always)]
fn signed(h: u32, bits: u32) -> u32 {
    ((h << (32 - bits)) as i32 >> (31 - bits)) as u32
}

/// B with a condition; SVC and the undefined slot sit where conditions 15 and 14 would.
#[inline(always)]
fn conditional_branch<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    match h >> 8 & 15 {
        14 => core.stop(Stop::Undefined),
        15 => core.stop(Stop::Svc(h & 0xff)),
        cond if core.regs.passes(cond) => core.jump(core.regs.r[15].wrapping_add(signed(h, 8))),
        _ => Ok(Flow::Next),
    }
}

/// First half of BL and BLX: the upper part of the offset goes to r14.
fn long_branch_prefix<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Flow {
    core.regs.r[14] = core.regs.r[15].wrapping_add(signed(h, 11) << 11);
    Flow::Next
}

/// Second half of BL.
fn long_branch<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let target = core.regs.r[14].wrapping_add((h & 0x7ff) << 1);
    core.regs.r[14] = core.regs.r[15].wrapping_sub(2) | 1;
    core.branch(target)
}

/// Second half of BLX (1): to ARM state.
fn long_branch_exchange<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let target = core.regs.r[14].wrapping_add((h & 0x7ff) << 1) & !3;
    core.regs.r[14] = core.regs.r[15].wrapping_sub(2) | 1;
    core.exchange(target)
}

/// ADD, CMP and MOV with registers above r7, BX and BLX (2).
fn high_registers<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (rd, rm) = (low(h, 0) | (h >> 4 & 8) as usize, (h >> 3 & 15) as usize);
    let opcode = h >> 8 & 3;
    let value = core.regs.r[rm];
    let both_low = rd < 8 && rm < 8;
    let copies = opcode == 2 && core.arch == Arch::V6k;
    match opcode {
        3 => branch_exchange(core, h, rm),
        _ if both_low && !copies => core.refuse(Why::Encoding),
        0 => write(core, rd, core.regs.r[rd].wrapping_add(value)),
        1 if rd == 15 => core.refuse(Why::PcOperand),
        1 => {
            alu::compare(core, core.regs.r[rd], value);
            Ok(Flow::Next)
        }
        _ => write(core, rd, value),
    }
}

fn branch_exchange<B: Bus>(core: &mut Core<'_, B>, h: u32, rm: usize) -> Outcome {
    let links = bit(h, 7);
    if links && rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    let flow = core.exchange(core.regs.r[rm])?;
    if links {
        core.regs.r[14] = core.regs.r[15].wrapping_sub(2) | 1;
    }
    Ok(flow)
}

/// Writes a register that may be r15.
fn write<B: Bus>(core: &mut Core<'_, B>, rd: usize, value: u32) -> Outcome {
    if rd == 15 {
        return core.branch(value);
    }
    core.regs.r[rd] = value;
    Ok(Flow::Next)
}

/// ADD rd, pc or sp, #immediate.
fn address<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let base = if bit(h, 11) {
        core.regs.r[13]
    } else {
        core.regs.r[15] & !3
    };
    core.regs.r[low(h, 8)] = base.wrapping_add((h & 0xff) << 2);
    Ok(Flow::Next)
}

/// The group around 1011: stack adjustment, PUSH, POP, BKPT, and the ARMv6 additions.
fn miscellaneous<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    match h >> 8 & 15 {
        0 => Ok(adjust_stack(core, h)),
        4 | 5 => memory::push(core, h),
        12 | 13 => memory::pop(core, h),
        14 => core.stop(Stop::Breakpoint),
        2 if core.arch == Arch::V6k => Ok(alu::extend(core, h)),
        10 if core.arch == Arch::V6k => alu::reverse(core, h),
        _ => core.stop(Stop::Undefined),
    }
}

fn adjust_stack<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Flow {
    let bytes = (h & 0x7f) << 2;
    let sp = core.regs.r[13];
    core.regs.r[13] = if bit(h, 7) {
        sp.wrapping_sub(bytes)
    } else {
        sp.wrapping_add(bytes)
    };
    Flow::Next
}
