//! Nested injection: at a chosen micro-step of one CPU's operation, another CPU's operation runs to its
//! end on the same world, then the first goes on.
//!
//! This reaches A1 B A2, and with an injection set by the injected operation A1 B1 C B2 A2; it does not
//! reach A1 B1 A2 B2. If the operation needs a lock that the interrupted one holds, the point is
//! infeasible: the world is put back as it was before the operation.

use std::sync::Arc;

use machine::{CpuId, Observer};

use crate::world::World;

/// What is injected.
pub type Operation<O> = Arc<dyn Fn(&mut World<O>) + Send + Sync>;

/// An operation for another CPU, due at a step.
#[derive(Clone)]
pub struct Injection<O> {
    /// Micro-steps still to pass.
    pub steps_left: u64,
    /// What runs.
    pub operation: Operation<O>,
    /// Set when it had run.
    pub ran: bool,
    /// Set if it could not run there, and why.
    pub infeasible: Option<&'static str>,
}

impl<O> std::fmt::Debug for Injection<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "injection in {} steps", self.steps_left)
    }
}

impl<O: Observer + Clone> Injection<O> {
    /// An operation due before the micro-step number `at`, counted from 0.
    pub fn at(at: u64, operation: impl Fn(&mut World<O>) + Send + Sync + 'static) -> Self {
        Self {
            steps_left: at,
            operation: Arc::new(operation),
            ran: false,
            infeasible: None,
        }
    }

    /// Counts a micro-step; runs the operation if it is due.
    pub(crate) fn knock(world: &mut World<O>, _cpu: CpuId) {
        let Some(injection) = &mut world.injection else {
            return;
        };
        if injection.ran {
            return;
        }
        if injection.steps_left > 0 {
            injection.steps_left -= 1;
            return;
        }
        injection.ran = true;
        let operation = injection.operation.clone();
        let mut outer = world.injection.take();
        let before = (world.state.clone(), world.observer.clone());
        operation(world);
        if let Some(why) = world.infeasible.take() {
            (world.state, world.observer) = before;
            if let Some(outer) = &mut outer {
                outer.infeasible = Some(why);
            }
        }
        world.injection = outer;
    }
}
