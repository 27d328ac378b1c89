//! `write-drop-bqrelse-explicit`: Lepore's repair of seeds/001. A buffer keeps write permission only while
//! somebody writes into it: `bqrelse` takes it away, and a writer announces itself to get it back.
//!
//! 1. Released: the kernel's own lines are written back and dropped, the entry becomes read-only, its TLB
//!    copy goes; then `freebsd-2010` sees no writer and caches the page's other mappings.
//! 2. Acquired to write: the entry becomes writable, which makes `freebsd-2010` uncache every mapping; the
//!    kernel's own lines and TLB copy go before and after, because `freebsd-2010` does not (B23).
//! 3. Everything else is `freebsd-2010`.

use machine::LineOp::CleanInvalidate;
use machine::VirtAddr;

use crate::hook::{Facts, Hook, View};
use crate::plan::{Do, Plan};
use crate::rule::freebsd_2010;
use crate::types::SpaceId;
use crate::verbs::BufferEvent;

/// The rule.
pub fn bqrelse_explicit(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let writable = view.subject.is_some_and(|m| m.pte.writable());
    match *hook {
        Hook::Buffer(BufferEvent::Released, va) if writable => set(plan, va, false, facts),
        Hook::Buffer(BufferEvent::Acquired { write: true }, va) if !writable => {
            set(plan, va, true, facts);
        }
        _ => freebsd_2010::plan(hook, view, facts, plan),
    }
}

fn set(plan: &mut Plan, va: VirtAddr, write: bool, facts: &Facts) {
    own_copies(plan, va, facts);
    plan.push(Do::BufferWrite(write), SpaceId::KERNEL, va, facts.page);
    own_copies(plan, va, facts);
}

/// The kernel's own lines and TLB copy of a buffer page.
fn own_copies(plan: &mut Plan, va: VirtAddr, facts: &Facts) {
    plan.range(Do::Dcache(CleanInvalidate), SpaceId::KERNEL, va, facts.page);
    plan.push(Do::TlbD, SpaceId::KERNEL, va, 0);
}
