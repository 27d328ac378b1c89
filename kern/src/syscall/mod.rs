//! System calls: from a trap to a service and back.
//!
//! Two tables, FreeBSD's and Linux's, over the same services. A family's convention (where the number
//! and the arguments are, how results and errors return) is here; what a call does is in the files
//! beside, free of conventions.
//!
//! Source: FreeBSD `sys/arm/arm/trap.c` and `syscall.c`, Linux `arch/arm/kernel/entry-common.S`;
//! `guest-and-crates.md` 6.
//!
//! A call that must sleep unwinds; registers are untouched, so it is made again by [`again`] from
//! what `Proc::moved` says. A signal ends it early: [`interrupt`].

pub mod files;
mod freebsd;
mod linux;
mod linux_misc;
pub mod memory;
pub mod names;
pub mod process;
pub mod signals;
pub mod stat;
pub mod time;
pub mod transfer;

use machine::{CpuId, Mark, VirtAddr};
use vm::{Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::Abi;
use crate::errno;
use crate::proc::{Pending, Pid};
use crate::signal::{Handler, Signal};

/// What a system call that did not fail leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Results for r0 and r1.
    Value(u32, u32),
    /// The registers are as they should be (exec, sigreturn), or nobody is there to see them (exit).
    Set,
}

impl From<u32> for Outcome {
    fn from(value: u32) -> Self {
        Outcome::Value(value, 0)
    }
}

/// One call: who made it, and where its arguments are.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// On which CPU.
    pub cpu: CpuId,
    /// Who.
    pub pid: Pid,
    /// The family.
    pub abi: Abi,
    /// Its number.
    pub number: u32,
    /// r0 to r6 at the trap.
    registers: [u32; 7],
    /// The stack pointer at the trap.
    sp: u32,
    /// Arguments passed over by syscall (1) or __syscall (2).
    shift: u32,
}

impl Call {
    /// The `n`th argument word, from 0.
    ///
    /// # Errors
    /// `EFAULT` for one on a bad stack; `Wait`.
    pub fn arg<C: KernCtx + ?Sized>(&self, ctx: &mut C, n: u32) -> KResult<u32> {
        let n = n + self.shift;
        let in_registers = if self.abi == Abi::Linux { 7 } else { 4 };
        if n < in_registers {
            return Ok(self.registers[n as usize]);
        }
        let mut word = [0; 4];
        let at = VirtAddr(self.sp.wrapping_add(4 * (n - in_registers)));
        ctx.copyin_bytes(self.cpu, at, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// The same call with another argument in a register.
    pub(crate) fn set_arg(&mut self, n: usize, word: u32) {
        self.registers[n] = word;
    }

    /// Two argument words from `n` on as one number.
    ///
    /// # Errors
    /// As [`Call::arg`].
    pub fn long<C: KernCtx + ?Sized>(&self, ctx: &mut C, n: u32) -> KResult<u64> {
        let low = self.arg(ctx, n)?;
        Ok(u64::from(low) | u64::from(self.arg(ctx, n + 1)?) << 32)
    }
}

/// A service as a table names it.
pub(crate) type Service<C> = fn(&mut C, &Call) -> KResult<Outcome>;

/// A program made a system call.
///
/// # Errors
/// `Wait`, `Panic`.
pub fn enter<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, comment: u32) -> KResult<()> {
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.moved = 0;
    ctx.charge(cpu, "syscall");
    let pending = Pending {
        comment,
        interruptible: false,
    };
    again(ctx, cpu, pid, pending)
}

/// Makes a call that slept again; or makes it.
///
/// # Errors
/// `Wait`: it sleeps. `Panic`.
pub fn again<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    pending: Pending,
) -> KResult<()> {
    let call = decode(ctx, cpu, pid, pending);
    let service = match call.abi {
        Abi::FreeBsd => freebsd::service(call.number),
        Abi::Linux => linux::service(call.number),
    };
    let Some((name, service)) = service else {
        unknown(ctx, &call);
        finish(ctx, &call, Err(Errno::ENOSYS));
        return Ok(());
    };
    let _span = tracing::debug_span!("syscall", name, pid = pid.0).entered();
    ctx.kern_mut().proc_mut(pid).pending = Some(pending);
    ctx.mark(cpu, Mark::Begin(name));
    let result = service(ctx, &call);
    ctx.mark(cpu, Mark::End);
    match result {
        Err(Stop::Errno(errno)) => finish(ctx, &call, Err(errno)),
        Err(stop) => return Err(stop),
        Ok(outcome) => finish(ctx, &call, Ok(outcome)),
    }
    Ok(())
}

fn unknown<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) {
    let text = format!(
        "{}: {:?} system call {} does not exist",
        call.pid, call.abi, call.number
    );
    if !ctx.kern().messages.contains(&text) {
        ctx.kern_mut().message(text);
    }
}

/// Number and arguments, by the family's convention.
fn decode<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, pending: Pending) -> Call {
    const OLD_LINUX: u32 = 0x90_0000;
    let abi = ctx.kern().proc(pid).abi;
    let regs = *ctx.user_regs_mut(cpu);
    let mut call = Call {
        cpu,
        pid,
        abi,
        number: regs.r[7],
        registers: std::array::from_fn(|n| regs.r[n]),
        sp: regs.r[13],
        shift: 0,
    };
    if pending.comment != 0 && !regs.t {
        call.number = match abi {
            Abi::FreeBsd => pending.comment,
            Abi::Linux => pending.comment.wrapping_sub(OLD_LINUX),
        };
    }
    let words = match (abi, call.number) {
        (Abi::FreeBsd, 0) => 1,
        (Abi::FreeBsd, 198) => 2,
        _ => 0,
    };
    if words > 0 {
        call.number = regs.r[0];
        call.shift = words;
    }
    call
}

/// Hands the result back, unless the caller is gone.
fn finish<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, result: Result<Outcome, Errno>) {
    if ctx.kern().running(call.cpu) != Some(call.pid) {
        return;
    }
    let proc = ctx.kern_mut().proc_mut(call.pid);
    proc.pending = None;
    let regs = ctx.user_regs_mut(call.cpu);
    match (result, call.abi) {
        (Ok(Outcome::Set), _) => {}
        (Ok(Outcome::Value(r0, r1)), Abi::FreeBsd) => {
            (regs.r[0], regs.r[1]) = (r0, r1);
            regs.set_carry(false);
        }
        (Ok(Outcome::Value(r0, _)), Abi::Linux) => regs.r[0] = r0,
        (Err(errno), Abi::FreeBsd) => {
            regs.r[0] = errno.number().unsigned_abs();
            regs.set_carry(true);
        }
        (Err(errno), Abi::Linux) => regs.r[0] = errno::linux(errno).wrapping_neg(),
    }
}

/// A signal arrives while a call sleeps: what it moved so far is its result; without any it is made
/// again from the program after the handler, or fails with EINTR where the handler wants that.
pub fn interrupt<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    pending: Pending,
    signal: Signal,
) {
    let call = decode(ctx, cpu, pid, pending);
    let proc = ctx.kern().proc(pid);
    let restart_flag = match call.abi {
        Abi::FreeBsd => 0x2,
        Abi::Linux => 0x1000_0000,
    };
    let action = proc.signals.action(signal);
    let caught = matches!(action.handler, Handler::Catch(_)) && !proc.traced;
    let moved = proc.moved;
    if proc.suspended.is_some() {
        finish(ctx, &call, Err(Errno::EINTR));
    } else if moved > 0 {
        finish(ctx, &call, Ok(moved.into()));
    } else if caught && action.flags & restart_flag == 0 {
        finish(ctx, &call, Err(Errno::EINTR));
    } else {
        let proc = ctx.kern_mut().proc_mut(pid);
        proc.pending = None;
        let regs = ctx.user_regs_mut(cpu);
        regs.r[15] = regs.r[15].wrapping_sub(if regs.t { 2 } else { 4 });
    }
}
