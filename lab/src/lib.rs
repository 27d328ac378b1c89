//! The laboratory: worlds, the oracle, operations and cases, scenarios and reports.

pub mod case;
pub mod command;
pub mod fuzz;
pub mod guests;
pub mod inject;
pub mod journal;
pub mod op;
pub mod oracle;
pub mod process;
pub mod scenario;
pub mod system;
pub mod world;

pub use world::{State, World};
