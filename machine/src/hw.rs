//! The door: the one way by which a kernel reaches the hardware.

use crate::machine::Machine;
use crate::observer::Mark;
use crate::step::Step;
use crate::types::{Abort, CpuId, VirtAddr, Width};

/// The lowest context trait. Whoever implements it may run another CPU's operation before any of
/// these calls, so a caller never remembers across one what another CPU can change.
pub trait Hw {
    /// The machine, to look at.
    fn hw(&self) -> &Machine;
    /// Applies one micro-step.
    fn step(&mut self, cpu: CpuId, step: Step);
    /// A load by the kernel; `user` makes it with user rights, as copyin does.
    ///
    /// # Errors
    /// The abort; nothing has happened.
    fn load(&mut self, cpu: CpuId, va: VirtAddr, width: Width, user: bool) -> Result<u32, Abort>;
    /// A store by the kernel.
    ///
    /// # Errors
    /// The abort; nothing has happened.
    fn store(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
    ) -> Result<(), Abort>;
    /// Tells the observer something that the hardware cannot know.
    fn mark(&mut self, cpu: CpuId, mark: Mark);
    /// Charges a kernel operation's footprint (instructions, text and data lines) by its name in the
    /// kernel's footprint table, through the same caches and TLB as everything else.
    fn charge(&mut self, cpu: CpuId, operation: &'static str);
}
