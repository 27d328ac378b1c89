//! What kernel functions touch: instructions executed, text and data lines, stack lines.
//!
//! The kernel here is Rust, but on the machine it would run through the same caches and TLB as the
//! programs, and displace their lines. One row a function, each with its source or `estimate`; a row
//! is found by the name that the layers charge. Rows may be calibrated on baseline measurements of
//! the mail threads, never on the differences that are to be predicted.
//!
//! A function's text and data have addresses of their own, fixed by its place in the table, inside
//! the windows that the world maps for the kernel.
//!
//! Absent on purpose: the words themselves. Kernel text is looked up and filled, not executed.

use machine::{Class, CpuId, Step, VirtAddr, Width};

use crate::ctx::KernCtx;

/// One kernel function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its name, as charged.
    pub name: &'static str,
    /// Instructions executed in one call, its callees' included unless they are charged themselves.
    pub instructions: u32,
    /// Cache lines of its text.
    pub text_lines: u32,
    /// Cache lines of kernel data it loads; every fourth is stored to.
    pub data_lines: u32,
    /// Cache lines of kernel stack it uses.
    pub stack_lines: u32,
    /// Where the figures are from, or `estimate`.
    pub source: &'static str,
}

const fn row(
    name: &'static str,
    instructions: u32,
    text_lines: u32,
    data_lines: u32,
    stack_lines: u32,
) -> Row {
    Row {
        name,
        instructions,
        text_lines,
        data_lines,
        stack_lines,
        source: "estimate",
    }
}

/// What a function costs that has no row.
pub const DEFAULT_ROW: Row = row("default", 60, 6, 3, 2);

/// FreeBSD/arm around 2010. Orders of magnitude, from the length of the functions' source.
pub const FREEBSD_2010: &[Row] = &[
    row("execve", 2600, 150, 50, 8),
    row("fork", 1500, 90, 36, 6),
    row("exit", 1400, 84, 30, 6),
    row("wait4", 420, 28, 14, 4),
    row("syscall", 140, 14, 6, 4),
    row("mi_switch", 180, 16, 10, 3),
    row("sleep", 260, 24, 12, 4),
    row("sendsig", 420, 34, 12, 5),
    row("sigreturn", 220, 18, 8, 4),
    row("open", 500, 40, 14, 5),
    row("close", 200, 16, 7, 4),
    row("read", 160, 14, 6, 4),
    row("write", 160, 14, 6, 4),
    row("pipe", 700, 48, 18, 5),
    row("mmap", 200, 16, 6, 4),
    row("munmap", 160, 12, 6, 4),
    row("mprotect", 160, 12, 6, 4),
    row("gettimeofday", 120, 10, 5, 3),
    row("sysarch", 80, 8, 3, 3),
    row("proc_rwmem", 300, 24, 12, 5),
    row("syncer", 60, 6, 4, 3),
    row("bufdaemon", 60, 6, 4, 3),
    row("pagedaemon", 80, 8, 5, 3),
    row("g_up", 240, 20, 10, 4),
    row("data_abort_handler", 160, 16, 8, 5),
    row("vm_fault", 760, 56, 24, 5),
    row("vm_page_alloc", 180, 14, 9, 3),
    row("vm_map_insert", 360, 26, 12, 4),
    row("vm_map_delete", 300, 22, 10, 4),
    row("vm_map_remove", 120, 9, 5, 3),
    row("vm_map_protect", 260, 20, 9, 4),
    row("vm_map_sync", 260, 20, 9, 4),
    row("vm_object_page_clean", 420, 30, 14, 5),
    row("vm_object_page_remove", 260, 20, 10, 4),
    row("vm_object_terminate", 240, 18, 9, 4),
    row("vm_pageout_scan", 700, 48, 26, 5),
    row("vmspace_exec", 260, 20, 10, 4),
    row("vmspace_exit", 260, 20, 10, 4),
    row("vmspace_fork", 700, 48, 20, 5),
    row("copyin", 40, 5, 2, 1),
    row("copyout", 40, 5, 2, 1),
    row("copyinstr", 40, 4, 1, 1),
    row("uiomove", 90, 8, 3, 3),
    row("getblk", 420, 30, 16, 4),
    row("getnewbuf", 420, 30, 14, 4),
    row("allocbuf", 340, 26, 12, 4),
    row("bread", 120, 10, 6, 4),
    row("bqrelse", 160, 12, 8, 3),
    row("brelse", 260, 20, 10, 3),
    row("bufwrite", 240, 18, 10, 4),
    row("bdwrite", 160, 12, 8, 3),
    row("bufdone", 200, 15, 9, 3),
    row("biodone", 60, 6, 4, 2),
    row("vfs_busy_pages", 120, 9, 6, 3),
    row("vfs_bio_clrbuf", 90, 7, 4, 2),
    row("vfs_vmio_release", 200, 15, 9, 3),
    row("ffs_read", 340, 26, 12, 5),
    row("ffs_write", 480, 36, 15, 5),
    row("g_io_request", 220, 17, 9, 4),
    row("disk_interrupt", 340, 26, 12, 4),
    row("bus_dmamap_sync", 120, 10, 5, 3),
    row("buf_daemon", 260, 20, 12, 5),
    row("sched_sync", 400, 30, 16, 5),
    row("exec_map_first_page", 200, 15, 8, 4),
    row("sf_buf_alloc", 90, 8, 4, 2),
    row("sf_buf_free", 60, 6, 4, 2),
    row("ffs_balloc", 420, 32, 14, 5),
    row("ffs_truncate", 480, 36, 15, 5),
    row("ffs_update", 200, 15, 8, 4),
    row("ffs_syncvnode", 320, 24, 12, 5),
    row("ufs_makeinode", 500, 38, 15, 5),
    row("vfs_create", 300, 22, 10, 5),
    row("vfs_mkdir", 300, 22, 10, 5),
    row("vfs_unlink", 300, 22, 10, 5),
    row("vm_mmap", 420, 30, 12, 5),
    row("vgonel", 260, 20, 9, 4),
    row("vn_open", 420, 32, 13, 5),
    row("vn_close", 120, 10, 5, 3),
    row("vn_read", 160, 12, 6, 4),
    row("vn_write", 160, 12, 6, 4),
    row("cluster_read", 420, 32, 14, 5),
    row("cluster_write", 380, 28, 12, 5),
    row("ufs_remove", 420, 32, 14, 5),
    row("cluster_callback", 200, 15, 9, 3),
    row("vnode_pager_haspage", 120, 10, 5, 3),
    row("vnode_pager_getpages", 520, 38, 16, 5),
    row("vnode_pager_putpages", 420, 32, 14, 5),
    row("pmap_enter", 320, 24, 12, 4),
    row("pmap_remove", 240, 18, 10, 4),
    row("pmap_remove_all", 160, 12, 8, 3),
    row("pmap_remove_pages", 240, 18, 10, 4),
    row("pmap_protect", 180, 14, 8, 3),
    row("pmap_clearbit", 140, 11, 8, 3),
    row("pmap_fault_fixup", 140, 11, 8, 3),
    row("pmap_qenter", 70, 6, 4, 2),
    row("pmap_qremove", 70, 6, 4, 2),
    row("pmap_kenter", 80, 6, 5, 2),
    row("pmap_kremove", 70, 6, 5, 2),
    row("pmap_zero_page", 40, 4, 2, 2),
    row("pmap_copy_page", 50, 5, 2, 2),
    row("pmap_pinit", 160, 12, 6, 3),
    row("pmap_release", 160, 12, 6, 3),
    row("pmap_activate", 60, 5, 4, 2),
    row("cpu_switch", 90, 8, 8, 2),
    row("arm32_sync_icache", 60, 6, 3, 2),
];

/// A run of kernel addresses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Window {
    /// First address.
    pub start: VirtAddr,
    /// Length; 0 touches nothing.
    pub bytes: u32,
}

/// The table in force, with the addresses its functions have.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Footprints {
    /// Rows, by name as found.
    pub rows: Vec<Row>,
    /// Kernel text.
    pub text: Window,
    /// Kernel data.
    pub data: Window,
    /// One stack a CPU, this many bytes each.
    pub stacks: Window,
    /// Bytes of one stack.
    pub stack_bytes: u32,
}

/// Lines by which two functions' text are apart: prime, so that functions fall on all sets.
const TEXT_STRIDE: u32 = 283;
/// Lines by which two functions' data are apart.
const DATA_STRIDE: u32 = 101;

impl Footprints {
    /// FreeBSD's table in the windows given.
    pub fn freebsd(text: Window, data: Window, stacks: Window, stack_bytes: u32) -> Self {
        Self {
            rows: FREEBSD_2010.to_vec(),
            text,
            data,
            stacks,
            stack_bytes,
        }
    }

    /// A function's row and its place in the table.
    pub fn find(&self, name: &str) -> (u32, Row) {
        let found = self.rows.iter().position(|r| r.name == name);
        match found {
            Some(n) => (n as u32, self.rows[n]),
            None => (self.rows.len() as u32, DEFAULT_ROW),
        }
    }
}

/// Charges the row of that name: the world's `charge` comes here.
pub fn charge<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, name: &str) {
    let footprints = &ctx.kern().config.footprints;
    if footprints.rows.is_empty() {
        return;
    }
    let (place, row) = footprints.find(name);
    charge_footprint(ctx, cpu, place, &row);
}

/// Touches what a function touches: its text lines through the instruction side, its data and stack
/// through the data side, and its instructions as time. Addresses that are not mapped are passed
/// over.
pub fn charge_footprint<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, place: u32, row: &Row) {
    let footprints = &ctx.kern().config.footprints;
    let (text, data) = (footprints.text, footprints.data);
    let stack_bytes = footprints.stack_bytes;
    let stack = Window {
        start: footprints.stacks.start.add(u32::from(cpu.0) * stack_bytes),
        bytes: if footprints.stacks.bytes == 0 {
            0
        } else {
            stack_bytes
        },
    };
    let fetch_line = ctx.hw().profile().icache.line;
    let data_line = ctx.hw().profile().dcache.line;
    for n in 0..row.text_lines {
        if let Some(va) = line(text, fetch_line, place * TEXT_STRIDE + n) {
            ctx.step(cpu, Step::PrefetchInstruction(va));
        }
    }
    for n in 0..row.data_lines {
        if let Some(va) = line(data, data_line, place * DATA_STRIDE + n) {
            touch(ctx, cpu, va, n % 4 == 3);
        }
    }
    for n in 0..row.stack_lines {
        if let Some(va) = line(stack, data_line, n) {
            touch(ctx, cpu, va, true);
        }
    }
    ctx.step(cpu, Step::Spend(Class::Instruction, row.instructions));
}

/// The address of a window's `n`th line, round and round.
fn line(window: Window, bytes: u32, n: u32) -> Option<VirtAddr> {
    let lines = window.bytes / bytes;
    (lines > 0).then(|| window.start.add(n % lines * bytes))
}

fn touch<C: KernCtx + ?Sized>(ctx: &mut C, cpu: CpuId, va: VirtAddr, store: bool) {
    // Kernel data is always mapped; where a tiny machine maps none, nothing is touched.
    let _ = match ctx.load(cpu, va, Width::Word, false) {
        Ok(value) if store => ctx.store(cpu, va, Width::Word, value, false),
        Ok(_) => Ok(()),
        Err(abort) => Err(abort),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_their_stride() {
        for (n, row) in FREEBSD_2010.iter().enumerate() {
            assert!(
                FREEBSD_2010[..n].iter().all(|r| r.name != row.name),
                "{}",
                row.name
            );
            assert!(row.text_lines <= TEXT_STRIDE && row.data_lines <= DATA_STRIDE);
        }
    }

    #[test]
    fn an_unknown_name_costs_the_default_row() {
        let footprints =
            Footprints::freebsd(Window::default(), Window::default(), Window::default(), 0);
        assert_eq!(footprints.find("no such function").1, DEFAULT_ROW);
        assert_eq!(footprints.find("execve"), (0, FREEBSD_2010[0]));
    }
}
