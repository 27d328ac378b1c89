//! A transfer between a file and somebody's memory, with its progress.
//!
//! Source: FreeBSD `sys/uio.h`. Absent: more than one iovec; a caller loops.

use machine::VirtAddr;

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UioDirection {
    /// From the file to memory.
    Read,
    /// From memory to the file.
    Write,
}

/// Whose memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UioSegment {
    /// The current process's, with its rights.
    User,
    /// The kernel's.
    Kernel,
    /// Nobody's: the pages in the cache are the data (UIO_NOCOPY).
    NoCopy,
}

/// One transfer. A call that stops with `Wait` leaves it advanced by what was done; the same call
/// with the same `Uio` goes on from there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Uio {
    /// Where in memory, from here on.
    pub va: VirtAddr,
    /// Bytes still to be moved.
    pub resid: u32,
    /// Where in the file, from here on.
    pub offset: u64,
    /// Which way.
    pub direction: UioDirection,
    /// Whose memory.
    pub segment: UioSegment,
}

impl Uio {
    /// A read into user memory.
    pub fn user_read(va: VirtAddr, len: u32, offset: u64) -> Self {
        Self {
            va,
            resid: len,
            offset,
            direction: UioDirection::Read,
            segment: UioSegment::User,
        }
    }

    /// A write from user memory.
    pub fn user_write(va: VirtAddr, len: u32, offset: u64) -> Self {
        Self {
            direction: UioDirection::Write,
            ..Self::user_read(va, len, offset)
        }
    }

    /// Notes that `len` bytes were moved.
    pub fn advance(&mut self, len: u32) {
        self.va = self.va.add(len);
        self.resid -= len;
        self.offset += u64::from(len);
    }
}
