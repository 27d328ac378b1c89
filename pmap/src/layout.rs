//! Where the kernel's addresses and the physical memory are.
//!
//! With ARM tables: the kernel's text and data are sections at 0xc0000000; page tables lie in a section
//! of their own, mapped write-through (C = 1, B = 0) as FreeBSD's `pmap_pte_init_generic` does; second
//! level tables for the kernel's own map exist from boot, so that no first-level table ever lacks one.
//! Real kernels map their tables with small pages and grow the kernel map on demand; that costs a few
//! TLB entries and faults that are left out here.

use machine::profile::TableProfile;
use machine::{PhysAddr, Profile, VirtAddr};

const MB: u32 = 1 << 20;

/// The kernel's address map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Page size, bytes.
    pub page: u32,
    /// First address that belongs to the kernel.
    pub kernel_base: VirtAddr,
    /// Kernel text and data, mapped by sections; 0 bytes under flat tables.
    pub text: (VirtAddr, u32),
    /// Kernel data that footprints touch, inside the section area.
    pub data: (VirtAddr, u32),
    /// Page tables: virtual and physical start, and bytes; 0 under flat tables.
    pub tables: (VirtAddr, PhysAddr, u32),
    /// Two page-sized windows, source and destination, for zeroing and copying.
    pub scratch: [VirtAddr; 2],
    /// sf_bufs.
    pub sf_map: (VirtAddr, u32),
    /// Pager buffers.
    pub pager_map: (VirtAddr, u32),
    /// Buffer cache.
    pub buffer_map: (VirtAddr, u32),
    /// The page of the exception vectors and what follows it (helper page, thread-pointer page).
    pub vectors: VirtAddr,
    /// First address after the kernel's map.
    pub kernel_end: VirtAddr,
    /// First frame that the VM may give out.
    pub first_frame: u32,
    /// First frame after them.
    pub end_frame: u32,
    /// First address after the user's.
    pub user_end: VirtAddr,
}

impl Layout {
    /// The layout of a machine.
    pub fn new(profile: &Profile) -> Self {
        match profile.table {
            TableProfile::ArmShort => Self::arm(profile),
            TableProfile::Flat {
                user_pages,
                kernel_pages,
                ..
            } => Self::flat(profile, user_pages, kernel_pages),
        }
    }

    fn arm(profile: &Profile) -> Self {
        let at = |offset: u32| VirtAddr(0xd000_0000 + offset);
        let buffers = (profile.memory / 8).min(64 * MB);
        Self {
            page: profile.page,
            kernel_base: VirtAddr(0xc000_0000),
            text: (VirtAddr(0xc000_0000), 2 * MB),
            data: (VirtAddr(0xc020_0000), 2 * MB),
            tables: (VirtAddr(0xc040_0000), PhysAddr(4 * MB), 4 * MB),
            scratch: [at(0), at(profile.page)],
            sf_map: (at(MB), MB),
            pager_map: (at(2 * MB), 2 * MB),
            buffer_map: (at(4 * MB), buffers),
            vectors: VirtAddr(0xffff_0000),
            kernel_end: at(4 * MB + buffers),
            first_frame: 8 * MB / profile.page,
            end_frame: profile.frames(),
            user_end: VirtAddr(0xc000_0000),
        }
    }

    fn flat(profile: &Profile, user: u32, kernel: u32) -> Self {
        let page = profile.page;
        let at = |n: u32| VirtAddr((user + n) * page);
        let rest = kernel.saturating_sub(2);
        Self {
            page,
            kernel_base: at(0),
            text: (at(0), 0),
            data: (at(0), 0),
            tables: (at(0), PhysAddr(0), 0),
            scratch: [at(0), at(1)],
            sf_map: (at(2), 0),
            pager_map: (at(2), rest / 3 * page),
            buffer_map: (at(2 + rest / 3), (rest - rest / 3) * page),
            vectors: at(kernel),
            kernel_end: at(kernel),
            first_frame: 0,
            end_frame: profile.frames(),
            user_end: at(0),
        }
    }

    /// Whether an address is the kernel's.
    pub fn is_kernel(&self, va: VirtAddr) -> bool {
        va >= self.kernel_base
    }

    /// The first address of the page that holds `va`.
    pub fn page_of(&self, va: VirtAddr) -> VirtAddr {
        VirtAddr(va.0 & !(self.page - 1))
    }
}
