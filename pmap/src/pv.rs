//! The pv lists: which mappings a page has.
//!
//! FreeBSD 2009 to 2016 (`pmap-freebsd-netbsd.md` 1.3 and 3.4): a page whose only mapping is one
//! unmanaged kernel mapping keeps its address in `pv_kva` and has an empty list; a second mapping moves
//! it to the list, and it moves back when it is alone again.

use machine::{CpuId, Frame, Pte, Step, VirtAddr};

use crate::ask::{About, ask, mapping};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Mapping};
use crate::state::{NONE, Pmap, PvEntry};
use crate::types::{PvFlags, SpaceId};

impl Pmap {
    pub(crate) fn push(&mut self, entry: PvEntry) {
        let head = self.page(entry.frame).head;
        let entry = PvEntry {
            next: head,
            ..entry
        };
        let n = match self.pvs.get(self.pv_free as usize) {
            Some(free) => {
                let n = self.pv_free;
                self.pv_free = free.next;
                self.pvs[n as usize] = entry;
                n
            }
            None => {
                self.pvs.push(entry);
                self.pvs.len() as u32 - 1
            }
        };
        self.page_mut(entry.frame).head = n;
    }

    fn unlink(&mut self, frame: Frame, n: u32) -> PvEntry {
        let entry = self.pvs[n as usize];
        let mut at = self.page(frame).head;
        if at == n {
            self.page_mut(frame).head = entry.next;
        } else {
            while self.pvs[at as usize].next != n {
                at = self.pvs[at as usize].next;
            }
            self.pvs[at as usize].next = entry.next;
        }
        self.pvs[n as usize].next = self.pv_free;
        self.pv_free = n;
        entry
    }

    fn any_writer(&self, frame: Frame) -> bool {
        self.mappings(frame)
            .any(|e| e.flags.contains(PvFlags::WRITE))
    }

    /// With no writer left, the page is not writeable and its MOD is done with.
    pub(crate) fn settle_writers(&mut self, frame: Frame) {
        if !self.any_writer(frame) {
            let page = self.page_mut(frame);
            page.attrs -= PvFlags::MOD;
            page.writeable = false;
        }
    }
}

/// Puts a mapping on the page's list; an untracked one moves there first (`pmap_enter_pv`).
pub(crate) fn enter<C: PmapCtx + ?Sized>(c: &mut C, entry: PvEntry) {
    let page = *c.pmap().page(entry.frame);
    let flags = c.policy().skeleton.kva_flags(page.kva_pte);
    let pmap = c.pmap_mut();
    if page.kva.0 != 0 {
        let kva = PvEntry {
            space: SpaceId::KERNEL,
            va: page.kva,
            frame: entry.frame,
            flags,
            pte: page.kva_pte,
            next: NONE,
        };
        pmap.page_mut(entry.frame).kva = VirtAddr(0);
        pmap.push(kva);
    }
    pmap.push(entry);
    let page = pmap.page_mut(entry.frame);
    page.attrs |= entry.flags & (PvFlags::REF | PvFlags::MOD);
    page.writeable |= entry.flags.contains(PvFlags::WRITE) && !entry.flags.contains(PvFlags::UNMAN);
}

/// A new entry, not on a list yet.
pub(crate) fn new_entry(
    space: SpaceId,
    va: VirtAddr,
    frame: Frame,
    flags: PvFlags,
    pte: Pte,
) -> PvEntry {
    PvEntry {
        space,
        va,
        frame,
        flags,
        pte,
        next: NONE,
    }
}

/// Tracks a kernel mapping: in `pv_kva` while it is the only one, else on the list.
pub(crate) fn enter_kernel<C: PmapCtx + ?Sized>(
    c: &mut C,
    (va, frame): (VirtAddr, Frame),
    flags: PvFlags,
    pte: Pte,
) {
    let page = c.pmap_mut().page_mut(frame);
    if page.head == NONE && page.kva.0 == 0 {
        (page.kva, page.kva_pte) = (va, pte);
    } else {
        enter(c, new_entry(SpaceId::KERNEL, va, frame, flags, pte));
    }
}

/// Takes a mapping off its page's list and asks the rule (`pmap_nuke_pv`). Returns what it was.
pub(crate) fn remove<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    frame: Frame,
    space: SpaceId,
    va: VirtAddr,
) -> Option<Mapping> {
    let live = c.policy().skeleton.current_is_live;
    c.step(cpu, Step::Software("pv unlink"));
    let Some(n) = c.pmap().find_pv(frame, space, va) else {
        let page = c.pmap_mut().page_mut(frame);
        if !(space.is_kernel() && page.kva == va) {
            return None;
        }
        let pte = page.kva_pte;
        page.kva = VirtAddr(0);
        page.kva_pte = Pte::ZERO;
        let flags = c.policy().skeleton.kva_flags(pte);
        let gone = mapping(c.pmap(), cpu, (space, va), flags, pte, live);
        ask(
            c,
            cpu,
            Hook::Left(gone.flags),
            About {
                frame: Some(frame),
                subject: Some(gone),
            },
        );
        return Some(gone);
    };
    let entry = unlink(c, frame, n);
    let gone = mapping(c.pmap(), cpu, (space, va), entry.flags, entry.pte, live);
    ask(
        c,
        cpu,
        Hook::Left(entry.flags),
        About {
            frame: Some(frame),
            subject: Some(gone),
        },
    );
    if entry.flags.contains(PvFlags::WRITE) {
        c.pmap_mut().settle_writers(frame);
    }
    collapse(c.pmap_mut(), frame);
    Some(gone)
}

/// Takes a mapping off its page's list; the rule is not asked.
pub(crate) fn remove_quietly<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va, frame): (SpaceId, VirtAddr, Frame),
) {
    c.step(cpu, Step::Software("pv unlink"));
    if let Some(n) = c.pmap().find_pv(frame, space, va) {
        unlink(c, frame, n);
        c.pmap_mut().settle_writers(frame);
    }
}

fn unlink<C: PmapCtx + ?Sized>(c: &mut C, frame: Frame, n: u32) -> PvEntry {
    let counting = c.policy().skeleton.counting;
    let pmap = c.pmap_mut();
    let entry = pmap.unlink(frame, n);
    let empty = pmap.page(frame).head == NONE;
    let page = pmap.page_mut(frame);
    page.counts.left(counting, entry.space, entry.flags);
    if page.attrs.contains(PvFlags::MOD) {
        page.dirty = true;
    }
    if empty {
        page.attrs -= PvFlags::REF;
    }
    entry
}

/// A single unmanaged mapping goes back into `pv_kva`; its entry is not touched.
fn collapse(pmap: &mut Pmap, frame: Frame) {
    let head = pmap.page(frame).head;
    let Some(entry) = pmap.pvs.get(head as usize).copied() else {
        return;
    };
    if entry.next != NONE || !entry.flags.contains(PvFlags::UNMAN) {
        return;
    }
    pmap.unlink(frame, head);
    let page = pmap.page_mut(frame);
    page.kva = entry.va;
    page.kva_pte = entry.pte;
    page.attrs -= PvFlags::REF | PvFlags::MOD;
    page.writeable = false;
}

/// Changes a mapping's flags; if WRITE flips, the rule is asked (`pmap_modify_pv`). Returns the old.
pub(crate) fn modify<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    at: (SpaceId, VirtAddr, Frame),
    clear: PvFlags,
    set: PvFlags,
) -> Option<PvFlags> {
    let (space, va, frame) = at;
    let live = c.policy().skeleton.current_is_live;
    let (old, entry) = modify_quietly(c, cpu, at, clear, set)?;
    if (old ^ entry.flags).contains(PvFlags::WRITE) {
        let subject = Some(mapping(
            c.pmap(),
            cpu,
            (space, va),
            entry.flags,
            entry.pte,
            live,
        ));
        ask(
            c,
            cpu,
            Hook::Changed,
            About {
                frame: Some(frame),
                subject,
            },
        );
        c.pmap_mut().settle_writers(frame);
    }
    Some(old)
}

/// Changes a mapping's flags; the rule is not asked. Returns the old ones and the entry.
pub(crate) fn modify_quietly<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    (space, va, frame): (SpaceId, VirtAddr, Frame),
    clear: PvFlags,
    set: PvFlags,
) -> Option<(PvFlags, PvEntry)> {
    let counting = c.policy().skeleton.counting;
    c.step(cpu, Step::Software("pv flags"));
    let pmap = c.pmap_mut();
    let n = pmap.find_pv(frame, space, va)?;
    let entry = &mut pmap.pvs[n as usize];
    let old = entry.flags;
    entry.flags = (old - clear) | set;
    let entry = *entry;
    let page = pmap.page_mut(frame);
    page.counts.changed(counting, space, (old, entry.flags));
    if clear.intersects(PvFlags::REF | PvFlags::MOD) {
        page.attrs |= set & (PvFlags::REF | PvFlags::MOD);
    }
    page.writeable |= entry.flags.contains(PvFlags::WRITE) && !old.contains(PvFlags::WRITE);
    Some((old, entry))
}
