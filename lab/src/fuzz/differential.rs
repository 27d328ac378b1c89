//! `differential`: a random program runs on two equal machines, on one of them an instruction a call.
//!
//! What the machine remembers while a program runs lives no longer than one call of [`Machine::run`], so the
//! second machine takes the plain path. Registers, counters, verdicts and the whole state must be equal, after
//! each stretch and whatever the hardware and the kernel do between two stretches.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use machine::cpu::Regs;
use machine::profile::{Replacement, TableProfile};
use machine::{Ap, CpuId, Frame, LineOp, Machine, PhysAddr, Profile, Pte, Step, VirtAddr};

use crate::oracle::Oracle;

const CPU: CpuId = CpuId(0);
const PAGE: u32 = 256;
const PAGES: u32 = 12;
const FRAMES: u32 = 8;
/// Pages of code; the others are data.
const CODE: u32 = 4;
const STRETCHES_MAX: u32 = 24;

/// A machine and who watches it.
#[derive(Clone)]
struct Side {
    machine: Machine,
    oracle: Oracle,
}

impl Side {
    fn step(&mut self, step: &Step) {
        self.machine.apply(CPU, step, &mut self.oracle);
    }
}

/// The body.
pub fn body(data: &[u8]) {
    // Too few bytes are no input.
    let _ = compare(&mut Unstructured::new(data));
}

fn compare(u: &mut Unstructured<'_>) -> Result<()> {
    let mut fast = boot(u)?;
    let mut plain = fast.clone();
    for stretch in 0..STRETCHES_MAX {
        let budget = u64::from(u.arbitrary::<u8>()?) + 1;
        let (retired, exit) = fast.machine.run(CPU, budget, &mut fast.oracle);
        let mut left = budget;
        let mut last;
        loop {
            let (one, why) = plain.machine.run(CPU, 1, &mut plain.oracle);
            left -= one;
            last = why;
            if one == 0 || left == 0 || why != machine::Exit::Budget {
                break;
            }
        }
        assert_eq!(
            retired,
            budget - left,
            "stretch {stretch}: retired, {exit:?}"
        );
        assert_eq!(exit, last, "stretch {stretch}");
        same(&mut fast, &mut plain, stretch);
        go_on(&mut fast, &mut plain);
        if u.is_empty() {
            break;
        }
        for _ in 0..u.arbitrary::<u8>()? % 3 {
            let step = between(u)?;
            fast.step(&step);
            plain.step(&step);
        }
    }
    Ok(())
}

fn same(fast: &mut Side, plain: &mut Side, stretch: u32) {
    let (a, b) = (&fast.machine, &plain.machine);
    assert_eq!(
        a.cpu(CPU).regs,
        b.cpu(CPU).regs,
        "stretch {stretch}: registers"
    );
    assert_eq!(a.cost, b.cost, "stretch {stretch}: counters");
    let verdicts = [&fast.oracle, &plain.oracle].map(|o| o.verdicts.counts().clone());
    assert_eq!(verdicts[0], verdicts[1], "stretch {stretch}: verdicts");
    let states = [&mut fast.machine, &mut plain.machine].map(Machine::fingerprint);
    assert_eq!(states[0], states[1], "stretch {stretch}: state");
}

/// After a stop the program goes on behind the instruction, inside the code.
fn go_on(fast: &mut Side, plain: &mut Side) {
    for side in [fast, plain] {
        let regs = &mut side.machine.cpu_mut(CPU).regs;
        regs.t = false;
        regs.r[15] = (regs.r[15] & !3).wrapping_add(4) % (CODE * PAGE);
    }
}

/// A machine with a program in it.
fn boot(u: &mut Unstructured<'_>) -> Result<Side> {
    let mut p = (*Profile::embedded("tiny-vivt").expect("it is embedded")).clone();
    (p.page, p.memory) = (PAGE, PAGE * FRAMES);
    (p.icache.size, p.dcache.size) = (*u.choose(&[64, 256])?, *u.choose(&[64, 256])?);
    let replacement = *u.choose(&[Replacement::RoundRobin, Replacement::Lru])?;
    (p.icache.replacement, p.dcache.replacement) = (replacement, replacement);
    p.tlb.micro = *u.choose(&[1, 4])?;
    p.table = TableProfile::Flat {
        spaces: 2,
        user_pages: PAGES,
        kernel_pages: 4,
    };
    let mut machine = Machine::new(Arc::new(p));
    for n in 0..CODE * PAGE / 4 {
        let word = instruction(u)?;
        machine.memory.write(PhysAddr(n * 4), &word.to_le_bytes());
    }
    let mut regs = Regs::default();
    for (n, r) in regs.r.iter_mut().enumerate().take(15) {
        *r = CODE * PAGE + (n as u32 * 76) % ((PAGES - CODE) * PAGE) & !3;
    }
    regs.r[15] = 0;
    machine.cpu_mut(CPU).regs = regs;
    let oracle = Oracle::new(&machine, (PhysAddr(0), 0));
    let mut side = Side { machine, oracle };
    side.step(&Step::SetTtb(1));
    let cached = u.arbitrary::<u16>()?;
    for page in 0..PAGES {
        // Data pages have aliases, and one may lie over the code.
        let frame = Frame(if page < CODE { page } else { 3 + page % 5 });
        let pte = Pte::new(frame, Ap::User).with_cache(cached >> page & 1 == 1);
        let raw = pte.0;
        let space = 1;
        side.step(&Step::FlatPte { space, page, raw });
    }
    Ok(side)
}

/// An instruction that often does something: loads, stores, arithmetic, short branches.
fn instruction(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.is_empty() {
        // add r0, r0, #4
        return Ok(0xe280_0004);
    }
    let (kind, a, b) = (
        u.arbitrary::<u8>()?,
        u.arbitrary::<u8>()?,
        u.arbitrary::<u8>()?,
    );
    let (rd, rn) = (u32::from(a & 7), u32::from(a >> 4 & 7));
    let imm = u32::from(b) & 0xfc;
    Ok(match kind % 16 {
        0..=2 => 0xe590_0000 | rn << 16 | rd << 12 | imm,
        3..=5 => 0xe580_0000 | rn << 16 | rd << 12 | imm,
        6 => 0xe5d0_0000 | rn << 16 | rd << 12 | u32::from(b),
        7 => 0xe5c0_0000 | rn << 16 | rd << 12 | u32::from(b),
        8 => 0xe280_0000 | rn << 16 | rd << 12 | (imm & 0x3c),
        9 => 0xe240_0000 | rn << 16 | rd << 12 | (imm & 0x3c),
        // A branch of up to 32 words either way.
        10..=11 => 0xea00_0000 | (i32::from(b as i8) / 4) as u32 & 0x00ff_ffff,
        12 => 0xe890_0000 | rn << 16 | u32::from(b & 0x7f | 1),
        13 => 0xe880_0000 | rn << 16 | u32::from(b & 0x7f | 1),
        14 => 0xe350_0000 | rn << 16 | imm,
        _ => u.arbitrary::<u32>()? | u32::from(kind) << 28,
    })
}

/// What may happen between two stretches.
fn between(u: &mut Unstructured<'_>) -> Result<Step> {
    let at = u.arbitrary::<u8>()?;
    let va = VirtAddr(u32::from(at) * 12 % (PAGES * PAGE));
    let slot = u32::from(at) % 8;
    Ok(match u.arbitrary::<u8>()? % 12 {
        0 => Step::EvictData(slot),
        1 => Step::EvictInstruction(slot),
        2 => Step::Dcache(LineOp::CleanInvalidate, va),
        3 => Step::Dcache(LineOp::Invalidate, va),
        4 => Step::Icache(va),
        5 => Step::TlbDrop(va),
        6 => Step::TlbAll,
        7 => Step::Drain,
        8 => Step::PrefetchInstruction(va),
        9 => Step::Exception,
        10 => Step::DmaIn {
            pa: PhysAddr(u32::from(at) * 8 % (FRAMES * PAGE - 32)),
            bytes: [at; 32],
            len: 32,
        },
        _ => {
            let page = va.0 / PAGE;
            let frame = Frame(u32::from(at) % FRAMES);
            let pte = Pte::new(frame, Ap::User).with_cache(at & 1 == 1);
            Step::FlatPte {
                space: 1,
                page,
                raw: pte.0,
            }
        }
    })
}
