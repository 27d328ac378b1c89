//! Taking rights and marks away: `pmap_protect`, `pmap_clearbit` and its callers, `pmap_fault_fixup`.

use machine::{Access, CpuId, Frame, VirtAddr};

use crate::ask::{About, ask, find, mapping, store_entry};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Verb};
use crate::lock;
use crate::pv;
use crate::skeleton::Part;
use crate::state::PvEntry;
use crate::table;
use crate::types::{Prot, PvFlags, SpaceId};
use crate::verbs::{enter, remove};

/// `pmap_protect`: takes write permission; without read it removes. Never gives any.
pub(crate) fn protect<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    (start, end): (VirtAddr, VirtAddr),
    prot: Prot,
) {
    if !prot.contains(Prot::READ) {
        return remove::remove(c, cpu, space, start, end);
    }
    if prot.contains(Prot::WRITE) {
        return;
    }
    c.charge(cpu, "pmap_protect");
    lock::acquire(c, cpu);
    let (verb, len) = (Verb::Protect, end.0 - start.0);
    let about = remove::space_subject(c, cpu, space, start);
    ask(c, cpu, Hook::Begins { verb, start, len }, about);
    let page = c.pmap().layout.page;
    let single = len < 4 * page;
    let (mut pages, mut flags) = (0, PvFlags::empty());
    for va in (start.0..end.0).step_by(page as usize).map(VirtAddr) {
        if table::slot(c.pmap(), space, va).is_some()
            && let Some(of_page) = protect_page(c, cpu, space, va, single)
        {
            pages += 1;
            flags |= of_page;
        }
    }
    // What is flushed at the end depends on what any of them was.
    let mut about = about;
    if let Some(subject) = &mut about.subject {
        subject.flags = flags;
    }
    ask(
        c,
        cpu,
        Hook::Ends {
            verb,
            pages,
            start,
            len,
        },
        about,
    );
    lock::release(c, cpu);
}

fn protect_page<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
    single: bool,
) -> Option<PvFlags> {
    let old = table::read(c, cpu, space, va);
    if !old.present() || !old.writable() {
        return None;
    }
    let (frame, verb) = (old.frame(), Verb::Protect);
    let new = old.with_write(false);
    let live = c.policy().skeleton.current_is_live;
    let flags = remove::flags_of(c, frame, space, va);
    let subject = Some(mapping(c.pmap(), cpu, (space, va), flags, old, live));
    for part in c.policy().skeleton.protect.clone().iter() {
        match part {
            Part::Break => enter::break_entry(c, cpu, space, va),
            Part::Store => store_entry(c, cpu, space, va, new),
            Part::Sync => table::sync(c, cpu, space, va),
            Part::Retrack | Part::Reflag => {
                let at = (space, va, frame);
                if *part == Part::Retrack {
                    pv::modify(c, cpu, at, PvFlags::WRITE, PvFlags::empty());
                } else {
                    pv::modify_quietly(c, cpu, at, PvFlags::WRITE, PvFlags::empty());
                }
                c.pmap_mut().page_mut(frame).dirty = true;
            }
            Part::Stored if single => {
                let about = About {
                    frame: Some(frame),
                    subject,
                };
                ask(c, cpu, Hook::Stored { verb, old, new }, about);
            }
            _ => {}
        }
    }
    Some(flags)
}

/// `pmap_remove_write`: does nothing unless the page is writeable through a managed mapping.
pub(crate) fn remove_write<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) {
    if c.pmap().page(frame).writeable {
        clearbit(c, cpu, frame, Verb::ClearWrite);
    }
}

/// `pmap_clear_modify`.
pub(crate) fn clear_modify<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) {
    let page = c.pmap().page(frame);
    if page.writeable && page.attrs.contains(PvFlags::MOD) {
        clearbit(c, cpu, frame, Verb::ClearModify);
    }
}

/// `pmap_clearbit`: unmanaged kernel mappings are not exempt unless the skeleton says so (B26).
pub(crate) fn clearbit<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame, verb: Verb) {
    c.charge(cpu, "pmap_clearbit");
    lock::acquire(c, cpu);
    let mask = match verb {
        Verb::ClearWrite => PvFlags::WRITE | PvFlags::MOD,
        Verb::ClearModify => PvFlags::MOD,
        _ => PvFlags::REF,
    };
    c.pmap_mut().page_mut(frame).attrs -= mask & (PvFlags::MOD | PvFlags::REF);
    if c.pmap().mappings(frame).next().is_none() {
        return lock::release(c, cpu);
    }
    let skips = c.policy().skeleton.clearbit_skips_unmanaged;
    let exempt = |e: &PvEntry| skips && e.flags.contains(PvFlags::UNMAN);
    let all = c.pmap().mappings(frame).copied();
    let entries: Vec<PvEntry> = all.filter(|e| !exempt(e)).collect();
    for entry in &entries {
        clear_one(c, cpu, entry, verb, mask);
    }
    if verb == Verb::ClearWrite {
        c.pmap_mut().page_mut(frame).writeable = false;
    }
    ended(c, cpu, frame, verb, entries.len() as u32);
    lock::release(c, cpu);
}

fn ended<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame, verb: Verb, pages: u32) {
    let hook = Hook::Ends {
        verb,
        pages,
        start: VirtAddr(0),
        len: 0,
    };
    let about = About {
        frame: Some(frame),
        subject: None,
    };
    ask(c, cpu, hook, about);
}

fn clear_one<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    entry: &PvEntry,
    verb: Verb,
    mask: PvFlags,
) {
    let live = c.policy().skeleton.current_is_live;
    let (space, va, frame) = (entry.space, entry.va, entry.frame);
    let old = entry.pte;
    let has = entry.flags.intersects(mask);
    let (counting, flags_only) = {
        let skeleton = &c.policy().skeleton;
        (skeleton.counting, skeleton.clearbit_flags_only)
    };
    if let Some(e) = find(c.pmap_mut(), Some(frame), space, va) {
        e.flags -= mask;
    }
    if flags_only {
        return;
    }
    let flip = (entry.flags, entry.flags - mask);
    let counts = &mut c.pmap_mut().page_mut(frame).counts;
    counts.changed(counting, space, flip);
    let cleared = match verb {
        _ if !has => old,
        Verb::ClearReference => old.with_valid(false),
        _ => old.with_write(false),
    };
    if has && verb != Verb::ClearReference && old.writable() && !entry.flags.contains(PvFlags::NC) {
        c.pmap_mut().page_mut(frame).dirty = true;
    }
    let subject = Some(mapping(c.pmap(), cpu, (space, va), entry.flags, old, live));
    let about = About {
        frame: Some(frame),
        subject,
    };
    ask(
        c,
        cpu,
        Hook::WillStore {
            verb,
            old,
            new: cleared,
        },
        about,
    );
    // The rule may have changed the entry's C and B.
    let now = find(c.pmap_mut(), Some(frame), space, va).map_or(old, |e| e.pte);
    let new = match verb {
        _ if !has => return,
        Verb::ClearReference => now.with_valid(false),
        _ => now.with_write(false),
    };
    if new != old {
        store_entry(c, cpu, space, va, new);
        table::sync(c, cpu, space, va);
        ask(c, cpu, Hook::Stored { verb, old, new }, about);
    }
}

/// `pmap_fault_fixup`: modified and referenced emulation, the first-level slot of another space, and a
/// TLB copy that is older than the table.
pub(crate) fn fault_fixup<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va): (SpaceId, VirtAddr),
    access: Access,
    user: bool,
) -> bool {
    c.charge(cpu, "pmap_fault_fixup");
    let va = c.pmap().layout.page_of(va);
    let Some(space) = fixed_space(c, space, va) else {
        return false;
    };
    let old = table::read(c, cpu, space, va);
    if !old.present() || (user && !old.user()) {
        return false;
    }
    lock::acquire(c, cpu);
    let old = armed(c, cpu, (space, va), old, access);
    let fixed = emulate(c, cpu, (space, va), old, access);
    if fixed {
        table::fix_slot(c, cpu, space, va);
        let live = c.policy().skeleton.current_is_live;
        let flags = remove::flags_of(c, old.frame(), space, va);
        let subject = Some(mapping(c.pmap(), cpu, (space, va), flags, old, live));
        ask(
            c,
            cpu,
            Hook::Fixed(access),
            About {
                frame: Some(old.frame()),
                subject,
            },
        );
    }
    lock::release(c, cpu);
    fixed
}

/// The space in which a fault at `va` is looked up. The abort handler names that of the process that
/// runs, also for a kernel address: there is nothing to repair there then, unless the skeleton says that
/// kernel faults are fixed too.
fn fixed_space<C: PmapCtx + ?Sized>(c: &C, space: SpaceId, va: VirtAddr) -> Option<SpaceId> {
    let kernel = c.pmap().layout.is_kernel(va);
    if kernel && c.policy().skeleton.kernel_faults_fixed {
        return Some(SpaceId::KERNEL);
    }
    (kernel == space.is_kernel()).then_some(space)
}

/// Asks the rule about a store that an unmanaged mapping's entry forbids; returns the entry after that.
fn armed<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va): (SpaceId, VirtAddr),
    old: machine::Pte,
    access: Access,
) -> machine::Pte {
    let flags = remove::flags_of(c, old.frame(), space, va);
    let refused = access == Access::Store && !old.writable() && !flags.contains(PvFlags::WRITE);
    if !refused || !space.is_kernel() {
        return old;
    }
    let live = c.policy().skeleton.current_is_live;
    let subject = Some(mapping(c.pmap(), cpu, (space, va), flags, old, live));
    let frame = Some(old.frame());
    ask(c, cpu, Hook::Fault(access), About { frame, subject });
    table::read(c, cpu, space, va)
}

fn emulate<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va): (SpaceId, VirtAddr),
    old: machine::Pte,
    access: Access,
) -> bool {
    let frame = old.frame();
    let mut new = old;
    let mut marks = PvFlags::empty();
    if access == Access::Store && !old.writable() {
        if !remove::flags_of(c, frame, space, va).contains(PvFlags::WRITE) {
            return false;
        }
        marks = PvFlags::REF | PvFlags::MOD;
        new = new.with_valid(true).with_write(true);
    } else if !old.valid() {
        marks = PvFlags::REF;
        new = new.with_valid(true);
    }
    if new != old {
        let pmap = c.pmap_mut();
        if let Some(entry) = find(pmap, Some(frame), space, va) {
            entry.flags |= marks;
        }
        let page = pmap.page_mut(frame);
        page.attrs |= marks;
        page.dirty |= marks.contains(PvFlags::MOD);
        store_entry(c, cpu, space, va, new);
        table::sync(c, cpu, space, va);
    }
    true
}
