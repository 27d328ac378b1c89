//! `freebsd-2013`: `pmap_fix_cache` from 2013 on.
//!
//! Source: `pmap-freebsd-netbsd.md` 2.2, last line of pass 2: FB13 to FB11.
//!
//! 1. As `freebsd-2010`, but the entry of a page marked uncacheable (`pv_memattr`) is not made cacheable
//!    again when the policy would; its flag is cleared all the same.

use crate::hook::{Facts, Hook, View};
use crate::plan::{Do, Plan};
use crate::rule::freebsd_2010;

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    freebsd_2010::plan(hook, view, facts, plan);
    if view.uncacheable {
        plan.steps.retain(|s| s.what != Do::PteCache(true));
    }
}
