//! `xscale`: Intel XScale 80200, PXA255, NetBSD and FreeBSD `cpufunc_asm_xscale.S` (`hardware.md` 3.5).
//!
//! 1. Ranges by address, then a drain; 16 KB and more work on the whole cache. A line is cleaned and
//!    invalidated by two operations. The plain invalidate (`xscale_cache_flushD_rng`) does not clean.
//! 2. Both caches: each line's data side first, then its instruction side; the drain comes last, after
//!    instruction lines may have been fetched again.
//! 3. The whole data cache by line-allocate over a region: the instruction cache first.
//!
//! Left out: line-allocate is a load here, so it costs a line from memory and not just its write-back, and
//! both halves of the region are gone through each time where the kernel alternates; the mini data cache;
//! the branch target buffer; `cpwait`; the flush of the whole instruction TLB for one entry of it (a
//! single one is done).

use machine::LineOp::{Clean, Invalidate};

use super::{Order, Table, Whole};

pub(super) const TABLE: Table = Table {
    name: "xscale",
    whole_from: 0x4000,
    by_pages: false,
    drains: true,
    invalidate: Invalidate,
    purge: &[Clean, Invalidate],
    idcache: Order::DataFirst,
    sync: Order::DataFirst,
    whole: Whole::Displace,
    tables_write_back: false,
};
