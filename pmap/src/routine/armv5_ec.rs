//! `armv5_ec`: ARM926EJ-S, FreeBSD `cpufunc_asm_armv5_ec.S` (`pmap-freebsd-netbsd.md` 3.0).
//!
//! 1. Ranges by address, then a drain; 16 KB and more work on the whole cache, and a plain invalidate of
//!    that size cleans first.
//! 2. Both caches: each line's instruction side *before* its data side, so that a fetch in between brings
//!    the old word back (`hardware.md` 7.12).
//! 3. Everything: instruction cache first, then test-and-clean of the data cache.

use machine::LineOp::{CleanInvalidate, Invalidate};

use super::{Order, Table, Whole};

pub(super) const TABLE: Table = Table {
    name: "armv5_ec",
    whole_from: 0x4000,
    by_pages: false,
    drains: true,
    invalidate: Invalidate,
    purge: &[CleanInvalidate],
    idcache: Order::InstructionFirst,
    sync: Order::InstructionFirst,
    whole: Whole::TestAndClean,
    tables_write_back: false,
};
