//! Runs the program on a CPU: the interpreter's bus is this machine.
pub use crate::cpu::Exit;
