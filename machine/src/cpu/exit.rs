//! How a run of instructions ends, and why a form is UNPREDICTABLE.
//!
//! Source: ARM ARM (DDI 0100), "Exceptions", and the operand restrictions in each instruction's
//! notes.
//!
//! Absent on purpose: reset, IRQ and FIQ. Interrupts are taken between calls of `run`, by whoever
//! calls it. Reserved fields (SBZ, SBO) are not checked: hardware ignores them, and a stale word is
//! the oracle's to report.

use crate::types::Abort;

/// Why [`run`](super::run) returned. Except after `Svc` and `Budget`, `r15` is the address of the
/// instruction named here, no register has changed, and the instruction can be executed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// A supervisor call. It has retired: `r15` is its return address.
    Svc {
        /// The immediate: 24 bits in ARM state, 8 in Thumb state.
        comment: u32,
    },
    /// An instruction this architecture does not define for user mode.
    Undefined {
        /// The word, or in Thumb state the halfword.
        word: u32,
    },
    /// A form whose result the architecture leaves open, and which a program cannot want.
    Unpredictable {
        /// The word, or in Thumb state the halfword.
        word: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The instruction could not be fetched.
    PrefetchAbort(Abort),
    /// A load or store of the instruction failed; earlier stores of an STM or STRD may be done.
    DataAbort(Abort),
    /// A BKPT instruction.
    Breakpoint,
    /// As many instructions as allowed have retired.
    Budget,
}

/// Where execution goes on after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// At the following instruction.
    Next,
    /// At this address, in the same state.
    Jump(u32),
    /// At this address, in the other state; the T bit has changed.
    Switch(u32),
}

/// Why an instruction did not complete: [`Exit`] without the word, which is added at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// See [`Exit::Svc`].
    Svc(u32),
    /// See [`Exit::Undefined`].
    Undefined,
    /// See [`Exit::Unpredictable`].
    Unpredictable(Why),
    /// See [`Exit::DataAbort`].
    Data(Abort),
    /// See [`Exit::Breakpoint`].
    Breakpoint,
}

/// The instruction did not complete; the processor holds the reason. It carries nothing, so that
/// an [`Outcome`] is two machine words and stays in registers through the hot loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stopped;

/// What one instruction comes to.
pub(super) type Outcome = Result<Flow, Stopped>;

impl Stop {
    /// The public form, for the instruction `word`.
    pub(super) fn exit(self, word: u32) -> Exit {
        match self {
            Stop::Svc(comment) => Exit::Svc { comment },
            Stop::Undefined => Exit::Undefined { word },
            Stop::Unpredictable(why) => Exit::Unpredictable {
                word,
                why: why.text(),
            },
            Stop::Data(abort) => Exit::DataAbort(abort),
            Stop::Breakpoint => Exit::Breakpoint,
        }
    }
}

/// The UNPREDICTABLE forms that are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// Data processing with S and r15 as destination.
    NoSpsr,
    /// MRS or MSR of the SPSR.
    Spsr,
    /// r15 as an operand or result that may not be r15.
    PcOperand,
    /// A branch whose target has bits 1:0 = 10, or in ARM state without interworking any of them.
    PcTarget,
    /// Write-back to r15 or to a register that is also loaded or stored.
    BaseWriteback,
    /// Write-back with the offset in the base register.
    OffsetIsBase,
    /// Two operands that must be different registers.
    Overlap,
    /// LDM or STM with the S bit.
    UserBank,
    /// LDM or STM of no register.
    EmptyList,
    /// A misaligned halfword or doubleword where alignment is not checked.
    Misaligned,
    /// A combination of bits without meaning.
    Encoding,
}

impl Why {
    fn text(self) -> &'static str {
        match self {
            Why::NoSpsr => "writes r15 and restores the SPSR, which user mode does not have",
            Why::Spsr => "names the SPSR, which user mode does not have",
            Why::PcOperand => "r15 where the instruction does not allow it",
            Why::PcTarget => "branches to an address that is aligned for neither state",
            Why::BaseWriteback => "writes back to r15 or to a register that is transferred",
            Why::OffsetIsBase => "writes back to a base that is also the offset",
            Why::Overlap => "names one register where two must differ",
            Why::UserBank => "transfers the user bank in user mode",
            Why::EmptyList => "transfers no register",
            Why::Misaligned => "misaligned halfword or doubleword, and alignment is not checked",
            Why::Encoding => "combines bits that have no meaning together",
        }
    }
}
