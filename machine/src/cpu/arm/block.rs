//! ARM state: LDM and STM.
//!
//! Source: ARM ARM (DDI 0100), "Addressing Mode 4 - Load and Store Multiple", and "Data Abort" for
//! the base-restored abort model. A list that holds the base is fine without write-back, and in an
//! STM with write-back if the base is its lowest register, which is then stored as it was.
//!
//! Absent on purpose: the forms with the S bit (user bank, exception return), UNPREDICTABLE in user
//! mode.

use crate::cpu::Bus;
use crate::cpu::core::{Core, bit, field};
use crate::cpu::exit::{Flow, Outcome, Stopped, Why};

/// LDM and STM in all four directions.
pub(super) fn execute<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Outcome {
    check(core, w)?;
    let (rn, list) = (field(w, 16), w & 0xffff);
    let (start, end) = bounds(core.regs.r[rn], w);
    let base = bit(w, 21).then_some((rn, end));
    if bit(w, 20) {
        let loaded = core.load_list(start, list)?;
        return core.commit_list(list, &loaded, base);
    }
    core.store_list(start, list)?;
    if let Some((register, value)) = base {
        core.regs.r[register] = value;
    }
    Ok(Flow::Next)
}

fn check<B: Bus>(core: &mut Core<'_, B>, w: u32) -> Result<(), Stopped> {
    let (rn, list) = (field(w, 16) as u32, w & 0xffff);
    let (load, writes) = (bit(w, 20), bit(w, 21));
    let lowest = list & (1 << rn) != 0 && list & ((1 << rn) - 1) == 0;
    match w {
        _ if bit(w, 22) => core.refuse(Why::UserBank),
        _ if list == 0 => core.refuse(Why::EmptyList),
        _ if rn == 15 => core.refuse(Why::PcOperand),
        _ if writes && bit(list, rn) && (load || !lowest) => core.refuse(Why::BaseWriteback),
        _ => Ok(()),
    }
}

/// The lowest address accessed, and the base afterwards.
#[inline(always)]
fn bounds(base: u32, w: u32) -> (u32, u32) {
    let bytes = 4 * (w & 0xffff).count_ones();
    let (before, up) = (bit(w, 24), bit(w, 23));
    if up {
        (
            base.wrapping_add(if before { 4 } else { 0 }),
            base.wrapping_add(bytes),
        )
    } else {
        let end = base.wrapping_sub(bytes);
        (end.wrapping_add(if before { 0 } else { 4 }), end)
    }
}
