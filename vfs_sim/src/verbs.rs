//! The file layer's verbs, as the layers above call them. Each is one call into the module of its
//! noun.
//!
//! Source: FreeBSD `kern/vfs_bio.c`, `vfs_cluster.c`, `vfs_vnops.c`, `kern_exec.c`, `uipc_syscalls.c`
//! (sf_buf), `ufs/ffs/ffs_vnops.c`, `vm/vnode_pager.c`. Absent: locks of vnodes, other file systems,
//! permissions.

use machine::{CpuId, Frame, VirtAddr};
use vm::{KResult, ObjectId, Uio, VnodeId, operation};

use crate::ctx::VfsCtx;
use crate::types::{BufId, ExecPage, Intent, IoFlags, Sequential};
use crate::{bio, disk, ffs, namei, pager, sync, vmio};

/// The file layer's interface. Every verb names its CPU.
pub trait VfsVerbs: VfsCtx {
    /// Creates an empty file; its parent must exist.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENOTDIR`, `ENOSPC`, `ENAMETOOLONG`; `Wait`.
    fn vfs_create(&mut self, cpu: CpuId, path: &str) -> KResult<VnodeId> {
        operation(self, cpu, "vfs_create", |c| {
            namei::create(c, cpu, path, false)
        })
    }

    /// Creates a directory; its parent must exist.
    ///
    /// # Errors
    /// As [`VfsVerbs::vfs_create`].
    fn vfs_mkdir(&mut self, cpu: CpuId, path: &str) -> KResult<VnodeId> {
        operation(self, cpu, "vfs_mkdir", |c| {
            namei::create(c, cpu, path, true)
        })
    }

    /// Takes a name away; the file goes with its last opener and mapping.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTEMPTY`; `Wait`.
    fn vfs_unlink(&mut self, cpu: CpuId, path: &str) -> KResult<()> {
        operation(self, cpu, "vfs_unlink", |c| namei::unlink(c, cpu, path))
    }

    /// One more user of a file; gives it an object (vnode_create_vobject).
    ///
    /// # Errors
    /// `EISDIR`; `ENOMEM`.
    fn vnode_open(&mut self, cpu: CpuId, vnode: VnodeId) -> KResult<ObjectId> {
        namei::open(self, cpu, vnode)
    }

    /// One user less.
    fn vnode_close(&mut self, cpu: CpuId, vnode: VnodeId) {
        namei::close(self, cpu, vnode);
    }

    /// read(2) below the descriptor: heuristic, then [`VfsVerbs::ffs_read`]. Moves as much as there
    /// is; the end of the file is success with `resid` left.
    ///
    /// # Errors
    /// `EFAULT`, `EIO`, `EISDIR`; `Wait`: call again with the same `uio`; `Panic`.
    fn vn_read(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        uio: &mut Uio,
        flags: IoFlags,
        sequential: &mut Sequential,
    ) -> KResult<()> {
        self.charge(cpu, "vn_read");
        let seqcount = sequential.update(uio);
        let result = ffs::read(self, cpu, vnode, uio, flags, seqcount);
        sequential.ended(uio);
        result
    }

    /// write(2) below the descriptor.
    ///
    /// # Errors
    /// `EFAULT`, `EIO`, `EISDIR`, `EFBIG`, `ENOSPC`; `Wait`; `Panic`.
    fn vn_write(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        uio: &mut Uio,
        flags: IoFlags,
        sequential: &mut Sequential,
    ) -> KResult<()> {
        self.charge(cpu, "vn_write");
        let seqcount = sequential.update(uio);
        let result = ffs::write(self, cpu, vnode, uio, flags, seqcount);
        sequential.ended(uio);
        result
    }

    /// Reads a file through the buffer cache.
    ///
    /// # Errors
    /// As [`VfsVerbs::vn_read`].
    fn ffs_read(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        uio: &mut Uio,
        flags: IoFlags,
        seqcount: u32,
    ) -> KResult<()> {
        ffs::read(self, cpu, vnode, uio, flags, seqcount)
    }

    /// Writes a file through the buffer cache.
    ///
    /// # Errors
    /// As [`VfsVerbs::vn_write`].
    fn ffs_write(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        uio: &mut Uio,
        flags: IoFlags,
        seqcount: u32,
    ) -> KResult<()> {
        ffs::write(self, cpu, vnode, uio, flags, seqcount)
    }

    /// Sets a file's length; what is cut off is gone from buffers, pages and disk.
    ///
    /// # Errors
    /// `EISDIR`, `EFBIG`, `ENOSPC`; `Wait`.
    fn ffs_truncate(&mut self, cpu: CpuId, vnode: VnodeId, size: u32) -> KResult<()> {
        ffs::truncate(self, cpu, vnode, size)
    }

    /// Writes a file's dirty pages and buffers and waits for them (fsync(2)).
    ///
    /// # Errors
    /// `EIO`; `Wait`.
    fn ffs_fsync(&mut self, cpu: CpuId, vnode: VnodeId) -> KResult<()> {
        sync::file(self, cpu, vnode)
    }

    /// One round of the syncer: starts the write of everything dirty, metadata too.
    ///
    /// # Errors
    /// `Panic`. A busy buffer is passed over.
    fn vfs_sync(&mut self, cpu: CpuId) -> KResult<()> {
        sync::all(self, cpu)
    }

    /// One round of bufdaemon: starts writes until at most `dirty_max` dirty buffers are left.
    ///
    /// # Errors
    /// As [`VfsVerbs::vfs_sync`].
    fn buf_daemon(&mut self, cpu: CpuId, dirty_max: u32) -> KResult<()> {
        sync::daemon(self, cpu, dirty_max)
    }

    /// The buffer of a file's block, locked, mapped and as large as `size`; its contents may be
    /// invalid.
    ///
    /// # Errors
    /// `Wait` while somebody has it or no buffer is free; `ENOMEM`.
    fn getblk(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        block: u32,
        size: u32,
        intent: Intent,
    ) -> KResult<BufId> {
        bio::getblk(self, cpu, vnode, block, size, intent)
    }

    /// getblk, and the block read in if it is not valid.
    ///
    /// # Errors
    /// As [`VfsVerbs::getblk`]; `EIO`.
    fn bread(
        &mut self,
        cpu: CpuId,
        vnode: VnodeId,
        block: u32,
        size: u32,
        intent: Intent,
    ) -> KResult<BufId> {
        bio::bread(self, cpu, vnode, block, size, intent)
    }

    /// Writes a buffer and waits; it is released.
    ///
    /// # Errors
    /// `Wait` when the write is under way: it needs no second call; `EIO`.
    fn bwrite(&mut self, cpu: CpuId, buf: BufId) -> KResult<()> {
        bio::bwrite(self, cpu, buf)
    }

    /// Starts writing a buffer; the end of the transfer releases it.
    ///
    /// # Errors
    /// `Panic`.
    fn bawrite(&mut self, cpu: CpuId, buf: BufId) -> KResult<()> {
        bio::bawrite(self, cpu, buf)
    }

    /// Marks a buffer to be written later and releases it.
    fn bdwrite(&mut self, cpu: CpuId, buf: BufId) {
        bio::bdwrite(self, cpu, buf);
    }

    /// Releases a buffer that stays cached and mapped.
    fn bqrelse(&mut self, cpu: CpuId, buf: BufId) {
        bio::bqrelse(self, cpu, buf);
    }

    /// Releases a buffer; with INVAL, RELBUF or NOCACHE set it is unmapped and its pages go back to
    /// the object.
    fn brelse(&mut self, cpu: CpuId, buf: BufId) {
        bio::brelse(self, cpu, buf);
    }

    /// Zeroes a buffer's invalid parts and makes it valid (vfs_bio_clrbuf).
    ///
    /// # Errors
    /// `Panic`.
    fn clrbuf(&mut self, cpu: CpuId, buf: BufId) -> KResult<()> {
        vmio::clrbuf(self, cpu, buf)
    }

    /// Recycles every clean buffer of a file (or of all), as getnewbuf does under pressure: their
    /// mappings go. Returns how many.
    fn buf_recycle(&mut self, cpu: CpuId, vnode: Option<VnodeId>) -> u32 {
        bio::recycle_all(self, cpu, vnode)
    }

    /// Completes the oldest disk request; false when there is none.
    ///
    /// # Errors
    /// `Panic`.
    fn disk_interrupt(&mut self, cpu: CpuId) -> KResult<bool> {
        disk::interrupt(self, cpu)
    }

    /// [`vm::Pager::pager_haspage`] for a vnode's object.
    fn vnode_pager_haspage(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
    ) -> Option<(u32, u32)> {
        self.charge(cpu, "vnode_pager_haspage");
        pager::haspage(self, object, pindex)
    }

    /// [`vm::Pager::pager_getpages`] for a vnode's object.
    ///
    /// # Errors
    /// `EIO`; `Wait`.
    fn vnode_pager_getpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
    ) -> KResult<()> {
        pager::getpages(self, cpu, object, pindex, count)
    }

    /// [`vm::Pager::pager_putpages`] for a vnode's object.
    ///
    /// # Errors
    /// `EIO`; `Wait`.
    fn vnode_pager_putpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
        sync: bool,
    ) -> KResult<()> {
        pager::putpages(self, cpu, object, pindex, count, sync)
    }

    /// [`vm::Pager::pager_unreferenced`] for a vnode's object.
    fn vnode_pager_unreferenced(&mut self, cpu: CpuId, object: ObjectId) {
        namei::unreferenced(self, cpu, object);
    }

    /// Maps a page at a short-lived kernel address.
    ///
    /// # Errors
    /// `ENOMEM` when all are in use.
    fn sf_buf_alloc(&mut self, cpu: CpuId, frame: Frame) -> KResult<VirtAddr> {
        pager::sf_buf_alloc(self, cpu, frame)
    }

    /// Unmaps it, at once.
    fn sf_buf_free(&mut self, cpu: CpuId, va: VirtAddr) {
        pager::sf_buf_free(self, cpu, va);
    }

    /// Brings a file's first page in through the pager and maps it for exec to look at.
    ///
    /// # Errors
    /// `ENOEXEC` for an empty file, `EIO`; `Wait`.
    fn exec_map_first_page(&mut self, cpu: CpuId, vnode: VnodeId) -> KResult<ExecPage> {
        pager::map_first_page(self, cpu, vnode)
    }

    /// Ends it.
    fn exec_unmap_first_page(&mut self, cpu: CpuId, page: ExecPage) {
        pager::unmap_first_page(self, cpu, page);
    }
}

impl<C: VfsCtx + ?Sized> VfsVerbs for C {}
