//! Which store's bytes each place holds: one stamp a byte for every data line, second-level line, write
//! buffer entry and victim. Memory's own stamps are kept with the truth.

use machine::{CpuId, Machine, PhysAddr, Place, Unit, Width};

/// Stamps of all places but memory.
#[derive(Clone, Debug)]
pub struct Places {
    data: Vec<Vec<u32>>,
    l2: Vec<u32>,
    buffers: Vec<Vec<u32>>,
    victims: Vec<[u32; 64]>,
    data_line: usize,
    l2_line: usize,
    /// When each fetch buffer was last filled.
    pub fetched: Vec<u32>,
}

impl Places {
    /// The places of a machine, all holding what was there at boot.
    pub fn new(machine: &Machine) -> Self {
        let profile = machine.profile();
        let cpus = machine.cpus.len();
        let ring = profile.write_buffer.entries as usize * 32;
        Self {
            data: vec![vec![0; profile.dcache.size as usize]; cpus],
            l2: vec![0; profile.l2.as_ref().map_or(0, |l2| l2.size as usize)],
            buffers: vec![vec![0; ring]; cpus],
            victims: vec![[0; 64]; cpus],
            data_line: profile.dcache.line as usize,
            l2_line: profile.l2.as_ref().map_or(0, |l2| l2.line as usize),
            fetched: vec![0; cpus],
        }
    }

    /// The stamps of `len` bytes at a place; `None` for memory, and for instruction lines and fetch
    /// buffers, which hold nothing that could be lost.
    #[inline]
    pub fn stamps(&self, place: Place, len: usize) -> Option<&[u32]> {
        let (stamps, at) = match place {
            Place::Line {
                unit: Unit::L1D(cpu),
                slot,
                offset,
            } => (
                &self.data[usize::from(cpu.0)][..],
                slot as usize * self.data_line + offset as usize,
            ),
            Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            } => (&self.l2[..], slot as usize * self.l2_line + offset as usize),
            Place::WriteBuffer { cpu, slot, offset } => (
                &self.buffers[usize::from(cpu.0)][..],
                slot as usize * 32 + offset as usize,
            ),
            Place::Evicted { cpu, offset } => {
                (&self.victims[usize::from(cpu.0)][..], offset as usize)
            }
            _ => return None,
        };
        Some(&stamps[at..at + len])
    }

    /// A store with this stamp went into a line of a CPU's data cache.
    #[inline]
    pub fn stored_in(&mut self, cpu: CpuId, slot: u32, pa: PhysAddr, width: Width, stamp: u32) {
        let at = slot as usize * self.data_line + (pa.0 as usize & (self.data_line - 1));
        let data = &mut self.data[usize::from(cpu.0)];
        match width {
            Width::Word => data[at..at + 4].copy_from_slice(&[stamp; 4]),
            _ => data[at..at + width.bytes() as usize].fill(stamp),
        }
    }

    /// The stamps at a place, to change.
    #[inline]
    pub fn stamps_mut(&mut self, place: Place, len: usize) -> Option<&mut [u32]> {
        let (stamps, at) = match place {
            Place::Line {
                unit: Unit::L1D(cpu),
                slot,
                offset,
            } => (
                &mut self.data[usize::from(cpu.0)][..],
                slot as usize * self.data_line + offset as usize,
            ),
            Place::Line {
                unit: Unit::L2,
                slot,
                offset,
            } => (
                &mut self.l2[..],
                slot as usize * self.l2_line + offset as usize,
            ),
            Place::WriteBuffer { cpu, slot, offset } => (
                &mut self.buffers[usize::from(cpu.0)][..],
                slot as usize * 32 + offset as usize,
            ),
            Place::Evicted { cpu, offset } => {
                (&mut self.victims[usize::from(cpu.0)][..], offset as usize)
            }
            _ => return None,
        };
        Some(&mut stamps[at..at + len])
    }
}

/// Every place on its way to memory that holds the byte at `pa`: dirty lines, write buffers, victims.
pub fn unwritten(machine: &Machine, pa: u32) -> Vec<Place> {
    let mut out = Vec::new();
    any_unwritten(machine, pa, |place| {
        out.push(place);
        false
    });
    out
}

/// Whether one of those places is as asked; asks them in order.
pub fn any_unwritten(machine: &Machine, pa: u32, mut asked: impl FnMut(Place) -> bool) -> bool {
    for (n, cpu) in machine.cpus.iter().enumerate() {
        let id = machine::CpuId(n as u8);
        if any_dirty(machine, Unit::L1D(id), pa, &mut asked) {
            return true;
        }
        let mut entries = cpu.write.entries().filter(|(_, e)| e.covers(pa, 1));
        let buffered = entries.any(|(slot, e)| {
            asked(Place::WriteBuffer {
                cpu: id,
                slot,
                offset: pa - e.pa,
            })
        });
        if buffered || evicted(cpu, id, pa).is_some_and(&mut asked) {
            return true;
        }
    }
    machine.l2.is_some() && any_dirty(machine, Unit::L2, pa, &mut asked)
}

/// The same among a cache's dirty lines.
fn any_dirty(
    machine: &Machine,
    unit: Unit,
    pa: u32,
    asked: &mut impl FnMut(Place) -> bool,
) -> bool {
    let cache = machine.cache(unit);
    let offset = pa & (cache.line_bytes() - 1);
    let part = 1u8 << (offset / cache.part_bytes());
    let mut slots = cache.holders(pa).filter(|s| cache.dirty(*s) & part != 0);
    slots.any(|slot| asked(Place::Line { unit, slot, offset }))
}

/// The place in the eviction buffer, if it holds the byte.
fn evicted(cpu: &machine::Cpu, id: machine::CpuId, pa: u32) -> Option<Place> {
    let victim = cpu.write.victim.as_ref()?;
    let offset = pa.wrapping_sub(victim.pa);
    let part = cpu.dcache.part_bytes();
    let held = offset < cpu.dcache.line_bytes() && victim.dirty & 1 << (offset / part) != 0;
    held.then_some(Place::Evicted { cpu: id, offset })
}

/// A place in words, with the address a line was filled through where the cache keeps it.
pub fn describe(machine: &Machine, place: Place) -> String {
    let line = |unit: Unit, slot: u32| {
        let cache = machine.cache(unit);
        if cache.needs_pa() {
            String::new()
        } else {
            format!(" of {:#010x}", cache.tag_address(slot))
        }
    };
    match place {
        Place::Memory(pa) => format!("memory at {pa}"),
        Place::Line {
            unit: unit @ Unit::L1I(cpu),
            slot,
            ..
        } => {
            format!("{cpu}'s instruction-cache line{}", line(unit, slot))
        }
        Place::Line {
            unit: unit @ Unit::L1D(cpu),
            slot,
            ..
        } => {
            let dirty = if machine.cache(unit).dirty(slot) != 0 {
                "dirty "
            } else {
                ""
            };
            format!("{cpu}'s {dirty}data-cache line{}", line(unit, slot))
        }
        Place::Line {
            unit: Unit::L2,
            slot,
            ..
        } => {
            format!(
                "the second-level line at {:#010x}",
                machine.cache(Unit::L2).pa(slot)
            )
        }
        Place::WriteBuffer { cpu, .. } => format!("{cpu}'s write buffer"),
        Place::Evicted { cpu, .. } => format!("{cpu}'s eviction buffer"),
        Place::FetchBuffer { cpu, .. } => format!("{cpu}'s fetch buffer"),
    }
}
