//! Reuse distance: how many other lines were used between two uses of a line.
//!
//! An LRU cache that is fully associative holds a line exactly if fewer lines than it has came in
//! between, so the distribution tells the misses of every such cache at once. Distances are found
//! with a Fenwick tree over the times of the lines' last uses (Bennett and Kruskal, 1975). Memory is
//! bounded: at most [`LINES_MAX`] lines are remembered, the one used longest ago is forgotten, and
//! its next use counts as a first one.

use std::collections::HashMap;

use super::record::Ref;
use super::sim::{Follow, Misses};

/// Most lines remembered: distances are exact below this.
pub const LINES_MAX: usize = 1 << 18;

/// Distances by powers of two: bucket 0 is distance 0, bucket n holds 2^(n-1) up to 2^n - 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// Uses by bucket.
    pub buckets: [u64; 20],
    /// First uses, and those of lines forgotten.
    pub cold: u64,
}

/// Measures distances of fetches and data together, each reference by its first line.
pub struct Reuse {
    shift: u32,
    last_use: HashMap<u64, u32>,
    /// The line used at each time, if that was its last use.
    at: Vec<u64>,
    tree: Vec<u32>,
    now: usize,
    last: u64,
    /// The result.
    pub histogram: Histogram,
}

const NO_LINE: u64 = u64::MAX;
const TIMES: usize = 2 * LINES_MAX;

impl Reuse {
    /// Nothing yet; `line` is a power of two.
    pub fn new(line: u32) -> Self {
        Self {
            shift: line.trailing_zeros(),
            last_use: HashMap::new(),
            at: vec![NO_LINE; TIMES],
            tree: vec![0; TIMES + 1],
            now: 0,
            last: NO_LINE,
            histogram: Histogram::default(),
        }
    }

    fn uses(&mut self, line: u64) {
        if line == self.last {
            self.histogram.buckets[0] += 1;
            return;
        }
        self.last = line;
        if self.now == TIMES {
            self.compact();
        }
        match self.last_use.insert(line, self.now as u32) {
            None => self.histogram.cold += 1,
            Some(before) => {
                let before = before as usize;
                let distance = self.last_use.len() as u32 - self.sum(before + 1);
                self.histogram.buckets[bucket(distance)] += 1;
                self.at[before] = NO_LINE;
                self.add(before, u32::MAX);
            }
        }
        self.at[self.now] = line;
        self.add(self.now, 1);
        self.now += 1;
    }

    /// Lines whose last use is before time `n`.
    fn sum(&self, mut n: usize) -> u32 {
        let mut sum = 0_u32;
        while n > 0 {
            sum = sum.wrapping_add(self.tree[n]);
            n &= n - 1;
        }
        sum
    }

    /// Adds to time `n`, wrapping: `u32::MAX` takes one away.
    fn add(&mut self, n: usize, by: u32) {
        let mut n = n + 1;
        while n < self.tree.len() {
            self.tree[n] = self.tree[n].wrapping_add(by);
            n += n & n.wrapping_neg();
        }
    }

    /// Moves the times together, forgetting the oldest lines if there are too many.
    fn compact(&mut self) {
        let held: Vec<u64> = self.at.iter().copied().filter(|l| *l != NO_LINE).collect();
        let keep = &held[held.len().saturating_sub(LINES_MAX)..];
        self.at.fill(NO_LINE);
        self.tree.fill(0);
        self.last_use.clear();
        for (n, line) in keep.iter().enumerate() {
            self.at[n] = *line;
            self.last_use.insert(*line, n as u32);
            self.add(n, 1);
        }
        self.now = keep.len();
    }
}

fn bucket(distance: u32) -> usize {
    (32 - distance.leading_zeros() as usize).min(19)
}

impl Follow for Reuse {
    fn batch(&mut self, batch: &[Ref], _: &Misses) {
        for record in batch {
            self.uses(record.va >> self.shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_equal_those_of_a_list() {
        let mut reuse = Reuse::new(32);
        let (mut list, mut expected) = (Vec::<u64>::new(), Histogram::default());
        let mut x = 1_u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = (x >> 40) % (1 + (x >> 33) % 700);
            reuse.uses(line);
            match list.iter().rev().position(|l| *l == line) {
                None => expected.cold += 1,
                Some(n) => {
                    expected.buckets[bucket(n as u32)] += 1;
                    list.remove(list.len() - 1 - n);
                }
            }
            list.push(line);
        }
        assert_eq!(reuse.histogram, expected);
    }

    #[test]
    fn more_times_than_the_tree_has_are_moved_together() {
        let mut reuse = Reuse::new(32);
        let rounds = 3 * TIMES / 100;
        for _ in 0..rounds {
            (0..100).for_each(|line| reuse.uses(line));
        }
        assert_eq!(reuse.histogram.cold, 100);
        assert_eq!(
            reuse.histogram.buckets[bucket(99)],
            100 * (rounds as u64 - 1)
        );
    }
}
