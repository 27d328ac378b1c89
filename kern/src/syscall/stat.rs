//! What files are: stat in all its layouts, and the names in a directory.
//!
//! Source: FreeBSD `sys/sys/stat.h`, `dirent.h`; Linux `arch/arm/include/uapi/asm/stat.h`,
//! `include/uapi/linux/stat.h`. Times are zero: the file system keeps none.

use machine::VirtAddr;
use vm::{Errno, KResult, VmVerbs, VnodeId};

use crate::ctx::KernCtx;
use crate::descriptor;
use crate::file::FileKind;

use super::{Call, Outcome, names};

/// A structure that stat fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// FreeBSD's, with 32-bit file numbers (188 to 190).
    FreeBsd11,
    /// FreeBSD's, with 64-bit file numbers (551, 552).
    FreeBsd,
    /// Linux's stat64.
    Linux64,
    /// Linux's statx.
    Statx,
}

/// What all layouts are made from.
#[derive(Clone, Copy, Debug)]
struct Facts {
    number: u32,
    mode: u32,
    links: u32,
    size: u64,
}

const BLOCK: u32 = 4096;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const FIFO: u32 = 0o010_000;
const DEVICE: u32 = 0o020_000;

fn vnode_facts<C: KernCtx + ?Sized>(ctx: &C, vnode: VnodeId) -> Facts {
    let attr = ctx.vfs().attr(vnode);
    let kind = if attr.directory { DIRECTORY } else { REGULAR };
    Facts {
        number: vnode.0 + 2,
        mode: kind | u32::from(attr.mode),
        links: attr.links.max(1),
        size: u64::from(attr.size),
    }
}

fn other_facts(kind: u32) -> Facts {
    Facts {
        number: 1,
        mode: kind | 0o600,
        links: 1,
        size: 0,
    }
}

fn path_facts<C: KernCtx + ?Sized>(ctx: &mut C, path: &str) -> KResult<Facts> {
    if path == "/dev/null" {
        return Ok(other_facts(DEVICE));
    }
    let vnode = ctx.vfs().lookup(path)?;
    Ok(vnode_facts(ctx, vnode))
}

fn descriptor_facts<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, fd: u32) -> KResult<Facts> {
    let id = descriptor::named(ctx, call.pid, fd)?;
    Ok(match ctx.kern().file(id).kind {
        FileKind::Vnode(vnode) | FileKind::Directory(vnode) => vnode_facts(ctx, vnode),
        FileKind::PipeRead(_) | FileKind::PipeWrite(_) | FileKind::Stdin => other_facts(FIFO),
        FileKind::Stdout | FileKind::Stderr => other_facts(FIFO),
        FileKind::Null => other_facts(DEVICE),
    })
}

/// Puts numbers of 1 to 8 bytes at their offsets.
fn place(bytes: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut out = vec![0; bytes];
    for (at, width, value) in fields {
        out[*at..at + width].copy_from_slice(&value.to_le_bytes()[..*width]);
    }
    out
}

impl Layout {
    fn encode(self, facts: &Facts) -> Vec<u8> {
        let (number, mode) = (u64::from(facts.number), u64::from(facts.mode));
        let (links, size) = (u64::from(facts.links), facts.size);
        let (blocks, block) = (size.div_ceil(512), u64::from(BLOCK));
        match self {
            Layout::FreeBsd11 => place(
                120,
                &[
                    (0, 4, 1),
                    (4, 4, number),
                    (8, 2, mode),
                    (10, 2, links),
                    (72, 8, size),
                    (80, 8, blocks),
                    (88, 4, block),
                ],
            ),
            Layout::FreeBsd => place(
                224,
                &[
                    (0, 8, 1),
                    (8, 8, number),
                    (16, 8, links),
                    (24, 2, mode),
                    (112, 8, size),
                    (120, 8, blocks),
                    (128, 4, block),
                ],
            ),
            Layout::Linux64 => place(
                104,
                &[
                    (0, 8, 1),
                    (12, 4, number),
                    (16, 4, mode),
                    (20, 4, links),
                    (48, 8, size),
                    (56, 4, block),
                    (64, 8, blocks),
                    (96, 8, number),
                ],
            ),
            Layout::Statx => place(
                256,
                &[
                    (0, 4, 0x7ff),
                    (4, 4, block),
                    (16, 4, links),
                    (28, 2, mode),
                    (32, 8, number),
                    (40, 8, size),
                    (48, 8, blocks),
                    (136, 4, 0),
                    (140, 4, 1),
                ],
            ),
        }
    }
}

/// stat(2) and lstat(2): path in argument 0, result in 1.
pub(crate) fn stat<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    layout: Layout,
) -> KResult<Outcome> {
    let path = names::path(ctx, call, 0)?;
    let facts = path_facts(ctx, &path)?;
    answer(ctx, call, layout, &facts, 1)
}

/// fstat(2): descriptor in argument 0, result in 1.
pub(crate) fn fstat<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    layout: Layout,
) -> KResult<Outcome> {
    let fd = call.arg(ctx, 0)?;
    let facts = descriptor_facts(ctx, call, fd)?;
    answer(ctx, call, layout, &facts, 1)
}

/// fstatat(2) and statx(2): descriptor, path; an empty path means the descriptor itself.
pub(crate) fn fstatat<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    layout: Layout,
    result: u32,
) -> KResult<Outcome> {
    let facts = match names::path(ctx, call, 1) {
        Err(vm::Stop::Errno(Errno::ENOENT)) => {
            let fd = call.arg(ctx, 0)?;
            descriptor_facts(ctx, call, fd)?
        }
        path => path_facts(ctx, &path?)?,
    };
    answer(ctx, call, layout, &facts, result)
}

fn answer<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    layout: Layout,
    facts: &Facts,
    n: u32,
) -> KResult<Outcome> {
    let at = VirtAddr(call.arg(ctx, n)?);
    ctx.copyout_bytes(call.cpu, &layout.encode(facts), at)?;
    Ok(0.into())
}

/// One directory entry in a family's layout.
type Entry = fn(number: u32, next: u64, name: &str) -> Vec<u8>;

/// FreeBSD's getdirentries(2) and Linux's getdents64: descriptor, where, how much.
pub(crate) fn entries<C: KernCtx + ?Sized>(
    ctx: &mut C,
    call: &Call,
    entry: Entry,
) -> KResult<Outcome> {
    let (fd, at, len) = (
        call.arg(ctx, 0)?,
        VirtAddr(call.arg(ctx, 1)?),
        call.arg(ctx, 2)?,
    );
    let id = descriptor::named(ctx, call.pid, fd)?;
    let file = *ctx.kern().file(id);
    let FileKind::Directory(vnode) = file.kind else {
        return Err(Errno::ENOTDIR.into());
    };
    let mut all = vec![".".to_owned(), "..".to_owned()];
    all.extend(ctx.vfs().readdir(vnode)?);
    let mut out = Vec::new();
    let mut offset = file.offset;
    while let Some(name) = all.get(offset as usize) {
        let bytes = entry(offset as u32 + 2, offset + 1, name);
        if out.len() + bytes.len() > len as usize {
            break;
        }
        out.extend(bytes);
        offset += 1;
    }
    if out.is_empty() && (offset as usize) < all.len() {
        return Err(Errno::EINVAL.into());
    }
    ctx.copyout_bytes(call.cpu, &out, at)?;
    ctx.kern_mut().file_mut(id).offset = offset;
    Ok((out.len() as u32).into())
}

/// A `struct dirent` of FreeBSD with 32-bit file numbers.
pub(crate) fn freebsd_entry(number: u32, _next: u64, name: &str) -> Vec<u8> {
    let bytes = (8 + name.len() + 1).next_multiple_of(4);
    let length = name.len() as u64;
    let mut out = place(
        bytes,
        &[(0, 4, number.into()), (4, 2, bytes as u64), (7, 1, length)],
    );
    out[8..8 + name.len()].copy_from_slice(name.as_bytes());
    out
}

/// A `struct linux_dirent64`.
pub(crate) fn linux_entry(number: u32, next: u64, name: &str) -> Vec<u8> {
    let bytes = (19 + name.len() + 1).next_multiple_of(8);
    let mut out = place(
        bytes,
        &[(0, 8, number.into()), (8, 8, next), (16, 2, bytes as u64)],
    );
    out[19..19 + name.len()].copy_from_slice(name.as_bytes());
    out
}
