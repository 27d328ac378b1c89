//! Programs that nobody here wrote, on the emulated machine: Debian armel's shells and tools.
//!
//! `tools/fetch-armel.sh` fetches them into `target/armel`; `PMAPLAB_ARMEL` names another place. Where
//! they are absent these tests say so and pass; `guests.rs` covers the same paths with our own programs.
//!
//! - Under every policy that calls itself a reference each program prints what it prints elsewhere, ends
//!   as it does elsewhere, and nothing is found. What is expected is typed in, and where
//!   `qemu-arm-static` is installed it must agree.
//! - Under `bare` a program that follows another dies or prints something else, and an executed stale word is
//!   among what explains it.
//! - Random evictions and TLB drops change nothing: each program once, or `PMAPLAB_ADVERSARY=10000000`
//!   instructions of each under each reference policy (`support/mod.rs`).

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use kern::{ExecError, KernCtx, KernVerbs, Limits, RunEnd};
use lab::State;
use lab::adversary::Adversary;
use lab::oracle::{Kind, Oracle};
use lab::system::{self, CPU0, ProgramRun, Start};
use lab::tree::Tree;
use lab::world::World;
use machine::Profile;
use pmap::{Policy, Status};
use support::{Campaign, in_parallel};

/// Instructions after which a program is given up.
const BUDGET: u64 = 40_000_000;

/// What a POSIX shell can do by itself, and with children that execute nothing.
const SHELL: &str = r#"
i=0; while [ $i -lt 4 ]; do i=$((i+1)); echo $i; done
for w in b a; do echo $w; done | while read x; do echo got $x; done
x=$(echo sub; echo stitution); echo "[$x]"
echo line > o; echo more >> o; while read l; do echo "read $l"; done < o
case abc in a*c) echo match;; esac
(exit 3); echo $?
exit 5
"#;
const SHELL_PRINTS: &str =
    "1\n2\n3\n4\ngot b\ngot a\n[sub\nstitution]\nread line\nread more\nmatch\n3\n";

/// A binary is copied, its copy runs, is overwritten and runs again.
const COPY: &str = r#"
p=/bin/busybox; u=/usr/lib/klibc/bin
$p cp $u/true b; ./b; echo $?
$p cp $u/false b; ./b; echo $?
$p cat $u/true | ./b; echo $?
$p cp /bin/dash c; ./c -c 'echo dash'
$p cat $u/cat > c; echo through a pipe | ./c
$p cp $u/uname c; ./c
"#;
const COPY_PRINTS: &str = "0\n1\n1\ndash\nthrough a pipe\nLinux\n";

const TOOLS: &str =
    "sort data; sort -n data | md5sum; sort data > o; cat o | sort -r | head -n 2; md5sum data";
const TOOLS_PRINT: &str = "\
1\n10\n2\n33\n4\n500\n67\n\
68a85f50677019ab4b9a1b3ec01293b1  -\n\
67\n500\n\
a0cfe19f4213914d885be83223346bfc  data\n";
/// The file that the tools work on.
const DATA: &str = "33\n4\n500\n1\n67\n10\n2\n";

const SASH: &str = "-echo one\n-cp /usr/lib/klibc/bin/true b\n./b\n-cp /usr/lib/klibc/bin/uname b\n./b\n-echo two\n";

/// A program of a test.
struct Program {
    name: &'static str,
    path: &'static str,
    args: &'static [&'static str],
    stdin: &'static str,
    prints: &'static str,
    code: u32,
    /// It executes nothing else, so that user-mode emulation can run it.
    alone: bool,
}

const fn shell(name: &'static str, path: &'static str, args: &'static [&'static str]) -> Program {
    Program {
        name,
        path,
        args,
        stdin: "",
        prints: SHELL_PRINTS,
        code: 5,
        alone: true,
    }
}

const fn copies(name: &'static str, path: &'static str, args: &'static [&'static str]) -> Program {
    Program {
        prints: COPY_PRINTS,
        code: 0,
        alone: false,
        ..shell(name, path, args)
    }
}

const PROGRAMS: [Program; 10] = [
    shell("mksh, klibc", "/usr/lib/klibc/bin/mksh", &["-c", SHELL]),
    shell("mksh, dietlibc", "/usr/lib/diet/bin/mksh", &["-c", SHELL]),
    shell(
        "mksh, musl",
        "/usr/lib/arm-linux-musleabi/bin/mksh",
        &["-c", SHELL],
    ),
    shell("busybox sh", "/bin/busybox", &["sh", "-c", SHELL]),
    shell("bash", "/bin/bash-static", &["-c", SHELL]),
    shell("dash, dynamic", "/bin/dash", &["-c", SHELL]),
    copies("busybox sh copies", "/bin/busybox", &["sh", "-c", COPY]),
    copies("dash copies", "/bin/dash", &["-c", COPY]),
    Program {
        prints: TOOLS_PRINT,
        code: 0,
        ..shell("busybox tools", "/bin/busybox", &["sh", "-c", TOOLS])
    },
    Program {
        stdin: SASH,
        // Its own words wait in its buffer until it ends: standard output is no terminal.
        prints: "Linux\none\ntwo\n",
        code: 0,
        alone: false,
        ..shell("sash", "/bin/sash", &[])
    },
];

fn place() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/armel");
    std::env::var_os("PMAPLAB_ARMEL").map_or_else(|| PathBuf::from(default), PathBuf::from)
}

/// The fetched tree with the tests' data; `None`, and a message, where there is none.
static TREE: LazyLock<Option<Tree>> = LazyLock::new(|| {
    let place = place();
    if !place.is_dir() {
        // Not by eprintln!, which is shown for failed tests only.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no programs in {}; tools/fetch-armel.sh fetches them",
            place.display()
        );
        return None;
    }
    let mut tree = Tree::read(&place).expect("the fetched tree can be read");
    tree.add("/data", DATA.as_bytes()).expect("it is small");
    Some(tree)
});

/// Machines on which the programs run: those of these names that there are.
static MACHINES: LazyLock<BTreeMap<&'static str, State>> = LazyLock::new(|| {
    let Some(tree) = &*TREE else {
        return BTreeMap::new();
    };
    let booted = |name| {
        let state = system::boot_tree(Profile::embedded(name)?, tree, |_| {});
        Some((name, state.expect("the tree fits the disk")))
    };
    ["sheevaplug", "arm926ejs"]
        .into_iter()
        .filter_map(booted)
        .collect()
});

fn references() -> Vec<Policy> {
    pmap::policy::all()
        .filter(|p| p.status == Status::Reference)
        .collect()
}

fn boot(machine: &str, policy: &Policy) -> World<Oracle> {
    let state = MACHINES[machine].clone();
    let oracle = system::oracle(&state);
    system::world(state, policy.clone(), oracle)
}

impl Program {
    fn start(&self) -> Start<'_> {
        Start {
            path: self.path,
            args: self.args,
            environment: system::ENVIRONMENT,
        }
    }

    fn run(&self, world: &mut World<Oracle>) -> Result<ProgramRun, ExecError> {
        world.kern_mut().feed(self.stdin.into());
        let started = system::start(world, &self.start())?;
        let end = world.run(CPU0, Limits::instructions(BUDGET));
        Ok(started.finish(world, end))
    }

    fn run_against(
        &self,
        world: &mut World<Oracle>,
        adversary: &mut Adversary,
    ) -> Result<ProgramRun, ExecError> {
        world.kern_mut().feed(self.stdin.into());
        let limits = Limits::instructions(BUDGET);
        system::run_against(world, &self.start(), limits, adversary)
    }

    fn is_right(&self, run: &ProgramRun) -> bool {
        run.end == RunEnd::Exited
            && run.exit_code == Some(self.code)
            && run.stdout == self.prints.as_bytes()
    }

    /// Checks a run and its findings.
    fn check(&self, world: &World<Oracle>, run: &ProgramRun, on: &str) {
        let text = String::from_utf8_lossy(&run.stdout);
        let errors = String::from_utf8_lossy(&run.stderr);
        let told = format!(
            "{} {on}: {} {errors} {:?}",
            self.name,
            run.end,
            world.kern().messages
        );
        assert_eq!(text, self.prints, "{told}");
        assert_eq!(run.exit_code, Some(self.code), "{told}");
        let verdicts = &world.observer.verdicts;
        assert!(
            verdicts.clean(),
            "{told} {:?} {:#?}",
            verdicts.counts(),
            verdicts.first.first()
        );
        assert_eq!(world.state.check(), None, "{told}");
    }
}

#[test]
fn every_program_is_right_under_every_reference_policy() {
    for machine in MACHINES.keys() {
        let jobs = references()
            .into_iter()
            .flat_map(|p| PROGRAMS.iter().map(move |q| (p.clone(), q)));
        in_parallel(jobs.collect(), |(policy, program)| {
            let mut world = boot(machine, policy);
            let run = program.run(&mut world).expect("it can be executed");
            program.check(&world, &run, &format!("under {} on {machine}", policy.name));
        });
    }
}

#[test]
fn what_is_typed_in_is_what_user_mode_emulation_prints() {
    let qemu = Command::new("qemu-arm-static").arg("--version").output();
    if TREE.is_none() || qemu.is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: no qemu-arm-static, or no programs"
        );
        return;
    }
    let root = place().canonicalize().expect("it is there");
    let scratch = std::env::temp_dir().join(format!("programs-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a directory");
    std::fs::write(scratch.join("data"), DATA).expect("a file");
    for program in PROGRAMS.iter().filter(|p| p.alone) {
        let output = Command::new("qemu-arm-static")
            .arg("-L")
            .arg(&root)
            .arg(format!("{}{}", root.display(), program.path))
            .args(program.args)
            .current_dir(&scratch)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, program.prints, "{}", program.name);
        assert_eq!(
            output.status.code(),
            Some(program.code as i32),
            "{}",
            program.name
        );
    }
    std::fs::remove_dir_all(&scratch).expect("it is ours");
}

/// Under `bare` from the boot on, a second program starts on what the first one left in the caches: words of its
/// data, and words of its text where both have text at an address.
#[test]
fn under_bare_programs_execute_old_words() {
    if TREE.is_none() {
        return;
    }
    let bare = pmap::policy::by_name("bare").expect("a yardstick");
    let hit = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let firsts = PROGRAMS
        .iter()
        .filter(|p| ["bash", "sash"].contains(&p.name));
    let pairs = firsts.flat_map(|first| PROGRAMS.iter().map(move |program| (first, program)));
    in_parallel(pairs.collect(), |(first, program)| {
        let mut world = boot("sheevaplug", &bare);
        // How the first one ends, and whether the second one's header can be read, does not matter here.
        let _ = first.run(&mut world);
        let before = world.observer.verdicts.of(Kind::StaleExec);
        let Ok(run) = program.run(&mut world) else {
            assert!(!world.observer.verdicts.clean(), "{}", program.name);
            return;
        };
        let verdicts = &world.observer.verdicts;
        let told = format!(
            "{} after {}: {:?}",
            program.name,
            first.name,
            verdicts.named()
        );
        if program.is_right(&run) {
            return;
        }
        assert!(!verdicts.clean(), "wrong and not explained: {told}");
        if before == 0 && verdicts.of(Kind::StaleExec) > 0 {
            let mut kept = verdicts.first.iter();
            let verdict = kept
                .find(|v| v.kind == Kind::StaleExec)
                .expect("the first is kept");
            assert!(
                !verdict.because.is_empty()
                    && !verdict.during.is_empty()
                    && verdict.place.is_some(),
                "{told}"
            );
            assert!(verdict.got != verdict.want, "{told}");
            hit.lock().expect("no panic").insert(program.path);
        }
    });
    let hit = hit.into_inner().expect("no panic");
    assert!(hit.len() >= 3, "only {hit:?}");
}

#[test]
fn evictions_and_tlb_drops_change_no_output() {
    let machines = MACHINES.keys();
    let places: Vec<_> = references()
        .into_iter()
        .flat_map(|p| machines.clone().map(move |m| (p.clone(), *m)))
        .collect();
    if places.is_empty() || TREE.is_none() {
        return;
    }
    let campaign = Campaign::asked();
    let programs = PROGRAMS
        .iter()
        .enumerate()
        .filter(|(_, q)| campaign.takes(q.name));
    let jobs = programs.flat_map(|(n, program)| {
        let chosen = campaign.chosen(n, &places).into_iter();
        chosen.map(move |place| (place, program))
    });
    in_parallel(jobs.collect(), |((policy, machine), program)| {
        campaign.fight(|named, adversary| {
            let mut world = boot(machine, policy);
            let run = program
                .run_against(&mut world, adversary)
                .expect("it can be executed");
            program.check(
                &world,
                &run,
                &format!("under {} on {machine}, {named}", policy.name),
            );
            run.cost.instructions
        });
    });
}
