//! The write buffer against a queue of byte maps.

use std::collections::{BTreeMap, VecDeque};

use machine::profile::WriteBufferProfile;
use machine::write_buffer::{LINE_MAX, Victim, WriteBuffer};
use quickcheck::{Arbitrary, Gen, quickcheck};

const ENTRIES: u32 = 3;
const BLOCK: u32 = 8;
const LINE: u32 = 16;

/// A store that fits one block, or the oldest entry leaving.
#[derive(Clone, Copy, Debug)]
enum Event {
    Store {
        pa: u32,
        len: u32,
        value: u8,
        outer: bool,
    },
    Pop,
}

impl Arbitrary for Event {
    fn arbitrary(g: &mut Gen) -> Self {
        let len = 1 << (u8::arbitrary(g) % 3);
        let pa = u32::from(u8::arbitrary(g) % 48) & !(len - 1);
        match u8::arbitrary(g) % 4 {
            0 => Event::Pop,
            _ => Event::Store {
                pa,
                len,
                value: u8::arbitrary(g),
                outer: u8::arbitrary(g) % 4 != 0,
            },
        }
    }
}

fn buffer() -> WriteBuffer {
    let profile = WriteBufferProfile {
        entries: ENTRIES,
        bytes: BLOCK,
        eviction: true,
        drains_on: Vec::new(),
    };
    WriteBuffer::new(&profile, LINE)
}

/// One block: its address, whether it goes through the second level, its bytes.
type Block = (u32, bool, BTreeMap<u32, u8>);

/// Stores as the bus path does: room is made by writing the oldest block.
fn store(
    buffer: &mut WriteBuffer,
    memory: &mut [u8],
    (pa, len, value, outer): (u32, u32, u8, bool),
) {
    if buffer.full() && !buffer.merges(pa, outer) {
        pop(buffer, memory);
    }
    buffer.push(pa, &vec![value; len as usize], outer);
}

fn pop(buffer: &mut WriteBuffer, memory: &mut [u8]) -> Option<Block> {
    let (_, entry) = buffer.pop()?;
    let set = (0..32).filter(|n| entry.mask >> n & 1 == 1);
    let bytes: BTreeMap<u32, u8> = set
        .map(|n| (entry.pa + n, entry.data[n as usize]))
        .collect();
    bytes.iter().for_each(|(at, b)| memory[*at as usize] = *b);
    Some((entry.pa, entry.outer, bytes))
}

quickcheck! {
    fn blocks_leave_in_order_and_only_the_last_one_merges(events: Vec<Event>) -> bool {
        let (mut buffer, mut memory) = (buffer(), vec![0; 64]);
        let mut model: VecDeque<Block> = VecDeque::new();
        events.iter().all(|event| match *event {
            Event::Pop => pop(&mut buffer, &mut memory) == model.pop_front(),
            Event::Store { pa, len, value, outer } => {
                let base = pa / BLOCK * BLOCK;
                let merges = model.back().is_some_and(|b| b.0 == base && b.1 == outer);
                if buffer.merges(pa, outer) != merges {
                    return false;
                }
                if !merges {
                    if model.len() == ENTRIES as usize {
                        model.pop_front();
                    }
                    model.push_back((base, outer, BTreeMap::new()));
                }
                let bytes = &mut model.back_mut().unwrap().2;
                (pa..pa + len).for_each(|at| {
                    bytes.insert(at, value);
                });
                store(&mut buffer, &mut memory, (pa, len, value, outer));
                buffer.waiting() as usize == model.len()
            }
        })
    }

    fn a_drained_buffer_leaves_memory_as_stores_in_order_would(events: Vec<Event>) -> bool {
        let (mut buffer, mut memory, mut plain) = (buffer(), vec![0; 64], vec![0; 64]);
        for event in &events {
            match *event {
                Event::Pop => drop(pop(&mut buffer, &mut memory)),
                Event::Store { pa, len, value, outer } => {
                    store(&mut buffer, &mut memory, (pa, len, value, outer));
                    plain[pa as usize..(pa + len) as usize].fill(value);
                }
            }
        }
        while pop(&mut buffer, &mut memory).is_some() {}
        buffer.is_empty() && memory == plain
    }

    fn it_overlaps_what_any_block_or_the_victim_meets(events: Vec<Event>, pa: u8, victim: Option<u8>) -> bool {
        let (mut buffer, mut memory) = (buffer(), vec![0; 64]);
        for event in &events {
            match *event {
                Event::Pop => drop(pop(&mut buffer, &mut memory)),
                Event::Store { pa, len, value, outer } => {
                    store(&mut buffer, &mut memory, (pa, len, value, outer));
                }
            }
        }
        let victim = victim.map(|v| u32::from(v % 48) / LINE * LINE);
        buffer.victim = victim.map(|pa| Victim { pa, dirty: 1, data: [0; LINE_MAX] });
        let (pa, len) = (u32::from(pa % 60), 4);
        let meets = |at: u32, size: u32| (at..at + size).any(|b| (pa..pa + len).contains(&b));
        let blocks = buffer.entries().any(|(_, e)| meets(e.pa, BLOCK));
        let expected = blocks || victim.is_some_and(|at| meets(at, LINE));
        buffer.overlaps(pa, len) == expected
    }

    fn a_block_covers_exactly_the_bytes_stored_in_it(events: Vec<Event>, pa: u8) -> bool {
        let (mut buffer, mut memory) = (buffer(), vec![0; 64]);
        for event in &events {
            if let Event::Store { pa, len, value, outer } = *event {
                store(&mut buffer, &mut memory, (pa, len, value, outer));
            }
        }
        let pa = u32::from(pa % 60);
        let blocks: Vec<_> = buffer.entries().map(|(_, e)| *e).collect();
        blocks.iter().all(|e| {
            let has = |at: u32| at >= e.pa && at < e.pa + 32 && e.mask >> (at - e.pa) & 1 == 1;
            [1, 2, 4].iter().all(|len| e.covers(pa, *len) == (pa..pa + len).all(has))
        })
    }
}
