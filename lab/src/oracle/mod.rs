//! The oracle: knows for every byte what was last stored, by whom and who must see it, and judges each
//! access against that.
//!
//! Verified, at every access of every CPU, by bytes:
//! - a load returns the last store in program order through whatever alias (`stale-read`);
//! - an executed word is the last store that a fetch must see, or a later one (`stale-exec`); kernel
//!   stores must be seen, a program's own only after it asked for a sync that names the page;
//! - the TLB copy used names the frame that the true descriptors of the live space name, and gives no right
//!   that the access used and they do not (`stale-translation`);
//! - a byte's last store is in memory, a dirty line, a buffer or a victim (`lost-write`), by stamp; told once,
//!   and whoever then reads or executes the byte is judged as ever;
//! - after `pmap_zero_page` and `pmap_copy_page` a page's bytes are zero, or the other page's: if the kernel
//!   did not store them, whoever reads them gets something else;
//! - a device reads what was due when it was handed the buffer, or later.
//!
//! Not verified:
//! - bytes that nobody stored since their frame was given out, and frames that are free;
//! - a program's byte stored twice or more with different values and no sync between, or for the first time
//!   since its frame was given out: until a sync any value passes;
//! - bytes of a buffer that a device is writing, until the transfer is complete;
//! - stores of other CPUs are due at once, as on a machine whose data caches are coherent;
//! - timing, and rights that a TLB copy has but nobody uses.

mod lost;
mod names;
mod places;
mod shadow;
mod snapshot;
mod trust;
mod verdict;
mod watch;

pub use places::describe;
pub use snapshot::WordTruth;
pub use verdict::{Kind, Verdict, Verdicts};

use machine::tlb::TlbEntry;
use machine::{Access, CpuId, Frame, Machine, PhysAddr, Place, Seen, VirtAddr};
use names::Names;
use places::{Places, unwritten};
use shadow::{Bits, Shadow};
use trust::Trust;

/// Operations named in reports; older ones are forgotten.
const OWNERS_MAX: usize = 1 << 18;

/// What one CPU is doing, by the marks.
#[derive(Clone, Debug, Default)]
struct CpuView {
    pid: u32,
    operations: Vec<&'static str>,
    for_program: bool,
}

/// A transfer between handover and completion.
#[derive(Clone, Debug)]
struct Transfer {
    pa: PhysAddr,
    len: u32,
    /// What a device must read, or `None` if it writes.
    handed: Option<Vec<u8>>,
}

/// From this stamp on, stores were made by this operation.
#[derive(Clone, Debug)]
struct Owner {
    from: u64,
    what: String,
}

/// Watches a machine and judges it.
#[derive(Clone, Debug)]
pub struct Oracle {
    shadow: Shadow,
    places: Places,
    trust: Trust,
    names: Names,
    cpus: Vec<CpuView>,
    transfers: Vec<Transfer>,
    owners: Vec<Owner>,
    clock: u64,
    /// What a report calls the present step.
    context: String,
    /// Findings so far.
    pub verdicts: Verdicts,
    /// TLB copies that gave fewer rights than the table: repaired by a fault.
    pub spurious: u64,
    page: u32,
}

impl Oracle {
    /// An oracle for a machine whose tables (if it has any in memory) were just set up there.
    pub fn new(machine: &Machine, tables: (PhysAddr, u32)) -> Self {
        let mut shadow = Shadow::new(machine.page_bytes());
        for at in (0..tables.1).step_by(4) {
            let pa = tables.0.add(at);
            let word = machine.memory.word(pa);
            if word != 0 {
                let (number, offset) = shadow.split(pa);
                shadow
                    .page_mut(number)
                    .store(offset, &word.to_le_bytes(), 0, true);
            }
        }
        Self {
            shadow,
            places: Places::new(machine),
            trust: Trust::new(machine),
            names: Names::new(machine, tables),
            cpus: vec![CpuView::default(); machine.cpus.len()],
            transfers: Vec::new(),
            owners: vec![Owner {
                from: 0,
                what: "boot".to_owned(),
            }],
            clock: 0,
            context: String::new(),
            verdicts: Verdicts::default(),
            spurious: 0,
            page: machine.page_bytes(),
        }
    }

    /// The true word at a physical address.
    pub fn true_word(&self, pa: PhysAddr) -> u32 {
        self.shadow.word(pa)
    }

    /// The true translation of an address on a CPU.
    pub fn true_entry(&mut self, cpu: CpuId, va: VirtAddr) -> Option<TlbEntry> {
        self.names.resolve(&self.shadow, usize::from(cpu.0), va)
    }

    /// A hash of what can still change a judgement.
    pub fn fingerprint(&self) -> u64 {
        self.shadow.fingerprint()
    }

    /// Names what comes next in reports: a step of a case, an act of a scenario.
    pub fn set_context(&mut self, context: &str) {
        context.clone_into(&mut self.context);
        self.new_owner(CpuId(0));
    }

    /// What the CPU is doing, in words.
    fn during(&self, cpu: CpuId) -> String {
        let view = &self.cpus[usize::from(cpu.0)];
        let who = match (view.pid, self.context.is_empty()) {
            (0, true) => "the kernel".to_owned(),
            (0, false) => self.context.clone(),
            (pid, true) => format!("process {pid}"),
            (pid, false) => format!("{}, process {pid}", self.context),
        };
        if view.pid == 0 && view.operations.is_empty() {
            return who;
        }
        match (view.operations.first(), view.operations.last()) {
            (None, _) | (_, None) => format!("{who}, user mode"),
            (Some(first), Some(last)) if first == last => format!("{who}, {first}"),
            (Some(first), Some(last)) => format!("{who}, {first}, in {last}"),
        }
    }

    fn new_owner(&mut self, cpu: CpuId) {
        let what = self.during(cpu);
        if self.owners.last().is_some_and(|o| o.what == what) {
            return;
        }
        if self.owners.len() >= OWNERS_MAX {
            self.owners.drain(1..OWNERS_MAX / 2);
        }
        self.owners.push(Owner {
            from: self.clock + 1,
            what,
        });
    }

    /// Who made the store with this stamp.
    fn owner(&self, stamp: u32) -> &str {
        let high = self.clock & !0xffff_ffff;
        let mut full = high | u64::from(stamp);
        if full > self.clock {
            full = full.saturating_sub(1 << 32);
        }
        let n = self.owners.partition_point(|o| o.from <= full);
        self.owners
            .get(n.saturating_sub(1))
            .map_or("boot", |o| &o.what)
    }

    #[inline]
    fn next_stamp(&mut self) -> u32 {
        self.clock += 1;
        self.clock as u32
    }

    /// Compares the translation used with the true one; returns the true physical address, or `None`
    /// if the byte cannot be named.
    #[inline]
    fn name(&mut self, machine: &Machine, seen: &Seen) -> Option<PhysAddr> {
        let cpu = usize::from(seen.cpu.0);
        let truth = self.names.resolve(&self.shadow, cpu, seen.va);
        if let Some(entry) = truth
            && entry.translate(seen.va.0) == seen.entry.translate(seen.va.0)
            && grants(&entry, seen)
        {
            return Some(seen.pa());
        }
        self.misnamed(machine, seen, truth)
    }

    #[cold]
    fn misnamed(
        &mut self,
        machine: &Machine,
        seen: &Seen,
        truth: Option<TlbEntry>,
    ) -> Option<PhysAddr> {
        let cpu = usize::from(seen.cpu.0);
        let old = self.names.resolve_old(&self.shadow, cpu, seen.va);
        let same = |e: &TlbEntry| e.translate(seen.va.0) == seen.pa().0 && grants(e, seen);
        if old.as_ref().is_some_and(same) {
            return Some(seen.pa());
        }
        let named = truth.map(|e| PhysAddr(e.translate(seen.va.0)));
        let during = self.during(seen.cpu);
        self.verdicts.add(Kind::StaleTranslation, || {
            let because = match truth {
                None => "the table maps nothing there: the entry was removed, its TLB copy was not",
                Some(e) if e.base != seen.entry.base => {
                    "the table names another frame: the TLB copy was not invalidated when it changed"
                }
                Some(_) => "the table no longer gives the right used: its TLB copy still does",
            };
            let _ = machine;
            Verdict {
                kind: Kind::StaleTranslation,
                cpu: seen.cpu,
                va: Some(seen.va),
                pa: named,
                got: Some(seen.entry.base),
                want: truth.map(|e| e.base),
                place: None,
                during,
                because: because.to_owned(),
            }
        });
        named
    }

    /// A store of the truth at `pa`.
    #[inline]
    fn stored_at(&mut self, pa: PhysAddr, seen: &Seen, value: u32) {
        let stamp = self.next_stamp();
        let len = seen.width.bytes() as usize;
        if self.names.is_table(pa) {
            let word = PhysAddr(pa.0 & !3);
            self.names.table_stored(word, self.shadow.word(word), value);
        }
        let due = !(seen.user || self.cpus[usize::from(seen.cpu.0)].for_program);
        let (number, offset) = self.shadow.split(pa);
        let page = self.shadow.page_mut(number);
        page.store(offset, &value.to_le_bytes()[..len], stamp, due);
        self.trust.stored(pa, seen.place);
        match seen.place {
            Place::Memory(at) if at == pa => page.memory[offset..offset + len].fill(stamp),
            Place::Memory(_) => {}
            place => {
                if let Some(stamps) = self.places.stamps_mut(place, len) {
                    match stamps {
                        [a, b, c, d] => (*a, *b, *c, *d) = (stamp, stamp, stamp, stamp),
                        _ => stamps.fill(stamp),
                    }
                }
            }
        }
    }

    /// A value differs from the truth: finds out which byte, and whether it may.
    #[cold]
    fn differs(&mut self, machine: &Machine, seen: &Seen, pa: PhysAddr, got: u32) {
        let len = seen.width.bytes() as usize;
        let (number, offset) = self.shadow.split(pa);
        let Some(page) = self.shadow.page(number) else {
            return;
        };
        let fetch = seen.access == Access::Fetch;
        let mut permitted = false;
        let mut stale = None;
        for n in 0..len {
            let byte = (got >> (n * 8)) as u8;
            let at = offset + n;
            if byte == page.truth[at] || !page.valid.get(at) || self.in_transfer(pa.add(n as u32)) {
                continue;
            }
            let late = fetch && self.fetched_before(seen.place, page.stamp[at]);
            if fetch && (page.permits(at, byte) || late) {
                permitted = true;
            } else {
                stale = stale.or(Some(n));
            }
        }
        let Some(first) = stale else {
            if permitted {
                self.verdicts
                    .add(Kind::Permitted, || unreachable!("only counted"));
            }
            return;
        };
        let kind = if fetch {
            Kind::StaleExec
        } else {
            Kind::StaleRead
        };
        let want = u32::from_le_bytes(std::array::from_fn(|n| {
            if n < len { page.truth[offset + n] } else { 0 }
        }));
        let stamp = page.stamp[offset + first];
        let byte = pa.add(first as u32);
        let because = self.explain(machine, seen, byte, stamp);
        let during = self.during(seen.cpu);
        self.verdicts.add(kind, || Verdict {
            kind,
            cpu: seen.cpu,
            va: Some(seen.va),
            pa: Some(pa),
            got: Some(got),
            want: Some(want),
            place: Some(seen.place),
            during,
            because,
        });
    }

    /// Whether the fetch buffer was filled before that store: it may hold older bytes until it is
    /// emptied.
    fn fetched_before(&self, place: Place, stamp: u32) -> bool {
        match place {
            Place::FetchBuffer { cpu, .. } => {
                let filled = self.places.fetched[usize::from(cpu.0)];
                stamp.wrapping_sub(filled) as i32 > 0
            }
            _ => false,
        }
    }

    fn in_transfer(&self, pa: PhysAddr) -> bool {
        let inside = |t: &Transfer| t.handed.is_none() && pa.0.wrapping_sub(t.pa.0) < t.len;
        self.transfers.iter().any(inside)
    }

    /// The second place: who stored the truth, where it is now, which copy hid it and what was missing.
    fn explain(&self, machine: &Machine, seen: &Seen, pa: PhysAddr, stamp: u32) -> String {
        let writer = self.owner(stamp);
        let held = unwritten(machine, pa.0);
        let holder = held
            .into_iter()
            .find(|p| self.places.stamps(*p, 1).is_some_and(|s| s[0] == stamp));
        let (number, offset) = self.shadow.split(pa);
        let in_memory = self
            .shadow
            .page(number)
            .is_some_and(|p| p.memory[offset] == stamp);
        let hid = describe(machine, seen.place);
        let missing = match holder {
            Some(place) => format!(
                "it is still in {}: that was not written back before the access read {hid}",
                describe(machine, place)
            ),
            None if in_memory => {
                format!("memory has it: {hid} was filled before and not invalidated since")
            }
            None => format!("it is nowhere any more; the access read {hid}"),
        };
        format!("the true bytes were stored by {writer}; {missing}")
    }

    fn simple(&mut self, cpu: CpuId, kind: Kind, because: &str) {
        let during = self.during(cpu);
        self.verdicts.add(kind, || Verdict {
            kind,
            cpu,
            va: None,
            pa: None,
            got: None,
            want: None,
            place: None,
            during,
            because: because.to_owned(),
        });
    }

    fn frame_range(&self, frame: Frame) -> (PhysAddr, u32) {
        (PhysAddr(frame.0 * self.page), self.page)
    }

    fn kill(&mut self, pa: PhysAddr, len: u32) {
        let mut parts = Vec::new();
        self.shadow.parts(pa, len, |number, offset, len| {
            parts.push((number, offset, len))
        });
        for (number, offset, len) in parts {
            if self.shadow.page(number).is_some() {
                self.shadow.page_mut(number).kill(offset, len);
            }
        }
    }

    fn sync(&mut self, cpu: CpuId, va: VirtAddr, len: u32) {
        let end = va.0.saturating_add(len);
        let mut at = va.0;
        while at < end {
            let stop = end.min((at | (self.page - 1)).saturating_add(1));
            if let Some(entry) = self.true_entry(cpu, VirtAddr(at)) {
                let (number, offset) = self.shadow.split(PhysAddr(entry.translate(at)));
                if self.shadow.page(number).is_some_and(|p| p.undue.is_some()) {
                    self.shadow
                        .page_mut(number)
                        .settle(offset, (stop - at) as usize);
                }
            }
            if stop == u32::MAX {
                break;
            }
            at = stop;
        }
    }

    /// `to` is a copy of `from` now, whatever the kernel stored.
    fn copied(&mut self, from: PhysAddr, to: PhysAddr) {
        let ((source, _), (target, _)) = (self.shadow.split(from), self.shadow.split(to));
        let Some(source) = self.shadow.shared(source) else {
            return;
        };
        if !self.in_transfer(from) {
            self.demand(to, &source.truth, &source.valid);
        }
        if source.undue.is_some() || self.shadow.page(target).is_some_and(|p| p.undue.is_some()) {
            self.shadow.page_mut(target).undue = source.undue.clone();
        }
    }

    /// What a page's bytes must be from now on.
    fn demand(&mut self, pa: PhysAddr, want: &[u8], matter: &Bits) {
        let stamp = self.next_stamp();
        let (number, _) = self.shadow.split(pa);
        let trust = &mut self.trust;
        let changed = |offset| trust.end(pa.add(offset as u32));
        self.shadow
            .page_mut(number)
            .demand(want, matter, stamp, changed);
    }

    fn hand_over(&mut self, pa: PhysAddr, len: u32, out: bool) {
        let handed = out.then(|| {
            let mut bytes = Vec::new();
            self.shadow.parts(pa, len, |number, offset, len| {
                match self.shadow.page(number) {
                    Some(page) => bytes.extend_from_slice(&page.truth[offset..offset + len]),
                    None => bytes.resize(bytes.len() + len, 0),
                }
            });
            bytes
        });
        self.transfers.push(Transfer { pa, len, handed });
    }
}

/// Whether an entry gives the right that the access used.
#[inline]
fn grants(entry: &TlbEntry, seen: &Seen) -> bool {
    match (seen.user, seen.access == Access::Store) {
        (true, true) => entry.user_writable(),
        (true, false) => entry.user_readable(),
        (false, true) => entry.kernel_writable(),
        (false, false) => true,
    }
}
