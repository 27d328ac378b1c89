//! A booted system: a world with the guest programs in `/bin`, and programs run on it to their end.

use std::sync::Arc;

use kern::{ExecError, KernCtx, KernVerbs, Limits, Pid, RunEnd};
use machine::{Costs, CpuId, Observer, Profile};
use pmap::{PmapVerbs, Policy, SpaceId};
use vfs_sim::{VfsConfig, VfsVerbs};

use crate::adversary::Adversary;
use crate::oracle::Oracle;
use crate::tree::Tree;
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
    boot_tree(profile, &Tree::of_guests(), configure)
        .expect("an empty disk has room for the guests")
}

/// A booted machine whose disk holds a tree.
///
/// # Errors
/// What does not fit the disk.
pub fn boot_tree(
    profile: Arc<Profile>,
    tree: &Tree,
    configure: impl FnOnce(&mut VfsConfig),
) -> Result<State, String> {
    let mut state = State::boot_with(profile, |config| {
        tree.configure(config);
        configure(config);
    });
    tree.plant(&mut state.vfs)?;
    Ok(state)
}

/// An oracle for a state that was just booted.
pub fn oracle(state: &State) -> Oracle {
    let tables = state.pmap.layout.tables;
    Oracle::new(&state.machine, (tables.1, tables.2))
}

/// A world around a booted state, with a `/tmp`.
pub fn world<O: Observer + Clone>(state: State, policy: Policy, observer: O) -> World<O> {
    let mut world = World::new(state, policy, observer);
    if world.state.vfs.lookup("/tmp").is_err() {
        world
            .vfs_mkdir(CPU0, "/tmp")
            .expect("an empty disk has room for a directory");
    }
    world
}

/// A world of bare spaces, the first of them running: as a case begins.
///
/// # Errors
/// The machine has no room for so many.
pub fn bare(profile: Arc<Profile>, policy: Policy, spaces: u8) -> Result<World<Oracle>, String> {
    let state = State::boot(profile);
    let oracle = oracle(&state);
    let mut world = World::new(state, policy, oracle);
    for _ in 0..spaces {
        let made = world.pmap_create(CPU0);
        made.ok_or_else(|| {
            let name = &world.state.machine.profile().name;
            format!("{name}: no room for {spaces} spaces")
        })?;
    }
    world.cpu_switch(CPU0, Some(SpaceId(1)));
    Ok(world)
}

/// What a program is started with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Its file.
    pub path: &'a str,
    /// Its arguments, without its name.
    pub args: &'a [&'a str],
    /// `NAME=VALUE` each.
    pub environment: &'a [&'a str],
}

/// The environment of a program unless somebody says otherwise.
pub const ENVIRONMENT: &[&str] = &["HOME=/", "PATH=/bin"];

/// A program under way.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    pid: Pid,
    cost: Costs,
    captured: (usize, usize),
}

/// Loads a program, up to its first instruction.
///
/// # Errors
/// Why it cannot be executed.
pub fn start<O: Observer + Clone>(
    world: &mut World<O>,
    start: &Start<'_>,
) -> Result<Started, ExecError> {
    let cost = world.state.machine.cost;
    let captured = (world.kern().stdout.len(), world.kern().stderr.len());
    let mut argv = vec![start.path.rsplit('/').next().unwrap_or(start.path)];
    argv.extend(start.args);
    let pid = world.spawn(CPU0, start.path, &argv, start.environment)?;
    Ok(Started {
        pid,
        cost,
        captured,
    })
}

impl Started {
    /// Its process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What came of it, when its run has ended so.
    pub fn finish<O: Observer + Clone>(self, world: &World<O>, end: RunEnd) -> ProgramRun {
        tracing::info!(%end, "ended");
        let kern = world.kern();
        ProgramRun {
            exit_code: kern.status_of(self.pid).map(|status| status.code()),
            end,
            cost: world.state.machine.cost.since(&self.cost),
            stdout: kern.stdout[self.captured.0..].to_vec(),
            stderr: kern.stderr[self.captured.1..].to_vec(),
        }
    }
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
    let environment = ENVIRONMENT;
    let run = start(
        world,
        &Start {
            path,
            args,
            environment,
        },
    )?;
    started(world);
    let end = world.run(CPU0, limits);
    Ok(run.finish(world, end))
}

/// The same, with an adversary between the program's instructions.
///
/// # Errors
/// Why it cannot be executed.
pub fn run_against<O: Observer + Clone>(
    world: &mut World<O>,
    program: &Start<'_>,
    limits: Limits,
    adversary: &mut Adversary,
) -> Result<ProgramRun, ExecError> {
    let run = start(world, program)?;
    let end = adversary.run(world, CPU0, limits);
    Ok(run.finish(world, end))
}
