//! All cases of a directory: what the gate runs, and what tables of cases are made of.
//!
//! A case runs on each of its machines under every policy that fits and that it does not exclude. What it
//! expects is judged first and apart ([`Played::complaints`]); how it went is a table to compare with the
//! one of the last time ([`Played::table`]).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use machine::Profile;
use pmap::{Policy, Status};

use super::{Case, CaseError, Expectation, Row, read, run_one, tell_verdict};
use crate::op::Outcome;

/// The machine of cases that name none.
pub const MACHINE: &str = "sheevaplug";
/// Bytes of the largest profile file.
const PROFILE_MAX: u64 = 64 * 1024;
/// Classes of cycles that maintenance policies differ in.
const CLASSES: [&str; 6] = ["uncached", "maintenance", "drain", "memory", "l2", "walk"];

/// A case and its rows.
#[derive(Clone, Debug)]
pub struct Played {
    /// The file.
    pub file: PathBuf,
    /// The case.
    pub case: Case,
    /// A row for each machine and policy.
    pub rows: Vec<Row>,
}

/// The files below a directory whose names end with `.EXTENSION`, in the order of their paths.
///
/// # Errors
/// A directory cannot be read.
pub fn files(root: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Snapshots below a directory that belong to no case.
///
/// # Errors
/// A directory cannot be read.
pub fn orphans(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = files(root, "snap")?;
    found.retain(|snapshot| !snapshot.with_extension("kdl").exists());
    Ok(found)
}

/// The machines of a case: by name, or by the path of a profile beside the case.
///
/// # Errors
/// There is no such machine.
pub fn machines(file: &Path, case: &Case) -> Result<Vec<Arc<Profile>>, CaseError> {
    let default = [MACHINE.to_owned()];
    let names = if case.machines.is_empty() {
        &default[..]
    } else {
        &case.machines
    };
    names.iter().map(|name| machine(file, name)).collect()
}

/// The machine that a case names.
///
/// # Errors
/// There is no such machine.
pub fn machine(file: &Path, name: &str) -> Result<Arc<Profile>, CaseError> {
    let fail = |message: String| CaseError {
        file: file.display().to_string(),
        line: 0,
        message,
        caret: String::new(),
    };
    if let Some(profile) = Profile::embedded(name) {
        return Ok(profile);
    }
    let path = file.with_file_name(name);
    let bytes = std::fs::metadata(&path).map(|m| m.len());
    if !name.ends_with(".toml") || bytes.is_err() {
        let known: Vec<_> = Profile::names().collect();
        let known = known.join(", ");
        return Err(fail(format!(
            "no machine `{name}`; expected one of: {known}, or a profile (.toml) beside the case"
        )));
    }
    if bytes.is_ok_and(|b| b > PROFILE_MAX) {
        return Err(fail(format!(
            "{name}: a profile has at most {PROFILE_MAX} bytes"
        )));
    }
    let text = std::fs::read_to_string(&path).map_err(|e| fail(format!("{name}: {e}")))?;
    let profile = Profile::parse(&text).map_err(|e| fail(format!("{name}: {e}")))?;
    Ok(Arc::new(profile))
}

/// The policies that a case runs under on a machine.
pub fn policies(case: &Case, profile: &Profile) -> Vec<Policy> {
    let wanted = |p: &Policy| case.policies.is_empty() || case.policies.iter().any(|n| n == p.name);
    pmap::policy::all()
        .filter(|p| wanted(p) && p.fits(profile))
        .collect()
}

/// Reads a case and runs it on its machines under every policy that fits.
///
/// # Errors
/// The file is not a case, or names a machine that is not there.
pub fn play(file: &Path) -> Result<Played, CaseError> {
    let case = read(file)?;
    let mut rows = Vec::new();
    for profile in machines(file, &case)? {
        for policy in policies(&case, &profile) {
            rows.push(run_one(&case, profile.clone(), policy));
        }
    }
    let file = file.to_owned();
    Ok(Played { file, case, rows })
}

/// What a row found, in a word or two: `clean`, or kinds with their counts, the gravest first.
pub fn verdict(row: &Row) -> String {
    let counts = row.verdicts.counts();
    let kinds: Vec<String> = counts
        .iter()
        .map(|(k, n)| format!("{} {n}", k.name()))
        .collect();
    match kinds.is_empty() {
        true => "clean".to_owned(),
        false => kinds.join(", "),
    }
}

impl Played {
    /// What was expected and did not come true, one message each; nothing if all is well. A policy called
    /// `reference` is expected to be clean where the case does not say otherwise.
    pub fn complaints(&self) -> Vec<String> {
        let mut out = Vec::new();
        for expectation in &self.case.expectations {
            let rows = self.rows.iter();
            let mut rows = rows
                .filter(|r| expectation.of(r.policy, &r.machine))
                .peekable();
            if rows.peek().is_none() {
                out.push(self.never_runs(expectation));
            }
            let unmet = rows.filter(|row| !expectation.met(row));
            out.extend(unmet.map(|row| self.unmet(expectation, row)));
        }
        let references: Vec<&str> = pmap::policy::all()
            .filter(|p| p.status == Status::Reference)
            .map(|p| p.name)
            .collect();
        let unsaid = self.rows.iter().filter(|row| {
            references.contains(&row.policy)
                && self.case.expected(row.policy, &row.machine).is_none()
        });
        let dirty = unsaid.filter(|row| !row.verdicts.clean());
        out.extend(dirty.map(|row| self.reference_fails(row)));
        out
    }

    fn never_runs(&self, e: &Expectation) -> String {
        format!(
            "{}:{}: expected something of {}, which never runs here: it fits none of the case's machines, \
             or the case's `policy` line leaves it out",
            self.file.display(),
            e.number,
            e.policy
        )
    }

    fn unmet(&self, e: &Expectation, row: &Row) -> String {
        let mut expected = e.kind.map_or("clean", |k| k.name()).to_owned();
        let mut found = verdict(row);
        if let Some(n) = e.uncached {
            let _ = write!(expected, " with {n} uncached");
            let _ = write!(found, " with {} uncached", row.uncached());
        }
        let mut out = format!(
            "{}:{}: expected {} on {} to be {expected}, found {found}\n",
            self.file.display(),
            e.number,
            row.policy,
            row.machine,
        );
        if !e.because.is_empty() {
            let _ = writeln!(out, "       because:    {}", e.because);
        }
        self.tell(&mut out, row);
        out
    }

    fn reference_fails(&self, row: &Row) -> String {
        let mut out = format!(
            "{}: {} is called `reference`, but on {} it is {}\n",
            self.file.display(),
            row.policy,
            row.machine,
            verdict(row)
        );
        self.tell(&mut out, row);
        out
    }

    /// The first verdict with its two places, and the command that shows it again.
    fn tell(&self, out: &mut String, row: &Row) {
        if let Some(first) = row.verdicts.first.first() {
            tell_verdict(out, first);
        }
        let _ = writeln!(out, "  replay: {}", self.command(row));
    }

    /// The command that tells a row's story.
    pub fn command(&self, row: &Row) -> String {
        let machine = match self.case.machines.len() {
            0 | 1 => String::new(),
            _ => format!(" --machine {}", self.machine_argument(&row.machine)),
        };
        format!(
            "cargo run -- replay --explain --policy {}{machine} {}",
            row.policy,
            self.file.display()
        )
    }

    /// How `--machine` takes a machine: by name, or by the path of the profile beside the case.
    fn machine_argument(&self, name: &str) -> String {
        if Profile::embedded(name).is_some() {
            return name.to_owned();
        }
        let profile = format!("{name}.toml");
        let named = self.case.machines.iter().find(|m| m.ends_with(&profile));
        let path = self.file.with_file_name(named.unwrap_or(&profile));
        path.display().to_string()
    }

    /// The rows as a table: a policy's verdicts, its cycles, and those of the classes that policies differ in.
    pub fn table(&self) -> String {
        let mut out = format!("{}\n", self.case.claim);
        let mut machine = "";
        for row in &self.rows {
            if row.machine != machine {
                machine = &row.machine;
                let _ = write!(out, "\n{machine:<34}{:<28}{:>12}", "verdicts", "cycles");
                CLASSES.iter().for_each(|class| {
                    let _ = write!(out, "{class:>12}");
                });
                out.push('\n');
            }
            out.push_str(&table_row(row));
        }
        out
    }
}

fn table_row(row: &Row) -> String {
    let total: u64 = row.cycles.values().sum();
    let mut out = format!("{:<34}{:<28}{total:>12}", row.policy, verdict(row));
    for class in CLASSES {
        let cycles = row.cycles.get(class).copied().unwrap_or(0);
        let _ = write!(out, "{cycles:>12}");
    }
    let skipped = |step: &&super::StepRecord| matches!(step.outcome, Outcome::Skipped(_));
    for step in row.steps.iter().filter(skipped) {
        let _ = write!(out, "  step {} did nothing", step.step);
    }
    out.push('\n');
    out
}
