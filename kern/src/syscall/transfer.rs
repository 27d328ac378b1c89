//! read and write in all their forms.
//!
//! Source: FreeBSD `sys/kern/sys_generic.c` (dofileread, dofilewrite), `kern_descrip.c`. A transfer
//! that sleeps remembers in `Proc::moved` how far it came; its pieces are computed again from that.

use machine::VirtAddr;
use vfs_sim::{IoFlags, VfsVerbs};
use vm::{Errno, KResult, Stop, Uio, UioDirection, VmVerbs};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::elf::Abi;
use crate::file::{FileId, FileKind, OpenFile};
use crate::kern::STDIN;
use crate::limits::IOVEC_MAX;
use crate::pipe;
use crate::run::RunEnd;
use crate::signal::Signal;

use super::{Call, Outcome};

/// A run of user memory.
type Piece = (VirtAddr, u32);

/// Bytes that go between user memory and the run's captured streams at once.
const CHUNK: u32 = 4096;

/// read(2), and with `at` pread(2).
pub(crate) fn read<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    at: Option<u64>,
) -> KResult<Outcome> {
    simple(ctx, call, UioDirection::Read, at)
}

/// write(2), and with `at` pwrite(2).
pub(crate) fn write<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    at: Option<u64>,
) -> KResult<Outcome> {
    simple(ctx, call, UioDirection::Write, at)
}

fn simple<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    direction: UioDirection,
    at: Option<u64>,
) -> KResult<Outcome> {
    let piece = (VirtAddr(call.arg(ctx, 1)?), call.arg(ctx, 2)?);
    move_pieces(ctx, call, &[piece], direction, at)
}

/// readv(2) and writev(2).
pub(crate) fn vector<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    direction: UioDirection,
) -> KResult<Outcome> {
    let (from, count) = (VirtAddr(call.arg(ctx, 1)?), call.arg(ctx, 2)?);
    if count == 0 || count > IOVEC_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = vec![0; 8 * count as usize];
    ctx.copyin_bytes(call.cpu, from, &mut bytes)?;
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let pieces: Vec<Piece> = bytes
        .chunks_exact(8)
        .map(|b| (VirtAddr(word(b)), word(&b[4..])))
        .collect();
    move_pieces(ctx, call, &pieces, direction, None)
}

fn move_pieces<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    pieces: &[Piece],
    direction: UioDirection,
    at: Option<u64>,
) -> KResult<Outcome> {
    let fd = call.arg(ctx, 0)?;
    let id = descriptor::named(ctx, call.pid, fd)?;
    let file = *ctx.kern().file(id);
    let total: u64 = pieces.iter().map(|(_, len)| u64::from(*len)).sum();
    let (allowed, name) = match direction {
        UioDirection::Read => (file.readable, "read"),
        UioDirection::Write => (file.writable, "write"),
    };
    if !allowed {
        return Err(Errno::EBADF.into());
    }
    if total > u64::from(u32::MAX >> 1) {
        return Err(Errno::EINVAL.into());
    }
    if at.is_some() && !matches!(file.kind, FileKind::Vnode(_) | FileKind::Null) {
        return Err(Errno::ESPIPE.into());
    }
    ctx.charge(call.cpu, name);
    let start = at.unwrap_or(file.offset);
    let end = run(ctx, call, id, pieces, direction, start)?;
    if at.is_none() {
        ctx.kern_mut().file_mut(id).offset = end;
    }
    Ok(ctx.kern().proc(call.pid).moved.into())
}

/// Moves what is left of the pieces; returns the file offset behind it.
fn run<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    id: FileId,
    pieces: &[Piece],
    direction: UioDirection,
    start: u64,
) -> KResult<u64> {
    let mut skip = ctx.kern().proc(call.pid).moved;
    let mut offset = start + u64::from(skip);
    for (va, len) in pieces {
        let done = skip.min(*len);
        skip -= done;
        if done == *len {
            continue;
        }
        let mut uio = Uio {
            direction,
            ..Uio::user_read(va.add(done), len - done, offset)
        };
        let before = uio.resid;
        let result = one(ctx, call, id, &mut uio, *len);
        offset = uio.offset;
        let moved = &mut ctx.kern_mut().proc_mut(call.pid).moved;
        *moved += before - uio.resid;
        let some = *moved > 0;
        match result {
            Err(Stop::Errno(Errno::EPIPE)) => {
                ctx.kern_mut().post_signal(call.pid, Signal::PIPE);
                return Err(Errno::EPIPE.into());
            }
            Err(Stop::Errno(errno)) if some && ends_short(call.abi, errno) => break,
            Err(stop) => return Err(stop),
            Ok(()) if uio.resid > 0 => break,
            Ok(()) => {}
        }
    }
    Ok(offset)
}

/// Whether a transfer that moved something before this error is a success: always to Linux; to
/// FreeBSD (dofileread) only where it would have had to wait.
fn ends_short(abi: Abi, errno: Errno) -> bool {
    abi == Abi::Linux || errno == Errno::EAGAIN
}

fn one<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    id: FileId,
    uio: &mut Uio,
    whole: u32,
) -> KResult<()> {
    let file = *ctx.kern().file(id);
    let cpu = call.cpu;
    match file.kind {
        FileKind::Vnode(_) => vnode(ctx, call, id, &file, uio),
        FileKind::Directory(_) => Err(Errno::EISDIR.into()),
        FileKind::PipeRead(pipe) => pipe::read(ctx, cpu, pipe, uio, file.nonblocking),
        FileKind::PipeWrite(pipe) => pipe::write(ctx, cpu, pipe, uio, whole, file.nonblocking),
        FileKind::Stdin => stdin(ctx, call, uio),
        FileKind::Stdout | FileKind::Stderr => capture(ctx, call, file.kind, uio),
        FileKind::Null if uio.direction == UioDirection::Write => {
            uio.advance(uio.resid);
            Ok(())
        }
        FileKind::Null => Ok(()),
    }
}

fn vnode<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    id: FileId,
    file: &OpenFile,
    uio: &mut Uio,
) -> KResult<()> {
    let FileKind::Vnode(vnode) = file.kind else {
        return Err(Errno::EBADF.into());
    };
    let mut sequential = file.sequential;
    let result = match uio.direction {
        UioDirection::Read => ctx.vn_read(call.cpu, vnode, uio, IoFlags::empty(), &mut sequential),
        UioDirection::Write => {
            let flags = if file.append {
                IoFlags::APPEND
            } else {
                IoFlags::empty()
            };
            ctx.vn_write(call.cpu, vnode, uio, flags, &mut sequential)
        }
    };
    ctx.kern_mut().file_mut(id).sequential = sequential;
    result
}

fn stdin<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, uio: &mut Uio) -> KResult<()> {
    let kern = ctx.kern();
    let left = &kern.stdin[kern.stdin_read as usize..];
    if left.is_empty() && kern.stdin_open {
        return Err(Stop::Wait(STDIN));
    }
    let bytes = left[..left.len().min(uio.resid as usize)].to_vec();
    ctx.copyout_bytes(call.cpu, &bytes, uio.va)?;
    uio.advance(bytes.len() as u32);
    ctx.kern_mut().stdin_read += bytes.len() as u32;
    Ok(())
}

/// Keeps what a program writes; past the quota the run ends.
fn capture<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    kind: FileKind,
    uio: &mut Uio,
) -> KResult<()> {
    while uio.resid > 0 {
        let mut bytes = vec![0; uio.resid.min(CHUNK) as usize];
        ctx.copyin_bytes(call.cpu, uio.va, &mut bytes)?;
        let max = ctx.kern().config.quotas.output_bytes;
        let kern = ctx.kern_mut();
        let held = kern.stdout.len() + kern.stderr.len();
        if held + bytes.len() > max as usize {
            kern.stop = Some(RunEnd::Output { max });
            return Err(Errno::EFBIG.into());
        }
        match kind {
            FileKind::Stdout => kern.stdout.extend_from_slice(&bytes),
            _ => kern.stderr.extend_from_slice(&bytes),
        }
        uio.advance(bytes.len() as u32);
    }
    Ok(())
}
