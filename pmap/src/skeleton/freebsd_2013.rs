//! FreeBSD 2013 to 2016 (`pmap-freebsd-netbsd.md` 2.2, 3.2: FB13 to FB11).
//!
//! 1. 2013: a page may be marked as uncacheable for every mapping (`pv_memattr`).
//! 2. 2013: syncing a coherent busdma map drains the write buffer (B16).
//! 3. 2015-16: `pmap_remove_all` calls `pmap_clearbit` in any case, not `pmap_remove_write` (B8).
//!
//! Unmapped buffers (4.6) belong to the file layer.

use super::{CoherentMap, Skeleton, WriteFirst, freebsd_2010};

/// stable/9 of 2013 to 10.2.
pub fn freebsd_2013() -> Skeleton {
    Skeleton {
        name: "freebsd-2013",
        memattr: true,
        coherent_map: CoherentMap::Drained,
        ..freebsd_2010()
    }
}

/// stable/11, `pmap-v4.c`.
pub fn freebsd_2016() -> Skeleton {
    Skeleton {
        name: "freebsd-2016",
        remove_all_first: WriteFirst::Always,
        ..freebsd_2013()
    }
}
