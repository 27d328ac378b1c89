//! Services that only a Linux program asks for.
//!
//! Source: Linux `kernel/sys.c`, `fs/select.c`, `arch/arm/kernel/traps.c` (arm_syscall).

use machine::VirtAddr;
use vm::{Channel, Errno, KResult, Stop, VmVerbs};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::file::{FileKind, OpenFile};
use crate::helper;
use crate::limits::DESCRIPTORS_MAX;

use super::files;
use super::{Call, Outcome, memory, names};

/// uname(2). The release is one that current C libraries accept.
pub(crate) fn uname<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    const FIELDS: [&str; 6] = [
        "Linux",
        "pmaplab",
        "5.10.0",
        "#1 2012-02-01",
        "armv5tel",
        "",
    ];
    let mut bytes = Vec::new();
    for field in FIELDS {
        let mut text = field.as_bytes().to_vec();
        text.resize(65, 0);
        bytes.extend(text);
    }
    let at = VirtAddr(call.arg(ctx, 0)?);
    ctx.copyout_bytes(call.cpu, &bytes, at)?;
    Ok(0.into())
}

/// creat(2) is open for writing, created and emptied.
pub(crate) fn creat<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let mut call = *call;
    const WRITE_CREATE_TRUNCATE: u32 = 0x241;
    call.set_arg(1, WRITE_CREATE_TRUNCATE);
    files::open(ctx, &call, 0)
}

/// readlink(2): the file system has no links; `/proc/self/exe` names the image.
pub(crate) fn readlink<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<Outcome> {
    let path = names::path(ctx, call, n)?;
    let (at, len) = (VirtAddr(call.arg(ctx, n + 1)?), call.arg(ctx, n + 2)?);
    if path != "/proc/self/exe" {
        ctx.vfs().lookup(&path)?;
        return Err(Errno::EINVAL.into());
    }
    let name = ctx.kern().proc(call.pid).name.clone().into_bytes();
    let bytes = &name[..name.len().min(len as usize)];
    ctx.copyout_bytes(call.cpu, bytes, at)?;
    Ok((bytes.len() as u32).into())
}

/// getcwd(2): the length with its end.
pub(crate) fn getcwd<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (at, len) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?);
    let mut bytes = ctx.kern().proc(call.pid).cwd.clone().into_bytes();
    bytes.push(0);
    if bytes.len() > len as usize {
        // ERANGE, which this kernel has no name for.
        return Err(Errno::EINVAL.into());
    }
    ctx.copyout_bytes(call.cpu, &bytes, at)?;
    Ok((bytes.len() as u32).into())
}

/// _llseek(2): descriptor, high word, low word, where the result goes, whence.
pub(crate) fn llseek<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let by = u64::from(call.arg(ctx, 1)?) << 32 | u64::from(call.arg(ctx, 2)?);
    let (at, whence) = (VirtAddr(call.arg(ctx, 3)?), call.arg(ctx, 4)?);
    let to = files::lseek(ctx, call, by as i64, whence)?;
    ctx.copyout_bytes(call.cpu, &to.to_le_bytes(), at)?;
    Ok(0.into())
}

/// poll(2): how many of the descriptors are ready. It waits for the first pipe among them.
pub(crate) fn poll<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (at, count) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?);
    let timeout = call.arg(ctx, 2)?;
    if count > DESCRIPTORS_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = vec![0; 8 * count as usize];
    ctx.copyin_bytes(call.cpu, at, &mut bytes)?;
    let (mut ready, mut pipe) = (0, None);
    for entry in bytes.chunks_exact_mut(8) {
        let fd = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let wanted = u16::from_le_bytes([entry[4], entry[5]]);
        let found = match descriptor::named(ctx, call.pid, fd) {
            _ if fd >> 31 == 1 => 0,
            Err(_) => INVALID,
            Ok(id) => {
                let file = *ctx.kern().file(id);
                if let FileKind::PipeRead(id) | FileKind::PipeWrite(id) = file.kind {
                    pipe = pipe.or(Some(id));
                }
                events(ctx, &file) & (wanted | HANGUP)
            }
        };
        entry[6..8].copy_from_slice(&found.to_le_bytes());
        ready += u32::from(found != 0);
    }
    match pipe {
        Some(pipe) if ready == 0 && timeout != 0 => Err(Stop::Wait(Channel::Pipe(pipe.0))),
        _ => {
            ctx.copyout_bytes(call.cpu, &bytes, at)?;
            Ok(ready.into())
        }
    }
}

const IN: u16 = 1;
const OUT: u16 = 4;
const HANGUP: u16 = 0x10;
const INVALID: u16 = 0x20;

fn events<C: KernCtx + ?Sized>(ctx: &C, file: &OpenFile) -> u16 {
    let size = ctx.kern().config.quotas.pipe_bytes;
    match file.kind {
        FileKind::PipeRead(pipe) => {
            let pipe = &ctx.kern().pipes[pipe.0 as usize];
            let data = if pipe.count > 0 { IN } else { 0 };
            data | if pipe.writers == 0 { HANGUP } else { 0 }
        }
        FileKind::PipeWrite(pipe) => {
            let pipe = &ctx.kern().pipes[pipe.0 as usize];
            let space = if pipe.count < size { OUT } else { 0 };
            space | if pipe.readers == 0 { HANGUP } else { 0 }
        }
        _ => IN | OUT,
    }
}

/// ARM's cacheflush: from, to, flags.
pub(crate) fn cacheflush<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (start, end) = (call.arg(ctx, 0)?, call.arg(ctx, 1)?);
    if end < start || call.arg(ctx, 2)? != 0 {
        return Err(Errno::EINVAL.into());
    }
    memory::sync_icache(ctx, call, VirtAddr(start), end - start)?;
    Ok(0.into())
}

/// ARM's set_tls.
pub(crate) fn set_tls<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let word = call.arg(ctx, 0)?;
    helper::install(ctx, call.cpu)?;
    memory::set_tls(ctx, call.cpu, call, word);
    Ok(0.into())
}

/// A structure of zeros at argument `n`.
pub(crate) fn zeros<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    n: u32,
    bytes: usize,
) -> KResult<Outcome> {
    let at = VirtAddr(call.arg(ctx, n)?);
    if at.0 != 0 {
        ctx.copyout_bytes(call.cpu, &vec![0; bytes], at)?;
    }
    Ok(0.into())
}

fn limit<C: KernCtx + ?Sized>(ctx: &C, which: u32) -> u32 {
    match which {
        3 => ctx.kern().config.quotas.stack_bytes,
        7 => DESCRIPTORS_MAX,
        _ => u32::MAX,
    }
}

/// ugetrlimit(2).
pub(crate) fn getrlimit<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (which, at) = (call.arg(ctx, 0)?, VirtAddr(call.arg(ctx, 1)?));
    let word = limit(ctx, which).to_le_bytes();
    ctx.copyout_bytes(call.cpu, &[word, word].concat(), at)?;
    Ok(0.into())
}

/// prlimit64(2): tells the old limits, keeps them.
pub(crate) fn prlimit<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (which, at) = (call.arg(ctx, 1)?, VirtAddr(call.arg(ctx, 3)?));
    let word = match limit(ctx, which) {
        u32::MAX => u64::MAX,
        n => n.into(),
    };
    let bytes = [word.to_le_bytes(), word.to_le_bytes()].concat();
    if at.0 != 0 {
        ctx.copyout_bytes(call.cpu, &bytes, at)?;
    }
    Ok(0.into())
}

/// futex(2) with one thread: nobody to wake, and a wait would be for ever.
pub(crate) fn futex<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    const COMMAND: u32 = 0x7f;
    match call.arg(ctx, 1)? & COMMAND {
        0 | 9 => Err(Errno::EAGAIN.into()),
        _ => Ok(0.into()),
    }
}

/// getrandom(2): the same bytes in every run.
pub(crate) fn getrandom<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call) -> KResult<Outcome> {
    let (at, len) = (VirtAddr(call.arg(ctx, 0)?), call.arg(ctx, 1)?.min(256));
    let mut bytes = vec![0; len as usize];
    let before = ctx.kern().random;
    ctx.kern_mut().fill_random(&mut bytes);
    if let Err(stop) = ctx.copyout_bytes(call.cpu, &bytes, at) {
        ctx.kern_mut().random = before;
        return Err(stop);
    }
    Ok(len.into())
}
