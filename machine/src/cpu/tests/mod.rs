//! The interpreter's tests: hand-assembled words on a flat memory, laws against wide arithmetic,
//! and restartability of every form.
//!
//! Source: expected values are worked out from the ARM ARM (DDI 0100). The comparison with another
//! implementation is the crate `oracle-unicorn`.

mod arm;
mod forms;
mod laws;
mod memory;
mod restart;
mod thumb;
mod unpredictable;
mod v6;

use super::{Arch, Bus, Exit, Regs, run, step};
use crate::types::{Abort, Access, Fault, VirtAddr, Width};

/// Where code is put.
const CODE: u32 = 0x100;
/// Where data is.
const DATA: u32 = 0x800;
/// The memory ends here.
const END: u32 = 0x1000;

/// Flat memory that can refuse one access and remembers what it was told.
#[derive(Clone, PartialEq, Debug)]
struct Flat {
    bytes: Vec<u8>,
    checked: bool,
    /// Accesses, fetches included, until one fails.
    fails_after: Option<u32>,
    stalled: u32,
    barriers: Vec<bool>,
}

impl Flat {
    fn new() -> Self {
        let bytes = vec![0; END as usize];
        Self {
            bytes,
            checked: false,
            fails_after: None,
            stalled: 0,
            barriers: Vec::new(),
        }
    }

    fn access(&mut self, va: VirtAddr, width: Width, access: Access) -> Result<usize, Abort> {
        assert_eq!(va.0 % width.bytes(), 0, "misaligned {access:?} at {va}");
        if let Some(left) = &mut self.fails_after {
            if *left == 0 {
                self.fails_after = None;
                return Err(Abort {
                    va,
                    access,
                    fault: Fault::Permission,
                });
            }
            *left -= 1;
        }
        if va.0 < END {
            Ok(va.0 as usize)
        } else {
            Err(unmapped(va.0, access))
        }
    }

    fn read(&mut self, va: VirtAddr, width: Width, access: Access) -> Result<u32, Abort> {
        let start = self.access(va, width, access)?;
        let bytes = &self.bytes[start..start + width.bytes() as usize];
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    fn word(&self, va: u32) -> u32 {
        let start = va as usize;
        u32::from_le_bytes(self.bytes[start..start + 4].try_into().unwrap())
    }

    fn put(&mut self, va: u32, value: u32) {
        self.bytes[va as usize..va as usize + 4].copy_from_slice(&value.to_le_bytes());
    }
}

impl Bus for Flat {
    fn fetch(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Fetch)
    }

    fn load(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Load)
    }

    fn store(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        let start = self.access(va, width, Access::Store)?;
        let count = width.bytes() as usize;
        self.bytes[start..start + count].copy_from_slice(&value.to_le_bytes()[..count]);
        Ok(())
    }

    fn stall(&mut self, cycles: u32) {
        self.stalled += cycles;
    }

    fn alignment_checked(&self) -> bool {
        self.checked
    }

    fn barrier(&mut self, instruction_side: bool) {
        self.barriers.push(instruction_side);
    }
}

fn unmapped(va: u32, access: Access) -> Abort {
    Abort {
        va: VirtAddr(va),
        access,
        fault: Fault::TranslationPage,
    }
}

fn misaligned(va: u32, access: Access) -> Abort {
    Abort {
        va: VirtAddr(va),
        access,
        fault: Fault::Alignment,
    }
}

/// A processor with its memory, about to execute what a test puts at [`CODE`].
#[derive(Clone, PartialEq, Debug)]
struct Bench {
    regs: Regs,
    bus: Flat,
    arch: Arch,
}

impl Bench {
    /// ARM words.
    fn arm(words: &[u32]) -> Self {
        let mut bus = Flat::new();
        for (va, &word) in (CODE..).step_by(4).zip(words) {
            bus.put(va, word);
        }
        Self {
            regs: Regs::at(VirtAddr(CODE), VirtAddr(DATA)),
            bus,
            arch: Arch::V5te,
        }
    }

    /// Thumb halfwords.
    fn thumb(halves: &[u16]) -> Self {
        let pair =
            |half: &[u16]| u32::from(half[0]) | half.get(1).map_or(0, |&h| u32::from(h) << 16);
        let words: Vec<u32> = halves.chunks(2).map(pair).collect();
        let mut bench = Self::arm(&words);
        bench.regs.t = true;
        bench
    }

    fn v6(mut self) -> Self {
        self.arch = Arch::V6k;
        self
    }

    fn checked(mut self) -> Self {
        self.bus.checked = true;
        self
    }

    /// Sets registers from r0 on.
    fn with(mut self, values: &[u32]) -> Self {
        self.regs.r[..values.len()].copy_from_slice(values);
        self
    }

    fn with_r(mut self, register: usize, value: u32) -> Self {
        self.regs.r[register] = value;
        self
    }

    /// Sets N, Z, C, V from four bits.
    fn flags(mut self, nzcv: u32) -> Self {
        self.regs.set_flags(nzcv << 28);
        self
    }

    fn data(mut self, words: &[u32]) -> Self {
        for (va, &word) in (DATA..).step_by(4).zip(words) {
            self.bus.put(va, word);
        }
        self
    }

    /// Executes `count` instructions, all of which retire.
    fn run(mut self, count: u64) -> Self {
        let ran = run(&mut self.regs, self.arch, &mut self.bus, count);
        assert_eq!(ran, (count, Exit::Budget));
        self
    }

    /// Executes one instruction, which does not retire and changes no register.
    fn fails(mut self) -> Exit {
        let before = self.regs;
        let exit = step(&mut self.regs, self.arch, &mut self.bus).expect("it retired");
        assert_eq!(self.regs, before, "{exit:?} changed registers");
        exit
    }

    fn r(&self, register: usize) -> u32 {
        self.regs.r[register]
    }

    fn nzcv(&self) -> u32 {
        self.regs.cpsr() >> 28
    }
}

/// N, Z, C and V as four bits.
fn nzcv(n: bool, z: bool, c: bool, v: bool) -> u32 {
    u32::from(n) << 3 | u32::from(z) << 2 | u32::from(c) << 1 | u32::from(v)
}

#[test]
fn a_run_counts_what_retired() {
    let mut bench = Bench::arm(&[0xe3a0_0001, 0x03a0_0002, 0xef12_3456, 0xe7f0_00f0]);
    let ran = run(&mut bench.regs, bench.arch, &mut bench.bus, 10);
    assert_eq!(ran, (3, Exit::Svc { comment: 0x12_3456 }));
    assert_eq!(
        (bench.r(0), bench.r(15)),
        (1, CODE + 12),
        "a failed condition retires, too"
    );
    let ran = run(&mut bench.regs, bench.arch, &mut bench.bus, 10);
    assert_eq!(ran, (0, Exit::Undefined { word: 0xe7f0_00f0 }));
    assert_eq!(bench.r(15), CODE + 12);
}

#[test]
fn a_budget_of_nothing_does_nothing() {
    let bench = Bench::arm(&[0xe3a0_0001]);
    assert_eq!(bench.clone().run(0), bench);
}

#[test]
fn the_last_instruction_of_a_budget_may_be_the_svc() {
    let mut bench = Bench::arm(&[0xef00_0000]);
    assert_eq!(
        run(&mut bench.regs, bench.arch, &mut bench.bus, 1),
        (1, Exit::Svc { comment: 0 })
    );
}

#[test]
fn a_fetch_that_fails_is_a_prefetch_abort() {
    let bench = Bench::arm(&[]).with_r(15, END);
    assert_eq!(
        bench.fails(),
        Exit::PrefetchAbort(unmapped(END, Access::Fetch))
    );
}

#[test]
fn entry_bit_zero_chooses_thumb() {
    let regs = Regs::at(VirtAddr(0x8001), VirtAddr(0x9000));
    assert_eq!((regs.t, regs.r[15], regs.r[13]), (true, 0x8000, 0x9000));
    assert_eq!(regs.cpsr(), 0x30);
}
