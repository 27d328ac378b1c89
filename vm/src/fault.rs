//! Page faults.
//!
//! Source: FreeBSD `vm/vm_fault.c` (vm_fault, vm_fault_prefault, vm_fault_additional_pages),
//! `arm/arm/trap.c` (data_abort_handler, prefetch_abort_handler). A fault is a loop of turns. Each
//! looks everything up anew and then either maps the page and ends, or does one thing that brings
//! this nearer: makes the private object, brings a page in, zeroes one, copies one. So nothing that
//! another CPU can change is remembered across what it can see.
//!
//! Absent: wiring, swap, the rename of a page instead of its copy where a shadow is the only user.

use machine::{Abort, Access, CpuId, Fault, Frame, Mark, VirtAddr};
use pmap::{PmapVerbs, Prot, SpaceId};

use crate::ctx::VmCtx;
use crate::map::Entry;
use crate::object;
use crate::page::{Queue, VALID_ALL};
use crate::types::{Channel, Errno, KResult, ObjectId, Stop, VmspaceId};
use crate::verbs::VmVerbs;
use crate::vm::operation;
use crate::vmspace::is_current;

/// Turns of one fault before it counts as a hang: a chain is walked, not climbed, so that few are
/// needed.
const TURNS_MAX: u32 = 32;

/// What a turn did.
enum Turn {
    /// The page is mapped.
    Done(Frame),
    /// It came nearer.
    Again,
}

/// Where the page was found, or where it must be made.
enum Found {
    /// Resident and valid, in the object that the entry names or in one behind it.
    Resident { frame: Frame, first: bool },
    /// A file's page that is not resident.
    Absent { object: ObjectId, pindex: u32 },
    /// Nowhere: zeros.
    Nowhere,
}

/// Who needs the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// The program, or the kernel on its behalf.
    Access,
    /// A debugger, who stores through a mapping of his own.
    Hold,
}

/// The rights that an access needs.
fn needed(access: Access) -> Prot {
    match access {
        Access::Fetch => Prot::EXEC,
        Access::Load => Prot::READ,
        Access::Store => Prot::WRITE,
    }
}

/// Whether an entry admits an access. A held store may override write protection
/// (VM_PROT_OVERRIDE_WRITE) where the program might have had it and the store goes to a private copy.
fn admits(entry: &Entry, access: Access, holder: For) -> bool {
    let overrides = holder == For::Hold && access == Access::Store && !entry.shared;
    let prot = if overrides {
        entry.max_prot
    } else {
        entry.prot
    };
    prot.contains(needed(access))
}

/// Resolves a fault; returns the frame now mapped, with the entry's rights and no more.
pub(crate) fn fault<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    va: VirtAddr,
    access: Access,
    holder: For,
) -> KResult<Frame> {
    operation(c, cpu, "vm_fault", |c| {
        let va = c.vm().trunc(va);
        for _ in 0..TURNS_MAX {
            if let Turn::Done(frame) = turn(c, cpu, space, va, access, holder)? {
                if access != Access::Store {
                    prefault(c, cpu, space, va);
                }
                return Ok(frame);
            }
        }
        c.mark(cpu, Mark::Hang(format!("vm_fault at {va} does not end")));
        Err(Errno::EFAULT.into())
    })
}

/// One turn.
fn turn<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    va: VirtAddr,
    access: Access,
    holder: For,
) -> KResult<Turn> {
    let n = entry_for(c, space, va)?;
    let entry = c.vm().space(space).entries[n];
    if !admits(&entry, access, holder) {
        return Err(Errno::EACCES.into());
    }
    let write = access == Access::Store;
    let Some(first) = entry.object else {
        own_object(c, space, n, None)?;
        return Ok(Turn::Again);
    };
    if write && entry.needs_copy {
        own_object(c, space, n, Some(first))?;
        return Ok(Turn::Again);
    }
    let page_bytes = c.vm().page_bytes();
    let pindex = entry.pindex(va.0, page_bytes);
    match find(c, first, pindex)? {
        Found::Absent { object, pindex } => {
            page_in(c, cpu, space, va, object, pindex)?;
            Ok(Turn::Again)
        }
        Found::Nowhere => zero_fill(c, cpu, first, pindex).map(|()| Turn::Again),
        Found::Resident {
            frame,
            first: false,
        } if write => copy_up(c, cpu, first, pindex, frame).map(|()| Turn::Again),
        Found::Resident { frame, first } => {
            let mut prot = entry.prot;
            if entry.needs_copy || !first {
                prot -= Prot::WRITE;
            }
            map_page(c, cpu, space, va, frame, prot)?;
            Ok(Turn::Done(frame))
        }
    }
}

/// The entry that holds an address; a stack is grown down to it.
fn entry_for<C: VmCtx + ?Sized>(c: &mut C, space: VmspaceId, va: VirtAddr) -> KResult<usize> {
    let page_bytes = c.vm().page_bytes();
    let map = c.vm_mut().space_mut(space);
    if map.find(va.0).is_none() && !map.grow_stack(va.0, page_bytes) {
        return Err(Errno::EFAULT.into());
    }
    map.find(va.0).ok_or_else(|| Errno::EFAULT.into())
}

/// Gives an entry an object of its own: a first anonymous one, or a shadow of what it shares.
fn own_object<C: VmCtx + ?Sized>(
    c: &mut C,
    space: VmspaceId,
    n: usize,
    source: Option<ObjectId>,
) -> KResult<()> {
    let page_bytes = c.vm().page_bytes();
    let entry = c.vm().space(space).entries[n];
    let pages = entry.pages(page_bytes);
    let (object, offset) = match source {
        None => (object::allocate(c, None, pages)?, 0),
        Some(source) => object::shadow(c, source, entry.offset, pages)?,
    };
    let entry = &mut c.vm_mut().space_mut(space).entries[n];
    (entry.object, entry.offset) = (Some(object), offset);
    entry.needs_copy = false;
    Ok(())
}

/// Walks the chain of objects for a page.
fn find<C: VmCtx + ?Sized>(c: &C, first: ObjectId, pindex: u32) -> KResult<Found> {
    let (mut object, mut at) = (first, pindex);
    loop {
        let record = c.vm().object(object);
        if let Some(frame) = c.vm().lookup(object, at) {
            let page = c.vm().page(frame);
            if page.busy {
                return Err(Stop::Wait(Channel::Page(frame)));
            }
            if page.valid == VALID_ALL {
                let first = object == first;
                return Ok(Found::Resident { frame, first });
            }
            if page.io > 0 {
                return Err(Stop::Wait(Channel::Page(frame)));
            }
        }
        if record.vnode.is_some() {
            if at >= record.pages {
                return Err(Errno::EFAULT.into());
            }
            return Ok(Found::Absent { object, pindex: at });
        }
        let Some(backing) = record.backing else {
            return Ok(Found::Nowhere);
        };
        at += record.backing_offset;
        object = backing;
    }
}

/// Brings a file's page in, with neighbours that the same transfer can have.
fn page_in<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    va: VirtAddr,
    object: ObjectId,
    pindex: u32,
) -> KResult<()> {
    if c.vm().lookup(object, pindex).is_some() {
        // Partly valid: its buffer has only a part of it. Read it alone.
        c.vm_page_grab(cpu, object, pindex)?;
        return c.pager_getpages(cpu, object, pindex, 1);
    }
    let (before, after) = c.pager_haspage(cpu, object, pindex).ok_or(Errno::EIO)?;
    let page_bytes = c.vm().page_bytes();
    let n = entry_for(c, space, va)?;
    let entry = c.vm().space(space).entries[n];
    let config = c.vm().config;
    let behind = before
        .min(config.read_behind)
        .min((va.0 - entry.start) / page_bytes);
    let ahead = after
        .min(config.read_ahead)
        .min((entry.end - va.0) / page_bytes - 1);
    c.vm_page_alloc(cpu, Some(object), pindex)?;
    let mut start = pindex;
    while pindex - start < behind && neighbour(c, cpu, object, start - 1) {
        start -= 1;
    }
    let mut end = pindex + 1;
    while end - pindex <= ahead && neighbour(c, cpu, object, end) {
        end += 1;
    }
    c.pager_getpages(cpu, object, start, end - start)
}

/// Allocates a page for read-ahead, if it is absent and memory is not short.
fn neighbour<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, object: ObjectId, pindex: u32) -> bool {
    let vm = c.vm();
    let wanted = pindex < vm.object(object).pages && vm.lookup(object, pindex).is_none();
    wanted && vm.free_pages() > 0 && c.vm_page_alloc(cpu, Some(object), pindex).is_ok()
}

/// A page of zeros.
fn zero_fill<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
) -> KResult<()> {
    let frame = c.vm_page_grab(cpu, object, pindex)?;
    c.pmap_zero_page(cpu, frame);
    finish(c, frame);
    Ok(())
}

/// A private copy of a page found behind the entry's object.
fn copy_up<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    object: ObjectId,
    pindex: u32,
    from: Frame,
) -> KResult<()> {
    // The source is kept from the page daemon while the copy's page is found.
    c.vm_page_wire(from);
    let to = c.vm_page_grab(cpu, object, pindex);
    if let Ok(to) = to {
        c.pmap_copy_page(cpu, from, to);
    }
    c.vm_page_unwire(from);
    c.vm_mut().requeue(from, Queue::Active);
    finish(c, to?);
    object::collapse(c, cpu, object);
    Ok(())
}

/// A page made from nothing or by copy is whole, and nowhere else.
fn finish<C: VmCtx + ?Sized>(c: &mut C, frame: Frame) {
    let page = c.vm_mut().page_mut(frame);
    (page.valid, page.dirty) = (VALID_ALL, VALID_ALL);
    c.vm_page_wakeup(frame);
    c.vm_mut().requeue(frame, Queue::Active);
}

/// Maps a page. A writable mapping counts as modified from birth.
fn map_page<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    va: VirtAddr,
    frame: Frame,
    prot: Prot,
) -> KResult<()> {
    if prot.contains(Prot::WRITE) {
        c.vm_mut().page_mut(frame).dirty = VALID_ALL;
    }
    c.vm_mut().requeue(frame, Queue::Active);
    let pmap = c.vm().pmap_of(space);
    match c.pmap_enter(cpu, pmap, va, frame, prot, false) {
        true => Ok(()),
        false => Err(Errno::ENOMEM.into()),
    }
}

/// Maps resident neighbours read-only, the nearest first (vm_fault_prefault).
fn prefault<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId, va: VirtAddr) {
    let config = c.vm().config;
    if !config.prefault || !is_current(c, cpu, space) {
        return;
    }
    let page_bytes = c.vm().page_bytes();
    for n in 1..=config.prefault_pages {
        let below = va.0.checked_sub(n * page_bytes);
        let above = va.0.checked_add(n * page_bytes);
        for at in [below, above].into_iter().flatten() {
            prefault_page(c, cpu, space, va, VirtAddr(at));
        }
    }
}

/// Maps one neighbour in the same entry if its page is resident and nothing is mapped there yet.
fn prefault_page<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    va: VirtAddr,
    at: VirtAddr,
) {
    let map = c.vm().space(space);
    let Some(n) = map.find(va.0) else { return };
    let entry: Entry = map.entries[n];
    let pmap = map.pmap;
    let Some(first) = entry.object else { return };
    if at.0 < entry.start || at.0 >= entry.end || c.pmap_extract(pmap, at).is_some() {
        return;
    }
    let pindex = entry.pindex(at.0, c.vm().page_bytes());
    if let Ok(Found::Resident { frame, .. }) = find(c, first, pindex) {
        c.pmap_enter_quick(cpu, pmap, at, frame, entry.prot);
    }
}

/// An abort: the pmap's own, or the map's, or a kernel address that nobody may fault on.
pub(crate) fn trap<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    abort: Abort,
    user: bool,
) -> KResult<()> {
    c.charge(cpu, "data_abort_handler");
    let kernel = abort.va >= c.vm().config.user_end;
    if matches!(abort.fault, Fault::Alignment | Fault::External) {
        return match user {
            true => Err(Errno::EFAULT.into()),
            false => panic(c, cpu, format!("fatal kernel abort at {}", abort.va)),
        };
    }
    let space = c.vm().current(cpu);
    let pmap = space.map_or(SpaceId::KERNEL, |s| c.vm().pmap_of(s));
    if c.pmap_fault_fixup(cpu, pmap, abort.va, abort.access, user) {
        return Ok(());
    }
    match space {
        Some(space) if !kernel => {
            fault(c, cpu, space, abort.va, abort.access, For::Access).map(|_| ())
        }
        _ if user => Err(Errno::EFAULT.into()),
        _ => {
            let va = abort.va;
            panic(
                c,
                cpu,
                format!("vm_fault: fault on nofault entry, addr: {va}"),
            )
        }
    }
}

/// The kernel panics.
pub(crate) fn panic<C: VmCtx + ?Sized, T>(c: &mut C, cpu: CpuId, why: String) -> KResult<T> {
    c.mark(cpu, Mark::Panic(why.clone()));
    Err(Stop::Panic(why))
}
