//! Misses over the time of a run, in a bounded number of steps of equal length.

use super::record::Ref;
use super::sim::{Follow, Misses};

/// Most steps kept; when there are more, neighbours are put together.
const STEPS_MAX: usize = 512;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// References.
    pub references: u64,
    /// Instruction cache misses.
    pub l1i: u64,
    /// Data cache misses.
    pub l1d: u64,
}

impl Step {
    fn add(&mut self, other: &Step) {
        self.references += other.references;
        self.l1i += other.l1i;
        self.l1d += other.l1d;
    }
}

/// Collects steps.
#[derive(Default)]
pub struct Timeline {
    steps: Vec<Step>,
    /// Batches of a whole step.
    batches: u32,
    /// Batches in the last step.
    open: u32,
}

impl Timeline {
    /// The steps so far; the last may be shorter.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn add(&mut self, step: &Step) {
        if self.open == 0 && self.steps.len() == STEPS_MAX {
            for n in 0..STEPS_MAX / 2 {
                let second = self.steps[2 * n + 1];
                self.steps[n] = self.steps[2 * n];
                self.steps[n].add(&second);
            }
            self.steps.truncate(STEPS_MAX / 2);
            self.batches *= 2;
        }
        if self.open == 0 {
            self.steps.push(Step::default());
        }
        self.batches = self.batches.max(1);
        self.open = (self.open + 1) % self.batches;
        if let Some(last) = self.steps.last_mut() {
            last.add(step);
        }
    }
}

impl Follow for Timeline {
    fn batch(&mut self, batch: &[Ref], misses: &Misses) {
        self.add(&Step {
            references: batch.len() as u64,
            l1i: misses.l1i.len() as u64,
            l1d: misses.l1d.len() as u64,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stay_few_and_lose_nothing() {
        let mut timeline = Timeline::default();
        for n in 0..5000 {
            timeline.add(&Step {
                references: 1,
                l1i: n,
                l1d: 0,
            });
        }
        let steps = timeline.steps();
        assert!(steps.len() <= STEPS_MAX, "{}", steps.len());
        assert_eq!(steps.iter().map(|s| s.references).sum::<u64>(), 5000);
        assert_eq!(steps.iter().map(|s| s.l1i).sum::<u64>(), 5000 * 4999 / 2);
        assert!(steps[..steps.len() - 1].iter().all(|s| s.references == 16));
    }
}
