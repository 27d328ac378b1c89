//! Processes: fork, exec, exit, wait, and who one is.
//!
//! Source: FreeBSD `sys/kern/kern_fork.c`, `kern_exec.c`, `kern_exit.c`, `kern_prot.c`.

use machine::VirtAddr;
use vm::{Errno, KResult, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::Abi;
use crate::exec::{self, Failure, Request};
use crate::exit;
use crate::fork;
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::proc::ExitStatus;

use super::{Call, Outcome, names};

/// exit(2), and exit_group: there is one thread.
pub(crate) fn exit_call<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let code = call.arg(ctx, 0)? as u8;
    exit::exit(ctx, call.cpu, call.pid, ExitStatus::Exited(code));
    Ok(Outcome::Set)
}

/// fork(2) and vfork(2).
pub(crate) fn fork_call<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "fork");
    Ok(fork::fork(ctx, call.cpu, call.pid, None)?.0.into())
}

/// Linux's clone(2), as far as it is a fork: a new process with memory of its own.
pub(crate) fn clone_call<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    const THREAD: u32 = 0x1_0000;
    const CHILD_SETTID: u32 = 0x0100_0000;
    ctx.charge(call.cpu, "fork");
    let (flags, stack) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    if flags & THREAD != 0 {
        return Err(Errno::EINVAL.into());
    }
    let stack = (stack != 0).then_some(VirtAddr(stack));
    let tid = VirtAddr(call.arg(ctx, 4)?);
    let child = fork::fork(ctx, call.cpu, call.pid, stack)?;
    if flags & CHILD_SETTID != 0 {
        ctx.kern_mut().proc_mut(child).store_pid = Some(tid);
    }
    Ok(child.0.into())
}

/// wait4(2): process, where the status goes, options.
pub(crate) fn wait4<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "wait4");
    let (wanted, at) = (call.arg(ctx, 0)? as i32, VirtAddr(call.arg(ctx, 1)?));
    let options = call.arg(ctx, 2)?;
    let waited = exit::wait(ctx, call.pid, wanted, options)?;
    if waited.pid != 0 && at.0 != 0 {
        ctx.copyout_bytes(call.cpu, &waited.status.to_le_bytes(), at)?;
    }
    exit::reap(ctx, waited);
    Ok(waited.pid.into())
}

/// execve(2).
pub(crate) fn execve<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let mut path = names::path(ctx, call, 0)?;
    if call.abi == Abi::Linux && path == "/proc/self/exe" {
        path = ctx.kern().proc(call.pid).name.clone();
    }
    let mut left = ARGUMENT_BYTES_MAX;
    let args = strings(ctx, call, 1, &mut left)?;
    let environment = strings(ctx, call, 2, &mut left)?;
    let request = Request {
        path,
        args,
        environment,
    };
    match exec::exec(ctx, call.cpu, call.pid, &request) {
        Ok(()) => Ok(Outcome::Set),
        Err(Failure::Stop(stop)) => Err(stop),
        Err(Failure::Error(crate::elf::ExecError::Memory)) => {
            // The old image is gone.
            let killed = ExitStatus::Killed(crate::signal::Signal::KILL);
            exit::exit(ctx, call.cpu, call.pid, killed);
            Ok(Outcome::Set)
        }
        Err(Failure::Error(error)) => Err(error.errno().into()),
    }
}

/// A vector of strings, ended by a null pointer; a null vector is empty.
fn strings<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    n: u32,
    left: &mut u32,
) -> KResult<Vec<Vec<u8>>> {
    let mut at = VirtAddr(call.arg(ctx, n)?);
    let mut out = Vec::new();
    while at.0 != 0 {
        let mut word = [0; 4];
        ctx.copyin_bytes(call.cpu, at, &mut word)?;
        let string = VirtAddr(u32::from_le_bytes(word));
        if string.0 == 0 {
            break;
        }
        let text = match ctx.copyinstr(call.cpu, string, *left) {
            Err(vm::Stop::Errno(Errno::ENAMETOOLONG)) => return Err(Errno::E2BIG.into()),
            other => other?,
        };
        // Its end and its pointer count too.
        let bytes = text.len() as u32 + 5;
        *left = left.checked_sub(bytes).ok_or(Errno::E2BIG)?;
        out.push(text);
        at = at.add(4);
    }
    Ok(out)
}

/// getpid(2).
pub(crate) fn getpid<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let parent = ctx.kern().proc(call.pid).parent.map_or(1, |p| p.0);
    // FreeBSD's kernel leaves the parent in r1, for the benefit of getppid of old.
    Ok(Outcome::Value(call.pid.0, parent))
}

/// getppid(2).
pub(crate) fn getppid<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    Ok(ctx.kern().proc(call.pid).parent.map_or(1, |p| p.0).into())
}

/// A call that succeeds and does nothing here.
pub(crate) fn nothing<C: KernCtx + ?Sized>(_: &mut C, _: &Call) -> KResult<Outcome> {
    Ok(0.into())
}
