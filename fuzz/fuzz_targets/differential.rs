//! Programs run the same on the fast path and on the plain one.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("differential", data));
