//! `freebsd-2010` once more, naively: a list of mappings with flags and a few functions that follow the
//! reference page (`pmap-freebsd-netbsd.md` 1.3, 2.2, 3.1, 3.2, 3.4) and not the rule's code. Random sequences
//! of verbs on one page must leave both with the same mappings in pv order, the same entries, the same
//! `pv_kva`, and must have done the same maintenance in the same order.
//!
//! Names of operations are those of the kernels; second-level operations, which go with the range
//! operations, and drains are left out.

use lab::journal::{Detail, Entry};
use lab::{State, World};
use machine::{CpuId, Frame, Profile, VirtAddr};
use pmap::{PmapVerbs, Prot, SpaceId};
use proptest::prelude::*;

const CPU: CpuId = CpuId(0);
const PAGE: Frame = Frame(0x900);
const KERNEL: u16 = 0;
const SPACES: u16 = 2;

/// Whether something holds or not, by the names of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Flags {
    modified: bool,
    referenced: bool,
    write: bool,
    exec: bool,
    nc: bool,
    mwc: bool,
    unman: bool,
}

/// One mapping, with its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mapping {
    space: u16,
    va: u32,
    flags: Flags,
    pte_write: bool,
    pte_cached: bool,
    pte_valid: bool,
}

/// The page and who runs.
#[derive(Clone, Debug, Default)]
struct Naive {
    /// Newest first.
    list: Vec<Mapping>,
    /// The only mapping, if it is an untracked one.
    kva: Option<Mapping>,
    attr_modified: bool,
    attr_referenced: bool,
    writeable: bool,
    /// Whose process runs; none in a kernel thread.
    current: Option<u16>,
    /// Whose space the hardware holds.
    live: Option<u16>,
    done: Vec<(String, u16, u32)>,
}

impl Naive {
    fn is_current(&self, space: u16) -> bool {
        space == KERNEL || self.current == Some(space)
    }

    fn op(&mut self, name: &str, space: u16, va: u32) {
        self.done.push((name.to_owned(), space, va));
    }

    fn find(&self, space: u16, va: u32) -> Option<usize> {
        self.list
            .iter()
            .position(|m| m.space == space && m.va == va)
    }

    /// TLB single flush by the flags; every wrapper does nothing unless the pmap is current.
    fn tlb(&mut self, m: &Mapping) {
        if !self.is_current(m.space) || !m.flags.referenced {
            return;
        }
        let name = if m.flags.exec {
            "tlb_flush_id"
        } else {
            "tlb_flush_d"
        };
        self.op(name, m.space, m.va);
    }

    /// EXECD: both caches; else REFD: the data cache, written back if the mapping may write.
    fn cache(&mut self, m: &Mapping) {
        if !self.is_current(m.space) || !m.flags.referenced {
            return;
        }
        let name = match (m.flags.exec, m.flags.write) {
            (true, _) => "idcache_wbinv",
            (false, true) => "dcache_wbinv",
            (false, false) => "dcache_inv",
        };
        self.op(name, m.space, m.va);
    }

    fn set_cache(&mut self, n: usize, on: bool, entering: Option<(u16, u32)>) {
        let m = self.list[n];
        if on {
            self.tlb(&m);
        } else if entering != Some((m.space, m.va)) {
            self.cache(&m);
            self.tlb(&m);
        }
        self.list[n].pte_cached = on;
    }

    /// 2.2.
    fn fix_cache(&mut self, pm: u16, va: Option<u32>) {
        let user = pm != KERNEL;
        let (mut writable, mut kwritable, mut uwritable) = (0, 0, 0);
        let (mut kentries, mut entries, mut uentries) = (0, 0, 0);
        for m in &self.list {
            let write = i32::from(m.flags.write);
            writable += write;
            if m.space == KERNEL {
                kwritable += write;
                kentries += 1;
            } else {
                entries += 1;
            }
            if user && m.space == pm {
                uwritable += write;
            }
            if m.space == pm {
                uentries += 1;
            }
        }
        let udup = user && ((uentries > 1 && uwritable > 0) || uwritable > 1);
        let entering = va.map(|va| (pm, va));
        for n in 0..self.list.len() {
            let near = user && (self.list[n].space == pm || self.list[n].space == KERNEL);
            if near && udup {
                if self.list[n].space != KERNEL {
                    self.list[n].flags.mwc = true;
                }
                if !self.list[n].flags.nc {
                    self.list[n].flags.nc = true;
                    self.set_cache(n, false, entering);
                }
                continue;
            }
            if near {
                self.list[n].flags.mwc = false;
            }
            let p = self.list[n];
            let kernel = p.space == KERNEL;
            let k = (kwritable > 0 && (entries > 0 || kentries > 1))
                || kwritable > 1
                || (kwritable != writable
                    && kentries > 0
                    && (kernel || p.flags.write || p.flags.mwc));
            if k {
                if !p.flags.nc {
                    self.list[n].flags.nc = true;
                    self.set_cache(n, false, entering);
                }
            } else if !user && !p.flags.mwc && p.flags.nc {
                self.list[n].flags.nc = false;
                self.set_cache(n, true, entering);
            } else if user && near && p.flags.nc {
                self.list[n].flags.nc = false;
                self.list[n].flags.mwc = false;
                self.set_cache(n, true, entering);
            }
        }
        self.no_writer_left();
    }

    fn no_writer_left(&mut self) {
        if self.list.iter().all(|m| !m.flags.write) {
            self.attr_modified = false;
            self.writeable = false;
        }
    }

    /// `pmap_enter_pv`.
    fn enter_pv(&mut self, m: Mapping) {
        if let Some(kva) = self.kva.take() {
            self.list.insert(0, kva);
        }
        self.list.insert(0, m);
        self.attr_modified |= m.flags.modified;
        self.attr_referenced |= m.flags.referenced;
        self.writeable |= m.flags.write && !m.flags.unman;
    }

    /// `pmap_nuke_pv`.
    fn nuke_pv(&mut self, n: usize) -> Mapping {
        let gone = self.list.remove(n);
        if self.list.is_empty() {
            self.attr_referenced = false;
        }
        let f = gone.flags;
        if f.nc && (gone.space == KERNEL || f.write || !f.mwc) {
            self.fix_cache(gone.space, None);
        } else if f.write {
            self.no_writer_left();
        }
        if self.list.len() == 1 && self.list[0].flags.unman {
            self.kva = self.list.pop();
            (self.attr_modified, self.attr_referenced) = (false, false);
            self.writeable = false;
        }
        gone
    }

    fn enter(&mut self, space: u16, va: u32, rights: Rights) {
        let flags = Flags {
            referenced: true,
            write: rights.write(),
            modified: rights.write() || self.attr_modified,
            exec: rights.exec(),
            ..Flags::default()
        };
        match self.find(space, va) {
            None => self.enter_pv(Mapping {
                space,
                va,
                flags,
                pte_write: flags.write,
                pte_cached: true,
                pte_valid: true,
            }),
            Some(n) => self.enter_same(n, flags),
        }
        self.fix_cache(space, Some(va));
    }

    fn enter_same(&mut self, n: usize, flags: Flags) {
        let old = self.list[n];
        let f = &mut self.list[n].flags;
        *f = Flags {
            nc: f.nc,
            mwc: f.mwc,
            unman: f.unman,
            ..flags
        };
        self.attr_modified |= flags.modified;
        self.attr_referenced = true;
        if old.flags.write != flags.write {
            self.writeable |= flags.write;
            self.fix_cache(old.space, None);
        }
        let downgrade = old.pte_valid && old.pte_write && !flags.write;
        if self.is_current(old.space) && !old.flags.nc && downgrade {
            self.op("dcache_wb", old.space, old.va);
        }
        self.list[n].pte_write = flags.write;
        self.list[n].pte_cached = true;
        self.list[n].pte_valid = true;
        self.tlb(&old);
    }

    fn kenter(&mut self, va: u32) {
        self.kremove(va);
        let m = Mapping {
            space: KERNEL,
            va,
            flags: Flags {
                write: true,
                unman: true,
                ..Flags::default()
            },
            pte_write: true,
            pte_cached: true,
            pte_valid: true,
        };
        if self.list.is_empty() && self.kva.is_none() {
            self.kva = Some(m);
        } else {
            self.enter_pv(m);
            self.fix_cache(KERNEL, Some(va));
        }
    }

    fn kremove(&mut self, va: u32) {
        if self.kva.is_some_and(|m| m.va == va) {
            self.kva = None;
        } else if let Some(n) = self.find(KERNEL, va) {
            self.nuke_pv(n);
        } else {
            return;
        }
        self.op("dcache_wbinv", KERNEL, va);
        self.op("tlb_flush_d", KERNEL, va);
    }

    fn remove(&mut self, space: u16, va: u32) {
        let Some(n) = self.find(space, va) else {
            return;
        };
        let m = self.list[n];
        self.nuke_pv(n);
        if self.is_current(space) && m.flags.referenced {
            let name = if m.flags.exec {
                "idcache_wbinv"
            } else {
                "dcache_wbinv"
            };
            self.op(name, space, va);
            self.tlb(&m);
        }
    }

    /// To read-only.
    fn protect(&mut self, space: u16, va: u32) {
        if self.is_current(space) {
            self.op("dcache_wb", space, va);
        }
        let Some(n) = self.find(space, va) else {
            return;
        };
        let m = self.list[n];
        if !m.pte_write {
            return;
        }
        self.list[n].pte_write = false;
        if m.flags.write {
            self.list[n].flags.write = false;
            self.fix_cache(space, None);
        }
        self.tlb(&m);
    }

    /// `pmap_remove_write`.
    fn remove_write(&mut self) {
        if !self.writeable {
            return;
        }
        self.attr_modified = false;
        for n in 0..self.list.len() {
            let m = self.list[n];
            if !m.flags.write && !m.flags.modified {
                if m.flags.nc {
                    self.recached(n);
                }
                continue;
            }
            self.list[n].flags.write = false;
            self.list[n].flags.modified = false;
            if m.flags.nc {
                self.recached(n);
            } else if m.pte_write && self.is_current(m.space) && m.flags.referenced {
                let name = if m.flags.exec {
                    "idcache_wbinv"
                } else {
                    "dcache_wb"
                };
                self.op(name, m.space, m.va);
            }
            self.list[n].pte_write = false;
            if self.list[n]
                != (Mapping {
                    flags: self.list[n].flags,
                    ..m
                })
            {
                self.tlb(&m);
            }
        }
        self.writeable = false;
    }

    fn recached(&mut self, n: usize) {
        self.list[n].pte_cached = true;
        self.list[n].flags.nc = false;
        self.list[n].flags.mwc = false;
    }

    fn switch(&mut self, to: Option<u16>) {
        self.current = to;
        if let Some(space) = to
            && self.live != Some(space)
        {
            self.op("idcache_wbinv_all", KERNEL, 0);
            self.live = Some(space);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rights {
    R,
    Rx,
    Rw,
}

impl Rights {
    fn write(self) -> bool {
        self == Rights::Rw
    }

    fn exec(self) -> bool {
        self == Rights::Rx
    }

    fn prot(self) -> Prot {
        match self {
            Rights::R => Prot::READ,
            Rights::Rx => Prot::READ | Prot::EXEC,
            Rights::Rw => Prot::READ | Prot::WRITE,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Enter(u16, u32, Rights),
    Kenter(u32),
    Kremove(u32),
    Remove(u16, u32),
    Protect(u16, u32),
    RemoveWrite,
    Switch(u16),
    SwitchKernel,
}

fn verb() -> impl Strategy<Value = Verb> {
    let space = 1..=SPACES;
    let va = prop::sample::select(vec![0x1_0000_u32, 0x2_0000, 0x3_0000]);
    let kva = prop::sample::select(vec![0xd040_0000_u32, 0xd041_0000, 0xd042_0000]);
    let rights = prop::sample::select(vec![Rights::R, Rights::Rx, Rights::Rw]);
    prop_oneof![
        6 => (space.clone(), va.clone(), rights).prop_map(|(s, v, r)| Verb::Enter(s, v, r)),
        3 => kva.clone().prop_map(Verb::Kenter),
        2 => kva.prop_map(Verb::Kremove),
        2 => (space.clone(), va.clone()).prop_map(|(s, v)| Verb::Remove(s, v)),
        2 => (space.clone(), va).prop_map(|(s, v)| Verb::Protect(s, v)),
        1 => Just(Verb::RemoveWrite),
        2 => space.prop_map(Verb::Switch),
        1 => Just(Verb::SwitchKernel),
    ]
}

impl Naive {
    fn run(&mut self, verb: Verb) {
        self.done.clear();
        match verb {
            Verb::Enter(s, v, r) => self.enter(s, v, r),
            Verb::Kenter(v) => self.kenter(v),
            Verb::Kremove(v) => self.kremove(v),
            Verb::Remove(s, v) => self.remove(s, v),
            Verb::Protect(s, v) => self.protect(s, v),
            Verb::RemoveWrite => self.remove_write(),
            Verb::Switch(s) => self.switch(Some(s)),
            Verb::SwitchKernel => self.switch(None),
        }
    }
}

/// The emulated pmap, with the same page.
struct Real(World<()>);

impl Real {
    fn new() -> Self {
        let profile = Profile::embedded("sheevaplug").unwrap();
        let policy = pmap::policy::by_name("freebsd-2010").unwrap();
        let mut world = World::new(State::boot(profile), policy, ());
        (0..SPACES).for_each(|_| drop(world.pmap_create(CPU)));
        world.journal.detail = Detail::Plans;
        Self(world)
    }

    fn run(&mut self, verb: Verb) -> Vec<(String, u16, u32)> {
        let w = &mut self.0;
        w.journal.take();
        let (id, at) = (SpaceId, VirtAddr);
        match verb {
            Verb::Enter(s, v, r) => {
                assert!(w.pmap_enter(CPU, id(s), at(v), PAGE, r.prot(), false));
            }
            Verb::Kenter(v) => w.pmap_kenter(CPU, at(v), PAGE),
            Verb::Kremove(v) => w.pmap_kremove(CPU, at(v)),
            Verb::Remove(s, v) => w.pmap_remove(CPU, id(s), at(v), at(v + 4096)),
            Verb::Protect(s, v) => w.pmap_protect(CPU, id(s), at(v), at(v + 4096), Prot::READ),
            Verb::RemoveWrite => w.pmap_remove_write(CPU, PAGE),
            Verb::Switch(s) => w.cpu_switch(CPU, Some(id(s))),
            Verb::SwitchKernel => w.cpu_switch(CPU, None),
        }
        let steps = w.journal.take().into_iter().filter_map(|(_, e)| match e {
            Entry::Planned(s) if s.what.is_maintenance() => Some(s),
            _ => None,
        });
        steps
            .filter(|s| !s.what.name().starts_with("l2"))
            .map(|s| (s.what.name().to_owned(), s.space.0, s.va.0))
            .collect()
    }

    fn mappings(&self) -> Vec<Mapping> {
        let all = self.0.state.pmap.mappings(PAGE);
        all.map(|m| Mapping {
            space: m.space.0,
            va: m.va.0,
            flags: flags(m.flags),
            pte_write: m.pte.writable(),
            pte_cached: m.pte.cacheable(),
            pte_valid: m.pte.valid(),
        })
        .collect()
    }

    fn kva(&self) -> Option<(u32, bool)> {
        let page = self.0.state.pmap.page(PAGE);
        (page.kva.0 != 0).then_some((page.kva.0, page.kva_pte.cacheable()))
    }
}

fn flags(f: pmap::PvFlags) -> Flags {
    use pmap::PvFlags as P;
    Flags {
        modified: f.contains(P::MOD),
        referenced: f.contains(P::REF),
        write: f.contains(P::WRITE),
        exec: f.contains(P::EXEC),
        nc: f.contains(P::NC),
        mwc: f.contains(P::MWC),
        unman: f.contains(P::UNMAN),
    }
}

fn compare(verbs: &[Verb]) -> Result<(), TestCaseError> {
    let (mut real, mut naive) = (Real::new(), Naive::default());
    for (n, verb) in verbs.iter().enumerate() {
        let done = real.run(*verb);
        naive.run(*verb);
        let at = format!("verb {n}, {verb:x?}, of {verbs:x?}");
        prop_assert_eq!(real.mappings(), naive.list.clone(), "mappings after {}", at);
        let kva = naive.kva.map(|m| (m.va, m.pte_cached));
        prop_assert_eq!(real.kva(), kva, "pv_kva after {}", at);
        prop_assert_eq!(done, naive.done.clone(), "maintenance of {}", at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_rule_and_its_naive_restatement_agree(verbs in prop::collection::vec(verb(), 1..25)) {
        compare(&verbs)?;
    }
}
