//! The golden vectors for `freebsd-2010`, typed in from `pmap-freebsd-netbsd.md` 2.3, order included.
//!
//! A and B are user spaces, K is the kernel, A is current. `u` is a mapping whose entry is uncached, `C`
//! one whose entry is cacheable; the second-level operation that goes with each range operation is not
//! written, TLB operations are.

use lab::journal::{Detail, Entry};
use lab::{State, World};
use machine::{Access, CpuId, Frame, Profile, VirtAddr};
use pmap::{PmapVerbs, Prot, PvFlags, SpaceId};

const CPU: CpuId = CpuId(0);
const PAGE: Frame = Frame(0x900);
const A: SpaceId = SpaceId(1);
const B: SpaceId = SpaceId(2);
const A1: VirtAddr = VirtAddr(0x0001_0000);
const A2: VirtAddr = VirtAddr(0x0002_0000);
const B1: VirtAddr = VirtAddr(0x0003_0000);
const K1: VirtAddr = VirtAddr(0xd040_0000);
const K2: VirtAddr = VirtAddr(0xd041_0000);

struct Bench(World<()>);

impl Bench {
    fn new() -> Self {
        let profile = Profile::embedded("sheevaplug").unwrap();
        let policy = pmap::policy::by_name("freebsd-2010").unwrap();
        let mut world = World::new(State::boot(profile), policy, ());
        assert_eq!(world.pmap_create(CPU), Some(A));
        assert_eq!(world.pmap_create(CPU), Some(B));
        world.cpu_switch(CPU, Some(A));
        world.journal.detail = Detail::Plans;
        Self(world)
    }

    /// Runs one verb and returns the maintenance it did, in order: `operation space+va`.
    fn run(&mut self, verb: impl FnOnce(&mut World<()>)) -> Vec<String> {
        self.0.journal.take();
        verb(&mut self.0);
        let entries = self.0.journal.take();
        let steps = entries.iter().filter_map(|(_, e)| match e {
            Entry::Planned(s) if s.what.is_maintenance() => Some(*s),
            _ => None,
        });
        steps
            .filter(|s| !s.what.name().starts_with("l2"))
            .map(|s| format!("{} {}", s.what.name(), name(s.space, s.va)))
            .collect()
    }

    fn enter(&mut self, space: SpaceId, va: VirtAddr, prot: Prot) -> Vec<String> {
        self.run(|w| assert!(w.pmap_enter(CPU, space, va, PAGE, prot, false)))
    }

    fn kenter(&mut self, va: VirtAddr) -> Vec<String> {
        self.run(|w| w.pmap_kenter(CPU, va, PAGE))
    }

    fn kremove(&mut self, va: VirtAddr) -> Vec<String> {
        self.run(|w| w.pmap_kremove(CPU, va))
    }

    fn remove(&mut self, space: SpaceId, va: VirtAddr) -> Vec<String> {
        self.run(|w| w.pmap_remove(CPU, space, va, va.add(4096)))
    }

    /// The mappings as `name:flag/pte`, flag `u` if NC is set, pte `u` if the entry is uncached.
    fn mappings(&self) -> String {
        let page = self.0.state.pmap.page(PAGE);
        let mut out = Vec::new();
        if page.kva.0 != 0 {
            let c = if page.kva_pte.cacheable() { 'C' } else { 'u' };
            out.push(format!("pv_kva={} {c}", name(SpaceId::KERNEL, page.kva)));
        }
        for m in self.0.state.pmap.mappings(PAGE) {
            let flag = if m.flags.contains(PvFlags::NC) {
                'u'
            } else {
                'C'
            };
            let pte = if m.pte.cacheable() { 'C' } else { 'u' };
            let out_of_step = if flag == pte {
                String::new()
            } else {
                format!("(pte {pte})")
            };
            let mwc = if m.flags.contains(PvFlags::MWC) {
                " MWC"
            } else {
                ""
            };
            out.push(format!("{} {flag}{out_of_step}{mwc}", name(m.space, m.va)));
        }
        out.sort();
        out.join(", ")
    }
}

fn name(space: SpaceId, va: VirtAddr) -> String {
    match va {
        A1 | B1 | K1 => format!("{space}@1"),
        A2 | K2 => format!("{space}@2"),
        _ => format!("{space}@{va}"),
    }
}

const RX: Prot = Prot::READ.union(Prot::EXEC);
const R: Prot = Prot::READ;
const RW: Prot = Prot::READ.union(Prot::WRITE);
const NOTHING: [&str; 0] = [];

#[test]
fn kenter_then_enter_uncaches_both_and_flushes_nothing() {
    let mut b = Bench::new();
    assert_eq!(b.kenter(K1), NOTHING);
    assert_eq!(b.mappings(), "pv_kva=K@1 C");
    assert_eq!(b.enter(A, A1, RX), NOTHING);
    assert_eq!(b.mappings(), "A@1 u, K@1 u");
    let expected = ["tlb_flush_id A@1", "dcache_wbinv K@1", "tlb_flush_d K@1"];
    assert_eq!(b.kremove(K1), expected);
    assert_eq!(b.mappings(), "A@1 C");
}

#[test]
fn enter_then_kenter_flushes_the_users_page() {
    let mut b = Bench::new();
    assert_eq!(b.enter(A, A1, RX), NOTHING);
    assert_eq!(b.kenter(K1), ["idcache_wbinv A@1", "tlb_flush_id A@1"]);
    assert_eq!(b.mappings(), "A@1 u, K@1 u");
}

#[test]
fn every_space_is_uncached_but_only_the_current_one_flushed() {
    let mut b = Bench::new();
    b.enter(A, A1, RX);
    b.enter(B, B1, RX);
    assert_eq!(b.kenter(K1), ["idcache_wbinv A@1", "tlb_flush_id A@1"]);
    assert_eq!(b.mappings(), "A@1 u, B@1 u, K@1 u");
    assert_eq!(b.remove(A, A1), ["idcache_wbinv A@1", "tlb_flush_id A@1"]);
    assert_eq!(b.mappings(), "B@1 u, K@1 u");
    assert_eq!(b.kremove(K1), ["dcache_wbinv K@1", "tlb_flush_d K@1"]);
    assert_eq!(b.mappings(), "B@1 C");
}

#[test]
fn a_second_kernel_mapping_uncaches_both_and_flushes_nothing() {
    let mut b = Bench::new();
    b.kenter(K1);
    assert_eq!(b.kenter(K2), NOTHING);
    assert_eq!(b.mappings(), "K@1 u, K@2 u");
    assert_eq!(b.kremove(K2), ["dcache_wbinv K@2", "tlb_flush_d K@2"]);
    assert_eq!(b.mappings(), "pv_kva=K@1 C");
}

#[test]
fn a_writable_alias_in_one_space_uncaches_both() {
    let mut b = Bench::new();
    b.enter(A, A1, R);
    assert_eq!(b.enter(A, A2, RW), ["dcache_inv A@1", "tlb_flush_d A@1"]);
    assert_eq!(b.mappings(), "A@1 u MWC, A@2 u MWC");
    let expected = ["tlb_flush_d A@1", "dcache_wbinv A@2", "tlb_flush_d A@2"];
    assert_eq!(b.remove(A, A2), expected);
    assert_eq!(b.mappings(), "A@1 C");
}

#[test]
fn an_upgraded_alias_ends_cacheable_although_flagged() {
    let mut b = Bench::new();
    b.enter(A, A1, R);
    b.enter(A, A2, R);
    let expected = [
        "dcache_wbinv A@2",
        "tlb_flush_d A@2",
        "dcache_inv A@1",
        "tlb_flush_d A@1",
        "tlb_flush_d A@2",
    ];
    assert_eq!(b.enter(A, A2, RW), expected);
    assert_eq!(b.mappings(), "A@1 u MWC, A@2 u(pte C) MWC", "B24");
}

#[test]
fn an_upgraded_buffer_page_ends_cacheable_although_flagged() {
    let mut b = Bench::new();
    b.kenter(K1);
    b.enter(A, A1, R);
    assert_eq!(b.enter(A, A1, RW), ["tlb_flush_d A@1"]);
    assert_eq!(b.mappings(), "A@1 u(pte C), K@1 u", "B24");
}

#[test]
fn user_aliases_stay_uncached_when_a_kernel_mapping_comes_and_goes() {
    let mut b = Bench::new();
    b.enter(A, A1, RW);
    b.enter(A, A2, RW);
    b.kenter(K1);
    b.kremove(K1);
    assert_eq!(b.mappings(), "A@1 u MWC, A@2 u MWC");
}

#[test]
fn a_fault_on_a_mapping_that_is_in_order_only_flushes_the_tlb() {
    let mut b = Bench::new();
    b.enter(A, A1, RW);
    let done = b.run(|w| assert!(w.pmap_fault_fixup(CPU, A, A1, Access::Store, true)));
    assert_eq!(done, ["tlb_flush_id A@1"]);
}
