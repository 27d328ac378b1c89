//! Objects: what pages belong to, and the shadow chains of copy-on-write.
//!
//! Source: FreeBSD `vm/vm_object.c` (allocate, deallocate, shadow, collapse, page_clean,
//! page_remove). Absent: devices, swap, the bypass half of collapse (a chain whose middle object is
//! still shared stays as long as it is).

use machine::memory::mix;
use machine::{CpuId, Frame};
use pmap::PmapVerbs;

use crate::ctx::VmCtx;
use crate::page::{NONE, Queue};
use crate::types::{Channel, Errno, KResult, ObjectId, Stop, VnodeId};
use crate::verbs::VmVerbs;
use crate::vm::operation;

/// Passes of the page daemon before memory counts as exhausted: one forgets references, one moves
/// pages to the inactive queue, one takes them.
const PASSES_MAX: u32 = 3;

/// An object's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Whether the record is in use.
    pub live: bool,
    /// The file whose pages these are; otherwise anonymous memory.
    pub vnode: Option<VnodeId>,
    /// References: map entries, shadows, the vnode.
    pub refs: u32,
    /// Objects that shadow this one.
    pub shadows: u32,
    /// The object whose pages show through where this one has none.
    pub backing: Option<ObjectId>,
    /// Where this object's first page is in the backing one, pages.
    pub backing_offset: u32,
    /// Size, pages.
    pub pages: u32,
    /// Pages resident.
    pub resident: u32,
    /// Program text (VV_TEXT of its vnode).
    pub text: bool,
    /// One map entry, whole or in pieces, is all that refers to its pages (OBJ_ONEMAPPING).
    pub onemapping: bool,
    pub(crate) head: u32,
}

impl Object {
    pub(crate) const FREE: Object = Object {
        live: false,
        vnode: None,
        refs: 0,
        shadows: 0,
        backing: None,
        backing_offset: 0,
        pages: 0,
        resident: 0,
        text: false,
        onemapping: false,
        head: NONE,
    };

    pub(crate) fn hash(&self, mut h: u64) -> u64 {
        let vnode = self.vnode.map_or(NONE, |v| v.0);
        let backing = self.backing.map_or(NONE, |b| b.0);
        h = mix(h, u64::from(vnode) << 32 | u64::from(backing));
        h = mix(h, u64::from(self.refs) << 32 | u64::from(self.shadows));
        h = mix(
            h,
            u64::from(self.backing_offset) << 32 | u64::from(self.pages),
        );
        h = mix(h, u64::from(self.head) << 32 | u64::from(self.resident));
        mix(
            h,
            u64::from(self.live) | u64::from(self.text) << 1 | u64::from(self.onemapping) << 2,
        )
    }
}

/// A record for a new object with one reference.
pub(crate) fn allocate<C: VmCtx + ?Sized>(
    c: &mut C,
    vnode: Option<VnodeId>,
    pages: u32,
) -> KResult<ObjectId> {
    let vm = c.vm_mut();
    let new = Object {
        live: true,
        vnode,
        refs: 1,
        pages,
        onemapping: vnode.is_none(),
        ..Object::FREE
    };
    if let Some(n) = vm.objects.iter().position(|o| !o.live) {
        vm.objects[n] = new;
        return Ok(ObjectId(n as u32));
    }
    if vm.objects.len() as u32 >= vm.config.tables_max {
        return Err(Errno::ENOMEM.into());
    }
    vm.objects.push(new);
    Ok(ObjectId(vm.objects.len() as u32 - 1))
}

/// One reference less; down the chain as long as objects die.
pub(crate) fn deallocate<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId) {
    let mut next = Some(object);
    while let Some(object) = next.take() {
        let record = c.vm_mut().object_mut(object);
        record.refs = record.refs.saturating_sub(1);
        let (refs, vnode, backing) = (record.refs, record.vnode, record.backing);
        if refs == 1 && vnode.is_some() {
            c.pager_unreferenced(cpu, object);
        }
        if refs == 0 {
            terminate(c, cpu, object);
            if let Some(backing) = backing {
                let record = c.vm_mut().object_mut(backing);
                record.shadows = record.shadows.saturating_sub(1);
                next = Some(backing);
            }
        }
    }
}

/// Frees every page of an object that nobody refers to, and its record.
fn terminate<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId) {
    operation(c, cpu, "vm_object_terminate", |c| {
        while let Some(frame) = newest(c, object) {
            c.pmap_remove_all(cpu, frame);
            c.vm_page_free(cpu, frame);
        }
        *c.vm_mut().object_mut(object) = Object::FREE;
    });
}

fn newest<C: VmCtx + ?Sized>(c: &C, object: ObjectId) -> Option<Frame> {
    c.vm().object_pages(object).next()
}

/// Puts a new, empty object in front of `source`, taking over the caller's reference to it. An
/// anonymous source that nobody else refers to is simply kept.
pub(crate) fn shadow<C: VmCtx + ?Sized>(
    c: &mut C,
    source: ObjectId,
    offset: u32,
    pages: u32,
) -> KResult<(ObjectId, u32)> {
    let record = c.vm().object(source);
    if record.refs == 1 && record.vnode.is_none() {
        return Ok((source, offset));
    }
    let new = allocate(c, None, pages)?;
    c.vm_mut().object_mut(source).shadows += 1;
    let record = c.vm_mut().object_mut(new);
    record.backing = Some(source);
    record.backing_offset = offset;
    Ok((new, 0))
}

/// Merges the backing object into `object` while nobody else refers to it (vm_object_collapse).
pub(crate) fn collapse<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId) {
    while let Some(backing) = c.vm().object(object).backing {
        let under = *c.vm().object(backing);
        if under.vnode.is_some() || under.refs != 1 {
            return;
        }
        let frames: Vec<Frame> = c.vm().object_pages(backing).collect();
        if frames.iter().any(|f| c.vm().page(*f).in_use()) {
            return;
        }
        let offset = c.vm().object(object).backing_offset;
        frames
            .into_iter()
            .for_each(|frame| collapse_page(c, cpu, object, offset, frame));
        let record = c.vm_mut().object_mut(object);
        record.backing = under.backing;
        record.backing_offset += under.backing_offset;
        *c.vm_mut().object_mut(backing) = Object::FREE;
    }
}

/// Moves one page of the backing object up, or frees it where it is hidden or out of range.
fn collapse_page<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    offset: u32,
    frame: Frame,
) {
    let pindex = c.vm().page(frame).pindex;
    let seen = pindex.checked_sub(offset);
    let seen = seen.filter(|p| *p < c.vm().object(object).pages);
    match seen {
        Some(p) if c.vm().lookup(object, p).is_none() => {
            c.vm_mut().page_rename(frame, object, p);
        }
        _ => {
            c.pmap_remove_all(cpu, frame);
            c.vm_page_free(cpu, frame);
        }
    }
}

/// Unmaps and frees pages by index, whatever they hold.
pub(crate) fn page_remove<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    start: u32,
    end: u32,
) -> KResult<()> {
    operation(c, cpu, "vm_object_page_remove", |c| {
        for frame in resident(c, object, start, end) {
            let page = c.vm().page(frame);
            if page.object != Some(object) {
                continue;
            }
            if page.in_use() {
                return Err(Stop::Wait(Channel::Page(frame)));
            }
            c.pmap_remove_all(cpu, frame);
            if c.vm().page(frame).wired > 0 {
                c.vm_mut().page_mut(frame).valid = 0;
                undirty(c, frame);
            } else {
                c.vm_page_free(cpu, frame);
            }
        }
        Ok(())
    })
}

/// Writes dirty pages by index, in runs that the pager can take at once.
pub(crate) fn page_clean<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    start: u32,
    end: u32,
    sync: bool,
) -> KResult<()> {
    operation(c, cpu, "vm_object_page_clean", |c| {
        let mut at = start;
        while let Some((first, count)) = next_dirty(c, object, at, end) {
            for pindex in first..first + count {
                if let Some(frame) = c.vm().lookup(object, pindex) {
                    if c.vm().page(frame).in_use() {
                        return Err(Stop::Wait(Channel::Page(frame)));
                    }
                    c.pmap_remove_write(cpu, frame);
                }
            }
            c.pager_putpages(cpu, object, first, count, sync)?;
            at = first + count;
        }
        Ok(())
    })
}

/// The first run of dirty pages in `start..end`.
fn next_dirty<C: VmCtx + ?Sized>(
    c: &mut C,
    object: ObjectId,
    start: u32,
    end: u32,
) -> Option<(u32, u32)> {
    let frames = resident(c, object, start, end);
    let mut dirty = Vec::new();
    for frame in frames {
        if test_dirty(c, frame) {
            dirty.push(c.vm().page(frame).pindex);
        }
    }
    let first = *dirty.first()?;
    let run = dirty.iter().zip(first..).take_while(|(p, n)| *p == n);
    Some((first, run.count().min(16) as u32))
}

/// The resident pages of a range, by index.
pub(crate) fn resident<C: VmCtx + ?Sized>(
    c: &C,
    object: ObjectId,
    start: u32,
    end: u32,
) -> Vec<Frame> {
    let mut found: Vec<(u32, Frame)> = c
        .vm()
        .object_pages(object)
        .map(|f| (c.vm().page(f).pindex, f))
        .filter(|(p, _)| (start..end).contains(p))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, f)| f).collect()
}

/// A page for an object, from the free list or, without one, from the page daemon.
pub(crate) fn page_alloc<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: Option<ObjectId>,
    pindex: u32,
) -> KResult<Frame> {
    c.charge(cpu, "vm_page_alloc");
    for _ in 0..PASSES_MAX {
        if c.vm().free_pages() == 0 {
            c.vm_pageout(cpu, 1);
        }
    }
    if object.is_some_and(|o| c.vm().lookup(o, pindex).is_some()) {
        return Err(Errno::EEXIST.into());
    }
    let Some(frame) = c.vm_mut().take_page(object, pindex) else {
        return Err(Errno::ENOMEM.into());
    };
    c.mark(cpu, machine::Mark::FrameAllocated(frame));
    c.step(cpu, machine::Step::Owner(frame));
    Ok(frame)
}

/// The page of an object, busy for the caller.
pub(crate) fn page_grab<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
) -> KResult<Frame> {
    let Some(frame) = c.vm().lookup(object, pindex) else {
        return page_alloc(c, cpu, Some(object), pindex);
    };
    let page = c.vm_mut().page_mut(frame);
    if page.in_use() {
        return Err(Stop::Wait(Channel::Page(frame)));
    }
    page.busy = true;
    Ok(frame)
}

/// Drops one reason not to take a page.
pub(crate) fn unwire<C: VmCtx + ?Sized>(c: &mut C, frame: Frame) {
    let page = c.vm_mut().page_mut(frame);
    page.wired = page.wired.saturating_sub(1);
    if page.wired == 0 && page.object.is_some() {
        c.vm_mut().requeue(frame, Queue::Inactive);
    }
}

/// Frees a page: out of its object and off its queue, its bytes without meaning.
pub(crate) fn page_free<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) {
    let waited = c.vm().page(frame).in_use();
    undirty(c, frame);
    c.vm_mut().give_page(frame);
    c.mark(cpu, machine::Mark::FrameFreed(frame));
    if waited {
        c.wakeup(Channel::Page(frame));
    }
}

/// Whether a page differs from its backing store; what the pmap noticed is taken over
/// (vm_page_test_dirty).
pub(crate) fn test_dirty<C: VmCtx + ?Sized>(c: &mut C, frame: Frame) -> bool {
    if c.pmap().page(frame).dirty {
        c.pmap_mut().page_mut(frame).dirty = false;
        let page = c.vm_mut().page_mut(frame);
        page.dirty |= page.valid;
    }
    c.vm().page(frame).dirty != 0
}

/// Forgets that a page is dirty (vm_page_undirty).
pub(crate) fn undirty<C: VmCtx + ?Sized>(c: &mut C, frame: Frame) {
    if c.pmap().page(frame).dirty {
        c.pmap_mut().page_mut(frame).dirty = false;
    }
    c.vm_mut().page_mut(frame).dirty = 0;
}
