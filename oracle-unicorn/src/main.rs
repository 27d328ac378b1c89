//! Compares machine's ARM interpreter with unicorn-engine: random single instructions and short
//! random sequences, from random states, on ARMv5TE (ARM926) and ARMv6K (ARM11 MPCore).
//!
//! `oracle-unicorn [CASES [SEED]]` prints a table by class and exits 1 if a difference has no
//! reason listed in `judge.rs`.

mod cases;
mod class;
mod guest;
mod judge;
mod random;
mod reference;
mod table;

use cases::{Case, Source};
use judge::Verdict;
use machine::cpu::Arch;
use random::Random;
use reference::Reference;
use std::process::ExitCode;
use table::Table;
use unicorn_engine::unicorn_const::uc_error;

/// Unexplained differences shown in full.
const SHOWN_MAX: u64 = 30;

/// Runs `cases` cases. Now and then unicorn 2.1.5 runs past the count it was given, or past an
/// abort; a new instance does not, so a difference counts only if a new instance shows it too.
fn compare(arch: Arch, cases: u64, seed: u64, table: &mut Table) -> Result<(), uc_error> {
    let mut reference = Reference::new(arch)?;
    let mut source = Source::new(Random(seed), arch);
    for number in 0..cases {
        let case = if number % 4 == 3 {
            source.sequence()
        } else {
            source.single()
        };
        let mut verdict = judge::judge(&case, arch, &mut reference)?;
        if matches!(verdict, Verdict::Unexplained(_)) {
            reference = Reference::new(arch)?;
            verdict = judge::judge(&case, arch, &mut reference)?;
            table.again();
        }
        if let Verdict::Unexplained(detail) = &verdict {
            show(&case, arch, detail, table.unexplained());
        }
        table.add(arch, case.name, &verdict);
    }
    Ok(())
}

fn show(case: &Case, arch: Arch, detail: &str, before: u64) {
    if before < SHOWN_MAX {
        println!("{arch:?} {}: {}\n  {detail}", case.name, case.listing());
    }
}

fn number(argument: Option<String>, default: u64) -> u64 {
    argument.map_or(default, |text| text.parse().expect("a number"))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let cases = number(arguments.next(), 100_000);
    let seed = number(arguments.next(), 1);
    let mut table = Table::default();
    for arch in [Arch::V5te, Arch::V6k] {
        if let Err(error) = compare(arch, cases, seed, &mut table) {
            eprintln!("unicorn-engine failed: {error:?}");
            return ExitCode::from(2);
        }
    }
    print!("{table}");
    ExitCode::from(u8::from(table.unexplained() != 0))
}
