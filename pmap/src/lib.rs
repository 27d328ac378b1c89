//! The physical map: page tables, pv lists, and the machine-independent verbs that a VM calls.
//!
//! A verb's order of bookkeeping, hooks and table stores is its skeleton's; what is cleaned,
//! invalidated or made uncached at a hook is the policy's rule's; how a cache operation becomes line
//! operations is the CPU routine's. `pmap` knows no files, no processes and no oracle.

mod ask;
pub mod count;
pub mod ctx;
pub mod edit;
pub mod hook;
#[cfg(test)]
mod laws;
pub mod layout;
mod lock;
pub mod plan;
pub mod policy;
mod pv;
pub mod routine;
pub mod rule;
pub mod skeleton;
mod state;
mod table;
pub mod types;
pub mod verbs;

pub use ctx::PmapCtx;
pub use layout::Layout;
pub use policy::{Policy, Status};
pub use state::{CpuState, MdPage, Pmap, PvEntry, Space};
pub use types::{KernelRange, Prot, PvFlags, SpaceId};
pub use verbs::{BufferEvent, DmaMap, DmaOp, KernelUse, PmapVerbs};
