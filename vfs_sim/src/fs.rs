//! The file system's own tables: inodes, names, blocks.
//!
//! Source: FreeBSD `ufs/ffs` in outline: inodes in blocks of their own at the disk's start, files of
//! whole blocks of which the last may be shorter in the cache (`blksize`). The tables here are the
//! truth; what is written to the inode blocks gives their traffic its place. Absent: directories as
//! files, indirect blocks, fragments shared by files, cylinder groups, links.

use machine::memory::{hash_bytes, mix};
use vm::{Errno, KResult, ObjectId, VnodeId};

use crate::types::VfsConfig;

/// A hole in a file.
pub(crate) const HOLE: u32 = u32::MAX;

/// The disk itself as a vnode; its buffers hold the inode blocks.
pub const DEVICE: VnodeId = VnodeId(0);

/// The root directory.
pub const ROOT: VnodeId = VnodeId(1);

/// Bytes of an inode on the disk (half a UFS2 one).
const INODE_BYTES: u64 = 128;

const PATH_MAX: usize = 1024;
const NAME_MAX: usize = 255;

/// A file or directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Whether the record is in use.
    pub live: bool,
    /// A directory.
    pub directory: bool,
    /// Bytes.
    pub size: u32,
    /// Permission bits.
    pub mode: u16,
    /// Names.
    pub links: u32,
    /// Openers.
    pub users: u32,
    /// Its pages' object, from the first use on.
    pub object: Option<ObjectId>,
    /// The inode differs from the disk.
    pub modified: bool,
    pub(crate) blocks: Vec<u32>,
    pub(crate) cluster: ClusterState,
}

/// What cluster_write remembers of a file (v_cstart, v_lasta, v_lastw, v_clen).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ClusterState {
    pub start: u32,
    pub last_address: u32,
    pub last_written: u32,
    pub len: u32,
}

impl Inode {
    const FREE: Inode = Inode {
        live: false,
        directory: false,
        size: 0,
        mode: 0o755,
        links: 0,
        users: 0,
        object: None,
        modified: false,
        blocks: Vec::new(),
        cluster: ClusterState {
            start: 0,
            last_address: 0,
            last_written: 0,
            len: 0,
        },
    };

    fn hash(&self, mut h: u64) -> u64 {
        let flags = [self.live, self.directory, self.modified].map(u64::from);
        h = mix(
            h,
            flags[0] | flags[1] << 1 | flags[2] << 2 | u64::from(self.mode) << 8,
        );
        h = mix(
            h,
            u64::from(self.size) << 32 | u64::from(self.object.map_or(HOLE, |o| o.0)),
        );
        h = mix(h, u64::from(self.links) << 32 | u64::from(self.users));
        let c = &self.cluster;
        h = mix(h, u64::from(c.start) << 32 | u64::from(c.len));
        h = mix(
            h,
            u64::from(c.last_address) << 32 | u64::from(c.last_written),
        );
        self.blocks.iter().fold(h, |h, b| mix(h, u64::from(*b)))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Name {
    path: String,
    vnode: VnodeId,
}

/// The file system's tables.
#[derive(Clone, Debug)]
pub struct Fs {
    block: u32,
    fragment: u32,
    gap: u32,
    files_max: u32,
    file_bytes_max: u32,
    blocks: u32,
    inode_bytes: u32,
    inodes: Vec<Inode>,
    names: Vec<Name>,
    used: Vec<u64>,
    used_count: u32,
    next: u32,
}

/// A path without doubled or trailing slashes, `.` or `..`; the root is `/`.
fn normal(path: &str) -> KResult<String> {
    if !path.starts_with('/') {
        return Err(Errno::ENOENT.into());
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    if path.len() > PATH_MAX || parts.iter().any(|p| p.len() > NAME_MAX) {
        return Err(Errno::ENAMETOOLONG.into());
    }
    Ok(format!("/{}", parts.join("/")))
}

/// The directory of a normal path.
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(n) => &path[..n],
    }
}

impl Fs {
    pub(crate) fn new(config: &VfsConfig) -> Self {
        let block = config.block_bytes;
        let inode_bytes = block.min(INODE_BYTES as u32);
        let device = Inode {
            live: true,
            links: 1,
            size: (u64::from(config.disk_blocks) * u64::from(block)).min(1 << 31) as u32,
            ..Inode::FREE
        };
        let root = Inode {
            live: true,
            directory: true,
            links: 2,
            ..Inode::FREE
        };
        let mut fs = Self {
            block,
            fragment: config.fragment_bytes,
            gap: config.block_gap,
            files_max: config.files_max,
            file_bytes_max: config.file_bytes_max,
            blocks: config.disk_blocks,
            inode_bytes,
            inodes: vec![device, root],
            names: vec![Name {
                path: "/".to_owned(),
                vnode: ROOT,
            }],
            used: vec![0; config.disk_blocks.div_ceil(64) as usize],
            used_count: 0,
            next: 0,
        };
        let reserved = Self::reserved_blocks(config);
        (0..reserved.min(fs.blocks)).for_each(|b| fs.set_used(b, true));
        fs.next = reserved;
        fs
    }

    /// Blocks at the disk's start that no file gets: the superblock's and those of the inodes.
    pub(crate) fn reserved_blocks(config: &VfsConfig) -> u32 {
        let block = u64::from(config.block_bytes.max(1));
        let bytes = (u64::from(config.files_max) + 2) * block.min(INODE_BYTES);
        1 + bytes.div_ceil(block) as u32
    }

    /// An inode.
    pub fn inode(&self, vnode: VnodeId) -> &Inode {
        &self.inodes[vnode.0 as usize]
    }

    pub(crate) fn inode_mut(&mut self, vnode: VnodeId) -> &mut Inode {
        &mut self.inodes[vnode.0 as usize]
    }

    /// Whether the number names a file.
    pub(crate) fn exists(&self, vnode: VnodeId) -> bool {
        self.inodes.get(vnode.0 as usize).is_some_and(|i| i.live)
    }

    /// Every file but the disk.
    pub(crate) fn files(&self) -> impl Iterator<Item = VnodeId> + '_ {
        (1..self.inodes.len() as u32)
            .map(VnodeId)
            .filter(|v| self.exists(*v))
    }

    /// The file whose object this is.
    pub(crate) fn by_object(&self, object: ObjectId) -> Option<VnodeId> {
        let n = self
            .inodes
            .iter()
            .position(|i| i.live && i.object == Some(object))?;
        Some(VnodeId(n as u32))
    }

    /// The vnode of a path.
    pub(crate) fn lookup(&self, path: &str) -> KResult<VnodeId> {
        let path = normal(path)?;
        match self.find(&path) {
            Ok(n) => Ok(self.names[n].vnode),
            Err(_) => self.missing(&path),
        }
    }

    /// `ENOTDIR` if a file stands in the way, else `ENOENT`.
    fn missing<T>(&self, path: &str) -> KResult<T> {
        let mut up = parent(path);
        loop {
            if let Ok(n) = self.find(up) {
                let directory = self.inode(self.names[n].vnode).directory;
                return Err(match directory {
                    true => Errno::ENOENT.into(),
                    false => Errno::ENOTDIR.into(),
                });
            }
            up = parent(up);
        }
    }

    fn find(&self, path: &str) -> Result<usize, usize> {
        self.names.binary_search_by(|n| n.path.as_str().cmp(path))
    }

    /// Names in a directory.
    pub(crate) fn readdir(&self, directory: VnodeId) -> KResult<Vec<String>> {
        let path = self.names.iter().find(|n| n.vnode == directory);
        let path = path.filter(|_| self.inode(directory).directory);
        let path = &path.ok_or(Errno::ENOTDIR)?.path;
        let inside = self
            .names
            .iter()
            .filter(|n| n.path != "/" && parent(&n.path) == path);
        Ok(inside
            .filter_map(|n| n.path.rsplit('/').next())
            .map(str::to_owned)
            .collect())
    }

    /// Whether a new name may be made, and where.
    fn place(&self, path: &str) -> KResult<(String, usize)> {
        let path = normal(path)?;
        let Err(at) = self.find(&path) else {
            return Err(Errno::EEXIST.into());
        };
        let Ok(up) = self.find(parent(&path)) else {
            return self.missing(&path);
        };
        if !self.inode(self.names[up].vnode).directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok((path, at))
    }

    /// Where a new file's inode would be.
    pub(crate) fn new_vnode(&self, path: &str) -> KResult<VnodeId> {
        self.place(path)?;
        let free = self.inodes.iter().position(|i| !i.live);
        let n = free.unwrap_or(self.inodes.len()) as u32;
        match n < self.files_max + 2 {
            true => Ok(VnodeId(n)),
            false => Err(Errno::ENOSPC.into()),
        }
    }

    /// Makes a name and an empty inode.
    pub(crate) fn create(&mut self, path: &str, directory: bool) -> KResult<VnodeId> {
        let vnode = self.new_vnode(path)?;
        let (path, at) = self.place(path)?;
        let new = Inode {
            live: true,
            directory,
            links: 1,
            ..Inode::FREE
        };
        match self.inodes.get_mut(vnode.0 as usize) {
            Some(slot) => *slot = new,
            None => self.inodes.push(new),
        }
        self.names.insert(at, Name { path, vnode });
        Ok(vnode)
    }

    /// Which file a path that may be unlinked names.
    pub(crate) fn unlinkable(&self, path: &str) -> KResult<VnodeId> {
        let vnode = self.lookup(path)?;
        if !self.inode(vnode).directory {
            return Ok(vnode);
        }
        match self.readdir(vnode)?.is_empty() && vnode != ROOT {
            true => Err(Errno::EISDIR.into()),
            false => Err(Errno::ENOTEMPTY.into()),
        }
    }

    /// Takes a name away; the inode stays until [`Fs::free`].
    pub(crate) fn unlink(&mut self, path: &str) -> KResult<VnodeId> {
        let vnode = self.unlinkable(path)?;
        let path = normal(path)?;
        if let Ok(n) = self.find(&path) {
            self.names.remove(n);
        }
        let inode = self.inode_mut(vnode);
        inode.links = inode.links.saturating_sub(1);
        Ok(vnode)
    }

    /// Frees an inode whose blocks are gone.
    pub(crate) fn free(&mut self, vnode: VnodeId) {
        *self.inode_mut(vnode) = Inode::FREE;
    }

    /// The inode's block on the device, and its byte there.
    pub(crate) fn inode_place(&self, vnode: VnodeId) -> (u32, u32) {
        let at = vnode.0 * self.inode_bytes;
        (1 + at / self.block, at % self.block)
    }

    /// Bytes that a block has in the cache: a whole block, or for a file's last one as many
    /// fragments as it needs (blksize).
    pub(crate) fn blksize(&self, vnode: VnodeId, block: u32) -> u32 {
        let inode = self.inode(vnode);
        let start = u64::from(block) * u64::from(self.block);
        let left = u64::from(inode.size).saturating_sub(start);
        match left >= u64::from(self.block) || vnode == DEVICE {
            true => self.block,
            false => self.fragments(left as u32),
        }
    }

    /// `bytes` in whole fragments, at least one.
    pub(crate) fn fragments(&self, bytes: u32) -> u32 {
        bytes.max(1).next_multiple_of(self.fragment).min(self.block)
    }

    /// The disk block of a file's block (VOP_BMAP).
    pub(crate) fn bmap(&self, vnode: VnodeId, block: u32) -> Option<u32> {
        if vnode == DEVICE {
            return (block < self.blocks).then_some(block);
        }
        let at = self.inode(vnode).blocks.get(block as usize).copied();
        at.filter(|b| *b != HOLE)
    }

    /// How many blocks after this one, and before it, follow on the disk.
    pub(crate) fn contiguous(&self, vnode: VnodeId, block: u32) -> (u32, u32) {
        let Some(at) = self.bmap(vnode, block) else {
            return (0, 0);
        };
        let after = (1..).take_while(|n| self.bmap(vnode, block + n) == Some(at + n));
        let before =
            (1..=block.min(at)).take_while(|n| self.bmap(vnode, block - n) == Some(at - n));
        (after.count() as u32, before.count() as u32)
    }

    /// Whether a file may have this size.
    pub(crate) fn check_size(&self, size: u64) -> KResult<()> {
        match size <= u64::from(self.file_bytes_max) {
            true => Ok(()),
            false => Err(Errno::EFBIG.into()),
        }
    }

    /// Gives a file's block a disk block, next to the one before it if that is free.
    pub(crate) fn allocate(&mut self, vnode: VnodeId, block: u32) -> KResult<u32> {
        let before = block.checked_sub(1).and_then(|b| self.bmap(vnode, b));
        let from = before.map_or(self.next, |b| b + 1 + self.gap);
        let Some(found) = self.free_block(from) else {
            return Err(Errno::ENOSPC.into());
        };
        self.set_used(found, true);
        self.next = found + 1;
        let blocks = &mut self.inode_mut(vnode).blocks;
        if blocks.len() <= block as usize {
            blocks.resize(block as usize + 1, HOLE);
        }
        blocks[block as usize] = found;
        Ok(found)
    }

    fn free_block(&self, from: u32) -> Option<u32> {
        let from = from % self.blocks.max(1);
        let free = |b: &u32| self.used[*b as usize / 64] & 1 << (b % 64) == 0;
        (from..self.blocks).chain(0..from).find(free)
    }

    fn set_used(&mut self, block: u32, on: bool) {
        let bit = 1 << (block % 64);
        let word = &mut self.used[block as usize / 64];
        match on {
            true => {
                *word |= bit;
                self.used_count += 1;
            }
            false => {
                *word &= !bit;
                self.used_count -= 1;
            }
        }
    }

    /// Frees the blocks of a file from `block` on.
    pub(crate) fn free_blocks(&mut self, vnode: VnodeId, block: u32) {
        let blocks = &mut self.inode_mut(vnode).blocks;
        let cut = blocks.split_off((block as usize).min(blocks.len()));
        cut.into_iter()
            .filter(|b| *b != HOLE)
            .for_each(|b| self.set_used(b, false));
    }

    pub(crate) fn fingerprint(&self, h: u64) -> u64 {
        let h = self.inodes.iter().fold(h, |h, i| i.hash(h));
        let h = self.names.iter().fold(h, |h, n| {
            mix(
                mix(h, u64::from(n.vnode.0)),
                hash_bytes(0, n.path.as_bytes()),
            )
        });
        let h = self.used.iter().fold(h, |h, w| mix(h, *w));
        mix(h, u64::from(self.next))
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let mut seen = vec![false; self.blocks as usize];
        for vnode in self.files() {
            for block in self.inode(vnode).blocks.iter().filter(|b| **b != HOLE) {
                if std::mem::replace(&mut seen[*block as usize], true) {
                    return Err(format!(
                        "block {block} belongs to {vnode:?} and another file"
                    ));
                }
                if self.used[*block as usize / 64] & 1 << (block % 64) == 0 {
                    return Err(format!("block {block} of {vnode:?} is free"));
                }
            }
        }
        match self.names.is_sorted_by(|a, b| a.path < b.path) {
            true => Ok(()),
            false => Err("names are out of order".to_owned()),
        }
    }
}
