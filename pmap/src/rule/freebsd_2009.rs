//! `freebsd-2009`: `pmap_fix_cache` from 2009-06 (SVN r194459) until r1.130 of 2010-06.
//!
//! Source: `pmap-freebsd-netbsd.md` 2.2 and B3.
//!
//! 1. As `freebsd-2010`, but a kernel mapping that may write is a conflict only if user spaces map the page,
//!    or other kernel mappings may write: beside a *read-only* kernel mapping and no user it is not (B3).
//!
//! With no user mapping and one kernel writer, then, 2009 decides as if nobody could write: that is how it
//! is done here.

use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::Plan;
use crate::rule::freebsd_2010;
use crate::types::PvFlags;

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    let decides = matches!(hook, Hook::Entered | Hook::Changed | Hook::Left(_));
    if !decides || !one_kernel_writer(view.mappings) {
        return freebsd_2010::plan(hook, view, facts, plan);
    }
    let without_writer = |m: &Mapping| Mapping {
        flags: m.flags - PvFlags::WRITE,
        ..*m
    };
    let mappings: Vec<Mapping> = view.mappings.iter().map(without_writer).collect();
    let seen = View {
        mappings: &mappings,
        ..*view
    };
    freebsd_2010::plan(hook, &seen, facts, plan);
}

/// Only the kernel maps the page, and one of its mappings may write.
fn one_kernel_writer(mappings: &[Mapping]) -> bool {
    let writers = mappings.iter().filter(|m| m.flags.contains(PvFlags::WRITE));
    mappings.iter().all(|m| m.space.is_kernel()) && writers.count() == 1
}
