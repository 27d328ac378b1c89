//! What is simulated: sizes of caches and TLBs, policies, and where they come from (options, a
//! machine's profile, a sweep).
//!
//! A trace has virtual addresses only. Caches that a profile calls physically indexed are therefore
//! simulated as if every page were mapped to the frame of its own number.

use std::fmt;
use std::str::FromStr;

use machine::profile::{CacheProfile, Replacement};
use machine::{Profile, cache};

/// Most lines or entries of one cache or TLB: what bounds the memory of a run.
const SLOTS_MAX: u32 = 1 << 22;

/// Size, ways and line of a cache, or (`line` being the page) entries and ways of a TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shape {
    /// Bytes of a cache, entries of a TLB.
    pub size: u32,
    /// Ways of a set.
    pub ways: u32,
    /// Bytes of a line; 0 for a TLB.
    pub line: u32,
}

impl Shape {
    /// Lines of a cache, entries of a TLB.
    fn slots(self) -> u32 {
        self.size / self.line.max(1)
    }

    fn check(self) -> Result<Self, String> {
        let (unit, per_way) = if self.line == 0 {
            ("entries", 1)
        } else {
            power("line", self.line, 4, 4096)?;
            ("size", self.line)
        };
        if self.ways == 0 || self.size == 0 {
            return Err(format!("{unit} and ways must be at least 1"));
        }
        let set = u64::from(per_way) * u64::from(self.ways);
        if u64::from(self.size) % set != 0 {
            let size = self.size;
            return Err(format!(
                "{unit} is {size}; expected a multiple of {set}, one set"
            ));
        }
        if self.slots() > SLOTS_MAX {
            let slots = self.slots();
            return Err(format!("{slots} lines; expected at most {SLOTS_MAX}"));
        }
        power("number of sets", self.slots() / self.ways, 1, SLOTS_MAX)?;
        Ok(self)
    }

    /// The same with another size; what was fully associative stays so.
    fn resized(self, size: u32) -> Result<Self, String> {
        let full = self.line == 0 && self.ways == self.size;
        let ways = if full { size } else { self.ways };
        Self { size, ways, ..self }.check()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}:{}", self.size, self.ways),
            line => write!(f, "{}:{}:{line}", self.size, self.ways),
        }
    }
}

fn power(what: &str, value: u32, low: u32, high: u32) -> Result<(), String> {
    if value.is_power_of_two() && (low..=high).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{what} is {value}; expected a power of two from {low} to {high}"
    ))
}

/// A number of bytes or entries, with `k` and `m` for 1024 and 1048576.
pub fn parse_size(text: &str) -> Result<u32, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        other => return Err(format!("unit `{other}`; expected k or m")),
    };
    let number: u32 = digits
        .parse()
        .map_err(|_| format!("`{text}`; expected a number"))?;
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("{text} is too large"))
}

/// `SIZE:WAYS:LINE`.
pub fn parse_cache(text: &str) -> Result<Shape, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [size, ways, line] = parts[..] else {
        return Err("expected SIZE:WAYS:LINE, as 16384:4:32".to_owned());
    };
    let (size, ways, line) = (parse_size(size)?, parse_size(ways)?, parse_size(line)?);
    power("line", line, 4, 4096)?;
    Shape { size, ways, line }.check()
}

/// `ENTRIES:WAYS`.
pub fn parse_tlb(text: &str) -> Result<Shape, String> {
    let Some((size, ways)) = text.split_once(':') else {
        return Err("expected ENTRIES:WAYS, as 64:2".to_owned());
    };
    let (size, ways) = (parse_size(size)?, parse_size(ways)?);
    Shape {
        size,
        ways,
        line: 0,
    }
    .check()
}

/// A page size.
pub fn parse_page(text: &str) -> Result<u32, String> {
    let page = parse_size(text)?;
    power("page", page, 16, 1 << 30)?;
    Ok(page)
}

/// How a victim is chosen; `random` may name a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Choice {
    /// The rule.
    pub rule: Replacement,
    /// Seed of the random rule.
    pub seed: u64,
}

impl From<Replacement> for Choice {
    fn from(rule: Replacement) -> Self {
        Self { rule, seed: 1 }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = match text {
            "lru" => Replacement::Lru,
            "fifo" => Replacement::Fifo,
            "round-robin" => Replacement::RoundRobin,
            "random" => Replacement::Random,
            _ => {
                let seed = text.strip_prefix("random:").and_then(|s| s.parse().ok());
                let expected = "expected lru, fifo, round-robin, random or random:SEED";
                let rule = Replacement::Random;
                return seed
                    .map(|seed| Self { rule, seed })
                    .ok_or(expected.to_owned());
            }
        };
        Ok(rule.into())
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self.rule {
            Replacement::Lru => "lru",
            Replacement::Fifo => "fifo",
            Replacement::RoundRobin => "round-robin",
            Replacement::RoundRobinGlobal => "round-robin-global",
            Replacement::Random => return write!(f, "random:{}", self.seed),
        })
    }
}

/// One cache or TLB to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Unit {
    /// Its size.
    pub shape: Shape,
    /// Its victims.
    pub choice: Choice,
    /// Stores stay in the line until it leaves; they go through otherwise.
    pub write_back: bool,
    /// A store that misses brings the line in.
    pub write_allocate: bool,
    /// Bytes that share a dirty bit; 0 for the whole line.
    pub dirty_bytes: u32,
}

impl Unit {
    /// A write-back, write-allocate unit.
    pub fn new(shape: Shape, choice: Choice) -> Self {
        let (write_back, write_allocate, dirty_bytes) = (true, true, 0);
        Self {
            shape,
            choice,
            write_back,
            write_allocate,
            dirty_bytes,
        }
    }

    fn of_profile(profile: &CacheProfile) -> Self {
        let (size, ways, line) = (profile.size, profile.ways, profile.line);
        Self {
            shape: Shape { size, ways, line },
            choice: profile.replacement.into(),
            write_back: profile.write_back,
            write_allocate: profile.write_allocate,
            dirty_bytes: profile.dirty_bytes(),
        }
    }

    /// What [`machine::cache::Cache`] wants to know. `page` is the line of a TLB.
    pub fn geometry(&self, page: u32) -> cache::Geometry {
        let line = if self.shape.line == 0 {
            page
        } else {
            self.shape.line
        };
        cache::Geometry {
            line_shift: line.trailing_zeros(),
            set_mask: self.shape.slots() / self.shape.ways - 1,
            ways: self.shape.ways,
            replacement: self.choice.rule,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.shape.check()?;
        let pointer = matches!(
            self.choice.rule,
            Replacement::RoundRobin | Replacement::RoundRobinGlobal
        );
        if pointer && self.shape.ways > 256 {
            let ways = self.shape.ways;
            return Err(format!(
                "{ways} ways; expected at most 256 with round-robin"
            ));
        }
        Ok(())
    }
}

/// Which accesses reach the second level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, clap::ValueEnum)]
pub enum L2Feed {
    /// First-level misses only, as DynamoRIO's drcachesim; writes are counted beside.
    Misses,
    /// First-level misses, write-backs and written-through stores, as the machine and Dinero IV.
    Traffic,
}

/// What a reference that touches several lines counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, clap::ValueEnum)]
pub enum Straddle {
    /// One access for each line, as Dinero, drcachesim and the machine.
    #[default]
    Split,
    /// One access, a miss if any line misses, as cachegrind.
    Cachegrind,
}

/// What lackey's `M` and Dinero's `m` count as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, clap::ValueEnum)]
pub enum Modify {
    /// A load, as cachegrind and Dinero.
    #[default]
    Read,
    /// A load and then a store of the same bytes.
    ReadWrite,
}

/// One machine to simulate. What is `None` is not there and not counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Instruction cache.
    pub l1i: Option<Unit>,
    /// Data cache.
    pub l1d: Option<Unit>,
    /// Unified second level.
    pub l2: Option<Unit>,
    /// What the second level sees.
    pub l2_feed: L2Feed,
    /// TLB of fetches; with `tlb`, the micro-TLB in front of it.
    pub itlb: Option<Unit>,
    /// TLB of loads and stores; with `tlb`, the micro-TLB in front of it.
    pub dtlb: Option<Unit>,
    /// Unified main TLB, asked when `itlb` or `dtlb` misses.
    pub tlb: Option<Unit>,
    /// Page size, bytes.
    pub page: u32,
}

/// The members of a setup that an option can name.
pub const UNITS: [&str; 5] = ["l1i", "l1d", "l2", "itlb", "dtlb"];

impl Setup {
    /// Nothing to simulate yet.
    pub fn empty() -> Self {
        Self {
            l1i: None,
            l1d: None,
            l2: None,
            l2_feed: L2Feed::Misses,
            itlb: None,
            dtlb: None,
            tlb: None,
            page: 4096,
        }
    }

    /// The caches and TLBs of a machine. Its micro-TLBs are filled in turn, as in
    /// [`machine::tlb::Tlb`].
    pub fn of_profile(profile: &Profile) -> Self {
        let tlb = |size, ways| {
            let shape = Shape {
                size,
                ways,
                line: 0,
            };
            Some(Unit::new(shape, Replacement::RoundRobin.into()))
        };
        let micro = tlb(profile.tlb.micro, profile.tlb.micro);
        Self {
            l1i: Some(Unit::of_profile(&profile.icache)),
            l1d: Some(Unit::of_profile(&profile.dcache)),
            l2: profile.l2.as_ref().map(Unit::of_profile),
            l2_feed: L2Feed::Traffic,
            itlb: micro,
            dtlb: micro,
            tlb: tlb(profile.tlb.entries, profile.tlb.ways),
            page: profile.page,
        }
    }

    /// The member of that name in [`UNITS`].
    pub fn unit_mut(&mut self, name: &str) -> Option<&mut Option<Unit>> {
        Some(match name {
            "l1i" => &mut self.l1i,
            "l1d" => &mut self.l1d,
            "l2" => &mut self.l2,
            "itlb" => &mut self.itlb,
            "dtlb" => &mut self.dtlb,
            _ => return None,
        })
    }

    /// Every unit there is, with its name.
    pub fn units(&self) -> impl Iterator<Item = (&'static str, &Unit)> {
        let all = [
            ("l1i", &self.l1i),
            ("l1d", &self.l1d),
            ("l2", &self.l2),
            ("itlb", &self.itlb),
            ("dtlb", &self.dtlb),
            ("tlb", &self.tlb),
        ];
        all.into_iter().filter_map(|(n, u)| Some((n, u.as_ref()?)))
    }

    /// Says what cannot be simulated.
    ///
    /// # Errors
    /// The unit and what was expected of it.
    pub fn check(&self) -> Result<(), String> {
        for (name, unit) in self.units() {
            unit.check()
                .map_err(|what| format!("{name} {}: {what}", unit.shape))?;
        }
        let Some(l2) = &self.l2 else { return Ok(()) };
        for (name, unit) in self.units().filter(|(n, _)| n.starts_with("l1")) {
            if unit.shape.line > l2.shape.line {
                let (line, l2) = (unit.shape.line, l2.shape.line);
                return Err(format!(
                    "l2 line is {l2}; expected at least {line}, the line of {name}"
                ));
            }
        }
        Ok(())
    }
}

/// One `--sweep UNIT=LOW..HIGH` or `UNIT=A,B,C`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// `l1` for both first-level caches, or a name of [`UNITS`].
    pub unit: String,
    /// Sizes or entries, in order.
    pub sizes: Vec<u32>,
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected UNIT=LOW..HIGH or UNIT=A,B,C, UNIT one of l1 l1i l1d l2 itlb dtlb";
        let (unit, range) = text.split_once('=').ok_or(expected)?;
        if unit != "l1" && !UNITS.contains(&unit) {
            return Err(expected.to_owned());
        }
        let sizes = match range.split_once("..") {
            None => range.split(',').map(parse_size).collect::<Result<_, _>>()?,
            Some((low, high)) => doublings(parse_size(low)?, parse_size(high)?)?,
        };
        let unit = unit.to_owned();
        Ok(Self { unit, sizes })
    }
}

fn doublings(low: u32, high: u32) -> Result<Vec<u32>, String> {
    if low == 0 || low > high {
        return Err(format!("{low}..{high}; expected the lower end first"));
    }
    let steps = std::iter::successors(Some(low), |n| n.checked_mul(2));
    Ok(steps.take_while(|n| *n <= high).collect())
}

impl Sweep {
    /// The setups that come of `base`, with what makes each differ.
    ///
    /// # Errors
    /// The unit is not in the setup, or a size is impossible.
    pub fn apply(&self, base: &Setup, label: &str) -> Result<Vec<(String, Setup)>, String> {
        let names = match self.unit.as_str() {
            "l1" => vec!["l1i", "l1d"],
            one => vec![one],
        };
        let one = |size: u32| {
            let mut setup = base.clone();
            let mut label = label.to_owned();
            for name in &names {
                let unit = setup.unit_mut(name).and_then(Option::as_mut);
                let unit = unit.ok_or_else(|| format!("--sweep {name}: give its --{name} too"))?;
                unit.shape = unit
                    .shape
                    .resized(size)
                    .map_err(|what| format!("--sweep {name}={size}: {what}"))?;
                let gap = if label.is_empty() { "" } else { " " };
                label = format!("{label}{gap}{name}={}", unit.shape);
            }
            Ok((label, setup))
        };
        self.sizes.iter().map(|size| one(*size)).collect()
    }
}
