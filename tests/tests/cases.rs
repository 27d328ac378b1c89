//! The gate's cases: one test for each file under `tests/cases`, named by its area and its claim.
//!
//! A case runs on its machines under every policy that fits. Its `expect` lines are checked first: a
//! snapshot never excuses a wrong answer. Then the table of all policies is compared with the snapshot
//! beside the file; `INSTA_UPDATE=always cargo test -p tests --test cases` accepts what changed, CI sets
//! `INSTA_UPDATE=no`. A snapshot without a case fails, so that none is left behind by a renamed file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lab::case::suite;
use libtest_mimic::{Arguments, Failed, Trial};

/// From the root of the repository, where the commands that failures print are typed.
const CASES: &str = "tests/cases";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = root.expect("the tests are a member of the workspace");
    std::env::set_current_dir(root).expect("the workspace can be entered");
    let files = suite::files(Path::new(CASES), "kdl").expect("the cases can be read");
    let mut trials = vec![Trial::test("every-snapshot-has-its-case", orphans)];
    for file in files {
        trials.push(Trial::test(name(&file), move || check(&file)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// `area/claim`.
fn name(file: &Path) -> String {
    let inner = file.strip_prefix(CASES).unwrap_or(file);
    inner.with_extension("").display().to_string()
}

fn check(file: &Path) -> Result<(), Failed> {
    let played = suite::play(file)?;
    let complaints = played.complaints();
    if !complaints.is_empty() {
        return Err(complaints.join("\n").into());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(directory(file));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let claim = file.file_stem().unwrap_or_default().to_string_lossy();
    settings.bind(|| insta::assert_snapshot!(claim.as_ref(), played.table()));
    Ok(())
}

/// Insta takes a relative path from this file, so it gets the whole one.
fn directory(file: &Path) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new("."));
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

fn orphans() -> Result<(), Failed> {
    let orphans = suite::orphans(Path::new(CASES))?;
    if orphans.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = orphans.iter().map(|p| p.display().to_string()).collect();
    let names = names.join("\n");
    Err(format!("these snapshots have no case beside them; remove them:\n{names}").into())
}
