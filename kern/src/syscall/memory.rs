//! Memory: mmap and its like, the heap, and the architecture's own calls.
//!
//! Source: FreeBSD `sys/vm/vm_mmap.c`, `vm_unix.c` (obreak), `sys/arm/arm/sys_machdep.c` (sysarch);
//! Linux `mm/mmap.c` (brk), `arch/arm/kernel/traps.c` (arm_syscall).

use machine::{CpuId, Mark, Step, VirtAddr};
use pmap::{PmapVerbs, Prot};
use vm::{Backing, Errno, KResult, MapFlags, MmapArgs, VmVerbs, VmspaceId};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::elf::Abi;
use crate::file::FileKind;
use crate::helper;

use super::{Call, Outcome};

/// The caller's space.
pub(crate) fn space<C: KernCtx + ?Sized>(ctx: &C, call: &Call) -> KResult<VmspaceId> {
    let space = ctx.kern().proc(call.pid).vmspace;
    Ok(space.ok_or(Errno::ESRCH)?)
}

/// `prot` as programs write it: read 1, write 2, execute 4, in both families.
fn prot(bits: u32) -> Prot {
    Prot::from_bits_truncate((bits & 7) as u8)
}

/// mmap(2): address, length, protection and flags in arguments 0 to 3, the descriptor in 4.
pub(crate) fn mmap<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, offset: u64) -> KResult<Outcome> {
    let anonymous = if call.abi == Abi::FreeBsd {
        0x1000
    } else {
        0x20
    };
    let (addr, len) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    let (bits, flags, fd) = (call.arg(ctx, 2)?, call.arg(ctx, 3)?, call.arg(ctx, 4)?);
    ctx.charge(call.cpu, "mmap");
    let mut kind = match flags & 3 {
        1 => MapFlags::SHARED,
        2 => MapFlags::PRIVATE,
        0 if call.abi == Abi::FreeBsd => MapFlags::PRIVATE,
        _ => return Err(Errno::EINVAL.into()),
    };
    let shared = kind == MapFlags::SHARED;
    kind.set(MapFlags::FIXED, flags & 0x10 != 0);
    let (backing, max_prot) = match flags & anonymous != 0 {
        true => (Backing::Anonymous, Prot::all()),
        false => file_backing(ctx, call, fd, shared, prot(bits), offset)?,
    };
    let args = MmapArgs {
        addr: VirtAddr(addr),
        len,
        prot: prot(bits),
        max_prot,
        flags: kind,
        backing,
    };
    let space = space(ctx, call)?;
    let at = ctx.vm_mmap(call.cpu, space, args)?;
    Ok(at.0.into())
}

/// The object of a file to be mapped, and the most that mprotect may give later.
fn file_backing<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    fd: u32,
    shared: bool,
    prot: Prot,
    offset: u64,
) -> KResult<(Backing, Prot)> {
    let id = descriptor::named(ctx, call.pid, fd)?;
    let file = *ctx.kern().file(id);
    let FileKind::Vnode(vnode) = file.kind else {
        return Err(Errno::ENODEV.into());
    };
    let max = match shared && !file.writable {
        true => Prot::READ | Prot::EXEC,
        false => Prot::all(),
    };
    if !file.readable || !max.contains(prot) {
        return Err(Errno::EACCES.into());
    }
    let page = u64::from(ctx.hw().page_bytes());
    let offset = u32::try_from(offset)
        .ok()
        .filter(|o| u64::from(*o) % page == 0);
    let offset = offset.ok_or(Errno::EINVAL)?;
    let object = ctx.vfs().object(vnode).ok_or(Errno::ENODEV)?;
    Ok((Backing::Object { object, offset }, max))
}

/// munmap(2).
pub(crate) fn munmap<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "munmap");
    let (addr, len) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?);
    let space = space(ctx, call)?;
    ctx.vm_munmap(call.cpu, space, addr, len)?;
    Ok(0.into())
}

/// mprotect(2).
pub(crate) fn mprotect<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "mprotect");
    let (addr, len) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?);
    let to = prot(call.arg(ctx, 2)?);
    let space = space(ctx, call)?;
    ctx.vm_mprotect(call.cpu, space, addr, len, to)?;
    Ok(0.into())
}

/// msync(2). MS_INVALIDATE is 2 in both families.
pub(crate) fn msync<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (addr, len) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?);
    let invalidate = call.arg(ctx, 2)? & 2 != 0;
    let space = space(ctx, call)?;
    ctx.vm_msync(call.cpu, space, addr, len, invalidate)?;
    Ok(0.into())
}

/// break(2): the heap ends at argument 0.
pub(crate) fn obreak<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let to = VirtAddr(call.arg(ctx, 0)?);
    set_heap(ctx, call, to)?;
    Ok(0.into())
}

/// Linux's brk(2): the heap's end, changed or not.
pub(crate) fn brk<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let to = VirtAddr(call.arg(ctx, 0)?);
    if to >= ctx.kern().proc(call.pid).heap_start {
        match set_heap(ctx, call, to) {
            Err(vm::Stop::Errno(_)) | Ok(()) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(ctx.kern().proc(call.pid).heap_end.0.into())
}

fn set_heap<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, to: VirtAddr) -> KResult<()> {
    let proc = ctx.kern().proc(call.pid);
    let (start, end) = (proc.heap_start, proc.heap_end);
    let page = ctx.hw().page_bytes();
    let up = |va: VirtAddr| va.0.checked_next_multiple_of(page).ok_or(Errno::ENOMEM);
    if to < start {
        return Err(Errno::EINVAL.into());
    }
    if to.0 - start.0 > ctx.kern().config.quotas.heap_bytes {
        return Err(Errno::ENOMEM.into());
    }
    let (before, after) = (up(end)?, up(to)?);
    let space = space(ctx, call)?;
    if after > before {
        let (from, until) = (VirtAddr(before), VirtAddr(after));
        let (rw, all) = (Prot::READ | Prot::WRITE, Prot::all());
        let flags = MapFlags::PRIVATE;
        ctx.vm_map_insert(
            call.cpu,
            space,
            Backing::Anonymous,
            from,
            until,
            rw,
            all,
            flags,
        )?;
    } else if after < before {
        ctx.vm_munmap(call.cpu, space, VirtAddr(after), before - after)?;
    }
    ctx.kern_mut().proc_mut(call.pid).heap_end = to;
    Ok(())
}

/// The program asks that its stores to `va..va + len` be executable.
///
/// # Errors
/// `EFAULT` for a range that is not all mapped by the program.
pub(crate) fn sync_icache<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    va: VirtAddr,
    len: u32,
) -> KResult<()> {
    let space = space(ctx, call)?;
    let end = va.0.checked_add(len).ok_or(Errno::EFAULT)?;
    let mut at = va;
    while at.0 < end {
        let mapping = ctx.vm().mapping_at(space, at);
        at = mapping.ok_or(Errno::EFAULT)?.1;
    }
    let pmap = ctx.vm().pmap_of(space);
    ctx.pmap_sync_icache(call.cpu, pmap, va, len);
    ctx.mark(call.cpu, Mark::Sync { va, len });
    Ok(())
}

/// sysarch(2) of FreeBSD/arm.
pub(crate) fn sysarch<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "sysarch");
    let (operation, parameters) = (call.arg(ctx, 0)?, VirtAddr(call.arg(ctx, 1)?));
    match operation {
        0 => {
            let mut range = [0; 8];
            ctx.copyin_bytes(call.cpu, parameters, &mut range)?;
            let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| range[n + i]));
            sync_icache(ctx, call, VirtAddr(word(0)), word(4))?;
        }
        1 => ctx.step(call.cpu, Step::Drain),
        2 => {
            helper::install_tp(ctx, call.cpu)?;
            set_tls(ctx, call.cpu, call, parameters.0);
        }
        3 => return Ok(ctx.kern().proc(call.pid).tls.into()),
        _ => return Err(Errno::EINVAL.into()),
    }
    Ok(0.into())
}

/// Sets the thread word, where the program's code finds it.
pub(crate) fn set_tls<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, call: &Call, word: u32) {
    ctx.kern_mut().proc_mut(call.pid).tls = word;
    ctx.user_regs_mut(cpu).tls = word;
    helper::store_thread_word(ctx, cpu, word);
}
