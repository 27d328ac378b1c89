//! ARM state, ARMv6: sign and zero extension, and byte reversal.
//!
//! Source: ARM ARM (DDI 0100), "Media instructions": extend instructions with and without
//! addition, REV, REV16 and REVSH.
//!
//! Absent on purpose: parallel additions, packing, saturation to a width, SEL, USAD8 and the dual
//! multiplies; they are undefined here. Under ARMv5TE the whole space is.

use crate::cpu::Bus;
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stop, Why};
use crate::cpu::regs::Arch;

/// The part of the media space that is implemented.
#[inline(never)]
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if core.arch == Arch::V5te {
        return core.stop(Stop::Undefined);
    }
    match (w >> 20 & 0xff, w >> 4 & 15) {
        (0x68 | 0x6a | 0x6b | 0x6c | 0x6e | 0x6f, 0b0111) => extend(core, w),
        (0x6b, 0b0011) => reverse(core, w, u32::swap_bytes),
        (0x6b, 0b1011) => reverse(core, w, |v| v.swap_bytes().rotate_right(16)),
        (0x6f, 0b1011) => reverse(core, w, |v| (v as u16).swap_bytes() as i16 as u32),
        _ => core.stop(Stop::Undefined),
    }
}

fn reverse<B: Bus>(core: &mut Core<'_, B>, w: u32, permute: fn(u32) -> u32) -> Outcome {
    let (rd, rm) = (field(w, 12), field(w, 0));
    if rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.regs.r[rd] = permute(core.regs.r[rm]);
    Ok(Flow::Next)
}

/// SXTB16, SXTB, SXTH, UXTB16, UXTB and UXTH; Rn = 15 means that nothing is added.
fn extend<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, rm) = (field(w, 16), field(w, 12), field(w, 0));
    if rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    let addend = if rn == 15 { 0 } else { core.regs.r[rn] };
    let value = core.regs.r[rm].rotate_right(w >> 7 & 0x18);
    core.regs.r[rd] = match (w >> 20 & 3, bit(w, 22)) {
        (0, unsigned) => extend_pair(value, addend, unsigned),
        (2, false) => (value as i8 as u32).wrapping_add(addend),
        (2, true) => (value & 0xff).wrapping_add(addend),
        (_, false) => (value as i16 as u32).wrapping_add(addend),
        (_, true) => (value & 0xffff).wrapping_add(addend),
    };
    Ok(Flow::Next)
}

/// Extends bytes 0 and 2 to halfwords and adds each to its half of `addend`.
fn extend_pair(value: u32, addend: u32, unsigned: bool) -> u32 {
    let half = |shift: u32| {
        let byte = (value >> shift) as u8;
        let wide = if unsigned {
            u16::from(byte)
        } else {
            byte as i8 as u16
        };
        u32::from(wide.wrapping_add((addend >> shift) as u16)) << shift
    };
    half(16) | half(0)
}
