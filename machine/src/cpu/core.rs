//! One processor at work: its registers, its bus, and the accesses and branches that all
//! instructions share.
//!
//! Source: ARM ARM (DDI 0100), "Programmers' Model", unaligned access support before ARMv6: a word
//! load rotates, a word store ignores the low address bits, anything else misaligned is
//! UNPREDICTABLE; with control register bit A every one of them aborts. Stalls are those of the
//! ARM9EJ-S TRM (DDI 0222), "Instruction cycle count summary".
//!
//! Absent on purpose: interlocks, which depend on the following instruction.

use super::Bus;
use super::exit::{Flow, Outcome, Stop, Stopped, Why};
use super::regs::{Arch, Regs};
use crate::types::{Abort, Access, Fault, VirtAddr, Width};

/// Cycles that a taken branch adds.
const BRANCH_STALL: u32 = 2;
/// Cycles that a load of r15 adds.
const LOAD_PC_STALL: u32 = 4;

/// What an instruction works on. While it executes, `regs.r[15]` is what reading r15 gives: its
/// own address plus 8, in Thumb state plus 4.
pub(super) struct Core<'a, B> {
    pub(super) regs: &'a mut Regs,
    pub(super) bus: &'a mut B,
    pub(super) arch: Arch,
    /// Why the last instruction did not complete; only `Err(Stopped)` makes it valid.
    pub(super) stop: Stop,
}

/// The four-bit register number at `shift`.
#[inline(always)]
pub(super) fn field(word: u32, shift: u32) -> usize {
    (word >> shift & 15) as usize
}

/// Whether bit `index` is set.
#[inline(always)]
pub(super) fn bit(word: u32, index: u32) -> bool {
    word >> index & 1 == 1
}

impl<B: Bus> Core<'_, B> {
    /// Ends the run with this instruction undone.
    #[cold]
    #[inline(never)]
    pub(super) fn stop<T>(&mut self, stop: Stop) -> Result<T, Stopped> {
        self.stop = stop;
        Err(Stopped)
    }

    /// Ends the run because the instruction is UNPREDICTABLE.
    #[cold]
    pub(super) fn refuse<T>(&mut self, why: Why) -> Result<T, Stopped> {
        self.stop(Stop::Unpredictable(why))
    }

    #[cold]
    fn misaligned<T>(&mut self, va: u32, access: Access) -> Result<T, Stopped> {
        self.stop(Stop::Data(Abort {
            va: VirtAddr(va),
            access,
            fault: Fault::Alignment,
        }))
    }

    #[inline(always)]
    fn load(&mut self, va: u32, width: Width) -> Result<u32, Stopped> {
        match self.bus.load(VirtAddr(va), width) {
            Ok(value) => Ok(value),
            Err(abort) => self.stop(Stop::Data(abort)),
        }
    }

    #[inline(always)]
    fn store(&mut self, va: u32, width: Width, value: u32) -> Result<(), Stopped> {
        match self.bus.store(VirtAddr(va), width, value) {
            Ok(()) => Ok(()),
            Err(abort) => self.stop(Stop::Data(abort)),
        }
    }

    /// Goes on at `target` in the same state. Thumb ignores bit 0.
    #[inline(always)]
    pub(super) fn branch(&mut self, target: u32) -> Outcome {
        if target & 3 != 0 && !self.regs.t {
            return self.refuse(Why::PcTarget);
        }
        self.jump(target & !1)
    }

    /// Goes on at `target`, which is aligned for the state.
    #[inline(always)]
    pub(super) fn jump(&mut self, target: u32) -> Outcome {
        self.bus.stall(BRANCH_STALL);
        Ok(Flow::Jump(target))
    }

    /// Goes on at `target` in the state that its bit 0 chooses.
    pub(super) fn exchange(&mut self, target: u32) -> Outcome {
        self.interwork(target, BRANCH_STALL)
    }

    /// As [`Core::exchange`], for a target that was loaded.
    pub(super) fn exchange_loaded(&mut self, target: u32) -> Outcome {
        self.interwork(target, LOAD_PC_STALL)
    }

    fn interwork(&mut self, target: u32, cycles: u32) -> Outcome {
        if target & 3 == 2 {
            return self.refuse(Why::PcTarget);
        }
        self.bus.stall(cycles);
        let thumb = target & 1 == 1;
        if thumb == self.regs.t {
            return Ok(Flow::Jump(target & !1));
        }
        self.regs.t = thumb;
        Ok(Flow::Switch(target & !1))
    }

    /// Loads a word; a misaligned one aborts or comes rotated.
    #[inline(always)]
    pub(super) fn load_word(&mut self, va: u32) -> Result<u32, Stopped> {
        if va & 3 != 0 {
            return self.load_word_misaligned(va);
        }
        self.load(va, Width::Word)
    }

    #[cold]
    fn load_word_misaligned(&mut self, va: u32) -> Result<u32, Stopped> {
        if self.bus.alignment_checked() {
            return self.misaligned(va, Access::Load);
        }
        let word = self.load(va & !3, Width::Word)?;
        Ok(word.rotate_right(8 * (va & 3)))
    }

    /// Stores a word; misaligned, it aborts or goes to the word around the address.
    #[inline(always)]
    pub(super) fn store_word(&mut self, va: u32, value: u32) -> Result<(), Stopped> {
        if va & 3 != 0 && self.bus.alignment_checked() {
            return self.misaligned(va, Access::Store);
        }
        self.store(va & !3, Width::Word, value)
    }

    /// Loads a zero-extended byte.
    #[inline(always)]
    pub(super) fn load_byte(&mut self, va: u32) -> Result<u32, Stopped> {
        self.load(va, Width::Byte)
    }

    /// Stores the low byte of `value`.
    #[inline(always)]
    pub(super) fn store_byte(&mut self, va: u32, value: u32) -> Result<(), Stopped> {
        self.store(va, Width::Byte, value & 0xff)
    }

    /// Loads a zero-extended halfword.
    pub(super) fn load_half(&mut self, va: u32) -> Result<u32, Stopped> {
        self.require_aligned(va, 2, Access::Load)?;
        self.load(va, Width::Half)
    }

    /// Stores the low halfword of `value`.
    pub(super) fn store_half(&mut self, va: u32, value: u32) -> Result<(), Stopped> {
        self.require_aligned(va, 2, Access::Store)?;
        self.store(va, Width::Half, value & 0xffff)
    }

    /// Fails unless `va` is a multiple of `bytes`: with an abort if alignment is checked, else
    /// because the result is UNPREDICTABLE.
    pub(super) fn require_aligned(
        &mut self,
        va: u32,
        bytes: u32,
        access: Access,
    ) -> Result<(), Stopped> {
        match va & (bytes - 1) {
            0 => Ok(()),
            _ if self.bus.alignment_checked() => self.misaligned(va, access),
            _ => self.refuse(Why::Misaligned),
        }
    }

    /// Aborts unless `va` is a multiple of `bytes`, checked or not: the exclusives' rule.
    pub(super) fn insist_aligned(
        &mut self,
        va: u32,
        bytes: u32,
        access: Access,
    ) -> Result<(), Stopped> {
        if va & (bytes - 1) == 0 {
            Ok(())
        } else {
            self.misaligned(va, access)
        }
    }

    /// Loads as many ascending words at `va` as `list` names registers; the caller commits them.
    pub(super) fn load_list(&mut self, va: u32, list: u32) -> Result<[u32; 16], Stopped> {
        if va & 3 != 0 && self.bus.alignment_checked() {
            return self.misaligned(va, Access::Load);
        }
        let mut words = [0; 16];
        let (mut va, mut rest) = (va & !3, &mut words[..list.count_ones().min(16) as usize]);
        while !rest.is_empty() {
            let done = match self.bus.load_some(VirtAddr(va), rest) {
                0 => {
                    rest[0] = self.load(va, Width::Word)?;
                    1
                }
                done => done,
            };
            va = va.wrapping_add(4 * done as u32);
            rest = &mut rest[done..];
        }
        Ok(words)
    }

    /// Stores the registers in `list` to ascending words at `va`.
    pub(super) fn store_list(&mut self, va: u32, list: u32) -> Result<(), Stopped> {
        if va & 3 != 0 && self.bus.alignment_checked() {
            return self.misaligned(va, Access::Store);
        }
        let (mut words, mut count, mut left) = ([0; 16], 0, list);
        while left != 0 {
            words[count & 15] = self.regs.r[(left.trailing_zeros() & 15) as usize];
            (count, left) = (count + 1, left & (left - 1));
        }
        let (mut va, mut rest) = (va & !3, &words[..count.min(16)]);
        while let [first, ..] = rest {
            let done = match self.bus.store_some(VirtAddr(va), rest) {
                0 => {
                    self.store(va, Width::Word, *first)?;
                    1
                }
                done => done,
            };
            va = va.wrapping_add(4 * done as u32);
            rest = &rest[done..];
        }
        Ok(())
    }

    /// Takes over the registers in `list` from ascending `words`; r15 comes last, interworking, and is
    /// checked first. `base`, if any, is written before them.
    pub(super) fn commit_list(
        &mut self,
        list: u32,
        words: &[u32; 16],
        base: Option<(usize, u32)>,
    ) -> Outcome {
        let others = list & 0x7fff;
        let flow = if bit(list, 15) {
            self.exchange_loaded(words[(others.count_ones() & 15) as usize])?
        } else {
            Flow::Next
        };
        if let Some((register, value)) = base {
            self.regs.r[register] = value;
        }
        let mut left = others;
        for word in words {
            if left == 0 {
                break;
            }
            self.regs.r[(left.trailing_zeros() & 15) as usize] = *word;
            left &= left - 1;
        }
        Ok(flow)
    }
}
