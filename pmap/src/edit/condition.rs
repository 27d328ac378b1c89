//! Edits of a skeleton's conditions: one fact of its bookkeeping, on or off.

use crate::skeleton::Skeleton;
use crate::types::PvFlags;

/// A fact of a skeleton that a kernel could have decided otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Condition {
    /// `sticky_uncached` (else: B24).
    StickyUncached,
    /// `clearbit_skips_unmanaged` (else: B26).
    ClearbitSkipsUnmanaged,
    /// `remove_all_skips_unmanaged` (else: B27).
    RemoveAllSkipsUnmanaged,
    /// `current_is_live` (else: B25).
    CurrentIsLive,
    /// `kernel_faults_fixed`.
    KernelFaultsFixed,
    /// `lazy_switch`.
    LazySwitch,
    /// REF among `kenter_flags` (else: B23).
    KenterReferenced,
}

/// A condition set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ConditionEdit {
    /// Which.
    pub what: Condition,
    /// To what.
    pub on: bool,
}

pub(super) const CONDITIONS: &[(Condition, &str)] = &[
    (Condition::StickyUncached, "sticky-uncached"),
    (
        Condition::ClearbitSkipsUnmanaged,
        "clearbit-skips-unmanaged",
    ),
    (
        Condition::RemoveAllSkipsUnmanaged,
        "remove-all-skips-unmanaged",
    ),
    (Condition::CurrentIsLive, "current-is-live"),
    (Condition::KernelFaultsFixed, "kernel-faults-fixed"),
    (Condition::LazySwitch, "lazy-switch"),
    (Condition::KenterReferenced, "kenter-referenced"),
];

impl Condition {
    /// Every condition.
    pub fn all() -> impl Iterator<Item = Self> {
        CONDITIONS.iter().map(|(what, _)| *what)
    }

    /// What it is in a skeleton.
    pub fn of(self, skeleton: &Skeleton) -> bool {
        match self {
            Condition::StickyUncached => skeleton.sticky_uncached,
            Condition::ClearbitSkipsUnmanaged => skeleton.clearbit_skips_unmanaged,
            Condition::RemoveAllSkipsUnmanaged => skeleton.remove_all_skips_unmanaged,
            Condition::CurrentIsLive => skeleton.current_is_live,
            Condition::KernelFaultsFixed => skeleton.kernel_faults_fixed,
            Condition::LazySwitch => skeleton.lazy_switch,
            Condition::KenterReferenced => skeleton.kenter_flags.contains(PvFlags::REF),
        }
    }
}

impl ConditionEdit {
    /// Applies it.
    pub fn apply(&self, skeleton: &mut Skeleton) {
        let fact = match self.what {
            Condition::StickyUncached => &mut skeleton.sticky_uncached,
            Condition::ClearbitSkipsUnmanaged => &mut skeleton.clearbit_skips_unmanaged,
            Condition::RemoveAllSkipsUnmanaged => &mut skeleton.remove_all_skips_unmanaged,
            Condition::CurrentIsLive => &mut skeleton.current_is_live,
            Condition::KernelFaultsFixed => &mut skeleton.kernel_faults_fixed,
            Condition::LazySwitch => &mut skeleton.lazy_switch,
            Condition::KenterReferenced => {
                return skeleton.kenter_flags.set(PvFlags::REF, self.on);
            }
        };
        *fact = self.on;
    }
}
