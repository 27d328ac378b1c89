//! `pmaplab trace convert`: any form into the binary one.

use std::io;

use super::binary::Writer;
use super::options::ConvertArgs;
use super::packed::Packed;
use super::progress::Progress;
use super::reader::Reader;
use super::record::TraceError;
use super::source::Position;

/// Converts a trace. The output appears under its name only when it is whole, or, with `partial`,
/// when it holds what could be read. Returns the records written.
///
/// # Errors
/// The input is broken, or the output cannot be written.
pub fn convert(args: &ConvertArgs) -> Result<u64, TraceError> {
    let name = args.output.display().to_string();
    let failed = |e| TraceError::file(&name, e);
    let mut out = Packed::create(&args.output).map_err(failed)?;
    let result = write(args, &mut out, &failed);
    let keep = match &result {
        Ok(_) => true,
        Err((_, whole)) => *whole && args.partial,
    };
    if keep {
        out.keep().map_err(failed)?;
    }
    result.map_err(|(error, _)| error)
}

/// Writes to `out`. An error comes with whether the file is a whole trace all the same.
fn write(
    args: &ConvertArgs,
    out: &mut Packed,
    failed: &dyn Fn(io::Error) -> TraceError,
) -> Result<u64, (TraceError, bool)> {
    let lost = |e: io::Error| (failed(e), false);
    let position = Position::default();
    let opened = Reader::open(&args.input, args.format, &position);
    let (mut reader, size) = opened.map_err(|e| (e, false))?;
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
    writer.finish().map_err(lost)?;
    end
}
