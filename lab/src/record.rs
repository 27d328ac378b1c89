//! Records every access of a run with its cost class, while another observer watches.
//!
//! The form is the compact binary one, or, for a file whose name says `.xdin`, text: Dinero's extended
//! form, a line an access, `LABEL ADDRESS SIZE`, hexadecimal, with `i`, `r` or `w` as label. `pmaplab
//! trace` reads both. In the text follows the cost class, a comment to those who simulate: `u` or `k` for
//! the processor's mode, where the bytes came from, and `walk` if a table walk came first.
//!
//! | word | what |
//! |---|---|
//! | `l1` | the first level had the line |
//! | `l2`, `memory` | the line was brought from there |
//! | `buffered` | the fetch buffer had the word, or the write buffer took the store |
//! | `uncached` | memory was asked for these bytes alone |
//!
//! Absent on purpose: cache operations, devices, the kernel's own instructions (they have a footprint,
//! not an encoding).

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use machine::tlb::TlbEntry;
use machine::{
    Access, CpuId, Machine, Mark, Observer, PhysAddr, Place, Seen, Step, Unit, VirtAddr,
};

use crate::trace::{Kind, Packed, Writer};

/// Where records go, and what went wrong with it.
struct Sink {
    form: Option<Form>,
    begun: bool,
    written: u64,
    left: u64,
    error: Option<io::Error>,
}

enum Form {
    Text(Packed),
    Binary(Writer<Packed>),
}

/// An observer that records and passes everything on. Clones record to the same place.
#[derive(Clone)]
pub struct Recorder<O> {
    /// Who else watches.
    pub inner: O,
    sink: Arc<Mutex<Sink>>,
    brought: Brought,
    walked: bool,
}

/// Where bytes came from since the last access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Brought {
    Nothing,
    Level2,
    Memory,
}

impl<O> Recorder<O> {
    /// Records into `file` from [`Recorder::begin`] on, at most `most` accesses; what would follow is left out. A name that ends in
    /// `.xdin` makes text, `.gz` or `.xz` after that packs either form.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(inner: O, file: &Path, most: u64) -> io::Result<Self> {
        let name = file.to_string_lossy();
        let unpacked = name.strip_suffix(".gz").or(name.strip_suffix(".xz"));
        let text = unpacked.unwrap_or(&name).ends_with(".xdin");
        let out = Packed::create(file)?;
        let form = match text {
            true => Form::Text(out),
            false => Form::Binary(Writer::new(out)?),
        };
        let sink = Sink {
            form: Some(form),
            begun: false,
            written: 0,
            left: most,
            error: None,
        };
        Ok(Self {
            inner,
            sink: Arc::new(Mutex::new(sink)),
            brought: Brought::Nothing,
            walked: false,
        })
    }

    /// What happens from now on is recorded.
    pub fn begin(&self) {
        if let Ok(mut sink) = self.sink.lock() {
            sink.begun = true;
        }
    }

    /// Ends the record and gives the file its name: how many accesses it holds, and whether any were
    /// left out.
    ///
    /// # Errors
    /// Writing failed, now or before.
    pub fn finish(&self) -> io::Result<(u64, bool)> {
        let mut sink = self
            .sink
            .lock()
            .map_err(|_| io::Error::other("a writer panicked"))?;
        if let Some(error) = sink.error.take() {
            return Err(error);
        }
        match sink.form.take() {
            Some(Form::Text(out)) => out.keep()?,
            Some(Form::Binary(writer)) => writer.finish()?.keep()?,
            None => {}
        }
        Ok((sink.written, sink.left == 0))
    }

    fn access(&mut self, seen: &Seen) {
        let class = self.class(seen);
        if let Ok(mut sink) = self.sink.lock() {
            sink.write(seen, class, self.walked);
        }
        (self.brought, self.walked) = (Brought::Nothing, false);
    }

    fn class(&self, seen: &Seen) -> &'static str {
        match (seen.place, self.brought) {
            (Place::Line { unit: Unit::L2, .. }, _) => "l2",
            (Place::Line { .. }, Brought::Nothing) => "l1",
            (Place::Line { .. }, Brought::Level2) => "l2",
            (Place::Line { .. }, Brought::Memory) => "memory",
            (Place::FetchBuffer { .. }, Brought::Nothing) => "buffered",
            (Place::WriteBuffer { .. } | Place::Evicted { .. }, _) if seen.entry.bufferable => {
                "buffered"
            }
            _ => "uncached",
        }
    }
}

impl Sink {
    fn write(&mut self, seen: &Seen, class: &str, walked: bool) {
        if !self.begun || self.error.is_some() || self.left == 0 {
            return;
        }
        let (label, kind) = match seen.access {
            Access::Fetch => ('i', Kind::Fetch),
            Access::Load => ('r', Kind::Read),
            Access::Store => ('w', Kind::Write),
        };
        let (va, size) = (seen.va.0, seen.width.bytes());
        let mode = if seen.user { 'u' } else { 'k' };
        let walk = if walked { " walk" } else { "" };
        let done = match &mut self.form {
            Some(Form::Text(out)) => writeln!(out, "{label} {va:x} {size:x} {mode} {class}{walk}"),
            Some(Form::Binary(writer)) => writer.record(kind, va.into(), size),
            None => return,
        };
        self.left -= 1;
        self.written += 1;
        self.error = done.err();
    }
}

impl<O: Observer> Observer for Recorder<O> {
    fn fetched(&mut self, machine: &Machine, seen: &Seen, word: u32) {
        self.access(seen);
        self.inner.fetched(machine, seen, word);
    }

    fn loaded(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        self.access(seen);
        self.inner.loaded(machine, seen, value);
    }

    fn stored(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        self.access(seen);
        self.inner.stored(machine, seen, value);
    }

    fn moved(&mut self, machine: &Machine, from: Place, to: Place, pa: PhysAddr, len: u32) {
        let brought = match (from, to) {
            (Place::Memory(_), Place::Line { .. } | Place::FetchBuffer { .. }) => Brought::Memory,
            (
                Place::Line { unit: Unit::L2, .. },
                Place::Line { .. } | Place::FetchBuffer { .. },
            ) => Brought::Level2,
            _ => Brought::Nothing,
        };
        self.brought = self.brought.max(brought);
        self.inner.moved(machine, from, to, pa, len);
    }

    fn dropped(&mut self, machine: &Machine, place: Place, pa: PhysAddr, len: u32) {
        self.inner.dropped(machine, place, pa, len);
    }

    fn dma_in(&mut self, machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        self.inner.dma_in(machine, pa, bytes);
    }

    fn dma_out(&mut self, machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        self.inner.dma_out(machine, pa, bytes);
    }

    fn walked(&mut self, machine: &Machine, cpu: CpuId, va: VirtAddr, entry: &TlbEntry) {
        // What the walk itself read through a cache is the walk's.
        (self.brought, self.walked) = (Brought::Nothing, true);
        self.inner.walked(machine, cpu, va, entry);
    }

    fn flat_stored(&mut self, index: Option<usize>, raw: u32) {
        self.inner.flat_stored(index, raw);
    }

    fn stepped(&mut self, cpu: CpuId, step: &Step) {
        self.inner.stepped(cpu, step);
    }

    fn holds_newest(&self, machine: &Machine, cpu: CpuId, slot: u32) -> bool {
        self.inner.holds_newest(machine, cpu, slot)
    }

    fn mark(&mut self, cpu: CpuId, mark: &Mark) {
        self.inner.mark(cpu, mark);
    }
}
