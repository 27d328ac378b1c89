//! Why a program stopped running, and what the kernel does about it.
//!
//! Source: FreeBSD `sys/arm/arm/trap.c` (data_abort_handler, prefetch_abort_handler), `undefined.c`,
//! `syscall.c`. A fault that is resolved restarts its instruction.
//!
//! Absent on purpose: emulation of instructions; an undefined one is a signal.

use machine::{Abort, CpuId, Exit, Fault, Mark};
use vm::{Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::limits::SAME_FAULTS_MAX;
use crate::proc::Pid;
use crate::run::RunEnd;
use crate::signal::{Handler, Signal};
use crate::syscall;

/// Handles the exit of a program's run.
///
/// # Errors
/// `Wait`, `Panic`.
pub fn handle<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, exit: Exit) -> KResult<()> {
    match exit {
        Exit::Svc { comment } => return syscall::enter(ctx, cpu, pid, comment),
        Exit::PrefetchAbort(abort) | Exit::DataAbort(abort) => {
            return fault(ctx, cpu, pid, abort);
        }
        Exit::Undefined { word } => {
            let what = format!("undefined instruction {word:#010x}");
            raise(ctx, cpu, pid, Signal::ILL, None, &what);
        }
        Exit::Unpredictable { word, why } => {
            let what = format!("unpredictable instruction {word:#010x}: {why}");
            raise(ctx, cpu, pid, Signal::ILL, None, &what);
        }
        Exit::Breakpoint => raise(ctx, cpu, pid, Signal::TRAP, None, "breakpoint"),
        Exit::Budget => {}
    }
    Ok(())
}

fn fault<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, abort: Abort) -> KResult<()> {
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.faults += 1;
    if proc.faults > SAME_FAULTS_MAX {
        hang(ctx, cpu, pid, abort);
        return Ok(());
    }
    let result = ctx.vm_trap(cpu, abort, true);
    let errno = match result {
        Err(Stop::Errno(errno)) => errno,
        other => return other,
    };
    let signal = match (abort.fault, errno) {
        (Fault::Alignment | Fault::External, _) | (_, Errno::EIO) => Signal::BUS,
        (_, Errno::ENOMEM) => Signal::KILL,
        _ => Signal::SEGV,
    };
    let what = format!(
        "{:?} of {}: {:?}, {errno:?}",
        abort.access, abort.va, abort.fault
    );
    raise(ctx, cpu, pid, signal, Some(abort), &what);
    Ok(())
}

/// The same instruction faults again and again, though the kernel says each time that all is well.
fn hang<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, abort: Abort) {
    let pc = ctx.user_regs_mut(cpu).pc();
    let name = &ctx.kern().proc(pid).name;
    let why = format!(
        "{pid} {name} at {pc}: {:?} of {} faults without end ({:?})",
        abort.access, abort.va, abort.fault
    );
    ctx.mark(cpu, Mark::Hang(why.clone()));
    ctx.kern_mut().proc_mut(pid).faults = 0;
    ctx.kern_mut().stop = Some(RunEnd::Hang(why));
}

/// Sends a signal that the program brought on itself: one it blocks or ignores kills it.
fn raise<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    signal: Signal,
    abort: Option<Abort>,
    what: &str,
) {
    let pc = ctx.user_regs_mut(cpu).pc();
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.signals.fault = abort.map_or(pc.0, |a| a.va.0);
    let caught = matches!(proc.signals.action(signal).handler, Handler::Catch(_));
    if !caught || proc.signals.mask.contains(signal) {
        proc.signals.action_mut(signal).handler = Handler::Default;
        proc.signals.mask.remove(signal);
        let text = format!("{pid} {}: signal {} at {pc}: {what}", proc.name, signal.0);
        ctx.mark(cpu, Mark::Note(text.clone()));
        ctx.kern_mut().message(text);
    }
    ctx.kern_mut().proc_mut(pid).signals.pending.insert(signal);
}
