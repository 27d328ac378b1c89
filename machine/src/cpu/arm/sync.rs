//! ARM state: SWP and the exclusive accesses.
//!
//! Source: ARM ARM (DDI 0100), SWP and SWPB; LDREX, STREX, and for ARMv6K their byte, halfword and
//! doubleword forms. A STREX stores only if its granule is the one tagged, and clears the tag in
//! either case. A misaligned exclusive aborts whether alignment is checked or not.
//!
//! Absent on purpose: the global monitor. Who lets another processor store into the granule clears
//! [`Regs::exclusive`](crate::cpu::Regs::exclusive).

use crate::cpu::Bus;
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stop, Stopped, Why};
use crate::cpu::regs::Arch;
use crate::types::{Access, VirtAddr};

/// SWP, SWPB, and under ARMv6K the exclusives.
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    match w >> 20 & 15 {
        0 | 4 => swap(core, w),
        8.. if core.arch == Arch::V5te => core.stop(Stop::Undefined),
        opcode @ 8.. if bit(opcode, 0) => load_exclusive(core, w),
        8.. => store_exclusive(core, w),
        _ => core.stop(Stop::Undefined),
    }
}

/// The load comes first, so that a failed store leaves nothing done.
fn swap<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, rm) = (field(w, 16), field(w, 12), field(w, 0));
    if rn == 15 || rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    if rn == rm || rn == rd {
        return core.refuse(Why::Overlap);
    }
    let (va, value) = (core.regs.r[rn], core.regs.r[rm]);
    let loaded = if bit(w, 22) {
        let loaded = core.load_byte(va)?;
        core.store_byte(va, value)?;
        loaded
    } else {
        let loaded = core.load_word(va)?;
        core.store_word(va, value)?;
        loaded
    };
    core.regs.r[rd] = loaded;
    Ok(Flow::Next)
}

/// The size of an exclusive, by bits 22 and 21.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    Word,
    Double,
    Byte,
    Half,
}

impl Size {
    fn decode(w: u32) -> Self {
        match w >> 21 & 3 {
            0 => Size::Word,
            1 => Size::Double,
            2 => Size::Byte,
            _ => Size::Half,
        }
    }

    fn bytes(self) -> u32 {
        match self {
            Size::Word => 4,
            Size::Double => 8,
            Size::Byte => 1,
            Size::Half => 2,
        }
    }
}

/// Fails if a register pair does not start at an even register below r14.
fn check_pair<B: Bus>(core: &mut Core<'_, B>, size: Size, register: usize) -> Result<(), Stopped> {
    let usable = size != Size::Double || (register & 1 == 0 && register != 14);
    if usable {
        Ok(())
    } else {
        core.refuse(Why::PcOperand)
    }
}

fn load_exclusive<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, size) = (field(w, 16), field(w, 12), Size::decode(w));
    if rn == 15 || rd == 15 {
        return core.refuse(Why::PcOperand);
    }
    check_pair(core, size, rd)?;
    let va = core.regs.r[rn];
    core.insist_aligned(va, size.bytes(), Access::Load)?;
    let value = match size {
        Size::Byte => core.load_byte(va)?,
        Size::Half => core.load_half(va)?,
        Size::Word | Size::Double => core.load_word(va)?,
    };
    if size == Size::Double {
        core.regs.r[rd + 1] = core.load_word(va.wrapping_add(4))?;
    }
    core.regs.r[rd] = value;
    core.regs.tag(va);
    Ok(Flow::Next)
}

fn store_exclusive<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rn, rd, rm, size) = (field(w, 16), field(w, 12), field(w, 0), Size::decode(w));
    if rn == 15 || rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    check_pair(core, size, rm)?;
    if rd == rn || rd == rm || (size == Size::Double && rd == rm + 1) {
        return core.refuse(Why::Overlap);
    }
    let va = core.regs.r[rn];
    core.insist_aligned(va, size.bytes(), Access::Store)?;
    let tagged = core.regs.is_tagged(VirtAddr(va));
    if tagged {
        store_sized(core, size, va, rm)?;
    }
    core.regs.exclusive = None;
    core.regs.r[rd] = u32::from(!tagged);
    Ok(Flow::Next)
}

fn store_sized<B: Bus>(
    core: &mut Core<'_, B>,
    size: Size,
    va: u32,
    rm: usize,
) -> Result<(), Stopped> {
    let value = core.regs.r[rm];
    match size {
        Size::Byte => core.store_byte(va, value),
        Size::Half => core.store_half(va, value),
        Size::Word => core.store_word(va, value),
        Size::Double => {
            core.store_word(va, value)?;
            core.store_word(va.wrapping_add(4), core.regs.r[rm + 1])
        }
    }
}
