//! The machine's state, and its fingerprint.

use std::sync::Arc;

use crate::cache::Cache;
use crate::cost::{Class, Costs};
use crate::cpu::Regs;
use crate::memory::{Memory, mix};
use crate::profile::{Profile, TableProfile, UncachedHit};
use crate::tlb::Tlb;
use crate::types::{CpuId, Frame, PhysAddr, VirtAddr};
use crate::write_buffer::WriteBuffer;

/// The instruction prefetch buffer: words already on their way to the decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchBuffer {
    /// Address of the first word.
    pub va: u32,
    /// Words held.
    pub len: u32,
    /// The address that the next sequential fetch would have.
    pub next: u32,
    /// The words.
    pub words: [u32; 8],
}

/// One processor with its first-level caches, buffers and TLB.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Registers of the program on it.
    pub regs: Regs,
    /// Instruction cache.
    pub icache: Cache,
    /// Data cache.
    pub dcache: Cache,
    /// Write and eviction buffer.
    pub write: WriteBuffer,
    /// TLB.
    pub tlb: Tlb,
    /// Prefetch buffer for uncached code.
    pub fetch: FetchBuffer,
    /// Translation table base; under flat tables the number of the live user space.
    pub ttb: u32,
    /// Domain access control.
    pub dacr: u32,
    /// Control register bit A: misaligned accesses abort.
    pub aligned: bool,
    /// Interrupts are on.
    pub interrupts: bool,
}

/// What the hot path needs of the profile, in one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub instruction: u32,
    pub l1_load: u32,
    pub l2: u32,
    pub memory: u32,
    pub uncached_load: u32,
    pub uncached_store: u32,
    pub fetch_hit_serves: bool,
    pub uncached_hit: UncachedHit,
    pub write_allocate: bool,
}

impl Rules {
    fn new(profile: &Profile) -> Self {
        Self {
            instruction: profile.cost.instruction,
            l1_load: profile.cost.l1_load,
            l2: profile.cost.l2,
            memory: profile.cost.memory,
            uncached_load: profile.cost.uncached_load,
            uncached_store: profile.cost.uncached_store,
            fetch_hit_serves: profile.icache.uncached_hit == UncachedHit::HitServes,
            uncached_hit: profile.dcache.uncached_hit,
            write_allocate: profile.dcache.write_allocate,
        }
    }
}

/// A machine: processors, second-level cache, memory, and counters.
#[derive(Clone, Debug)]
pub struct Machine {
    profile: Arc<Profile>,
    pub(crate) rules: Rules,
    /// Processors.
    pub cpus: Vec<Cpu>,
    /// Second-level cache.
    pub l2: Option<Cache>,
    /// RAM.
    pub memory: Memory,
    /// Flat tables, `[space][page]`; empty under ARM short descriptors.
    pub flat: Vec<u32>,
    /// Counters.
    pub cost: Costs,
    /// Programs run without the fast path; see [`Machine::set_plain`].
    pub(crate) plain: bool,
}

impl Machine {
    /// A machine at reset: caches empty, memory zero, translation base 0, kernel domain client.
    pub fn new(profile: Arc<Profile>) -> Self {
        let cpu = Cpu {
            regs: Regs::default(),
            icache: Cache::new(&profile.icache, profile.page),
            dcache: Cache::new(&profile.dcache, profile.page),
            write: WriteBuffer::new(&profile.write_buffer, profile.dcache.line),
            tlb: Tlb::new(&profile.tlb, profile.page),
            fetch: FetchBuffer::default(),
            ttb: 0,
            dacr: 1,
            aligned: true,
            interrupts: true,
        };
        let flat = match profile.table {
            TableProfile::ArmShort => 0,
            TableProfile::Flat {
                spaces,
                user_pages,
                kernel_pages,
            } => spaces * (user_pages + kernel_pages),
        };
        Self {
            cpus: vec![cpu; profile.cpus as usize],
            l2: (profile.l2.as_ref()).map(|l2| Cache::new(l2, profile.page)),
            memory: Memory::new(profile.memory),
            flat: vec![0; flat as usize],
            cost: Costs::default(),
            plain: false,
            rules: Rules::new(&profile),
            profile,
        }
    }

    /// Chooses how programs run: every access down the whole path (`plain`), which is the reference,
    /// or past what the access before has found already. Counts, costs, state and what an observer
    /// finds are the same.
    pub fn set_plain(&mut self, plain: bool) {
        self.plain = plain;
    }

    /// What it was built from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The profile, shared.
    pub fn profile_arc(&self) -> Arc<Profile> {
        self.profile.clone()
    }

    /// A processor.
    pub fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[usize::from(cpu.0)]
    }

    /// A processor, to change.
    pub fn cpu_mut(&mut self, cpu: CpuId) -> &mut Cpu {
        &mut self.cpus[usize::from(cpu.0)]
    }

    /// Page size, bytes.
    pub fn page_bytes(&self) -> u32 {
        self.profile.page
    }

    /// The first byte of a frame.
    pub fn frame_address(&self, frame: Frame) -> PhysAddr {
        PhysAddr(frame.0 * self.profile.page)
    }

    /// The frame that holds an address.
    pub fn frame_of(&self, pa: PhysAddr) -> Frame {
        Frame(pa.0 / self.profile.page)
    }

    /// The first address of the page that holds `va`.
    pub fn page_start(&self, va: VirtAddr) -> VirtAddr {
        VirtAddr(va.0 & !(self.profile.page - 1))
    }

    /// Index of a flat table's entry, or `None` outside the space.
    pub fn flat_index(&self, space: u32, page: u32) -> Option<usize> {
        let TableProfile::Flat {
            spaces,
            user_pages,
            kernel_pages,
        } = self.profile.table
        else {
            return None;
        };
        let pages = user_pages + kernel_pages;
        let space = if page >= user_pages { 0 } else { space };
        (space < spaces && page < pages).then_some((space * pages + page) as usize)
    }

    /// Adds cycles.
    #[inline]
    pub fn spend(&mut self, class: Class, cycles: u32) {
        self.cost.spend(class, cycles);
    }

    /// A hash of everything that decides future behaviour; counters stay out.
    pub fn fingerprint(&mut self) -> u64 {
        let mut hash = self.memory.fingerprint();
        for cpu in &self.cpus {
            let parts = [
                cpu.icache.fingerprint(),
                cpu.dcache.fingerprint(),
                cpu.write.fingerprint(),
                cpu.tlb.fingerprint(),
                u64::from(cpu.ttb) << 32 | u64::from(cpu.dacr),
                u64::from(cpu.aligned) | u64::from(cpu.interrupts) << 1,
                u64::from(cpu.fetch.va) << 32 | u64::from(cpu.fetch.next),
                u64::from(cpu.fetch.len),
                regs_fingerprint(&cpu.regs),
            ];
            hash = parts.iter().fold(hash, |h, p| mix(h, *p));
            let words = &cpu.fetch.words[..cpu.fetch.len as usize];
            hash = words.iter().fold(hash, |h, w| mix(h, u64::from(*w)));
        }
        if let Some(l2) = &self.l2 {
            hash = mix(hash, l2.fingerprint());
        }
        self.flat.iter().fold(hash, |h, w| mix(h, u64::from(*w)))
    }
}

fn regs_fingerprint(regs: &Regs) -> u64 {
    let hash = regs.r.iter().fold(7, |h, r| mix(h, u64::from(*r)));
    let state = u64::from(regs.cpsr()) << 32 | u64::from(regs.tls);
    let tag = regs.exclusive.map_or(u64::MAX, |va| u64::from(va.0));
    mix(mix(hash, state), tag)
}
