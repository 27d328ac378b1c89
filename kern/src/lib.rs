//! Processes over files and memory: exec, fork, exit, signals, pipes, the scheduler with its kernel
//! threads, and the system calls of two families.
//!
//! The state is [`Kern`], a plain value; the verbs are [`KernVerbs`], generic over [`KernCtx`]. A
//! program runs through [`KernCtx::run_user`] and nothing else; the kernel reaches memory through the
//! VM's copies, files through the file layer, and caches never: those are the pmap's and the
//! policy's. `kern` knows no oracle.

pub mod ctx;
pub mod descriptor;
pub mod elf;
pub mod errno;
pub mod exec;
pub mod exit;
pub mod file;
pub mod footprint;
pub mod fork;
pub mod helper;
pub mod kern;
pub mod kthread;
pub mod limits;
pub mod pipe;
pub mod proc;
pub mod run;
pub mod sched;
pub mod sendsig;
pub mod signal;
pub mod spawn;
pub mod stack;
pub mod switch;
pub mod syscall;
pub mod trace;
pub mod trap;

pub use ctx::{KernCtx, KernVerbs};
pub use elf::{Abi, ExecError};
pub use footprint::{Footprints, Row, Window, charge};
pub use kern::{Ended, Kern, KernConfig};
pub use kthread::Thread;
pub use limits::{Limits, Quotas};
pub use proc::{ExitStatus, Pid, Proc, State};
pub use run::RunEnd;
pub use sched::{Sched, Turn};
pub use signal::Signal;
pub use switch::Target;
