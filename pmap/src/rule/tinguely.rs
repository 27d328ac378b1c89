//! Tinguely's test: `freebsd-2010`, but a page that only programs execute and only the kernel writes is
//! left alone.
//!
//! Source: Mark Tinguely in seeds/001 (2012-02-07). Just before the second pass of `pmap_fix_cache`:
//!
//! ```text
//! if (exec && exec == entries + kentries && WRITERS && ncaches == 0) return;
//! WRITERS: writable == 0 || writable == kwritable                       (bypass)
//!          writable == 0 || (writable == 1 && kwritable == 1)           (test1)
//! ```
//!
//! `entries` are the mappings of all programs, `kentries` the kernel's, `ncaches` the uncached ones. The
//! thread leaves `exec` open:
//! 1. literal: entries with PVF_EXEC. A buffer's mapping never has it, so that the test fails whenever one
//!    is there, and where it holds there was nothing to uncache.
//! 2. intent: the kernel's mappings count as executable ("one kernel mapping that is read+exec+write").
//!    So it also holds for two kernel mappings and no program's, unless test1 forbids it.
//!
//! All else is `freebsd-2010`.

use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::Plan;
use crate::rule::freebsd_2010;
use crate::types::PvFlags;

/// `tinguely-bypass-literal`.
pub fn bypass_literal(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    unless(Exec::Literal, Writers::Bypass, hook, view, facts, plan);
}

/// `tinguely-bypass-intent`.
pub fn bypass_intent(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    unless(Exec::Intent, Writers::Bypass, hook, view, facts, plan);
}

/// `tinguely-test1-literal`.
pub fn test1_literal(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    unless(Exec::Literal, Writers::Test1, hook, view, facts, plan);
}

/// `tinguely-test1-intent`.
pub fn test1_intent(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    unless(Exec::Intent, Writers::Test1, hook, view, facts, plan);
}

/// What `exec` counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exec {
    Literal,
    Intent,
}

/// Which writers are let through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writers {
    Bypass,
    Test1,
}

fn unless(
    exec: Exec,
    writers: Writers,
    hook: &Hook,
    view: &View<'_>,
    facts: &Facts,
    plan: &mut Plan,
) {
    // At these hooks `freebsd-2010` does nothing but ask `fix_cache`.
    let asks = matches!(hook, Hook::Entered | Hook::Changed | Hook::Left(_));
    if !(asks && holds(exec, writers, view.mappings)) {
        freebsd_2010::plan(hook, view, facts, plan);
    }
}

fn holds(exec: Exec, writers: Writers, mappings: &[Mapping]) -> bool {
    let count = |is: &dyn Fn(&Mapping) -> bool| mappings.iter().filter(|m| is(m)).count();
    let kernel = |m: &Mapping| m.space.is_kernel();
    let has = |m: &Mapping, flag| m.flags.contains(flag);
    let executable = match exec {
        Exec::Literal => count(&|m| has(m, PvFlags::EXEC)),
        Exec::Intent => count(&|m| kernel(m) || has(m, PvFlags::EXEC)),
    };
    let writable = count(&|m| has(m, PvFlags::WRITE));
    let kernel_writable = count(&|m| kernel(m) && has(m, PvFlags::WRITE));
    let fine = match writers {
        Writers::Bypass => writable == kernel_writable,
        Writers::Test1 => writable == 0 || (writable == 1 && kernel_writable == 1),
    };
    let uncached = count(&|m| has(m, PvFlags::NC));
    executable > 0 && executable == mappings.len() && fine && uncached == 0
}
