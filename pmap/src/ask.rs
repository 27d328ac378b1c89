//! Asking the rule and carrying its plan out.

use machine::{Ap, CpuId, Frame, LineOp, Pte, Step, VirtAddr, Width};

use crate::count::{Counting, Counts};
use crate::ctx::PmapCtx;
use crate::edit;
use crate::hook::{Facts, Hook, Mapping, View};
use crate::plan::{Do, Plan, PlanStep};
use crate::state::{Pmap, PvEntry};
use crate::table;
use crate::types::{PvFlags, SpaceId};
use crate::verbs::{buffer, kernel};

/// What a verb knows of the mapping it works on when it asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    pub frame: Option<Frame>,
    pub subject: Option<Mapping>,
}

/// A mapping as rules see it.
pub(crate) fn mapping(
    pmap: &Pmap,
    cpu: CpuId,
    (space, va): (SpaceId, VirtAddr),
    flags: PvFlags,
    pte: Pte,
    current_is_live: bool,
) -> Mapping {
    let live = pmap.is_live(cpu, space);
    let current = if current_is_live {
        live
    } else {
        pmap.is_current(cpu, space)
    };
    Mapping {
        space,
        va,
        flags,
        pte,
        current,
        live,
    }
}

/// Asks the policy's rule at a hook and carries out what it plans.
pub(crate) fn ask<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, hook: Hook, about: About) {
    let rule = c.policy().rule;
    let live = c.policy().skeleton.current_is_live;
    let mut mappings = std::mem::take(&mut c.pmap_mut().scratch_mappings);
    let mut plan = std::mem::take(&mut c.pmap_mut().scratch_plan);
    mappings.clear();
    plan.steps.clear();
    let mut kva = None;
    let mut bits = 0;
    let mut counts = Counts::default();
    let mut uncacheable = false;
    if let Some(frame) = about.frame {
        let pmap = c.pmap();
        let see = |e: &PvEntry| mapping(pmap, cpu, (e.space, e.va), e.flags, e.pte, live);
        mappings.extend(pmap.mappings(frame).map(see));
        let page = pmap.page(frame);
        bits = page.bits;
        counts = match c.policy().skeleton.counting {
            Counting::Listed => Counts::of(&mappings),
            _ => page.counts,
        };
        uncacheable = page.uncacheable;
        if page.kva.0 != 0 {
            let flags = c.policy().skeleton.kva_flags(page.kva_pte);
            let at = (SpaceId::KERNEL, page.kva);
            kva = Some(mapping(pmap, cpu, at, flags, page.kva_pte, live));
        }
    }
    let view = View {
        mappings: &mappings,
        kva,
        subject: about.subject,
        frame: about.frame,
        bits,
        counts,
        uncacheable,
    };
    let facts = facts(c);
    rule(&hook, &view, &facts, &mut plan);
    for edit in &c.policy().edits {
        edit.apply(&hook, &view, &facts, &mut plan);
    }
    c.asked(cpu, &hook, &view, &plan);
    for step in &plan.steps {
        c.planned(cpu, step);
        carry(c, cpu, step, about);
    }
    let pmap = c.pmap_mut();
    pmap.scratch_mappings = mappings;
    pmap.scratch_plan = plan;
}

fn facts<C: PmapCtx + ?Sized>(c: &C) -> Facts {
    let layout = &c.pmap().layout;
    Facts {
        page: layout.page,
        scratch: layout.scratch,
        l2: c.hw().l2.is_some(),
    }
}

fn carry<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, step: &PlanStep, about: About) {
    let (va, len) = (step.va, step.len);
    if edit::routine::run(c, cpu, step.what, va, len) {
        return;
    }
    match step.what {
        Do::IcacheAll => c.step(cpu, Step::IcacheAll),
        Do::TlbId => c.step(cpu, Step::Tlb(va)),
        Do::TlbD => c.step(cpu, Step::TlbData(va)),
        Do::TlbAll => c.step(cpu, Step::TlbAll),
        Do::Drain => c.step(cpu, Step::Drain),
        Do::FlushFetch => c.step(cpu, Step::FlushFetch),
        _ => change(c, cpu, step, about),
    }
}

/// Steps that change tables, flags or bytes.
fn change<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, step: &PlanStep, about: About) {
    match step.what {
        Do::PteCache(on) => set_cache(c, cpu, step, on),
        Do::Flags { set, clear } => {
            c.step(cpu, Step::Software("pv flags"));
            if let Some(entry) = find(c.pmap_mut(), about.frame, step.space, step.va) {
                entry.flags = (entry.flags - clear) | set;
            }
        }
        Do::PageBits { frame, set, clear } => {
            c.step(cpu, Step::Software("page bits"));
            let bits = &mut c.pmap_mut().page_mut(frame).bits;
            *bits = (*bits & !clear) | set;
        }
        Do::Window {
            frame,
            cached,
            write,
        } => {
            let ap = if write { Ap::Kernel } else { Ap::KernelRead };
            let pte = Pte::new(frame, ap).with_cache(cached);
            table::store(c, cpu, SpaceId::KERNEL, step.va, pte);
            table::sync(c, cpu, SpaceId::KERNEL, step.va);
        }
        Do::Unwindow => {
            table::store(c, cpu, SpaceId::KERNEL, step.va, Pte::ZERO);
            table::sync(c, cpu, SpaceId::KERNEL, step.va);
        }
        Do::Zero => fill(c, cpu, step.va, step.len, None),
        Do::Copy { from } => fill(c, cpu, step.va, step.len, Some(from)),
        Do::BufferWrite(on) => buffer::set_write(c, cpu, step.va, on),
        Do::BufferUnmap => buffer::unmap(c, cpu, step.va),
        Do::BufferMap(frame) => kernel::kenter(c, cpu, step.va, frame),
        Do::Drop => buffer::drop_mapping(c, cpu, step.space, step.va),
        _ => unreachable!("carried out by `carry`"),
    }
}

/// The page's tracked mapping.
pub(crate) fn find(
    pmap: &mut Pmap,
    frame: Option<Frame>,
    space: SpaceId,
    va: VirtAddr,
) -> Option<&mut PvEntry> {
    let n = pmap.find_pv(frame?, space, va)?;
    Some(&mut pmap.pvs[n as usize])
}

/// Stores a mapping's entry with C and B on or off, and syncs it (FreeBSD `pmap_set_cache_entry`).
fn set_cache<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, step: &PlanStep, on: bool) {
    let old = table::read(c, cpu, step.space, step.va);
    if old.present() {
        store_entry(c, cpu, step.space, step.va, old.with_cache(on));
        table::sync(c, cpu, step.space, step.va);
    }
}

/// Stores an entry and keeps the page's record of it.
pub(crate) fn store_entry<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
    pte: Pte,
) {
    table::store(c, cpu, space, va, pte);
    if !pte.present() {
        return;
    }
    let frame = pte.frame();
    if let Some(entry) = find(c.pmap_mut(), Some(frame), space, va) {
        entry.pte = pte;
    } else if space.is_kernel() && c.pmap().page(frame).kva == va {
        c.pmap_mut().page_mut(frame).kva_pte = pte;
    }
}

/// Stores zeros, or the words at `from`, over `len` bytes.
fn fill<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    to: VirtAddr,
    len: u32,
    from: Option<VirtAddr>,
) {
    for n in (0..len).step_by(4) {
        let word = match from {
            Some(from) => c.load(cpu, from.add(n), Width::Word, false).unwrap_or(0),
            None => 0,
        };
        // A window that a faulty plan did not map reaches nothing; the oracle sees the page unfilled.
        let _ = c.store(cpu, to.add(n), Width::Word, word, false);
    }
}

/// The whole-cache plan of a policy that forgets nothing.
pub(crate) fn everything(plan: &mut Plan) {
    plan.whole(Do::IdcacheAll);
    plan.whole(Do::L2All(LineOp::CleanInvalidate));
    plan.whole(Do::Drain);
}
