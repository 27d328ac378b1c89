//! Exhaustive search: every sequence of operations and every choice of the hardware on a tiny machine.
//!
//! "Safe" here means: in every reachable state of this bounded world. The code searched is the code that
//! everything else runs; there is no second model. Files: [`engine`] searches anything, [`scope`] says what
//! is tried and what makes it legal, [`codec`] makes states canonical, [`model`] runs them, [`witness`]
//! turns a finding into a case.

pub mod checkpoint;
pub mod codec;
pub mod engine;
pub mod facts;
pub mod model;
pub mod scope;
pub mod store;
pub mod witness;

pub use codec::Symmetry;
pub use engine::{Ended, Finding, Limits, Model, Outcome, Search};
pub use model::WorldModel;
pub use scope::Scope;
pub use store::Fingerprints;
