//! The buffer cache: getblk and what gives buffers back.
//!
//! Source: FreeBSD `kern/vfs_bio.c` (getblk, getnewbuf, bread, bufwrite, bdwrite, bqrelse, brelse,
//! bufdone). A buffer that is released keeps its pages and their writable kernel mapping until it is
//! recycled, truncated or released with INVAL or RELBUF: this is what seeds/001 is about. A transfer
//! that somebody must sleep for becomes asynchronous: its end releases the buffer, and the sleeper,
//! called again, finds it in core. Absent: background writes, dependencies, runningbufspace.

use machine::CpuId;
use pmap::{BufferEvent, PmapVerbs};
use vm::{Channel, Errno, KResult, Stop, VnodeId, operation};

use crate::buf::BufQueue;
use crate::ctx::VfsCtx;
use crate::disk::{self, IoOwner, Request};
use crate::types::{BufFlags, BufId, Intent};
use crate::{sync, vmio};

/// The block's buffer, locked and mapped.
pub(crate) fn getblk<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    size: u32,
    intent: Intent,
) -> KResult<BufId> {
    operation(c, cpu, "getblk", |c| {
        if size == 0 || size > c.vfs().config.block_bytes || !c.vfs().fs.exists(vnode) {
            return Err(Errno::EINVAL.into());
        }
        let buf = match c.vfs().bufs.incore(vnode, block) {
            Some(buf) => reuse(c, cpu, buf, size)?,
            None => make(c, cpu, vnode, block, size)?,
        };
        let write = intent == Intent::Write;
        event(c, cpu, buf, BufferEvent::Acquired { write });
        Ok(buf)
    })
}

/// A hit. Only a change of size touches its pages; else its mapping stays as it is.
fn reuse<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, size: u32) -> KResult<BufId> {
    if c.vfs().bufs.get(buf).locked() {
        return Err(Stop::Wait(Channel::Buffer(buf.0)));
    }
    lock(c, buf);
    if c.vfs().bufs.get(buf).bytes != size {
        sized(c, cpu, buf, size)?;
    }
    // A page may have lost its contents to truncation since.
    if !c.vfs().bufs.get(buf).flags.contains(BufFlags::DELWRI) {
        vmio::test_cache(c, buf);
    }
    Ok(buf)
}

/// A miss: a new buffer, whose pages the file's object may have already.
fn make<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    size: u32,
) -> KResult<BufId> {
    vmio::object_of(c, vnode)?;
    vmio::bogus_page(c, cpu)?;
    let buf = getnewbuf(c, cpu)?;
    if c.vfs().bufs.incore(vnode, block).is_some() {
        // Somebody else made it while this one was found.
        release_empty(c, buf);
        return Err(Stop::Wait(Channel::NoBuffer));
    }
    let disk_block = c.vfs().fs.bmap(vnode, block);
    let bufs = &mut c.vfs_mut().bufs;
    bufs.assign(buf, vnode, block);
    let record = bufs.get_mut(buf);
    record.disk_block = disk_block;
    record.flags = BufFlags::LOCKED | BufFlags::CACHE;
    record.bytes = 0;
    sized(c, cpu, buf, size)?;
    Ok(buf)
}

/// allocbuf; a buffer that could not get its pages is given back without any.
fn sized<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, size: u32) -> KResult<()> {
    let result = vmio::allocbuf(c, cpu, buf, size);
    if result.is_err() {
        let record = c.vfs_mut().bufs.get_mut(buf);
        if !record.flags.contains(BufFlags::DELWRI) {
            record.flags |= BufFlags::INVAL;
        }
        brelse(c, cpu, buf);
    }
    result
}

/// A buffer without a file: one that has addresses, a fresh one, or the clean one released longest
/// ago. Without any, dirty ones are written.
fn getnewbuf<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> KResult<BufId> {
    operation(c, cpu, "getnewbuf", |c| {
        let bytes = c.vfs().config.block_bytes;
        if !c.vfs().bufs.fits(bytes) {
            return Err(Errno::ENOMEM.into());
        }
        for turn in 0..2 {
            while let Some(buf) = candidate(c, cpu) {
                if c.vfs_mut().bufs.reserve(buf, bytes) {
                    lock(c, buf);
                    return Ok(buf);
                }
                // No run of addresses is free: give another buffer's back.
                release_empty(c, buf);
                if !recycle_oldest(c, cpu) {
                    break;
                }
            }
            if turn == 0 {
                sync::flush(c, cpu, 1)?;
            }
        }
        Err(Stop::Wait(Channel::NoBuffer))
    })
}

fn candidate<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> Option<BufId> {
    if let Some(buf) = c.vfs().bufs.head(BufQueue::EmptyKva) {
        return Some(buf);
    }
    if !c.vfs().bufs.has_fresh() {
        recycle_oldest(c, cpu);
        return c.vfs().bufs.head(BufQueue::EmptyKva);
    }
    c.vfs_mut().bufs.fresh()
}

fn recycle_oldest<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> bool {
    let Some(victim) = c.vfs().bufs.head(BufQueue::Clean) else {
        return false;
    };
    recycle(c, cpu, victim);
    true
}

/// Takes a clean buffer's file, pages and mapping away.
pub(crate) fn recycle<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    lock(c, buf);
    vmio::release(c, cpu, buf);
    c.vfs_mut().bufs.disown(buf);
    release_empty(c, buf);
}

/// Recycles every clean buffer, of one file or of all; returns how many.
pub(crate) fn recycle_all<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: Option<VnodeId>,
) -> u32 {
    let mut count = 0;
    for buf in c.vfs().bufs.queued(BufQueue::Clean) {
        let record = c.vfs().bufs.get(buf);
        let mine = vnode.is_none() || record.vnode == vnode;
        if mine && record.queue == BufQueue::Clean {
            recycle(c, cpu, buf);
            count += 1;
        }
    }
    count
}

fn release_empty<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId) {
    let bufs = &mut c.vfs_mut().bufs;
    let record = bufs.get_mut(buf);
    record.flags = BufFlags::empty();
    record.bytes = 0;
    bufs.requeue(buf, BufQueue::EmptyKva, true);
}

pub(crate) fn lock<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId) {
    let bufs = &mut c.vfs_mut().bufs;
    bufs.requeue(buf, BufQueue::None, false);
    bufs.get_mut(buf).flags |= BufFlags::LOCKED;
}

fn unlock<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId, queue: BufQueue) {
    let bufs = &mut c.vfs_mut().bufs;
    bufs.get_mut(buf).flags -= BufFlags::LOCKED | BufFlags::ASYNC;
    bufs.requeue(buf, queue, false);
    c.wakeup(Channel::Buffer(buf.0));
    c.wakeup(Channel::NoBuffer);
}

/// Tells the policy about a buffer.
pub(crate) fn event<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, event: BufferEvent) {
    let record = *c.vfs().bufs.get(buf);
    if record.npages > 0 {
        c.buffer_event(cpu, event, record.kva, record.frames());
    }
}

/// getblk, then a read if the contents are not valid.
pub(crate) fn bread<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    size: u32,
    intent: Intent,
) -> KResult<BufId> {
    operation(c, cpu, "bread", |c| {
        let buf = getblk(c, cpu, vnode, block, size, intent)?;
        if c.vfs().bufs.get(buf).flags.contains(BufFlags::CACHE) {
            return Ok(buf);
        }
        start_read(c, cpu, buf)?;
        wait_read(c, buf)?;
        if intent == Intent::Write {
            // The end of the transfer may have undone what the announcement prepared.
            event(c, cpu, buf, BufferEvent::Acquired { write: true });
        }
        Ok(buf)
    })
}

/// Starts reading a locked buffer; a hole is zeroed instead.
pub(crate) fn start_read<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) -> KResult<()> {
    if c.vfs().bufs.get(buf).disk_block.is_none() {
        event(c, cpu, buf, BufferEvent::Acquired { write: true });
        vmio::clrbuf(c, cpu, buf)?;
        if c.vfs().bufs.get(buf).flags.contains(BufFlags::ASYNC) {
            bqrelse(c, cpu, buf);
        }
        return Ok(());
    }
    vmio::busy_for_read(c, cpu, buf);
    bstrategy(c, cpu, buf, false)
}

/// Sleeps for a read that is under way; its end releases the buffer.
pub(crate) fn wait_read<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId) -> KResult<()> {
    let record = c.vfs_mut().bufs.get_mut(buf);
    if !record.flags.contains(BufFlags::IO) {
        return Ok(());
    }
    record.flags |= BufFlags::ASYNC;
    Err(Stop::Wait(Channel::Buffer(buf.0)))
}

fn bstrategy<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, write: bool) -> KResult<()> {
    c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::IO;
    event(c, cpu, buf, BufferEvent::IoStart { read: !write });
    let record = c.vfs().bufs.get(buf);
    let block = u64::from(record.disk_block.unwrap_or(0));
    let request = Request {
        owner: IoOwner::Buffer(buf),
        write,
        at: block * u64::from(c.vfs().config.block_bytes),
        kva: record.kva,
        len: record.bytes,
        map: None,
    };
    disk::strategy(c, cpu, request).map(|_| ())
}

/// Pages become valid, the bogus one leaves, and an asynchronous buffer is released (bufdone).
pub(crate) fn bufdone<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, read: bool) {
    c.charge(cpu, "bufdone");
    vmio::finish(c, cpu, buf, read);
    event(c, cpu, buf, BufferEvent::IoDone { read });
    let record = c.vfs_mut().bufs.get_mut(buf);
    record.flags -= BufFlags::IO | BufFlags::CLUSTER;
    record.flags |= BufFlags::CACHE;
    if record.flags.contains(BufFlags::ASYNC) {
        let give = BufFlags::RELBUF | BufFlags::INVAL | BufFlags::NOCACHE;
        match record.flags.intersects(give) {
            true => brelse(c, cpu, buf),
            false => bqrelse(c, cpu, buf),
        }
    }
}

/// Starts the write of a locked buffer; its end releases it.
pub(crate) fn bawrite<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) -> KResult<()> {
    operation(c, cpu, "bufwrite", |c| {
        if c.vfs().bufs.get(buf).disk_block.is_none() {
            let record = c.vfs().bufs.get(buf);
            let found = record.vnode.and_then(|v| c.vfs().fs.bmap(v, record.block));
            c.vfs_mut().bufs.get_mut(buf).disk_block = found;
        }
        let record = c.vfs_mut().bufs.get_mut(buf);
        record.flags -= BufFlags::DELWRI;
        record.flags |= BufFlags::CACHE | BufFlags::ASYNC;
        if record.disk_block.is_none() {
            // The file lost the block meanwhile: there is nowhere to write to.
            record.flags |= BufFlags::INVAL;
            brelse(c, cpu, buf);
            return Ok(());
        }
        vmio::busy_for_write(c, cpu, buf);
        bstrategy(c, cpu, buf, true)
    })
}

/// Writes and sleeps until it is done.
pub(crate) fn bwrite<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) -> KResult<()> {
    bawrite(c, cpu, buf)?;
    match c.vfs().bufs.get(buf).flags.contains(BufFlags::IO) {
        true => Err(Stop::Wait(Channel::Buffer(buf.0))),
        false => Ok(()),
    }
}

/// Marks a buffer to be written later, which answers for its pages from now on, and releases it.
pub(crate) fn bdwrite<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    operation(c, cpu, "bdwrite", |c| {
        c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::DELWRI | BufFlags::CACHE;
        vmio::clean_pages(c, buf);
        bqrelse(c, cpu, buf);
    });
}

/// Releases a buffer that stays cached, and mapped.
pub(crate) fn bqrelse<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    operation(c, cpu, "bqrelse", |c| {
        event(c, cpu, buf, BufferEvent::Released);
        let dirty = c.vfs().bufs.get(buf).flags.contains(BufFlags::DELWRI);
        let queue = match dirty {
            true => BufQueue::Dirty,
            false => BufQueue::Clean,
        };
        unlock(c, buf, queue);
    });
}

/// Releases a buffer; if it is worthless or its pages are wanted back, these are unmapped.
pub(crate) fn brelse<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    operation(c, cpu, "brelse", |c| {
        let flags = c.vfs().bufs.get(buf).flags;
        let worthless = flags.intersects(BufFlags::INVAL | BufFlags::NOCACHE);
        let keep = flags.contains(BufFlags::DELWRI) && !worthless;
        if !worthless && !flags.contains(BufFlags::RELBUF) || keep {
            return bqrelse(c, cpu, buf);
        }
        vmio::release(c, cpu, buf);
        let bufs = &mut c.vfs_mut().bufs;
        bufs.disown(buf);
        let record = bufs.get_mut(buf);
        record.flags = BufFlags::LOCKED;
        record.bytes = 0;
        unlock(c, buf, BufQueue::EmptyKva);
    });
}
