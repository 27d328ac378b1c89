//! The seeds of the fuzz target `trace_file` on the stable compiler: as they are, cut at every byte,
//! and with every byte changed.

use std::path::Path;

#[test]
fn no_trace_panics() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/trace_file");
    let mut files: Vec<_> = std::fs::read_dir(corpus)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{} seeds", files.len());
    for file in files {
        let seed = std::fs::read(&file).expect("a seed");
        lab::trace::fuzz_one(&seed);
        for n in 0..seed.len().min(400) {
            lab::trace::fuzz_one(&seed[..n]);
            for change in [0x01, 0x80, 0xff] {
                let mut changed = seed.clone();
                changed[n] ^= change;
                lab::trace::fuzz_one(&changed);
            }
        }
    }
}
