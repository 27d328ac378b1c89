//! What hardware may do at any time: lines leave caches, the TLB forgets pages. An adversary does it
//! between the instructions of a running program, by a seed, so that a run can be had again.
//!
//! Absent on purpose: prefetches, which put lines in rather than take them out, and anything inside
//! the kernel's own operations (the explorer perturbs those).

use kern::{KernVerbs, Limits, RunEnd};
use machine::{CpuId, Hw, Observer, Step, VirtAddr};

use crate::world::World;

/// An adversary with its own random numbers.
#[derive(Clone, Debug)]
pub struct Adversary {
    state: u64,
    every: u64,
    /// Steps taken so far.
    pub steps: u64,
}

impl Adversary {
    /// One that acts after `every` instructions on average.
    pub fn new(seed: u64, every: u64) -> Self {
        let state = machine::memory::mix(seed, 0x9e37_79b9_7f4a_7c15) | 1;
        let every = every.max(1);
        Self {
            state,
            every,
            steps: 0,
        }
    }

    /// A number below `bound` (xorshift64).
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 16) % bound.max(1)
    }

    /// Runs processes on `cpu` as [`KernVerbs::run`] does, with the adversary in between.
    pub fn run<O: Observer + Clone>(
        &mut self,
        world: &mut World<O>,
        cpu: CpuId,
        limits: Limits,
    ) -> RunEnd {
        let mut left = limits.instructions;
        while left > 0 {
            let part = (1 + self.below(2 * self.every)).min(left);
            let before = world.state.machine.cost.instructions;
            let end = world.run(
                cpu,
                Limits {
                    instructions: part,
                    ..limits
                },
            );
            if end != RunEnd::Instructions {
                return end;
            }
            // A part without an instruction (system calls alone) counts as one: runs end.
            let done = world.state.machine.cost.instructions - before;
            left -= done.clamp(1, left);
            self.act(world, cpu);
        }
        RunEnd::Instructions
    }

    /// A few steps; now and then everything goes at once, as when another program had the caches.
    fn act<O: Observer + Clone>(&mut self, world: &mut World<O>, cpu: CpuId) {
        if self.below(64) == 0 {
            let machine = &world.state.machine;
            let (data, code) = (
                machine.cpu(cpu).dcache.slots(),
                machine.cpu(cpu).icache.slots(),
            );
            (0..data).for_each(|slot| self.step(world, cpu, Step::EvictData(slot)));
            (0..code).for_each(|slot| self.step(world, cpu, Step::EvictInstruction(slot)));
            return;
        }
        for _ in 0..=self.below(4) {
            let step = self.choose(world, cpu);
            self.step(world, cpu, step);
        }
    }

    fn step<O: Observer + Clone>(&mut self, world: &mut World<O>, cpu: CpuId, step: Step) {
        self.steps += 1;
        world.step(cpu, step);
    }

    fn choose<O>(&mut self, world: &World<O>, cpu: CpuId) -> Step {
        let machine = &world.state.machine;
        let on = machine.cpu(cpu);
        let l2 = machine.l2.as_ref().map_or(0, |c| c.slots());
        match self.below(if l2 > 0 { 4 } else { 3 }) {
            0 => Step::EvictData(self.below(u64::from(on.dcache.slots())) as u32),
            1 => Step::EvictInstruction(self.below(u64::from(on.icache.slots())) as u32),
            2 => {
                let held: Vec<u32> = on.tlb.entries().map(|e| e.tag).collect();
                let n = self.below(held.len() as u64) as usize;
                Step::TlbDrop(VirtAddr(held.get(n).copied().unwrap_or(0)))
            }
            _ => Step::EvictL2(self.below(u64::from(l2)) as u32),
        }
    }
}
