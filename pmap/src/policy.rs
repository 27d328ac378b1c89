//! The policies there are: a skeleton and a rule each, one line a policy.

use machine::Profile;
use machine::profile::Lookup;

use crate::edit::{PlanEdit, RoutineEdit};
use crate::rule::{self, Rule};
use crate::skeleton::{self, Skeleton};

/// What a policy claims to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Nothing is ever stale under it; the gate holds it to that.
    Reference,
    /// Somebody's idea, not in a released kernel.
    Proposal,
    /// As a kernel had it, with these defects.
    Historic(&'static str),
    /// Ours, to measure the others by, with these defects.
    Yardstick(&'static str),
}

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, as `--policy` takes it.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Its verbs' orders.
    pub skeleton: Skeleton,
    /// Its answers at the hooks.
    pub rule: Rule,
    /// What it claims.
    pub status: Status,
    /// Changes of what the rule plans, applied in order after it was asked.
    pub edits: Vec<PlanEdit>,
    /// What the machine's routines leave out.
    pub routine_edits: Vec<RoutineEdit>,
}

/// A defect that only some machines can show, and which.
type OnlyOn = (&'static str, fn(&Profile) -> bool);

const ONLY_ON: &[OnlyOn] = &[
    // Lines in the second level that uncached accesses do not look at: it must hold what memory has not.
    ("B46", |p| p.l2.as_ref().is_some_and(|l2| l2.write_back)),
];

impl Policy {
    /// Whether it is meant for a machine. The yardsticks are for all; the others know caches that are looked
    /// up by virtual address.
    pub fn fits(&self, profile: &Profile) -> bool {
        let yardstick = self.name == "always-flush" || matches!(self.status, Status::Yardstick(_));
        yardstick || profile.dcache.lookup == Lookup::Vivt
    }

    /// What it claims to be on a machine: its status without the defects that this machine cannot show.
    pub fn status_on(&self, profile: &Profile) -> String {
        if !self.fits(profile) {
            return "not meant for it".to_owned();
        }
        let shows = |word: &&str| {
            let only = ONLY_ON.iter().find(|(defect, _)| defect == word);
            only.is_none_or(|(_, on)| on(profile))
        };
        match self.status {
            Status::Historic(defects) => {
                let words: Vec<&str> = defects.split(' ').filter(shows).collect();
                format!("historic: {}", words.join(" "))
            }
            other => other.to_string(),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Status::Reference => f.write_str("reference"),
            Status::Proposal => f.write_str("proposal"),
            Status::Historic(defects) => write!(f, "historic: {defects}"),
            Status::Yardstick(defects) => write!(f, "yardstick: forgets {defects}"),
        }
    }
}

type Row = (&'static str, &'static str, fn() -> Skeleton, Rule, Status);

const POLICIES: &[Row] = &[
    (
        "none",
        "each mapping for itself; nothing for sharing or kernel writes",
        skeleton::freebsd_2010,
        rule::none::plan,
        Status::Yardstick("sharing"),
    ),
    (
        "bare",
        "TLB, PTE sync and the switch flush only",
        skeleton::freebsd_2010,
        rule::bare::plan,
        Status::Yardstick("sharing, frame reuse, DMA, copy windows"),
    ),
    (
        "always-flush",
        "everything written back and invalidated at every hook",
        rule::always_flush::skeleton,
        rule::always_flush::plan,
        Status::Reference,
    ),
    (
        "freebsd-2006",
        "pmap_vac_me_harder as FreeBSD 6 had it; buffers are on no list",
        skeleton::freebsd_2006,
        rule::freebsd_2006::plan,
        Status::Historic("B1 B2 B9 B10 B11 B12 B14 B22 B24 B25 B28, kernel writers after readers"),
    ),
    (
        "freebsd-2006-fixed",
        "the same without B9 to B12, B14 and B22; buffers are still on no list",
        skeleton::freebsd_2006_fixed,
        rule::freebsd_2006::fixed,
        Status::Historic("B1 B2 B24 B25 B28, kernel writers after readers"),
    ),
    (
        "freebsd-2009",
        "pmap_fix_cache until r1.130: a read-only kernel mapping beside a writable one is no conflict",
        skeleton::freebsd_2010,
        rule::freebsd_2009::plan,
        Status::Historic("B3 B8 B16 B23 B24 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "freebsd-2010",
        "pmap_fix_cache as FreeBSD had it from 2010 to 2016 (seeds/001)",
        skeleton::freebsd_2010,
        rule::freebsd_2010::plan,
        Status::Historic("B16 B23 B24 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "freebsd-2013",
        "freebsd-2010 with pv_memattr",
        skeleton::freebsd_2013,
        rule::freebsd_2013::plan,
        Status::Historic("B23 B24 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "freebsd-2016",
        "freebsd-2013 with write permission always taken before pmap_remove_all",
        skeleton::freebsd_2016,
        rule::freebsd_2013::plan,
        Status::Historic("B23 B24 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "netbsd-vivt",
        "pmap_vac_me_harder as NetBSD had it in 2015; buffers are on no list",
        skeleton::netbsd,
        rule::netbsd_vivt::plan,
        Status::Historic("B24 B28, kernel writers after readers, buffers on no list"),
    ),
    (
        "netbsd-vivt-repaired",
        "NetBSD's UBC windows over the repaired pmap: read-only for readers, text unmapped at release",
        rule::netbsd_vivt::repaired_skeleton,
        rule::windows::ubc_repaired,
        Status::Reference,
    ),
    (
        "linux-vivt-2.6.24",
        "Linux's lazy flush of file pages, aliases uncached for ever",
        skeleton::linux,
        rule::linux_vivt::plan_2_6_24,
        Status::Historic("anonymous pages are not synced for execution"),
    ),
    (
        "linux-vivt-2.6.37",
        "the same by a clean bit, anonymous pages too, second level on demotion",
        skeleton::linux,
        rule::linux_vivt::plan_2_6_37,
        Status::Historic("right on read-allocate caches only"),
    ),
    (
        "write-drop-bqrelse-explicit",
        "Lepore's repair: buffers lose write permission at bqrelse, writers ask for it",
        rule::write_drop::explicit_skeleton,
        rule::write_drop::bqrelse_explicit,
        Status::Proposal,
    ),
    (
        "freebsd-2010-ref",
        "freebsd-2010, kenter mappings count as referenced",
        rule::repairs::referenced,
        rule::freebsd_2010::plan,
        Status::Historic(
            "B16 B24 B25 B26 B27 B28 B44 B45 B46; a buffer faults after pmap_ts_referenced",
        ),
    ),
    (
        "freebsd-2010-sticky-nc",
        "freebsd-2010, an uncached mapping stays so when entered again",
        rule::repairs::sticky,
        rule::freebsd_2010::plan,
        Status::Historic("B16 B23 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "freebsd-2010-kentry",
        "freebsd-2010, clearbit leaves kenter mappings alone",
        rule::repairs::kentry,
        rule::freebsd_2010::plan,
        Status::Historic(
            "B16 B23 B24 B25 B27 B28 B44 B45 B46; clearbit caches what the kernel still writes",
        ),
    ),
    (
        "freebsd-2010-lazy",
        "freebsd-2010, current is whatever the hardware still holds",
        rule::repairs::lazy,
        rule::freebsd_2010::plan,
        Status::Historic("B16 B23 B24 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "freebsd-2010-repaired",
        "freebsd-2010 without any known defect",
        rule::repairs::repaired,
        rule::repaired::plan,
        Status::Reference,
    ),
    (
        "tinguely-bypass-literal",
        "Tinguely's test of seeds/001, as written; exec counts PVF_EXEC only",
        skeleton::freebsd_2010,
        rule::tinguely::bypass_literal,
        Status::Proposal,
    ),
    (
        "tinguely-bypass-intent",
        "Tinguely's test of seeds/001, as written; exec counts kernel mappings too",
        skeleton::freebsd_2010,
        rule::tinguely::bypass_intent,
        Status::Proposal,
    ),
    (
        "tinguely-test1-literal",
        "Tinguely's test of seeds/001, with test1; exec counts PVF_EXEC only",
        skeleton::freebsd_2010,
        rule::tinguely::test1_literal,
        Status::Proposal,
    ),
    (
        "tinguely-test1-intent",
        "Tinguely's test of seeds/001, with test1; exec counts kernel mappings too",
        skeleton::freebsd_2010,
        rule::tinguely::test1_intent,
        Status::Proposal,
    ),
    (
        "write-drop-io-done-explicit",
        "Lepore's repair: buffers lose write permission when a transfer ends, writers ask for it",
        rule::write_drop::explicit_skeleton,
        rule::write_drop::io_done_explicit,
        Status::Proposal,
    ),
    (
        "write-drop-io-done-fault",
        "Lepore's repair: buffers lose write permission when a transfer ends, a store faults it back",
        rule::write_drop::fault_skeleton,
        rule::write_drop::io_done_fault,
        Status::Proposal,
    ),
    (
        "write-drop-bqrelse-fault",
        "Lepore's repair: buffers lose write permission at bqrelse, a store faults it back",
        rule::write_drop::fault_skeleton,
        rule::write_drop::bqrelse_fault,
        Status::Proposal,
    ),
    (
        "write-drop-after-uiomove-explicit",
        "Lepore's repair: buffers lose write permission after uiomove, writers ask for it",
        rule::write_drop::explicit_skeleton,
        rule::write_drop::after_uiomove_explicit,
        Status::Proposal,
    ),
    (
        "write-drop-after-uiomove-fault",
        "Lepore's repair: buffers lose write permission after uiomove, a store faults it back",
        rule::write_drop::fault_skeleton,
        rule::write_drop::after_uiomove_fault,
        Status::Proposal,
    ),
    (
        "repaired-write-drop",
        "Lepore's repair at bqrelse, explicit, on freebsd-2010-repaired",
        rule::repairs::repaired,
        rule::write_drop::repaired_bqrelse_explicit,
        Status::Reference,
    ),
    (
        "unmap-at-bqrelse",
        "buffers are mapped only while somebody holds them",
        skeleton::freebsd_2010,
        rule::windows::unmap_at_bqrelse,
        Status::Proposal,
    ),
    (
        "ubc-readonly-window",
        "NetBSD's UBC: readers' windows are read-only, text is unmapped at release",
        rule::write_drop::explicit_skeleton,
        rule::windows::ubc,
        Status::Proposal,
    ),
    (
        "unmapped-buffers-nosync",
        "FreeBSD 2013: buffers without mapping, DMA without maintenance",
        rule::windows::unmapped_skeleton,
        rule::windows::unmapped_nosync,
        Status::Historic("B7"),
    ),
    (
        "unmapped-buffers-sync",
        "FreeBSD 2015: buffers without mapping, DMA through a short-lived one",
        rule::windows::unmapped_skeleton,
        rule::windows::unmap_at_bqrelse,
        Status::Proposal,
    ),
];

/// The names, in the order of tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|row| row.0)
}

/// The policy of that name.
pub fn by_name(name: &str) -> Option<Policy> {
    let (name, about, skeleton, rule, status) = *POLICIES.iter().find(|row| row.0 == name)?;
    Some(Policy {
        name,
        about,
        skeleton: skeleton(),
        rule,
        status,
        edits: Vec::new(),
        routine_edits: Vec::new(),
    })
}

/// Every policy.
pub fn all() -> impl Iterator<Item = Policy> {
    names().filter_map(by_name)
}
