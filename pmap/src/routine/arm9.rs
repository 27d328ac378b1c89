//! `arm9`: ARM920T, FreeBSD `cpufunc_asm_arm9.S` (`hardware.md` 3.2 and 5).
//!
//! 1. Ranges by address; 16 KB and more work on the whole cache, and a plain invalidate of that size
//!    cleans first: stale CPU bytes over a device's, if it comes after the transfer.
//! 2. Both caches: each line's instruction side *before* its data side.
//! 3. The whole data cache by index, every set and way. That this moves the victim pointer on the real
//!    core, into locked lines even, is left out.
//! 4. **Nothing ever drains.** What was cleaned may still be in the write buffer when an instruction fetch
//!    or a device looks at memory; only what the core itself does (an uncached access, an exception) or
//!    the pmap's own drains (PTE_SYNC, the context switch, busdma's end) empty it.

use machine::LineOp::{CleanInvalidate, Invalidate};

use super::{Order, Table, Whole};

pub(super) const TABLE: Table = Table {
    name: "arm9",
    whole_from: 0x4000,
    by_pages: false,
    drains: false,
    invalidate: Invalidate,
    purge: &[CleanInvalidate],
    idcache: Order::InstructionFirst,
    sync: Order::InstructionFirst,
    whole: Whole::BySlot,
    tables_write_back: false,
};
