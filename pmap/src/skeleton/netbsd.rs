//! NetBSD-current of 2015, `sys/arch/arm/arm32/pmap.c` built for VIVT (`pmap-freebsd-netbsd.md` 2.1, 2.4,
//! 3.1, 3.2: NB15).
//!
//! 1. `pmap_kenter_pa` puts nothing on a list; kernel mappings that are to be seen by the alias policy are
//!    made by `pmap_enter` on the kernel's space.
//! 2. An entry is replaced by way of zero: store 0, sync, TLB flush, store the new one, sync.
//! 3. `pmap_modify_pv` does not ask the policy; `pmap_enter` does at its end, `pmap_protect` per page.
//! 4. Every change of space flushes, the one to the kernel's included (kern/41058), and "current" is what
//!    the hardware holds.
//! 5. `pmap_page_remove` cleans the page once and asks nothing for the mappings that it takes away.
//!
//! Reference and modified emulation at enter are left out: callers give no access type.

use std::borrow::Cow;

use super::Part::*;
use super::{CoherentMap, Skeleton, WriteFirst, freebsd_2010};
use crate::count::Counting;
use crate::types::PvFlags;

/// The skeleton.
pub fn netbsd() -> Skeleton {
    Skeleton {
        name: "netbsd",
        enter_new: Cow::Borrowed(&[Track, Break, Stored, Store, Sync, FixSlot, Entered]),
        enter_same: Cow::Borrowed(&[
            Reflag, WillStore, Break, Stored, Store, Sync, FixSlot, Entered,
        ]),
        enter_other: Cow::Borrowed(&[Untrack, WillLeave]),
        remove: Cow::Borrowed(&[Untrack, WillLeave, Zero, Sync]),
        remove_all: Cow::Borrowed(&[WillLeave, Zero, Sync, Unlink]),
        remove_all_first: WriteFirst::Never,
        protect: Cow::Borrowed(&[Break, Store, Sync, Retrack, Stored]),
        kenter: Cow::Borrowed(&[Store, Sync]),
        kremove: Cow::Borrowed(&[WillLeave, Zero, Sync]),
        kenter_flags: PvFlags::WRITE.union(PvFlags::UNMAN),
        counting: Counting::Listed,
        lazy_switch: false,
        current_is_live: true,
        coherent_map: CoherentMap::Unmarked,
        ..freebsd_2010()
    }
}
