#!/bin/bash -eu
# Untested: see fuzz/README.md.
cd "$SRC/pmaplab"
cargo fuzz build -O
for source in fuzz/fuzz_targets/*.rs; do
  target=$(basename "$source" .rs)
  cp "fuzz/target/x86_64-unknown-linux-gnu/release/$target" "$OUT/" \
    || cp "target/x86_64-unknown-linux-gnu/release/$target" "$OUT/"
  zip -j "$OUT/${target}_seed_corpus.zip" fuzz/corpus/"$target"/*
done
