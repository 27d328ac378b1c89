//! The pmap's state: spaces, pages, pv entries; flat tables of records linked by indices.

use machine::memory::mix;
use machine::{Frame, Machine, PhysAddr, Pte, VirtAddr};

use crate::count::Counts;
use crate::layout::Layout;
use crate::types::{PvFlags, SpaceId};

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// One mapping of one page (FreeBSD `pv_entry`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PvEntry {
    /// Whose.
    pub space: SpaceId,
    /// Where.
    pub va: VirtAddr,
    /// Which page.
    pub frame: Frame,
    /// Flags.
    pub flags: PvFlags,
    /// The page-table entry as last stored.
    pub pte: Pte,
    pub(crate) next: u32,
}

/// What the pmap keeps of one physical page (FreeBSD `md_page` and the PG flags it sets).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MdPage {
    pub(crate) head: u32,
    /// `pv_kva`: the page's only mapping if that is one unmanaged kernel mapping; then the list is
    /// empty. Address 0 is none.
    pub kva: VirtAddr,
    /// Its entry as last stored.
    pub kva_pte: Pte,
    /// MOD and REF.
    pub attrs: PvFlags,
    /// PG_WRITEABLE: some managed mapping may write.
    pub writeable: bool,
    /// The VM is told that the page was modified (`vm_page_dirty`); the VM clears it.
    pub dirty: bool,
    /// A policy's own bits.
    pub bits: u8,
    /// Its mappings counted, where the skeleton keeps counts.
    pub counts: Counts,
    /// Every mapping is to be uncached (`pv_memattr`).
    pub uncacheable: bool,
}

const NEW_PAGE: MdPage = MdPage {
    head: NONE,
    kva: VirtAddr(0),
    kva_pte: Pte::ZERO,
    attrs: PvFlags::empty(),
    writeable: false,
    dirty: false,
    bits: 0,
    counts: Counts {
        kernel_read: 0,
        kernel_write: 0,
        user_read: 0,
        user_write: 0,
    },
    uncacheable: false,
};

/// A second-level table of a user space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Directory {
    pub megabyte: u16,
    pub table: PhysAddr,
    pub used: u16,
}

/// An address space (FreeBSD `pmap`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    pub(crate) used: bool,
    /// Which first-level table it shares.
    pub l1: u8,
    /// Its domain in that table, 1 to 15.
    pub domain: u8,
    pub(crate) directories: Vec<Directory>,
    /// A policy's own bits.
    pub bits: u8,
}

/// Which space a CPU runs, and which one its hardware still holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuState {
    /// The space of the process that runs ("current"); `None` in a kernel thread.
    pub current: Option<SpaceId>,
    /// The space in table base, TLB and caches ("live").
    pub live: Option<SpaceId>,
}

/// The pmap of a machine.
#[derive(Clone, Debug)]
pub struct Pmap {
    /// Address map.
    pub layout: Layout,
    pub(crate) spaces: Vec<Space>,
    pages: Vec<MdPage>,
    pub(crate) pvs: Vec<PvEntry>,
    pub(crate) pv_free: u32,
    /// CPUs.
    pub cpus: Vec<CpuState>,
    /// First-level tables, with a bit for each domain taken.
    pub(crate) l1s: Vec<(PhysAddr, u16)>,
    pub(crate) tables_free: Vec<PhysAddr>,
    pub(crate) tables_next: PhysAddr,
    pub(crate) flat: bool,
    pub(crate) flat_spaces: u32,
    /// Who holds the pmap lock, and how many times.
    pub(crate) lock: Option<(machine::CpuId, u32)>,
    pub(crate) scratch_mappings: Vec<crate::hook::Mapping>,
    pub(crate) scratch_plan: crate::plan::Plan,
}

impl Pmap {
    /// Sets up the kernel's space at boot, writing tables into memory directly: nothing is cached yet.
    pub fn bootstrap(machine: &mut Machine) -> Self {
        let layout = Layout::new(machine.profile());
        let flat_spaces = match machine.profile().table {
            machine::profile::TableProfile::Flat { spaces, .. } => spaces,
            machine::profile::TableProfile::ArmShort => 0,
        };
        let kernel = Space {
            used: true,
            l1: 0,
            domain: 0,
            directories: Vec::new(),
            bits: 0,
        };
        let mut pmap = Self {
            spaces: vec![kernel],
            pages: Vec::new(),
            pvs: Vec::new(),
            pv_free: NONE,
            cpus: vec![CpuState::default(); machine.cpus.len()],
            l1s: Vec::new(),
            tables_free: Vec::new(),
            tables_next: layout.tables.1,
            flat: flat_spaces > 0,
            flat_spaces,
            lock: None,
            scratch_mappings: Vec::new(),
            scratch_plan: crate::plan::Plan::default(),
            layout,
        };
        if !pmap.flat {
            crate::table::bootstrap(&mut pmap, machine);
        }
        pmap
    }

    /// A page's record.
    pub fn page(&self, frame: Frame) -> &MdPage {
        self.pages.get(frame.0 as usize).unwrap_or(&NEW_PAGE)
    }

    /// A page's record, to change. The table grows to the highest frame ever used.
    pub fn page_mut(&mut self, frame: Frame) -> &mut MdPage {
        let n = frame.0 as usize;
        if n >= self.pages.len() {
            self.pages.resize(n + 1, NEW_PAGE);
        }
        &mut self.pages[n]
    }

    /// How many frames have records: none above this ever had a mapping.
    pub fn frames_known(&self) -> u32 {
        self.pages.len() as u32
    }

    /// A space's record.
    pub fn space(&self, space: SpaceId) -> &Space {
        &self.spaces[usize::from(space.0)]
    }

    pub(crate) fn space_mut(&mut self, space: SpaceId) -> &mut Space {
        &mut self.spaces[usize::from(space.0)]
    }

    /// The page's mappings, newest first.
    pub fn mappings(&self, frame: Frame) -> impl Iterator<Item = &PvEntry> {
        let mut at = self.page(frame).head;
        std::iter::from_fn(move || {
            let entry = self.pvs.get(at as usize)?;
            at = entry.next;
            Some(entry)
        })
    }

    /// The index of a page's mapping.
    pub(crate) fn find_pv(&self, frame: Frame, space: SpaceId, va: VirtAddr) -> Option<u32> {
        let mut at = self.page(frame).head;
        while let Some(entry) = self.pvs.get(at as usize) {
            if entry.space == space && entry.va == va {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Whether `pmap_is_current` says yes: the kernel's space, or the space of the process that runs.
    pub fn is_current(&self, cpu: machine::CpuId, space: SpaceId) -> bool {
        space.is_kernel() || self.cpus[usize::from(cpu.0)].current == Some(space)
    }

    /// Whether the hardware of this CPU may hold translations and lines of the space.
    pub fn is_live(&self, cpu: machine::CpuId, space: SpaceId) -> bool {
        space.is_kernel() || self.cpus[usize::from(cpu.0)].live == Some(space)
    }

    /// Forgets every page and mapping, for [`Pmap::restore`]; spaces and tables stay.
    pub fn forget_pages(&mut self) {
        self.pages.fill(NEW_PAGE);
        self.pvs.clear();
        self.pv_free = NONE;
    }

    /// Puts a mapping at the head of its page's list without asking anybody: rebuilds a state that was
    /// read through [`Pmap::mappings`], oldest first.
    pub fn restore(&mut self, space: SpaceId, va: VirtAddr, flags: PvFlags, pte: Pte) {
        self.push(crate::pv::new_entry(space, va, pte.frame(), flags, pte));
    }

    /// A space's own bits; 0 if it does not exist.
    pub fn space_bits(&self, space: SpaceId) -> u8 {
        self.spaces.get(usize::from(space.0)).map_or(0, |s| s.bits)
    }

    /// A space's own bits, to restore; nothing if the space does not exist.
    pub fn restore_space_bits(&mut self, space: SpaceId, bits: u8) {
        if let Some(record) = self.spaces.get_mut(usize::from(space.0)) {
            record.bits = bits;
        }
    }

    /// A hash of everything but free records.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = 11;
        for (n, page) in self.pages.iter().enumerate() {
            if *page == NEW_PAGE {
                continue;
            }
            let flags = u64::from(page.attrs.bits())
                | u64::from(page.writeable) << 16
                | u64::from(page.dirty) << 17
                | u64::from(page.uncacheable) << 18
                | u64::from(page.bits) << 24;
            hash = mix(hash, page.counts.bits());
            hash = mix(hash, (n as u64) << 32 | u64::from(page.kva.0));
            hash = mix(hash, flags << 32 | u64::from(page.kva_pte.0));
            for pv in self.mappings(Frame(n as u32)) {
                hash = mix(
                    hash,
                    u64::from(pv.space.0) << 48 | u64::from(pv.flags.bits()) << 32,
                );
                hash = mix(hash, u64::from(pv.va.0) << 32 | u64::from(pv.pte.0));
            }
        }
        for (n, space) in self.spaces.iter().enumerate().filter(|(_, s)| s.used) {
            let parts = [
                n as u64,
                u64::from(space.l1),
                u64::from(space.domain),
                u64::from(space.bits),
            ];
            hash = parts.iter().fold(hash, |h, p| mix(h, *p));
            for d in &space.directories {
                let place = u64::from(d.table.0) << 32 | u64::from(d.megabyte) << 16;
                hash = mix(hash, place | u64::from(d.used));
            }
        }
        let lock = self
            .lock
            .map_or(0, |(cpu, depth)| u64::from(cpu.0) << 32 | u64::from(depth));
        hash = mix(hash, lock);
        for cpu in &self.cpus {
            let id = |s: Option<SpaceId>| s.map_or(u64::from(NONE), |s| u64::from(s.0));
            hash = mix(hash, id(cpu.current) << 32 | id(cpu.live));
        }
        hash
    }

    /// I-1: list empty or `pv_kva` zero; I-2: a mapping's flag NC and its entry's C agree, unless the
    /// policy is known to break it; returns what fails, in words.
    pub fn check(&self) -> Option<String> {
        for (n, page) in self.pages.iter().enumerate() {
            let frame = Frame(n as u32);
            if page.kva.0 != 0 && page.head != NONE {
                return Some(format!("{frame}: pv_kva {} beside a pv list", page.kva));
            }
            for pv in self.mappings(frame) {
                let nc = pv.flags.contains(PvFlags::NC);
                if pv.frame != frame {
                    return Some(format!("{frame}: a mapping of {} is on its list", pv.frame));
                }
                if nc && pv.pte.present() && pv.pte.cacheable() {
                    let at = format!("{} {}", pv.space, pv.va);
                    return Some(format!(
                        "{frame}: {at} is flagged uncached, its entry cacheable"
                    ));
                }
            }
        }
        None
    }
}
