//! The pages at the top of the address space that user programs read and execute.
//!
//! At 0xffff0000 Linux's vector page with its user helpers: real ARM code, written by the kernel
//! once and executed by every program; the word that `get_tls` loads is stored by the kernel at each
//! switch through its own mapping, so the page is shared data as well. At 0xffff1000 FreeBSD's
//! thread-pointer page (ARM_TP_ADDRESS), with the bounds of a restartable sequence behind it.
//!
//! Source: Linux `arch/arm/kernel/entry-armv.S` (kuser helpers), `signal.c` (sigreturn_codes),
//! `Documentation/arm/kernel_user_helpers.txt`; FreeBSD `sys/arm/include/sysarch.h`, `arm/swtch.S`.
//! The code is ours. A page is made when the first program needs it.
//!
//! Absent on purpose: cmpxchg64, and the exception vectors themselves: the kernel here is Rust.

use machine::cpu::Regs;
use machine::{CpuId, VirtAddr, Width};
use pmap::{KernelUse, PmapVerbs, Prot};
use vfs_sim::VfsVerbs;
use vm::{KResult, VmVerbs};

use crate::ctx::KernCtx;

/// Linux's helper page.
pub const HELPER_PAGE: VirtAddr = VirtAddr(0xffff_0000);
/// FreeBSD's thread-pointer page.
pub const TP_PAGE: VirtAddr = VirtAddr(0xffff_1000);
/// The word that `get_tls` loads.
const TLS_WORD: u32 = 0xff0;
/// Where a signal handler without a restorer returns to.
const SIGRETURN: u32 = 0x500;

/// What the helper page holds: offset and word. Everything else is zero.
const CODE: &[(u32, u32)] = &[
    (SIGRETURN, 0xe3a0_7077),         // mov r7, #119 (sigreturn)
    (SIGRETURN + 4, 0xef00_0000),     // swi 0
    (SIGRETURN + 8, 0xdf00_2777),     // Thumb: the same
    (SIGRETURN + 12, 0xe3a0_70ad),    // mov r7, #173 (rt_sigreturn)
    (SIGRETURN + 16, 0xef00_0000),    // swi 0
    (SIGRETURN + 20, 0xdf00_27ad),    // Thumb: the same
    (BARRIER, RETURN),                // memory barrier: one CPU needs none
    (COMPARE, 0xe592_3000),           // cmpxchg: ldr r3, [r2]
    (COMPARE + 4, 0xe053_3000),       // subs r3, r3, r0
    (COMPARE_STORE, 0x0582_1000),     // streq r1, [r2]
    (COMPARE_STORE + 4, 0xe273_0000), // rsbs r0, r3, #0
    (COMPARE_STORE + 8, RETURN),
    (GET_TLS, 0xe59f_0008), // ldr r0, [pc, #8]: the word at 0xff0
    (GET_TLS + 4, RETURN),
    (VERSION, 3),
];
const BARRIER: u32 = 0xfa0;
const COMPARE: u32 = 0xfc0;
const COMPARE_STORE: u32 = COMPARE + 8;
const GET_TLS: u32 = 0xfe0;
const VERSION: u32 = 0xffc;
const RETURN: u32 = 0xe12f_ff1e; // bx lr

/// Where a Linux handler without a restorer returns to.
pub fn sigreturn_address(siginfo: bool, thumb: bool) -> u32 {
    let at = match (siginfo, thumb) {
        (false, false) => 0,
        (false, true) => 8 | 1,
        (true, false) => 12,
        (true, true) => 20 | 1,
    };
    HELPER_PAGE.0 + SIGRETURN + at
}

/// Makes and maps the helper page unless it is there.
///
/// # Errors
/// `ENOMEM`.
pub fn install<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) -> KResult<()> {
    if ctx.kern().helper.is_some() {
        return Ok(());
    }
    let frame = ctx.vm_page_alloc(cpu, None, 0)?;
    ctx.pmap_zero_page(cpu, frame);
    let kva = ctx.sf_buf_alloc(cpu, frame)?;
    let len = ctx.hw().page_bytes();
    ctx.kernel_will(cpu, KernelUse::Poke, kva, len);
    for (offset, word) in CODE {
        ctx.kernel_store(cpu, kva.add(*offset), Width::Word, *word)?;
    }
    ctx.kernel_did(cpu, KernelUse::Poke, kva, len);
    ctx.sf_buf_free(cpu, kva);
    ctx.map_user_page(cpu, HELPER_PAGE, frame, Prot::READ | Prot::EXEC);
    ctx.kern_mut().helper = Some(frame);
    Ok(())
}

/// Makes and maps the thread-pointer page unless it is there.
///
/// # Errors
/// `ENOMEM`.
pub fn install_tp<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId) -> KResult<()> {
    if ctx.kern().tp_page.is_some() {
        return Ok(());
    }
    let frame = ctx.vm_page_alloc(cpu, None, 0)?;
    ctx.pmap_zero_page(cpu, frame);
    ctx.map_user_page(cpu, TP_PAGE, frame, Prot::READ | Prot::WRITE);
    ctx.kern_mut().tp_page = Some(frame);
    Ok(())
}

/// At a switch: the next program's thread word goes where its code looks for it.
pub fn store_thread_word<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, word: u32) {
    // A kernel mapping that is always there: a failed store would be a panic, which the VM reports.
    if ctx.kern().helper.is_some() {
        let _ = ctx.kernel_store(cpu, HELPER_PAGE.add(TLS_WORD), Width::Word, word);
    }
    if ctx.kern().tp_page.is_some() {
        let _ = ctx.kernel_store(cpu, TP_PAGE, Width::Word, word);
    }
}

/// A program that is interrupted inside `cmpxchg` before its store starts it again, so that the
/// comparison holds when the store is made.
pub fn restart_atomic(regs: &mut Regs) {
    let inside = regs.r[15].wrapping_sub(HELPER_PAGE.0 + COMPARE);
    if inside > 0 && inside <= COMPARE_STORE - COMPARE {
        regs.r[15] = HELPER_PAGE.0 + COMPARE;
    }
}

/// The same for FreeBSD's restartable sequence, whose bounds the program keeps in its page.
///
/// # Errors
/// The kernel's panic.
pub fn restart_sequence<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    regs: &mut Regs,
) -> KResult<()> {
    if ctx.kern().tp_page.is_none() {
        return Ok(());
    }
    let start = ctx.kernel_load(cpu, TP_PAGE.add(4), Width::Word)?;
    let end = ctx.kernel_load(cpu, TP_PAGE.add(8), Width::Word)?;
    if start < regs.r[15] && regs.r[15] < end {
        regs.r[15] = start;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_compare_starts_again_and_a_finished_one_does_not() {
        let at = |offset| {
            let mut regs = Regs::default();
            regs.r[15] = HELPER_PAGE.0 + offset;
            restart_atomic(&mut regs);
            regs.r[15] - HELPER_PAGE.0
        };
        assert_eq!(at(COMPARE), COMPARE);
        assert_eq!(at(COMPARE + 4), COMPARE);
        assert_eq!(at(COMPARE_STORE), COMPARE);
        assert_eq!(at(COMPARE_STORE + 4), COMPARE_STORE + 4);
        assert_eq!(at(GET_TLS), GET_TLS);
    }

    #[test]
    fn helpers_are_where_linux_documents_them() {
        let word = |at| CODE.iter().find(|(o, _)| *o == at).map(|(_, w)| *w);
        assert_eq!(word(0xffc), Some(3));
        assert!(word(0xfc0).is_some() && word(0xfa0).is_some() && word(0xfe0).is_some());
    }
}
