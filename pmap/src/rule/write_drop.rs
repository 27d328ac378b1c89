//! Lepore's repair of seeds/001: a buffer keeps write permission only while somebody writes into it.
//!
//! Where it is taken away:
//! 1. `io-done`: at the end of a transfer.
//! 2. `bqrelse`: when the buffer is released.
//! 3. `after-uiomove`: when a copy into or out of it has ended.
//!
//! Who gives it back:
//! 1. `explicit`: a writer announces itself to getblk.
//! 2. `fault`: the kernel's first store faults; the buffer map is NOFAULT, so the abort handler must let
//!    the pmap look at it first (skeleton: `kernel_faults_fixed`).
//! 3. Either way: a device is about to write memory. It does not fault, and the page's other mappings must
//!    be uncached by then.
//!
//! Taking it away or giving it back, the kernel's own lines and TLB copy go before and after, because
//! `freebsd-2010` does not see to them (B23); the WRITE flag follows the entry, so that the rule below is
//! asked again. Everything else is the rule below: `freebsd-2010` for the six, `freebsd-2010-repaired` for
//! the one that is meant to be used.

use machine::Access;

use crate::hook::{Facts, Hook, View};
use crate::plan::Plan;
use crate::rule::{BufferWrite, Rule, freebsd_2010, repaired};
use crate::skeleton::{Skeleton, freebsd_2010 as base};
use crate::verbs::BufferEvent;

/// Where write permission is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drop {
    IoDone,
    Bqrelse,
    AfterUiomove,
}

/// Who gives it back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rearm {
    Explicit,
    Fault,
}

/// The skeleton where writers announce themselves: an unmanaged mapping's WRITE follows its entry.
pub fn explicit_skeleton() -> Skeleton {
    Skeleton {
        kva_write_follows: true,
        ..base()
    }
}

/// The skeleton of the `-fault` ones.
pub fn fault_skeleton() -> Skeleton {
    Skeleton {
        kva_write_follows: true,
        kernel_faults_fixed: true,
        ..base()
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $at:ident, $by:ident, $below:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
            let below = ($below::plan as Rule, $below::buffer_write as BufferWrite);
            write_drop(Drop::$at, Rearm::$by, below, (hook, view, facts), plan);
        }
    )*};
}

rules! {
    /// `write-drop-io-done-explicit`.
    io_done_explicit: IoDone, Explicit, freebsd_2010;
    /// `write-drop-io-done-fault`.
    io_done_fault: IoDone, Fault, freebsd_2010;
    /// `write-drop-bqrelse-explicit`.
    bqrelse_explicit: Bqrelse, Explicit, freebsd_2010;
    /// `write-drop-bqrelse-fault`.
    bqrelse_fault: Bqrelse, Fault, freebsd_2010;
    /// `write-drop-after-uiomove-explicit`.
    after_uiomove_explicit: AfterUiomove, Explicit, freebsd_2010;
    /// `write-drop-after-uiomove-fault`.
    after_uiomove_fault: AfterUiomove, Fault, freebsd_2010;
    /// `repaired-write-drop`.
    repaired_bqrelse_explicit: Bqrelse, Explicit, repaired;
}

fn write_drop(
    at: Drop,
    by: Rearm,
    (below, buffer_write): (Rule, BufferWrite),
    (hook, view, facts): (&Hook, &View<'_>, &Facts),
    plan: &mut Plan,
) {
    let Some(m) = view.subject.filter(|m| m.pte.present()) else {
        return below(hook, view, facts, plan);
    };
    match change(at, by, hook) {
        Some(write) if write != m.pte.writable() => buffer_write(plan, m.va, write, facts),
        Some(_) => {}
        None => below(hook, view, facts, plan),
    }
}

/// What a hook does to a buffer's write permission, if anything.
fn change(at: Drop, by: Rearm, hook: &Hook) -> Option<bool> {
    use BufferEvent::{Acquired, Copied, IoDone, IoStart, Released};
    match *hook {
        Hook::Buffer(event, _) => match (event, at) {
            (Acquired { write: true }, _) if by == Rearm::Explicit => Some(true),
            (IoStart { read: true }, _) => Some(true),
            (IoDone { .. }, Drop::IoDone)
            | (Released, Drop::Bqrelse)
            | (Copied { .. }, Drop::AfterUiomove) => Some(false),
            _ => None,
        },
        Hook::Fault(Access::Store) if by == Rearm::Fault => Some(true),
        _ => None,
    }
}
