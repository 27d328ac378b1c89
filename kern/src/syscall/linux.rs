//! Linux EABI's table for ARM: numbers to services.
//!
//! Source: Linux `arch/arm/tools/syscall.tbl`; the set is what Debian's armel shells use
//! (`guest-and-crates.md` 3). 64-bit arguments lie in even registers.
//!
//! Absent on purpose: threads and what serves them, sockets, select.

use vm::{Errno, UioDirection};

use super::files::{self, OpenFlags};
use super::freebsd::sched_yield;
use super::{Service, linux_misc, memory, process, signals, stat, time, transfer};
use crate::ctx::KernCtx;

/// The service of a number, and its name.
pub(crate) fn service<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    processes(number)
        .or_else(|| signal_calls(number))
        .or_else(|| files(number))
        .or_else(|| at_files(number))
        .or_else(|| file_facts(number))
        .or_else(|| memories(number))
        .or_else(|| clocks(number))
        .or_else(|| constants(number))
}

fn processes<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        1 | 248 => ("exit", process::exit_call),
        2 => ("fork", process::fork_call),
        11 => ("execve", process::execve),
        20 => ("getpid", process::getpid),
        26 => ("ptrace", signals::ptrace),
        64 => ("getppid", process::getppid),
        65 | 132 | 147 | 224 | 256 => ("getpid", process::getpid),
        66 => ("setsid", process::getpid),
        114 => ("wait4", process::wait4),
        120 => ("clone", process::clone_call),
        122 => ("uname", linux_misc::uname),
        158 => ("sched_yield", sched_yield),
        190 => ("vfork", process::fork_call),
        _ => return None,
    })
}

fn signal_calls<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    use signals::Layout::{LinuxOld, LinuxRt};
    Some(match number {
        29 => ("pause", signals::pause),
        37 => ("kill", signals::kill),
        67 => ("sigaction", |ctx, call| {
            signals::sigaction(ctx, call, LinuxOld)
        }),
        119 => ("sigreturn", |ctx, call| {
            signals::linux_return(ctx, call, false)
        }),
        126 => ("sigprocmask", |ctx, call| {
            signals::sigprocmask(ctx, call, 4)
        }),
        173 => ("rt_sigreturn", |ctx, call| {
            signals::linux_return(ctx, call, true)
        }),
        174 => ("rt_sigaction", |ctx, call| {
            signals::sigaction(ctx, call, LinuxRt)
        }),
        175 => ("rt_sigprocmask", |ctx, call| {
            signals::sigprocmask(ctx, call, 8)
        }),
        176 => ("rt_sigpending", |ctx, call| {
            signals::sigpending(ctx, call, 8)
        }),
        179 => ("rt_sigsuspend", |ctx, call| {
            signals::sigsuspend(ctx, call, 8)
        }),
        238 => ("tkill", |ctx, call| signals::tgkill(ctx, call, 0)),
        268 => ("tgkill", |ctx, call| signals::tgkill(ctx, call, 1)),
        _ => return None,
    })
}

fn files<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        3 => ("read", |ctx, call| transfer::read(ctx, call, None)),
        4 => ("write", |ctx, call| transfer::write(ctx, call, None)),
        5 => ("open", |ctx, call| files::open(ctx, call, 0)),
        6 => ("close", files::close),
        8 => ("creat", linux_misc::creat),
        10 => ("unlink", |ctx, call| files::unlink(ctx, call, 0)),
        12 => ("chdir", files::chdir),
        33 => ("access", |ctx, call| files::access(ctx, call, 0)),
        39 => ("mkdir", |ctx, call| files::mkdir(ctx, call, 0)),
        40 => ("rmdir", |ctx, call| files::unlink(ctx, call, 0)),
        41 => ("dup", files::dup),
        42 => ("pipe", |ctx, call| {
            files::pipe_to_memory(ctx, call, OpenFlags::default())
        }),
        54 => ("ioctl", |_, _| Err(Errno::ENOTTY.into())),
        55 | 221 => ("fcntl64", files::fcntl),
        63 => ("dup2", |ctx, call| files::dup2(ctx, call, false)),
        85 => ("readlink", |ctx, call| linux_misc::readlink(ctx, call, 0)),
        118 | 148 => ("fsync", files::fsync),
        140 => ("_llseek", linux_misc::llseek),
        145 => ("readv", |ctx, call| {
            transfer::vector(ctx, call, UioDirection::Read)
        }),
        146 => ("writev", |ctx, call| {
            transfer::vector(ctx, call, UioDirection::Write)
        }),
        168 => ("poll", linux_misc::poll),
        180 => ("pread64", |ctx, call| {
            let at = call.long(ctx, 4)?;
            transfer::read(ctx, call, Some(at))
        }),
        181 => ("pwrite64", |ctx, call| {
            let at = call.long(ctx, 4)?;
            transfer::write(ctx, call, Some(at))
        }),
        187 | 239 => ("sendfile", |_, _| Err(Errno::EINVAL.into())),
        _ => return None,
    })
}

/// The same by a directory's descriptor, which must be AT_FDCWD or go with an absolute path.
fn at_files<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        322 => ("openat", |ctx, call| files::open(ctx, call, 1)),
        323 => ("mkdirat", |ctx, call| files::mkdir(ctx, call, 1)),
        328 => ("unlinkat", |ctx, call| files::unlink(ctx, call, 1)),
        332 => ("readlinkat", |ctx, call| linux_misc::readlink(ctx, call, 1)),
        334 | 439 => ("faccessat", |ctx, call| files::access(ctx, call, 1)),
        358 => ("dup3", |ctx, call| {
            let bits = call.arg(ctx, 2)?;
            let flags = OpenFlags::decode(call.abi, bits);
            files::dup2(ctx, call, flags.close_on_exec)
        }),
        359 => ("pipe2", |ctx, call| {
            let bits = call.arg(ctx, 1)?;
            files::pipe_to_memory(ctx, call, OpenFlags::decode(call.abi, bits))
        }),
        _ => return None,
    })
}

fn file_facts<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    use stat::Layout::{Linux64, Statx};
    Some(match number {
        19 => ("lseek", |ctx, call| {
            let (by, whence) = (call.arg(ctx, 1)? as i32, call.arg(ctx, 2)?);
            let to = files::lseek(ctx, call, by.into(), whence)?;
            Ok((to as u32).into())
        }),
        93 => ("ftruncate", |ctx, call| {
            let size = call.arg(ctx, 1)?;
            files::truncate(ctx, call, size.into())
        }),
        183 => ("getcwd", linux_misc::getcwd),
        194 => ("ftruncate64", |ctx, call| {
            let size = call.long(ctx, 2)?;
            files::truncate(ctx, call, size)
        }),
        195 | 196 => ("stat64", |ctx, call| stat::stat(ctx, call, Linux64)),
        197 => ("fstat64", |ctx, call| stat::fstat(ctx, call, Linux64)),
        217 => ("getdents64", |ctx, call| {
            stat::entries(ctx, call, stat::linux_entry)
        }),
        327 => ("fstatat64", |ctx, call| {
            stat::fstatat(ctx, call, Linux64, 2)
        }),
        397 => ("statx", |ctx, call| stat::fstatat(ctx, call, Statx, 4)),
        _ => return None,
    })
}

fn memories<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        45 => ("brk", memory::brk),
        91 => ("munmap", memory::munmap),
        125 => ("mprotect", memory::mprotect),
        144 => ("msync", memory::msync),
        192 => ("mmap2", |ctx, call| {
            let pages = call.arg(ctx, 5)?;
            memory::mmap(ctx, call, u64::from(pages) * 4096)
        }),
        163 => ("mremap", |_, _| Err(Errno::ENOMEM.into())),
        220 => ("madvise", process::nothing),
        0xf_0002 => ("cacheflush", linux_misc::cacheflush),
        0xf_0005 => ("set_tls", linux_misc::set_tls),
        0xf_0006 => ("get_tls", |ctx, call| {
            Ok(ctx.kern().proc(call.pid).tls.into())
        }),
        _ => return None,
    })
}

fn clocks<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        13 => ("time", time::time),
        43 => ("times", |ctx, call| linux_misc::zeros(ctx, call, 0, 16)),
        77 => ("getrusage", |ctx, call| linux_misc::zeros(ctx, call, 1, 72)),
        78 => ("gettimeofday", time::gettimeofday),
        162 | 265 => ("nanosleep", process::nothing),
        263 => ("clock_gettime", time::clock_gettime),
        264 => ("clock_getres", time::clock_getres),
        403 => ("clock_gettime64", time::clock_gettime64),
        _ => return None,
    })
}

/// Calls that always answer the same.
fn constants<C: KernCtx + ?Sized>(number: u32) -> Option<(&'static str, Service<C>)> {
    Some(match number {
        // getuid, getgid, geteuid, getegid, twice; setting them; their groups.
        24 | 47 | 49 | 50 | 199..=202 => ("getuid32", process::nothing),
        23 | 46 | 203..=206 | 208 | 210 | 213 | 214 => ("setuid32", process::nothing),
        // chmod, chown and their like; utimes.
        15 | 94 | 198 | 207 | 212 | 325 | 333 | 348 => ("chmod", process::nothing),
        36 => ("sync", files::sync),
        57 => ("setpgid", process::nothing),
        60 => ("umask", |_, _| Ok(0o022.into())),
        75 => ("setrlimit", process::nothing),
        76 | 191 => ("ugetrlimit", linux_misc::getrlimit),
        172 => ("prctl", process::nothing),
        186 => ("sigaltstack", process::nothing),
        240 => ("futex", linux_misc::futex),
        338 | 398 => ("set_robust_list", |_, _| Err(Errno::ENOSYS.into())),
        369 => ("prlimit64", linux_misc::prlimit),
        384 => ("getrandom", linux_misc::getrandom),
        _ => return None,
    })
}
