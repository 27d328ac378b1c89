//! Hard input by the command: broken programs and programs without end. Each gets one message, exit code 2
//! and a bounded share of the host; nothing panics.
//!
//! The readers' own tests go deeper (`kern/tests/elf.rs`, `lab/src/fuzz/readers.rs`); cases and profiles are
//! in `cli.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Address space that a call may use, in KB: programs of no input below need more.
const MEMORY_KB: u32 = 1 << 20;

fn root() -> PathBuf {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR"));
    lab.parent().expect("a member of the workspace").to_owned()
}

fn guest(name: &str) -> Vec<u8> {
    std::fs::read(root().join("guest/bin").join(name)).expect("it is there")
}

/// Runs `pmaplab exec` in a bounded address space.
fn exec(args: &[&str]) -> Output {
    let bounded = format!("ulimit -v {MEMORY_KB}; exec \"$0\" exec \"$@\"");
    Command::new("sh")
        .args(["-c", &bounded, env!("CARGO_BIN_EXE_pmaplab")])
        .args(args)
        .current_dir(root())
        .env_remove("RUST_LOG")
        .output()
        .expect("the command runs")
}

/// The call ends with code 2, and its last line is its one message, which has these words.
fn refused(args: &[&str], words: &[&str]) -> String {
    let output = exec(args);
    let all = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {all}");
    assert!(!all.contains("panicked"), "{all}");
    assert_eq!(all.matches("pmaplab: ").count(), 1, "{args:?}: {all}");
    let message = all.lines().last().unwrap_or_default();
    assert!(message.starts_with("pmaplab: "), "{args:?}: {all}");
    for word in words {
        assert!(message.contains(word), "{args:?}: no `{word}` in {message}");
    }
    all
}

/// Byte of the second (text) and third (bss) program header of `testsimple`, by field.
fn header(n: usize, field: usize) -> usize {
    52 + 32 * n + 4 * field
}

const OFFSET: usize = 1;
const ADDRESS: usize = 2;
const FILE_BYTES: usize = 4;
const MEMORY_BYTES: usize = 5;

#[test]
fn a_broken_program_is_refused_with_what_is_broken() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken");
    std::fs::create_dir_all(&dir).expect("a directory can be made");
    let broken = |name: &str, bytes: &[u8], words: &[&str]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).expect("a file can be written");
        let path = path.display().to_string();
        let all = refused(&[&path], &[words, &[name]].concat());
        assert_eq!(all.lines().count(), 1, "one line: {all}");
    };
    let good = guest("testsimple");
    let with = |changes: &[(usize, u32)]| {
        let mut bytes = good.clone();
        for (at, word) in changes {
            bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    };
    broken("empty", &[], &["ELF"]);
    broken("cut-in-the-header", &good[..40], &["truncated", "52 bytes"]);
    broken(
        "cut-in-the-table",
        &good[..100],
        &["truncated", "148 bytes"],
    );
    broken(
        "cut-in-the-text",
        &good[..0x200],
        &["behind the end of the file"],
    );
    let mut class = good.clone();
    class[4] = 2;
    broken("class", &class, &["class is 2", "32-bit"]);
    let mut order = good.clone();
    order[5] = 2;
    broken("order", &order, &["little-endian"]);
    let mut machine = good.clone();
    machine[18] = 62;
    broken("machine", &machine, &["machine is 62", "ARM"]);
    let overlap = with(&[(header(2, ADDRESS), 0x8100), (header(2, OFFSET), 0x100)]);
    broken("overlap", &overlap, &["overlap"]);
    let huge = with(&[(header(2, MEMORY_BYTES), 0x7000_0000)]);
    broken("huge", &huge, &["at most 512 MB"]);
    let huge = with(&[
        (header(1, FILE_BYTES), u32::MAX),
        (header(1, MEMORY_BYTES), u32::MAX),
    ]);
    broken("huge-file", &huge, &["segment 1", "at most 512 MB"]);
    let kernel = with(&[(header(2, ADDRESS), 0xc000_03b0)]);
    broken("kernel", &kernel, &["user's addresses"]);
    broken("entry", &with(&[(24, 0xdead_0000)]), &["entry 0xdead0000"]);
    broken(
        "entry-in-data",
        &with(&[(24, 0x93b0)]),
        &["entry", "executable"],
    );
    // A sparse file: refused by its length, not read.
    let large = std::fs::File::create(dir.join("large")).expect("a file can be made");
    large.set_len(1 << 40).expect("a sparse file can be made");
    let path = dir.join("large").display().to_string();
    refused(&[&path], &["large", "at most"]);
    let _ = std::fs::remove_file(path);
}

#[test]
fn a_program_without_end_is_ended_by_a_budget() {
    let budget = &["--max-instructions", "300000"];
    let run = |args: &[&str], words: &[&str]| refused(&[budget, args].concat(), words);
    run(&["guest/bin/loop"], &["instruction budget"]);
    run(&["guest/bin/forkbomb"], &["instruction budget"]);
    let short = [
        "--max-instructions",
        "20000",
        "guest/bin/bigwrite",
        "/tmp/all",
    ];
    refused(&short, &["instruction budget"]);
    // More output than a run may capture, page by page.
    let endless = [
        "guest/bin/cat",
        "/bin/big",
        "/bin/big",
        "/bin/big",
        "/bin/big",
        "/bin/big",
    ];
    let all = refused(&endless, &["bytes of output"]);
    assert!(all.contains("output"), "{all}");
}

#[test]
fn a_program_that_uses_up_a_table_gets_an_error_of_its_own() {
    let output = exec(&["guest/bin/limits"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"limits ok\n");
}
