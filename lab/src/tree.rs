//! A directory of the host as the simulated file system: read once, bounded, in a fixed order.
//!
//! The tree is its own root, as after chroot(2): a symbolic link that begins with `/` starts at the
//! tree's top, `..` stops there, so nothing outside is ever read. The simulated file system has no
//! links: what a link names is copied. Links that name nothing, devices, sockets and pipes are left
//! out; a directory that a link would put inside itself is left empty, as is one more than 64 levels
//! down. Nothing is ever written back.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vfs_sim::{Vfs, VfsConfig};

/// Most bytes of all files together.
pub const BYTES_MAX: u64 = 256 << 20;
/// Most bytes of one file.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most files and directories.
pub const ENTRIES_MAX: usize = 16384;
/// Links followed on the way to one name.
const LINKS_MAX: u32 = 40;
/// Directories on the way to one name.
const DEPTH_MAX: usize = 64;
/// Files and blocks left for the programs to use.
const SPARE_FILES: u32 = 1024;
const SPARE_BLOCKS: u32 = 8192;

/// A tree that was read: paths in the simulated file system, in their order.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    entries: BTreeMap<String, Option<Arc<[u8]>>>,
    bytes: u64,
}

/// Where a name inside the tree leads: its path below the top, and what is there.
struct Resolved {
    inside: Vec<String>,
    meta: Metadata,
}

impl Tree {
    /// Reads a directory of the host.
    ///
    /// # Errors
    /// Which file cannot be read, or which limit is passed.
    pub fn read(top: &Path) -> Result<Self, String> {
        let shown = top.display();
        let meta = fs::metadata(top).map_err(|e| format!("{shown}: {e}"))?;
        if !meta.is_dir() {
            return Err(format!("{shown}: expected a directory"));
        }
        let mut tree = Self::default();
        tree.directory(top, "", &[], &mut Vec::new())?;
        Ok(tree)
    }

    /// The small programs of the project, in `/bin`.
    pub fn of_guests() -> Self {
        let file =
            |g: &crate::guests::Guest| (format!("/bin/{}", g.name), Some(Arc::from(g.bytes)));
        let entries: BTreeMap<_, _> = crate::guests::all().map(file).collect();
        let bytes = crate::guests::all().map(|g| g.bytes.len() as u64).sum();
        Self { entries, bytes }
    }

    /// A file's bytes.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.entries.get(path)?.as_deref()
    }

    /// Adds or replaces a file.
    ///
    /// # Errors
    /// Which limit it passes.
    pub fn add(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.count(path, bytes.len() as u64)?;
        self.entries.insert(path.to_owned(), Some(Arc::from(bytes)));
        Ok(())
    }

    /// Makes a disk large enough.
    pub fn configure(&self, config: &mut VfsConfig) {
        let block = u64::from(config.block_bytes);
        let files = self.entries.values().flatten();
        let blocks: u64 = files.map(|f| (f.len() as u64).div_ceil(block)).sum();
        let inodes = self.entries.len() as u32 + SPARE_FILES;
        config.files_max = config.files_max.max(inodes);
        let wanted = blocks as u32 + inodes + SPARE_BLOCKS;
        config.disk_blocks = config.disk_blocks.max(wanted);
    }

    /// Writes everything to a disk.
    ///
    /// # Errors
    /// What does not fit.
    pub fn plant(&self, vfs: &mut Vfs) -> Result<(), String> {
        for (path, bytes) in &self.entries {
            let done = match bytes {
                Some(bytes) => vfs.fs_add_file(path, bytes).map(|_| ()),
                None => vfs.fs_add_directory(path),
            };
            done.map_err(|e| format!("{path}: does not fit the simulated disk: {e:?}"))?;
        }
        Ok(())
    }

    /// Counts an entry against the limits.
    fn count(&mut self, path: &str, bytes: u64) -> Result<(), String> {
        self.bytes += bytes;
        let (mb, file_mb) = (BYTES_MAX >> 20, FILE_BYTES_MAX >> 20);
        if bytes > FILE_BYTES_MAX {
            return Err(format!(
                "{path}: {bytes} bytes; a file may have at most {file_mb} MB"
            ));
        }
        if self.bytes > BYTES_MAX {
            return Err(format!(
                "{path}: more than {mb} MB in the tree; give a smaller one"
            ));
        }
        if self.entries.len() >= ENTRIES_MAX {
            return Err(format!(
                "{path}: more than {ENTRIES_MAX} names in the tree; give a smaller one"
            ));
        }
        Ok(())
    }

    /// Reads a directory at `inside` below the top, as `at`. `open` are the real places of the
    /// directories on the way, so that a link back to one of them is left out.
    fn directory(
        &mut self,
        top: &Path,
        at: &str,
        inside: &[String],
        open: &mut Vec<Vec<String>>,
    ) -> Result<(), String> {
        let place = host(top, inside);
        let wrong = |e: std::io::Error| format!("{}: {e}", place.display());
        if open.len() >= DEPTH_MAX || open.iter().any(|o| o == inside) {
            return Ok(());
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&place).map_err(wrong)? {
            names.extend(entry.map_err(wrong)?.file_name().into_string());
        }
        names.sort();
        open.push(inside.to_vec());
        for name in names {
            self.entry(top, &format!("{at}/{name}"), inside, &name, open)?;
        }
        open.pop();
        Ok(())
    }

    fn entry(
        &mut self,
        top: &Path,
        at: &str,
        parent: &[String],
        name: &str,
        open: &mut Vec<Vec<String>>,
    ) -> Result<(), String> {
        let Some(found) = resolve(top, parent, name) else {
            return Ok(());
        };
        if found.meta.is_dir() {
            self.count(at, 0)?;
            self.entries.insert(at.to_owned(), None);
            return self.directory(top, at, &found.inside, open);
        }
        if !found.meta.is_file() {
            return Ok(());
        }
        self.count(at, found.meta.len())?;
        let place = host(top, &found.inside);
        let bytes = fs::read(&place).map_err(|e| format!("{}: {e}", place.display()))?;
        self.entries.insert(at.to_owned(), Some(Arc::from(bytes)));
        Ok(())
    }
}

/// The host's path of a place below the top.
fn host(top: &Path, inside: &[String]) -> PathBuf {
    inside
        .iter()
        .fold(top.to_path_buf(), |p, name| p.join(name))
}

/// Follows a name from a directory of the tree, component by component, never above the top.
fn resolve(top: &Path, parent: &[String], name: &str) -> Option<Resolved> {
    let mut inside = parent.to_vec();
    let mut left = vec![name.to_owned()];
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                inside.pop();
                continue;
            }
            _ => inside.push(part),
        }
        let place = host(top, &inside);
        if !fs::symlink_metadata(&place).ok()?.is_symlink() {
            continue;
        }
        links += 1;
        let target = fs::read_link(&place)
            .ok()?
            .into_os_string()
            .into_string()
            .ok()?;
        if links > LINKS_MAX {
            return None;
        }
        inside.pop();
        if target.starts_with('/') {
            inside.clear();
        }
        left.extend(target.rsplit('/').map(str::to_owned));
    }
    let meta = fs::symlink_metadata(host(top, &inside)).ok()?;
    Some(Resolved { inside, meta })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let place = std::env::temp_dir().join(format!("tree-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(place.join("top/bin")).expect("a directory");
            Self(place)
        }

        fn top(&self) -> PathBuf {
            self.0.join("top")
        }

        fn link(&self, target: &str, at: &str) {
            std::os::unix::fs::symlink(target, self.top().join(at)).expect("a link");
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn links_stay_inside_and_what_they_name_is_copied() {
        let scratch = Scratch::new("links");
        fs::write(scratch.0.join("secret"), "no").expect("a file");
        fs::write(scratch.top().join("bin/real"), "yes").expect("a file");
        fs::write(scratch.top().join("secret"), "ours").expect("a file");
        scratch.link("/bin/real", "bin/absolute");
        scratch.link("../bin/./real", "bin/relative");
        scratch.link("../../../secret", "bin/above");
        scratch.link("nothing", "bin/dangling");
        scratch.link("loop", "bin/loop");
        scratch.link("..", "bin/up");
        scratch.link("bin", "usr");
        let tree = Tree::read(&scratch.top()).expect("it can be read");
        for path in [
            "/bin/real",
            "/bin/absolute",
            "/bin/relative",
            "/usr/absolute",
        ] {
            assert_eq!(tree.file(path), Some(&b"yes"[..]), "{path}");
        }
        assert_eq!(
            tree.file("/bin/above"),
            Some(&b"ours"[..]),
            "`..` stops at the top"
        );
        for path in ["/bin/dangling", "/bin/loop", "/bin/up/bin/real"] {
            assert_eq!(tree.file(path), None, "{path}");
        }
    }

    #[test]
    fn limits_are_errors_that_name_the_file() {
        let scratch = Scratch::new("limits");
        let file = fs::File::create(scratch.top().join("bin/large")).expect("a file");
        file.set_len(FILE_BYTES_MAX + 1).expect("a hole");
        let error = Tree::read(&scratch.top()).expect_err("too large");
        assert!(
            error.contains("/bin/large") && error.contains("64 MB"),
            "{error}"
        );
        file.set_len(FILE_BYTES_MAX).expect("a hole");
        for n in 0..4 {
            let copy = fs::File::create(scratch.top().join(format!("bin/{n}"))).expect("a file");
            copy.set_len(FILE_BYTES_MAX).expect("a hole");
        }
        let error = Tree::read(&scratch.top()).expect_err("too much");
        assert!(error.contains("256 MB"), "{error}");
        let error = Tree::read(&scratch.top().join("none")).expect_err("absent");
        assert!(error.contains("none"), "{error}");
    }
}
