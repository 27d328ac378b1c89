//! The clock: simulated cycles over the profile's frequency.
//!
//! Source: FreeBSD `sys/kern/kern_time.c`; layouts of both families. The clock starts at a fixed
//! moment, so every run tells the same time.

use machine::VirtAddr;
use vm::{KResult, VmVerbs};

use crate::ctx::KernCtx;
use crate::elf::Abi;

use super::{Call, Outcome};

/// When every machine is switched on: 2012-02-01 12:00:00 UTC, in seconds since 1970.
const BOOT: u64 = 1_328_097_600;

/// Nanoseconds since 1970, or with `monotonic` since boot.
fn now<C: KernCtx + ?Sized>(ctx: &C, monotonic: bool) -> (u64, u32) {
    let cycles = u128::from(ctx.hw().cost.total());
    let nanoseconds = cycles * 1000 / u128::from(ctx.hw().profile().clock_mhz);
    let seconds = (nanoseconds / 1_000_000_000) as u64;
    let start = if monotonic { 0 } else { BOOT };
    (start + seconds, (nanoseconds % 1_000_000_000) as u32)
}

/// Seconds and a fraction in the family's layout: FreeBSD's has 64 bits of seconds and 16 bytes.
fn layout(abi: Abi, seconds: u64, fraction: u32) -> Vec<u8> {
    match abi {
        Abi::FreeBsd => wide(seconds, fraction),
        Abi::Linux => [(seconds as u32).to_le_bytes(), fraction.to_le_bytes()].concat(),
    }
}

fn wide(seconds: u64, fraction: u32) -> Vec<u8> {
    [seconds.to_le_bytes(), u64::from(fraction).to_le_bytes()].concat()
}

/// gettimeofday(2); the zone is UTC.
pub(crate) fn gettimeofday<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    ctx.charge(call.cpu, "gettimeofday");
    let (at, zone) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    let (seconds, nanoseconds) = now(ctx, false);
    let bytes = layout(call.abi, seconds, nanoseconds / 1000);
    if at != 0 {
        ctx.copyout_bytes(call.cpu, &bytes, VirtAddr(at))?;
    }
    if zone != 0 {
        ctx.copyout_bytes(call.cpu, &[0; 8], VirtAddr(zone))?;
    }
    Ok(0.into())
}

/// clock_gettime(2): clock 0 is the time of day, all others start at boot.
pub(crate) fn clock_gettime<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (seconds, nanoseconds) = clock(ctx, call)?;
    store(ctx, call, &layout(call.abi, seconds, nanoseconds))
}

/// Linux's clock_gettime64.
pub(crate) fn clock_gettime64<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (seconds, nanoseconds) = clock(ctx, call)?;
    store(ctx, call, &wide(seconds, nanoseconds))
}

/// clock_getres(2): a microsecond.
pub(crate) fn clock_getres<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    store(ctx, call, &layout(call.abi, 0, 1000))
}

fn clock<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<(u64, u32)> {
    let which = call.arg(ctx, 0)?;
    Ok(now(ctx, which != 0))
}

fn store<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, bytes: &[u8]) -> KResult<Outcome> {
    let at = VirtAddr(call.arg(ctx, 1)?);
    if at.0 != 0 {
        ctx.copyout_bytes(call.cpu, bytes, at)?;
    }
    Ok(0.into())
}

/// Linux's time(2).
pub(crate) fn time<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let seconds = now(ctx, false).0 as u32;
    let at = VirtAddr(call.arg(ctx, 0)?);
    if at.0 != 0 {
        ctx.copyout_bytes(call.cpu, &seconds.to_le_bytes(), at)?;
    }
    Ok(seconds.into())
}
