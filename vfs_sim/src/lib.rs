//! Files: a disk, an FFS-like file system, the buffer cache, clustered I/O and the vnode pager.
//!
//! The state is [`Vfs`], a plain value; the verbs are [`VfsVerbs`], generic over [`VfsCtx`].

pub mod ctx;
pub mod types;
pub mod verbs;
pub mod vfs;
pub use ctx::VfsCtx;
pub use types::{
    BufFlags, BufId, DiskKind, DiskMode, ExecPage, Intent, IoFlags, KvaWindow, PbufId, ReadAhead,
    Sequential, VfsConfig,
};
pub use verbs::VfsVerbs;
pub use vfs::{Vfs, VnodeAttr};
