//! How fast `policy_ops` runs, and how long it takes to find what a policy gets wrong, from random inputs
//! and no corpus: `cargo run --release --example hunt -- POLICY [SECONDS [SEED]]`.

use std::time::Instant;

use lab::fuzz::Inputs;
use lab::fuzz::policy_ops::{Bench, chosen_machine};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, other: u64| args.get(n).and_then(|a| a.parse().ok()).unwrap_or(other);
    let name = args.first().map_or("always-flush", String::as_str);
    let policy = pmap::policy::by_name(name).expect("a policy's name");
    let (seconds, seed) = (number(1, 60), number(2, 0));
    let mut bench = Bench::new(chosen_machine(), policy);
    let mut inputs = Inputs::new(seed);
    let (mut sequences, mut operations) = (0u64, 0u64);
    let started = Instant::now();
    let found = loop {
        let ops = bench.sequence(inputs.next(120));
        operations += ops.len() as u64;
        sequences += 1;
        if let Some(kind) = bench.run(&ops) {
            break Some((ops, kind));
        }
        if sequences.is_multiple_of(256) && started.elapsed().as_secs() >= seconds {
            break None;
        }
    };
    let time = started.elapsed().as_secs_f64();
    println!(
        "{name}: {sequences} sequences of {:.1} operations in {time:.2} s: {:.0} sequences/s, {:.0} operations/s",
        operations as f64 / sequences as f64,
        sequences as f64 / time,
        operations as f64 / time,
    );
    match found {
        Some((ops, kind)) => println!("{}", bench.report(&ops, kind)),
        None => println!("nothing found"),
    }
}
