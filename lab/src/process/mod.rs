//! Operations of processes, with files: what a program would ask by system calls, and its accesses.

mod players;
mod program;

pub use players::Players;
pub use program::program;

use crate::op::Rights;

/// A word of a case line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// A string.
    Text(String),
    /// A number.
    Number(u32),
}

/// One operation of a process. Numbers of processes are the case's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessOp {
    /// Which process.
    pub pid: u8,
    /// What it does.
    pub what: Do,
}

/// What a process does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Do {
    /// Executes a file; the first time, the process is made for it.
    Exec(String, Vec<String>),
    /// Forks; the child is this process.
    Fork(u8),
    /// Ends.
    Exit,
    /// read(2) of a file, from an offset, into its buffer.
    Read {
        /// File.
        path: String,
        /// From.
        offset: u32,
        /// How much.
        bytes: u32,
    },
    /// write(2) into a file, of words counted up from a value.
    Write {
        /// File.
        path: String,
        /// From.
        offset: u32,
        /// How much.
        bytes: u32,
        /// First word.
        value: u32,
    },
    /// mmap(2) of a file, or of nothing.
    Mmap {
        /// File; empty for anonymous memory.
        path: String,
        /// Where.
        at: u32,
        /// How much.
        bytes: u32,
        /// Rights.
        rights: Rights,
        /// Shared or private.
        shared: bool,
    },
    /// munmap(2).
    Munmap(u32, u32),
    /// mprotect(2).
    Mprotect(u32, u32, Rights),
    /// msync(2).
    Msync(u32, u32),
    /// A load.
    Load(u32),
    /// A store.
    Store(u32, u32),
    /// An instruction fetch.
    Fetch(u32),
    /// The program asks for a sync of its range.
    Sync(u32, u32),
    /// A debugger stores a word into it.
    Poke(u32, u32),
    /// The CPU goes to it.
    Switch,
    /// It runs until it ends, or so many instructions.
    Run(u32),
    /// A kernel thread does a round of its work.
    Daemon(Daemon),
    /// Clean buffers of a file, or of all, are recycled.
    Recycle(String),
}

/// A kernel thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// Writes what is dirty.
    Syncer,
    /// Writes delayed buffers.
    Bufdaemon,
    /// Frees pages.
    Pagedaemon,
    /// Completes disk requests.
    GUp,
}

impl Daemon {
    /// The thread of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "syncer" => Some(Daemon::Syncer),
            "bufdaemon" => Some(Daemon::Bufdaemon),
            "pagedaemon" => Some(Daemon::Pagedaemon),
            "g_up" => Some(Daemon::GUp),
            _ => None,
        }
    }
}

type Words = [(Option<String>, Word)];

struct Arguments<'a>(&'a Words);

impl Arguments<'_> {
    fn positional(&self, n: usize) -> Option<&Word> {
        self.0
            .iter()
            .filter(|(key, _)| key.is_none())
            .nth(n)
            .map(|(_, w)| w)
    }

    fn text(&self, n: usize, what: &str) -> Result<String, String> {
        match self.positional(n) {
            Some(Word::Text(text)) => Ok(text.clone()),
            _ => Err(format!("expected {what} as a string")),
        }
    }

    fn number(&self, n: usize, what: &str) -> Result<u32, String> {
        match self.positional(n) {
            Some(Word::Number(number)) => Ok(*number),
            _ => Err(format!("expected {what} as a number")),
        }
    }

    fn property(&self, key: &str) -> Option<&Word> {
        self.0
            .iter()
            .find(|(k, _)| k.as_deref() == Some(key))
            .map(|(_, w)| w)
    }

    fn number_of(&self, key: &str, default: u32) -> Result<u32, String> {
        match self.property(key) {
            None => Ok(default),
            Some(Word::Number(number)) => Ok(*number),
            Some(Word::Text(_)) => Err(format!("expected {key}=NUMBER")),
        }
    }

    fn rights(&self) -> Result<Rights, String> {
        match self.property("prot") {
            Some(Word::Text(text)) => match text.as_str() {
                "r" => Ok(Rights::R),
                "rx" => Ok(Rights::Rx),
                "rw" => Ok(Rights::Rw),
                "rwx" => Ok(Rights::Rwx),
                _ => Err("expected prot=\"r\", \"rx\", \"rw\" or \"rwx\"".to_owned()),
            },
            _ => Err("expected prot=\"r\", \"rx\", \"rw\" or \"rwx\"".to_owned()),
        }
    }

    fn shared(&self) -> Result<bool, String> {
        match self.property("map") {
            None => Ok(false),
            Some(Word::Text(text)) if text == "private" => Ok(false),
            Some(Word::Text(text)) if text == "shared" => Ok(true),
            _ => Err("expected map=\"private\" or map=\"shared\"".to_owned()),
        }
    }
}

/// Bytes of the buffer that a process of a case reads into and writes from.
pub const BUFFER_BYTES: u32 = 256 * 1024;

impl ProcessOp {
    /// Reads an operation's words.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(pid: u8, verb: &str, words: &Words) -> Result<Self, String> {
        let a = Arguments(words);
        let what = match verb {
            "exec" => {
                let texts = words.iter().skip(1).filter_map(|(_, w)| match w {
                    Word::Text(text) => Some(text.clone()),
                    Word::Number(_) => None,
                });
                Do::Exec(a.text(0, "a path")?, texts.collect())
            }
            "fork" => Do::Fork(Self::child(&a.text(0, "the child's name, as p2")?)?),
            "exit" => Do::Exit,
            "read" | "write" => Self::transfer(&a, verb)?,
            "mmap" => Do::Mmap {
                path: a.text(0, "a path, or \"\" for anonymous memory")?,
                at: a.number_of("at", 0).and_then(|at| match at {
                    0 => Err("expected at=ADDRESS".to_owned()),
                    _ => Ok(at),
                })?,
                bytes: a.number_of("bytes", 4096)?,
                rights: a.rights()?,
                shared: a.shared()?,
            },
            "munmap" => Do::Munmap(a.number(0, "an address")?, a.number(1, "a length")?),
            "mprotect" => Do::Mprotect(
                a.number(0, "an address")?,
                a.number(1, "a length")?,
                a.rights()?,
            ),
            "msync" => Do::Msync(a.number(0, "an address")?, a.number(1, "a length")?),
            "load" => Do::Load(a.number(0, "an address")?),
            "store" => Do::Store(a.number(0, "an address")?, a.number(1, "a value")?),
            "fetch" => Do::Fetch(a.number(0, "an address")?),
            "sync-icache" => Do::Sync(a.number(0, "an address")?, a.number(1, "a length")?),
            "ptrace-poke" => Do::Poke(a.number(0, "an address")?, a.number(1, "a word")?),
            "switch" => Do::Switch,
            "run" => Do::Run(a.number_of("instructions", 10_000_000)?),
            _ => {
                return Err(format!(
                    "`{verb}` is unknown; expected exec, fork, exit, read, write, mmap, munmap, mprotect, msync, load, store, fetch, sync-icache, ptrace-poke, switch or run"
                ));
            }
        };
        Ok(Self { pid, what })
    }

    fn child(name: &str) -> Result<u8, String> {
        let number = name.strip_prefix('p').and_then(|n| n.parse().ok());
        number.ok_or_else(|| "expected the child's name, as \"p2\"".to_owned())
    }

    fn transfer(a: &Arguments<'_>, verb: &str) -> Result<Do, String> {
        let path = a.text(0, "a path")?;
        let offset = a.number_of("offset", 0)?;
        let bytes = a.number_of("bytes", 4096)?;
        if bytes > BUFFER_BYTES {
            return Err(format!("expected bytes of at most {BUFFER_BYTES}"));
        }
        Ok(if verb == "read" {
            Do::Read {
                path,
                offset,
                bytes,
            }
        } else {
            Do::Write {
                path,
                offset,
                bytes,
                value: a.number_of("value", 0xe3a0_0000)?,
            }
        })
    }
}
