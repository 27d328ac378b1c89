//! The guest programs do what they promise, on the emulated machine with everything real beneath.

use crate::world::{CPU, World};
use kern::{KernVerbs, Limits, RunEnd, Signal, Thread, Turn};

/// The policy under which nothing is ever stale.
const CLEAN: &str = "always-flush";

fn ok(name: &str, args: &[&str]) -> String {
    let mut world = World::new(CLEAN);
    let (code, text) = world.run_program(name, args);
    assert_eq!(code, 0, "{name}: {text} {:?}", world.kern.messages);
    text
}

#[test]
fn testsimple_tells_its_time() {
    let text = ok("testsimple", &["20000"]);
    assert!(text.starts_with("Elapsed 0."), "{text}");
}

#[test]
fn cat_copies_a_file_to_standard_output() {
    let mut world = World::new(CLEAN);
    let bytes: String = (0..3000).map(|n| format!("{n}\n")).collect();
    world
        .vfs
        .fs_add_file("/tmp/numbers", bytes.as_bytes())
        .expect("room");
    assert_eq!(world.run_program("cat", &["/tmp/numbers"]), (0, bytes));
    let (code, text) = world.run_program("cat", &["/tmp/none"]);
    assert_ne!(code, 0, "{text}");
}

#[test]
fn big_calls_all_its_text() {
    assert_eq!(ok("big", &[]), "big ok\n");
}

#[test]
fn selfcheck_is_content() {
    assert_eq!(ok("selfcheck", &["a", "b"]), "selfcheck ok\n");
}

#[test]
fn patchlib_runs_no_old_version_under_a_clean_policy() {
    for mode in ["map-first", "read-first"] {
        for kind in ["private", "shared"] {
            let mut world = World::new(CLEAN);
            world.add("patchlib.code");
            let file = "/bin/patchlib.code";
            let result = world.run_program("patchlib", &[mode, file, kind]);
            assert_eq!(result, (0, "old versions: 0\n".to_owned()), "{mode} {kind}");
        }
    }
}

#[test]
fn forker_sees_copies() {
    assert_eq!(ok("forker", &[]), "forker ok\n");
}

#[test]
fn pipes_make_both_sides_sleep() {
    assert_eq!(ok("pipes", &["20"]), "pipes ok\n");
}

#[test]
fn signals_come_and_return() {
    assert_eq!(ok("sig", &[]), "sig ok\n");
}

#[test]
fn a_tracer_writes_text() {
    assert_eq!(ok("tracer", &[]), "tracer ok\n");
}

#[test]
fn wrong_pointers_are_efault() {
    assert_eq!(ok("badptr", &[]), "badptr ok\n");
}

#[test]
fn execer_runs_another_program() {
    let mut world = World::new(CLEAN);
    world.add("args");
    let (code, text) = world.run_program("execer", &["/bin/args", "x", "y"]);
    assert_eq!(code, 3);
    assert_eq!(text, "/bin/args\nx\ny\nGUEST=execer\n");
    let (_, text) = world.run_program("execer", &["-f", "/bin/args"]);
    assert!(text.ends_with("status 256\n"), "{text}");
}

#[test]
fn a_library_is_loaded_both_ways() {
    let mut world = World::new(CLEAN);
    for library in ["libdemo.so", "liblarge.so", "libtext.so"] {
        world.add(library);
    }
    for way in ["read", "mmap"] {
        for library in ["/bin/libdemo.so", "/bin/liblarge.so", "/bin/libtext.so"] {
            let (code, text) = world.run_program("dl", &[way, library]);
            assert_eq!(code, 0, "{way} {library}: {text}");
        }
    }
}

#[test]
fn jit_with_sync_is_right() {
    let mut world = World::new(CLEAN);
    let result = world.run_program("jit", &["sync"]);
    assert_eq!(result, (0, "wrong results: 0\n".to_owned()));
    assert!(world.syncs >= 4);
}

#[test]
fn budgets_end_runs_with_a_reason() {
    let mut world = World::new(CLEAN);
    world.add("loop");
    world
        .spawn(CPU, "/bin/loop", &["loop"], &[])
        .expect("it can be executed");
    let end = world.run(CPU, Limits::instructions(1_000_000));
    assert_eq!(end, RunEnd::Instructions);
    world.check();

    let mut world = World::new(CLEAN);
    world.add("forkbomb");
    world
        .spawn(CPU, "/bin/forkbomb", &["forkbomb"], &[])
        .expect("it can be executed");
    let end = world.run(CPU, Limits::instructions(200_000));
    assert!(matches!(end, RunEnd::Instructions | RunEnd::Traps), "{end}");
    assert!(world.kern.procs.len() <= world.kern.config.quotas.processes as usize);
    world.check();

    let mut world = World::new(CLEAN);
    world.kern.config.quotas.output_bytes = 100;
    let numbers = [b'x'; 5000];
    world
        .vfs
        .fs_add_file("/tmp/numbers", &numbers)
        .expect("room");
    world.add("cat");
    world
        .spawn(CPU, "/bin/cat", &["cat", "/tmp/numbers"], &[])
        .expect("it can be executed");
    assert_eq!(
        world.run(CPU, Limits::default()),
        RunEnd::Output { max: 100 }
    );
}

#[test]
fn a_file_that_is_no_program_is_refused_and_leaves_nothing() {
    let mut world = World::new(CLEAN);
    world
        .vfs
        .fs_add_file("/bin/text", b"#!/bin/sh\n")
        .expect("room");
    let free = world.vm.free_pages();
    let error = world
        .spawn(CPU, "/bin/text", &["text"], &[])
        .expect_err("no program");
    assert!(error.to_string().contains("not an ELF file"), "{error}");
    let error = world
        .spawn(CPU, "/bin/none", &["none"], &[])
        .expect_err("no file");
    assert!(error.to_string().contains("no such file"), "{error}");
    assert!(world.kern.procs.is_empty());
    assert!(
        world.vm.free_pages() + 2 >= free,
        "at most the file's own pages stay"
    );
    world.check();
}

#[test]
fn equal_inputs_give_equal_states_and_a_clone_goes_on_alike() {
    let start = |world: &mut World| {
        world.add("forker");
        world
            .spawn(CPU, "/bin/forker", &["forker"], &[])
            .expect("it can be executed");
    };
    let (mut a, mut b) = (World::new(CLEAN), World::new(CLEAN));
    start(&mut a);
    start(&mut b);
    for _ in 0..20 {
        a.run(CPU, Limits::instructions(3000));
        b.run(CPU, Limits::instructions(3000));
        let prints = [&mut a, &mut b].map(|w| {
            let lower = (
                w.machine.fingerprint(),
                w.vm.fingerprint(),
                w.vfs.fingerprint(),
            );
            (w.kern.fingerprint(), lower)
        });
        assert_eq!(prints[0], prints[1]);
    }
    let mut c = a.clone();
    a.run(CPU, Limits::default());
    c.run(CPU, Limits::default());
    assert_eq!(a.kern.stdout, c.kern.stdout);
    assert_eq!(a.kern.fingerprint(), c.kern.fingerprint());
}

#[test]
fn daemons_between_turns_change_no_result() {
    let mut world = World::new(CLEAN);
    world.kern.config.daemon_turns = Some(2);
    world.kern.config.quantum = 2000;
    assert_eq!(world.run_program("selfcheck", &[]).0, 0);
    assert!(
        world.kern.rounds.iter().all(|n| *n > 0),
        "{:?}",
        world.kern.rounds
    );
    assert_eq!(
        world.run_program("forker", &[]),
        (0, "forker ok\n".to_owned())
    );
}

#[test]
fn sleeping_for_the_disk_changes_no_result() {
    let mut world = World::new(CLEAN);
    world.vfs.config.disk_mode = vfs_sim::DiskMode::Queued;
    world.add("patchlib.code");
    assert_eq!(world.run_program("selfcheck", &[]).0, 0);
    assert_eq!(
        world.run_program("forker", &[]),
        (0, "forker ok\n".to_owned())
    );
    assert_eq!(world.run_program("big", &["9"]), (0, "big ok\n".to_owned()));
    let result = world.run_program("patchlib", &["read-first", "/bin/patchlib.code"]);
    assert_eq!(result, (0, "old versions: 0\n".to_owned()));
}

#[test]
fn no_policy_breaks_the_kernel() {
    let names = ["none", "bare", "freebsd-2010"];
    for policy in names {
        let mut world = World::new(policy);
        for name in ["selfcheck", "forker", "sig"] {
            let path = format!("/bin/{name}");
            world.add(name);
            // Under `bare` a file may not look like a program, and one may run anything; the kernel must hold.
            let spawned = world.spawn(CPU, &path, &[name], &[]);
            assert!(spawned.is_ok() || policy == "bare", "{policy} {name}");
            world.run(CPU, Limits::instructions(20_000_000));
            assert_eq!(world.kern.check(), Ok(()), "{policy} {name}");
            assert_eq!(world.vm.check(), Ok(()), "{policy} {name}");
        }
    }
}

#[test]
fn a_script_names_the_turns() {
    let mut world = World::new(CLEAN);
    world.add("loop");
    let pids: Vec<_> = (0..2)
        .map(|_| {
            world
                .spawn(CPU, "/bin/loop", &["loop"], &[])
                .expect("it can be executed")
        })
        .collect();
    world.kern.sched.script = vec![
        Turn::Proc(pids[0], 100),
        Turn::Thread(Thread::Syncer),
        Turn::Proc(pids[1], 300),
    ];
    world.run(CPU, Limits::instructions(300));
    assert_eq!(world.kern.running(CPU), Some(pids[1]));
    world.run(CPU, Limits::instructions(100));
    assert_eq!(world.kern.running(CPU), Some(pids[0]));
    assert_eq!(world.kern.rounds[Thread::Syncer as usize], 1);
    for pid in pids {
        world.signal(pid, Signal::KILL);
    }
    assert_eq!(world.run(CPU, Limits::default()), RunEnd::Exited);
    world.check();
}

#[test]
fn two_cpus_run_two_processes() {
    let other = machine::CpuId(1);
    let mut world = World::with_cpus(CLEAN, 2);
    world.add("loop");
    let mut spawn = |cpu| {
        world
            .spawn(cpu, "/bin/loop", &["loop"], &[])
            .expect("it can be executed")
    };
    let pids = [spawn(CPU), spawn(other)];
    for _ in 0..5 {
        for cpu in [CPU, other] {
            let end = world.run(cpu, Limits::instructions(1000));
            assert_eq!(end, RunEnd::Instructions);
            world.check();
        }
    }
    assert_eq!([CPU, other].map(|c| world.kern.running(c)), pids.map(Some));
    world.terminate(CPU, pids[1], kern::ExitStatus::Exited(3));
    assert_eq!(world.kern.running(other), None);
    assert_eq!(
        world.kern.status_of(pids[1]),
        Some(kern::ExitStatus::Exited(3))
    );
    world.check();
}

#[test]
fn every_name_that_is_charged_has_a_row() {
    let mut world = World::new(CLEAN);
    world.kern.config.daemon_turns = Some(1);
    for name in ["selfcheck", "forker", "sig"] {
        world.run_program(name, &[]);
    }
    let table = &world.kern.config.footprints;
    let unknown: Vec<_> = (world.charged.keys())
        .filter(|name| table.rows.iter().all(|r| r.name != **name))
        .collect();
    assert_eq!(unknown, [] as [&&str; 0]);
}
