//! `machine_ops`: random micro-steps of a random small machine, judged twice.
//!
//! The machine has four pages for two frames, so each frame has two addresses; rights, cacheability and
//! frames of the pages change under way. After each action the oracle's verdicts must be the flat model's
//! ([`super::flat`]): stale loads, stale fetches, lost bytes, device reads. An input may ask for correct
//! maintenance around every access: then all values must be the last ones stored, and the oracle silent.
//!
//! A sequence ends at the first access through a stale TLB copy: from there on the two name bytes differently.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use machine::profile::{CacheProfile, DrainsOn, Looks, Lookup, Replacement, UncachedHit};
use machine::tlb::TlbEntry;
use machine::{
    Ap, CpuId, Frame, LineOp, Machine, Mark, Observer, PhysAddr, Place, Profile, Pte, Seen, Step,
    VirtAddr, Width,
};

use super::flat::{Flat, Opinion};
use crate::oracle::{Kind, Oracle};

const CPU: CpuId = CpuId(0);
const PAGE: u32 = 16;
const PAGES: u8 = 4;
const FRAMES: u32 = 2;
const ACTIONS_MAX: usize = 40;

/// One thing done to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A load, by the program or the kernel.
    Load(u8, Width, bool),
    /// A store.
    Store(u8, Width, bool),
    /// A fetch of a word.
    Fetch(u8),
    /// A micro-step.
    Step(Step),
    /// A page gets a frame and C and B bits; whether its TLB copies go.
    Map(u8, Frame, u8, bool),
    /// A device writes eight bytes.
    DmaIn(u8),
    /// A device reads eight bytes.
    DmaOut(u8),
    /// The program asks that a page be executable.
    Sync(u8),
    /// A frame is given to somebody else.
    Recycle(u8),
}

/// The oracle, and what it was shown.
struct Watch {
    oracle: Oracle,
    seen: Option<(Seen, u32)>,
    device: Vec<u8>,
    now: u32,
    filled: u32,
}

impl Observer for Watch {
    fn fetched(&mut self, machine: &Machine, seen: &Seen, word: u32) {
        self.seen = Some((*seen, word));
        self.oracle.fetched(machine, seen, word);
    }
    fn loaded(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        self.seen = Some((*seen, value));
        self.oracle.loaded(machine, seen, value);
    }
    fn stored(&mut self, machine: &Machine, seen: &Seen, value: u32) {
        self.seen = Some((*seen, value));
        self.oracle.stored(machine, seen, value);
    }
    fn moved(&mut self, machine: &Machine, from: Place, to: Place, pa: PhysAddr, len: u32) {
        if matches!(to, Place::FetchBuffer { .. }) {
            self.filled = self.now;
        }
        self.oracle.moved(machine, from, to, pa, len);
    }
    fn dropped(&mut self, machine: &Machine, place: Place, pa: PhysAddr, len: u32) {
        self.oracle.dropped(machine, place, pa, len);
    }
    fn dma_in(&mut self, machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        self.oracle.dma_in(machine, pa, bytes);
    }
    fn dma_out(&mut self, machine: &Machine, pa: PhysAddr, bytes: &[u8]) {
        self.device = bytes.to_vec();
        self.oracle.dma_out(machine, pa, bytes);
    }
    fn walked(&mut self, machine: &Machine, cpu: CpuId, va: VirtAddr, entry: &TlbEntry) {
        self.oracle.walked(machine, cpu, va, entry);
    }
    fn flat_stored(&mut self, index: Option<usize>, raw: u32) {
        self.oracle.flat_stored(index, raw);
    }
    fn stepped(&mut self, cpu: CpuId, step: &Step) {
        self.oracle.stepped(cpu, step);
    }
    fn mark(&mut self, cpu: CpuId, mark: &Mark) {
        self.oracle.mark(cpu, mark);
    }
}

/// What an input asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine.
    pub profile: Profile,
    /// Whether every access is surrounded by correct maintenance.
    pub careful: bool,
    /// What is done.
    pub actions: Vec<Action>,
}

/// The plan that bytes stand for.
///
/// # Errors
/// The bytes are too few.
pub fn plan(data: &[u8]) -> Result<Plan> {
    let mut u = Unstructured::new(data);
    let careful = u.arbitrary::<u8>()? % 4 == 0;
    let profile = profile(&mut u)?;
    let mut actions = Vec::new();
    while !u.is_empty() && actions.len() < ACTIONS_MAX {
        actions.push(action(&mut u)?);
    }
    Ok(Plan {
        profile,
        careful,
        actions,
    })
}

/// A variant of the tiny machine.
fn profile(u: &mut Unstructured<'_>) -> Result<Profile> {
    use Replacement::{Fifo, Lru, Random, RoundRobin, RoundRobinGlobal};
    let mut p = (*Profile::embedded("tiny-vivt").expect("it is embedded")).clone();
    let lookup = *u.choose(&[Lookup::Vivt, Lookup::Vivt, Lookup::Vipt, Lookup::Pipt])?;
    let replacement = *u.choose(&[Lru, Fifo, Random, RoundRobin, RoundRobinGlobal])?;
    for cache in [&mut p.icache, &mut p.dcache] {
        (cache.lookup, cache.replacement) = (lookup, replacement);
        cache.uncached_hit = *u.choose(&[
            UncachedHit::HitServes,
            UncachedHit::Bypass,
            UncachedHit::BypassButWriteUpdates,
            UncachedHit::BypassStale,
        ])?;
    }
    p.dcache.write_allocate = u.arbitrary()?;
    p.dcache.dirty_bytes = *u.choose(&[4, 8])?;
    p.write_buffer.entries = u.int_in_range(0..=2)?;
    p.write_buffer.bytes = *u.choose(&[4, 8])?;
    p.write_buffer.eviction = u.arbitrary()?;
    let bits = u.arbitrary::<u8>()?;
    let all = [
        DrainsOn::Uncached,
        DrainsOn::Exception,
        DrainsOn::Walk,
        DrainsOn::Fill,
    ];
    let chosen = all
        .into_iter()
        .enumerate()
        .filter(|(n, _)| bits >> n & 1 == 1);
    p.write_buffer.drains_on = chosen.map(|(_, d)| d).collect();
    p.fetch_buffer.words = u.int_in_range(1..=2)?;
    if u.arbitrary()? {
        p.l2 = Some(second_level(u, &p.dcache)?);
        p.uncached_bypasses_l2 = u.arbitrary()?;
        p.dma_bypasses_l2 = u.arbitrary()?;
    }
    p.fetch_looks = *u.choose(&[Looks::Memory, Looks::L2, Looks::OwnD])?;
    Ok(p)
}

fn second_level(u: &mut Unstructured<'_>, first: &CacheProfile) -> Result<CacheProfile> {
    Ok(CacheProfile {
        size: 32,
        ways: 2,
        lookup: Lookup::Pipt,
        write_back: u.arbitrary()?,
        write_allocate: u.arbitrary()?,
        dirty_bytes: 0,
        ..first.clone()
    })
}

fn action(u: &mut Unstructured<'_>) -> Result<Action> {
    let at = u.arbitrary::<u8>()? % (PAGES * PAGE as u8);
    let va = VirtAddr(u32::from(at));
    let slot = u32::from(at) % 4;
    let width =
        |u: &mut Unstructured<'_>| u.choose(&[Width::Word, Width::Half, Width::Byte]).copied();
    let op = |u: &mut Unstructured<'_>| {
        use LineOp::{Clean, CleanInvalidate, Invalidate};
        u.choose(&[Clean, CleanInvalidate, Invalidate]).copied()
    };
    Ok(match u.arbitrary::<u8>()? % 28 {
        0..=3 => Action::Load(at, width(u)?, u.arbitrary()?),
        4..=8 => Action::Store(at, width(u)?, u.arbitrary()?),
        9..=11 => Action::Fetch(at),
        12 => Action::Step(Step::Dcache(op(u)?, va)),
        13 => Action::Step(Step::DcacheTest(op(u)?)),
        14 => Action::Step(Step::Icache(va)),
        15 => Action::Step(Step::IcacheAll),
        16 => Action::Step(Step::Drain),
        17 => Action::Step(Step::L2Physical(
            op(u)?,
            PhysAddr(u32::from(at) % (FRAMES * PAGE)),
        )),
        18 => Action::Step(Step::EvictData(slot)),
        19 => Action::Step(Step::EvictL2(slot)),
        20 => Action::Step(Step::EvictInstruction(slot)),
        21 => Action::Step(*u.choose(&[Step::TlbAll, Step::Tlb(va), Step::TlbData(va)])?),
        22 => Action::Step(*u.choose(&[
            Step::PrefetchData(va),
            Step::PrefetchInstruction(va),
            Step::FlushFetch,
            Step::Exception,
        ])?),
        23..=24 => {
            let frame = Frame(u32::from(u.arbitrary::<u8>()?) % FRAMES);
            Action::Map(
                at / PAGE as u8,
                frame,
                u.int_in_range(0..=3)?,
                u.arbitrary()?,
            )
        }
        25 => *u.choose(&[Action::DmaIn(at), Action::DmaOut(at)])?,
        26 => Action::Sync(at),
        _ => Action::Recycle(at),
    })
}

/// A run of a plan.
struct Bench {
    machine: Machine,
    watch: Watch,
    flat: Flat,
    /// Lost by the present action, by the flat model.
    lost: Vec<u32>,
    table: [Frame; PAGES as usize],
    serial: u8,
    careful: bool,
}

/// The body.
pub fn body(data: &[u8]) {
    if let Ok(plan) = plan(data)
        && let Some(wrong) = run(&plan)
    {
        panic!("{wrong}\n{:#?}\n{:?}", plan.actions, plan.profile);
    }
}

/// Runs a plan; what the two judges disagree on, in words.
pub fn run(plan: &Plan) -> Option<String> {
    let mut bench = Bench::new(plan);
    for (n, action) in plan.actions.iter().enumerate() {
        match bench.act(action) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(wrong) => return Some(format!("action {n}, {action:?}: {wrong}")),
        }
    }
    None
}

impl Bench {
    fn new(plan: &Plan) -> Self {
        let machine = Machine::new(Arc::new(plan.profile.clone()));
        let oracle = Oracle::new(&machine, (PhysAddr(0), 0));
        let watch = Watch {
            oracle,
            seen: None,
            device: Vec::new(),
            now: 0,
            filled: 0,
        };
        let mut bench = Self {
            flat: Flat::new(FRAMES * PAGE),
            lost: Vec::new(),
            table: [Frame(0), Frame(1), Frame(0), Frame(1)],
            serial: 0,
            careful: plan.careful,
            machine,
            watch,
        };
        bench.step(Step::SetTtb(1));
        for page in 0..PAGES {
            bench.map(page, bench.table[usize::from(page)], 3);
        }
        bench
    }

    fn step(&mut self, step: Step) {
        self.machine.apply(CPU, &step, &mut self.watch);
    }

    fn map(&mut self, page: u8, frame: Frame, bits: u8) {
        self.table[usize::from(page)] = frame;
        let pte = Pte(Pte::new(frame, Ap::User).with_cache(false).0 | u32::from(bits) << 2);
        let page = u32::from(page);
        self.step(Step::FlatPte {
            space: 1,
            page,
            raw: pte.0,
        });
    }

    /// Does an action and compares the judges; `false` ends the sequence.
    fn act(&mut self, action: &Action) -> std::result::Result<bool, String> {
        self.watch.now += 1;
        if self.careful {
            self.everything();
        }
        let before = self.counts();
        let kept = self.watch.oracle.verdicts.first.len();
        if kept > 40 {
            return Ok(false);
        }
        self.watch.seen = None;
        let opinion = self.perform(action);
        if let Some((seen, _)) = self.watch.seen
            && seen.pa().0 != self.truth(seen.va.0)
        {
            let told = self.counts()[3] > before[3];
            return if told {
                Ok(false)
            } else {
                Err("a stale TLB copy was used".to_owned())
            };
        }
        self.compare(action, opinion, before, kept)?;
        if self.careful {
            self.everything();
            return self.silent().map(|()| true);
        }
        Ok(true)
    }

    fn counts(&self) -> [u64; 4] {
        let kinds = [
            Kind::StaleRead,
            Kind::StaleExec,
            Kind::LostWrite,
            Kind::StaleTranslation,
        ];
        kinds.map(|k| self.watch.oracle.verdicts.of(k))
    }

    fn silent(&self) -> std::result::Result<(), String> {
        let verdicts = &self.watch.oracle.verdicts;
        if verdicts.clean() {
            return Ok(());
        }
        Err(format!("correct maintenance, and yet {:?}", verdicts.first))
    }

    fn compare(
        &mut self,
        action: &Action,
        opinion: Opinion,
        before: [u64; 4],
        kept: usize,
    ) -> std::result::Result<(), String> {
        if self.careful && opinion != Opinion::Fine {
            return Err(format!("correct maintenance, and yet {opinion:?}"));
        }
        let after = self.counts();
        let fetch = matches!(action, Action::Fetch(_));
        let stale = after[usize::from(fetch)] > before[usize::from(fetch)];
        let agree = match opinion {
            Opinion::Stale => stale,
            Opinion::Fine | Opinion::Permitted => !stale,
            Opinion::Unsure => true,
        };
        if !agree {
            let seen = self.watch.seen;
            return Err(format!(
                "the model says {opinion:?}, the oracle {}; seen: {seen:x?}",
                if stale { "stale" } else { "nothing" }
            ));
        }
        let mut told: Vec<u32> = self.watch.oracle.verdicts.first[kept..]
            .iter()
            .filter(|v| v.kind == Kind::LostWrite)
            .filter_map(|v| Some(v.pa?.0))
            .collect();
        told.sort_unstable();
        self.settle();
        let lost = std::mem::take(&mut self.lost);
        // A store may lose what was there a moment before it comes: the oracle sees that moment.
        let over = |pa: u32| match *action {
            Action::Store(at, width, _) => {
                pa.wrapping_sub(self.truth(aligned(at, width).0)) < width.bytes()
            }
            _ => false,
        };
        told.retain(|pa| lost.contains(pa) || !over(*pa));
        if told != lost {
            return Err(format!("the model lost {lost:x?}, the oracle {told:x?}"));
        }
        Ok(())
    }

    /// Writes everything back, drops everything.
    fn everything(&mut self) {
        self.step(Step::Drain);
        for slot in 0..self.machine.cpus[0].dcache.slots() {
            self.step(Step::DcacheSlot(LineOp::CleanInvalidate, slot));
        }
        self.step(Step::Drain);
        let lines = self.machine.l2.as_ref().map_or(0, |l2| l2.slots());
        for slot in 0..lines {
            self.step(Step::EvictL2(slot));
        }
        for step in [Step::IcacheAll, Step::FlushFetch, Step::TlbAll] {
            self.step(step);
        }
    }

    /// Notes the bytes that are lost. A line that comes in may displace another first: what that loses does
    /// not matter any more when the access is judged.
    fn settle(&mut self) {
        self.lost.extend(self.flat.lost(&self.machine));
        self.lost.sort_unstable();
    }

    /// The address that the table gives.
    fn truth(&self, va: u32) -> u32 {
        let frame = self.table[(va / PAGE) as usize % usize::from(PAGES)];
        frame.0 * PAGE + va % PAGE
    }

    fn value(&mut self) -> u32 {
        self.serial = self.serial % 255 + 1;
        u32::from(self.serial) * 0x0101_0101
    }

    /// Carries an action out; what the model thinks of it.
    fn perform(&mut self, action: &Action) -> Opinion {
        let (machine, watch) = (&mut self.machine, &mut self.watch);
        match *action {
            Action::Load(at, width, user) => {
                let va = aligned(at, width);
                let Ok(word) = machine.load(CPU, va, width, user, watch) else {
                    return Opinion::Fine;
                };
                let got = word.to_le_bytes();
                self.settle();
                self.flat
                    .load(self.truth(va.0), &got[..width.bytes() as usize])
            }
            Action::Fetch(at) => {
                let va = aligned(at, Width::Word);
                let Ok(word) = machine.fetch(CPU, va, Width::Word, true, watch) else {
                    return Opinion::Fine;
                };
                let buffered =
                    |(seen, _): (Seen, u32)| matches!(seen.place, Place::FetchBuffer { .. });
                let filled = watch.seen.filter(|s| buffered(*s)).map(|_| watch.filled);
                self.settle();
                self.flat
                    .fetch(self.truth(va.0), &word.to_le_bytes(), filled)
            }
            Action::Store(at, width, user) => {
                let va = aligned(at, width);
                let value = self.value();
                let done = self
                    .machine
                    .store(CPU, va, width, value, user, &mut self.watch);
                if done.is_ok() {
                    let bytes = &value.to_le_bytes()[..width.bytes() as usize];
                    self.flat
                        .store(self.truth(va.0), bytes, !user, self.watch.now);
                }
                Opinion::Fine
            }
            _ => self.perform_beside(action),
        }
    }

    fn perform_beside(&mut self, action: &Action) -> Opinion {
        match *action {
            Action::Step(step) => self.step(self.tamed(step)),
            Action::Map(page, frame, bits, flush) => {
                self.map(page, frame, bits);
                if flush || self.careful {
                    self.step(Step::Tlb(VirtAddr(u32::from(page) * PAGE)));
                }
            }
            Action::DmaIn(at) => {
                let pa = (u32::from(at) % (FRAMES * PAGE)) & !7;
                let word = self.value();
                let mut bytes = [0; 32];
                bytes[..8].fill(word as u8);
                let len = 8;
                self.step(Step::DmaIn {
                    pa: PhysAddr(pa),
                    bytes,
                    len,
                });
                self.flat.store(pa, &bytes[..8], true, self.watch.now);
            }
            Action::DmaOut(at) => {
                let pa = (u32::from(at) % (FRAMES * PAGE)) & !7;
                let len = 8;
                self.step(Step::DmaOut {
                    pa: PhysAddr(pa),
                    len,
                });
                return self.flat.load(pa, &self.watch.device);
            }
            Action::Sync(at) => {
                let page = u32::from(at) / PAGE * PAGE;
                let (va, len) = (VirtAddr(page), PAGE);
                self.watch.mark(CPU, &Mark::Sync { va, len });
                self.flat.sync(self.truth(page), PAGE);
            }
            Action::Recycle(at) => {
                let frame = Frame(u32::from(at) % FRAMES);
                self.watch.mark(CPU, &Mark::FrameFreed(frame));
                self.flat.kill(frame.0 * PAGE, PAGE);
            }
            _ => unreachable!("an access"),
        }
        Opinion::Fine
    }

    /// Correct maintenance drops nothing that was not written back.
    fn tamed(&self, step: Step) -> Step {
        let clean = LineOp::CleanInvalidate;
        match step {
            Step::Dcache(LineOp::Invalidate, va) if self.careful => Step::Dcache(clean, va),
            Step::DcacheTest(LineOp::Invalidate) if self.careful => Step::DcacheTest(clean),
            Step::L2Physical(LineOp::Invalidate, pa) if self.careful => Step::L2Physical(clean, pa),
            other => other,
        }
    }
}

fn aligned(at: u8, width: Width) -> VirtAddr {
    VirtAddr(u32::from(at) & !(width.bytes() - 1))
}
