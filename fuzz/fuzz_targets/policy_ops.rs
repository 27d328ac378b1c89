//! Legal pmap operations under a policy that claims to be correct.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| lab::fuzz::run("policy_ops", data));
