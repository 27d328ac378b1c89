//! What read-ahead and clustered transfers do to a story: how much one small read poisons, and how much a
//! copy damages where a second kernel mapping of a page is on no list.
//!
//! Source: `pmap-freebsd-netbsd.md` 4.3 (a 4 KB header read poisons 80 to 160 KB), 5.1 (rtld's change to
//! mmap), B1 (2008: damage in pieces of 32 bytes; `mount -o noclusterr,noclusterw` helps).

use std::sync::Arc;

use machine::Profile;
use pmap::Policy;
use vfs_sim::ReadAhead;

use super::predictions::{Prediction, row};
use super::stage::Stage;
use crate::guests;

/// Most blocks of read-ahead in 2012 (vfs.read_max).
const READ_MAX: u32 = 64;
/// A line of the copy that is compared, bytes.
const LINE: usize = 32;

/// FreeBSD's default block sizes: newfs of 2011, and of 2012.
const BLOCKS: [u32; 2] = [16 << 10, 32 << 10];

fn clusters(read: bool, write: bool) -> ReadAhead {
    ReadAhead::Cluster {
        blocks_max: READ_MAX,
        read,
        write,
    }
}

/// How many text pages are uncached for a program after a look at its header.
///
/// # Errors
/// A program could not be run.
pub fn headers(profile: &Arc<Profile>, policy: &Policy) -> Result<Vec<Prediction>, String> {
    const LIBRARY: &str = "/bin/liblarge.so";
    let mut out = Vec::new();
    for block in BLOCKS {
        let stage = || {
            Stage::with(profile.clone(), policy.clone(), |config| {
                config.block_bytes = block;
                config.read_ahead = clusters(true, true);
            })
        };
        let kb = block >> 10;
        let mut pages = |what: &str, pages: u32, note: &str| {
            let what = format!("{what}, {kb} KB blocks");
            out.push(row(&what, f64::from(pages), "text pages uncached", note));
        };
        let mut big = stage();
        big.run("/bin/cat", &["-q", "-n", "4096", "/bin/big"])?;
        let poisoned = big.most_uncached("/bin/big", &[])?;
        pages("header of `big` by read", poisoned, "80 to 160 KB expected");
        let poisoned = stage().most_uncached("/bin/dl", &["read", LIBRARY])?;
        pages("header of a library by read", poisoned, "rtld until 2012");
        let poisoned = stage().most_uncached("/bin/dl", &["mmap", LIBRARY])?;
        pages("header of a library by mmap", poisoned, "rtld since");
    }
    Ok(out)
}

/// How many lines a copy of `big` damages: B1 under its mount options, its repair of 2009, and that one's.
///
/// # Errors
/// The copy could not be made.
pub fn damage(profile: &Arc<Profile>) -> Result<Vec<Prediction>, String> {
    let with = |write_allocate| {
        let mut machine = (**profile).clone();
        machine.dcache.write_allocate = write_allocate;
        Arc::new(machine)
    };
    let (quiet, loud) = (with(false), with(true));
    let (all, no_reads, no_writes) = (
        clusters(true, true),
        clusters(false, true),
        clusters(true, false),
    );
    let copies = [
        (
            "freebsd-2006",
            "",
            &quiet,
            all,
            "a store that misses leaves no line: hidden",
        ),
        (
            "freebsd-2006",
            ", write-allocate",
            &loud,
            all,
            "B1: dirty under the buffer's address, read under the cluster's",
        ),
        (
            "freebsd-2006",
            ", write-allocate, noclusterr",
            &loud,
            no_reads,
            "a read cluster has nothing dirty under the other address",
        ),
        (
            "freebsd-2006",
            ", write-allocate, noclusterw",
            &loud,
            no_writes,
            "one address, and busdma syncs it",
        ),
        (
            "freebsd-2009",
            ", write-allocate",
            &loud,
            all,
            "B2's repair uncaches both, but writes nothing back (B23)",
        ),
        ("freebsd-2010-repaired", ", write-allocate", &loud, all, ""),
    ];
    let told = copies.iter().map(|(policy, how, profile, clusters, note)| {
        let what = format!("copy of `big` under {policy}{how}");
        let lines = copy(profile, policy, *clusters)?;
        Ok(row(&what, f64::from(lines), "lines damaged on disk", note))
    });
    told.collect()
}

/// Copies `big` and counts the lines of the copy on the disk that are wrong.
fn copy(profile: &Arc<Profile>, policy: &str, clusters: ReadAhead) -> Result<u32, String> {
    let policy = pmap::policy::by_name(policy).ok_or("no such policy")?;
    let mut stage = Stage::with(profile.clone(), policy, |c| c.read_ahead = clusters);
    let run = stage.run("/bin/script", &["cp /bin/big /tmp/copy", "sync"])?;
    if run.exit_code != Some(0) {
        return Err(format!("the copy ended with {:?}", run.exit_code));
    }
    let vfs = &stage.world.state.vfs;
    let copied = vfs.lookup("/tmp/copy").map_err(|_| "no copy was made")?;
    let copied = vfs.on_disk(copied);
    let big = guests::by_name("big").ok_or("no such guest")?.bytes;
    let pairs = big.chunks(LINE).zip(copied.chunks(LINE));
    Ok(pairs.filter(|(want, have)| want != have).count() as u32)
}
