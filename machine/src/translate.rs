//! From a virtual address to the copy of its entry: micro-TLB, TLB, walk (`hardware.md`, section 7).

use crate::cost::Class;
use crate::machine::Machine;
use crate::mmu::{self, permits, read_word};
use crate::observer::Observer;
use crate::profile::{DrainsOn, TableProfile};
use crate::tlb::{Found, TlbEntry};
use crate::types::{Abort, Access, CpuId, Fault, PhysAddr, VirtAddr};

impl Machine {
    /// Translates as the hardware does: micro-TLB, TLB, walk; then checks the rights of the copy it
    /// found. A failed walk leaves no entry.
    ///
    /// # Errors
    /// The abort that the access takes.
    #[inline]
    pub fn translate<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        access: Access,
        user: bool,
        obs: &mut O,
    ) -> Result<TlbEntry, Abort> {
        let fetch = access == Access::Fetch;
        let entry = match self.cpu(cpu).tlb.last(fetch, va.0) {
            Some(entry) => *entry,
            None => self.translate_slow(cpu, va, access, obs)?,
        };
        let dacr = self.cpu(cpu).dacr;
        permits(&entry, dacr, user, access == Access::Store).map_err(|fault| Abort {
            va,
            access,
            fault,
        })?;
        Ok(entry)
    }

    #[inline(never)]
    fn translate_slow<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        access: Access,
        obs: &mut O,
    ) -> Result<TlbEntry, Abort> {
        let fetch = access == Access::Fetch;
        if let Some((entry, found)) = self.cpu_mut(cpu).tlb.lookup(fetch, va.0) {
            if found == Found::Main {
                let cycles = self.profile().cost.micro_tlb;
                self.spend(Class::Walk, cycles);
            }
            return Ok(entry);
        }
        let entry = self
            .walk(cpu, va, obs)
            .map_err(|fault| Abort { va, access, fault })?;
        self.cpu_mut(cpu).tlb.fill(fetch, va.0, entry);
        obs.walked(self, cpu, va, &entry);
        Ok(entry)
    }

    /// Walks the tables for `va` without touching the TLB.
    ///
    /// # Errors
    /// The translation fault, or `External` where the entry names no memory.
    pub fn walk<O: Observer>(
        &mut self,
        cpu: CpuId,
        va: VirtAddr,
        obs: &mut O,
    ) -> Result<TlbEntry, Fault> {
        let cycles = self.profile().cost.walk;
        self.spend(Class::Walk, cycles);
        if self.drains_on(DrainsOn::Walk) {
            self.drain(cpu, obs);
        }
        let ttb = self.cpu(cpu).ttb;
        let entry = match self.profile().table {
            TableProfile::ArmShort => mmu::walk_short(ttb, va.0, |pa| self.walk_read(cpu, pa))?,
            TableProfile::Flat { .. } => self.flat_entry(ttb, va)?,
        };
        if !self.memory.holds(PhysAddr(entry.base), self.page_bytes()) {
            return Err(Fault::External);
        }
        Ok(entry)
    }

    fn flat_entry(&self, space: u32, va: VirtAddr) -> Result<TlbEntry, Fault> {
        let page = self.page_bytes();
        let index = self
            .flat_index(space, va.0 / page)
            .ok_or(Fault::TranslationSection)?;
        let pte = mmu::Pte(self.flat[index]);
        if !pte.valid() {
            return Err(Fault::TranslationPage);
        }
        Ok(pte.to_tlb(va.0, page, true, 0))
    }

    /// The word a walk sees at `pa`.
    fn walk_read(&self, cpu: CpuId, pa: PhysAddr) -> u32 {
        let looks = self.profile().walk_looks;
        let found = self.find_beside(cpu, pa, looks);
        found.map_or_else(|| read_word(&self.memory, pa), |place| self.word_at(place))
    }
}
