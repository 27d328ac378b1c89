//! Misses by page and by function.
//!
//! A miss belongs to the page of its reference and to the function that was executing, which is the
//! one of the last fetch (for a fetch, itself). Both tables are bounded: pages beyond
//! [`PAGES_MAX`] are summed up as one.

use std::collections::HashMap;

use serde::Serialize;

use super::record::{Kind, Ref};
use super::sim::{Follow, Misses};
use super::symbols::Symbols;

/// Most pages that are told apart.
pub const PAGES_MAX: usize = 1 << 18;

/// Accesses and misses of a page or a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// References.
    pub references: u64,
    /// Instruction cache misses.
    pub l1i_misses: u64,
    /// Data cache misses.
    pub l1d_misses: u64,
    /// Fetch TLB misses.
    pub itlb_misses: u64,
    /// Data TLB misses.
    pub dtlb_misses: u64,
}

impl Tally {
    /// Misses of every kind.
    pub fn misses(&self) -> u64 {
        self.l1i_misses + self.l1d_misses + self.itlb_misses + self.dtlb_misses
    }
}

/// One line of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// Address of the page, or name of the function.
    pub name: String,
    /// Its counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// Tallies by page.
pub struct Pages {
    shift: u32,
    index: HashMap<u64, u32>,
    /// The first is that of the pages that are not told apart.
    tallies: Vec<(u64, Tally)>,
    last: (u64, usize),
}

impl Pages {
    /// Nothing yet; `page` is a power of two.
    pub fn new(page: u32) -> Self {
        Self {
            shift: page.trailing_zeros(),
            index: HashMap::new(),
            tallies: vec![(u64::MAX, Tally::default())],
            last: (u64::MAX, 0),
        }
    }

    fn slot(&mut self, va: u64) -> usize {
        let page = va >> self.shift;
        if self.last.0 == page {
            return self.last.1;
        }
        let next = self.tallies.len();
        let slot = match self.index.get(&page) {
            Some(slot) => *slot as usize,
            None if next > PAGES_MAX => 0,
            None => {
                self.index.insert(page, next as u32);
                self.tallies.push((page << self.shift, Tally::default()));
                next
            }
        };
        self.last = (page, slot);
        slot
    }

    /// The `most` pages with the most misses, and the sum of those not told apart if there are any.
    pub fn rows(&self, most: usize) -> Vec<Row> {
        let mut all: Vec<_> = self.tallies[1..].iter().collect();
        all.sort_by_key(|(page, tally)| (u64::MAX - tally.misses(), *page));
        let row = |(page, tally): &&(u64, Tally)| Row {
            name: format!("{page:#010x}"),
            tally: *tally,
        };
        let mut rows: Vec<Row> = all.iter().take(most).map(row).collect();
        let others = self.tallies[0].1;
        if others != Tally::default() {
            let name = "others".to_owned();
            let tally = others;
            rows.push(Row { name, tally });
        }
        rows
    }
}

impl Follow for Pages {
    fn batch(&mut self, batch: &[Ref], misses: &Misses) {
        for record in batch {
            let slot = self.slot(record.va);
            self.tallies[slot].1.references += 1;
        }
        tally_misses(misses, |at, count| {
            let slot = self.slot(batch[at].va);
            count(&mut self.tallies[slot].1);
        });
    }
}

/// Tallies by function.
pub struct Functions {
    symbols: Symbols,
    /// One a symbol, and the last for addresses in none.
    tallies: Vec<Tally>,
    pc: u64,
    /// Function of each reference of the batch.
    executing: Vec<u32>,
}

impl Functions {
    /// Nothing yet.
    pub fn new(symbols: Symbols) -> Self {
        Self {
            tallies: vec![Tally::default(); symbols.len() + 1],
            symbols,
            pc: u64::MAX,
            executing: Vec::new(),
        }
    }

    /// The `most` functions with the most misses.
    pub fn rows(&self, most: usize) -> Vec<Row> {
        let mut all: Vec<usize> = (0..self.tallies.len()).collect();
        all.retain(|n| self.tallies[*n] != Tally::default());
        all.sort_by_key(|n| (u64::MAX - self.tallies[*n].misses(), *n));
        let row = |n: &usize| Row {
            name: self.symbols.name(*n).unwrap_or("outside").to_owned(),
            tally: self.tallies[*n],
        };
        all.iter().take(most).map(row).collect()
    }
}

impl Follow for Functions {
    fn batch(&mut self, batch: &[Ref], misses: &Misses) {
        self.executing.clear();
        let outside = self.symbols.len();
        let mut function = self.symbols.find(self.pc).unwrap_or(outside);
        for record in batch {
            if record.kind == Kind::Fetch {
                self.pc = record.va;
                if !self.symbols.holds(function, record.va) {
                    function = self.symbols.find(record.va).unwrap_or(outside);
                }
            }
            self.executing.push(function as u32);
            self.tallies[function].references += 1;
        }
        tally_misses(misses, |at, count| {
            count(&mut self.tallies[self.executing[at] as usize]);
        });
    }
}

/// Goes over every miss with the field that counts it.
fn tally_misses(misses: &Misses, mut each: impl FnMut(usize, fn(&mut Tally))) {
    let counts: [fn(&mut Tally); 4] = [
        |t| t.l1i_misses += 1,
        |t| t.l1d_misses += 1,
        |t| t.itlb_misses += 1,
        |t| t.dtlb_misses += 1,
    ];
    let lists = [&misses.l1i, &misses.l1d, &misses.itlb, &misses.dtlb];
    for (list, count) in lists.into_iter().zip(counts) {
        list.iter().for_each(|at| each(*at as usize, count));
    }
}
