//! Repairs of `freebsd-2010` one at a time: the same rule on a skeleton that differs in one fact.
//!
//! 1. `-ref`: mappings made by kenter have REF (B23). Alone it lets `pmap_ts_referenced` invalidate a
//!    buffer's entry, on which the kernel then faults.
//! 2. `-sticky-nc`: entering a mapping again that is uncached leaves its entry uncached (B24).
//! 3. `-kentry`: `pmap_clearbit` leaves unmanaged mappings alone (B26). Alone it still caches the page's
//!    other mappings again, although the kernel's may be written now.
//! 4. `-lazy`: "current" follows what the hardware holds (B25).
//! 5. `-repaired`: all of them, another order and another rule (`repaired.rs`).

use std::borrow::Cow;

use crate::skeleton::Part::{
    Entered, FixSlot, Gone, Retrack, Store, Stored, Sync, Track, Untrack, WillLeave, WillStore,
    Zero,
};
use crate::skeleton::{CoherentMap, Skeleton, freebsd_2010};
use crate::types::PvFlags;

/// `freebsd-2010-ref`.
pub fn referenced() -> Skeleton {
    let base = freebsd_2010();
    Skeleton {
        name: "freebsd-2010-ref",
        kenter_flags: base.kenter_flags | PvFlags::REF,
        ..base
    }
}

/// `freebsd-2010-sticky-nc`.
pub fn sticky() -> Skeleton {
    Skeleton {
        name: "freebsd-2010-sticky-nc",
        sticky_uncached: true,
        ..freebsd_2010()
    }
}

/// `freebsd-2010-kentry`.
pub fn kentry() -> Skeleton {
    Skeleton {
        name: "freebsd-2010-kentry",
        clearbit_skips_unmanaged: true,
        ..freebsd_2010()
    }
}

/// `freebsd-2010-lazy`.
pub fn lazy() -> Skeleton {
    Skeleton {
        name: "freebsd-2010-lazy",
        current_is_live: true,
        ..freebsd_2010()
    }
}

/// `freebsd-2010-repaired`.
pub fn repaired() -> Skeleton {
    Skeleton {
        name: "freebsd-2010-repaired",
        enter_new: Cow::Borrowed(&[Track, Store, Sync, FixSlot, Stored, Entered]),
        enter_same: Cow::Borrowed(&[Retrack, WillStore, Store, Sync, FixSlot, Stored, Entered]),
        enter_other: Cow::Borrowed(&[Zero, Sync, Gone, Untrack]),
        remove: Cow::Borrowed(&[Zero, Sync, Gone, Untrack]),
        kremove: Cow::Borrowed(&[Zero, Sync, Gone, Untrack]),
        remove_all: Cow::Borrowed(&[WillLeave, Zero, Sync, Gone, Untrack]),
        sticky_uncached: true,
        clearbit_skips_unmanaged: true,
        remove_all_skips_unmanaged: true,
        current_is_live: true,
        kva_write_follows: true,
        coherent_map: CoherentMap::Unmarked,
        ..referenced()
    }
}
