//! Bytes of a trace: plain, gzip or xz, by their first bytes, through one bounded buffer.
//!
//! The decoders ([`super::text`], [`super::binary`]) look at the buffer directly. It keeps `SLACK`
//! bytes behind the data, so that a decoder may load a whole word at its last byte.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;

use super::record::{Place, TraceError};

/// Bytes that may be read behind the end of the data; their value means nothing.
pub const SLACK: usize = 32;

/// Most bytes that a decoder can ask for at once.
pub const WINDOW: usize = 2 << 20;

/// What an xz stream may ask for, KiB: `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 100 << 10;

/// How far the file behind a source has been read; for progress.
#[derive(Clone, Default)]
pub struct Position(Rc<Cell<u64>>);

impl Position {
    /// Bytes read so far, packed if the file is.
    pub fn bytes(&self) -> u64 {
        self.0.get()
    }
}

struct Counted<R> {
    inner: R,
    position: Position,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.position.0.set(self.position.0.get() + n as u64);
        Ok(n)
    }
}

/// A window onto the unpacked bytes.
pub struct Source {
    name: String,
    input: Box<dyn Read>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `buf[start]` in the unpacked bytes.
    offset: u64,
    eof: bool,
}

impl Source {
    /// Opens a file; `-` is standard input. Returns its size too, if it has one.
    ///
    /// # Errors
    /// The file cannot be opened or its first bytes not be read.
    pub fn open(name: &str, position: &Position) -> Result<(Self, Option<u64>), TraceError> {
        if name == "-" {
            return Ok((Self::new(name, io::stdin(), position)?, None));
        }
        let failed = |e| TraceError::file(name, e);
        let file = File::open(name).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        let size = meta.is_file().then_some(meta.len());
        Ok((Self::new(name, file, position)?, size))
    }

    /// Reads from anything; `name` is for messages.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn new(
        name: &str,
        input: impl Read + 'static,
        position: &Position,
    ) -> Result<Self, TraceError> {
        let position = position.clone();
        let input = Counted {
            inner: input,
            position,
        };
        Ok(Self {
            name: name.to_owned(),
            input: unpacked(input).map_err(|e| TraceError::file(name, e))?,
            buf: vec![0; WINDOW + SLACK],
            start: 0,
            end: 0,
            offset: 0,
            eof: false,
        })
    }

    /// The name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Offset of the first unread byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The unread bytes that are in the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// The unread bytes with the slack behind them.
    pub fn bytes_and_slack(&self) -> &[u8] {
        &self.buf[self.start..self.end + SLACK]
    }

    /// Counts `n` bytes as read.
    pub fn consume(&mut self, n: usize) {
        assert!(n <= self.end - self.start, "{n} bytes were not there");
        self.start += n;
        self.offset += n as u64;
    }

    /// Reads on until `want` bytes (at most `WINDOW`) are in the buffer, or the end.
    ///
    /// # Errors
    /// The file cannot be read on, or its packing is broken.
    pub fn fill(&mut self, want: usize) -> Result<(), TraceError> {
        if self.end - self.start >= want || self.eof {
            return Ok(());
        }
        self.buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < want && !self.eof {
            match self.input.read(&mut self.buf[self.end..WINDOW]) {
                Ok(0) => self.eof = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(&e)),
            }
        }
        Ok(())
    }

    fn broken(&mut self, error: &io::Error) -> TraceError {
        self.eof = true;
        let at = Place::Byte(self.offset + (self.end - self.start) as u64);
        let what = format!("unpacking fails: {error}; expected a whole file");
        TraceError::input(&self.name, at, what)
    }
}

/// Puts the unpacker in front that the first bytes ask for.
fn unpacked(mut input: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut head = Vec::new();
    input.by_ref().take(6).read_to_end(&mut head)?;
    let gzip = head.starts_with(&[0x1f, 0x8b]);
    let xz = head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]);
    let whole = Cursor::new(head).chain(input);
    Ok(if gzip {
        let packed = BufReader::with_capacity(1 << 16, whole);
        Box::new(flate2::bufread::MultiGzDecoder::new(packed))
    } else if xz {
        let packed = BufReader::with_capacity(1 << 16, whole);
        Box::new(lzma_rust2::XzReader::new_mem_limit(
            packed,
            true,
            XZ_MEMORY_KIB,
        ))
    } else {
        Box::new(whole)
    })
}
