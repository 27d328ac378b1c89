//! Processes: the record that the kernel keeps of each.
//!
//! Source: FreeBSD `sys/sys/proc.h`, cut to one thread a process. A sleeping process sleeps inside
//! the kernel: what it asked for is kept in `pending` and asked again after the wakeup, from the
//! progress that the kernel's objects and `moved` hold.
//!
//! Absent on purpose: terminals, users, priorities, threads.

use machine::cpu::Regs;
use machine::{CpuId, VirtAddr};
use vm::{Channel, VmspaceId};

use crate::elf::Abi;
use crate::file::Descriptors;
use crate::signal::{SigSet, Signal, Signals};

/// A process's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pid(pub u32);

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExitStatus {
    /// By itself.
    Exited(u8),
    /// By a signal.
    Killed(Signal),
}

impl ExitStatus {
    /// As wait4 reports it to a program of this family.
    pub fn wait_word(self, abi: Abi) -> u32 {
        match self {
            ExitStatus::Exited(code) => u32::from(code) << 8,
            ExitStatus::Killed(signal) => signal.number(abi),
        }
    }

    /// As a shell would say it: the code, or 128 plus the signal's FreeBSD number.
    pub fn code(self) -> u32 {
        match self {
            ExitStatus::Exited(code) => u32::from(code),
            ExitStatus::Killed(signal) => 128 + u32::from(signal.0),
        }
    }
}

/// What a process is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Wants a CPU.
    Runnable,
    /// Has one.
    Running(CpuId),
    /// Waits in the kernel.
    Sleeping(Channel),
    /// Stopped by a signal or its tracer; whether the parent has been told.
    Stopped {
        /// By what.
        by: Signal,
        /// wait4 has reported it.
        reported: bool,
    },
    /// Ended, not waited for.
    Zombie(ExitStatus),
}

/// A system call under way: what the trap said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pending {
    /// The supervisor call's comment field.
    pub comment: u32,
    /// It sleeps for another process, so that a signal may end it; sleeps for the disk end by
    /// themselves.
    pub interruptible: bool,
}

/// One process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proc {
    /// Its number.
    pub pid: Pid,
    /// Who waits for it; nobody if it was spawned from outside or its parent is gone.
    pub parent: Option<Pid>,
    /// What it is doing.
    pub state: State,
    /// Its family.
    pub abi: Abi,
    /// The path of its image.
    pub name: String,
    /// Its map; none once it is a zombie.
    pub vmspace: Option<VmspaceId>,
    /// User registers while it is on no CPU.
    pub regs: Regs,
    /// Thread pointer (ARM_SET_TP, set_tls).
    pub tls: u32,
    /// Descriptors.
    pub files: Descriptors,
    /// Working directory, absolute.
    pub cwd: String,
    /// Signals.
    pub signals: Signals,
    /// A system call that slept and is to be made again.
    pub pending: Option<Pending>,
    /// Bytes that its pending read or write has moved.
    pub moved: u32,
    /// Start of the heap (break, brk).
    pub heap_start: VirtAddr,
    /// End of the heap.
    pub heap_end: VirtAddr,
    /// Where sigcode was copied.
    pub sigcode: VirtAddr,
    /// Where its first turn stores its number (clone's CHILD_SETTID).
    pub store_pid: Option<VirtAddr>,
    /// Its parent traces it.
    pub traced: bool,
    /// The mask to put back when a sigsuspend ends.
    pub suspended: Option<SigSet>,
    /// A signal that its tracer lets pass.
    pub passed: Option<Signal>,
    /// How often in a row it faulted without executing anything.
    pub faults: u32,
}

impl State {
    /// Whether a signal ends this sleep.
    pub fn is_interruptible(self) -> bool {
        use Channel::{Child, Other, Pipe};
        matches!(self, State::Sleeping(Child(_) | Pipe(_) | Other(_)))
    }
}

impl Proc {
    /// Whether it could run, be woken or be continued.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Zombie(_))
    }
}
