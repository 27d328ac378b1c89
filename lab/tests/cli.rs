//! The command as a user meets it: exit codes, one message for bad input, the shapes of `--json`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// From the root of the repository.
fn pmaplab(args: &[&str]) -> Output {
    command(args).output().expect("the command runs")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmaplab"));
    command
        .args(args)
        .current_dir(root())
        .env_remove("RUST_LOG");
    command
}

fn root() -> PathBuf {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.parent().expect("a member of the workspace").to_owned()
}

/// A directory of this test run, empty.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

fn file(directory: &Path, name: &str, bytes: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a file can be written");
    path.display().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The call is refused with code 2, nothing on stdout and one message that has these words.
fn refused(args: &[&str], words: &[&str]) {
    let output = pmaplab(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?} printed something");
    assert!(!message.contains("panicked"), "{message}");
    for word in words {
        assert!(
            message.contains(word),
            "{args:?}: no `{word}` in: {message}"
        );
    }
    let starts = message.matches("pmaplab: ").count();
    assert_eq!(starts, 1, "{args:?}: not one message: {message}");
}

fn json(args: &[&str]) -> Value {
    let output = pmaplab(args);
    let parsed = serde_json::from_slice(&output.stdout);
    parsed.unwrap_or_else(|e| panic!("{args:?}: {e}: {}", text(&output.stderr)))
}

/// The keys of an object, in alphabetical order.
fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

const CASE: &str = "tests/cases/vivt/kernel-write-through-lingering-buffer-reaches-the-fetch.kdl";

#[test]
fn exit_codes_tell_clean_from_a_verdict() {
    let clean = pmaplab(&["replay", "--policy", "always-flush", CASE]);
    assert_eq!(clean.status.code(), Some(0), "{}", text(&clean.stdout));
    let stale = pmaplab(&["replay", "--policy", "none", CASE]);
    assert_eq!(stale.status.code(), Some(1), "{}", text(&stale.stdout));
}

#[test]
fn explain_names_both_words_and_both_places() {
    let output = pmaplab(&["replay", "--explain", "--policy", "freebsd-2010", CASE]);
    let story = text(&output.stdout);
    for word in [
        "stale-exec",
        "executed",
        "should be",
        "the access:",
        "before it:",
    ] {
        assert!(story.contains(word), "no `{word}` in: {story}");
    }
}

#[test]
fn unknown_names_are_refused_with_what_there_is() {
    refused(
        &["replay", "--policy", "freebsd-1066", CASE],
        &["freebsd-1066", "freebsd-2010"],
    );
    refused(
        &["replay", "--machine", "vax", CASE],
        &["vax", "sheevaplug"],
    );
    refused(&["run", "nowhere"], &["nowhere", "sheevaplug"]);
    refused(&["run", "--machine", "tiny-vivt"], &["tiny-vivt", "4096"]);
    refused(&["diff", "none", "nothing"], &["nothing", "freebsd-2010"]);
}

#[test]
fn files_that_are_not_there_are_refused() {
    refused(&["replay", "no-such.kdl"], &["no-such.kdl"]);
    refused(&["exec", "no-such-program"], &["no-such-program"]);
    refused(
        &["diff", "none", "--snapshot", "no-such.snap"],
        &["no-such.snap"],
    );
}

#[test]
fn a_malformed_case_is_refused_with_its_line() {
    let dir = scratch("malformed");
    let bad = |name: &str, text: &str| file(&dir, name, text.as_bytes());
    let verb = bad("verb.kdl", "claim \"c\"\nA fetch 0x8000\nA jump 0x8000\n");
    refused(&["replay", &verb], &["verb.kdl:3", "jump", "fetch", "^"]);
    let who = bad("who.kdl", "claim \"c\"\nZ fetch 0x8000\n");
    refused(&["replay", &who], &["who.kdl:2", "nobody"]);
    let number = bad("number.kdl", "A fetch 0x1ffffffff\n");
    refused(&["replay", &number], &["number.kdl:1", "2^32"]);
    let policy = bad("policy.kdl", "A fetch 0\nexpect \"vax\" \"clean\"\n");
    refused(&["replay", &policy], &["policy.kdl:2", "vax"]);
    let verdict = bad("verdict.kdl", "A fetch 0\nexpect \"none\" \"fine\"\n");
    refused(&["replay", &verdict], &["verdict.kdl:2", "stale-exec"]);
    let machine = bad("machine.kdl", "machine \"vax\"\nA fetch 0\n");
    refused(&["replay", &machine], &["vax", "sheevaplug"]);
    let syntax = bad("syntax.kdl", "claim \"c\"\nA fetch {{{\n");
    refused(&["replay", &syntax], &["syntax.kdl:2"]);
    refused(
        &["replay", &bad("empty.kdl", "claim \"c\"\n")],
        &["empty.kdl", "operation"],
    );
    refused(
        &["replay", &file(&dir, "binary.kdl", &[0xff, 0xfe, 0])],
        &["UTF-8"],
    );
}

#[test]
fn a_huge_or_deep_case_is_refused_before_it_is_parsed() {
    let dir = scratch("huge");
    let huge = "A fetch 0x8000\n".repeat(100_000);
    refused(
        &["replay", &file(&dir, "huge.kdl", huge.as_bytes())],
        &["huge.kdl", "262144"],
    );
    let deep = format!("a {}", "{\nb ".repeat(50_000));
    refused(
        &["replay", &file(&dir, "deep.kdl", deep.as_bytes())],
        &["deep.kdl:65", "flat"],
    );
    let comment = "/*".repeat(100_000);
    refused(
        &["replay", &file(&dir, "comment.kdl", comment.as_bytes())],
        &["comment.kdl:1", "flat"],
    );
    let quoted = "{ b \"}\"\n".repeat(20_000);
    refused(
        &["replay", &file(&dir, "quoted.kdl", quoted.as_bytes())],
        &["quoted.kdl:65", "flat"],
    );
}

#[test]
fn a_wrong_profile_is_refused_with_what_is_wrong() {
    let dir = scratch("profile");
    let syntax = file(&dir, "syntax.toml", b"name = \"x\"\npage = \n");
    refused(&["run", "--machine", &syntax], &["syntax.toml", "2"]);
    let model = std::fs::read_to_string(root().join("machine/profiles/sheevaplug.toml"));
    let model = model.expect("the profile is there");
    let ways = model.replace("ways = 4", "ways = 0");
    let ways = file(&dir, "ways.toml", ways.as_bytes());
    refused(&["run", "--machine", &ways], &["ways.toml", "ways"]);
    let field = model.replace("clock_mhz", "clock_ghz");
    let field = file(&dir, "field.toml", field.as_bytes());
    refused(&["run", "--machine", &field], &["field.toml", "clock_"]);
    let huge = file(&dir, "huge.toml", &vec![b'#'; 100_000]);
    refused(&["run", "--machine", &huge], &["huge.toml", "65536"]);
}

#[test]
fn a_broken_program_is_refused() {
    let dir = scratch("elf");
    let short = file(&dir, "short", b"\x7fELF");
    refused(&["exec", &short], &["short"]);
    refused(&["exec", &file(&dir, "text", b"#!/bin/sh\n")], &["text"]);
    let whole = std::fs::read(root().join("guest/bin/testsimple")).expect("it is there");
    let mut wild = whole.clone();
    wild[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&["exec", &file(&dir, "wild", &wild)], &["wild"]);
    refused(
        &["exec", dir.to_str().expect("UTF-8")],
        &["expected a file"],
    );
}

#[test]
fn replay_json_has_one_object_a_step() {
    let output = pmaplab(&["replay", "--json", "--policy", "freebsd-2010", CASE]);
    let steps: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|l| serde_json::from_str(l).expect("a JSON object a line"))
        .collect();
    let wanted = [
        "step",
        "op",
        "maintenance",
        "pv_kva",
        "mappings",
        "verdicts",
    ];
    for (n, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], n + 1);
        let has = keys(step);
        assert!(wanted.iter().all(|k| has.contains(k)), "{has:?}");
    }
    assert_eq!(steps[0]["pv_kva"], 0xd040_0000_u32);
    let entered = &steps[4];
    let mapping = &entered["mappings"][0];
    assert_eq!(keys(mapping), ["flags", "pte", "space", "va"]);
    assert_eq!(keys(&mapping["pte"]), ["cached", "valid", "write"]);
    assert_eq!(mapping["space"], "A");
    let fetch = steps.iter().rev().find(|s| s["op"] == "A fetch 0x8000");
    assert_eq!(fetch.expect("it fetches")["verdicts"][0], "stale-exec");
    let operation = &steps
        .iter()
        .find_map(|s| s["maintenance"].get(0))
        .expect("some");
    assert!(operation[0].is_string() && operation[1].is_string() && operation[2].is_u64());
}

#[test]
fn exec_json_tells_the_run() {
    let run = json(&["exec", "--json", "guest/bin/testsimple", "10"]);
    let wanted = [
        "exit_code",
        "stdout",
        "instructions",
        "accesses",
        "cycles",
        "verdicts",
    ];
    let has = keys(&run);
    assert!(wanted.iter().all(|k| has.contains(k)), "{has:?}");
    assert_eq!(run["exit_code"], 0);
    assert!(run["cycles"]["instruction"].as_u64() >= run["instructions"].as_u64());
}

#[test]
fn run_json_has_a_row_a_policy() {
    let story = json(&["run", "--json", "--policy", "none"]);
    assert_eq!(story["scenario"], "sheevaplug");
    assert_eq!(story["machine"], "sheevaplug");
    let rows = story["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    let wanted = [
        "policy",
        "elapsed_before_s",
        "elapsed_after_s",
        "ratio",
        "uncached_percent",
        "cycles",
        "verdicts",
        "old_versions",
        "company",
    ];
    let has = keys(&rows[0]);
    assert!(wanted.iter().all(|k| has.contains(k)), "{has:?}");
    assert_eq!(keys(&rows[0]["uncached_percent"]), ["after", "before"]);
    assert_eq!(
        keys(&rows[0]["verdicts"]),
        ["map-first", "read", "read-first"]
    );
    assert_eq!(keys(&rows[0]["old_versions"]), ["map-first", "read-first"]);
}

#[test]
fn list_json_has_names_and_what_they_are() {
    let lists = json(&["list", "--json"]);
    assert_eq!(
        keys(&lists),
        ["guests", "machines", "policies", "scenarios"]
    );
    let policies = lists["policies"].as_array().expect("a list");
    assert!(policies.iter().any(|p| p["name"] == "freebsd-2010"));
    assert!(policies.iter().all(|p| p["about"].is_string()));
    assert_eq!(keys(&json(&["list", "machines", "--json"])), ["machines"]);
}

#[test]
fn diff_says_in_words_what_differs() {
    let same = pmaplab(&["diff", "none", "none", CASE]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let differs = pmaplab(&["diff", "freebsd-2010", "none", CASE]);
    assert_eq!(differs.status.code(), Some(1));
    let words = text(&differs.stdout);
    for word in [
        "Decisions:",
        "mapped in this order",
        "uncached: all",
        "Verdicts:",
        "Costs:",
    ] {
        assert!(words.contains(word), "no `{word}` in: {words}");
    }
    let value = json(&["diff", "freebsd-2010", "always-flush", CASE, "--json"]);
    assert_eq!(keys(&value), ["a", "b", "cases", "decisions"]);
    assert_eq!(keys(&value["decisions"][0]), ["a", "b", "place", "section"]);
    assert_eq!(
        keys(&value["cases"][0]),
        ["case", "cycles", "machine", "verdicts"]
    );
    assert_eq!(value["cases"][0]["verdicts"][1], "clean");
}

#[test]
fn diff_compares_with_a_committed_table() {
    let table = "tests/decisions/freebsd-2010.snap";
    let same = pmaplab(&["diff", "freebsd-2010", "--snapshot", table]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let other = pmaplab(&["diff", "none", "--snapshot", table]);
    assert_eq!(other.status.code(), Some(1));
    assert!(
        text(&other.stdout).contains("now: "),
        "{}",
        text(&other.stdout)
    );
    let dir = scratch("table");
    let broken = file(&dir, "broken.snap", b"policy x\n[entered: y]\nno arrow\n");
    refused(
        &["diff", "none", "--snapshot", &broken],
        &["broken.snap:3", "->"],
    );
}

#[test]
fn new_writes_a_file_once_and_says_what_to_add() {
    let dir = scratch("new");
    let to = dir.to_str().expect("UTF-8");
    for (what, name, file, word) in [
        ("policy", "my-rule", "my_rule.rs", "pub mod my_rule;"),
        (
            "case",
            "it-is-fetched",
            "it-is-fetched.kdl",
            "Nothing to add",
        ),
        ("machine", "my-board", "my-board.toml", "include_str!"),
    ] {
        let args = ["new", what, name, "--directory", to];
        let output = pmaplab(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).contains(word),
            "{}",
            text(&output.stdout)
        );
        let written = std::fs::read_to_string(dir.join(file)).expect("it is written");
        refused(&args, &["it is there already"]);
        let again = std::fs::read_to_string(dir.join(file)).expect("it is there");
        assert_eq!(written, again, "the second call touched it");
    }
    refused(&["new", "case", "../evil", "--directory", to], &["no name"]);
    refused(
        &["new", "case", "fine", "--directory", "/no/such"],
        &["no such directory"],
    );
}

#[test]
fn a_new_case_and_a_new_machine_can_be_used_at_once() {
    let dir = scratch("used");
    let to = dir.to_str().expect("UTF-8");
    pmaplab(&["new", "case", "it-is-fetched", "--directory", to]);
    pmaplab(&["new", "machine", "my-board", "--directory", to]);
    let case = dir.join("it-is-fetched.kdl").display().to_string();
    let board = dir.join("my-board.toml").display().to_string();
    let args = [
        "replay",
        "--policy",
        "always-flush",
        "--machine",
        &board,
        &case,
    ];
    let output = pmaplab(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let args = ["replay", "--explain", "--policy", "none", CASE];
    let mut child = command(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    drop(child.stdout.take());
    let mut said = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    stderr.read_to_string(&mut said).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert_eq!(said, "");
    assert!(status.code().is_some(), "killed by a signal");
}

#[test]
fn spans_and_events_follow_rust_log() {
    let quiet = pmaplab(&["replay", "--policy", "none", CASE]);
    assert_eq!(text(&quiet.stderr), "");
    let mut loud = command(&["replay", "--policy", "none", CASE]);
    let loud = loud.env("RUST_LOG", "trace").output().expect("it runs");
    let said = text(&loud.stderr);
    for word in [
        "pmap_kenter",
        "pmap_enter",
        "bus_dmamap_sync",
        "plan",
        "step{",
    ] {
        assert!(said.contains(word), "no `{word}` in the log");
    }
    let lines = said.lines().count();
    assert!(lines < 2000, "{lines} lines: per access, not per operation");
}

/// A search that ends at its memory says so, exits as one that found nothing, and goes on from its checkpoint.
#[test]
fn explore_stops_at_its_memory_and_is_resumed() {
    let directory = scratch("explore-memory");
    let state = directory.join("search.bin").display().to_string();
    let out = directory.join("cases").display().to_string();
    let call = |memory: &str, more: &[&str]| {
        let fixed = [
            "explore",
            "--json",
            "--policy",
            "freebsd-2010-repaired",
            "--scope",
            "small",
        ];
        let args = [&fixed[..], &["--out", &out, "--max-memory", memory], more].concat();
        let output = pmaplab(&args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["rows"][0].clone()
    };
    let whole = call("1000", &[]);
    assert_eq!(
        (&whole["closed"], &whole["verdict"]),
        (&true.into(), &"safe".into())
    );
    let part = call("2", &["--state", &state]);
    assert_eq!(
        (&part["closed"], &part["verdict"]),
        (&false.into(), &"unknown".into())
    );
    assert!(
        part["states"].as_u64() > Some(1000) && part["states"].as_u64() < whole["states"].as_u64()
    );
    let rest = call("1000", &["--state", &state]);
    for field in ["closed", "states", "transitions", "depth", "verdict"] {
        assert_eq!(rest[field], whole[field], "{field}");
    }
}
