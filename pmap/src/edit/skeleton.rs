//! Edits of skeletons.

use crate::hook::Verb;
use crate::skeleton::{Part, Parts, Skeleton};

/// A verb whose order a skeleton lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum VerbParts {
    /// `enter_new`.
    EnterNew,
    /// `enter_same`.
    EnterSame,
    /// `enter_other`.
    EnterOther,
    /// `remove`.
    Remove,
    /// `remove_all`.
    RemoveAll,
    /// `protect`.
    Protect,
    /// `kenter`.
    Kenter,
    /// `kremove`.
    Kremove,
}

/// What happens to one part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PartChange {
    /// It is gone.
    Drop(Part),
    /// It is done before another.
    MoveBefore(Part, Part),
    /// It is done behind another.
    MoveAfter(Part, Part),
}

impl PartChange {
    /// The parts that it names.
    pub fn parts(&self) -> Vec<Part> {
        match *self {
            PartChange::Drop(part) => vec![part],
            PartChange::MoveBefore(part, other) | PartChange::MoveAfter(part, other) => {
                vec![part, other]
            }
        }
    }
}

/// A change of a verb's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct SkeletonEdit {
    /// Which verb.
    pub verb: VerbParts,
    /// What.
    pub change: PartChange,
}

pub(super) const VERBS: &[(VerbParts, &str)] = &[
    (VerbParts::EnterNew, "enter-new"),
    (VerbParts::EnterSame, "enter-same"),
    (VerbParts::EnterOther, "enter-other"),
    (VerbParts::Remove, "remove"),
    (VerbParts::RemoveAll, "remove-all"),
    (VerbParts::Protect, "protect"),
    (VerbParts::Kenter, "kenter"),
    (VerbParts::Kremove, "kremove"),
];

pub(super) const PARTS: &[(Part, &str)] = &[
    (Part::Track, "track"),
    (Part::Retrack, "retrack"),
    (Part::Untrack, "untrack"),
    (Part::WillStore, "will-store"),
    (Part::Store, "store"),
    (Part::Sync, "sync"),
    (Part::FixSlot, "fix-slot"),
    (Part::Stored, "stored"),
    (Part::Entered, "entered"),
    (Part::WillLeave, "will-leave"),
    (Part::Zero, "zero"),
    (Part::Gone, "gone"),
    (Part::Reflag, "reflag"),
    (Part::Unlink, "unlink"),
    (Part::Break, "break"),
];

impl SkeletonEdit {
    /// Applies it; a part that the verb does not have changes nothing.
    pub fn apply(&self, skeleton: &mut Skeleton) {
        let parts = self.verb.parts_mut(skeleton).to_mut();
        let place = |parts: &[Part], part: Part| parts.iter().position(|p| *p == part);
        let (part, beside, behind) = match self.change {
            PartChange::Drop(part) => return parts.retain(|p| *p != part),
            PartChange::MoveBefore(part, other) => (part, other, 0),
            PartChange::MoveAfter(part, other) => (part, other, 1),
        };
        let (Some(from), Some(_)) = (place(parts, part), place(parts, beside)) else {
            return;
        };
        parts.remove(from);
        if let Some(to) = place(parts, beside) {
            parts.insert(to + behind, part);
        }
    }
}

impl VerbParts {
    /// The skeleton's list.
    pub fn parts_mut(self, skeleton: &mut Skeleton) -> &mut Parts {
        match self {
            VerbParts::EnterNew => &mut skeleton.enter_new,
            VerbParts::EnterSame => &mut skeleton.enter_same,
            VerbParts::EnterOther => &mut skeleton.enter_other,
            VerbParts::Remove => &mut skeleton.remove,
            VerbParts::RemoveAll => &mut skeleton.remove_all,
            VerbParts::Protect => &mut skeleton.protect,
            VerbParts::Kenter => &mut skeleton.kenter,
            VerbParts::Kremove => &mut skeleton.kremove,
        }
    }

    /// The verbs that the rule is asked as.
    pub fn verbs(self) -> &'static [Verb] {
        match self {
            VerbParts::EnterNew | VerbParts::EnterSame | VerbParts::EnterOther => &[Verb::Enter],
            VerbParts::Remove => &[Verb::Remove],
            VerbParts::RemoveAll => &[Verb::RemoveAll],
            VerbParts::Protect => &[Verb::Protect],
            VerbParts::Kenter => &[Verb::Kenter, Verb::Qenter],
            VerbParts::Kremove => &[Verb::Kremove, Verb::Qremove],
        }
    }

    /// Every verb that has a list.
    pub fn all() -> impl Iterator<Item = Self> {
        VERBS.iter().map(|(verb, _)| *verb)
    }
}
