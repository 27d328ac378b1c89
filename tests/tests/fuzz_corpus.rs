//! The fuzz targets on the stable compiler: every corpus file is replayed, every body runs its smoke budget
//! of random and mutated inputs, and targets, binaries and corpus folders agree.
//!
//! `PMAPLAB_SECONDS=600 PMAPLAB_TARGET=policy_ops cargo test -p tests --test fuzz_corpus campaign` makes it a
//! campaign; `PMAPLAB_INPUT=FILE PMAPLAB_TARGET=NAME cargo test -p tests --test fuzz_corpus one_input` replays one
//! input. See `fuzz/README.md`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lab::fuzz::{Budget, TARGETS, Target, by_name};
use lab::shrink;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|e| stem(e.unwrap().path())).collect()
}

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target.name);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|p| (p.clone(), fs::read(p).unwrap()))
        .collect()
}

/// Runs a body; a failure is shrunk, unless the body did, and reported with the command that replays it.
fn run(target: &Target, input: &[u8]) {
    let fails = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.body)(bytes))).is_err();
    if !fails(input) {
        return;
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let least = shrink::minimise(input, |b| vec![0, b / 2], |bytes| fails(bytes));
    std::panic::set_hook(hook);
    let file = shrink::folder().join(format!("{}.input", target.name));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, &least).unwrap();
    let said = |name: &str| std::env::var(name).map(|value| format!("{name}={value} "));
    let chosen: String = ["PMAPLAB_POLICY", "PMAPLAB_MACHINE"]
        .into_iter()
        .flat_map(said)
        .collect();
    println!(
        "replay it:\n  {chosen}PMAPLAB_TARGET={} PMAPLAB_INPUT={} cargo test -p tests --test fuzz_corpus one_input",
        target.name,
        file.display()
    );
    (target.body)(&least);
    panic!("{}: the failure does not repeat", target.name);
}

#[test]
fn targets_binaries_and_corpus_folders_agree() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(listed, names(&fuzz().join("fuzz_targets")));
    assert_eq!(listed, names(&fuzz().join("corpus")));
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let binaries = manifest.lines().filter_map(|l| {
        let name = l.strip_prefix("name = \"")?.strip_suffix('"')?;
        (name != "pmaplab-fuzz").then(|| name.to_owned())
    });
    assert_eq!(listed, binaries.collect());
    for target in TARGETS {
        let path = fuzz().join(format!("fuzz_targets/{}.rs", target.name));
        let source = fs::read_to_string(path).unwrap();
        assert!(
            source.lines().count() <= 5,
            "{}: a body in it?",
            target.name
        );
    }
}

#[test]
fn every_corpus_file_passes() {
    for target in TARGETS {
        let files = corpus(target);
        assert!(!files.is_empty(), "{}: no seeds", target.name);
        for (path, bytes) in files {
            println!("{}", path.display());
            run(target, &bytes);
        }
    }
}

fn smoke(name: &str) {
    let target = by_name(name).unwrap();
    let seeds: Vec<_> = corpus(target).into_iter().map(|(_, b)| b).collect();
    let budget = Budget::of(target.smoke);
    budget.spend(|inputs| {
        run(target, inputs.next(target.bytes_max));
        let mutated = inputs.mutated(&seeds);
        run(target, &mutated);
    });
}

macro_rules! smoke_tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            smoke(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_smoke_test() {
            let tested = [$(stringify!($name)),*];
            assert_eq!(tested.to_vec(), TARGETS.iter().map(|t| t.name).collect::<Vec<_>>());
        }
    };
}

smoke_tests! { case_file differential guest_elf machine_ops policy_ops profile trace_file }

/// One body for as long as the environment says.
#[test]
fn campaign() {
    let Ok(name) = std::env::var("PMAPLAB_TARGET") else {
        return;
    };
    if std::env::var("PMAPLAB_INPUT").is_err() {
        smoke(&name);
    }
}

#[test]
fn one_input() {
    let variable = |name: &str| std::env::var(name).ok();
    if let (Some(name), Some(file)) = (variable("PMAPLAB_TARGET"), variable("PMAPLAB_INPUT")) {
        let target = by_name(&name).expect("PMAPLAB_TARGET names a target");
        (target.body)(&fs::read(file).expect("PMAPLAB_INPUT can be read"));
    }
}
