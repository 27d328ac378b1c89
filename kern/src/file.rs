//! Open files and descriptor tables.
//!
//! A descriptor names an open file, which several descriptors and processes may share with its
//! offset (FreeBSD `sys/kern/kern_descrip.c`: `struct file`, `struct filedesc`).
//!
//! Absent on purpose: locks, ownership, ioctl beyond "not a terminal".

use vfs_sim::Sequential;
use vm::VnodeId;

use crate::limits::DESCRIPTORS_MAX;
use crate::pipe::PipeId;

/// An open file, an index into the system's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// A descriptor of one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fd(pub u32);

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileKind {
    /// A file.
    Vnode(VnodeId),
    /// A directory; the offset counts names.
    Directory(VnodeId),
    /// A pipe's end to read from.
    PipeRead(PipeId),
    /// A pipe's end to write to.
    PipeWrite(PipeId),
    /// The bytes given to the run.
    Stdin,
    /// Captured.
    Stdout,
    /// Captured.
    Stderr,
    /// Takes everything, gives nothing.
    Null,
}

/// One open file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenFile {
    /// What it is.
    pub kind: FileKind,
    /// Where the next read or write starts.
    pub offset: u64,
    /// How sequential its reads have been.
    pub sequential: Sequential,
    /// Open for reading.
    pub readable: bool,
    /// Open for writing.
    pub writable: bool,
    /// Writes go to the end.
    pub append: bool,
    /// Never sleeps.
    pub nonblocking: bool,
    /// Descriptors and transfers that name it; 0 is a free slot.
    pub references: u32,
}

impl OpenFile {
    /// Just opened, at its start, named once.
    pub fn new(kind: FileKind, readable: bool, writable: bool) -> Self {
        Self {
            kind,
            offset: 0,
            sequential: Sequential::default(),
            readable,
            writable,
            append: false,
            nonblocking: false,
            references: 1,
        }
    }
}

/// One place of a descriptor table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Descriptor {
    /// What it names.
    pub file: FileId,
    /// Closed at exec.
    pub close_on_exec: bool,
}

/// A process's descriptors.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Descriptors {
    slots: Vec<Option<Descriptor>>,
}

impl Descriptors {
    /// What a descriptor names.
    pub fn get(&self, fd: Fd) -> Option<Descriptor> {
        self.slots.get(fd.0 as usize).copied().flatten()
    }

    /// The lowest free one from `from` on.
    pub fn lowest_free(&self, from: u32) -> Option<Fd> {
        (from..DESCRIPTORS_MAX)
            .map(Fd)
            .find(|fd| self.get(*fd).is_none())
    }

    /// Sets one; returns what it named before. `None` for `fd` out of range changes nothing.
    pub fn set(&mut self, fd: Fd, to: Option<Descriptor>) -> Option<Descriptor> {
        if fd.0 >= DESCRIPTORS_MAX {
            return None;
        }
        if self.slots.len() <= fd.0 as usize {
            self.slots.resize(fd.0 as usize + 1, None);
        }
        std::mem::replace(&mut self.slots[fd.0 as usize], to)
    }

    /// All that are open, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Fd, Descriptor)> + '_ {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(n, slot)| slot.map(|d| (Fd(n as u32), d)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_descriptor_is_given_and_the_table_is_bounded() {
        let mut table = Descriptors::default();
        let file = Descriptor {
            file: FileId(0),
            close_on_exec: false,
        };
        for n in 0..DESCRIPTORS_MAX {
            assert_eq!(table.lowest_free(0), Some(Fd(n)));
            table.set(Fd(n), Some(file));
        }
        assert_eq!(table.lowest_free(0), None);
        table.set(Fd(5), None);
        assert_eq!(table.lowest_free(0), Some(Fd(5)));
        assert_eq!(table.lowest_free(6), None);
        assert_eq!(table.set(Fd(DESCRIPTORS_MAX), Some(file)), None);
        assert_eq!(table.iter().count(), DESCRIPTORS_MAX as usize - 1);
    }
}
