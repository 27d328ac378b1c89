//! The guest processor: an interpreter of ARMv5TE user-mode code (ARM and Thumb), with a part of
//! ARMv6K, that reaches the rest of the machine through a [`Bus`] and nothing else.
//!
//! - [`Regs`] is the program's state, a plain value;
//! - [`run`] executes instructions until one needs the kernel, and says which and why: [`Exit`].
//!
//! The rule: an instruction that does not complete has changed no register. Loads go to
//! temporaries, and registers, base and flags are written only after the last access succeeded
//! (the base-restored abort model), so that the kernel may repair the cause and run it again. Words
//! already stored by an interrupted STM or STRD are stored again then.
//!
//! Source: ARM ARM (DDI 0100), each file naming its sections. Stalls follow the ARM9EJ-S.
//!
//! Absent on purpose: privileged modes and instructions (the kernel here is Rust), any cache of
//! decoded instructions (every word executed comes from [`Bus::fetch`], which is the point of the
//! machine), big-endian data, Jazelle, Thumb-2 and floating point.

mod alu;
mod arm;
mod core;
mod exit;
mod regs;
#[cfg(test)]
mod tests;
mod thumb;

pub use self::exit::Exit;
pub use self::regs::{Arch, EXCLUSIVE_BYTES, Regs};

use self::core::Core;
use self::exit::{Flow, Outcome, Stop, Stopped};

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
    /// Loads some of the words from ascending addresses, `va` on, as so many loads would, and returns how
    /// many: 0 where one by one is as quick.
    fn load_some(&mut self, _va: VirtAddr, _words: &mut [u32]) -> usize {
        0
    }
    /// Stores some of the words to ascending addresses, the same way.
    fn store_some(&mut self, _va: VirtAddr, _words: &[u32]) -> usize {
        0
    }
    /// The instruction takes `cycles` more than its one: a multiply, a taken branch.
    fn stall(&mut self, cycles: u32);
    /// Whether a misaligned access aborts (control register bit A) instead of rotating as ARMv5
    /// does.
    fn alignment_checked(&self) -> bool;
    /// An instruction or data barrier issued in user mode (`mcr p15, 0, rX, c7, ...`): the fetch
    /// buffer is emptied, or the write buffer drained.
    fn barrier(&mut self, instruction_side: bool);
}

/// Executes up to `budget` instructions and returns how many retired and why it stopped.
///
/// `regs` must be as [`Regs`] describes; stray low bits of `r15` are dropped. An instruction whose
/// condition fails retires like any other. A supervisor call retires; whatever else ends a run
/// before its budget does not, and leaves `regs` as if it had not been tried.
pub fn run<B: Bus>(regs: &mut Regs, arch: Arch, bus: &mut B, budget: u64) -> (u64, Exit) {
    let mut core = Core {
        regs,
        bus,
        arch,
        stop: Stop::Undefined,
    };
    let mut pc = core.regs.r[15] & if core.regs.t { !1 } else { !3 };
    let mut left = budget;
    while left != 0 {
        let stretch = if core.regs.t {
            stretch::<B, Thumb>(&mut core, &mut pc, &mut left)
        } else {
            stretch::<B, Arm>(&mut core, &mut pc, &mut left)
        };
        if let Err(exit) = stretch {
            left -= u64::from(matches!(exit, Exit::Svc { .. }));
            return (budget - left, exit);
        }
    }
    core.regs.r[15] = pc;
    (budget, Exit::Budget)
}

/// Executes one instruction: `None` if it retired and execution goes on at `r15`, else what it
/// needs. See [`run`].
pub fn step<B: Bus>(regs: &mut Regs, arch: Arch, bus: &mut B) -> Option<Exit> {
    match run(regs, arch, bus, 1).1 {
        Exit::Budget => None,
        exit => Some(exit),
    }
}

/// One of the two instruction sets.
trait State {
    const WIDTH: Width;
    fn execute<B: Bus>(core: &mut Core<'_, B>, word: u32) -> Outcome;
}

struct Arm;

impl State for Arm {
    const WIDTH: Width = Width::Word;

    #[inline(always)]
    fn execute<B: Bus>(core: &mut Core<'_, B>, word: u32) -> Outcome {
        arm::execute(core, word)
    }
}

struct Thumb;

impl State for Thumb {
    const WIDTH: Width = Width::Half;

    #[inline(always)]
    fn execute<B: Bus>(core: &mut Core<'_, B>, word: u32) -> Outcome {
        thumb::execute(core, word)
    }
}

/// The hot loop: executes until nothing is `left`, the state changes or an instruction ends the
/// run. Reading r15 gives the instruction's address plus two instructions.
#[inline(always)]
fn stretch<B: Bus, S: State>(
    core: &mut Core<'_, B>,
    pc: &mut u32,
    left: &mut u64,
) -> Result<(), Exit> {
    let bytes = S::WIDTH.bytes();
    // Kept in registers: every instruction changes both.
    let (mut at, mut rest) = (*pc, *left);
    let ended = loop {
        if rest == 0 {
            break Ok(());
        }
        let word = match fetch(core, at, S::WIDTH) {
            Ok(word) => word,
            Err(exit) => break Err(exit),
        };
        core.regs.r[15] = at.wrapping_add(2 * bytes);
        match S::execute(core, word) {
            Ok(Flow::Next) => at = at.wrapping_add(bytes),
            Ok(Flow::Jump(target)) => at = target,
            Ok(Flow::Switch(target)) => {
                (at, rest) = (target, rest - 1);
                break Ok(());
            }
            Err(Stopped) => break Err(give_up(core, word, at, bytes)),
        }
        rest -= 1;
    };
    (*pc, *left) = (at, rest);
    ended
}

#[inline(always)]
fn fetch<B: Bus>(core: &mut Core<'_, B>, pc: u32, width: Width) -> Result<u32, Exit> {
    core.bus.fetch(VirtAddr(pc), width).map_err(|abort| {
        core.regs.r[15] = pc;
        Exit::PrefetchAbort(abort)
    })
}

/// The exit for an instruction that did not complete, with `r15` put where [`Exit`] promises.
#[cold]
fn give_up<B: Bus>(core: &mut Core<'_, B>, word: u32, pc: u32, bytes: u32) -> Exit {
    let retired = matches!(core.stop, Stop::Svc(_));
    core.regs.r[15] = if retired { pc.wrapping_add(bytes) } else { pc };
    core.stop.exit(word)
}
