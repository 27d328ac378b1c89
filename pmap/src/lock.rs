//! The pmap lock: one for all spaces and pv lists, as FreeBSD's `pvh_global_lock` with the pmap locks
//! under it. A CPU may take it again inside; another CPU that finds it held cannot go on, so an operation
//! injected there is infeasible.

use machine::{CpuId, Mark, Step};

use crate::ctx::PmapCtx;

/// Begins a pmap operation: takes the lock.
pub(crate) fn acquire<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId) {
    c.step(cpu, Step::Software("lock pmap"));
    let held = &mut c.pmap_mut().lock;
    match held {
        Some((owner, depth)) if *owner == cpu => *depth += 1,
        None => *held = Some((cpu, 1)),
        Some(_) => return c.infeasible("the pmap lock is held"),
    }
    c.mark(cpu, Mark::PmapBegin);
}

/// Ends it.
pub(crate) fn release<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId) {
    c.step(cpu, Step::Software("unlock pmap"));
    let held = &mut c.pmap_mut().lock;
    if let Some((owner, depth)) = held
        && *owner == cpu
    {
        *depth -= 1;
        if *depth == 0 {
            *held = None;
        }
        c.mark(cpu, Mark::PmapEnd);
    }
}
