//! The gate: cases, laws, snapshots and corpus replay live in `tests/`.
