//! A machine's description: one TOML file a machine, read into [`Profile`] and checked once.
//!
//! Every figure carries its source, or the word `estimate`, in the file's `[source]` table. What a
//! core's manual leaves open (allocation mode, the rule for an uncached access that finds its line
//! in the cache, replacement, write-buffer depth) is a field here, so that it can be tried both ways.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Which addresses a cache is indexed and tagged with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lookup {
    /// Virtual index, virtual tag: aliases of one frame are separate lines.
    Vivt,
    /// Virtual index, physical tag: aliases of different colours are separate lines.
    Vipt,
    /// Physical index and tag.
    Pipt,
}

/// Which line of a full set leaves when another comes in. An invalid line is used first, unless the
/// cache's `invalid_first` says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The one used longest ago.
    Lru,
    /// The one filled longest ago.
    Fifo,
    /// One pointer a set.
    RoundRobin,
    /// One pointer for the whole cache (ARM1136).
    RoundRobinGlobal,
    /// A xorshift generator with a fixed seed: the same run gives the same victims.
    Random,
}

/// What an uncached access (C = 0) does when the line is in the cache all the same
/// (`hardware.md`, section 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UncachedHit {
    /// The line answers a load and takes a store, as on StrongARM and XScale.
    HitServes,
    /// The cache is not looked up at all, as on Cortex-A9 and A53. The bytes end as under
    /// `bypass-stale`; only the manual's promise differs.
    Bypass,
    /// Loads go to the bus; a store updates the line and goes to the bus, as on ARM920T.
    BypassButWriteUpdates,
    /// Loads and stores go to the bus and the line goes stale, as on ARM926EJ-S.
    BypassStale,
}

/// How far a reader beside the data side (instruction fetch, table walk) looks for its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Looks {
    /// Memory only.
    Memory,
    /// The second-level cache, then memory.
    L2,
    /// The same CPU's data cache first.
    OwnD,
    /// Every CPU's data cache first.
    AllD,
}

/// One cache.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheProfile {
    /// Total size, bytes.
    pub size: u32,
    /// Ways of a set.
    pub ways: u32,
    /// Line size, bytes.
    pub line: u32,
    /// Index and tag.
    pub lookup: Lookup,
    /// Victim choice.
    pub replacement: Replacement,
    /// Whether an invalid line is always the next victim; else victims go round whether lines are valid
    /// or not, as on StrongARM and XScale, whose kernels clean the cache by displacing it.
    #[serde(default = "yes")]
    pub invalid_first: bool,
    /// Whether a store that misses brings the line in.
    #[serde(default)]
    pub write_allocate: bool,
    /// Whether stores stay in the line until it leaves; an L1 data cache takes this from the PTE.
    #[serde(default = "yes")]
    pub write_back: bool,
    /// Bytes that share one dirty bit: half a line on ARM9.
    #[serde(default)]
    pub dirty_bytes: u32,
    /// What an uncached access does when it hits.
    #[serde(default = "bypass_stale")]
    pub uncached_hit: UncachedHit,
}

fn yes() -> bool {
    true
}

fn bypass_stale() -> UncachedHit {
    UncachedHit::BypassStale
}

/// What empties the write buffer besides a drain operation and its own depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrainsOn {
    /// An uncached load, and an uncached unbuffered store.
    Uncached,
    /// Entry to or return from an exception: long enough for the bus to catch up.
    Exception,
    /// A table walk.
    Walk,
    /// A data line fill.
    Fill,
}

/// The write buffer.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferProfile {
    /// Addresses it holds; 0 means stores go straight to the bus.
    pub entries: u32,
    /// Bytes of one entry, a power of two of at most 32; only the last entry merges.
    pub bytes: u32,
    /// Whether a dirty victim waits in an eviction buffer of one line.
    pub eviction: bool,
    /// What drains both.
    #[serde(default)]
    pub drains_on: Vec<DrainsOn>,
}

/// The instruction prefetch buffer for uncached code.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FetchBufferProfile {
    /// Words of one burst.
    pub words: u32,
    /// A burst never crosses a multiple of this, bytes.
    pub boundary: u32,
}

/// The TLB: a main part, and micro-TLBs that hold copies of its entries.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlbProfile {
    /// Entries of the main part.
    pub entries: u32,
    /// Its ways.
    pub ways: u32,
    /// Entries of each micro-TLB (one for fetches, one for data); at most 8.
    pub micro: u32,
    /// Entries of the lockdown region, fully associative.
    #[serde(default)]
    pub lockdown: u32,
}

/// How page tables look.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(tag = "format", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TableProfile {
    /// ARM short descriptors, two levels, in simulated memory.
    ArmShort,
    /// One array a space, outside memory: no walk, no PTE sync, no first-level slots.
    Flat {
        /// Spaces, the kernel's (number 0) among them.
        spaces: u32,
        /// Pages of a user space, from address 0.
        user_pages: u32,
        /// Pages of the kernel's space, above the user pages.
        kernel_pages: u32,
    },
}

/// Cycles by event. A latency is in cycles of this machine's clock.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CostProfile {
    /// One instruction whose fetch hits.
    pub instruction: u32,
    /// What a load that hits adds to its instruction.
    pub l1_load: u32,
    /// A first-level miss that the second level serves.
    pub l2: u32,
    /// A line from memory.
    pub memory: u32,
    /// An uncached load.
    pub uncached_load: u32,
    /// An uncached store that is not buffered.
    pub uncached_store: u32,
    /// One burst of uncached instruction words.
    pub uncached_fetch: u32,
    /// A micro-TLB miss that the main TLB serves.
    pub micro_tlb: u32,
    /// A table walk.
    pub walk: u32,
    /// A cache or TLB operation on one line or entry.
    pub line_op: u32,
    /// Writing out one dirty part of a line.
    pub write_back: u32,
    /// A whole-cache operation, besides its write-backs.
    pub all_op: u32,
    /// Draining the write buffer, per entry.
    pub drain: u32,
    /// Exception entry and return together.
    pub exception: u32,
    /// One 32-byte DMA beat, in CPU time.
    pub dma_beat: u32,
    /// A disk request, before its first beat.
    pub disk: u32,
    /// An interprocessor interrupt, round trip.
    pub ipi: u32,
}

/// A machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name, as `--machine` takes it.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// Which CPU routine its kernels use (`pmap::routine`).
    pub routine: String,
    /// Clock.
    pub clock_mhz: u32,
    /// Processors.
    pub cpus: u32,
    /// RAM from physical address 0, bytes.
    pub memory: u32,
    /// Page size, bytes.
    pub page: u32,
    /// Instruction cache.
    pub icache: CacheProfile,
    /// Data cache.
    pub dcache: CacheProfile,
    /// Second level, unified; first-level operations do not reach it.
    pub l2: Option<CacheProfile>,
    /// Whether uncached accesses go round the second level.
    #[serde(default = "yes")]
    pub uncached_bypasses_l2: bool,
    /// Whether DMA goes round the second level.
    #[serde(default = "yes")]
    pub dma_bypasses_l2: bool,
    /// Whether DMA looks into and updates the caches.
    #[serde(default)]
    pub dma_coherent: bool,
    /// Where an instruction fetch that misses looks.
    pub fetch_looks: Looks,
    /// Where the table walk looks.
    pub walk_looks: Looks,
    /// Write buffer.
    pub write_buffer: WriteBufferProfile,
    /// Prefetch buffer.
    pub fetch_buffer: FetchBufferProfile,
    /// TLB.
    pub tlb: TlbProfile,
    /// Page tables.
    pub table: TableProfile,
    /// Cost table.
    pub cost: CostProfile,
    /// Where each figure is from: field path to source, or `estimate`.
    #[serde(default)]
    pub source: BTreeMap<String, String>,
}

/// What is wrong with a profile, in one message that names the field.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ProfileError(pub String);

const EMBEDDED: &[(&str, &str)] = &[
    ("sheevaplug", include_str!("../profiles/sheevaplug.toml")),
    ("arm926ejs", include_str!("../profiles/arm926ejs.toml")),
    ("arm920t", include_str!("../profiles/arm920t.toml")),
    ("sa1110", include_str!("../profiles/sa1110.toml")),
    (
        "xscale-pxa255",
        include_str!("../profiles/xscale-pxa255.toml"),
    ),
    ("cortex-a9", include_str!("../profiles/cortex-a9.toml")),
    ("tiny-vivt", include_str!("../profiles/tiny-vivt.toml")),
    ("tiny-l2", include_str!("../profiles/tiny-l2.toml")),
    ("tiny-line", include_str!("../profiles/tiny-line.toml")),
    (
        "tiny-line-ra",
        include_str!("../profiles/tiny-line-ra.toml"),
    ),
];

impl Profile {
    /// The names of the embedded profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// The embedded profile of that name.
    pub fn embedded(name: &str) -> Option<Arc<Self>> {
        let (_, text) = EMBEDDED.iter().find(|(n, _)| *n == name)?;
        Some(Arc::new(
            Self::parse(text).expect("embedded profiles are checked by a test"),
        ))
    }

    /// The text of an embedded profile, to start a new one from.
    pub fn embedded_text(name: &str) -> Option<&'static str> {
        EMBEDDED
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, text)| *text)
    }

    /// Reads and checks a profile.
    ///
    /// # Errors
    /// A message with the line for a syntax error, or the field that cannot be.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|e| ProfileError(e.to_string().trim_end().to_owned()))?;
        profile.check()?;
        Ok(profile)
    }

    /// Frames of RAM.
    pub fn frames(&self) -> u32 {
        self.memory / self.page
    }

    /// Seconds that `cycles` take.
    pub fn seconds(&self, cycles: u64) -> f64 {
        cycles as f64 / (f64::from(self.clock_mhz) * 1e6)
    }

    fn check(&self) -> Result<(), ProfileError> {
        range("cpus", self.cpus, 1, 8)?;
        range("clock_mhz", self.clock_mhz, 1, 10_000)?;
        power("page", self.page, 8, 4096)?;
        range("memory", self.memory, self.page, 1 << 31)?;
        multiple("memory", self.memory, self.page)?;
        self.icache.check("icache", self.page)?;
        self.dcache.check("dcache", self.page)?;
        if let Some(l2) = &self.l2 {
            l2.check("l2", self.page)?;
            must("l2.lookup", l2.lookup == Lookup::Pipt, "must be pipt")?;
            must(
                "l2.line",
                l2.line >= self.dcache.line,
                "must be at least dcache.line",
            )?;
        }
        self.check_buffers()?;
        self.check_tlb()?;
        self.check_table()
    }

    fn check_buffers(&self) -> Result<(), ProfileError> {
        range("write_buffer.entries", self.write_buffer.entries, 0, 32)?;
        power("write_buffer.bytes", self.write_buffer.bytes, 4, 32)?;
        range("fetch_buffer.words", self.fetch_buffer.words, 1, 8)?;
        power(
            "fetch_buffer.boundary",
            self.fetch_buffer.boundary,
            4,
            self.page,
        )
    }

    fn check_tlb(&self) -> Result<(), ProfileError> {
        range("tlb.entries", self.tlb.entries, 1, 1024)?;
        range("tlb.ways", self.tlb.ways, 1, self.tlb.entries)?;
        multiple("tlb.entries", self.tlb.entries, self.tlb.ways)?;
        power(
            "tlb.entries / tlb.ways",
            self.tlb.entries / self.tlb.ways,
            1,
            1024,
        )?;
        range("tlb.micro", self.tlb.micro, 1, 8)?;
        range("tlb.lockdown", self.tlb.lockdown, 0, 64)
    }

    fn check_table(&self) -> Result<(), ProfileError> {
        match self.table {
            TableProfile::ArmShort => {
                must(
                    "page",
                    self.page == 4096,
                    "must be 4096 with table.format = \"arm-short\"",
                )?;
                // The kernel, its tables and a few pages for programs.
                range("memory", self.memory, 16 << 20, 1 << 31)
            }
            TableProfile::Flat {
                spaces,
                user_pages,
                kernel_pages,
            } => {
                range("table.spaces", spaces, 1, 256)?;
                range("table.user_pages", user_pages, 1, 4096)?;
                range("table.kernel_pages", kernel_pages, 1, 65536)
            }
        }
    }
}

impl CacheProfile {
    fn check(&self, name: &str, page: u32) -> Result<(), ProfileError> {
        let field = |f: &str| format!("{name}.{f}");
        power(&field("line"), self.line, 4, 64)?;
        must(
            &field("line"),
            self.line <= page,
            "must not be larger than a page",
        )?;
        range(&field("size"), self.size, self.line, 64 << 20)?;
        range(&field("ways"), self.ways, 1, 64)?;
        multiple(&field("size"), self.size, self.line * self.ways)?;
        power(
            &field("size / line / ways"),
            self.size / self.line / self.ways,
            1,
            1 << 20,
        )?;
        if self.dirty_bytes != 0 {
            power(&field("dirty_bytes"), self.dirty_bytes, 4, self.line)?;
            must(
                &field("dirty_bytes"),
                self.line / self.dirty_bytes <= 8,
                "at most 8 parts a line",
            )?;
        }
        Ok(())
    }

    /// Bytes that share a dirty bit; the whole line where the profile says nothing.
    pub fn dirty_bytes(&self) -> u32 {
        if self.dirty_bytes == 0 {
            self.line
        } else {
            self.dirty_bytes
        }
    }
}

fn must(field: &str, holds: bool, what: &str) -> Result<(), ProfileError> {
    if holds {
        Ok(())
    } else {
        Err(ProfileError(format!("`{field}` {what}")))
    }
}

fn range(field: &str, value: u32, low: u32, high: u32) -> Result<(), ProfileError> {
    must(
        field,
        (low..=high).contains(&value),
        &format!("is {value}; expected {low} to {high}"),
    )
}

fn multiple(field: &str, value: u32, of: u32) -> Result<(), ProfileError> {
    must(
        field,
        value.is_multiple_of(of),
        &format!("is {value}; expected a multiple of {of}"),
    )
}

fn power(field: &str, value: u32, low: u32, high: u32) -> Result<(), ProfileError> {
    let text = format!("is {value}; expected a power of two from {low} to {high}");
    must(
        field,
        value.is_power_of_two() && (low..=high).contains(&value),
        &text,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_profile_is_sound_and_named_as_its_file() {
        for (name, text) in EMBEDDED {
            let profile = Profile::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(profile.name, *name);
        }
    }

    #[test]
    fn an_impossible_geometry_names_its_field() {
        let text = EMBEDDED[0].1.replacen("ways = 4", "ways = 3", 1);
        let error = Profile::parse(&text).unwrap_err();
        assert!(error.0.contains("icache.size"), "{error}");
    }
}
