//! The vnode pager, sf_bufs, and the page that exec looks at: mappings that go as soon as they have
//! served.
//!
//! Source: FreeBSD `vm/vnode_pager.c` (haspage, generic_getpages, generic_putpages, setsize),
//! `arm/arm/vm_machdep.c` (sf_buf_alloc), `kern/kern_exec.c` (exec_map_first_page). Absent: file
//! systems without bmap, blocks smaller than a page, a sleeping sf_buf_alloc. Under a queued disk the
//! end of the transfer unmaps in the interrupt, where FreeBSD's sleeper does it after it woke.

use machine::{CpuId, Frame, VirtAddr};
use pmap::{BufferEvent, KernelUse, PmapVerbs};
use vm::{
    Channel, Errno, KResult, ObjectId, Stop, Uio, UioDirection, UioSegment, VALID_ALL, VmVerbs,
    VnodeId, operation,
};

use crate::ctx::VfsCtx;
use crate::pbuf::{self, Pbuf, PbufUse};
use crate::types::{ExecPage, IoFlags};
use crate::{ffs, vmio};

/// The file of an object.
fn vnode_of<C: VfsCtx + ?Sized>(c: &C, object: ObjectId) -> KResult<VnodeId> {
    c.vm().object(object).vnode.ok_or_else(|| Errno::EIO.into())
}

/// Pages of a file system block.
fn block_pages<C: VfsCtx + ?Sized>(c: &C) -> u32 {
    c.vfs().config.block_bytes / c.vm().page_bytes()
}

/// Whether a page is on the disk, and how many pages before and after it are next to it there.
pub(crate) fn haspage<C: VfsCtx + ?Sized>(
    c: &mut C,
    object: ObjectId,
    pindex: u32,
) -> Option<(u32, u32)> {
    let vnode = vnode_of(c, object).ok()?;
    let pages = c.vm().object(object).pages;
    if pindex >= pages {
        return None;
    }
    let (per, max) = (
        block_pages(c),
        c.vfs().config.pagein_pages.saturating_sub(1),
    );
    let (block, inside) = (pindex / per, pindex % per);
    let (after, before) = c.vfs().fs.contiguous(vnode, block);
    let before = before.saturating_mul(per).saturating_add(inside).min(max);
    let after = after.saturating_mul(per).saturating_add(per - 1 - inside);
    Some((before, after.min(pages - 1 - pindex).min(max)))
}

/// Fills pages that are busy and invalid; one transfer for each run that is contiguous on the disk.
pub(crate) fn getpages<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
    count: u32,
) -> KResult<()> {
    operation(c, cpu, "vnode_pager_getpages", |c| {
        let (mut at, end) = (pindex, pindex + count);
        let mut waits = None;
        while at < end {
            match run(c, cpu, object, at, end) {
                Ok((next, complete)) => {
                    if !complete {
                        waits = waits.or(c.vm().lookup(object, at));
                    }
                    at = next;
                }
                Err(stop) => {
                    abandon(c, cpu, object, at, end);
                    return Err(stop);
                }
            }
        }
        match waits {
            Some(frame) => Err(Stop::Wait(Channel::Page(frame))),
            None => Ok(()),
        }
    })
}

/// Frees pages that were not filled; those that had a part are only let go.
fn abandon<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId, start: u32, end: u32) {
    for pindex in start..end {
        let Some(frame) = c.vm().lookup(object, pindex) else {
            continue;
        };
        let page = c.vm().page(frame);
        match page.valid == 0 && page.wired == 0 {
            true => c.vm_page_free(cpu, frame),
            false => c.vm_page_wakeup(frame),
        }
    }
}

/// One run from `at`: where it ends, and whether it is complete.
fn run<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    at: u32,
    end: u32,
) -> KResult<(u32, bool)> {
    let vnode = vnode_of(c, object)?;
    let (per, page) = (block_pages(c), c.vm().page_bytes());
    let first = c.vm().lookup(object, at).ok_or(Errno::EIO)?;
    if c.vm().page(first).valid != 0 {
        zero_invalid(c, cpu, first)?;
        return Ok((at + 1, true));
    }
    let Some(block) = c.vfs().fs.bmap(vnode, at / per) else {
        c.pmap_zero_page(cpu, first);
        vmio::page_filled(c, first);
        return Ok((at + 1, true));
    };
    let (after, _) = c.vfs().fs.contiguous(vnode, at / per);
    let reach = (after + 1).saturating_mul(per) - at % per;
    let most = c.vfs().config.pbuf_bytes / page;
    let last = end.min(at.saturating_add(reach.min(most)));
    let used = used_bytes(c, vnode, object, at, last);
    if c.vfs().pbufs.is_empty() {
        return Err(Errno::ENOMEM.into());
    }
    let pbuf = pbuf::try_get(c, used).ok_or(Stop::Wait(Channel::NoPagerBuffer))?;
    let mut next = at;
    while let Some(frame) = c.vm().lookup(object, next).filter(|_| next < last) {
        if next > at && c.vm().page(frame).valid != 0 {
            break;
        }
        c.vfs_mut().pbufs[pbuf.0 as usize].push_page(frame);
        next += 1;
    }
    let record = c.vfs().pbufs[pbuf.0 as usize];
    c.pmap_qenter(cpu, record.kva, record.frames());
    let start = u64::from(block) * u64::from(c.vfs().config.block_bytes);
    let start = start + u64::from(at % per * page);
    let len = transfer_bytes(c, &record);
    pbuf::start(c, cpu, pbuf, false, start, len).map(|complete| (next, complete))
}

/// The file's bytes from page `at` on.
fn used_bytes<C: VfsCtx + ?Sized>(
    c: &C,
    vnode: VnodeId,
    object: ObjectId,
    at: u32,
    last: u32,
) -> PbufUse {
    let page = u64::from(c.vm().page_bytes());
    let left = u64::from(c.vfs().fs.inode(vnode).size).saturating_sub(u64::from(at) * page);
    PbufUse::Pager {
        object,
        pindex: at,
        bytes: left.min(u64::from(last - at) * page) as u32,
    }
}

/// What is read from the disk: the file's bytes, in whole eighths of a page (sectors).
fn transfer_bytes<C: VfsCtx + ?Sized>(c: &C, record: &Pbuf) -> u32 {
    let page = c.vm().page_bytes();
    let mapped = record.npages * page;
    match record.used {
        PbufUse::Pager { bytes, .. } => bytes.next_multiple_of(page / 8).min(mapped),
        _ => mapped,
    }
}

/// Zeroes what lies beyond the file's end in the last page, through the pager's mapping.
pub(crate) fn zero_tail<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    record: &Pbuf,
    bytes: u32,
) -> KResult<()> {
    let mapped = record.npages * c.vm().page_bytes();
    let Some(len) = mapped.checked_sub(bytes).filter(|l| *l > 0) else {
        return Ok(());
    };
    // The transfer is done, but this writer is still to come.
    let write = BufferEvent::Acquired { write: true };
    c.buffer_event(cpu, write, record.kva, record.frames());
    zero_at(c, cpu, record.kva.add(bytes), len)
}

fn zero_at<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) -> KResult<()> {
    c.kernel_will(cpu, KernelUse::Write, va, len);
    let stored = c.kernel_zero(cpu, va, len);
    c.kernel_did(cpu, KernelUse::Write, va, len);
    stored
}

/// Zeroes the invalid parts of a page of which a buffer had read some (vm_page_zero_invalid; through
/// an sf_buf here, FreeBSD's pmap_zero_page_area has a window of its own).
fn zero_invalid<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) -> KResult<()> {
    let valid = c.vm().page(frame).valid;
    if valid != VALID_ALL {
        let part = c.vm().page_bytes() / 8;
        let va = sf_buf_alloc(c, cpu, frame)?;
        let missing = (0..8).filter(|n| valid & 1 << n == 0);
        let zeroed = missing
            .map(|n| zero_at(c, cpu, va.add(n * part), part))
            .find(Result::is_err);
        sf_buf_free(c, cpu, va);
        if let Some(Err(stop)) = zeroed {
            return Err(stop);
        }
    }
    c.vm_mut().page_mut(frame).valid = VALID_ALL;
    c.vm_page_wakeup(frame);
    Ok(())
}

/// Pages that a transfer brought are whole.
pub(crate) fn filled<C: VfsCtx + ?Sized>(c: &mut C, object: ObjectId, pindex: u32, count: u32) {
    for n in pindex..pindex + count {
        if let Some(frame) = c.vm().lookup(object, n) {
            vmio::page_filled(c, frame);
        }
    }
}

/// Writes pages through the buffer cache: the pages are the data, nothing is copied.
pub(crate) fn putpages<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
    count: u32,
    sync: bool,
) -> KResult<()> {
    operation(c, cpu, "vnode_pager_putpages", |c| {
        let vnode = vnode_of(c, object)?;
        let page = u64::from(c.vm().page_bytes());
        let size = u64::from(c.vfs().fs.inode(vnode).size);
        let offset = u64::from(pindex) * page;
        let len = size.saturating_sub(offset).min(u64::from(count) * page) as u32;
        if len == 0 {
            clean_beyond(c, object, pindex, count);
            return Ok(());
        }
        let mut uio = Uio {
            va: VirtAddr(0),
            resid: len,
            offset,
            direction: UioDirection::Write,
            segment: UioSegment::NoCopy,
        };
        let flags = match sync {
            true => IoFlags::VMIO | IoFlags::SYNC,
            false => IoFlags::VMIO | IoFlags::ASYNC,
        };
        ffs::write(c, cpu, vnode, &mut uio, flags, 0)
    })
}

/// Pages beyond the end of the file have no place to go.
fn clean_beyond<C: VfsCtx + ?Sized>(c: &mut C, object: ObjectId, pindex: u32, count: u32) {
    for n in pindex..pindex + count {
        if let Some(frame) = c.vm().lookup(object, n) {
            c.vm_page_undirty(frame);
        }
    }
}

/// Tells the object how long its file is (vnode_pager_setsize); pages beyond the end go.
pub(crate) fn setsize<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    size: u32,
) -> KResult<()> {
    let Some(object) = c.vfs().fs.inode(vnode).object else {
        return Ok(());
    };
    let pages = size.div_ceil(c.vm().page_bytes());
    let had = c.vm().object(object).pages;
    if pages < had {
        c.vm_object_page_remove(cpu, object, pages, had)?;
    }
    c.vm_mut().object_mut(object).pages = pages;
    Ok(())
}

/// Zeroes the end of the page that a shortened file ends in, where it ends in a hole: elsewhere its
/// buffer does that.
pub(crate) fn zero_page_end<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    size: u32,
) -> KResult<()> {
    let page = c.vm().page_bytes();
    let object = c.vfs().fs.inode(vnode).object;
    let Some(frame) = object.and_then(|o| c.vm().lookup(o, size / page)) else {
        return Ok(());
    };
    if size.is_multiple_of(page) || c.vm().page(frame).valid == 0 {
        return Ok(());
    }
    if c.vm().page(frame).in_use() {
        return Err(Stop::Wait(Channel::Page(frame)));
    }
    let va = sf_buf_alloc(c, cpu, frame)?;
    let zeroed = zero_at(c, cpu, va.add(size % page), page - size % page);
    sf_buf_free(c, cpu, va);
    zeroed
}

/// Maps a page at a short-lived address: always writable, as pmap_kenter maps.
pub(crate) fn sf_buf_alloc<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    frame: Frame,
) -> KResult<VirtAddr> {
    c.charge(cpu, "sf_buf_alloc");
    let Some(n) = c.vfs().sf_used.iter().position(|used| !used) else {
        return Err(Errno::ENOMEM.into());
    };
    c.vfs_mut().sf_used[n] = true;
    let va = c
        .vfs()
        .config
        .sf_map
        .start
        .add(n as u32 * c.vm().page_bytes());
    c.pmap_kenter(cpu, va, frame);
    Ok(va)
}

/// Unmaps it at once.
pub(crate) fn sf_buf_free<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr) {
    c.charge(cpu, "sf_buf_free");
    let offset = va.0.wrapping_sub(c.vfs().config.sf_map.start.0);
    let n = (offset / c.vm().page_bytes()) as usize;
    if c.vfs().sf_used.get(n).is_some_and(|used| *used) {
        c.pmap_kremove(cpu, va);
        c.vfs_mut().sf_used[n] = false;
    }
}

/// The file's first page, by the pager, wired and mapped.
pub(crate) fn map_first_page<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
) -> KResult<ExecPage> {
    operation(c, cpu, "exec_map_first_page", |c| {
        let inode = c.vfs().fs.inode(vnode);
        if inode.size == 0 || inode.directory {
            return Err(Errno::ENOEXEC.into());
        }
        let object = vmio::object_of(c, vnode)?;
        let frame = c.vm_page_grab(cpu, object, 0)?;
        if c.vm().page(frame).valid == VALID_ALL {
            c.vm_page_wakeup(frame);
        } else {
            let count = more_pages(c, cpu, object);
            getpages(c, cpu, object, 0, count)?;
        }
        let frame = c.vm().lookup(object, 0).ok_or(Errno::EIO)?;
        c.vm_page_wire(frame);
        match sf_buf_alloc(c, cpu, frame) {
            Ok(va) => Ok(ExecPage { frame, va }),
            Err(stop) => {
                c.vm_page_unwire(frame);
                Err(stop)
            }
        }
    })
}

/// Allocates the pages after the first one that the same transfer can bring; how many in all.
fn more_pages<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId) -> u32 {
    let first = c.vm().lookup(object, 0);
    if first.is_some_and(|f| c.vm().page(f).valid != 0) {
        return 1;
    }
    let after = haspage(c, object, 0).map_or(0, |(_, after)| after);
    let max = c.vfs().config.pagein_pages.min(after + 1);
    let mut count = 1;
    while count < max
        && c.vm().lookup(object, count).is_none()
        && c.vm_page_alloc(cpu, Some(object), count).is_ok()
    {
        count += 1;
    }
    count
}

/// Ends exec's look at the page.
pub(crate) fn unmap_first_page<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, page: ExecPage) {
    sf_buf_free(c, cpu, page.va);
    c.vm_page_unwire(page.frame);
}
