//! Runs a case under a policy and keeps what each step did.

use std::collections::BTreeMap;

use machine::{CpuId, Frame, Hw as _, Mark, PhysAddr, Profile, Unit};
use pmap::{PmapCtx, PmapVerbs, Policy, SpaceId};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{Action, Case, Content};
use crate::guests;
use crate::inject::Injection;
use crate::journal::{Detail, Entry};
use crate::op::{CPU0, Op, Outcome, evict_all};
use crate::oracle::{Oracle, Verdict, Verdicts};
use crate::process::{Players, ProcessOp, program};
use crate::system;
use crate::world::{State, World};

/// What one step of a case did.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// Number, from 1.
    pub step: usize,
    /// The operation as written.
    pub op: String,
    /// What it gave back.
    pub outcome: Outcome,
    /// Page and whole-cache operations and TLB operations, in the order done: name, space, address.
    pub maintenance: Vec<(&'static str, String, u32)>,
    /// `pv_kva` of the page concerned.
    pub pv_kva: Option<u32>,
    /// The page's mappings, in pv order, as JSON.
    pub mappings: Vec<Value>,
    /// Findings of this step.
    pub verdicts: Vec<Verdict>,
    /// Lines that hold the page's bytes, and TLB copies that name it, in words.
    pub copies: Vec<String>,
    /// Everything recorded, for the story.
    pub journal: Vec<Entry>,
}

impl StepRecord {
    /// The step as `replay --json` prints it.
    pub fn json(&self) -> Value {
        let maintenance: Vec<Value> = self
            .maintenance
            .iter()
            .map(|(name, space, va)| json!([name, space, va]))
            .collect();
        let verdicts: Vec<&str> = self.verdicts.iter().map(|v| v.kind.name()).collect();
        let mut value = json!({
            "step": self.step,
            "op": self.op,
            "maintenance": maintenance,
            "pv_kva": self.pv_kva,
            "mappings": self.mappings,
            "verdicts": verdicts,
        });
        match self.outcome {
            Outcome::Done => {}
            Outcome::Value(word) => value["value"] = json!(word),
            Outcome::Fault => value["fault"] = json!(true),
            Outcome::Skipped(why) => value["skipped"] = json!(why),
        }
        value
    }
}

/// A case's result under one policy on one machine.
#[derive(Clone, Debug)]
pub struct Row {
    /// Policy.
    pub policy: &'static str,
    /// Machine.
    pub machine: String,
    /// Steps, the final eviction among them.
    pub steps: Vec<StepRecord>,
    /// All findings.
    pub verdicts: Verdicts,
    /// Cycles by class.
    pub cycles: BTreeMap<&'static str, u64>,
    /// Fingerprints of the state after each step, if they were asked for.
    pub prints: Vec<u64>,
}

impl Row {
    /// How many mappings of the last page are uncached at the end.
    pub fn uncached(&self) -> u32 {
        let mappings = self.steps.last().map_or(&[][..], |s| &s.mappings);
        let uncached = |m: &&Value| m["pte"]["cached"] == json!(false);
        mappings.iter().filter(uncached).count() as u32
    }
}

/// Runs a case under one policy.
pub fn run_one(case: &Case, profile: Arc<Profile>, policy: Policy) -> Row {
    run_under(case, profile, policy, false)
}

/// The same; `watch` asks for fingerprints.
pub fn run_under(case: &Case, profile: Arc<Profile>, policy: Policy, watch: bool) -> Row {
    let mut state = if case.has_processes() {
        system::boot(profile.clone(), |_| {})
    } else {
        State::boot(profile.clone())
    };
    for (n, file) in case.files.iter().enumerate() {
        let bytes = match &file.content {
            Content::Program(words) => program(*words, n as u32),
            Content::Data(bytes) => (0..*bytes).map(|b| (b / 4 + n as u32) as u8).collect(),
            Content::Guest(name) => guests::by_name(name).map_or(Vec::new(), |g| g.bytes.to_vec()),
        };
        // A file that does not fit is missed by the operations that name it.
        let _ = state.vfs.fs_add_file(&file.path, &bytes);
    }
    let oracle = system::oracle(&state);
    let (name, machine) = (policy.name, profile.name.clone());
    let mut world = World::new(state, policy, oracle);
    world.journal.detail = Detail::Plans;
    let mut runner = Runner {
        case,
        world: &mut world,
        steps: Vec::new(),
        page: None,
        players: Players::default(),
        prints: watch.then(Vec::new),
    };
    runner.prepare();
    for line in &case.lines {
        match &line.action {
            Action::Bare(op) => runner.step(&line.text, op),
            Action::During(n, op) => runner.arm(&line.text, *n, *op),
            Action::Process(op) => runner.process(&line.text, op),
        }
    }
    runner.finish();
    let (steps, prints) = (runner.steps, runner.prints.unwrap_or_default());
    let cost = world.state.machine.cost;
    let cycles = machine::Class::ALL
        .iter()
        .map(|c| (c.name(), cost.of(*c)))
        .collect();
    Row {
        policy: name,
        machine,
        steps,
        verdicts: world.observer.verdicts,
        cycles,
        prints,
    }
}

/// Runs a case under every policy it names, or all.
pub fn run(case: &Case, profile: &Arc<Profile>) -> Vec<Row> {
    let wanted = |p: &Policy| case.policies.is_empty() || case.policies.iter().any(|n| n == p.name);
    pmap::policy::all()
        .filter(wanted)
        .map(|p| run_one(case, profile.clone(), p))
        .collect()
}

struct Runner<'a> {
    case: &'a Case,
    world: &'a mut World<Oracle>,
    steps: Vec<StepRecord>,
    /// The page that the last operation was about.
    page: Option<Frame>,
    players: Players,
    /// Fingerprints, if they are wanted.
    prints: Option<Vec<u64>>,
}

impl Runner<'_> {
    /// Makes the spaces that the case names and switches to the first.
    fn prepare(&mut self) {
        if self.case.has_processes() {
            return;
        }
        let spaces = self.case.lines.iter().filter_map(|l| match &l.action {
            Action::Bare(op) => op.space(),
            Action::During(..) | Action::Process(_) => None,
        });
        let highest = spaces.map(|s| s.0).max().unwrap_or(1).max(1);
        for _ in 0..highest {
            self.world.pmap_create(CPU0);
        }
        self.world.cpu_switch(CPU0, Some(SpaceId(1)));
        self.world.journal.take();
    }

    fn step(&mut self, text: &str, op: &Op) {
        self.page = op.page(self.world).or(self.page);
        self.record(text, |world| op.run(world));
        let injection = self.world.injection.take();
        if injection.is_some_and(|i| !i.ran)
            && let Some(step) = self.steps.last_mut()
        {
            step.op.push_str("  (it ended before the hardware's step)");
        }
    }

    /// The hardware does something in the middle of the next operation.
    fn arm(&mut self, text: &str, n: u32, op: Op) {
        self.record(text, |world| {
            let run = move |world: &mut World<Oracle>| {
                op.run(world);
            };
            world.injection = Some(Injection::at(u64::from(n), run));
            Outcome::Done
        });
    }

    fn process(&mut self, text: &str, op: &ProcessOp) {
        self.page = self.players.page(self.world, op).or(self.page);
        let mut players = std::mem::take(&mut self.players);
        self.record(text, |world| players.play(world, op));
        self.page = players.page(self.world, op).or(self.page);
        self.players = players;
    }

    /// Every case ends by draining and evicting in the worst order.
    fn finish(&mut self) {
        self.record("end: drain and evict everything", |world| {
            evict_all(world);
            Outcome::Done
        });
    }

    fn record(&mut self, text: &str, action: impl FnOnce(&mut World<Oracle>) -> Outcome) {
        let known = self.world.observer.verdicts.first.len();
        let context = format!("step {}, {text}", self.steps.len() + 1);
        let _span = tracing::info_span!("step", number = self.steps.len() + 1, text).entered();
        self.world.observer.set_context(&context);
        let outcome = action(self.world);
        if let Some(prints) = &mut self.prints {
            prints.push(self.world.state.fingerprint());
        }
        if let Some(broken) = self.world.state.check() {
            self.world.mark(CPU0, Mark::BrokenRule(broken));
        }
        let journal: Vec<Entry> = self
            .world
            .journal
            .take()
            .into_iter()
            .map(|(_, entry)| entry)
            .collect();
        let verdicts = self.world.observer.verdicts.first[known..].to_vec();
        let pmap = self.world.pmap();
        let kva = self.page.map(|p| pmap.page(p).kva.0).filter(|va| *va != 0);
        let mappings = self
            .page
            .map_or(Vec::new(), |p| pmap.mappings(p).map(mapping).collect());
        self.steps.push(StepRecord {
            step: self.steps.len() + 1,
            op: text.to_owned(),
            outcome,
            maintenance: maintenance(&journal),
            pv_kva: kva,
            mappings,
            verdicts,
            copies: self.page.map_or(Vec::new(), |p| copies(self.world, p)),
            journal,
        });
    }
}

/// Cache lines that hold bytes of a frame, by cache and page, and TLB copies that name it.
fn copies(world: &World<Oracle>, frame: Frame) -> Vec<String> {
    let machine = world.hw();
    let mut lines: BTreeMap<(Unit, u32), (u32, u32)> = BTreeMap::new();
    let units = (0..machine.cpus.len()).flat_map(|n| {
        let cpu = CpuId(n as u8);
        [Unit::L1I(cpu), Unit::L1D(cpu)]
    });
    for unit in units.chain(machine.l2.is_some().then_some(Unit::L2)) {
        let cache = machine.cache(unit);
        for slot in cache.valid_slots() {
            if machine.frame_of(PhysAddr(cache.pa(slot))) == frame {
                let page = cache.tag_address(slot) & !(machine.page_bytes() - 1);
                let count = lines.entry((unit, page)).or_default();
                count.0 += 1;
                count.1 += u32::from(cache.dirty(slot) != 0);
            }
        }
    }
    let line = |((unit, page), (all, dirty)): ((Unit, u32), (u32, u32))| {
        let cache = match unit {
            Unit::L1I(cpu) => format!("{cpu} instruction cache, page {page:#010x}"),
            Unit::L1D(cpu) => format!("{cpu} data cache, page {page:#010x}"),
            Unit::L2 => "second level".to_owned(),
        };
        format!("{cache}: {all} lines, {dirty} dirty")
    };
    let mut out: Vec<String> = lines.into_iter().map(line).collect();
    for (n, cpu) in machine.cpus.iter().enumerate() {
        let mut seen = Vec::new();
        for e in cpu.tlb.entries() {
            if machine.frame_of(PhysAddr(e.base)) == frame && !seen.contains(e) {
                seen.push(*e);
                let mut here = world.pmap().mappings(frame).filter(|m| m.va.0 == e.tag);
                let first = here.next().map(|m| m.pte.cacheable() != e.cacheable);
                let old = first == Some(true) && here.all(|m| m.pte.cacheable() != e.cacheable);
                let cached = if e.cacheable { "cached" } else { "uncached" };
                let rights = ["none", "kernel only", "user may read", "user may write"];
                let mut copy = format!(
                    "cpu{n} TLB copy of {:#010x}: {cached}, {}",
                    e.tag,
                    rights[usize::from(e.ap & 3)]
                );
                if old {
                    copy += ", older than its entry, which says otherwise";
                }
                out.push(copy);
            }
        }
    }
    out
}

fn mapping(m: &pmap::PvEntry) -> Value {
    json!({
        "space": m.space.to_string(),
        "va": m.va.0,
        "flags": m.flags.names(),
        "pte": {"valid": m.pte.valid(), "write": m.pte.writable(), "cached": m.pte.cacheable()},
    })
}

/// Cache and TLB operations of the plans, second-level ones left out: one goes with each range operation.
fn maintenance(journal: &[Entry]) -> Vec<(&'static str, String, u32)> {
    let steps = journal.iter().filter_map(|e| match e {
        Entry::Planned(s) if s.what.is_maintenance() => Some(s),
        _ => None,
    });
    steps
        .filter(|s| !s.what.name().starts_with("l2cache"))
        .map(|s| (s.what.name(), s.space.to_string(), s.va.0))
        .collect()
}

impl Op {
    /// The user space that the operation names.
    fn space(&self) -> Option<crate::op::Space> {
        match self {
            Op::Enter(s, ..) | Op::EnterQuick(s, ..) | Op::Remove(s, ..) | Op::Protect(s, ..) => {
                Some(*s)
            }
            Op::RemovePages(s) | Op::Switch(s) | Op::Activate(s) | Op::Fetch(s, _) => Some(*s),
            Op::Load(s, _) | Op::Store(s, ..) | Op::Sync(s, ..) => Some(*s),
            _ => None,
        }
    }
}
