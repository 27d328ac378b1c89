//! Rules: what is cleaned, invalidated, made uncached or flushed at each hook. One rule, one file.
//!
//! A rule is pure: it sees the hook, the view of that moment and the machine's facts, and writes a plan.

pub mod always_flush;
pub mod bare;
pub mod freebsd_2006;
pub mod freebsd_2009;
pub mod freebsd_2010;
pub mod freebsd_2013;
pub mod life;
pub mod linux_vivt;
pub mod netbsd_vivt;
pub mod none;
pub mod repaired;
pub mod repairs;
pub mod tinguely;
pub mod vac_me_harder;
pub mod windows;
pub mod write_drop;

use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::{Do, Plan};
use machine::{LineOp, VirtAddr};

/// A rule.
pub type Rule = fn(&Hook, &View<'_>, &Facts, &mut Plan);

/// How a rule changes the write permission of a buffer's mapping.
type BufferWrite = fn(&mut Plan, VirtAddr, bool, &Facts);

/// Flushes the TLB for a mapping as FreeBSD's wrappers do: both sides if it has been executed, the data
/// side if referenced, nothing unless it is current.
pub(crate) fn tlb(plan: &mut Plan, m: &Mapping) {
    if !m.current {
        return;
    }
    if m.flags.been_execd() {
        plan.push(Do::TlbId, m.space, m.va, 0);
    } else if m.flags.been_refd() {
        plan.push(Do::TlbD, m.space, m.va, 0);
    }
}

/// Flushes a mapping's page: both caches if it has been executed; else, if referenced, the data cache,
/// written back only if the mapping may write.
pub(crate) fn flush(plan: &mut Plan, m: &Mapping, page: u32) {
    if !m.current {
        return;
    }
    if m.flags.been_execd() {
        plan.range(Do::Idcache, m.space, m.va, page);
    } else if m.flags.been_refd() {
        let write = m.flags.contains(crate::types::PvFlags::WRITE);
        let op = if write {
            LineOp::CleanInvalidate
        } else {
            LineOp::Invalidate
        };
        plan.range(Do::Dcache(op), m.space, m.va, page);
    }
}
