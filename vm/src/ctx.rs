//! The VM's context: what its verbs need around them.
//!
//! Source: FreeBSD `vm/vm_pager.h` for the pager's methods, `kern/kern_synch.c` for wakeup.

use machine::CpuId;
use pmap::PmapCtx;

use crate::types::{Channel, KResult, ObjectId};
use crate::vm::Vm;

/// Brings an object's pages in and out. The top layer implements it, handing on to
/// `vfs_sim::vnode_pager_*`.
pub trait Pager {
    /// Whether the pager has page `pindex`, and if so how many pages before and after it can be read
    /// in the same transfer.
    fn pager_haspage(&mut self, cpu: CpuId, object: ObjectId, pindex: u32) -> Option<(u32, u32)>;
    /// Fills `count` pages from `pindex` on, which are in the object, busy and invalid. On return
    /// they are valid and no longer busy.
    ///
    /// # Errors
    /// `Wait` when the transfer is under way: the pages stay busy and become valid with it. After
    /// any other error the invalid pages have been freed.
    fn pager_getpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
    ) -> KResult<()>;
    /// Writes `count` resident pages from `pindex` on; `sync` waits for the transfer.
    ///
    /// # Errors
    /// `Wait`, or what the file system says.
    fn pager_putpages(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        pindex: u32,
        count: u32,
        sync: bool,
    ) -> KResult<()>;
    /// Nobody maps the object any more; its vnode may go if it has no name and no opener.
    fn pager_unreferenced(&mut self, cpu: CpuId, object: ObjectId);
}

/// A world with a VM.
pub trait VmCtx: PmapCtx + Pager {
    /// The VM's state.
    fn vm(&self) -> &Vm;
    /// The VM's state, to change.
    fn vm_mut(&mut self) -> &mut Vm;
    /// Makes runnable whoever waits for `channel`.
    fn wakeup(&mut self, _channel: Channel) {}
}
