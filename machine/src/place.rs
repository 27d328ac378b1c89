//! What the places that can hold bytes hold, without side effects, and values in a line's bytes.

use crate::cache::Cache;
use crate::machine::Machine;
use crate::mmu::read_word;
use crate::observer::{Place, Unit};
use crate::profile::{DrainsOn, Looks};
use crate::types::{CpuId, PhysAddr, VirtAddr, Width};

impl Machine {
    /// The nearest copy of `pa` that a reader beside the data side finds, if it looks further than
    /// memory.
    pub(crate) fn find_beside(&self, cpu: CpuId, pa: PhysAddr, looks: Looks) -> Option<Place> {
        let in_d = |owner: usize| {
            let cache = &self.cpus[owner].dcache;
            let slot = cache.holders(pa.0).find(|s| cache.dirty(*s) != 0)?;
            let offset = pa.0 & (cache.line_bytes() - 1);
            Some(Place::Line {
                unit: Unit::L1D(CpuId(owner as u8)),
                slot,
                offset,
            })
        };
        let data = match looks {
            Looks::Memory => return None,
            Looks::L2 => None,
            Looks::OwnD => in_d(usize::from(cpu.0)),
            Looks::AllD => (0..self.cpus.len()).find_map(in_d),
        };
        data.or_else(|| {
            let l2 = self.l2.as_ref()?;
            let slot = l2.find(l2.keys(pa.0, pa.0))?;
            let offset = pa.0 & (l2.line_bytes() - 1);
            Some(Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            })
        })
    }

    pub(crate) fn word_at(&self, place: Place) -> u32 {
        let mut bytes = [0; 4];
        self.read_place(place, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Reads the bytes that a place holds; for reports and tests.
    pub fn read_place(&self, place: Place, out: &mut [u8]) {
        match place {
            Place::Memory(pa) => self.memory.read(pa, out),
            Place::Line { unit, slot, offset } => {
                let from = offset as usize;
                let line = self.cache(unit).line(slot);
                out.copy_from_slice(&line[from..from + out.len()]);
            }
            _ => out.fill(0),
        }
    }

    /// The word that CPU 0's kernel would load from `va`, mapped to `pa`, without side effects: its data
    /// line, its write buffer, the second level, memory.
    pub fn peek_word(&self, va: VirtAddr, pa: PhysAddr) -> u32 {
        let cpu = &self.cpus[0];
        if let Some(slot) = cpu.dcache.find(cpu.dcache.keys(va.0, pa.0)) {
            return take(
                cpu.dcache.line(slot),
                va.0 & (cpu.dcache.line_bytes() - 1),
                Width::Word,
            );
        }
        let waiting = cpu
            .write
            .entries()
            .filter(|(_, e)| e.covers(pa.0, 4))
            .last();
        if let Some((_, entry)) = waiting {
            return take(&entry.data, pa.0 - entry.pa, Width::Word);
        }
        let place = self.find_beside(CpuId(0), pa, Looks::L2);
        place.map_or_else(|| read_word(&self.memory, pa), |place| self.word_at(place))
    }

    /// A cache by name; the second level must exist.
    pub fn cache(&self, unit: Unit) -> &Cache {
        match unit {
            Unit::L1I(cpu) => &self.cpu(cpu).icache,
            Unit::L1D(cpu) => &self.cpu(cpu).dcache,
            Unit::L2 => self.l2.as_ref().expect("an L2 place implies an L2"),
        }
    }

    pub(crate) fn drains_on(&self, event: DrainsOn) -> bool {
        self.profile().write_buffer.drains_on.contains(&event)
    }
}

/// Copies a line. The usual length is known to the compiler: then it is a few instructions, not a call.
#[inline]
pub(crate) fn copy_line(to: &mut [u8], from: &[u8]) {
    match (<&mut [u8; 32]>::try_from(&mut *to), from.as_array()) {
        (Ok(to), Some(from)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// Reads a value out of a line.
#[inline]
pub(crate) fn take(line: &[u8], offset: u32, width: Width) -> u32 {
    let n = offset as usize;
    match width {
        Width::Byte => u32::from(line[n]),
        Width::Half => u32::from(u16::from_le_bytes([line[n], line[n + 1]])),
        Width::Word => u32::from_le_bytes([line[n], line[n + 1], line[n + 2], line[n + 3]]),
    }
}

/// Writes a value into a line.
#[inline]
pub(crate) fn put(line: &mut [u8], offset: u32, width: Width, value: u32) {
    let n = offset as usize;
    let b = value.to_le_bytes();
    match width {
        Width::Byte => line[n] = b[0],
        Width::Half => line[n..n + 2].copy_from_slice(&b[..2]),
        Width::Word => line[n..n + 4].copy_from_slice(&b),
    }
}
