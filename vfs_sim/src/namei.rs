//! Names and lives of files: created, opened, closed, unlinked, reclaimed.
//!
//! Source: FreeBSD `ufs/ufs/ufs_vnops.c`, `kern/vfs_subr.c` (vnode_create_vobject, vgonel,
//! vinvalbuf). A file without a name lives until its last opener and mapping are gone. Absent: name
//! cache, links, renames, permissions, vnode recycling.

use machine::CpuId;
use vm::{Errno, KResult, ObjectId, VmVerbs, VnodeId};

use crate::ctx::VfsCtx;
use crate::fs::ROOT;
use crate::{ffs, pager, vmio};

/// Makes a file or directory. Its inode's block is brought in first, since that may sleep.
pub(crate) fn create<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    path: &str,
    directory: bool,
) -> KResult<VnodeId> {
    c.charge(cpu, "ufs_makeinode");
    let vnode = c.vfs().fs.new_vnode(path)?;
    let buf = ffs::inode_buffer(c, cpu, vnode)?;
    let made = c.vfs_mut().fs.create(path, directory);
    ffs::update(c, cpu, vnode, buf)?;
    made
}

/// Takes a name away.
pub(crate) fn unlink<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, path: &str) -> KResult<()> {
    c.charge(cpu, "ufs_remove");
    let vnode = c.vfs().fs.unlinkable(path)?;
    let buf = ffs::inode_buffer(c, cpu, vnode)?;
    let gone = c.vfs_mut().fs.unlink(path);
    ffs::update(c, cpu, vnode, buf)?;
    gone?;
    reap(c, cpu, vnode);
    Ok(())
}

/// One more user.
pub(crate) fn open<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId) -> KResult<ObjectId> {
    c.charge(cpu, "vn_open");
    if !c.vfs().fs.exists(vnode) {
        return Err(Errno::ENOENT.into());
    }
    if c.vfs().fs.inode(vnode).directory {
        return Err(Errno::EISDIR.into());
    }
    let object = vmio::object_of(c, vnode)?;
    c.vfs_mut().fs.inode_mut(vnode).users += 1;
    Ok(object)
}

/// One user less.
pub(crate) fn close<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId) {
    c.charge(cpu, "vn_close");
    let inode = c.vfs_mut().fs.inode_mut(vnode);
    inode.users = inode.users.saturating_sub(1);
    reap(c, cpu, vnode);
}

/// A mapping went: perhaps the last that kept an unlinked file.
pub(crate) fn unreferenced<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId) {
    if let Some(vnode) = c.vfs().fs.by_object(object) {
        reap(c, cpu, vnode);
    }
}

/// Frees a file that nobody can reach any more: buffers, pages, blocks, inode. What is in a transfer
/// keeps it; the syncer tries again.
pub(crate) fn reap<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, vnode: VnodeId) {
    if vnode <= ROOT || !c.vfs().fs.exists(vnode) {
        return;
    }
    let inode = c.vfs().fs.inode(vnode);
    let object = inode.object;
    let mapped = object.is_some_and(|o| c.vm().object(o).refs > 1);
    if inode.links > 0 || inode.users > 0 || mapped {
        return;
    }
    c.charge(cpu, "vgonel");
    let emptied =
        ffs::drop_buffers(c, cpu, vnode, 0).and_then(|()| pager::setsize(c, cpu, vnode, 0));
    if emptied.is_err() {
        return;
    }
    c.vfs_mut().fs.free_blocks(vnode, 0);
    c.vfs_mut().fs.free(vnode);
    if let Some(object) = object {
        c.vm_object_deallocate(cpu, object);
    }
}
