//! Files: a disk, an FFS-like file system, the buffer cache, clustered I/O and the vnode pager.
//!
//! The state is [`Vfs`], a plain value; the verbs are [`VfsVerbs`], generic over [`VfsCtx`].

mod bio;
pub mod buf;
mod cluster;
pub mod ctx;
pub mod disk;
mod ffs;
pub mod fs;
mod namei;
mod pager;
pub mod pbuf;
mod sync;
pub mod types;
pub mod verbs;
pub mod vfs;
mod vmio;
pub use buf::{Buf, BufQueue, Bufs};
pub use ctx::VfsCtx;
pub use disk::{Disk, IoOwner, Request};
pub use fs::{DEVICE, Inode, ROOT};
pub use types::{
    BufFlags, BufId, DiskKind, DiskMode, ExecPage, Intent, IoFlags, KvaWindow, PbufId, ReadAhead,
    Sequential, VfsConfig,
};
pub use verbs::VfsVerbs;
pub use vfs::{Vfs, VnodeAttr};
