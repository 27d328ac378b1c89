//! ARM state: what lies in the gaps of the data-processing space, and CP15.
//!
//! Source: ARM ARM (DDI 0100), "Miscellaneous instructions" and "Control instruction extension
//! space"; the System Control Coprocessor chapters for c7 (barriers) and c13 (thread registers).
//! In user mode MSR reaches the flags only. Before ARMv6 the c7 barriers are an implementation's
//! choice in user mode; they are allowed here.
//!
//! Absent on purpose: BXJ and Jazelle, all other coprocessors and CP15 registers, the GE flags.

use super::ALWAYS;
use super::multiply;
use crate::cpu::Bus;
use crate::cpu::alu;
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stop, Why};
use crate::cpu::regs::Arch;

/// MRS, MSR, BX, BLX, CLZ, the saturating additions, BKPT and the halfword multiplies.
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    match (w >> 4 & 15, w >> 21 & 3) {
        (0b0000, 0 | 2) => read_status(core, w),
        (0b0000, _) => move_register_to_status(core, w),
        (0b0001, 1) => branch_exchange(core, w),
        (0b0001, 3) => count_leading_zeros(core, w),
        (0b0011, 1) => branch_link_exchange(core, w),
        (0b0101, _) => multiply::saturating(core, w),
        (0b0111, 1) if w >> 28 == ALWAYS => core.stop(Stop::Breakpoint),
        (0b0111, 1) => core.refuse(Why::Encoding),
        (0b1000 | 0b1010 | 0b1100 | 0b1110, _) => multiply::halves(core, w),
        _ => core.stop(Stop::Undefined),
    }
}

#[inline(always)]
fn branch_exchange<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    core.exchange(core.regs.r[field(w, 0)])
}

/// BLX (2).
fn branch_link_exchange<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if field(w, 0) == 15 {
        return core.refuse(Why::PcOperand);
    }
    let flow = core.exchange(core.regs.r[field(w, 0)])?;
    core.regs.r[14] = core.regs.r[15].wrapping_sub(4);
    Ok(flow)
}

fn count_leading_zeros<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let (rd, rm) = (field(w, 12), field(w, 0));
    if rd == 15 || rm == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.regs.r[rd] = core.regs.r[rm].leading_zeros();
    Ok(Flow::Next)
}

/// MRS: 2 cycles on the ARM9EJ-S.
fn read_status<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    let rd = field(w, 12);
    if bit(w, 22) {
        return core.refuse(Why::Spsr);
    }
    if rd == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.regs.r[rd] = core.regs.cpsr();
    core.bus.stall(1);
    Ok(Flow::Next)
}

fn move_register_to_status<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if field(w, 0) == 15 {
        return core.refuse(Why::PcOperand);
    }
    write_status(core, w, core.regs.r[field(w, 0)])
}

/// MSR of an immediate. With an empty field mask it is a hint (NOP, YIELD, WFE, WFI, SEV) from
/// ARMv6K on; to do nothing is right before, too.
pub(super) fn move_immediate_to_status<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if !bit(w, 21) {
        return core.stop(Stop::Undefined);
    }
    let value = alu::rotated_immediate(w, false).value;
    write_status(core, w, value)
}

fn write_status<B: Bus>(core: &mut Core<'_, B>, w: u32, value: u32) -> Outcome {
    if bit(w, 22) {
        return core.refuse(Why::Spsr);
    }
    let flags_field = bit(w, 19);
    if flags_field {
        core.regs.set_flags(value);
    }
    Ok(Flow::Next)
}

/// CDP, MCR and MRC: of all these, CP15's barriers and thread register.
pub(super) fn coprocessor<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    const MCR: u32 = 0x0e00_0010;
    const MRC_THREAD: u32 = 0x0e1d_0f70;
    if w & 0x0fff_0fff == MRC_THREAD && core.arch == Arch::V6k {
        return read_thread(core, w);
    }
    let is_cp15_c7_write = w & 0x0fff_0f10 == MCR | 7 << 16 | 15 << 8;
    if !is_cp15_c7_write {
        return core.stop(Stop::Undefined);
    }
    let instruction_side = match (field(w, 0), w >> 5 & 7) {
        (5, 4) => true,
        (10, 4) => false,
        (10, 5) if core.arch == Arch::V6k => false,
        _ => return core.stop(Stop::Undefined),
    };
    core.bus.barrier(instruction_side);
    Ok(Flow::Next)
}

fn read_thread<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    if field(w, 12) == 15 {
        return core.refuse(Why::PcOperand);
    }
    core.regs.r[field(w, 12)] = core.regs.tls;
    Ok(Flow::Next)
}
