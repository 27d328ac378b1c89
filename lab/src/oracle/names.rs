//! Which byte an address names: the true descriptors of the space that is live on a CPU, read from the
//! truth of the tables' own memory, never from a TLB copy.

use std::collections::BTreeMap;

use machine::mmu::{self, L1Descriptor, Pte};
use machine::profile::TableProfile;
use machine::tlb::TlbEntry;
use machine::{Machine, PhysAddr, VirtAddr};

use super::shadow::Shadow;

const MEMO: usize = 64;

/// A remembered true translation.
#[derive(Clone, Copy, Debug)]
struct Memo {
    epoch: u32,
    cpu: u8,
    page: u32,
    entry: Option<TlbEntry>,
}

/// A store to a table during a pmap operation: where, and what was there.
#[derive(Clone, Copy, Debug)]
struct OldWord {
    pa: PhysAddr,
    word: u32,
}

/// True translations.
#[derive(Clone, Debug)]
pub struct Names {
    page: u32,
    flat: Option<(u32, u32)>,
    flat_table: Vec<u32>,
    tables: (PhysAddr, u32),
    /// The first-level word that each domain last had in a slot: a table is shared by spaces that
    /// overwrite each other's slots.
    slots: BTreeMap<(u32, u32, u8), u32>,
    registers: Vec<(u32, u32)>,
    epoch: u32,
    memo: Vec<Memo>,
    old: Vec<OldWord>,
    old_flat: Vec<(usize, u32)>,
    /// Depth of pmap operations now going on.
    depth: u32,
}

impl Names {
    /// The true descriptors of a machine whose tables were just set up.
    pub fn new(machine: &Machine, tables: (PhysAddr, u32)) -> Self {
        let flat = match machine.profile().table {
            TableProfile::Flat {
                user_pages,
                kernel_pages,
                ..
            } => Some((user_pages, kernel_pages)),
            TableProfile::ArmShort => None,
        };
        let empty = Memo {
            epoch: 0,
            cpu: 0,
            page: 0,
            entry: None,
        };
        Self {
            page: machine.page_bytes(),
            flat,
            flat_table: machine.flat.clone(),
            tables,
            slots: BTreeMap::new(),
            registers: machine.cpus.iter().map(|c| (c.ttb, c.dacr)).collect(),
            epoch: 1,
            memo: vec![empty; MEMO],
            old: Vec::new(),
            old_flat: Vec::new(),
            depth: 0,
        }
    }

    /// A number, not 0, that changes with every change of the true descriptors and of the registers
    /// that choose among them.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether an address lies in the tables' memory.
    #[inline]
    pub fn is_table(&self, pa: PhysAddr) -> bool {
        pa.0.wrapping_sub(self.tables.0.0) < self.tables.1
    }

    /// A word of a table was stored; `old` was there.
    pub fn table_stored(&mut self, pa: PhysAddr, old: u32, new: u32) {
        self.epoch += 1;
        if self.depth > 0 && self.old.len() < 4096 {
            self.old.push(OldWord { pa, word: old });
        }
        let l1 = pa.0 & 0xffff_c000;
        if self
            .registers
            .iter()
            .any(|(ttb, _)| ttb & 0xffff_c000 == l1)
        {
            let slot = (pa.0 & 0x3fff) / 4;
            let (was, is) = (L1Descriptor(old), L1Descriptor(new));
            if is.table().is_some() {
                self.slots.insert((l1, slot, is.domain()), new);
            } else if was.table().is_some() {
                self.slots.remove(&(l1, slot, was.domain()));
            }
        }
    }

    /// An entry of a flat table was stored.
    pub fn flat_stored(&mut self, index: Option<usize>, raw: u32) {
        let Some(index) = index else { return };
        self.epoch += 1;
        if self.depth > 0 {
            self.old_flat.push((index, self.flat_table[index]));
        }
        self.flat_table[index] = raw;
    }

    /// A CPU's table base or domain register was loaded.
    pub fn registers(&mut self, cpu: usize, ttb: Option<u32>, dacr: Option<u32>) {
        let (t, d) = self.registers[cpu];
        self.registers[cpu] = (ttb.unwrap_or(t), dacr.unwrap_or(d));
        self.epoch += 1;
    }

    /// Starts over from what a machine with flat tables holds, between operations.
    pub fn restart(&mut self, machine: &Machine) {
        self.flat_table.clone_from(&machine.flat);
        let registers = machine.cpus.iter().map(|c| (c.ttb, c.dacr));
        self.registers.clear();
        self.registers.extend(registers);
        self.epoch = self.epoch.wrapping_add(1);
        self.operation(false);
    }

    /// A pmap operation begins or ends.
    pub fn operation(&mut self, begins: bool) {
        self.depth = if begins {
            self.depth + 1
        } else {
            self.depth.saturating_sub(1)
        };
        if self.depth == 0 {
            self.old.clear();
            self.old_flat.clear();
        }
    }

    /// The true translation of `va` on a CPU.
    #[inline]
    pub fn resolve(&mut self, shadow: &Shadow, cpu: usize, va: VirtAddr) -> Option<TlbEntry> {
        let page = va.0 / self.page;
        let n = (page as usize ^ cpu << 3) % MEMO;
        let memo = self.memo[n];
        if memo.epoch == self.epoch && memo.page == page && usize::from(memo.cpu) == cpu {
            return memo.entry;
        }
        let entry = self.walk(shadow, cpu, va, false);
        self.memo[n] = Memo {
            epoch: self.epoch,
            cpu: cpu as u8,
            page,
            entry,
        };
        entry
    }

    /// The translation that was true before the pmap operation that is going on, if one is.
    pub fn resolve_old(&self, shadow: &Shadow, cpu: usize, va: VirtAddr) -> Option<TlbEntry> {
        let within = self.depth > 0 && (!self.old.is_empty() || !self.old_flat.is_empty());
        within.then(|| self.walk(shadow, cpu, va, true)).flatten()
    }

    fn walk(&self, shadow: &Shadow, cpu: usize, va: VirtAddr, old: bool) -> Option<TlbEntry> {
        let (ttb, dacr) = self.registers[cpu];
        if let Some((user, kernel)) = self.flat {
            let page = va.0 / self.page;
            let space = if page >= user { 0 } else { ttb };
            let index = (space * (user + kernel) + page) as usize;
            let was = self
                .old_flat
                .iter()
                .find(|(n, _)| old && *n == index)
                .map(|(_, w)| *w);
            let pte = Pte(was.or_else(|| self.flat_table.get(index).copied())?);
            return pte.valid().then(|| pte.to_tlb(va.0, self.page, true, 0));
        }
        let domain = (1..16).find(|d| dacr >> (d * 2) & 3 != 0).unwrap_or(0) as u8;
        let l1 = ttb & 0xffff_c000;
        mmu::walk_short(ttb, va.0, |pa| {
            let was = self.old.iter().find(|o| old && o.pa == pa).map(|o| o.word);
            let word = was.unwrap_or_else(|| shadow.word(pa));
            let first_level = pa.0 & 0xffff_c000 == l1;
            let foreign = first_level && ![0, domain].contains(&L1Descriptor(word).domain());
            if foreign || (first_level && word == 0) {
                let key = (l1, (pa.0 & 0x3fff) / 4, domain);
                return self.slots.get(&key).copied().unwrap_or(0);
            }
            word
        })
        .ok()
    }
}
