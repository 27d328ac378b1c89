//! Where a policy is asked, and what it is shown.

use machine::{Access, Frame, Pte, VirtAddr};

use crate::count::Counts;
use crate::types::{PvFlags, SpaceId};
use crate::verbs::{BufferEvent, DmaOp, KernelUse};

/// Which verb asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Verb {
    /// `pmap_enter`, `pmap_enter_quick`.
    Enter,
    /// `pmap_remove`.
    Remove,
    /// `pmap_remove_all`.
    RemoveAll,
    /// `pmap_remove_pages`.
    RemovePages,
    /// `pmap_protect`.
    Protect,
    /// `pmap_clearbit` for the write bit.
    ClearWrite,
    /// `pmap_clearbit` for the modified bit.
    ClearModify,
    /// `pmap_clearbit` for the referenced bit.
    ClearReference,
    /// `pmap_fault_fixup`.
    Fixup,
    /// `pmap_kenter`.
    Kenter,
    /// `pmap_kremove`.
    Kremove,
    /// `pmap_qenter`.
    Qenter,
    /// `pmap_qremove`.
    Qremove,
    /// A policy changes a buffer's mapping.
    Buffer,
    /// `pmap_release`.
    Release,
}

/// One moment at which the rule is asked. Unless it says otherwise, the view is of the page and the
/// mapping concerned, as they are at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// A mapping is on the page's list (or, untracked, alone in `pv_kva`) and its entry is stored.
    Entered,
    /// A mapping's WRITE flag flipped.
    Changed,
    /// A mapping is off the list; these were its flags.
    Left(PvFlags),
    /// An entry that is valid will be replaced.
    WillStore {
        /// By which verb.
        verb: Verb,
        /// As it is.
        old: Pte,
        /// As it will be.
        new: Pte,
    },
    /// It was.
    Stored {
        /// By which verb.
        verb: Verb,
        /// As it was.
        old: Pte,
        /// As it is.
        new: Pte,
    },
    /// An entry will be zeroed.
    WillLeave {
        /// By which verb.
        verb: Verb,
        /// How many this verb call has zeroed before it.
        nth: u32,
    },
    /// An entry was zeroed; only skeletons that have the part ask.
    Gone {
        /// By which verb.
        verb: Verb,
        /// How many this verb call has zeroed before it.
        nth: u32,
    },
    /// A verb over a range begins.
    Begins {
        /// Which.
        verb: Verb,
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u32,
    },
    /// It ends, having changed so many entries.
    Ends {
        /// Which.
        verb: Verb,
        /// How many.
        pages: u32,
        /// First address.
        start: VirtAddr,
        /// Bytes.
        len: u32,
    },
    /// The page is about to be mapped or unmapped as part of a buffer.
    Page(Verb),
    /// A fault was taken on an entry whose rights the pmap cannot give back by itself: the rule may.
    Fault(Access),
    /// A fault was taken and the pmap repaired the entry.
    Fixed(Access),
    /// The kernel is about to use a range of its own addresses.
    Will(KernelUse, VirtAddr, u32),
    /// It has. Both are asked for each page of the range.
    Did(KernelUse, VirtAddr, u32),
    /// A page is to be zeroed.
    Zero(Frame),
    /// A page is to be copied.
    Copy(Frame, Frame),
    /// busdma, for the range given at load time.
    Dma(DmaOp, VirtAddr, u32),
    /// A buffer's page, at its kernel address.
    Buffer(BufferEvent, VirtAddr),
    /// The CPU goes to another space; `lazy` to a kernel thread.
    Switch {
        /// To a kernel thread.
        lazy: bool,
        /// The new space is live already.
        same: bool,
        /// Both spaces share a first-level table.
        same_table: bool,
    },
    /// The process that runs gets a new space (exec): `cpu_setttb`.
    Activate,
    /// The program asked for its range to be synced.
    Sync(VirtAddr, u32),
}

/// One mapping as the rule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Whose.
    pub space: SpaceId,
    /// Where.
    pub va: VirtAddr,
    /// Flags.
    pub flags: PvFlags,
    /// The entry as stored.
    pub pte: Pte,
    /// The space is the kernel's or that of the process that runs.
    pub current: bool,
    /// The hardware may still hold its lines and translations.
    pub live: bool,
}

/// The moment's state.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The page's mappings in pv order, newest first.
    pub mappings: &'a [Mapping],
    /// The page's only mapping, if it is one that is not tracked.
    pub kva: Option<Mapping>,
    /// The mapping the hook is about; it may be off the list already.
    pub subject: Option<Mapping>,
    /// The page.
    pub frame: Option<Frame>,
    /// A policy's own bits of the page.
    pub bits: u8,
    /// The page's mappings counted, as the skeleton counts them.
    pub counts: Counts,
    /// Every mapping of the page is to be uncached (FreeBSD 2013 `pv_memattr`).
    pub uncacheable: bool,
}

/// What never changes on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Page size, bytes.
    pub page: u32,
    /// Source and destination windows.
    pub scratch: [VirtAddr; 2],
    /// Whether there is a second level.
    pub l2: bool,
}
