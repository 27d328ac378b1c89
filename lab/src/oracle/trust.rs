//! Lines that are known to hold the truth, so that loads and fetches from them need no look.
//!
//! A line is trusted after all its bytes were compared with the truth. From then on the truth of its
//! bytes changes only by a store or a device, and the line's bytes only by a store or a fill; each of
//! them ends the trust, but for a store into a trusted data line itself, which changes both alike.
//! Forgetting a trusted line costs a comparison; so each side keeps a small table, and lines that fall
//! on one place of it displace each other.

use machine::{CpuId, Machine, PhysAddr, Place, Unit};

const PLACES_MAX: u32 = 1024;
const NONE: u64 = u64::MAX;

/// Trusted lines of both sides.
#[derive(Clone, Debug)]
pub struct Trust {
    fetch: Side,
    data: Side,
}

#[derive(Clone, Debug)]
struct Side {
    line_shift: u32,
    lines: Vec<u64>,
}

impl Side {
    fn new(line: u32, slots: u32) -> Self {
        let places = slots.next_power_of_two().min(PLACES_MAX);
        Self {
            line_shift: line.trailing_zeros(),
            lines: vec![NONE; places as usize],
        }
    }

    /// Its place in the table, and its name there: the physical line, the CPU and the slot.
    #[inline]
    fn key(&self, cpu: u8, slot: u32, pa: PhysAddr) -> (usize, u64) {
        let line = pa.0 >> self.line_shift;
        let name = u64::from(line) << 32 | u64::from(cpu) << 24 | u64::from(slot);
        (line as usize & (self.lines.len() - 1), name)
    }

    /// Ends the trust in every copy of the bytes at `pa` but the one named.
    #[inline]
    fn end(&mut self, pa: PhysAddr, but: u64) {
        let line = pa.0 >> self.line_shift;
        let place = line as usize & (self.lines.len() - 1);
        let kept = &mut self.lines[place];
        if (*kept >> 32) as u32 == line && *kept != but {
            *kept = NONE;
        }
    }
}

impl Trust {
    /// No line is trusted.
    pub fn new(machine: &Machine) -> Self {
        let (cpu, cpus) = (&machine.cpus[0], machine.cpus.len() as u32);
        Self {
            fetch: Side::new(cpu.icache.line_bytes(), cpu.icache.slots() * cpus),
            data: Side::new(cpu.dcache.line_bytes(), cpu.dcache.slots() * cpus),
        }
    }

    /// Whether a first-level line with bytes of `pa` is trusted.
    #[inline]
    pub fn holds(&self, unit: Unit, slot: u32, pa: PhysAddr) -> bool {
        let (side, cpu) = match unit {
            Unit::L1I(cpu) => (&self.fetch, cpu),
            Unit::L1D(cpu) => (&self.data, cpu),
            Unit::L2 => return false,
        };
        let (place, name) = side.key(cpu.0, slot, pa);
        side.lines[place] == name
    }

    /// Trusts a first-level line from now on.
    pub fn begin(&mut self, unit: Unit, slot: u32, pa: PhysAddr) {
        let (side, cpu) = match unit {
            Unit::L1I(cpu) => (&mut self.fetch, cpu),
            Unit::L1D(cpu) => (&mut self.data, cpu),
            Unit::L2 => return,
        };
        let (place, name) = side.key(cpu.0, slot, pa);
        side.lines[place] = name;
    }

    /// A store of the truth at `pa` went to `to`.
    #[inline]
    pub fn stored(&mut self, pa: PhysAddr, to: Place) {
        match to {
            Place::Line {
                unit: Unit::L1D(cpu),
                slot,
                ..
            } => self.stored_in(cpu, slot, pa),
            _ => self.end(pa),
        }
    }

    /// The same into a line of a CPU's data cache.
    #[inline]
    pub fn stored_in(&mut self, cpu: CpuId, slot: u32, pa: PhysAddr) {
        let but = self.data.key(cpu.0, slot, pa).1;
        self.fetch.end(pa, NONE);
        self.data.end(pa, but);
    }

    /// Bytes of `pa` came into a line of this cache from elsewhere.
    pub fn filled(&mut self, unit: Unit, pa: PhysAddr) {
        match unit {
            Unit::L1I(_) => self.fetch.end(pa, NONE),
            Unit::L1D(_) => self.data.end(pa, NONE),
            Unit::L2 => {}
        }
    }

    /// Ends the trust in every copy of the bytes at `pa`.
    pub fn end(&mut self, pa: PhysAddr) {
        self.fetch.end(pa, NONE);
        self.data.end(pa, NONE);
    }
}
