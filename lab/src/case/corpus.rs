//! The corpus: every case with its verdict under each policy, and what cannot be said as a case yet.
//!
//! CORPUS.md is this, written by `pmaplab list corpus`; a test keeps it up to date.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Expectation;
use super::parameters::{self, Deduced};
use super::suite::{self, Played};
use crate::parallel;

/// The file of what cannot be expressed, in the directory of the cases.
const MISSING: &str = "missing.toml";

/// The corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Corpus {
    /// The cases, by path.
    pub cases: Vec<Entry>,
    /// What cannot be a case yet.
    pub missing: Vec<Missing>,
    /// Deduced defects on every set of parameters.
    pub deduced: Vec<Deduced>,
}

/// A case on one machine.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Directory of the case.
    pub area: String,
    /// The file's name, without its end.
    pub slug: String,
    /// What it claims.
    pub mechanism: String,
    /// Machine.
    pub machine: String,
    /// Where it is from.
    pub source: String,
    /// Verdict by policy.
    pub verdicts: BTreeMap<&'static str, String>,
    /// Why, in the words of the case's author, by policy.
    pub because: BTreeMap<String, String>,
}

/// An entry of a bug list that cannot be a case yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Number and name in the list.
    pub slug: String,
    /// What goes wrong.
    pub mechanism: String,
    /// What is missing here.
    pub needs: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MissingFile {
    missing: Vec<Missing>,
}

impl Corpus {
    /// Runs every case of a directory and reads its list of what is missing.
    ///
    /// # Errors
    /// The directory cannot be read, or a file in it is not what it should be.
    pub fn gather(root: &Path) -> Result<Self, String> {
        let shown = root.display();
        let files = suite::files(root, "kdl").map_err(|e| format!("{shown}: {e}"))?;
        let (mut cases, mut deduced) = (Vec::new(), Vec::new());
        let played = parallel::map(&files, |file| {
            let played = suite::play(file).map_err(|e| e.to_string())?;
            let defect = parameters::defect(&played.case);
            let deduced = defect.map(|d| parameters::deduce(&played, d)).transpose()?;
            Ok::<_, String>((entries(root, &played), deduced))
        });
        for of_case in played {
            let (entries, defect) = of_case?;
            cases.extend(entries);
            deduced.extend(defect);
        }
        let missing = missing(root)?;
        Ok(Self {
            cases,
            missing,
            deduced,
        })
    }

    /// The corpus as Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::from(HEAD);
        let mut area = "";
        let mut slug = "";
        for entry in &self.cases {
            if entry.area != area {
                area = &entry.area;
                let _ = write!(out, "\n## {area}\n");
            }
            if entry.slug != slug {
                slug = &entry.slug;
                let (mechanism, source) = (&entry.mechanism, &entry.source);
                let _ = write!(out, "\n### {slug}\n\n{mechanism}.\n\nSource: {source}\n\n");
            }
            let _ = writeln!(out, "- `{}`: {}", entry.machine, verdicts(&entry.verdicts));
            for (policy, because) in &entry.because {
                let _ = writeln!(out, "  - `{policy}`: {because}");
            }
        }
        out.push_str(&parameters::markdown(&self.deduced));
        out.push_str(MISSING_HEAD);
        for m in &self.missing {
            let _ = writeln!(out, "| {} | {} | {} |", m.slug, m.mechanism, m.needs);
        }
        out
    }
}

const HEAD: &str = "# Corpus

Written by `cargo run -- list corpus > CORPUS.md`; a test fails if it is not up to date.
Each case is a file `tests/cases/AREA/SLUG.kdl`; its story under a policy is told by
`cargo run -- replay --explain --policy POLICY FILE`.
";

const MISSING_HEAD: &str = "
## What cannot be a case yet

| entry | what goes wrong | what is missing |
|---|---|---|
";

fn entries(root: &Path, played: &Played) -> Vec<Entry> {
    let case = &played.case;
    let inner = played.file.strip_prefix(root).unwrap_or(&played.file);
    let area = inner.parent().unwrap_or(Path::new("")).display();
    let slug = played.file.file_stem().unwrap_or_default();
    let mut out: Vec<Entry> = Vec::new();
    for row in &played.rows {
        if out.last().is_none_or(|e| e.machine != row.machine) {
            let here = |e: &&Expectation| e.of(&e.policy, &row.machine);
            let said = case.expectations.iter().filter(here);
            let said = said.filter(|e| !e.because.is_empty());
            out.push(Entry {
                area: area.to_string(),
                slug: slug.to_string_lossy().into_owned(),
                mechanism: case.claim.clone(),
                machine: row.machine.clone(),
                source: case.source.clone(),
                verdicts: BTreeMap::new(),
                because: said
                    .map(|e| (e.policy.clone(), e.because.clone()))
                    .collect(),
            });
        }
        let kinds: Vec<&str> = row.verdicts.counts().keys().map(|k| k.name()).collect();
        let verdict = match kinds.is_empty() {
            true => "clean".to_owned(),
            false => kinds.join(" and "),
        };
        if let Some(entry) = out.last_mut() {
            entry.verdicts.insert(row.policy, verdict);
        }
    }
    out
}

/// `clean` under these; `stale-exec` under those.
fn verdicts(by_policy: &BTreeMap<&str, String>) -> String {
    let mut by_verdict: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (policy, verdict) in by_policy {
        by_verdict.entry(verdict).or_default().push(policy);
    }
    let one = |(verdict, policies): (&str, Vec<&str>)| match policies.len() == by_policy.len() {
        true => format!("**{verdict}** under every policy"),
        false => format!("**{verdict}** under {}", policies.join(", ")),
    };
    by_verdict
        .into_iter()
        .map(one)
        .collect::<Vec<_>>()
        .join("; ")
}

fn missing(root: &Path) -> Result<Vec<Missing>, String> {
    let path = root.join(MISSING);
    let shown = path.display();
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("{shown}: {e}")),
    };
    let file: MissingFile = toml::from_str(&text).map_err(|e| format!("{shown}: {e}"))?;
    Ok(file.missing)
}
