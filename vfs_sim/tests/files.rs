//! Files through the buffer cache, the pager and both, under a policy that never goes stale.

#![allow(missing_docs, reason = "a test")]

mod world;

use machine::{Access, Hw, Mark, VirtAddr};
use pmap::{PmapVerbs, Prot};
use vfs_sim::{DiskKind, DiskMode, IoFlags, ReadAhead, VfsConfig, VfsCtx, VfsVerbs};
use vm::{Errno, MapFlags, Stop, VmCtx, VmVerbs};
use world::{BLOCK, CPU, PAGE, World, pattern};

const FLUSH: &str = "always-flush";
const CLUSTER: ReadAhead = ReadAhead::Cluster {
    blocks_max: 8,
    read: true,
    write: true,
};

#[test]
fn what_was_put_on_the_disk_is_read_and_the_buffers_stay_mapped() {
    let mut w = World::new(FLUSH);
    let text = pattern(40_000, 1);
    let file = w.vfs.fs_add_file("/bin/a", &text).unwrap();
    assert_eq!(w.pread(file, 0, 4096).unwrap(), text[..4096]);
    assert_eq!(w.kernel_mappings(file, 3), 1, "the whole block lingers");
    assert_eq!(w.pread(file, 10_001, 50_000).unwrap(), text[10_001..]);
    assert_eq!(w.pread(file, 40_000, 10).unwrap(), []);
    assert_eq!(w.pread(file, 1 << 40, 10).unwrap(), []);
    assert_eq!(w.buf_recycle(CPU, Some(file)), 3);
    assert_eq!(w.kernel_mappings(file, 3), 0, "recycling unmaps");
    assert_eq!(w.pread(file, 5, 9).unwrap(), text[5..14]);
    w.check();
}

#[test]
fn a_hit_maps_nothing_again() {
    let mut w = World::new(FLUSH);
    let file = w.vfs.fs_add_file("/a", &pattern(1000, 1)).unwrap();
    w.pread(file, 0, 10).unwrap();
    w.charged.clear();
    w.pread(file, 0, 10).unwrap();
    assert!(!w.charged.contains(&"allocbuf"));
    assert!(!w.charged.contains(&"g_io_request"));
    w.check();
}

#[test]
fn a_page_in_leaves_no_kernel_mapping_and_zeroes_the_tail() {
    let mut w = World::new(FLUSH);
    let text = pattern(5000, 2);
    let file = w.vfs.fs_add_file("/bin/a", &text).unwrap();
    let va = w.map_file(file, Prot::READ | Prot::EXEC, MapFlags::PRIVATE);
    let mut page = vec![9; 2 * PAGE as usize];
    w.copyin_bytes(CPU, va, &mut page).unwrap();
    assert_eq!(page[..5000], text);
    assert!(page[5000..].iter().all(|b| *b == 0));
    assert_eq!(
        (w.kernel_mappings(file, 0), w.kernel_mappings(file, 1)),
        (0, 0)
    );
    let beyond = w.vm_fault(CPU, w.space, va.add(2 * PAGE), Access::Load);
    assert_eq!(beyond, Err(Errno::EFAULT.into()));
    w.check();
}

#[test]
fn exec_looks_at_the_first_page_through_a_short_mapping() {
    let mut w = World::new(FLUSH);
    let text = pattern(100_000, 3);
    let file = w.vfs.fs_add_file("/bin/a", &text).unwrap();
    let page = w.exec_map_first_page(CPU, file).unwrap();
    let mut head = [0; 52];
    w.kernel_read(CPU, page.va, &mut head).unwrap();
    assert_eq!(head, text[..52]);
    assert_eq!(w.kernel_mappings(file, 0), 1);
    w.exec_unmap_first_page(CPU, page);
    assert_eq!(w.kernel_mappings(file, 0), 0);
    assert!(
        w.vm.lookup(w.vfs.object(file).unwrap(), 15).is_some(),
        "16 pages at once"
    );
    let empty = w.vfs_create(CPU, "/empty").unwrap();
    assert_eq!(
        w.exec_map_first_page(CPU, empty),
        Err(Errno::ENOEXEC.into())
    );
    w.check();
}

#[test]
fn a_write_is_seen_by_a_mapping_and_by_the_disk_after_sync() {
    for kind in [DiskKind::Dma, DiskKind::Pio] {
        let mut w = World::with(FLUSH, |c| c.disk_kind = kind);
        let mut text = pattern(30_000, 4);
        let file = w.vfs.fs_add_file("/a", &text).unwrap();
        let va = w.map_file(file, Prot::READ, MapFlags::SHARED);
        w.peek(va).unwrap();
        w.pwrite(file, 100, &pattern(20_000, 5)).unwrap();
        text[100..20_100].copy_from_slice(&pattern(20_000, 5));
        let mut seen = vec![0; 30_000];
        w.copyin_bytes(CPU, va, &mut seen).unwrap();
        assert_eq!(seen, text);
        w.vfs_sync(CPU).unwrap();
        assert_eq!(w.vfs.on_disk(file), text);
        w.check();
    }
}

#[test]
fn stores_through_a_shared_mapping_reach_the_disk_by_msync_and_read_sees_them() {
    let mut w = World::new(FLUSH);
    let mut text = pattern(50_000, 6);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    let va = w.map_file(file, Prot::READ | Prot::WRITE, MapFlags::SHARED);
    w.copyout_bytes(CPU, b"hello", va.add(BLOCK + 7)).unwrap();
    text[BLOCK as usize + 7..BLOCK as usize + 12].copy_from_slice(b"hello");
    assert_eq!(
        w.pread(file, u64::from(BLOCK), 50).unwrap(),
        text[BLOCK as usize..][..50]
    );
    w.vm_msync(CPU, w.space, va, 50_000, false).unwrap();
    assert_eq!(w.vfs.on_disk(file), text);
    w.copyout_bytes(CPU, b"again", va.add(BLOCK + 7)).unwrap();
    text[BLOCK as usize + 7..BLOCK as usize + 12].copy_from_slice(b"again");
    w.vfs_sync(CPU).unwrap();
    assert_eq!(
        w.vfs.on_disk(file),
        text,
        "the store after msync was noticed"
    );
    w.check();
}

#[test]
fn a_partly_resident_block_is_read_around_its_whole_pages() {
    let mut w = World::new(FLUSH);
    let mut text = pattern(3 * BLOCK as usize, 7);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    w.vm.config.read_ahead = 0;
    w.vm.config.read_behind = 0;
    let va = w.map_file(file, Prot::READ | Prot::WRITE, MapFlags::SHARED);
    w.copyout_bytes(CPU, b"dirty", va.add(PAGE)).unwrap();
    text[PAGE as usize..PAGE as usize + 5].copy_from_slice(b"dirty");
    assert_eq!(w.pread(file, 0, BLOCK).unwrap(), text[..BLOCK as usize]);
    w.vm_msync(CPU, w.space, va, BLOCK, false).unwrap();
    assert_eq!(w.vfs.on_disk(file), text);
    w.check();
}

#[test]
fn files_are_created_extended_cut_and_removed() {
    let mut w = World::new(FLUSH);
    w.vfs_mkdir(CPU, "/tmp").unwrap();
    let file = w.vfs_create(CPU, "/tmp/x").unwrap();
    assert_eq!(w.vfs_create(CPU, "/tmp/x"), Err(Errno::EEXIST.into()));
    assert_eq!(w.vfs_create(CPU, "/no/x"), Err(Errno::ENOENT.into()));
    assert_eq!(w.vfs_create(CPU, "/tmp/x/y"), Err(Errno::ENOTDIR.into()));
    w.pwrite(file, 0, b"abc").unwrap();
    w.pwrite_with(file, 0, b"def", IoFlags::APPEND).unwrap();
    assert_eq!(w.pread(file, 0, 100).unwrap(), b"abcdef");
    w.pwrite(file, 40_000, b"end").unwrap();
    let mut model = b"abcdef".to_vec();
    model.resize(40_000, 0);
    model.extend(b"end");
    assert_eq!(w.pread(file, 0, 100_000).unwrap(), model);
    w.ffs_truncate(CPU, file, 4).unwrap();
    w.ffs_truncate(CPU, file, 9).unwrap();
    assert_eq!(w.pread(file, 0, 100).unwrap(), b"abcd\0\0\0\0\0");
    w.ffs_fsync(CPU, file).unwrap();
    assert_eq!(w.vfs.on_disk(file), b"abcd\0\0\0\0\0");
    assert_eq!(w.vfs_unlink(CPU, "/tmp"), Err(Errno::ENOTEMPTY.into()));
    let free = w.vm.free_pages();
    w.vfs_unlink(CPU, "/tmp/x").unwrap();
    assert_eq!(w.vfs.lookup("/tmp/x"), Err(Errno::ENOENT.into()));
    assert!(w.vm.free_pages() > free);
    assert_eq!(
        w.vfs.readdir(w.vfs.lookup("/").unwrap()),
        Ok(vec!["tmp".to_owned()])
    );
    w.check();
}

#[test]
fn an_unlinked_file_lives_until_its_last_mapping_goes() {
    let mut w = World::new(FLUSH);
    let text = pattern(9000, 8);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    let va = w.map_file(file, Prot::READ, MapFlags::SHARED);
    w.vfs_unlink(CPU, "/a").unwrap();
    w.vnode_close(CPU, file);
    assert_eq!(
        w.peek(va.add(8192)).unwrap().to_le_bytes(),
        text[8192..8196]
    );
    w.vm_munmap(CPU, w.space, va, 9000).unwrap();
    assert!(!w.vfs.inode(file).live);
    w.check();
}

#[test]
fn limits_are_errors() {
    let mut w = World::with(FLUSH, |c| {
        c.disk_blocks = 24;
        c.files_max = 3;
        c.file_bytes_max = 200_000;
    });
    let file = w.vfs_create(CPU, "/a").unwrap();
    assert_eq!(w.pwrite(file, 199_999, b"ab"), Err(Errno::EFBIG.into()));
    assert_eq!(w.pwrite(file, u64::MAX, b"ab"), Err(Errno::EFBIG.into()));
    assert_eq!(w.ffs_truncate(CPU, file, 200_001), Err(Errno::EFBIG.into()));
    w.pwrite(file, 0, &pattern(199_000, 1)).unwrap();
    let other = w.vfs_create(CPU, "/b").unwrap();
    assert_eq!(
        w.pwrite(other, 0, &pattern(199_000, 2)),
        Err(Errno::ENOSPC.into())
    );
    let size = w.vfs.attr(other).size;
    assert!(
        size > 0 && size.is_multiple_of(BLOCK),
        "what fitted is there: {size}"
    );
    assert_eq!(
        w.pread(other, 0, 200_000).unwrap(),
        pattern(199_000, 2)[..size as usize]
    );
    w.vfs_create(CPU, "/c").unwrap();
    assert_eq!(w.vfs_create(CPU, "/d"), Err(Errno::ENOSPC.into()));
    w.check();
    w.vfs_unlink(CPU, "/b").unwrap();
    w.vfs_create(CPU, "/d").unwrap();
    w.check();
}

#[test]
fn a_bad_user_address_stops_a_transfer_where_it_is() {
    let mut w = World::new(FLUSH);
    let text = pattern(50_000, 9);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    let end = w.user.add(63 * PAGE);
    let mut uio = vm::Uio::user_read(end, 2 * PAGE, 0);
    let efault = Err(Stop::Errno(Errno::EFAULT));
    assert_eq!(w.ffs_read(CPU, file, &mut uio, IoFlags::empty(), 1), efault);
    assert_eq!(uio.resid, PAGE);
    let mut uio = vm::Uio::user_write(end, BLOCK, 0);
    assert_eq!(
        w.ffs_write(CPU, file, &mut uio, IoFlags::empty(), 1),
        efault
    );
    let mut uio = vm::Uio::user_write(VirtAddr(0xd010_0000), 16, 50_000);
    assert_eq!(
        w.ffs_write(CPU, file, &mut uio, IoFlags::empty(), 1),
        efault
    );
    assert_eq!(w.vfs.attr(file).size, 50_000);
    assert_eq!(
        w.pread(file, u64::from(BLOCK), 100).unwrap(),
        text[BLOCK as usize..][..100]
    );
    w.check();
}

#[test]
fn direct_reads_leave_nothing_mapped() {
    let mut w = World::new(FLUSH);
    let text = pattern(40_000, 10);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    assert_eq!(
        w.pread_with(file, 0, 40_000, IoFlags::DIRECT).unwrap(),
        text
    );
    assert_eq!(w.vm.object(w.vfs.object(file).unwrap()).resident, 0);
    w.check();
}

#[test]
fn a_4_kb_read_with_read_ahead_maps_up_to_ten_blocks() {
    let mut w = World::with(FLUSH, |c| c.read_ahead = CLUSTER);
    let text = pattern(512 * 1024, 11);
    let file = w.vfs.fs_add_file("/lib/libc.so", &text).unwrap();
    assert_eq!(w.pread(file, 0, 4096).unwrap(), text[..4096]);
    let object = w.vfs.object(file).unwrap();
    let resident = w.vm.object(object).resident;
    assert_eq!(
        resident,
        4 + 8 * 4,
        "one block, and a cluster of 128 KB behind it"
    );
    let mapped = (0..resident).filter(|n| w.kernel_mappings(file, *n) == 1);
    assert_eq!(mapped.count(), 36, "the cluster's own mapping is gone");
    w.check();
}

#[test]
fn clustered_reads_and_writes_move_the_same_bytes() {
    for mode in [DiskMode::Immediate, DiskMode::Queued] {
        let mut w = World::with(FLUSH, |c| {
            c.read_ahead = CLUSTER;
            c.disk_mode = mode;
        });
        let text = pattern(250_000, 12);
        let file = w.vfs.fs_add_file("/a", &text).unwrap();
        let copy = w.awake(|w| w.vfs_create(CPU, "/b")).unwrap();
        let data = w.pread(file, 0, 250_000).unwrap();
        assert_eq!(data, text);
        w.pwrite(copy, 0, &data).unwrap();
        assert!(w.charged.contains(&"cluster_rbuild"));
        w.awake(|w| w.ffs_fsync(CPU, copy)).unwrap();
        assert!(w.charged.contains(&"cluster_wbuild"));
        assert_eq!(w.vfs.on_disk(copy), text);
        assert_eq!(w.vfs.bufs.dirty_count(), 0);
        w.check();
    }
}

#[test]
fn a_queued_disk_makes_callers_sleep_and_changes_no_byte() {
    let mut w = World::with(FLUSH, |c| c.disk_mode = DiskMode::Queued);
    let text = pattern(60_000, 13);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    let mut uio = vm::Uio::user_read(w.user, 10, 0);
    let first = w.ffs_read(CPU, file, &mut uio, IoFlags::empty(), 1);
    assert!(matches!(first, Err(Stop::Wait(_))));
    assert_eq!(w.vfs.disk.queued().len(), 1);
    assert_eq!(w.pread(file, 0, 60_000).unwrap(), text);
    let va = w.map_file(file, Prot::READ, MapFlags::PRIVATE);
    assert_eq!(
        w.peek(va.add(3 * BLOCK)).unwrap().to_le_bytes(),
        text[3 * BLOCK as usize..][..4]
    );
    w.buf_recycle(CPU, None);
    let other = w.vfs.fs_add_file("/b", &text).unwrap();
    let va = w.map_file(other, Prot::READ, MapFlags::PRIVATE);
    assert!(matches!(
        w.vm_fault(CPU, w.space, va, Access::Load),
        Err(Stop::Wait(_))
    ));
    assert_eq!(w.peek(va).unwrap().to_le_bytes(), text[..4]);
    w.pwrite_with(file, 5, b"sync", IoFlags::SYNC).unwrap();
    while w.disk_interrupt(CPU).unwrap() {}
    assert_eq!(w.vfs.on_disk(file)[5..9], *b"sync");
    w.check();
}

#[test]
fn few_buffers_are_recycled_and_dirty_ones_written() {
    for mode in [DiskMode::Immediate, DiskMode::Queued] {
        let mut w = World::with(FLUSH, |c| {
            c.nbuf = 3;
            c.disk_mode = mode;
        });
        let text = pattern(200_000, 14);
        let file = w.vfs.fs_add_file("/a", &text).unwrap();
        assert_eq!(w.pread(file, 0, 200_000).unwrap(), text);
        for n in 0..10 {
            w.pwrite(file, n * 17_000, b"mark").unwrap();
        }
        let mut model = text;
        for n in 0..10 {
            model[n * 17_000..n * 17_000 + 4].copy_from_slice(b"mark");
        }
        assert_eq!(w.pread(file, 0, 200_000).unwrap(), model);
        w.awake(|w| w.ffs_fsync(CPU, file)).unwrap();
        assert_eq!(w.vfs.on_disk(file), model);
        w.check();
    }
}

#[test]
fn every_transfer_is_handed_over_and_given_back() {
    let mut w = World::new(FLUSH);
    let file = w.vfs.fs_add_file("/a", &pattern(20_000, 15)).unwrap();
    w.pread(file, 0, 20_000).unwrap();
    w.pwrite_with(file, 0, b"x", IoFlags::SYNC).unwrap();
    let count = |f: fn(&&Mark) -> bool| w.marks.iter().filter(f).count();
    let begun = count(|m| matches!(m, Mark::DmaInBegin { .. } | Mark::DmaOutBegin { .. }));
    assert_eq!(begun, count(|m| matches!(m, Mark::DmaEnd { .. })));
    assert_eq!(count(|m| matches!(m, Mark::DmaInBegin { .. })), 4 + 1);
    let on = count(|m| matches!(m, Mark::ForProgram(true)));
    assert_eq!(on, count(|m| matches!(m, Mark::ForProgram(false))));
    assert!(on >= 2, "one for each block read");
    w.check();
}

#[test]
fn bad_configurations_are_refused_with_the_field() {
    let w = World::new("none");
    let good = w.vfs.config;
    let bad: [fn(&mut VfsConfig); 4] = [
        |c| c.block_bytes = 0,
        |c| c.fragment_bytes = 3000,
        |c| c.nbuf = 0,
        |c| c.disk_blocks = u32::MAX,
    ];
    for change in bad {
        let mut config = good;
        change(&mut config);
        let error = vfs_sim::Vfs::new(config).unwrap_err();
        assert!(error.contains("expected"), "{error}");
    }
    assert_eq!(VfsConfig::nbuf(512 << 20), 3941);
}

#[test]
fn equal_inputs_give_equal_worlds() {
    let run = || {
        let mut w = World::with("freebsd-2010", |c| c.read_ahead = CLUSTER);
        let file = w.vfs.fs_add_file("/a", &pattern(200_000, 16)).unwrap();
        w.pread(file, 0, 30_000).unwrap();
        w.pwrite(file, 100, b"abc").unwrap();
        let pmap = w.vm.pmap_of(w.space);
        assert!(w.pmap_extract(pmap, w.user).is_some());
        (
            w.machine.fingerprint(),
            w.vm().fingerprint(),
            w.vfs().fingerprint(),
        )
    };
    assert_eq!(run(), run());
}

/// B26: what write-protects a page for cleaning write-protects its buffer's mapping too. msync comes
/// there with soft updates, whose buffers linger; bufdaemon comes there without. The panic waits until
/// the TLB has forgotten the kernel's mapping, which nobody flushes (B23).
#[test]
fn cleaning_a_shared_page_makes_the_next_write_panic_under_freebsd_2010() {
    for soft_updates in [true, false] {
        let mut w = World::with("freebsd-2010", |c| c.soft_updates = soft_updates);
        let file = w.vfs.fs_add_file("/a", &pattern(9000, 17)).unwrap();
        w.pwrite(file, 0, b"one").unwrap();
        let va = w.map_file(file, Prot::READ | Prot::WRITE, MapFlags::SHARED);
        w.copyout_bytes(CPU, b"two", va).unwrap();
        match soft_updates {
            true => w.vm_msync(CPU, w.space, va, PAGE, false).unwrap(),
            false => w.buf_daemon(CPU, 0).unwrap(),
        }
        assert_eq!(w.kernel_mappings(file, 0), 1, "the buffer lingers");
        assert_eq!(w.clone().pwrite(file, 0, b"three"), Ok(()));
        w.step(CPU, machine::Step::TlbAll);
        let again = w.pwrite(file, 0, b"three");
        assert!(
            matches!(&again, Err(Stop::Panic(why)) if why.contains("nofault")),
            "{again:?}"
        );
    }
}

/// seeds/001: the page of a running program goes uncached when its file is read, and comes back when
/// the buffer is recycled.
#[test]
fn reading_a_programs_file_makes_its_pages_uncached_under_freebsd_2010() {
    let mut w = World::new("freebsd-2010");
    let file = w.vfs.fs_add_file("/bin/a", &pattern(9000, 18)).unwrap();
    let va = w.map_file(file, Prot::READ | Prot::EXEC, MapFlags::PRIVATE);
    w.vm_fault(CPU, w.space, va, Access::Fetch).unwrap();
    let frame = w.vm.lookup(w.vfs.object(file).unwrap(), 0).unwrap();
    let cached = |w: &World| {
        let user = |m: &&pmap::PvEntry| !m.space.is_kernel();
        w.pmap
            .mappings(frame)
            .filter(user)
            .all(|m| m.pte.cacheable())
    };
    assert!(cached(&w), "exec alone poisons nothing");
    w.pread(file, 0, 100).unwrap();
    assert!(!cached(&w), "the buffer's writable mapping lingers");
    w.buf_recycle(CPU, None);
    assert!(cached(&w), "recycling restores speed");
    w.check();
}

#[test]
fn a_tiny_machine_reads_and_writes_a_block() {
    let mut machine = machine::Machine::new(machine::Profile::embedded("tiny-vivt").unwrap());
    let pmap = pmap::Pmap::bootstrap(&mut machine);
    let config = VfsConfig::new(machine.profile(), &pmap.layout);
    let mut w = World::new(FLUSH);
    w.vm = vm::Vm::for_layout(&pmap.layout);
    w.vfs = vfs_sim::Vfs::new(config).unwrap();
    (w.machine, w.pmap) = (machine, pmap);
    w.marks.clear();
    let text = pattern(40, 19);
    let file = w.vfs.fs_add_file("/a", &text).unwrap();
    let block = config.block_bytes;
    let buf = w.bread(CPU, file, 0, block, vfs_sim::Intent::Write);
    if config.buffer_map.bytes < block {
        assert_eq!(buf, Err(Errno::ENOMEM.into()));
        return;
    }
    let buf = buf.unwrap();
    let mut out = vec![0; block as usize];
    let va = w.vfs.bufs.get(buf).kva;
    w.kernel_read(CPU, va, &mut out).unwrap();
    assert_eq!(out, text[..block as usize]);
    w.kernel_store(CPU, va, machine::Width::Word, 0x0403_0201)
        .unwrap();
    w.bwrite(CPU, buf).unwrap();
    assert_eq!(w.vfs.on_disk(file)[..4], [1, 2, 3, 4]);
    assert_eq!(w.buf_recycle(CPU, None), 1);
    w.check();
}
