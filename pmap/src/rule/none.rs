//! `none`: each mapping and frame is looked after for itself, and nothing is done for sharing or for
//! what the kernel writes. A yardstick: it shows what sharing costs and what forgetting it breaks.

use crate::hook::{Facts, Hook, View};
use crate::plan::Plan;
use crate::rule::life;

/// The rule.
pub fn plan(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    life::plan(hook, view, facts, plan);
}
