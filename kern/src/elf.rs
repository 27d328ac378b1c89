//! Reads an ELF file's head: what `exec` must know before it gives up the old image.
//!
//! Like the kernel it restates (FreeBSD `sys/kern/imgact_elf.c`, `exec_elf32_imgact`), it sees the
//! first page of the file only: ELF header, program headers, notes and interpreter path must lie in
//! it. Everything a file can say wrongly is checked here, once, against the file's length and the
//! user's address range; what comes out can be mapped without further thought.
//!
//! Brand: `EI_OSABI` 9, the old string in the identification, or a `FreeBSD` note of type 1 choose
//! FreeBSD's personality, anything else Linux's.
//!
//! Absent on purpose: sections, symbols, relocation (a program's own loader does that), and every
//! machine but little-endian 32-bit ARM.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, pod};
use pmap::Prot;

use crate::limits::IMAGE_BYTES_MAX;

/// Which family's system calls a program makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Abi {
    /// FreeBSD/arm, both generations.
    FreeBsd,
    /// Linux EABI.
    Linux,
}

/// Why a file cannot be executed. Its text names what was expected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no such file, or it cannot be read.
    #[error("{0}")]
    File(String, vm::Errno),
    /// The identification is not that of an ELF file.
    #[error("not an ELF file: expected it to start with 7f 45 4c 46")]
    Magic,
    /// The file ends within its own header or program headers.
    #[error(
        "truncated: expected {expected} bytes of {what}, the first page of the file has {have}"
    )]
    Truncated {
        /// What is cut off.
        what: &'static str,
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        have: u64,
    },
    /// Class, byte order, machine, version or type.
    #[error("{what} is {found}: expected {expected}")]
    Kind {
        /// Which field.
        what: &'static str,
        /// Its value.
        found: u32,
        /// What it must be.
        expected: &'static str,
    },
    /// Nothing to load.
    #[error("no LOAD segment: expected at least one")]
    NoLoad,
    /// More than can be.
    #[error("{count} program headers: expected at most {max}")]
    TooMany {
        /// How many.
        count: u32,
        /// How many are read.
        max: u32,
    },
    /// A segment that cannot be mapped.
    #[error("segment {index} at {va:#x}, {memsz:#x} bytes: {why}")]
    Segment {
        /// Its number among the program headers.
        index: u32,
        /// Its address.
        va: u32,
        /// Its size in memory.
        memsz: u32,
        /// What was expected.
        why: &'static str,
    },
    /// Two segments on one page.
    #[error("segments {first} and {second} overlap: expected them on different pages")]
    Overlap {
        /// One.
        first: u32,
        /// The other.
        second: u32,
    },
    /// The program would start nowhere.
    #[error("entry {0:#x}: expected it within an executable segment")]
    Entry(u32),
    /// A bad PT_INTERP.
    #[error("interpreter: {0}")]
    Interpreter(String),
    /// The arguments do not fit.
    #[error("arguments and environment: expected at most {max} bytes")]
    Arguments {
        /// The limit.
        max: u32,
    },
    /// The machine is out of memory or spaces.
    #[error("out of memory while the image was built")]
    Memory,
}

impl ExecError {
    /// What execve(2) returns for it.
    pub fn errno(&self) -> vm::Errno {
        match self {
            ExecError::File(_, vm::Errno::EISDIR) => vm::Errno::EACCES,
            ExecError::File(_, errno) => *errno,
            ExecError::Arguments { .. } => vm::Errno::E2BIG,
            ExecError::Memory => vm::Errno::ENOMEM,
            _ => vm::Errno::ENOEXEC,
        }
    }
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First address, as linked.
    pub va: u32,
    /// Bytes in memory.
    pub memsz: u32,
    /// Where its bytes are in the file.
    pub offset: u32,
    /// Bytes in the file.
    pub filesz: u32,
    /// What the program may do with it.
    pub prot: Prot,
}

impl Segment {
    /// The first address behind it.
    pub fn end(&self) -> u32 {
        self.va + self.memsz
    }
}

/// What a file's head says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The personality.
    pub abi: Abi,
    /// Whether it may be loaded anywhere (a shared object or interpreter).
    pub relocatable: bool,
    /// Entry address, bit 0 for Thumb.
    pub entry: u32,
    /// Where the program headers are once mapped, if a segment covers them.
    pub phdr: u32,
    /// How many there are.
    pub phnum: u32,
    /// What is mapped, by address.
    pub segments: Vec<Segment>,
    /// The program that is to load this one.
    pub interpreter: Option<Vec<u8>>,
}

/// What the addresses of an image are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Length of the file, bytes.
    pub file_len: u64,
    /// Lowest address a program may have.
    pub user_min: u32,
    /// First address it may not.
    pub user_end: u32,
    /// Page size.
    pub page: u32,
}

/// [`Bounds`], and whether the image has addresses of its own.
struct Checked<'a> {
    bounds: &'a Bounds,
    relocatable: bool,
}

impl std::ops::Deref for Checked<'_> {
    type Target = Bounds;
    fn deref(&self) -> &Bounds {
        self.bounds
    }
}

const PHDRS_MAX: u32 = 32;
const NOTES_MAX: u32 = 16;
/// A relocatable image may cover this much.
const SPAN_MAX: u64 = IMAGE_BYTES_MAX as u64;
type Header = elf::FileHeader32<Endianness>;
type Phdr = elf::ProgramHeader32<Endianness>;

/// Reads an image's head from the first page of its file.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(head: &[u8], bounds: &Bounds) -> Result<Image, ExecError> {
    let header = header(head)?;
    let endian = Endianness::Little;
    check_kind(header, endian)?;
    let phdrs = program_headers(header, endian, head)?;
    let relocatable = header.e_type(endian) == elf::ET_DYN;
    let checked = Checked {
        bounds,
        relocatable,
    };
    let segments = segments(phdrs, endian, &checked)?;
    let entry = header.e_entry(endian);
    check_entry(entry, &segments)?;
    let phoff = header.e_phoff(endian);
    let phdr = segments
        .iter()
        .find(|s| s.offset <= phoff && phoff - s.offset < s.filesz)
        .map_or(0, |s| s.va + (phoff - s.offset));
    Ok(Image {
        abi: brand(header, phdrs, endian, head),
        relocatable,
        entry,
        phdr,
        phnum: phdrs.len() as u32,
        segments,
        interpreter: interpreter(phdrs, endian, head)?,
    })
}

fn header(head: &[u8]) -> Result<&Header, ExecError> {
    if head.get(..4) != Some(&elf::ELFMAG) {
        return Err(ExecError::Magic);
    }
    let found = |at: usize| u32::from(head.get(at).copied().unwrap_or(0));
    if found(4) != u32::from(elf::ELFCLASS32.0) && head.len() > 4 {
        return Err(kind("class", found(4), "1 (32-bit)"));
    }
    if found(5) != u32::from(elf::ELFDATA2LSB.0) && head.len() > 5 {
        return Err(kind("byte order", found(5), "1 (little-endian)"));
    }
    let (header, _) = pod::from_bytes::<Header>(head).map_err(|()| ExecError::Truncated {
        what: "ELF header",
        expected: size_of::<Header>() as u64,
        have: head.len() as u64,
    })?;
    Ok(header)
}

fn kind(what: &'static str, found: u32, expected: &'static str) -> ExecError {
    ExecError::Kind {
        what,
        found,
        expected,
    }
}

fn check_kind(header: &Header, endian: Endianness) -> Result<(), ExecError> {
    let machine = u32::from(header.e_machine(endian).0);
    let kind_of = u32::from(header.e_type(endian).0);
    let version = header.e_version(endian);
    if machine != u32::from(elf::EM_ARM.0) {
        return Err(kind("machine", machine, "40 (ARM)"));
    }
    if kind_of != u32::from(elf::ET_EXEC.0) && kind_of != u32::from(elf::ET_DYN.0) {
        return Err(kind("type", kind_of, "2 (executable) or 3 (shared object)"));
    }
    if version != 1 {
        return Err(kind("version", version, "1"));
    }
    Ok(())
}

fn program_headers<'a>(
    header: &Header,
    endian: Endianness,
    head: &'a [u8],
) -> Result<&'a [Phdr], ExecError> {
    let count = u32::from(header.e_phnum(endian));
    let size = u32::from(header.e_phentsize(endian));
    if count == 0 {
        return Err(ExecError::NoLoad);
    }
    if count > PHDRS_MAX {
        let max = PHDRS_MAX;
        return Err(ExecError::TooMany { count, max });
    }
    if size as usize != size_of::<Phdr>() {
        return Err(kind("program header size", size, "32"));
    }
    header
        .program_headers(endian, head)
        .map_err(|_| ExecError::Truncated {
            what: "program headers",
            expected: u64::from(header.e_phoff(endian)) + u64::from(count * size),
            have: head.len() as u64,
        })
}

fn segments(
    phdrs: &[Phdr],
    endian: Endianness,
    bounds: &Checked<'_>,
) -> Result<Vec<Segment>, ExecError> {
    let mut found: Vec<(u32, Segment)> = Vec::new();
    for (index, phdr) in phdrs.iter().enumerate() {
        let empty = phdr.p_memsz(endian) == 0;
        if phdr.p_type(endian) == elf::PT_LOAD && !empty {
            found.push((index as u32, segment(index as u32, phdr, endian, bounds)?));
        }
    }
    if found.is_empty() {
        return Err(ExecError::NoLoad);
    }
    found.sort_by_key(|(_, s)| s.va);
    for pair in found.windows(2) {
        let ((first, low), (second, high)) = (pair[0], pair[1]);
        if (low.end() - 1) / bounds.page >= high.va / bounds.page {
            return Err(ExecError::Overlap { first, second });
        }
    }
    Ok(found.into_iter().map(|(_, s)| s).collect())
}

fn segment(
    index: u32,
    phdr: &Phdr,
    endian: Endianness,
    bounds: &Checked<'_>,
) -> Result<Segment, ExecError> {
    let segment = Segment {
        va: phdr.p_vaddr(endian),
        memsz: phdr.p_memsz(endian),
        offset: phdr.p_offset(endian),
        filesz: phdr.p_filesz(endian),
        prot: prot(phdr.p_flags(endian).0),
    };
    let end = u64::from(segment.va) + u64::from(segment.memsz);
    let file_end = u64::from(segment.offset) + u64::from(segment.filesz);
    let why = if segment.memsz > IMAGE_BYTES_MAX {
        "expected at most 512 MB"
    } else if end > u64::from(bounds.user_end) || (bounds.relocatable && end > SPAN_MAX) {
        "expected it to end within the user's addresses"
    } else if segment.filesz > segment.memsz {
        "expected at least its size in the file"
    } else if file_end > bounds.file_len {
        "its bytes lie behind the end of the file"
    } else if segment.filesz > 0 && (segment.va ^ segment.offset) & (bounds.page - 1) != 0 {
        "expected address and file offset to agree within a page"
    } else if !bounds.relocatable && segment.va < bounds.user_min {
        "expected it above the lowest user address"
    } else {
        return Ok(segment);
    };
    Err(ExecError::Segment {
        index,
        va: segment.va,
        memsz: segment.memsz,
        why,
    })
}

fn prot(flags: u32) -> Prot {
    let mut prot = Prot::empty();
    prot.set(Prot::READ, flags & 4 != 0);
    prot.set(Prot::WRITE, flags & 2 != 0);
    prot.set(Prot::EXEC, flags & 1 != 0);
    prot
}

fn check_entry(entry: u32, segments: &[Segment]) -> Result<(), ExecError> {
    let inside =
        |s: &&Segment| s.prot.contains(Prot::EXEC) && s.va <= entry && entry - s.va < s.memsz;
    match segments.iter().find(inside) {
        Some(_) => Ok(()),
        None => Err(ExecError::Entry(entry)),
    }
}

fn brand(header: &Header, phdrs: &[Phdr], endian: Endianness, head: &[u8]) -> Abi {
    let ident = header.e_ident();
    let old = head[8..16] == *b"FreeBSD\0";
    let noted = phdrs
        .iter()
        .filter(|p| p.p_type(endian) == elf::PT_NOTE)
        .any(|p| has_freebsd_note(p.data(endian, head).unwrap_or(&[])));
    if ident.os_abi == elf::ELFOSABI_FREEBSD || old || noted {
        Abi::FreeBsd
    } else {
        Abi::Linux
    }
}

/// Walks the notes of one segment: name size, descriptor size, type, then both padded to 4.
fn has_freebsd_note(mut notes: &[u8]) -> bool {
    for _ in 0..NOTES_MAX {
        let (Some(name), Some(desc), Some(kind)) = (word(notes, 0), word(notes, 4), word(notes, 8))
        else {
            return false;
        };
        let Some(text) = notes.get(12..).and_then(|rest| rest.get(..name as usize)) else {
            return false;
        };
        if kind == 1 && text == b"FreeBSD\0" {
            return true;
        }
        let padded = |n: u32| u64::from(n).next_multiple_of(4);
        let next = 12 + padded(name) + padded(desc);
        let Some(rest) = notes.get(next as usize..) else {
            return false;
        };
        notes = rest;
    }
    false
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn interpreter(
    phdrs: &[Phdr],
    endian: Endianness,
    head: &[u8],
) -> Result<Option<Vec<u8>>, ExecError> {
    let wrong = |why: &str| ExecError::Interpreter(why.to_owned());
    let Some(phdr) = phdrs.iter().find(|p| p.p_type(endian) == elf::PT_INTERP) else {
        return Ok(None);
    };
    let bytes = phdr
        .data(endian, head)
        .map_err(|()| wrong("expected its path within the first page"))?;
    let path = bytes
        .split(|b| *b == 0)
        .next()
        .filter(|p| p.len() < bytes.len() && p.first() == Some(&b'/'))
        .ok_or_else(|| wrong("expected an absolute path that ends with a zero byte"))?;
    Ok(Some(path.to_vec()))
}
