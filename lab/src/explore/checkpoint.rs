//! A search under way as a file, so that a long one survives an interruption.
//!
//! The file begins with a line that names what is searched; a search of anything else refuses it. It is
//! written beside its place and moved there, so that a half-written one is never read.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::engine::{Finding, Queue, Search};
use super::model::WorldModel;
use super::store::{Arena, Fingerprints};
use crate::oracle::Kind;

const MAGIC: &str = "pmaplab search 1: ";

/// Writes a search to a file.
///
/// # Errors
/// The file cannot be written.
pub fn save(search: &Search<WorldModel>, key: &str, path: &Path) -> io::Result<()> {
    let beside = path.with_extension("part");
    let mut out = BufWriter::new(File::create(&beside)?);
    writeln!(out, "{MAGIC}{key}")?;
    let numbers = [
        search.at as u64,
        u64::from(search.first),
        search.transitions,
        u64::from(search.depth),
        search.seen.iter().count() as u64,
        search.parents.len() as u64,
        search.found.len() as u64,
    ];
    numbers
        .iter()
        .try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
    search
        .seen
        .iter()
        .try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
    search
        .parents
        .iter()
        .try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
    search
        .actions
        .iter()
        .try_for_each(|n| out.write_all(&n.to_le_bytes()))?;
    for found in &search.found {
        let number = Kind::ALL.iter().position(|k| *k == found.bad).unwrap_or(0) as u32;
        for n in [number, found.parent, u32::from(found.action), found.depth] {
            out.write_all(&n.to_le_bytes())?;
        }
    }
    for arena in [&search.level, &search.next] {
        out.write_all(&(arena.count() as u64).to_le_bytes())?;
        for n in 0..arena.count() {
            let state = arena.get(n);
            out.write_all(&(state.len() as u16).to_le_bytes())?;
            out.write_all(state)?;
        }
    }
    out.into_inner()?.sync_all()?;
    std::fs::rename(beside, path)
}

/// Reads a search of the same thing back.
///
/// # Errors
/// The file cannot be read, is of another search, or is damaged.
pub fn load(model: WorldModel, key: &str, path: &Path) -> io::Result<Search<WorldModel>> {
    let file = File::open(path)?;
    let bound = file.metadata()?.len();
    let mut from = BufReader::new(file);
    let mut head = vec![0; MAGIC.len() + key.len() + 1];
    from.read_exact(&mut head)?;
    if head != format!("{MAGIC}{key}\n").as_bytes() {
        return Err(damaged("it is not a checkpoint of this search"));
    }
    let mut search = Search::new(model, Fingerprints::default());
    let mut numbers = [0; 7];
    for n in &mut numbers {
        *n = u64::from_le_bytes(take(&mut from)?);
    }
    let [at, first, transitions, depth, seen, states, found] = numbers;
    if [seen, states, found].iter().any(|n| *n > bound) {
        return Err(damaged("its counts are larger than the file"));
    }
    (search.at, search.first) = (at as usize, first as u32);
    (search.transitions, search.depth) = (transitions, depth as u32);
    search.seen = Fingerprints::default();
    for _ in 0..seen {
        search.seen.add(u64::from_le_bytes(take(&mut from)?));
    }
    search.parents.clear();
    search.actions.clear();
    for _ in 0..states {
        search.parents.push(u32::from_le_bytes(take(&mut from)?));
    }
    for _ in 0..states {
        search.actions.push(u16::from_le_bytes(take(&mut from)?));
    }
    for _ in 0..found {
        search.found.push(finding(&mut from)?);
    }
    search.level = arena(&mut from, bound)?;
    search.next = arena(&mut from, bound)?;
    check(&search)?;
    Ok(search)
}

/// Whether the numbers fit together, so that a damaged file cannot lead anywhere else.
fn check(search: &Search<WorldModel>) -> io::Result<()> {
    let states = search.parents.len() as u64;
    let reached = u64::from(search.first) + (search.level.count() + search.next.count()) as u64;
    let parents = search.parents.iter().enumerate();
    let earlier = |(n, p): (usize, &u32)| *p == u32::MAX || (*p as usize) < n;
    let moves = search.model.moves().len();
    let sound = reached == states
        && search.at <= search.level.count()
        && parents.into_iter().all(earlier)
        && search.found.iter().all(|f| u64::from(f.parent) < states)
        && search.actions.iter().all(|a| usize::from(*a) < moves);
    if sound {
        Ok(())
    } else {
        Err(damaged("its numbers do not fit together"))
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn take<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn finding(from: &mut impl Read) -> io::Result<Finding<Kind>> {
    let mut number = || Ok::<u32, io::Error>(u32::from_le_bytes(take(from)?));
    let kind = number()? as usize;
    let bad = *Kind::ALL
        .get(kind)
        .ok_or_else(|| damaged("an unknown verdict"))?;
    Ok(Finding {
        bad,
        parent: number()?,
        action: number()? as u16,
        depth: number()?,
    })
}

fn arena(from: &mut impl Read, bound: u64) -> io::Result<Arena> {
    let mut out = Arena::default();
    let count = u64::from_le_bytes(take(from)?);
    if count > bound {
        return Err(damaged("its counts are larger than the file"));
    }
    let mut state = Vec::new();
    for _ in 0..count {
        state.resize(usize::from(u16::from_le_bytes(take(from)?)), 0);
        from.read_exact(&mut state)?;
        out.push(&state);
    }
    Ok(out)
}
