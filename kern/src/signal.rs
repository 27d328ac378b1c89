//! Signals: numbers, sets, and what a process has said about each.
//!
//! Inside, signals have FreeBSD's numbers; a Linux program's are translated where they enter and
//! leave. Source: FreeBSD `sys/signal.h` and `sys/kern/kern_sig.c` (`sigproptbl`), Linux
//! `arch/arm/include/uapi/asm/signal.h`.
//!
//! Absent on purpose: queued values, alternate stacks, job control beyond stop and continue.

use machine::VirtAddr;

use crate::elf::Abi;

/// A signal, by FreeBSD's number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Signal(pub u8);

/// FreeBSD's number for each of Linux's first 31; 0 where there is none.
const FROM_LINUX: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 10, 8, 9, 30, 11, 31, 13, 14, 15, 7, 20, 19, 17, 18, 21, 22, 16, 24, 25,
    26, 27, 28, 23, 29, 12,
];

impl Signal {
    /// An undefined instruction.
    pub const ILL: Signal = Signal(4);
    /// A breakpoint.
    pub const TRAP: Signal = Signal(5);
    /// Cannot be caught.
    pub const KILL: Signal = Signal(9);
    /// A misaligned access, or one behind a file's end.
    pub const BUS: Signal = Signal(10);
    /// An access that no mapping allows.
    pub const SEGV: Signal = Signal(11);
    /// A write to a pipe that nobody reads.
    pub const PIPE: Signal = Signal(13);
    /// Stops; cannot be caught.
    pub const STOP: Signal = Signal(17);
    /// Continues.
    pub const CONT: Signal = Signal(19);
    /// A child changed state.
    pub const CHLD: Signal = Signal(20);
    /// How many there are.
    pub const COUNT: u8 = 64;

    /// The signal that a program of this family means by `number`.
    pub fn from_number(abi: Abi, number: u32) -> Option<Signal> {
        let own = match abi {
            Abi::Linux if number < 32 => u32::from(FROM_LINUX[number as usize]),
            _ => number,
        };
        (1..=u32::from(Self::COUNT))
            .contains(&own)
            .then_some(Signal(own as u8))
    }

    /// Its number for a program of this family.
    pub fn number(self, abi: Abi) -> u32 {
        let own = u32::from(self.0);
        match abi {
            Abi::Linux if own < 32 => (1..32)
                .find(|n| u32::from(FROM_LINUX[*n as usize]) == own)
                .unwrap_or(own),
            _ => own,
        }
    }

    /// Whether a program can neither catch nor block it.
    pub fn is_absolute(self) -> bool {
        self == Signal::KILL || self == Signal::STOP
    }

    /// What happens when nobody has said anything about it.
    pub fn default_action(self) -> DefaultAction {
        match self.0 {
            16 | 20 | 23 | 28 | 29 => DefaultAction::Ignore,
            17 | 18 | 21 | 22 => DefaultAction::Stop,
            19 => DefaultAction::Continue,
            _ => DefaultAction::Kill,
        }
    }
}

/// What a signal does by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    /// Nothing.
    Ignore,
    /// The process ends.
    Kill,
    /// The process stops.
    Stop,
    /// A stopped process goes on.
    Continue,
}

/// A set of signals.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct SigSet(pub u64);

impl SigSet {
    /// Whether it holds `signal`.
    pub fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.0 - 1) & 1 == 1
    }

    /// Adds one.
    pub fn insert(&mut self, signal: Signal) {
        self.0 |= 1 << (signal.0 - 1);
    }

    /// Takes one away.
    pub fn remove(&mut self, signal: Signal) {
        self.0 &= !(1 << (signal.0 - 1));
    }

    /// The lowest signal that is in this set and not in `mask`.
    pub fn first_outside(self, mask: SigSet) -> Option<Signal> {
        let left = self.0 & !mask.0;
        (left != 0).then(|| Signal(left.trailing_zeros() as u8 + 1))
    }

    /// The set that a program of this family writes as `bits`; KILL and STOP cannot be in it.
    pub fn from_bits(abi: Abi, bits: u64) -> SigSet {
        let mut set = SigSet::default();
        for n in (1..=u32::from(Signal::COUNT)).filter(|n| bits >> (n - 1) & 1 == 1) {
            if let Some(signal) = Signal::from_number(abi, n).filter(|s| !s.is_absolute()) {
                set.insert(signal);
            }
        }
        set
    }

    /// The set as a program of this family reads it.
    pub fn bits(self, abi: Abi) -> u64 {
        (1..=Signal::COUNT)
            .map(Signal)
            .filter(|s| self.contains(*s))
            .fold(0, |bits, s| bits | 1 << (s.number(abi) - 1))
    }
}

/// Where a signal goes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub enum Handler {
    /// Its default action.
    #[default]
    Default,
    /// Nowhere.
    Ignore,
    /// To a function of the program.
    Catch(VirtAddr),
}

impl Handler {
    /// As `sa_handler` says: 0, 1 or an address.
    pub fn from_word(word: u32) -> Handler {
        match word {
            0 => Handler::Default,
            1 => Handler::Ignore,
            va => Handler::Catch(VirtAddr(va)),
        }
    }

    /// The word for `sa_handler`.
    pub fn word(self) -> u32 {
        match self {
            Handler::Default => 0,
            Handler::Ignore => 1,
            Handler::Catch(va) => va.0,
        }
    }
}

/// What a process has said about one signal.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Action {
    /// Where it goes.
    pub handler: Handler,
    /// Blocked as well while the handler runs.
    pub mask: SigSet,
    /// `sa_flags`, as the program gave them.
    pub flags: u32,
    /// `sa_restorer` (Linux).
    pub restorer: u32,
}

/// A process's signals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signals {
    /// Sent and not yet delivered.
    pub pending: SigSet,
    /// Blocked.
    pub mask: SigSet,
    /// By number, from 1.
    pub actions: [Action; Signal::COUNT as usize],
    /// The address that the last fault named, for `si_addr`.
    pub fault: u32,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            pending: SigSet::default(),
            mask: SigSet::default(),
            actions: [Action::default(); Signal::COUNT as usize],
            fault: 0,
        }
    }
}

impl Signals {
    /// What was said about a signal.
    pub fn action(&self, signal: Signal) -> &Action {
        &self.actions[usize::from(signal.0) - 1]
    }

    /// What was said, to change.
    pub fn action_mut(&mut self, signal: Signal) -> &mut Action {
        &mut self.actions[usize::from(signal.0) - 1]
    }

    /// Whether a signal would do nothing.
    pub fn ignores(&self, signal: Signal) -> bool {
        match self.action(signal).handler {
            Handler::Ignore => true,
            Handler::Default => signal.default_action() == DefaultAction::Ignore,
            Handler::Catch(_) => false,
        }
    }

    /// At exec, handlers are gone with the image; what was ignored stays ignored.
    pub fn reset_for_exec(&mut self) {
        for action in &mut self.actions {
            if matches!(action.handler, Handler::Catch(_)) {
                *action = Action::default();
            }
        }
    }

    /// The next signal to deliver.
    pub fn next(&self) -> Option<Signal> {
        if self.pending.contains(Signal::KILL) {
            return Some(Signal::KILL);
        }
        self.pending.first_outside(self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_numbers_go_in_and_out_unchanged() {
        for n in 1..=64 {
            let signal = Signal::from_number(Abi::Linux, n).expect("every number is one");
            assert_eq!(signal.number(Abi::Linux), n);
        }
        assert_eq!(Signal::from_number(Abi::Linux, 17), Some(Signal::CHLD));
        assert_eq!(Signal::from_number(Abi::FreeBsd, 0), None);
        assert_eq!(Signal::from_number(Abi::FreeBsd, 65), None);
    }

    #[test]
    fn sets_translate_and_never_hold_kill() {
        let all = SigSet::from_bits(Abi::Linux, u64::MAX);
        assert!(!all.contains(Signal::KILL) && !all.contains(Signal::STOP));
        assert_eq!(all.bits(Abi::Linux), !(1 << 8 | 1 << 18));
    }

    #[test]
    fn kill_is_delivered_first_and_through_any_mask() {
        let mut signals = Signals::default();
        signals.pending.insert(Signal::ILL);
        signals.pending.insert(Signal::KILL);
        signals.mask = SigSet(u64::MAX);
        assert_eq!(signals.next(), Some(Signal::KILL));
    }
}
