//! The laboratory: worlds, the oracle, operations and cases, scenarios and reports.

pub mod adversary;
pub mod amend;
pub mod case;
pub mod command;
pub mod decide;
pub mod explore;
pub mod fuzz;
pub mod guests;
pub mod inject;
pub mod journal;
pub mod mutate;
pub mod op;
pub mod oracle;
pub mod parallel;
pub mod process;
pub mod record;
pub mod scenario;
pub mod shrink;
pub mod system;
pub mod trace;
pub mod tree;
pub mod world;

pub use world::{State, World};
