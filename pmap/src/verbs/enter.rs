//! `pmap_enter`: map a page, or change what is mapped (FreeBSD `pmap_enter_locked`).

use machine::{Ap, CpuId, Frame, Pte, VirtAddr};

use crate::ask::{About, ask, find, mapping, store_entry};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Verb};
use crate::lock;
use crate::pv;
use crate::skeleton::Part;
use crate::table;
use crate::types::{Prot, PvFlags, SpaceId};
use crate::verbs::remove;

/// What one call of enter or kenter works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entering {
    pub verb: Verb,
    pub space: SpaceId,
    pub va: VirtAddr,
    pub frame: Frame,
    pub flags: PvFlags,
    pub old: Pte,
    pub old_flags: PvFlags,
    pub new: Pte,
}

/// The rights of an entry for `prot` in a space.
pub(crate) fn rights(space: SpaceId, prot: Prot) -> Ap {
    match (space.is_kernel(), prot.contains(Prot::WRITE)) {
        (true, true) => Ap::Kernel,
        (true, false) => Ap::KernelRead,
        (false, true) => Ap::User,
        (false, false) => Ap::UserRead,
    }
}

/// Flags at birth: every writable mapping is modified, every mapping referenced (1.3).
fn birth_flags(prot: Prot, wired: bool) -> PvFlags {
    let mut flags = PvFlags::empty();
    flags.set(PvFlags::REF, !prot.is_empty());
    flags.set(PvFlags::WRITE | PvFlags::MOD, prot.contains(Prot::WRITE));
    flags.set(PvFlags::EXEC, prot.contains(Prot::EXEC));
    flags.set(PvFlags::WIRED, wired);
    flags
}

/// Carries `pmap_enter` out. False when there is no memory for a table.
pub(crate) fn enter<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va): (SpaceId, VirtAddr),
    frame: Frame,
    prot: Prot,
    wired: bool,
) -> bool {
    c.charge(cpu, "pmap_enter");
    lock::acquire(c, cpu);
    let made = table::ensure(c, cpu, space, va);
    if made {
        let old = table::read(c, cpu, space, va);
        let mut flags = birth_flags(prot, wired);
        let page = c.pmap_mut().page_mut(frame);
        flags |= page.attrs & PvFlags::MOD;
        page.writeable |= prot.contains(Prot::WRITE);
        let uncacheable = page.uncacheable;
        let new = Pte::new(frame, rights(space, prot)).with_cache(!uncacheable);
        let verb = Verb::Enter;
        let old_flags = PvFlags::empty();
        let it = Entering {
            verb,
            space,
            va,
            frame,
            flags,
            old,
            old_flags,
            new,
        };
        dispatch(c, cpu, it);
        if flags.contains(PvFlags::MOD) {
            c.pmap_mut().page_mut(frame).dirty = true;
        }
    }
    lock::release(c, cpu);
    made
}

fn dispatch<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, mut it: Entering) {
    let skeleton = &c.policy().skeleton;
    let (new, same) = (skeleton.enter_new.clone(), skeleton.enter_same.clone());
    if !it.old.present() {
        table::count(c.pmap_mut(), it.space, it.va, 1);
        return run(c, cpu, it, &new);
    }
    if it.old.frame() == it.frame {
        return run(c, cpu, it, &same);
    }
    let parts = skeleton.enter_other.clone();
    let gone = remove::leave(c, cpu, Verb::Enter, (it.space, it.va), it.old, 0, &parts);
    it.old_flags = gone.map_or(PvFlags::empty(), |m| m.flags);
    if parts.contains(&Part::Zero) {
        // The old entry was counted out when it was zeroed.
        table::count(c.pmap_mut(), it.space, it.va, 1);
    }
    run(c, cpu, it, &new);
}

/// Carries a list of parts out. If the entry does not differ ("just a wiring change"), nothing is stored,
/// flushed or decided anew: only the flags change.
pub(crate) fn run<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, mut it: Entering, parts: &[Part]) {
    for part in parts {
        match part {
            Part::Track => track(c, &it),
            Part::Retrack | Part::Reflag => retrack(c, cpu, &mut it, *part),
            Part::Break if it.old.present() && it.old != it.new => {
                break_entry(c, cpu, it.space, it.va);
            }
            Part::Store if it.old != it.new || it.verb == Verb::Kenter => {
                store_entry(c, cpu, it.space, it.va, it.new);
            }
            Part::Sync if it.old != it.new => table::sync(c, cpu, it.space, it.va),
            Part::FixSlot if c.pmap().is_current(cpu, it.space) => {
                table::fix_slot(c, cpu, it.space, it.va);
            }
            Part::WillStore => ask_old(c, cpu, &it, |old, new, verb| Hook::WillStore {
                verb,
                old,
                new,
            }),
            Part::Stored if it.old != it.new => ask_old(c, cpu, &it, |old, new, verb| {
                Hook::Stored { verb, old, new }
            }),
            Part::Entered if it.old != it.new => {
                entered(c, cpu, &it);
                if it.verb == Verb::Enter {
                    c.pmap_mut().settle_writers(it.frame);
                }
            }
            _ => {}
        }
    }
}

/// Zeroes an entry that is about to be replaced.
pub(crate) fn break_entry<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) {
    table::store(c, cpu, space, va, Pte::ZERO);
    table::sync(c, cpu, space, va);
}

fn track<C: PmapCtx + ?Sized>(c: &mut C, it: &Entering) {
    let counting = c.policy().skeleton.counting;
    let counts = &mut c.pmap_mut().page_mut(it.frame).counts;
    counts.entered(counting, it.space, it.flags);
    if it.flags.contains(PvFlags::UNMAN) {
        pv::enter_kernel(c, (it.va, it.frame), it.flags, it.new);
    } else {
        let entry = pv::new_entry(it.space, it.va, it.frame, it.flags, it.new);
        pv::enter(c, entry);
    }
}

fn retrack<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, it: &mut Entering, part: Part) {
    let clear = PvFlags::WRITE | PvFlags::EXEC | PvFlags::WIRED | PvFlags::MOD | PvFlags::REF;
    let at = (it.space, it.va, it.frame);
    let old = match part {
        Part::Reflag => pv::modify_quietly(c, cpu, at, clear, it.flags).map(|(old, _)| old),
        _ => pv::modify(c, cpu, at, clear, it.flags),
    };
    it.old_flags = old.unwrap_or_default();
    let now = find(c.pmap_mut(), Some(it.frame), it.space, it.va).copied();
    if let Some(entry) = now.filter(|_| c.policy().skeleton.sticky_uncached) {
        it.new = it.new.with_cache(!entry.flags.contains(PvFlags::NC));
    }
}

/// Asks about the entry that was there, if there was one.
fn ask_old<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    it: &Entering,
    hook: impl Fn(Pte, Pte, Verb) -> Hook,
) {
    if !it.old.present() {
        return;
    }
    let live = c.policy().skeleton.current_is_live;
    let subject = mapping(c.pmap(), cpu, (it.space, it.va), it.old_flags, it.old, live);
    let about = About {
        frame: Some(it.frame),
        subject: Some(subject),
    };
    ask(c, cpu, hook(it.old, it.new, it.verb), about);
}

fn entered<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, it: &Entering) {
    let live = c.policy().skeleton.current_is_live;
    let subject = mapping(c.pmap(), cpu, (it.space, it.va), it.flags, it.new, live);
    ask(
        c,
        cpu,
        Hook::Entered,
        About {
            frame: Some(it.frame),
            subject: Some(subject),
        },
    );
}
