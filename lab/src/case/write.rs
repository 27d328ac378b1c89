//! Writes a case as a file: what shrinkers and the explorer hand back.

use super::{Action, Case, Content};
use crate::op::{Event, Op, Rights, Use};

/// The case as KDL text, which [`super::parse`] reads back.
pub fn write(case: &Case) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("claim {:?}", case.claim));
    if !case.source.is_empty() {
        line(format!("source {:?}", case.source));
    }
    let quoted = |names: &[String]| {
        names
            .iter()
            .map(|n| format!("{n:?}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    if !case.machines.is_empty() {
        line(format!("machine {}", quoted(&case.machines)));
    }
    if !case.policies.is_empty() {
        line(format!("policy {}", quoted(&case.policies)));
    }
    for file in &case.files {
        let content = match &file.content {
            Content::Program(words) => format!("words={words}"),
            Content::Data(bytes) => format!("bytes={bytes}"),
            Content::Guest(name) => format!("guest={name:?}"),
        };
        line(format!("file {:?} {content}", file.path));
    }
    for l in &case.lines {
        match &l.action {
            Action::Bare(op) => line(op_text(op)),
            Action::During(n, op) => line(format!("{} during={n}", op_text(op))),
            Action::Process(_) => line(l.text.clone()),
        }
    }
    for e in &case.expectations {
        let kind = e.kind.map_or("clean", |k| k.name());
        let because = if e.because.is_empty() {
            String::new()
        } else {
            format!(" because={:?}", e.because)
        };
        let uncached = e
            .uncached
            .map_or(String::new(), |n| format!(" uncached={n}"));
        line(format!("expect {:?} {kind:?}{uncached}{because}", e.policy));
    }
    out
}

/// One operation as a line of a case.
pub fn op_text(op: &Op) -> String {
    let who = |s: &crate::op::Space| match s.0 {
        0 => 'K',
        n => char::from(b'A' + n.min(10) - 1),
    };
    let rights = |r: &Rights| match r {
        Rights::R => "r",
        Rights::Rx => "rx",
        Rights::Rw => "rw",
        Rights::Rwx => "rwx",
    };
    match op {
        Op::Enter(s, v, p, r) => {
            format!(
                "{} enter {:#x} page={} prot={:?}",
                who(s),
                v.0,
                p.0,
                rights(r)
            )
        }
        Op::EnterQuick(s, v, p, r) => {
            format!(
                "{} enter-quick {:#x} page={} prot={:?}",
                who(s),
                v.0,
                p.0,
                rights(r)
            )
        }
        Op::Remove(s, v, n) => format!("{} remove {:#x} pages={n}", who(s), v.0),
        Op::Protect(s, v, n, r) => {
            format!(
                "{} protect {:#x} pages={n} prot={:?}",
                who(s),
                v.0,
                rights(r)
            )
        }
        Op::RemovePages(s) => format!("{} remove-pages", who(s)),
        Op::Switch(s) => format!("{} switch", who(s)),
        Op::Activate(s) => format!("{} activate", who(s)),
        Op::Sync(s, v, len) => format!("{} sync-icache {:#x} {len}", who(s), v.0),
        Op::Fetch(s, v) => format!("{} fetch {:#x}", who(s), v.0),
        Op::Load(s, v) => format!("{} load {:#x}", who(s), v.0),
        Op::Store(s, v, value) => format!("{} store {:#x} {value:#x}", who(s), v.0),
        _ => kernel_text(op),
    }
}

fn kernel_text(op: &Op) -> String {
    match op {
        Op::SwitchKernel => "K switch".to_owned(),
        Op::RemoveAll(p) => format!("K remove-all page={}", p.0),
        Op::RemoveWrite(p) => format!("K remove-write page={}", p.0),
        Op::ClearModify(p) => format!("K clear-modify page={}", p.0),
        Op::ClearReference(p) => format!("K clear-reference page={}", p.0),
        Op::Recycle(p) => format!("K recycle page={}", p.0),
        Op::Kenter(v, p) => format!("K kenter {:#x} page={}", v.0, p.0),
        Op::Kremove(v) => format!("K kremove {:#x}", v.0),
        Op::Qenter(v, p, n) => format!("K qenter {:#x} page={} count={n}", v.0, p.0),
        Op::Qremove(v, n) => format!("K qremove {:#x} count={n}", v.0),
        Op::Zero(p) => format!("K zero page={}", p.0),
        Op::Copy(a, b) => format!("K copy from={} to={}", a.0, b.0),
        Op::KernelLoad(v) => format!("K load {:#x}", v.0),
        Op::KernelStore(v, value) => format!("K store {:#x} {value:#x}", v.0),
        Op::DmaRead(v, seed) => format!("K dma-read {:#x} seed={seed:#x}", v.0),
        Op::DmaWrite(v) => format!("K dma-write {:#x}", v.0),
        Op::Use(did, what, v, len) => {
            let what = match what {
                Use::Read => "read",
                Use::Write => "write",
                Use::Pio => "pio",
                Use::Poke => "poke",
            };
            format!(
                "K {} {what:?} {:#x} {len}",
                if *did { "did" } else { "will" },
                v.0
            )
        }
        Op::Buffer(event, v, p, n) => {
            let event = match event {
                Event::AcquiredRead => "acquired-read",
                Event::AcquiredWrite => "acquired-write",
                Event::Released => "released",
                Event::IoDoneRead => "io-done-read",
                Event::CopiedWrite => "copied-write",
                Event::CopiedRead => "copied-read",
                Event::IoStartRead => "io-start-read",
                Event::IoStartWrite => "io-start-write",
                Event::IoDoneWrite => "io-done-write",
            };
            format!("K buffer {event:?} {:#x} page={} count={n}", v.0, p.0)
        }
        Op::EvictAll => "hw evict-all".to_owned(),
        Op::EvictInstructions => "hw evict-instructions".to_owned(),
        Op::Evict(v) => format!("hw evict {:#x}", v.0),
        Op::EvictInstruction(v) => format!("hw evict-instruction {:#x}", v.0),
        Op::Prefetch(v) => format!("hw prefetch {:#x}", v.0),
        Op::PrefetchInstruction(v) => format!("hw prefetch-instruction {:#x}", v.0),
        Op::TlbDrop(v) => format!("hw tlb-drop {:#x}", v.0),
        Op::Drain => "hw drain".to_owned(),
        _ => unreachable!("a user operation"),
    }
}
