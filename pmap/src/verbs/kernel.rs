//! Kernel mappings that no pv list owns at first: `pmap_kenter`, `pmap_qenter` and their inverses.

use machine::{Ap, CpuId, Frame, Pte, Step, VirtAddr};

use crate::ask::{About, ask};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Verb};
use crate::lock;
use crate::table;
use crate::types::{Prot, PvFlags, SpaceId};
use crate::verbs::enter::{Entering, run};
use crate::verbs::remove;

/// `pmap_kenter`: always writable and, whatever the list says, cached at first; no TLB flush, for the
/// address was unmapped by a kremove.
pub(crate) fn kenter<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, frame: Frame) {
    c.charge(cpu, "pmap_kenter");
    if table::read(c, cpu, SpaceId::KERNEL, va).present() {
        kremove(c, cpu, va);
    }
    lock::acquire(c, cpu);
    let it = Entering {
        verb: Verb::Kenter,
        space: SpaceId::KERNEL,
        va,
        frame,
        flags: c.policy().skeleton.kenter_flags,
        old: Pte::ZERO,
        old_flags: PvFlags::empty(),
        new: Pte::new(frame, Ap::Kernel).with_cache(!c.pmap().page(frame).uncacheable),
    };
    let parts = c.policy().skeleton.kenter.clone();
    run(c, cpu, it, &parts);
    lock::release(c, cpu);
}

/// `pmap_kenter_user`.
pub(crate) fn kenter_user<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    va: VirtAddr,
    frame: Frame,
    prot: Prot,
) {
    let write = prot.contains(Prot::WRITE);
    let pte = Pte::new(frame, if write { Ap::User } else { Ap::UserRead });
    lock::acquire(c, cpu);
    table::store(c, cpu, SpaceId::KERNEL, va, pte);
    table::sync(c, cpu, SpaceId::KERNEL, va);
    c.step(cpu, Step::Tlb(va));
    lock::release(c, cpu);
}

/// `pmap_kremove`.
pub(crate) fn kremove<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr) {
    c.charge(cpu, "pmap_kremove");
    let old = table::read(c, cpu, SpaceId::KERNEL, va);
    if !old.present() {
        return;
    }
    lock::acquire(c, cpu);
    let parts = c.policy().skeleton.kremove.clone();
    remove::leave(c, cpu, Verb::Kremove, (SpaceId::KERNEL, va), old, 0, &parts);
    lock::release(c, cpu);
}

/// `pmap_qenter`.
pub(crate) fn qenter<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, frames: &[Frame]) {
    c.charge(cpu, "pmap_qenter");
    let page = c.pmap().layout.page;
    for (n, frame) in frames.iter().enumerate() {
        let about = About {
            frame: Some(*frame),
            subject: None,
        };
        ask(c, cpu, Hook::Page(Verb::Qenter), about);
        kenter(c, cpu, va.add(n as u32 * page), *frame);
    }
}

/// `pmap_qremove`.
pub(crate) fn qremove<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, pages: u32) {
    c.charge(cpu, "pmap_qremove");
    let page = c.pmap().layout.page;
    for at in (0..pages).map(|n| va.add(n * page)) {
        let old = table::read(c, cpu, SpaceId::KERNEL, at);
        if old.present() {
            let about = About {
                frame: Some(old.frame()),
                subject: None,
            };
            ask(c, cpu, Hook::Page(Verb::Qremove), about);
            kremove(c, cpu, at);
        }
    }
}
