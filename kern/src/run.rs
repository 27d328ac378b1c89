//! The run loop: who has a CPU, until a budget is used up or nobody is left.
//!
//! One turn: switch, finish a system call that slept, deliver signals, run the program, handle what
//! stopped it. Everything is restartable: whoever sleeps leaves its CPU and is taken up again where
//! it was.
//!
//! Absent on purpose: time; see [`crate::sched`].

use machine::{CpuId, Exit, Mark, Step};
use vfs_sim::VfsVerbs;
use vm::{KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::kern::STDIN;
use crate::kthread::{Thread, run_thread};
use crate::limits::Limits;
use crate::proc::{Pid, State};
use crate::sched::Turn;
use crate::switch::{Target, leave, switch_to};
use crate::syscall;
use crate::{sendsig, trap};

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Every process has ended.
    Exited,
    /// The instruction budget is used up.
    Instructions,
    /// The trap budget is used up.
    Traps,
    /// Programs wrote more than the run may capture.
    Output {
        /// The quota, bytes.
        max: u32,
    },
    /// Everybody waits, and somebody for descriptor 0, which is open: see [`crate::Kern::feed`].
    Input,
    /// Everybody waits, and nothing is under way that could wake anyone.
    Asleep(String),
    /// A fault without end.
    Hang(String),
    /// The kernel panicked.
    Panic(String),
}

impl std::fmt::Display for RunEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunEnd::Exited => write!(f, "all processes have ended"),
            RunEnd::Instructions => write!(f, "the instruction budget is used up"),
            RunEnd::Traps => write!(f, "the budget of system calls and faults is used up"),
            RunEnd::Output { max } => write!(f, "more than {max} bytes of output"),
            RunEnd::Input => write!(f, "a program waits for its standard input"),
            RunEnd::Asleep(who) => write!(f, "every process waits: {who}"),
            RunEnd::Hang(why) => write!(f, "hang: {why}"),
            RunEnd::Panic(why) => write!(f, "panic: {why}"),
        }
    }
}

/// What is left of a run's limits.
struct Left {
    instructions: u64,
    traps: u64,
}

/// See [`crate::KernVerbs::run`].
pub fn run<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, limits: Limits) -> RunEnd {
    let mut left = Left {
        instructions: limits.instructions,
        traps: limits.traps,
    };
    loop {
        if let Some(end) = ctx.kern_mut().stop.take() {
            return end;
        }
        if left.instructions == 0 {
            return RunEnd::Instructions;
        }
        if left.traps == 0 {
            return RunEnd::Traps;
        }
        let result = match ctx.kern_mut().next_turn(cpu) {
            Some(Turn::Thread(thread)) => run_thread(ctx, cpu, thread),
            Some(Turn::Proc(pid, quantum)) => turn(ctx, cpu, pid, quantum, &mut left),
            None => match idle(ctx, cpu) {
                Ok(Some(end)) => return end,
                other => other.map(|_| ()),
            },
        };
        if let Err(Stop::Panic(why)) = result {
            return RunEnd::Panic(why);
        }
    }
}

/// Nobody can run: the disk's work may wake somebody, or a daemon's.
fn idle<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) -> KResult<Option<RunEnd>> {
    let alive = ctx.kern().procs.iter().any(|p| p.is_alive());
    if !alive {
        return Ok(Some(RunEnd::Exited));
    }
    let elsewhere = ctx
        .kern()
        .procs
        .iter()
        .any(|p| matches!(p.state, State::Running(_)));
    if elsewhere {
        return Ok(Some(RunEnd::Asleep(
            "the others run on other CPUs".to_owned(),
        )));
    }
    switch_to(ctx, cpu, Target::Idle);
    if ctx.disk_interrupt(cpu)? {
        return Ok(None);
    }
    run_thread(ctx, cpu, Thread::Bufdaemon)?;
    run_thread(ctx, cpu, Thread::Pagedaemon)?;
    let awake = ctx.kern().procs.iter().any(|p| p.state == State::Runnable);
    if awake || ctx.disk_interrupt(cpu)? {
        return Ok(None);
    }
    let reader = |p: &crate::proc::Proc| p.state == State::Sleeping(STDIN);
    if ctx.kern().stdin_open && ctx.kern().procs.iter().any(reader) {
        return Ok(Some(RunEnd::Input));
    }
    let who: Vec<String> = (ctx.kern().procs.iter())
        .filter(|p| p.is_alive())
        .map(|p| format!("{} {}: {:?}", p.pid, p.name, p.state))
        .collect();
    Ok(Some(RunEnd::Asleep(who.join(", "))))
}

/// One process's turn.
fn turn<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    quantum: u64,
    left: &mut Left,
) -> KResult<()> {
    switch_to(ctx, cpu, Target::Proc(pid));
    let mut quantum = quantum.max(1);
    while quantum > 0 && left.instructions > 0 && left.traps > 0 && ctx.kern().stop.is_none() {
        let resumed = resume(ctx, cpu, pid);
        asleep(ctx, cpu, resumed)?;
        if ctx.kern().running(cpu) != Some(pid) {
            return Ok(());
        }
        let (done, exit) = ctx.run_user(cpu, quantum.min(left.instructions));
        // A system call costs at least one, so that no sequence of them is endless.
        quantum = quantum.saturating_sub(done.max(1));
        left.instructions = left.instructions.saturating_sub(done.max(1));
        if done > 0 {
            ctx.kern_mut().proc_mut(pid).faults = 0;
        }
        if exit == Exit::Budget {
            continue;
        }
        left.traps -= 1;
        ctx.step(cpu, Step::Exception);
        let result = trap::handle(ctx, cpu, pid, exit);
        asleep(ctx, cpu, result)?;
        let yielded = std::mem::take(&mut ctx.kern_mut().sched.yielded);
        if yielded || ctx.kern().running(cpu) != Some(pid) {
            return Ok(());
        }
    }
    Ok(())
}

/// Finishes a system call that slept and delivers signals.
fn resume<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) -> KResult<()> {
    if let Some(at) = ctx.kern().proc(pid).store_pid {
        match ctx.copyout_bytes(cpu, &pid.0.to_le_bytes(), at) {
            Ok(()) | Err(Stop::Errno(_)) => ctx.kern_mut().proc_mut(pid).store_pid = None,
            Err(stop) => return Err(stop),
        }
    }
    if let Some(pending) = ctx.kern().proc(pid).pending {
        let interrupting = {
            let proc = ctx.kern().proc(pid);
            let signal = proc.passed.or_else(|| proc.signals.next());
            signal.filter(|_| pending.interruptible)
        };
        match interrupting {
            Some(signal) => syscall::interrupt(ctx, cpu, pid, pending, signal),
            None => syscall::again(ctx, cpu, pid, pending)?,
        }
    }
    if ctx.kern().running(cpu) == Some(pid) {
        sendsig::deliver(ctx, cpu, pid)?;
    }
    Ok(())
}

/// Whoever must wait leaves the CPU; the rest passes on.
fn asleep<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, result: KResult<()>) -> KResult<()> {
    match result {
        Err(Stop::Wait(channel)) => {
            ctx.charge(cpu, "sleep");
            let state = State::Sleeping(channel);
            if let Some(pid) = ctx.kern().running(cpu)
                && let Some(pending) = &mut ctx.kern_mut().proc_mut(pid).pending
            {
                pending.interruptible = state.is_interruptible();
            }
            leave(ctx, cpu, state);
            Ok(())
        }
        Err(Stop::Errno(errno)) => {
            // Nobody is left to tell: a defect of this kernel, shown rather than hidden.
            let why = format!("an error went nowhere: {errno:?}");
            ctx.mark(cpu, Mark::Panic(why.clone()));
            Err(Stop::Panic(why))
        }
        other => other,
    }
}
