//! Readers of hard input: cases, machines, executables. Whatever the bytes, they give a value or a message,
//! never a panic, and they end; what they accept can be used.

use std::cell::RefCell;
use std::sync::Arc;

use kern::{Limits, RunEnd};
use machine::Profile;
use machine::profile::TableProfile;

use super::policy_ops::Bench;
use crate::case::{self, Action, Case};
use crate::oracle::Oracle;
use crate::system;
use crate::world::World;

/// Bytes of the longest text read: the readers' own limits are tested by name.
const TEXT_MAX: usize = 4096;

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(&data[..data.len().min(TEXT_MAX)]).into_owned()
}

/// Body of `case_file`: a case that is read can be written, is then read as the same case, and can be run.
pub fn case_file(data: &[u8]) {
    let Ok(case) = case::parse("input", &text(data)) else {
        return;
    };
    let written = case::write(&case);
    let again = case::parse("written", &written)
        .unwrap_or_else(|e| panic!("what was written is no case: {e}\n{written}"));
    assert_eq!(bare(&case), bare(&again), "{written}");
    assert_eq!(case::write(&again), written);
    if !case.has_processes() && case.lines.len() <= 64 {
        let machine = Profile::embedded("tiny-vivt").expect("it is embedded");
        let policy = pmap::policy::by_name("freebsd-2010").expect("it exists");
        let row = case::run_one(&case, machine, policy);
        assert!(row.steps.len() > case.lines.len());
    }
}

/// What must survive writing.
fn bare(case: &Case) -> (Vec<&Action>, Vec<(&str, Option<crate::oracle::Kind>)>) {
    let actions = case.lines.iter().map(|l| &l.action).collect();
    let expected = case.expectations.iter();
    let expected = expected.map(|e| (e.policy.as_str(), e.kind)).collect();
    (actions, expected)
}

/// Body of `profile`: a machine that is accepted can be booted and runs pmap operations.
pub fn profile(data: &[u8]) {
    let Ok(profile) = Profile::parse(&text(data)) else {
        return;
    };
    // Large ones are bounded by the checks and only slow here.
    let l2 = profile.l2.as_ref().map_or(0, |l2| l2.size);
    let table = match profile.table {
        TableProfile::ArmShort => 0,
        TableProfile::Flat {
            spaces,
            user_pages,
            kernel_pages,
        } => spaces * (user_pages + kernel_pages),
    };
    if profile.icache.size.max(profile.dcache.size).max(l2) > 1 << 20 || table > 1 << 16 {
        return;
    }
    let policy = pmap::policy::by_name("always-flush").expect("it exists");
    let mut bench = Bench::new(Arc::new(profile), policy);
    let ops = bench.sequence(super::Inputs::new(7).next(100));
    let found = bench.run(&ops);
    let _ = found;
}

thread_local! {
    static SYSTEM: RefCell<World<Oracle>> = RefCell::new(boot());
}

fn boot() -> World<Oracle> {
    let machine = Profile::embedded("sheevaplug").expect("it is embedded");
    let policy = pmap::policy::by_name("always-flush").expect("it exists");
    let state = system::boot(machine, |_| {});
    let oracle = system::oracle(&state);
    system::world(state, policy, oracle)
}

/// A file out of bytes: as they are, or a good program with bytes of its first page replaced.
pub fn elf_of(data: &[u8]) -> Vec<u8> {
    let Some((mode, rest)) = data.split_first() else {
        return Vec::new();
    };
    if mode % 8 == 0 {
        return rest.to_vec();
    }
    let guests = ["testsimple", "args"];
    let good = guests.iter().find_map(|name| crate::guests::by_name(name));
    let mut file = good.map_or(Vec::new(), |g| g.bytes.to_vec());
    for change in rest.chunks_exact(3) {
        // Mostly the headers: the identification, the header and the program headers.
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let at = if mode % 2 == 0 { at % 180 } else { at };
        if let Some(byte) = file.get_mut(at) {
            *byte = change[2];
        }
    }
    if mode % 16 == 1 {
        file.truncate(usize::from(*mode) * 8);
    }
    file
}

/// Body of `guest_elf`: the file is refused with a message, or runs to an end within its budget; the kernel
/// neither panics nor spins.
pub fn guest_elf(data: &[u8]) {
    let file = elf_of(data);
    let mut world = SYSTEM.with_borrow(Clone::clone);
    if world.state.vfs.fs_add_file("/bin/input", &file).is_err() {
        return;
    }
    let limits = Limits {
        instructions: 20_000,
        traps: 200,
    };
    match system::run(&mut world, "/bin/input", &["x"], limits) {
        Err(refused) => assert!(!refused.to_string().is_empty()),
        Ok(run) => {
            let bad = matches!(run.end, RunEnd::Panic(_) | RunEnd::Hang(_));
            assert!(!bad, "{}", run.end);
        }
    }
    assert_eq!(world.state.check(), None);
}
