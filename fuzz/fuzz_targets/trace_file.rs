//! Any bytes are a trace or a message.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::trace::fuzz_one(data));
