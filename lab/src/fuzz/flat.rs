//! The flat model: memory as a row of bytes, each with what was last stored and what a fetch may still see.
//!
//! It judges again, by values alone, what the oracle judges by stamps. It knows no caches: whoever asks tells
//! it what an access returned, and shows it the machine to look for a byte's last store. Values must be told
//! apart, so each store of a sequence has its own.

use machine::cache::Cache;
use machine::{Machine, PhysAddr};

/// What the model thinks of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opinion {
    /// It is the truth, or nobody cares.
    Fine,
    /// It is not, and may be.
    Permitted,
    /// It may not.
    Stale,
    /// The oracle does not promise to know: a program stored more than one value since its last sync.
    Unsure,
}

#[derive(Clone, Debug, Default)]
struct Byte {
    truth: u8,
    matters: bool,
    /// What a fetch must see, or anything in `pending`.
    due: u8,
    pending: Vec<u8>,
    stored: u32,
    /// Whether its last store was found lost.
    lost: bool,
    /// Whether nothing mattered before the first of `pending`: then anything may be seen.
    first: bool,
}

impl Byte {
    /// A fetch must see the truth from now on.
    fn settle(&mut self) {
        self.pending.clear();
        self.first = false;
    }
}

/// Memory as it ought to be.
#[derive(Clone, Debug)]
pub struct Flat {
    bytes: Vec<Byte>,
}

impl Flat {
    /// So many bytes, none stored yet.
    pub fn new(bytes: u32) -> Self {
        Self {
            bytes: vec![Byte::default(); bytes as usize],
        }
    }

    /// A store, at a moment; `due` if fetches must see it at once.
    pub fn store(&mut self, pa: u32, bytes: &[u8], due: bool, now: u32) {
        for (n, value) in bytes.iter().enumerate() {
            let byte = &mut self.bytes[pa as usize + n];
            if due {
                byte.settle();
                byte.due = *value;
            } else {
                if byte.pending.is_empty() {
                    byte.due = byte.truth;
                    byte.first = !byte.matters;
                }
                byte.pending.push(*value);
            }
            (byte.truth, byte.matters, byte.stored) = (*value, true, now);
            byte.lost = false;
        }
    }

    /// Whether a load, or a device, may have seen these bytes.
    pub fn load(&self, pa: u32, got: &[u8]) -> Opinion {
        let wrong = |(n, got): (usize, &u8)| {
            let byte = &self.bytes[pa as usize + n];
            byte.matters && byte.truth != *got
        };
        if got.iter().enumerate().any(wrong) {
            Opinion::Stale
        } else {
            Opinion::Fine
        }
    }

    /// Whether a fetch may have seen these bytes; `filled` is when the fetch buffer that they came from was.
    pub fn fetch(&self, pa: u32, got: &[u8], filled: Option<u32>) -> Opinion {
        let mut worst = Opinion::Fine;
        for (n, got) in got.iter().enumerate() {
            let byte = &self.bytes[pa as usize + n];
            if !byte.matters || byte.truth == *got {
                continue;
            }
            let late = filled.is_some_and(|at| at < byte.stored);
            let several = byte.pending.windows(2).any(|p| p[0] != p[1]);
            let known = !byte.pending.is_empty() && (byte.due == *got);
            match () {
                () if late || known => worst = worst_of(worst, Opinion::Permitted),
                () if several || byte.first => worst = worst_of(worst, Opinion::Unsure),
                () => return Opinion::Stale,
            }
        }
        worst
    }

    /// The program asked for a sync.
    pub fn sync(&mut self, pa: u32, len: u32) {
        let bytes = &mut self.bytes[pa as usize..(pa + len) as usize];
        bytes.iter_mut().for_each(Byte::settle);
    }

    /// These bytes do not matter any more.
    pub fn kill(&mut self, pa: u32, len: u32) {
        for byte in &mut self.bytes[pa as usize..(pa + len) as usize] {
            byte.matters = false;
            byte.lost = false;
            byte.settle();
        }
    }

    /// The bytes whose last value is in no memory, dirty line or buffer; each is told once.
    pub fn lost(&mut self, machine: &Machine) -> Vec<u32> {
        let gone = |pa: &u32| {
            let byte = &self.bytes[*pa as usize];
            byte.matters && !byte.lost && !held(machine, *pa, byte.truth)
        };
        let lost: Vec<u32> = (0..self.bytes.len() as u32).filter(gone).collect();
        lost.iter()
            .for_each(|pa| self.bytes[*pa as usize].lost = true);
        lost
    }
}

fn worst_of(a: Opinion, b: Opinion) -> Opinion {
    let rank = |o: Opinion| match o {
        Opinion::Fine => 0,
        Opinion::Permitted => 1,
        Opinion::Unsure => 2,
        Opinion::Stale => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// Whether some place from which a byte still reaches memory, or memory itself, has this value.
fn held(machine: &Machine, pa: u32, value: u8) -> bool {
    let mut byte = [0];
    machine.memory.read(PhysAddr(pa), &mut byte);
    if byte[0] == value {
        return true;
    }
    let caches = machine.cpus.iter().map(|c| &c.dcache).chain(&machine.l2);
    let buffers = machine.cpus.iter().map(|c| &c.write);
    caches.into_iter().any(|c| dirty(c, pa, value))
        || buffers.into_iter().any(|w| {
            let entry = w.entries().any(|(_, e)| {
                let n = pa.wrapping_sub(e.pa);
                n < 32 && e.mask >> n & 1 == 1 && e.data[n as usize] == value
            });
            let part = machine.cpus[0].dcache.part_bytes();
            let victim = w.victim.is_some_and(|v| {
                let n = pa.wrapping_sub(v.pa);
                n < 64 && v.dirty >> (n / part).min(7) & 1 == 1 && v.data[n as usize] == value
            });
            entry || victim
        })
}

fn dirty(cache: &Cache, pa: u32, value: u8) -> bool {
    cache.valid_slots().any(|slot| {
        let n = pa.wrapping_sub(cache.pa(slot));
        n < cache.line_bytes()
            && cache.dirty(slot) >> (n / cache.part_bytes()) & 1 == 1
            && cache.line(slot)[n as usize] == value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_execute_what_was_due_until_it_asks_for_a_sync() {
        let mut flat = Flat::new(8);
        flat.store(0, &[1], true, 1);
        flat.store(0, &[2], false, 2);
        assert_eq!(flat.load(0, &[1]), Opinion::Stale);
        assert_eq!(flat.fetch(0, &[1], None), Opinion::Permitted);
        assert_eq!(flat.fetch(0, &[9], None), Opinion::Stale);
        flat.sync(0, 1);
        assert_eq!(flat.fetch(0, &[1], None), Opinion::Stale);
        assert_eq!(flat.fetch(0, &[2], None), Opinion::Fine);
        // What the fetch buffer took before the store may still be executed.
        assert_eq!(flat.fetch(0, &[1], Some(1)), Opinion::Permitted);
        assert_eq!(flat.fetch(0, &[1], Some(3)), Opinion::Stale);
    }
}
