//! Any text is a case or a message, and a case written is read back as it was.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("case_file", data));
