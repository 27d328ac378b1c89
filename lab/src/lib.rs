//! The laboratory: worlds, the oracle, operations and cases, scenarios and reports.

pub mod inject;
pub mod journal;
pub mod oracle;
pub mod world;

pub use world::{State, World};
