//! `pmaplab trace convert`: any form into the binary one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};

use super::binary::Writer;
use super::options::ConvertArgs;
use super::progress::Progress;
use super::reader::Reader;
use super::record::TraceError;
use super::source::Position;

/// A file, perhaps packed.
enum Packed {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Xz(Box<XzWriter<BufWriter<File>>>),
}

impl Packed {
    fn create(file: &Path, like: &Path) -> io::Result<Self> {
        let out = BufWriter::with_capacity(1 << 16, File::create(file)?);
        Ok(match like.extension().and_then(OsStr::to_str) {
            Some("gz") => Packed::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Some("xz") => Packed::Xz(Box::new(XzWriter::new(out, XzOptions::with_preset(6))?)),
            _ => Packed::Plain(out),
        })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => Ok(out),
            Packed::Gzip(out) => out.finish(),
            Packed::Xz(out) => out.finish(),
        }?
        .flush()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(out) => out.write(bytes),
            Packed::Gzip(out) => out.write(bytes),
            Packed::Xz(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out.flush(),
            Packed::Gzip(out) => out.flush(),
            Packed::Xz(out) => out.flush(),
        }
    }
}

/// Converts a trace. The output appears under its name only when it is whole, or, with `partial`,
/// when it holds what could be read. Returns the records written.
///
/// # Errors
/// The input is broken, or the output cannot be written.
pub fn convert(args: &ConvertArgs) -> Result<u64, TraceError> {
    let name = args.output.display().to_string();
    let failed = |e| TraceError::file(&name, e);
    let mut unfinished = args.output.clone().into_os_string();
    unfinished.push(".part");
    let unfinished = Path::new(&unfinished);
    let result = write(args, unfinished, &failed);
    let keep = match &result {
        Ok(_) => true,
        Err((_, whole)) => *whole && args.partial,
    };
    if keep {
        fs::rename(unfinished, &args.output).map_err(failed)?;
    } else {
        let _ = fs::remove_file(unfinished);
    }
    result.map_err(|(error, _)| error)
}

/// Writes to `file`. An error comes with whether the file is a whole trace all the same.
fn write(
    args: &ConvertArgs,
    file: &Path,
    failed: &dyn Fn(io::Error) -> TraceError,
) -> Result<u64, (TraceError, bool)> {
    let lost = |e: io::Error| (failed(e), false);
    let position = Position::default();
    let opened = Reader::open(&args.input, args.format, &position);
    let (mut reader, size) = opened.map_err(|e| (e, false))?;
    let out = Packed::create(file, &args.output).map_err(lost)?;
    let mut writer = Writer::new(out).map_err(lost)?;
    let mut progress = Progress::new(size, position);
    let mut batch = Vec::new();
    let end = loop {
        let more = reader.next_batch(&mut batch);
        for record in &batch {
            writer
                .record(record.kind, record.va, record.size)
                .map_err(lost)?;
        }
        progress.advance(batch.len());
        match more {
            Ok(true) => {}
            Ok(false) => break Ok(reader.records_read()),
            Err(error) => break Err((error, reader.records_read() > 0)),
        }
    };
    writer.finish().and_then(Packed::finish).map_err(lost)?;
    end
}
