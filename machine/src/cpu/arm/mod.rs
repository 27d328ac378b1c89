//! ARM state: the condition, and which class an instruction word belongs to.
//!
//! Source: ARM ARM (DDI 0100), "ARM instruction set encoding" and "The condition field", with the
//! extension space of ARMv5 and later for condition 15.
//!
//! Absent on purpose: coprocessors other than a few CP15 operations, and every instruction that
//! user mode may not execute; both are undefined here.

mod block;
mod data;
mod extra;
mod media;
mod memory;
mod misc;
mod multiply;
mod sync;

use self::data::opcode::*;
use super::Bus;
use super::core::{Core, bit};
use super::exit::{Flow, Outcome, Stop};
use super::regs::Arch;

/// The condition "always".
const ALWAYS: u32 = 14;
/// The condition field of the unconditional extension space.
const EXTENSION: u32 = 15;

/// Executes `w`.
#[inline(always)]
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let cond = w >> 28;
    if cond == ALWAYS || core.regs.passes(cond) {
        return dispatch(core, w);
    }
    if cond == EXTENSION {
        return unconditional(core, w);
    }
    Ok(Flow::Next)
}

/// By bits 27 to 20: one indirect jump to code that knows its operation. The register forms of data
/// processing share their space with multiplies and other transfers, which they tell apart
/// themselves.
#[inline(always)]
fn dispatch<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    match w >> 20 & 0xff {
        0x00 | 0x01 => data::registers::<B, AND>(core, w),
        0x02 | 0x03 => data::registers::<B, EOR>(core, w),
        0x04 | 0x05 => data::registers::<B, SUB>(core, w),
        0x06 | 0x07 => data::registers::<B, RSB>(core, w),
        0x08 | 0x09 => data::registers::<B, ADD>(core, w),
        0x0a | 0x0b => data::registers::<B, ADC>(core, w),
        0x0c | 0x0d => data::registers::<B, SBC>(core, w),
        0x0e | 0x0f => data::registers::<B, RSC>(core, w),
        0x10 | 0x12 | 0x14 | 0x16 => gap(core, w),
        0x11 => data::registers::<B, TST>(core, w),
        0x13 => data::registers::<B, TEQ>(core, w),
        0x15 => data::registers::<B, CMP>(core, w),
        0x17 => data::registers::<B, CMN>(core, w),
        0x18 | 0x19 => data::registers::<B, ORR>(core, w),
        0x1a | 0x1b => data::registers::<B, MOV>(core, w),
        0x1c | 0x1d => data::registers::<B, BIC>(core, w),
        0x1e | 0x1f => data::registers::<B, MVN>(core, w),
        0x20 | 0x21 => data::immediate::<B, AND>(core, w),
        0x22 | 0x23 => data::immediate::<B, EOR>(core, w),
        0x24 | 0x25 => data::immediate::<B, SUB>(core, w),
        0x26 | 0x27 => data::immediate::<B, RSB>(core, w),
        0x28 | 0x29 => data::immediate::<B, ADD>(core, w),
        0x2a | 0x2b => data::immediate::<B, ADC>(core, w),
        0x2c | 0x2d => data::immediate::<B, SBC>(core, w),
        0x2e | 0x2f => data::immediate::<B, RSC>(core, w),
        0x30 | 0x32 | 0x34 | 0x36 => misc::move_immediate_to_status(core, w),
        0x31 => data::immediate::<B, TST>(core, w),
        0x33 => data::immediate::<B, TEQ>(core, w),
        0x35 => data::immediate::<B, CMP>(core, w),
        0x37 => data::immediate::<B, CMN>(core, w),
        0x38 | 0x39 => data::immediate::<B, ORR>(core, w),
        0x3a | 0x3b => data::immediate::<B, MOV>(core, w),
        0x3c | 0x3d => data::immediate::<B, BIC>(core, w),
        0x3e | 0x3f => data::immediate::<B, MVN>(core, w),
        0x50 | 0x58 => memory::store_word_offset(core, w),
        0x51 | 0x59 => memory::load_word_offset(core, w),
        0x54 | 0x5c => memory::store_byte_offset(core, w),
        0x55 | 0x5d => memory::load_byte_offset(core, w),
        0x40..=0x5f => memory::immediate(core, w),
        0x60..=0x7f if bit(w, 4) => media::execute(core, w),
        0x60..=0x7f => memory::register(core, w),
        0x80..=0x9f => block::execute(core, w),
        0xa0..=0xaf => core.jump(core.regs.r[15].wrapping_add(displacement(w))),
        0xb0..=0xbf => branch_link(core, w),
        0xc0..=0xdf => core.stop(Stop::Undefined),
        0xe0..=0xef => misc::coprocessor(core, w),
        _ => core.stop(Stop::Svc(w & 0x00ff_ffff)),
    }
}

/// The compares without S: bits 7 and 4 tell the miscellaneous instructions from the rest.
fn gap<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if w & 0x90 == 0x90 {
        multiply_or_extra(core, w)
    } else {
        misc::execute(core, w)
    }
}

/// Bits 7 and 4 set: by bits 6 and 5 and bit 24 a multiply, a swap or exclusive, or one of the
/// halfword, signed and doubleword transfers.
#[inline(never)]
fn multiply_or_extra<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    match (w >> 5 & 3, bit(w, 24)) {
        (0, false) => multiply::execute(core, w),
        (0, true) => sync::execute(core, w),
        _ => extra::execute(core, w),
    }
}

/// BL.
#[inline(always)]
fn branch_link<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let here = core.regs.r[15];
    core.regs.r[14] = here.wrapping_sub(4);
    core.jump(here.wrapping_add(displacement(w)))
}

/// The signed word offset of a branch, in bytes.
#[inline(always)]
fn displacement(w: u32) -> u32 {
    ((w << 8) as i32 >> 6) as u32
}

/// Condition field 15: PLD, BLX to an offset, and from ARMv6K on CLREX.
#[inline(never)]
fn unconditional<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    const PLD_MASK: u32 = 0x0d70_f000;
    match w {
        _ if w & 0x0e00_0000 == 0x0a00_0000 => branch_to_thumb(core, w),
        _ if w & PLD_MASK == 0x0550_f000 && !(bit(w, 25) && bit(w, 4)) => Ok(Flow::Next),
        0xf57f_f01f if core.arch == Arch::V6k => {
            core.regs.exclusive = None;
            Ok(Flow::Next)
        }
        _ => core.stop(Stop::Undefined),
    }
}

/// BLX (1): bit 24 gives the target's halfword.
fn branch_to_thumb<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let here = core.regs.r[15];
    core.regs.r[14] = here.wrapping_sub(4);
    core.exchange(here.wrapping_add(displacement(w)).wrapping_add(w >> 23 & 2) | 1)
}
