//! The command `pmaplab`.

use std::process::ExitCode;

use clap::Parser;
use lab::trace::{self, TraceArgs};

/// Cache maintenance of kernels, on a machine where it matters.
#[derive(Parser)]
#[command(name = "pmaplab")]
enum Command {
    /// Simulate caches and TLBs on a recorded trace.
    Trace(TraceArgs),
}

fn main() -> ExitCode {
    let Command::Trace(args) = Command::parse();
    match trace::run(&args, &mut std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pmaplab trace: {error}");
            ExitCode::from(2)
        }
    }
}
