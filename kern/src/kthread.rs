//! Kernel threads: they have no space of their own, and under a lazy switch they leave the last
//! program's live in TLB and caches while they move its pages about.
//!
//! Source: FreeBSD `sys/kern/vfs_subr.c` (sched_sync), `vfs_bio.c` (buf_daemon), `vm/vm_pageout.c`,
//! `geom/geom_kern.c` (g_up_procbody); `pmap-freebsd-netbsd.md` 3.1.
//!
//! Absent on purpose: their own stacks and priorities; a round is one call.

use machine::{CpuId, Mark};
use vfs_sim::VfsVerbs;
use vm::{KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::switch::{Target, switch_to};

/// A kernel thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Thread {
    /// Starts the write of everything dirty.
    Syncer,
    /// Writes delayed buffers when there are too many.
    Bufdaemon,
    /// Frees pages.
    Pagedaemon,
    /// Completes disk requests.
    GUp,
}

/// Dirty buffers that bufdaemon leaves (lodirtybuffers).
const DIRTY_MAX: u32 = 8;
/// Pages that a round of the page daemon tries to free.
const PAGEOUT_WANT: u32 = 16;

impl Thread {
    /// All of them, in the order of one round.
    pub const ALL: [Thread; 4] = [
        Thread::Syncer,
        Thread::Bufdaemon,
        Thread::Pagedaemon,
        Thread::GUp,
    ];

    /// Its name in cases and reports.
    pub fn name(self) -> &'static str {
        match self {
            Thread::Syncer => "syncer",
            Thread::Bufdaemon => "bufdaemon",
            Thread::Pagedaemon => "pagedaemon",
            Thread::GUp => "g_up",
        }
    }

    /// The thread of that name.
    pub fn named(name: &str) -> Option<Thread> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// Switches to a thread and lets it do one round. The CPU stays in its context.
///
/// # Errors
/// The kernel's panic. A thread that would sleep goes on in a later round.
pub fn run_thread<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, thread: Thread) -> KResult<()> {
    switch_to(ctx, cpu, Target::Thread(thread));
    ctx.mark(cpu, Mark::Begin(thread.name()));
    ctx.charge(cpu, thread.name());
    let result = round(ctx, cpu, thread);
    ctx.kern_mut().rounds[thread as usize] += 1;
    ctx.mark(cpu, Mark::End);
    match result {
        Err(Stop::Panic(why)) => Err(Stop::Panic(why)),
        _ => Ok(()),
    }
}

fn round<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, thread: Thread) -> KResult<()> {
    match thread {
        Thread::Syncer => ctx.vfs_sync(cpu),
        Thread::Bufdaemon => ctx.buf_daemon(cpu, DIRTY_MAX),
        Thread::Pagedaemon => {
            ctx.vm_pageout(cpu, PAGEOUT_WANT);
            Ok(())
        }
        Thread::GUp => {
            while ctx.disk_interrupt(cpu)? {}
            Ok(())
        }
    }
}
