//! Descriptors: opening, sharing and closing what they name.
//!
//! Source: FreeBSD `sys/kern/kern_descrip.c` (fdalloc, closef, fdcopy, fdcloseexec).

use machine::CpuId;
use vfs_sim::VfsVerbs;
use vm::{Errno, KResult};

use crate::ctx::KernCtx;
use crate::file::{Descriptor, Fd, FileId, FileKind, OpenFile};
use crate::pipe;
use crate::proc::Pid;

/// The open file that a descriptor of `pid` names.
///
/// # Errors
/// `EBADF`.
pub fn named<C: KernCtx + ?Sized>(ctx: &C, pid: Pid, fd: u32) -> KResult<FileId> {
    let entry = ctx.kern().proc(pid).files.get(Fd(fd));
    Ok(entry.ok_or(Errno::EBADF)?.file)
}

/// Enters an open file under the lowest free descriptor from `from` on.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the file is closed then.
pub fn install<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    file: OpenFile,
    close_on_exec: bool,
) -> KResult<Fd> {
    let fd = ctx.kern().proc(pid).files.lowest_free(0);
    let added = match fd {
        None => Err(Errno::EMFILE),
        Some(fd) => ctx.kern_mut().add_file(file).map(|id| (fd, id)),
    };
    match added {
        Ok((fd, file)) => {
            let entry = Descriptor {
                file,
                close_on_exec,
            };
            ctx.kern_mut().proc_mut(pid).files.set(fd, Some(entry));
            Ok(fd)
        }
        Err(errno) => {
            end(ctx, cpu, file.kind);
            Err(errno.into())
        }
    }
}

/// Lets go of what an open file names.
fn end<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, kind: FileKind) {
    match kind {
        FileKind::Vnode(vnode) => ctx.vnode_close(cpu, vnode),
        FileKind::PipeRead(pipe) => pipe::close(ctx, cpu, pipe, true),
        FileKind::PipeWrite(pipe) => pipe::close(ctx, cpu, pipe, false),
        _ => {}
    }
}

/// One reference less; the last one closes the file.
pub fn release<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, file: FileId) {
    let open = ctx.kern_mut().file_mut(file);
    open.references -= 1;
    if open.references == 0 {
        let kind = open.kind;
        end(ctx, cpu, kind);
    }
}

/// close(2).
///
/// # Errors
/// `EBADF`.
pub fn close<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid, fd: u32) -> KResult<()> {
    let before = ctx.kern_mut().proc_mut(pid).files.set(Fd(fd), None);
    release(ctx, cpu, before.ok_or(Errno::EBADF)?.file);
    Ok(())
}

/// Makes `to` (or, if none, the lowest free one from `from_lowest` on) name what `fd` names.
///
/// # Errors
/// `EBADF`, `EMFILE`.
pub fn duplicate<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    fd: u32,
    to: Place,
    close_on_exec: bool,
) -> KResult<Fd> {
    let file = named(ctx, pid, fd)?;
    let files = &ctx.kern().proc(pid).files;
    let to = match to {
        Place::Exactly(n) if n == fd => return Ok(Fd(n)),
        Place::Exactly(n) if n < crate::limits::DESCRIPTORS_MAX => Fd(n),
        Place::Exactly(_) => return Err(Errno::EBADF.into()),
        Place::From(n) => files.lowest_free(n).ok_or(Errno::EMFILE)?,
    };
    ctx.kern_mut().file_mut(file).references += 1;
    let entry = Descriptor {
        file,
        close_on_exec,
    };
    let files = &mut ctx.kern_mut().proc_mut(pid).files;
    if let Some(before) = files.set(to, Some(entry)) {
        release(ctx, cpu, before.file);
    }
    Ok(to)
}

/// Where a duplicate goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// There, whatever it named before.
    Exactly(u32),
    /// At the lowest free descriptor from here on.
    From(u32),
}

/// A child names what its parent names.
pub fn share_all<C: KernCtx + ?Sized>(ctx: &mut C, child: Pid) {
    let files: Vec<FileId> = ctx
        .kern()
        .proc(child)
        .files
        .iter()
        .map(|(_, d)| d.file)
        .collect();
    for file in files {
        ctx.kern_mut().file_mut(file).references += 1;
    }
}

/// Closes everything, at exit.
pub fn close_all<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) {
    let files = std::mem::take(&mut ctx.kern_mut().proc_mut(pid).files);
    for (_, entry) in files.iter() {
        release(ctx, cpu, entry.file);
    }
}

/// Closes what is marked so, at exec.
pub fn close_for_exec<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pid: Pid) {
    let files = &ctx.kern().proc(pid).files;
    let marked: Vec<Fd> = files
        .iter()
        .filter(|(_, d)| d.close_on_exec)
        .map(|(fd, _)| fd)
        .collect();
    for fd in marked {
        // It was listed just now.
        let _ = close(ctx, cpu, pid, fd.0);
    }
}
