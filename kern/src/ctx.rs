//! The kernel's context: what its verbs need around them, and the verbs themselves.

use machine::cpu::Regs;
use machine::{CpuId, Exit, Frame, VirtAddr};
use pmap::{PmapVerbs, Prot};
use vfs_sim::VfsCtx;

use crate::elf::ExecError;
use crate::kern::Kern;
use crate::limits::Limits;
use crate::proc::Pid;
use crate::run::RunEnd;

/// A world with processes.
pub trait KernCtx: VfsCtx {
    /// The kernel's state.
    fn kern(&self) -> &Kern;
    /// The kernel's state, to change.
    fn kern_mut(&mut self) -> &mut Kern;
    /// Runs the program whose registers the CPU holds, for up to `budget` instructions. Returns how
    /// many retired, and why it stopped.
    fn run_user(&mut self, cpu: CpuId, budget: u64) -> (u64, Exit);
    /// The CPU's user registers, to save, load and change.
    fn user_regs_mut(&mut self, cpu: CpuId) -> &mut Regs;
    /// Maps a page at a kernel address so that user programs may use it as `prot` says and the
    /// kernel may store into it (pmap_kenter_user).
    fn map_user_page(&mut self, cpu: CpuId, va: VirtAddr, frame: Frame, prot: Prot) {
        self.pmap_kenter_user(cpu, va, frame, prot);
    }
}

/// What the layers above ask of the kernel.
pub trait KernVerbs: KernCtx {
    /// A new process without a parent that executes `path`; its standard descriptors are the
    /// captured ones. It becomes the current process of `cpu`.
    ///
    /// # Errors
    /// Why the file cannot be executed, or that a table is full.
    fn spawn(
        &mut self,
        cpu: CpuId,
        path: &str,
        args: &[&str],
        environment: &[&str],
    ) -> Result<Pid, ExecError> {
        crate::spawn::spawn(self, cpu, path, args, environment)
    }

    /// Runs processes and kernel threads on `cpu` until a budget is used up or none is left.
    fn run(&mut self, cpu: CpuId, limits: Limits) -> RunEnd {
        crate::run::run(self, cpu, limits)
    }

    /// Sends a signal, as kill(2) does.
    fn signal(&mut self, pid: Pid, signal: crate::signal::Signal) {
        self.kern_mut().post_signal(pid, signal);
    }

    /// Ends a process at once, whatever it is doing on whichever CPU; its space is freed from `cpu`.
    fn terminate(&mut self, cpu: CpuId, pid: Pid, status: crate::proc::ExitStatus) {
        crate::exit::exit(self, cpu, pid, status);
    }

    /// Switches `cpu` to a process, or to a kernel thread.
    fn switch_to(&mut self, cpu: CpuId, to: crate::switch::Target) {
        crate::switch::switch_to(self, cpu, to);
    }

    /// One round of a kernel thread, with the switches to it; the CPU is left in its context.
    ///
    /// # Errors
    /// The kernel's panic.
    fn run_thread(&mut self, cpu: CpuId, thread: crate::kthread::Thread) -> vm::KResult<()> {
        crate::kthread::run_thread(self, cpu, thread)
    }

    /// Writes bytes into another process's memory, as ptrace(2) does.
    ///
    /// # Errors
    /// `EFAULT`; `Wait`.
    fn poke(&mut self, cpu: CpuId, pid: Pid, va: machine::VirtAddr, word: u32) -> vm::KResult<()> {
        crate::trace::poke(self, cpu, pid, va, word)
    }
}

impl<C: KernCtx + ?Sized> KernVerbs for C {}
