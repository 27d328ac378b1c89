//! The golden vectors for `netbsd-vivt`, typed in from `pmap-freebsd-netbsd.md` 2.3, order included; and
//! those that the same text implies for FreeBSD 2006 (B10, B22, B24), 2009 (B3) and 2013 (`pv_memattr`).
//!
//! A and B are user spaces, K is the kernel, A is current. `u` is a mapping whose entry is uncached, `C`
//! one whose entry is cacheable.

mod bench;

use bench::{A, B, Bench, CPU, K, PAGE, R, RW, RX, at};
use pmap::PmapVerbs;

const NOTHING: [&str; 0] = [];

fn kenter(b: &mut Bench, n: u32) -> Vec<String> {
    b.run(|w| w.pmap_kenter(CPU, at(K, n), PAGE))
}

#[test]
fn a_writable_alias_uncaches_both_and_flushes_the_older() {
    let mut b = Bench::new("netbsd-vivt");
    assert_eq!(b.enter(A, 1, R), NOTHING);
    assert_eq!(b.enter(A, 2, RW), ["dcache_inv A@1", "tlb_flush_d A@1"]);
    assert_eq!(b.mappings(), "A@1 u, A@2 u");
}

#[test]
fn an_uncached_mapping_entered_again_ends_cacheable() {
    let mut b = Bench::new("netbsd-vivt");
    b.enter(A, 1, R);
    b.enter(A, 2, RW);
    assert_eq!(b.enter(A, 1, RW), ["tlb_flush_d A@1"]);
    assert_eq!(b.mappings(), "A@1 u(pte C), A@2 u", "B24");
}

#[test]
fn the_first_upgrade_is_decided_after_the_store() {
    let mut b = Bench::new("netbsd-vivt");
    b.enter(A, 1, R);
    b.enter(A, 2, R);
    let expected = ["tlb_flush_d A@2", "dcache_inv A@1", "tlb_flush_d A@1"];
    assert_eq!(b.enter(A, 2, RW), expected);
    assert_eq!(b.mappings(), "A@1 u, A@2 u");
}

#[test]
fn repaired_an_uncached_mapping_entered_again_stays_uncached() {
    let mut b = Bench::new("netbsd-vivt-repaired");
    b.enter(A, 1, R);
    b.enter(A, 2, RW);
    // A right to store is all that changes, and no fetch asks for it.
    assert_eq!(b.enter(A, 1, RW), ["tlb_flush_d A@1"]);
    assert_eq!(b.mappings(), "A@1 u, A@2 u");
}

#[test]
fn read_only_mappings_of_kernel_and_user_stay_cached() {
    let mut b = Bench::new("netbsd-vivt");
    assert_eq!(b.enter(K, 1, R), NOTHING);
    assert_eq!(b.enter(A, 1, RX), NOTHING);
    assert_eq!(b.mappings(), "A@1 C, K@1 C");
}

#[test]
fn a_writable_kernel_mapping_is_flushed_and_both_are_uncached() {
    let mut b = Bench::new("netbsd-vivt");
    assert_eq!(b.enter(K, 1, RW), NOTHING);
    assert_eq!(b.enter(A, 1, RX), ["dcache_wbinv K@1", "tlb_flush_d K@1"]);
    assert_eq!(b.mappings(), "A@1 u, K@1 u");
    let expected = ["tlb_flush_id A@1", "dcache_wbinv K@1", "tlb_flush_all"];
    assert_eq!(b.remove(K, 1), expected);
    assert_eq!(b.mappings(), "A@1 C");
}

/// Not in the reference's vectors, but what its text says: the last pass is for the kernel's mappings alone.
#[test]
fn a_writable_kernel_mapping_that_comes_second_ends_cached() {
    let mut b = Bench::new("netbsd-vivt");
    b.enter(A, 1, RX);
    let expected = [
        "dcache_wbinv K@1",
        "tlb_flush_d K@1",
        "idcache_wbinv A@1",
        "tlb_flush_id A@1",
        "tlb_flush_d K@1",
    ];
    assert_eq!(b.enter(K, 1, RW), expected);
    assert_eq!(b.mappings(), "A@1 u, K@1 C");
    let mut repaired = Bench::new("netbsd-vivt-repaired");
    repaired.enter(A, 1, RX);
    // The repaired pmap drops the TLB copy first.
    let expected = [
        "tlb_flush_id K@1",
        "dcache_wbinv K@1",
        "tlb_flush_id A@1",
        "idcache_wbinv A@1",
    ];
    assert_eq!(repaired.enter(K, 1, RW), expected);
    assert_eq!(repaired.mappings(), "A@1 u, K@1 u");
}

#[test]
fn another_space_that_writes_keeps_the_kernel_uncached_until_it_goes() {
    let mut b = Bench::new("netbsd-vivt");
    b.enter(A, 1, RW);
    let expected = [
        "dcache_inv K@1",
        "tlb_flush_d K@1",
        "dcache_wbinv A@1",
        "tlb_flush_d A@1",
    ];
    assert_eq!(
        b.enter(K, 1, R),
        expected,
        "for A's sake K is not the one entered"
    );
    assert_eq!(b.mappings(), "A@1 u, K@1 u");
    assert_eq!(b.enter(B, 1, R), NOTHING);
    assert_eq!(b.mappings(), "A@1 u, B@1 C, K@1 u");
    let expected = ["tlb_flush_d K@1", "dcache_wbinv A@1", "tlb_flush_all"];
    assert_eq!(b.remove(A, 1), expected);
    assert_eq!(b.mappings(), "B@1 C, K@1 C");
}

#[test]
fn writers_in_two_spaces_without_a_kernel_mapping_stay_cached() {
    let mut b = Bench::new("netbsd-vivt");
    b.enter(A, 1, RW);
    assert_eq!(b.enter(B, 1, RW), NOTHING);
    assert_eq!(b.mappings(), "A@1 C, B@1 C");
}

#[test]
fn kenter_is_on_no_list() {
    for policy in ["netbsd-vivt", "freebsd-2006", "freebsd-2006-fixed"] {
        let mut b = Bench::new(policy);
        b.enter(A, 1, RX);
        assert_eq!(kenter(&mut b, 1), NOTHING, "{policy}");
        assert_eq!(b.mappings(), "A@1 C", "{policy}");
    }
}

#[test]
fn in_2006_the_first_upgrade_is_decided_before_the_store() {
    let mut b = Bench::new("freebsd-2006");
    b.enter(A, 1, R);
    b.enter(A, 2, R);
    let expected = [
        "dcache_wbinv A@2",
        "tlb_flush_d A@2",
        "dcache_inv A@1",
        "tlb_flush_d A@1",
        "tlb_flush_d A@2",
    ];
    assert_eq!(b.enter(A, 2, RW), expected);
    assert_eq!(b.mappings(), "A@1 u, A@2 u(pte C)", "B24");
}

#[test]
fn in_2006_a_read_only_alias_that_goes_recaches_nothing() {
    let with = |policy: &str| {
        let mut b = Bench::new(policy);
        b.enter(A, 1, R);
        b.enter(A, 2, RW);
        b.remove(A, 1);
        b.mappings()
    };
    assert_eq!(with("freebsd-2006"), "A@2 u", "B22");
    assert_eq!(with("freebsd-2006-fixed"), "A@2 C");
    assert_eq!(with("netbsd-vivt"), "A@2 C");
}

#[test]
fn in_2006_a_kernel_mapping_leaves_a_user_count_behind() {
    let with = |policy: &str| {
        let mut b = Bench::new(policy);
        b.enter(K, 1, RW);
        b.remove(K, 1);
        b.enter(A, 1, RX);
        let counts = b.0.state.pmap.page(PAGE).counts;
        (counts.kernel(), counts.user(), b.mappings())
    };
    assert_eq!(with("freebsd-2006"), (0, 2, "A@1 C".to_owned()), "B10");
    let fixed = (0, 1, "A@1 C".to_owned());
    assert_eq!(with("freebsd-2006-fixed"), fixed);
}

#[test]
fn in_2009_a_read_only_kernel_mapping_beside_a_writable_one_is_no_conflict() {
    let with = |policy: &str| {
        let mut b = Bench::new(policy);
        kenter(&mut b, 1);
        b.enter(K, 2, R);
        let alone = b.mappings();
        b.enter(A, 1, RX);
        let shared = b.mappings();
        b.remove(A, 1);
        [alone, shared, b.mappings()]
    };
    let conflict = "A@1 u, K@1 u, K@2 u";
    let none = "K@1 C, K@2 C";
    assert_eq!(with("freebsd-2009"), [none, conflict, none], "B3");
    let both = "K@1 u, K@2 u";
    assert_eq!(with("freebsd-2010"), [both, conflict, both]);
}

#[test]
fn in_2009_two_kernel_writers_are_a_conflict() {
    let mut b = Bench::new("freebsd-2009");
    kenter(&mut b, 1);
    assert_eq!(kenter(&mut b, 2), NOTHING);
    assert_eq!(b.mappings(), "K@1 u, K@2 u");
}

#[test]
fn in_2013_an_uncacheable_page_is_not_made_cacheable_again() {
    let with = |policy: &str| {
        let mut b = Bench::new(policy);
        b.0.pmap_page_set_memattr(CPU, PAGE, false);
        b.enter(A, 1, RX);
        kenter(&mut b, 1);
        b.run(|w| w.pmap_kremove(CPU, at(K, 1)));
        b.mappings()
    };
    assert_eq!(with("freebsd-2013"), "A@1 C(pte u)");
    assert_eq!(with("freebsd-2010"), "A@1 C", "it knows no such mark");
}
