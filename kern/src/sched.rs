//! Who runs next.
//!
//! Round robin by age (FreeBSD's 4BSD scheduler with every priority equal), a quantum counted in
//! instructions; or a script, by which a test or an adversary names each turn. Time is instructions
//! executed, never cycles: two policies that cost differently schedule alike.
//!
//! Absent on purpose: priorities, affinity.

use machine::CpuId;

use crate::kern::Kern;
use crate::kthread::Thread;
use crate::proc::{Pid, State};

/// One turn on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Turn {
    /// A process, for so many instructions.
    Proc(Pid, u64),
    /// A kernel thread, for one round.
    Thread(Thread),
}

/// The scheduler's state.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Sched {
    /// Turns still to be taken before round robin goes on; the next one last. One that cannot be
    /// taken is passed over.
    pub script: Vec<Turn>,
    /// The process on the CPU gives up the rest of its turn.
    pub(crate) yielded: bool,
    /// Who had the last turn by round robin.
    last: u32,
    /// Turns that processes took by round robin.
    turns: u64,
    /// Kernel threads that are due.
    due: Vec<Thread>,
}

impl Sched {
    /// Makes a kernel thread run at the next turn.
    pub fn wake_thread(&mut self, thread: Thread) {
        if !self.due.contains(&thread) {
            self.due.push(thread);
        }
    }
}

impl Kern {
    /// The next turn on a CPU, if anybody can take one.
    pub(crate) fn next_turn(&mut self, cpu: CpuId) -> Option<Turn> {
        while let Some(turn) = self.sched.script.pop() {
            match turn {
                Turn::Proc(pid, _) if !self.can_run(pid, cpu) => {}
                turn => return Some(turn),
            }
        }
        if !self.sched.due.is_empty() {
            return Some(Turn::Thread(self.sched.due.remove(0)));
        }
        let pid = self.next_proc(cpu)?;
        self.sched.last = pid.0;
        self.sched.turns += 1;
        let period = self.config.daemon_turns.filter(|n| *n > 0);
        if period.is_some_and(|n| self.sched.turns.is_multiple_of(n)) {
            Thread::ALL.iter().for_each(|t| self.sched.wake_thread(*t));
        }
        Some(Turn::Proc(pid, self.config.quantum))
    }

    /// The next runnable process behind the last one, by number, round the table.
    fn next_proc(&self, cpu: CpuId) -> Option<Pid> {
        let last = self.sched.last;
        let runnable = self.procs.iter().map(|p| p.pid);
        runnable
            .filter(|pid| self.can_run(*pid, cpu))
            .min_by_key(|pid| (pid.0 <= last, pid.0))
    }

    fn can_run(&self, pid: Pid, cpu: CpuId) -> bool {
        self.find(pid)
            .is_some_and(|p| p.state == State::Runnable || p.state == State::Running(cpu))
    }
}
