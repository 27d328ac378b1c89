//! Budgets: what a run may use before it ends with a clear reason, and the fixed sizes of the
//! kernel's own tables.
//!
//! Source: FreeBSD/arm `vmparam.h` and `param.h` where a line says so; the others are ours, chosen
//! so that a program that forks, writes or loops without end costs the host little.

/// Bytes of one image, all segments together: `MAXDSIZ` of `vmparam.h`.
pub const IMAGE_BYTES_MAX: u32 = 512 << 20;
/// Bytes of arguments and environment together (`ARG_MAX` is 256 KB; we stay under one stack).
pub const ARGUMENT_BYTES_MAX: u32 = 128 << 10;
/// Bytes of a path, its end included (`PATH_MAX`).
pub const PATH_BYTES_MAX: u32 = 1024;
/// Descriptors of one process.
pub const DESCRIPTORS_MAX: u32 = 64;
/// Elements of a readv or writev (`IOV_MAX` is 1024; libraries use few).
pub const IOVEC_MAX: u32 = 64;
/// Faults of one instruction, none retired between them, that count as a hang. An LDM that crosses
/// a page may take about ten: each page missing, then referenced, then modified.
pub const SAME_FAULTS_MAX: u32 = 32;

/// What the kernel's tables may hold; part of the kernel's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quotas {
    /// Processes, zombies included.
    pub processes: u32,
    /// Open files of all processes.
    pub files: u32,
    /// Pipes.
    pub pipes: u32,
    /// Bytes of one pipe's buffer; `PIPE_SIZE` is 16 KB.
    pub pipe_bytes: u32,
    /// Bytes that programs may write to standard output and error together.
    pub output_bytes: u32,
    /// Bytes that a stack may grow to.
    pub stack_bytes: u32,
    /// Bytes of it that an image gets at first: `SGROWSIZ` is 128 KB. fork takes write permission from all
    /// of them, line by line.
    pub stack_bytes_first: u32,
    /// Bytes of heap that `break` or `brk` may give.
    pub heap_bytes: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            processes: 64,
            files: 256,
            pipes: 32,
            pipe_bytes: 16 << 10,
            output_bytes: 1 << 20,
            stack_bytes: 2 << 20,
            stack_bytes_first: 128 << 10,
            heap_bytes: 64 << 20,
        }
    }
}

/// What one call of `run` may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Instructions of user programs.
    pub instructions: u64,
    /// Traps into the kernel: system calls, faults, undefined instructions.
    pub traps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            instructions: 1 << 32,
            traps: 1 << 24,
        }
    }
}

impl Limits {
    /// So many instructions, and the usual number of traps.
    pub fn instructions(instructions: u64) -> Self {
        Self {
            instructions,
            ..Self::default()
        }
    }
}
