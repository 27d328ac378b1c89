//! Linux 2.6 on ARM VIVT (`linux-policies-and-bugs.md` A.0 to A.2).
//!
//! Linux has no pv list that decides anything: the page's mappings stand here for its reverse map, and the
//! kernel's mapping of a page for its place in the linear map, which is why kenter is tracked.
//!
//! 1. Changing or removing an entry: flush the cache (`flush_cache_page`), store the entry, flush the TLB.
//! 2. A new entry is visible before the rule is asked (`update_mmu_cache`).
//! 3. A kernel thread borrows the last space; "current" is what the hardware holds (`mm_cpumask`).
//!
//! Left out: the linear map itself. A page whose buffer is unmapped has no kernel address here, and what
//! the kernel does through other addresses is not followed.

use std::borrow::Cow;

use super::Part::*;
use super::{CoherentMap, Skeleton, WriteFirst, freebsd_2010};

/// The skeleton.
pub fn linux() -> Skeleton {
    Skeleton {
        name: "linux",
        enter_same: Cow::Borrowed(&[Reflag, WillStore, Store, Sync, FixSlot, Stored, Entered]),
        enter_other: Cow::Borrowed(&[WillLeave, Untrack]),
        remove: Cow::Borrowed(&[WillLeave, Zero, Sync, Untrack]),
        remove_all_first: WriteFirst::Never,
        protect: Cow::Borrowed(&[Store, Sync, Reflag, Stored]),
        kremove: Cow::Borrowed(&[WillLeave, Zero, Sync, Untrack]),
        lazy_switch: true,
        current_is_live: true,
        coherent_map: CoherentMap::Unmarked,
        ..freebsd_2010()
    }
}
