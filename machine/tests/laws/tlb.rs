//! The TLB against lists of copies.

use machine::profile::TlbProfile;
use machine::tlb::{EMPTY, Found, Tlb, TlbEntry};
use quickcheck::{Arbitrary, Gen, quickcheck};

const PAGE: u32 = 16;
const SETS: u32 = 2;
const WAYS: u32 = 2;

fn tlb() -> Tlb {
    let profile = TlbProfile {
        entries: SETS * WAYS,
        ways: WAYS,
        micro: 2,
        lockdown: 2,
    };
    Tlb::new(&profile, PAGE)
}

/// A page's translation.
fn entry(va: u32, frame: u8) -> TlbEntry {
    TlbEntry {
        tag: va & !(PAGE - 1),
        mask: !(PAGE - 1),
        base: u32::from(frame) * PAGE,
        ap: 3,
        ..EMPTY
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// An access: a hit, or the result of a walk.
    Access {
        fetch: bool,
        va: u32,
        frame: u8,
    },
    Lock {
        slot: u32,
        va: u32,
        frame: u8,
    },
    InvalidateAll,
    Invalidate {
        va: u32,
        data_only: bool,
    },
}

impl Arbitrary for Event {
    fn arbitrary(g: &mut Gen) -> Self {
        let (va, frame) = (u32::from(u8::arbitrary(g)) % 128, u8::arbitrary(g));
        match u8::arbitrary(g) % 10 {
            0 => Event::InvalidateAll,
            1 | 2 => Event::Invalidate {
                va,
                data_only: bool::arbitrary(g),
            },
            3 => Event::Lock {
                slot: u32::from(frame) % 2,
                va,
                frame,
            },
            _ => Event::Access {
                fetch: bool::arbitrary(g),
                va,
                frame,
            },
        }
    }
}

/// Main part and lockdown; the micro-TLBs are judged by what they must not hold.
#[derive(Default)]
struct Model {
    sets: [[Option<TlbEntry>; WAYS as usize]; SETS as usize],
    turn: [usize; SETS as usize],
    locked: [Option<TlbEntry>; 2],
}

impl Model {
    fn probe(&self, va: u32) -> Option<TlbEntry> {
        let set = &self.sets[(va / PAGE % SETS) as usize];
        let all = self.locked.iter().chain(set).flatten();
        all.into_iter().find(|e| e.matches(va)).copied()
    }

    fn fill(&mut self, va: u32, entry: TlbEntry) {
        let n = (va / PAGE % SETS) as usize;
        let free = self.sets[n].iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| {
            let way = self.turn[n];
            self.turn[n] = (way + 1) % WAYS as usize;
            way
        });
        self.sets[n][way] = Some(entry);
    }

    fn drop_if(&mut self, gone: impl Fn(&TlbEntry) -> bool, locked: bool) {
        let main = self.sets.iter_mut().flatten();
        let all = main.chain(self.locked.iter_mut().filter(|_| locked));
        for slot in all {
            *slot = slot.filter(|e| !gone(e));
        }
    }
}

fn apply(tlb: &mut Tlb, event: Event) -> Option<(TlbEntry, Found)> {
    match event {
        Event::Access { fetch, va, frame } => {
            let hit = tlb.lookup(fetch, va);
            if hit.is_none() {
                tlb.fill(fetch, va, entry(va, frame));
            }
            return hit;
        }
        Event::Lock { slot, va, frame } => {
            // A page is locked when no other copy of it is held.
            tlb.invalidate(va, false);
            tlb.lock(slot, entry(va, frame));
        }
        Event::InvalidateAll => tlb.invalidate_all(),
        Event::Invalidate { va, data_only } => tlb.invalidate(va, data_only),
    }
    None
}

quickcheck! {
    fn a_probe_finds_what_a_list_of_copies_holds(events: Vec<Event>) -> bool {
        let (mut tlb, mut model) = (tlb(), Model::default());
        events.iter().all(|event| {
            let hit = apply(&mut tlb, *event);
            match *event {
                Event::Access { va, frame, .. } => match hit {
                    None => model.fill(va, entry(va, frame)),
                    Some((found, Found::Main)) if model.probe(va) != Some(found) => return false,
                    Some(_) => {}
                },
                Event::Lock { slot, va, frame } => {
                    model.drop_if(|e| e.matches(va), true);
                    model.locked[slot as usize] = Some(entry(va, frame));
                }
                Event::InvalidateAll => model.drop_if(|_| true, false),
                Event::Invalidate { va, .. } => model.drop_if(|e| e.matches(va), true),
            }
            (0..8).all(|page| tlb.probe(page * PAGE) == model.probe(page * PAGE))
        })
    }

    fn no_copy_is_left_after_an_invalidation(events: Vec<Event>, va: u8) -> bool {
        let mut tlb = tlb();
        events.iter().for_each(|e| {
            apply(&mut tlb, *e);
        });
        let va = u32::from(va) % 128;
        tlb.invalidate(va, false);
        let copies = tlb.entries().any(|e| e.matches(va));
        !copies && tlb.lookup(false, va).is_none() && tlb.lookup(true, va).is_none()
    }

    fn a_data_operation_leaves_at_most_the_fetch_sides_copies(events: Vec<Event>, va: u8) -> bool {
        let mut tlb = tlb();
        events.iter().for_each(|e| {
            apply(&mut tlb, *e);
        });
        let va = u32::from(va) % 128;
        let before = tlb.last(true, va).copied();
        tlb.invalidate(va, true);
        let kept = tlb.last(true, va).copied() == before;
        kept && tlb.probe(va).is_none() && tlb.lookup(false, va).is_none()
    }

    fn what_is_locked_survives_an_invalidation_of_all(events: Vec<Event>, va: u8, frame: u8) -> bool {
        let mut tlb = tlb();
        events.iter().for_each(|e| {
            apply(&mut tlb, *e);
        });
        let va = u32::from(va) % 128;
        tlb.invalidate(va, false);
        tlb.lock(0, entry(va, frame));
        tlb.invalidate_all();
        let locked = tlb.probe(va) == Some(entry(va, frame));
        tlb.invalidate(va, false);
        locked && tlb.probe(va).is_none()
    }

    fn a_hit_returns_a_copy_of_that_page(events: Vec<Event>) -> bool {
        let mut tlb = tlb();
        events.iter().all(|event| {
            let hit = apply(&mut tlb, *event);
            let Event::Access { va, .. } = *event else { return true };
            hit.is_none_or(|(e, _)| e.matches(va) && e.translate(va) % PAGE == va % PAGE)
        })
    }
}
