//! Words of the file layer: configuration, intents, flags, sequential heuristic.
//!
//! Source: FreeBSD `sys/buf.h`, `sys/vnode.h`, `kern/vfs_vnops.c` (sequential_heuristic),
//! `sys/param.h`. Absent: soft updates, snapshots, extended attributes.

use bitflags::bitflags;
use machine::VirtAddr;
use vm::Uio;

/// A buffer of the buffer cache, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufId(pub u32);

/// A pager or cluster buffer, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PbufId(pub u32);

/// What a caller of getblk will do with the buffer; a policy learns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Intent {
    /// Only look.
    Read,
    /// Store into it.
    Write,
}

/// How a disk request is carried out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DiskMode {
    /// Inside the call, its time charged.
    #[default]
    Immediate,
    /// At a later [`crate::VfsVerbs::disk_interrupt`]; the caller sleeps.
    Queued,
}

/// How data reach memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DiskKind {
    /// The device reads and writes memory; busdma syncs around it.
    #[default]
    Dma,
    /// The driver moves words through the buffer's kernel mapping.
    Pio,
}

/// Read-ahead and clustering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ReadAhead {
    /// One block at a time.
    #[default]
    Off,
    /// cluster_read and cluster_wbuild, unless switched off one by one.
    Cluster {
        /// Most blocks of read-ahead (vfs.read_max, 64 in 2012).
        blocks_max: u32,
        /// Whether reads are clustered (not `noclusterr`).
        read: bool,
        /// Whether writes are (not `noclusterw`).
        write: bool,
    },
}

/// A run of kernel addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct KvaWindow {
    /// First address, page aligned.
    pub start: VirtAddr,
    /// Length.
    pub bytes: u32,
}

/// What a file system, its disk and its buffer cache are made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VfsConfig {
    /// Page size of the machine.
    pub page_bytes: u32,
    /// File system block: a multiple of the page, at most 16 pages.
    pub block_bytes: u32,
    /// Fragment: the last block of a small file is as many of these as it needs.
    pub fragment_bytes: u32,
    /// Blocks of the disk.
    pub disk_blocks: u32,
    /// Most files.
    pub files_max: u32,
    /// Largest file.
    pub file_bytes_max: u32,
    /// Blocks left free between two blocks of a file: 0 lays files out contiguously.
    pub block_gap: u32,
    /// Buffers; [`VfsConfig::nbuf`] has FreeBSD's formula.
    pub nbuf: u32,
    /// Kernel addresses reserved for a buffer (BKVASIZE); larger ones take a multiple.
    pub buffer_kva_bytes: u32,
    /// Addresses of buffers' data.
    pub buffer_map: KvaWindow,
    /// Addresses of pager and cluster buffers, each of [`VfsConfig::pbuf_bytes`].
    pub pager_map: KvaWindow,
    /// Size of a pager or cluster buffer, at most 32 pages (MAXPHYS).
    pub pbuf_bytes: u32,
    /// Addresses of sf_bufs, one page each.
    pub sf_map: KvaWindow,
    /// When requests complete.
    pub disk_mode: DiskMode,
    /// How data move.
    pub disk_kind: DiskKind,
    /// Read-ahead and clustering.
    pub read_ahead: ReadAhead,
    /// Pages that exec and the pager bring at once (VM_INITIAL_PAGEIN).
    pub pagein_pages: u32,
    /// Whether written buffers have soft-update dependencies, so that msync's and direct writes keep
    /// theirs mapped (`b_dep` in ffs_write).
    pub soft_updates: bool,
}

impl VfsConfig {
    /// FreeBSD's number of buffers for a machine of `ram` bytes (kern_vfs_bio_buffer_alloc).
    pub fn nbuf(ram: u32) -> u32 {
        let kb = ram / 1024;
        let small = (kb.saturating_sub(4096) / 64).min(1024);
        50 + small + kb.saturating_sub(65536) * 2 / 320
    }
}

bitflags! {
    /// How a file is read or written.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct IoFlags: u8 {
        /// Write at the end, wherever the transfer says (IO_APPEND).
        const APPEND = 1;
        /// Wait for the disk (IO_SYNC).
        const SYNC = 2;
        /// Do not keep the data cached (IO_DIRECT).
        const DIRECT = 4;
        /// The pager's: the pages are the data, do not keep the buffer (IO_VMIO).
        const VMIO = 8;
        /// Start the write at once but do not wait (IO_ASYNC).
        const ASYNC = 16;
    }
}

bitflags! {
    /// State of a buffer (`sys/buf.h`).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
    pub struct BufFlags: u16 {
        /// Its contents are valid.
        const CACHE = 0x01;
        /// To be written later.
        const DELWRI = 0x02;
        /// Its contents are worthless; it loses its identity when released.
        const INVAL = 0x04;
        /// Give its pages back when released.
        const RELBUF = 0x08;
        /// Nobody waits: the end of the transfer releases it.
        const ASYNC = 0x10;
        /// Somebody owns it.
        const LOCKED = 0x20;
        /// A transfer is under way.
        const IO = 0x40;
        /// The transfer failed.
        const ERROR = 0x80;
        /// Reaching it starts read-ahead (B_RAM).
        const RAM = 0x100;
        /// Do not cache (B_NOCACHE): its pages are freed with it.
        const NOCACHE = 0x200;
        /// Part of a cluster transfer.
        const CLUSTER = 0x400;
        /// Direct I/O: give pages back.
        const DIRECT = 0x800;
    }
}

/// How sequential an open file's reads are; kept with the file descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sequential {
    /// Where the next sequential transfer would begin (f_nextoff).
    pub next: u64,
    /// Count, 1 to 127 (f_seqcount).
    pub count: u32,
}

impl Default for Sequential {
    /// As open leaves it.
    fn default() -> Self {
        Self { next: 0, count: 1 }
    }
}

impl Sequential {
    /// FreeBSD's unit of the heuristic, bytes.
    pub const UNIT: u64 = 16384;
    /// The most that it counts (IO_SEQMAX).
    pub const MAX: u32 = 127;

    /// The count for a transfer that is about to start (sequential_heuristic).
    pub fn update(&mut self, uio: &Uio) -> u32 {
        let sequential = (uio.offset == 0 && self.count > 0) || uio.offset == self.next;
        if sequential {
            let more = u64::from(uio.resid).div_ceil(Self::UNIT) as u32;
            self.count = (self.count + more).min(Self::MAX);
        } else {
            self.count = self.count.min(2) / 2;
        }
        self.count
    }

    /// Notes where the transfer ended.
    pub fn ended(&mut self, uio: &Uio) {
        self.next = uio.offset;
    }
}

/// A page that exec looks at through an sf_buf.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExecPage {
    /// The page, wired.
    pub frame: machine::Frame,
    /// Its kernel address while mapped.
    pub va: VirtAddr,
}
