//! Pipes: a ring of kernel pages between two open files.
//!
//! Source: FreeBSD `sys/kern/sys_pipe.c`, `pipe_read` and `pipe_write`. A transfer of up to
//! `PIPE_BUF` bytes is not mixed with others. The bytes live in simulated kernel memory and are
//! copied through the caches like any other.
//!
//! Absent on purpose: direct writes (`PIPE_MINDIRECT`, the reader maps the writer's pages), resizing.

use machine::{CpuId, Frame, VirtAddr};
use pmap::PmapVerbs;
use vm::{Channel, Errno, KResult, Uio, VmVerbs};

use crate::ctx::KernCtx;

/// A pipe, an index into the system's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PipeId(pub u32);

/// Transfers up to this many bytes are whole.
pub const PIPE_BUF: u32 = 512;

/// One pipe; a slot without readers and writers is free.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pipe {
    /// Its pages.
    pub frames: Vec<Frame>,
    /// Where the next byte is read, from the ring's start.
    pub start: u32,
    /// Bytes in it.
    pub count: u32,
    /// Open files that read.
    pub readers: u32,
    /// Open files that write.
    pub writers: u32,
}

impl Pipe {
    /// Whether the slot is free.
    pub fn is_free(&self) -> bool {
        self.readers == 0 && self.writers == 0
    }
}

fn channel(pipe: PipeId) -> Channel {
    Channel::Pipe(pipe.0)
}

/// Where a pipe's ring is mapped.
fn kva<C: KernCtx + ?Sized>(ctx: &C, pipe: PipeId) -> VirtAddr {
    let config = &ctx.kern().config;
    config.pipe_map.add(pipe.0 * config.quotas.pipe_bytes)
}

/// Makes a pipe with one reader and one writer.
///
/// # Errors
/// `ENFILE` without a slot, `ENOMEM` without pages.
pub fn create<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) -> KResult<PipeId> {
    let pipes = &ctx.kern().pipes;
    let free = pipes.iter().position(Pipe::is_free);
    let slot = free.unwrap_or(pipes.len());
    if slot >= ctx.kern().config.quotas.pipes as usize {
        return Err(Errno::ENFILE.into());
    }
    let pages = ctx.kern().config.quotas.pipe_bytes / ctx.hw().page_bytes();
    let mut frames = Vec::new();
    for _ in 0..pages.max(1) {
        match ctx.vm_page_alloc(cpu, None, 0) {
            Ok(frame) => frames.push(frame),
            Err(stop) => {
                frames.iter().for_each(|f| ctx.vm_page_free(cpu, *f));
                return Err(stop);
            }
        }
    }
    let pipe = PipeId(slot as u32);
    let at = kva(ctx, pipe);
    ctx.pmap_qenter(cpu, at, &frames);
    let made = Pipe {
        frames,
        readers: 1,
        writers: 1,
        ..Pipe::default()
    };
    let pipes = &mut ctx.kern_mut().pipes;
    if slot == pipes.len() {
        pipes.push(Pipe::default());
    }
    pipes[slot] = made;
    Ok(pipe)
}

/// One end is no longer open; with the last one the pages go.
pub fn close<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pipe: PipeId, reader: bool) {
    let record = &mut ctx.kern_mut().pipes[pipe.0 as usize];
    if reader {
        record.readers -= 1;
    } else {
        record.writers -= 1;
    }
    let gone = record.is_free();
    ctx.wakeup(channel(pipe));
    if !gone {
        return;
    }
    let frames = std::mem::take(&mut ctx.kern_mut().pipes[pipe.0 as usize]).frames;
    let at = kva(ctx, pipe);
    ctx.pmap_qremove(cpu, at, frames.len() as u32);
    for frame in frames {
        ctx.vm_page_free(cpu, frame);
    }
}

/// Reads what there is, at least one byte; nothing left and no writer is the end.
///
/// # Errors
/// `EAGAIN` where `nonblocking`, `EFAULT`; `Wait`.
pub fn read<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pipe: PipeId,
    uio: &mut Uio,
    nonblocking: bool,
) -> KResult<()> {
    let asked = uio.resid;
    while uio.resid > 0 {
        let record = &ctx.kern().pipes[pipe.0 as usize];
        if record.count == 0 {
            if uio.resid < asked || record.writers == 0 {
                break;
            }
            return Err(if nonblocking {
                Errno::EAGAIN.into()
            } else {
                vm::Stop::Wait(channel(pipe))
            });
        }
        take(ctx, cpu, pipe, uio)?;
        ctx.wakeup(channel(pipe));
    }
    Ok(())
}

/// Moves one contiguous piece out of the ring.
fn take<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pipe: PipeId, uio: &mut Uio) -> KResult<()> {
    let size = ctx.kern().config.quotas.pipe_bytes;
    let Pipe { start, count, .. } = ctx.kern().pipes[pipe.0 as usize];
    let len = count.min(size - start).min(uio.resid);
    let from = kva(ctx, pipe).add(start);
    let before = uio.resid;
    let result = ctx.uiomove(cpu, from, len, uio);
    let moved = before - uio.resid;
    let record = &mut ctx.kern_mut().pipes[pipe.0 as usize];
    record.start = (record.start + moved) % size;
    record.count -= moved;
    result
}

/// Writes all of a transfer; `whole` is its length when it began.
///
/// # Errors
/// `EPIPE` without a reader, `EAGAIN` where `nonblocking`, `EFAULT`; `Wait`, with the progress in
/// `uio`.
pub fn write<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pipe: PipeId,
    uio: &mut Uio,
    whole: u32,
    nonblocking: bool,
) -> KResult<()> {
    let size = ctx.kern().config.quotas.pipe_bytes;
    while uio.resid > 0 {
        let record = &ctx.kern().pipes[pipe.0 as usize];
        if record.readers == 0 {
            return Err(Errno::EPIPE.into());
        }
        let space = size - record.count;
        let needed = if whole <= PIPE_BUF { uio.resid } else { 1 };
        if space < needed {
            return match nonblocking {
                true if uio.resid < whole => Ok(()),
                true => Err(Errno::EAGAIN.into()),
                false => Err(vm::Stop::Wait(channel(pipe))),
            };
        }
        put(ctx, cpu, pipe, uio)?;
        ctx.wakeup(channel(pipe));
    }
    Ok(())
}

/// Moves one contiguous piece into the ring.
fn put<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, pipe: PipeId, uio: &mut Uio) -> KResult<()> {
    let size = ctx.kern().config.quotas.pipe_bytes;
    let Pipe { start, count, .. } = ctx.kern().pipes[pipe.0 as usize];
    let end = (start + count) % size;
    let len = (size - count).min(size - end).min(uio.resid);
    let to = kva(ctx, pipe).add(end);
    let before = uio.resid;
    let result = ctx.uiomove(cpu, to, len, uio);
    ctx.kern_mut().pipes[pipe.0 as usize].count += before - uio.resid;
    result
}
