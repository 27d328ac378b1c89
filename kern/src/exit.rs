//! The end of a process, and waiting for it.
//!
//! Source: FreeBSD `sys/kern/kern_exit.c` (exit1, kern_wait). The space is emptied while it is still
//! the current one, as vmspace_exit does, and given back after the switch away from it (cpu_throw).
//! A process without a parent leaves only a line in [`crate::Kern::ended`].
//!
//! Absent on purpose: process groups, resource usage.

use machine::{CpuId, Mark};
use vm::{Channel, Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::kern::Ended;
use crate::proc::{ExitStatus, Pid, State};
use crate::signal::{Handler, Signal};
use crate::switch::{Target, leave, switch_to};

/// Ends a process.
pub fn exit<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, status: ExitStatus) {
    if !ctx.kern().find(pid).is_some_and(|p| p.is_alive()) {
        return;
    }
    ctx.mark(cpu, Mark::Begin("exit"));
    ctx.charge(cpu, "exit");
    descriptor::close_all(ctx, cpu, pid);
    let space = ctx.kern().proc(pid).vmspace;
    let on = (0..ctx.kern().current.len() as u8)
        .map(CpuId)
        .find(|c| ctx.kern().running(*c) == Some(pid));
    if let (Some(space), Some(on)) = (space, on) {
        ctx.vmspace_clear(on, space);
        leave(ctx, on, State::Runnable);
        switch_to(ctx, on, Target::Idle);
    }
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.vmspace = None;
    proc.state = State::Zombie(status);
    proc.pending = None;
    if let Some(space) = space {
        ctx.vmspace_free(cpu, space);
    }
    orphan_children(ctx, pid);
    tell_parent(ctx, pid, status);
    ctx.mark(cpu, Mark::End);
}

/// Children go on without a parent; those that ended are gone.
fn orphan_children<C: KernCtx + ?Sized>(ctx: &mut C, pid: Pid) {
    let children: Vec<Pid> = (ctx.kern().procs.iter())
        .filter(|p| p.parent == Some(pid))
        .map(|p| p.pid)
        .collect();
    for child in children {
        let proc = ctx.kern_mut().proc_mut(child);
        proc.parent = None;
        let traced = std::mem::take(&mut proc.traced);
        let zombie = !proc.is_alive();
        if traced {
            ctx.kern_mut().post_signal(child, Signal::KILL);
        }
        if zombie {
            bury(ctx, child);
        }
    }
}

fn tell_parent<C: KernCtx + ?Sized>(ctx: &mut C, pid: Pid, status: ExitStatus) {
    let Some(parent) = ctx.kern().proc(pid).parent else {
        let name = ctx.kern().proc(pid).name.clone();
        let ended = Ended { pid, name, status };
        ctx.kern_mut().remember(ended);
        return bury(ctx, pid);
    };
    let signals = &ctx.kern().proc(parent).signals;
    let ignored = signals.action(Signal::CHLD).handler == Handler::Ignore;
    if ignored {
        bury(ctx, pid);
    }
    ctx.kern_mut().post_signal(parent, Signal::CHLD);
    ctx.wakeup(Channel::Child(parent.0));
}

/// Takes an ended process out of the table.
fn bury<C: KernCtx + ?Sized>(ctx: &mut C, pid: Pid) {
    ctx.kern_mut().procs.retain(|p| p.pid != pid);
}

/// What wait4 found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// Which child; 0 if none has anything to tell and the caller does not wait.
    pub pid: u32,
    /// The status word.
    pub status: u32,
}

const WNOHANG: u32 = 1;
const WUNTRACED: u32 = 2;

/// Looks for a child of `parent` that ended or stopped; [`reap`] takes note of it once the status is
/// with the program.
///
/// # Errors
/// `ECHILD` without such a child; `Wait` while none has anything to tell.
pub fn wait<C: KernCtx + ?Sized>(
    ctx: &mut C,
    parent: Pid,
    wanted: i32,
    options: u32,
) -> KResult<Waited> {
    let abi = ctx.kern().proc(parent).abi;
    let mut any = false;
    let matches = |pid: Pid| wanted <= 0 || pid.0 == wanted.unsigned_abs();
    let children = ctx.kern().procs.iter().filter(|p| p.parent == Some(parent));
    for child in children.filter(|p| matches(p.pid)) {
        any = true;
        let status = match child.state {
            State::Zombie(status) => status.wait_word(abi),
            State::Stopped {
                by,
                reported: false,
            } if child.traced || options & WUNTRACED != 0 => by.number(abi) << 8 | 0x7f,
            _ => continue,
        };
        let pid = child.pid.0;
        return Ok(Waited { pid, status });
    }
    if !any {
        Err(Errno::ECHILD.into())
    } else if options & WNOHANG != 0 {
        Ok(Waited { pid: 0, status: 0 })
    } else {
        Err(Stop::Wait(Channel::Child(parent.0)))
    }
}

/// The status of what [`wait`] found has been told.
pub fn reap<C: KernCtx + ?Sized>(ctx: &mut C, waited: Waited) {
    let pid = Pid(waited.pid);
    let Some(child) = ctx.kern().find(pid) else {
        return;
    };
    if !child.is_alive() {
        return bury(ctx, pid);
    }
    if let State::Stopped { reported, .. } = &mut ctx.kern_mut().proc_mut(pid).state {
        *reported = true;
    }
}
