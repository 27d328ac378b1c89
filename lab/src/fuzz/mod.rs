//! Fuzz bodies: what the targets in `fuzz/fuzz_targets/` and the tests on the stable compiler run.
//!
//! A body takes any bytes and panics only if something is wrong; what it prints then ends with the one
//! command that replays the finding. [`TARGETS`] is the one list: the test `corpus` asserts that targets,
//! binaries and corpus folders agree with it, replays every corpus file and runs each body on its smoke
//! budget of random inputs.

pub mod differential;
pub mod flat;
pub mod generate;
pub mod legal;
pub mod machine_ops;
pub mod policy_ops;
pub mod readers;

use std::time::{Duration, Instant};

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the binary, the source file and the corpus folder.
    pub name: &'static str,
    /// What it looks for.
    pub about: &'static str,
    /// Its body.
    pub body: fn(&[u8]),
    /// Random inputs that the test runs.
    pub smoke: u32,
    /// Bytes of the longest random input.
    pub bytes_max: usize,
}

/// Every fuzz target, by name.
pub const TARGETS: &[Target] = &[
    Target {
        name: "case_file",
        about: "any text is a case or a message, and a case written is read back as it was",
        body: readers::case_file,
        smoke: 2_000,
        bytes_max: 400,
    },
    Target {
        name: "differential",
        about: "programs run the same on the fast path and on the plain one",
        body: differential::body,
        smoke: 100,
        bytes_max: 256,
    },
    Target {
        name: "guest_elf",
        about: "any file is executed or refused with a message, within its budget",
        body: readers::guest_elf,
        smoke: 100,
        bytes_max: 600,
    },
    Target {
        name: "machine_ops",
        about: "the oracle judges random machine steps as a flat model of memory does",
        body: machine_ops::body,
        smoke: 4_000,
        bytes_max: 160,
    },
    Target {
        name: "policy_ops",
        about: "legal pmap operations under a policy that claims to be correct",
        body: policy_ops::body,
        smoke: 10_000,
        bytes_max: 160,
    },
    Target {
        name: "profile",
        about: "any text is a machine or a message, and a machine can be built and used",
        body: readers::profile,
        smoke: 2_000,
        bytes_max: 400,
    },
    Target {
        name: "trace_file",
        about: "any bytes are a trace or a message",
        body: crate::trace::fuzz_one,
        smoke: 300,
        bytes_max: 400,
    },
];

/// The target of that name.
pub fn by_name(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// A deterministic generator of inputs (splitmix64).
#[derive(Clone, Debug)]
pub struct Inputs {
    state: u64,
    bytes: Vec<u8>,
}

impl Inputs {
    /// Inputs of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed,
            bytes: Vec::new(),
        }
    }

    /// The next random word.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next input: a quarter to all of `bytes_max` bytes, at random.
    pub fn next(&mut self, bytes_max: usize) -> &[u8] {
        let len = bytes_max / 4 + (self.word() as usize) % (bytes_max - bytes_max / 4).max(1);
        self.bytes.clear();
        while self.bytes.len() < len {
            let word = self.word();
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.truncate(len);
        &self.bytes
    }

    /// One of `files` with some bytes changed, cut or doubled.
    pub fn mutated(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let n = self.word() as usize % files.len().max(1);
        let mut out = files.get(n).cloned().unwrap_or_default();
        for _ in 0..1 + self.word() % 8 {
            let at = self.word() as usize % out.len().max(1);
            let with = self.word() as u8;
            match self.word() % 6 {
                _ if out.is_empty() => out.push(with),
                0 => out.truncate(at),
                1 => out.insert(at, with),
                2 => drop(out.remove(at)),
                3 => out[at] ^= 1 << (with % 8),
                4 => {
                    let end = out.len().min(at + 1 + usize::from(with % 32));
                    let part = out[at..end].to_vec();
                    out.splice(at..at, part);
                }
                _ => out[at] = with,
            }
        }
        out
    }
}

/// How long a test runs each body, by the environment: `PMAPLAB_SECONDS` for a campaign by time,
/// `PMAPLAB_TIMES` to multiply the smoke budget; `PMAPLAB_SEED` for other inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Inputs, unless there is a time.
    pub inputs: u64,
    /// Time.
    pub time: Option<Duration>,
    /// Seed of the inputs.
    pub seed: u64,
}

impl Budget {
    /// The budget of a test that runs `inputs` inputs by default.
    pub fn of(inputs: u32) -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        Self {
            inputs: u64::from(inputs) * number("PMAPLAB_TIMES").unwrap_or(1),
            time: number("PMAPLAB_SECONDS").map(Duration::from_secs),
            seed: number("PMAPLAB_SEED").unwrap_or(0),
        }
    }

    /// Calls `run` until the budget is spent; returns how often.
    pub fn spend(&self, mut run: impl FnMut(&mut Inputs)) -> u64 {
        let started = Instant::now();
        let mut inputs = Inputs::new(self.seed);
        for n in 0.. {
            let over = match self.time {
                Some(time) => n % 64 == 0 && started.elapsed() >= time,
                None => n >= self.inputs,
            };
            if over {
                return n;
            }
            run(&mut inputs);
        }
        0
    }
}

/// Runs a target's body: all that a target in `fuzz/fuzz_targets/` does.
///
/// # Panics
/// If there is no such target, and where the body finds something.
pub fn run(name: &str, data: &[u8]) {
    let target = by_name(name).expect("the list of targets has it");
    (target.body)(data);
}
