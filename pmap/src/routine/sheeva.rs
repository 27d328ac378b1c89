//! `sheeva`: Marvell Feroceon 88FR131, FreeBSD `cpufunc_asm_sheeva.S` (`pmap-freebsd-netbsd.md` 3.0).
//!
//! 1. Ranges by zone registers, one page-bounded piece at a time with interrupts off; no promotion to the
//!    whole cache.
//! 2. Instruction sync and everything that is whole are those of `armv5_ec`; they never touch the second
//!    level.

use machine::LineOp::{CleanInvalidate, Invalidate};

use super::{Order, Table, armv5_ec};

pub(super) const TABLE: Table = Table {
    name: "sheeva",
    whole_from: u32::MAX,
    by_pages: true,
    invalidate: Invalidate,
    purge: &[CleanInvalidate],
    idcache: Order::DataThenInstructions,
    ..armv5_ec::TABLE
};
