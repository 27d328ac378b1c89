//! ARM state: LDR, STR, LDRB, STRB and their T forms.
//!
//! Source: ARM ARM (DDI 0100), "Addressing Mode 2 - Load and Store Word or Unsigned Byte". The T
//! forms are ordinary accesses, for they are made in user mode already. A stored r15 is the
//! instruction's address plus 8, one of the two values the architecture allows. A scaled offset
//! takes one cycle more (ARM9EJ-S TRM, DDI 0222).
//!
//! Absent on purpose: ARMv6 misaligned accesses (control register bit U).

use crate::cpu::Bus;
use crate::cpu::alu::{self, Shift};
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Why};
use crate::cpu::regs::Arch;

/// Where an access goes and what its base becomes.
#[derive(Clone, Copy)]
pub(super) struct Address {
    /// The address accessed.
    pub(super) va: u32,
    /// The base register.
    pub(super) rn: usize,
    /// Its value afterwards, if it is written.
    pub(super) base: Option<u32>,
}

impl Address {
    /// Decodes P, U, W and Rn for `offset`; post-indexing always writes back.
    #[inline(always)]
    pub(super) fn decode(r: &[u32; 16], w: u32, offset: u32) -> Self {
        let rn = field(w, 16);
        let start = r[rn];
        let moved = if bit(w, 23) {
            start.wrapping_add(offset)
        } else {
            start.wrapping_sub(offset)
        };
        let (pre, writes) = (bit(w, 24), bit(w, 21));
        Self {
            va: if pre { moved } else { start },
            rn,
            base: if !pre || writes { Some(moved) } else { None },
        }
    }

    /// Whether the base is written although it is r15 or is `rd`.
    #[inline(always)]
    pub(super) fn clashes(&self, rd: usize) -> bool {
        self.base.is_some() && (self.rn == 15 || self.rn == rd)
    }

    /// Writes the base back; called once every access has succeeded.
    #[inline(always)]
    pub(super) fn commit(&self, r: &mut [u32; 16]) {
        if let Some(base) = self.base {
            r[self.rn] = base;
        }
    }
}

/// With a 12-bit offset.
pub(super) fn immediate<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let address = Address::decode(&core.regs.r, w, w & 0xfff);
    transfer(core, w, address)
}

/// The address of an immediate offset without write-back, by far the commonest form.
#[inline(always)]
fn offset(r: &[u32; 16], w: u32) -> u32 {
    let (base, offset) = (r[field(w, 16)], w & 0xfff);
    if bit(w, 23) {
        base.wrapping_add(offset)
    } else {
        base.wrapping_sub(offset)
    }
}

/// `ldr rd, [rn, #offset]`.
#[inline(always)]
pub(super) fn load_word_offset<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let rd = field(w, 12);
    if rd == 15 {
        return immediate(core, w);
    }
    core.regs.r[rd] = core.load_word(offset(&core.regs.r, w))?;
    Ok(Flow::Next)
}

/// `str rd, [rn, #offset]`.
#[inline(always)]
pub(super) fn store_word_offset<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    core.store_word(offset(&core.regs.r, w), core.regs.r[field(w, 12)])?;
    Ok(Flow::Next)
}

/// `ldrb rd, [rn, #offset]`.
#[inline(always)]
pub(super) fn load_byte_offset<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let rd = field(w, 12);
    if rd == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.regs.r[rd] = core.load_byte(offset(&core.regs.r, w))?;
    Ok(Flow::Next)
}

/// `strb rd, [rn, #offset]`.
#[inline(always)]
pub(super) fn store_byte_offset<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let rd = field(w, 12);
    if rd == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.store_byte(offset(&core.regs.r, w), core.regs.r[rd])?;
    Ok(Flow::Next)
}

/// With a shifted register as offset.
#[inline(always)]
pub(super) fn register<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let rm = field(w, 0);
    if rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    let kind = Shift::from_bits(w >> 5);
    let offset = alu::shift_by_immediate(kind, w >> 7 & 31, core.regs.r[rm], core.regs.carry());
    let address = Address::decode(&core.regs.r, w, offset.value);
    if core.arch == Arch::V5te && address.base.is_some() && rm == address.rn {
        return core.refuse(Why::OffsetIsBase);
    }
    let flow = transfer(core, w, address)?;
    if w & 0xff0 != 0 {
        core.bus.stall(1);
    }
    Ok(flow)
}

fn transfer<B: Bus>(core: &mut Core<'_, B>, w: u32, address: Address) -> Outcome {
    let rd = field(w, 12);
    if address.clashes(rd) {
        return core.refuse(Why::BaseWriteback);
    }
    let (load, byte) = (bit(w, 20), bit(w, 22));
    let unprivileged = !bit(w, 24) && bit(w, 21);
    if rd == 15 && (byte || unprivileged) {
        return core.refuse(Why::PcOperand);
    }
    let value = core.regs.r[rd];
    match (load, byte) {
        (true, false) => return load_word(core, rd, address),
        (true, true) => {
            let loaded = core.load_byte(address.va)?;
            address.commit(&mut core.regs.r);
            core.regs.r[rd] = loaded;
            return Ok(Flow::Next);
        }
        (false, false) => core.store_word(address.va, value)?,
        (false, true) => core.store_byte(address.va, value)?,
    }
    address.commit(&mut core.regs.r);
    Ok(Flow::Next)
}

#[inline(always)]
fn load_word<B: Bus>(core: &mut Core<'_, B>, rd: usize, address: Address) -> Outcome {
    let loaded = core.load_word(address.va)?;
    if rd == 15 {
        return load_pc(core, loaded, address);
    }
    address.commit(&mut core.regs.r);
    core.regs.r[rd] = loaded;
    Ok(Flow::Next)
}

/// A load of r15 interworks, and its address must be aligned.
#[cold]
fn load_pc<B: Bus>(core: &mut Core<'_, B>, loaded: u32, address: Address) -> Outcome {
    if address.va & 3 != 0 {
        return core.refuse(Why::PcTarget);
    }
    let flow = core.exchange_loaded(loaded)?;
    address.commit(&mut core.regs.r);
    Ok(flow)
}
