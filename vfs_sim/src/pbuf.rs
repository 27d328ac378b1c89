//! Pager and cluster buffers: kernel addresses of their own, borrowed for one transfer.
//!
//! Source: FreeBSD `vm/vm_pager.c` (getpbuf, relpbuf), `kern/vfs_cluster.c` (cluster_callback). Each
//! gives its pages a second kernel mapping for as long as the transfer lasts. Absent: the separate
//! counts of pbufs for pagers and clusters.

use machine::memory::mix;
use machine::{CpuId, Frame, VirtAddr};
use pmap::{BufferEvent, PmapVerbs};
use vm::{Channel, KResult, ObjectId};

use crate::ctx::VfsCtx;
use crate::disk::{self, IoOwner, Request};
use crate::types::{BufId, PbufId, VfsConfig};
use crate::{bio, pager};

/// Most pages of one (MAXPHYS).
pub(crate) const PBUF_PAGES: usize = 32;

/// What a pager or cluster buffer is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PbufUse {
    /// Nothing.
    Free,
    /// Pages of an object, from this index on; the file's bytes in them.
    Pager {
        /// Whose pages.
        object: ObjectId,
        /// The first.
        pindex: u32,
        /// Bytes of the file; beyond them the last page is zeroed.
        bytes: u32,
    },
    /// Several buffers in one transfer.
    Cluster,
}

/// A pager or cluster buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pbuf {
    /// What for.
    pub used: PbufUse,
    /// Address of its mapping.
    pub kva: VirtAddr,
    /// Pages mapped.
    pub npages: u32,
    /// Buffers of a cluster.
    pub nbufs: u32,
    pages: [Frame; PBUF_PAGES],
    bufs: [BufId; PBUF_PAGES],
}

impl Pbuf {
    fn new(kva: VirtAddr) -> Self {
        Self {
            used: PbufUse::Free,
            kva,
            npages: 0,
            nbufs: 0,
            pages: [Frame(0); PBUF_PAGES],
            bufs: [BufId(0); PBUF_PAGES],
        }
    }

    /// Its pages.
    pub fn frames(&self) -> &[Frame] {
        &self.pages[..self.npages as usize]
    }

    /// The buffers of a cluster.
    pub fn bufs(&self) -> &[BufId] {
        &self.bufs[..self.nbufs as usize]
    }

    pub(crate) fn push_page(&mut self, frame: Frame) {
        self.pages[self.npages as usize] = frame;
        self.npages += 1;
    }

    pub(crate) fn push_buf(&mut self, buf: BufId) {
        self.bufs[self.nbufs as usize] = buf;
        self.nbufs += 1;
    }

    pub(crate) fn hash(&self, mut h: u64) -> u64 {
        h = mix(h, u64::from(self.npages) << 32 | u64::from(self.nbufs));
        if let PbufUse::Pager {
            object,
            pindex,
            bytes,
        } = self.used
        {
            h = mix(h, u64::from(object.0) << 32 | u64::from(pindex));
            h = mix(h, u64::from(bytes) << 1 | 1);
        }
        let h = self.frames().iter().fold(h, |h, f| mix(h, u64::from(f.0)));
        self.bufs().iter().fold(h, |h, b| mix(h, u64::from(b.0)))
    }
}

/// FreeBSD's number of them, as far as there is room.
pub(crate) fn all(config: &VfsConfig) -> Vec<Pbuf> {
    let room = config.pager_map.bytes / config.pbuf_bytes.max(1);
    let count = (config.nbuf / 4).clamp(16, 256).min(room);
    (0..count)
        .map(|n| Pbuf::new(config.pager_map.start.add(n * config.pbuf_bytes)))
        .collect()
}

/// Takes a free one (trypbuf).
pub(crate) fn try_get<C: VfsCtx + ?Sized>(c: &mut C, used: PbufUse) -> Option<PbufId> {
    let free = |p: &Pbuf| p.used == PbufUse::Free;
    let n = c.vfs().pbufs.iter().position(free)?;
    let pbuf = &mut c.vfs_mut().pbufs[n];
    *pbuf = Pbuf {
        used,
        ..Pbuf::new(pbuf.kva)
    };
    Some(PbufId(n as u32))
}

/// Gives it back, unmapped.
pub(crate) fn release<C: VfsCtx + ?Sized>(c: &mut C, pbuf: PbufId) {
    c.vfs_mut().pbufs[pbuf.0 as usize].used = PbufUse::Free;
    c.wakeup(Channel::NoPagerBuffer);
}

/// Maps its pages and starts its transfer; true when that is complete on return.
pub(crate) fn start<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    pbuf: PbufId,
    write: bool,
    at: u64,
    len: u32,
) -> KResult<bool> {
    let record = c.vfs().pbufs[pbuf.0 as usize];
    let read = !write;
    c.buffer_event(
        cpu,
        BufferEvent::IoStart { read },
        record.kva,
        record.frames(),
    );
    let request = Request {
        owner: IoOwner::Pbuf(pbuf),
        write,
        at,
        kva: record.kva,
        len,
        map: None,
    };
    disk::strategy(c, cpu, request)
}

/// The end of a transfer: the pager's zeroes its tail; then the mapping goes at once, and the pages
/// or the buffers are told.
pub(crate) fn done<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    pbuf: PbufId,
    request: &Request,
) -> KResult<()> {
    let record = c.vfs().pbufs[pbuf.0 as usize];
    let read = !request.write;
    c.buffer_event(
        cpu,
        BufferEvent::IoDone { read },
        record.kva,
        record.frames(),
    );
    let tail = match record.used {
        PbufUse::Pager { bytes, .. } => pager::zero_tail(c, cpu, &record, bytes),
        _ => Ok(()),
    };
    c.pmap_qremove(cpu, record.kva, record.npages);
    match record.used {
        PbufUse::Pager { object, pindex, .. } => pager::filled(c, object, pindex, record.npages),
        PbufUse::Cluster => {
            c.charge(cpu, "cluster_callback");
            for buf in record.bufs() {
                bio::bufdone(c, cpu, *buf, read);
            }
        }
        PbufUse::Free => {}
    }
    release(c, pbuf);
    tail
}
