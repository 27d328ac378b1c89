//! Faults, copy-on-write, maps and limits of the VM, over the real pmap.

#![allow(missing_docs, reason = "a test")]

mod world;

use machine::{Access, Mark, VirtAddr};
use pmap::{PmapVerbs, Prot};
use vm::{Backing, Errno, MapFlags, MmapArgs, Stop, VmCtx, VmVerbs};
use world::{CPU, FILE_PAGES, PAGE, World, efault};

const FLUSH: &str = "always-flush";

fn file_backing(object: vm::ObjectId) -> Backing {
    Backing::Object { object, offset: 0 }
}

#[test]
fn anonymous_memory_reads_as_zero_and_keeps_what_is_stored() {
    let (mut w, space) = World::new(FLUSH);
    let va = w.map(space, Backing::Anonymous, 3 * PAGE, MapFlags::PRIVATE);
    assert_eq!(w.peek(va + PAGE), Ok(0));
    w.poke(va + PAGE + 8, 77).unwrap();
    assert_eq!(w.peek(va + PAGE + 8), Ok(77));
    assert_eq!(w.frame_at(space, va), None);
    w.check();
}

#[test]
fn a_file_mapped_private_is_read_with_neighbours_and_copied_at_the_first_store() {
    let (mut w, space) = World::new(FLUSH);
    let file = w.file();
    let va = w.map(
        space,
        file_backing(file),
        FILE_PAGES * PAGE,
        MapFlags::PRIVATE,
    );
    assert_eq!(w.peek(va + 20 * PAGE + 4), Ok(0x14004));
    assert_eq!(w.paged_in, [(13, 16)]);
    assert!(w.frame_at(space, va + 24 * PAGE).is_some(), "prefaulted");
    assert!(w.frame_at(space, va + 25 * PAGE).is_none());
    let original = w.frame_at(space, va + 20 * PAGE);
    w.poke(va + 20 * PAGE, 5).unwrap();
    assert_ne!(w.frame_at(space, va + 20 * PAGE), original);
    assert_eq!(w.vm.lookup(file, 20), original);
    assert_eq!(w.peek(va + 20 * PAGE), Ok(5));
    assert_eq!(w.peek(va + 20 * PAGE + 4), Ok(0x14004));
    let copied = |m: &Mark| matches!(m, Mark::Copied { .. });
    assert_eq!(w.marks.iter().filter(|m| copied(m)).count(), 1);
    w.check();
}

#[test]
fn prefault_can_be_switched_off() {
    let (mut w, space) = World::new(FLUSH);
    w.vm.config.prefault = false;
    let file = w.file();
    let va = w.map(space, file_backing(file), 8 * PAGE, MapFlags::PRIVATE);
    w.peek(va + PAGE).unwrap();
    assert!(w.frame_at(space, va + 2 * PAGE).is_none());
}

#[test]
fn msync_writes_what_was_stored_through_a_shared_mapping_and_a_later_store_is_noticed() {
    let (mut w, space) = World::new(FLUSH);
    let file = w.file();
    let va = w.map(space, file_backing(file), 8 * PAGE, MapFlags::SHARED);
    for page in [2, 3, 6] {
        w.poke(va + page * PAGE, page).unwrap();
    }
    w.vm_msync(CPU, space, VirtAddr(va), 8 * PAGE, false)
        .unwrap();
    assert_eq!(w.paged_out, [(2, 2), (6, 1)]);
    w.vm_msync(CPU, space, VirtAddr(va), 8 * PAGE, false)
        .unwrap();
    assert_eq!(w.paged_out.len(), 2);
    w.poke(va + 3 * PAGE, 9).unwrap();
    w.vm_msync(CPU, space, VirtAddr(va), 8 * PAGE, true)
        .unwrap();
    assert_eq!(w.paged_out[2..], [(3, 1)]);
    assert_eq!(w.vm.lookup(file, 3), None);
    w.check();
}

#[test]
fn fork_shares_until_either_side_stores_and_the_chain_folds_when_the_child_is_gone() {
    let (mut w, parent) = World::new(FLUSH);
    let va = w.map(parent, Backing::Anonymous, 2 * PAGE, MapFlags::PRIVATE);
    w.poke(va, 1).unwrap();
    w.poke(va + PAGE, 2).unwrap();
    let child = w.vmspace_fork(CPU, parent).unwrap();
    w.poke(va, 10).unwrap();
    w.vmspace_switch(CPU, Some(child));
    assert_eq!(w.peek(va), Ok(1));
    w.poke(va + PAGE, 20).unwrap();
    w.check();
    w.vmspace_switch(CPU, Some(parent));
    assert_eq!((w.peek(va), w.peek(va + PAGE)), (Ok(10), Ok(2)));
    w.vmspace_free(CPU, child);
    w.poke(va + PAGE, 3).unwrap();
    assert_eq!((w.peek(va), w.peek(va + PAGE)), (Ok(10), Ok(3)));
    w.check();
    let free = w.vm.free_pages();
    for _ in 0..5 {
        let child = w.vmspace_fork(CPU, parent).unwrap();
        w.vmspace_switch(CPU, Some(child));
        w.poke(va, 4).unwrap();
        w.vmspace_switch(CPU, Some(parent));
        w.vmspace_free(CPU, child);
        w.poke(va, 5).unwrap();
    }
    assert_eq!(
        w.vm.free_pages(),
        free,
        "generations of forks leave nothing behind"
    );
    w.check();
}

#[test]
fn shared_anonymous_memory_stays_shared_over_fork() {
    let (mut w, parent) = World::new(FLUSH);
    let va = w.map(parent, Backing::Anonymous, PAGE, MapFlags::SHARED);
    let child = w.vmspace_fork(CPU, parent).unwrap();
    w.poke(va, 6).unwrap();
    w.vmspace_switch(CPU, Some(child));
    assert_eq!(w.peek(va), Ok(6));
    w.check();
}

#[test]
fn rights_are_refused_taken_away_and_given_back() {
    let (mut w, space) = World::new(FLUSH);
    let va = w.map(space, Backing::Anonymous, 4 * PAGE, MapFlags::PRIVATE);
    w.poke(va + PAGE, 1).unwrap();
    w.vm_mprotect(CPU, space, VirtAddr(va + PAGE), PAGE, Prot::READ)
        .unwrap();
    assert_eq!(w.poke(va + PAGE, 2), efault());
    assert_eq!(w.peek(va + PAGE), Ok(1));
    w.vm_mprotect(CPU, space, VirtAddr(va), 4 * PAGE, Prot::READ | Prot::WRITE)
        .unwrap();
    assert_eq!(w.poke(va + PAGE, 2), Ok(()));
    assert_eq!(
        w.vm_fault(CPU, space, VirtAddr(va), Access::Fetch),
        Err(Errno::EACCES.into())
    );
    let hole = w.vm_mprotect(CPU, space, VirtAddr(va), 9 * PAGE, Prot::READ);
    assert_eq!(hole, Err(Errno::ENOMEM.into()));
    w.check();
}

#[test]
fn munmap_in_the_middle_frees_its_pages_and_leaves_the_rest() {
    let (mut w, space) = World::new(FLUSH);
    let va = w.map(space, Backing::Anonymous, 4 * PAGE, MapFlags::PRIVATE);
    for page in 0..4 {
        w.poke(va + page * PAGE, page + 1).unwrap();
    }
    let free = w.vm.free_pages();
    w.vm_munmap(CPU, space, VirtAddr(va + PAGE), 2 * PAGE)
        .unwrap();
    assert_eq!(w.vm.free_pages(), free + 2);
    assert_eq!(w.peek(va + PAGE), efault());
    assert_eq!((w.peek(va), w.peek(va + 3 * PAGE)), (Ok(1), Ok(4)));
    w.check();
    w.vm_munmap(CPU, space, VirtAddr(va), 4 * PAGE).unwrap();
    assert_eq!(w.vm.free_pages(), free + 4);
    w.check();
}

#[test]
fn bad_ranges_are_errors() {
    let (mut w, space) = World::new(FLUSH);
    let args = MmapArgs {
        addr: VirtAddr(0x3001),
        len: PAGE,
        prot: Prot::READ,
        max_prot: Prot::all(),
        flags: MapFlags::PRIVATE | MapFlags::FIXED,
        backing: Backing::Anonymous,
    };
    let invalid = Err(Stop::Errno(Errno::EINVAL));
    assert_eq!(w.vm_mmap(CPU, space, args), invalid);
    let cases = [
        (VirtAddr(0xbfff_f000), 2 * PAGE),
        (VirtAddr(0xffff_f000), PAGE),
        (VirtAddr(0x3000), u32::MAX),
    ];
    for (addr, len) in cases {
        assert!(
            w.vm_mmap(CPU, space, MmapArgs { addr, len, ..args })
                .is_err()
        );
    }
    let both = MapFlags::SHARED | MapFlags::PRIVATE;
    let args = MmapArgs {
        flags: both,
        ..args
    };
    assert_eq!(w.vm_mmap(CPU, space, args), invalid);
    assert_eq!(w.peek(0xc000_0000), efault());
    assert_eq!(w.peek(0xffff_fffc), efault());
    w.check();
}

#[test]
fn a_held_store_overrides_write_protection_of_private_memory_only() {
    let (mut w, space) = World::new(FLUSH);
    let file = w.file();
    let at = |w: &mut World, flags| w.map(space, file_backing(file), PAGE, flags);
    let private = at(&mut w, MapFlags::PRIVATE);
    let shared = at(&mut w, MapFlags::SHARED);
    for va in [private, shared] {
        w.vm_mprotect(CPU, space, VirtAddr(va), PAGE, Prot::READ)
            .unwrap();
        assert!(w.poke(va, 1).is_err(), "the program itself may not");
    }
    let frame = w
        .vm_fault_hold(CPU, space, VirtAddr(private), Access::Store)
        .unwrap();
    assert_ne!(w.vm.lookup(file, 0), Some(frame), "a copy of its own");
    assert_eq!(w.frame_at(space, private), Some(frame));
    w.vm_page_unwire(frame);
    assert!(w.poke(private, 1).is_err(), "it stays read-only");
    let held = w.vm_fault_hold(CPU, space, VirtAddr(shared), Access::Store);
    assert_eq!(held, Err(Errno::EACCES.into()));
    w.check();
}

#[test]
fn a_stack_grows_to_its_limit() {
    let (mut w, space) = World::new(FLUSH);
    let top = VirtAddr(0xbfff_f000);
    let prot = Prot::READ | Prot::WRITE;
    w.vm_map_stack(CPU, space, top, PAGE, 16 * PAGE, prot)
        .unwrap();
    w.poke(top.0 - 4, 1).unwrap();
    w.poke(top.0 - 5 * PAGE, 2).unwrap();
    assert_eq!(w.peek(top.0 - 3 * PAGE), Ok(0));
    assert_eq!(w.poke(top.0 - 17 * PAGE, 3), efault());
    assert_eq!(w.peek(top.0 - 4), Ok(1));
    w.check();
}

#[test]
fn out_of_frames_is_an_error_and_a_clean_file_page_is_taken_first() {
    let (mut w, space) = World::with_frames("none", 6);
    let file = w.file();
    let text = w.map(space, file_backing(file), 4 * PAGE, MapFlags::PRIVATE);
    w.vm.config.read_ahead = 0;
    w.vm.config.read_behind = 0;
    let va = w.map(space, Backing::Anonymous, 16 * PAGE, MapFlags::PRIVATE);
    w.peek(text).unwrap();
    let mut stored = 0;
    let end = loop {
        match w.poke(va + stored * PAGE, stored) {
            Ok(()) => stored += 1,
            Err(stop) => break stop,
        }
    };
    assert_eq!((stored, end), (6, Errno::ENOMEM.into()));
    assert_eq!(w.vm.lookup(file, 0), None, "the file's page was taken");
    assert_eq!(w.peek(va + 5 * PAGE), Ok(5));
    w.check();
    w.vmspace_clear(CPU, space);
    assert_eq!(w.vm.free_pages(), 6);
    w.check();
}

#[test]
fn a_kernel_address_that_is_not_mapped_panics_and_a_users_does_not() {
    let (mut w, _) = World::new(FLUSH);
    let hole = VirtAddr(0xd080_0000);
    assert!(matches!(
        w.kernel_store(CPU, hole, machine::Width::Word, 1),
        Err(Stop::Panic(_))
    ));
    assert!(w.marks.iter().any(|m| matches!(m, Mark::Panic(_))));
    let (mut w, _) = World::new(FLUSH);
    assert_eq!(w.copyout_bytes(CPU, &[1], hole), efault());
    assert!(!w.marks.iter().any(|m| matches!(m, Mark::Panic(_))));
}

#[test]
fn copies_go_through_kernel_mappings_at_any_alignment() {
    let (mut w, space) = World::new(FLUSH);
    let va = w.map(space, Backing::Anonymous, 3 * PAGE, MapFlags::PRIVATE);
    let frame = w.vm_page_alloc(CPU, None, 0).unwrap();
    let kva = w.pmap.layout.sf_map.0;
    w.pmap_kenter(CPU, kva, frame);
    w.kernel_zero(CPU, kva, PAGE).unwrap();
    let text: Vec<u8> = (0..100u8).map(|n| n | 1).collect();
    w.copyout_bytes(CPU, &text, VirtAddr(va + PAGE - 31))
        .unwrap();
    w.copyin(CPU, VirtAddr(va + PAGE - 31), kva.add(2), 100)
        .unwrap();
    let mut back = vec![0; 100];
    w.copyout(CPU, kva.add(2), VirtAddr(va + 2 * PAGE - 50), 100)
        .unwrap();
    w.copyin_bytes(CPU, VirtAddr(va + 2 * PAGE - 50), &mut back)
        .unwrap();
    assert_eq!(back, text);
    w.kernel_read(CPU, kva.add(2), &mut back).unwrap();
    assert_eq!(back, text);
    w.copyout_bytes(CPU, b"/bin/cat\0", VirtAddr(va + PAGE - 4))
        .unwrap();
    assert_eq!(
        w.copyinstr(CPU, VirtAddr(va + PAGE - 4), 64),
        Ok(b"/bin/cat".to_vec())
    );
    let long = w.copyinstr(CPU, VirtAddr(va + PAGE - 4), 8);
    assert_eq!(long, Err(Errno::ENAMETOOLONG.into()));
    w.pmap_kremove(CPU, kva);
    w.check();
}

#[test]
fn equal_inputs_give_equal_fingerprints_and_a_clone_goes_its_own_way() {
    let run = || {
        let (mut w, space) = World::new("freebsd-2010");
        let file = w.file();
        let va = w.map(space, file_backing(file), 8 * PAGE, MapFlags::PRIVATE);
        w.poke(va + PAGE, 3).unwrap();
        (w, va)
    };
    let ((a, _), (mut b, va)) = (run(), run());
    assert_eq!(a.vm().fingerprint(), b.vm().fingerprint());
    let c = b.clone();
    b.poke(va + 4 * PAGE, 1).unwrap();
    assert_eq!(a.vm().fingerprint(), c.vm().fingerprint());
    assert_ne!(b.vm().fingerprint(), c.vm().fingerprint());
    assert_eq!(World::KERNEL, pmap::SpaceId(0));
}
