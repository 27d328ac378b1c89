//! Execution of a file: the old image goes, the new one is mapped, its stack is filled.
//!
//! Source: FreeBSD `sys/kern/kern_exec.c` (do_execve, exec_new_vmspace), `imgact_elf.c`
//! (load_section, exec_elf32_imgact); `pmap-freebsd-netbsd.md` 3.3 and 4.4. The head is looked at
//! through the pager and a short kernel mapping; text and data are mapped copy-on-write; what ends
//! within a page is copied to user memory from such a mapping; bss comes by zero fill. No cache is
//! synced for the image here: that is the policy's, at the page-ins and unmaps beneath. Sigcode is
//! different, see [`copy_stack`].
//!
//! Until the old image is gone a failure leaves everything as it was; after that it ends the process.
//!
//! Absent on purpose: set-user-id, `#!` scripts, core limits.

use machine::{CpuId, Mark, VirtAddr};
use pmap::{KernelUse, PmapVerbs, Prot};
use vfs_sim::VfsVerbs;
use vm::{Backing, Errno, KResult, MapFlags, ObjectId, Stop, VmVerbs, VmspaceId, VnodeId};

use crate::ctx::KernCtx;
use crate::elf::{self, Abi, Bounds, ExecError, Image, Segment};
use crate::proc::Pid;
use crate::stack::{self, Inputs, Stack};
use crate::{descriptor, helper};

/// Where a position-independent program goes.
const PIE_BASE: u32 = 0x0040_0000;
/// Where its interpreter goes.
const INTERPRETER_BASE: u32 = 0x1c00_0000;

/// Why exec did not take place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The file is at fault.
    Error(ExecError),
    /// It failed, must sleep or panicked.
    Stop(Stop),
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Failure::Stop(stop)
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        Failure::Error(error)
    }
}

/// What is executed.
#[derive(Clone, Debug)]
pub struct Request {
    /// Absolute path.
    pub path: String,
    /// Arguments.
    pub args: Vec<Vec<u8>>,
    /// Environment.
    pub environment: Vec<Vec<u8>>,
}

/// A file whose head has been read.
struct Opened {
    vnode: VnodeId,
    object: ObjectId,
    image: Image,
    base: u32,
}

/// Replaces the image of `pid`, which is on `cpu`.
///
/// # Errors
/// [`Failure`]; with `Stop::Wait` nothing has changed and the call is made again.
pub fn exec<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    request: &Request,
) -> Result<(), Failure> {
    ctx.mark(cpu, Mark::Begin("execve"));
    ctx.charge(cpu, "execve");
    let result = exec_files(ctx, cpu, pid, request);
    if let Err(Failure::Error(error)) = &result {
        ctx.kern_mut().exec_error = Some(error.clone());
    }
    ctx.mark(cpu, Mark::End);
    result
}

fn exec_files<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    request: &Request,
) -> Result<(), Failure> {
    let program = open(ctx, cpu, &request.path, PIE_BASE)?;
    let interpreter = match &program.image.interpreter {
        None => Ok(None),
        Some(path) => open_interpreter(ctx, cpu, path).map(Some),
    };
    let result = interpreter.and_then(|interpreter| {
        let result = replace(ctx, cpu, pid, request, &program, interpreter.as_ref());
        if let Some(opened) = interpreter {
            ctx.vnode_close(cpu, opened.vnode);
        }
        result
    });
    ctx.vnode_close(cpu, program.vnode);
    result
}

fn open_interpreter<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    path: &[u8],
) -> Result<Opened, Failure> {
    let path = String::from_utf8_lossy(path).into_owned();
    let wrong = |why: String| Failure::Error(ExecError::Interpreter(why));
    let opened = match open(ctx, cpu, &path, INTERPRETER_BASE) {
        Err(Failure::Error(error)) => return Err(wrong(format!("{path}: {error}"))),
        other => other?,
    };
    // One linked to an address of its own (klibc's) is mapped there, as elf_load_file does.
    if opened.image.interpreter.is_none() {
        return Ok(opened);
    }
    ctx.vnode_close(cpu, opened.vnode);
    Err(wrong(format!(
        "{path}: expected an interpreter without one"
    )))
}

/// Finds a file, reads its head, checks it. The caller closes the vnode.
fn open<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    path: &str,
    base: u32,
) -> Result<Opened, Failure> {
    let file_error = |errno: Errno| {
        let what = match errno {
            Errno::EISDIR => "expected a file, found a directory".to_owned(),
            Errno::ENOENT => "no such file".to_owned(),
            errno => format!("{errno:?}"),
        };
        Failure::Error(ExecError::File(format!("{path}: {what}"), errno))
    };
    let lift = |stop: Stop| match stop {
        Stop::Errno(errno) => file_error(errno),
        stop => Failure::Stop(stop),
    };
    let vnode = ctx.vfs().lookup(path).map_err(lift)?;
    if ctx.vfs().attr(vnode).directory {
        return Err(file_error(Errno::EISDIR));
    }
    let object = ctx.vnode_open(cpu, vnode).map_err(lift)?;
    match read_head(ctx, cpu, vnode, path) {
        Ok(image) => {
            let base = if image.relocatable { base } else { 0 };
            Ok(Opened {
                vnode,
                object,
                image,
                base,
            })
        }
        Err(failure) => {
            ctx.vnode_close(cpu, vnode);
            Err(failure)
        }
    }
}

fn read_head<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    vnode: VnodeId,
    path: &str,
) -> Result<Image, Failure> {
    let size = ctx.vfs().attr(vnode).size;
    if size == 0 {
        return Err(Failure::Error(ExecError::Magic));
    }
    let page = ctx.exec_map_first_page(cpu, vnode)?;
    let mut head = vec![0; size.min(ctx.hw().page_bytes()) as usize];
    let read = ctx.kernel_read(cpu, page.va, &mut head);
    ctx.exec_unmap_first_page(cpu, page);
    read?;
    let bounds = Bounds {
        file_len: u64::from(size),
        user_min: ctx.vm().config.user_start.0,
        user_end: ctx.vm().config.user_end.0,
        page: ctx.hw().page_bytes(),
    };
    let image = elf::parse(&head, &bounds);
    image.map_err(|error| {
        ctx.kern_mut().message(format!("{path}: {error}"));
        Failure::Error(error)
    })
}

/// The point of no return and what follows it.
fn replace<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    request: &Request,
    program: &Opened,
    interpreter: Option<&Opened>,
) -> Result<(), Failure> {
    let stack = plan_stack(ctx, request, program, interpreter)?;
    if program.image.abi == Abi::Linux {
        helper::install(ctx, cpu)?;
    }
    let space = ctx
        .kern()
        .proc(pid)
        .vmspace
        .ok_or(Stop::Errno(Errno::ESRCH))?;
    ctx.vmspace_clear(cpu, space);
    ctx.vmspace_activate(cpu, space);
    let built = build(ctx, cpu, space, program, interpreter, &stack);
    descriptor::close_for_exec(ctx, cpu, pid);
    start(ctx, cpu, pid, request, program, interpreter, &stack);
    match built {
        Ok(()) => Ok(()),
        Err(Stop::Panic(why)) => Err(Failure::Stop(Stop::Panic(why))),
        Err(_) => Err(Failure::Error(ExecError::Memory)),
    }
}

fn plan_stack<C: KernCtx + ?Sized>(
    ctx: &mut C,
    request: &Request,
    program: &Opened,
    interpreter: Option<&Opened>,
) -> Result<Stack, ExecError> {
    let mut random = [0; 16];
    if program.image.abi == Abi::Linux {
        ctx.kern_mut().fill_random(&mut random);
    }
    stack::build(&Inputs {
        image: &program.image,
        entry: program.base + program.image.entry,
        phdr: program.base + program.image.phdr,
        base: interpreter.map_or(0, |i| i.base),
        path: request.path.as_bytes(),
        args: &request.args,
        environment: &request.environment,
        top: ctx.vm().config.user_end.0,
        page: ctx.hw().page_bytes(),
        random,
    })
}

fn build<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    program: &Opened,
    interpreter: Option<&Opened>,
    stack: &Stack,
) -> KResult<()> {
    for opened in [Some(program), interpreter].into_iter().flatten() {
        ctx.vm_object_set_text(opened.object);
        for segment in &opened.image.segments {
            map_segment(ctx, cpu, space, opened, segment)?;
        }
    }
    let top = ctx.vm().config.user_end;
    let quotas = ctx.kern().config.quotas;
    let first = quotas.stack_bytes_first.min(quotas.stack_bytes);
    ctx.vm_map_stack(cpu, space, top, first, quotas.stack_bytes, Prot::all())?;
    copy_stack(ctx, cpu, stack)
}

/// Maps one segment (load_section): whole pages of the file copy-on-write, the rest anonymous with
/// the file's last bytes copied in.
fn map_segment<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    opened: &Opened,
    segment: &Segment,
) -> KResult<()> {
    let page = ctx.hw().page_bytes();
    let down = |n: u32| n & !(page - 1);
    let up = |n: u32| n.next_multiple_of(page);
    let (start, offset) = (down(opened.base + segment.va), down(segment.offset));
    let file_end = segment.offset + segment.filesz;
    let bss = segment.filesz < segment.memsz;
    let mapped = if bss { down(file_end) } else { up(file_end) }.saturating_sub(offset);
    let in_file = if segment.filesz == 0 { 0 } else { mapped };
    if in_file > 0 {
        let backing = Backing::Object {
            object: opened.object,
            offset,
        };
        let end = VirtAddr(start + in_file);
        let flags = MapFlags::PRIVATE | MapFlags::PREFAULT;
        let all = Prot::all();
        ctx.vm_map_insert(
            cpu,
            space,
            backing,
            VirtAddr(start),
            end,
            segment.prot,
            all,
            flags,
        )?;
    }
    if !bss {
        return Ok(());
    }
    let (from, end) = (start + in_file, up(opened.base + segment.end()));
    let tail = if segment.filesz == 0 {
        0
    } else {
        file_end - down(file_end)
    };
    map_tail(ctx, cpu, space, opened, segment, from, end, tail)
}

#[allow(
    clippy::too_many_arguments,
    reason = "one step of load_section, spelled out"
)]
fn map_tail<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    space: VmspaceId,
    opened: &Opened,
    segment: &Segment,
    start: u32,
    end: u32,
    tail: u32,
) -> KResult<()> {
    let (from, to) = (VirtAddr(start), VirtAddr(end));
    let all = Prot::all();
    if start < end {
        let flags = MapFlags::PRIVATE;
        ctx.vm_map_insert(cpu, space, Backing::Anonymous, from, to, all, all, flags)?;
    }
    if tail > 0 {
        let file_page = (segment.offset + segment.filesz) / ctx.hw().page_bytes();
        copy_tail(ctx, cpu, opened.object, file_page, from, tail)?;
    }
    if start < end && segment.prot != all {
        ctx.vm_mprotect(cpu, space, from, end - start, segment.prot)?;
    }
    Ok(())
}

/// Copies the first `len` bytes of a file's page to user memory, from a short kernel mapping.
fn copy_tail<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    object: ObjectId,
    page: u32,
    to: VirtAddr,
    len: u32,
) -> KResult<()> {
    let frame = retry(ctx, cpu, |ctx| resident(ctx, cpu, object, page))?;
    ctx.vm_page_wire(frame);
    let result = match ctx.sf_buf_alloc(cpu, frame) {
        Ok(kva) => {
            ctx.kernel_will(cpu, KernelUse::Read, kva, len);
            let copied = retry(ctx, cpu, |ctx| ctx.copyout(cpu, kva, to, len));
            ctx.kernel_did(cpu, KernelUse::Read, kva, len);
            ctx.sf_buf_free(cpu, kva);
            copied
        }
        Err(stop) => Err(stop),
    };
    ctx.vm_page_unwire(frame);
    result
}

/// The frame of an object's page, brought in if need be.
fn resident<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    object: ObjectId,
    page: u32,
) -> KResult<machine::Frame> {
    let frame = ctx.vm_page_grab(cpu, object, page)?;
    if ctx.vm().page(frame).valid == u8::MAX {
        ctx.vm_page_wakeup(frame);
        return Ok(frame);
    }
    ctx.pager_getpages(cpu, object, page, 1)?;
    Ok(frame)
}

/// exec cannot be made again once the old image is gone: it completes the disk's work itself, as a
/// process would sleep here with nobody else to run.
fn retry<C: KernCtx + ?Sized, T>(
    ctx: &mut C,
    cpu: CpuId,
    mut work: impl FnMut(&mut C) -> KResult<T>,
) -> KResult<T> {
    loop {
        match work(ctx) {
            Err(Stop::Wait(channel)) => {
                if !ctx.disk_interrupt(cpu)? {
                    return Err(Stop::Panic(format!("exec sleeps for ever on {channel:?}")));
                }
            }
            other => return other,
        }
    }
}

/// Copies the stack's pieces out. Sigcode is data that the program will execute: the kernel tells
/// the policy as for a debugger's store, since a policy that keeps text right must see to it.
fn copy_stack<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, stack: &Stack) -> KResult<()> {
    for (at, bytes) in &stack.pieces {
        let (va, len) = (VirtAddr(*at), bytes.len() as u32);
        let code = stack.sigcode == *at && *at != 0;
        if code {
            ctx.kernel_will(cpu, KernelUse::Poke, va, len);
        }
        retry(ctx, cpu, |ctx| ctx.copyout_bytes(cpu, bytes, va))?;
        if code {
            ctx.kernel_did(cpu, KernelUse::Poke, va, len);
        }
    }
    Ok(())
}

/// Sets the process up for its first instruction (exec_setregs).
fn start<C: KernCtx + ?Sized>(
    ctx: &mut C,
    cpu: CpuId,
    pid: Pid,
    request: &Request,
    program: &Opened,
    interpreter: Option<&Opened>,
    stack: &Stack,
) {
    let first = interpreter.unwrap_or(program);
    let entry = VirtAddr(first.base + first.image.entry);
    let mut regs = machine::cpu::Regs::at(entry, VirtAddr(stack.sp));
    if program.image.abi == Abi::FreeBsd {
        regs.r[0] = stack.ps_strings;
        regs.r[14] = entry.0;
    }
    *ctx.user_regs_mut(cpu) = regs;
    let page = ctx.hw().page_bytes();
    let ends = program
        .image
        .segments
        .iter()
        .map(|s| program.base + s.end());
    let heap = VirtAddr(ends.max().unwrap_or(0).next_multiple_of(page));
    let proc = ctx.kern_mut().proc_mut(pid);
    proc.abi = program.image.abi;
    proc.name = request.path.clone();
    proc.tls = 0;
    proc.sigcode = VirtAddr(stack.sigcode);
    (proc.heap_start, proc.heap_end) = (heap, heap);
    proc.signals.reset_for_exec();
    proc.pending = None;
    proc.suspended = None;
    if proc.traced {
        proc.signals.pending.insert(crate::signal::Signal::TRAP);
    }
    ctx.mark(cpu, Mark::Note(format!("{pid} executes {}", request.path)));
}
