//! `pmaplab trace` as a user meets it: forms, messages, exit codes, JSON, pictures.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lab::trace::{Kind, Synthetic, Writer};

const CACHES: [&str; 4] = ["--l1i", "16384:4:32", "--l1d", "16384:4:32"];

/// A directory of one test.
fn directory(test: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

fn file(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn trace(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmaplab"));
    command.arg("trace").args(arguments);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Standard output of a run that must succeed.
fn succeeds(arguments: &[&str]) -> String {
    let output = trace(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stderr),
        "",
        "silent where there is no terminal"
    );
    text(&output.stdout)
}

/// The one message of a run that must end with exit code 2.
fn refuses(arguments: &[&str]) -> String {
    let output = trace(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    message
}

/// Asserts that a file is refused with one line that names it, the place and what was expected.
fn refused_at(path: &str, place: &str, what: &str) {
    let message = refuses(&[&[path], &CACHES[..]].concat());
    assert_eq!(message.lines().count(), 1, "{message}");
    let start = format!("pmaplab: {path}: {place}: ");
    assert!(message.starts_with(&start), "{message}");
    assert!(
        message.contains(what) && message.contains("expected"),
        "{message}"
    );
}

fn recorded(name: &str) -> String {
    format!("{}/../tests/data/traces/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let out = succeeds(&[arguments, &["--json"]].concat());
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn json_has_the_counts_of_every_unit() {
    let gzip = recorded("gzip-200k.xdin.gz");
    let shapes = ["--l2", "262144:8:32", "--itlb", "64:2", "--dtlb", "32:32"];
    let found = json(&[&[gzip.as_str()], &CACHES[..], &shapes[..]].concat());
    assert_eq!(found["references"], 200_000);
    assert_eq!(found["l1i"]["fetches"], 163_355);
    assert_eq!(found["l1i"]["misses"], 2126);
    assert_eq!(found["l1d"]["reads"], 31284);
    assert_eq!(found["l1d"]["read_misses"], 2265);
    assert_eq!(found["l1d"]["writes"], 14905);
    assert_eq!(found["l1d"]["write_misses"], 883);
    assert!(found["l1d"]["writebacks"].is_u64());
    assert_eq!(found["l2"]["reads"], 2126 + 2265 + 883);
    assert!(found["l2"]["writes"].is_u64() && found["l2"]["read_misses"].is_u64());
    assert!(found["itlb"]["misses"].is_u64() && found["dtlb"]["accesses"].is_u64());
    assert!(found["cycles"].is_null(), "no machine, no costs");
}

#[test]
fn a_machine_gives_geometry_and_cycles() {
    let gzip = recorded("gzip-200k.xdin.gz");
    let found = json(&[&gzip, "--machine", "sheevaplug"]);
    let classes = found["cycles_by_class"].as_object().expect("there");
    let sum: u64 = classes
        .values()
        .map(|n| n.as_u64().expect("a number"))
        .sum();
    assert_eq!(found["cycles"], sum);
    let number = |unit: &str, field: &str| found[unit][field].as_u64().expect("a number");
    let l2_hits = number("l2", "reads") - number("l2", "read_misses");
    assert_eq!(classes["l2"], l2_hits * 21);
    let (micro, main) = (number("tlb", "accesses"), number("tlb", "misses"));
    assert_eq!(classes["walk"], main * 144 + (micro - main) * 7);
    let other = json(&[&gzip, "--machine", "sheevaplug", "--l1d", "64k:4:32"]);
    assert!(other["cycles"].as_u64() < found["cycles"].as_u64());
}

/// One short trace in every form and packing gives one result.
#[test]
fn every_form_and_packing_counts_alike() {
    let directory = directory("forms");
    let records = Synthetic::records(3000);
    let mut forms = [String::from("==7== Lackey\n"), String::new(), String::new()];
    for r in &records {
        let (va, n) = (r.va, r.kind as usize);
        let (lackey, din) = (["I ", " L", " S"][n], ["2", "0", "1"][n]);
        let label = ["i", "r", "w"][n];
        forms[0] += &format!("{lackey} {va:08x},4\n");
        forms[1] += &format!("{din} {va:x} comment\n");
        forms[2] += &format!("{label} 0x{va:X} 4\r\n");
    }
    let lackey = file(&directory, "lackey", &forms[0]);
    let expected = succeeds(&[&[lackey.as_str()], &CACHES[..]].concat());
    assert!(expected.starts_with("3000 references\n"), "{expected}");
    let mut others = vec![
        file(&directory, "din", &forms[1]),
        file(&directory, "xdin", &forms[2]),
    ];
    for name in ["binary", "binary.gz", "binary.xz"] {
        let path = directory.join(name).display().to_string();
        succeeds(&["convert", &lackey, &path]);
        others.push(path);
    }
    for path in others {
        let found = succeeds(&[&[path.as_str()], &CACHES[..]].concat());
        assert_eq!(found, expected, "{path}");
    }
}

#[test]
fn parts_of_a_trace_count_as_one() {
    let directory = directory("parts");
    let one = file(&directory, "one", "r 1000 4\n");
    let two = file(&directory, "two", "0 1000\n");
    let found = json(&[&[one.as_str(), &two], &CACHES[..]].concat());
    assert_eq!(found["l1d"]["reads"], 2);
    assert_eq!(found["l1d"]["read_misses"], 1);
}

#[test]
fn broken_text_is_refused_with_its_line() {
    let directory = directory("text");
    let bad = |name: &str, text: &str, place: &str, what: &str| {
        refused_at(&file(&directory, name, text), place, what);
    };
    bad("empty", "", "byte 0", "empty");
    bad("no-record", "==1== lackey\n", "byte 13", "no record");
    bad("letters", "hello\n", "line 1", "no trace");
    bad("label", "r 1 4\nq 1 4\n", "line 2", "no label");
    bad("address", "r 1 4\nr x 4\n", "line 2", "no address");
    bad(
        "wide",
        "r 1 4\nr 11112222333344445 4\n",
        "line 2",
        "no address",
    );
    bad("no-size", "r 1 4\nr 1\n", "line 2", "no size");
    bad("size", "r 1 4\nr 1 4g\n", "line 2", "no size");
    bad("zero", "r 1 4\nr 1 0\n", "line 2", "size is 0x0");
    bad("large", "r 1 4\nr 1 4001\n", "line 2", "size is 0x4001");
    bad("end", "r 1 4\nw ffffffffffffffff 2\n", "line 2", "2^64");
    bad("cut", "r 1 4\nr 10", "line 2", "cut");
    bad("din", "2 10\n6 10\n", "line 2", "no label");
    bad("lackey", "I  10,4\n L 10;4\n", "line 2", "comma");
    bad("lackey-size", "I  10,4\n L 10,x\n", "line 2", "no size");
    bad(
        "lackey-kind",
        "I  10,4\nhello\n",
        "line 2",
        "no record of lackey",
    );
    bad(
        "long",
        &format!("r 1 4\nr 1 4 {}\n", "x".repeat(300_000)),
        "line 2",
        "a line of over",
    );
}

fn binary(records: usize) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    for r in Synthetic::records(records) {
        writer.record(r.kind, r.va, r.size).expect("memory");
    }
    writer.finish().expect("memory")
}

#[test]
fn a_broken_binary_trace_is_refused_with_its_byte() {
    let directory = directory("binary");
    let whole = binary(1000);
    let bad = |name: &str, bytes: &[u8], place: &str, what: &str| {
        refused_at(&file(&directory, name, bytes), place, what);
    };
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    bad("magic", &changed(3), "byte 0", "magic");
    bad("version", &changed(7), "byte 7", "version");
    bad("records", &changed(12), "byte 8", "corrupt");
    bad("payload", &changed(400), "byte 8", "corrupt");
    bad("length", &changed(11), "byte 8", "a block of");
    bad(
        "end",
        &changed(whole.len() - 9),
        &format!("byte {}", whole.len() - 16),
        "end mark",
    );
    bad(
        "cut-end",
        &whole[..whole.len() - 1],
        &format!("byte {}", whole.len() - 16),
        "truncated",
    );
    bad("cut", &whole[..500], "byte 500", "truncated");
    bad(
        "more",
        &[&whole[..], b"x"].concat(),
        &format!("byte {}", whole.len()),
        "after the end",
    );
    // A block whose sum is right can still hold what is no record.
    let head_of = |payload: &[u8], records: u32| {
        let mut bytes = whole[..8].to_vec();
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(records.to_le_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&records.to_le_bytes());
        crc.update(payload);
        bytes.extend(crc.sum().to_le_bytes());
        [&bytes, payload, &whole[whole.len() - 16..]].concat()
    };
    bad("kind", &head_of(&[0, 7], 2), "byte 21", "kind");
    bad("delta", &head_of(&[0, 0x90], 2), "byte 21", "kind");
    bad(
        "size",
        &head_of(&[0, 8, 0, 0, 0], 2),
        "byte 21",
        "size is 0x0",
    );
    bad("overrun", &head_of(&[0, 0x80], 2), "byte 22", "runs out");
    bad("left", &head_of(&[0, 0], 1), "byte 21", "after the block");
}

#[test]
fn a_broken_packing_is_refused() {
    let directory = directory("packing");
    for (name, packed) in [("gz", "gzip-200k.xdin.gz"), ("xz", "gzip-full.xdin.xz")] {
        let bytes = std::fs::read(recorded(packed)).expect("test data");
        let cut = file(
            &directory,
            &format!("cut.{name}"),
            &bytes[..bytes.len() / 2],
        );
        let message = refuses(&[&[cut.as_str()], &CACHES[..]].concat());
        assert!(
            message.contains("byte ") && message.lines().count() == 1,
            "{message}"
        );
        let mut corrupt = bytes;
        let middle = corrupt.len() / 2;
        corrupt[middle] ^= 0xff;
        let corrupt = file(&directory, &format!("corrupt.{name}"), corrupt);
        let message = refuses(&[&[corrupt.as_str()], &CACHES[..]].concat());
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn partial_reports_what_was_read() {
    let directory = directory("partial");
    let path = file(&directory, "cut", "r 1000 4\nw 2000 4\nr 10");
    let arguments = [&[path.as_str(), "--partial", "--json"], &CACHES[..]].concat();
    let output = trace(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["references"], 2);
    assert_eq!(found["l1d"]["writes"], 1);
    assert!(found["partial"].as_str().expect("said").contains("line 3"));
    let without = trace(&[&[path.as_str()], &CACHES[..]].concat());
    assert_eq!(text(&without.stdout), "");

    let out = directory.join("cut.pmt").display().to_string();
    let _ = std::fs::remove_file(&out);
    refuses(&["convert", &path, &out]);
    assert!(!Path::new(&out).exists(), "no half a file under its name");
    refuses(&["convert", &path, &out, "--partial"]);
    let found = json(&[&[out.as_str()], &CACHES[..]].concat());
    assert_eq!(found["references"], 2);
}

#[test]
fn an_impossible_geometry_is_refused() {
    let gzip = recorded("gzip-200k.xdin.gz");
    let bad = |arguments: &[&str], what: &str| {
        let message = refuses(&[&[gzip.as_str()], arguments].concat());
        assert!(message.contains(what), "{arguments:?}: {message}");
    };
    bad(&["--l1d", "16384:4"], "SIZE:WAYS:LINE");
    bad(&["--l1d", "16384:3:32"], "expected a multiple of 96");
    bad(
        &["--l1d", "16384:4:33"],
        "line is 33; expected a power of two",
    );
    bad(&["--l1d", "0:0:32"], "at least 1");
    bad(
        &["--l1d", "96:1:32"],
        "number of sets is 3; expected a power of two",
    );
    bad(&["--l1d", "4294967295:1:32"], "expected");
    bad(&["--l1d", "4g:1:32"], "unit `g`");
    bad(&["--l1d", "1024m:1:4"], "expected at most");
    bad(&["--dtlb", "48:1"], "number of sets is 48");
    bad(&["--dtlb", "32:32", "--page", "5000"], "page is 5000");
    bad(&["--l1d", "1k:1:64", "--l2", "4k:1:32"], "l2 line is 32");
    bad(
        &["--l1d", "32k:512:32", "--replacement", "round-robin"],
        "at most 256",
    );
    bad(&["--replacement", "plru"], "expected lru, fifo");
    bad(&["--l1i", "1k:1:32", "--sweep", "l1d=1k..2k"], "--l1d");
    bad(&["--l1d", "1k:4:32", "--sweep", "l1d=64..1k"], "expected");
    bad(
        &["--l1d", "1k:4:32", "--sweep", "l1d=2k..1k"],
        "lower end first",
    );
    bad(&["--machine", "no-such-machine"], "sheevaplug");
    bad(&["--sweep", "l1d=1k..64k", "--pages"], "--sweep");
}

#[test]
fn a_sweep_has_a_row_for_each_geometry() {
    let gzip = recorded("gzip-200k.xdin.gz");
    let base = [&[gzip.as_str()], &CACHES[..]].concat();
    let found = json(&[&base[..], &["--sweep", "l1d=8192..65536"]].concat());
    let runs = found["sweep"].as_array().expect("runs");
    let setups: Vec<_> = runs
        .iter()
        .map(|r| r["setup"].as_str().expect("text"))
        .collect();
    let expected = ["8192", "16384", "32768", "65536"].map(|n| format!("l1d={n}:4:32"));
    assert_eq!(setups, expected);
    assert_eq!(runs[1]["l1d"]["read_misses"], 2265);
    assert_eq!(runs[2]["l1d"]["read_misses"], 2027);
    let product = ["--sweep", "l1d=8k,16k", "--sweep", "l1i=8k,16k"];
    let found = json(&[&base[..], &product].concat());
    assert_eq!(found["sweep"].as_array().expect("runs").len(), 4);
}

#[test]
fn misses_are_listed_by_page() {
    let directory = directory("pages");
    let path = file(
        &directory,
        "t",
        "i 8000 4\nr 1000 4\nr 1020 4\nw 3000 4\nr 1ffe 4\n",
    );
    let found = json(&[&[path.as_str(), "--pages", "2"], &CACHES[..]].concat());
    let rows = found["pages"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["name"], "0x00001000");
    assert_eq!(rows[0]["references"], 3);
    assert_eq!(rows[0]["l1d_misses"], 4, "the last touches two lines");
}

/// A little ELF file by hand: two functions, one without a size.
fn elf() -> Vec<u8> {
    let names = b"\0first\0second\0.text\0.symtab\0.strtab\0";
    let symbol = |name: u32, value: u64, size: u64| {
        let mut s = name.to_le_bytes().to_vec();
        s.extend([2, 0, 1, 0]);
        s.extend(value.to_le_bytes());
        s.extend(size.to_le_bytes());
        s
    };
    let symbols = [
        symbol(0, 0, 0),
        symbol(1, 0x1000, 0),
        symbol(7, 0x1010, 0x10),
    ]
    .concat();
    let (symbols_at, names_at) = (64, 64 + symbols.len());
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let section = |name: u32, kind: u32, at: usize, size: usize, link: u32, entry: u64| {
        let mut s = [name.to_le_bytes(), kind.to_le_bytes()].concat();
        s.extend(6_u64.to_le_bytes());
        s.extend(if kind == 1 { 0x1000_u64 } else { 0 }.to_le_bytes());
        s.extend((at as u64).to_le_bytes());
        s.extend((size as u64).to_le_bytes());
        s.extend([link.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        s.extend([8_u64.to_le_bytes(), entry.to_le_bytes()].concat());
        s
    };
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    out.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    out.extend([0_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat());
    out.extend((sections_at as u64).to_le_bytes());
    out.extend([0, 0, 0, 0, 64, 0, 56, 0, 0, 0, 64, 0, 4, 0, 3, 0]);
    out.extend(&symbols);
    out.extend(names);
    out.resize(sections_at, 0);
    out.extend([0; 64]);
    out.extend(section(14, 1, 0, 0x20, 0, 0));
    out.extend(section(20, 2, symbols_at, symbols.len(), 3, 24));
    out.extend(section(28, 3, names_at, names.len(), 0, 0));
    out
}

#[test]
fn misses_are_listed_by_function() {
    let directory = directory("functions");
    let program = file(&directory, "program", elf());
    let lines = "i 401000 4\nr 9000 4\ni 401010 4\nr a000 4\nr b000 4\ni 500000 4\n";
    let path = file(&directory, "t", lines);
    let options = [
        path.as_str(),
        "--functions",
        &program,
        "--elf-base",
        "0x400000",
    ];
    let found = json(&[&options[..], &CACHES[..]].concat());
    let rows = found["functions"].as_array().expect("rows");
    let row = |n: usize| {
        let row = &rows[n];
        (
            row["name"].as_str().expect("text"),
            row["l1i_misses"].as_u64(),
            row["l1d_misses"].as_u64(),
        )
    };
    // The second function's line is already in: both share it.
    assert_eq!(row(0), ("first", Some(1), Some(1)));
    assert_eq!(row(1), ("second", Some(0), Some(2)));
    assert_eq!(row(2), ("outside", Some(1), Some(0)));
    let message = refuses(&[path.as_str(), "--functions", &path]);
    assert!(message.contains("expected an ELF file"), "{message}");
}

#[test]
fn pictures_are_drawn() {
    let directory = directory("plot");
    let gzip = recorded("gzip-200k.xdin.gz");
    let to = directory.display().to_string();
    succeeds(
        &[
            &[gzip.as_str(), "--plot", &to, "--sweep", "l1d=1k..64k"],
            &CACHES[..],
        ]
        .concat(),
    );
    for name in ["misses.svg", "reuse.svg", "sweep.svg"] {
        let svg = std::fs::read_to_string(directory.join(name)).expect("drawn");
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{name}"
        );
        assert!(svg.contains("<polyline"), "{name}");
    }
}

#[test]
fn operations_of_dinero_are_obeyed() {
    let directory = directory("operations");
    let path = file(
        &directory,
        "t",
        "w 1000 4\nc 1000 4\nr 1000 4\nv 0 0\nr 1000 4\nm 1000 4\n",
    );
    let found = json(&[&[path.as_str()], &CACHES[..]].concat());
    assert_eq!(found["l1d"]["writebacks"], 1);
    assert_eq!(found["l1d"]["read_misses"], 1);
    assert_eq!(found["l1d"]["reads"], 3);
}

#[test]
fn the_writer_refuses_what_no_reader_would_take() {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    assert!(writer.record(Kind::Read, 0, 0).is_err());
    assert!(writer.record(Kind::Read, u64::MAX, 2).is_err());
    assert!(writer.record(Kind::Clean, 0, 0).is_ok());
}

/// What `exec` records is simulated alike from both forms, and none of it is missing.
#[test]
fn a_saved_run_counts_alike_in_both_forms() {
    let directory = directory("saved");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/bin/testsimple");
    let saved = |name: &str| {
        let path = directory.join(name).display().to_string();
        let run = Command::new(env!("CARGO_BIN_EXE_pmaplab"))
            .args(["exec", "--json", "--save-trace", &path, program, "1000"])
            .output()
            .expect("the command runs");
        assert!(run.status.success(), "{}", text(&run.stderr));
        let run: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let counts = json(&[&path, "--machine", "sheevaplug"]);
        assert_eq!(run["accesses"], counts["references"]);
        (path, counts)
    };
    let (binary, counts) = saved("run.trace");
    let (packed, same) = saved("run.xdin.gz");
    assert_eq!(counts, same);
    let binary = std::fs::read(binary).expect("there");
    assert_eq!(&binary[1..5], b"PMTR");
    let mut lines = String::new();
    let packed = std::fs::File::open(packed).expect("there");
    flate2::read::GzDecoder::new(packed)
        .read_to_string(&mut lines)
        .expect("gzip");
    for class in [" u l1\n", " u memory", " walk\n", "k memory"] {
        assert!(lines.contains(class), "no `{class}`");
    }
    assert!(!directory.join("run.trace.part").exists());
}
