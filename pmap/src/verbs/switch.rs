//! Which space runs and which one the hardware holds: `cpu_switch`, `pmap_activate`, creation.
//!
//! FreeBSD's lazy switch (3.1): a kernel thread leaves the last user space in TTB, TLB and caches.

use machine::{CpuId, Step, VirtAddr};

use crate::ask::{About, ask};
use crate::ctx::PmapCtx;
use crate::hook::Hook;
use crate::state::Space;
use crate::table;
use crate::types::SpaceId;

/// `pmap_pinit`.
pub(crate) fn create<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId) -> Option<SpaceId> {
    c.charge(cpu, "pmap_pinit");
    let pmap = c.pmap();
    let n = pmap
        .spaces
        .iter()
        .position(|s| !s.used)
        .unwrap_or(pmap.spaces.len());
    let limit = if pmap.flat {
        pmap.flat_spaces as usize
    } else {
        1 << 12
    };
    if n >= limit {
        return None;
    }
    let (l1, domain) = if pmap.flat {
        (0, 0)
    } else {
        table::assign(c, cpu)?
    };
    let space = Space {
        used: true,
        l1,
        domain,
        directories: Vec::new(),
        bits: 0,
    };
    let spaces = &mut c.pmap_mut().spaces;
    if n == spaces.len() {
        spaces.push(space);
    } else {
        spaces[n] = space;
    }
    Some(SpaceId(n as u16))
}

/// `cpu_switch`.
pub(crate) fn switch<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, to: Option<SpaceId>) {
    c.charge(cpu, "cpu_switch");
    let n = usize::from(cpu.0);
    let live = c.pmap().cpus[n].live;
    c.step(cpu, Step::Software("switch"));
    let Some(to) = to else {
        if !c.policy().skeleton.lazy_switch {
            return switch_to_kernel(c, cpu, live);
        }
        c.pmap_mut().cpus[n].current = None;
        let hook = Hook::Switch {
            lazy: true,
            same: true,
            same_table: true,
        };
        return ask(c, cpu, hook, About::default());
    };
    if live == Some(to) {
        c.pmap_mut().cpus[n].current = Some(to);
        let hook = Hook::Switch {
            lazy: false,
            same: true,
            same_table: true,
        };
        return ask(c, cpu, hook, About::default());
    }
    let same_table = live.is_some_and(|l| same_table(c, l, to));
    ask(
        c,
        cpu,
        Hook::Switch {
            lazy: false,
            same: false,
            same_table,
        },
        About::default(),
    );
    load_registers(c, cpu, to, same_table);
}

/// A kernel thread under NetBSD: the kernel's own table and no user's domain (3.1).
fn switch_to_kernel<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, live: Option<SpaceId>) {
    let hook = Hook::Switch {
        lazy: true,
        same: live.is_none(),
        same_table: false,
    };
    ask(c, cpu, hook, About::default());
    load_registers(c, cpu, SpaceId::KERNEL, false);
    let state = &mut c.pmap_mut().cpus[usize::from(cpu.0)];
    (state.current, state.live) = (None, None);
}

fn same_table<C: PmapCtx + ?Sized>(c: &C, a: SpaceId, b: SpaceId) -> bool {
    !c.pmap().flat && c.pmap().space(a).l1 == c.pmap().space(b).l1
}

/// The domain register, and with another table its base and a TLB flush. Two spaces of one table are
/// kept apart by their domains.
fn load_registers<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, to: SpaceId, same_table: bool) {
    let (ttb, dacr) = table::registers(c.pmap(), to);
    c.step(cpu, Step::SetDacr(dacr));
    if !same_table {
        c.step(cpu, Step::Drain);
        c.step(cpu, Step::SetTtb(ttb));
        c.step(cpu, Step::TlbAll);
    }
    c.step(cpu, Step::FlushFetch);
    let state = &mut c.pmap_mut().cpus[usize::from(cpu.0)];
    (state.current, state.live) = (Some(to), Some(to));
}

/// `pmap_activate` of the process that runs: `cpu_setttb` flushes everything, unless the registers have its
/// table and domains already.
pub(crate) fn activate<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, to: SpaceId) {
    c.charge(cpu, "pmap_activate");
    let state = &mut c.pmap_mut().cpus[usize::from(cpu.0)];
    if state.live == Some(to) {
        state.current = Some(to);
        return;
    }
    ask(c, cpu, Hook::Activate, About::default());
    load_registers(c, cpu, to, false);
}

/// sysarch ARM_SYNC_ICACHE: the range is the user's, unchecked.
pub(crate) fn sync_icache<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, va: VirtAddr, len: u32) {
    c.charge(cpu, "arm32_sync_icache");
    ask(c, cpu, Hook::Sync(va, len), About::default());
}
