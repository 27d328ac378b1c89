//! What a policy may do to a buffer's mapping between uses: take write permission, give it back, unmap.
//! No released kernel does this; it is what seeds/001 asks for.

use machine::{CpuId, Pte, VirtAddr};

use crate::ask::store_entry;
use crate::ctx::PmapCtx;
use crate::hook::Verb;
use crate::pv;
use crate::table;
use crate::types::{PvFlags, SpaceId};
use crate::verbs::{kernel, remove};

/// Changes the write permission of a buffer page; its WRITE flag follows, and if that flips, the rule
/// is asked (`Changed`).
pub(crate) fn set_write<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, on: bool) {
    let old = table::read(c, cpu, SpaceId::KERNEL, va);
    if !old.present() || old.writable() == on {
        return;
    }
    store_entry(c, cpu, SpaceId::KERNEL, va, old.with_write(on));
    table::sync(c, cpu, SpaceId::KERNEL, va);
    let (clear, set) = if on {
        (PvFlags::empty(), PvFlags::WRITE)
    } else {
        (PvFlags::WRITE, PvFlags::empty())
    };
    pv::modify(c, cpu, (SpaceId::KERNEL, va, old.frame()), clear, set);
}

/// Unmaps a buffer page.
pub(crate) fn unmap<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr) {
    kernel::kremove(c, cpu, va);
}

/// Forgets a mapping; its owner refaults.
pub(crate) fn drop_mapping<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) {
    let old: Pte = table::read(c, cpu, space, va);
    if old.present() {
        let parts = c.policy().skeleton.remove.clone();
        remove::leave(c, cpu, Verb::Remove, (space, va), old, 0, &parts);
    }
}
