//! The disk: its image, its queue, and transfers by DMA or word by word.
//!
//! Source: FreeBSD `geom/geom_io.c`, `dev/mvs` and `dev/ata` in outline: a request names a kernel
//! address range; the driver loads it into a busdma map, syncs before and after, and calls the
//! owner's biodone. Absent: errors of the medium, sorting, scatter lists (a beat is 32 bytes of one
//! page), the seek's share of time.

use std::sync::Arc;

use machine::memory::{hash_bytes, mix};
use machine::{Class, CpuId, Frame, Mark, PhysAddr, Step, VirtAddr, Width};
use pmap::{DmaMap, DmaOp, KernelUse, PmapVerbs};
use vm::{KResult, VmVerbs};

use crate::ctx::VfsCtx;
use crate::types::{BufId, DiskKind, DiskMode, PbufId};

/// Bytes of one DMA beat.
const BEAT: u32 = 32;

/// One block of the image that was ever written.
#[derive(Clone, Debug)]
struct Chunk {
    bytes: Arc<[u8]>,
    hash: u64,
}

/// Whose transfer it is; its end is told to this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoOwner {
    /// A buffer's.
    Buffer(BufId),
    /// A pager's or a cluster's.
    Pbuf(PbufId),
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Whose.
    pub owner: IoOwner,
    /// Memory to disk.
    pub write: bool,
    /// Byte on the disk.
    pub at: u64,
    /// Kernel address of the data, page aligned.
    pub kva: VirtAddr,
    /// Bytes.
    pub len: u32,
    /// The busdma map, from the driver's start on; none for one that moves words.
    pub map: Option<DmaMap>,
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    block_bytes: u32,
    blocks: u32,
    chunks: Vec<Option<Chunk>>,
    hash: u64,
    pub(crate) queue: Vec<Request>,
}

impl Disk {
    /// An empty disk of zeros.
    pub(crate) fn new(block_bytes: u32, blocks: u32) -> Self {
        Self {
            block_bytes,
            blocks,
            chunks: Vec::new(),
            hash: 0,
            queue: Vec::new(),
        }
    }

    /// Requests that wait for an interrupt, the oldest first.
    pub fn queued(&self) -> &[Request] {
        &self.queue
    }

    /// Copies bytes out; beyond the end they are zeros.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        out.fill(0);
        self.pieces(at, out.len(), |chunk, from, range| {
            if let Some(Some(chunk)) = self.chunks.get(chunk) {
                out[range.clone()].copy_from_slice(&chunk.bytes[from..from + range.len()]);
            }
        });
    }

    /// Copies bytes in; beyond the end they are lost.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut pieces = Vec::new();
        self.pieces(at, bytes.len(), |chunk, from, range| {
            pieces.push((chunk, from, range));
        });
        for (chunk, from, range) in pieces {
            if chunk < self.blocks as usize {
                self.write_chunk(chunk, from, &bytes[range]);
            }
        }
    }

    fn write_chunk(&mut self, n: usize, from: usize, bytes: &[u8]) {
        if n >= self.chunks.len() {
            self.chunks.resize(n + 1, None);
        }
        let old = self.chunks[n].take();
        let mut data = match &old {
            Some(chunk) => chunk.bytes.to_vec(),
            None => vec![0; self.block_bytes as usize],
        };
        data[from..from + bytes.len()].copy_from_slice(bytes);
        let hash = hash_bytes(n as u64, &data);
        self.hash ^= old.map_or(0, |chunk| chunk.hash) ^ hash;
        let bytes = data.into();
        self.chunks[n] = Some(Chunk { bytes, hash });
    }

    /// Cuts a byte range at chunk boundaries: chunk, offset in it, range of the buffer.
    fn pieces(
        &self,
        at: u64,
        len: usize,
        mut piece: impl FnMut(usize, usize, std::ops::Range<usize>),
    ) {
        let size = self.block_bytes as usize;
        let mut done = 0;
        while done < len {
            let here = at + done as u64;
            let from = (here % size as u64) as usize;
            let n = (size - from).min(len - done);
            piece((here / size as u64) as usize, from, done..done + n);
            done += n;
        }
    }

    pub(crate) fn fingerprint(&self, h: u64) -> u64 {
        self.queue.iter().fold(mix(h, self.hash), |h, r| {
            let coherent = u64::from(r.map.is_some_and(|m| m.coherent));
            let h = mix(mix(h, r.at), coherent);
            mix(h, u64::from(r.kva.0) << 32 | u64::from(r.len))
        })
    }
}

/// Hands a request to the driver. True when it is complete on return.
pub(crate) fn strategy<C: VfsCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    mut request: Request,
) -> KResult<bool> {
    c.charge(cpu, "g_io_request");
    begin(c, cpu, &mut request);
    match c.vfs().config.disk_mode {
        DiskMode::Queued => {
            c.vfs_mut().disk.queue.push(request);
            Ok(false)
        }
        DiskMode::Immediate => {
            let cycles = c.hw().profile().cost.disk;
            c.step(cpu, Step::Spend(Class::Disk, cycles));
            finish(c, cpu, &request)?;
            Ok(true)
        }
    }
}

/// Completes the oldest request.
pub(crate) fn interrupt<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId) -> KResult<bool> {
    if c.vfs().disk.queue.is_empty() {
        return Ok(false);
    }
    let request = c.vfs_mut().disk.queue.remove(0);
    c.mark(cpu, Mark::Begin("disk_interrupt"));
    c.charge(cpu, "disk_interrupt");
    let result = finish(c, cpu, &request);
    c.mark(cpu, Mark::End);
    result.map(|()| true)
}

/// The frames of a request, in order.
fn frames<C: VfsCtx + ?Sized>(c: &C, request: &Request) -> Vec<Frame> {
    match request.owner {
        IoOwner::Buffer(buf) => c.vfs().bufs.get(buf).frames().to_vec(),
        IoOwner::Pbuf(pbuf) => c.vfs().pbufs[pbuf.0 as usize].frames().to_vec(),
    }
}

/// The physical pieces of a request, one a page.
fn pieces<C: VfsCtx + ?Sized>(c: &C, request: &Request) -> Vec<(PhysAddr, u32)> {
    let page = c.vm().page_bytes();
    let frames = frames(c, request);
    let starts = (0..request.len).step_by(page as usize);
    frames
        .iter()
        .zip(starts)
        .map(|(f, at)| (c.hw().frame_address(*f), page.min(request.len - at)))
        .collect()
}

/// The driver's start: the range is handed to the device.
fn begin<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, request: &mut Request) {
    let pieces = pieces(c, request);
    let dma = c.vfs().config.disk_kind == DiskKind::Dma;
    for (pa, len) in &pieces {
        let (pa, len) = (*pa, *len);
        match request.write {
            true if dma => c.mark(cpu, Mark::DmaOutBegin { pa, len }),
            true => {}
            false => c.mark(cpu, Mark::Dead { pa, len }),
        }
    }
    if !dma {
        return;
    }
    let op = match request.write {
        true => DmaOp::PreWrite,
        false => DmaOp::PreRead,
    };
    let map = c.bus_dma_load(request.kva, request.len);
    request.map = Some(map);
    c.bus_dma_sync(cpu, op, map);
    if !request.write {
        for (pa, len) in pieces {
            c.mark(cpu, Mark::DmaInBegin { pa, len });
        }
    }
}

/// The device's work, the driver's end, and the owner's biodone.
fn finish<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, request: &Request) -> KResult<()> {
    match c.vfs().config.disk_kind {
        DiskKind::Dma => dma(c, cpu, request),
        DiskKind::Pio => pio(c, cpu, request)?,
    }
    c.charge(cpu, "biodone");
    match request.owner {
        IoOwner::Buffer(buf) => {
            crate::bio::bufdone(c, cpu, buf, !request.write);
            Ok(())
        }
        IoOwner::Pbuf(pbuf) => crate::pbuf::done(c, cpu, pbuf, request),
    }
}

fn dma<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, request: &Request) {
    let pieces = pieces(c, request);
    let mut data = vec![0; request.len as usize];
    if !request.write {
        c.vfs().disk.read(request.at, &mut data);
    }
    let mut at = 0;
    for (pa, len) in &pieces {
        let part = &mut data[at..at + *len as usize];
        match request.write {
            true => dma_out(c, cpu, *pa, part),
            false => dma_in(c, cpu, *pa, part),
        }
        at += *len as usize;
    }
    let op = match request.write {
        true => DmaOp::PostWrite,
        false => DmaOp::PostRead,
    };
    if request.write {
        c.vfs_mut().disk.write(request.at, &data);
    }
    if let Some(map) = request.map {
        c.bus_dma_sync(cpu, op, map);
    }
    for (pa, len) in pieces {
        c.mark(cpu, Mark::DmaEnd { pa, len });
    }
}

fn dma_in<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, pa: PhysAddr, data: &[u8]) {
    for (n, beat) in data.chunks(BEAT as usize).enumerate() {
        let mut bytes = [0; BEAT as usize];
        bytes[..beat.len()].copy_from_slice(beat);
        let (pa, len) = (pa.add(n as u32 * BEAT), beat.len() as u8);
        c.step(cpu, Step::DmaIn { pa, bytes, len });
    }
}

fn dma_out<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, pa: PhysAddr, data: &mut [u8]) {
    for (n, beat) in data.chunks_mut(BEAT as usize).enumerate() {
        let (pa, len) = (pa.add(n as u32 * BEAT), beat.len() as u8);
        c.step(cpu, Step::DmaOut { pa, len });
        c.hw().device_read(pa, beat);
    }
}

/// The driver moves words through the buffer's kernel mapping.
fn pio<C: VfsCtx + ?Sized>(c: &mut C, cpu: CpuId, request: &Request) -> KResult<()> {
    let mut data = vec![0; request.len as usize];
    if request.write {
        c.kernel_will(cpu, KernelUse::Read, request.kva, request.len);
        let read = c.kernel_read(cpu, request.kva, &mut data);
        c.kernel_did(cpu, KernelUse::Read, request.kva, request.len);
        c.vfs_mut().disk.write(request.at, &data);
        return read;
    }
    c.vfs().disk.read(request.at, &mut data);
    c.kernel_will(cpu, KernelUse::Pio, request.kva, request.len);
    let mut stored = Ok(());
    for (n, word) in data.chunks(4).enumerate() {
        let mut bytes = [0; 4];
        bytes[..word.len()].copy_from_slice(word);
        let va = request.kva.add(n as u32 * 4);
        stored = c.kernel_store(cpu, va, Width::Word, u32::from_le_bytes(bytes));
        if stored.is_err() {
            break;
        }
    }
    c.kernel_did(cpu, KernelUse::Pio, request.kva, request.len);
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_across_blocks_and_the_hash_forgets_the_way() {
        let mut a = Disk::new(16, 4);
        let mut b = a.clone();
        a.write(10, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let mut out = [9; 10];
        a.read(9, &mut out);
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
        b.write(10, &[7; 8]);
        b.write(10, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(a.fingerprint(0), b.fingerprint(0));
        a.write(60, &[1; 8]);
        a.read(60, &mut out);
        assert_eq!(out[..8], [1, 1, 1, 1, 0, 0, 0, 0]);
    }
}
