//! What the oracle is shown: accesses, movements of bytes, devices, steps and marks.

use machine::tlb::TlbEntry;
use machine::{CpuId, Machine, Mark, Observer, PhysAddr, Place, Seen, Step, Unit, VirtAddr, Width};

use super::places::{describe, unwritten};
use super::shadow::Bits;
use super::{Kind, Oracle, Verdict, grants};

impl Observer for Oracle {
    #[inline]
    fn fetched(&mut self, machine: &Machine, seen: &Seen, word: u32) {
        self.loaded(machine, seen, word);
    }

    #[inline]
    fn loaded(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        let Some(pa) = self.name(machine, seen) else {
            return;
        };
        let (number, offset) = self.shadow.split(pa);
        let Some(page) = self.shadow.page(number) else {
            return;
        };
        let len = seen.width.bytes() as usize;
        if !page.is(offset, len, value) {
            self.differs(machine, seen, pa, value);
        }
    }

    fn stored(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        let named = self.name(machine, seen);
        if named != Some(seen.pa()) {
            // The line took what is not the truth of its bytes.
            self.trust.end(seen.pa());
        }
        if let Some(pa) = named {
            self.stored_at(pa, seen, value);
            self.check_line(machine, seen);
        }
    }

    #[inline(never)]
    fn stored_agreed(&mut self, cpu: CpuId, slot: u32, pa: PhysAddr, width: Width, value: u32) {
        let stamp = self.next_stamp();
        if self.names.is_table(pa) {
            let word = PhysAddr(pa.0 & !3);
            self.names.table_stored(word, self.shadow.word(word), value);
        }
        let (number, offset) = self.shadow.split(pa);
        let page = self.shadow.page_mut(number);
        match width {
            Width::Word => page.store_own_word(offset, value, stamp),
            _ => {
                let bytes = &value.to_le_bytes()[..width.bytes() as usize];
                page.store(offset, bytes, stamp, false);
            }
        }
        self.trust.stored_in(cpu, slot, pa);
        self.places.stored_in(cpu, slot, pa, width, stamp);
    }

    fn agrees(&mut self, _machine: &Machine, seen: &Seen) -> bool {
        let truth = self
            .names
            .resolve(&self.shadow, usize::from(seen.cpu.0), seen.va);
        truth.is_some_and(|e| PhysAddr(e.translate(seen.va.0)) == seen.pa() && grants(&e, seen))
    }

    #[inline]
    fn naming(&self) -> u32 {
        self.names.epoch()
    }

    #[inline]
    fn trusts(&self, unit: Unit, slot: u32, pa: PhysAddr) -> bool {
        self.trust.holds(unit, slot, pa)
    }

    #[inline(never)]
    fn examine(&mut self, machine: &Machine, unit: Unit, slot: u32, pa: PhysAddr) -> bool {
        let line = machine.cache(unit).line(slot);
        let (number, offset) = self.shadow.split(pa);
        let start = offset & !(line.len() - 1);
        let page = self.shadow.page(number);
        let true_now = page.is_none_or(|page| page.truth[start..start + line.len()] == *line);
        if true_now {
            self.trust.begin(unit, slot, pa);
        }
        true_now
    }

    fn moved(&mut self, machine: &Machine, from: Place, to: Place, pa: PhysAddr, len: u32) {
        if let Place::Line { unit, .. } = to {
            self.trust.filled(unit, pa);
        }
        if let Place::FetchBuffer { cpu, .. } = to {
            self.places.fetched[usize::from(cpu.0)] = self.clock as u32;
            return;
        }
        if matches!(
            to,
            Place::Line {
                unit: Unit::L1I(_),
                ..
            }
        ) {
            return;
        }
        let len = len as usize;
        let (number, offset) = self.shadow.split(pa);
        let mut stamps = [0u32; 64];
        let stamps = &mut stamps[..len];
        match from {
            Place::Memory(_) => {
                if let Some(page) = self.shadow.page(number) {
                    stamps.copy_from_slice(&page.memory[offset..offset + len]);
                }
            }
            place => {
                if let Some(held) = self.places.stamps(place, len) {
                    stamps.copy_from_slice(held);
                }
            }
        }
        if !matches!(to, Place::Memory(_)) {
            return self.overlaid(machine, (from, to), pa, stamps);
        }
        let Some(page) = self.shadow.page(number) else {
            return;
        };
        let newest = |n: &usize| page.memory[offset + n] == page.stamp[offset + n];
        let older = |n: &usize| stamps[*n] != page.stamp[offset + n];
        let suspects: Vec<usize> = if page.stamp[offset..offset + len] == *stamps {
            Vec::new()
        } else {
            (0..len).filter(|n| newest(n) && older(n)).collect()
        };
        self.shadow.page_mut(number).memory[offset..offset + len].copy_from_slice(stamps);
        if !suspects.is_empty() {
            let what = format!(
                "older bytes from {} overwrote it in memory",
                describe(machine, from)
            );
            self.check_lost(machine, pa, &suspects, &what);
        }
    }

    fn dropped(&mut self, machine: &Machine, place: Place, pa: PhysAddr, len: u32) {
        let Some(stamps) = self.places.stamps(place, len as usize) else {
            return;
        };
        let (number, offset) = self.shadow.split(pa);
        let Some(page) = self.shadow.page(number) else {
            return;
        };
        let last = |n: &usize| {
            let at = offset + n;
            stamps[*n] == page.stamp[at] && page.memory[at] != page.stamp[at]
        };
        let whole = offset..offset + len as usize;
        if page.memory[whole.clone()] == page.stamp[whole] {
            return;
        }
        let suspects: Vec<usize> = (0..len as usize).filter(last).collect();
        if !suspects.is_empty() {
            let what = "the copy that had it was dropped without a write-back";
            self.check_lost(machine, pa, &suspects, what);
        }
    }

    fn dma_in(&mut self, _machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        let stamp = self.next_stamp();
        for (n, byte) in bytes.iter().enumerate() {
            let (number, offset) = self.shadow.split(pa.add(n as u32));
            let page = self.shadow.page_mut(number);
            page.store(offset, &[*byte], stamp, true);
            page.memory[offset] = stamp;
            self.trust.end(pa.add(n as u32));
        }
    }

    fn dma_out(&mut self, machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            let at = pa.add(n as u32);
            let (number, offset) = self.shadow.split(at);
            let Some(page) = self.shadow.page(number) else {
                continue;
            };
            let handed = self
                .transfers
                .iter()
                .find_map(|t| t.handed.as_ref()?.get(at.0.wrapping_sub(t.pa.0) as usize));
            let fine = *byte == page.truth[offset] || handed == Some(byte);
            if fine || !page.valid.get(offset) {
                continue;
            }
            let stamp = page.stamp[offset];
            let holder = unwritten(machine, at.0).into_iter().next();
            let where_is = holder.map_or("nowhere".to_owned(), |p| describe(machine, p));
            let because = format!(
                "the true byte was stored by {}; it is in {where_is}, not in the memory that the device reads",
                self.owner(stamp)
            );
            let want = Some(u32::from(page.truth[offset]));
            let during = format!("{}, a device's read", self.during(CpuId(0)));
            self.verdicts.add(Kind::StaleRead, || Verdict {
                kind: Kind::StaleRead,
                cpu: CpuId(0),
                va: None,
                pa: Some(at),
                got: Some(u32::from(*byte)),
                want,
                place: Some(Place::Memory(at)),
                during,
                because,
            });
        }
    }

    fn stepped(&mut self, cpu: CpuId, step: &Step) {
        let n = usize::from(cpu.0);
        match *step {
            Step::SetTtb(ttb) => self.names.registers(n, Some(ttb), None),
            Step::SetDacr(dacr) => self.names.registers(n, None, Some(dacr)),
            _ => {}
        }
    }

    fn walked(&mut self, machine: &Machine, cpu: CpuId, va: VirtAddr, entry: &TlbEntry) {
        let _ = machine;
        let truth = self.true_entry(cpu, va);
        self.spurious += u64::from(truth.is_some_and(|t| t.ap > entry.ap));
    }

    fn flat_stored(&mut self, index: Option<usize>, raw: u32) {
        self.names.flat_stored(index, raw);
    }

    fn holds_newest(&self, machine: &Machine, cpu: CpuId, slot: u32) -> bool {
        let cache = &machine.cpu(cpu).dcache;
        let place = Place::Line {
            unit: Unit::L1D(cpu),
            slot,
            offset: 0,
        };
        let len = cache.line_bytes() as usize;
        let (number, offset) = self.shadow.split(PhysAddr(cache.pa(slot)));
        match (self.places.stamps(place, len), self.shadow.page(number)) {
            (Some(held), Some(page)) => {
                let newest = &page.stamp[offset..offset + len];
                let granule = machine.profile().dcache.dirty_bytes() as usize;
                let dirty = |n: &usize| cache.dirty(slot) >> n & 1 != 0;
                (0..len / granule)
                    .filter(dirty)
                    .map(|n| n * granule..(n + 1) * granule)
                    .all(|bytes| held[bytes.clone()] == newest[bytes])
            }
            _ => true,
        }
    }

    fn mark(&mut self, cpu: CpuId, mark: &Mark) {
        let view = &mut self.cpus[usize::from(cpu.0)];
        match mark {
            Mark::Begin(what) => view.operations.push(what),
            Mark::End => drop(view.operations.pop()),
            Mark::Running { pid } => view.pid = *pid,
            Mark::ForProgram(on) => view.for_program = *on,
            Mark::PmapBegin => self.names.operation(true),
            Mark::PmapEnd => self.names.operation(false),
            Mark::Sync { va, len } => self.sync(cpu, *va, *len),
            Mark::FrameAllocated(frame) | Mark::FrameFreed(frame) => {
                let (pa, len) = self.frame_range(*frame);
                self.kill(pa, len);
            }
            Mark::Dead { pa, len } => self.kill(*pa, *len),
            Mark::DmaOutBegin { pa, len } => self.hand_over(*pa, *len, true),
            Mark::DmaInBegin { pa, len } => self.hand_over(*pa, *len, false),
            Mark::DmaEnd { pa, .. } => self.transfers.retain(|t| t.pa != *pa),
            Mark::Zeroed { pa, len } => {
                let zeros = vec![0; *len as usize];
                self.demand(*pa, &zeros, &Bits::full(*len));
            }
            Mark::Copied { from, to, .. } => self.copied(*from, *to),
            Mark::Panic(why) => self.simple(cpu, Kind::Panic, why),
            Mark::Misuse(why) => self.simple(cpu, Kind::Misuse, why),
            Mark::BrokenRule(why) => self.simple(cpu, Kind::BrokenRule, why),
            Mark::Hang(why) => self.simple(cpu, Kind::Hang, why),
            Mark::Note(_) => {}
        }
        if matches!(mark, Mark::Begin(_) | Mark::End | Mark::Running { .. }) {
            self.new_owner(cpu);
        }
    }
}
