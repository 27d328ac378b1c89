//! Carries the operations of a case's processes out: by system calls of the emulated kernel, made on the
//! process's registers and stack as its own code would make them, and by user accesses with faults.

use kern::exec::Request;
use kern::{ExitStatus, KernCtx, KernVerbs, Limits, Pid, Target, Thread};
use machine::{Abort, Access, CpuId, Frame, Hw, Observer, Step, VirtAddr, Width};
use pmap::PmapVerbs;
use vfs_sim::VfsVerbs;
use vm::{Stop, VmVerbs};

use super::{BUFFER_BYTES, Daemon, Do, ProcessOp};
use crate::op::{Outcome, Rights};
use crate::world::World;

const CPU0: CpuId = CpuId(0);
/// Where each process has its buffer.
const BUFFER: u32 = 0x3000_0000;

// System calls of FreeBSD/arm.
const FORK: u32 = 2;
const OPEN: u32 = 5;
const CLOSE: u32 = 6;
const MSYNC: u32 = 65;
const MUNMAP: u32 = 73;
const MPROTECT: u32 = 74;
const SYSARCH: u32 = 165;
const PREAD: u32 = 475;
const PWRITE: u32 = 476;
const MMAP: u32 = 477;
const MAP_SHARED: u32 = 1;
const MAP_PRIVATE: u32 = 2;
const MAP_FIXED: u32 = 0x10;
const MAP_ANON: u32 = 0x1000;
const NO_FILE: u32 = u32::MAX;
const RDWR: u32 = 2;

/// The processes of a case.
#[derive(Clone, Debug, Default)]
pub struct Players {
    pids: Vec<(u8, Pid)>,
}

type Played<T> = Result<T, &'static str>;

impl Players {
    fn pid(&self, number: u8) -> Played<Pid> {
        let found = self.pids.iter().rev().find(|(n, _)| *n == number);
        found.map(|(_, pid)| *pid).ok_or("no such process yet")
    }

    /// The process, unless it has ended.
    fn living<O: Observer + Clone>(&self, world: &World<O>, number: u8) -> Played<Pid> {
        let pid = self.pid(number)?;
        let lives = world.kern().find(pid).is_some_and(|p| p.is_alive());
        lives.then_some(pid).ok_or("the process has ended")
    }

    /// Carries an operation out.
    pub fn play<O: Observer + Clone>(&mut self, world: &mut World<O>, op: &ProcessOp) -> Outcome {
        let done = match &op.what {
            Do::Exec(path, args) => self.exec(world, op.pid, path, args),
            Do::Daemon(daemon) => run_daemon(world, daemon),
            Do::Recycle(path) => recycle(world, path),
            what => self
                .living(world, op.pid)
                .and_then(|pid| self.act(world, pid, what)),
        };
        done.unwrap_or_else(Outcome::Skipped)
    }

    /// The frame that an operation is about, if it names an address of its process.
    pub fn page<O: Observer + Clone>(&self, world: &World<O>, op: &ProcessOp) -> Option<Frame> {
        let va = match &op.what {
            Do::Load(va) | Do::Store(va, _) | Do::Fetch(va) | Do::Poke(va, _) => *va,
            Do::Mprotect(va, ..) | Do::Munmap(va, _) | Do::Msync(va, _) | Do::Sync(va, _) => *va,
            Do::Mmap { at, .. } => *at,
            _ => return None,
        };
        let space = world.kern().find(self.pid(op.pid).ok()?)?.vmspace?;
        world.pmap_extract(world.state.vm.pmap_of(space), VirtAddr(va))
    }

    fn exec<O: Observer + Clone>(
        &mut self,
        world: &mut World<O>,
        number: u8,
        path: &str,
        args: &[String],
    ) -> Played<Outcome> {
        let mut argv = vec![path];
        argv.extend(args.iter().map(String::as_str));
        let pid = match self.living(world, number) {
            Err(_) => {
                let pid = world
                    .spawn(CPU0, path, &argv, &[])
                    .map_err(|_| "it cannot be executed")?;
                self.pids.push((number, pid));
                pid
            }
            Ok(pid) => {
                world.switch_to(CPU0, Target::Proc(pid));
                let args = argv.iter().map(|a| a.as_bytes().to_vec()).collect();
                let request = Request {
                    path: path.to_owned(),
                    args,
                    environment: Vec::new(),
                };
                let done = kern::exec::exec(world, CPU0, pid, &request);
                done.map_err(|_| "it cannot be executed")?;
                pid
            }
        };
        let all = Rights::Rw.prot().bits().into();
        let flags = MAP_PRIVATE | MAP_FIXED | MAP_ANON;
        call(
            world,
            pid,
            MMAP,
            &[BUFFER, BUFFER_BYTES, all, flags, NO_FILE, 0, 0, 0],
        )?;
        Ok(Outcome::Done)
    }

    fn act<O: Observer + Clone>(
        &mut self,
        world: &mut World<O>,
        pid: Pid,
        what: &Do,
    ) -> Played<Outcome> {
        match what {
            Do::Fork(child) => {
                let made = call(world, pid, FORK, &[])?;
                self.pids.push((*child, Pid(made)));
                Ok(Outcome::Done)
            }
            Do::Exit => {
                world.switch_to(CPU0, Target::Proc(pid));
                world.terminate(CPU0, pid, ExitStatus::Exited(0));
                Ok(Outcome::Done)
            }
            Do::Read {
                path,
                offset,
                bytes,
            } => {
                let file = open(world, pid, path)?;
                let moved = call(world, pid, PREAD, &[file, BUFFER, *bytes, 0, *offset, 0]);
                call(world, pid, CLOSE, &[file])?;
                moved.map(Outcome::Value)
            }
            Do::Write {
                path,
                offset,
                bytes,
                value,
            } => write(world, pid, path, (*offset, *bytes), *value),
            Do::Mmap {
                path,
                at,
                bytes,
                rights,
                shared,
            } => mmap(world, pid, path, (*at, *bytes), *rights, *shared),
            Do::Run(instructions) => {
                world.run(CPU0, Limits::instructions(u64::from(*instructions)));
                Ok(Outcome::Done)
            }
            Do::Poke(va, word) => {
                let done = world.poke(CPU0, pid, VirtAddr(*va), *word);
                done.map(|()| Outcome::Done)
                    .map_err(|_| "the kernel refused")
            }
            Do::Switch => {
                world.switch_to(CPU0, Target::Proc(pid));
                Ok(Outcome::Done)
            }
            _ => memory(world, pid, what),
        }
    }
}

/// Operations on addresses of a process.
fn memory<O: Observer + Clone>(world: &mut World<O>, pid: Pid, what: &Do) -> Played<Outcome> {
    let number = |r: Rights| u32::from(r.prot().bits());
    match what {
        Do::Load(va) => Ok(access(world, pid, Access::Load, VirtAddr(*va), 0)),
        Do::Store(va, value) => Ok(access(world, pid, Access::Store, VirtAddr(*va), *value)),
        Do::Fetch(va) => Ok(access(world, pid, Access::Fetch, VirtAddr(*va), 0)),
        Do::Munmap(va, len) => call(world, pid, MUNMAP, &[*va, *len]).map(|_| Outcome::Done),
        Do::Mprotect(va, len, rights) => {
            call(world, pid, MPROTECT, &[*va, *len, number(*rights)]).map(|_| Outcome::Done)
        }
        Do::Msync(va, len) => call(world, pid, MSYNC, &[*va, *len, 0]).map(|_| Outcome::Done),
        Do::Sync(va, len) => {
            access(world, pid, Access::Store, VirtAddr(BUFFER), *va);
            access(world, pid, Access::Store, VirtAddr(BUFFER + 4), *len);
            call(world, pid, SYSARCH, &[0, BUFFER]).map(|_| Outcome::Done)
        }
        _ => Err("not an operation on memory"),
    }
}

fn open<O: Observer + Clone>(world: &mut World<O>, pid: Pid, path: &str) -> Played<u32> {
    let mut bytes = path.as_bytes().to_vec();
    bytes.resize(bytes.len() / 4 * 4 + 4, 0);
    for (n, word) in bytes.chunks(4).enumerate() {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        access(
            world,
            pid,
            Access::Store,
            VirtAddr(BUFFER + n as u32 * 4),
            word,
        );
    }
    call(world, pid, OPEN, &[BUFFER, RDWR, 0])
}

fn write<O: Observer + Clone>(
    world: &mut World<O>,
    pid: Pid,
    path: &str,
    (offset, bytes): (u32, u32),
    value: u32,
) -> Played<Outcome> {
    let file = open(world, pid, path)?;
    for n in (0..bytes).step_by(4) {
        let word = value.wrapping_add(n / 4);
        access(world, pid, Access::Store, VirtAddr(BUFFER + n), word);
    }
    let moved = call(world, pid, PWRITE, &[file, BUFFER, bytes, 0, offset, 0]);
    call(world, pid, CLOSE, &[file])?;
    moved.map(Outcome::Value)
}

fn mmap<O: Observer + Clone>(
    world: &mut World<O>,
    pid: Pid,
    path: &str,
    (at, bytes): (u32, u32),
    rights: Rights,
    shared: bool,
) -> Played<Outcome> {
    let kind = if shared { MAP_SHARED } else { MAP_PRIVATE };
    let prot = u32::from(rights.prot().bits());
    if path.is_empty() {
        let flags = kind | MAP_FIXED | MAP_ANON;
        call(
            world,
            pid,
            MMAP,
            &[at, bytes, prot, flags, NO_FILE, 0, 0, 0],
        )?;
        return Ok(Outcome::Done);
    }
    let file = open(world, pid, path)?;
    let made = call(
        world,
        pid,
        MMAP,
        &[at, bytes, prot, kind | MAP_FIXED, file, 0, 0, 0],
    );
    call(world, pid, CLOSE, &[file])?;
    made.map(|_| Outcome::Done)
}

/// Makes a system call: four words in registers, the rest on the stack.
fn call<O: Observer + Clone>(
    world: &mut World<O>,
    pid: Pid,
    number: u32,
    args: &[u32],
) -> Played<u32> {
    world.switch_to(CPU0, Target::Proc(pid));
    let before = *world.user_regs_mut(CPU0);
    let mut regs = before;
    regs.r[7] = number;
    regs.set_carry(false);
    for (n, word) in args.iter().take(4).enumerate() {
        regs.r[n] = *word;
    }
    regs.r[13] = regs.r[13].wrapping_sub(64) & !7;
    for (n, word) in args.iter().skip(4).enumerate() {
        let at = VirtAddr(regs.r[13] + n as u32 * 4);
        access(world, pid, Access::Store, at, *word);
    }
    *world.user_regs_mut(CPU0) = regs;
    world.step(CPU0, Step::Exception);
    let mut result = kern::syscall::enter(world, CPU0, pid, 0);
    while let Err(Stop::Wait(_)) = result {
        if !matches!(world.disk_interrupt(CPU0), Ok(true)) {
            return Err("it sleeps, and nothing can wake it");
        }
        let pending = world.kern().find(pid).and_then(|p| p.pending);
        let Some(pending) = pending else { break };
        result = kern::syscall::again(world, CPU0, pid, pending);
    }
    let after = *world.user_regs_mut(CPU0);
    *world.user_regs_mut(CPU0) = before;
    match result {
        Ok(()) if !after.carry() => Ok(after.r[0]),
        Ok(()) => Err("the system call failed"),
        Err(_) => Err("the kernel stopped"),
    }
}

/// A user access; a fault goes to the kernel, and the access is made again.
fn access<O: Observer + Clone>(
    world: &mut World<O>,
    pid: Pid,
    access: Access,
    va: VirtAddr,
    value: u32,
) -> Outcome {
    world.switch_to(CPU0, Target::Proc(pid));
    for _ in 0..kern::limits::SAME_FAULTS_MAX {
        match once(world, access, va, value) {
            Ok(_) if access == Access::Store => return Outcome::Done,
            Ok(word) => return Outcome::Value(word),
            Err(abort) => {
                world.step(CPU0, Step::Exception);
                match world.vm_trap(CPU0, abort, true) {
                    Ok(()) => {}
                    Err(Stop::Wait(_)) if matches!(world.disk_interrupt(CPU0), Ok(true)) => {}
                    Err(_) => return Outcome::Fault,
                }
            }
        }
    }
    Outcome::Fault
}

fn once<O: Observer + Clone>(
    world: &mut World<O>,
    access: Access,
    va: VirtAddr,
    value: u32,
) -> Result<u32, Abort> {
    let (machine, observer) = (&mut world.state.machine, &mut world.observer);
    let va = VirtAddr(va.0 & !3);
    match access {
        Access::Fetch => machine.fetch(CPU0, va, Width::Word, true, observer),
        Access::Load => machine.load(CPU0, va, Width::Word, true, observer),
        Access::Store => machine
            .store(CPU0, va, Width::Word, value, true, observer)
            .map(|()| value),
    }
}

fn run_daemon<O: Observer + Clone>(world: &mut World<O>, daemon: &Daemon) -> Played<Outcome> {
    let thread = match daemon {
        Daemon::Syncer => Thread::Syncer,
        Daemon::Bufdaemon => Thread::Bufdaemon,
        Daemon::Pagedaemon => Thread::Pagedaemon,
        Daemon::GUp => Thread::GUp,
    };
    let done = world.run_thread(CPU0, thread);
    done.map(|()| Outcome::Done)
        .map_err(|_| "the kernel stopped")
}

fn recycle<O: Observer + Clone>(world: &mut World<O>, path: &str) -> Played<Outcome> {
    let vnode = match path {
        "" => None,
        _ => Some(world.state.vfs.lookup(path).map_err(|_| "no such file")?),
    };
    Ok(Outcome::Value(world.buf_recycle(CPU0, vnode)))
}
