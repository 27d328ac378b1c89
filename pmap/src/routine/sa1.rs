//! `sa1`: StrongARM SA-110, SA-1100, SA-1110, NetBSD and FreeBSD `cpufunc_asm_sa1.S` (`hardware.md` 3.1
//! and 5).
//!
//! 1. Ranges by address, then a drain; 16 KB and more work on the whole cache. A line is cleaned and
//!    invalidated by two operations; there is no combined one.
//! 2. The slot of the plain invalidate holds the purge: dirty lines are written over what a device left.
//! 3. The whole data cache by reading a region of twice its size.
//! 4. The instruction cache has nothing finer than everything: data lines first, a drain, then all of it.
//!    That is the right order.
//! 5. There is no write-through (C without B selects the mini data cache), so tables are mapped write-back
//!    and each stored entry's line is cleaned.
//!
//! Left out: the mini data cache and the read buffer, which the machine does not have; the instruction
//! TLB's lack of a single-entry operation (a single one is done).

use machine::LineOp::{Clean, CleanInvalidate, Invalidate};

use super::{Order, Table, Whole};

pub(super) const TABLE: Table = Table {
    name: "sa1",
    whole_from: 0x4000,
    by_pages: false,
    drains: true,
    invalidate: CleanInvalidate,
    purge: &[Clean, Invalidate],
    idcache: Order::DataDrainWhole,
    sync: Order::DataDrainWhole,
    whole: Whole::Displace,
    tables_write_back: true,
};
