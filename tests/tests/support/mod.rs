//! What tests of programs share.
//!
//! The adversary's tests run each program once, under one reference policy. `PMAPLAB_ADVERSARY=10000000` asks
//! for so many instructions of each, under each reference policy on each machine; `PMAPLAB_PROGRAM=NAME`
//! keeps to programs whose name contains NAME.

use lab::adversary::Adversary;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does jobs on every core; each shares nothing with the others.
pub fn in_parallel<T: Sync>(jobs: Vec<T>, work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

/// How much the adversary's tests are asked for.
pub struct Campaign {
    least: Option<u64>,
    program: Option<String>,
}

impl Campaign {
    pub fn asked() -> Self {
        let least = std::env::var("PMAPLAB_ADVERSARY").ok();
        Self {
            least: least.map(|n| {
                n.parse()
                    .expect("PMAPLAB_ADVERSARY: a number of instructions")
            }),
            program: std::env::var("PMAPLAB_PROGRAM").ok(),
        }
    }

    pub fn takes(&self, program: &str) -> bool {
        self.program
            .as_ref()
            .is_none_or(|name| program.contains(name))
    }

    /// All of the choices, or the `n`th in turn.
    pub fn chosen<T: Clone>(&self, n: usize, of: &[T]) -> Vec<T> {
        match self.least {
            Some(_) => of.to_vec(),
            None => vec![of[n % of.len()].clone()],
        }
    }

    /// Runs against adversaries of different seeds and paces until enough was executed. `run` returns how
    /// many instructions.
    pub fn fight(&self, mut run: impl FnMut(&str, &mut Adversary) -> u64) {
        let (mut done, mut seed) = (0, 0);
        while done < self.least.unwrap_or(1) {
            let every = [100, 300, 1000, 30][seed as usize % 4];
            seed += 1;
            let mut adversary = Adversary::new(seed, every);
            let instructions = run(&format!("adversary {seed}"), &mut adversary);
            // A short program may end before it acts.
            assert!(
                adversary.steps > 0 || instructions < 4 * every,
                "it never acted"
            );
            done += instructions.max(1);
        }
    }
}
