//! The oracle judges random machine steps as a flat model of memory does.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("machine_ops", data));
