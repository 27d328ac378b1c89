//! Tells the story of a case under one policy, step by step, for somebody who has never seen the project.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Case, Row, StepRecord};
use crate::journal::Entry;
use crate::op::Outcome;
use crate::oracle::{Kind, Verdict};

/// The story.
pub fn explain(case: &Case, row: &Row) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", case.claim);
    let _ = writeln!(out, "policy {}, machine {}\n", row.policy, row.machine);
    let mut before: &[String] = &[];
    let mut mapped = Vec::new();
    for step in &row.steps {
        tell_step(&mut out, step);
        let mappings = mappings(step);
        if mappings != mapped {
            for mapping in &mappings {
                let _ = writeln!(out, "       {mapping}");
            }
            mapped = mappings;
        }
        if step.copies != before {
            for copy in &step.copies {
                let _ = writeln!(out, "       copy: {copy}");
            }
            before = &step.copies;
        }
        step.verdicts.iter().for_each(|v| tell_verdict(&mut out, v));
    }
    let verdict = row.verdicts.worst().map_or("clean", Kind::name);
    let _ = writeln!(out, "verdict: {verdict}");
    tell_words(&mut out, row);
    out
}

/// What the names of the steps mean.
fn tell_words(out: &mut String, row: &Row) {
    let planned = row.steps.iter().flat_map(|step| &step.journal);
    let words: BTreeMap<_, _> = planned
        .filter_map(|entry| match entry {
            Entry::Planned(s) => Some((s.what.name(), s.what.meaning())),
            _ => None,
        })
        .collect();
    if !words.is_empty() {
        let _ = writeln!(
            out,
            "\nsteps that begin with a dot are the policy's, in this order:"
        );
    }
    for (name, meaning) in words {
        let _ = writeln!(out, "  {name:<18} {meaning}");
    }
}

fn tell_step(out: &mut String, step: &StepRecord) {
    let _ = write!(out, "{:>3}  {}", step.step, step.op);
    let _ = match step.outcome {
        Outcome::Done => writeln!(out),
        Outcome::Value(word) => writeln!(out, "  -> {word:#010x}"),
        Outcome::Fault => writeln!(out, "  -> fault"),
        Outcome::Skipped(why) => writeln!(out, "  -> nothing done: {why}"),
    };
    tell_plans(out, step);
}

fn mappings(step: &StepRecord) -> Vec<String> {
    let only = step.pv_kva;
    let only = only.map(|kva| format!("only mapping: K {kva:#010x} (pv_kva)"));
    let listed = step.mappings.iter().map(mapping_text);
    only.into_iter().chain(listed).collect()
}

fn tell_plans(out: &mut String, step: &StepRecord) {
    for entry in &step.journal {
        if let Entry::Planned(s) = entry {
            let place = if s.len == 0 && s.va.0 == 0 {
                String::new()
            } else {
                format!(" {} {:#010x}", s.space, s.va.0)
            };
            let _ = writeln!(out, "       . {}{place}", s.what.name());
        }
    }
}

fn mapping_text(m: &serde_json::Value) -> String {
    let flags: Vec<&str> = m["flags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str())
        .collect();
    let is = |key: &str| m["pte"][key].as_bool().unwrap_or(false);
    format!(
        "mapping: {} {:#010x} {}, {}, {}  [{}]",
        m["space"].as_str().unwrap_or("?"),
        m["va"].as_u64().unwrap_or(0),
        if is("valid") { "valid" } else { "invalid" },
        if is("write") { "writable" } else { "read-only" },
        if is("cached") { "cached" } else { "uncached" },
        flags.join(" "),
    )
}

/// A verdict with its two places and, for code, both instructions.
pub fn tell_verdict(out: &mut String, v: &Verdict) {
    let _ = writeln!(out, "  ** {}: {}", v.kind.name(), headline(v));
    if let (Some(got), Some(want)) = (v.got, v.want) {
        if v.kind == Kind::StaleExec {
            let _ = writeln!(out, "       executed  {got:#010x}  {}", disassemble(got, v));
            let _ = writeln!(
                out,
                "       should be {want:#010x}  {}",
                disassemble(want, v)
            );
        } else {
            let _ = writeln!(out, "       got       {got:#010x}");
            let _ = writeln!(out, "       should be {want:#010x}");
        }
    }
    let _ = writeln!(out, "       the access: {}", v.during);
    let _ = writeln!(out, "       before it:  {}", v.because);
}

fn headline(v: &Verdict) -> String {
    let at = v.va.map_or(String::new(), |va| format!(" at {va}"));
    let pa = v.pa.map_or(String::new(), |pa| format!(" (physical {pa})"));
    let what = match v.kind {
        Kind::StaleExec => "the program executed a word that is not what was last stored there",
        Kind::StaleRead => "an access got bytes that are not what was last stored there",
        Kind::LostWrite => "the last store of a byte is in no memory, cache or buffer any more",
        Kind::StaleTranslation => "a TLB copy was used that the page table no longer agrees with",
        Kind::BrokenRule => "an invariant of the pmap does not hold",
        Kind::Panic => "the kernel panicked",
        Kind::Hang => "the same fault is taken again and again",
        Kind::Misuse => "a verb was called against its contract",
        Kind::Permitted => "old bytes that may still be seen",
    };
    format!("{what}{at}{pa}")
}

/// An ARM instruction in words.
pub fn disassemble(word: u32, v: &Verdict) -> String {
    let pc = v.va.map_or(0, |va| va.0);
    let options = unarm::Options::default();
    unarm::parse_arm(word, pc, &options)
        .display(&options)
        .to_string()
}
