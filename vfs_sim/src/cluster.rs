//! Clustered I/O: read-ahead, and several buffers in one transfer.
//!
//! Source: FreeBSD `kern/vfs_cluster.c` (cluster_read, cluster_rbuild, cluster_write,
//! cluster_wbuild). During a clustered transfer each page has two kernel mappings: its buffer's and
//! the cluster's. Absent: reallocation of blocks to make a file contiguous, small blocks, the sync
//! mount's case.

use machine::CpuId;
use pmap::PmapVerbs;
use vm::{KResult, Stop, VALID_ALL, VnodeId, operation};

use crate::ctx::VfsCtx;
use crate::pbuf::{self, PbufUse};
use crate::types::{BufFlags, BufId, Intent, PbufId, ReadAhead};
use crate::{bio, vmio};

/// Most blocks in one transfer.
fn run_max<C: VfsCtx + ?Sized>(c: &C) -> u32 {
    let config = &c.vfs().config;
    (config.pbuf_bytes / config.block_bytes).max(1)
}

/// How far read-ahead may reach, in blocks from `block` (maxra).
fn reach<C: VfsCtx + ?Sized>(c: &C, vnode: VnodeId, block: u32, seqcount: u32) -> u32 {
    let config = &c.vfs().config;
    let ReadAhead::Cluster { blocks_max, .. } = config.read_ahead else {
        return 0;
    };
    let reach = seqcount.min(blocks_max).min(config.nbuf / 8);
    let blocks = c.vfs().fs.inode(vnode).size / config.block_bytes;
    match block.saturating_add(reach + 1) > blocks {
        true => blocks.saturating_sub(block),
        false => reach,
    }
}

fn has<C: VfsCtx + ?Sized>(c: &C, buf: BufId, flag: BufFlags) -> bool {
    c.vfs().bufs.get(buf).flags.contains(flag)
}

fn set<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId, flags: BufFlags) {
    c.vfs_mut().bufs.get_mut(buf).flags |= flags;
}

/// A block, and others ahead of it. `wanted` is what the caller still reads, from the block's start.
pub(crate) fn read<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    wanted: u32,
    seqcount: u32,
) -> KResult<BufId> {
    operation(c, cpu, "cluster_read", |c| {
        let size = c.vfs().config.block_bytes;
        let reach = reach(c, vnode, block, seqcount);
        let buf = bio::getblk(c, cpu, vnode, block, size, Intent::Read)?;
        let next = if has(c, buf, BufFlags::CACHE) {
            match after_hit(c, buf, vnode, block, (reach, seqcount)) {
                Some(next) => next,
                None => return Ok(buf),
            }
        } else {
            after_miss(c, cpu, buf, vnode, (block, wanted))?
        };
        let ahead = ahead(c, cpu, vnode, next, block.saturating_add(reach));
        if let Err(stop @ Stop::Panic(_)) = ahead {
            return Err(stop);
        }
        bio::wait_read(c, buf)?;
        Ok(buf)
    })
}

/// The block is in core: read-ahead goes on only where a mark says so, behind what is there already.
fn after_hit<C: VfsCtx + ?Sized>(
    c: &mut C,
    buf: BufId,
    vnode: VnodeId,
    block: u32,
    (reach, seqcount): (u32, u32),
) -> Option<u32> {
    if seqcount == 0 || !has(c, buf, BufFlags::RAM) {
        return None;
    }
    c.vfs_mut().bufs.get_mut(buf).flags -= BufFlags::RAM;
    let run = run_max(c);
    let mut n = 1;
    while n < reach {
        let Some(there) = c.vfs().bufs.incore(vnode, block + n) else {
            break;
        };
        if n % run == run - 1 || n == reach - 1 {
            set(c, there, BufFlags::RAM);
        }
        n += 1;
    }
    (n < reach).then_some(block + n)
}

/// The block is not in core: it is read, with what the caller asked for beyond it if that is next to
/// it on the disk. Returns the first block not read.
fn after_miss<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    vnode: VnodeId,
    (block, wanted): (u32, u32),
) -> KResult<u32> {
    let size = c.vfs().config.block_bytes;
    let blocks = wanted.div_ceil(size);
    let near = c.vfs().fs.contiguous(vnode, block).0 + 1;
    if blocks > 1 && c.vfs().fs.bmap(vnode, block).is_some() {
        return rbuild(c, cpu, vnode, block, blocks.min(near), Some(buf));
    }
    set(c, buf, BufFlags::RAM);
    bio::start_read(c, cpu, buf)?;
    Ok(block + 1)
}

/// Reads ahead, asynchronously, up to `end`.
fn ahead<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    mut block: u32,
    end: u32,
) -> KResult<()> {
    while block < end && c.vfs().fs.bmap(vnode, block).is_some() {
        let near = c.vfs().fs.contiguous(vnode, block).0;
        block = rbuild(c, cpu, vnode, block, (near + 1).min(run_max(c)), None)?;
    }
    Ok(())
}

/// Reads up to `run` contiguous blocks from `block` in one transfer. `first` is the caller's own
/// buffer of the first one; without it, all are asynchronous. Returns the first block not read.
fn rbuild<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    run: u32,
    first: Option<BufId>,
) -> KResult<u32> {
    let size = c.vfs().config.block_bytes;
    let whole = c.vfs().fs.inode(vnode).size / size;
    let run = run.min(whole.saturating_sub(block)).min(run_max(c));
    let buf = match first {
        Some(buf) => buf,
        None => {
            let bytes = c.vfs().fs.blksize(vnode, block);
            let buf = bio::getblk(c, cpu, vnode, block, bytes, Intent::Read)?;
            if has(c, buf, BufFlags::CACHE) {
                bio::bqrelse(c, cpu, buf);
                return Ok(block + 1);
            }
            set(c, buf, BufFlags::ASYNC | BufFlags::RAM);
            buf
        }
    };
    let pbuf = match run > 1 {
        true => pbuf::try_get(c, PbufUse::Cluster),
        false => None,
    };
    let Some(pbuf) = pbuf else {
        bio::start_read(c, cpu, buf)?;
        return Ok(block + 1);
    };
    join(c, pbuf, buf, true);
    let mut count = 1;
    while count < run {
        let Some(next) = candidate(c, cpu, vnode, block + count) else {
            break;
        };
        let mark = first.is_some() && count == 1 || count == run - 1;
        let flags = match mark {
            true => BufFlags::ASYNC | BufFlags::RAM,
            false => BufFlags::ASYNC,
        };
        set(c, next, flags);
        join(c, pbuf, next, true);
        count += 1;
    }
    transfer(c, cpu, pbuf, false)?;
    Ok(block + count)
}

/// The buffer of a block that can take part in a read: nobody's, without any valid contents.
fn candidate<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
) -> Option<BufId> {
    let locked = |b: BufId| c.vfs().bufs.get(b).locked();
    if c.vfs().bufs.incore(vnode, block).is_some_and(locked) {
        return None;
    }
    let size = c.vfs().config.block_bytes;
    let buf = bio::getblk(c, cpu, vnode, block, size, Intent::Read).ok()?;
    let frames = c.vfs().bufs.get(buf).frames().iter();
    let mut valid = frames.map(|f| c.vm().page(*f).valid);
    if has(c, buf, BufFlags::CACHE) || valid.any(|v| v != 0) {
        bio::bqrelse(c, cpu, buf);
        return None;
    }
    Some(buf)
}

/// Puts a buffer and its pages into a cluster. Pages that are whole already are read into the bogus
/// page instead.
fn join<C: VfsCtx + ?Sized>(c: &mut C, pbuf: PbufId, buf: BufId, read: bool) {
    set(c, buf, BufFlags::CLUSTER | BufFlags::IO);
    let record = *c.vfs().bufs.get(buf);
    for (n, frame) in (0..).zip(record.frames()) {
        let page = c.vm_mut().page_mut(*frame);
        page.io += 1;
        let whole = page.valid == VALID_ALL;
        let bogus = c.vfs().bogus.filter(|_| read && whole);
        if let Some(bogus) = bogus {
            c.vfs_mut().bufs.get_mut(buf).set_page(n, bogus);
        }
        let cluster = &mut c.vfs_mut().pbufs[pbuf.0 as usize];
        cluster.push_page(bogus.unwrap_or(*frame));
    }
    c.vfs_mut().pbufs[pbuf.0 as usize].push_buf(buf);
}

/// Gives the cluster its own mapping and starts the transfer.
fn transfer<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, pbuf: PbufId, write: bool) -> KResult<()> {
    c.charge(
        cpu,
        if write {
            "cluster_wbuild"
        } else {
            "cluster_rbuild"
        },
    );
    let record = c.vfs().pbufs[pbuf.0 as usize];
    c.pmap_qenter(cpu, record.kva, record.frames());
    if write {
        for frame in record.frames() {
            c.pmap_remove_write(cpu, *frame);
        }
        for buf in record.bufs() {
            vmio::clean_pages(c, *buf);
        }
    }
    let size = c.vfs().config.block_bytes;
    let first = record.bufs().first().map(|b| c.vfs().bufs.get(*b));
    let block = first.and_then(|b| b.disk_block).unwrap_or(0);
    let at = u64::from(block) * u64::from(size);
    pbuf::start(c, cpu, pbuf, write, at, record.nbufs * size).map(|_| ())
}

/// A whole block was written: wait for the rest of a cluster, or write what is complete.
pub(crate) fn write<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    seqcount: u32,
) -> KResult<()> {
    c.charge(cpu, "cluster_write");
    let record = *c.vfs().bufs.get(buf);
    let Some(vnode) = record.vnode else {
        return bio::bawrite(c, cpu, buf);
    };
    let (block, address) = (record.block, record.disk_block.unwrap_or(0));
    let mut state = c.vfs().fs.inode(vnode).cluster;
    if block == 0 {
        state = Default::default();
    }
    let next =
        state.len > 0 && block == state.last_written + 1 && address == state.last_address + 1;
    let mut flush = None;
    if !next {
        if state.len > 0 && seqcount > 0 {
            flush = Some((state.start, state.last_written - state.start + 1));
        }
        state.len = run_max(c) - 1;
        state.start = block + u32::from(state.len == 0);
    } else if block == state.start + state.len {
        if seqcount > 1 {
            flush = Some((state.start, state.len + 1));
        }
        (state.len, state.start) = (0, block + 1);
    }
    let alone = !next && state.len == 0;
    (state.last_written, state.last_address) = (block, address);
    c.vfs_mut().fs.inode_mut(vnode).cluster = state;
    match alone {
        true => bio::bawrite(c, cpu, buf)?,
        false => bio::bdwrite(c, cpu, buf),
    }
    match flush {
        Some((start, len)) => wbuild(c, cpu, vnode, start, len),
        None => Ok(()),
    }
}

/// Writes the dirty buffers of a range of blocks, neighbours on the disk in one transfer.
pub(crate) fn wbuild<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    start: u32,
    len: u32,
) -> KResult<()> {
    let end = start.saturating_add(len);
    let mut block = start;
    while block < end {
        let run = dirty_run(c, vnode, block, end);
        if run.len() < 2 {
            if let Some(buf) = run.first() {
                bio::lock(c, *buf);
                bio::bawrite(c, cpu, *buf)?;
            }
            block += 1;
            continue;
        }
        let Some(pbuf) = pbuf::try_get(c, PbufUse::Cluster) else {
            bio::lock(c, run[0]);
            bio::bawrite(c, cpu, run[0])?;
            block += 1;
            continue;
        };
        for buf in &run {
            bio::lock(c, *buf);
            let record = c.vfs_mut().bufs.get_mut(*buf);
            record.flags -= BufFlags::DELWRI;
            record.flags |= BufFlags::ASYNC | BufFlags::CACHE;
            join(c, pbuf, *buf, false);
        }
        transfer(c, cpu, pbuf, true)?;
        block += run.len() as u32;
    }
    Ok(())
}

/// The dirty, unlocked, whole buffers from `block` on that are neighbours on the disk.
fn dirty_run<C: VfsCtx + ?Sized>(c: &C, vnode: VnodeId, block: u32, end: u32) -> Vec<BufId> {
    let bufs = &c.vfs().bufs;
    let size = c.vfs().config.block_bytes;
    let mut run = Vec::new();
    let mut first = None;
    for n in block..end.min(block.saturating_add(run_max(c))) {
        let Some(buf) = bufs.incore(vnode, n) else {
            break;
        };
        let record = bufs.get(buf);
        let dirty = record.flags.contains(BufFlags::DELWRI) && !record.locked();
        let at = record.disk_block.and_then(|b| b.checked_sub(n - block));
        if !dirty || at.is_none() || first.is_some() && at != first {
            break;
        }
        if record.bytes != size && !run.is_empty() {
            break;
        }
        first = at;
        run.push(buf);
        if record.bytes != size {
            break;
        }
    }
    run
}
