//! A small generator (SplitMix64), so that a seed means the same cases everywhere.

/// The generator's state.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Any word.
    pub fn word(&mut self) -> u32 {
        self.next() as u32
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit)) as u32
    }

    /// A value that finds carries and overflows: small, near a power of two, or anything.
    pub fn value(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(64),
            1 => (1u32 << self.below(32))
                .wrapping_add(self.below(3))
                .wrapping_sub(1),
            2 => !self.below(64),
            _ => self.word(),
        }
    }
}
