//! Deduced defects on every set of the hardware facts that no manual settles: how the data cache allocates,
//! whether the second level is written through, what an uncached access does to a line that is there.
//!
//! A defect that no bug report shows is confirmed or refuted for each of the sixteen sets; a set is the
//! case's first machine with these fields changed. A case takes part if its source begins with the defect's number.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Profile;
use machine::profile::UncachedHit;
use serde::Serialize;

use super::suite::Played;
use super::{Case, run_one, suite};
use crate::decide::{Outcomes, joined};

/// The defects, by their numbers in `pmap-freebsd-netbsd.md` 5.2.
pub const DEFECTS: [&str; 8] = ["B23", "B24", "B25", "B26", "B27", "B28", "B44", "B46"];
/// The policy that has them all.
pub const POLICY: &str = "freebsd-2010";
const SOURCE: &str = "pmap-freebsd-netbsd.md ";

const ALLOCATION: [(bool, &str); 2] = [(false, "read-allocate"), (true, "write-allocate")];
const LEVEL2: [(bool, &str); 2] = [(false, "L2 write-through"), (true, "L2 write-back")];
const HITS: [(UncachedHit, &str); 4] = [
    (UncachedHit::HitServes, "hit serves"),
    (UncachedHit::Bypass, "bypass"),
    (UncachedHit::BypassButWriteUpdates, "write updates"),
    (UncachedHit::BypassStale, "bypass stale"),
];

/// A defect's verdict where some parameters are so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// The parameters.
    pub parameters: String,
    /// The verdict under [`POLICY`].
    pub verdict: String,
}

/// A defect's smallest sequence and what it shows where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Deduced {
    /// Which.
    pub defect: String,
    /// The case that is its sequence, by name.
    pub case: String,
    /// The sentence: why, in the words of the case's author.
    pub sentence: String,
    /// Verdicts; together they are about all sixteen sets.
    pub verdicts: Vec<Verdict>,
}

/// The defect that a case is about, if it is one of these.
pub fn defect(case: &Case) -> Option<&'static str> {
    let number = case.source.strip_prefix(SOURCE)?;
    let number = number.split([',', ' ', ';']).next()?;
    DEFECTS.iter().copied().find(|d| *d == number)
}

/// Runs a case of a deduced defect on every set of parameters.
///
/// # Errors
/// Its machine is not there.
pub fn deduce(played: &Played, defect: &str) -> Result<Deduced, String> {
    let case = &played.case;
    let machines = suite::machines(&played.file, case).map_err(|e| e.to_string())?;
    let policy = pmap::policy::by_name(POLICY).ok_or("the policy is gone")?;
    let mut outcomes = Outcomes::new();
    for (write_allocate, allocation) in ALLOCATION {
        for (write_back, level2) in LEVEL2 {
            for (hit, rule) in HITS {
                let mut profile = Profile::clone(&machines[0]);
                profile.dcache.write_allocate = write_allocate;
                profile.dcache.uncached_hit = hit;
                profile.icache.uncached_hit = hit;
                if let Some(l2) = &mut profile.l2 {
                    l2.write_back = write_back;
                }
                let row = run_one(case, Arc::new(profile), policy.clone());
                let point = [allocation, level2, rule].map(str::to_owned);
                outcomes.insert(point.to_vec(), kinds(&row));
            }
        }
    }
    let verdicts = joined(&outcomes).into_iter();
    let verdicts = verdicts.map(|(sets, verdict)| Verdict {
        parameters: parameters(&sets),
        verdict,
    });
    let said = case
        .expectations
        .iter()
        .find(|e| e.policy == POLICY && !e.because.is_empty());
    let slug = played.file.file_stem().unwrap_or_default();
    Ok(Deduced {
        defect: defect.to_owned(),
        case: slug.to_string_lossy().into_owned(),
        sentence: said.map_or(&case.claim, |e| &e.because).clone(),
        verdicts: verdicts.collect(),
    })
}

fn kinds(row: &super::Row) -> String {
    let kinds: Vec<&str> = row.verdicts.counts().keys().map(|k| k.name()).collect();
    match kinds.is_empty() {
        true => "clean".to_owned(),
        false => kinds.join(" and "),
    }
}

/// Coordinates that leave a choice out say all of it.
fn parameters(sets: &[Vec<String>]) -> String {
    let all = [ALLOCATION.len(), LEVEL2.len(), HITS.len()];
    let told = sets.iter().zip(all).filter(|(some, all)| some.len() < *all);
    let told: Vec<String> = told.map(|(some, _)| some.join(" or ")).collect();
    match told.is_empty() {
        true => "everywhere".to_owned(),
        false => told.join(", "),
    }
}

/// The defects as Markdown.
pub fn markdown(deduced: &[Deduced]) -> String {
    let mut by_defect: BTreeMap<&str, Vec<&Deduced>> = BTreeMap::new();
    for one in deduced {
        by_defect.entry(&one.defect).or_default().push(one);
    }
    let mut out = format!(
        "
## Deduced defects, by parameter set

Under `{POLICY}`, on the case's first machine with its data cache's allocation, its second level's write mode and
its rule for uncached hits changed: sixteen sets.

| defect | sequence | where | verdict | why |
|---|---|---|---|---|
"
    );
    for one in by_defect.into_values().flatten() {
        for verdict in &one.verdicts {
            let why = match verdict.verdict.as_str() {
                "clean" => "refuted there",
                _ => &one.sentence,
            };
            out.push_str(&format!(
                "| {} | {} | {} | {} | {why} |\n",
                one.defect, one.case, verdict.parameters, verdict.verdict
            ));
        }
    }
    out
}
