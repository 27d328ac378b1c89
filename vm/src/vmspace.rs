//! Spaces: made, forked, switched to, emptied and given back.
//!
//! Source: FreeBSD `vm/vm_map.c` (vmspace_alloc, vmspace_fork, vmspace_exec, vmspace_exit),
//! `kern/sched_4bsd.c` for the switch. Absent: spaces shared by rfork, the resource limits.

use machine::{CpuId, VirtAddr};
use pmap::{PmapVerbs, Prot};

use crate::ctx::VmCtx;
use crate::map::{Entry, Vmspace};
use crate::object;
use crate::types::{Errno, KResult, VmspaceId};
use crate::vm::operation;

/// A new, empty space.
pub(crate) fn alloc<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId) -> KResult<VmspaceId> {
    let slot = c.vm().spaces.iter().position(|s| !s.live);
    let full = c.vm().spaces.len() as u32 >= c.vm().config.tables_max;
    if slot.is_none() && full {
        return Err(Errno::EAGAIN.into());
    }
    let Some(pmap) = c.pmap_create(cpu) else {
        return Err(Errno::EAGAIN.into());
    };
    let new = Vmspace {
        live: true,
        pmap,
        entries: Vec::new(),
    };
    let slot = c.vm().spaces.iter().position(|s| !s.live);
    let spaces = &mut c.vm_mut().spaces;
    let n = slot.unwrap_or(spaces.len());
    match slot {
        Some(n) => spaces[n] = new,
        None => spaces.push(new),
    }
    Ok(VmspaceId(n as u32))
}

/// Unmaps everything, then drops what the map refers to.
pub(crate) fn clear<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId) {
    let pmap = c.vm().pmap_of(space);
    c.pmap_remove_pages(cpu, pmap);
    let entries = std::mem::take(&mut c.vm_mut().space_mut(space).entries);
    entries
        .iter()
        .filter_map(|e| e.object)
        .for_each(|o| object::deallocate(c, cpu, o));
}

/// Gives a space back.
pub(crate) fn free<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId) {
    operation(c, cpu, "vmspace_exit", |c| {
        if !c.vm().space(space).live {
            return;
        }
        clear(c, cpu, space);
        let pmap = c.vm().pmap_of(space);
        c.pmap_release(cpu, pmap);
        let vm = c.vm_mut();
        vm.space_mut(space).live = false;
        let current = vm.current.iter_mut().filter(|s| **s == Some(space));
        current.for_each(|s| *s = None);
    });
}

/// A child's space.
pub(crate) fn fork<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    parent: VmspaceId,
) -> KResult<VmspaceId> {
    operation(c, cpu, "vmspace_fork", |c| {
        let child = alloc(c, cpu)?;
        let mut n = 0;
        while n < c.vm().space(parent).entries.len() {
            let copy = match c.vm().space(parent).entries[n].shared {
                true => fork_shared(c, parent, n),
                false => fork_private(c, cpu, parent, n),
            };
            match copy {
                Ok(copy) => c.vm_mut().space_mut(child).entries.push(copy),
                Err(stop) => {
                    free(c, cpu, child);
                    return Err(stop);
                }
            }
            n += 1;
        }
        Ok(child)
    })
}

/// A shared entry: both map one object, which must exist from now on.
fn fork_shared<C: VmCtx + ?Sized>(c: &mut C, parent: VmspaceId, n: usize) -> KResult<Entry> {
    let page_bytes = c.vm().page_bytes();
    let entry = c.vm().space(parent).entries[n];
    let object = match entry.object {
        Some(object) => object,
        None => {
            let object = object::allocate(c, None, entry.pages(page_bytes))?;
            let entry = &mut c.vm_mut().space_mut(parent).entries[n];
            (entry.object, entry.offset) = (Some(object), 0);
            object
        }
    };
    let record = c.vm_mut().object_mut(object);
    record.refs += 1;
    record.onemapping = false;
    Ok(c.vm().space(parent).entries[n])
}

/// A private entry: the parent's pages lose write permission, and both sides copy at their next
/// store. What is already copy-on-write is write-protected already.
fn fork_private<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    parent: VmspaceId,
    n: usize,
) -> KResult<Entry> {
    let entry = c.vm().space(parent).entries[n];
    let Some(object) = entry.object else {
        return Ok(entry);
    };
    if !entry.needs_copy {
        let pmap = c.vm().pmap_of(parent);
        let (start, end) = (VirtAddr(entry.start), VirtAddr(entry.end));
        c.pmap_protect(cpu, pmap, start, end, entry.prot - Prot::WRITE);
    }
    object::collapse(c, cpu, object);
    let record = c.vm_mut().object_mut(object);
    record.refs += 1;
    record.onemapping = false;
    let entry = &mut c.vm_mut().space_mut(parent).entries[n];
    (entry.cow, entry.needs_copy) = (true, true);
    Ok(*entry)
}

/// Switches this CPU to a process's space, or to a kernel thread.
pub(crate) fn switch<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, to: Option<VmspaceId>) {
    let pmap = to.map(|s| c.vm().pmap_of(s));
    set_current(c, cpu, to);
    c.cpu_switch(cpu, pmap);
}

/// Makes a space this CPU's at exec.
pub(crate) fn activate<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId) {
    let pmap = c.vm().pmap_of(space);
    set_current(c, cpu, Some(space));
    c.pmap_activate(cpu, pmap);
}

fn set_current<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: Option<VmspaceId>) {
    let vm = c.vm_mut();
    let n = usize::from(cpu.0) % vm.current.len();
    vm.current[n] = space;
}

/// Whether `space` is what this CPU's process has.
pub(crate) fn is_current<C: VmCtx + ?Sized>(c: &C, cpu: CpuId, space: VmspaceId) -> bool {
    c.vm().current(cpu) == Some(space)
}

/// Empties a space for a new image.
pub(crate) fn exec<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, space: VmspaceId) {
    operation(c, cpu, "vmspace_exec", |c| {
        c.charge(cpu, "vm_map_remove");
        clear(c, cpu, space);
    });
}
