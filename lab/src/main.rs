//! The command `pmaplab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::command::main()
}
