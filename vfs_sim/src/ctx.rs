//! The file layer's context.

use vm::VmCtx;

use crate::vfs::Vfs;

/// A world with files.
pub trait VfsCtx: VmCtx {
    /// The file layer's state.
    fn vfs(&self) -> &Vfs;
    /// The file layer's state, to change.
    fn vfs_mut(&mut self) -> &mut Vfs;
}
