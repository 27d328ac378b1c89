//! Broken executables are refused with a message that names what was expected, and nothing a file
//! can say makes the reader panic.

use kern::elf::{Abi, Bounds, ExecError, Image, parse};

const GOOD: &[u8] = include_bytes!("../../guest/bin/testsimple");
const PAGE: usize = 4096;
/// Where the program headers are in it.
const PHDRS: usize = 52;
const PHDR: usize = 32;

fn bounds(file_len: usize) -> Bounds {
    Bounds {
        file_len: file_len as u64,
        user_min: 0x1000,
        user_end: 0xc000_0000,
        page: PAGE as u32,
    }
}

fn read(file: &[u8]) -> Result<Image, ExecError> {
    parse(&file[..file.len().min(PAGE)], &bounds(file.len()))
}

/// The good file with a word changed.
fn with(at: usize, word: u32) -> Result<Image, ExecError> {
    let mut file = GOOD.to_vec();
    file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    read(&file)
}

/// A field of the `n`th program header.
fn phdr(n: usize, field: usize) -> usize {
    PHDRS + n * PHDR + 4 * field
}

fn message(result: Result<Image, ExecError>) -> String {
    result.expect_err("it is broken").to_string()
}

#[test]
fn a_good_file_is_read() {
    let image = read(GOOD).expect("it is good");
    assert_eq!(image.abi, Abi::FreeBsd);
    assert_eq!(image.entry, 0x81f8);
    assert_eq!((image.phdr, image.phnum), (0x8034, 3));
    let segments: Vec<_> = image.segments.iter().map(|s| (s.va, s.memsz)).collect();
    assert_eq!(segments, [(0x8000, 0x3b0), (0x93b0, 0x88)]);
}

#[test]
fn without_a_brand_a_program_is_linux() {
    let mut file = GOOD.to_vec();
    file[7] = 0;
    assert_eq!(read(&file).map(|i| i.abi), Ok(Abi::Linux));
    file[8..16].copy_from_slice(b"FreeBSD\0");
    assert_eq!(read(&file).map(|i| i.abi), Ok(Abi::FreeBsd));
}

#[test]
fn a_note_brands_a_program() {
    let mut file = GOOD.to_vec();
    file[7] = 0;
    let at = 0x300;
    let note = [
        8,
        4,
        1,
        u32::from_le_bytes(*b"Free"),
        u32::from_le_bytes(*b"BSD\0"),
        900_044,
    ];
    for (n, word) in note.iter().enumerate() {
        file[at + 4 * n..at + 4 * n + 4].copy_from_slice(&word.to_le_bytes());
    }
    for (field, word) in [(0, 4), (1, at as u32), (4, 24)] {
        let place = phdr(0, field);
        file[place..place + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    assert_eq!(read(&file).map(|i| i.abi), Ok(Abi::FreeBsd));
}

#[test]
fn wrong_kinds_are_named() {
    let mut file = GOOD.to_vec();
    file[0] = 0;
    assert_eq!(
        message(read(&file)),
        "not an ELF file: expected it to start with 7f 45 4c 46"
    );
    let byte = |at: usize, value: u8| {
        let mut file = GOOD.to_vec();
        file[at] = value;
        message(read(&file))
    };
    assert_eq!(byte(4, 2), "class is 2: expected 1 (32-bit)");
    assert_eq!(byte(5, 2), "byte order is 2: expected 1 (little-endian)");
    assert_eq!(byte(18, 3), "machine is 3: expected 40 (ARM)");
    assert_eq!(
        byte(16, 1),
        "type is 1: expected 2 (executable) or 3 (shared object)"
    );
    assert_eq!(byte(42, 56), "program header size is 56: expected 32");
    assert_eq!(byte(44, 0), "no LOAD segment: expected at least one");
    assert_eq!(byte(44, 200), "200 program headers: expected at most 32");
}

#[test]
fn bad_segments_are_named() {
    let loads = [(1, 0), (2, 0)];
    let mut file = GOOD.to_vec();
    for (n, kind) in loads {
        let at = phdr(n, 0);
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(kind));
    }
    assert_eq!(
        message(read(&file)),
        "no LOAD segment: expected at least one"
    );
    assert!(message(with(phdr(1, 5), 0x7000_0000)).contains("at most 512 MB"));
    assert!(message(with(phdr(2, 2), 0xbfff_fff0)).contains("within the user's addresses"));
    assert!(message(with(phdr(1, 5), 0x10)).contains("at least its size in the file"));
    assert!(message(with(phdr(1, 2), 0x0000)).contains("above the lowest user address"));
    assert!(message(with(phdr(1, 1), 0x10)).contains("agree within a page"));
    assert!(message(with(phdr(2, 2), 0x8388)).contains("overlap"));
    let huge = with(phdr(1, 4), 0x1_0000);
    assert!(message(huge).contains("at least its size in the file"));
    let mut file = GOOD.to_vec();
    for field in [4, 5] {
        let at = phdr(1, field);
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(0x1000));
    }
    assert!(message(read(&file)).contains("behind the end of the file"));
}

#[test]
fn an_entry_outside_is_named() {
    assert_eq!(
        message(with(24, 0x9000)),
        "entry 0x9000: expected it within an executable segment"
    );
    assert!(
        matches!(with(24, 0x93b0), Err(ExecError::Entry(_))),
        "bss is not executable"
    );
}

#[test]
fn every_truncation_is_refused() {
    for len in 0..GOOD.len() {
        let result = read(&GOOD[..len]);
        if len < 0x3b0 {
            assert!(result.is_err(), "{len} bytes");
        }
    }
    let text = message(read(&GOOD[..40]));
    assert!(
        text.starts_with("truncated: expected 52 bytes of ELF header"),
        "{text}"
    );
    let text = message(read(&GOOD[..60]));
    assert!(
        text.starts_with("truncated: expected 148 bytes of program headers"),
        "{text}"
    );
}

#[test]
fn an_interpreter_must_be_an_absolute_path_in_the_first_page() {
    let mut file = GOOD.to_vec();
    let path = b"/lib/ld.so\0";
    file[0x300..0x300 + path.len()].copy_from_slice(path);
    for (field, word) in [(0, 3), (1, 0x300), (4, path.len() as u32)] {
        let at = phdr(0, field);
        file[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
    }
    let image = read(&file).expect("it is good");
    assert_eq!(image.interpreter.as_deref(), Some(&b"/lib/ld.so"[..]));
    let at = phdr(0, 1);
    file[at..at + 4].copy_from_slice(&u32::to_le_bytes(0xffff_0000));
    assert!(message(read(&file)).contains("within the first page"));
}

#[test]
fn no_change_of_any_bytes_makes_the_reader_panic() {
    let mut random = 0x1234_5678_9abc_def0u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..20_000 {
        let mut file = GOOD.to_vec();
        for _ in 0..next() % 6 {
            let at = (next() % 200) as usize;
            file[at] = next() as u8;
        }
        file.truncate(next() as usize % (GOOD.len() + 1));
        if let Ok(image) = read(&file) {
            for segment in &image.segments {
                let end = u64::from(segment.va) + u64::from(segment.memsz);
                assert!(end <= 0xc000_0000 && segment.filesz <= segment.memsz);
            }
        }
    }
}
