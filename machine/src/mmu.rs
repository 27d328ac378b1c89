//! Descriptors and the table walk: ARM short descriptors (ARM ARM DDI0100, part B4), or a flat array
//! on tiny machines. Fine tables, tiny and large pages and unequal sub-page permissions are left out:
//! neither kernel modelled here writes them.

use crate::memory::Memory;
use crate::tlb::TlbEntry;
use crate::types::{Fault, Frame, PhysAddr};

/// A page-table entry as stored: a small-page descriptor. Under flat tables the frame number stands
/// where the page address would.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pte(pub u32);

const TYPE: u32 = 3;
const SMALL: u32 = 2;
const B: u32 = 1 << 2;
const C: u32 = 1 << 3;
const AP: u32 = 0xff0;

/// Access permissions (S = 1, R = 0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Ap {
    /// Kernel read-only, user nothing.
    KernelRead = 0,
    /// Kernel read and write, user nothing.
    Kernel = 1,
    /// Kernel read and write, user read-only.
    UserRead = 2,
    /// Both read and write.
    User = 3,
}

impl Pte {
    /// The entry that maps nothing.
    pub const ZERO: Pte = Pte(0);

    /// A valid entry, cacheable and write-back.
    pub fn new(frame: Frame, ap: Ap) -> Self {
        Pte(frame.0 << 12 | SMALL | C | B).with_ap(ap)
    }

    /// Whether the hardware uses it.
    pub fn valid(self) -> bool {
        self.0 & TYPE == SMALL
    }

    /// Whether it is not zero: it names a frame even if the hardware faults on it (reference
    /// emulation).
    pub fn present(self) -> bool {
        self.0 != 0
    }

    /// The frame it names.
    pub fn frame(self) -> Frame {
        Frame(self.0 >> 12)
    }

    /// Its access permission field.
    pub fn ap(self) -> u8 {
        (self.0 >> 4 & 3) as u8
    }

    /// Whether anybody but the kernel may use it.
    pub fn user(self) -> bool {
        self.ap() >= 2
    }

    /// Whether its owner may write through it: the kernel for a kernel entry, the user for a user
    /// entry.
    pub fn writable(self) -> bool {
        self.ap() & 1 == 1
    }

    /// C: cacheable.
    pub fn cacheable(self) -> bool {
        self.0 & C != 0
    }

    /// The entry with other permissions.
    pub fn with_ap(self, ap: Ap) -> Self {
        Pte((self.0 & !AP) | (ap as u32 * 0x550))
    }

    /// The entry with the write permission of its owner on or off.
    pub fn with_write(self, on: bool) -> Self {
        let ap = u32::from(self.ap()) & 2 | u32::from(on);
        Pte((self.0 & !AP) | (ap * 0x550))
    }

    /// The entry with C and B on (write-back) or off.
    pub fn with_cache(self, on: bool) -> Self {
        Pte(if on {
            self.0 | C | B
        } else {
            self.0 & !(C | B)
        })
    }

    /// The entry made valid, or invalid but still naming its frame.
    pub fn with_valid(self, on: bool) -> Self {
        Pte(self.0 & !TYPE | if on { SMALL } else { 0 })
    }

    /// The TLB's copy of a valid entry for a page of `page` bytes.
    pub fn to_tlb(self, va: u32, page: u32, flat: bool, domain: u8) -> TlbEntry {
        let base = if flat {
            self.frame().0 * page
        } else {
            self.0 & 0xffff_f000
        };
        TlbEntry {
            tag: va & !(page - 1),
            mask: !(page - 1),
            base,
            ap: self.ap(),
            domain,
            cacheable: self.cacheable(),
            bufferable: self.0 & B != 0,
        }
    }
}

/// A first-level descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct L1Descriptor(pub u32);

impl L1Descriptor {
    /// Points to a second-level table of 1 KB.
    pub fn coarse(table: PhysAddr, domain: u8) -> Self {
        Self(table.0 & 0xffff_fc00 | u32::from(domain) << 5 | 1 << 4 | 1)
    }

    /// Maps 1 MB for the kernel.
    pub fn section(base: PhysAddr, domain: u8, ap: Ap, cacheable: bool, bufferable: bool) -> Self {
        let cb = u32::from(cacheable) << 3 | u32::from(bufferable) << 2;
        Self(base.0 & 0xfff0_0000 | (ap as u32) << 10 | u32::from(domain) << 5 | 1 << 4 | cb | 2)
    }

    /// The second-level table it points to.
    pub fn table(self) -> Option<PhysAddr> {
        (self.0 & 3 == 1).then_some(PhysAddr(self.0 & 0xffff_fc00))
    }

    /// The domain its pages belong to.
    pub fn domain(self) -> u8 {
        (self.0 >> 5 & 0xf) as u8
    }
}

/// Walks ARM short descriptors, reading words through `read`.
///
/// # Errors
/// The fault of the level that had no valid descriptor.
pub fn walk_short(
    ttb: u32,
    va: u32,
    mut read: impl FnMut(PhysAddr) -> u32,
) -> Result<TlbEntry, Fault> {
    let l1 = L1Descriptor(read(PhysAddr((ttb & 0xffff_c000) + (va >> 20) * 4)));
    match l1.0 & 3 {
        1 => {
            let table = l1.0 & 0xffff_fc00;
            let pte = Pte(read(PhysAddr(table + (va >> 12 & 0xff) * 4)));
            let fault = Fault::TranslationPage;
            if pte.valid() {
                Ok(pte.to_tlb(va, 4096, false, l1.domain()))
            } else {
                Err(fault)
            }
        }
        2 => Ok(TlbEntry {
            tag: va & 0xfff0_0000,
            mask: 0xfff0_0000,
            base: l1.0 & 0xfff0_0000,
            ap: (l1.0 >> 10 & 3) as u8,
            domain: l1.domain(),
            cacheable: l1.0 & C != 0,
            bufferable: l1.0 & B != 0,
        }),
        _ => Err(Fault::TranslationSection),
    }
}

/// Whether the entry lets this access through under the domain register (0 in `dacr`'s field faults,
/// 1 checks permissions, 3 does not).
///
/// # Errors
/// A domain or permission fault.
#[inline]
pub fn permits(entry: &TlbEntry, dacr: u32, user: bool, store: bool) -> Result<(), Fault> {
    match dacr >> (u32::from(entry.domain) * 2) & 3 {
        1 => {
            let allowed = match (user, store) {
                (true, true) => entry.user_writable(),
                (true, false) => entry.user_readable(),
                (false, true) => entry.kernel_writable(),
                (false, false) => true,
            };
            if allowed {
                Ok(())
            } else {
                Err(Fault::Permission)
            }
        }
        3 => Ok(()),
        _ => Err(Fault::Domain),
    }
}

/// Reads one descriptor from memory.
pub fn read_word(memory: &Memory, pa: PhysAddr) -> u32 {
    if memory.holds(pa, 4) {
        memory.word(pa)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_an_entry_reads_back() {
        for ap in [Ap::KernelRead, Ap::Kernel, Ap::UserRead, Ap::User] {
            let pte = Pte::new(Frame(0x123), ap);
            assert_eq!(pte.ap(), ap as u8);
            assert_eq!(pte.frame(), Frame(0x123));
            assert!(pte.valid() && pte.cacheable());
            assert!(pte.with_write(false).with_write(true).writable());
            assert_eq!(pte.with_write(false).user(), pte.user());
            let off = pte.with_cache(false);
            assert!(!off.cacheable() && off.with_cache(true) == pte);
            let invalid = pte.with_valid(false);
            assert!(!invalid.valid() && invalid.present() && invalid.frame() == pte.frame());
        }
    }
}
