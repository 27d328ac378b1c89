//! Results as text. Knows numbers and names, and no machine.

use std::fmt::Write as _;

use super::pages::Row;
use super::results::Results;

/// Lines of cells, padded to columns; the first column is text, the others numbers.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |n: usize| rows.iter().filter_map(|r| r.get(n)).map(String::len).max();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (n, cell) in row.iter().enumerate() {
            let width = width(n).unwrap_or(0);
            let _ = match n {
                0 => write!(line, "{cell:width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn cells(row: &[&dyn ToString]) -> Vec<String> {
    row.iter().map(|c| c.to_string()).collect()
}

/// `part` of `all` in per cent.
pub fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn rate(part: u64, all: u64) -> String {
    format!("{:.3}%", percent(part, all))
}

/// One setup.
pub fn results(results: &Results) -> String {
    let mut rows = vec![cells(&[&"", &"accesses", &"misses", &"rate"])];
    let mut row = |name: &str, all: u64, missed: u64| {
        rows.push(cells(&[&name, &all, &missed, &rate(missed, all)]));
    };
    if let Some(l1i) = &results.l1i {
        row("l1i fetches", l1i.fetches, l1i.misses);
    }
    if let Some(l1d) = &results.l1d {
        row("l1d reads", l1d.reads, l1d.read_misses);
        row("l1d writes", l1d.writes, l1d.write_misses);
    }
    if let Some(l2) = &results.l2 {
        row("l2 reads", l2.reads, l2.read_misses);
        row("l2 writes", l2.writes, l2.write_misses);
    }
    let tlbs = [
        ("itlb", &results.itlb),
        ("dtlb", &results.dtlb),
        ("tlb", &results.tlb),
    ];
    for (name, tlb) in tlbs {
        if let Some(tlb) = tlb {
            row(name, tlb.accesses, tlb.misses);
        }
    }
    let mut out = columns(&rows);
    if let Some(l1d) = &results.l1d {
        let (all, end, bytes) = (l1d.writebacks, l1d.writebacks_at_end, l1d.bytes_out);
        let _ = writeln!(
            out,
            "l1d writes back {all} lines ({end} of them at the end); {bytes} bytes go out"
        );
    }
    if let Some(cycles) = results.cycles {
        let class = |(name, n): (&&str, &u64)| format!("{name} {n}");
        let classes: Vec<String> = results.cycles_by_class.iter().map(class).collect();
        let _ = writeln!(out, "{cycles} cycles, estimated: {}", classes.join(", "));
    }
    out
}

/// Several setups, a row each.
pub fn sweep(runs: &[(String, Results)]) -> String {
    let mut rows = vec![cells(&[
        &"setup",
        &"l1i misses",
        &"l1d read misses",
        &"write misses",
        &"written back",
        &"l2 read misses",
        &"itlb",
        &"dtlb",
        &"tlb",
        &"cycles",
    ])];
    let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
    for (label, run) in runs {
        let l1d = |of: fn(&super::results::DataCache) -> u64| number(run.l1d.as_ref().map(of));
        let tlb = |t: &Option<super::results::TlbResult>| number(t.as_ref().map(|t| t.misses));
        rows.push(cells(&[
            label,
            &number(run.l1i.as_ref().map(|u| u.misses)),
            &l1d(|u| u.read_misses),
            &l1d(|u| u.write_misses),
            &l1d(|u| u.writebacks),
            &number(run.l2.as_ref().map(|u| u.read_misses)),
            &tlb(&run.itlb),
            &tlb(&run.dtlb),
            &tlb(&run.tlb),
            &number(run.cycles),
        ]));
    }
    columns(&rows)
}

/// Pages or functions.
pub fn tallies(title: &str, list: &[Row]) -> String {
    let mut rows = vec![cells(&[
        &title,
        &"references",
        &"l1i",
        &"l1d",
        &"itlb",
        &"dtlb",
    ])];
    for row in list {
        let t = &row.tally;
        rows.push(cells(&[
            &row.name,
            &t.references,
            &t.l1i_misses,
            &t.l1d_misses,
            &t.itlb_misses,
            &t.dtlb_misses,
        ]));
    }
    columns(&rows)
}
