//! Exhaustive searches that judge a mutant: small scopes that together hold every verb.
//!
//! A mutant is needless if all of them close without a finding, and what it changes is done in one of them at
//! least. What scopes leave out ([`crate::explore::LEFT_OUT`]) they do not decide:
//! steps for the second level and for the ends of a range, which these machines do not have, are not asked about.

use machine::Profile;
use pmap::Policy;
use pmap::edit::{Edit, PlanEdit, SkeletonEdit};
use pmap::skeleton::Part;

use crate::amend::{Asked, Ground, Judgement};
use crate::explore::Scope;
use crate::op::Op;

const MACHINES: [&str; 2] = ["tiny-line", "tiny-line-ra"];
/// States of the largest search.
const STATES: u64 = 1_000_000;

/// What searches say.
pub enum Proof {
    /// A shortest sequence to a finding.
    Unsafe {
        /// On which machine.
        machine: &'static str,
        /// Operations.
        ops: Vec<Op>,
    },
    /// All closed, none found anything, and the step was there.
    Needless,
    /// The step is in no scope, or a search did not end.
    Unknown,
}

/// A machine with a scope, and what the base policy does there.
pub struct Place {
    machine: &'static str,
    ground: Ground,
    asked: Asked,
    /// States, if its search closes without a finding.
    states: Option<u64>,
}

/// Two processes without a buffer; one with a buffer and the page daemon; one whose pages are zeroed and copied;
/// one with two addresses and the page daemon.
fn scopes() -> [Scope; 4] {
    let scope = |name| Scope::by_name(name).expect("a scope of ours");
    let daemon = Scope {
        paging: true,
        ..scope("small")
    };
    let windows = Scope {
        buffer: false,
        dma: false,
        windows: true,
        ..scope("small")
    };
    let alias = Scope {
        buffer: false,
        dma: false,
        paging: true,
        ..scope("alias")
    };
    [scope("user"), windows, alias, daemon]
}

/// Where mutants of a base are judged.
pub fn places(base: &Policy) -> Vec<Place> {
    let place = |machine: &'static str, scope| {
        let ground = Ground {
            profile: Profile::embedded(machine).expect("a machine of ours"),
            scope,
            threads: 1,
            states: STATES,
        };
        let judged = ground.judge(base);
        tracing::info!(machine, scope = ground.scope.name, ?judged, "searched");
        let states = match judged {
            Ok(Judgement::Safe { states }) => Some(states),
            _ => None,
        };
        Place {
            machine,
            asked: ground.asked(base).unwrap_or_default(),
            ground,
            states,
        }
    };
    let of = |machine| scopes().map(|scope| place(machine, scope));
    MACHINES.into_iter().flat_map(of).collect()
}

/// Searches under a base with an edit, which may depend on the bytes of a line.
pub fn search(base: &Policy, places: &[Place], edit: impl Fn(u32) -> Edit) -> Proof {
    let mut there = false;
    for place in places.iter().filter(|place| place.states.is_some()) {
        let edit = edit(place.ground.profile.dcache.line);
        let mutant = base.clone().edited(edit);
        // A mutant may make the pmap panic.
        let judged = std::panic::catch_unwind(|| place.ground.judge(&mutant));
        match judged.unwrap_or_else(|_| Err("a panic".to_owned())) {
            Ok(Judgement::Unsafe(found)) => {
                return Proof::Unsafe {
                    machine: place.machine,
                    ops: found.ops,
                };
            }
            Ok(Judgement::Safe { states }) => {
                there |= place.reaches(&edit) || place.states != Some(states);
            }
            _ => return Proof::Unknown,
        }
    }
    match there {
        true => Proof::Needless,
        false => Proof::Unknown,
    }
}

impl Place {
    /// Whether what an edit changes is done here: a step is planned, a skeleton's part does something.
    fn reaches(&self, edit: &Edit) -> bool {
        match edit {
            Edit::Plan(PlanEdit { at, change }) => {
                let step = change.which().and_then(|which| which.name);
                let here = self.asked.get(&at.to_string());
                here.is_some_and(|(_, steps)| step.is_none_or(|step| steps.contains_key(step)))
            }
            Edit::Skeleton(SkeletonEdit { change, .. }) => {
                let of_tables = |part: &Part| matches!(part, Part::Sync | Part::FixSlot);
                !change.parts().iter().any(of_tables)
            }
            _ => false,
        }
    }
}
