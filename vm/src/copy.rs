//! Loads and stores by the kernel: its own mappings, copies to and from user memory, uiomove.
//!
//! Source: FreeBSD `arm/arm/bcopyinout.S`, `arm/arm/copystr.S`, `kern/subr_uio.c`. Words where both
//! sides are aligned, bytes elsewhere. Absent: the multi-word and prefetching forms, fault-free
//! copies (copyin_nofault).

use machine::{Class, CpuId, Mark, Step, VirtAddr, Width};
use pmap::{KernelUse, PmapVerbs};

use crate::ctx::VmCtx;
use crate::fault::{panic, trap};
use crate::types::{Errno, KResult, Stop};
use crate::uio::{Uio, UioDirection, UioSegment};

/// Aborts at one access before it counts as a hang.
const TRIES_MAX: u32 = 8;

/// One side of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// Where.
    pub va: VirtAddr,
    /// With the user's rights.
    pub user: bool,
}

/// An access that is tried again after each abort that could be repaired. While the abort is
/// handled, stores are the kernel's own again (`for_program` says that they were not).
fn access<C: VmCtx + ?Sized, T>(
    c: &mut C,
    cpu: CpuId,
    user: bool,
    for_program: bool,
    mut one: impl FnMut(&mut C) -> Result<T, machine::Abort>,
) -> KResult<T> {
    let mut at = VirtAddr(0);
    for _ in 0..TRIES_MAX {
        let abort = match one(c) {
            Ok(value) => return Ok(value),
            Err(abort) => abort,
        };
        at = abort.va;
        if for_program {
            c.mark(cpu, Mark::ForProgram(false));
        }
        c.step(cpu, Step::Exception);
        let repaired = trap(c, cpu, abort, user);
        if for_program {
            c.mark(cpu, Mark::ForProgram(true));
        }
        repaired.map_err(|stop| match stop {
            Stop::Errno(Errno::EACCES) => Stop::Errno(Errno::EFAULT),
            other => other,
        })?;
    }
    let what = format!("the access at {at} aborts again and again");
    c.mark(cpu, Mark::Hang(what.clone()));
    match user {
        true => Err(Errno::EFAULT.into()),
        false => panic(c, cpu, what),
    }
}

/// A load.
pub(crate) fn load<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    side: Side,
    width: Width,
) -> KResult<u32> {
    check_user(c, side)?;
    access(c, cpu, side.user, false, |c| {
        c.load(cpu, side.va, width, side.user)
    })
}

/// A store.
pub(crate) fn store<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    side: Side,
    width: Width,
    value: u32,
    for_program: bool,
) -> KResult<()> {
    check_user(c, side)?;
    access(c, cpu, side.user, for_program, |c| {
        c.store(cpu, side.va, width, value, side.user)
    })
}

/// A user address in the kernel's half is refused before it is touched.
fn check_user<C: VmCtx + ?Sized>(c: &C, side: Side) -> KResult<()> {
    match side.user && side.va >= c.vm().config.user_end {
        true => Err(Errno::EFAULT.into()),
        false => Ok(()),
    }
}

/// The widest access that suits both addresses and what is left.
fn width(a: VirtAddr, b: VirtAddr, left: u32) -> Width {
    match (a.0 | b.0).is_multiple_of(4) && left >= 4 {
        true => Width::Word,
        false => Width::Byte,
    }
}

/// Copies until done or stopped; returns how much was copied either way.
pub(crate) fn copy<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    from: Side,
    to: Side,
    len: u32,
    for_program: bool,
) -> (u32, KResult<()>) {
    if for_program {
        c.mark(cpu, Mark::ForProgram(true));
    }
    let (mut done, mut accesses, mut result) = (0, 0, Ok(()));
    while done < len && result.is_ok() {
        let from = Side {
            va: from.va.add(done),
            ..from
        };
        let to = Side {
            va: to.va.add(done),
            ..to
        };
        let width = width(from.va, to.va, len - done);
        result = load(c, cpu, from, width)
            .and_then(|value| store(c, cpu, to, width, value, for_program));
        accesses += 1;
        if result.is_ok() {
            done += width.bytes();
        }
    }
    if for_program {
        c.mark(cpu, Mark::ForProgram(false));
    }
    spend(c, cpu, accesses);
    (done, result)
}

/// The instructions of a copy loop: two a load and store, as with multiple-register forms.
fn spend<C: VmCtx + ?Sized>(c: &mut C, cpu: CpuId, accesses: u32) {
    let cycles = c.hw().profile().cost.instruction * accesses * 2;
    c.step(cpu, Step::Spend(Class::Copy, cycles));
}

/// Stores zeros.
pub(crate) fn zero<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    va: VirtAddr,
    len: u32,
) -> KResult<()> {
    let (mut done, mut accesses) = (0, 0);
    while done < len {
        let va = va.add(done);
        let width = width(va, va, len - done);
        store(c, cpu, Side { va, user: false }, width, 0, false)?;
        done += width.bytes();
        accesses += 1;
    }
    spend(c, cpu, accesses);
    Ok(())
}

/// Loads into the host's hands.
pub(crate) fn read<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    from: Side,
    out: &mut [u8],
) -> KResult<()> {
    let mut done = 0;
    while done < out.len() {
        let va = from.va.add(done as u32);
        let width = width(va, va, (out.len() - done) as u32);
        let value = load(c, cpu, Side { va, ..from }, width)?;
        let bytes = width.bytes() as usize;
        out[done..done + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        done += bytes;
    }
    spend(c, cpu, done as u32 / 4);
    Ok(())
}

/// Stores from the host's hands.
pub(crate) fn write<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    to: Side,
    bytes: &[u8],
) -> KResult<()> {
    let mut done = 0;
    while done < bytes.len() {
        let va = to.va.add(done as u32);
        let width = width(va, va, (bytes.len() - done) as u32);
        let n = width.bytes() as usize;
        let mut word = [0; 4];
        word[..n].copy_from_slice(&bytes[done..done + n]);
        store(
            c,
            cpu,
            Side { va, ..to },
            width,
            u32::from_le_bytes(word),
            false,
        )?;
        done += n;
    }
    spend(c, cpu, done as u32 / 4);
    Ok(())
}

/// Reads a string up to its zero.
pub(crate) fn instr<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    from: VirtAddr,
    max: u32,
) -> KResult<Vec<u8>> {
    c.charge(cpu, "copyinstr");
    let mut out = Vec::new();
    for n in 0..max {
        let side = Side {
            va: from.add(n),
            user: true,
        };
        match load(c, cpu, side, Width::Byte)? {
            0 => return Ok(out),
            byte => out.push(byte as u8),
        }
    }
    Err(Errno::ENAMETOOLONG.into())
}

/// uiomove(9).
pub(crate) fn uiomove<C: VmCtx + ?Sized>(
    c: &mut C,
    cpu: CpuId,
    kva: VirtAddr,
    len: u32,
    uio: &mut Uio,
) -> KResult<()> {
    let len = len.min(uio.resid);
    c.charge(cpu, "uiomove");
    if uio.segment == UioSegment::NoCopy {
        uio.advance(len);
        return Ok(());
    }
    let kernel = Side {
        va: kva,
        user: false,
    };
    let other = Side {
        va: uio.va,
        user: uio.segment == UioSegment::User,
    };
    let read = uio.direction == UioDirection::Read;
    let (what, name) = match read {
        true => (KernelUse::Read, "copyout"),
        false => (KernelUse::Write, "copyin"),
    };
    c.charge(cpu, name);
    c.kernel_will(cpu, what, kva, len);
    let (done, result) = match read {
        true => copy(c, cpu, kernel, other, len, other.user),
        false => copy(c, cpu, other, kernel, len, false),
    };
    c.kernel_did(cpu, what, kva, len);
    uio.advance(done);
    result
}
