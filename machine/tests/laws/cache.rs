//! A cache against one list a set.

use machine::cache::{Cache, Geometry};
use machine::profile::{CacheProfile, Lookup, Replacement, UncachedHit};
use quickcheck::{Arbitrary, Gen, quickcheck};

const SETS: u32 = 2;
const WAYS: u32 = 3;
const LINE: u32 = 8;

fn cache(replacement: Replacement) -> Cache {
    let profile = CacheProfile {
        size: SETS * WAYS * LINE,
        ways: WAYS,
        line: LINE,
        lookup: Lookup::Vivt,
        replacement,
        invalid_first: true,
        write_allocate: true,
        write_back: true,
        dirty_bytes: 4,
        uncached_hit: UncachedHit::BypassStale,
    };
    Cache::new(&profile, 4096)
}

/// What is done to a cache, by address.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A hit touches, a miss installs.
    Access(u32),
    /// The line leaves, if it is in.
    Invalidate(u32),
    /// A byte of the line gets dirty, if it is in.
    Soil(u32),
}

impl Arbitrary for Event {
    fn arbitrary(g: &mut Gen) -> Self {
        let va = u32::from(u8::arbitrary(g)) % 128;
        match u8::arbitrary(g) % 8 {
            0 => Event::Invalidate(va),
            1 => Event::Soil(va),
            _ => Event::Access(va),
        }
    }
}

/// One set: its ways, with the moment that decides who leaves.
type Set = [Option<(u32, u64)>; WAYS as usize];

struct Model {
    sets: [Set; SETS as usize],
    now: u64,
    lru: bool,
}

impl Model {
    fn set(&mut self, va: u32) -> &mut Set {
        &mut self.sets[(va / LINE % SETS) as usize]
    }

    fn way(&mut self, va: u32) -> Option<usize> {
        let line = va / LINE;
        self.set(va)
            .iter()
            .position(|w| w.is_some_and(|(l, _)| l == line))
    }

    fn access(&mut self, va: u32) {
        self.now += 1;
        let (now, lru) = (self.now, self.lru);
        let hit = self.way(va);
        let set = self.set(va);
        let way = hit.unwrap_or_else(|| {
            let free = set.iter().position(Option::is_none);
            let oldest = || {
                (0..set.len())
                    .min_by_key(|w| set[*w].map(|(_, at)| at))
                    .unwrap()
            };
            free.unwrap_or_else(oldest)
        });
        if hit.is_none() || lru {
            set[way] = Some((va / LINE, now));
        }
    }
}

/// Carries an event out as the paths do; an access returns the slot.
fn apply(cache: &mut Cache, event: Event) {
    match event {
        Event::Access(va) => {
            let keys = cache.keys(va, va);
            match cache.find(keys) {
                Some(slot) => cache.touch(slot),
                None => {
                    let slot = cache.victim(keys);
                    cache.install(slot, keys, va);
                    cache.line_mut(slot).fill(va as u8);
                }
            }
        }
        Event::Invalidate(va) => {
            if let Some(slot) = cache.find(cache.keys(va, va)) {
                cache.invalidate(slot);
            }
        }
        Event::Soil(va) => {
            if let Some(slot) = cache.find(cache.keys(va, va)) {
                cache.soil(slot, va % LINE);
            }
        }
    }
}

fn lines(cache: &Cache) -> Vec<Option<u32>> {
    let line = |s: u32| cache.valid(s).then(|| cache.tag_address(s) / LINE);
    (0..cache.slots()).map(line).collect()
}

fn follows_the_list(events: &[Event], replacement: Replacement) -> bool {
    let mut cache = cache(replacement);
    let mut model = Model {
        sets: Default::default(),
        now: 0,
        lru: replacement == Replacement::Lru,
    };
    events.iter().all(|event| {
        apply(&mut cache, *event);
        match *event {
            Event::Access(va) => model.access(va),
            Event::Invalidate(va) => {
                if let Some(way) = model.way(va) {
                    model.set(va)[way] = None;
                }
            }
            Event::Soil(_) => {}
        }
        cache.check();
        let listed = model.sets.iter().flatten().map(|w| w.map(|(line, _)| line));
        lines(&cache) == listed.collect::<Vec<_>>()
    })
}

const ALL: [Replacement; 5] = [
    Replacement::Lru,
    Replacement::Fifo,
    Replacement::RoundRobin,
    Replacement::RoundRobinGlobal,
    Replacement::Random,
];

quickcheck! {
    fn lru_and_fifo_replace_as_a_naive_list_does(events: Vec<Event>) -> bool {
        follows_the_list(&events, Replacement::Lru) && follows_the_list(&events, Replacement::Fifo)
    }

    fn a_line_is_found_where_it_was_installed(events: Vec<Event>, va: u8) -> bool {
        ALL.iter().all(|replacement| {
            let mut cache = cache(*replacement);
            events.iter().for_each(|e| apply(&mut cache, *e));
            let keys = cache.keys(u32::from(va), u32::from(va));
            if cache.find(keys).is_some() {
                return true;
            }
            let slot = cache.victim(keys);
            let set = u32::from(va) / LINE % SETS;
            let first_free = (set * WAYS..(set + 1) * WAYS).find(|s| !cache.valid(*s));
            let free_first = first_free.is_none_or(|free| free == slot);
            cache.install(slot, keys, u32::from(va));
            let clean = cache.dirty(slot) == 0 && cache.pa(slot) == u32::from(va) & !(LINE - 1);
            slot / WAYS == set && free_first && cache.find(keys) == Some(slot) && clean
        })
    }

    fn round_robin_takes_the_ways_of_a_full_set_in_turn(vas: Vec<u8>) -> bool {
        let mut cache = cache(Replacement::RoundRobin);
        let mut turn = [0; SETS as usize];
        vas.iter().all(|va| {
            let va = u32::from(*va);
            let set = (va / LINE % SETS) as usize;
            let keys = cache.keys(va, va);
            if cache.find(keys).is_some() {
                return true;
            }
            let full = (0..WAYS).all(|w| cache.valid(set as u32 * WAYS + w));
            let slot = cache.victim(keys);
            cache.install(slot, keys, va);
            let expected = turn[set];
            turn[set] = if full { (turn[set] + 1) % WAYS } else { turn[set] };
            !full || slot % WAYS == expected
        })
    }

    fn the_fingerprint_tells_the_future_and_not_the_past(events: Vec<Event>) -> bool {
        [Replacement::Lru, Replacement::Fifo].into_iter().all(|replacement| {
            let mut old = cache(replacement);
            events.iter().for_each(|e| apply(&mut old, *e));
            // The same lines, brought in straight away in the order of their ages.
            let mut slots: Vec<u32> = old.valid_slots().collect();
            let mut aging = old.clone();
            slots.sort_by_key(|s| leaves_after(&mut aging.clone(), *s));
            aging = cache(replacement);
            for slot in slots {
                let va = old.tag_address(slot);
                aging.install(slot, aging.keys(va, va), old.pa(slot));
                aging.line_mut(slot).copy_from_slice(old.line(slot));
                let parts = (0..2).filter(|p| old.dirty(slot) >> p & 1 == 1);
                parts.for_each(|p| aging.soil(slot, p * 4));
            }
            aging.fingerprint() == old.fingerprint()
        })
    }

    fn tags_alone_hit_and_miss_as_the_whole_cache_does(events: Vec<Event>) -> bool {
        let mut whole = cache(Replacement::Lru);
        let mut tags = Cache::tags_only(Geometry {
            line_shift: LINE.trailing_zeros(),
            set_mask: SETS - 1,
            ways: WAYS,
            replacement: Replacement::Lru,
        });
        events.iter().all(|event| {
            let (Event::Access(va) | Event::Invalidate(va) | Event::Soil(va)) = *event;
            let keys = whole.keys(va, va);
            let hit = tags.find(keys);
            let same = hit.is_some() == whole.find(keys).is_some();
            apply(&mut whole, Event::Access(va));
            match hit {
                Some(slot) => tags.touch(slot),
                None => {
                    let slot = tags.victim(keys);
                    tags.install(slot, keys, va);
                }
            }
            same
        })
    }
}

/// How many victims leave the slot's set before the slot does.
fn leaves_after(cache: &mut Cache, slot: u32) -> usize {
    let set = slot / WAYS;
    let fresh = (0..).map(|n| 0x1000 + (n * SETS + set) * LINE);
    for (n, va) in fresh.enumerate() {
        let keys = cache.keys(va, va);
        let victim = cache.victim(keys);
        if victim == slot {
            return n;
        }
        cache.install(victim, keys, va);
    }
    0
}
