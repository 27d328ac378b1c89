//! Keeps the house style: imports go one way, every file says what it is, no file is a room nobody wants to
//! enter, nothing is left unfinished.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers, lowest first. A crate may use those before it.
const LAYERS: [&str; 6] = ["machine", "pmap", "vm", "vfs_sim", "kern", "lab"];
const LINES_MAX: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

fn all() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for layer in LAYERS.iter().chain(&["tests", "fuzz"]) {
        for part in ["src", "tests", "benches", "examples", "fuzz_targets"] {
            sources(&root().join(layer).join(part), &mut files);
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_owned(), text)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn imports_go_one_way() {
    let mut wrong = Vec::new();
    for (n, layer) in LAYERS.iter().enumerate() {
        let manifest = fs::read_to_string(root().join(layer).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
        for above in &LAYERS[n + 1..] {
            if dependencies
                .lines()
                .any(|l| l.starts_with(&format!("{above} ")))
            {
                wrong.push(format!("{layer}/Cargo.toml depends on {above}"));
            }
        }
        for (path, text) in all() {
            if !path.starts_with(Path::new(layer).join("src")) {
                continue;
            }
            for above in &LAYERS[n + 1..] {
                let used = |l: &str| {
                    let l = l.trim_start();
                    l.starts_with(&format!("use {above}::"))
                        || l.starts_with(&format!("pub use {above}::"))
                };
                if text.lines().any(used) {
                    wrong.push(format!("{} uses {above}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_file_says_what_it_is() {
    let silent: Vec<_> = all()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//!") && !text.starts_with("#!["))
        .collect();
    let names: Vec<_> = silent.iter().map(|(path, _)| path).collect();
    assert!(names.is_empty(), "without a //! head: {names:#?}");
}

#[test]
fn no_file_is_too_long_and_nothing_is_left_unfinished() {
    let marks = ["todo!(", "unimplemented!(", "FIXME", "XXX"];
    for (path, text) in all() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines", path.display());
        if path.ends_with("tidy.rs") {
            continue;
        }
        for mark in marks {
            assert!(!text.contains(mark), "{}: {mark}", path.display());
        }
    }
}
