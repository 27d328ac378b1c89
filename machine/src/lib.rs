//! Hardware only: processors, caches that hold real bytes and are not kept coherent, write buffers,
//! TLBs that hold copies of page-table entries, the table walk, DMA, memory and a cost table.
//!
//! Nothing here knows an operating system, a policy or an oracle.

pub mod cpu;
pub mod types;

pub use types::*;
