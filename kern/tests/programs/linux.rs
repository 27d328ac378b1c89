//! Programs without a brand run under Linux's convention; programs that nobody here wrote run where
//! they have been fetched (`ARMEL_ROOT` names the directory they were unpacked into).

use crate::world::{CPU, World};
use kern::{Abi, KernVerbs, Limits, RunEnd};

const CLEAN: &str = "always-flush";

/// Puts a guest program into `/bin` without its FreeBSD brand.
fn add_unbranded(world: &mut World, name: &str) {
    let path = format!("{}/../guest/bin/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = std::fs::read(path).expect("the built guest program");
    bytes[7] = 0;
    world
        .vfs
        .fs_add_file(&format!("/bin/{name}"), &bytes)
        .expect("room on the disk");
}

#[test]
fn programs_that_use_shared_numbers_run_under_both_families() {
    let mut world = World::new(CLEAN);
    for name in ["big", "args", "cat"] {
        add_unbranded(&mut world, name);
    }
    assert_eq!(world.run_program("big", &["7"]), (0, "big ok\n".to_owned()));
    let (code, text) = world.run_program("args", &["x"]);
    assert_eq!((code, text.as_str()), (2, "args\nx\nHOME=/\n"));
    let (code, text) = world.run_program("cat", &["/tmp/none"]);
    assert_eq!(code, 1, "{text}");
}

#[test]
fn a_brand_chooses_the_convention() {
    let mut world = World::new(CLEAN);
    world.add("loop");
    let pid = world
        .spawn(CPU, "/bin/loop", &["loop"], &[])
        .expect("it can be executed");
    assert_eq!(world.kern.proc(pid).abi, Abi::FreeBsd);
    let mut world = World::new(CLEAN);
    add_unbranded(&mut world, "loop");
    let pid = world
        .spawn(CPU, "/bin/loop", &["loop"], &[])
        .expect("it can be executed");
    assert_eq!(world.kern.proc(pid).abi, Abi::Linux);
}

/// Runs a fetched program; `None` where it has not been fetched.
fn fetched(path: &str, args: &[&str]) -> Option<(u32, String)> {
    let Some(root) = std::env::var_os("ARMEL_ROOT") else {
        eprintln!("skipped: ARMEL_ROOT is not set");
        return None;
    };
    let root = root.to_string_lossy().into_owned();
    let Ok(bytes) = std::fs::read(format!("{root}{path}")) else {
        eprintln!("skipped: {path} has not been fetched");
        return None;
    };
    let mut world = World::new(CLEAN);
    for library in ["/lib/ld-linux.so.3", "/lib/arm-linux-gnueabi/libc.so.6"] {
        if let Ok(bytes) = std::fs::read(format!("{root}{library}")) {
            world.vfs.fs_add_file(library, &bytes).expect("room");
        }
    }
    world.vfs.fs_add_file("/bin/x", &bytes).expect("room");
    world
        .vfs
        .fs_add_file("/tmp/f", b"one\ntwo\nthree\n")
        .expect("room");
    let pid = world
        .spawn(CPU, "/bin/x", args, &["PATH=/bin", "HOME=/"])
        .expect("it can be executed");
    let end = world.run(CPU, Limits::instructions(50_000_000));
    let text = String::from_utf8_lossy(&world.kern.stdout).into_owned();
    let errors = String::from_utf8_lossy(&world.kern.stderr).into_owned();
    let told = format!("{text}{errors}{:?}", world.kern.messages);
    assert_eq!(end, RunEnd::Exited, "{told}");
    world.check();
    println!("{told}");
    Some((world.kern.status_of(pid).expect("it ended").code(), text))
}

fn prints(path: &str, args: &[&str], expected: &str) {
    if let Some(result) = fetched(path, args) {
        assert_eq!(result, (0, expected.to_owned()));
    }
}

const LOOP: &str = "i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo $i; done";

#[test]
fn klibc_shell_loops() {
    prints(
        "/usr/lib/klibc/bin/mksh",
        &["mksh", "-c", LOOP],
        "1\n2\n3\n4\n5\n",
    );
}

#[test]
fn dietlibc_shell_loops() {
    prints(
        "/usr/lib/diet/bin/mksh",
        &["mksh", "-c", LOOP],
        "1\n2\n3\n4\n5\n",
    );
}

#[test]
fn musl_shell_loops() {
    let path = "/usr/lib/arm-linux-musleabi/bin/mksh";
    prints(path, &["mksh", "-c", LOOP], "1\n2\n3\n4\n5\n");
}

#[test]
fn busybox_shell_loops() {
    prints(
        "/bin/busybox",
        &["busybox", "sh", "-c", LOOP],
        "1\n2\n3\n4\n5\n",
    );
}

#[test]
fn busybox_sorts() {
    prints(
        "/bin/busybox",
        &["busybox", "sort", "/tmp/f"],
        "one\nthree\ntwo\n",
    );
}

#[test]
fn bash_and_sash_run() {
    prints(
        "/bin/bash-static",
        &[
            "bash",
            "-c",
            "for i in 1 2 3; do echo $((i*i)); done; x=$(echo sub); echo $x",
        ],
        "1\n4\n9\nsub\n",
    );
    prints("/bin/sash", &["sash", "-c", "-echo hello"], "hello\n");
}

#[test]
fn a_dynamic_shell_is_loaded_by_its_interpreter() {
    let script = "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done; echo a | while read x; do echo got $x; done";
    prints("/bin/dash", &["dash", "-c", script], "1\n2\n3\ngot a\n");
}

#[test]
fn a_shell_makes_pipes_and_children() {
    let script = "for i in 1 2 3; do echo $i; done | while read x; do echo got $x; done; x=$(echo sub); echo $x; cat /tmp/f | sort -r";
    let expected = "got 1\ngot 2\ngot 3\nsub\ntwo\nthree\none\n";
    prints("/bin/busybox", &["busybox", "sh", "-c", script], expected);
    let script = "echo a | while read x; do echo got $x; done; x=$(echo sub); echo $x > /tmp/o; read y < /tmp/o; echo $y; (exit 3); echo $?";
    let expected = "got a\nsub\n3\n";
    prints("/usr/lib/klibc/bin/mksh", &["mksh", "-c", script], expected);
}
