//! The verbs, as the layers above call them.

pub(crate) mod buffer;
pub(crate) mod clear;
pub(crate) mod enter;
pub(crate) mod kernel;
pub(crate) mod remove;
pub(crate) mod switch;

use machine::{Access, CpuId, Frame, Mark, Step, VirtAddr};

use crate::ask::{About, ask, mapping};
use crate::ctx::PmapCtx;
use crate::hook::{Hook, Verb};
use crate::skeleton::CoherentMap;
use crate::types::{Prot, PvFlags, SpaceId};

/// What a buffer's owner is doing with it; a policy may act on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BufferEvent {
    /// getblk gave it to a caller, who will write into it or only read.
    Acquired {
        /// The caller announces that it will store into the buffer.
        write: bool,
    },
    /// Its pages are about to be read from or written to the device.
    IoStart {
        /// The device writes memory.
        read: bool,
    },
    /// The transfer is complete.
    IoDone {
        /// The device wrote memory.
        read: bool,
    },
    /// uiomove into it or out of it has ended.
    Copied {
        /// The kernel stored into the buffer.
        write: bool,
    },
    /// bqrelse or brelse: it stays mapped, nobody uses it.
    Released,
}

/// What the kernel is about to do, or did, with a range of its own addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum KernelUse {
    /// Loads.
    Read,
    /// Stores (uiomove into a buffer, read-modify-write of metadata).
    Write,
    /// Stores device data word by word.
    Pio,
    /// Stores text for a debugger (ptrace).
    Poke,
}

/// busdma's four moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DmaOp {
    /// Before a device writes memory.
    PreRead,
    /// Before a device reads memory.
    PreWrite,
    /// After a device wrote memory.
    PostRead,
    /// After a device read memory.
    PostWrite,
}

/// A busdma map: a range of kernel addresses that a device is to reach, and what was found of it when it was
/// loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct DmaMap {
    /// First address.
    pub va: VirtAddr,
    /// Bytes.
    pub len: u32,
    /// Every page was mapped uncached at that moment, and the policy's skeleton remembers it.
    pub coherent: bool,
}

/// The machine-independent interface of the pmap. Every verb names its CPU.
pub trait PmapVerbs: PmapCtx {
    /// A new, empty user space; `None` when there is no table or domain left.
    fn pmap_create(&mut self, cpu: CpuId) -> Option<SpaceId>;
    /// Gives a space back; it maps nothing any more.
    fn pmap_release(&mut self, cpu: CpuId, space: SpaceId);
    /// Maps `frame` at `va`, or changes what is mapped there; false when there is no memory for a table.
    fn pmap_enter(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        frame: Frame,
        prot: Prot,
        wired: bool,
    ) -> bool;
    /// Maps a resident page ahead of a fault, never writable.
    fn pmap_enter_quick(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        frame: Frame,
        prot: Prot,
    ) -> bool;
    /// Unmaps `start..end`.
    fn pmap_remove(&mut self, cpu: CpuId, space: SpaceId, start: VirtAddr, end: VirtAddr);
    /// Unmaps a page from every space.
    fn pmap_remove_all(&mut self, cpu: CpuId, frame: Frame);
    /// Unmaps everything of a user space, at exec and exit.
    fn pmap_remove_pages(&mut self, cpu: CpuId, space: SpaceId);
    /// Takes rights away over `start..end`; never gives any.
    fn pmap_protect(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        start: VirtAddr,
        end: VirtAddr,
        prot: Prot,
    );
    /// Takes write permission from every mapping of a page.
    fn pmap_remove_write(&mut self, cpu: CpuId, frame: Frame);
    /// Forgets that a page was modified, so that the next store is noticed.
    fn pmap_clear_modify(&mut self, cpu: CpuId, frame: Frame);
    /// Forgets that a page was referenced; returns whether it was.
    fn pmap_ts_referenced(&mut self, cpu: CpuId, frame: Frame) -> bool;
    /// A fault the pmap itself caused (modified or referenced emulation, a first-level slot of
    /// another space): repairs it and returns true; false means that the VM must handle it.
    fn pmap_fault_fixup(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        access: Access,
        user: bool,
    ) -> bool;
    /// Fills a page with zeros.
    fn pmap_zero_page(&mut self, cpu: CpuId, frame: Frame);
    /// Copies a page.
    fn pmap_copy_page(&mut self, cpu: CpuId, from: Frame, to: Frame);
    /// Maps a frame at a kernel address, writable, unmanaged.
    fn pmap_kenter(&mut self, cpu: CpuId, va: VirtAddr, frame: Frame);
    /// Maps a kernel frame at a kernel address for user programs too (`pmap_kenter_user`): the pages at
    /// the exception vectors. It is on no list.
    fn pmap_kenter_user(&mut self, cpu: CpuId, va: VirtAddr, frame: Frame, prot: Prot);
    /// Undoes [`PmapVerbs::pmap_kenter`].
    fn pmap_kremove(&mut self, cpu: CpuId, va: VirtAddr);
    /// Maps a buffer's pages at consecutive kernel addresses.
    fn pmap_qenter(&mut self, cpu: CpuId, va: VirtAddr, frames: &[Frame]);
    /// Undoes [`PmapVerbs::pmap_qenter`].
    fn pmap_qremove(&mut self, cpu: CpuId, va: VirtAddr, pages: u32);
    /// The frame mapped at `va`, if any.
    fn pmap_extract(&self, space: SpaceId, va: VirtAddr) -> Option<Frame>;
    /// Makes a space the one of the process that runs, at exec.
    fn pmap_activate(&mut self, cpu: CpuId, space: SpaceId);
    /// Switches to a process's space, or (`None`) to a kernel thread, which under a lazy switch
    /// leaves the last user space live in TLB and caches.
    fn cpu_switch(&mut self, cpu: CpuId, to: Option<SpaceId>);
    /// The program asked that its stores in this range be executable (sysarch ARM_SYNC_ICACHE).
    fn pmap_sync_icache(&mut self, cpu: CpuId, space: SpaceId, va: VirtAddr, len: u32);
    /// busdma's look at a range before a transfer. If all of it is mapped uncached, the map is coherent for
    /// the whole transfer where the skeleton says so, whether or not a cache still holds lines of it.
    fn bus_dma_load(&self, va: VirtAddr, len: u32) -> DmaMap;
    /// busdma's cache maintenance for the range of a map.
    fn bus_dma_sync(&mut self, cpu: CpuId, op: DmaOp, map: DmaMap);
    /// Tells the policy what happens to a mapped buffer.
    fn buffer_event(&mut self, cpu: CpuId, event: BufferEvent, va: VirtAddr, frames: &[Frame]);
    /// Tells the policy that the kernel is about to use `len` bytes at a kernel address.
    fn kernel_will(&mut self, cpu: CpuId, what: KernelUse, va: VirtAddr, len: u32);
    /// Tells the policy that it has done so.
    fn kernel_did(&mut self, cpu: CpuId, what: KernelUse, va: VirtAddr, len: u32);
    /// Whether mappings of a page made from now on may be cached (`pmap_page_set_memattr`); those that
    /// exist are not looked at. Kernels before 2013 know no such thing, and nothing happens.
    fn pmap_page_set_memattr(&mut self, cpu: CpuId, frame: Frame, cacheable: bool);
}

/// The pages of a kernel range: where each part begins, its bytes, and what is mapped there.
fn used<C: PmapCtx + ?Sized>(c: &C, va: VirtAddr, len: u32) -> Vec<(VirtAddr, u32, About)> {
    let page = c.pmap().layout.page;
    let (mut at, mut left) = (va, len);
    let mut out = Vec::new();
    while left > 0 {
        let part = left.min(page - at.0 % page);
        let frame = c.pmap_extract(SpaceId::KERNEL, at);
        let about = About {
            frame,
            subject: None,
        };
        out.push((at, part, about));
        at = at.add(part);
        left -= part;
    }
    out
}

impl<C: PmapCtx + ?Sized> PmapVerbs for C {
    fn pmap_create(&mut self, cpu: CpuId) -> Option<SpaceId> {
        switch::create(self, cpu)
    }

    fn pmap_release(&mut self, cpu: CpuId, space: SpaceId) {
        remove::release(self, cpu, space);
    }

    fn pmap_enter(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        frame: Frame,
        prot: Prot,
        wired: bool,
    ) -> bool {
        enter::enter(self, cpu, (space, va), frame, prot, wired)
    }

    fn pmap_enter_quick(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        frame: Frame,
        prot: Prot,
    ) -> bool {
        enter::enter(self, cpu, (space, va), frame, prot - Prot::WRITE, false)
    }

    fn pmap_remove(&mut self, cpu: CpuId, space: SpaceId, start: VirtAddr, end: VirtAddr) {
        remove::remove(self, cpu, space, start, end);
    }

    fn pmap_remove_all(&mut self, cpu: CpuId, frame: Frame) {
        remove::remove_all(self, cpu, frame);
    }

    fn pmap_remove_pages(&mut self, cpu: CpuId, space: SpaceId) {
        remove::remove_pages(self, cpu, space);
    }

    fn pmap_protect(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        start: VirtAddr,
        end: VirtAddr,
        prot: Prot,
    ) {
        clear::protect(self, cpu, space, (start, end), prot);
    }

    fn pmap_remove_write(&mut self, cpu: CpuId, frame: Frame) {
        clear::remove_write(self, cpu, frame);
    }

    fn pmap_clear_modify(&mut self, cpu: CpuId, frame: Frame) {
        clear::clear_modify(self, cpu, frame);
    }

    fn pmap_ts_referenced(&mut self, cpu: CpuId, frame: Frame) -> bool {
        let was = self.pmap().page(frame).attrs.contains(PvFlags::REF);
        clear::clearbit(self, cpu, frame, Verb::ClearReference);
        was
    }

    fn pmap_fault_fixup(
        &mut self,
        cpu: CpuId,
        space: SpaceId,
        va: VirtAddr,
        access: Access,
        user: bool,
    ) -> bool {
        clear::fault_fixup(self, cpu, (space, va), access, user)
    }

    fn pmap_zero_page(&mut self, cpu: CpuId, frame: Frame) {
        self.charge(cpu, "pmap_zero_page");
        self.mark(cpu, Mark::Begin("pmap_zero_page"));
        ask(
            self,
            cpu,
            Hook::Zero(frame),
            About {
                frame: Some(frame),
                subject: None,
            },
        );
        let (pa, len) = (self.hw().frame_address(frame), self.hw().page_bytes());
        self.mark(cpu, Mark::Zeroed { pa, len });
        self.mark(cpu, Mark::End);
    }

    fn pmap_copy_page(&mut self, cpu: CpuId, from: Frame, to: Frame) {
        self.charge(cpu, "pmap_copy_page");
        self.mark(cpu, Mark::Begin("pmap_copy_page"));
        ask(
            self,
            cpu,
            Hook::Copy(from, to),
            About {
                frame: Some(from),
                subject: None,
            },
        );
        let len = self.hw().page_bytes();
        let (from, to) = (self.hw().frame_address(from), self.hw().frame_address(to));
        self.mark(cpu, Mark::Copied { from, to, len });
        self.mark(cpu, Mark::End);
    }

    fn pmap_kenter(&mut self, cpu: CpuId, va: VirtAddr, frame: Frame) {
        kernel::kenter(self, cpu, va, frame);
    }

    fn pmap_kenter_user(&mut self, cpu: CpuId, va: VirtAddr, frame: Frame, prot: Prot) {
        kernel::kenter_user(self, cpu, va, frame, prot);
    }

    fn pmap_kremove(&mut self, cpu: CpuId, va: VirtAddr) {
        kernel::kremove(self, cpu, va);
    }

    fn pmap_qenter(&mut self, cpu: CpuId, va: VirtAddr, frames: &[Frame]) {
        kernel::qenter(self, cpu, va, frames);
    }

    fn pmap_qremove(&mut self, cpu: CpuId, va: VirtAddr, pages: u32) {
        kernel::qremove(self, cpu, va, pages);
    }

    fn pmap_extract(&self, space: SpaceId, va: VirtAddr) -> Option<Frame> {
        crate::table::peek(self.pmap(), self.hw(), space, va).map(|pte| pte.frame())
    }

    fn pmap_activate(&mut self, cpu: CpuId, space: SpaceId) {
        switch::activate(self, cpu, space);
    }

    fn cpu_switch(&mut self, cpu: CpuId, to: Option<SpaceId>) {
        switch::switch(self, cpu, to);
    }

    fn pmap_sync_icache(&mut self, cpu: CpuId, _space: SpaceId, va: VirtAddr, len: u32) {
        switch::sync_icache(self, cpu, va, len);
    }

    fn bus_dma_load(&self, va: VirtAddr, len: u32) -> DmaMap {
        let page = self.pmap().layout.page;
        let marks = self.policy().skeleton.coherent_map != CoherentMap::Unmarked;
        let uncached = |at| {
            let pte = crate::table::peek(self.pmap(), self.hw(), SpaceId::KERNEL, va.add(at));
            pte.is_some_and(|pte| pte.valid() && !pte.cacheable())
        };
        let coherent = marks && len > 0 && (0..len).step_by(page as usize).all(uncached);
        DmaMap { va, len, coherent }
    }

    fn bus_dma_sync(&mut self, cpu: CpuId, op: DmaOp, map: DmaMap) {
        self.charge(cpu, "bus_dmamap_sync");
        if map.coherent {
            if self.policy().skeleton.coherent_map == CoherentMap::Drained {
                self.step(cpu, Step::Drain);
            }
            return;
        }
        ask(self, cpu, Hook::Dma(op, map.va, map.len), About::default());
    }

    fn buffer_event(&mut self, cpu: CpuId, event: BufferEvent, va: VirtAddr, frames: &[Frame]) {
        let page = self.pmap().layout.page;
        let live = self.policy().skeleton.current_is_live;
        for (n, frame) in frames.iter().enumerate() {
            let at = va.add(n as u32 * page);
            let pte = crate::table::read(self, cpu, SpaceId::KERNEL, at);
            let flags = remove::flags_of(self, *frame, SpaceId::KERNEL, at);
            let of = (SpaceId::KERNEL, at);
            let subject = Some(mapping(self.pmap(), cpu, of, flags, pte, live));
            ask(
                self,
                cpu,
                Hook::Buffer(event, at),
                About {
                    frame: Some(*frame),
                    subject,
                },
            );
        }
    }

    fn kernel_will(&mut self, cpu: CpuId, what: KernelUse, va: VirtAddr, len: u32) {
        for (va, len, about) in used(self, va, len) {
            ask(self, cpu, Hook::Will(what, va, len), about);
        }
    }

    fn kernel_did(&mut self, cpu: CpuId, what: KernelUse, va: VirtAddr, len: u32) {
        for (va, len, about) in used(self, va, len) {
            ask(self, cpu, Hook::Did(what, va, len), about);
        }
    }

    fn pmap_page_set_memattr(&mut self, cpu: CpuId, frame: Frame, cacheable: bool) {
        self.charge(cpu, "pmap_page_set_memattr");
        if self.policy().skeleton.memattr {
            self.pmap_mut().page_mut(frame).uncacheable = !cacheable;
        }
    }
}
