//! Pages: one record a frame, the free list, the page queues, and the hash by object and index.
//!
//! Source: FreeBSD `vm/vm_page.c`. A record exists once its frame was first given out, so that a
//! large memory clones as fast as what was used of it. Validity and dirtiness are kept by eighths of
//! a page, where FreeBSD keeps them by 512 bytes of 4096. Absent: colours, the cache queue, held
//! pages apart from wired ones, per-CPU lists.

use machine::Frame;
use machine::memory::mix;

use crate::types::{FreeOrder, ObjectId};

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// Every eighth of a page.
pub const VALID_ALL: u8 = 0xff;

/// Where a page is listed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Queue {
    /// Nowhere: wired, or just given out.
    None,
    /// In use lately.
    Active,
    /// May be taken by the page daemon.
    Inactive,
    /// Free.
    Free,
}

/// A page's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The object it belongs to.
    pub object: Option<ObjectId>,
    /// Its page index there.
    pub pindex: u32,
    /// Eighths that hold data.
    pub valid: u8,
    /// Eighths that differ from the backing store.
    pub dirty: u8,
    /// Somebody has it for himself.
    pub busy: bool,
    /// Transfers under way (vm_page_io_start).
    pub io: u8,
    /// Reasons not to take it.
    pub wired: u16,
    /// Where it is listed.
    pub queue: Queue,
    hash_next: u32,
    list_next: u32,
    list_prev: u32,
    queue_next: u32,
    queue_prev: u32,
}

impl Page {
    const FRESH: Page = Page {
        object: None,
        pindex: 0,
        valid: 0,
        dirty: 0,
        busy: false,
        io: 0,
        wired: 0,
        queue: Queue::None,
        hash_next: NONE,
        list_next: NONE,
        list_prev: NONE,
        queue_next: NONE,
        queue_prev: NONE,
    };

    /// Whether nobody can take or change it for now.
    pub fn in_use(&self) -> bool {
        self.busy || self.io > 0
    }

    fn hash(&self, mut h: u64) -> u64 {
        let object = self.object.map_or(NONE, |o| o.0);
        h = mix(h, u64::from(object) << 32 | u64::from(self.pindex));
        let bits = [self.valid, self.dirty, u8::from(self.busy), self.io];
        h = mix(
            h,
            u64::from(u32::from_le_bytes(bits)) << 32 | u64::from(self.wired),
        );
        h = mix(
            h,
            u64::from(self.list_next) << 32 | u64::from(self.queue_next),
        );
        mix(h, self.queue as u64)
    }
}

/// A doubly linked list through the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: List = List {
        head: NONE,
        tail: NONE,
        len: 0,
    };
}

/// Every page.
#[derive(Debug)]
pub struct Pages {
    first: u32,
    end: u32,
    records: Vec<Page>,
    buckets: Vec<u32>,
    free: List,
    active: List,
    inactive: List,
}

impl Clone for Pages {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            buckets: self.buckets.clone(),
            ..*self
        }
    }

    fn clone_from(&mut self, from: &Self) {
        self.records.clone_from(&from.records);
        self.buckets.clone_from(&from.buckets);
        (self.first, self.end) = (from.first, from.end);
        (self.free, self.active, self.inactive) = (from.free, from.active, from.inactive);
    }
}

impl Pages {
    /// The frames `first..end`, all free.
    pub(crate) fn new(first: Frame, end: Frame) -> Self {
        let frames = end.0.saturating_sub(first.0);
        Self {
            first: first.0,
            end: end.0.max(first.0),
            records: Vec::new(),
            buckets: vec![NONE; frames.next_power_of_two().clamp(4, 1024) as usize],
            free: List::EMPTY,
            active: List::EMPTY,
            inactive: List::EMPTY,
        }
    }

    /// Whether the VM owns this frame and ever gave it out.
    pub(crate) fn known(&self, frame: Frame) -> bool {
        frame.0 >= self.first && frame.0 - self.first < self.records.len() as u32
    }

    /// A frame's record.
    pub(crate) fn get(&self, frame: Frame) -> &Page {
        &self.records[(frame.0 - self.first) as usize]
    }

    /// A frame's record, to change flags; lists and object are this module's.
    pub(crate) fn get_mut(&mut self, frame: Frame) -> &mut Page {
        &mut self.records[(frame.0 - self.first) as usize]
    }

    /// Frames that can be given out.
    pub(crate) fn free_count(&self) -> u32 {
        self.free.len + (self.end - self.first) - self.records.len() as u32
    }

    /// Takes a free frame, busy and on no list.
    pub(crate) fn take(&mut self, order: FreeOrder) -> Option<Frame> {
        let fresh = self.first + (self.records.len() as u32) < self.end;
        let n = match order {
            FreeOrder::Lifo if self.free.len > 0 => self.free.tail,
            FreeOrder::Fifo if !fresh && self.free.len > 0 => self.free.head,
            _ if fresh => {
                self.records.push(Page::FRESH);
                self.records.len() as u32 - 1
            }
            _ => return None,
        };
        self.unqueue(n);
        self.records[n as usize] = Page {
            busy: true,
            ..Page::FRESH
        };
        Some(Frame(self.first + n))
    }

    /// Puts a frame, which belongs to no object any more, on the free list.
    pub(crate) fn give(&mut self, frame: Frame) {
        let n = frame.0 - self.first;
        self.unqueue(n);
        self.records[n as usize] = Page::FRESH;
        self.enqueue(n, Queue::Free);
    }

    /// Moves a page to the tail of a queue, or to none. A wired page stays on none.
    pub(crate) fn requeue(&mut self, frame: Frame, queue: Queue) {
        let n = frame.0 - self.first;
        self.unqueue(n);
        if self.records[n as usize].wired == 0 {
            self.enqueue(n, queue);
        }
    }

    /// The pages of a queue, oldest first.
    pub(crate) fn queued(&self, queue: Queue) -> impl Iterator<Item = Frame> + '_ {
        let head = self.list(queue).map_or(NONE, |l| l.head);
        self.walk(head, |p| p.queue_next)
    }

    /// The page of an object at an index.
    pub(crate) fn lookup(&self, object: ObjectId, pindex: u32) -> Option<Frame> {
        let head = self.buckets[self.bucket(object, pindex)];
        self.walk(head, |p| p.hash_next).find(|f| {
            let page = self.get(*f);
            page.object == Some(object) && page.pindex == pindex
        })
    }

    /// The pages of an object, in the order they came, from its list's head.
    pub(crate) fn listed(&self, head: u32) -> impl Iterator<Item = Frame> + '_ {
        self.walk(head, |p| p.list_next)
    }

    fn walk(&self, head: u32, next: impl Fn(&Page) -> u32) -> impl Iterator<Item = Frame> {
        let mut at = head;
        std::iter::from_fn(move || {
            let n = at;
            if n == NONE {
                return None;
            }
            at = next(&self.records[n as usize]);
            Some(Frame(self.first + n))
        })
    }

    /// Links a page into its object's list, whose head it returns, and into the hash.
    pub(crate) fn insert(&mut self, frame: Frame, object: ObjectId, pindex: u32, head: u32) -> u32 {
        let n = frame.0 - self.first;
        let bucket = self.bucket(object, pindex);
        let hash_next = self.buckets[bucket];
        self.buckets[bucket] = n;
        if head != NONE {
            self.records[head as usize].list_prev = n;
        }
        let page = &mut self.records[n as usize];
        page.object = Some(object);
        page.pindex = pindex;
        page.hash_next = hash_next;
        page.list_next = head;
        page.list_prev = NONE;
        n
    }

    /// Unlinks a page from its object's list and from the hash; returns the list's new head.
    pub(crate) fn remove(&mut self, frame: Frame, head: u32) -> u32 {
        let n = frame.0 - self.first;
        let page = self.records[n as usize];
        let Some(object) = page.object else {
            return head;
        };
        self.unhash(n, self.bucket(object, page.pindex));
        let (prev, next) = (page.list_prev, page.list_next);
        if next != NONE {
            self.records[next as usize].list_prev = prev;
        }
        let head = if prev == NONE {
            next
        } else {
            self.records[prev as usize].list_next = next;
            head
        };
        let page = &mut self.records[n as usize];
        page.object = None;
        (page.list_next, page.list_prev, page.hash_next) = (NONE, NONE, NONE);
        head
    }

    fn unhash(&mut self, n: u32, bucket: usize) {
        let next = self.records[n as usize].hash_next;
        let mut at = self.buckets[bucket];
        if at == n {
            self.buckets[bucket] = next;
            return;
        }
        while self.records[at as usize].hash_next != n {
            at = self.records[at as usize].hash_next;
        }
        self.records[at as usize].hash_next = next;
    }

    fn bucket(&self, object: ObjectId, pindex: u32) -> usize {
        let spread = object.0.wrapping_mul(0x9e37_79b1).wrapping_add(pindex);
        spread as usize & (self.buckets.len() - 1)
    }

    fn list(&self, queue: Queue) -> Option<&List> {
        match queue {
            Queue::None => None,
            Queue::Active => Some(&self.active),
            Queue::Inactive => Some(&self.inactive),
            Queue::Free => Some(&self.free),
        }
    }

    fn list_mut(&mut self, queue: Queue) -> Option<&mut List> {
        match queue {
            Queue::None => None,
            Queue::Active => Some(&mut self.active),
            Queue::Inactive => Some(&mut self.inactive),
            Queue::Free => Some(&mut self.free),
        }
    }

    fn enqueue(&mut self, n: u32, queue: Queue) {
        self.records[n as usize].queue = queue;
        let Some(list) = self.list_mut(queue) else {
            return;
        };
        let tail = std::mem::replace(&mut list.tail, n);
        list.len += 1;
        if tail == NONE {
            list.head = n;
        } else {
            self.records[tail as usize].queue_next = n;
        }
        let page = &mut self.records[n as usize];
        (page.queue_prev, page.queue_next) = (tail, NONE);
    }

    fn unqueue(&mut self, n: u32) {
        let page = &mut self.records[n as usize];
        let (queue, prev, next) = (page.queue, page.queue_prev, page.queue_next);
        page.queue = Queue::None;
        (page.queue_prev, page.queue_next) = (NONE, NONE);
        let Some(list) = self.list_mut(queue) else {
            return;
        };
        list.len -= 1;
        if prev == NONE {
            list.head = next;
        }
        if next == NONE {
            list.tail = prev;
        }
        if prev != NONE {
            self.records[prev as usize].queue_next = next;
        }
        if next != NONE {
            self.records[next as usize].queue_prev = prev;
        }
    }

    /// A hash of every record and list; the hash chains, which decide nothing, stay out.
    pub(crate) fn fingerprint(&self, seed: u64) -> u64 {
        let h = self.records.iter().fold(seed, |h, p| p.hash(h));
        [self.free, self.active, self.inactive]
            .iter()
            .fold(h, |h, l| {
                mix(h, u64::from(l.head) << 32 | u64::from(l.tail))
            })
    }

    /// Lists agree with the records, and every page of an object is found by the hash.
    pub(crate) fn check(&self) -> Result<(), String> {
        for queue in [Queue::Free, Queue::Active, Queue::Inactive] {
            let len = self.list(queue).map_or(0, |l| l.len);
            let seen = self.queued(queue).take(len as usize + 1);
            let good = seen.filter(|f| self.get(*f).queue == queue).count() as u32;
            if good != len {
                return Err(format!("queue {queue:?} holds {good} pages, counts {len}"));
            }
        }
        for n in 0..self.records.len() as u32 {
            self.check_page(Frame(self.first + n))?;
        }
        Ok(())
    }

    fn check_page(&self, frame: Frame) -> Result<(), String> {
        let page = self.get(frame);
        if let Some(object) = page.object
            && self.lookup(object, page.pindex) != Some(frame)
        {
            return Err(format!(
                "{frame} is not found as {object:?}/{}",
                page.pindex
            ));
        }
        if page.wired > 0 && page.queue != Queue::None {
            return Err(format!("{frame} is wired and on {:?}", page.queue));
        }
        if page.dirty & !page.valid != 0 {
            return Err(format!("{frame} is dirty where invalid"));
        }
        if page.queue == Queue::Free && (page.object.is_some() || page.in_use()) {
            return Err(format!("{frame} is free and in use"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Pages {
        Pages::new(Frame(10), Frame(13))
    }

    #[test]
    fn lifo_gives_the_last_freed_and_fifo_the_first_after_every_fresh_one() {
        let mut pages = three();
        let a = pages.take(FreeOrder::Lifo).unwrap();
        let b = pages.take(FreeOrder::Lifo).unwrap();
        pages.give(a);
        pages.give(b);
        assert_eq!(pages.take(FreeOrder::Lifo), Some(b));
        pages.give(b);
        assert_eq!(pages.take(FreeOrder::Fifo), Some(Frame(12)));
        assert_eq!(pages.take(FreeOrder::Fifo), Some(a));
        assert_eq!(pages.take(FreeOrder::Fifo), Some(b));
        assert_eq!(pages.take(FreeOrder::Fifo), None);
        assert_eq!(pages.check(), Ok(()));
    }

    #[test]
    fn a_page_is_found_by_object_and_index_until_it_is_removed() {
        let mut pages = three();
        let frames: Vec<_> = (0..3)
            .map(|_| pages.take(FreeOrder::Lifo).unwrap())
            .collect();
        let mut head = NONE;
        for (n, frame) in frames.iter().enumerate() {
            head = pages.insert(*frame, ObjectId(7), n as u32 * 4, head);
        }
        assert_eq!(pages.lookup(ObjectId(7), 4), Some(frames[1]));
        assert_eq!(pages.lookup(ObjectId(6), 4), None);
        head = pages.remove(frames[1], head);
        assert_eq!(pages.lookup(ObjectId(7), 4), None);
        assert_eq!(pages.listed(head).count(), 2);
        assert_eq!(pages.check(), Ok(()));
    }
}
