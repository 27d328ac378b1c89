//! The fast path against the plain one: the same small program, tables and adversary on four machines,
//! with and without an oracle, fast and plain. After every operation costs, counts, state, and with an
//! oracle its verdicts and its truth, must be equal.
//!
//! A bare machine without a kernel, so that its tables can be as wrong as the bytes want: pages and
//! sections over one another, aliases of other colours, uncached and write-through, tables that the
//! program may write, code that is data.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use machine::cpu::Regs;
use machine::profile::{CacheProfile, DrainsOn, Looks, Lookup, Replacement, UncachedHit};
use machine::{
    Abort, Ap, CpuId, Exit, Frame, L1Descriptor, LineOp, Machine, Mark, Observer, PhysAddr,
    Profile, Pte, Step, VirtAddr, Width,
};

use crate::oracle::Oracle;

const CPU: CpuId = CpuId(0);
/// The first-level table, then two second-level ones.
const TABLES: PhysAddr = PhysAddr(0x1_0000);
const TABLES_BYTES: u32 = 0x5000;
const COARSE: PhysAddr = PhysAddr(0x1_4000);
/// The frames that small pages map.
const FRAME_FIRST: u32 = 0x20;
const FRAMES: u32 = 12;
const MEMORY: u32 = 1 << 20;
/// The kernel's section over all memory.
const KERNEL: u32 = 0xc000_0000;
const OPERATIONS_MAX: usize = 64;

/// What is done to all four machines.
#[derive(Clone, Debug)]
enum Op {
    Run(u64),
    Registers(Box<Regs>),
    Step(Step),
    Mark(Mark),
    Load(VirtAddr, Width, bool),
    Store(VirtAddr, Width, u32, bool),
}

/// What came of it, as far as the program or the kernel can see.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Ran(u64, Exit),
    Loaded(std::result::Result<u32, Abort>),
    Stored(std::result::Result<(), Abort>),
    Done,
}

fn apply<O: Observer>(machine: &mut Machine, obs: &mut O, op: &Op) -> Answer {
    match op {
        Op::Run(budget) => {
            let (retired, exit) = machine.run(CPU, *budget, obs);
            return Answer::Ran(retired, exit);
        }
        Op::Registers(regs) => machine.cpu_mut(CPU).regs = **regs,
        Op::Step(step) => machine.apply(CPU, step, obs),
        Op::Mark(mark) => obs.mark(CPU, mark),
        Op::Load(va, width, user) => {
            return Answer::Loaded(machine.load(CPU, *va, *width, *user, obs));
        }
        Op::Store(va, width, value, user) => {
            return Answer::Stored(machine.store(CPU, *va, *width, *value, *user, obs));
        }
    }
    Answer::Done
}

/// Four machines that must agree: fast and plain, watched and alone.
struct Four {
    watched: [(Machine, Oracle); 2],
    alone: [Machine; 2],
}

impl Four {
    fn new(machine: &Machine) -> Self {
        let oracle = Oracle::new(machine, (TABLES, TABLES_BYTES));
        let plain = |plain| {
            let mut machine = machine.clone();
            machine.set_plain(plain);
            machine
        };
        Self {
            watched: [(plain(false), oracle.clone()), (plain(true), oracle)],
            alone: [plain(false), plain(true)],
        }
    }

    fn apply(&mut self, op: &Op) -> Answer {
        let [(fast, fast_oracle), (plain, plain_oracle)] = &mut self.watched;
        let answer = apply(plain, plain_oracle, op);
        assert_eq!(apply(fast, fast_oracle, op), answer, "watched, {op:?}");
        let counts = fast_oracle.verdicts.named();
        assert_eq!(counts, plain_oracle.verdicts.named(), "verdicts, {op:?}");
        let truth = plain_oracle.fingerprint();
        assert_eq!(fast_oracle.fingerprint(), truth, "truth, {op:?}");
        assert_eq!(fast_oracle.spurious, plain_oracle.spurious, "{op:?}");
        for machine in &mut self.alone {
            assert_eq!(apply(machine, &mut (), op), answer, "alone, {op:?}");
        }
        let (cost, state) = (plain.cost, plain.fingerprint());
        for other in [fast].into_iter().chain(&mut self.alone) {
            assert_eq!(other.cost, cost, "{op:?}");
            assert_eq!(other.fingerprint(), state, "state, {op:?}");
        }
        answer
    }
}

/// The fuzz target's body.
pub fn body(bytes: &[u8]) {
    differential(bytes);
}

/// Runs one input: panics where fast and plain differ. Returns how many instructions the programs executed and
/// how many verdicts there were, so that a test can see that something was compared.
pub fn differential(bytes: &[u8]) -> (u64, u64) {
    let mut u = Unstructured::new(bytes);
    let Ok(machine) = machine(&mut u) else {
        return (0, 0);
    };
    let mut four = Four::new(&machine);
    let mut retired = 0;
    for _ in 0..OPERATIONS_MAX {
        if u.is_empty() {
            break;
        }
        let Ok(ops) = operation(&mut u) else { break };
        for op in ops {
            if let Answer::Ran(n, _) = four.apply(&op) {
                retired += n;
            }
        }
    }
    let verdicts = four.watched[0].1.verdicts.named();
    (retired, verdicts.values().copied().sum())
}

fn cache(u: &mut Unstructured<'_>) -> Result<CacheProfile> {
    let (line, ways) = (*u.choose(&[8, 16, 32, 64])?, *u.choose(&[1, 2, 3, 4])?);
    let sets = *u.choose(&[4, 8, 128])?;
    Ok(CacheProfile {
        size: line * ways * sets,
        ways,
        line,
        lookup: *u.choose(&[Lookup::Vivt, Lookup::Vivt, Lookup::Vipt, Lookup::Pipt])?,
        replacement: *u.choose(&[
            Replacement::Lru,
            Replacement::Fifo,
            Replacement::RoundRobin,
            Replacement::RoundRobinGlobal,
            Replacement::Random,
        ])?,
        write_allocate: u.arbitrary()?,
        write_back: true,
        invalid_first: true,
        dirty_bytes: if u.arbitrary()? { line / 2 } else { 0 },
        uncached_hit: *u.choose(&[
            UncachedHit::HitServes,
            UncachedHit::Bypass,
            UncachedHit::BypassButWriteUpdates,
            UncachedHit::BypassStale,
        ])?,
    })
}

/// A machine with its tables and some code in memory.
fn machine(u: &mut Unstructured<'_>) -> Result<Machine> {
    let mut profile = (*Profile::embedded("sheevaplug").expect("it is embedded")).clone();
    profile.memory = MEMORY;
    profile.icache = cache(u)?;
    profile.dcache = cache(u)?;
    let second = CacheProfile {
        line: 64,
        size: 64 * 3 * 16,
        ways: 3,
        lookup: Lookup::Pipt,
        write_back: u.arbitrary()?,
        dirty_bytes: 32,
        ..cache(u)?
    };
    profile.l2 = if u.arbitrary()? { Some(second) } else { None };
    profile.fetch_looks = *u.choose(&[Looks::Memory, Looks::L2, Looks::OwnD])?;
    profile.walk_looks = *u.choose(&[Looks::Memory, Looks::L2, Looks::OwnD])?;
    profile.tlb.micro = u.int_in_range(1..=8)?;
    profile.tlb.entries = 8;
    profile.write_buffer.eviction = u.arbitrary()?;
    profile.write_buffer.entries = u.int_in_range(0..=4)?;
    if u.arbitrary()? {
        profile.write_buffer.drains_on.push(DrainsOn::Fill);
    }
    let mut machine = Machine::new(Arc::new(profile));
    set_up(&mut machine, u)?;
    Ok(machine)
}

fn set_up(machine: &mut Machine, u: &mut Unstructured<'_>) -> Result<()> {
    let mut put = |pa: u32, word: u32| machine.memory.write(PhysAddr(pa), &word.to_le_bytes());
    for n in 0..2 {
        let table = L1Descriptor::coarse(COARSE.add(n * 0x400), n as u8);
        put(TABLES.0 + n * 4, table.0);
        for page in 0..16 {
            put(COARSE.0 + n * 0x400 + page * 4, page_entry(u)?.0);
        }
    }
    let section = |ap, c, b| L1Descriptor::section(PhysAddr(0), 0, ap, c, b).0;
    put(
        TABLES.0 + 8,
        section(Ap::User, u.arbitrary()?, u.arbitrary()?),
    );
    let cached: bool = u.arbitrary()?;
    put(
        TABLES.0 + (KERNEL >> 20) * 4,
        section(Ap::Kernel, cached, cached),
    );
    for frame in FRAME_FIRST..FRAME_FIRST + FRAMES {
        for word in 0..64 {
            put(frame * 0x1000 + word * 4, instruction(u)?);
        }
    }
    let cpu = machine.cpu_mut(CPU);
    (cpu.ttb, cpu.dacr, cpu.aligned) = (TABLES.0, 0b0101, u.arbitrary()?);
    cpu.regs = registers(u)?;
    Ok(())
}

/// A small page's entry, mostly good.
fn page_entry(u: &mut Unstructured<'_>) -> Result<Pte> {
    let frame = Frame(FRAME_FIRST + u.int_in_range(0..=FRAMES - 1)?);
    let ap = *u.choose(&[Ap::User, Ap::User, Ap::User, Ap::UserRead, Ap::Kernel])?;
    let pte = Pte::new(frame, ap);
    Ok(match u.int_in_range(0..=9)? {
        0 => Pte::ZERO,
        1 => pte.with_cache(false),
        // Write-through.
        2 => Pte(pte.0 & !4),
        _ => pte,
    })
}

/// An address in the mapped pages, often in few of them.
fn address(u: &mut Unstructured<'_>) -> Result<u32> {
    let page = u.int_in_range(0..=15_u32)?;
    let megabyte = *u.choose(&[0, 0, 0, 1, 1, 2])?;
    let at = match megabyte {
        2 => 0x20_0000 + (0x10 + page) * 0x1000,
        n => n * 0x10_0000 + page * 0x1000,
    };
    Ok(at + u.int_in_range(0..=63_u32)? * 4)
}

fn registers(u: &mut Unstructured<'_>) -> Result<Regs> {
    let mut regs = Regs::at(VirtAddr(address(u)?), VirtAddr(address(u)?));
    for n in 0..6 {
        regs.r[n] = address(u)?;
    }
    regs.t = u.ratio(1, 16)?;
    Ok(regs)
}

/// An instruction, mostly an access through one of the registers that point to pages.
fn instruction(u: &mut Unstructured<'_>) -> Result<u32> {
    let (rn, rd) = (u.int_in_range(0..=5_u32)?, u.int_in_range(6..=12_u32)?);
    let (offset, low) = (u.int_in_range(0..=31_u32)? * 4, u.int_in_range(0..=63_u32)?);
    let access = |op: u32| op | rn << 16 | rd << 12;
    Ok(match u.int_in_range(0..=15)? {
        0..=2 => access(0xe590_0000) | offset,
        3 | 4 => access(0xe580_0000) | offset,
        5 => access(0xe5d0_0000) | low,
        6 => access(0xe5c0_0000) | low,
        7 => access(0xe1c0_00b0) | low & 14,
        8 => access(0xe1d0_00b0) | low & 14,
        9 => 0xe8b0_0000 | rn << 16 | 0x03c0,
        10 => 0xe8a0_0000 | rn << 16 | 0x03c0,
        11 => 0xe280_0000 | rn << 16 | rn << 12 | low & 0x1c,
        // A page back, so that a pointer does not run away.
        12 => 0xe240_0a00 | rn << 16 | rn << 12 | low & 1,
        13 => 0x1a00_0000 | (low.wrapping_sub(48) & 0xff_ffff),
        14 => 0xe290_0001 | rd << 16 | rd << 12,
        _ => u.arbitrary()?,
    })
}

fn operation(u: &mut Unstructured<'_>) -> Result<Vec<Op>> {
    Ok(match u.int_in_range(0..=9)? {
        0..=3 => vec![Op::Run(u.int_in_range(1..=600)?)],
        4 | 5 => vec![
            Op::Registers(Box::new(registers(u)?)),
            Op::Run(u.int_in_range(1..=600)?),
        ],
        6 => change_entry(u)?,
        7 => vec![Op::Step(adversary(u)?)],
        8 => vec![Op::Step(maintenance(u)?)],
        _ => vec![access(u)?],
    })
}

/// A kernel changes an entry, with or without what belongs to it.
fn change_entry(u: &mut Unstructured<'_>) -> Result<Vec<Op>> {
    let (table, page) = (u.int_in_range(0..=1_u32)?, u.int_in_range(0..=15_u32)?);
    let at = VirtAddr(KERNEL + COARSE.0 + table * 0x400 + page * 4);
    let entry = page_entry(u)?;
    let mut ops = vec![
        Op::Mark(Mark::PmapBegin),
        Op::Store(at, Width::Word, entry.0, false),
    ];
    if u.arbitrary()? {
        ops.push(Op::Step(Step::Dcache(LineOp::Clean, at)));
        ops.push(Op::Step(Step::Drain));
    }
    if u.arbitrary()? {
        let va = VirtAddr(table * 0x10_0000 + page * 0x1000);
        ops.push(Op::Step(Step::Tlb(va)));
    }
    ops.push(Op::Mark(Mark::PmapEnd));
    Ok(ops)
}

fn adversary(u: &mut Unstructured<'_>) -> Result<Step> {
    let slot = |u: &mut Unstructured<'_>| u.int_in_range(0..=3_u32);
    let va = VirtAddr(address(u)?);
    Ok(match u.int_in_range(0..=7)? {
        0 => Step::EvictData(slot(u)?),
        1 => Step::EvictInstruction(slot(u)?),
        2 => Step::EvictL2(slot(u)?),
        3 => Step::PrefetchData(va),
        4 => Step::PrefetchInstruction(va),
        5 => Step::TlbDrop(va),
        6 => Step::TlbAll,
        _ => {
            let frame = FRAME_FIRST + u.int_in_range(0..=FRAMES - 1)?;
            let mut bytes = [0; 32];
            for word in bytes.chunks_exact_mut(4) {
                word.copy_from_slice(&instruction(u)?.to_le_bytes());
            }
            Step::DmaIn {
                pa: PhysAddr(frame * 0x1000 + u.int_in_range(0..=7_u32)? * 32),
                bytes,
                len: 32,
            }
        }
    })
}

fn maintenance(u: &mut Unstructured<'_>) -> Result<Step> {
    let va = VirtAddr(address(u)?);
    let op = *u.choose(&[LineOp::Clean, LineOp::Invalidate, LineOp::CleanInvalidate])?;
    Ok(match u.int_in_range(0..=7)? {
        0 => Step::Dcache(op, va),
        1 => Step::DcacheTest(op),
        2 => Step::Icache(va),
        3 => Step::IcacheAll,
        4 => Step::L2(op, va),
        5 => Step::Exception,
        6 => Step::SetDacr(*u.choose(&[0b0101, 0b1101, 0b0001, 0b0111])?),
        _ => Step::FlushFetch,
    })
}

fn access(u: &mut Unstructured<'_>) -> Result<Op> {
    let va = VirtAddr(address(u)?);
    Ok(match u.int_in_range(0..=3)? {
        0 => Op::Load(va, Width::Word, u.arbitrary()?),
        1 => Op::Store(va, Width::Word, instruction(u)?, u.arbitrary()?),
        2 => Op::Mark(Mark::Sync { va, len: 64 }),
        _ => Op::Mark(Mark::FrameFreed(Frame(
            FRAME_FIRST + u.int_in_range(0..=FRAMES - 1)?,
        ))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_and_plain_agree_on_random_programs() {
        let (mut retired, mut verdicts) = (0, 0);
        for seed in 1..=60_u64 {
            let mut word = seed;
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                word = machine::memory::mix(word, seed);
                word.to_le_bytes()
            })
            .take(1500)
            .flatten()
            .collect();
            let seen = differential(&bytes);
            (retired, verdicts) = (retired + seen.0, verdicts + seen.1);
        }
        assert!(retired > 100_000, "only {retired} instructions compared");
        assert!(verdicts > 1000, "only {verdicts} verdicts compared");
    }
}
