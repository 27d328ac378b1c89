//! How fast the interpreter runs on flat memory: instructions per second of three small loops.
//!
//! `cargo run --release -p machine --example cpu_speed`
//!
//! Absent on purpose: caches, TLBs and costs; those are measured where they are.

use machine::cpu::{Arch, Bus, Exit, Regs, run};
use machine::{Abort, Access, Fault, VirtAddr, Width};
use std::time::Instant;

/// Memory from address 0 on, and nothing else.
struct Flat(Vec<u32>);

impl Flat {
    #[inline(always)]
    fn word(&mut self, va: VirtAddr, access: Access) -> Result<&mut u32, Abort> {
        let abort = Abort {
            va,
            access,
            fault: Fault::TranslationSection,
        };
        self.0.get_mut((va.0 >> 2) as usize).ok_or(abort)
    }

    #[inline(always)]
    fn read(&mut self, va: VirtAddr, width: Width, access: Access) -> Result<u32, Abort> {
        let word = *self.word(va, access)?;
        Ok(if width == Width::Word {
            word
        } else {
            word >> (8 * (va.0 & 3)) & mask(width)
        })
    }
}

/// The bits of one access.
#[inline(always)]
fn mask(width: Width) -> u32 {
    u32::MAX >> (32 - 8 * width.bytes())
}

impl Bus for Flat {
    #[inline(always)]
    fn fetch(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Fetch)
    }

    #[inline(always)]
    fn load(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.read(va, width, Access::Load)
    }

    #[inline(always)]
    fn store(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        if width == Width::Word {
            *self.word(va, Access::Store)? = value;
            return Ok(());
        }
        let shift = 8 * (va.0 & 3);
        let word = self.word(va, Access::Store)?;
        *word = *word & !(mask(width) << shift) | (value & mask(width)) << shift;
        Ok(())
    }

    #[inline(always)]
    fn stall(&mut self, _cycles: u32) {}

    fn alignment_checked(&self) -> bool {
        true
    }

    fn barrier(&mut self, _instruction_side: bool) {}
}

/// A counter in memory: ldr, subs, add, str, bne.
const COUNT: &[u32] = &[
    0xe591_3000,
    0xe250_0001,
    0xe283_3001,
    0xe581_3000,
    0x1aff_fffa,
];
/// Sixteen words copied and hashed: ldmia, stmia, eor, ror, adc, cmp, conditional moves, bl, bx.
const MIX: &[u32] = &[
    0xe8b1_00f0, // ldmia r1!, {r4-r7}
    0xe8a2_00f0, // stmia r2!, {r4-r7}
    0xe024_8265, // eor r8, r4, r5, ror #4
    0xe0a8_8116, // adc r8, r8, r6, lsl r1
    0xe158_0007, // cmp r8, r7
    0x31a0_8007, // movcc r8, r7
    0xe241_1010, // sub r1, r1, #16
    0xe242_2010, // sub r2, r2, #16
    0xeb00_0002, // bl leaf
    0xe250_0001, // subs r0, r0, #1
    0x1aff_fff4, // bne start
    0xef00_0000, // svc
    0xe208_90ff, // leaf: and r9, r8, #255
    0xe7d3_a009, // ldrb r10, [r3, r9]
    0xe12f_ff1e, // bx lr
];
/// The first loop in Thumb state, two to a word.
const THUMB: &[u32] = &[0x3801_680b, 0x600b_3301, 0xdf00_d1fa];

/// Seconds that `instructions` of `program` take.
fn time(program: &[u32], thumb: bool, instructions: u64) -> f64 {
    let mut bus = Flat(vec![0; 1 << 14]);
    bus.0[..program.len()].copy_from_slice(program);
    let mut regs = Regs::at(VirtAddr(u32::from(thumb)), VirtAddr(0x8000));
    regs.r[..4].copy_from_slice(&[u32::MAX, 0x1000, 0x2000, 0x3000]);
    let start = Instant::now();
    let (_, exit) = run(&mut regs, Arch::V5te, &mut bus, instructions);
    assert_eq!(exit, Exit::Budget, "stopped at {}", regs.pc());
    start.elapsed().as_secs_f64()
}

/// The best of some runs, for the host may be busy.
fn measure(name: &str, program: &[u32], thumb: bool, instructions: u64) {
    const RUNS: u32 = 8;
    let best = (0..RUNS)
        .map(|_| time(program, thumb, instructions))
        .fold(f64::MAX, f64::min);
    println!(
        "{name:8} {:6.0} M instructions/s",
        instructions as f64 / best / 1e6
    );
}

fn main() {
    const INSTRUCTIONS: u64 = 50_000_000;
    measure("count", COUNT, false, INSTRUCTIONS);
    measure("mix", MIX, false, INSTRUCTIONS);
    measure("thumb", THUMB, true, INSTRUCTIONS);
}
