//! `pmap_vac_me_harder` and NetBSD's verbs around it, written a second time from
//! `pmap-freebsd-netbsd.md` 2.1 and 3.2, as naively as that text: a list, two loops, no plan. Random
//! sequences of verbs must leave the same list, flags and entries and do the same maintenance in the same
//! order.
//!
//! And B10 on random sequences: counts that drift change no mapping.

mod bench;

use bench::{A, B, Bench, CPU, K, PAGE, R, RW, RX, at};
use machine::VirtAddr;
use pmap::count::Counting;
use pmap::{PmapVerbs, Prot, SpaceId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// One verb on the page.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter(SpaceId, u32, Prot),
    Remove(SpaceId, u32),
    ReadOnly(SpaceId, u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let space = prop::sample::select(vec![K, A, A, B]);
    let rights = prop::sample::select(vec![R, RX, RW, Prot::all()]);
    let enter = (space.clone(), 1..=2u32, rights).prop_map(|(s, n, r)| Act::Enter(s, n, r));
    let remove = (space.clone(), 1..=2u32).prop_map(|(s, n)| Act::Remove(s, n));
    let protect = (space, 1..=2u32).prop_map(|(s, n)| Act::ReadOnly(s, n));
    prop::collection::vec(prop_oneof![4 => enter, 2 => remove, 1 => protect], 1..16)
}

fn apply(b: &mut Bench, act: Act) -> Vec<String> {
    match act {
        Act::Enter(s, n, prot) => b.enter(s, n, prot),
        Act::Remove(s, n) => b.remove(s, n),
        Act::ReadOnly(s, n) => {
            let va = at(s, n);
            b.run(|w| w.pmap_protect(CPU, s, va, va.add(4096), R))
        }
    }
}

/// A mapping.
#[derive(Clone, Debug)]
struct Pv {
    pm: SpaceId,
    va: VirtAddr,
    write: bool,
    exec: bool,
    nc: bool,
    pte_write: bool,
    pte_cached: bool,
}

/// The page of the restatement. Spaces other than K and A are not current.
#[derive(Default)]
struct Naive {
    list: Vec<Pv>,
    attr_nc: bool,
    log: Vec<String>,
}

const NOT_A_VA: VirtAddr = VirtAddr(0);

impl Naive {
    fn say(&mut self, what: &str, pm: SpaceId, va: VirtAddr) {
        if pm == K || pm == A {
            self.log.push(format!("{what} {}", bench::name(pm, va)));
        }
    }

    fn tlb(&mut self, exec: bool, pm: SpaceId, va: VirtAddr) {
        let what = if exec { "tlb_flush_id" } else { "tlb_flush_d" };
        self.say(what, pm, va);
    }

    fn find(&self, pm: SpaceId, va: VirtAddr) -> Option<usize> {
        self.list.iter().position(|p| p.pm == pm && p.va == va)
    }

    fn enter(&mut self, pm: SpaceId, va: VirtAddr, prot: Prot) {
        let (write, exec) = (prot.contains(Prot::WRITE), prot.contains(Prot::EXEC));
        if let Some(i) = self.find(pm, va) {
            let old = self.list[i].clone();
            if old.pte_write && !write && !old.nc {
                self.say("dcache_wb", pm, va);
            }
            let p = &mut self.list[i];
            (p.write, p.exec, p.pte_write, p.pte_cached) = (write, exec, write, true);
            if old.pte_write == write && old.pte_cached {
                // The entry stays as it is: nothing more is done.
                return;
            }
            self.tlb(old.exec, pm, va);
        } else {
            let (nc, pte_write, pte_cached) = (false, write, true);
            let p = Pv {
                pm,
                va,
                write,
                exec,
                nc,
                pte_write,
                pte_cached,
            };
            self.list.insert(0, p);
        }
        self.vac_me_harder(pm, va);
    }

    fn remove(&mut self, pm: SpaceId, va: VirtAddr) {
        let Some(i) = self.find(pm, va) else { return };
        let old = self.list.remove(i);
        self.vac_me_harder(pm, NOT_A_VA);
        let what = if old.exec {
            "idcache_wbinv"
        } else {
            "dcache_wbinv"
        };
        self.say(what, pm, va);
        if pm == K || pm == A {
            self.log.push("tlb_flush_all".to_owned());
        }
    }

    fn read_only(&mut self, pm: SpaceId, va: VirtAddr) {
        self.say("dcache_wb", pm, va);
        let Some(i) = self.find(pm, va) else { return };
        let old = self.list[i].clone();
        if !old.pte_write {
            return;
        }
        self.list[i].pte_write = false;
        self.list[i].write = false;
        self.vac_me_harder(pm, NOT_A_VA);
        self.tlb(old.exec, pm, va);
    }

    fn count(&self, kernel: bool, write: bool) -> usize {
        let wanted = |p: &&Pv| (p.pm == K) == kernel && p.write == write;
        self.list.iter().filter(wanted).count()
    }

    /// The table of 2.1, spelled out: does anything have to be uncached?
    fn conflict(&self) -> bool {
        let (kr, kw) = (self.count(true, false), self.count(true, true));
        let (ur, uw) = (self.count(false, false), self.count(false, true));
        let (kernel, user) = (kr + kw, ur + uw);
        if user == 0 {
            kw > 0 && kernel > 1
        } else if kernel == 0 {
            uw > 0 && user > 1
        } else {
            kw > 0 || uw > 0
        }
    }

    fn vac_me_harder(&mut self, pm: SpaceId, va: VirtAddr) {
        let conflict = self.conflict();
        if self.list.is_empty() {
            self.attr_nc = false;
            return;
        }
        if !conflict && !self.attr_nc {
            return;
        }
        if pm == K {
            self.vac_me_kpmap(va);
        } else {
            self.vac_me_user(pm, va);
        }
        self.attr_nc = conflict;
    }

    fn vac_me_user(&mut self, pm: SpaceId, va: VirtAddr) {
        let (mut entries, mut writable, mut cacheable, mut other_writable) = (0, 0, 0, false);
        for p in &self.list {
            if p.pm == pm || p.pm == K {
                entries += 1;
                if p.write {
                    writable += 1;
                }
                if !p.nc {
                    cacheable += 1;
                }
            } else if p.write {
                other_writable = true;
            }
        }
        if (entries > 1 && writable > 0) || (entries > 0 && pm == K && other_writable) {
            for i in 0..self.list.len() {
                let p = self.list[i].clone();
                if p.nc || (p.pm != pm && p.pm != K) {
                    continue;
                }
                self.list[i].nc = true;
                if p.va != va || p.pm != pm {
                    let what = match (p.exec, p.write) {
                        (true, _) => "idcache_wbinv",
                        (false, true) => "dcache_wbinv",
                        (false, false) => "dcache_inv",
                    };
                    self.say(what, p.pm, p.va);
                    self.tlb(p.exec, p.pm, p.va);
                }
                self.list[i].pte_cached = false;
            }
        } else if entries > cacheable {
            for i in 0..self.list.len() {
                let p = self.list[i].clone();
                if p.nc && (p.pm == pm || (p.pm == K && !other_writable)) {
                    self.list[i].nc = false;
                    self.tlb(p.exec, p.pm, p.va);
                    self.list[i].pte_cached = true;
                }
            }
        }
    }

    fn vac_me_kpmap(&mut self, va: VirtAddr) {
        let mut user_cacheable = 0;
        for p in &self.list {
            if p.pm != K && !p.nc {
                user_cacheable += 1;
            }
        }
        let kernel_writable = self.count(true, true);
        let kernel = kernel_writable + self.count(true, false);
        let user = self.count(false, true) + self.count(false, false);
        if kernel == 0 && user_cacheable == user {
            return;
        }
        let mut last = K;
        for i in 0..self.list.len() {
            let p = self.list[i].clone();
            if p.pm == K || p.pm == last {
                continue;
            }
            if kernel > 0 && p.nc && p.write {
                continue;
            }
            if kernel_writable == 0 && !p.nc && !p.write {
                continue;
            }
            last = p.pm;
            self.vac_me_user(p.pm, NOT_A_VA);
        }
        if kernel > 0 {
            self.vac_me_user(K, va);
        }
    }

    fn apply(&mut self, act: Act) -> Vec<String> {
        match act {
            Act::Enter(s, n, prot) => self.enter(s, at(s, n), prot),
            Act::Remove(s, n) => self.remove(s, at(s, n)),
            Act::ReadOnly(s, n) => self.read_only(s, at(s, n)),
        }
        std::mem::take(&mut self.log)
    }

    fn list(&self) -> Vec<(String, bool, bool)> {
        let one = |p: &Pv| (bench::name(p.pm, p.va), p.nc, p.pte_cached);
        self.list.iter().map(one).collect()
    }
}

/// Two cacheable mappings that one switchless moment can use, one of them writable: of one space, or of
/// the kernel and any space.
fn unsafe_pair(b: &Bench) -> Option<String> {
    let pmap = &b.0.state.pmap;
    let cached = |m: &&pmap::PvEntry| m.pte.cacheable();
    for m in pmap.mappings(PAGE).filter(cached) {
        for o in pmap.mappings(PAGE).filter(cached) {
            let same = m.space == o.space && m.va == o.va;
            let together = m.space == o.space || m.space == K || o.space == K;
            if !same && together && m.flags.contains(pmap::PvFlags::WRITE) {
                return Some(format!("{} {} beside {} {}", m.space, m.va, o.space, o.va));
            }
        }
        let writes = |o: &pmap::PvEntry| o.flags.contains(pmap::PvFlags::WRITE);
        let others = |o: &&pmap::PvEntry| (o.space == K) != (m.space == K);
        if m.space == K && writes(m) && pmap.mappings(PAGE).any(|o| others(&o)) {
            return Some(format!("{} {} may write beside a user", m.space, m.va));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    })]

    #[test]
    fn netbsd_agrees_with_its_restatement(acts in acts()) {
        let mut real = Bench::new("netbsd-vivt");
        let mut naive = Naive::default();
        for (n, act) in acts.iter().enumerate() {
            let (did, wanted) = (apply(&mut real, *act), naive.apply(*act));
            prop_assert_eq!(did, wanted, "maintenance of verb {}, {:?}", n, act);
            prop_assert_eq!(real.list(), naive.list(), "after verb {}, {:?}", n, act);
        }
    }

    #[test]
    fn repaired_flags_and_entries_agree(acts in acts()) {
        let mut real = Bench::new("netbsd-vivt-repaired");
        for act in acts {
            apply(&mut real, act);
            prop_assert_eq!(real.0.state.pmap.check(), None, "{}", real.mappings());
            prop_assert_eq!(unsafe_pair(&real), None, "{}", real.mappings());
        }
    }

    #[test]
    fn counts_that_drift_change_no_mapping(acts in acts()) {
        let mut drifting = Bench::new("freebsd-2006");
        let mut exact = Bench::new("freebsd-2006");
        std::sync::Arc::make_mut(&mut exact.0.policy).skeleton.counting = Counting::Kept;
        for act in acts {
            let did = apply(&mut drifting, act);
            prop_assert_eq!(did, apply(&mut exact, act));
            prop_assert_eq!(drifting.list(), exact.list());
        }
        let counts = |b: &Bench| b.0.state.pmap.page(PAGE).counts;
        prop_assert!(counts(&drifting).user() >= counts(&exact).user());
    }
}
