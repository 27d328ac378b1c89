//! Page tables: where an entry is, how it is read and stored, and the tables' own pages.
//!
//! First-level tables are shared by up to 15 spaces, one domain each (FreeBSD `pmap_alloc_l1`); a user
//! slot that belongs to another space is repaired when a fault or an enter meets it.

use machine::mmu::L1Descriptor;
use machine::{Ap, CpuId, Machine, PhysAddr, Pte, Step, VirtAddr, Width};

use crate::ctx::PmapCtx;
use crate::edit;
use crate::routine;
use crate::state::{Directory, Pmap};
use crate::types::SpaceId;

const L1_BYTES: u32 = 16 * 1024;
const L2_BYTES: u32 = 1024;
const DOMAINS: u16 = 0xfffe;
const MB: u32 = 1 << 20;

/// Writes the kernel's tables at boot.
pub(crate) fn bootstrap(pmap: &mut Pmap, machine: &mut Machine) {
    let layout = pmap.layout;
    let routine = routine::Routine::of(machine);
    let l1 = take(pmap, L1_BYTES).expect("the table area holds the first tables");
    pmap.l1s.push((l1, 0));
    let mut set = |l1: PhysAddr, va: u32, word: u32| {
        machine
            .memory
            .write(PhysAddr(l1.0 + (va >> 20) * 4), &word.to_le_bytes());
    };
    for n in 0..4 {
        let base = PhysAddr(n * MB);
        let cached = L1Descriptor::section(base, 0, Ap::Kernel, true, true);
        set(l1, layout.kernel_base.0 + n * MB, cached.0);
    }
    for n in 0..layout.tables.2 / MB {
        let base = PhysAddr(layout.tables.1.0 + n * MB);
        let back = routine.tables_write_back();
        let through = L1Descriptor::section(base, 0, Ap::Kernel, true, back);
        set(l1, layout.tables.0.0 + n * MB, through.0);
    }
    if routine.displaces() {
        let read_only = L1Descriptor::section(PhysAddr(0), 0, Ap::KernelRead, true, true);
        set(l1, routine::CLEAN_REGION.0, read_only.0);
    }
    let first = layout.scratch[0].0;
    let dynamic = (first..layout.kernel_end.0).step_by(MB as usize);
    for va in dynamic.chain([layout.vectors.0 & !(MB - 1)]) {
        let table = take(pmap, L2_BYTES).expect("the table area holds the kernel's tables");
        set(l1, va, L1Descriptor::coarse(table, 0).0);
        let megabyte = (va >> 20) as u16;
        pmap.spaces[0].directories.push(Directory {
            megabyte,
            table,
            used: 1,
        });
    }
    for cpu in &mut machine.cpus {
        cpu.ttb = l1.0;
    }
}

/// Takes table memory: a freed 1 KB table, or fresh space.
fn take(pmap: &mut Pmap, bytes: u32) -> Option<PhysAddr> {
    if bytes == L2_BYTES
        && let Some(table) = pmap.tables_free.pop()
    {
        return Some(table);
    }
    let at = PhysAddr((pmap.tables_next.0 + bytes - 1) & !(bytes - 1));
    let end = pmap.layout.tables.1.0 + pmap.layout.tables.2;
    if at.0 + bytes > end {
        return None;
    }
    pmap.tables_next = at.add(bytes);
    Some(at)
}

/// The kernel's address of a word in a table.
fn table_va(pmap: &Pmap, pa: PhysAddr) -> VirtAddr {
    VirtAddr(pmap.layout.tables.0.0 + (pa.0 - pmap.layout.tables.1.0))
}

/// Where the entry of `va` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// In a second-level table, at this kernel address.
    Word(VirtAddr),
    /// In a flat table.
    Flat { space: u32, page: u32 },
}

/// The slot of `va`, if its second-level table exists.
pub(crate) fn slot(pmap: &Pmap, space: SpaceId, va: VirtAddr) -> Option<Slot> {
    if pmap.flat {
        let space = u32::from(space.0);
        return Some(Slot::Flat {
            space,
            page: va.0 / pmap.layout.page,
        });
    }
    let megabyte = (va.0 >> 20) as u16;
    let directories = &pmap.space(space).directories;
    let n = directories
        .binary_search_by_key(&megabyte, |d| d.megabyte)
        .ok()?;
    let word = directories[n].table.add((va.0 >> 12 & 0xff) * 4);
    Some(Slot::Word(table_va(pmap, word)))
}

/// Reads an entry as the kernel does, by a load.
pub(crate) fn read<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) -> Pte {
    match slot(c.pmap(), space, va) {
        None => Pte::ZERO,
        Some(Slot::Word(at)) => Pte(c
            .load(cpu, at, Width::Word, false)
            .expect("tables are mapped by a section")),
        Some(Slot::Flat { space, page }) => c
            .hw()
            .flat_index(space, page)
            .map_or(Pte::ZERO, |n| Pte(c.hw().flat[n])),
    }
}

/// Stores an entry; the caller syncs it. The slot's table must exist.
pub(crate) fn store<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
    pte: Pte,
) {
    match slot(c.pmap(), space, va).expect("the caller made the table") {
        Slot::Word(at) => {
            let stored = c.store(cpu, at, Width::Word, pte.0, false);
            stored.expect("tables are mapped by a section");
        }
        Slot::Flat { space, page } => c.step(
            cpu,
            Step::FlatPte {
                space,
                page,
                raw: pte.0,
            },
        ),
    }
}

/// PTE_SYNC: makes the stored entry visible to the walk.
pub(crate) fn sync<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, space: SpaceId, va: VirtAddr) {
    if let Some(Slot::Word(at)) = slot(c.pmap(), space, va) {
        edit::routine::pte_sync(c, cpu, at);
    }
}

/// Makes sure that `va` has a second-level table; false when there is no memory for one.
pub(crate) fn ensure<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) -> bool {
    if slot(c.pmap(), space, va).is_some() {
        return true;
    }
    let Some(table) = take(c.pmap_mut(), L2_BYTES) else {
        return false;
    };
    let at = table_va(c.pmap(), table);
    for n in 0..L2_BYTES / 4 {
        c.store(cpu, at.add(n * 4), Width::Word, 0, false)
            .expect("tables are mapped by a section");
    }
    for line in (0..L2_BYTES).step_by(32) {
        edit::routine::pte_sync(c, cpu, at.add(line));
    }
    let megabyte = (va.0 >> 20) as u16;
    let directories = &mut c.pmap_mut().space_mut(space).directories;
    let n = directories.partition_point(|d| d.megabyte < megabyte);
    directories.insert(
        n,
        Directory {
            megabyte,
            table,
            used: 0,
        },
    );
    true
}

/// Counts one more or one fewer entry in the table of `va`.
pub(crate) fn count(pmap: &mut Pmap, space: SpaceId, va: VirtAddr, change: i32) {
    let megabyte = (va.0 >> 20) as u16;
    let directories = &mut pmap.space_mut(space).directories;
    if let Ok(n) = directories.binary_search_by_key(&megabyte, |d| d.megabyte) {
        directories[n].used = (i32::from(directories[n].used) + change).max(0) as u16;
    }
}

/// Repairs the first-level slot of `va` if it is another space's or empty; true if it had to.
pub(crate) fn fix_slot<C: PmapCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    space: SpaceId,
    va: VirtAddr,
) -> bool {
    if c.pmap().flat || space.is_kernel() {
        return false;
    }
    let megabyte = (va.0 >> 20) as u16;
    let record = c.pmap().space(space);
    let found = record
        .directories
        .binary_search_by_key(&megabyte, |d| d.megabyte);
    let Ok(n) = found else { return false };
    let wanted = L1Descriptor::coarse(record.directories[n].table, record.domain);
    let at = l1_word(c.pmap(), space, va);
    let there = c
        .load(cpu, at, Width::Word, false)
        .expect("tables are mapped by a section");
    if there == wanted.0 {
        return false;
    }
    c.store(cpu, at, Width::Word, wanted.0, false)
        .expect("tables are mapped by a section");
    edit::routine::pte_sync(c, cpu, at);
    true
}

fn l1_word(pmap: &Pmap, space: SpaceId, va: VirtAddr) -> VirtAddr {
    let (l1, _) = pmap.l1s[usize::from(pmap.space(space).l1)];
    table_va(pmap, l1.add((va.0 >> 20) * 4))
}

/// A first-level table with a free domain, made from the kernel's if none has one.
pub(crate) fn assign<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId) -> Option<(u8, u8)> {
    let free = c
        .pmap()
        .l1s
        .iter()
        .position(|(_, taken)| taken & DOMAINS != DOMAINS);
    let n = match free {
        Some(n) => n,
        None => {
            let l1 = take(c.pmap_mut(), L1_BYTES)?;
            let kernel = c.pmap().l1s[0].0;
            c.pmap_mut().l1s.push((l1, 0));
            copy_kernel_slots(c, cpu, kernel, l1);
            c.pmap().l1s.len() - 1
        }
    };
    let taken = &mut c.pmap_mut().l1s[n].1;
    let domain = (1..16).find(|d| *taken & 1 << d == 0)?;
    *taken |= 1 << domain;
    Some((n as u8, domain as u8))
}

fn copy_kernel_slots<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, from: PhysAddr, to: PhysAddr) {
    let first = c.pmap().layout.kernel_base.0 >> 20;
    for slot in 0..4096 {
        let at = table_va(c.pmap(), to.add(slot * 4));
        let word = if slot >= first {
            let kernel = table_va(c.pmap(), from.add(slot * 4));
            c.load(cpu, kernel, Width::Word, false)
                .expect("tables are mapped by a section")
        } else {
            0
        };
        c.store(cpu, at, Width::Word, word, false)
            .expect("tables are mapped by a section");
    }
    for line in (0..L1_BYTES).step_by(32) {
        edit::routine::pte_sync(c, cpu, table_va(c.pmap(), to.add(line)));
    }
}

/// Gives a space's tables and domain back. Its first-level slots are cleared first.
pub(crate) fn release<C: PmapCtx + ?Sized>(c: &mut C, cpu: CpuId, space: SpaceId) {
    if c.pmap().flat {
        return;
    }
    let directories = std::mem::take(&mut c.pmap_mut().space_mut(space).directories);
    for directory in &directories {
        let va = VirtAddr(u32::from(directory.megabyte) << 20);
        let at = l1_word(c.pmap(), space, va);
        let there = c
            .load(cpu, at, Width::Word, false)
            .expect("tables are mapped by a section");
        if L1Descriptor(there).table() == Some(directory.table) {
            c.store(cpu, at, Width::Word, 0, false)
                .expect("tables are mapped by a section");
            edit::routine::pte_sync(c, cpu, at);
        }
    }
    let pmap = c.pmap_mut();
    pmap.tables_free.extend(directories.iter().map(|d| d.table));
    let (l1, domain) = (pmap.space(space).l1, pmap.space(space).domain);
    pmap.l1s[usize::from(l1)].1 &= !(1 << domain);
}

/// The table base and domain register of a space.
pub(crate) fn registers(pmap: &Pmap, space: SpaceId) -> (u32, u32) {
    if pmap.flat {
        return (u32::from(space.0), 1);
    }
    let record = pmap.space(space);
    let (l1, _) = pmap.l1s[usize::from(record.l1)];
    (l1.0, 1 | 1 << (record.domain * 2))
}

/// The entry of `va` as stored, if there is one: looked up in the page's records, for reports and
/// callers that must not disturb the machine.
pub(crate) fn peek(pmap: &Pmap, machine: &Machine, space: SpaceId, va: VirtAddr) -> Option<Pte> {
    let pte = match slot(pmap, space, va)? {
        Slot::Flat { space, page } => Pte(machine.flat[machine.flat_index(space, page)?]),
        Slot::Word(at) => {
            let pa = PhysAddr(at.0 - pmap.layout.tables.0.0 + pmap.layout.tables.1.0);
            Pte(machine.peek_word(at, pa))
        }
    };
    pte.present().then_some(pte)
}
