//! The page daemon: which pages are taken when memory is short.
//!
//! Source: FreeBSD `vm/vm_pageout.c` (vm_pageout_scan, vm_pageout_clean). One pass over the inactive
//! queue, after moving unreferenced active pages there. Absent: swap (dirty anonymous pages stay),
//! page targets, the out-of-memory killer, clustering with neighbours.

use machine::{CpuId, Frame};
use pmap::PmapVerbs;

use crate::ctx::VmCtx;
use crate::object;
use crate::page::Queue;
use crate::verbs::VmVerbs;
use crate::vm::operation;

/// One pass; returns how many pages it freed.
pub(crate) fn scan<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, want: u32) -> u32 {
    operation(c, cpu, "vm_pageout_scan", |c| {
        deactivate(c, cpu, want);
        let candidates: Vec<Frame> = c.vm().queued(Queue::Inactive).collect();
        let mut freed = 0;
        for frame in candidates {
            if freed >= want {
                break;
            }
            freed += u32::from(c.vm().page(frame).queue == Queue::Inactive && take(c, cpu, frame));
        }
        freed
    })
}

/// Moves active pages that nobody referenced since the last pass to the inactive queue.
fn deactivate<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, want: u32) {
    let inactive = c.vm().queued(Queue::Inactive).take(want as usize).count();
    if inactive >= want as usize {
        return;
    }
    let active: Vec<Frame> = c
        .vm()
        .queued(Queue::Active)
        .take(4 * want as usize + 16)
        .collect();
    for frame in active {
        let referenced = c.pmap_ts_referenced(cpu, frame);
        if c.vm().page(frame).queue == Queue::Active {
            let queue = match referenced {
                true => Queue::Active,
                false => Queue::Inactive,
            };
            c.vm_mut().requeue(frame, queue);
        }
    }
}

/// Tries to free one inactive page.
fn take<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) -> bool {
    if c.vm().page(frame).in_use() || c.vm().page(frame).wired > 0 {
        return false;
    }
    if c.pmap_ts_referenced(cpu, frame) {
        c.vm_mut().requeue(frame, Queue::Active);
        return false;
    }
    if object::test_dirty(c, frame) && !launder(c, cpu, frame) {
        return false;
    }
    c.pmap_remove_all(cpu, frame);
    let dirty = object::test_dirty(c, frame);
    let page = c.vm().page(frame);
    if dirty || page.in_use() || page.wired > 0 || page.queue != Queue::Inactive {
        return false;
    }
    c.vm_page_free(cpu, frame);
    true
}

/// Writes a dirty file page back; true when it is clean now.
fn launder<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) -> bool {
    let page = *c.vm().page(frame);
    let Some(object) = page.object else {
        return false;
    };
    if c.vm().object(object).vnode.is_none() {
        return false;
    }
    let (first, last) = (page.pindex, page.pindex + 1);
    let cleaned = c.vm_object_page_clean(cpu, object, first, last, false);
    cleaned.is_ok() && !object::test_dirty(c, frame)
}
