//! An operation of a process as a line of a case; [`ProcessOp::parse`] reads it back.

use super::{Daemon, Do, ProcessOp};
use crate::op::Rights;

impl ProcessOp {
    /// The line.
    pub fn text(&self) -> String {
        let pid = self.pid;
        match &self.what {
            Do::Daemon(daemon) => format!("K {}", daemon.name()),
            Do::Recycle(path) if path.is_empty() => "K recycle-buffers".to_owned(),
            Do::Recycle(path) => format!("K recycle-buffers {path:?}"),
            what => format!("p{pid} {}", words(what)),
        }
    }
}

impl Daemon {
    /// Its name in cases.
    pub fn name(self) -> &'static str {
        match self {
            Daemon::Syncer => "syncer",
            Daemon::Bufdaemon => "bufdaemon",
            Daemon::Pagedaemon => "pagedaemon",
            Daemon::GUp => "g_up",
        }
    }
}

fn rights(rights: Rights) -> &'static str {
    match rights {
        Rights::R => "r",
        Rights::Rx => "rx",
        Rights::Rw => "rw",
        Rights::Rwx => "rwx",
    }
}

fn words(what: &Do) -> String {
    match what {
        Do::Exec(path, args) => {
            let args: String = args.iter().map(|a| format!(" {a:?}")).collect();
            format!("exec {path:?}{args}")
        }
        Do::Fork(child) => format!("fork \"p{child}\""),
        Do::Exit => "exit".to_owned(),
        Do::Read {
            path,
            offset,
            bytes,
        } => format!("read {path:?} offset={offset} bytes={bytes}"),
        Do::Write {
            path,
            offset,
            bytes,
            value,
        } => format!("write {path:?} offset={offset} bytes={bytes} value={value:#x}"),
        Do::Mmap {
            path,
            at,
            bytes,
            rights: r,
            shared,
        } => {
            let map = if *shared { "shared" } else { "private" };
            let prot = rights(*r);
            format!("mmap {path:?} at={at:#x} bytes={bytes} prot={prot:?} map={map:?}")
        }
        Do::Munmap(va, len) => format!("munmap {va:#x} {len}"),
        Do::Mprotect(va, len, r) => format!("mprotect {va:#x} {len} prot={:?}", rights(*r)),
        Do::Msync(va, len) => format!("msync {va:#x} {len}"),
        Do::Load(va) => format!("load {va:#x}"),
        Do::Store(va, value) => format!("store {va:#x} {value:#x}"),
        Do::Fetch(va) => format!("fetch {va:#x}"),
        Do::Sync(va, len) => format!("sync-icache {va:#x} {len}"),
        Do::Poke(va, word) => format!("ptrace-poke {va:#x} {word:#x}"),
        Do::Run(instructions) => format!("run instructions={instructions}"),
        Do::Switch | Do::Daemon(_) | Do::Recycle(_) => "switch".to_owned(),
    }
}
