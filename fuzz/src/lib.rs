//! The fuzz targets live in `fuzz_targets/`; their bodies are in `lab::fuzz`.
