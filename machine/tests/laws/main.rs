//! Laws of the machine's small parts: each beside a naive model, over random histories.

mod cache;
mod descriptor;
mod memory;
mod tlb;
mod write_buffer;
