//! FreeBSD r1.42, 2006-03 (`pmap-freebsd-netbsd.md` 1.1, 2.1, 3.2: FB06).
//!
//! 1. `pmap_kenter` and `pmap_qenter` put nothing on a list (B2).
//! 2. The page's record counts its mappings. A mapping of the kernel is counted as one of the user's when
//!    it comes, not when it goes (B10).
//! 3. `pmap_clearbit`'s work on entries is guarded by an inverted test, so for ordinary pages only the
//!    flags on the list change (B9), and the counts do not.
//! 4. `pmap_remove_all` never takes write permission away first; what it flushes is the rule's (B11).
//!
//! Whether busdma marks maps as coherent is not known of this version and makes no difference: its buffers
//! are never uncached.
//!
//! `pmap_remove` collects a table's entries and clears them together; here each is cleared by itself after
//! its flush.

use std::borrow::Cow;

use super::Part::*;
use super::{Skeleton, WriteFirst, freebsd_2010};
use crate::count::Counting;
use crate::types::PvFlags;

/// As found.
pub fn freebsd_2006() -> Skeleton {
    Skeleton {
        name: "freebsd-2006",
        kenter: Cow::Borrowed(&[Store, Sync]),
        kremove: Cow::Borrowed(&[WillLeave, Zero]),
        kenter_flags: PvFlags::WRITE.union(PvFlags::UNMAN),
        counting: Counting::KeptTwice,
        clearbit_flags_only: true,
        remove_all_first: WriteFirst::Never,
        ..freebsd_2010()
    }
}

/// With B9 and B10 repaired.
pub fn freebsd_2006_fixed() -> Skeleton {
    Skeleton {
        name: "freebsd-2006-fixed",
        counting: Counting::Kept,
        clearbit_flags_only: false,
        ..freebsd_2006()
    }
}
