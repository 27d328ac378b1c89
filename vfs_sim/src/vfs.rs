//! State of the file layer. (Skeleton.)

use vm::{KResult, ObjectId, VnodeId};

use crate::types::VfsConfig;

/// What stat tells of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VnodeAttr {
    /// Bytes.
    pub size: u32,
    /// Whether it is a directory.
    pub directory: bool,
    /// Permission bits.
    pub mode: u16,
    /// Names and openers keep it.
    pub links: u32,
}

/// All of the file layer's state.
#[derive(Clone, Debug)]
pub struct Vfs {
    /// What it was made with; modes may be switched later.
    pub config: VfsConfig,
}

impl Vfs {
    /// An empty file system with a root directory.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(_config: VfsConfig) -> Result<Self, String> {
        todo!()
    }

    /// Creates a file on the disk at boot, parents included, mode 0755.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, `EFBIG`, `ENAMETOOLONG`, `ENOTDIR`.
    pub fn fs_add_file(&mut self, _path: &str, _bytes: &[u8]) -> KResult<VnodeId> {
        todo!()
    }

    /// Finds a path (absolute; `.` and `..` are resolved by name).
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn lookup(&self, _path: &str) -> KResult<VnodeId> {
        todo!()
    }

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn readdir(&self, _directory: VnodeId) -> KResult<Vec<String>> {
        todo!()
    }

    /// A file's attributes.
    pub fn attr(&self, _vnode: VnodeId) -> VnodeAttr {
        todo!()
    }

    /// A file's bytes as the disk has them, for tests and reports.
    pub fn on_disk(&self, _vnode: VnodeId) -> Vec<u8> {
        todo!()
    }

    /// A file's object, if it was ever opened.
    pub fn object(&self, _vnode: VnodeId) -> Option<ObjectId> {
        todo!()
    }

    /// A hash of everything that decides future behaviour.
    pub fn fingerprint(&self) -> u64 {
        todo!()
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        todo!()
    }
}
