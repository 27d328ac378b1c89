//! What the SheevaPlug story predicts besides its calibrated ratio, each row measured on a machine of its
//! own under one policy.
//!
//! The cost of an uncached fetch is calibrated on the seed's ratio for the 5-word loop; everything here
//! follows from it and from the model, and nothing is fitted.

use std::sync::Arc;

use machine::Profile;
use pmap::Policy;
use serde::Serialize;

use super::clusters;
use super::sheevaplug::TURNS;
use super::stage::Stage;
use crate::journal::{Detail, Entry};

/// Cycles of an uncached burst before calibration (`hardware.md` 3.4).
const UNCALIBRATED_FETCH: u32 = 100;

/// One prediction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// What is measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What to compare it with.
    pub note: String,
}

pub(super) fn row(what: &str, value: f64, unit: &'static str, note: &str) -> Prediction {
    Prediction {
        what: what.to_owned(),
        value,
        unit,
        note: note.to_owned(),
    }
}

/// Measures every prediction under a policy.
///
/// # Errors
/// A program could not be run; says which.
pub fn predict(profile: &Arc<Profile>, policy: &Policy) -> Result<Vec<Prediction>, String> {
    let mut out = loops(profile, policy)?;
    out.push(other_program(profile, policy)?);
    out.extend(poisoning(profile, policy)?);
    out.extend(order(profile, policy)?);
    out.extend(clusters::headers(profile, policy)?);
    out.extend(clusters::damage(profile)?);
    Ok(out)
}

fn slowdown(profile: &Arc<Profile>, policy: &Policy, program: &str) -> Result<f64, String> {
    let mut stage = Stage::new(profile.clone(), policy.clone());
    let path = format!("/bin/{program}");
    let turns = TURNS.to_string();
    let (before, _) = stage.timed(&path, &turns)?;
    stage.run("/bin/cat", &["-q", &path])?;
    let (after, _) = stage.timed(&path, &turns)?;
    Ok(after / before)
}

fn loops(profile: &Arc<Profile>, policy: &Policy) -> Result<Vec<Prediction>, String> {
    let mut raw = (**profile).clone();
    raw.cost.uncached_fetch = UNCALIBRATED_FETCH;
    let mut out = vec![row(
        "slowdown, 5-word loop, uncalibrated",
        slowdown(&Arc::new(raw), policy, "testsimple")?,
        "x",
        "uncached burst at hardware.md's 100 cycles",
    )];
    let variants = [
        ("testsimple4", "slowdown, 4-word loop", "one burst a turn"),
        (
            "testsimple",
            "slowdown, 5-word loop",
            "two bursts a turn; calibrated on the seed's 12.9",
        ),
        (
            "testsimple8",
            "slowdown, 8-word loop",
            "two bursts a turn, more work",
        ),
        (
            "testsimple1k",
            "slowdown, 5-word loop over a 1 KB boundary",
            "bursts end at the boundary",
        ),
    ];
    for (program, what, note) in variants {
        out.push(row(what, slowdown(profile, policy, program)?, "x", note));
    }
    Ok(out)
}

/// `big` has calls all over its text, so it misses the cache where the loop hits.
fn other_program(profile: &Arc<Profile>, policy: &Policy) -> Result<Prediction, String> {
    let mut stage = Stage::new(profile.clone(), policy.clone());
    let args = ["1", "20"];
    stage.run("/bin/big", &args)?;
    let before = stage.run("/bin/big", &args)?.cost.total();
    stage.run("/bin/cat", &["-q", "/bin/big"])?;
    let after = stage.run("/bin/big", &args)?.cost.total();
    let ratio = after as f64 / before as f64;
    Ok(row(
        "slowdown of `big`",
        ratio,
        "x",
        "text larger than the instruction cache",
    ))
}

/// Who poisons how much, and what heals it.
fn poisoning(profile: &Arc<Profile>, policy: &Policy) -> Result<Vec<Prediction>, String> {
    let mut stage = Stage::new(profile.clone(), policy.clone());
    stage.run("/bin/big", &[])?;
    let exec_alone = stage.share_after("/bin/big")?;
    stage.run("/bin/cat", &["-q", "-n", "4096", "/bin/big"])?;
    let header = stage.share_after("/bin/big")?;
    stage.run("/bin/cat", &["-q", "/bin/big"])?;
    let whole = stage.share_after("/bin/big")?;
    stage.recycle_buffers();
    let recycled = stage.share_after("/bin/big")?;
    let block = f64::from(stage.world.state.vfs.config.block_bytes) / 1024.0;
    let note = format!("one block of {block} KB of 264 KB");
    Ok(vec![
        row(
            "`big` uncached after exec alone",
            exec_alone,
            "% of its mapped text",
            "the pager path unmaps at once",
        ),
        row(
            "`big` uncached after a read of 4 KB",
            header,
            "% of its mapped text",
            &note,
        ),
        row(
            "`big` uncached after a read of all",
            whole,
            "% of its mapped text",
            "",
        ),
        row(
            "`big` uncached after its buffers were recycled",
            recycled,
            "% of its mapped text",
            "as after a reboot",
        ),
    ])
}

/// Whether the text was mapped before or after the read decides between a flush and a fault.
fn order(profile: &Arc<Profile>, policy: &Policy) -> Result<Vec<Prediction>, String> {
    let mut out = Vec::new();
    for (order, note) in [
        ("map-first", "text mapped, then the buffer: flushed"),
        (
            "read-first",
            "buffer first, then the text: uncached at the fault, nothing flushed",
        ),
    ] {
        let mut stage = Stage::new(profile.clone(), policy.clone());
        stage.world.journal.detail = Detail::Plans;
        stage.run("/bin/patchlib", &[order, &format!("/lib/{order}.code")])?;
        let flushed = stage.world.journal.take();
        let page = |e: &Entry| matches!(e, Entry::Planned(s) if s.what.name() == "idcache_wbinv" && s.va.0 >= 0x1000_0000);
        let count = flushed.iter().filter(|(_, e)| page(e)).count();
        let what = format!("text pages flushed to uncache them, {order}");
        out.push(row(&what, count as f64, "pages", note));
    }
    Ok(out)
}
