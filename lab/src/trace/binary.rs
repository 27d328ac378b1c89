//! Our compact binary form, and the writer that `pmaplab exec --save-trace` uses.
//!
//! ```text
//! file   = magic block* end
//! magic  = 89 50 4d 54 52 0d 0a, version 01
//! block  = payload bytes u32 (1 to 1 MiB), records u32, CRC-32 u32 over records and payload, payload
//! end    = 0 u32, records in all u64, CRC-32 u32 over those eight bytes; nothing follows
//! record = head u8, [size], [delta]
//! head   = kind (bits 0-2), size follows (bit 3), bytes of the delta, 0 to 8 (bits 4-7)
//! size   = u8, or 0 and u16; left out where this kind's last size holds
//! delta  = zigzag of va - (this kind's last va + size), little endian
//! ```
//!
//! Integers are little endian. Kinds are the numbers of [`Kind`]. Each block starts afresh, as if
//! every kind's last reference had been 4 bytes that ended at 0, so a broken block spoils no other.
//! Straight-line code of one instruction size costs one byte a record.

use std::io::{self, Write};

use super::record::{Kind, NO_RECORD, Place, Ref, TraceError};
use super::source::Source;

/// First bytes of the form, version included.
pub const MAGIC: [u8; 8] = [0x89, b'P', b'M', b'T', b'R', b'\r', b'\n', 1];

const BLOCK_HEAD: usize = 12;
const END: usize = 16;
const PAYLOAD_MAX: u32 = 1 << 20;
const PAYLOAD_WRITTEN: usize = 1 << 16;
const SIZE_FOLLOWS: u8 = 8;

/// What both sides remember of each kind within a block.
#[derive(Clone, Copy)]
struct Last {
    next_va: [u64; 8],
    size: [u32; 8],
}

const FRESH: Last = Last {
    next_va: [0; 8],
    size: [4; 8],
};

/// Writes the binary form.
pub struct Writer<W: Write> {
    out: W,
    last: Last,
    payload: Vec<u8>,
    records: u32,
    total: u64,
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        let payload = Vec::with_capacity(PAYLOAD_WRITTEN + END);
        let (last, records, total) = (FRESH, 0, 0);
        Ok(Self {
            out,
            last,
            payload,
            records,
            total,
        })
    }

    /// Adds one record. `size` is in bytes, at most [`super::record::SIZE_MAX`]; 0 is for operations
    /// on the whole cache only.
    ///
    /// # Errors
    /// Writing failed, or the size is impossible.
    #[inline]
    pub fn record(&mut self, kind: Kind, va: u64, size: u32) -> io::Result<()> {
        let record = Ref { va, size, kind };
        if !record.is_possible() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, record.fault()));
        }
        let n = kind as usize;
        let delta = va.wrapping_sub(self.last.next_va[n]) as i64;
        let zigzag = (delta << 1 ^ delta >> 63) as u64;
        let len = 8 - (zigzag.leading_zeros() / 8) as usize;
        let sized = self.last.size[n] != size;
        let head = kind as u8 | (len as u8) << 4 | if sized { SIZE_FOLLOWS } else { 0 };
        self.payload.push(head);
        match u8::try_from(size) {
            _ if !sized => {}
            Ok(small) if small != 0 => self.payload.push(small),
            _ => {
                self.payload.push(0);
                self.payload.extend((size as u16).to_le_bytes());
            }
        }
        self.payload.extend(&zigzag.to_le_bytes()[..len]);
        self.last.next_va[n] = va.wrapping_add(u64::from(size));
        self.last.size[n] = size;
        self.records += 1;
        if self.payload.len() >= PAYLOAD_WRITTEN {
            self.block()?;
        }
        Ok(())
    }

    fn block(&mut self) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        let records = self.records.to_le_bytes();
        self.out
            .write_all(&(self.payload.len() as u32).to_le_bytes())?;
        self.out.write_all(&records)?;
        self.out
            .write_all(&checksum(&records, &self.payload).to_le_bytes())?;
        self.out.write_all(&self.payload)?;
        self.total += u64::from(self.records);
        self.payload.clear();
        self.records = 0;
        self.last = FRESH;
        Ok(())
    }

    /// Ends the trace; without this a reader calls it truncated. Returns what it wrote to.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self) -> io::Result<W> {
        self.block()?;
        self.out.write_all(&end_mark(self.total))?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn end_mark(total: u64) -> [u8; END] {
    let total = total.to_le_bytes();
    let mut mark = [0; END];
    mark[4..12].copy_from_slice(&total);
    mark[12..].copy_from_slice(&checksum(&total, &[]).to_le_bytes());
    mark
}

/// A trace whose one block has these bytes for its records, as many as the first byte says. For the
/// fuzz target.
pub(crate) fn block_of(data: &[u8]) -> Option<Vec<u8>> {
    let (records, payload) = data.split_first()?;
    let records = u32::from(*records).to_le_bytes();
    let mut out = MAGIC.to_vec();
    out.extend(u32::try_from(payload.len()).ok()?.to_le_bytes());
    out.extend(records);
    out.extend(checksum(&records, payload).to_le_bytes());
    out.extend(payload);
    out.extend(end_mark(u64::from(u32::from_le_bytes(records))));
    Some(out)
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(head);
    crc.update(payload);
    crc.sum()
}

/// A broken record: those before it, its place, and what is wrong.
struct Broken {
    records: usize,
    at: usize,
    what: String,
}

/// Reads the binary form.
pub(crate) struct Decoder {
    last: Last,
    /// Payload bytes of the open block that are still unread.
    payload_left: usize,
    records_left: u32,
    total: u64,
    ended: bool,
}

impl Decoder {
    /// Reads the magic bytes.
    pub(crate) fn new(source: &mut Source) -> Result<Self, TraceError> {
        source.fill(MAGIC.len())?;
        let head = source.bytes();
        if !head.starts_with(&MAGIC[..7]) || head.len() < 8 {
            return Err(wrong(
                source,
                0,
                "no binary trace; expected the magic bytes",
            ));
        }
        if head[7] != MAGIC[7] {
            let what = format!("version {}; expected {}", head[7], MAGIC[7]);
            return Err(wrong(source, 7, what));
        }
        source.consume(MAGIC.len());
        Ok(Self {
            last: FRESH,
            payload_left: 0,
            records_left: 0,
            total: 0,
            ended: false,
        })
    }

    /// Adds records to `out` until it holds `most`, at most to the end of a block. Returns false at
    /// the end of the trace.
    pub(crate) fn decode(
        &mut self,
        source: &mut Source,
        out: &mut Vec<Ref>,
        most: usize,
    ) -> Result<bool, TraceError> {
        if self.records_left == 0 && (self.ended || !self.open_block(source)?) {
            return Ok(false);
        }
        let count = (self.records_left as usize).min(most - out.len());
        let have = out.len();
        out.resize(have + count, NO_RECORD);
        let used = match self.records(source.bytes_and_slack(), &mut out[have..]) {
            Ok(used) => used,
            Err(broken) => {
                out.truncate(have + broken.records);
                return Err(wrong(source, broken.at, broken.what));
            }
        };
        source.consume(used);
        self.payload_left -= used;
        self.records_left -= count as u32;
        if self.records_left == 0 && self.payload_left != 0 {
            return Err(wrong(
                source,
                0,
                "bytes after the block's last record; expected the next block",
            ));
        }
        Ok(true)
    }

    /// Decodes records from the front of `bytes` until `out` is full. Returns how many bytes they
    /// took.
    fn records(&mut self, bytes: &[u8], out: &mut [Ref]) -> Result<usize, Broken> {
        let broken = |records, at, what| Err(Broken { records, at, what });
        let mut last = self.last;
        let mut at = 0;
        for (count, record) in out.iter_mut().enumerate() {
            // A record takes at most 19 bytes even if it is broken, so one that starts within the
            // payload is within the slack; whether it ends within the payload is checked next.
            if at >= self.payload_left {
                return broken(count, at, OVERRUN.to_owned());
            }
            let from = at;
            let head = bytes[at];
            let n = usize::from(head & 7);
            // Without a branch: sizes of instructions are not predictable.
            let sized = usize::from(head & SIZE_FOLLOWS != 0);
            let mut size = [last.size[n], u32::from(bytes[at + 1])][sized];
            at += 1 + sized;
            if size == 0 && sized == 1 {
                size = u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                at += 2;
            }
            let len = usize::from(head >> 4);
            let zigzag = word(bytes, at) & MASK[len];
            at += len;
            let delta = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
            let va = last.next_va[n].wrapping_add(delta);
            last.next_va[n] = va.wrapping_add(u64::from(size));
            last.size[n] = size;
            let Some(kind) = Kind::from_code(head & 7).filter(|_| len <= 8) else {
                return broken(count, from, unknown(head));
            };
            // Field by field: a record put together first would be stored twice.
            (record.va, record.size, record.kind) = (va, size, kind);
            if !(Ref { va, size, kind }).is_possible() {
                return broken(count, from, (Ref { va, size, kind }).fault());
            }
        }
        if at > self.payload_left {
            return broken(out.len(), self.payload_left, OVERRUN.to_owned());
        }
        self.last = last;
        Ok(at)
    }

    /// Reads the head of the next block and checks its sum; false if it is the end.
    fn open_block(&mut self, source: &mut Source) -> Result<bool, TraceError> {
        source.fill(END)?;
        if source.bytes().len() < END {
            let what = "the trace is truncated; expected a block or the end mark";
            return Err(wrong(source, 0, what));
        }
        let payload = number(source, 0);
        if payload == 0 {
            return self.end(source).map(|()| false);
        }
        let (records, sum) = (number(source, 4), number(source, 8));
        if payload > PAYLOAD_MAX || records == 0 || records > payload {
            let what = format!(
                "a block of {payload} bytes and {records} records; expected at most \
                 {PAYLOAD_MAX} bytes and 1 to {payload} records"
            );
            return Err(wrong(source, 0, what));
        }
        source.fill(BLOCK_HEAD + payload as usize)?;
        let whole = source.bytes();
        let Some(body) = whole.get(BLOCK_HEAD..BLOCK_HEAD + payload as usize) else {
            let what = format!("the trace is truncated; expected {payload} bytes of a block");
            return Err(wrong(source, whole.len(), what));
        };
        if checksum(&whole[4..8], body) != sum {
            return Err(wrong(
                source,
                0,
                "the block is corrupt; expected its CRC-32",
            ));
        }
        source.consume(BLOCK_HEAD);
        self.last = FRESH;
        (self.payload_left, self.records_left) = (payload as usize, records);
        self.total += u64::from(records);
        Ok(true)
    }

    fn end(&mut self, source: &mut Source) -> Result<(), TraceError> {
        source.fill(END + 1)?;
        let end = source.bytes();
        let total = u64::from(number(source, 4)) | u64::from(number(source, 8)) << 32;
        if checksum(&end[4..12], &[]) != number(source, 12) || total != self.total {
            let what = format!("the end mark is corrupt; expected {} records", self.total);
            return Err(wrong(source, 0, what));
        }
        if end.len() > END {
            return Err(wrong(
                source,
                END,
                "bytes after the end mark; expected the end of the file",
            ));
        }
        self.ended = true;
        Ok(())
    }
}

const OVERRUN: &str = "a record runs out of its block; expected its end within";

#[cold]
fn unknown(head: u8) -> String {
    format!("record head {head:#04x}; expected a kind of 0 to 5 and a delta of up to 8 bytes")
}

fn wrong(source: &Source, at: usize, what: impl Into<String>) -> TraceError {
    TraceError::input(
        source.name(),
        Place::Byte(source.offset() + at as u64),
        what,
    )
}

fn number(source: &Source, at: usize) -> u32 {
    let bytes = source.bytes();
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let window: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(window)
}

/// The low `n` bytes of a word.
const MASK: [u64; 16] = {
    let mut table = [u64::MAX; 16];
    let mut n = 0;
    while n < 8 {
        table[n] = (1 << (8 * n)) - 1;
        n += 1;
    }
    table
};
