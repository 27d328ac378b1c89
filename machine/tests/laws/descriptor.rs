//! Descriptors and the walk, over all words.

use machine::mmu::{permits, walk_short};
use machine::{Ap, Fault, L1Descriptor, PhysAddr, Pte};
use quickcheck::quickcheck;

const AP: u32 = 0xff0;
const CB: u32 = 0xc;
const TYPE: u32 = 3;

quickcheck! {
    fn each_change_of_an_entry_touches_its_own_field(raw: u32, on: bool, ap: u8) -> bool {
        let pte = Pte(raw);
        let ap = [Ap::KernelRead, Ap::Kernel, Ap::UserRead, Ap::User][usize::from(ap % 4)];
        let only = |new: Pte, field: u32| (new.0 ^ raw) & !field == 0;
        let write = pte.with_write(on);
        let cache = pte.with_cache(on);
        let valid = pte.with_valid(on);
        only(write, AP) && write.writable() == on && write.user() == pte.user()
            && only(cache, CB) && cache.cacheable() == on
            && only(valid, TYPE) && valid.valid() == on
            && only(pte.with_ap(ap), AP) && pte.with_ap(ap).ap() == ap as u8
    }

    fn all_four_quarters_of_a_page_get_the_same_rights(raw: u32, on: bool) -> bool {
        let new = Pte(raw).with_write(on);
        let quarter = |n: u32| new.0 >> (4 + 2 * n) & 3;
        (1..4).all(|n| quarter(n) == quarter(0))
    }

    fn the_walk_reads_one_word_a_level_and_obeys_both(ttb: u32, va: u32, first: u32, second: u32) -> bool {
        let mut reads = Vec::new();
        let result = walk_short(ttb, va, |pa| {
            reads.push(pa);
            if reads.len() == 1 { first } else { second }
        });
        let l1 = PhysAddr((ttb & !0x3fff) + (va >> 20) * 4);
        let l2 = PhysAddr((first & !0x3ff) + (va >> 12 & 0xff) * 4);
        let expected = if first & 3 == 1 { vec![l1, l2] } else { vec![l1] };
        let right = match (first & 3, second & 3) {
            (1, 2) => result.is_ok_and(|e| {
                e.matches(va) && e.translate(va) == second & !0xfff | va & 0xfff
                    && e.domain == L1Descriptor(first).domain() && e.ap == (second >> 4 & 3) as u8
                    && e.cacheable == (second & 8 != 0) && e.bufferable == (second & 4 != 0)
            }),
            (1, _) => result == Err(Fault::TranslationPage),
            (2, _) => result.is_ok_and(|e| {
                e.matches(va) && e.translate(va) == first & 0xfff0_0000 | va & 0xf_ffff
                    && e.ap == (first >> 10 & 3) as u8
            }),
            _ => result == Err(Fault::TranslationSection),
        };
        reads == expected && right
    }

    fn rights_grow_with_the_field_and_domains_come_first(raw: u32, dacr: u32, user: bool, store: bool) -> bool {
        let domain = (raw >> 5 & 0xf) as u8;
        let mut entry = Pte(raw & !TYPE | 2).to_tlb(0, 4096, false, domain);
        let field = dacr >> (2 * domain) & 3;
        let answers: Vec<_> = (0..4).map(|ap| {
            entry.ap = ap;
            permits(&entry, dacr, user, store)
        }).collect();
        match field {
            1 => answers.windows(2).all(|w| w[0].is_err() || w[1].is_ok() || (!user && store)),
            3 => answers.iter().all(Result::is_ok),
            _ => answers.iter().all(|a| *a == Err(Fault::Domain)),
        }
    }
}
