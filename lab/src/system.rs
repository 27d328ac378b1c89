//! A booted system: a world with the guest programs in `/bin`, and programs run on it to their end.

use std::sync::Arc;

use kern::{ExecError, KernCtx, KernVerbs, Limits, RunEnd};
use machine::{Costs, CpuId, Observer, Profile};
use pmap::Policy;
use vfs_sim::{VfsConfig, VfsVerbs};

use crate::guests;
use crate::oracle::Oracle;
use crate::world::{State, World};

/// The CPU that programs are started on.
pub const CPU0: CpuId = CpuId(0);

/// What came of a program.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    /// Its exit code, if it ended; 128 and the signal's number if one killed it.
    pub exit_code: Option<u32>,
    /// Why the run ended.
    pub end: RunEnd,
    /// What was spent on it.
    pub cost: Costs,
    /// What it wrote to descriptor 1.
    pub stdout: Vec<u8>,
    /// What it wrote to descriptor 2.
    pub stderr: Vec<u8>,
}

/// A booted machine with `/bin` full of guests and an empty `/tmp`.
pub fn boot(profile: Arc<Profile>, configure: impl FnOnce(&mut VfsConfig)) -> State {
    let mut state = State::boot_with(profile, configure);
    for guest in guests::all() {
        let added = state
            .vfs
            .fs_add_file(&format!("/bin/{}", guest.name), guest.bytes);
        added.expect("an empty disk has room for the guests");
    }
    state
}

/// An oracle for a state that was just booted.
pub fn oracle(state: &State) -> Oracle {
    let tables = state.pmap.layout.tables;
    Oracle::new(&state.machine, (tables.1, tables.2))
}

/// A world around a booted state, with its `/tmp`.
pub fn world<O: Observer + Clone>(state: State, policy: Policy, observer: O) -> World<O> {
    let mut world = World::new(state, policy, observer);
    world
        .vfs_mkdir(CPU0, "/tmp")
        .expect("an empty disk has room for a directory");
    world
}

/// Runs a program to its end.
///
/// # Errors
/// Why it cannot be executed.
pub fn run<O: Observer + Clone>(
    world: &mut World<O>,
    path: &str,
    args: &[&str],
    limits: Limits,
) -> Result<ProgramRun, ExecError> {
    run_with(world, path, args, limits, |_| {})
}

/// The same; `started` is called when the image is loaded, before its first instruction.
///
/// # Errors
/// Why it cannot be executed.
pub fn run_with<O: Observer + Clone>(
    world: &mut World<O>,
    path: &str,
    args: &[&str],
    limits: Limits,
    started: impl FnOnce(&mut World<O>),
) -> Result<ProgramRun, ExecError> {
    let span = tracing::info_span!("program", path);
    let _entered = span.enter();
    let before = world.state.machine.cost;
    let captured = (world.kern().stdout.len(), world.kern().stderr.len());
    let mut argv = vec![path.rsplit('/').next().unwrap_or(path)];
    argv.extend(args);
    let pid = world.spawn(CPU0, path, &argv, &["HOME=/", "PATH=/bin"])?;
    started(world);
    let end = world.run(CPU0, limits);
    tracing::info!(%end, "ended");
    Ok(ProgramRun {
        exit_code: world.kern().status_of(pid).map(|status| status.code()),
        end,
        cost: world.state.machine.cost.since(&before),
        stdout: world.kern().stdout[captured.0..].to_vec(),
        stderr: world.kern().stderr[captured.1..].to_vec(),
    })
}
