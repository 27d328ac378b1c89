//! A trace, read batch by batch: whatever its form and packing, in bounded memory.

use std::io::Read;

use super::binary::{Decoder, MAGIC};
use super::record::{Place, Ref, TraceError};
use super::source::{Position, Source};
use super::text::{Form, LINE_MAX, shown};

/// Records of one batch: small enough to stay in a processor's cache while every simulated cache
/// goes over it.
pub const BATCH: usize = 4096;

/// The form of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// By the first bytes.
    #[default]
    Auto,
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// Dinero's traditional form.
    Din,
    /// Dinero's extended form; sizes are hexadecimal.
    Xdin,
    /// Our own, from `pmaplab trace convert`.
    Binary,
}

enum Records {
    Text { form: Form, lines: u64 },
    Binary(Decoder),
}

/// Reads a trace.
pub struct Reader {
    source: Source,
    records: Records,
    read: u64,
}

impl Reader {
    /// Opens a file (`-` is standard input); returns its size too, if it has one.
    ///
    /// # Errors
    /// The file cannot be read, is empty, or has none of the forms.
    pub fn open(
        name: &str,
        format: Format,
        position: &Position,
    ) -> Result<(Self, Option<u64>), TraceError> {
        let (source, size) = Source::open(name, position)?;
        Ok((Self::start(source, format)?, size))
    }

    /// Reads from anything; `name` is for messages.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(name: &str, input: impl Read + 'static, format: Format) -> Result<Self, TraceError> {
        let source = Source::new(name, input, &Position::default())?;
        Self::start(source, format)
    }

    fn start(mut source: Source, format: Format) -> Result<Self, TraceError> {
        source.fill(LINE_MAX)?;
        let head = source.bytes();
        if head.is_empty() {
            let what = "the trace is empty; expected at least one record";
            return Err(TraceError::input(source.name(), Place::Byte(0), what));
        }
        let form = match format {
            Format::Lackey => Some(Form::Lackey),
            Format::Din => Some(Form::Din),
            Format::Xdin => Some(Form::Xdin),
            Format::Binary => None,
            Format::Auto if head[0] == MAGIC[0] => None,
            Format::Auto => match Form::guess(head) {
                Some(form) => Some(form),
                None => {
                    let what = format!(
                        "no trace: `{}`; expected a line of lackey, din or xdin, or the binary form",
                        shown(head)
                    );
                    return Err(TraceError::input(source.name(), Place::Line(1), what));
                }
            },
        };
        let records = match form {
            Some(form) => Records::Text { form, lines: 0 },
            None => Records::Binary(Decoder::new(&mut source)?),
        };
        let read = 0;
        Ok(Self {
            source,
            records,
            read,
        })
    }

    /// Records read so far.
    pub fn records_read(&self) -> u64 {
        self.read
    }

    /// Replaces `batch` by the next records, at most [`BATCH`]; false if there are none.
    /// After an error, `batch` holds the records before it.
    ///
    /// # Errors
    /// A broken record, or a trace without any.
    pub fn next_batch(&mut self, batch: &mut Vec<Ref>) -> Result<bool, TraceError> {
        batch.clear();
        let result = self.fill_batch(batch);
        self.read += batch.len() as u64;
        result?;
        if self.read == 0 {
            let at = Place::Byte(self.source.offset());
            let what = "the trace has no record; expected at least one";
            return Err(TraceError::input(self.source.name(), at, what));
        }
        Ok(!batch.is_empty())
    }

    fn fill_batch(&mut self, batch: &mut Vec<Ref>) -> Result<(), TraceError> {
        while batch.len() < BATCH {
            let more = match &mut self.records {
                Records::Binary(decoder) => decoder.decode(&mut self.source, batch, BATCH)?,
                Records::Text { form, lines } => parse(&mut self.source, *form, lines, batch)?,
            };
            if !more {
                break;
            }
        }
        Ok(())
    }
}

/// Parses some lines; false at the end.
fn parse(
    source: &mut Source,
    form: Form,
    lines: &mut u64,
    batch: &mut Vec<Ref>,
) -> Result<bool, TraceError> {
    let mut whole = whole_lines(source.bytes(), batch.len());
    if whole == 0 {
        source.fill(LINE_MAX)?;
        whole = whole_lines(source.bytes(), batch.len());
    }
    let left = source.bytes();
    if whole == 0 {
        let what = match left.len() {
            0 => return Ok(false),
            n if n >= LINE_MAX => format!("a line of over {LINE_MAX} bytes; expected a record"),
            _ => format!(
                "the last line is cut: `{}`; expected a newline at its end",
                shown(left)
            ),
        };
        return Err(TraceError::input(
            source.name(),
            Place::Line(*lines + 1),
            what,
        ));
    }
    let parsed = form.parse(&left[..whole], batch, BATCH);
    *lines += parsed.lines;
    source.consume(parsed.bytes);
    match parsed.wrong {
        None => Ok(true),
        Some(what) => Err(TraceError::input(
            source.name(),
            Place::Line(*lines + 1),
            what,
        )),
    }
}

/// How many of the bytes are whole lines, as far as a batch of which `have` records are read can
/// need them: looking for the buffer's last newline would be work without end.
fn whole_lines(bytes: &[u8], have: usize) -> usize {
    let near = ((BATCH - have) * 32).max(LINE_MAX).min(bytes.len());
    bytes[..near]
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |n| n + 1)
}
