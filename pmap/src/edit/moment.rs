//! Moments: which hook an edit is for, without what the hook carries.

use machine::Access;

use crate::hook::{Hook, Verb};
use crate::verbs::{BufferEvent, DmaOp, KernelUse};

/// A hook's kind, and the verb, event or use that asks. `None` is every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Moment {
    /// Every hook.
    Any,
    /// [`Hook::Entered`].
    Entered,
    /// [`Hook::Changed`].
    Changed,
    /// [`Hook::Left`].
    Left,
    /// [`Hook::WillStore`].
    WillStore(Option<Verb>),
    /// [`Hook::Stored`].
    Stored(Option<Verb>),
    /// [`Hook::WillLeave`].
    WillLeave(Option<Verb>),
    /// [`Hook::Gone`].
    Gone(Option<Verb>),
    /// [`Hook::Begins`].
    Begins(Option<Verb>),
    /// [`Hook::Ends`].
    Ends(Option<Verb>),
    /// [`Hook::Page`].
    Page(Option<Verb>),
    /// [`Hook::Fault`].
    Fault(Option<Access>),
    /// [`Hook::Fixed`].
    Fixed(Option<Access>),
    /// [`Hook::Will`].
    Will(Option<KernelUse>),
    /// [`Hook::Did`].
    Did(Option<KernelUse>),
    /// [`Hook::Zero`].
    Zero,
    /// [`Hook::Copy`].
    Copy,
    /// [`Hook::Dma`].
    Dma(Option<DmaOp>),
    /// [`Hook::Buffer`].
    Buffer(Option<BufferEvent>),
    /// [`Hook::Switch`].
    Switch,
    /// [`Hook::Activate`].
    Activate,
    /// [`Hook::Sync`].
    Sync,
}

const VERBS: &[(Verb, &str)] = &[
    (Verb::Enter, "enter"),
    (Verb::Remove, "remove"),
    (Verb::RemoveAll, "remove-all"),
    (Verb::RemovePages, "remove-pages"),
    (Verb::Protect, "protect"),
    (Verb::ClearWrite, "clear-write"),
    (Verb::ClearModify, "clear-modify"),
    (Verb::ClearReference, "clear-reference"),
    (Verb::Fixup, "fixup"),
    (Verb::Kenter, "kenter"),
    (Verb::Kremove, "kremove"),
    (Verb::Qenter, "qenter"),
    (Verb::Qremove, "qremove"),
    (Verb::Buffer, "buffer"),
    (Verb::Release, "release"),
];

const ACCESSES: &[(Access, &str)] = &[
    (Access::Fetch, "fetch"),
    (Access::Load, "load"),
    (Access::Store, "store"),
];

const USES: &[(KernelUse, &str)] = &[
    (KernelUse::Read, "read"),
    (KernelUse::Write, "write"),
    (KernelUse::Pio, "pio"),
    (KernelUse::Poke, "poke"),
];

const DMA: &[(DmaOp, &str)] = &[
    (DmaOp::PreRead, "pre-read"),
    (DmaOp::PreWrite, "pre-write"),
    (DmaOp::PostRead, "post-read"),
    (DmaOp::PostWrite, "post-write"),
];

const EVENTS: &[(BufferEvent, &str)] = &[
    (BufferEvent::Acquired { write: false }, "acquired-read"),
    (BufferEvent::Acquired { write: true }, "acquired-write"),
    (BufferEvent::IoStart { read: true }, "io-start-read"),
    (BufferEvent::IoStart { read: false }, "io-start-write"),
    (BufferEvent::IoDone { read: true }, "io-done-read"),
    (BufferEvent::IoDone { read: false }, "io-done-write"),
    (BufferEvent::Copied { write: false }, "copied-read"),
    (BufferEvent::Copied { write: true }, "copied-write"),
    (BufferEvent::Released, "released"),
];

fn name<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let row = table.iter().find(|(v, _)| v == value);
    row.map_or("?", |(_, name)| name)
}

fn value<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    table.iter().find(|(_, n)| *n == word).map(|(v, _)| *v)
}

/// Whether a hook's part is the one wanted, or any is.
fn fits<T: PartialEq>(wanted: &Option<T>, is: &T) -> bool {
    wanted.as_ref().is_none_or(|w| w == is)
}

impl Moment {
    /// The moment of a hook, as exactly as can be told.
    pub fn of(hook: &Hook) -> Self {
        match *hook {
            Hook::Entered => Moment::Entered,
            Hook::Changed => Moment::Changed,
            Hook::Left(_) => Moment::Left,
            Hook::WillStore { verb, .. } => Moment::WillStore(Some(verb)),
            Hook::Stored { verb, .. } => Moment::Stored(Some(verb)),
            Hook::WillLeave { verb, .. } => Moment::WillLeave(Some(verb)),
            Hook::Gone { verb, .. } => Moment::Gone(Some(verb)),
            Hook::Begins { verb, .. } => Moment::Begins(Some(verb)),
            Hook::Ends { verb, .. } => Moment::Ends(Some(verb)),
            Hook::Page(verb) => Moment::Page(Some(verb)),
            Hook::Fault(access) => Moment::Fault(Some(access)),
            Hook::Fixed(access) => Moment::Fixed(Some(access)),
            Hook::Will(what, ..) => Moment::Will(Some(what)),
            Hook::Did(what, ..) => Moment::Did(Some(what)),
            Hook::Zero(_) => Moment::Zero,
            Hook::Copy(..) => Moment::Copy,
            Hook::Dma(op, ..) => Moment::Dma(Some(op)),
            Hook::Buffer(event, _) => Moment::Buffer(Some(event)),
            Hook::Switch { .. } => Moment::Switch,
            Hook::Activate => Moment::Activate,
            Hook::Sync(..) => Moment::Sync,
        }
    }

    /// Whether a hook is at this moment.
    pub fn matches(&self, hook: &Hook) -> bool {
        match (self, Moment::of(hook)) {
            (Moment::Any, _) => true,
            (Moment::WillStore(w), Moment::WillStore(Some(v)))
            | (Moment::Stored(w), Moment::Stored(Some(v)))
            | (Moment::WillLeave(w), Moment::WillLeave(Some(v)))
            | (Moment::Gone(w), Moment::Gone(Some(v)))
            | (Moment::Begins(w), Moment::Begins(Some(v)))
            | (Moment::Ends(w), Moment::Ends(Some(v)))
            | (Moment::Page(w), Moment::Page(Some(v))) => fits(w, &v),
            (Moment::Fault(w), Moment::Fault(Some(v)))
            | (Moment::Fixed(w), Moment::Fixed(Some(v))) => fits(w, &v),
            (Moment::Will(w), Moment::Will(Some(v))) | (Moment::Did(w), Moment::Did(Some(v))) => {
                fits(w, &v)
            }
            (Moment::Dma(w), Moment::Dma(Some(v))) => fits(w, &v),
            (Moment::Buffer(w), Moment::Buffer(Some(v))) => fits(w, &v),
            (wanted, is) => *wanted == is,
        }
    }

    /// Kind and detail, as text.
    fn words(&self) -> (&'static str, Option<&'static str>) {
        let verb = |v: &Option<Verb>| v.as_ref().map(|v| name(VERBS, v));
        let access = |a: &Option<Access>| a.as_ref().map(|a| name(ACCESSES, a));
        let kernel = |u: &Option<KernelUse>| u.as_ref().map(|u| name(USES, u));
        match self {
            Moment::Any => ("any", None),
            Moment::Entered => ("entered", None),
            Moment::Changed => ("changed", None),
            Moment::Left => ("left", None),
            Moment::WillStore(v) => ("will-store", verb(v)),
            Moment::Stored(v) => ("stored", verb(v)),
            Moment::WillLeave(v) => ("will-leave", verb(v)),
            Moment::Gone(v) => ("gone", verb(v)),
            Moment::Begins(v) => ("begins", verb(v)),
            Moment::Ends(v) => ("ends", verb(v)),
            Moment::Page(v) => ("page", verb(v)),
            Moment::Fault(a) => ("fault", access(a)),
            Moment::Fixed(a) => ("fixed", access(a)),
            Moment::Will(u) => ("will", kernel(u)),
            Moment::Did(u) => ("did", kernel(u)),
            Moment::Zero => ("zero", None),
            Moment::Copy => ("copy", None),
            Moment::Dma(d) => ("dma", d.as_ref().map(|d| name(DMA, d))),
            Moment::Buffer(e) => ("buffer", e.as_ref().map(|e| name(EVENTS, e))),
            Moment::Switch => ("switch", None),
            Moment::Activate => ("activate", None),
            Moment::Sync => ("sync", None),
        }
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.words() {
            (kind, None) => write!(f, "{kind}"),
            (kind, Some(detail)) => write!(f, "{kind}:{detail}"),
        }
    }
}

/// The detail of a moment, if there is one: it must be a word of the table.
fn detail<T: Copy>(table: &[(T, &'static str)], word: Option<&str>) -> Result<Option<T>, String> {
    let Some(word) = word else { return Ok(None) };
    let known: Vec<_> = table.iter().map(|(_, n)| *n).collect();
    match value(table, word) {
        Some(found) => Ok(Some(found)),
        None => Err(format!("`{word}`: expected one of {}", known.join(", "))),
    }
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let plain = |moment| match rest {
            None => Ok(moment),
            Some(_) => Err(format!("`{text}`: `{kind}` has no detail")),
        };
        match kind {
            "any" => plain(Moment::Any),
            "entered" => plain(Moment::Entered),
            "changed" => plain(Moment::Changed),
            "left" => plain(Moment::Left),
            "zero" => plain(Moment::Zero),
            "copy" => plain(Moment::Copy),
            "switch" => plain(Moment::Switch),
            "activate" => plain(Moment::Activate),
            "sync" => plain(Moment::Sync),
            "will-store" => detail(VERBS, rest).map(Moment::WillStore),
            "stored" => detail(VERBS, rest).map(Moment::Stored),
            "will-leave" => detail(VERBS, rest).map(Moment::WillLeave),
            "gone" => detail(VERBS, rest).map(Moment::Gone),
            "begins" => detail(VERBS, rest).map(Moment::Begins),
            "ends" => detail(VERBS, rest).map(Moment::Ends),
            "page" => detail(VERBS, rest).map(Moment::Page),
            "fault" => detail(ACCESSES, rest).map(Moment::Fault),
            "fixed" => detail(ACCESSES, rest).map(Moment::Fixed),
            "will" => detail(USES, rest).map(Moment::Will),
            "did" => detail(USES, rest).map(Moment::Did),
            "dma" => detail(DMA, rest).map(Moment::Dma),
            "buffer" => detail(EVENTS, rest).map(Moment::Buffer),
            _ => Err(format!("no hook `{kind}`")),
        }
    }
}
