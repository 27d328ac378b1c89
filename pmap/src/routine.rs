//! CPU routines: how a cache operation on a range, or on everything, becomes operations on lines.
//!
//! Sources: FreeBSD `cpufunc_asm_armv5_ec.S` and `cpufunc_asm_sheeva.S` as described in
//! `pmap-freebsd-netbsd.md` 3.0. Range operations round outward to lines and end with a drain.

use machine::CpuId;
use machine::{Hw, LineOp, Machine, Step, VirtAddr};

/// Whose routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Routine {
    /// ARM926EJ-S: by address; 16 KB and more work on the whole cache; a plain invalidate of that size
    /// cleans first.
    ArmV5Ec,
    /// Marvell Feroceon 88FR131: zone registers, one page-bounded piece at a time with interrupts off.
    Sheeva,
}

impl Routine {
    /// The routine of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "armv5_ec" => Some(Routine::ArmV5Ec),
            "sheeva" => Some(Routine::Sheeva),
            _ => None,
        }
    }

    /// The routine of a machine; `armv5_ec` if its profile names none that exists.
    pub fn of(machine: &Machine) -> Self {
        Self::by_name(&machine.profile().routine).unwrap_or(Routine::ArmV5Ec)
    }

    /// From this length on, a range operation works on the whole cache.
    fn whole_from(self) -> u32 {
        match self {
            Routine::ArmV5Ec => 0x4000,
            Routine::Sheeva => u32::MAX,
        }
    }
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
    if Routine::of(c.hw()) != Routine::Sheeva {
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

/// Data cache, a range.
pub fn dcache_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp, va: VirtAddr, len: u32) {
    if len >= Routine::of(c.hw()).whole_from() {
        let all = if op == LineOp::Invalidate {
            LineOp::CleanInvalidate
        } else {
            op
        };
        return dcache_all(c, cpu, all);
    }
    let line = c.hw().cpu(cpu).dcache.line_bytes();
    pieces(c, cpu, (va, len), |c, va, len| {
        lines(va, len, line).for_each(|at| c.step(cpu, Step::Dcache(op, at)));
    });
    c.step(cpu, Step::Drain);
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
    let routine = Routine::of(c.hw());
    if len >= routine.whole_from() {
        return idcache_all(c, cpu);
    }
    let line = c.hw().cpu(cpu).dcache.line_bytes();
    match routine {
        Routine::ArmV5Ec => lines(va, len, line).for_each(|at| {
            c.step(cpu, Step::Icache(at));
            c.step(cpu, Step::Dcache(LineOp::CleanInvalidate, at));
        }),
        Routine::Sheeva => pieces(c, cpu, (va, len), |c, va, len| {
            let op = LineOp::CleanInvalidate;
            lines(va, len, line).for_each(|at| c.step(cpu, Step::Dcache(op, at)));
            lines(va, len, line).for_each(|at| c.step(cpu, Step::Icache(at)));
        }),
    }
    c.step(cpu, Step::Drain);
}

/// Makes stores executable, a range: instruction line first, then the data line, as armv5_ec and
/// sheeva both do; the second level is not touched.
pub fn icache_sync<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    if len >= Routine::of(c.hw()).whole_from() {
        c.step(cpu, Step::IcacheAll);
        return dcache_all(c, cpu, LineOp::Clean);
    }
    let line = c.hw().cpu(cpu).dcache.line_bytes();
    lines(va, len, line).for_each(|at| {
        c.step(cpu, Step::Icache(at));
        c.step(cpu, Step::Dcache(LineOp::Clean, at));
    });
    c.step(cpu, Step::Drain);
}

/// Instruction cache, a range.
pub fn icache_range<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    let line = c.hw().cpu(cpu).icache.line_bytes();
    lines(va, len, line).for_each(|at| c.step(cpu, Step::Icache(at)));
}

/// Whole data cache, by test-and-clean: a step for each dirty line, then one for the rest.
pub fn dcache_all<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, op: LineOp) {
    if op == LineOp::Invalidate {
        c.step(cpu, Step::DcacheInvalidateAll);
    } else {
        let cache = &c.hw().cpu(cpu).dcache;
        let dirty = cache.valid_slots().filter(|s| cache.dirty(*s) != 0).count();
        (0..=dirty).for_each(|_| c.step(cpu, Step::DcacheTest(op)));
    }
    c.step(cpu, Step::Drain);
}

/// Whole instruction cache, then whole data cache.
pub fn idcache_all<C: Hw + ?Sized>(c: &mut C, cpu: CpuId) {
    c.step(cpu, Step::IcacheAll);
    dcache_all(c, cpu, LineOp::CleanInvalidate);
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
    if c.hw().l2.is_some() {
        c.step(cpu, Step::Dcache(LineOp::Clean, at));
        // The store may wait in the write buffer; cleaning the second level before it arrives there
        // would leave it there for ever.
        c.step(cpu, Step::Drain);
        c.step(cpu, Step::L2(LineOp::Clean, at));
    }
    c.step(cpu, Step::Drain);
}
