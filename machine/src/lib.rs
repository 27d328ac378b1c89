//! Hardware only: processors, caches that hold real bytes and are not kept coherent, write buffers,
//! TLBs that hold copies of page-table entries, the table walk, DMA, memory and a cost table.
//!
//! Nothing here knows an operating system, a policy or an oracle.

mod apply;
mod bus;
pub mod cache;
pub mod cost;
pub mod cpu;
mod fast;
mod guest;
mod hw;
mod machine;
mod memo;
pub mod memory;
pub mod mmu;
pub mod observer;
mod path;
mod place;
pub mod profile;
pub mod step;
pub mod tlb;
mod translate;
pub mod types;
pub mod write_buffer;

pub use cost::{Class, Costs};
pub use cpu::Exit;
pub use hw::Hw;
pub use machine::{Cpu, FetchBuffer, Machine};
pub use mmu::{Ap, L1Descriptor, Pte};
pub use observer::{Mark, Observer, Place, Seen, Unit};
pub use profile::Profile;
pub use step::{LineOp, Step};
pub use types::*;
