//! Reads a case file. Only the first error is told, with its line and a caret.

use std::path::Path;

use kdl::{KdlDocument, KdlNode, KdlValue};

use super::{Action, Case, Content, Expectation, File, Line};
use crate::op::{Event, Op, Page, Rights, Space, Use, Va};
use crate::oracle::Kind;
use crate::process::{self, ProcessOp};

/// Bytes of the largest case file.
const SIZE_MAX: usize = 256 * 1024;
/// Most `{` and `/*` of a case file. The KDL parser recurses on both; they are counted, not matched, because
/// what closes them may stand in a string.
const OPENINGS_MAX: usize = 64;

/// What is wrong with a case file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {message}{caret}")]
pub struct CaseError {
    /// File name.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub message: String,
    /// The line with a caret under the place, on lines of their own; may be empty.
    pub caret: String,
}

/// Reads a case from a file.
///
/// # Errors
/// The file cannot be read, or is not a case.
pub fn read(path: &Path) -> Result<Case, CaseError> {
    let file = path.display().to_string();
    let fail = |message: String| CaseError {
        file: file.clone(),
        line: 0,
        message,
        caret: String::new(),
    };
    let meta = std::fs::metadata(path).map_err(|e| fail(e.to_string()))?;
    if meta.len() > SIZE_MAX as u64 {
        return Err(fail(format!(
            "{} bytes; a case has at most {SIZE_MAX}",
            meta.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| fail("not UTF-8 text".to_owned()))?;
    parse(&file, &text)
}

/// Reads a case from text.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(file: &str, text: &str) -> Result<Case, CaseError> {
    let source = Source { file, text };
    source.check_limits()?;
    let document: KdlDocument = text.parse().map_err(|e| source.syntax(&e))?;
    let mut case = Case::default();
    for node in document.nodes() {
        source.node(&mut case, node)?;
    }
    if case.lines.is_empty() {
        return Err(source.at(
            text.len(),
            "the case does nothing; expected at least one operation",
        ));
    }
    Ok(case)
}

struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

type Parsed<T> = Result<T, CaseError>;

impl Source<'_> {
    fn at(&self, offset: usize, message: &str) -> CaseError {
        let offset = offset.min(self.text.len());
        let offset = (0..=offset)
            .rev()
            .find(|n| self.text.is_char_boundary(*n))
            .unwrap_or(0);
        let before = &self.text[..offset];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let shown: String = self.text[start..]
            .lines()
            .next()
            .unwrap_or("")
            .chars()
            .take(160)
            .collect();
        let column = self.text[start..offset].chars().count().min(160);
        let caret = format!("\n    {shown}\n    {}^", " ".repeat(column));
        CaseError {
            file: self.file.to_owned(),
            line,
            message: message.to_owned(),
            caret,
        }
    }

    fn node_error(&self, node: &KdlNode, message: &str) -> CaseError {
        self.at(node.span().offset(), message)
    }

    fn syntax(&self, error: &kdl::KdlError) -> CaseError {
        let Some(first) = error.diagnostics.first() else {
            return self.at(0, "not KDL");
        };
        let what = first
            .message
            .clone()
            .unwrap_or_else(|| "not KDL".to_owned());
        let help = first
            .help
            .as_ref()
            .map_or(String::new(), |h| format!(" ({h})"));
        self.at(first.span.offset(), &format!("{what}{help}"))
    }

    /// The parser recurses, so size and nesting are bounded before it sees the text.
    fn check_limits(&self) -> Parsed<()> {
        if self.text.len() > SIZE_MAX {
            return Err(self.at(0, &format!("more than {SIZE_MAX} bytes")));
        }
        let pairs = self.text.as_bytes().windows(2).enumerate();
        let mut openings = pairs.filter(|(_, pair)| pair[0] == b'{' || *pair == b"/*");
        if let Some((n, _)) = openings.nth(OPENINGS_MAX) {
            let message = format!(
                "more than {OPENINGS_MAX} of {{ and /*; a case is flat, and // comments it"
            );
            return Err(self.at(n, &message));
        }
        Ok(())
    }

    fn node(&self, case: &mut Case, node: &KdlNode) -> Parsed<()> {
        if node.children().is_some() {
            return Err(self.node_error(node, "a case is flat; expected no { }"));
        }
        match node.name().value() {
            "claim" => case.claim = self.string(node, 0, "a sentence")?.to_owned(),
            "source" => case.source = self.string(node, 0, "where the case is from")?.to_owned(),
            "machine" => self.words(node, &mut case.machines)?,
            "policy" => {
                self.words(node, &mut case.policies)?;
                for name in &case.policies {
                    self.policy(node, name)?;
                }
            }
            "file" => case.files.push(self.file(node)?),
            "expect" => case.expectations.push(self.expectation(node)?),
            who => {
                let action = self.action(node, who)?;
                let span = node.span();
                let text = self
                    .text
                    .get(span.offset()..span.offset() + span.len())
                    .unwrap_or("");
                let number = self.at(span.offset(), "").line;
                case.lines.push(Line {
                    number,
                    text: text.trim().to_owned(),
                    action,
                });
            }
        }
        Ok(())
    }

    fn words(&self, node: &KdlNode, into: &mut Vec<String>) -> Parsed<()> {
        for n in 0..node.entries().iter().filter(|e| e.name().is_none()).count() {
            into.push(self.string(node, n, "a name")?.to_owned());
        }
        Ok(())
    }

    fn policy(&self, node: &KdlNode, name: &str) -> Parsed<()> {
        let known: Vec<_> = pmap::policy::names().collect();
        if known.contains(&name) {
            return Ok(());
        }
        let message = format!("no policy `{name}`; expected one of: {}", known.join(", "));
        Err(self.node_error(node, &message))
    }

    fn string<'n>(&self, node: &'n KdlNode, n: usize, what: &str) -> Parsed<&'n str> {
        let value = positional(node, n).and_then(KdlValue::as_string);
        value
            .ok_or_else(|| self.node_error(node, &format!("expected {what} as argument {}", n + 1)))
    }

    fn number(&self, node: &KdlNode, n: usize, what: &str) -> Parsed<u32> {
        let value = positional(node, n).and_then(KdlValue::as_integer);
        let message = format!("expected {what} as argument {}: a number below 2^32", n + 1);
        value
            .and_then(|v| u32::try_from(v).ok())
            .ok_or_else(|| self.node_error(node, &message))
    }

    fn property(&self, node: &KdlNode, key: &str, default: Option<u32>, max: u32) -> Parsed<u32> {
        let message = format!("expected {key}=N with N from 0 to {max}");
        match node.get(key) {
            None => default.ok_or_else(|| self.node_error(node, &message)),
            Some(value) => value
                .as_integer()
                .and_then(|v| u32::try_from(v).ok())
                .filter(|v| *v <= max)
                .ok_or_else(|| self.node_error(node, &message)),
        }
    }

    fn file(&self, node: &KdlNode) -> Parsed<File> {
        let path = self.string(node, 0, "a path")?.to_owned();
        if !path.starts_with('/') {
            return Err(self.node_error(node, "expected a path that begins with /"));
        }
        let content = if let Some(name) = node.get("guest").and_then(KdlValue::as_string) {
            Content::Guest(name.to_owned())
        } else if node.get("words").is_some() {
            Content::Program(self.property(node, "words", None, 1 << 20)?)
        } else if node.get("bytes").is_some() {
            Content::Data(self.property(node, "bytes", None, 16 << 20)?)
        } else {
            return Err(self.node_error(node, "expected words=N, bytes=N or guest=NAME"));
        };
        Ok(File { path, content })
    }

    fn expectation(&self, node: &KdlNode) -> Parsed<Expectation> {
        let policy = self.string(node, 0, "a policy")?.to_owned();
        self.policy(node, &policy)?;
        let word = self.string(node, 1, "`clean` or a verdict")?;
        let kind = match word {
            "clean" => None,
            _ => Some(Kind::by_name(word).ok_or_else(|| {
                self.node_error(node, &format!("`{word}` is no verdict; expected `clean`, `stale-exec`, `stale-read`, `lost-write`, `stale-translation`, `broken-rule`, `panic`, `hang`, `misuse` or `permitted`"))
            })?),
        };
        let property = |key: &str| {
            let value = node.get(key).and_then(KdlValue::as_string);
            value.unwrap_or("").to_owned()
        };
        let (because, machine) = (property("because"), property("machine"));
        let uncached = match node.get("uncached") {
            None => None,
            Some(_) => Some(self.property(node, "uncached", None, 64)?),
        };
        let number = self.node_error(node, "").line;
        Ok(Expectation {
            number,
            policy,
            machine,
            kind,
            uncached,
            because,
        })
    }

    fn action(&self, node: &KdlNode, who: &str) -> Parsed<Action> {
        let verb = self.string(node, 0, "an operation")?;
        if let Some(pid) = who.strip_prefix('p').and_then(|n| n.parse::<u8>().ok()) {
            return Ok(Action::Process(self.process(node, pid, verb)?));
        }
        if who == "K"
            && let Some(what) = self.daemon(node, verb)?
        {
            return Ok(Action::Process(ProcessOp { pid: 0, what }));
        }
        let op = match who {
            "K" => self.kernel(node, verb)?,
            "hw" => self.hardware(node, verb)?,
            _ => match who.as_bytes() {
                [letter @ b'A'..=b'J'] => self.user(node, Space(letter - b'A' + 1), verb)?,
                _ => {
                    let message = format!(
                        "`{who}` is nobody; expected A to J, K, hw, p1, p2, ..., or claim, source, machine, policy, file, expect"
                    );
                    return Err(self.node_error(node, &message));
                }
            },
        };
        if node.get("during").is_none() {
            return Ok(Action::Bare(op));
        }
        if who != "hw" {
            return Err(self.node_error(node, "only hw acts during another operation"));
        }
        let step = self.property(node, "during", None, 1 << 20)?;
        Ok(Action::During(step, op))
    }

    /// What kernel threads and the buffer cache do by themselves.
    fn daemon(&self, node: &KdlNode, verb: &str) -> Parsed<Option<process::Do>> {
        if verb == "recycle-buffers" {
            let path = positional(node, 1)
                .and_then(KdlValue::as_string)
                .unwrap_or("");
            return Ok(Some(process::Do::Recycle(path.to_owned())));
        }
        Ok(process::Daemon::by_name(verb).map(process::Do::Daemon))
    }

    fn page(&self, node: &KdlNode) -> Parsed<Page> {
        Ok(Page(self.property(node, "page", None, 63)? as u8))
    }

    fn count(&self, node: &KdlNode, key: &str) -> Parsed<u8> {
        Ok(self.property(node, key, Some(1), 64)? as u8)
    }

    fn rights(&self, node: &KdlNode, word: Option<&str>) -> Parsed<Rights> {
        match word {
            Some("r") => Ok(Rights::R),
            Some("rx") => Ok(Rights::Rx),
            Some("rw") => Ok(Rights::Rw),
            Some("rwx") => Ok(Rights::Rwx),
            _ => Err(self.node_error(node, "expected rights: r, rx, rw or rwx")),
        }
    }

    fn user(&self, node: &KdlNode, space: Space, verb: &str) -> Parsed<Op> {
        let va = || self.number(node, 1, "an address").map(Va);
        let prot = || self.rights(node, node.get("prot").and_then(KdlValue::as_string));
        Ok(match verb {
            "enter" => Op::Enter(space, va()?, self.page(node)?, prot()?),
            "enter-quick" => Op::EnterQuick(space, va()?, self.page(node)?, prot()?),
            "remove" => Op::Remove(space, va()?, self.count(node, "pages")?),
            "protect" => Op::Protect(space, va()?, self.count(node, "pages")?, prot()?),
            "remove-pages" => Op::RemovePages(space),
            "switch" => Op::Switch(space),
            "activate" => Op::Activate(space),
            "fetch" => Op::Fetch(space, va()?),
            "load" => Op::Load(space, va()?),
            "store" => Op::Store(space, va()?, self.number(node, 2, "a value")?),
            "sync-icache" => Op::Sync(space, va()?, self.number(node, 2, "a length")?),
            _ => return Err(self.unknown(node, verb, "enter, enter-quick, remove, protect, remove-pages, switch, activate, fetch, load, store, sync-icache")),
        })
    }

    fn kernel(&self, node: &KdlNode, verb: &str) -> Parsed<Op> {
        let va = || self.number(node, 1, "an address").map(Va);
        Ok(match verb {
            "switch" => Op::SwitchKernel,
            "enter" | "remove" | "protect" => return self.user(node, Space(0), verb),
            "kenter" => Op::Kenter(va()?, self.page(node)?),
            "kremove" => Op::Kremove(va()?),
            "qenter" => Op::Qenter(va()?, self.page(node)?, self.count(node, "count")?),
            "qremove" => Op::Qremove(va()?, self.count(node, "count")?),
            "load" => Op::KernelLoad(va()?),
            "store" => Op::KernelStore(va()?, self.number(node, 2, "a value")?),
            "zero" => Op::Zero(self.page(node)?),
            "copy" => Op::Copy(
                Page(self.property(node, "from", None, 63)? as u8),
                Page(self.property(node, "to", None, 63)? as u8),
            ),
            "remove-all" => Op::RemoveAll(self.page(node)?),
            "remove-write" => Op::RemoveWrite(self.page(node)?),
            "clear-modify" => Op::ClearModify(self.page(node)?),
            "clear-reference" => Op::ClearReference(self.page(node)?),
            "recycle" => Op::Recycle(self.page(node)?),
            "dma-read" => Op::DmaRead(va()?, self.property(node, "seed", Some(0x1000), u32::MAX)?),
            "dma-write" => Op::DmaWrite(va()?),
            "will" | "did" => Op::Use(
                verb == "did",
                self.kernel_use(node)?,
                Va(self.number(node, 2, "an address")?),
                self.number(node, 3, "a length")?,
            ),
            "buffer" => Op::Buffer(
                self.event(node)?,
                Va(self.number(node, 2, "an address")?),
                self.page(node)?,
                self.count(node, "count")?,
            ),
            _ => return Err(self.unknown(node, verb, "switch, enter, remove, protect, kenter, kremove, qenter, qremove, load, store, zero, copy, remove-all, remove-write, clear-modify, clear-reference, recycle, dma-read, dma-write, will, did, buffer, syncer, bufdaemon, pagedaemon, g_up, recycle-buffers")),
        })
    }

    fn kernel_use(&self, node: &KdlNode) -> Parsed<Use> {
        match self.string(node, 1, "read, write, pio or poke")? {
            "read" => Ok(Use::Read),
            "write" => Ok(Use::Write),
            "pio" => Ok(Use::Pio),
            "poke" => Ok(Use::Poke),
            other => Err(self.unknown(node, other, "read, write, pio, poke")),
        }
    }

    fn event(&self, node: &KdlNode) -> Parsed<Event> {
        match self.string(node, 1, "a buffer's event")? {
            "acquired-read" => Ok(Event::AcquiredRead),
            "acquired-write" => Ok(Event::AcquiredWrite),
            "released" => Ok(Event::Released),
            "io-done-read" => Ok(Event::IoDoneRead),
            "copied-write" => Ok(Event::CopiedWrite),
            "copied-read" => Ok(Event::CopiedRead),
            "io-start-read" => Ok(Event::IoStartRead),
            "io-start-write" => Ok(Event::IoStartWrite),
            "io-done-write" => Ok(Event::IoDoneWrite),
            other => Err(self.unknown(
                node,
                other,
                "acquired-read, acquired-write, released, io-start-read, io-done-read, io-start-write, io-done-write, copied-read, copied-write",
            )),
        }
    }

    fn hardware(&self, node: &KdlNode, verb: &str) -> Parsed<Op> {
        let va = || self.number(node, 1, "an address").map(Va);
        Ok(match verb {
            "evict-all" => Op::EvictAll,
            "evict-instructions" => Op::EvictInstructions,
            "evict" => Op::Evict(va()?),
            "evict-instruction" => Op::EvictInstruction(va()?),
            "prefetch" => Op::Prefetch(va()?),
            "prefetch-instruction" => Op::PrefetchInstruction(va()?),
            "tlb-drop" => Op::TlbDrop(va()?),
            "drain" => Op::Drain,
            _ => return Err(self.unknown(
                node,
                verb,
                "evict-all, evict-instructions, evict, evict-instruction, prefetch, prefetch-instruction, tlb-drop, drain",
            )),
        })
    }

    fn process(&self, node: &KdlNode, pid: u8, verb: &str) -> Parsed<ProcessOp> {
        let mut words = Vec::new();
        for entry in node.entries().iter().skip(1) {
            let value = match entry.value() {
                KdlValue::String(s) => process::Word::Text(s.clone()),
                KdlValue::Integer(n) => process::Word::Number(u32::try_from(*n).map_err(|_| {
                    self.node_error(node, "a number is out of range; expected 0 to 2^32-1")
                })?),
                _ => return Err(self.node_error(node, "expected numbers and strings")),
            };
            words.push((entry.name().map(|n| n.value().to_owned()), value));
        }
        ProcessOp::parse(pid, verb, &words).map_err(|m| self.node_error(node, &m))
    }

    fn unknown(&self, node: &KdlNode, word: &str, expected: &str) -> CaseError {
        self.node_error(
            node,
            &format!("`{word}` is unknown; expected one of: {expected}"),
        )
    }
}

fn positional(node: &KdlNode, n: usize) -> Option<&KdlValue> {
    node.entries()
        .iter()
        .filter(|e| e.name().is_none())
        .nth(n)
        .map(|e| e.value())
}
