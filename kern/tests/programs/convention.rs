//! The conventions of both families, tried with programs of a few words.

use crate::world::{CPU, World};
use kern::{KernVerbs, Limits, RunEnd};

const FREEBSD: u8 = 9;
const LINUX: u8 = 0;
const TEXT: u32 = 0x8000;
/// Where the words begin in the file.
const START: u32 = 84;

/// An executable of one segment that holds `words`.
fn program(brand: u8, thumb: bool, words: &[u32]) -> Vec<u8> {
    let entry = TEXT + START + u32::from(thumb);
    let len = START + 4 * words.len() as u32;
    let mut file = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, brand];
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, n: u16| file.extend(n.to_le_bytes());
    half(&mut file, 2);
    half(&mut file, 40);
    for word in [1, entry, 52, 0, 0x500_0200] {
        file.extend(u32::to_le_bytes(word));
    }
    for n in [52, 32, 1, 40, 0, 0] {
        half(&mut file, n);
    }
    for word in [1, 0, TEXT, TEXT, len, len, 5, 0x1000] {
        file.extend(u32::to_le_bytes(word));
    }
    assert_eq!(file.len() as u32, START);
    file.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    file
}

fn exit_code_of(brand: u8, thumb: bool, words: &[u32]) -> (u32, Vec<String>) {
    let mut world = World::new("always-flush");
    let file = program(brand, thumb, words);
    world.vfs.fs_add_file("/bin/p", &file).expect("room");
    let pid = world
        .spawn(CPU, "/bin/p", &["p"], &[])
        .expect("it is an executable");
    let end = world.run(CPU, Limits::instructions(1000));
    assert_eq!(end, RunEnd::Exited);
    world.check();
    (
        world.kern.status_of(pid).expect("it ended").code(),
        world.kern.messages,
    )
}

fn exits(brand: u8, words: &[u32]) -> u32 {
    exit_code_of(brand, false, words).0
}

#[test]
fn the_old_convention_has_the_number_in_the_instruction() {
    // mov r0, #5; swi 1
    assert_eq!(exits(FREEBSD, &[0xe3a0_0005, 0xef00_0001]), 5);
}

#[test]
fn the_new_convention_has_it_in_r7() {
    // mov r0, #5; mov r7, #1; swi 0
    let words = [0xe3a0_0005, 0xe3a0_7001, 0xef00_0000];
    assert_eq!(exits(FREEBSD, &words), 5);
    assert_eq!(exits(LINUX, &words), 5);
}

#[test]
fn syscall_shifts_the_arguments() {
    // mov r7, #0; mov r0, #1; mov r1, #6; swi 0
    let words = [0xe3a0_7000, 0xe3a0_0001, 0xe3a0_1006, 0xef00_0000];
    assert_eq!(exits(FREEBSD, &words), 6);
    // mov r7, #198; mov r0, #1; mov r2, #7; swi 0
    let words = [0xe3a0_70c6, 0xe3a0_0001, 0xe3a0_2007, 0xef00_0000];
    assert_eq!(exits(FREEBSD, &words), 7);
}

#[test]
fn thumb_programs_call_too() {
    // mov r0, #9; mov r7, #1; svc 0
    let (code, _) = exit_code_of(FREEBSD, true, &[0x2701_2009, 0x0000_df00]);
    assert_eq!(code, 9);
}

#[test]
fn an_unknown_number_is_enosys_by_the_familys_convention() {
    // mov r7, #0xff00; swi 0; movcc r0, #1; mov r7, #1; swi 0
    let words = [
        0xe3a0_7cff,
        0xef00_0000,
        0x33a0_0001,
        0xe3a0_7001,
        0xef00_0000,
    ];
    let (code, messages) = exit_code_of(FREEBSD, false, &words);
    assert_eq!(code, 78);
    assert_eq!(messages, ["p1: FreeBsd system call 65280 does not exist"]);
    // mov r7, #0xff00; swi 0; rsb r0, r0, #0; mov r7, #1; swi 0
    let words = [
        0xe3a0_7cff,
        0xef00_0000,
        0xe260_0000,
        0xe3a0_7001,
        0xef00_0000,
    ];
    assert_eq!(exits(LINUX, &words), 38);
}

#[test]
fn what_a_program_does_wrong_is_a_signal_and_a_message() {
    let killed = |words: &[u32], signal: u32, what: &str| {
        let (code, messages) = exit_code_of(FREEBSD, false, words);
        assert_eq!(code, 128 + signal, "{messages:?}");
        assert!(messages[0].contains(what), "{messages:?}");
    };
    killed(&[0xe7f0_00f0], 4, "undefined instruction 0xe7f000f0");
    killed(&[0xe120_0070], 5, "breakpoint");
    // mov r0, #0; ldr r0, [r0]
    killed(&[0xe3a0_0000, 0xe590_0000], 11, "Load of 0x00000000");
    // mov r0, #0x8000; str r0, [r0]: text is read-only
    killed(&[0xe3a0_0902, 0xe580_0000], 11, "Store of 0x00008000");
    // mov r0, #0x8000; ldr r0, [r0, #1]: misaligned
    killed(&[0xe3a0_0902, 0xe590_0001], 10, "Alignment");
    // mov pc, #0
    killed(&[0xe3a0_f000], 11, "Fetch of 0x00000000");
}
