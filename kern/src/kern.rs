//! The kernel's state: processes, open files, pipes, what was captured, and its tables' quotas.
//!
//! A plain value: cloned, fingerprinted and checked like every other layer's. Records are found by
//! number in short tables; numbers are never reused within a run, so that a report's `p3` is one
//! process.
//!
//! Absent on purpose: anything that happens. The verbs are in the modules of their nouns.

use std::hash::{Hash, Hasher};

use machine::{CpuId, Frame, VirtAddr};
use vm::{Channel, Errno};

use crate::elf::ExecError;
use crate::file::{FileId, FileKind, OpenFile};
use crate::footprint::Footprints;
use crate::kthread::Thread;
use crate::limits::Quotas;
use crate::pipe::Pipe;
use crate::proc::{ExitStatus, Pid, Proc, State};
use crate::sched::Sched;
use crate::signal::{DefaultAction, Signal};

/// What a kernel is made with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernConfig {
    /// Sizes of its tables.
    pub quotas: Quotas,
    /// Kernel addresses for pipes: `quotas.pipes` times `quotas.pipe_bytes` from here on.
    pub pipe_map: VirtAddr,
    /// Instructions that a process runs before another one's turn.
    pub quantum: u64,
    /// After how many turns the kernel threads run by themselves; never if none.
    pub daemon_turns: Option<u64>,
    /// What kernel functions touch.
    pub footprints: Footprints,
}

impl KernConfig {
    /// The usual quotas and quantum, no daemons by themselves, an empty footprint table.
    pub fn new(pipe_map: VirtAddr) -> Self {
        Self {
            quotas: Quotas::default(),
            pipe_map,
            quantum: 120_000,
            daemon_turns: None,
            footprints: Footprints::default(),
        }
    }
}

impl KernConfig {
    /// The usual kernel for a machine: pipes lie behind the copy windows, which share a megabyte of
    /// the kernel's map with nothing else. Under flat tables, whose kernel map is a few pages, there
    /// are no pipes.
    pub fn for_layout(layout: &pmap::Layout) -> Self {
        const APART: u32 = 64 << 10;
        let mut config = Self::new(layout.scratch[0].add(APART));
        if layout.tables.2 == 0 {
            config.quotas.pipes = 0;
            config.quotas.pipe_bytes = layout.page;
        }
        config
    }
}

/// A process that ended and had no parent to tell.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ended {
    /// Its number.
    pub pid: Pid,
    /// The path of its last image.
    pub name: String,
    /// How.
    pub status: ExitStatus,
}

/// The state of the kernel above the file layer.
#[derive(Clone, Debug)]
pub struct Kern {
    /// What it was made with.
    pub config: KernConfig,
    /// Processes, by age.
    pub procs: Vec<Proc>,
    /// Open files.
    pub files: Vec<OpenFile>,
    /// Pipes.
    pub pipes: Vec<Pipe>,
    /// The process on each CPU; none in a kernel thread.
    pub current: Vec<Option<Pid>>,
    /// Who runs next.
    pub sched: Sched,
    /// Bytes for descriptor 0, and how many were read.
    pub stdin: Vec<u8>,
    /// How many of them were read.
    pub stdin_read: u32,
    /// More may come: who reads at their end sleeps, and the run asks for them.
    pub stdin_open: bool,
    /// What was written to descriptor 1.
    pub stdout: Vec<u8>,
    /// What was written to descriptor 2.
    pub stderr: Vec<u8>,
    /// Processes that ended without a parent, oldest first.
    pub ended: Vec<Ended>,
    /// What the kernel would print on its console: why a process was killed. Bounded.
    pub messages: Vec<String>,
    /// Why the last exec failed.
    pub exec_error: Option<ExecError>,
    /// A quota or rule of the run was broken: the run ends.
    pub stop: Option<crate::run::RunEnd>,
    /// The helper page, once a Linux program needed it.
    pub helper: Option<Frame>,
    /// FreeBSD's thread-pointer page, once a program needed it.
    pub tp_page: Option<Frame>,
    /// State of getrandom: every run gets the same bytes.
    pub random: u64,
    /// Rounds done by each kernel thread.
    pub rounds: [u32; Thread::ALL.len()],
    next_pid: u32,
}

const MESSAGES_MAX: usize = 256;

/// Where who waits for bytes of descriptor 0 sleeps.
pub(crate) const STDIN: Channel = Channel::Other(0x5354_4449);

impl Kern {
    /// A kernel without processes for a machine of `cpus` processors.
    pub fn new(config: KernConfig, cpus: u32) -> Self {
        Self {
            config,
            procs: Vec::new(),
            files: Vec::new(),
            pipes: Vec::new(),
            current: vec![None; cpus as usize],
            sched: Sched::default(),
            stdin: Vec::new(),
            stdin_read: 0,
            stdin_open: false,
            stdout: Vec::new(),
            stderr: Vec::new(),
            ended: Vec::new(),
            messages: Vec::new(),
            exec_error: None,
            stop: None,
            helper: None,
            tp_page: None,
            random: 0x0123_4567_89ab_cdef,
            rounds: [0; Thread::ALL.len()],
            next_pid: 1,
        }
    }

    /// A process, unless it is gone.
    pub fn find(&self, pid: Pid) -> Option<&Proc> {
        self.procs.iter().find(|p| p.pid == pid)
    }

    /// A process that the caller knows to exist.
    ///
    /// # Panics
    /// If it does not: a defect of this kernel, not of a guest.
    pub fn proc(&self, pid: Pid) -> &Proc {
        self.find(pid).expect("I-kern-1: a live pid has a record")
    }

    /// A process that the caller knows to exist, to change.
    ///
    /// # Panics
    /// As [`Kern::proc`].
    pub fn proc_mut(&mut self, pid: Pid) -> &mut Proc {
        let found = self.procs.iter_mut().find(|p| p.pid == pid);
        found.expect("I-kern-1: a live pid has a record")
    }

    /// The process on a CPU.
    pub fn running(&self, cpu: CpuId) -> Option<Pid> {
        self.current[usize::from(cpu.0)]
    }

    /// Says who is on a CPU.
    pub(crate) fn set_running(&mut self, cpu: CpuId, pid: Option<Pid>) {
        self.current[usize::from(cpu.0)] = pid;
    }

    /// A number for a new process, if the table has room.
    pub(crate) fn new_pid(&mut self) -> Option<Pid> {
        if self.procs.len() >= self.config.quotas.processes as usize {
            return None;
        }
        let pid = Pid(self.next_pid);
        self.next_pid += 1;
        Some(pid)
    }

    /// How a process ended that had no parent.
    pub fn status_of(&self, pid: Pid) -> Option<ExitStatus> {
        let ended = self.ended.iter().find(|e| e.pid == pid);
        ended.map(|e| e.status)
    }

    /// Notes how a process without a parent ended; the oldest are forgotten.
    pub(crate) fn remember(&mut self, ended: Ended) {
        if self.ended.len() >= MESSAGES_MAX {
            self.ended.remove(0);
        }
        self.ended.push(ended);
    }

    /// The next bytes of getrandom: a fixed sequence (xorshift64).
    pub(crate) fn fill_random(&mut self, out: &mut [u8]) {
        for byte in out {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            *byte = (self.random >> 32) as u8;
        }
    }

    /// A line for the console.
    pub(crate) fn message(&mut self, text: String) {
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push(text);
        }
    }

    /// Gives descriptor 0 its bytes, all there will be; answers [`crate::RunEnd::Input`].
    pub fn feed(&mut self, bytes: Vec<u8>) {
        (self.stdin, self.stdin_read, self.stdin_open) = (bytes, 0, false);
        self.wakeup(STDIN);
    }

    /// Makes runnable whoever sleeps on `channel`. The world's `wakeup` calls it.
    pub fn wakeup(&mut self, channel: Channel) {
        let sleepers = self.procs.iter_mut();
        for proc in sleepers.filter(|p| p.state == State::Sleeping(channel)) {
            proc.state = State::Runnable;
        }
    }

    /// Sends a signal: notes it, and wakes or continues its receiver where it says so.
    pub fn post_signal(&mut self, pid: Pid, signal: Signal) {
        let Some(proc) = self.procs.iter_mut().find(|p| p.pid == pid && p.is_alive()) else {
            return;
        };
        let action = signal.default_action();
        let stopped = matches!(proc.state, State::Stopped { .. });
        if stopped && (signal == Signal::KILL || action == DefaultAction::Continue) {
            proc.state = State::Runnable;
        }
        if action == DefaultAction::Continue {
            proc.signals.pending.remove(Signal::STOP);
        }
        if proc.signals.ignores(signal) && !proc.traced {
            return;
        }
        proc.signals.pending.insert(signal);
        let wakes = signal.is_absolute() || !proc.signals.mask.contains(signal);
        if wakes && proc.state.is_interruptible() {
            proc.state = State::Runnable;
        }
    }

    /// Enters an open file into the table.
    ///
    /// # Errors
    /// `ENFILE`.
    pub(crate) fn add_file(&mut self, file: OpenFile) -> Result<FileId, Errno> {
        let free = self.files.iter().position(|f| f.references == 0);
        let slot = free.unwrap_or(self.files.len());
        if slot >= self.config.quotas.files as usize {
            return Err(Errno::ENFILE);
        }
        if slot == self.files.len() {
            self.files.push(file);
        }
        self.files[slot] = file;
        Ok(FileId(slot as u32))
    }

    /// An open file.
    pub fn file(&self, file: FileId) -> &OpenFile {
        &self.files[file.0 as usize]
    }

    /// An open file, to change.
    pub fn file_mut(&mut self, file: FileId) -> &mut OpenFile {
        &mut self.files[file.0 as usize]
    }

    /// A hash of everything that decides future behaviour; quotas and footprints are inputs of a run
    /// and stay out, as do the console's lines.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fold(0);
        self.procs.hash(&mut hash);
        self.files.hash(&mut hash);
        self.pipes.hash(&mut hash);
        self.current.hash(&mut hash);
        self.sched.hash(&mut hash);
        self.stdin[self.stdin_read as usize..].hash(&mut hash);
        (self.stdout.len(), self.stderr.len()).hash(&mut hash);
        (self.helper, self.tp_page).hash(&mut hash);
        (self.random, self.rounds, self.next_pid).hash(&mut hash);
        hash.finish()
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.check_procs()?;
        self.check_files()?;
        self.check_pipes()
    }

    fn check_procs(&self) -> Result<(), String> {
        for proc in &self.procs {
            let on_cpu = self
                .current
                .iter()
                .filter(|c| **c == Some(proc.pid))
                .count();
            let says = usize::from(matches!(proc.state, State::Running(_)));
            if on_cpu != says {
                let (pid, state) = (proc.pid, proc.state);
                return Err(format!("{pid} is {state:?} and on {on_cpu} CPUs"));
            }
            if proc.is_alive() != proc.vmspace.is_some() {
                return Err(format!(
                    "{} is {:?} and has {:?}",
                    proc.pid, proc.state, proc.vmspace
                ));
            }
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), String> {
        for (slot, file) in self.files.iter().enumerate() {
            let id = FileId(slot as u32);
            let named: usize = self
                .procs
                .iter()
                .map(|p| p.files.iter().filter(|(_, d)| d.file == id).count())
                .sum();
            if named != file.references as usize {
                let counted = file.references;
                return Err(format!(
                    "{id:?} counts {counted} references and has {named}"
                ));
            }
        }
        Ok(())
    }

    fn check_pipes(&self) -> Result<(), String> {
        for (slot, pipe) in self.pipes.iter().enumerate() {
            let id = crate::pipe::PipeId(slot as u32);
            let count = |kind| {
                let open = self.files.iter().filter(|f| f.references > 0);
                open.filter(|f| f.kind == kind).count() as u32
            };
            let ends = (
                count(FileKind::PipeRead(id)),
                count(FileKind::PipeWrite(id)),
            );
            if ends != (pipe.readers, pipe.writers) {
                return Err(format!("{id:?} is {pipe:?} and has {ends:?} open ends"));
            }
        }
        Ok(())
    }
}

/// A hasher that gives the same number on every host.
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = machine::memory::mix(self.0, n);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }
}
