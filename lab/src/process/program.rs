//! Small programs for cases: a static ELF file whose text is distinct harmless instructions at 0x8000.

/// First address of the text.
pub const TEXT: u32 = 0x8000;
const PAGE: u32 = 4096;

/// An ELF file of `words` instructions. Programs with different `seed`s differ in every word.
pub fn program(words: u32, seed: u32) -> Vec<u8> {
    let size = words * 4;
    let mut out = Vec::new();
    out.extend_from_slice(b"\x7fELF\x01\x01\x01\x09\0\0\0\0\0\0\0\0");
    let half = |out: &mut Vec<u8>, values: &[u16]| {
        values
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
    };
    let word = |out: &mut Vec<u8>, values: &[u32]| {
        values
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
    };
    half(&mut out, &[2, 40]);
    word(&mut out, &[1, TEXT, 52, 0, 0x0500_0000]);
    half(&mut out, &[52, 32, 1, 40, 0, 0]);
    word(&mut out, &[1, PAGE, TEXT, TEXT, size, size, 5, PAGE]);
    out.resize(PAGE as usize, 0);
    // mov rN, #count, with N by the program, so that a stale word is told from a true one.
    let instruction = |n: u32| 0xe3a0_0000 | (seed % 12) << 12 | (n & 0xff);
    (0..words).for_each(|n| out.extend_from_slice(&instruction(n).to_le_bytes()));
    out
}
