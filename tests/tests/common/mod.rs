//! What several tests share.

#![allow(dead_code, reason = "each test uses its own part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab::World;
use lab::oracle::{Oracle, Verdict};
use lab::{State, case};
use machine::Profile;
use pmap::Policy;

/// A path in this package.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A profile: embedded, or by its path beside `near`.
pub fn profile(name: &str, near: &Path) -> Arc<Profile> {
    if let Some(profile) = Profile::embedded(name) {
        return profile;
    }
    let path = near.join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    Arc::new(Profile::parse(&text).unwrap_or_else(|e| panic!("{path:?}: {e}")))
}

/// A machine of `tests/data/machines`, or an embedded one.
pub fn machine(name: &str) -> Arc<Profile> {
    match Profile::embedded(name) {
        Some(profile) => profile,
        None => profile(&format!("{name}.toml"), &here("data/machines")),
    }
}

/// The policy of that name.
pub fn policy(name: &str) -> Policy {
    pmap::policy::by_name(name).unwrap_or_else(|| panic!("no policy {name}"))
}

/// A booted world under a policy, watched by the oracle.
pub fn world(machine: &Arc<Profile>, policy: Policy) -> World<Oracle> {
    let state = State::boot(machine.clone());
    let layout = state.pmap.layout;
    let oracle = Oracle::new(&state.machine, (layout.tables.1, layout.tables.2));
    World::new(state, policy, oracle)
}

/// Findings as lines of text, both places in each.
pub fn told(found: &[Verdict]) -> String {
    let line = |v: &Verdict| format!("{}: {}; {}\n", v.kind.name(), v.during, v.because);
    found.iter().map(line).collect()
}

/// A case of `tests/cases`.
pub fn read(path: &str) -> case::Case {
    case::read(&here("cases").join(path)).unwrap_or_else(|e| panic!("{e}"))
}
