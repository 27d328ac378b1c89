//! What tests of programs share.

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
