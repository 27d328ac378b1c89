//! The command `pmaplab`.
fn main() {}
