//! Skeletons: each verb's order of bookkeeping, hooks and table stores, for a kernel family and era.
//!
//! A verb is a list of parts, carried out in order. Most historic bugs are an order: the list makes it
//! something to print, compare and mutate.

mod freebsd_2006;
mod freebsd_2013;
mod linux;
mod netbsd;

use std::borrow::Cow;

use machine::Pte;

use crate::count::Counting;
use crate::types::PvFlags;

pub use freebsd_2006::{freebsd_2006, freebsd_2006_fixed};
pub use freebsd_2013::{freebsd_2013, freebsd_2016};
pub use linux::linux;
pub use netbsd::netbsd;

/// One part of a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Part {
    /// Put the mapping on the page's list (or into `pv_kva`).
    Track,
    /// Change the mapping's flags; if WRITE flips, ask the rule (`Changed`).
    Retrack,
    /// Change the mapping's flags; the rule is not asked.
    Reflag,
    /// Take the mapping off the list, then ask the rule (`Left`).
    Untrack,
    /// Take the mapping off the list; the rule is not asked.
    Unlink,
    /// Ask the rule before the entry is replaced.
    WillStore,
    /// Zero an entry that will be replaced, if it differs, and sync it: no walk sees the old one after the
    /// TLB flush that follows (break before make).
    Break,
    /// Store the entry, if it differs.
    Store,
    /// Make the stored entry visible to the walk.
    Sync,
    /// Repair the first-level slot, if the space is current.
    FixSlot,
    /// Ask the rule after the entry was replaced.
    Stored,
    /// Ask the rule now that the mapping is entered.
    Entered,
    /// Ask the rule before the entry is zeroed.
    WillLeave,
    /// Zero the entry.
    Zero,
    /// Ask the rule now that the entry is zeroed (`Gone`).
    Gone,
}

/// A list of parts.
pub type Parts = Cow<'static, [Part]>;

/// Whether `pmap_remove_all` takes write permission away before it takes the mappings away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WriteFirst {
    /// No.
    Never,
    /// By `pmap_remove_write`, which does nothing unless a managed mapping may write (B8).
    IfWriteable,
    /// By `pmap_clearbit` in any case.
    Always,
}

/// What busdma does when asked to sync a map whose whole buffer was mapped uncached when it was loaded: the
/// map is marked coherent then, whatever becomes of the mappings later (`pmap-freebsd-netbsd.md` 4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CoherentMap {
    /// It is not marked: every sync is done.
    Unmarked,
    /// Nothing at all, not even a drain (B16).
    Skipped,
    /// The write buffer is drained.
    Drained,
}

/// How a kernel family orders its verbs, and the facts of its bookkeeping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skeleton {
    /// Its name.
    pub name: &'static str,
    /// `pmap_enter` at an address that maps nothing, and the last half of replacing another page.
    pub enter_new: Parts,
    /// `pmap_enter` of the page that is mapped there already.
    pub enter_same: Parts,
    /// `pmap_enter` over another page, first half.
    pub enter_other: Parts,
    /// `pmap_remove`, one page.
    pub remove: Parts,
    /// `pmap_remove_all`, one mapping.
    pub remove_all: Parts,
    /// What `pmap_remove_all` begins with.
    pub remove_all_first: WriteFirst,
    /// `pmap_protect`, one page.
    pub protect: Parts,
    /// `pmap_kenter`; without `Track` in it, these mappings are on no list.
    pub kenter: Parts,
    /// `pmap_kremove`.
    pub kremove: Parts,
    /// Flags of an unmanaged kernel mapping.
    pub kenter_flags: PvFlags,
    /// Whether the WRITE of one that is in `pv_kva` follows its entry, as a policy needs that changes
    /// the write permission of buffers; the kernels give it the flags of a new one.
    pub kva_write_follows: bool,
    /// How mappings are counted.
    pub counting: Counting,
    /// Whether `pmap_clearbit` changes only the flags on the list, not the entries (B9).
    pub clearbit_flags_only: bool,
    /// Whether a page may be marked as uncacheable for every mapping (`pv_memattr`).
    pub memattr: bool,
    /// Whether a switch to a kernel thread leaves the user space live. FreeBSD and OpenBSD: yes; NetBSD
    /// flushes and leaves it (kern/41058).
    pub lazy_switch: bool,
    /// Whether "current" follows the hardware (NetBSD's `ci_pmap_lastuser`, OpenBSD's `pmap_cache_state`)
    /// or the process that runs (FreeBSD: B25). So FreeBSD is lazy and not this, NetBSD this and not lazy,
    /// OpenBSD both, as `freebsd-2010-lazy` is.
    pub current_is_live: bool,
    /// What busdma leaves out for a buffer that was mapped uncached.
    pub coherent_map: CoherentMap,
    /// Whether entering a mapping again that is uncached leaves its entry uncached (else: B24).
    pub sticky_uncached: bool,
    /// Whether `pmap_clearbit` leaves unmanaged kernel mappings alone (else: B26).
    pub clearbit_skips_unmanaged: bool,
    /// Whether `pmap_remove_all` leaves unmanaged kernel mappings on the list (else, of two, one is
    /// forgotten: B27).
    pub remove_all_skips_unmanaged: bool,
    /// Whether `pmap_fault_fixup` looks at kernel addresses, so that the rule can give a buffer its
    /// write permission back when the kernel faults on it (else: B26).
    pub kernel_faults_fixed: bool,
    /// Whether the file layer may leave a buffer without a mapping (GB_UNMAPPED). What is missing: the
    /// file layer copies through the buffer's address all the same, mapped while somebody holds it.
    pub unmapped_buffers: bool,
}

impl Skeleton {
    /// Flags of the mapping in `pv_kva` whose entry this is.
    pub(crate) fn kva_flags(&self, pte: Pte) -> PvFlags {
        let mut flags = self.kenter_flags;
        if self.kva_write_follows {
            flags.set(PvFlags::WRITE, pte.writable());
        }
        flags
    }
}

use Part::*;

/// FreeBSD r1.130, 2010-06, to 2012 (`pmap-freebsd-netbsd.md` 3.2 and 3.4).
pub fn freebsd_2010() -> Skeleton {
    Skeleton {
        name: "freebsd-2010",
        enter_new: Cow::Borrowed(&[Track, Store, Sync, FixSlot, Stored, Entered]),
        enter_same: Cow::Borrowed(&[Retrack, WillStore, Store, Sync, FixSlot, Stored, Entered]),
        enter_other: Cow::Borrowed(&[Untrack, WillLeave]),
        remove: Cow::Borrowed(&[Untrack, WillLeave, Zero, Sync]),
        remove_all: Cow::Borrowed(&[WillLeave, Zero, Sync, Untrack]),
        remove_all_first: WriteFirst::IfWriteable,
        protect: Cow::Borrowed(&[Store, Sync, Retrack, Stored]),
        kenter: Cow::Borrowed(&[Store, Sync, Track, Entered]),
        kremove: Cow::Borrowed(&[Untrack, WillLeave, Zero]),
        kenter_flags: PvFlags::WRITE.union(PvFlags::UNMAN),
        kva_write_follows: false,
        counting: Counting::None,
        clearbit_flags_only: false,
        memattr: false,
        lazy_switch: true,
        current_is_live: false,
        coherent_map: CoherentMap::Skipped,
        sticky_uncached: false,
        clearbit_skips_unmanaged: false,
        remove_all_skips_unmanaged: false,
        kernel_faults_fixed: false,
        unmapped_buffers: false,
    }
}
