//! Programs on the emulated machine, with everything beneath the kernel real.

mod convention;
mod guests;
mod linux;
mod world;
