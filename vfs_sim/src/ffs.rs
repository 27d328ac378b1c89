//! Reading and writing files through the buffer cache.
//!
//! Source: FreeBSD `ufs/ffs/ffs_vnops.c` (ffs_read, ffs_write), `ffs_balloc.c`, `ffs_alloc.c`
//! (ffs_realloccg), `ffs_inode.c` (ffs_truncate, ffs_update). A copy that fails or must sleep while it
//! fills a buffer without valid contents leaves zeros there, as FreeBSD's does, and does not count;
//! called again, it overwrites the block from its start. Absent: indirect blocks, quotas, soft
//! updates, snapshots, extended attributes.

use machine::{CpuId, Width};
use pmap::{BufferEvent, KernelUse, PmapVerbs};
use vm::{Channel, Errno, KResult, Stop, Uio, UioSegment, VmVerbs, VnodeId, operation};

use crate::ctx::VfsCtx;
use crate::fs::DEVICE;
use crate::types::{BufFlags, BufId, Intent, IoFlags, ReadAhead};
use crate::{bio, cluster, pager, vmio};

fn check_file<C: VfsCtx + ?Sized>(c: &C, vnode: VnodeId) -> KResult<()> {
    if vnode == DEVICE || !c.vfs().fs.exists(vnode) {
        return Err(Errno::EINVAL.into());
    }
    match c.vfs().fs.inode(vnode).directory {
        true => Err(Errno::EISDIR.into()),
        false => Ok(()),
    }
}

/// Whether a transfer's buffers give their pages back; written ones do not if they have dependencies.
fn gives_back(flags: IoFlags) -> bool {
    flags.intersects(IoFlags::VMIO | IoFlags::DIRECT)
}

/// ffs_read.
pub(crate) fn read<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    uio: &mut Uio,
    flags: IoFlags,
    seqcount: u32,
) -> KResult<()> {
    check_file(c, vnode)?;
    operation(c, cpu, "ffs_read", |c| {
        let bsize = c.vfs().config.block_bytes;
        while uio.resid > 0 {
            let size = u64::from(c.vfs().fs.inode(vnode).size);
            if uio.offset >= size {
                break;
            }
            let (block, skip) = split(uio.offset, bsize);
            let left = (size - uio.offset).min(u64::from(u32::MAX)) as u32;
            let len = (bsize - skip).min(uio.resid).min(left);
            let wanted = skip.saturating_add(uio.resid);
            let buf = read_block(c, cpu, vnode, block, wanted, seqcount)?;
            read_from(c, cpu, buf, skip, len, uio, flags)?;
        }
        Ok(())
    })
}

fn split(offset: u64, bsize: u32) -> (u32, u32) {
    let block = (offset / u64::from(bsize)) as u32;
    (block, (offset % u64::from(bsize)) as u32)
}

/// The block, alone if it is the file's last or clustering is off.
fn read_block<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    wanted: u32,
    seqcount: u32,
) -> KResult<BufId> {
    let bsize = u64::from(c.vfs().config.block_bytes);
    let size = c.vfs().fs.blksize(vnode, block);
    let last = (u64::from(block) + 1) * bsize >= u64::from(c.vfs().fs.inode(vnode).size);
    match c.vfs().config.read_ahead {
        ReadAhead::Cluster { read: true, .. } if !last => {
            cluster::read(c, cpu, vnode, block, wanted, seqcount)
        }
        _ => bio::bread(c, cpu, vnode, block, size, Intent::Read),
    }
}

/// uiomove out of a buffer, and its release: it lingers, mapped, unless the caller wants nothing kept.
fn read_from<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    skip: u32,
    len: u32,
    uio: &mut Uio,
    flags: IoFlags,
) -> KResult<()> {
    if flags.contains(IoFlags::DIRECT) {
        c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::DIRECT;
    }
    let va = c.vfs().bufs.get(buf).kva.add(skip);
    let moved = c.uiomove(cpu, va, len, uio);
    bio::event(c, cpu, buf, BufferEvent::Copied { write: false });
    if gives_back(flags) {
        c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::RELBUF;
        bio::brelse(c, cpu, buf);
    } else {
        bio::bqrelse(c, cpu, buf);
    }
    moved
}

/// ffs_write.
pub(crate) fn write<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    uio: &mut Uio,
    flags: IoFlags,
    seqcount: u32,
) -> KResult<()> {
    check_file(c, vnode)?;
    operation(c, cpu, "ffs_write", |c| {
        if flags.contains(IoFlags::APPEND) {
            uio.offset = u64::from(c.vfs().fs.inode(vnode).size);
        }
        let end = uio.offset.checked_add(u64::from(uio.resid));
        c.vfs().fs.check_size(end.ok_or(Errno::EFBIG)?)?;
        let bsize = c.vfs().config.block_bytes;
        while uio.resid > 0 {
            let (block, skip) = split(uio.offset, bsize);
            let len = (bsize - skip).min(uio.resid);
            write_block(c, cpu, vnode, (block, skip, len), uio, flags, seqcount)?;
        }
        Ok(())
    })
}

/// One block: found or made, copied into, and written now, soon or later.
fn write_block<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    (block, skip, len): (u32, u32, u32),
    uio: &mut Uio,
    flags: IoFlags,
    seqcount: u32,
) -> KResult<()> {
    let bsize = c.vfs().config.block_bytes;
    let end = uio.offset as u32 + len;
    let old = c.vfs().fs.inode(vnode).size;
    if end > old {
        pager::setsize(c, cpu, vnode, end)?;
    }
    let buf = match balloc(c, cpu, vnode, block, skip + len, len < bsize) {
        Ok(buf) => buf,
        Err(stop) => {
            let size = c.vfs().fs.inode(vnode).size;
            pager::setsize(c, cpu, vnode, size)?;
            return Err(stop);
        }
    };
    if flags.contains(IoFlags::DIRECT) {
        c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::DIRECT;
    }
    let va = c.vfs().bufs.get(buf).kva.add(skip);
    let before = *uio;
    let moved = c.uiomove(cpu, va, len, uio);
    let cleared = match &moved {
        Err(Stop::Panic(_)) => return moved,
        Err(_) if !c.vfs().bufs.get(buf).flags.contains(BufFlags::CACHE) => {
            *uio = before;
            vmio::clrbuf(c, cpu, buf)
        }
        _ => Ok(()),
    };
    if uio.segment != UioSegment::NoCopy {
        bio::event(c, cpu, buf, BufferEvent::Copied { write: true });
    }
    let inode = c.vfs_mut().fs.inode_mut(vnode);
    inode.size = inode.size.max(uio.offset as u32);
    inode.modified = true;
    if moved.is_err() {
        let size = c.vfs().fs.inode(vnode).size;
        pager::setsize(c, cpu, vnode, size)?;
    }
    let release = release_written(c, cpu, buf, skip + len == bsize, flags, seqcount);
    moved.and(cleared).and(release)
}

/// What becomes of a buffer just written into.
fn release_written<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    full: bool,
    flags: IoFlags,
    seqcount: u32,
) -> KResult<()> {
    if gives_back(flags) && !c.vfs().config.soft_updates {
        c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::RELBUF;
    }
    let clusters = matches!(
        c.vfs().config.read_ahead,
        ReadAhead::Cluster { write: true, .. }
    );
    if flags.contains(IoFlags::SYNC) {
        bio::bwrite(c, cpu, buf)
    } else if flags.contains(IoFlags::ASYNC) {
        bio::bawrite(c, cpu, buf)
    } else if full && clusters {
        cluster::write(c, cpu, buf, seqcount)
    } else if full || flags.contains(IoFlags::DIRECT) {
        bio::bawrite(c, cpu, buf)
    } else {
        bio::bdwrite(c, cpu, buf);
        Ok(())
    }
}

/// The buffer of a block about to be written up to byte `end` of it (ffs_balloc). `clear`: what is
/// not overwritten must be valid, so that it is read or zeroed.
fn balloc<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    end: u32,
    clear: bool,
) -> KResult<BufId> {
    c.charge(cpu, "ffs_balloc");
    fill_last_fragment(c, cpu, vnode, block)?;
    let fs = &c.vfs().fs;
    let had = fs.blksize(vnode, block);
    let bsize = c.vfs().config.block_bytes;
    let covers = u64::from(block) * u64::from(bsize) + u64::from(end);
    let last = covers >= u64::from(fs.inode(vnode).size);
    let needed = match last {
        true => fs.fragments(end),
        false => had,
    };
    if fs.bmap(vnode, block).is_some() {
        if needed > had {
            return grow_fragment(c, cpu, vnode, block, (had, needed));
        }
        return match clear {
            true => bio::bread(c, cpu, vnode, block, had, Intent::Write),
            false => bio::getblk(c, cpu, vnode, block, had, Intent::Write),
        };
    }
    let buf = bio::getblk(c, cpu, vnode, block, needed.max(had), Intent::Write)?;
    match c.vfs_mut().fs.allocate(vnode, block) {
        Ok(disk) => c.vfs_mut().bufs.get_mut(buf).disk_block = Some(disk),
        Err(stop) => {
            bio::bqrelse(c, cpu, buf);
            return Err(stop);
        }
    }
    if clear && let Err(stop) = vmio::clrbuf(c, cpu, buf) {
        bio::brelse(c, cpu, buf);
        return Err(stop);
    }
    Ok(buf)
}

/// A file that grows beyond its last, short block: that block becomes a whole one first.
fn fill_last_fragment<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
) -> KResult<()> {
    let bsize = c.vfs().config.block_bytes;
    let size = c.vfs().fs.inode(vnode).size;
    let last = size / bsize;
    let had = c.vfs().fs.blksize(vnode, last);
    if size.is_multiple_of(bsize) || block <= last {
        return Ok(());
    }
    let Some(whole) = (last + 1).checked_mul(bsize) else {
        return Err(Errno::EFBIG.into());
    };
    if had < bsize && c.vfs().fs.bmap(vnode, last).is_some() {
        let buf = grow_fragment(c, cpu, vnode, last, (had, bsize))?;
        c.vfs_mut().fs.inode_mut(vnode).size = whole;
        bio::bdwrite(c, cpu, buf);
    }
    Ok(())
}

/// Makes a short block longer: read as it was, its buffer grown, the rest zeroed (ffs_realloccg).
fn grow_fragment<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
    (had, needed): (u32, u32),
) -> KResult<BufId> {
    let buf = bio::bread(c, cpu, vnode, block, had, Intent::Write)?;
    let grown = vmio::allocbuf(c, cpu, buf, needed)
        .and_then(|()| vmio::zero(c, cpu, buf, had, needed - had));
    if let Err(stop) = grown {
        bio::brelse(c, cpu, buf);
        return Err(stop);
    }
    vmio::clean_pages(c, buf);
    c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::CACHE;
    Ok(buf)
}

/// ffs_truncate.
pub(crate) fn truncate<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    size: u32,
) -> KResult<()> {
    check_file(c, vnode)?;
    operation(c, cpu, "ffs_truncate", |c| {
        c.vfs().fs.check_size(u64::from(size))?;
        let old = c.vfs().fs.inode(vnode).size;
        if size > old {
            return extend(c, cpu, vnode, size);
        }
        let bsize = c.vfs().config.block_bytes;
        if !size.is_multiple_of(bsize) {
            shorten_block(c, cpu, vnode, size)?;
        }
        drop_buffers(c, cpu, vnode, size.div_ceil(bsize))?;
        pager::setsize(c, cpu, vnode, size)?;
        let fs = &mut c.vfs_mut().fs;
        fs.free_blocks(vnode, size.div_ceil(bsize));
        let inode = fs.inode_mut(vnode);
        inode.size = size;
        inode.modified = true;
        Ok(())
    })
}

/// A longer file: its last block is made, what lies between is a hole.
fn extend<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId, size: u32) -> KResult<()> {
    let bsize = c.vfs().config.block_bytes;
    let (block, skip) = split(u64::from(size) - 1, bsize);
    pager::setsize(c, cpu, vnode, size)?;
    let buf = balloc(c, cpu, vnode, block, skip + 1, true)?;
    let inode = c.vfs_mut().fs.inode_mut(vnode);
    inode.size = size;
    inode.modified = true;
    bio::bdwrite(c, cpu, buf);
    Ok(())
}

/// The block that holds the new end: zeroed beyond it, its buffer as short as the rest needs.
fn shorten_block<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    size: u32,
) -> KResult<()> {
    let (block, keep) = split(u64::from(size), c.vfs().config.block_bytes);
    if c.vfs().fs.bmap(vnode, block).is_none() {
        return pager::zero_page_end(c, cpu, vnode, size);
    }
    let had = c.vfs().fs.blksize(vnode, block);
    let buf = bio::bread(c, cpu, vnode, block, had, Intent::Write)?;
    let zeroed = match keep < had {
        true => vmio::zero(c, cpu, buf, keep, had - keep),
        false => Ok(()),
    };
    let needed = c.vfs().fs.fragments(keep);
    let sized = zeroed.and_then(|()| vmio::allocbuf(c, cpu, buf, needed.min(had)));
    // The size goes first: until then another caller asks for the old one.
    c.vfs_mut().fs.inode_mut(vnode).size = size;
    bio::bdwrite(c, cpu, buf);
    sized
}

/// Throws the buffers from a block on away, dirty or not (vtruncbuf).
pub(crate) fn drop_buffers<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    block: u32,
) -> KResult<()> {
    for buf in c.vfs().bufs.of(vnode) {
        let record = c.vfs().bufs.get(buf);
        if record.vnode != Some(vnode) || record.block < block {
            continue;
        }
        if record.locked() {
            return Err(Stop::Wait(Channel::Buffer(buf.0)));
        }
        bio::lock(c, buf);
        let give = BufFlags::INVAL | BufFlags::RELBUF | BufFlags::NOCACHE;
        let record = c.vfs_mut().bufs.get_mut(buf);
        record.flags -= BufFlags::DELWRI;
        record.flags |= give;
        bio::brelse(c, cpu, buf);
    }
    Ok(())
}

/// The buffer of the block that holds an inode, to be changed.
pub(crate) fn inode_buffer<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
) -> KResult<BufId> {
    let (block, _) = c.vfs().fs.inode_place(vnode);
    let size = c.vfs().config.block_bytes;
    bio::bread(c, cpu, DEVICE, block, size, Intent::Write)
}

/// Stores an inode into its buffer and leaves it to be written: read, modify, bdwrite (ffs_update).
pub(crate) fn update<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    buf: BufId,
) -> KResult<()> {
    c.charge(cpu, "ffs_update");
    let (_, at) = c.vfs().fs.inode_place(vnode);
    let va = c.vfs().bufs.get(buf).kva.add(at);
    let inode = c.vfs().fs.inode(vnode);
    let words = [inode.size, inode.links];
    let bytes = 8;
    c.kernel_will(cpu, KernelUse::Write, va, bytes);
    let mut stored = Ok(());
    for (n, word) in (0..).zip(words) {
        if stored.is_ok() {
            stored = c.kernel_store(cpu, va.add(n * 4), Width::Word, word);
        }
    }
    c.kernel_did(cpu, KernelUse::Write, va, bytes);
    bio::event(c, cpu, buf, BufferEvent::Copied { write: true });
    c.vfs_mut().fs.inode_mut(vnode).modified = false;
    bio::bdwrite(c, cpu, buf);
    stored
}
