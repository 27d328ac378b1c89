//! The policies there are: a skeleton and a rule each, one line a policy.

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
        skeleton::freebsd_2010,
        rule::always_flush::plan,
        Status::Reference,
    ),
    (
        "freebsd-2010",
        "pmap_fix_cache as FreeBSD had it from 2010 to 2016 (seeds/001)",
        skeleton::freebsd_2010,
        rule::freebsd_2010::plan,
        Status::Historic("B23 B24 B25 B26 B27 B28 B44 B45 B46"),
    ),
    (
        "write-drop-bqrelse-explicit",
        "Lepore's repair: buffers lose write permission at bqrelse, writers ask for it",
        skeleton::freebsd_2010,
        rule::write_drop::bqrelse_explicit,
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
    })
}

/// Every policy.
pub fn all() -> impl Iterator<Item = Policy> {
    names().filter_map(by_name)
}
