//! CORPUS.md says what the cases say.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use lab::case::corpus::Corpus;

static CORPUS: LazyLock<Corpus> = LazyLock::new(|| {
    let cases = root().join("tests/cases");
    Corpus::gather(&cases).unwrap_or_else(|e| panic!("{e}"))
});

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("a member of the workspace")
        .to_owned()
}

#[test]
fn corpus_md_is_up_to_date() {
    let written = std::fs::read_to_string(root().join("CORPUS.md")).unwrap_or_default();
    let wanted = CORPUS.markdown();
    let differing = wanted.lines().zip(written.lines()).find(|(w, is)| w != is);
    assert!(
        wanted == written,
        "CORPUS.md is not up to date; write it with: cargo run -- list corpus > CORPUS.md\n\
         first line that differs, wanted and found: {differing:?}"
    );
}

#[test]
fn every_deduced_defect_has_a_verdict_for_each_parameter_set() {
    for defect in lab::case::parameters::DEFECTS {
        let of = |d: &&lab::case::parameters::Deduced| d.defect == defect;
        let mut cases = CORPUS.deduced.iter().filter(of).peekable();
        assert!(cases.peek().is_some(), "{defect}: no case");
        for case in cases {
            assert!(
                !case.verdicts.is_empty() && !case.sentence.is_empty(),
                "{case:?}"
            );
        }
    }
}

#[test]
fn what_is_missing_says_what_it_needs() {
    for missing in &CORPUS.missing {
        let words = [&missing.slug, &missing.mechanism, &missing.needs];
        assert!(words.iter().all(|w| !w.trim().is_empty()), "{missing:?}");
        let whole = words.iter().all(|w| !w.contains(['|', '\n']));
        assert!(whole, "{missing:?} does not fit a row of a table");
    }
    for case in &CORPUS.cases {
        assert!(!case.source.is_empty(), "{}: no source", case.slug);
    }
}
