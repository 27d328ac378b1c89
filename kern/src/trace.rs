//! ptrace: a parent looks into and writes a stopped child's memory.
//!
//! Source: FreeBSD `sys/kern/sys_process.c` (kern_ptrace, proc_rwmem): the page is faulted in and
//! held, mapped at a kernel address and stored to there. That the new word can be executed is the
//! policy's business, told by the poke (vm_sync_icache is empty on these CPUs).
//!
//! Absent on purpose: attaching, registers, single step.

use machine::{Access, CpuId, VirtAddr, Width};
use pmap::{KernelUse, PmapVerbs};
use vfs_sim::VfsVerbs;
use vm::{Errno, KResult, VmVerbs};

use crate::ctx::KernCtx;
use crate::proc::{Pid, State};
use crate::signal::Signal;

/// Stores a word into a process's memory, privately to it.
///
/// # Errors
/// `EFAULT`; `Wait`.
pub fn poke<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    va: VirtAddr,
    word: u32,
) -> KResult<()> {
    with_word(ctx, cpu, pid, va, Access::Store, |ctx, kva| {
        ctx.kernel_will(cpu, KernelUse::Poke, kva, 4);
        let result = ctx.kernel_store(cpu, kva, Width::Word, word);
        ctx.kernel_did(cpu, KernelUse::Poke, kva, 4);
        result
    })
}

/// Loads a word of a process's memory.
///
/// # Errors
/// As [`poke`].
pub fn peek<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, va: VirtAddr) -> KResult<u32> {
    with_word(ctx, cpu, pid, va, Access::Load, |ctx, kva| {
        ctx.kernel_will(cpu, KernelUse::Read, kva, 4);
        let result = ctx.kernel_load(cpu, kva, Width::Word);
        ctx.kernel_did(cpu, KernelUse::Read, kva, 4);
        result
    })
}

fn with_word<C: KernCtx + ?Sized, T>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    va: VirtAddr,
    access: Access,
    work: impl FnOnce(&mut C, VirtAddr) -> KResult<T>,
) -> KResult<T> {
    if !va.0.is_multiple_of(4) {
        return Err(Errno::EINVAL.into());
    }
    let space = ctx
        .kern()
        .find(pid)
        .and_then(|p| p.vmspace)
        .ok_or(Errno::ESRCH)?;
    ctx.charge(cpu, "proc_rwmem");
    let frame = ctx.vm_fault_hold(cpu, space, va, access)?;
    let result = match ctx.sf_buf_alloc(cpu, frame) {
        Ok(kva) => {
            let offset = va.0 & (ctx.hw().page_bytes() - 1);
            let result = work(ctx, kva.add(offset));
            ctx.sf_buf_free(cpu, kva);
            result
        }
        Err(stop) => Err(stop),
    };
    ctx.vm_page_unwire(frame);
    result
}

/// ptrace(2), FreeBSD's requests. Returns the word that a read gives.
///
/// # Errors
/// `ESRCH`, `EBUSY` where the child is not stopped, `EINVAL`, `EPERM`; those of the memory access.
pub fn ptrace<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    caller: Pid,
    request: u32,
    pid: u32,
    address: VirtAddr,
    data: u32,
) -> KResult<u32> {
    if request == 0 {
        ctx.kern_mut().proc_mut(caller).traced = true;
        return Ok(0);
    }
    let pid = Pid(pid);
    let child = ctx.kern().find(pid).ok_or(Errno::ESRCH)?;
    if child.parent != Some(caller) || !child.traced {
        return Err(Errno::EPERM.into());
    }
    if !matches!(child.state, State::Stopped { .. }) {
        return Err(Errno::EBUSY.into());
    }
    match request {
        1 | 2 => peek(ctx, cpu, pid, address),
        4 | 5 => poke(ctx, cpu, pid, address, data).map(|()| 0),
        7 => go_on(ctx, pid, address, data),
        8 => {
            ctx.kern_mut().post_signal(pid, Signal::KILL);
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// PT_CONTINUE: at an address, or with 1 where it stopped; `data` is a signal to deliver.
fn go_on<C: KernCtx + ?Sized>(ctx: &mut C, pid: Pid, at: VirtAddr, data: u32) -> KResult<u32> {
    let abi = ctx.kern().proc(pid).abi;
    let signal = match data {
        0 => None,
        n => Some(Signal::from_number(abi, n).ok_or(Errno::EINVAL)?),
    };
    let proc = ctx.kern_mut().proc_mut(pid);
    if at.0 != 1 {
        proc.regs.r[15] = at.0 & !1;
    }
    proc.passed = signal;
    proc.state = State::Runnable;
    Ok(0)
}
