//! A file that is written, perhaps packed, and appears under its name only when it is whole.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};

/// The file while it is written: `NAME.part`, removed unless it is kept.
pub struct Packed {
    form: Form,
    whole: PathBuf,
    part: PathBuf,
}

enum Form {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Xz(Box<XzWriter<BufWriter<File>>>),
    Done,
}

impl Packed {
    /// Starts a file; a name that ends in `.gz` or `.xz` is packed.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(whole: &Path) -> io::Result<Self> {
        let mut part = whole.to_owned().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let out = BufWriter::with_capacity(1 << 16, File::create(&part)?);
        let form = match whole.extension().and_then(OsStr::to_str) {
            Some("gz") => Form::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Some("xz") => Form::Xz(Box::new(XzWriter::new(out, XzOptions::with_preset(6))?)),
            _ => Form::Plain(out),
        };
        let whole = whole.to_owned();
        Ok(Self { form, whole, part })
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// Writing failed.
    pub fn keep(mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.form, Form::Done) {
            Form::Plain(out) => out,
            Form::Gzip(out) => out.finish()?,
            Form::Xz(out) => out.finish()?,
            Form::Done => return Ok(()),
        }
        .flush()?;
        fs::rename(&self.part, &self.whole)
    }

    fn out(&mut self) -> &mut dyn Write {
        match &mut self.form {
            Form::Plain(out) => out,
            Form::Gzip(out) => out,
            Form::Xz(out) => out,
            Form::Done => unreachable!("`keep` takes the file"),
        }
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out().flush()
    }
}
