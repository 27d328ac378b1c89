//! Buffers that are mapped only while somebody holds them, wholly or for what he does with them.
//!
//! 1. `unmap-at-bqrelse`: released, a buffer is unmapped; acquired, or at the start of a transfer that the
//!    syncer begins without getblk, it is mapped again as `pmap_kenter` does.
//! 2. `ubc-readonly-window`: NetBSD's answer to the same problem (`uvm_bio.c`, `pmap-freebsd-netbsd.md` 2.5).
//!    A reader's window is read-only, a writer's writable; released, it is unmapped if a program executes
//!    the page, else it lingers read-only. A device's transfer, which UBC makes through a pager mapping of its
//!    own, needs a writable one here, which the window keeps until it is released: who holds it may be a
//!    writer that had to read the block first.
//! 3. `unmapped-buffers-nosync`: FreeBSD 2013 (4.6). The bus layer has no address to sync, and does nothing
//!    (B7). `unmapped-buffers-sync`: it syncs through a short-lived mapping (`pmap_quick_enter_page`, 2015).
//!    The file layer has no unmapped I/O yet, so the buffer is mapped while somebody holds it; its skeleton
//!    says so (`unmapped_buffers`). Still missing: copies through `pmap_copy_pages`, which leave the page's
//!    other mappings cached, and GB_KVAALLOC.
//!
//! Everything else is `freebsd-2010`; for `netbsd-vivt-repaired`, which has the windows of 2, it is
//! `freebsd-2010-repaired`.

use machine::VirtAddr;

use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::{Do, Plan};
use crate::rule::{BufferWrite, Rule, freebsd_2010, repaired};
use crate::skeleton::{Skeleton, freebsd_2010 as base};
use crate::types::{PvFlags, SpaceId};
use crate::verbs::BufferEvent;

const K: SpaceId = SpaceId::KERNEL;

/// The skeleton of unmapped buffers.
pub fn unmapped_skeleton() -> Skeleton {
    Skeleton {
        unmapped_buffers: true,
        ..base()
    }
}

/// `unmap-at-bqrelse`, and `unmapped-buffers-sync` as far as it can be told from it.
pub fn unmap_at_bqrelse(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    match *hook {
        Hook::Buffer(BufferEvent::Released, va) if mapped(view).is_some() => {
            plan.push(Do::BufferUnmap, K, va, facts.page);
        }
        Hook::Buffer(event, va) if needed(event) => map(plan, view, va, facts),
        _ => freebsd_2010::plan(hook, view, facts, plan),
    }
}

/// `unmapped-buffers-nosync`.
pub fn unmapped_nosync(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    if !matches!(hook, Hook::Dma(..)) {
        unmap_at_bqrelse(hook, view, facts, plan);
    }
}

/// `ubc-readonly-window`.
pub fn ubc(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let below = (
        freebsd_2010::plan as Rule,
        freebsd_2010::buffer_write as BufferWrite,
    );
    ubc_over(below, hook, view, facts, plan);
}

/// `netbsd-vivt-repaired`.
pub fn ubc_repaired(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let below = (
        repaired::plan as Rule,
        repaired::buffer_write as BufferWrite,
    );
    ubc_over(below, hook, view, facts, plan);
}

fn ubc_over(
    (below, buffer_write): (Rule, BufferWrite),
    hook: &Hook,
    view: &View<'_>,
    facts: &Facts,
    plan: &mut Plan,
) {
    let Hook::Buffer(event, va) = *hook else {
        return below(hook, view, facts, plan);
    };
    let mut window = |write: bool| {
        let has = mapped(view).map(|m| m.pte.writable());
        map(plan, view, va, facts);
        if has.unwrap_or(true) != write {
            buffer_write(plan, va, write, facts);
        }
    };
    match event {
        BufferEvent::Acquired { write } => window(write),
        BufferEvent::IoStart { read: true } => window(true),
        BufferEvent::IoStart { read: false } => map(plan, view, va, facts),
        BufferEvent::Released if mapped(view).is_some() => match executed(view) {
            true => plan.push(Do::BufferUnmap, K, va, facts.page),
            false => window(false),
        },
        _ => {}
    }
}

fn needed(event: BufferEvent) -> bool {
    matches!(
        event,
        BufferEvent::Acquired { .. } | BufferEvent::IoStart { .. }
    )
}

fn mapped(view: &View<'_>) -> Option<Mapping> {
    view.subject.filter(|m| m.pte.present())
}

fn executed(view: &View<'_>) -> bool {
    let program = |m: &Mapping| !m.space.is_kernel() && m.flags.contains(PvFlags::EXEC);
    view.mappings.iter().any(program)
}

/// Maps a buffer's page unless it is mapped.
fn map(plan: &mut Plan, view: &View<'_>, va: VirtAddr, facts: &Facts) {
    if let (None, Some(frame)) = (mapped(view), view.frame) {
        plan.push(Do::BufferMap(frame), K, va, facts.page);
    }
}
