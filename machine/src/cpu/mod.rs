//! The guest processor's side of the machine: registers, and the bus its instructions go through.

use crate::types::{Abort, VirtAddr, Width};

/// What the processor sees of the rest of the machine. Every word it executes comes from
/// [`Bus::fetch`], every datum from [`Bus::load`]; either may fail, and a failed access has changed
/// nothing.
pub trait Bus {
    /// Fetches `Word` (ARM) or `Half` (Thumb) at `va`, which is aligned.
    fn fetch(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort>;
    /// Loads zero-extended; `va` is aligned to `width`.
    fn load(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort>;
    /// Stores the low bits of `value`; `va` is aligned to `width`.
    fn store(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort>;
    /// The instruction takes `cycles` more than its one: a multiply, a taken branch.
    fn stall(&mut self, cycles: u32);
    /// Whether a misaligned access aborts (control register bit A) instead of rotating as ARMv5
    /// does.
    fn alignment_checked(&self) -> bool;
    /// An instruction or data barrier issued in user mode (`mcr p15, 0, rX, c7, ...`): the fetch
    /// buffer is emptied, or the write buffer drained.
    fn barrier(&mut self, instruction_side: bool);
}
/// Stand-in until the interpreter lands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs;
impl Regs {
    /// Hash.
    pub fn fingerprint(&self) -> u64 {
        0
    }
}
/// Stand-in.
pub enum Exit {}
