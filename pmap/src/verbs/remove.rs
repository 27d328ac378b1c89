//! Taking mappings away: `pmap_remove`, `pmap_remove_pages`, `pmap_remove_all`, `pmap_release`.

use machine::{CpuId, Frame, Pte, VirtAddr};

use crate::ask::{About, ask, find, mapping, store_entry};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Mapping, Verb};
use crate::lock;
use crate::pv;
use crate::skeleton::{Part, WriteFirst};
use crate::state::{Pmap, PvEntry};
use crate::table;
use crate::types::{PvFlags, SpaceId};
use crate::verbs::clear;

/// Carries the parts of taking one entry away out; returns the mapping that was there.
pub(crate) fn leave<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    verb: Verb,
    (space, va): (SpaceId, VirtAddr),
    old: Pte,
    nth: u32,
    parts: &[Part],
) -> Option<Mapping> {
    let frame = old.frame();
    let live = c.policy().skeleton.current_is_live;
    let mut flags = flags_of(c, frame, space, va);
    if verb == Verb::Remove && c.pmap().find_pv(frame, space, va).is_none() {
        // `pmap_remove` takes what is on no list as referenced.
        flags |= PvFlags::REF;
    }
    let before = mapping(c.pmap(), cpu, (space, va), flags, old, live);
    let about = About {
        frame: Some(frame),
        subject: Some(before),
    };
    let mut gone = None;
    for part in parts {
        match part {
            Part::Untrack => gone = pv::remove(c, cpu, frame, space, va),
            Part::WillLeave => ask(c, cpu, Hook::WillLeave { verb, nth }, about),
            Part::Zero => {
                store_entry(c, cpu, space, va, Pte::ZERO);
                table::count(c.pmap_mut(), space, va, -1);
            }
            Part::Sync => table::sync(c, cpu, space, va),
            Part::Gone => ask(c, cpu, Hook::Gone { verb, nth }, about),
            _ => {}
        }
    }
    gone.or(Some(before))
}

/// The flags of a mapping, wherever it is tracked.
pub(crate) fn flags_of<C: PmapCtx + ?Sized>(
    c: &C,
    frame: Frame,
    space: SpaceId,
    va: VirtAddr,
) -> PvFlags {
    let pmap = c.pmap();
    match pmap.find_pv(frame, space, va) {
        Some(n) => pmap.pvs[n as usize].flags,
        None => {
            let pte = pmap.page(frame).kva_pte;
            c.policy().skeleton.kva_flags(pte)
        }
    }
}

/// `pmap_remove`.
pub(crate) fn remove<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    start: VirtAddr,
    end: VirtAddr,
) {
    c.charge(cpu, "pmap_remove");
    lock::acquire(c, cpu);
    let verb = Verb::Remove;
    let len = end.0 - start.0;
    ask(
        c,
        cpu,
        Hook::Begins { verb, start, len },
        space_subject(c, cpu, space, start),
    );
    let parts = c.policy().skeleton.remove.clone();
    let mut pages = 0;
    for va in entries(c, space, start, end) {
        let old = table::read(c, cpu, space, va);
        if old.present() {
            leave(c, cpu, verb, (space, va), old, pages, &parts);
            pages += 1;
        }
    }
    let about = space_subject(c, cpu, space, start);
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

/// The pages of a range that have a table, so that a large hole costs nothing.
fn entries<C: PmapCtx + ?Sized>(
    c: &C,
    space: SpaceId,
    start: VirtAddr,
    end: VirtAddr,
) -> Vec<VirtAddr> {
    let pmap = c.pmap();
    let page = pmap.layout.page;
    let has = |va: &u32| table::slot(pmap, space, VirtAddr(*va)).is_some();
    let all = (start.0..end.0).step_by(page as usize);
    if pmap.flat {
        return all.map(VirtAddr).collect();
    }
    let mut out = Vec::new();
    let mut va = start.0;
    while va < end.0 {
        let next = ((va >> 20) + 1)
            .checked_shl(20)
            .filter(|n| *n > va)
            .unwrap_or(u32::MAX);
        let stop = next.min(end.0);
        if has(&va) {
            out.extend((va..stop).step_by(page as usize).map(VirtAddr));
        }
        va = stop;
        if stop == u32::MAX {
            break;
        }
    }
    out
}

/// A subject that says only whose range it is and whether it is current.
pub(crate) fn space_subject<C: PmapCtx + ?Sized>(
    c: &C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) -> About {
    let live = c.policy().skeleton.current_is_live;
    let subject = mapping(
        c.pmap(),
        cpu,
        (space, va),
        PvFlags::empty(),
        Pte::ZERO,
        live,
    );
    About {
        frame: None,
        subject: Some(subject),
    }
}

/// `pmap_remove_pages`: everything but wired mappings, at exec and exit.
pub(crate) fn remove_pages<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, space: SpaceId) {
    c.charge(cpu, "pmap_remove_pages");
    lock::acquire(c, cpu);
    let verb = Verb::RemovePages;
    let (start, len) = (VirtAddr(0), c.pmap().layout.user_end.0);
    let about = space_subject(c, cpu, space, start);
    ask(c, cpu, Hook::Begins { verb, start, len }, about);
    let mut pages = 0;
    for va in entries(c, space, start, VirtAddr(len)) {
        let old = table::read(c, cpu, space, va);
        if !old.present() {
            continue;
        }
        // The kernels go through the space's list, newest first; a page's list has the same order.
        let frame = old.frame();
        if c.pmap().find_pv(frame, space, va).is_none() {
            drop_entry(c, cpu, frame, (space, va));
            pages += 1;
        }
        while let Some(va) = newest(c.pmap(), frame, space) {
            drop_entry(c, cpu, frame, (space, va));
            pages += 1;
        }
    }
    let about = space_subject(c, cpu, space, start);
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

/// The address of a space's newest mapping of a page that `pmap_remove_pages` takes away.
fn newest(pmap: &Pmap, frame: Frame, space: SpaceId) -> Option<VirtAddr> {
    let stays = PvFlags::WIRED | PvFlags::UNMAN;
    let goes = |e: &&PvEntry| e.space == space && !e.flags.intersects(stays);
    pmap.mappings(frame).find(goes).map(|e| e.va)
}

fn drop_entry<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame, at: (SpaceId, VirtAddr)) {
    let (space, va) = at;
    store_entry(c, cpu, space, va, Pte::ZERO);
    table::sync(c, cpu, space, va);
    table::count(c.pmap_mut(), space, va, -1);
    pv::remove(c, cpu, frame, space, va);
}

/// `pmap_remove_all`: a page leaves every space. An unmanaged mapping keeps its entry and its address
/// goes to `pv_kva`; of two of them, one is forgotten (B27). The verb's end tells how many were current.
pub(crate) fn remove_all<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, frame: Frame) {
    c.charge(cpu, "pmap_remove_all");
    if c.pmap().mappings(frame).next().is_none() {
        return;
    }
    lock::acquire(c, cpu);
    match c.policy().skeleton.remove_all_first {
        WriteFirst::Never => {}
        WriteFirst::IfWriteable => clear::remove_write(c, cpu, frame),
        WriteFirst::Always => clear::clearbit(c, cpu, frame, Verb::ClearWrite),
    }
    let parts = c.policy().skeleton.remove_all.clone();
    let live = c.policy().skeleton.current_is_live;
    let (verb, mut pages) = (Verb::RemoveAll, 0);
    let keeps = c.policy().skeleton.remove_all_skips_unmanaged;
    let stays = |e: &PvEntry| keeps && e.flags.contains(PvFlags::UNMAN);
    let all = c.pmap().mappings(frame).copied();
    let entries: Vec<PvEntry> = all.filter(|e| !stays(e)).collect();
    for entry in entries {
        let at = (entry.space, entry.va);
        if c.pmap().find_pv(frame, at.0, at.1).is_none() {
            continue;
        }
        let subject = Some(mapping(c.pmap(), cpu, at, entry.flags, entry.pte, live));
        let about = About {
            frame: Some(frame),
            subject,
        };
        take_away(c, cpu, &entry, verb, pages, about, &parts);
        pages += u32::from(subject.is_some_and(|m| m.current));
    }
    let about = About {
        frame: Some(frame),
        subject: None,
    };
    ask(
        c,
        cpu,
        Hook::Ends {
            verb,
            pages,
            start: VirtAddr(0),
            len: 0,
        },
        about,
    );
    lock::release(c, cpu);
}

/// One mapping of a page that leaves every space.
fn take_away<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    entry: &PvEntry,
    verb: Verb,
    nth: u32,
    about: About,
    parts: &[Part],
) {
    let (space, va, frame) = (entry.space, entry.va, entry.frame);
    let stays = entry.flags.contains(PvFlags::UNMAN);
    // The rule may have changed it for the sake of one that was taken away before.
    let pte = find(c.pmap_mut(), Some(frame), space, va).map_or(entry.pte, |e| e.pte);
    for part in parts {
        match part {
            Part::WillLeave => ask(c, cpu, Hook::WillLeave { verb, nth }, about),
            Part::Gone if !stays => ask(c, cpu, Hook::Gone { verb, nth }, about),
            Part::Zero if stays => {
                let page = c.pmap_mut().page_mut(frame);
                (page.kva, page.kva_pte) = (va, pte);
            }
            Part::Zero => {
                store_entry(c, cpu, space, va, Pte::ZERO);
                table::count(c.pmap_mut(), space, va, -1);
            }
            Part::Sync if !stays => table::sync(c, cpu, space, va),
            Part::Untrack => drop(pv::remove(c, cpu, frame, space, va)),
            Part::Unlink => pv::remove_quietly(c, cpu, (space, va, frame)),
            _ => {}
        }
    }
}

/// `pmap_release`.
pub(crate) fn release<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, space: SpaceId) {
    c.charge(cpu, "pmap_release");
    let about = space_subject(c, cpu, space, VirtAddr(0));
    let hook = Hook::Ends {
        verb: Verb::Release,
        pages: 0,
        start: VirtAddr(0),
        len: 0,
    };
    ask(c, cpu, hook, about);
    table::release(c, cpu, space);
    let pmap = c.pmap_mut();
    for state in &mut pmap.cpus {
        for held in [&mut state.current, &mut state.live] {
            if *held == Some(space) {
                *held = None;
            }
        }
    }
    pmap.space_mut(space).used = false;
}
