//! Edits of CPU routines: micro-steps of one kind left out of one routine.
//!
//! A routine belongs to the machine, not to the policy; leaving a step out of it shows which of its steps
//! the policy depends on. The routine runs as it is, on hardware that does not hear the dropped steps.

use machine::{Abort, CpuId, Hw, Machine, Mark, Step, VirtAddr, Width};

use crate::ctx::PmapCtx;
use crate::plan::Do;
use crate::routine;

/// A routine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum RoutineName {
    /// `dcache_range`.
    Dcache,
    /// `l2_range`.
    L2,
    /// `idcache_range`.
    Idcache,
    /// `icache_sync`.
    IcacheSync,
    /// `icache_range`.
    Icache,
    /// `dcache_all`.
    DcacheAll,
    /// `idcache_all`.
    IdcacheAll,
    /// `l2_all`.
    L2All,
    /// `pte_sync`.
    PteSync,
}

/// A kind of micro-step that routines are made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum StepKind {
    /// Data cache, lines or all of it.
    Dcache,
    /// Instruction cache, lines or all of it.
    Icache,
    /// Second level, lines or all of it.
    L2,
    /// The write buffer's drain.
    Drain,
}

/// A kind of step left out of a routine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RoutineEdit {
    /// Which routine.
    pub routine: RoutineName,
    /// Which steps.
    pub drop: StepKind,
}

pub(super) const ROUTINES: &[(RoutineName, &str)] = &[
    (RoutineName::Dcache, "dcache_range"),
    (RoutineName::L2, "l2_range"),
    (RoutineName::Idcache, "idcache_range"),
    (RoutineName::IcacheSync, "icache_sync"),
    (RoutineName::Icache, "icache_range"),
    (RoutineName::DcacheAll, "dcache_all"),
    (RoutineName::IdcacheAll, "idcache_all"),
    (RoutineName::L2All, "l2_all"),
    (RoutineName::PteSync, "pte_sync"),
];

pub(super) const KINDS: &[(StepKind, &str)] = &[
    (StepKind::Dcache, "dcache"),
    (StepKind::Icache, "icache"),
    (StepKind::L2, "l2"),
    (StepKind::Drain, "drain"),
];

impl RoutineName {
    /// The routine that a plan's step runs, if any.
    pub fn of(what: Do) -> Option<Self> {
        Some(match what {
            Do::Dcache(_) => Self::Dcache,
            Do::L2(_) => Self::L2,
            Do::Idcache => Self::Idcache,
            Do::IcacheSync => Self::IcacheSync,
            Do::Icache => Self::Icache,
            Do::DcacheAll(_) => Self::DcacheAll,
            Do::IdcacheAll => Self::IdcacheAll,
            Do::L2All(_) => Self::L2All,
            _ => return None,
        })
    }
}

impl StepKind {
    /// The kind of a micro-step.
    pub fn of(step: &Step) -> Option<Self> {
        Some(match step {
            Step::Dcache(..)
            | Step::DcacheSlot(..)
            | Step::DcacheTest(_)
            | Step::DcacheInvalidateAll => Self::Dcache,
            Step::Icache(_) | Step::IcacheAll => Self::Icache,
            Step::L2(..) | Step::L2Physical(..) | Step::L2Slot(..) => Self::L2,
            Step::Drain => Self::Drain,
            _ => return None,
        })
    }
}

/// Hardware that does not hear some kinds of steps.
struct Deaf<'a, C: ?Sized> {
    inner: &'a mut C,
    to: Vec<StepKind>,
}

impl<C: Hw + ?Sized> Hw for Deaf<'_, C> {
    fn hw(&self) -> &Machine {
        self.inner.hw()
    }

    fn step(&mut self, cpu: CpuId, step: Step) {
        if !StepKind::of(&step).is_some_and(|k| self.to.contains(&k)) {
            self.inner.step(cpu, step);
        }
    }

    fn load(&mut self, cpu: CpuId, va: VirtAddr, width: Width, user: bool) -> Result<u32, Abort> {
        self.inner.load(cpu, va, width, user)
    }

    fn store(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        width: Width,
        value: u32,
        user: bool,
    ) -> Result<(), Abort> {
        self.inner.store(cpu, va, width, value, user)
    }

    fn mark(&mut self, cpu: CpuId, mark: Mark) {
        self.inner.mark(cpu, mark);
    }

    fn charge(&mut self, cpu: CpuId, operation: &'static str) {
        self.inner.charge(cpu, operation);
    }
}

fn dropped<C: PmapCtx + ?Sized>(c: &C, routine: RoutineName) -> Vec<StepKind> {
    let edits = c.policy().routine_edits.iter();
    let mine = edits.filter(|e| e.routine == routine);
    mine.map(|e| e.drop).collect()
}

/// Runs the routine of a plan's step; false if it has none.
pub(crate) fn run<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    what: Do,
    va: VirtAddr,
    len: u32,
) -> bool {
    let Some(name) = RoutineName::of(what) else {
        return false;
    };
    if c.policy().routine_edits.is_empty() {
        call(c, cpu, what, va, len);
    } else {
        let to = dropped(c, name);
        call(&mut Deaf { inner: c, to }, cpu, what, va, len);
    }
    true
}

/// Runs the routine of a plan's step as it is; nothing if it has none.
pub fn call<C: Hw + ?Sized>(c: &mut C, cpu: CpuId, what: Do, va: VirtAddr, len: u32) {
    match what {
        Do::Dcache(op) => routine::dcache_range(c, cpu, op, va, len),
        Do::L2(op) => routine::l2_range(c, cpu, op, va, len),
        Do::Idcache => routine::idcache_range(c, cpu, va, len),
        Do::IcacheSync => routine::icache_sync(c, cpu, va, len),
        Do::Icache => routine::icache_range(c, cpu, va, len),
        Do::DcacheAll(op) => routine::dcache_all(c, cpu, op),
        Do::IdcacheAll => routine::idcache_all(c, cpu),
        Do::L2All(op) => routine::l2_all(c, cpu, op),
        _ => {}
    }
}

/// Makes a stored table entry visible to the walk.
pub(crate) fn pte_sync<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, at: VirtAddr) {
    if c.policy().routine_edits.is_empty() {
        return routine::pte_sync(c, cpu, at);
    }
    let to = dropped(c, RoutineName::PteSync);
    routine::pte_sync(&mut Deaf { inner: c, to }, cpu, at);
}
