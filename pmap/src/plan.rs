//! Plans: what a rule wants done, as data. The order is part of the plan.

use machine::{Frame, LineOp, VirtAddr};

use crate::types::{PvFlags, SpaceId};

/// One thing to do. Range operations cover the step's address and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Do {
    /// Data cache, by lines, then a drain.
    Dcache(LineOp),
    /// Second level, by lines, looked up by virtual address.
    L2(LineOp),
    /// Instruction cache invalidate and data cache clean and invalidate, by lines, then a drain.
    Idcache,
    /// Instruction cache invalidate and data cache clean, by lines, then a drain.
    IcacheSync,
    /// Instruction cache invalidate, by lines.
    Icache,
    /// Whole data cache.
    DcacheAll(LineOp),
    /// Whole instruction cache invalidate, then whole data cache clean and invalidate.
    IdcacheAll,
    /// Whole instruction cache invalidate.
    IcacheAll,
    /// Whole second level.
    L2All(LineOp),
    /// TLB, this page, both sides.
    TlbId,
    /// TLB, this page, data side.
    TlbD,
    /// TLB, everything that is not locked.
    TlbAll,
    /// Write buffer.
    Drain,
    /// Fetch buffer.
    FlushFetch,
    /// Store the mapping's entry with C and B on or off; tracked mappings keep their entry's copy.
    PteCache(bool),
    /// Set and clear flags of the mapping.
    Flags {
        /// Set.
        set: PvFlags,
        /// Cleared.
        clear: PvFlags,
    },
    /// Set and clear a policy's own bits of a page.
    PageBits {
        /// Which page.
        frame: Frame,
        /// Set.
        set: u8,
        /// Cleared.
        clear: u8,
    },
    /// Map a frame at a scratch window.
    Window {
        /// Which frame.
        frame: Frame,
        /// C and B.
        cached: bool,
        /// Writable.
        write: bool,
    },
    /// Unmap a scratch window.
    Unwindow,
    /// Store zeros over the page at the step's address.
    Zero,
    /// Copy the page at `from` to the step's address.
    Copy {
        /// Source address.
        from: VirtAddr,
    },
    /// Take a buffer page's write permission away, or give it back.
    BufferWrite(bool),
    /// Unmap a buffer page.
    BufferUnmap,
    /// Map a buffer page again, as `pmap_kenter` does.
    BufferMap(Frame),
    /// Forget the mapping altogether; the owner refaults.
    Drop,
}

impl Do {
    /// What it does, for somebody who does not know the kernels' names.
    pub fn meaning(self) -> &'static str {
        use LineOp::{Clean, CleanInvalidate, Invalidate};
        match self {
            Do::Dcache(Clean) => "write the page's dirty data-cache lines back",
            Do::Dcache(Invalidate) => "drop the page's data-cache lines, dirty ones too",
            Do::Dcache(CleanInvalidate) => "write the page's data-cache lines back and drop them",
            Do::L2(Clean) => "write the page's dirty second-level lines back",
            Do::L2(Invalidate) => "drop the page's second-level lines, dirty ones too",
            Do::L2(CleanInvalidate) => "write the page's second-level lines back and drop them",
            Do::Idcache => "write back and drop the page's lines of both first-level caches",
            Do::IcacheSync => "let fetches of the page see what was stored",
            Do::Icache => "drop the page's instruction-cache lines",
            Do::DcacheAll(Clean) => "write every dirty data-cache line back",
            Do::DcacheAll(Invalidate) => "drop the whole data cache, dirty lines too",
            Do::DcacheAll(CleanInvalidate) => "write the whole data cache back and drop it",
            Do::IdcacheAll => "write back and drop both first-level caches",
            Do::IcacheAll => "drop the whole instruction cache",
            Do::L2All(Clean) => "write every dirty second-level line back",
            Do::L2All(Invalidate) => "drop the whole second level, dirty lines too",
            Do::L2All(CleanInvalidate) => "write the whole second level back and drop it",
            Do::TlbId => "drop the TLB copies of the page, for code and data",
            Do::TlbD => "drop the TLB copies of the page, for data",
            Do::TlbAll => "drop every TLB copy",
            Do::Drain => "wait until the write buffer is empty",
            Do::FlushFetch => "drop what was fetched ahead",
            Do::PteCache(true) => "the page-table entry says cached from now on",
            Do::PteCache(false) => "the page-table entry says uncached from now on",
            Do::Flags { .. } => "what the pmap remembers of the mapping changes",
            Do::PageBits { .. } => "what the pmap remembers of the page changes",
            Do::Window { .. } => "map the page at a scratch address",
            Do::Unwindow => "unmap the scratch address",
            Do::Zero => "fill the page with zeros",
            Do::Copy { .. } => "copy the page",
            Do::BufferWrite(true) => "the buffer's mapping may write from now on",
            Do::BufferWrite(false) => "the buffer's mapping may only read from now on",
            Do::BufferUnmap => "the buffer loses its mapping",
            Do::BufferMap(_) => "the buffer gets a mapping again",
            Do::Drop => "the mapping goes",
        }
    }

    /// Its name in reports and JSON: the kernels' own function names where there are any.
    pub fn name(self) -> &'static str {
        use LineOp::{Clean, CleanInvalidate, Invalidate};
        match self {
            Do::Dcache(Clean) => "dcache_wb",
            Do::Dcache(Invalidate) => "dcache_inv",
            Do::Dcache(CleanInvalidate) => "dcache_wbinv",
            Do::L2(Clean) => "l2cache_wb",
            Do::L2(Invalidate) => "l2cache_inv",
            Do::L2(CleanInvalidate) => "l2cache_wbinv",
            Do::Idcache => "idcache_wbinv",
            Do::IcacheSync => "icache_sync",
            Do::Icache => "icache_inv",
            Do::DcacheAll(Clean) => "dcache_wb_all",
            Do::DcacheAll(Invalidate) => "dcache_inv_all",
            Do::DcacheAll(CleanInvalidate) => "dcache_wbinv_all",
            Do::IdcacheAll => "idcache_wbinv_all",
            Do::IcacheAll => "icache_inv_all",
            Do::L2All(Clean) => "l2cache_wb_all",
            Do::L2All(Invalidate) => "l2cache_inv_all",
            Do::L2All(CleanInvalidate) => "l2cache_wbinv_all",
            Do::TlbId => "tlb_flush_id",
            Do::TlbD => "tlb_flush_d",
            Do::TlbAll => "tlb_flush_all",
            Do::Drain => "drain_writebuf",
            Do::FlushFetch => "flush_fetch",
            Do::PteCache(true) => "pte_cache_on",
            Do::PteCache(false) => "pte_cache_off",
            Do::Flags { .. } => "pv_flags",
            Do::PageBits { .. } => "page_bits",
            Do::Window { .. } => "window_map",
            Do::Unwindow => "window_unmap",
            Do::Zero => "zero",
            Do::Copy { .. } => "copy",
            Do::BufferWrite(true) => "buffer_writable",
            Do::BufferWrite(false) => "buffer_readonly",
            Do::BufferUnmap => "buffer_unmap",
            Do::BufferMap(_) => "buffer_map",
            Do::Drop => "mapping_drop",
        }
    }

    /// The things that are wholly named by their name.
    const PLAIN: &[Do] = {
        use LineOp::{Clean, CleanInvalidate, Invalidate};
        &[
            Do::Dcache(Clean),
            Do::Dcache(Invalidate),
            Do::Dcache(CleanInvalidate),
            Do::L2(Clean),
            Do::L2(Invalidate),
            Do::L2(CleanInvalidate),
            Do::Idcache,
            Do::IcacheSync,
            Do::Icache,
            Do::DcacheAll(Clean),
            Do::DcacheAll(Invalidate),
            Do::DcacheAll(CleanInvalidate),
            Do::IdcacheAll,
            Do::IcacheAll,
            Do::L2All(Clean),
            Do::L2All(Invalidate),
            Do::L2All(CleanInvalidate),
            Do::TlbId,
            Do::TlbD,
            Do::TlbAll,
            Do::Drain,
            Do::FlushFetch,
            Do::PteCache(true),
            Do::PteCache(false),
            Do::Unwindow,
            Do::Zero,
            Do::BufferWrite(true),
            Do::BufferWrite(false),
            Do::BufferUnmap,
            Do::Drop,
        ]
    };

    /// The others; they carry a frame, flags or an address.
    const LOADED: &[&str] = &["pv_flags", "page_bits", "window_map", "copy", "buffer_map"];

    /// The thing of that name, if the name says all.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::PLAIN.iter().copied().find(|d| d.name() == name)
    }

    /// The name itself, if any thing has it.
    pub fn known_name(name: &str) -> Option<&'static str> {
        let loaded = Self::LOADED.iter().copied().find(|n| *n == name);
        Self::by_name(name).map(Do::name).or(loaded)
    }

    /// Whether it is a cache or TLB operation on a page or a whole cache, as opposed to a change of a
    /// table or a flag.
    pub fn is_maintenance(self) -> bool {
        self.is_cache() || self.is_tlb()
    }

    /// Whether it works on a cache.
    pub fn is_cache(self) -> bool {
        matches!(
            self,
            Do::Dcache(_)
                | Do::L2(_)
                | Do::Idcache
                | Do::IcacheSync
                | Do::Icache
                | Do::DcacheAll(_)
                | Do::IdcacheAll
                | Do::IcacheAll
                | Do::L2All(_)
        )
    }

    /// Whether it works on the TLB.
    pub fn is_tlb(self) -> bool {
        matches!(self, Do::TlbId | Do::TlbD | Do::TlbAll)
    }
}

/// A thing to do and the mapping or range it is done to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PlanStep {
    /// What.
    pub what: Do,
    /// Whose address.
    pub space: SpaceId,
    /// Address.
    pub va: VirtAddr,
    /// Length, bytes.
    pub len: u32,
}

/// Steps in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// Adds a step.
    pub fn push(&mut self, what: Do, space: SpaceId, va: VirtAddr, len: u32) {
        self.steps.push(PlanStep {
            what,
            space,
            va,
            len,
        });
    }

    /// Adds a step that has no address.
    pub fn whole(&mut self, what: Do) {
        self.push(what, SpaceId::KERNEL, VirtAddr(0), 0);
    }

    /// Adds a range operation on the data (or both) caches and the matching one on the second level,
    /// as every range wrapper of FreeBSD's pmap does.
    pub fn range(&mut self, what: Do, space: SpaceId, va: VirtAddr, len: u32) {
        self.push(what, space, va, len);
        let l2 = match what {
            Do::Dcache(op) => op,
            Do::Idcache => LineOp::CleanInvalidate,
            _ => return,
        };
        self.push(Do::L2(l2), space, va, len);
    }
}
