//! Decision tables: what each policy does to every set of up to three mappings, at every hook, as a
//! snapshot in `tests/decisions`.
//!
//! `INSTA_UPDATE=always cargo test -p tests --test decisions` accepts what changed; before that,
//! `cargo run -- diff POLICY --snapshot tests/decisions/POLICY.snap` says it in words.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use lab::case::suite;
use lab::decide::{Table, difference, table};
use libtest_mimic::{Arguments, Failed, Trial};
use pmap::PvFlags;
use pmap::hook::{Hook, Verb, View};
use pmap::plan::Do;
use pmap::rule::{Rule, freebsd_2010};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/decisions");
/// One condition of a rule may change so many lines.
const LINES_MAX: usize = 40;

fn main() -> ExitCode {
    let mut trials: Vec<Trial> = pmap::policy::names()
        .map(|name| Trial::test(name, move || check(name)))
        .collect();
    trials.push(Trial::test("every-table-has-its-policy", orphans));
    trials.push(Trial::test(
        "one-condition-changes-few-lines",
        one_condition,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn check(name: &str) -> Result<(), Failed> {
    let policy = pmap::policy::by_name(name).ok_or("the policy is gone")?;
    let made = table(&policy);
    let text = made.text();
    if Table::parse(&text)? != made {
        return Err("a table does not read back as it was written".into());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(DIRECTORY);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
    Ok(())
}

fn orphans() -> Result<(), Failed> {
    let names: BTreeSet<&str> = pmap::policy::names().collect();
    for file in suite::files(Path::new(DIRECTORY), "snap")? {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if !names.contains(stem.as_ref()) {
            return Err(format!("{}: there is no such policy", file.display()).into());
        }
    }
    Ok(())
}

/// `freebsd-2010` with one condition changed, by what the rule is shown or what it plans.
const CONDITIONS: [(&str, Rule); 4] = [
    (
        "one writer among kernel mappings only is no conflict",
        |h, v, f, p| {
            let mut all = v.mappings.to_vec();
            let kernel_only = all.iter().all(|m| m.space.is_kernel());
            let writers = all.iter().filter(|m| m.flags.contains(PvFlags::WRITE));
            if kernel_only && writers.count() == 1 {
                all.iter_mut().for_each(|m| m.flags -= PvFlags::WRITE);
            }
            freebsd_2010::plan(
                h,
                &View {
                    mappings: &all,
                    ..*v
                },
                f,
                p,
            );
        },
    ),
    ("cached again without a TLB flush", |h, v, f, p| {
        freebsd_2010::plan(h, v, f, p);
        let on = |n: usize| p.steps.get(n).is_some_and(|s| s.what == Do::PteCache(true));
        let flushes = |n: &usize| p.steps[*n].what.is_tlb() && on(n + 1);
        let gone: Vec<usize> = (0..p.steps.len()).filter(flushes).collect();
        for n in gone.into_iter().rev() {
            p.steps.remove(n);
        }
    }),
    (
        "the last writer of a space asks for its aliases too",
        |h, v, f, p| {
            let hook = match *h {
                Hook::Left(flags) => Hook::Left(flags - PvFlags::MWC),
                other => other,
            };
            freebsd_2010::plan(&hook, v, f, p);
        },
    ),
    ("clearbit does not cache again", |h, v, f, p| {
        freebsd_2010::plan(h, v, f, p);
        if matches!(
            h,
            Hook::WillStore {
                verb: Verb::ClearWrite,
                ..
            }
        ) {
            let changes = |d: Do| matches!(d, Do::PteCache(_) | Do::Flags { .. });
            p.steps.retain(|s| !changes(s.what));
        }
    }),
];

/// A change of one condition is seen, in words, and changes few lines.
fn one_condition() -> Result<(), Failed> {
    let policy = pmap::policy::by_name("freebsd-2010").ok_or("the policy is gone")?;
    let before = table(&policy);
    let mut wide = String::new();
    for (name, rule) in CONDITIONS {
        let mut changed = policy.clone();
        changed.rule = rule;
        let after = table(&changed);
        let differing = difference(&before, &after);
        let first = differing.first().ok_or(format!("{name}: shows nowhere"))?;
        let sentence = first.sentence("before", "after");
        if !sentence.contains("before: ") || !sentence.contains("after: ") {
            return Err(format!("{name}: not a sentence: {sentence}").into());
        }
        let lines = changed_lines(&before.text(), &after.text());
        if lines >= LINES_MAX {
            let words = differing.iter().map(|d| d.sentence("before", "after"));
            let words: String = words.collect();
            wide += &format!("{name}: {lines} lines change:\n{words}");
        }
    }
    if !wide.is_empty() {
        return Err(wide.into());
    }
    Ok(())
}

/// Lines that are in one text only.
fn changed_lines(a: &str, b: &str) -> usize {
    let (a, b): (BTreeSet<&str>, BTreeSet<&str>) = (a.lines().collect(), b.lines().collect());
    a.symmetric_difference(&b).count()
}
