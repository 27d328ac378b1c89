//! State of the file layer, and what can be asked of it without side effects.
//!
//! A value: equal inputs give equal states, and a clone goes its own way. The disk's image is shared
//! by block between clones.

use machine::Profile;
use machine::memory::mix;
use pmap::Layout;
use vm::{Errno, KResult, ObjectId, VnodeId};

use crate::buf::Bufs;
use crate::disk::Disk;
use crate::fs::{Fs, Inode};
use crate::pbuf::{self, Pbuf, PbufUse};
use crate::types::{DiskKind, DiskMode, KvaWindow, ReadAhead, VfsConfig};

/// What stat tells of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VnodeAttr {
    /// Bytes.
    pub size: u32,
    /// Whether it is a directory.
    pub directory: bool,
    /// Permission bits.
    pub mode: u16,
    /// Names.
    pub links: u32,
}

/// All of the file layer's state.
#[derive(Clone, Debug)]
pub struct Vfs {
    /// What it was made with. Modes may be switched later, sizes and windows may not.
    pub config: VfsConfig,
    /// The disk.
    pub disk: Disk,
    /// Buffers.
    pub bufs: Bufs,
    pub(crate) fs: Fs,
    pub(crate) pbufs: Vec<Pbuf>,
    pub(crate) sf_used: Vec<bool>,
    pub(crate) bogus: Option<machine::Frame>,
}

impl VfsConfig {
    /// FreeBSD's sizes for a machine with the pmap's windows. With small pages a block is two pages.
    pub fn new(profile: &Profile, layout: &Layout) -> Self {
        let page = profile.page;
        let window = |(start, bytes)| KvaWindow { start, bytes };
        let large = page == 4096;
        let block_bytes = if large { 16384 } else { 2 * page };
        let pbuf_bytes = if large { 131_072 } else { 2 * page };
        let units = layout.buffer_map.1 / block_bytes;
        Self {
            page_bytes: page,
            block_bytes,
            fragment_bytes: if large { 2048 } else { page },
            disk_blocks: if large { 16384 } else { 64 },
            files_max: if large { 1024 } else { 16 },
            file_bytes_max: if large { 64 << 20 } else { 16 * page },
            block_gap: 0,
            nbuf: Self::nbuf(profile.memory).min(units).max(1),
            buffer_kva_bytes: block_bytes,
            buffer_map: window(layout.buffer_map),
            pager_map: window(layout.pager_map),
            pbuf_bytes,
            sf_map: window(layout.sf_map),
            disk_mode: DiskMode::Immediate,
            disk_kind: DiskKind::Dma,
            read_ahead: ReadAhead::Off,
            pagein_pages: 16,
            soft_updates: false,
        }
    }

    /// The largest block or buffer that this machine's tables allow is not exceeded.
    fn check(&self) -> Result<(), String> {
        let page = self.page_bytes;
        let pages = |bytes: u32, max: u32| {
            page > 0 && bytes > 0 && bytes.is_multiple_of(page) && bytes / page <= max
        };
        let rules = [
            (
                page >= 8 && page.is_power_of_two(),
                "page_bytes: expected a power of two, 8 or more",
            ),
            (
                pages(self.block_bytes, 16),
                "block_bytes: expected 1 to 16 pages",
            ),
            (
                pages(self.pbuf_bytes, 32),
                "pbuf_bytes: expected 1 to 32 pages",
            ),
            (
                self.fragment_bytes > 0
                    && self.block_bytes.is_multiple_of(self.fragment_bytes)
                    && self.fragment_bytes.is_multiple_of((page / 8).max(1)),
                "fragment_bytes: expected a divisor of block_bytes, in eighths of a page",
            ),
            (
                self.buffer_kva_bytes >= page && self.buffer_kva_bytes.is_multiple_of(page),
                "buffer_kva_bytes: expected whole pages",
            ),
            (
                self.nbuf >= 1 && self.nbuf <= 65536,
                "nbuf: expected 1 to 65536",
            ),
            (self.files_max <= 65536, "files_max: expected at most 65536"),
            (
                self.disk_blocks >= 4 && self.disk_blocks <= 1 << 20,
                "disk_blocks: expected 4 to 1048576",
            ),
            (
                Fs::reserved_blocks(self) < self.disk_blocks,
                "files_max: expected inodes that leave room on the disk",
            ),
            (
                self.file_bytes_max <= 1 << 30,
                "file_bytes_max: expected at most 1 GB",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err((*what).to_owned()),
            None => Ok(()),
        }
    }
}

impl Vfs {
    /// An empty file system with a root directory.
    ///
    /// # Errors
    /// What is wrong with the configuration: the field and what was expected.
    pub fn new(config: VfsConfig) -> Result<Self, String> {
        config.check()?;
        let sf = config.sf_map.bytes / config.page_bytes;
        Ok(Self {
            disk: Disk::new(config.block_bytes, config.disk_blocks),
            bufs: Bufs::new(&config),
            fs: Fs::new(&config),
            pbufs: pbuf::all(&config),
            sf_used: vec![false; sf.min(256) as usize],
            bogus: None,
            config,
        })
    }

    /// Creates a file on the disk at boot, parents included, mode 0755.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, `EFBIG`, `ENAMETOOLONG`, `ENOTDIR`.
    pub fn fs_add_file(&mut self, path: &str, bytes: &[u8]) -> KResult<VnodeId> {
        self.fs.check_size(bytes.len() as u64)?;
        self.add_parents(path)?;
        let vnode = self.fs.create(path, false)?;
        let size = self.config.block_bytes as usize;
        for (block, part) in (0..).zip(bytes.chunks(size)) {
            let at = match self.fs.allocate(vnode, block) {
                Ok(at) => at,
                Err(stop) => {
                    self.fs.free_blocks(vnode, 0);
                    let _ = self.fs.unlink(path);
                    self.fs.free(vnode);
                    return Err(stop);
                }
            };
            self.disk.write(u64::from(at) * size as u64, part);
        }
        self.fs.inode_mut(vnode).size = bytes.len() as u32;
        Ok(vnode)
    }

    /// Creates a directory on the disk at boot, parents included; one that is there stays.
    ///
    /// # Errors
    /// `ENOSPC`, `ENAMETOOLONG`, `ENOTDIR`.
    pub fn fs_add_directory(&mut self, path: &str) -> KResult<()> {
        self.add_parents(path)?;
        if self.fs.lookup(path).is_err() {
            self.fs.create(path, true)?;
        }
        Ok(())
    }

    fn add_parents(&mut self, path: &str) -> KResult<()> {
        let slashes = path.match_indices('/').map(|(n, _)| n);
        for end in slashes.filter(|n| *n > 0) {
            if self.fs.lookup(&path[..end]).is_err() {
                self.fs.create(&path[..end], true)?;
            }
        }
        Ok(())
    }

    /// Finds a path (absolute; `.` and `..` are resolved by name).
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn lookup(&self, path: &str) -> KResult<VnodeId> {
        self.fs.lookup(path)
    }

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn readdir(&self, directory: VnodeId) -> KResult<Vec<String>> {
        self.fs.readdir(directory)
    }

    /// A file's attributes.
    pub fn attr(&self, vnode: VnodeId) -> VnodeAttr {
        let inode = self.fs.inode(vnode);
        VnodeAttr {
            size: inode.size,
            directory: inode.directory,
            mode: inode.mode,
            links: inode.links,
        }
    }

    /// A file's record.
    pub fn inode(&self, vnode: VnodeId) -> &Inode {
        self.fs.inode(vnode)
    }

    /// The file whose object this is.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn vnode_of(&self, object: ObjectId) -> KResult<VnodeId> {
        self.fs
            .by_object(object)
            .ok_or_else(|| Errno::ENOENT.into())
    }

    /// A file's bytes as the disk has them, for tests and reports.
    pub fn on_disk(&self, vnode: VnodeId) -> Vec<u8> {
        let size = self.fs.inode(vnode).size as usize;
        let mut out = vec![0; size];
        let block_bytes = self.config.block_bytes as usize;
        for (block, part) in (0..).zip(out.chunks_mut(block_bytes)) {
            if let Some(at) = self.fs.bmap(vnode, block) {
                self.disk.read(u64::from(at) * block_bytes as u64, part);
            }
        }
        out
    }

    /// A file's object, if it was ever used.
    pub fn object(&self, vnode: VnodeId) -> Option<ObjectId> {
        self.fs.inode(vnode).object
    }

    /// A hash of everything that decides future behaviour.
    pub fn fingerprint(&self) -> u64 {
        let mut h = self.disk.fingerprint(3);
        h = self.fs.fingerprint(h);
        h = self.bufs.fingerprint(h);
        let used = self
            .pbufs
            .iter()
            .enumerate()
            .filter(|(_, p)| p.used != PbufUse::Free);
        h = used.fold(h, |h, (n, p)| p.hash(mix(h, n as u64)));
        h = self
            .sf_used
            .iter()
            .fold(h, |h, used| h.rotate_left(1) ^ u64::from(*used));
        let c = &self.config;
        let ahead = match c.read_ahead {
            ReadAhead::Off => 0,
            ReadAhead::Cluster {
                blocks_max,
                read,
                write,
            } => u64::from(blocks_max) << 3 | u64::from(read) << 2 | u64::from(write) << 1 | 1,
        };
        h = mix(h, ahead);
        h = mix(
            h,
            c.disk_mode as u64 | (c.disk_kind as u64) << 1 | u64::from(c.soft_updates) << 2,
        );
        mix(h, u64::from(self.bogus.map_or(u32::MAX, |f| f.0)))
    }

    /// Checks the tables against each other.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.bufs.check()?;
        self.fs.check()
    }
}
