//! The physical map: page tables, pv lists, and the machine-independent verbs that a VM calls.
//!
//! A verb's order of bookkeeping, hooks and table stores is its skeleton's; what is cleaned,
//! invalidated or made uncached at a hook is the policy's rule's; how a cache operation becomes line
//! operations is the CPU routine's. `pmap` knows no files, no processes and no oracle.

/// Stand-ins until the modules land.
pub struct Pmap;
/// Plans.
pub mod plan {
    /// A step of a plan.
    pub struct PlanStep;
}
/// Policies.
pub mod policy {
    /// A policy.
    pub struct Policy;
}
pub mod ctx;
pub mod types;
pub mod verbs;
pub use ctx::PmapCtx;
pub use types::{KernelRange, Prot, PvFlags, SpaceId};
pub use verbs::{BufferEvent, DmaOp, KernelUse, PmapVerbs};
