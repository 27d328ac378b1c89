//! Lost writes: whether a byte's last store is still in a place from which it reaches memory.
//!
//! By stamp, not by value (it must be in no memory, dirty line, write or eviction buffer). Asked when
//! bytes leave a place, when older ones come over them, and when a store goes to a line that belongs to
//! another frame.

use machine::{CpuId, Machine, PhysAddr, Place, Seen};

use super::places::{any_unwritten, describe};
use super::{Kind, Oracle, Verdict};

/// What became of bytes of the frame that a line was filled from.
const ELSEWHERE: &str = "a store by another translation hit the line that had it";

impl Oracle {
    /// Bytes are about to be gone from one place, or overwritten in memory by older ones: is each one's
    /// last store somewhere else?
    pub(super) fn check_lost(
        &mut self,
        machine: &Machine,
        pa: PhysAddr,
        suspects: &[usize],
        what: &str,
    ) {
        for n in suspects {
            let at = pa.add(*n as u32);
            let (number, offset) = self.shadow.split(at);
            let Some(page) = self.shadow.page(number) else {
                return;
            };
            let stamp = page.stamp[offset];
            let has = |p: Place| self.places.stamps(p, 1).is_some_and(|s| s[0] == stamp);
            let safe = !page.valid.get(offset)
                || page.is_lost(offset)
                || page.memory[offset] == stamp
                || any_unwritten(machine, at.0, has);
            if !safe {
                let because = format!("stored by {}; {what}", self.owner(stamp));
                let during = self.during(CpuId(0));
                let want = Some(u32::from(page.truth[offset]));
                self.verdicts.add(Kind::LostWrite, || Verdict {
                    kind: Kind::LostWrite,
                    cpu: CpuId(0),
                    va: None,
                    pa: Some(at),
                    got: None,
                    want,
                    place: None,
                    during,
                    because,
                });
                // Told once; who accesses the byte is judged as ever.
                self.shadow.page_mut(number).lose(offset);
            }
        }
    }

    /// A virtually tagged line may have been filled from another frame, by an older translation. A store that
    /// hits it goes there, and never to the frame that it names, unless it is also written through; and what
    /// the line held of its own frame is gone.
    #[inline]
    pub(super) fn check_line(&mut self, machine: &Machine, seen: &Seen) {
        let Place::Line { unit, slot, offset } = seen.place else {
            return;
        };
        let line = PhysAddr(machine.cache(unit).pa(slot).wrapping_add(offset));
        if line != seen.pa() {
            self.stored_elsewhere(machine, seen, line);
        }
    }

    #[cold]
    fn stored_elsewhere(&mut self, machine: &Machine, seen: &Seen, line: PhysAddr) {
        let bytes: Vec<usize> = (0..seen.width.bytes() as usize).collect();
        let through = seen.entry.cacheable && !seen.entry.bufferable;
        if !through {
            let what = "the line that took it was filled from another frame and will be written back there";
            self.check_lost(machine, seen.pa(), &bytes, what);
        }
        self.check_lost(machine, line, &bytes, ELSEWHERE);
    }

    /// Bytes came to a line or buffer: what it held may have been the last store, and these be older.
    pub(super) fn overlaid(
        &mut self,
        machine: &Machine,
        (from, to): (Place, Place),
        pa: PhysAddr,
        stamps: &[u32],
    ) {
        let (number, offset) = self.shadow.split(pa);
        let Some(held) = self.places.stamps_mut(to, stamps.len()) else {
            return;
        };
        let suspects: Vec<usize> = match self.shadow.page(number) {
            Some(page) if *held != *stamps => (0..stamps.len())
                .filter(|n| held[*n] == page.stamp[offset + n] && held[*n] != stamps[*n])
                .collect(),
            _ => Vec::new(),
        };
        held.copy_from_slice(stamps);
        if let Place::Line { unit, slot, offset } = to {
            // An uncached store also updates a line that was filled from another frame.
            let line = PhysAddr(machine.cache(unit).pa(slot).wrapping_add(offset));
            if line != pa {
                let bytes: Vec<usize> = (0..stamps.len()).collect();
                self.check_lost(machine, line, &bytes, ELSEWHERE);
            }
        }
        if !suspects.is_empty() {
            let (from, to) = (describe(machine, from), describe(machine, to));
            let what = format!("older bytes from {from} overwrote it in {to}");
            self.check_lost(machine, pa, &suspects, &what);
        }
    }
}
