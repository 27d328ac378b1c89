//! Files and descriptors: open, close, lseek, dup, pipe, fcntl, unlink and their like.
//!
//! Source: FreeBSD `sys/kern/vfs_syscalls.c`, `kern_descrip.c`, `sys_pipe.c`.
//!
//! Absent on purpose: permissions, links, devices but `/dev/null`.

use machine::VirtAddr;
use vfs_sim::VfsVerbs;
use vm::{Errno, KResult, Stop, VmVerbs, VnodeId};

use crate::ctx::KernCtx;
use crate::descriptor::{self, Place};
use crate::elf::Abi;
use crate::file::{Fd, FileKind, OpenFile};
use crate::pipe;

use super::{Call, Outcome, names};

/// What open(2) was asked for, free of a family's bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Created if absent.
    pub create: bool,
    /// It must be absent.
    pub exclusive: bool,
    /// Emptied.
    pub truncate: bool,
    /// Writes go to the end.
    pub append: bool,
    /// Never sleeps.
    pub nonblocking: bool,
    /// It must be a directory.
    pub directory: bool,
    /// Closed at exec.
    pub close_on_exec: bool,
}

impl OpenFlags {
    /// From a family's bits.
    pub fn decode(abi: Abi, bits: u32) -> Self {
        let has = |freebsd: u32, linux: u32| {
            let mask = if abi == Abi::FreeBsd { freebsd } else { linux };
            bits & mask != 0
        };
        Self {
            read: bits & 3 != 1,
            write: bits & 3 == 1 || bits & 3 == 2,
            create: has(0x200, 0x40),
            exclusive: has(0x800, 0x80),
            truncate: has(0x400, 0x200),
            append: has(0x8, 0x400),
            nonblocking: has(0x4, 0x800),
            directory: has(0x2_0000, 0x4000),
            close_on_exec: has(0x10_0000, 0x8_0000),
        }
    }
}

/// open(2): path in argument `n`, flags in the next.
pub(crate) fn open<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<Outcome> {
    ctx.charge(call.cpu, "open");
    let flags = OpenFlags::decode(call.abi, call.arg(ctx, n + 1)?);
    let path = names::path(ctx, call, n)?;
    let kind = match path.as_str() {
        "/dev/null" => FileKind::Null,
        _ => open_path(ctx, call, &path, flags)?,
    };
    let file = OpenFile {
        append: flags.append,
        nonblocking: flags.nonblocking,
        ..OpenFile::new(kind, flags.read, flags.write)
    };
    let fd = descriptor::install(ctx, call.cpu, call.pid, file, flags.close_on_exec)?;
    Ok(fd.0.into())
}

fn open_path<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    path: &str,
    flags: OpenFlags,
) -> KResult<FileKind> {
    let cpu = call.cpu;
    let vnode = match ctx.vfs().lookup(path) {
        Ok(_) if flags.create && flags.exclusive => return Err(Errno::EEXIST.into()),
        Ok(vnode) => vnode,
        Err(Stop::Errno(Errno::ENOENT)) if flags.create => ctx.vfs_create(cpu, path)?,
        Err(stop) => return Err(stop),
    };
    if ctx.vfs().attr(vnode).directory {
        return match flags.write {
            true => Err(Errno::EISDIR.into()),
            false => Ok(FileKind::Directory(vnode)),
        };
    }
    if flags.directory {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.vnode_open(cpu, vnode)?;
    if flags.truncate && flags.write {
        // The pages that a wait leaves are cut off when the call is made again.
        if let Err(stop) = ctx.ffs_truncate(cpu, vnode, 0) {
            ctx.vnode_close(cpu, vnode);
            return Err(stop);
        }
    }
    Ok(FileKind::Vnode(vnode))
}

/// close(2).
pub(crate) fn close<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "close");
    let fd = call.arg(ctx, 0)?;
    descriptor::close(ctx, call.cpu, call.pid, fd)?;
    Ok(0.into())
}

/// lseek(2): the new offset.
pub(crate) fn lseek<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    by: i64,
    whence: u32,
) -> KResult<u64> {
    let fd = call.arg(ctx, 0)?;
    let id = descriptor::named(ctx, call.pid, fd)?;
    let file = *ctx.kern().file(id);
    let size = match file.kind {
        FileKind::Vnode(vnode) => ctx.vfs().attr(vnode).size,
        FileKind::Directory(_) | FileKind::Null => 0,
        _ => return Err(Errno::ESPIPE.into()),
    };
    let base = match whence {
        0 => 0,
        1 => file.offset as i64,
        2 => i64::from(size),
        _ => return Err(Errno::EINVAL.into()),
    };
    let to = base.checked_add(by).filter(|n| *n >= 0);
    let to = to.ok_or(Errno::EINVAL)? as u64;
    ctx.kern_mut().file_mut(id).offset = to;
    Ok(to)
}

/// unlink(2): path in argument `n`.
pub(crate) fn unlink<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<Outcome> {
    let path = names::path(ctx, call, n)?;
    ctx.vfs_unlink(call.cpu, &path)?;
    Ok(0.into())
}

/// mkdir(2): path in argument `n`.
pub(crate) fn mkdir<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<Outcome> {
    let path = names::path(ctx, call, n)?;
    ctx.vfs_mkdir(call.cpu, &path)?;
    Ok(0.into())
}

/// chdir(2).
pub(crate) fn chdir<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let path = names::path(ctx, call, 0)?;
    let vnode = ctx.vfs().lookup(&path)?;
    if !ctx.vfs().attr(vnode).directory {
        return Err(Errno::ENOTDIR.into());
    }
    ctx.kern_mut().proc_mut(call.pid).cwd = path;
    Ok(0.into())
}

/// access(2): path in argument `n`. Everything that exists may be used.
pub(crate) fn access<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<Outcome> {
    let path = names::path(ctx, call, n)?;
    if path != "/dev/null" {
        ctx.vfs().lookup(&path)?;
    }
    Ok(0.into())
}

/// fsync(2).
pub(crate) fn fsync<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let vnode = vnode(ctx, call)?;
    ctx.ffs_fsync(call.cpu, vnode)?;
    Ok(0.into())
}

/// sync(2): everything dirty is on its way to the disk.
pub(crate) fn sync<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.vfs_sync(call.cpu)?;
    Ok(0.into())
}

/// ftruncate(2) to `size`.
pub(crate) fn truncate<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    size: u64,
) -> KResult<Outcome> {
    let size = u32::try_from(size).map_err(|_| Errno::EFBIG)?;
    let vnode = vnode(ctx, call)?;
    ctx.ffs_truncate(call.cpu, vnode, size)?;
    Ok(0.into())
}

/// The file that argument 0 names.
fn vnode<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<VnodeId> {
    let fd = call.arg(ctx, 0)?;
    let id = descriptor::named(ctx, call.pid, fd)?;
    match ctx.kern().file(id).kind {
        FileKind::Vnode(vnode) => Ok(vnode),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// dup(2).
pub(crate) fn dup<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let fd = call.arg(ctx, 0)?;
    let to = descriptor::duplicate(ctx, call.cpu, call.pid, fd, Place::From(0), false)?;
    Ok(to.0.into())
}

/// dup2(2); `close_on_exec` is dup3's.
pub(crate) fn dup2<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    close_on_exec: bool,
) -> KResult<Outcome> {
    let (fd, to) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    let place = Place::Exactly(to);
    let to = descriptor::duplicate(ctx, call.cpu, call.pid, fd, place, close_on_exec)?;
    Ok(to.0.into())
}

/// Makes a pipe and returns its ends.
pub(crate) fn pipe<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    flags: OpenFlags,
) -> KResult<(Fd, Fd)> {
    ctx.charge(call.cpu, "pipe");
    let (cpu, pid) = (call.cpu, call.pid);
    let pipe = pipe::create(ctx, cpu)?;
    let end = |kind, read| OpenFile {
        nonblocking: flags.nonblocking,
        ..OpenFile::new(kind, read, !read)
    };
    let reader = end(FileKind::PipeRead(pipe), true);
    let from = match descriptor::install(ctx, cpu, pid, reader, flags.close_on_exec) {
        Ok(fd) => fd,
        Err(stop) => {
            pipe::close(ctx, cpu, pipe, false);
            return Err(stop);
        }
    };
    let writer = end(FileKind::PipeWrite(pipe), false);
    match descriptor::install(ctx, cpu, pid, writer, flags.close_on_exec) {
        Ok(to) => Ok((from, to)),
        Err(stop) => {
            descriptor::close(ctx, cpu, pid, from.0)?;
            Err(stop)
        }
    }
}

/// pipe2(2) and Linux's pipe(2): the descriptors go to memory.
pub(crate) fn pipe_to_memory<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    flags: OpenFlags,
) -> KResult<Outcome> {
    let at = VirtAddr(call.arg(ctx, 0)?);
    let (from, to) = pipe(ctx, call, flags)?;
    let mut bytes = from.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&to.0.to_le_bytes());
    if let Err(stop) = ctx.copyout_bytes(call.cpu, &bytes, at) {
        descriptor::close(ctx, call.cpu, call.pid, from.0)?;
        descriptor::close(ctx, call.cpu, call.pid, to.0)?;
        return Err(stop);
    }
    Ok(0.into())
}

/// fcntl(2): F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL and their close-on-exec form, which both
/// families number alike but for that one.
pub(crate) fn fcntl<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (fd, command, value) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?, call.arg(ctx, 2)?);
    let id = descriptor::named(ctx, call.pid, fd)?;
    let duplicate = |ctx: &mut C, close| {
        let place = Place::From(value);
        descriptor::duplicate(ctx, call.cpu, call.pid, fd, place, close).map(|fd| fd.0.into())
    };
    match command {
        0 => duplicate(ctx, false),
        17 if call.abi == Abi::FreeBsd => duplicate(ctx, true),
        1030 if call.abi == Abi::Linux => duplicate(ctx, true),
        1 => {
            let entry = ctx.kern().proc(call.pid).files.get(Fd(fd));
            Ok(u32::from(entry.is_some_and(|d| d.close_on_exec)).into())
        }
        2 => {
            let files = &mut ctx.kern_mut().proc_mut(call.pid).files;
            let close_on_exec = value & 1 != 0;
            let entry = files.get(Fd(fd));
            files.set(
                Fd(fd),
                entry.map(|d| crate::file::Descriptor { close_on_exec, ..d }),
            );
            Ok(0.into())
        }
        3 => Ok(status_flags(call.abi, ctx.kern().file(id)).into()),
        4 => {
            let flags = OpenFlags::decode(call.abi, value);
            let file = ctx.kern_mut().file_mut(id);
            (file.append, file.nonblocking) = (flags.append, flags.nonblocking);
            Ok(0.into())
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

fn status_flags(abi: Abi, file: &OpenFile) -> u32 {
    let mode = match (file.readable, file.writable) {
        (true, true) => 2,
        (false, true) => 1,
        _ => 0,
    };
    let (append, nonblocking) = match abi {
        Abi::FreeBsd => (0x8, 0x4),
        Abi::Linux => (0x400, 0x800),
    };
    let bit = |on, bit| if on { bit } else { 0 };
    mode | bit(file.append, append) | bit(file.nonblocking, nonblocking)
}
