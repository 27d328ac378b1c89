//! ARM state: halfword, signed byte and doubleword transfers.
//!
//! Source: ARM ARM (DDI 0100), "Addressing Mode 3 - Miscellaneous Loads and Stores", LDRD and STRD.
//! A doubleword is two word accesses, the lower first, at an address that is a multiple of eight.
//!
//! Absent on purpose: the ARMv6T2 unprivileged forms.

use super::memory::Address;
use crate::cpu::Bus;
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stop, Stopped, Why};
use crate::cpu::regs::Arch;
use crate::types::Access;

/// LDRH, STRH, LDRSB, LDRSH, LDRD and STRD.
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let post_indexed_with_writeback = !bit(w, 24) && bit(w, 21);
    if post_indexed_with_writeback {
        return core.refuse(Why::Encoding);
    }
    let address = {
        let offset = offset(core, w)?;
        Address::decode(&core.regs.r, w, offset)
    };
    let rm_is_base = !bit(w, 22) && field(w, 0) == address.rn;
    if core.arch == Arch::V5te && rm_is_base && address.base.is_some() {
        return core.refuse(Why::OffsetIsBase);
    }
    match (bit(w, 20), w >> 5 & 3) {
        (false, 2) => load_double(core, w, address),
        (false, 3) => store_double(core, w, address),
        _ => single(core, w, address),
    }
}

/// The offset: eight bits in two nibbles, or a register.
fn offset<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Result<u32, Stopped> {
    match field(w, 0) {
        low if bit(w, 22) => Ok(w >> 4 & 0xf0 | low as u32),
        15 => core.refuse(Why::PcOperand),
        rm => Ok(core.regs.r[rm]),
    }
}

fn single<B: Bus>(core: &mut Core<'_, B>, w: u32, address: Address) -> Outcome {
    let rd = field(w, 12);
    if rd == 15 {
        return core.refuse(Why::PcOperand);
    }
    if address.clashes(rd) {
        return core.refuse(Why::BaseWriteback);
    }
    if !bit(w, 20) {
        core.store_half(address.va, core.regs.r[rd])?;
        address.commit(&mut core.regs.r);
        return Ok(Flow::Next);
    }
    let loaded = match w >> 5 & 3 {
        1 => core.load_half(address.va)?,
        2 => core.load_byte(address.va)? as i8 as u32,
        _ => core.load_half(address.va)? as i16 as u32,
    };
    address.commit(&mut core.regs.r);
    core.regs.r[rd] = loaded;
    Ok(Flow::Next)
}

/// The even register of a pair, after the checks that both directions share.
fn pair<B: Bus>(core: &mut Core<'_, B>, w: u32, address: &Address) -> Result<usize, Stopped> {
    let rd = field(w, 12);
    match rd {
        _ if rd & 1 == 1 => core.stop(Stop::Undefined),
        14 => core.refuse(Why::PcOperand),
        _ if address.clashes(rd) || address.clashes(rd + 1) => core.refuse(Why::BaseWriteback),
        _ => Ok(rd),
    }
}

fn load_double<B: Bus>(core: &mut Core<'_, B>, w: u32, address: Address) -> Outcome {
    let rd = pair(core, w, &address)?;
    let rm_is_loaded = !bit(w, 22) && field(w, 0) & !1 == rd;
    if rm_is_loaded {
        return core.refuse(Why::Overlap);
    }
    core.require_aligned(address.va, 8, Access::Load)?;
    let low = core.load_word(address.va)?;
    let high = core.load_word(address.va.wrapping_add(4))?;
    address.commit(&mut core.regs.r);
    (core.regs.r[rd], core.regs.r[rd + 1]) = (low, high);
    Ok(Flow::Next)
}

fn store_double<B: Bus>(core: &mut Core<'_, B>, w: u32, address: Address) -> Outcome {
    let rd = pair(core, w, &address)?;
    core.require_aligned(address.va, 8, Access::Store)?;
    core.store_word(address.va, core.regs.r[rd])?;
    core.store_word(address.va.wrapping_add(4), core.regs.r[rd + 1])?;
    address.commit(&mut core.regs.r);
    Ok(Flow::Next)
}
