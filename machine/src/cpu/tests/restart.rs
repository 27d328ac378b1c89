//! Restartability: whichever access of an instruction fails, no register changes, and executing
//! the instruction again ends as if nothing had failed.

use super::{Bench, forms};
use crate::cpu::{Exit, step};

/// Fails access number `index` of the bench's instruction, where 0 is the fetch, and executes it
/// again; `None` if it has no such access.
fn interrupted(bench: &Bench, index: u32, expected: &Bench) -> Option<()> {
    let mut bench = bench.clone();
    let before = bench.regs;
    bench.bus.fails_after = Some(index);
    let exit = step(&mut bench.regs, bench.arch, &mut bench.bus)?;
    let name = format!("{:08x} at access {index}", bench.bus.word(super::CODE));
    match exit {
        Exit::PrefetchAbort(_) => assert_eq!(index, 0, "{name}"),
        Exit::DataAbort(_) => assert_ne!(index, 0, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
    assert_eq!(bench.regs, before, "{name} changed registers");
    assert_eq!(bench.bus.stalled, 0, "{name} stalled");
    assert_eq!(
        step(&mut bench.regs, bench.arch, &mut bench.bus),
        None,
        "{name}"
    );
    assert_eq!(&bench, expected, "{name}, executed again");
    Some(())
}

#[test]
fn every_form_restarts_after_every_access() {
    let mut aborts = 0;
    for bench in forms::all() {
        let expected = bench.clone().run(1);
        let count = (0..)
            .take_while(|&k| interrupted(&bench, k, &expected).is_some())
            .count();
        assert!(
            count >= 2,
            "{:08x} accesses no memory",
            bench.bus.word(super::CODE)
        );
        aborts += count;
    }
    assert!(aborts > 150, "only {aborts} aborts were tried");
}
