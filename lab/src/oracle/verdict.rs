//! Verdicts, and the two places each of them names.

use std::collections::BTreeMap;

use machine::{CpuId, PhysAddr, Place, VirtAddr};
use serde::Serialize;

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An executed word was not allowed.
    StaleExec,
    /// A load or a device's read was not allowed.
    StaleRead,
    /// A byte's last store is nowhere any more.
    LostWrite,
    /// A TLB copy with another frame, or with a right that the access used and the table does not give.
    StaleTranslation,
    /// An invariant of the pmap failed.
    BrokenRule,
    /// The emulated kernel panicked.
    Panic,
    /// The same fault without end.
    Hang,
    /// The caller broke the pmap's contract.
    Misuse,
    /// Allowed, but not the truth; never an error.
    Permitted,
}

impl Kind {
    /// Its name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::StaleExec => "stale-exec",
            Kind::StaleRead => "stale-read",
            Kind::LostWrite => "lost-write",
            Kind::StaleTranslation => "stale-translation",
            Kind::BrokenRule => "broken-rule",
            Kind::Panic => "panic",
            Kind::Hang => "hang",
            Kind::Misuse => "misuse",
            Kind::Permitted => "permitted",
        }
    }

    /// Every kind, the gravest first.
    pub const ALL: [Kind; 9] = [
        Kind::StaleExec,
        Kind::StaleRead,
        Kind::LostWrite,
        Kind::StaleTranslation,
        Kind::BrokenRule,
        Kind::Panic,
        Kind::Hang,
        Kind::Misuse,
        Kind::Permitted,
    ];

    /// The kind of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What.
    pub kind: Kind,
    /// On which CPU.
    pub cpu: CpuId,
    /// At which address, if an access is concerned.
    pub va: Option<VirtAddr>,
    /// Of which byte.
    pub pa: Option<PhysAddr>,
    /// The word got.
    pub got: Option<u32>,
    /// The word that should have been.
    pub want: Option<u32>,
    /// Where the access found its bytes.
    pub place: Option<Place>,
    /// The first place: what was going on at the access.
    pub during: String,
    /// The second place: the earlier event.
    pub because: String,
}

/// All findings of a run: counts of every kind, details of the first ones.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    counts: BTreeMap<Kind, u64>,
    /// The first findings, and the first of each kind, in order; `permitted` ones are only counted.
    pub first: Vec<Verdict>,
}

/// Findings kept in full, besides the first of each kind.
const KEPT: usize = 64;

impl Verdicts {
    /// Counts a finding; `detail` is called only if it is the first of its kind or there is room to keep it.
    pub fn add(&mut self, kind: Kind, detail: impl FnOnce() -> Verdict) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if kind != Kind::Permitted && (*count == 1 || self.first.len() < KEPT) {
            self.first.push(detail());
        }
    }

    /// Counts by kind.
    pub fn counts(&self) -> &BTreeMap<Kind, u64> {
        &self.counts
    }

    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// Whether nothing but `permitted` was found.
    pub fn clean(&self) -> bool {
        self.counts.keys().all(|k| *k == Kind::Permitted)
    }

    /// The gravest kind found, errors before `permitted`.
    pub fn worst(&self) -> Option<Kind> {
        self.counts.keys().next().copied()
    }

    /// Counts by name, for JSON.
    pub fn named(&self) -> BTreeMap<&'static str, u64> {
        self.counts.iter().map(|(k, n)| (k.name(), *n)).collect()
    }
}
