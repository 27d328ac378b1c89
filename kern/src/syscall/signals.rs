//! Signals as programs manage them: kill, sigaction, sigprocmask, sigsuspend, sigreturn, ptrace.
//!
//! Source: FreeBSD `sys/kern/kern_sig.c`, Linux `kernel/signal.c`. The families differ in layouts
//! and in the numbers of `how`; both come down to the same record.

use machine::VirtAddr;
use vm::{Channel, Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::Abi;
use crate::proc::Pid;
use crate::sendsig;
use crate::signal::{Action, Handler, SigSet, Signal};
use crate::trace;

use super::{Call, Outcome};

fn word(bytes: &[u8], n: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[4 * n + i]))
}

fn long(bytes: &[u8], n: usize) -> u64 {
    u64::from(word(bytes, n)) | u64::from(word(bytes, n + 1)) << 32
}

/// How a family lays an action out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// handler, flags, 4 words of mask.
    FreeBsd,
    /// handler, one word of mask, flags, restorer.
    LinuxOld,
    /// handler, flags, restorer, 2 words of mask.
    LinuxRt,
}

impl Layout {
    fn bytes(self) -> usize {
        match self {
            Layout::FreeBsd => 24,
            Layout::LinuxOld => 16,
            Layout::LinuxRt => 20,
        }
    }

    fn decode(self, abi: Abi, b: &[u8]) -> Action {
        let (flags, restorer, mask) = match self {
            Layout::FreeBsd => (word(b, 1), 0, long(b, 2)),
            Layout::LinuxOld => (word(b, 2), word(b, 3), u64::from(word(b, 1))),
            Layout::LinuxRt => (word(b, 1), word(b, 2), long(b, 3)),
        };
        Action {
            handler: Handler::from_word(word(b, 0)),
            mask: SigSet::from_bits(abi, mask),
            flags,
            restorer,
        }
    }

    fn encode(self, abi: Abi, action: &Action) -> Vec<u8> {
        let mask = action.mask.bits(abi);
        let (low, high) = (mask as u32, (mask >> 32) as u32);
        let Action {
            flags, restorer, ..
        } = *action;
        let handler = action.handler.word();
        let words = match self {
            Layout::FreeBsd => vec![handler, flags, low, high, 0, 0],
            Layout::LinuxOld => vec![handler, low, flags, restorer],
            Layout::LinuxRt => vec![handler, flags, restorer, low, high],
        };
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

/// sigaction(2): number, new, old.
pub(crate) fn sigaction<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    layout: Layout,
) -> KResult<Outcome> {
    let (number, new, old) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?, call.arg(ctx, 2)?);
    let signal = Signal::from_number(call.abi, number).ok_or(Errno::EINVAL)?;
    if new != 0 && signal.is_absolute() {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = vec![0; layout.bytes()];
    if new != 0 {
        ctx.copyin_bytes(call.cpu, VirtAddr(new), &mut bytes)?;
    }
    if old != 0 {
        let before = *ctx.kern().proc(call.pid).signals.action(signal);
        let bytes = layout.encode(call.abi, &before);
        ctx.copyout_bytes(call.cpu, &bytes, VirtAddr(old))?;
    }
    if new != 0 {
        let action = layout.decode(call.abi, &bytes);
        let signals = &mut ctx.kern_mut().proc_mut(call.pid).signals;
        *signals.action_mut(signal) = action;
        if signals.ignores(signal) {
            signals.pending.remove(signal);
        }
    }
    Ok(0.into())
}

/// sigprocmask(2): how, new, old; a set has `bytes` bytes.
pub(crate) fn sigprocmask<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    bytes: usize,
) -> KResult<Outcome> {
    let (how, new, old) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?, call.arg(ctx, 2)?);
    let before = ctx.kern().proc(call.pid).signals.mask;
    // FreeBSD counts SIG_BLOCK, SIG_UNBLOCK and SIG_SETMASK from 1, Linux from 0.
    let how = if call.abi == Abi::FreeBsd {
        how.wrapping_sub(1)
    } else {
        how
    };
    let mut after = before;
    if new != 0 {
        let set = load_set(ctx, call, new, bytes)?;
        after.0 = match how {
            0 => before.0 | set.0,
            1 => before.0 & !set.0,
            2 => set.0,
            _ => return Err(Errno::EINVAL.into()),
        };
    }
    store_set(ctx, call, before, old, bytes)?;
    ctx.kern_mut().proc_mut(call.pid).signals.mask = after;
    Ok(0.into())
}

/// sigpending(2).
pub(crate) fn sigpending<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    bytes: usize,
) -> KResult<Outcome> {
    let at = call.arg(ctx, 0)?;
    let pending = ctx.kern().proc(call.pid).signals.pending;
    store_set(ctx, call, pending, at, bytes)?;
    Ok(0.into())
}

fn load_set<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    at: u32,
    bytes: usize,
) -> KResult<SigSet> {
    let mut set = vec![0; bytes.max(8)];
    ctx.copyin_bytes(call.cpu, VirtAddr(at), &mut set[..bytes])?;
    Ok(SigSet::from_bits(call.abi, long(&set, 0)))
}

fn store_set<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    set: SigSet,
    at: u32,
    bytes: usize,
) -> KResult<()> {
    if at == 0 {
        return Ok(());
    }
    let mut out = set.bits(call.abi).to_le_bytes().to_vec();
    out.resize(bytes, 0);
    ctx.copyout_bytes(call.cpu, &out, VirtAddr(at))
}

/// sigsuspend(2): waits for a signal under another mask.
pub(crate) fn sigsuspend<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    bytes: usize,
) -> KResult<Outcome> {
    let at = call.arg(ctx, 0)?;
    let set = load_set(ctx, call, at, bytes)?;
    suspend(ctx, call, set)
}

/// Linux's pause(2).
pub(crate) fn pause<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let mask = ctx.kern().proc(call.pid).signals.mask;
    suspend(ctx, call, mask)
}

fn suspend<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, mask: SigSet) -> KResult<Outcome> {
    let proc = ctx.kern_mut().proc_mut(call.pid);
    if proc.suspended.is_none() {
        proc.suspended = Some(proc.signals.mask);
        proc.signals.mask = mask;
    }
    match proc.signals.next() {
        Some(_) => Err(Errno::EINTR.into()),
        None => Err(Stop::Wait(Channel::Other(call.pid.0))),
    }
}

/// kill(2): a process, or with 0, -1 or a negative number every process but none of the kernel's.
pub(crate) fn kill<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (to, number) = (call.arg(ctx, 0)? as i32, call.arg(ctx, 1)?);
    send(ctx, call, to, number)
}

/// Linux's tgkill: group, thread, signal; and tkill without the group.
pub(crate) fn tgkill<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    first: u32,
) -> KResult<Outcome> {
    let (to, number) = (call.arg(ctx, first)? as i32, call.arg(ctx, first + 1)?);
    send(ctx, call, to, number)
}

fn send<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, to: i32, number: u32) -> KResult<Outcome> {
    let receivers: Vec<Pid> = match to > 0 {
        true => vec![Pid(to.unsigned_abs())],
        false => ctx.kern().procs.iter().map(|p| p.pid).collect(),
    };
    if receivers.iter().all(|pid| ctx.kern().find(*pid).is_none()) {
        return Err(Errno::ESRCH.into());
    }
    if number == 0 {
        return Ok(0.into());
    }
    let signal = Signal::from_number(call.abi, number).ok_or(Errno::EINVAL)?;
    for pid in receivers {
        ctx.kern_mut().post_signal(pid, signal);
    }
    Ok(0.into())
}

/// FreeBSD's sigreturn(2).
pub(crate) fn freebsd_return<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "sigreturn");
    let context = VirtAddr(call.arg(ctx, 0)?);
    sendsig::freebsd_return(ctx, call.cpu, call.pid, context)?;
    Ok(Outcome::Set)
}

/// Linux's sigreturn and rt_sigreturn. A bad frame kills.
pub(crate) fn linux_return<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    siginfo: bool,
) -> KResult<Outcome> {
    ctx.charge(call.cpu, "sigreturn");
    match sendsig::linux_return(ctx, call.cpu, call.pid, siginfo) {
        Err(Stop::Errno(_)) => ctx.kern_mut().post_signal(call.pid, Signal::SEGV),
        other => other?,
    }
    Ok(Outcome::Set)
}

/// ptrace(2): request, process, address, data.
pub(crate) fn ptrace<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (request, pid) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    let (address, data) = (VirtAddr(call.arg(ctx, 2)?), call.arg(ctx, 3)?);
    let value = trace::ptrace(ctx, call.cpu, call.pid, request, pid, address, data)?;
    Ok(value.into())
}
