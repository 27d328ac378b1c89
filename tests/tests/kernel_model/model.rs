//! The naive coherent model: files and the memories of processes, as rows of bytes.
//!
//! A page of a process is shared with its file until a private mapping is stored to; a fork copies what is
//! private. There are no caches, no buffers and no translations, so every store is seen at once.

use std::collections::BTreeMap;

use lab::case::{Content, File};
use lab::op::Rights;
use lab::process::{BUFFER_BYTES, Do, ProcessOp, TEXT, program};

/// Page size, bytes.
pub const PAGE: u32 = 4096;
/// First address of mappings.
pub const MAPS: u32 = 0x2000_0000;
/// Pages there.
pub const SLOTS: u32 = 4;
/// Where a case's process has its buffer.
pub const BUFFER: u32 = 0x3000_0000;
/// Words of each program.
const WORDS: u32 = 1024;
/// Bytes of the data file.
const BYTES: u32 = 3 * PAGE;

/// The files of every run.
pub fn files() -> Vec<File> {
    let file = |path: &str, content| File {
        path: path.to_owned(),
        content,
    };
    vec![
        file("/bin/a", Content::Program(WORDS)),
        file("/bin/b", Content::Program(WORDS)),
        file("/f", Content::Data(BYTES)),
    ]
}

/// What an operation must give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// That it is done.
    Done,
    /// This value.
    Value(u32),
    /// A value that the model does not know: the program has not asked for a sync.
    Any,
}

/// A page of a process.
#[derive(Clone, Debug)]
struct Area {
    /// File and page in it; none for anonymous memory.
    file: Option<(usize, u32)>,
    shared: bool,
    rights: Rights,
    /// Its own bytes, once it has some.
    own: Option<Vec<u8>>,
    /// A program stored into its own bytes and has not asked for a sync.
    unsynced: bool,
}

#[derive(Clone, Debug, Default)]
struct Process {
    pages: BTreeMap<u32, Area>,
    /// What the last read brought into its buffer.
    buffer: Vec<u8>,
}

/// The world as programs see it.
#[derive(Clone, Debug)]
pub struct Model {
    files: Vec<(String, Vec<u8>)>,
    /// File pages that a program stored into since the last sync.
    unsynced: Vec<(usize, u32)>,
    processes: BTreeMap<u8, Process>,
}

fn may_write(rights: Rights) -> bool {
    matches!(rights, Rights::Rw | Rights::Rwx)
}

fn may_execute(rights: Rights) -> bool {
    matches!(rights, Rights::Rx | Rights::Rwx)
}

impl Model {
    /// The files, and no process.
    pub fn new() -> Self {
        let bytes = |(n, file): (usize, File)| match file.content {
            Content::Program(words) => (file.path, program(words, n as u32)),
            Content::Data(bytes) => {
                let data = (0..bytes).map(|b| (b / 4 + n as u32) as u8);
                (file.path, data.collect())
            }
            Content::Guest(_) => (file.path, Vec::new()),
        };
        Self {
            files: files().into_iter().enumerate().map(bytes).collect(),
            unsynced: Vec::new(),
            processes: BTreeMap::new(),
        }
    }

    /// The processes there are.
    pub fn processes(&self) -> Vec<u8> {
        self.processes.keys().copied().collect()
    }

    /// A process's pages that are mapped, by address.
    pub fn pages(&self, pid: u8) -> Vec<u32> {
        self.processes
            .get(&pid)
            .map_or(Vec::new(), |p| p.pages.keys().copied().collect())
    }

    fn file(&self, path: &str) -> Option<usize> {
        self.files.iter().position(|(name, _)| name == path)
    }

    fn area(&self, pid: u8, va: u32) -> Option<&Area> {
        self.processes.get(&pid)?.pages.get(&(va & !(PAGE - 1)))
    }

    /// Whether a correct program could do this now.
    pub fn admits(&self, op: &ProcessOp) -> bool {
        let lives = self.processes.contains_key(&op.pid);
        let area = |va: u32| self.area(op.pid, va);
        match &op.what {
            Do::Exec(path, _) => self.file(path).is_some_and(|n| n < 2),
            Do::Fork(child) => lives && !self.processes.contains_key(child),
            Do::Load(va) if *va >= BUFFER => {
                let buffer = self.processes.get(&op.pid).map_or(0, |p| p.buffer.len());
                (va - BUFFER) as usize + 4 <= buffer
            }
            Do::Load(va) => area(*va).is_some(),
            Do::Store(va, _) => area(*va).is_some_and(|a| may_write(a.rights)),
            Do::Fetch(va) => area(*va).is_some_and(|a| may_execute(a.rights)),
            Do::Sync(va, len) | Do::Munmap(va, len) | Do::Msync(va, len) => {
                *len == PAGE && area(*va).is_some()
            }
            Do::Mprotect(va, len, _) => *len == PAGE && *va >= MAPS && area(*va).is_some(),
            Do::Mmap {
                path, at, bytes, ..
            } => {
                let end = at + bytes;
                let inside = *at >= MAPS && end <= MAPS + SLOTS * PAGE && *bytes > 0;
                lives && inside && (path.is_empty() || (path == "/f" && *bytes <= BYTES))
            }
            Do::Read {
                path,
                offset,
                bytes,
            }
            | Do::Write {
                path,
                offset,
                bytes,
                ..
            } => {
                let writes = matches!(op.what, Do::Write { .. });
                let file = self.file(path).filter(|n| *n == 2 || !writes);
                let end = offset + bytes;
                let fits = |n: usize| end as usize <= self.files[n].1.len();
                lives && file.is_some_and(fits) && *bytes <= BUFFER_BYTES && *bytes > 0
            }
            Do::Daemon(_) | Do::Recycle(_) => true,
            Do::Exit | Do::Switch => lives,
            Do::Poke(..) | Do::Run(_) => false,
        }
    }

    /// Does it; what must come of it.
    pub fn apply(&mut self, op: &ProcessOp) -> Expected {
        let pid = op.pid;
        match &op.what {
            Do::Exec(path, _) => self.exec(pid, path),
            Do::Fork(child) => {
                let copy = self.processes[&pid].clone();
                self.processes.insert(*child, copy);
            }
            Do::Exit => drop(self.processes.remove(&pid)),
            Do::Munmap(va, _) => {
                if let Some(p) = self.processes.get_mut(&pid) {
                    p.pages.remove(va);
                }
            }
            Do::Mprotect(va, _, rights) => {
                if let Some(area) = self.page(pid, *va) {
                    area.rights = *rights;
                }
            }
            Do::Mmap {
                path,
                at,
                bytes,
                rights,
                shared,
            } => {
                let file = self.file(path);
                for n in 0..bytes.div_ceil(PAGE) {
                    let area = Area {
                        file: file.map(|f| (f, n)),
                        shared: *shared && file.is_some(),
                        rights: *rights,
                        own: file.is_none().then(|| vec![0; PAGE as usize]),
                        unsynced: false,
                    };
                    let process = self.processes.entry(pid).or_default();
                    process.pages.insert(at + n * PAGE, area);
                }
            }
            Do::Load(va) => return Expected::Value(self.word(pid, *va)),
            Do::Fetch(va) => return self.fetched(pid, *va),
            Do::Store(va, value) => self.store(pid, *va, *value),
            Do::Sync(va, _) => self.sync(pid, *va),
            Do::Read { .. } | Do::Write { .. } => return self.transfer(op),
            Do::Daemon(_) | Do::Msync(..) | Do::Switch | Do::Poke(..) | Do::Run(_) => {}
            Do::Recycle(_) => return Expected::Any,
        }
        self.forget_buffer(op);
        Expected::Done
    }

    /// System calls with a path or a block of arguments write into the buffer.
    fn forget_buffer(&mut self, op: &ProcessOp) {
        let kept = matches!(
            op.what,
            Do::Store(..) | Do::Daemon(_) | Do::Msync(..) | Do::Switch
        );
        if !kept && let Some(p) = self.processes.get_mut(&op.pid) {
            p.buffer.clear();
        }
    }

    fn page(&mut self, pid: u8, va: u32) -> Option<&mut Area> {
        let process = self.processes.get_mut(&pid)?;
        process.pages.get_mut(&(va & !(PAGE - 1)))
    }

    fn exec(&mut self, pid: u8, path: &str) {
        let file = self.file(path).unwrap_or(0);
        let text = (0..WORDS * 4 / PAGE).map(|n| {
            let area = Area {
                // The file's first page is its header.
                file: Some((file, n + 1)),
                shared: false,
                rights: Rights::Rx,
                own: None,
                unsynced: false,
            };
            (TEXT + n * PAGE, area)
        });
        let process = Process {
            pages: text.collect(),
            buffer: Vec::new(),
        };
        self.processes.insert(pid, process);
    }

    fn bytes(&self, pid: u8, va: u32) -> &[u8] {
        let area = self.area(pid, va).expect("admitted");
        match (&area.own, area.file) {
            (Some(own), _) => own,
            (None, Some((file, n))) => {
                let at = (n * PAGE) as usize;
                let all = &self.files[file].1;
                &all[at..all.len().min(at + PAGE as usize)]
            }
            (None, None) => &[],
        }
    }

    fn word(&self, pid: u8, va: u32) -> u32 {
        let at = ((va % PAGE) & !3) as usize;
        let page = if va >= BUFFER {
            let start = (va - BUFFER) as usize - at;
            &self.processes[&pid].buffer[start..]
        } else {
            self.bytes(pid, va)
        };
        // After the end of a file there are zeros.
        u32::from_le_bytes(std::array::from_fn(|n| *page.get(at + n).unwrap_or(&0)))
    }

    fn fetched(&self, pid: u8, va: u32) -> Expected {
        let area = self.area(pid, va).expect("admitted");
        let file = area.file.filter(|_| area.own.is_none());
        let unsynced = area.unsynced || file.is_some_and(|f| self.unsynced.contains(&f));
        if unsynced {
            return Expected::Any;
        }
        Expected::Value(self.word(pid, va))
    }

    fn store(&mut self, pid: u8, va: u32, value: u32) {
        let at = ((va % PAGE) & !3) as usize;
        let mut own = self.bytes(pid, va).to_vec();
        let area = self.page(pid, va).expect("admitted");
        if let Some((file, n)) = area.file.filter(|_| area.shared) {
            let start = (n * PAGE) as usize + at;
            self.files[file].1[start..start + 4].copy_from_slice(&value.to_le_bytes());
            self.unsynced.push((file, n));
            return;
        }
        own.resize(PAGE as usize, 0);
        own[at..at + 4].copy_from_slice(&value.to_le_bytes());
        (area.own, area.unsynced) = (Some(own), true);
    }

    fn sync(&mut self, pid: u8, va: u32) {
        let area = self.page(pid, va).expect("admitted");
        area.unsynced = false;
        let file = area.file;
        self.unsynced.retain(|page| Some(*page) != file);
    }

    fn transfer(&mut self, op: &ProcessOp) -> Expected {
        match &op.what {
            Do::Read {
                path,
                offset,
                bytes,
            } => {
                let file = self.file(path).expect("admitted");
                let range = *offset as usize..(offset + bytes) as usize;
                let data = self.files[file].1[range].to_vec();
                self.processes.entry(op.pid).or_default().buffer = data;
                Expected::Value(*bytes)
            }
            Do::Write {
                path,
                offset,
                bytes,
                value,
            } => {
                let file = self.file(path).expect("admitted");
                for n in 0..*bytes {
                    let word = value.wrapping_add(n / 4).to_le_bytes();
                    self.files[file].1[(offset + n) as usize] = word[(n % 4) as usize];
                }
                self.processes.entry(op.pid).or_default().buffer.clear();
                Expected::Value(*bytes)
            }
            _ => Expected::Done,
        }
    }
}
