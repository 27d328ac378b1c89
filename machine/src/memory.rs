//! Physical memory: bytes with a hash that is kept by parts, cheap to clone at any size.
//!
//! A large memory is two levels of shared pages: cloning copies one pointer for every 2 MB, and a
//! store copies the page it changes, once, if somebody else still holds it. A small one is flat.

use std::sync::Arc;

use crate::types::PhysAddr;

const CHUNK: usize = 4096;
const LEAF: usize = 512;
const FLAT_MAX: usize = 16 * 1024;

/// RAM from physical address 0.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: usize,
    store: Store,
}

#[derive(Clone, Debug)]
enum Store {
    Flat(Vec<u8>),
    Chunked(Vec<Option<Arc<Leaf>>>),
}

#[derive(Clone, Debug)]
struct Leaf {
    chunks: [Option<Arc<Chunk>>; LEAF],
    hash: Option<u64>,
}

#[derive(Clone, Debug)]
struct Chunk {
    bytes: [u8; CHUNK],
    hash: Option<u64>,
}

impl Memory {
    /// `bytes` of zeros.
    pub fn new(bytes: u32) -> Self {
        let bytes = bytes as usize;
        let store = if bytes <= FLAT_MAX {
            Store::Flat(vec![0; bytes])
        } else {
            Store::Chunked(vec![None; bytes.div_ceil(CHUNK * LEAF)])
        };
        Self { bytes, store }
    }

    /// Whether `len` bytes at `pa` are RAM.
    pub fn holds(&self, pa: PhysAddr, len: u32) -> bool {
        pa.0 as usize + len as usize <= self.bytes
    }

    /// Copies bytes out. `pa` and its length must lie in RAM and in one page of 4 KB.
    pub fn read(&self, pa: PhysAddr, out: &mut [u8]) {
        let at = pa.0 as usize;
        match &self.store {
            Store::Flat(bytes) => out.copy_from_slice(&bytes[at..at + out.len()]),
            Store::Chunked(leaves) => {
                let chunk = leaves[at / (CHUNK * LEAF)]
                    .as_ref()
                    .and_then(|leaf| leaf.chunks[at / CHUNK % LEAF].as_ref());
                match chunk {
                    Some(chunk) => {
                        let o = at % CHUNK;
                        out.copy_from_slice(&chunk.bytes[o..o + out.len()]);
                    }
                    None => out.fill(0),
                }
            }
        }
    }

    /// Copies bytes in, with the same limits as [`Memory::read`].
    pub fn write(&mut self, pa: PhysAddr, data: &[u8]) {
        let at = pa.0 as usize;
        match &mut self.store {
            Store::Flat(bytes) => bytes[at..at + data.len()].copy_from_slice(data),
            Store::Chunked(leaves) => {
                let leaf = leaves[at / (CHUNK * LEAF)].get_or_insert_with(Leaf::empty);
                let leaf = Arc::make_mut(leaf);
                leaf.hash = None;
                let chunk = leaf.chunks[at / CHUNK % LEAF].get_or_insert_with(Chunk::empty);
                let chunk = Arc::make_mut(chunk);
                chunk.hash = None;
                let o = at % CHUNK;
                chunk.bytes[o..o + data.len()].copy_from_slice(data);
            }
        }
    }

    /// The word at `pa`, little-endian; `pa` is a multiple of 4.
    pub fn word(&self, pa: PhysAddr) -> u32 {
        let mut bytes = [0; 4];
        self.read(pa, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// A hash of every byte: equal memories have equal hashes, whatever was written on the way.
    /// Only pages written since the last call are read again.
    pub fn fingerprint(&mut self) -> u64 {
        match &mut self.store {
            Store::Flat(bytes) => hash_bytes(0, bytes),
            Store::Chunked(leaves) => leaves.iter_mut().enumerate().fold(0, |sum, (n, leaf)| {
                let part = leaf.as_mut().map_or(0, Leaf::fingerprint);
                if part == 0 {
                    sum
                } else {
                    sum ^ mix(n as u64 + 1, part)
                }
            }),
        }
    }
}

impl Leaf {
    fn empty() -> Arc<Self> {
        Arc::new(Self {
            chunks: std::array::from_fn(|_| None),
            hash: Some(0),
        })
    }

    /// 0 for a leaf of zero bytes, so that a written and cleared page equals an untouched one.
    fn fingerprint(leaf: &mut Arc<Self>) -> u64 {
        if let Some(hash) = leaf.hash {
            return hash;
        }
        let leaf = Arc::make_mut(leaf);
        let mut sum = 0;
        for (n, chunk) in leaf.chunks.iter_mut().enumerate() {
            let Some(chunk) = chunk else { continue };
            let part = match chunk.hash {
                Some(hash) => hash,
                None => Chunk::rehash(Arc::make_mut(chunk)),
            };
            if part != 0 {
                sum ^= mix(n as u64 + 1, part);
            }
        }
        leaf.hash = Some(sum);
        sum
    }
}

impl Chunk {
    fn empty() -> Arc<Self> {
        Arc::new(Self {
            bytes: [0; CHUNK],
            hash: Some(0),
        })
    }

    fn rehash(&mut self) -> u64 {
        let zero = self.bytes.iter().all(|b| *b == 0);
        let hash = if zero { 0 } else { hash_bytes(1, &self.bytes) };
        self.hash = Some(hash);
        hash
    }
}

/// Mixes one word into a hash (a multiply and a fold).
pub fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes bytes, eight at a time.
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = mix(seed, bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if rest.is_empty() {
        return hash;
    }
    let last = rest
        .iter()
        .rev()
        .fold(0, |word, b| word << 8 | u64::from(*b));
    mix(hash, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PhysAddr;

    #[test]
    fn a_clone_keeps_its_bytes_when_the_original_is_written() {
        let mut a = Memory::new(512 << 20);
        a.write(PhysAddr(0x1000), &[1, 2, 3, 4]);
        let mut b = a.clone();
        assert_eq!(a.fingerprint(), b.fingerprint());
        a.write(PhysAddr(0x1002), &[9]);
        assert_eq!(b.word(PhysAddr(0x1000)), 0x0403_0201);
        assert_ne!(a.fingerprint(), b.fingerprint());
        a.write(PhysAddr(0x1002), &[3]);
        assert_eq!(a.fingerprint(), b.fingerprint());
    }

    #[test]
    fn a_cleared_page_equals_an_untouched_one() {
        let mut a = Memory::new(1 << 20);
        let before = a.fingerprint();
        a.write(PhysAddr(0x2000), &[7]);
        assert_ne!(a.fingerprint(), before);
        a.write(PhysAddr(0x2000), &[0]);
        assert_eq!(a.fingerprint(), before);
    }
}
