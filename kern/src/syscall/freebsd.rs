//! FreeBSD/arm's table: numbers to services.
//!
//! Source: FreeBSD `sys/kern/syscalls.master`; `guest-and-crates.md` 6. Both generations are here:
//! what changed between them (mmap 197 and 477, lseek 199 and 478, pread 173 and 475) puts its
//! 64-bit argument into the same words, once by an explicit pad and once by alignment.
//!
//! Absent on purpose: threads, sockets, sysctl.

use machine::VirtAddr;
use vm::{Errno, KResult, UioDirection, VmVerbs};

use super::files::{self, OpenFlags};
use super::{Call, Outcome, Service, memory, process, signals, stat, time, transfer};
use crate::ctx::KernCtx;
use crate::limits::DESCRIPTORS_MAX;

/// The service of a number, and its name.
pub(crate) fn service<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    processes(number)
        .or_else(|| files(number))
        .or_else(|| more_files(number))
        .or_else(|| memories(number))
        .or_else(|| the_rest(number))
}

fn processes<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        1 => ("exit", process::exit_call),
        2 => ("fork", process::fork_call),
        7 => ("wait4", process::wait4),
        20 => ("getpid", process::getpid),
        26 => ("ptrace", signals::ptrace),
        37 => ("kill", signals::kill),
        39 => ("getppid", process::getppid),
        59 => ("execve", process::execve),
        66 => ("vfork", process::fork_call),
        251 => ("rfork", process::fork_call),
        331 => ("sched_yield", sched_yield),
        340 => ("sigprocmask", |ctx, call| {
            signals::sigprocmask(ctx, call, 16)
        }),
        341 => ("sigsuspend", |ctx, call| signals::sigsuspend(ctx, call, 16)),
        343 => ("sigpending", |ctx, call| signals::sigpending(ctx, call, 16)),
        416 => ("sigaction", |ctx, call| {
            signals::sigaction(ctx, call, signals::Layout::FreeBsd)
        }),
        417 => ("sigreturn", signals::freebsd_return),
        _ => return None,
    })
}

fn files<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        3 => ("read", |ctx, call| transfer::read(ctx, call, None)),
        4 => ("write", |ctx, call| transfer::write(ctx, call, None)),
        5 => ("open", |ctx, call| files::open(ctx, call, 0)),
        6 => ("close", files::close),
        10 => ("unlink", |ctx, call| files::unlink(ctx, call, 0)),
        12 => ("chdir", files::chdir),
        33 => ("access", |ctx, call| files::access(ctx, call, 0)),
        41 => ("dup", files::dup),
        42 => ("pipe", pipe),
        54 => ("ioctl", |_, _| Err(Errno::ENOTTY.into())),
        90 => ("dup2", |ctx, call| files::dup2(ctx, call, false)),
        92 => ("fcntl", files::fcntl),
        95 => ("fsync", files::fsync),
        120 => ("readv", |ctx, call| {
            transfer::vector(ctx, call, UioDirection::Read)
        }),
        121 => ("writev", |ctx, call| {
            transfer::vector(ctx, call, UioDirection::Write)
        }),
        136 => ("mkdir", |ctx, call| files::mkdir(ctx, call, 0)),
        137 => ("rmdir", |ctx, call| files::unlink(ctx, call, 0)),
        173 | 475 => ("pread", |ctx, call| {
            let at = call.long(ctx, 4)?;
            transfer::read(ctx, call, Some(at))
        }),
        174 | 476 => ("pwrite", |ctx, call| {
            let at = call.long(ctx, 4)?;
            transfer::write(ctx, call, Some(at))
        }),
        _ => return None,
    })
}

fn more_files<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    use stat::Layout::{FreeBsd, FreeBsd11};
    Some(match number {
        188 | 190 => ("stat", |ctx, call| stat::stat(ctx, call, FreeBsd11)),
        189 => ("fstat", |ctx, call| stat::fstat(ctx, call, FreeBsd11)),
        196 => ("getdirentries", |ctx, call| {
            stat::entries(ctx, call, stat::freebsd_entry)
        }),
        199 | 478 => ("lseek", |ctx, call| {
            let (by, whence) = (call.long(ctx, 2)?, call.arg(ctx, 4)?);
            let to = files::lseek(ctx, call, by as i64, whence)?;
            Ok(Outcome::Value(to as u32, (to >> 32) as u32))
        }),
        201 | 480 => ("ftruncate", |ctx, call| {
            let size = call.long(ctx, 2)?;
            files::truncate(ctx, call, size)
        }),
        499 => ("openat", |ctx, call| files::open(ctx, call, 1)),
        542 => ("pipe2", |ctx, call| {
            let bits = call.arg(ctx, 1)?;
            files::pipe_to_memory(ctx, call, OpenFlags::decode(call.abi, bits))
        }),
        551 => ("fstat", |ctx, call| stat::fstat(ctx, call, FreeBsd)),
        552 => ("fstatat", |ctx, call| stat::fstatat(ctx, call, FreeBsd, 2)),
        _ => return None,
    })
}

fn memories<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        17 => ("break", memory::obreak),
        65 => ("msync", memory::msync),
        73 => ("munmap", memory::munmap),
        74 => ("mprotect", memory::mprotect),
        75 => ("madvise", process::nothing),
        165 => ("sysarch", memory::sysarch),
        197 | 477 => ("mmap", |ctx, call| {
            let offset = match call.arg(ctx, 3)? & 0x1000 {
                0 => call.long(ctx, 6)?,
                _ => 0,
            };
            memory::mmap(ctx, call, offset)
        }),
        203 | 204 => ("mlock", process::nothing),
        _ => return None,
    })
}

fn the_rest<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        24 | 25 | 43 | 47 => ("getuid", process::nothing),
        36 => ("sync", files::sync),
        53 => ("sigaltstack", process::nothing),
        60 => ("umask", process::nothing),
        81 => ("getpgrp", process::getpid),
        82 => ("setpgid", process::nothing),
        89 => ("getdtablesize", |_, _| Ok(DESCRIPTORS_MAX.into())),
        116 => ("gettimeofday", time::gettimeofday),
        194 => ("getrlimit", getrlimit),
        195 => ("setrlimit", process::nothing),
        232 => ("clock_gettime", time::clock_gettime),
        234 => ("clock_getres", time::clock_getres),
        253 => ("issetugid", process::nothing),
        432 => ("thr_self", thr_self),
        _ => return None,
    })
}

/// The old pipe(2): both descriptors in registers.
fn pipe<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (from, to) = files::pipe(ctx, call, OpenFlags::default())?;
    Ok(Outcome::Value(from.0, to.0))
}

/// sched_yield(2).
pub(crate) fn sched_yield<C: KernCtx + ?Sized>(ctx: &mut C, _: &Call) -> KResult<Outcome> {
    ctx.kern_mut().sched.yielded = true;
    Ok(0.into())
}

/// getrlimit(2): the stack's and the number of descriptors are bounded, the rest is not.
fn getrlimit<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (which, at) = (call.arg(ctx, 0)?, VirtAddr(call.arg(ctx, 1)?));
    let limit = match which {
        3 => u64::from(ctx.kern().config.quotas.stack_bytes),
        8 => u64::from(DESCRIPTORS_MAX),
        _ => u64::MAX >> 1,
    };
    let bytes = [limit.to_le_bytes(), limit.to_le_bytes()].concat();
    ctx.copyout_bytes(call.cpu, &bytes, at)?;
    Ok(0.into())
}

/// thr_self(2): one thread, with the process's number.
fn thr_self<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let at = VirtAddr(call.arg(ctx, 0)?);
    ctx.copyout_bytes(call.cpu, &call.pid.0.to_le_bytes(), at)?;
    Ok(0.into())
}
