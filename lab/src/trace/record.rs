//! One reference of a trace, and what may go wrong while reading one.

use std::fmt;
use std::io;

/// What a record does. The numbers are those of the binary form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// An instruction fetch.
    Fetch = 0,
    /// A load.
    Read = 1,
    /// A store.
    Write = 2,
    /// A load and a store of the same bytes: lackey's `M`, and Dinero's `m`.
    Modify = 3,
    /// Write dirty lines back (Dinero's `c`); size 0 means the whole cache.
    Clean = 4,
    /// Drop lines without writing them back (Dinero's `v`); size 0 means the whole cache.
    Invalidate = 5,
}

impl Kind {
    /// The kind of that number.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Kind::Fetch,
            1 => Kind::Read,
            2 => Kind::Write,
            3 => Kind::Modify,
            4 => Kind::Clean,
            5 => Kind::Invalidate,
            _ => return None,
        })
    }

    /// Whether it is a cache operation and no reference.
    pub fn is_operation(self) -> bool {
        self as u8 >= Kind::Clean as u8
    }
}

/// Largest size of one reference, bytes. The largest instruction of today's processors stores some
/// 11 kB (XSAVE with tiles); what is larger is no reference but a broken line.
pub const SIZE_MAX: u64 = 0x4000;

/// One record of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref {
    /// Virtual address of the first byte.
    pub va: u64,
    /// Bytes; at least 1 for a reference.
    pub size: u32,
    /// What it does.
    pub kind: Kind,
}

/// What a place for a record holds before it is read.
pub(crate) const NO_RECORD: Ref = Ref {
    va: 0,
    size: 0,
    kind: Kind::Fetch,
};

impl Ref {
    /// Whether the size is possible and the last byte has an address.
    #[inline]
    pub fn is_possible(self) -> bool {
        let size = u64::from(self.size);
        let least = u64::from(!self.kind.is_operation());
        let end = self.va.wrapping_add(size).wrapping_sub(least);
        size >= least && size <= SIZE_MAX && end >= self.va
    }

    /// What is not possible about it, for a message.
    #[cold]
    pub fn fault(self) -> String {
        let Self { va, size, kind } = self;
        let least = u32::from(!kind.is_operation());
        if !(u64::from(least)..=SIZE_MAX).contains(&u64::from(size)) {
            return format!("size is {size:#x}; expected {least} to {SIZE_MAX:#x}");
        }
        format!("{size:#x} bytes at {va:#x}; expected an end below 2^64")
    }
}

/// Where in a trace something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Line of the unpacked text, from 1.
    Line(u64),
    /// Offset in the unpacked bytes.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Place::Line(n) => write!(f, "line {n}"),
            Place::Byte(n) => write!(f, "byte {n}"),
        }
    }
}

/// Why a trace could not be read or simulated: one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The trace is not what it should be.
    #[error("{file}: {place}: {what}")]
    Input {
        /// The file as given.
        file: String,
        /// Where.
        place: Place,
        /// What is there and what was expected.
        what: String,
    },
    /// A file cannot be opened or written.
    #[error("{file}: {error}")]
    File {
        /// The file as given.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// Options that do not fit together, or an impossible geometry.
    #[error("{0}")]
    Options(String),
    /// Standard output failed.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl TraceError {
    /// A wrong record.
    pub fn input(file: &str, place: Place, what: impl Into<String>) -> Self {
        let (file, what) = (file.to_owned(), what.into());
        Self::Input { file, place, what }
    }

    /// A failed file.
    pub fn file(file: &str, error: io::Error) -> Self {
        let file = file.to_owned();
        Self::File { file, error }
    }
}
