//! The SheevaPlug story told by a shell: a program is copied and the copy runs; other files are read;
//! somebody reads the copy, and it runs again.
//!
//! One shell script on one booted machine, timed between the marks that it prints. Under a policy that
//! keeps text uncached while a buffer of its file has a writable mapping, the copy is slow until its
//! buffers are recycled, slow again once it is read, and recovers again. The machine has so few buffers
//! that one larger file recycles them all, as a day's work does on a machine of its own.
//!
//! With a tree that has `/bin/busybox` the shell and the copied program are that; without one they are
//! the guests `script` and `big`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use kern::{KernCtx, KernVerbs, Limits, RunEnd};
use machine::{Costs, Profile};
use pmap::Policy;
use serde::Serialize;

use crate::State;
use crate::oracle::{Kind, Oracle};
use crate::system::{self, CPU0, Start, Started};
use crate::tree::Tree;
use crate::world::World;

/// Instructions between two looks at what the script has printed.
const SLICE: u64 = 2000;
/// Instructions after which a script that does not end is given up.
const BUDGET: u64 = 200_000_000;
/// The file whose reading recycles every buffer.
const FILLER: &str = "/var/filler";

/// What is measured, in the script's order, and the heading of its column.
const STEPS: [(&str, &str); 5] = [
    ("original", "the program itself"),
    ("copied", "its copy, just written"),
    ("later", "the copy, after other files were read"),
    ("read", "the copy, after somebody read it"),
    ("again", "the copy, after other files were read"),
];

/// A script and the program that runs it.
#[derive(Clone, Debug)]
struct Play {
    shell: &'static str,
    program: &'static str,
    args: Vec<String>,
    expected: Option<String>,
}

/// A booted machine with the script's files on its disk; every policy starts from a clone.
#[derive(Clone, Debug)]
pub struct Stage {
    state: State,
    play: Play,
    seconds_per_cycle: f64,
}

/// One policy's row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Policy.
    pub policy: String,
    /// Milliseconds of each step that was reached, by its name.
    pub ms: BTreeMap<&'static str, f64>,
    /// Cycles of each such step by class.
    pub cycles: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// The script's exit code.
    pub exit_code: Option<u32>,
    /// Whether it printed what it should.
    pub right: bool,
    /// Findings by kind.
    pub verdicts: BTreeMap<&'static str, u64>,
}

/// The story's table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Story {
    /// `shell`.
    pub scenario: &'static str,
    /// Machine.
    pub machine: String,
    /// The program that was copied.
    pub program: &'static str,
    /// One row a policy.
    pub rows: Vec<Row>,
}

impl Stage {
    /// Boots a machine with `tree`, or with the guests if there is none.
    ///
    /// # Errors
    /// The tree has no `/bin/busybox`, or does not fit.
    pub fn new(profile: Arc<Profile>, tree: Option<Tree>) -> Result<Self, String> {
        let (play, mut tree) = match tree {
            Some(tree) => (busybox(&tree)?, tree),
            None => (guests(), Tree::of_guests()),
        };
        let program = tree.file(play.program).map_or(0, <[u8]>::len) as u32;
        let block = vfs_sim::VfsConfig::new(&profile, &pmap_layout(&profile)).block_bytes;
        // A copy needs the buffers of both files; reading the filler needs all of them.
        let buffers = 2 * program.div_ceil(block) + 24;
        tree.add(FILLER, &vec![b'.'; ((buffers + 8) * block) as usize])?;
        let seconds_per_cycle = 1.0 / f64::from(profile.clock_mhz) / 1e6;
        let state = system::boot_tree(profile, &tree, |config| {
            config.nbuf = config.nbuf.min(buffers);
        })?;
        Ok(Self {
            state,
            play,
            seconds_per_cycle,
        })
    }

    /// The program that the script copies.
    pub fn program(&self) -> &'static str {
        self.play.program
    }

    /// Tells the story under one policy.
    ///
    /// # Errors
    /// The shell cannot be executed.
    pub fn tell(&self, policy: Policy) -> Result<Row, String> {
        let span = tracing::info_span!("shell", policy = policy.name);
        let _entered = span.enter();
        let oracle = system::oracle(&self.state);
        let mut world = system::world(self.state.clone(), policy, oracle);
        let args: Vec<&str> = self.play.args.iter().map(String::as_str).collect();
        let start = Start {
            path: self.play.shell,
            args: &args,
            environment: system::ENVIRONMENT,
        };
        let started = system::start(&mut world, &start).map_err(|e| e.to_string())?;
        let (end, marks) = watch(&mut world);
        Ok(self.row(&world, started, end, &marks))
    }

    fn row(
        &self,
        world: &World<Oracle>,
        started: Started,
        end: RunEnd,
        marks: &BTreeMap<String, Costs>,
    ) -> Row {
        let run = started.finish(world, end);
        let text = String::from_utf8_lossy(&run.stdout).into_owned();
        let took = |name: &'static str| {
            let from = marks.get(&format!("{name}<"))?;
            Some((name, marks.get(&format!("{name}>"))?.since(from)))
        };
        let costs: BTreeMap<_, _> = STEPS.iter().filter_map(|(name, _)| took(name)).collect();
        let ms = |cost: &Costs| 1e3 * cost.total() as f64 * self.seconds_per_cycle;
        let expected = self.play.expected.as_deref();
        Row {
            policy: world.policy.name.to_owned(),
            ms: costs.iter().map(|(name, cost)| (*name, ms(cost))).collect(),
            cycles: costs
                .iter()
                .map(|(name, cost)| (*name, by_class(cost)))
                .collect(),
            exit_code: run.exit_code,
            right: run.exit_code == Some(0) && expected.is_none_or(|e| text.contains(e)),
            verdicts: world.observer.verdicts.named(),
        }
    }
}

fn by_class(cost: &Costs) -> BTreeMap<&'static str, u64> {
    let classes = machine::Class::ALL.iter();
    classes.map(|c| (c.name(), cost.of(*c))).collect()
}

/// Where a machine's kernel windows are; their sizes follow from the profile.
fn pmap_layout(profile: &Arc<Profile>) -> pmap::Layout {
    State::boot(profile.clone()).pmap.layout
}

/// Runs to the end and notes what had been spent when each mark was first seen.
fn watch(world: &mut World<Oracle>) -> (RunEnd, BTreeMap<String, Costs>) {
    let mut marks = BTreeMap::new();
    let (mut seen, mut used) = (0, 0);
    loop {
        let end = world.run(CPU0, Limits::instructions(SLICE));
        let text = &world.kern().stdout;
        if text.len() > seen {
            seen = text.len();
            let text = String::from_utf8_lossy(text);
            let cost = world.state.machine.cost;
            for mark in text.lines().filter_map(|l| l.strip_prefix('@')) {
                marks.entry(mark.to_owned()).or_insert(cost);
            }
        }
        used += SLICE;
        if end != RunEnd::Instructions || used >= BUDGET {
            return (end, marks);
        }
    }
}

/// The script in busybox's shell.
fn busybox(tree: &Tree) -> Result<Play, String> {
    const SHELL: &str = "/bin/busybox";
    const SUMMED: &str = "/bin/mksh";
    if tree.file(SHELL).is_none() {
        return Err(format!(
            "the tree has no {SHELL}; tools/fetch-armel.sh fetches one"
        ));
    }
    // A first run brings text in, the second is timed. A copy by a name that does not begin with
    // `busybox` would look for an applet of that name.
    let turns = "sh -c 'i=0; while [ $i -lt 12 ]; do i=$((i+1)); done'";
    let timed = |program: &str, step: &str| {
        format!("{program} {turns}; echo '@{step}<'; {program} {turns}; echo '@{step}>'\n")
    };
    let others = format!("cat {FILLER} > /dev/null\n");
    let sum = tree
        .file(SUMMED)
        .map(|_| format!("cat {SUMMED} | /tmp/busybox md5sum\n"));
    let script = [
        timed(SHELL, "original"),
        format!("cp {SHELL} /tmp/busybox; sync\n"),
        timed("/tmp/busybox", "copied"),
        others.clone(),
        timed("/tmp/busybox", "later"),
        "cat /tmp/busybox > /dev/null\n".to_owned(),
        timed("/tmp/busybox", "read"),
        sum.clone().unwrap_or_default(),
        others,
        timed("/tmp/busybox", "again"),
    ];
    Ok(Play {
        shell: SHELL,
        program: SHELL,
        args: vec!["sh".to_owned(), "-c".to_owned(), script.concat()],
        expected: sum.map(|_| "  -\n".to_owned()),
    })
}

/// The script in words of the guest `script`.
fn guests() -> Play {
    const PROGRAM: &str = "/bin/big";
    let timed = |program: &str, step: &str| {
        let run = format!("run {program} 1 2");
        [
            run.clone(),
            format!("say @{step}<"),
            run,
            format!("say @{step}>"),
        ]
    };
    let one = |word: &str| vec![word.to_owned()];
    let args = [
        timed(PROGRAM, "original").to_vec(),
        one("cp /bin/big /tmp/b"),
        one("sync"),
        timed("/tmp/b", "copied").to_vec(),
        one("read /var/filler"),
        timed("/tmp/b", "later").to_vec(),
        one("read /tmp/b"),
        timed("/tmp/b", "read").to_vec(),
        one("sum /tmp/b"),
        one("read /var/filler"),
        timed("/tmp/b", "again").to_vec(),
    ];
    Play {
        shell: "/bin/script",
        program: PROGRAM,
        args: args.concat(),
        expected: Some("sum ".to_owned()),
    }
}

/// The gravest kind that a row found.
pub fn worst(row: &Row) -> Option<Kind> {
    let kinds = row.verdicts.keys().filter_map(|n| Kind::by_name(n));
    kinds.filter(|k| *k != Kind::Permitted).min()
}

/// The story as text: the table and three closing lines. `call` is what was typed.
pub fn table(story: &Story, call: &str, on: &str) -> String {
    let mut out = format!("shell on {}, {}\n\n", story.machine, story.program);
    let _ = write!(out, "{:<31} {:>10}", "policy", STEPS[0].0);
    for (name, _) in &STEPS[1..] {
        let _ = write!(out, " {name:>8}");
    }
    let _ = writeln!(out, "  found");
    for row in &story.rows {
        let _ = writeln!(out, "{}", line(row));
    }
    let _ = writeln!(
        out,
        "\noriginal: milliseconds of a run; then times as long as that:"
    );
    for (name, about) in STEPS {
        let _ = writeln!(out, "  {name:<9} {about}");
    }
    out + &closing(story, call, on)
}

fn line(row: &Row) -> String {
    let base = row.ms.get(STEPS[0].0).copied();
    let mut out = format!("{:<31}", row.policy);
    let _ = match base {
        Some(ms) => write!(out, " {ms:>7.3} ms"),
        None => write!(out, " {:>10}", "-"),
    };
    for (name, _) in &STEPS[1..] {
        let _ = match (row.ms.get(name), base) {
            (Some(ms), Some(base)) => write!(out, " {:>8.2}", ms / base),
            _ => write!(out, " {:>8}", "-"),
        };
    }
    let found = match worst(row) {
        Some(kind) => kind.name(),
        None if row.right => "clean",
        None => "wrong output",
    };
    let died = match row.exit_code {
        Some(0) => String::new(),
        Some(code) => format!(", exit code {code}"),
        None => ", did not end".to_owned(),
    };
    out + "  " + found + &died
}

fn closing(story: &Story, call: &str, on: &str) -> String {
    let found = story
        .rows
        .iter()
        .min_by_key(|r| worst(r).map_or(u8::MAX, |k| k as u8));
    match found.and_then(|row| worst(row).map(|kind| (row, kind))) {
        None => {
            format!("\nworst: clean\ntell:  nothing to tell\nnext:  {call} --policy bare{on}\n")
        }
        Some((row, kind)) => {
            let policy = &row.policy;
            let again = format!("{call} --policy {policy}");
            let tell = match kind {
                Kind::StaleExec => format!(
                    "pmaplab exec --policy {policy}{on} guest/bin/patchlib map-first /bin/patchlib.code"
                ),
                // The small program shows stale words only; of others the story tells the kind.
                _ => format!("{again}{on} --json"),
            };
            format!(
                "\nworst: {} under {policy}\ntell:  {tell}\nnext:  {again} --policy always-flush --json{on}\n",
                kind.name()
            )
        }
    }
}
