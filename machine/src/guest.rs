//! Runs the program on a CPU: the interpreter's bus is this machine.

use crate::cpu::{self, Arch, Bus, Exit};
use crate::fast::Port;
use crate::machine::{FetchBuffer, Machine};
use crate::observer::Observer;
use crate::types::{Abort, CpuId, VirtAddr, Width};

impl<O: Observer> Bus for Port<'_, O> {
    #[inline(always)]
    fn fetch(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.fetch_memo(va, width)
    }

    #[inline(always)]
    fn load(&mut self, va: VirtAddr, width: Width) -> Result<u32, Abort> {
        self.load_memo(va, width)
    }

    #[inline(always)]
    fn store(&mut self, va: VirtAddr, width: Width, value: u32) -> Result<(), Abort> {
        self.store_memo(va, width, value)
    }

    #[inline(always)]
    fn load_some(&mut self, va: VirtAddr, words: &mut [u32]) -> usize {
        self.load_some_memo(va, words)
    }

    #[inline(always)]
    fn store_some(&mut self, va: VirtAddr, words: &[u32]) -> usize {
        self.store_some_memo(va, words)
    }

    #[inline(always)]
    fn stall(&mut self, cycles: u32) {
        self.stalls += u64::from(cycles);
    }

    fn alignment_checked(&self) -> bool {
        self.machine.cpu(self.cpu).aligned
    }

    fn barrier(&mut self, instruction_side: bool) {
        if instruction_side {
            self.machine.cpu_mut(self.cpu).fetch = FetchBuffer::default();
        } else {
            self.machine.drain(self.cpu, self.obs);
        }
    }
}

impl Machine {
    /// Executes up to `budget` instructions of the program on `cpu`, every word through the simulated
    /// instruction side. Returns how many retired and why it stopped.
    pub fn run<O: Observer>(&mut self, cpu: CpuId, budget: u64, obs: &mut O) -> (u64, Exit) {
        let mut regs = self.cpu(cpu).regs;
        let mut port = Port::new(self, cpu, obs);
        let (retired, exit) = cpu::run(&mut regs, Arch::V5te, &mut port, budget);
        // An instruction that did not retire was fetched all the same, if it could be.
        let unfinished = !matches!(
            exit,
            Exit::Svc { .. } | Exit::Budget | Exit::PrefetchAbort(_)
        );
        port.finish(retired + u64::from(unfinished));
        self.cpu_mut(cpu).regs = regs;
        self.cost.instructions += retired;
        (retired, exit)
    }
}
