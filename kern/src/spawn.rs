//! New processes that nobody forked, and what they start with.
//!
//! Source: the part of FreeBSD's `sys/kern/init_main.c` that makes process 1. Here any number may
//! be made so, by a case or the command line.

use machine::CpuId;
use machine::VirtAddr;
use machine::cpu::Regs;
use vfs_sim::VfsVerbs;
use vm::{Errno, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::{Abi, ExecError};
use crate::exec::{Failure, Request, exec};
use crate::file::{Descriptor, Descriptors, Fd, FileKind, OpenFile};
use crate::proc::{ExitStatus, Pid, Proc, State};
use crate::signal::Signals;
use crate::switch::{Target, switch_to};
use crate::{descriptor, exit};

/// Makes a process without a parent and executes `path` in it, on `cpu`.
///
/// # Errors
/// Why the file cannot be executed, or which table is full.
pub fn spawn<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    path: &str,
    args: &[&str],
    environment: &[&str],
) -> Result<Pid, ExecError> {
    let pid = create(ctx, cpu, path)?;
    switch_to(ctx, cpu, Target::Proc(pid));
    let bytes = |all: &[&str]| all.iter().map(|s| s.as_bytes().to_vec()).collect();
    let request = Request {
        path: path.to_owned(),
        args: bytes(args),
        environment: bytes(environment),
    };
    match exec_now(ctx, cpu, pid, &request) {
        Ok(()) => Ok(pid),
        Err(error) => {
            exit::exit(ctx, cpu, pid, ExitStatus::Exited(255));
            ctx.kern_mut().ended.retain(|e| e.pid != pid);
            Err(error)
        }
    }
}

/// exec outside of any process's system call: sleeping means completing the disk's work.
fn exec_now<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    request: &Request,
) -> Result<(), ExecError> {
    loop {
        let failure = match exec(ctx, cpu, pid, request) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        let file = |why: String, errno| ExecError::File(format!("{}: {why}", request.path), errno);
        match failure {
            Failure::Error(error) => return Err(error),
            Failure::Stop(Stop::Errno(errno)) => return Err(file(format!("{errno:?}"), errno)),
            Failure::Stop(Stop::Panic(why)) => return Err(file(why, Errno::EIO)),
            Failure::Stop(Stop::Wait(channel)) => {
                if !matches!(ctx.disk_interrupt(cpu), Ok(true)) {
                    return Err(file(format!("sleeps for ever on {channel:?}"), Errno::EIO));
                }
            }
        }
    }
}

fn create<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, path: &str) -> Result<Pid, ExecError> {
    let full = |what: &str, errno| ExecError::File(format!("{path}: {what}"), errno);
    let pid = ctx
        .kern_mut()
        .new_pid()
        .ok_or_else(|| full("too many processes", Errno::EAGAIN))?;
    let space = ctx
        .vmspace_alloc(cpu)
        .map_err(|_| full("no address space left", Errno::ENOMEM))?;
    let proc = Proc {
        pid,
        parent: None,
        state: State::Runnable,
        abi: Abi::FreeBsd,
        name: path.to_owned(),
        vmspace: Some(space),
        regs: Regs::default(),
        tls: 0,
        files: Descriptors::default(),
        cwd: "/".to_owned(),
        signals: Signals::default(),
        pending: None,
        moved: 0,
        heap_start: VirtAddr(0),
        heap_end: VirtAddr(0),
        sigcode: VirtAddr(0),
        store_pid: None,
        traced: false,
        passed: None,
        suspended: None,
        faults: 0,
    };
    ctx.kern_mut().procs.push(proc);
    let standard = [FileKind::Stdin, FileKind::Stdout, FileKind::Stderr];
    for (n, kind) in standard.into_iter().enumerate() {
        let open = OpenFile::new(kind, n == 0, n != 0);
        match ctx.kern_mut().add_file(open) {
            Ok(file) => {
                let entry = Descriptor {
                    file,
                    close_on_exec: false,
                };
                let files = &mut ctx.kern_mut().proc_mut(pid).files;
                files.set(Fd(n as u32), Some(entry));
            }
            Err(errno) => {
                undo(ctx, cpu, pid);
                return Err(full("too many open files", errno));
            }
        }
    }
    Ok(pid)
}

fn undo<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) {
    descriptor::close_all(ctx, cpu, pid);
    if let Some(space) = ctx.kern_mut().proc_mut(pid).vmspace.take() {
        ctx.vmspace_free(cpu, space);
    }
    ctx.kern_mut().procs.retain(|p| p.pid != pid);
}
