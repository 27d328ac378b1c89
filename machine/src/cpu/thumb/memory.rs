//! Thumb state: loads and stores, PUSH and POP, LDMIA and STMIA.
//!
//! Source: ARM ARM (DDI 0100), "Thumb Load and Store Register instructions" and "Load and Store
//! Multiple instructions". LDMIA with its base in the list loads it and writes nothing back; STMIA
//! with its base in the list is defined only if that is the lowest register.
//!
//! Absent on purpose: nothing of ARMv5T.

use super::low;
use crate::cpu::Bus;
use crate::cpu::core::{Core, bit};
use crate::cpu::exit::{Flow, Outcome, Stopped, Why};

/// LDR from a literal pool; the base is r15 rounded down to a word.
pub(super) fn literal<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let va = (core.regs.r[15] & !3).wrapping_add((h & 0xff) << 2);
    core.regs.r[low(h, 8)] = core.load_word(va)?;
    Ok(Flow::Next)
}

/// The eight transfers with a register as offset.
pub(super) fn register_offset<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let va = core.regs.r[low(h, 3)].wrapping_add(core.regs.r[low(h, 6)]);
    let rd = low(h, 0);
    let value = core.regs.r[rd];
    core.regs.r[rd] = match h >> 9 & 7 {
        0 => return stored(core.store_word(va, value)),
        1 => return stored(core.store_half(va, value)),
        2 => return stored(core.store_byte(va, value)),
        3 => core.load_byte(va)? as i8 as u32,
        4 => core.load_word(va)?,
        5 => core.load_half(va)?,
        6 => core.load_byte(va)?,
        _ => core.load_half(va)? as i16 as u32,
    };
    Ok(Flow::Next)
}

fn stored(result: Result<(), Stopped>) -> Outcome {
    result.map(|()| Flow::Next)
}

/// LDR, STR, LDRB and STRB with a five-bit offset, in units of the access.
#[inline(always)]
pub(super) fn immediate_offset<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (base, rd, offset) = (core.regs.r[low(h, 3)], low(h, 0), h >> 6 & 31);
    let value = core.regs.r[rd];
    match (bit(h, 12), bit(h, 11)) {
        (false, false) => core.store_word(base.wrapping_add(offset << 2), value)?,
        (false, true) => core.regs.r[rd] = core.load_word(base.wrapping_add(offset << 2))?,
        (true, false) => core.store_byte(base.wrapping_add(offset), value)?,
        (true, true) => core.regs.r[rd] = core.load_byte(base.wrapping_add(offset))?,
    }
    Ok(Flow::Next)
}

/// LDRH and STRH with a five-bit offset.
pub(super) fn half_immediate_offset<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let va = core.regs.r[low(h, 3)].wrapping_add((h >> 6 & 31) << 1);
    if bit(h, 11) {
        core.regs.r[low(h, 0)] = core.load_half(va)?;
    } else {
        core.store_half(va, core.regs.r[low(h, 0)])?;
    }
    Ok(Flow::Next)
}

/// LDR and STR relative to r13.
pub(super) fn stack_relative<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let va = core.regs.r[13].wrapping_add((h & 0xff) << 2);
    if bit(h, 11) {
        core.regs.r[low(h, 8)] = core.load_word(va)?;
    } else {
        core.store_word(va, core.regs.r[low(h, 8)])?;
    }
    Ok(Flow::Next)
}

/// PUSH; bit 8 adds r14.
pub(super) fn push<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let list = h & 0xff | (h & 0x100) << 6;
    if list == 0 {
        return core.refuse(Why::EmptyList);
    }
    let start = core.regs.r[13].wrapping_sub(4 * list.count_ones());
    core.store_list(start, list)?;
    core.regs.r[13] = start;
    Ok(Flow::Next)
}

/// POP; bit 8 adds r15, which interworks.
pub(super) fn pop<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let list = h & 0xff | (h & 0x100) << 7;
    if list == 0 {
        return core.refuse(Why::EmptyList);
    }
    let start = core.regs.r[13];
    let loaded = core.load_list(start, list)?;
    let end = start.wrapping_add(4 * list.count_ones());
    core.commit_list(list, &loaded, Some((13, end)))
}

/// LDMIA and STMIA.
pub(super) fn multiple<B: Bus>(core: &mut Core<'_, B>, h: u32) -> Outcome {
    let (rn, list) = (low(h, 8), h & 0xff);
    if list == 0 {
        return core.refuse(Why::EmptyList);
    }
    let start = core.regs.r[rn];
    let end = start.wrapping_add(4 * list.count_ones());
    if bit(h, 11) {
        let loaded = core.load_list(start, list)?;
        return core.commit_list(list, &loaded, Some((rn, end)));
    }
    let base_is_not_lowest = bit(list, rn as u32) && list & ((1 << rn) - 1) != 0;
    if base_is_not_lowest {
        return core.refuse(Why::BaseWriteback);
    }
    core.store_list(start, list)?;
    core.regs.r[rn] = end;
    Ok(Flow::Next)
}
