//! Virtual memory: pages, objects, maps, faults, copy-on-write, copies to and from user memory.
//!
//! The state is [`Vm`], a plain value; the verbs are [`VmVerbs`], generic over [`VmCtx`]. `vm` knows
//! pages by frame and files only through its [`Pager`]; it knows no cache, no policy and no process.

mod copy;
pub mod ctx;
mod fault;
pub mod map;
mod mmap;
pub mod object;
pub mod page;
mod pageout;
pub mod types;
pub mod uio;
pub mod verbs;
pub mod vm;
mod vmspace;
pub use ctx::{Pager, VmCtx};
pub use map::{Entry, Vmspace};
pub use object::Object;
pub use page::{Page, Queue, VALID_ALL};
pub use types::{
    Backing, Channel, Errno, FreeOrder, KResult, MapFlags, MmapArgs, ObjectId, Stop, VmConfig,
    VmspaceId, VnodeId,
};
pub use uio::{Uio, UioDirection, UioSegment};
pub use verbs::VmVerbs;
pub use vm::{Vm, operation};
