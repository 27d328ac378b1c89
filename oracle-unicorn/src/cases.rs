//! Where cases come from: a random state with one instruction, or with a sequence that was found
//! by executing it.

use crate::class;
use crate::guest::{CODE, DATA, Ending, Guest, PAGE_BYTES};
use crate::random::Random;
use machine::cpu::{Arch, Regs};

/// What the code page holds elsewhere: SVC of the state it starts in, so that a translator that
/// reads ahead soon stops.
fn fill(thumb: bool) -> Vec<u8> {
    let svc: u32 = if thumb { 0xdf00_df00 } else { 0xef00_0000 };
    svc.to_le_bytes().repeat(PAGE_BYTES as usize / 4)
}

/// A state and how many instructions to execute from it.
pub struct Case {
    /// The class it is counted under.
    pub name: &'static str,
    /// The state before.
    pub guest: Guest,
    /// How many instructions we execute.
    pub count: u64,
    /// How many the reference does: it takes the two halves of a Thumb BL for one.
    pub reference_count: usize,
    /// The first instruction.
    pub word: u32,
}

impl Case {
    /// The words around the start, for a report.
    pub fn listing(&self) -> String {
        let regs = &self.guest.regs;
        let start = (regs.r[15] - CODE) as usize;
        let bytes = &self.guest.code[start..(start + 32).min(PAGE_BYTES as usize)];
        format!(
            "{:#010x} t={} code {bytes:02x?} regs {:08x?}",
            self.word, regs.t, regs.r
        )
    }
}

/// Draws cases.
pub struct Source {
    random: Random,
    arch: Arch,
    data: Vec<u8>,
}

impl Source {
    /// From a seeded generator.
    pub fn new(random: Random, arch: Arch) -> Self {
        Self {
            random,
            arch,
            data: Vec::new(),
        }
    }

    /// One instruction; a BL prefix gets its second half.
    pub fn single(&mut self) -> Case {
        let mut guest = self.guest();
        let (pc, thumb) = (guest.regs.r[15], guest.regs.t);
        let word = class::draw(&mut self.random, thumb);
        guest.put(pc, if thumb { 2 } else { 4 }, word);
        let is_pair = thumb && word >> 11 == 0x1e;
        if is_pair {
            let suffix = if self.random.below(2) == 0 {
                0xf800
            } else {
                0xe800
            };
            guest.put(pc + 2, 2, suffix | self.random.below(0x400) << 1);
        }
        let name = class::of(word, thumb).name;
        Case {
            name,
            guest,
            count: 1 + u64::from(is_pair),
            reference_count: 1,
            word,
        }
    }

    /// Up to sixteen instructions, each chosen so that the ones before it and it retire without
    /// a misaligned access, wherever branches lead inside the code page.
    pub fn sequence(&mut self) -> Case {
        const LENGTH: u64 = 16;
        let mut guest = self.guest();
        let mut start = guest.clone();
        let mut written = vec![false; PAGE_BYTES as usize];
        let mut count = 0;
        while count < LENGTH && self.extend(&mut guest, &mut start, &mut written) {
            count += 1;
        }
        let name = if start.regs.t {
            "thumb sequences"
        } else {
            "arm sequences"
        };
        Case {
            name,
            guest: start,
            count,
            reference_count: count as usize,
            word: 0,
        }
    }

    /// Executes one more instruction; draws it if none is there yet.
    fn extend(&mut self, guest: &mut Guest, start: &mut Guest, written: &mut [bool]) -> bool {
        const TRIES: u32 = 200;
        let (pc, thumb) = (guest.regs.r[15], guest.regs.t);
        let bytes = if thumb { 2 } else { 4 };
        let at = (pc - CODE) as usize;
        let here = at..at + bytes as usize;
        if written[here.clone()].iter().any(|&is_written| is_written) {
            return false;
        }
        for _ in 0..TRIES {
            let word = class::draw(&mut self.random, thumb);
            let mut next = guest.clone();
            next.put(pc, bytes, word);
            if self.suits(&next, word) && next.run(self.arch, 1) == Ending::Done && inside(&next) {
                *guest = next;
                start.put(pc, bytes, word);
                written[here].fill(true);
                return true;
            }
        }
        false
    }

    /// Keeps out what the two sides do differently for a listed reason.
    fn suits(&self, guest: &Guest, word: u32) -> bool {
        let name = class::of(word, guest.regs.t).name;
        let is_half = name.ends_with("suffix") || name.ends_with("prefix");
        let is_exclusive = name == "arm ldrex" || name == "arm strex";
        let is_barrier = name == "arm mcr barriers" && self.arch == Arch::V5te;
        let is_reserved = class::misuses_reserved(word, guest.regs.t);
        let is_status = class::is_waiting_hint(word) || class::writes_ge(word);
        let is_known = is_exclusive || is_barrier || is_reserved || (is_status && !guest.regs.t);
        !is_half && !is_known && !guest.misaligns(self.arch, 1)
    }

    /// Registers of which about half point into the data page, mostly aligned.
    fn guest(&mut self) -> Guest {
        let random = &mut self.random;
        let mut regs = Regs {
            t: random.below(3) == 0,
            tls: random.word(),
            ..Regs::default()
        };
        for register in &mut regs.r {
            *register = match random.below(4) {
                0 => random.value(),
                1 => DATA + random.below(PAGE_BYTES),
                2 => DATA + 0x400 + (random.below(0x200) << 2),
                _ => DATA + 0x400 + (random.below(0x100) << 3),
            };
            if random.below(16) == 0 {
                *register = CODE + random.below(PAGE_BYTES);
            }
        }
        regs.r[15] = CODE + 0x800;
        regs.set_flags(random.word());
        if self.data.is_empty() || random.below(64) == 0 {
            self.data = (0..PAGE_BYTES / 4)
                .flat_map(|_| random.word().to_le_bytes())
                .collect();
        }
        Guest {
            regs,
            code: fill(regs.t),
            data: self.data.clone(),
        }
    }
}

/// Whether the next instruction lies well inside the code page.
fn inside(guest: &Guest) -> bool {
    (CODE..CODE + PAGE_BYTES - 4).contains(&guest.regs.r[15])
}
