//! Memory against a row of bytes; its two forms against each other.

use machine::PhysAddr;
use machine::memory::Memory;
use quickcheck::quickcheck;

/// The largest memory of the flat form, and the smallest chunked one that a test wants.
const SIZES: [u32; 2] = [16 << 10, 5 << 20];

fn place(size: u32, at: u32, len: usize) -> usize {
    let at = at as usize % (size as usize - 64);
    // A write stays in one page of 4 KB.
    at.min(at / 4096 * 4096 + 4096 - len)
}

quickcheck! {
    fn a_read_returns_what_a_row_of_bytes_would(writes: Vec<(u32, Vec<u8>)>) -> bool {
        SIZES.iter().all(|size| {
            let (mut memory, mut row) = (Memory::new(*size), vec![0; *size as usize]);
            writes.iter().all(|(at, data)| {
                let data = &data[..data.len().min(64)];
                let at = place(*size, *at, data.len());
                memory.write(PhysAddr(at as u32), data);
                row[at..at + data.len()].copy_from_slice(data);
                let mut around = [0; 64];
                let from = place(*size, at as u32, 64);
                memory.read(PhysAddr(from as u32), &mut around);
                around == row[from..from + 64]
            })
        })
    }

    fn equal_bytes_have_equal_fingerprints_whatever_the_history(writes: Vec<(u32, u8)>) -> bool {
        SIZES.iter().all(|size| {
            let (mut a, mut b) = (Memory::new(*size), Memory::new(*size));
            for (at, value) in &writes {
                let at = PhysAddr(at % size);
                a.write(at, &[*value]);
                a.fingerprint();
            }
            // The other memory gets the last value of each address only, the other way round.
            for (n, (at, value)) in writes.iter().enumerate().rev() {
                if !writes[n + 1..].iter().any(|(later, _)| later % size == at % size) {
                    b.write(PhysAddr(at % size), &[*value]);
                }
            }
            a.fingerprint() == b.fingerprint()
        })
    }

    fn a_changed_byte_changes_the_fingerprint_of_the_one_that_was_written(
        writes: Vec<(u32, u8)>,
        at: u32,
        change: u8
    ) -> bool {
        SIZES.iter().all(|size| {
            let mut a = Memory::new(*size);
            writes.iter().for_each(|(at, v)| a.write(PhysAddr(at % size), &[*v]));
            let (before, mut clone) = (a.fingerprint(), a.clone());
            let at = PhysAddr(at % size);
            let mut byte = [0];
            a.read(at, &mut byte);
            a.write(at, &[byte[0] ^ change]);
            (a.fingerprint() == before) == (change == 0) && clone.fingerprint() == before
        })
    }
}
