//! Long random sequences of file operations against a model: plain byte vectors. Under a policy that
//! never goes stale the world's bytes are the model's, whatever is recycled, synced or mapped between.

#![allow(missing_docs, reason = "a test")]

mod world;

use machine::VirtAddr;
use pmap::hook::{Facts, Hook, View};
use pmap::plan::{Do, Plan};
use pmap::{KernelUse, Prot, SpaceId};
use vfs_sim::{DiskKind, DiskMode, IoFlags, ReadAhead, VfsConfig, VfsVerbs};
use vm::{MapFlags, VmVerbs, VnodeId};
use world::{CPU, World, pattern};

const SIZE_MAX: u32 = 200_000;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32 % n.max(1)
    }
}

struct File {
    vnode: VnodeId,
    mapped: VirtAddr,
    bytes: Vec<u8>,
}

/// Equal bytes, or where they differ first.
fn same(got: &[u8], wanted: &[u8]) {
    let differs = got.iter().zip(wanted).position(|(a, b)| a != b);
    assert_eq!((differs, got.len()), (None, wanted.len()));
}

/// One operation on one file; the model does the same.
fn turn(w: &mut World, r: &mut Random, file: &mut File) {
    let size = file.bytes.len() as u32;
    let at = r.below(size + 1);
    let len = match r.below(3) {
        0 => r.below(64),
        1 => r.below(20_000),
        _ => r.below(60_000),
    };
    match r.below(12) {
        0..=2 => {
            let end = (at + len).min(size);
            let got = w.pread(file.vnode, u64::from(at), len).unwrap();
            same(&got, &file.bytes[at as usize..end as usize]);
        }
        3..=5 => {
            let at = match r.below(4) {
                0 => at + r.below(30_000),
                _ => at,
            };
            let end = (at + len).min(SIZE_MAX);
            let len = end.saturating_sub(at);
            let data = pattern(len as usize, r.below(1 << 20));
            let flags = match r.below(6) {
                0 => IoFlags::SYNC,
                1 => IoFlags::DIRECT,
                _ => IoFlags::empty(),
            };
            w.pwrite_with(file.vnode, u64::from(at), &data, flags)
                .unwrap();
            if len > 0 {
                file.bytes.resize(size.max(end) as usize, 0);
                file.bytes[at as usize..end as usize].copy_from_slice(&data);
            }
        }
        6 => {
            let to = r.below(SIZE_MAX);
            w.awake(|w| w.ffs_truncate(CPU, file.vnode, to)).unwrap();
            file.bytes.resize(to as usize, 0);
        }
        7 => drop(w.buf_recycle(CPU, None)),
        8 => w.vfs_sync(CPU).unwrap(),
        9 => {
            let len = len.min(size - at);
            let mut got = vec![0; len as usize];
            w.awake(|w| w.copyin_bytes(CPU, file.mapped.add(at), &mut got))
                .unwrap();
            same(&got, &file.bytes[at as usize..(at + len) as usize]);
        }
        10 => {
            let len = len.min(size - at).min(5000);
            let data = pattern(len as usize, r.below(1 << 20));
            w.awake(|w| w.copyout_bytes(CPU, &data, file.mapped.add(at)))
                .unwrap();
            file.bytes[at as usize..(at + len) as usize].copy_from_slice(&data);
        }
        _ => drop(w.vm_pageout(CPU, 8)),
    }
}

/// always-flush, and whoever stores into a buffer gets write permission back first: msync takes it
/// away from buffers too, and without this the next write panics (B26).
fn flush_and_rearm(hook: &Hook, view: &View<'_>, facts: &Facts, plan: &mut Plan) {
    pmap::rule::always_flush::plan(hook, view, facts, plan);
    if let Hook::Will(KernelUse::Write | KernelUse::Pio, va, len) = *hook {
        let first = va.0 & !(facts.page - 1);
        for page in (first..va.0 + len).step_by(facts.page as usize) {
            plan.push(
                Do::BufferWrite(true),
                SpaceId::KERNEL,
                VirtAddr(page),
                facts.page,
            );
            plan.push(Do::TlbD, SpaceId::KERNEL, VirtAddr(page), 0);
        }
    }
}

fn sequence(seed: u64, turns: u32, change: impl FnOnce(&mut VfsConfig)) {
    let mut w = World::with("always-flush", change);
    w.policy.rule = flush_and_rearm;
    let mut r = Random(seed | 1);
    let rw = Prot::READ | Prot::WRITE;
    let mut files: Vec<File> = (0..2)
        .map(|n| {
            let bytes = pattern(30_000 + 9000 * n as usize, n);
            let vnode = w.vfs.fs_add_file(&format!("/f{n}"), &bytes).unwrap();
            // The mapping is as long as the file may become.
            let object = w.vnode_open(CPU, vnode).unwrap();
            let backing = vm::Backing::Object { object, offset: 0 };
            let mapped = w.map(backing, SIZE_MAX + 60_000, rw, MapFlags::SHARED);
            File {
                vnode,
                mapped,
                bytes,
            }
        })
        .collect();
    for _ in 0..turns {
        let n = r.below(2) as usize;
        turn(&mut w, &mut r, &mut files[n]);
        w.check();
        w.marks.clear();
        w.charged.clear();
    }
    for file in &files {
        w.awake(|w| w.ffs_fsync(CPU, file.vnode)).unwrap();
        same(&w.vfs.on_disk(file.vnode), &file.bytes);
    }
}

const CLUSTER: ReadAhead = ReadAhead::Cluster {
    blocks_max: 8,
    read: true,
    write: true,
};

#[test]
fn one_block_at_a_time() {
    (1..5).for_each(|seed| sequence(seed * 7919, 120, |_| {}));
}

#[test]
fn clustered() {
    (1..5).for_each(|seed| sequence(seed * 104_729, 120, |c| c.read_ahead = CLUSTER));
}

#[test]
fn queued_and_clustered_with_few_buffers() {
    (1..5).for_each(|seed| {
        sequence(seed * 1_299_709, 120, |c| {
            c.read_ahead = CLUSTER;
            c.disk_mode = DiskMode::Queued;
            c.nbuf = 6;
        });
    });
}

#[test]
fn word_by_word_with_large_scattered_blocks() {
    (1..5).for_each(|seed| {
        sequence(seed * 15_485_863, 60, |c| {
            c.disk_kind = DiskKind::Pio;
            c.block_bytes = 32768;
            c.fragment_bytes = 4096;
            c.block_gap = 2;
            c.read_ahead = CLUSTER;
        });
    });
}
