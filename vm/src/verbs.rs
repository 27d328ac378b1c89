//! The VM's verbs, as the layers above call them. Each is one call into the module of its noun.
//!
//! Source: FreeBSD `vm/vm_page.c`, `vm_object.c`, `vm_map.c`, `vm_mmap.c`, `vm_fault.c`,
//! `vm_pageout.c`, `kern/subr_uio.c`, `arm/arm/copystr.S`. Absent: swap, wiring by mlock, madvise,
//! minherit, superpages.
//!
//! The *current* space of a CPU is the one that [`VmVerbs::vmspace_switch`] or
//! [`VmVerbs::vmspace_activate`] named last: copies to and from user memory go through it, as a
//! trap does through curproc's.

use machine::{Abort, Access, CpuId, Frame, VirtAddr, Width};
use pmap::Prot;

use crate::copy::{self, Side};
use crate::ctx::VmCtx;
use crate::fault::For;
use crate::page::Queue;
use crate::types::{Backing, Channel, KResult, MapFlags, MmapArgs, ObjectId, VmspaceId, VnodeId};
use crate::uio::Uio;
use crate::vm::operation;
use crate::{fault, mmap, object, pageout, vmspace};

/// The VM's interface. Every verb names its CPU.
pub trait VmVerbs: VmCtx {
    /// Gives a free page to an object, or to nobody (then wired). It comes busy, invalid and on no
    /// queue, its bytes undefined.
    ///
    /// # Errors
    /// `ENOMEM` when no page is free and the page daemon cannot free one; `EEXIST` when the object
    /// has the page already.
    fn vm_page_alloc(
        &mut self,
        cpu: CpuId,
        object: Option<ObjectId>,
        pindex: u32,
    ) -> KResult<Frame> {
        object::page_alloc(self, cpu, object, pindex)
    }

    /// Frees a page: out of its object and queue, and with it the meaning of its bytes. The caller
    /// has unmapped it.
    fn vm_page_free(&mut self, cpu: CpuId, frame: Frame) {
        object::page_free(self, cpu, frame);
    }

    /// The page of an object, allocated if absent, busy for the caller (vm_page_grab).
    ///
    /// # Errors
    /// `Wait` while somebody else has it busy; `ENOMEM`.
    fn vm_page_grab(&mut self, cpu: CpuId, object: ObjectId, pindex: u32) -> KResult<Frame> {
        object::page_grab(self, cpu, object, pindex)
    }

    /// Ends the caller's exclusive use of a page and wakes who waits for it.
    fn vm_page_wakeup(&mut self, frame: Frame) {
        self.vm_mut().page_mut(frame).busy = false;
        self.wakeup(Channel::Page(frame));
    }

    /// Keeps the page daemon away from a page; counted.
    fn vm_page_wire(&mut self, frame: Frame) {
        self.vm_mut().page_mut(frame).wired += 1;
        self.vm_mut().requeue(frame, Queue::None);
    }

    /// Undoes one [`VmVerbs::vm_page_wire`]; the last one puts the page on a queue.
    fn vm_page_unwire(&mut self, frame: Frame) {
        object::unwire(self, frame);
    }

    /// Whether a page differs from its backing store; what the pmap noticed is taken over.
    fn vm_page_test_dirty(&mut self, frame: Frame) -> bool {
        object::test_dirty(self, frame)
    }

    /// Forgets that a page is dirty; its mappings were write-protected before.
    fn vm_page_undirty(&mut self, frame: Frame) {
        object::undirty(self, frame);
    }

    /// A new object of `pages` pages with one reference: a vnode's, or anonymous.
    ///
    /// # Errors
    /// `ENOMEM` when the table is full.
    fn vm_object_allocate(&mut self, vnode: Option<VnodeId>, pages: u32) -> KResult<ObjectId> {
        object::allocate(self, vnode, pages)
    }

    /// One more reference.
    fn vm_object_reference(&mut self, object: ObjectId) {
        let record = self.vm_mut().object_mut(object);
        record.refs += 1;
        record.onemapping = false;
    }

    /// One reference less. The last one of an anonymous object unmaps and frees its pages and drops
    /// what it shadows; a vnode's object then belongs to the vnode alone and its pager is told.
    fn vm_object_deallocate(&mut self, cpu: CpuId, object: ObjectId) {
        object::deallocate(self, cpu, object);
    }

    /// Unmaps and frees the pages `start..end` of an object, dirty or not (truncation, reclaim).
    ///
    /// # Errors
    /// `Wait` for a busy page; the pages before it are gone.
    fn vm_object_page_remove(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        start: u32,
        end: u32,
    ) -> KResult<()> {
        object::page_remove(self, cpu, object, start, end)
    }

    /// Writes the dirty pages `start..end` of a vnode's object through its pager, write permission
    /// taken away first so that later stores are noticed.
    ///
    /// # Errors
    /// `Wait`; the pager's.
    fn vm_object_page_clean(
        &mut self,
        cpu: CpuId,
        object: ObjectId,
        start: u32,
        end: u32,
        sync: bool,
    ) -> KResult<()> {
        object::page_clean(self, cpu, object, start, end, sync)
    }

    /// Marks an object's pages as program text (VV_TEXT), as exec does.
    fn vm_object_set_text(&mut self, object: ObjectId) {
        self.vm_mut().object_mut(object).text = true;
    }

    /// A new address space with an empty map and a pmap.
    ///
    /// # Errors
    /// `EAGAIN` when there is no pmap or no slot left.
    fn vmspace_alloc(&mut self, cpu: CpuId) -> KResult<VmspaceId> {
        vmspace::alloc(self, cpu)
    }

    /// Gives a space back at exit: unmaps everything at once (pmap_remove_pages), drops the map's
    /// references, releases the pmap. It must be current nowhere; a switch comes first.
    fn vmspace_free(&mut self, cpu: CpuId, space: VmspaceId) {
        vmspace::free(self, cpu, space);
    }

    /// Empties a space for exec of a new image: pmap_remove_pages, then the map.
    fn vmspace_clear(&mut self, cpu: CpuId, space: VmspaceId) {
        vmspace::exec(self, cpu, space);
    }

    /// A child's space: private entries become copy-on-write on both sides, the parent's pages are
    /// write-protected, shared entries stay shared; the child's pmap starts empty.
    ///
    /// # Errors
    /// As [`VmVerbs::vmspace_alloc`].
    fn vmspace_fork(&mut self, cpu: CpuId, parent: VmspaceId) -> KResult<VmspaceId> {
        vmspace::fork(self, cpu, parent)
    }

    /// Switches to a process's space, or to a kernel thread (`None`), which under a lazy switch
    /// leaves the last space live. Makes it the CPU's current one.
    fn vmspace_switch(&mut self, cpu: CpuId, to: Option<VmspaceId>) {
        vmspace::switch(self, cpu, to);
    }

    /// Makes a space the current one of the process that runs, at exec (pmap_activate).
    fn vmspace_activate(&mut self, cpu: CpuId, space: VmspaceId) {
        vmspace::activate(self, cpu, space);
    }

    /// Enters `start..end` into a map, which must be free there (vm_map_insert). A private mapping
    /// of an object is copy-on-write.
    ///
    /// # Errors
    /// `EINVAL` for a bad range, `ENOMEM` where something is mapped or the map is full.
    #[allow(clippy::too_many_arguments, reason = "vm_map_insert's own")]
    fn vm_map_insert(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        backing: Backing,
        start: VirtAddr,
        end: VirtAddr,
        prot: Prot,
        max_prot: Prot,
        flags: MapFlags,
    ) -> KResult<()> {
        let range = mmap::Range {
            start,
            end,
            prot,
            max_prot,
            flags,
        };
        mmap::insert(self, cpu, space, backing, range)
    }

    /// A stack that ends at `top`: `initial` bytes at once, up to `max` by faults below.
    ///
    /// # Errors
    /// As [`VmVerbs::vm_map_insert`].
    fn vm_map_stack(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        top: VirtAddr,
        initial: u32,
        max: u32,
        prot: Prot,
    ) -> KResult<()> {
        mmap::stack(self, cpu, space, top, initial, max, prot)
    }

    /// mmap(2): finds or clears the range, enters it, and returns its address.
    ///
    /// # Errors
    /// `EINVAL` for flags, length, alignment or range; `ENOMEM` without room.
    fn vm_mmap(&mut self, cpu: CpuId, space: VmspaceId, args: MmapArgs) -> KResult<VirtAddr> {
        operation(self, cpu, "vm_mmap", |c| mmap::mmap(c, cpu, space, args))
    }

    /// munmap(2).
    ///
    /// # Errors
    /// `EINVAL` for alignment or range.
    fn vm_munmap(&mut self, cpu: CpuId, space: VmspaceId, addr: VirtAddr, len: u32) -> KResult<()> {
        mmap::munmap(self, cpu, space, addr, len)
    }

    /// mprotect(2). Rights are taken from mapped pages at once; given ones come by fault.
    ///
    /// # Errors
    /// `EINVAL` for alignment or range, `EACCES` above an entry's maximum, `ENOMEM` for a hole.
    fn vm_mprotect(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        addr: VirtAddr,
        len: u32,
        prot: Prot,
    ) -> KResult<()> {
        mmap::mprotect(self, cpu, space, addr, len, prot)
    }

    /// msync(2): writes the dirty pages of shared file mappings; `invalidate` then drops them.
    ///
    /// # Errors
    /// `EINVAL` for alignment or a hole; `Wait`; the pager's.
    fn vm_msync(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        addr: VirtAddr,
        len: u32,
        invalidate: bool,
    ) -> KResult<()> {
        mmap::msync(self, cpu, space, addr, len, invalidate)
    }

    /// Resolves a page fault of a user address.
    ///
    /// # Errors
    /// `EFAULT` without a mapping, `EACCES` against its protection, `EIO` from the pager, `ENOMEM`;
    /// `Wait`.
    fn vm_fault(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        va: VirtAddr,
        access: Access,
    ) -> KResult<()> {
        fault::fault(self, cpu, space, va, access, For::Access).map(|_| ())
    }

    /// An abort, whoever took it: first what the pmap itself caused (pmap_fault_fixup, with the
    /// current process's space even for kernel addresses), then the current process's map. A kernel
    /// address left over is in a no-fault map. `user` says whose access it was; copyin's and
    /// copyout's are the user's.
    ///
    /// # Errors
    /// As [`VmVerbs::vm_fault`]; `Panic` for a kernel address; `EFAULT` for one that the user touched,
    /// for alignment and for a bus error.
    fn vm_trap(&mut self, cpu: CpuId, abort: Abort, user: bool) -> KResult<()> {
        fault::trap(self, cpu, abort, user)
    }

    /// Faults a page in if need be and wires it, for a debugger's access to another process
    /// (vm_fault_hold). A store may override write protection of a private entry: the page is copied
    /// and stays mapped as the entry says. [`VmVerbs::vm_page_unwire`] ends it.
    ///
    /// # Errors
    /// As [`VmVerbs::vm_fault`].
    fn vm_fault_hold(
        &mut self,
        cpu: CpuId,
        space: VmspaceId,
        va: VirtAddr,
        access: Access,
    ) -> KResult<Frame> {
        let frame = fault::fault(self, cpu, space, va, access, For::Hold)?;
        self.vm_page_wire(frame);
        Ok(frame)
    }

    /// A kernel load, through its own mapping.
    ///
    /// # Errors
    /// `Panic`: kernel maps are no-fault.
    fn kernel_load(&mut self, cpu: CpuId, va: VirtAddr, width: Width) -> KResult<u32> {
        copy::load(self, cpu, Side { va, user: false }, width)
    }

    /// A kernel store, through its own mapping.
    ///
    /// # Errors
    /// `Panic`: kernel maps are no-fault. A write-protected buffer ends here.
    fn kernel_store(&mut self, cpu: CpuId, va: VirtAddr, width: Width, value: u32) -> KResult<()> {
        copy::store(self, cpu, Side { va, user: false }, width, value, false)
    }

    /// Zeroes kernel memory by stores; the caller tells the policy with `kernel_will`.
    ///
    /// # Errors
    /// `Panic`.
    fn kernel_zero(&mut self, cpu: CpuId, va: VirtAddr, len: u32) -> KResult<()> {
        copy::zero(self, cpu, va, len)
    }

    /// Loads kernel memory into the host's hands (exec reads its header so).
    ///
    /// # Errors
    /// `Panic`.
    fn kernel_read(&mut self, cpu: CpuId, va: VirtAddr, out: &mut [u8]) -> KResult<()> {
        copy::read(self, cpu, Side { va, user: false }, out)
    }

    /// Copies `len` bytes from user memory to kernel memory; returns nothing on success.
    ///
    /// # Errors
    /// `EFAULT`; `Wait`; `Panic`.
    fn copyin(&mut self, cpu: CpuId, from: VirtAddr, to: VirtAddr, len: u32) -> KResult<()> {
        self.charge(cpu, "copyin");
        let (from, to) = (
            Side {
                va: from,
                user: true,
            },
            Side {
                va: to,
                user: false,
            },
        );
        copy::copy(self, cpu, from, to, len, false).1
    }

    /// Copies `len` bytes from kernel memory to user memory.
    ///
    /// # Errors
    /// `EFAULT`; `Wait`; `Panic`.
    fn copyout(&mut self, cpu: CpuId, from: VirtAddr, to: VirtAddr, len: u32) -> KResult<()> {
        self.charge(cpu, "copyout");
        let (from, to) = (
            Side {
                va: from,
                user: false,
            },
            Side { va: to, user: true },
        );
        copy::copy(self, cpu, from, to, len, false).1
    }

    /// Copies user memory into the host's hands (a system call's arguments).
    ///
    /// # Errors
    /// `EFAULT`; `Wait`.
    fn copyin_bytes(&mut self, cpu: CpuId, from: VirtAddr, out: &mut [u8]) -> KResult<()> {
        self.charge(cpu, "copyin");
        copy::read(
            self,
            cpu,
            Side {
                va: from,
                user: true,
            },
            out,
        )
    }

    /// Stores bytes from the host's hands into user memory (a result, argv, sigcode).
    ///
    /// # Errors
    /// `EFAULT`; `Wait`.
    fn copyout_bytes(&mut self, cpu: CpuId, bytes: &[u8], to: VirtAddr) -> KResult<()> {
        self.charge(cpu, "copyout");
        copy::write(self, cpu, Side { va: to, user: true }, bytes)
    }

    /// Copies a string of at most `max` bytes, its end included; returns it without its end.
    ///
    /// # Errors
    /// `EFAULT`, `ENAMETOOLONG`; `Wait`.
    fn copyinstr(&mut self, cpu: CpuId, from: VirtAddr, max: u32) -> KResult<Vec<u8>> {
        copy::instr(self, cpu, from, max)
    }

    /// Moves up to `len` bytes between kernel memory at `kva` and the transfer's memory, and
    /// advances it. `kernel_will` and `kernel_did` of the kernel's side are sent here.
    ///
    /// # Errors
    /// `EFAULT`, `Wait`, `Panic`; what was moved before counts in `uio`.
    fn uiomove(&mut self, cpu: CpuId, kva: VirtAddr, len: u32, uio: &mut Uio) -> KResult<()> {
        copy::uiomove(self, cpu, kva, len, uio)
    }

    /// One pass of the page daemon: frees up to `want` inactive pages, cleaning dirty file pages
    /// through their pager. Returns how many it freed.
    fn vm_pageout(&mut self, cpu: CpuId, want: u32) -> u32 {
        pageout::scan(self, cpu, want)
    }
}

impl<C: VmCtx + ?Sized> VmVerbs for C {}
