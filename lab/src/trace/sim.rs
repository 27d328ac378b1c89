//! The simulation: batches of references through any number of setups in one pass.
//!
//! Units that several setups have in common are simulated once; units that see the same accesses
//! form a chain ([`super::level`]). Second levels and main TLBs take what the units in front of
//! them ask for, in the order of the references.

use super::geometry::{L2Feed, Modify, Setup, Straddle, Unit};
use super::level::{Access, Event, Level, Missed, Need, READ, Stores, WRITE};
use super::record::{Kind, Ref};
use super::stream::{Parted, Records, Side, Stream, StreamKey};

/// Index of a unit in [`Simulation::units`].
type UnitId = usize;

/// Something that follows a run batch by batch, with what missed in the first setup.
pub trait Follow {
    /// A batch and its misses: units by the names of [`Misses`].
    fn batch(&mut self, batch: &[Ref], misses: &Misses);
}

/// Indices into a batch of the references that missed; more than one entry if several lines did.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    /// In the instruction cache.
    pub l1i: Vec<u32>,
    /// In the data cache.
    pub l1d: Vec<u32>,
    /// In the TLB of fetches.
    pub itlb: Vec<u32>,
    /// In the TLB of data.
    pub dtlb: Vec<u32>,
}

/// What one unit counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UnitCounts {
    /// Loads, fetches or translations.
    pub reads: u64,
    /// Stores, or lines and stores from the level before.
    pub writes: u64,
    /// What missed and left.
    pub missed: Missed,
    /// Dirty lines at the end.
    pub dirty_at_end: u64,
}

/// What one setup counted; `None` where it has no such unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Instruction cache.
    pub l1i: Option<UnitCounts>,
    /// Data cache.
    pub l1d: Option<UnitCounts>,
    /// Second level.
    pub l2: Option<UnitCounts>,
    /// TLB of fetches.
    pub itlb: Option<UnitCounts>,
    /// TLB of data.
    pub dtlb: Option<UnitCounts>,
    /// Main TLB.
    pub tlb: Option<UnitCounts>,
}

/// A first-level unit and the stream it takes its accesses from.
struct Front {
    unit: Unit,
    page: u32,
    chain: usize,
    level: Level,
}

/// Units that see the same stream, in order of their sets.
struct Chain {
    key: StreamKey,
    stream: Stream,
    units: Vec<UnitId>,
}

/// A second level or main TLB, behind one or two units.
struct Behind {
    fronts: [Option<UnitId>; 2],
    feed: L2Feed,
    level: Level,
    reads: u64,
    writes: u64,
}

#[derive(Clone, Copy, Default)]
struct Wiring {
    l1i: Option<UnitId>,
    l1d: Option<UnitId>,
    itlb: Option<UnitId>,
    dtlb: Option<UnitId>,
    l2: Option<usize>,
    tlb: Option<usize>,
}

/// Rules that hold for every setup of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// References over several lines.
    pub straddle: Straddle,
    /// Load-and-store records.
    pub modify: Modify,
}

/// A run.
pub struct Simulation {
    rules: Rules,
    parted: Parted,
    chains: Vec<Chain>,
    fronts: Vec<Front>,
    behinds: Vec<Behind>,
    wirings: Vec<Wiring>,
    /// References and operations taken.
    taken: u64,
    misses: Misses,
}

impl Simulation {
    /// A run of these setups. With `watched`, the misses of the first one are kept for a
    /// [`Follow`]er.
    pub fn new(setups: &[Setup], rules: Rules, watched: bool) -> Self {
        let mut run = Self {
            rules,
            parted: Parted::default(),
            chains: Vec::new(),
            fronts: Vec::new(),
            behinds: Vec::new(),
            wirings: Vec::new(),
            taken: 0,
            misses: Misses::default(),
        };
        for setup in setups {
            run.wire(setup);
        }
        run.order_chains();
        if let (true, Some(first)) = (watched, run.wirings.first().copied()) {
            for unit in [first.l1i, first.l1d, first.itlb, first.dtlb] {
                run.listen(unit);
            }
        }
        run
    }

    fn wire(&mut self, setup: &Setup) {
        let traffic = setup.l2.is_some();
        let wiring = Wiring {
            l1i: self.front(setup.l1i, setup.page, Side::Fetch, false),
            l1d: self.front(setup.l1d, setup.page, Side::Data, traffic),
            itlb: self.front(setup.itlb, setup.page, Side::Fetch, false),
            dtlb: self.front(setup.dtlb, setup.page, Side::Data, false),
            ..Wiring::default()
        };
        let caches = [wiring.l1i, wiring.l1d];
        let tlbs = [wiring.itlb, wiring.dtlb];
        let wiring = Wiring {
            l2: self.behind(setup.l2, setup.page, caches, setup.l2_feed),
            tlb: self.behind(setup.tlb, setup.page, tlbs, L2Feed::Misses),
            ..wiring
        };
        self.wirings.push(wiring);
    }

    /// The first-level unit that fits, made if there is none yet.
    fn front(
        &mut self,
        unit: Option<Unit>,
        page: u32,
        side: Side,
        traffic: bool,
    ) -> Option<UnitId> {
        let unit = unit?;
        let key = stream_key(&unit, page, side, traffic);
        let found = self.chains.iter().position(|c| c.key == key);
        let chain = found.unwrap_or_else(|| {
            let stream = Stream::new(key, self.rules.straddle);
            let units = Vec::new();
            self.chains.push(Chain { key, stream, units });
            self.chains.len() - 1
        });
        let same = |f: &Front| f.chain == chain && f.unit == unit && f.page == page;
        if let Some(id) = self.fronts.iter().position(same) {
            return Some(id);
        }
        let level = Level::new(&unit, page, key.stores, self.rules.straddle);
        self.fronts.push(Front {
            unit,
            page,
            chain,
            level,
        });
        self.chains[chain].units.push(self.fronts.len() - 1);
        Some(self.fronts.len() - 1)
    }

    fn behind(
        &mut self,
        unit: Option<Unit>,
        page: u32,
        fronts: [Option<UnitId>; 2],
        feed: L2Feed,
    ) -> Option<usize> {
        let unit = unit?;
        fronts.into_iter().for_each(|id| self.listen(id));
        let stores = Stores {
            back: unit.write_back,
            allocate: unit.write_allocate,
            each: false,
        };
        // What arrives here are whole lines.
        let unit = Unit {
            dirty_bytes: 0,
            ..unit
        };
        self.behinds.push(Behind {
            fronts,
            feed,
            level: Level::new(&unit, page, stores, Straddle::Split),
            reads: 0,
            writes: 0,
        });
        Some(self.behinds.len() - 1)
    }

    fn listen(&mut self, unit: Option<UnitId>) {
        if let Some(id) = unit {
            self.fronts[id].level.events.get_or_insert_default();
        }
    }

    fn order_chains(&mut self) {
        for chain in &mut self.chains {
            let fronts = &self.fronts;
            let order = |id: &UnitId| {
                let unit = &fronts[*id];
                let geometry = unit.unit.geometry(unit.page);
                (geometry.set_mask, geometry.ways)
            };
            chain.units.sort_by_key(order);
        }
    }

    /// Takes references in order.
    pub fn push(&mut self, batch: &[Ref]) {
        self.push_and_tell(batch, &mut []);
    }

    /// Takes references in order, and tells followers of each piece that has no operation in it.
    pub fn push_and_tell(&mut self, batch: &[Ref], followers: &mut [&mut dyn Follow]) {
        let mut rest = batch;
        while !rest.is_empty() {
            let operation = find_operation(rest);
            let (piece, after) = rest.split_at(operation.unwrap_or(rest.len()));
            self.references(piece);
            self.tell(piece, followers);
            rest = after;
            if let Some((operation, after)) = after.split_first() {
                self.operate(operation);
                rest = after;
            }
        }
        self.taken += batch.len() as u64;
    }

    fn references(&mut self, piece: &[Ref]) {
        self.parted.part(piece, self.rules.modify);
        for chain in &mut self.chains {
            chain.stream.run(&self.parted);
            for id in &chain.units {
                let level = &mut self.fronts[*id].level;
                clear(level);
                level.run(&mut chain.stream.accesses);
            }
        }
        self.pass_on();
    }

    fn pass_on(&mut self) {
        for behind in &mut self.behinds {
            let events = |id: Option<UnitId>| {
                let front = id.and_then(|id| self.fronts[id].level.events.as_deref());
                front.unwrap_or_default()
            };
            let [first, second] = behind.fronts.map(events);
            behind.take(first, second);
        }
    }

    fn tell(&mut self, piece: &[Ref], followers: &mut [&mut dyn Follow]) {
        if followers.is_empty() || piece.is_empty() {
            return;
        }
        let first = self.wirings[0];
        let missed = |id: Option<UnitId>, out: &mut Vec<u32>| {
            let events = id.and_then(|id| self.fronts[id].level.events.as_deref());
            out.clear();
            let missed = events
                .unwrap_or_default()
                .iter()
                .filter(|e| e.need.is_miss());
            out.extend(missed.map(|e| e.at));
            if self.rules.straddle == Straddle::Cachegrind {
                out.dedup();
            }
        };
        missed(first.l1i, &mut self.misses.l1i);
        missed(first.l1d, &mut self.misses.l1d);
        missed(first.itlb, &mut self.misses.itlb);
        missed(first.dtlb, &mut self.misses.dtlb);
        for follower in followers {
            follower.batch(piece, &self.misses);
        }
    }

    /// A cache operation: on data caches and second levels; an invalidation on instruction caches
    /// too, as in Dinero. TLBs know nothing of it.
    fn operate(&mut self, operation: &Ref) {
        let last = operation.va + u64::from(operation.size).saturating_sub(1);
        let lines = (operation.size != 0).then_some(operation.va..=last);
        let clean = operation.kind == Kind::Clean;
        for front in &mut self.fronts {
            clear(&mut front.level);
            let key = &self.chains[front.chain].key;
            if key.translations || (clean && key.side == Side::Fetch) {
                continue;
            }
            if clean {
                front.level.clean(lines.clone());
            } else {
                front.level.invalidate(lines.clone());
            }
        }
        self.pass_on();
        for chain in &mut self.chains {
            chain.stream.forget();
        }
        for wiring in &self.wirings {
            let Some(l2) = wiring.l2.map(|n| &mut self.behinds[n].level) else {
                continue;
            };
            if clean {
                l2.clean(lines.clone());
            } else {
                l2.invalidate(lines.clone());
            }
        }
    }

    /// References and operations taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// References by kind.
    pub fn records(&self) -> Records {
        self.parted.records
    }

    /// The counts so far, a setup each, in the order given.
    pub fn counts(&self) -> Vec<Counts> {
        let one = |wiring: &Wiring| Counts {
            l1i: wiring.l1i.map(|id| self.front_counts(id)),
            l1d: wiring.l1d.map(|id| self.front_counts(id)),
            itlb: wiring.itlb.map(|id| self.front_counts(id)),
            dtlb: wiring.dtlb.map(|id| self.front_counts(id)),
            l2: wiring.l2.map(|n| self.behinds[n].counts()),
            tlb: wiring.tlb.map(|n| self.behinds[n].counts()),
        };
        self.wirings.iter().map(one).collect()
    }

    fn front_counts(&self, id: UnitId) -> UnitCounts {
        let front = &self.fronts[id];
        let stream = &self.chains[front.chain].stream;
        UnitCounts {
            reads: stream.reads,
            writes: stream.writes,
            missed: front.level.missed,
            dirty_at_end: front.level.dirty_lines(),
        }
    }
}

/// Index of the first operation. There is hardly ever one, so all are asked at once first.
fn find_operation(batch: &[Ref]) -> Option<usize> {
    let kinds = batch.iter().fold(0, |all, r| all | r.kind as u8);
    if kinds & Kind::Clean as u8 == 0 {
        return None;
    }
    batch.iter().position(|r| r.kind.is_operation())
}

fn clear(level: &mut Level) {
    if let Some(events) = &mut level.events {
        events.clear();
    }
}

fn stream_key(unit: &Unit, page: u32, side: Side, traffic: bool) -> StreamKey {
    let translations = unit.shape.line == 0;
    let shift = unit.geometry(page).line_shift;
    let parts = side == Side::Data && unit.write_back && unit.dirty_bytes != 0;
    let part_shift = if parts {
        unit.dirty_bytes.trailing_zeros().min(shift)
    } else {
        shift
    };
    // Where no store arrives its rules make no difference: let such units share a stream.
    let stores = if translations || side == Side::Fetch {
        Stores {
            back: true,
            allocate: true,
            each: false,
        }
    } else {
        Stores {
            back: unit.write_back,
            allocate: unit.write_allocate,
            each: part_shift < shift || (traffic && !unit.write_back),
        }
    };
    StreamKey {
        side,
        shift,
        part_shift,
        stores,
        translations,
    }
}

impl Need {
    fn is_miss(self) -> bool {
        matches!(self, Need::ReadMiss | Need::WriteMiss | Need::WriteAround)
    }
}

impl Behind {
    /// Takes the events of both fronts, merged by their references.
    fn take<'a>(&mut self, mut first: &'a [Event], mut second: &'a [Event]) {
        loop {
            let (from, other) = match (first.first(), second.first()) {
                (Some(a), Some(b)) if b.at < a.at => (&mut second, &first),
                (None, Some(_)) => (&mut second, &first),
                (Some(_), _) => (&mut first, &second),
                (None, None) => return,
            };
            let until = other.first().map_or(u32::MAX, |e| e.at);
            while let Some((event, rest)) = from.split_first() {
                if event.at > until {
                    break;
                }
                self.event(event);
                *from = rest;
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let write = matches!(
            event.need,
            Need::WriteBack | Need::Through | Need::WriteAround
        );
        self.writes += u64::from(write);
        self.reads += u64::from(!write);
        if write && self.feed == L2Feed::Misses {
            return;
        }
        let line = event.line | if write { WRITE } else { READ };
        let at = event.at;
        let (bytes, parts) = (0, u8::from(write));
        self.level.take_within(Access {
            line,
            at,
            bytes,
            parts,
        });
    }

    fn counts(&self) -> UnitCounts {
        UnitCounts {
            reads: self.reads,
            writes: self.writes,
            missed: self.level.missed,
            dirty_at_end: self.level.dirty_lines(),
        }
    }
}
