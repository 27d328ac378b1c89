//! A synthetic trace for tests and benches: half fetches, the rest loads and stores.
//!
//! It reproduces `gen_synth.py` of the project's reference material record by record: xorshift64*
//! from the seed 0x9E3779B97F4A7C15, of whose output bits 56 to 63 choose what is done and bits 20
//! to 51 where. So its counts are those of the other simulators that were run on that trace.

use super::record::{Kind, Ref};

/// The trace; endless, every record is 4 bytes.
#[derive(Clone, Debug)]
pub struct Synthetic {
    x: u64,
    pc: u64,
    stream: u64,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            x: 0x9e37_79b9_7f4a_7c15,
            pc: 0x1_0000,
            stream: 0x20_0000,
        }
    }
}

impl Synthetic {
    /// The first `n` records.
    pub fn records(n: usize) -> Vec<Ref> {
        Self::default().take(n).collect()
    }

    fn random(&mut self) -> u64 {
        self.x ^= self.x >> 12;
        self.x ^= self.x << 25;
        self.x ^= self.x >> 27;
        self.x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Code runs straight on in 64 KiB, or jumps.
    fn fetch(&mut self, jump: Option<u64>) -> u64 {
        let offset = match jump {
            Some(v) => (v % 0x1_0000) & !3,
            None => (self.pc - 0x1_0000 + 4) % 0x1_0000,
        };
        self.pc = 0x1_0000 + offset;
        self.pc
    }

    /// Data is read in order from 1 MiB.
    fn next_in_stream(&mut self) -> u64 {
        self.stream = 0x20_0000 + (self.stream - 0x20_0000 + 4) % 0x10_0000;
        self.stream
    }
}

impl Iterator for Synthetic {
    type Item = Ref;

    fn next(&mut self) -> Option<Ref> {
        let r = self.random();
        let (k, v) = (r >> 56 & 0xff, r >> 20 & 0xffff_ffff);
        let hot = |bytes: u64| 0x40_0000 + ((v % bytes) & !3);
        let (kind, va) = match k {
            0..8 => (Kind::Fetch, self.fetch(Some(v))),
            8..128 => (Kind::Fetch, self.fetch(None)),
            128..176 => (Kind::Read, self.next_in_stream()),
            176..212 => (Kind::Read, hot(0x8000)),
            212..224 => (Kind::Read, hot(0x4_0000)),
            _ => (Kind::Write, hot(0x8000)),
        };
        Some(Ref { va, size: 4, kind })
    }
}
