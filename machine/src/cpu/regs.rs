//! The registers a user-mode program sees, and the questions asked of them.
//!
//! Source: ARM ARM (DDI 0100), "Programmers' Model": registers, program status registers, and "The
//! condition field"; for the exclusive monitor the ARMv6 section on LDREX and STREX.
//!
//! Absent on purpose: banked registers, SPSRs and mode bits, for all code that is interpreted runs
//! in user mode; the GE flags, the J and E bits and the floating-point registers.

use super::alu::Sum;
use crate::types::VirtAddr;

/// Which instruction set is executed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arch {
    /// ARMv5TE: the ARM926EJ-S, Feroceon and XScale.
    V5te,
    /// ARMv5TE and, of ARMv6K, what compiled user code needs: exclusives, byte reversal, extension,
    /// the TLS register and the user-mode barriers. Misaligned accesses stay as on ARMv5.
    V6k,
}

/// The user-mode state of one processor: a plain value.
///
/// Between instructions `r[15]` is the address of the next one; it is even in Thumb state and a
/// multiple of four in ARM state.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Regs {
    /// r0 to r15.
    pub r: [u32; 16],
    /// Flags N (the result was negative), Z (it was zero), C (carry, or no borrow, or the last bit shifted
    /// out) and V (signed overflow) in bits 3 to 0: one word, for a condition asks for all of them at once.
    pub nzcv: u32,
    /// Flag Q: a saturating instruction saturated or a DSP accumulation overflowed; sticky.
    pub q: bool,
    /// The Thumb bit.
    pub t: bool,
    /// The local exclusive monitor: the granule tagged by the last LDREX. Whoever switches programs
    /// or lets another processor store there clears it.
    pub exclusive: Option<VirtAddr>,
    /// The read-only thread register (CP15 c13, c0, 3), which only the kernel sets.
    pub tls: u32,
}

/// Bytes tagged by one LDREX: the smallest granule the architecture allows.
pub const EXCLUSIVE_BYTES: u32 = 8;

/// For each condition, bit `NZCV` says whether it holds under these flags.
const CONDITIONS: [u16; 16] = condition_table();

const fn condition_table() -> [u16; 16] {
    let mut table = [0; 16];
    let mut cond = 0;
    while cond < 16 {
        let mut flags = 0;
        while flags < 16 {
            table[cond as usize] |= (holds(cond, flags) as u16) << flags;
            flags += 1;
        }
        cond += 1;
    }
    table
}

const fn holds(cond: u32, nzcv: u32) -> bool {
    let (n, z) = (nzcv & 8 != 0, nzcv & 4 != 0);
    let (c, v) = (nzcv & 2 != 0, nzcv & 1 != 0);
    let positive = match cond >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => true,
    };
    positive != (cond & 1 == 1)
}

impl Regs {
    /// A program about to start at `entry`, whose bit 0 chooses Thumb, with its stack at `stack`;
    /// every other register is zero.
    pub fn at(entry: VirtAddr, stack: VirtAddr) -> Self {
        let mut regs = Self {
            t: entry.0 & 1 == 1,
            ..Self::default()
        };
        regs.r[13] = stack.0;
        regs.r[15] = entry.0 & if regs.t { !1 } else { !3 };
        regs
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> VirtAddr {
        VirtAddr(self.r[15])
    }

    /// The current program status register: flags, Thumb bit and user mode, interrupts enabled.
    pub fn cpsr(&self) -> u32 {
        const USER: u32 = 0x10;
        self.nzcv << 28 | u32::from(self.q) << 27 | u32::from(self.t) << 5 | USER
    }

    /// Sets N, Z, C, V and Q from the top bits of a status register; the rest is ignored, as user
    /// mode does.
    pub fn set_flags(&mut self, psr: u32) {
        self.nzcv = psr >> 28;
        self.q = psr >> 27 & 1 == 1;
    }

    /// Whether the condition (the top four bits of an ARM instruction) holds; 14 always does, and 15, which
    /// is none, never.
    #[inline(always)]
    pub fn passes(&self, cond: u32) -> bool {
        CONDITIONS[(cond & 15) as usize] >> (self.nzcv & 15) & 1 == 1
    }

    /// Flag C.
    #[inline(always)]
    pub fn carry(&self) -> bool {
        self.nzcv & 2 != 0
    }

    /// Sets flag C.
    #[inline(always)]
    pub fn set_carry(&mut self, carry: bool) {
        self.nzcv = self.nzcv & !2 | u32::from(carry) << 1;
    }

    /// Flag V.
    #[inline(always)]
    pub(super) fn overflow(&self) -> bool {
        self.nzcv & 1 != 0
    }

    /// Sets N and Z by `value`.
    #[inline(always)]
    pub(super) fn set_nz(&mut self, value: u32) {
        self.nzcv = self.nzcv & 3 | nz(value);
    }

    /// Sets N and Z by a 64-bit `value`.
    pub(super) fn set_nz_long(&mut self, value: u64) {
        let high = (value >> 32) as u32;
        self.set_nz(high | u32::from(value as u32 != 0));
    }

    /// Sets N, Z, C and V by `sum`.
    #[inline(always)]
    pub(super) fn set_sum(&mut self, sum: Sum) {
        self.nzcv = nz(sum.value) | u32::from(sum.carry) << 1 | u32::from(sum.overflow);
    }

    /// Tags the granule around `va` for this processor.
    pub(super) fn tag(&mut self, va: u32) {
        self.exclusive = Some(granule(va));
    }

    /// Whether the granule around `va` is tagged.
    pub fn is_tagged(&self, va: VirtAddr) -> bool {
        self.exclusive == Some(granule(va.0))
    }
}

/// N and Z of a value, in their places.
#[inline(always)]
fn nz(value: u32) -> u32 {
    value >> 31 << 3 | u32::from(value == 0) << 2
}

fn granule(va: u32) -> VirtAddr {
    VirtAddr(va & !(EXCLUSIVE_BYTES - 1))
}
