//! Cases: one file each, KDL version 2, one operation a line, with what each policy is expected to do.
//!
//! ```kdl
//! claim "a kernel store reaches the fetch that follows"
//! source "pmap-freebsd-netbsd.md B23"
//! machine "sheevaplug"
//! A enter 0x8000 page=0 prot="rx"
//! K kenter 0xd0400000 page=0
//! K store 0xd0400000 0xe3a00001
//! A fetch 0x8000
//! expect "freebsd-2010" "clean"
//! expect "bare" "stale-exec" because="nothing is done for sharing"
//! ```
//!
//! The first word of a line is who acts: a user space `A` to `J`, the kernel `K`, a process `p1`, `p2`, ...
//! or the hardware `hw`. A line `expect POLICY KIND` names a verdict that must be found, or `clean`; with
//! `uncached=N` also how many mappings of the last page are uncached at the end, and with `machine=NAME` it
//! is about one of the case's machines only.

pub mod corpus;
mod explain;
pub mod parameters;
mod parse;
mod run;
pub mod suite;
mod write;

pub use explain::{explain, tell_verdict};
pub use parse::{CaseError, parse, read};
pub use run::{Row, StepRecord, run, run_one, run_under};
pub use write::{op_text, write};

use crate::op::Op;
use crate::oracle::Kind;
use crate::process::ProcessOp;

/// One line of a case.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Which line of the file, counted from 1; 0 if it was never in one.
    pub number: usize,
    /// The line as written, without its comment.
    pub text: String,
    /// What it does.
    pub action: Action,
}

/// What a line does.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// An operation on bare pages.
    Bare(Op),
    /// The hardware's, before micro-step number n (from 0) of the operation on the next line.
    During(u32, Op),
    /// An operation of a process, with files.
    Process(ProcessOp),
}

/// A file that exists when the case begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its path.
    pub path: String,
    /// Words of code in it, as a small program; or the bytes of a data file.
    pub content: Content,
}

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// A static ARM program of so many distinct instructions at 0x8000.
    Program(u32),
    /// So many bytes of data.
    Data(u32),
    /// One of the guest programs that come with the project.
    Guest(String),
}

/// What a policy is expected to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Line of the file.
    pub number: usize,
    /// Which policy.
    pub policy: String,
    /// On which machine, by its profile's name; empty means on all of the case.
    pub machine: String,
    /// The verdict that must be found; `None` is clean.
    pub kind: Option<Kind>,
    /// How many mappings of the page that the last operation was about must be uncached at the end.
    pub uncached: Option<u32>,
    /// Why, in the author's words.
    pub because: String,
}

impl Expectation {
    /// Whether it is about this policy on this machine.
    pub fn of(&self, policy: &str, machine: &str) -> bool {
        self.policy == policy && (self.machine.is_empty() || self.machine == machine)
    }

    /// Whether a row is as expected.
    pub fn met(&self, row: &Row) -> bool {
        let found = self
            .kind
            .map_or(row.verdicts.clean(), |k| row.verdicts.of(k) > 0);
        found && self.uncached.is_none_or(|n| n == row.uncached())
    }
}

/// A case.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Case {
    /// What it claims.
    pub claim: String,
    /// Where it is from.
    pub source: String,
    /// Machines it runs on; empty means the default one.
    pub machines: Vec<String>,
    /// Policies it runs under; empty means all.
    pub policies: Vec<String>,
    /// Files.
    pub files: Vec<File>,
    /// Operations.
    pub lines: Vec<Line>,
    /// Expectations.
    pub expectations: Vec<Expectation>,
}

impl Case {
    /// What is expected of a policy on a machine, if anything is.
    pub fn expected(&self, policy: &str, machine: &str) -> Option<&Expectation> {
        self.expectations.iter().find(|e| e.of(policy, machine))
    }

    /// Whether it needs processes and files.
    pub fn has_processes(&self) -> bool {
        let process = |l: &Line| matches!(l.action, Action::Process(_));
        !self.files.is_empty() || self.lines.iter().any(process)
    }
}
