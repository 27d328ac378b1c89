//! Delivery of signals: default actions, frames on the user stack, and the way back.
//!
//! Source: FreeBSD `sys/kern/kern_sig.c` (issignal, postsig), `sys/arm/arm/machdep.c` (sendsig,
//! sys_sigreturn), `sys/arm/include/ucontext.h`; Linux `arch/arm/kernel/signal.c` (setup_frame,
//! setup_rt_frame). FreeBSD returns through sigcode on the stack, Linux through the program's
//! restorer or, without one, the helper page.
//!
//! Absent on purpose: floating-point state, alternate stacks, values of queued signals.

use machine::cpu::Regs;
use machine::{CpuId, VirtAddr};
use vm::{Channel, Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::Abi;
use crate::exit;
use crate::helper;
use crate::proc::{ExitStatus, Pid, Proc, State};
use crate::signal::{Action, DefaultAction, Handler, SigSet, Signal};
use crate::switch::leave;

/// Bytes of FreeBSD's siginfo_t: where the ucontext begins in a frame.
pub const UCONTEXT_OFFSET: u32 = 64;
/// Words of FreeBSD's ucontext_t: mask 4, mcontext 17 + 2 + 33, link, stack 3, flags, spare 4.
const UCONTEXT_WORDS: usize = 4 + 52 + 1 + 3 + 1 + 4;
/// Bytes of Linux's siginfo.
const LINUX_INFO_BYTES: u32 = 128;
/// Words of Linux's ucontext, up to the register space, which stays zero.
const LINUX_CONTEXT_WORDS: usize = 58;
/// Where its r0 is: behind flags, link, stack and three words of the trap.
const LINUX_R0: usize = 8;
/// Where its mask is: behind r0 to r15, cpsr and the fault address.
const LINUX_MASK: usize = LINUX_R0 + 18;
/// Bytes of the whole of it with register space and return code.
const LINUX_CONTEXT_BYTES: u32 = 744 + 16;

/// Delivers what is pending to the process on `cpu`, before it goes back to its program.
///
/// # Errors
/// `Wait` where a page of its stack is on the way; the signal stays pending. `Panic`.
pub fn deliver<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) -> KResult<()> {
    while ctx.kern().running(cpu) == Some(pid) {
        let proc = ctx.kern_mut().proc_mut(pid);
        let passed = proc.passed.take();
        let Some(signal) = passed.or_else(|| proc.signals.next()) else {
            if let Some(mask) = proc.suspended.take_if(|_| proc.pending.is_none()) {
                proc.signals.mask = mask;
            }
            return Ok(());
        };
        proc.signals.pending.remove(signal);
        if proc.traced && passed.is_none() && signal != Signal::KILL {
            stop(ctx, cpu, pid, signal);
            return Ok(());
        }
        let action = *proc.signals.action(signal);
        match action.handler {
            Handler::Ignore => {}
            Handler::Default => default(ctx, cpu, pid, signal),
            Handler::Catch(at) => catch(ctx, cpu, pid, signal, &action, at)?,
        }
    }
    Ok(())
}

fn default<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, signal: Signal) {
    match signal.default_action() {
        DefaultAction::Ignore | DefaultAction::Continue => {}
        DefaultAction::Stop => stop(ctx, cpu, pid, signal),
        DefaultAction::Kill => exit::exit(ctx, cpu, pid, ExitStatus::Killed(signal)),
    }
}

fn stop<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, by: Signal) {
    let reported = false;
    leave(ctx, cpu, State::Stopped { by, reported });
    if let Some(parent) = ctx.kern().proc(pid).parent {
        ctx.kern_mut().post_signal(parent, Signal::CHLD);
        ctx.wakeup(Channel::Child(parent.0));
    }
}

/// Builds a frame and points the program at its handler.
fn catch<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    signal: Signal,
    action: &Action,
    handler: VirtAddr,
) -> KResult<()> {
    ctx.charge(cpu, "sendsig");
    let abi = ctx.kern().proc(pid).abi;
    let entered = match abi {
        Abi::FreeBsd => freebsd_frame(ctx, cpu, pid, signal),
        Abi::Linux => linux_frame(ctx, cpu, pid, signal, action),
    };
    match entered {
        Ok(mut regs) => {
            regs.t = handler.0 & 1 == 1;
            regs.r[15] = handler.0 & if regs.t { !1 } else { !3 };
            *ctx.user_regs_mut(cpu) = regs;
            mask_for_handler(ctx, pid, signal, action);
            Ok(())
        }
        Err(Stop::Errno(_)) => {
            let name = ctx.kern().proc(pid).name.clone();
            let text = format!("{pid} {name}: no stack for signal {}", signal.0);
            ctx.kern_mut().message(text);
            exit::exit(ctx, cpu, pid, ExitStatus::Killed(Signal::ILL));
            Ok(())
        }
        Err(stop) => {
            let proc = ctx.kern_mut().proc_mut(pid);
            proc.signals.pending.insert(signal);
            Err(stop)
        }
    }
}

/// The mask that is in force again when the handler has returned.
fn mask_to_restore(proc: &Proc) -> SigSet {
    proc.suspended.unwrap_or(proc.signals.mask)
}

/// What is blocked while the handler runs, and what happens to the handler.
fn mask_for_handler<C: KernCtx + ?Sized>(ctx: &mut C, pid: Pid, signal: Signal, action: &Action) {
    let abi = ctx.kern().proc(pid).abi;
    let (nodefer, reset) = match abi {
        Abi::FreeBsd => (0x10, 0x4),
        Abi::Linux => (0x4000_0000, 0x8000_0000),
    };
    let proc = ctx.kern_mut().proc_mut(pid);
    if let Some(mask) = proc.suspended.take() {
        proc.signals.mask = mask;
    }
    let signals = &mut proc.signals;
    signals.mask.0 |= action.mask.0;
    if action.flags & nodefer == 0 {
        signals.mask.insert(signal);
    }
    if action.flags & reset != 0 {
        *signals.action_mut(signal) = Action::default();
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn freebsd_frame<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    signal: Signal,
) -> KResult<Regs> {
    let mut regs = *ctx.user_regs_mut(cpu);
    let signals = ctx.kern().proc(pid).signals;
    let sigcode = ctx.kern().proc(pid).sigcode;
    let mut frame = [0; UCONTEXT_OFFSET as usize / 4 + UCONTEXT_WORDS];
    frame[0] = u32::from(signal.0);
    frame[6] = signals.fault;
    let context = &mut frame[UCONTEXT_OFFSET as usize / 4..];
    let mask = mask_to_restore(ctx.kern().proc(pid)).bits(Abi::FreeBsd);
    (context[0], context[1]) = (mask as u32, (mask >> 32) as u32);
    context[4..20].copy_from_slice(&regs.r);
    context[20] = regs.cpsr();
    let sp = regs.r[13].wrapping_sub(4 * frame.len() as u32) & !7;
    ctx.copyout_bytes(cpu, &bytes(&frame), VirtAddr(sp))?;
    regs.r[0] = u32::from(signal.0);
    regs.r[1] = sp;
    regs.r[2] = sp + UCONTEXT_OFFSET;
    regs.r[5] = sp + UCONTEXT_OFFSET;
    regs.r[13] = sp;
    regs.r[14] = sigcode.0;
    Ok(regs)
}

fn linux_frame<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    signal: Signal,
    action: &Action,
) -> KResult<Regs> {
    const SIGINFO: u32 = 4;
    const RESTORER: u32 = 0x0400_0000;
    let mut regs = *ctx.user_regs_mut(cpu);
    let signals = ctx.kern().proc(pid).signals;
    let number = signal.number(Abi::Linux);
    let info_bytes = if action.flags & SIGINFO != 0 {
        LINUX_INFO_BYTES
    } else {
        0
    };
    let sp = regs.r[13].wrapping_sub(info_bytes + LINUX_CONTEXT_BYTES) & !7;
    let context = sp + info_bytes;
    let mut words = [0; LINUX_CONTEXT_WORDS];
    words[0] = 0x5ac3_c35a;
    words[LINUX_R0..LINUX_R0 + 16].copy_from_slice(&regs.r);
    words[LINUX_R0 + 16] = regs.cpsr();
    words[LINUX_R0 + 17] = signals.fault;
    let mask = mask_to_restore(ctx.kern().proc(pid)).bits(Abi::Linux);
    words[7] = mask as u32;
    (words[LINUX_MASK], words[LINUX_MASK + 1]) = (mask as u32, (mask >> 32) as u32);
    if info_bytes > 0 {
        let info = [number, 0, 0, signals.fault];
        ctx.copyout_bytes(cpu, &bytes(&info), VirtAddr(sp))?;
        regs.r[1] = sp;
        regs.r[2] = context;
    }
    ctx.copyout_bytes(cpu, &bytes(&words), VirtAddr(context))?;
    regs.r[0] = number;
    regs.r[13] = sp;
    regs.r[14] = if action.flags & RESTORER != 0 {
        action.restorer
    } else {
        helper::sigreturn_address(info_bytes > 0, regs.t)
    };
    Ok(regs)
}

/// sigreturn(2) of FreeBSD: everything as the ucontext says.
///
/// # Errors
/// `EFAULT`, and `EINVAL` for a status register that user mode may not have; `Wait`.
pub fn freebsd_return<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    context: VirtAddr,
) -> KResult<()> {
    let words = load(ctx, cpu, context, 21)?;
    let mask = u64::from(words[0]) | u64::from(words[1]) << 32;
    restore(
        ctx,
        cpu,
        pid,
        &words[4..20],
        words[20],
        SigSet::from_bits(Abi::FreeBsd, mask),
    )
}

/// sigreturn and rt_sigreturn of Linux: the frame is at the stack pointer.
///
/// # Errors
/// As [`freebsd_return`].
pub fn linux_return<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    siginfo: bool,
) -> KResult<()> {
    let sp = VirtAddr(ctx.user_regs_mut(cpu).r[13]);
    let context = if siginfo {
        sp.add(LINUX_INFO_BYTES)
    } else {
        sp
    };
    let words = load(ctx, cpu, context, LINUX_MASK + 2)?;
    let mask = u64::from(words[LINUX_MASK]) | u64::from(words[LINUX_MASK + 1]) << 32;
    let mask = SigSet::from_bits(Abi::Linux, mask);
    restore(
        ctx,
        cpu,
        pid,
        &words[LINUX_R0..LINUX_R0 + 16],
        words[LINUX_R0 + 16],
        mask,
    )
}

fn load<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    from: VirtAddr,
    words: usize,
) -> KResult<Vec<u32>> {
    let mut bytes = vec![0; words * 4];
    ctx.copyin_bytes(cpu, from, &mut bytes)?;
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

fn restore<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    registers: &[u32],
    psr: u32,
    mask: SigSet,
) -> KResult<()> {
    const MODE: u32 = 0x1f;
    const USER: u32 = 0x10;
    if psr & MODE != USER {
        return Err(Errno::EINVAL.into());
    }
    let regs = ctx.user_regs_mut(cpu);
    regs.r.copy_from_slice(registers);
    regs.set_flags(psr);
    regs.t = psr & 0x20 != 0;
    regs.r[15] &= if regs.t { !1 } else { !3 };
    regs.exclusive = None;
    ctx.kern_mut().proc_mut(pid).signals.mask = mask;
    Ok(())
}
