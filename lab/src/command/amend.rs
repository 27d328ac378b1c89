//! What `slim` and `repair` share: where policies are judged, and what they cost.

use std::num::NonZero;
use std::sync::Arc;

use clap::Args;
use machine::Profile;
use pmap::Policy;

use super::{Failure, explore, machine};
use crate::amend::Ground;
use crate::scenario::sheevaplug;

/// Where a policy is judged.
#[derive(Args)]
pub struct GroundArgs {
    /// Machine, by name or path of a profile; a flat table, one CPU, VIVT
    #[arg(long, default_value = "tiny-line")]
    machine: String,
    /// Scope that each change is judged in
    #[arg(long, default_value = "small")]
    scope: String,
    /// Larger scope that the result is confirmed in
    #[arg(long, default_value = "default")]
    confirm: String,
    /// Machine of the scenario that costs are taken from
    #[arg(long, default_value = "sheevaplug")]
    scenario_machine: String,
    /// Give a search up after so many states
    #[arg(long, default_value_t = 20_000_000)]
    max_states: u64,
}

impl GroundArgs {
    fn in_scope(&self, scope: &str) -> Result<Ground, Failure> {
        Ok(Ground {
            profile: machine(&self.machine)?,
            scope: explore::scope(scope)?,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            states: self.max_states,
        })
    }

    /// Where each change is judged.
    pub fn ground(&self) -> Result<Ground, Failure> {
        self.in_scope(&self.scope)
    }

    /// Where the result is confirmed.
    pub fn confirm(&self) -> Result<Ground, Failure> {
        self.in_scope(&self.confirm)
    }

    /// The machine that costs are taken from.
    pub fn scenario(&self) -> Result<Arc<Profile>, Failure> {
        let profile = machine(&self.scenario_machine)?;
        if profile.page != 4096 {
            return Err(Failure(format!(
                "machine `{}`: programs need pages of 4096 bytes",
                self.scenario_machine
            )));
        }
        Ok(profile)
    }
}

/// Cycles of the SheevaPlug story.
pub fn cycles(profile: &Arc<Profile>, policy: &Policy) -> Result<u64, Failure> {
    let options = sheevaplug::Options::default();
    let row = sheevaplug::tell(profile, policy.clone(), &options).map_err(Failure)?;
    Ok(row.cycles.values().sum())
}
