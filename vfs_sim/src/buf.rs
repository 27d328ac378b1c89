//! Buffers: their records, their queues, the hash by file and block, and the kernel addresses that
//! their data have.
//!
//! Source: FreeBSD `sys/buf.h`, `kern/vfs_bio.c` (queues, gbincore, bufinit). A record exists once
//! it was first needed, up to nbuf. Absent: device buffers without pages, malloc'ed buffers, the
//! dirty-giant queue, background writes, dependencies.

use machine::memory::mix;
use machine::{Frame, VirtAddr};
use vm::VnodeId;

use crate::types::{BufFlags, BufId, VfsConfig};

/// Most pages of a buffer (MAXBSIZE).
pub(crate) const BUF_PAGES: usize = 16;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a buffer is listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BufQueue {
    /// Nowhere: locked.
    None,
    /// Clean, kept for its contents and its mapping.
    Clean,
    /// To be written.
    Dirty,
    /// Without contents, with kernel addresses.
    EmptyKva,
}

/// A buffer's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buf {
    /// Whose block it holds.
    pub vnode: Option<VnodeId>,
    /// Which block of the file.
    pub block: u32,
    /// Which block of the disk, `None` for a hole.
    pub disk_block: Option<u32>,
    /// State.
    pub flags: BufFlags,
    /// Bytes held.
    pub bytes: u32,
    /// Address of the data (b_data).
    pub kva: VirtAddr,
    /// Addresses reserved, bytes; 0 before the first use.
    pub kva_bytes: u32,
    /// Pages mapped there.
    pub npages: u32,
    /// Where it is listed.
    pub queue: BufQueue,
    pages: [Frame; BUF_PAGES],
    hash_next: u32,
    next: u32,
    prev: u32,
}

impl Buf {
    const NEW: Buf = Buf {
        vnode: None,
        block: 0,
        disk_block: None,
        flags: BufFlags::empty(),
        bytes: 0,
        kva: VirtAddr(0),
        kva_bytes: 0,
        npages: 0,
        queue: BufQueue::None,
        pages: [Frame(NONE); BUF_PAGES],
        hash_next: NONE,
        next: NONE,
        prev: NONE,
    };

    /// Its pages; while a transfer is under way some may be the bogus one.
    pub fn frames(&self) -> &[Frame] {
        &self.pages[..self.npages as usize]
    }

    /// Whether somebody owns it.
    pub fn locked(&self) -> bool {
        self.flags.contains(BufFlags::LOCKED)
    }

    pub(crate) fn set_page(&mut self, n: u32, frame: Frame) {
        self.pages[n as usize] = frame;
    }

    fn hash(&self, mut h: u64) -> u64 {
        let vnode = self.vnode.map_or(NONE, |v| v.0);
        h = mix(h, u64::from(vnode) << 32 | u64::from(self.block));
        h = mix(
            h,
            u64::from(self.disk_block.unwrap_or(NONE)) << 32 | u64::from(self.bytes),
        );
        h = mix(
            h,
            u64::from(self.flags.bits()) << 32 | u64::from(self.kva.0),
        );
        h = mix(h, u64::from(self.next) << 32 | u64::from(self.kva_bytes));
        let frames = self.frames().iter();
        frames.fold(h, |h, f| mix(h, u64::from(f.0)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// Every buffer.
#[derive(Clone, Debug)]
pub struct Bufs {
    records: Vec<Buf>,
    max: u32,
    buckets: Vec<u32>,
    lists: [List; 3],
    unit: u32,
    start: VirtAddr,
    units: Vec<bool>,
}

impl Bufs {
    pub(crate) fn new(config: &VfsConfig) -> Self {
        let list = List {
            head: NONE,
            tail: NONE,
            len: 0,
        };
        let units = config.buffer_map.bytes / config.buffer_kva_bytes.max(1);
        Self {
            records: Vec::new(),
            max: config.nbuf,
            buckets: vec![NONE; config.nbuf.next_power_of_two().clamp(1, 256) as usize],
            lists: [list; 3],
            unit: config.buffer_kva_bytes,
            start: config.buffer_map.start,
            units: vec![false; units as usize],
        }
    }

    /// A buffer.
    pub fn get(&self, buf: BufId) -> &Buf {
        &self.records[buf.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, buf: BufId) -> &mut Buf {
        &mut self.records[buf.0 as usize]
    }

    /// Every buffer that was ever used.
    pub fn iter(&self) -> impl Iterator<Item = (BufId, &Buf)> {
        (0..).map(BufId).zip(&self.records)
    }

    /// The buffers of a file, by number.
    pub(crate) fn of(&self, vnode: VnodeId) -> Vec<BufId> {
        let mine = self.iter().filter(|(_, b)| b.vnode == Some(vnode));
        mine.map(|(id, _)| id).collect()
    }

    /// How many are to be written.
    pub fn dirty_count(&self) -> u32 {
        self.iter()
            .filter(|(_, b)| b.flags.contains(BufFlags::DELWRI))
            .count() as u32
    }

    /// The buffer that holds a block (gbincore).
    pub(crate) fn incore(&self, vnode: VnodeId, block: u32) -> Option<BufId> {
        let mut at = self.buckets[self.bucket(vnode, block)];
        while at != NONE {
            let buf = &self.records[at as usize];
            if buf.vnode == Some(vnode) && buf.block == block {
                return Some(BufId(at));
            }
            at = buf.hash_next;
        }
        None
    }

    /// The oldest of a queue.
    pub(crate) fn head(&self, queue: BufQueue) -> Option<BufId> {
        let head = self.lists[Self::list(queue)?].head;
        (head != NONE).then_some(BufId(head))
    }

    /// A queue, the oldest first.
    pub(crate) fn queued(&self, queue: BufQueue) -> Vec<BufId> {
        let mut out = Vec::new();
        let mut at = self.head(queue);
        while let Some(id) = at {
            out.push(id);
            let next = self.get(id).next;
            at = (next != NONE).then_some(BufId(next));
        }
        out
    }

    /// A record never used before, while there are any.
    pub(crate) fn fresh(&mut self) -> Option<BufId> {
        if self.records.len() as u32 >= self.max {
            return None;
        }
        self.records.push(Buf::NEW);
        Some(BufId(self.records.len() as u32 - 1))
    }

    /// Whether there is one.
    pub(crate) fn has_fresh(&self) -> bool {
        (self.records.len() as u32) < self.max
    }

    /// Gives a buffer its file and block.
    pub(crate) fn assign(&mut self, buf: BufId, vnode: VnodeId, block: u32) {
        let bucket = self.bucket(vnode, block);
        let next = std::mem::replace(&mut self.buckets[bucket], buf.0);
        let record = self.get_mut(buf);
        (record.vnode, record.block, record.hash_next) = (Some(vnode), block, next);
    }

    /// Takes file and block away (brelvp).
    pub(crate) fn disown(&mut self, buf: BufId) {
        let record = *self.get(buf);
        let Some(vnode) = record.vnode else { return };
        let bucket = self.bucket(vnode, record.block);
        if self.buckets[bucket] == buf.0 {
            self.buckets[bucket] = record.hash_next;
        } else {
            let mut at = self.buckets[bucket];
            while self.records[at as usize].hash_next != buf.0 {
                at = self.records[at as usize].hash_next;
            }
            self.records[at as usize].hash_next = record.hash_next;
        }
        let record = self.get_mut(buf);
        (record.vnode, record.disk_block, record.hash_next) = (None, None, NONE);
    }

    /// Moves a buffer to the tail of a queue, or to none; `first` puts it at the head instead.
    pub(crate) fn requeue(&mut self, buf: BufId, queue: BufQueue, first: bool) {
        self.unqueue(buf.0);
        self.get_mut(buf).queue = queue;
        let Some(n) = Self::list(queue) else { return };
        let list = &mut self.lists[n];
        list.len += 1;
        let (prev, next) = match first {
            true => (NONE, list.head),
            false => (list.tail, NONE),
        };
        match prev {
            NONE => list.head = buf.0,
            _ => self.records[prev as usize].next = buf.0,
        }
        match next {
            NONE => self.lists[n].tail = buf.0,
            _ => self.records[next as usize].prev = buf.0,
        }
        let record = self.get_mut(buf);
        (record.prev, record.next) = (prev, next);
    }

    fn unqueue(&mut self, n: u32) {
        let record = &mut self.records[n as usize];
        let (queue, prev, next) = (record.queue, record.prev, record.next);
        record.queue = BufQueue::None;
        (record.prev, record.next) = (NONE, NONE);
        let Some(list) = Self::list(queue) else {
            return;
        };
        self.lists[list].len -= 1;
        match prev {
            NONE => self.lists[list].head = next,
            _ => self.records[prev as usize].next = next,
        }
        match next {
            NONE => self.lists[list].tail = prev,
            _ => self.records[next as usize].prev = prev,
        }
    }

    fn list(queue: BufQueue) -> Option<usize> {
        match queue {
            BufQueue::None => None,
            BufQueue::Clean => Some(0),
            BufQueue::Dirty => Some(1),
            BufQueue::EmptyKva => Some(2),
        }
    }

    /// Whether a buffer of `bytes` could ever have addresses.
    pub(crate) fn fits(&self, bytes: u32) -> bool {
        bytes.div_ceil(self.unit) as usize <= self.units.len()
    }

    /// Reserves kernel addresses for `bytes`, the lowest run that fits; what it had is given back.
    /// False when there is no run.
    pub(crate) fn reserve(&mut self, buf: BufId, bytes: u32) -> bool {
        let wanted = bytes.next_multiple_of(self.unit);
        if self.get(buf).kva_bytes == wanted {
            return true;
        }
        self.unreserve(buf);
        let count = (wanted / self.unit) as usize;
        let fits = |n: &usize| self.units[*n..*n + count].iter().all(|used| !used);
        let starts = 0..(self.units.len() + 1).saturating_sub(count);
        let Some(n) = starts.into_iter().find(fits) else {
            return false;
        };
        self.units[n..n + count].fill(true);
        let kva = self.start.add(n as u32 * self.unit);
        let record = self.get_mut(buf);
        (record.kva, record.kva_bytes) = (kva, wanted);
        true
    }

    fn unreserve(&mut self, buf: BufId) {
        let (kva, bytes) = (self.get(buf).kva, self.get(buf).kva_bytes);
        let first = ((kva.0.wrapping_sub(self.start.0)) / self.unit) as usize;
        if bytes > 0 {
            self.units[first..first + (bytes / self.unit) as usize].fill(false);
        }
        self.get_mut(buf).kva_bytes = 0;
    }

    fn bucket(&self, vnode: VnodeId, block: u32) -> usize {
        let spread = vnode.0.wrapping_mul(0x9e37_79b1).wrapping_add(block);
        spread as usize & (self.buckets.len() - 1)
    }

    pub(crate) fn fingerprint(&self, h: u64) -> u64 {
        let h = self.records.iter().fold(h, |h, b| b.hash(h));
        self.lists.iter().fold(h, |h, l| {
            mix(h, u64::from(l.head) << 32 | u64::from(l.tail))
        })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for (id, buf) in self.iter() {
            if buf.locked() != (buf.queue == BufQueue::None) {
                return Err(format!(
                    "{id:?} is on {:?}, flags {:?}",
                    buf.queue, buf.flags
                ));
            }
            if let Some(vnode) = buf.vnode
                && self.incore(vnode, buf.block) != Some(id)
            {
                return Err(format!(
                    "{id:?} is not found as block {} of {vnode:?}",
                    buf.block
                ));
            }
            let dirty = buf.flags.contains(BufFlags::DELWRI);
            if !buf.locked() && dirty != (buf.queue == BufQueue::Dirty) {
                return Err(format!("{id:?} is on {:?}, dirty: {dirty}", buf.queue));
            }
        }
        let reserved: u32 = self.records.iter().map(|b| b.kva_bytes / self.unit).sum();
        let used = self.units.iter().filter(|u| **u).count() as u32;
        match reserved == used {
            true => Ok(()),
            false => Err(format!(
                "{used} address units are used, {reserved} have owners"
            )),
        }
    }
}
