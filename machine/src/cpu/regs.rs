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
    /// Flag N: the result was negative.
    pub n: bool,
    /// Flag Z: the result was zero.
    pub z: bool,
    /// Flag C: carry, or no borrow, or the last bit shifted out.
    pub c: bool,
    /// Flag V: signed overflow.
    pub v: bool,
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
        _ => return true,
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
        self.nzcv() << 28 | u32::from(self.q) << 27 | u32::from(self.t) << 5 | USER
    }

    /// Sets N, Z, C, V and Q from the top bits of a status register; the rest is ignored, as user
    /// mode does.
    pub fn set_flags(&mut self, psr: u32) {
        self.n = psr >> 31 & 1 == 1;
        self.z = psr >> 30 & 1 == 1;
        self.c = psr >> 29 & 1 == 1;
        self.v = psr >> 28 & 1 == 1;
        self.q = psr >> 27 & 1 == 1;
    }

    /// Whether the condition (the top four bits of an ARM instruction) holds; 14 and 15 always do.
    #[inline(always)]
    pub fn passes(&self, cond: u32) -> bool {
        CONDITIONS[(cond & 15) as usize] >> self.nzcv() & 1 == 1
    }

    #[inline(always)]
    fn nzcv(&self) -> u32 {
        let high = u32::from(self.n) << 3 | u32::from(self.z) << 2;
        high | u32::from(self.c) << 1 | u32::from(self.v)
    }

    /// Sets N and Z by `value`.
    #[inline(always)]
    pub(super) fn set_nz(&mut self, value: u32) {
        self.n = value >> 31 == 1;
        self.z = value == 0;
    }

    /// Sets N, Z, C and V by `sum`.
    #[inline(always)]
    pub(super) fn set_sum(&mut self, sum: Sum) {
        self.set_nz(sum.value);
        self.c = sum.carry;
        self.v = sum.overflow;
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

fn granule(va: u32) -> VirtAddr {
    VirtAddr(va & !(EXCLUSIVE_BYTES - 1))
}
