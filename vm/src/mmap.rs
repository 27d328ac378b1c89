//! The mmap family on a map: insert, mmap, munmap, mprotect, msync, stacks.
//!
//! Source: FreeBSD `vm/vm_mmap.c`, `vm/vm_map.c` (vm_map_insert, vm_map_stack, vm_map_delete,
//! vm_map_protect, vm_map_sync), `vm/vm_map.c` (vm_map_pmap_enter). Absent: madvise, minherit,
//! mincore, MAP_NOSYNC, limits of a process's size.

use machine::{CpuId, VirtAddr};
use pmap::{PmapVerbs, Prot};

use crate::ctx::VmCtx;
use crate::map::Entry;
use crate::object;
use crate::page::VALID_ALL;
use crate::types::{Backing, Errno, KResult, MapFlags, MmapArgs, ObjectId, VmspaceId};
use crate::verbs::VmVerbs;
use crate::vm::operation;

/// Most pages that a prefaulting map enters at once (MAX_INIT_PT).
const PREFAULT_MAX: u32 = 96;

/// What [`insert`] enters.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub start: VirtAddr,
    pub end: VirtAddr,
    pub prot: Prot,
    pub max_prot: Prot,
    pub flags: MapFlags,
}

/// A page-aligned range of user addresses, from an address and a length.
fn user_range<C: VmCtx + ?Sized>(c: &C, addr: VirtAddr, len: u32) -> KResult<(u32, u32)> {
    let vm = c.vm();
    let aligned = vm.trunc(addr) == addr;
    let end = vm.round(len).and_then(|l| addr.0.checked_add(l));
    match end {
        Some(end) if aligned && addr >= vm.config.user_start && end <= vm.config.user_end.0 => {
            Ok((addr.0, end))
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// Room for two more entries, the most that one call adds.
fn check_room<C: VmCtx + ?Sized>(c: &C, space: VmspaceId) -> KResult<()> {
    let entries = c.vm().space(space).entries.len() as u32;
    match entries + 2 <= c.vm().config.entries_max {
        true => Ok(()),
        false => Err(Errno::ENOMEM.into()),
    }
}

/// Enters a range into a map.
pub(crate) fn insert<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    backing: Backing,
    range: Range,
) -> KResult<()> {
    c.charge(cpu, "vm_map_insert");
    let (start, end) = user_range(c, range.start, range.end.0.wrapping_sub(range.start.0))?;
    check_room(c, space)?;
    if start >= end || end != range.end.0 {
        return Err(Errno::EINVAL.into());
    }
    if !c.vm().space(space).is_free(start, end) {
        return Err(Errno::ENOMEM.into());
    }
    let (object, offset) = back(c, backing)?;
    let private = !range.flags.contains(MapFlags::SHARED) && object.is_some();
    c.vm_mut().space_mut(space).insert(Entry {
        start,
        end,
        object,
        offset,
        prot: range.prot,
        max_prot: range.max_prot,
        shared: range.flags.contains(MapFlags::SHARED),
        cow: private,
        needs_copy: private,
        stack_limit: start,
    });
    if range.flags.contains(MapFlags::PREFAULT) {
        map_pmap_enter(c, cpu, space, start);
    }
    Ok(())
}

/// The object and page offset behind a mapping, with a reference of its own.
fn back<C: VmCtx + ?Sized>(c: &mut C, backing: Backing) -> KResult<(Option<ObjectId>, u32)> {
    match backing {
        Backing::Anonymous => Ok((None, 0)),
        Backing::Object { object, offset } => {
            let page_bytes = c.vm().page_bytes();
            if offset % page_bytes != 0 {
                return Err(Errno::EINVAL.into());
            }
            let record = c.vm_mut().object_mut(object);
            record.refs += 1;
            record.onemapping = false;
            Ok((Some(object), offset / page_bytes))
        }
    }
}

/// Maps the resident pages of a new entry ahead of any fault, by index (vm_map_pmap_enter).
fn map_pmap_enter<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId, start: u32) {
    let page_bytes = c.vm().page_bytes();
    let Some(n) = c.vm().space(space).find(start) else {
        return;
    };
    let entry = c.vm().space(space).entries[n];
    let Some(object) = entry.object else { return };
    if !entry.prot.intersects(Prot::READ | Prot::EXEC) {
        return;
    }
    let pmap = c.vm().pmap_of(space);
    let last = entry
        .offset
        .saturating_add(entry.pages(page_bytes).min(PREFAULT_MAX));
    for frame in object::resident(c, object, entry.offset, last) {
        let page = c.vm().page(frame);
        if page.object == Some(object) && page.valid == VALID_ALL && !page.in_use() {
            let va = VirtAddr(start + (page.pindex - entry.offset) * page_bytes);
            c.pmap_enter_quick(cpu, pmap, va, frame, entry.prot);
        }
    }
}

/// A stack below `top`.
pub(crate) fn stack<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    top: VirtAddr,
    initial: u32,
    max: u32,
    prot: Prot,
) -> KResult<()> {
    let sizes = c.vm().round(initial.max(1)).zip(c.vm().round(max));
    let (initial, max) = sizes.ok_or(Errno::EINVAL)?;
    let start = top.0.checked_sub(initial).ok_or(Errno::EINVAL)?;
    let limit = top.0.saturating_sub(max).max(c.vm().config.user_start.0);
    let range = Range {
        start: VirtAddr(start),
        end: top,
        prot,
        max_prot: Prot::all(),
        flags: MapFlags::PRIVATE,
    };
    insert(c, cpu, space, Backing::Anonymous, range)?;
    let map = c.vm_mut().space_mut(space);
    if let Some(n) = map.find(start) {
        map.entries[n].stack_limit = limit.min(start);
    }
    Ok(())
}

/// mmap(2).
pub(crate) fn mmap<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    args: MmapArgs,
) -> KResult<VirtAddr> {
    let kinds = args.flags & (MapFlags::SHARED | MapFlags::PRIVATE);
    if args.len == 0 || kinds.bits().count_ones() != 1 {
        return Err(Errno::EINVAL.into());
    }
    let len = c.vm().round(args.len).ok_or(Errno::ENOMEM)?;
    let start = if args.flags.contains(MapFlags::FIXED) {
        let (start, end) = user_range(c, args.addr, len)?;
        check_room(c, space)?;
        delete(c, cpu, space, start, end);
        start
    } else {
        choose(c, space, args.addr, len)?
    };
    if args.flags.contains(MapFlags::STACK) {
        let top = VirtAddr(start + len);
        let page_bytes = c.vm().page_bytes();
        stack(c, cpu, space, top, page_bytes, len, args.prot)?;
        return Ok(VirtAddr(start));
    }
    let range = Range {
        start: VirtAddr(start),
        end: VirtAddr(start + len),
        prot: args.prot,
        max_prot: args.max_prot,
        flags: args.flags,
    };
    insert(c, cpu, space, args.backing, range)?;
    Ok(VirtAddr(start))
}

/// A free range at or above the hint, else at or above the default, else anywhere.
fn choose<C: VmCtx + ?Sized>(c: &C, space: VmspaceId, hint: VirtAddr, len: u32) -> KResult<u32> {
    let config = &c.vm().config;
    let map = c.vm().space(space);
    let hint = Some(c.vm().trunc(hint)).filter(|h| h.0 != 0 && *h >= config.user_start);
    [hint, Some(config.mmap_start), Some(config.user_start)]
        .into_iter()
        .flatten()
        .find_map(|from| map.find_space(from.0, len, config.user_end.0))
        .ok_or_else(|| Errno::ENOMEM.into())
}

/// munmap(2).
pub(crate) fn munmap<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    addr: VirtAddr,
    len: u32,
) -> KResult<()> {
    let (start, end) = user_range(c, addr, len)?;
    if len == 0 {
        return Err(Errno::EINVAL.into());
    }
    check_room(c, space)?;
    delete(c, cpu, space, start, end);
    Ok(())
}

/// Splits entries at both ends of a range and counts what the halves refer to.
fn clip<C: VmCtx + ?Sized>(c: &mut C, space: VmspaceId, start: u32, end: u32) {
    let page_bytes = c.vm().page_bytes();
    for at in [start, end] {
        let split = c.vm_mut().space_mut(space).clip(at, page_bytes);
        if let Some(object) = split {
            c.vm_mut().object_mut(object).refs += 1;
        }
    }
}

/// Unmaps a range and drops its entries (vm_map_delete): for each, first the mappings go, then the
/// pages that nobody else can see.
fn delete<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId, start: u32, end: u32) {
    operation(c, cpu, "vm_map_delete", |c| {
        clip(c, space, start, end);
        loop {
            let map = c.vm().space(space);
            let range = map.inside(start, end);
            if range.is_empty() {
                return;
            }
            let entry = map.entries[range.start];
            let pmap = map.pmap;
            c.pmap_remove(cpu, pmap, VirtAddr(entry.start), VirtAddr(entry.end));
            let map = c.vm_mut().space_mut(space);
            let Some(n) = map.find(entry.start) else {
                continue;
            };
            map.entries.remove(n);
            drop_object(c, cpu, &entry);
        }
    });
}

/// What a removed entry held of its object.
fn drop_object<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, entry: &Entry) {
    let Some(object) = entry.object else { return };
    let record = *c.vm().object(object);
    if record.vnode.is_none() && record.refs > 1 && record.onemapping {
        let pages = entry.pages(c.vm().page_bytes());
        // A busy page stays; it goes with the object.
        let _ = object::page_remove(c, cpu, object, entry.offset, entry.offset + pages);
    }
    object::deallocate(c, cpu, object);
}

/// mprotect(2).
pub(crate) fn mprotect<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    addr: VirtAddr,
    len: u32,
    prot: Prot,
) -> KResult<()> {
    operation(c, cpu, "vm_map_protect", |c| {
        let (start, end) = user_range(c, addr, len)?;
        check_room(c, space)?;
        if !c.vm().space(space).covers(start, end) {
            return Err(Errno::ENOMEM.into());
        }
        clip(c, space, start, end);
        let map = c.vm().space(space);
        let range = map.inside(start, end);
        if map.entries[range.clone()]
            .iter()
            .any(|e| !e.max_prot.contains(prot))
        {
            return Err(Errno::EACCES.into());
        }
        for n in range {
            protect_entry(c, cpu, space, n, prot);
        }
        Ok(())
    })
}

/// Changes one entry; rights that it loses are taken from the mapped pages, and a private copy not
/// made yet never gets write permission.
fn protect_entry<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId, n: usize, prot: Prot) {
    let pmap = c.vm().pmap_of(space);
    let entry = &mut c.vm_mut().space_mut(space).entries[n];
    let old = std::mem::replace(&mut entry.prot, prot);
    let allowed = match entry.cow {
        true => prot - Prot::WRITE,
        false => prot,
    };
    let (start, end) = (VirtAddr(entry.start), VirtAddr(entry.end));
    if !(old - prot).is_empty() {
        c.pmap_protect(cpu, pmap, start, end, allowed);
    }
}

/// msync(2).
pub(crate) fn msync<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    addr: VirtAddr,
    len: u32,
    invalidate: bool,
) -> KResult<()> {
    operation(c, cpu, "vm_map_sync", |c| {
        let (start, end) = user_range(c, addr, len)?;
        if !c.vm().space(space).covers(start, end) {
            return Err(Errno::EINVAL.into());
        }
        if invalidate {
            let pmap = c.vm().pmap_of(space);
            c.pmap_remove(cpu, pmap, addr, VirtAddr(end));
        }
        let mut at = start;
        while at < end {
            let map = c.vm().space(space);
            let Some(n) = map.find(at) else { break };
            let entry = map.entries[n];
            sync_entry(c, cpu, &entry, at, end.min(entry.end), invalidate)?;
            at = entry.end;
        }
        Ok(())
    })
}

/// Writes what `start..end` of an entry maps of a file, through its shadows.
fn sync_entry<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    entry: &Entry,
    start: u32,
    end: u32,
    invalidate: bool,
) -> KResult<()> {
    let page_bytes = c.vm().page_bytes();
    let Some(mut object) = entry.object else {
        return Ok(());
    };
    let mut first = entry.pindex(start, page_bytes);
    while let Some(backing) = c.vm().object(object).backing {
        first += c.vm().object(object).backing_offset;
        object = backing;
    }
    if c.vm().object(object).vnode.is_none() {
        return Ok(());
    }
    let last = first.saturating_add((end - start) / page_bytes);
    c.vm_object_page_clean(cpu, object, first, last, true)?;
    if invalidate {
        drop_clean(c, cpu, object, first, last);
    }
    Ok(())
}

/// Frees the clean pages of a range that nobody holds.
fn drop_clean<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId, first: u32, last: u32) {
    for frame in object::resident(c, object, first, last) {
        let dirty = object::test_dirty(c, frame);
        let page = c.vm().page(frame);
        let held = page.in_use() || page.wired > 0 || dirty;
        if page.object == Some(object) && !held {
            c.pmap_remove_all(cpu, frame);
            c.vm_page_free(cpu, frame);
        }
    }
}
