//! `freebsd-2010` once more, naively: pages with lists of mappings and a few functions that follow the
//! reference page (`pmap-freebsd-netbsd.md` 1.3, 2.2, 3.1, 3.2, 3.4) and not the rule's code. Random sequences
//! of verbs on two pages must leave both with the same mappings in pv order, the same flags and entries, the
//! same `pv_kva`, and must have done the same maintenance in the same order.
//!
//! Names of operations are those of the kernels; second-level operations, which go with the range
//! operations, and drains are left out. `pmap_remove_pages` goes through the space's own list, newest first,
//! which the emulation does not keep: there, maintenance of different pages is compared without its order.

mod model;

use lab::journal::{Detail, Entry};
use lab::{State, World};
use machine::{Access, CpuId, Frame, Profile, VirtAddr};
use model::{BYTES, Flags, KERNEL, Mapping, Naive, Rights, Verb};
use pmap::{PmapVerbs, Prot, SpaceId};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const CPU: CpuId = CpuId(0);
const PAGES: [Frame; 2] = [Frame(0x900), Frame(0x901)];
const SPACES: u16 = 2;

fn verb() -> impl Strategy<Value = Verb> {
    let page = prop::sample::select(vec![0usize, 0, 0, 1]);
    let space = 1..=SPACES;
    let va = prop::sample::select(vec![0x1_0000_u32, 0x1_1000, 0x1_2000, 0x1_4000]);
    let kva = prop::sample::select(vec![0xd040_0000_u32, 0xd040_1000, 0xd041_0000]);
    let rights = vec![Rights::R, Rights::Rx, Rights::Rw, Rights::Rw, Rights::Rwx];
    let rights = prop::sample::select(rights);
    let pages = prop::sample::select(vec![1u32, 1, 2, 5]);
    let user = (space.clone(), va.clone());
    let kernel = (Just(KERNEL), kva.clone());
    let any = prop_oneof![4 => user.clone(), 1 => kernel];
    let enter = (page.clone(), any.clone(), rights);
    prop_oneof![
        12 => enter.prop_map(|(p, (s, v), r)| Verb::Enter(p, s, v, r)),
        4 => (page.clone(), kva.clone()).prop_map(|(p, v)| Verb::Kenter(p, v)),
        3 => kva.clone().prop_map(Verb::Kremove),
        2 => (page.clone(), kva.clone()).prop_map(|(p, v)| Verb::Qenter(p, v)),
        2 => kva.prop_map(Verb::Qremove),
        3 => (any.clone(), pages.clone()).prop_map(|((s, v), n)| Verb::Remove(s, v, n)),
        4 => (any, pages).prop_map(|((s, v), n)| Verb::Protect(s, v, n)),
        2 => page.clone().prop_map(Verb::RemoveWrite),
        1 => page.clone().prop_map(Verb::ClearModify),
        1 => page.clone().prop_map(Verb::ClearReference),
        1 => page.prop_map(Verb::RemoveAll),
        1 => space.clone().prop_map(Verb::RemovePages),
        3 => (user, any_bool()).prop_map(|((s, v), w)| Verb::Fault(s, v, w)),
        4 => space.prop_map(Verb::Switch),
        1 => Just(Verb::SwitchKernel),
    ]
}

fn any_bool() -> impl Strategy<Value = bool> + Clone {
    prop::sample::select(vec![false, true])
}

/// The emulated pmap, with the same pages.
struct Real(World<()>);

impl Real {
    fn new(policy: &str) -> Self {
        let profile = Profile::embedded("sheevaplug").unwrap();
        let policy = pmap::policy::by_name(policy).unwrap();
        let mut world = World::new(State::boot(profile), policy, ());
        for _ in 0..SPACES {
            assert!(world.pmap_create(CPU).is_some());
        }
        world.journal.detail = Detail::Plans;
        Self(world)
    }

    fn run(&mut self, verb: Verb) -> Vec<(String, u16, u32)> {
        self.0.journal.take();
        self.act(verb);
        let steps = self.0.journal.take().into_iter();
        let steps = steps.filter_map(|(_, e)| match e {
            Entry::Planned(s) if s.what.is_maintenance() => Some(s),
            _ => None,
        });
        steps
            .filter(|s| !s.what.name().starts_with("l2"))
            .map(|s| (s.what.name().to_owned(), s.space.0, s.va.0))
            .collect()
    }

    fn act(&mut self, verb: Verb) {
        let w = &mut self.0;
        let (id, at) = (SpaceId, VirtAddr);
        match verb {
            Verb::Enter(p, s, v, r) => {
                assert!(w.pmap_enter(CPU, id(s), at(v), PAGES[p], r.prot(), false));
            }
            Verb::Kenter(p, v) => w.pmap_kenter(CPU, at(v), PAGES[p]),
            Verb::Kremove(v) => w.pmap_kremove(CPU, at(v)),
            Verb::Qenter(p, v) => w.pmap_qenter(CPU, at(v), &[PAGES[p]]),
            Verb::Qremove(v) => w.pmap_qremove(CPU, at(v), 1),
            Verb::Remove(s, v, n) => w.pmap_remove(CPU, id(s), at(v), at(v + n * BYTES)),
            Verb::Protect(s, v, n) => {
                w.pmap_protect(CPU, id(s), at(v), at(v + n * BYTES), Prot::READ);
            }
            Verb::RemoveWrite(p) => w.pmap_remove_write(CPU, PAGES[p]),
            Verb::ClearModify(p) => w.pmap_clear_modify(CPU, PAGES[p]),
            Verb::ClearReference(p) => drop(w.pmap_ts_referenced(CPU, PAGES[p])),
            Verb::RemoveAll(p) => w.pmap_remove_all(CPU, PAGES[p]),
            Verb::RemovePages(s) => w.pmap_remove_pages(CPU, id(s)),
            Verb::Fault(s, v, store) => {
                let access = if store { Access::Store } else { Access::Load };
                w.pmap_fault_fixup(CPU, id(s), at(v), access, true);
            }
            Verb::Switch(s) => w.cpu_switch(CPU, Some(id(s))),
            Verb::SwitchKernel => w.cpu_switch(CPU, None),
        }
    }

    fn mappings(&self, page: usize) -> Vec<Mapping> {
        let all = self.0.state.pmap.mappings(PAGES[page]);
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

    fn kva(&self, page: usize) -> Option<(u32, bool, bool)> {
        let page = self.0.state.pmap.page(PAGES[page]);
        let pte = page.kva_pte;
        (page.kva.0 != 0).then_some((page.kva.0, pte.cacheable(), pte.writable()))
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

fn compare(policy: &str, verbs: &[Verb]) -> Result<(), TestCaseError> {
    let (mut real, mut naive) = (Real::new(policy), Naive::default());
    for (n, verb) in verbs.iter().enumerate() {
        let mut done = real.run(*verb);
        naive.run(*verb);
        let at = format!("verb {n}, {verb:x?}, of {verbs:x?}");
        for page in 0..PAGES.len() {
            let wanted = &naive.pages[page];
            let list = wanted.list.clone();
            prop_assert_eq!(
                real.mappings(page),
                list,
                "mappings of {} after {}",
                page,
                at
            );
            let kva = wanted.kva.map(|m| (m.va, m.pte_cached, m.pte_write));
            prop_assert_eq!(real.kva(page), kva, "pv_kva of {} after {}", page, at);
        }
        let mut wanted = naive.done.clone();
        if matches!(verb, Verb::RemovePages(_)) {
            done.sort();
            wanted.sort();
        }
        prop_assert_eq!(done, wanted, "maintenance of {}", at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::with_cases(1500)
    })]

    #[test]
    fn the_rule_and_its_naive_restatement_agree(verbs in prop::collection::vec(verb(), 1..40)) {
        compare("freebsd-2010", &verbs)?;
    }
}

/// Each repair of one fact is noticed, so that the comparison can fail.
#[test]
fn the_naive_restatement_differs_from_each_repair() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let all = prop::collection::vec(verb(), 1..25);
    for repair in ["ref", "sticky-nc", "kentry", "lazy", "repaired"] {
        let policy = format!("freebsd-2010-{repair}");
        let mut runner = TestRunner::deterministic();
        let differs = (0..200).any(|_| {
            let verbs = all.new_tree(&mut runner).unwrap().current();
            compare(&policy, &verbs).is_err()
        });
        assert!(differs, "{policy}: 200 sequences, no difference");
    }
}
