//! fork: a child with its parent's descriptors, handlers and, copy-on-write, memory.
//!
//! Source: FreeBSD `sys/kern/kern_fork.c` (fork1), `sys/arm/arm/vm_machdep.c` (cpu_fork): the child
//! returns 0 with the carry clear. vfork and clone are fork here; the child gets a space of its own.
//!
//! Absent on purpose: rfork's sharing, threads.

use machine::{CpuId, Mark, VirtAddr};
use vm::{Errno, KResult, VmVerbs};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::proc::{Pid, State};
use crate::signal::SigSet;

/// Makes a child of the process on `cpu`; `stack` replaces its stack pointer.
///
/// # Errors
/// `EAGAIN` when the table is full, `ENOMEM`.
pub fn fork<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    parent: Pid,
    stack: Option<VirtAddr>,
) -> KResult<Pid> {
    let space = ctx.kern().proc(parent).vmspace.ok_or(Errno::ESRCH)?;
    let pid = ctx.kern_mut().new_pid().ok_or(Errno::EAGAIN)?;
    let mut regs = *ctx.user_regs_mut(cpu);
    let vmspace = ctx.vmspace_fork(cpu, space)?;
    regs.r[0] = 0;
    if ctx.kern().proc(parent).abi == crate::elf::Abi::FreeBsd {
        regs.r[1] = 0;
        regs.set_carry(false);
    }
    regs.exclusive = None;
    if let Some(sp) = stack {
        regs.r[13] = sp.0;
    }
    let mut child = ctx.kern().proc(parent).clone();
    child.pid = pid;
    child.parent = Some(parent);
    child.state = State::Runnable;
    child.vmspace = Some(vmspace);
    child.regs = regs;
    child.signals.pending = SigSet::default();
    child.pending = None;
    child.traced = false;
    child.store_pid = None;
    child.passed = None;
    child.suspended = None;
    ctx.kern_mut().procs.push(child);
    descriptor::share_all(ctx, pid);
    ctx.mark(cpu, Mark::Note(format!("{parent} forks {pid}")));
    Ok(pid)
}
