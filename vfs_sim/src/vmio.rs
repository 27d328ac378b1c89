//! A buffer's pages: wired pages of the file's own object, mapped writable at the buffer's address.
//!
//! Source: FreeBSD `kern/vfs_bio.c` (allocbuf, vfs_vmio_release, vfs_busy_pages, vfs_clean_pages,
//! vfs_bio_clrbuf, bufdone_finish). `allocbuf` maps all pages again whenever it grows; a hit maps
//! nothing. Pages that are whole already are replaced by the bogus page while the rest of the buffer
//! is read. Absent: malloc'ed and unmapped buffers.

use machine::{CpuId, Frame};
use pmap::{BufferEvent, KernelUse, PmapVerbs};
use vm::{Channel, KResult, ObjectId, Queue, Stop, VALID_ALL, VmVerbs, VnodeId};

use crate::ctx::VfsCtx;
use crate::types::{BufFlags, BufId};

/// The object of a file, made at the first use; the vnode holds one reference.
pub(crate) fn object_of<C: VfsCtx + ?Sized>(c: &mut C, vnode: VnodeId) -> KResult<ObjectId> {
    if let Some(object) = c.vfs().fs.inode(vnode).object {
        return Ok(object);
    }
    let pages = c.vfs().fs.inode(vnode).size.div_ceil(c.vm().page_bytes());
    let object = c.vm_object_allocate(Some(vnode), pages)?;
    c.vfs_mut().fs.inode_mut(vnode).object = Some(object);
    Ok(object)
}

/// The page that stands in for whole ones during a read.
pub(crate) fn bogus_page<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> KResult<Frame> {
    if let Some(frame) = c.vfs().bogus {
        return Ok(frame);
    }
    let frame = c.vm_page_alloc(cpu, None, 0)?;
    c.vfs_mut().bogus = Some(frame);
    Ok(frame)
}

/// The eighths of page `n` of a buffer that lie in `from..to` of the buffer, partly counting.
fn eighths<C: VfsCtx + ?Sized>(c: &C, n: u32, from: u32, to: u32) -> u8 {
    let page = c.vm().page_bytes();
    let part = page / 8;
    let start = from.saturating_sub(n * page).min(page) / part;
    let end = to.saturating_sub(n * page).min(page).div_ceil(part);
    (start..end).fold(0, |bits, n| bits | 1 << n)
}

/// Pages that `bytes` need.
fn pages<C: VfsCtx + ?Sized>(c: &C, bytes: u32) -> u32 {
    bytes.div_ceil(c.vm().page_bytes())
}

/// The object index of a buffer's first page.
fn first_pindex<C: VfsCtx + ?Sized>(c: &C, buf: BufId) -> u32 {
    c.vfs().bufs.get(buf).block * pages(c, c.vfs().config.block_bytes)
}

/// Makes a buffer `size` bytes large: pages found or allocated and wired, all mapped.
pub(crate) fn allocbuf<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    size: u32,
) -> KResult<()> {
    c.charge(cpu, "allocbuf");
    let wanted = pages(c, size);
    let have = c.vfs().bufs.get(buf).npages;
    if wanted < have {
        shrink(c, cpu, buf, wanted);
    }
    if wanted > have {
        grow(c, cpu, buf, wanted)?;
    }
    c.vfs_mut().bufs.get_mut(buf).bytes = size;
    test_cache(c, buf);
    if wanted > have {
        let record = *c.vfs().bufs.get(buf);
        c.pmap_qenter(cpu, record.kva, record.frames());
    }
    Ok(())
}

fn grow<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, wanted: u32) -> KResult<()> {
    let Some(vnode) = c.vfs().bufs.get(buf).vnode else {
        return Ok(());
    };
    let object = object_of(c, vnode)?;
    let first = first_pindex(c, buf);
    for n in c.vfs().bufs.get(buf).npages..wanted {
        let frame = page(c, cpu, object, first + n)?;
        c.vm_page_wire(frame);
        let record = c.vfs_mut().bufs.get_mut(buf);
        record.set_page(n, frame);
        record.npages = n + 1;
    }
    Ok(())
}

/// A page of the object, resident or new, nobody's for himself.
fn page<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
) -> KResult<Frame> {
    if let Some(frame) = c.vm().lookup(object, pindex) {
        return match c.vm().page(frame).busy {
            true => Err(Stop::Wait(Channel::Page(frame))),
            false => Ok(frame),
        };
    }
    let frame = c.vm_page_alloc(cpu, Some(object), pindex)?;
    c.vm_page_wakeup(frame);
    Ok(frame)
}

fn shrink<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, wanted: u32) {
    let record = *c.vfs().bufs.get(buf);
    let at = record.kva.add(wanted * c.vm().page_bytes());
    c.pmap_qremove(cpu, at, record.npages - wanted);
    let gone = &record.frames()[wanted as usize..];
    gone.iter().for_each(|f| c.vm_page_unwire(*f));
    c.vfs_mut().bufs.get_mut(buf).npages = wanted;
}

/// B_CACHE: whether every byte of the buffer is valid in its page.
pub(crate) fn test_cache<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId) {
    let record = *c.vfs().bufs.get(buf);
    let whole = (0..).zip(record.frames()).all(|(n, f)| {
        let need = eighths(c, n, 0, record.bytes);
        c.vm().page(*f).valid & need == need
    });
    c.vfs_mut()
        .bufs
        .get_mut(buf)
        .flags
        .set(BufFlags::CACHE, whole);
}

/// Unmaps a buffer and gives its pages back to the object (vfs_vmio_release).
pub(crate) fn release<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    c.charge(cpu, "vfs_vmio_release");
    let record = *c.vfs().bufs.get(buf);
    if record.npages > 0 {
        c.pmap_qremove(cpu, record.kva, record.npages);
    }
    c.vfs_mut().bufs.get_mut(buf).npages = 0;
    let drop = record
        .flags
        .intersects(BufFlags::DIRECT | BufFlags::NOCACHE);
    for frame in record.frames() {
        c.vm_page_unwire(*frame);
        let page = *c.vm().page(*frame);
        if page.in_use() || page.wired > 0 || page.object.is_none() {
            continue;
        }
        if page.valid == 0 || drop && !c.vm_page_test_dirty(*frame) {
            free_page(c, cpu, *frame);
        }
    }
}

/// Frees a page unless a mapping of it turns out to be dirty (vm_page_try_to_free).
fn free_page<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) {
    c.pmap_remove_all(cpu, frame);
    let worthless = c.vm().page(frame).valid == 0;
    if worthless || !c.vm_page_test_dirty(frame) {
        c.vm_page_free(cpu, frame);
    }
}

/// Readies pages for a read: whole ones are replaced by the bogus page, and if there was one, the
/// buffer is mapped again.
pub(crate) fn busy_for_read<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    c.charge(cpu, "vfs_busy_pages");
    let record = *c.vfs().bufs.get(buf);
    for frame in record.frames() {
        c.vm_mut().page_mut(*frame).io += 1;
    }
    if record.flags.contains(BufFlags::CACHE) {
        return;
    }
    let whole = |c: &C, f: Frame| c.vm().page(f).valid == VALID_ALL;
    let any = record.frames().iter().any(|f| whole(c, *f));
    let Some(bogus) = any.then(|| bogus_page(c, cpu).ok()).flatten() else {
        return;
    };
    for (n, frame) in (0..).zip(record.frames()) {
        if whole(c, *frame) {
            c.vfs_mut().bufs.get_mut(buf).set_page(n, bogus);
        }
    }
    remap(c, cpu, buf);
}

fn remap<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    let record = *c.vfs().bufs.get(buf);
    c.pmap_qenter(cpu, record.kva, record.frames());
}

/// Readies pages for a write: nobody may store into them unnoticed from here on.
pub(crate) fn busy_for_write<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) {
    c.charge(cpu, "vfs_busy_pages");
    let record = *c.vfs().bufs.get(buf);
    for (n, frame) in (0..).zip(record.frames()) {
        c.vm_mut().page_mut(*frame).io += 1;
        c.pmap_remove_write(cpu, *frame);
        set_valid(c, *frame, n, record.bytes);
    }
}

/// What the buffer holds of a page is valid, and clean as far as the VM is concerned.
fn set_valid<C: VfsCtx + ?Sized>(c: &mut C, frame: Frame, n: u32, bytes: u32) {
    let bits = eighths(c, n, 0, bytes);
    c.vm_page_undirty(frame);
    c.vm_mut().page_mut(frame).valid |= bits;
}

/// A dirty buffer answers for its pages.
pub(crate) fn clean_pages<C: VfsCtx + ?Sized>(c: &mut C, buf: BufId) {
    let record = *c.vfs().bufs.get(buf);
    for (n, frame) in (0..).zip(record.frames()) {
        set_valid(c, *frame, n, record.bytes);
    }
}

/// The end of a transfer: real pages come back in place of the bogus one, what was read is valid,
/// sleepers for a page are woken (bufdone_finish).
pub(crate) fn finish<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId, read: bool) {
    let record = *c.vfs().bufs.get(buf);
    let Some(object) = record.vnode.and_then(|v| c.vfs().fs.inode(v).object) else {
        return;
    };
    let (first, bogus) = (first_pindex(c, buf), c.vfs().bogus);
    let mut replaced = false;
    for (n, frame) in (0..).zip(record.frames()) {
        let mut frame = *frame;
        if Some(frame) == bogus {
            let Some(real) = c.vm().lookup(object, first + n) else {
                continue;
            };
            replaced = true;
            frame = real;
            c.vfs_mut().bufs.get_mut(buf).set_page(n, real);
        } else if read {
            let bits = eighths(c, n, 0, record.bytes);
            c.vm_mut().page_mut(frame).valid |= bits;
        }
        let page = c.vm_mut().page_mut(frame);
        page.io = page.io.saturating_sub(1);
        c.wakeup(Channel::Page(frame));
    }
    if replaced {
        remap(c, cpu, buf);
    }
}

/// Zeroes the invalid parts of a buffer by stores through its mapping (vfs_bio_clrbuf).
pub(crate) fn clrbuf<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, buf: BufId) -> KResult<()> {
    c.charge(cpu, "vfs_bio_clrbuf");
    let record = *c.vfs().bufs.get(buf);
    let page = c.vm().page_bytes();
    let part = page / 8;
    for (n, frame) in (0..).zip(record.frames()) {
        let bits = eighths(c, n, 0, record.bytes) & !c.vm().page(*frame).valid;
        for eighth in (0..8).filter(|e| bits & 1 << e != 0) {
            zero(c, cpu, buf, n * page + eighth * part, part)?;
        }
        c.vm_mut().page_mut(*frame).valid |= bits;
    }
    c.vfs_mut().bufs.get_mut(buf).flags |= BufFlags::CACHE;
    Ok(())
}

/// Zeroes a part of a buffer; the policy is told as of any writer.
pub(crate) fn zero<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    buf: BufId,
    from: u32,
    len: u32,
) -> KResult<()> {
    let va = c.vfs().bufs.get(buf).kva.add(from);
    c.kernel_will(cpu, KernelUse::Write, va, len);
    let stored = c.kernel_zero(cpu, va, len);
    c.kernel_did(cpu, KernelUse::Write, va, len);
    crate::bio::event(c, cpu, buf, BufferEvent::Copied { write: true });
    stored
}

/// Pages that a pager filled are whole and may be taken.
pub(crate) fn page_filled<C: VfsCtx + ?Sized>(c: &mut C, frame: Frame) {
    c.vm_mut().page_mut(frame).valid = VALID_ALL;
    c.vm_page_undirty(frame);
    c.vm_page_wakeup(frame);
    c.vm_mut().requeue(frame, Queue::Inactive);
}
