//! What is committed of a policy's mutants: each one's fate, and the killers, which are tried first the next
//! time. `tests/mutants/POLICY.txt` has a line for each mutant; `tests/mutants/*.kdl` are cases on bare pages.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use machine::Profile;

use super::bench::{Move, lines, moves};
use crate::case::{self, Case, suite};

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The killer finds something under it and nothing under its base.
    Killed {
        /// A case's name.
        by: String,
    },
    /// Nowhere was any state another than its base's.
    Inert,
    /// Another step does its work: the killer finds something only if both are dropped.
    Covered {
        /// The other mutant's name.
        with: String,
        /// A case's name.
        by: String,
    },
    /// Nothing was found, and all inputs together take more cycles: the step is there for speed.
    Slower {
        /// A case that shows it.
        by: String,
    },
    /// It changed something, and no search that reaches its step found anything: the step is not needed there.
    Proved,
    /// It changed something, and nothing was found.
    Open,
}

/// A small case that killed some mutant.
#[derive(Clone, PartialEq, Debug)]
pub struct Killer {
    /// Its file's name, without the end.
    pub name: String,
    /// Machine.
    pub machine: String,
    /// Operations.
    pub moves: Vec<Move>,
}

/// Fates by mutant, in order.
pub type Fates = Vec<(String, Fate)>;

/// The file of a policy's fates.
pub fn file(directory: &Path, policy: &str) -> PathBuf {
    directory.join(format!("{policy}.txt"))
}

/// Reads the fates of a policy; none if there is no file.
///
/// # Errors
/// The line that is none, and what was expected.
pub fn read_fates(file: &Path) -> Result<Fates, String> {
    let shown = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("{shown}: {e}")),
    };
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|(n, line)| {
            fate(line).ok_or_else(|| {
                format!(
                    "{shown}:{}: expected `MUTANT: killed by CASE`, `inert`, `covered by MUTANT, killed \
                     with it by CASE`, `slower in CASE`, `proved` or `open`",
                    n + 1
                )
            })
        })
        .collect()
}

fn fate(line: &str) -> Option<(String, Fate)> {
    let (mutant, said) = line.split_once(": ")?;
    let fate = match said {
        "inert" => Fate::Inert,
        "proved" => Fate::Proved,
        "open" => Fate::Open,
        _ => match said.split_once(' ')? {
            ("killed", by) => Fate::Killed {
                by: by.strip_prefix("by ")?.to_owned(),
            },
            ("slower", by) => Fate::Slower {
                by: by.strip_prefix("in ")?.to_owned(),
            },
            ("covered", both) => {
                let (with, by) = both
                    .strip_prefix("by ")?
                    .split_once(", killed with it by ")?;
                Fate::Covered {
                    with: with.to_owned(),
                    by: by.to_owned(),
                }
            }
            _ => return None,
        },
    };
    Some((mutant.to_owned(), fate))
}

/// The fates as text.
pub fn fates_text(policy: &str, fates: &Fates) -> String {
    let mut out = format!(
        "# Every mutant of {policy}, written by `pmaplab mutate --policy {policy} --write`.\n"
    );
    for (mutant, fate) in fates {
        let _ = writeln!(out, "{mutant}: {fate}");
    }
    out
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fate::Killed { by } => write!(f, "killed by {by}"),
            Fate::Inert => f.write_str("inert"),
            Fate::Covered { with, by } => write!(f, "covered by {with}, killed with it by {by}"),
            Fate::Slower { by } => write!(f, "slower in {by}"),
            Fate::Proved => f.write_str("proved"),
            Fate::Open => f.write_str("open"),
        }
    }
}

/// Reads the killers of a directory; none if there is no directory.
///
/// # Errors
/// A file is no case on bare pages of one machine.
pub fn read_killers(directory: &Path) -> Result<Vec<Killer>, String> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let shown = directory.display();
    let files = suite::files(directory, "kdl").map_err(|e| format!("{shown}: {e}"))?;
    files.iter().map(|file| read_killer(file)).collect()
}

fn read_killer(file: &Path) -> Result<Killer, String> {
    let case = case::read(file).map_err(|e| e.to_string())?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    match (moves(&case), case.machines.as_slice()) {
        (Some(moves), [machine]) if Profile::embedded(machine).is_some() => Ok(Killer {
            name: name.into_owned(),
            machine: machine.clone(),
            moves,
        }),
        _ => Err(format!(
            "{}: expected a case on bare pages of one machine",
            file.display()
        )),
    }
}

/// Killers of a directory that none of its files of fates names.
///
/// # Errors
/// The directory or a file of it cannot be read.
pub fn unnamed(directory: &Path) -> Result<Vec<String>, String> {
    let shown = directory.display();
    let files = suite::files(directory, "txt").map_err(|e| format!("{shown}: {e}"))?;
    let mut names = std::collections::BTreeSet::new();
    for file in files {
        for (_, fate) in read_fates(&file)? {
            if let Fate::Killed { by } | Fate::Covered { by, .. } | Fate::Slower { by } = fate {
                names.insert(by);
            }
        }
    }
    let killers = read_killers(directory)?.into_iter().map(|k| k.name);
    Ok(killers.filter(|name| !names.contains(name)).collect())
}

impl Killer {
    /// The killer as a case's text.
    pub fn text(&self) -> String {
        let case = Case {
            claim: format!(
                "correct policies are clean here; the first mutant that is not: {}",
                self.name
            ),
            source: "pmaplab mutate".to_owned(),
            machines: vec![self.machine.clone()],
            lines: lines(&self.moves),
            ..Case::default()
        };
        case::write(&case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_read_back_as_they_were_written() {
        let lines = [
            "drop tlb_flush_id at gone:remove: killed by some-case",
            "narrow dcache_wb start line at begins:protect: inert",
            "skeleton remove drop sync: covered by drop x at any, killed with it by some-case",
            "routine l2_range drop drain: open",
        ];
        for line in lines {
            let (mutant, fate) = fate(line).expect(line);
            assert_eq!(format!("{mutant}: {fate}"), line);
        }
        assert_eq!(fate("drop x at any: dead"), None);
    }
}
