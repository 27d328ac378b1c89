//! Any text is a machine or a message, and a machine can be built and used.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("profile", data));
