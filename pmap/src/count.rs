//! Counts of a page's mappings: kernel or user, writable or not.
//!
//! Kernels before 2008 kept them in the page's record beside its list and decided by them (FreeBSD 2006
//! `md_page.uro_mappings` and its kin, NetBSD `vm_page_md`; `pmap-freebsd-netbsd.md` 1.1). Whatever is
//! kept twice can drift apart: B9 and B10. They are 16 bits wide and wrap, as the kernels' did.

use crate::hook::Mapping;
use crate::types::{PvFlags, SpaceId};

/// How a skeleton counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Counting {
    /// Not at all.
    None,
    /// By walking the list when somebody asks.
    Listed,
    /// In the page's record.
    Kept,
    /// In the page's record, where a mapping of the kernel is counted as one of the user's too when it
    /// comes, but not when it goes (B10: an `else` is missing in `pmap_enter_pv`).
    KeptTwice,
}

/// The counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Counts {
    /// Kernel, read-only.
    pub kernel_read: u16,
    /// Kernel, writable.
    pub kernel_write: u16,
    /// User spaces, read-only.
    pub user_read: u16,
    /// User spaces, writable.
    pub user_write: u16,
}

impl Counts {
    /// Counted on a list.
    pub fn of(mappings: &[Mapping]) -> Self {
        let mut counts = Self::default();
        mappings
            .iter()
            .for_each(|m| counts.add(m.space.is_kernel(), m.flags, 1));
        counts
    }

    /// Mappings of the kernel.
    pub fn kernel(self) -> u32 {
        u32::from(self.kernel_read) + u32::from(self.kernel_write)
    }

    /// Mappings of user spaces.
    pub fn user(self) -> u32 {
        u32::from(self.user_read) + u32::from(self.user_write)
    }

    fn add(&mut self, kernel: bool, flags: PvFlags, change: i16) {
        let count = match (kernel, flags.contains(PvFlags::WRITE)) {
            (true, false) => &mut self.kernel_read,
            (true, true) => &mut self.kernel_write,
            (false, false) => &mut self.user_read,
            (false, true) => &mut self.user_write,
        };
        *count = count.wrapping_add_signed(change);
    }

    /// A mapping came.
    pub(crate) fn entered(&mut self, counting: Counting, space: SpaceId, flags: PvFlags) {
        match counting {
            Counting::None | Counting::Listed => {}
            Counting::Kept => self.add(space.is_kernel(), flags, 1),
            Counting::KeptTwice => {
                self.add(space.is_kernel(), flags, 1);
                if space.is_kernel() {
                    self.add(false, flags, 1);
                }
            }
        }
    }

    /// A mapping went; these were its flags.
    pub(crate) fn left(&mut self, counting: Counting, space: SpaceId, flags: PvFlags) {
        if matches!(counting, Counting::Kept | Counting::KeptTwice) {
            self.add(space.is_kernel(), flags, -1);
        }
    }

    /// A mapping's flags changed.
    pub(crate) fn changed(
        &mut self,
        counting: Counting,
        space: SpaceId,
        (old, new): (PvFlags, PvFlags),
    ) {
        if matches!(counting, Counting::Kept | Counting::KeptTwice) {
            self.add(space.is_kernel(), old, -1);
            self.add(space.is_kernel(), new, 1);
        }
    }

    /// As one number, for fingerprints.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.kernel_read) << 48
            | u64::from(self.kernel_write) << 32
            | u64::from(self.user_read) << 16
            | u64::from(self.user_write)
    }
}
