//! The context switch: registers, the thread word, and the pmap's part.
//!
//! Source: FreeBSD `sys/kern/kern_synch.c` (mi_switch), `sys/arm/arm/swtch.S` (cpu_throw), `vm_machdep.c`. What happens to
//! caches and TLB is the pmap's verb; here is who runs.

use machine::cpu::Regs;
use machine::{CpuId, Mark};
use vm::VmVerbs;

use crate::ctx::KernCtx;
use crate::helper;
use crate::kthread::Thread;
use crate::proc::{Pid, State};

/// What a CPU is switched to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// A process.
    Proc(Pid),
    /// A kernel thread.
    Thread(Thread),
    /// The idle thread.
    Idle,
}

/// Switches a CPU. Nothing happens if the process is on it already.
pub fn switch_to<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, to: Target) {
    let before = ctx.kern().running(cpu);
    if let Target::Proc(pid) = to
        && before == Some(pid)
    {
        return;
    }
    save(ctx, cpu);
    ctx.charge(cpu, "mi_switch");
    match to {
        Target::Proc(pid) => enter(ctx, cpu, pid),
        Target::Thread(_) | Target::Idle => ctx.vmspace_switch(cpu, None),
    }
}

/// Takes the process off a CPU, its registers into its record.
fn save<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) {
    let Some(pid) = ctx.kern().running(cpu) else {
        return;
    };
    let regs = interrupted(ctx, cpu);
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.regs = regs;
    if proc.state == State::Running(cpu) {
        proc.state = State::Runnable;
    }
    ctx.kern_mut().set_running(cpu, None);
}

fn enter<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) {
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.state = State::Running(cpu);
    let (mut regs, tls, space) = (proc.regs, proc.tls, proc.vmspace);
    ctx.kern_mut().set_running(cpu, Some(pid));
    ctx.vmspace_switch(cpu, space);
    // Whoever ran in between may have stored where this program's exclusive monitor watches.
    regs.exclusive = None;
    regs.tls = tls;
    *ctx.user_regs_mut(cpu) = regs;
    helper::store_thread_word(ctx, cpu, tls);
    ctx.mark(cpu, Mark::Running { pid: pid.0 });
}

/// The process on a CPU goes to sleep or stops there; another turn must follow.
pub(crate) fn leave<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, state: State) {
    if let Some(pid) = ctx.kern().running(cpu) {
        let regs = interrupted(ctx, cpu);
        let proc = ctx.kern_mut().proc_mut(pid);
        proc.state = state;
        proc.regs = regs;
        ctx.kern_mut().set_running(cpu, None);
    }
}

/// The registers that a program is to go on with; a sequence that must not be interrupted restarts.
fn interrupted<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) -> Regs {
    let mut regs = *ctx.user_regs_mut(cpu);
    helper::restart_atomic(&mut regs);
    // A failure here is a kernel panic, which the VM has reported.
    let _ = helper::restart_sequence(ctx, cpu, &mut regs);
    regs
}
