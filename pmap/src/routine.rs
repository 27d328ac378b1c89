//! CPU routines: how a cache operation on a range, or on everything, becomes operations on lines.
//!
//! Sources: FreeBSD and NetBSD `cpufunc_asm_*.S` as described in `pmap-freebsd-netbsd.md` 3.0 and
//! `hardware.md` 3 and 5. Range operations round outward to lines. One CPU's routines are one table
//! ([`Table`]) in a file of its own; what a table says is carried out here, the same for all of them.

mod arm9;
mod armv5_ec;
mod sa1;
mod sheeva;
mod xscale;

use machine::{CpuId, Hw, LineOp, Machine, Step, VirtAddr, Width};

/// Where the kernel maps a megabyte that is read for nothing but to displace what is in the data cache
/// (the StrongARM's memory controller answers there by itself; `hardware.md` 3.1).
pub const CLEAN_REGION: VirtAddr = VirtAddr(0xe000_0000);

/// In which order a range's data and instruction lines are worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Order {
    /// Line by line, the instruction side first.
    InstructionFirst,
    /// Line by line, the data side first.
    DataFirst,
    /// All data lines, then all instruction lines.
    DataThenInstructions,
    /// All data lines, a drain, then the whole instruction cache: it has nothing finer.
    DataDrainWhole,
}

/// How the whole data cache is cleaned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
enum Whole {
    /// Test-and-clean: a step for each dirty line, then one for the rest.
    TestAndClean,
    /// By set and way, every one.
    BySlot,
    /// By bringing in twice the cache's size from [`CLEAN_REGION`]: right only where victims go round
    /// robin whether or not a line is invalid.
    Displace,
}

/// One CPU's routines, as data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
struct Table {
    /// Its name in profiles.
    name: &'static str,
    /// From this length on, a range operation works on the whole cache.
    whole_from: u32,
    /// Whether a range is cut at pages, with interrupts off around each piece.
    by_pages: bool,
    /// Whether operations end with a drain.
    drains: bool,
    /// What each line of a plain invalidate gets.
    invalidate: LineOp,
    /// A line cleaned and invalidated: in one operation or two.
    purge: &'static [LineOp],
    /// Both caches, a range: data cleaned and invalidated.
    idcache: Order,
    /// Both caches, a range: data cleaned.
    sync: Order,
    /// The whole data cache.
    whole: Whole,
    /// Whether page tables are mapped write-back, because there is no write-through.
    tables_write_back: bool,
}

/// Whose routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Routine(&'static Table);

const ROUTINES: &[&Table] = &[
    &armv5_ec::TABLE,
    &sheeva::TABLE,
    &arm9::TABLE,
    &sa1::TABLE,
    &xscale::TABLE,
];

impl Routine {
    /// The names there are.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROUTINES.iter().map(|t| t.name)
    }

    /// The routine of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        ROUTINES.iter().find(|t| t.name == name).map(|t| Self(t))
    }

    /// The routine of a machine; `armv5_ec` if its profile names none that exists.
    pub fn of(machine: &Machine) -> Self {
        Self::by_name(&machine.profile().routine).unwrap_or(Self(&armv5_ec::TABLE))
    }

    /// Whether it needs [`CLEAN_REGION`] mapped.
    pub fn displaces(self) -> bool {
        self.0.whole == Whole::Displace
    }

    /// Whether page tables are mapped write-back.
    pub fn tables_write_back(self) -> bool {
        self.0.tables_write_back
    }
}

fn table<C: Hw + ?Sized>(c: &C) -> &'static Table {
    Routine::of(c.hw()).0
}

/// The lines of a range, rounded outward.
fn lines(va: VirtAddr, len: u32, line: u32) -> impl Iterator<Item = VirtAddr> {
    let first = va.0 & !(line - 1);
    let count = (va.0 - first + len).div_ceil(line);
    (0..count).map(move |n| VirtAddr(first.wrapping_add(n * line)))
}

/// Calls `piece` for the parts of a range that lie in one page each, with interrupts off around it, if
/// the routine works that way; else once.
fn pieces<C: Hw + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (va, len): (VirtAddr, u32),
    mut piece: impl FnMut(&mut C, VirtAddr, u32),
) {
    if !table(c).by_pages {
        return piece(c, va, len);
    }
    let page = c.hw().page_bytes();
    let (mut at, mut left) = (va, len);
    while left > 0 {
        let part = left.min(page - at.0 % page);
        c.step(cpu, Step::Interrupts(false));
        piece(c, at, part);
        c.step(cpu, Step::Interrupts(true));
        at = at.add(part);
        left -= part;
    }
}

fn drain<C: Hw + ?Sized>(c: &mut C, cpu: CpuId) {
    if table(c).drains {
        c.step(cpu, Step::Drain);
    }
}

/// What one line gets: a clean and invalidate may be two operations, an invalidate may be one of those.
fn line_ops(table: &Table, op: LineOp) -> Vec<LineOp> {
    let op = match op {
        LineOp::Invalidate => table.invalidate,
        _ => op,
    };
    match op {
        LineOp::CleanInvalidate => table.purge.to_vec(),
        _ => vec![op],
    }
}

/// Data cache, a range.
pub fn dcache_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp, va: VirtAddr, len: u32) {
    let table = table(c);
    if len >= table.whole_from {
        let all = match op {
            LineOp::Invalidate => LineOp::CleanInvalidate,
            _ => op,
        };
        return dcache_all(c, cpu, all);
    }
    let line = c.hw().cpu(cpu).dcache.line_bytes();
    let ops = line_ops(table, op);
    pieces(c, cpu, (va, len), |c, va, len| {
        for at in lines(va, len, line) {
            ops.iter().for_each(|op| c.step(cpu, Step::Dcache(*op, at)));
        }
    });
    drain(c, cpu);
}

/// Second level, a range by virtual address; a clean and invalidate cleans the zone first, then
/// invalidates it (`sheeva_l2cache_wbinv_range`).
pub fn l2_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp, va: VirtAddr, len: u32) {
    let Some(l2) = &c.hw().l2 else { return };
    let line = l2.line_bytes();
    let passes: &[LineOp] = match op {
        LineOp::CleanInvalidate => &[LineOp::Clean, LineOp::Invalidate],
        LineOp::Clean => &[LineOp::Clean],
        LineOp::Invalidate => &[LineOp::Invalidate],
    };
    pieces(c, cpu, (va, len), |c, va, len| {
        for op in passes {
            lines(va, len, line).for_each(|at| c.step(cpu, Step::L2(*op, at)));
        }
    });
    c.step(cpu, Step::Drain);
}

/// Both first-level caches, a range: data cleaned and invalidated, instructions invalidated.
pub fn idcache_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    let table = table(c);
    if len >= table.whole_from {
        return idcache_all(c, cpu);
    }
    both(c, cpu, table.idcache, table.purge, (va, len));
}

/// Makes stores executable, a range; the second level is not touched.
pub fn icache_sync<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    let table = table(c);
    if len >= table.whole_from {
        return both_whole(c, cpu, LineOp::Clean);
    }
    both(c, cpu, table.sync, &[LineOp::Clean], (va, len));
}

/// Both first-level caches, a range, in the routine's order.
fn both<C: Hw + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    order: Order,
    ops: &[LineOp],
    (va, len): (VirtAddr, u32),
) {
    let line = c.hw().cpu(cpu).dcache.line_bytes();
    let data = |c: &mut C, at| ops.iter().for_each(|op| c.step(cpu, Step::Dcache(*op, at)));
    match order {
        Order::InstructionFirst => lines(va, len, line).for_each(|at| {
            c.step(cpu, Step::Icache(at));
            data(c, at);
        }),
        Order::DataFirst => lines(va, len, line).for_each(|at| {
            data(c, at);
            c.step(cpu, Step::Icache(at));
        }),
        Order::DataThenInstructions => pieces(c, cpu, (va, len), |c, va, len| {
            lines(va, len, line).for_each(|at| data(c, at));
            lines(va, len, line).for_each(|at| c.step(cpu, Step::Icache(at)));
        }),
        Order::DataDrainWhole => {
            lines(va, len, line).for_each(|at| data(c, at));
            c.step(cpu, Step::Drain);
            return c.step(cpu, Step::IcacheAll);
        }
    }
    drain(c, cpu);
}

/// Instruction cache, a range; all of it where there is nothing finer.
pub fn icache_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    if table(c).idcache == Order::DataDrainWhole {
        return c.step(cpu, Step::IcacheAll);
    }
    let line = c.hw().cpu(cpu).icache.line_bytes();
    lines(va, len, line).for_each(|at| c.step(cpu, Step::Icache(at)));
}

/// Whole data cache.
pub fn dcache_all<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    match table(c).whole {
        _ if op == LineOp::Invalidate => c.step(cpu, Step::DcacheInvalidateAll),
        Whole::TestAndClean => test_and_clean(c, cpu, op),
        Whole::BySlot => {
            let slots = c.hw().cpu(cpu).dcache.slots();
            (0..slots).for_each(|slot| c.step(cpu, Step::DcacheSlot(op, slot)));
        }
        Whole::Displace => displace(c, cpu, op),
    }
    drain(c, cpu);
}

fn test_and_clean<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    let cache = &c.hw().cpu(cpu).dcache;
    let dirty = cache.valid_slots().filter(|s| cache.dirty(*s) != 0).count();
    (0..=dirty).for_each(|_| c.step(cpu, Step::DcacheTest(op)));
}

/// Reads twice the cache's size: whichever half is still in from the last time, the other displaces
/// everything. Under flat tables there is no such region, and the cache is tested and cleaned.
fn displace<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    let cache = &c.hw().cpu(cpu).dcache;
    let (line, count) = (cache.line_bytes(), 2 * cache.slots());
    for n in 0..count {
        let got = c.load(cpu, CLEAN_REGION.add(n * line), Width::Word, false);
        if got.is_err() {
            return test_and_clean(c, cpu, op);
        }
    }
}

/// Both first-level caches, everything: data cleaned and invalidated, instructions invalidated.
pub fn idcache_all<C: Hw + ?Sized>(c: &mut C, cpu: CpuId) {
    both_whole(c, cpu, LineOp::CleanInvalidate);
}

fn both_whole<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    let data_first = table(c).idcache == Order::DataDrainWhole;
    if !data_first {
        c.step(cpu, Step::IcacheAll);
    }
    dcache_all(c, cpu, op);
    if data_first {
        c.step(cpu, Step::IcacheAll);
    }
}

/// Whole second level; a step for each line that is in.
pub fn l2_all<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    let Some(l2) = &c.hw().l2 else { return };
    let slots: Vec<u32> = l2.valid_slots().collect();
    slots
        .into_iter()
        .for_each(|slot| c.step(cpu, Step::L2Slot(op, slot)));
    c.step(cpu, Step::Drain);
}

/// PTE_SYNC: the stored word reaches memory, where the walk reads it. Tables are mapped write-through,
/// so on a machine without a second level a drain is enough; else its lines are cleaned too
/// (FreeBSD `PTE_SYNC`: both range operations, each of which ends with a drain).
pub fn pte_sync<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, at: VirtAddr) {
    let l2 = c.hw().l2.is_some();
    if l2 || table(c).tables_write_back {
        c.step(cpu, Step::Dcache(LineOp::Clean, at));
    }
    if l2 {
        // The store may wait in the write buffer; cleaning the second level before it arrives there
        // would leave it there for ever.
        c.step(cpu, Step::Drain);
        c.step(cpu, Step::L2(LineOp::Clean, at));
    }
    c.step(cpu, Step::Drain);
}
