//! A state as bytes: canonical, so that equal bytes are equal futures, and complete, so that the world can be
//! rebuilt from them.
//!
//! Of a page only the first word is kept: it is the one that operations reach. What stays out besides decides
//! nothing: cycles, stamps (see `oracle::snapshot`), free records, `dirty` (the VM's),
//! victim pointers of direct-mapped parts, the fetch buffer of one word (a fetch never finds what it wants in
//! it), and the layers above the pmap, which no operation here reaches.
//!
//! Canonical form, if symmetry is on:
//! 1. Values. Judgements compare a copy only with the truth of some word and with what its fetches had to
//!    see before; a store brings a value never seen. So these values are numbered in order of appearance,
//!    and every other value is `OTHER`. Zero keeps its identity where pages are zeroed.
//! 2. Processes. The live space is called 1. Programs of both spaces can do the same.
//! 3. Frames are numbered in order of appearance in the tables, the TLB and the caches.
//! 4. MOD, and the marks that a page remembers of its mappings, are left out where nobody asks for them
//!    (`pmap_clear_modify`, the page daemon): no rule looks at MOD (a test sees to it).
//! 5. A data-side micro-TLB entry that equals the main part's is left out if every page has a set of its
//!    own: whatever removes the main part's entry removes it too.
//!
//! With symmetry off nothing is renamed but values, in order of appearance, all of them apart.
//!
//! The bytes come in [sections](SECTIONS), so that an action can be undone by restoring those that it changed
//! ([`Codec::undo`]).

mod restore;
mod save;

use machine::profile::{CacheProfile, Lookup, Replacement, TableProfile};
use machine::{Frame, Place, Profile, Pte, Unit};
use pmap::count::Counting;
use pmap::{PvFlags, SpaceId};

use super::scope::Scope;
use crate::oracle::Oracle;
use crate::world::World;

/// The parts of a state, in order: what the kernel knows, what the oracle knows, memory, both caches, write
/// buffer, TLB. Only from the second one on there are values.
const SECTIONS: usize = 7;
const TRUTH: usize = 1;
/// Where each section of a packed state ends.
pub type Ends = [u16; SECTIONS];

/// A value that nothing can be compared with.
const OTHER: u8 = 255;
/// Most frames, and most bytes of a page.
const FRAMES: usize = 8;
const PAGE: usize = 32;
/// Most values that are told apart.
const VALUES: usize = 64;

/// What makes two states equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symmetry {
    /// Canonical form.
    On,
    /// Only values are renamed.
    Off,
}

/// Reads and writes states of one machine.
#[derive(Clone, Debug)]
pub struct Codec {
    symmetry: Symmetry,
    page: u32,
    page_shift: u32,
    frames: u8,
    /// Where the entries of the tables are: the kernel's, then the spaces' in canonical order, which are
    /// exchanged or are not.
    tables: [Vec<u16>; 2],
    spaces: u16,
    zero: bool,
    /// Marks that somebody asks for.
    marks: PvFlags,
    /// Every page has a TLB set of its own.
    roomy: bool,
}

/// Where reading stands, and the names used.
struct Names {
    /// Canonical space to real one.
    spaces: [u16; 4],
    /// Whether the first two are exchanged.
    exchanged: bool,
    /// Real frame to canonical one.
    frames: [u8; FRAMES],
    order: [u8; FRAMES],
    /// Real frames whose first word matters.
    valid: u8,
    values: [u32; VALUES],
    used: u8,
    exact: bool,
}

impl Names {
    #[inline]
    fn value(&mut self, value: u32, distinguished: bool) -> u8 {
        let known = &self.values[..usize::from(self.used)];
        for (n, held) in known.iter().enumerate() {
            if *held == value {
                return n as u8;
            }
        }
        if !(distinguished || self.exact) || usize::from(self.used) == self.values.len() {
            return OTHER;
        }
        self.values[usize::from(self.used)] = value;
        self.used += 1;
        self.used - 1
    }

    fn space(&self, real: SpaceId) -> u8 {
        let is = |s: &u16| *s == real.0;
        self.spaces.iter().position(is).unwrap_or(0) as u8
    }
}

/// A reader of packed bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    #[inline]
    fn take(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("a packed state is complete");
        self.0 = rest;
        *first
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes([self.take(), self.take()])
    }

    /// Calls `each` for the slots of a mask of `slots` bits, with whether it is set.
    fn each_slot(&mut self, slots: u32, mut each: impl FnMut(&mut Self, u32, bool)) {
        for first in (0..slots).step_by(8) {
            let mask = self.take();
            for slot in first..slots.min(first + 8) {
                each(self, slot, mask >> (slot - first) & 1 != 0);
            }
        }
    }
}

/// What the codec cannot keep; in words for the user.
fn unsupported(profile: &Profile) -> Option<&'static str> {
    let aged = |c: &CacheProfile| c.ways > 1 && !matches!(c.replacement, Replacement::RoundRobin);
    let flat = matches!(profile.table, TableProfile::Flat { .. });
    let rules = [
        (flat, "a flat table"),
        (profile.cpus == 1, "one CPU"),
        (profile.l2.is_none(), "no second level"),
        (
            profile.icache.lookup == Lookup::Vivt && profile.dcache.lookup == Lookup::Vivt,
            "VIVT caches",
        ),
        (
            !aged(&profile.icache) && !aged(&profile.dcache),
            "round-robin replacement",
        ),
        (
            profile.fetch_buffer.words == 1,
            "a fetch buffer of one word",
        ),
        (!profile.write_buffer.eviction, "no eviction buffer"),
        (profile.frames() <= FRAMES as u32, "at most 8 frames"),
        (profile.page <= PAGE as u32, "pages of at most 32 bytes"),
        (profile.tlb.lockdown == 0, "no TLB lockdown"),
        (
            profile.write_buffer.bytes == 4,
            "write-buffer entries of one word",
        ),
    ];
    rules
        .iter()
        .find(|(holds, _)| !holds)
        .map(|(_, what)| *what)
}

impl Codec {
    /// A codec for a machine and what is tried on it.
    ///
    /// # Errors
    /// What the machine would have to have.
    pub fn new(profile: &Profile, symmetry: Symmetry, scope: &Scope) -> Result<Self, String> {
        if let Some(what) = unsupported(profile) {
            return Err(format!("{}: exhaustive search needs {what}", profile.name));
        }
        let TableProfile::Flat {
            spaces,
            user_pages,
            kernel_pages,
        } = profile.table
        else {
            return Err("a flat table".to_owned());
        };
        let sets = profile.tlb.entries / profile.tlb.ways;
        let spaces = (spaces as u16).min(3);
        let off = symmetry == Symmetry::Off;
        let mut marks = PvFlags::empty();
        marks.set(PvFlags::MOD, scope.modify || off);
        marks.set(PvFlags::REF, scope.paging || off);
        let all = user_pages + kernel_pages;
        let tables = [[1, 2], [2, 1]].map(|order| {
            let users = order.iter().take(usize::from(spaces).saturating_sub(1));
            let of_users = users.flat_map(|s| s * all..s * all + user_pages);
            (user_pages..all)
                .chain(of_users)
                .map(|n| n as u16)
                .collect()
        });
        Ok(Self {
            symmetry,
            page: profile.page,
            page_shift: profile.page.trailing_zeros(),
            frames: profile.frames() as u8,
            tables,
            spaces,
            zero: scope.windows,
            marks,
            roomy: sets >= all,
        })
    }

    #[inline]
    fn pte(&self, names: &Names, raw: u32) -> u8 {
        let pte = Pte(raw);
        if !pte.present() {
            return 0;
        }
        names.frames[pte.frame().0 as usize] << 5
            | u8::from(pte.valid()) << 4
            | ((raw >> 2 & 3) as u8) << 2
            | pte.ap()
    }

    fn pte_from(byte: u8) -> Pte {
        if byte == 0 {
            return Pte::ZERO;
        }
        let ap = [
            machine::Ap::KernelRead,
            machine::Ap::Kernel,
            machine::Ap::UserRead,
            machine::Ap::User,
        ][usize::from(byte & 3)];
        let pte = Pte::new(Frame(u32::from(byte >> 5)), ap).with_valid(byte & 16 != 0);
        Pte(pte.0 & !0xc | u32::from(byte >> 2 & 3) << 2)
    }
}

fn first_word(unit: Unit, slot: u32) -> Place {
    Place::Line {
        unit,
        slot,
        offset: 0,
    }
}

fn word_of(bytes: &[u8], at: u32) -> u32 {
    let n = at as usize;
    u32::from_le_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]])
}

fn section_of<'a>(bytes: &'a [u8], ends: &Ends, n: usize) -> &'a [u8] {
    let from = if n == 0 { 0 } else { ends[n - 1] };
    &bytes[usize::from(from)..usize::from(ends[n])]
}

/// Whether the policy decides by counts that pages keep beside their lists (B9, B10).
fn kept_counts(world: &World<Oracle>) -> bool {
    matches!(
        world.policy.skeleton.counting,
        Counting::Kept | Counting::KeptTwice
    )
}
