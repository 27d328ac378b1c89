//! Any file is executed or refused with a message, within its budget.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("guest_elf", data));
