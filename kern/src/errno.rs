//! Error numbers for a Linux program. Inside, and for FreeBSD's, they are [`vm::Errno`].
//!
//! Source: Linux `asm-generic/errno-base.h` and `errno.h`. Up to 34 both families agree but for
//! EDEADLK and EAGAIN; behind that they part.

use vm::Errno;

/// The number that Linux gives an error.
pub fn linux(errno: Errno) -> u32 {
    match errno {
        Errno::EAGAIN | Errno::EPROCLIM => 11,
        Errno::EDEADLK => 35,
        Errno::ENAMETOOLONG => 36,
        Errno::ENOSYS => 38,
        Errno::ENOTEMPTY => 39,
        Errno::EOPNOTSUPP => 95,
        same => same.number().unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_part_behind_34() {
        assert_eq!(linux(Errno::EFAULT), 14);
        assert_eq!(linux(Errno::EAGAIN), 11);
        assert_eq!(Errno::EAGAIN.number(), 35);
        assert_eq!(linux(Errno::ENOSYS), 38);
    }
}
