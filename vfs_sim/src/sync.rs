//! Writing what is dirty: the syncer's round, bufdaemon's, fsync.
//!
//! Source: FreeBSD `kern/vfs_subr.c` (sched_sync, vfs_msync), `kern/vfs_bio.c` (buf_daemon,
//! flushbufqueues), `ufs/ffs/ffs_vnops.c` (ffs_syncvnode). Absent: the wheel of 30 seconds; whoever
//! runs the thread decides when.

use machine::CpuId;
use vm::{Channel, KResult, Stop, VmVerbs, VnodeId, operation};

use crate::buf::BufQueue;
use crate::ctx::VfsCtx;
use crate::fs::DEVICE;
use crate::types::{BufFlags, BufId, ReadAhead};
use crate::{bio, cluster, ffs, namei};

/// One round of the syncer: pages stored into through shared mappings, inodes, buffers.
pub(crate) fn all<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> KResult<()> {
    operation(c, cpu, "sched_sync", |c| {
        let files: Vec<VnodeId> = c.vfs().fs.files().collect();
        for vnode in files {
            if let Some(object) = c.vfs().fs.inode(vnode).object {
                ignore_waits(c.vm_object_page_clean(cpu, object, 0, u32::MAX, false))?;
            }
            if c.vfs().fs.exists(vnode) && c.vfs().fs.inode(vnode).modified {
                ignore_waits(update(c, cpu, vnode))?;
            }
            namei::reap(c, cpu, vnode);
        }
        for buf in c.vfs().bufs.queued(BufQueue::Dirty) {
            start(c, cpu, buf)?;
        }
        Ok(())
    })
}

/// Only a panic stops a round; the next one finds the rest.
fn ignore_waits(result: KResult<()>) -> KResult<()> {
    match result {
        Err(stop @ Stop::Panic(_)) => Err(stop),
        _ => Ok(()),
    }
}

fn update<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId) -> KResult<()> {
    let buf = ffs::inode_buffer(c, cpu, vnode)?;
    ffs::update(c, cpu, vnode, buf)
}

/// Starts writing one dirty buffer, with its dirty neighbours if writes are clustered.
fn start<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) -> KResult<()> {
    let record = *c.vfs().bufs.get(buf);
    if !record.flags.contains(BufFlags::DELWRI) || record.locked() {
        return Ok(());
    }
    let clusters = matches!(
        c.vfs().config.read_ahead,
        ReadAhead::Cluster { write: true, .. }
    );
    if let Some(vnode) = record.vnode.filter(|_| clusters) {
        let run = c.vfs().config.pbuf_bytes / c.vfs().config.block_bytes;
        return cluster::wbuild(c, cpu, vnode, record.block, run.max(1));
    }
    bio::lock(c, buf);
    bio::bawrite(c, cpu, buf)
}

/// Starts writes, the oldest first, until at most `dirty_max` dirty buffers are left.
pub(crate) fn daemon<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, dirty_max: u32) -> KResult<()> {
    operation(c, cpu, "buf_daemon", |c| {
        let dirty = c.vfs().bufs.dirty_count();
        flush(c, cpu, dirty.saturating_sub(dirty_max))
    })
}

/// Starts writing the `count` oldest dirty buffers.
pub(crate) fn flush<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, count: u32) -> KResult<()> {
    let oldest = c.vfs().bufs.queued(BufQueue::Dirty);
    for buf in oldest.into_iter().take(count as usize) {
        start(c, cpu, buf)?;
    }
    Ok(())
}

/// Writes everything of a file and sleeps until it is on the disk.
pub(crate) fn file<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId) -> KResult<()> {
    operation(c, cpu, "ffs_syncvnode", |c| {
        if let Some(object) = c.vfs().fs.inode(vnode).object {
            c.vm_object_page_clean(cpu, object, 0, u32::MAX, true)?;
        }
        for buf in c.vfs().bufs.of(vnode) {
            start(c, cpu, buf)?;
        }
        sleep_for_io(c, c.vfs().bufs.of(vnode))?;
        if c.vfs().fs.inode(vnode).modified {
            update(c, cpu, vnode)?;
        }
        let (block, _) = c.vfs().fs.inode_place(vnode);
        if let Some(buf) = c.vfs().bufs.incore(DEVICE, block) {
            start(c, cpu, buf)?;
            sleep_for_io(c, vec![buf])?;
        }
        Ok(())
    })
}

/// Sleeps for the first of these buffers that is in a transfer.
fn sleep_for_io<C: VfsCtx + ?Sized>(c: &C, bufs: Vec<BufId>) -> KResult<()> {
    let busy = |b: &BufId| c.vfs().bufs.get(*b).flags.contains(BufFlags::IO);
    match bufs.into_iter().find(busy) {
        Some(buf) => Err(Stop::Wait(Channel::Buffer(buf.0))),
        None => Ok(()),
    }
}
