//! Paths, as programs give them.

use machine::VirtAddr;
use vm::{Errno, KResult, VmVerbs};

use crate::ctx::KernCtx;
use crate::limits::PATH_BYTES_MAX;

use super::Call;

/// Copies a path in and makes it absolute by the working directory.
///
/// # Errors
/// `EFAULT`, `ENAMETOOLONG`, `ENOENT` for an empty one; `Wait`.
pub(crate) fn path<C: KernCtx + ?Sized>(ctx: &mut C, call: &Call, n: u32) -> KResult<String> {
    let at = VirtAddr(call.arg(ctx, n)?);
    let bytes = ctx.copyinstr(call.cpu, at, PATH_BYTES_MAX)?;
    if bytes.is_empty() {
        return Err(Errno::ENOENT.into());
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(absolute(&ctx.kern().proc(call.pid).cwd, &text))
}

/// `path` seen from directory `from`, without `.`, `..` and doubled slashes.
pub fn absolute(from: &str, path: &str) -> String {
    let whole = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{from}/{path}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn paths_are_made_absolute() {
        assert_eq!(absolute("/", "a"), "/a");
        assert_eq!(absolute("/a/b", "../c/./d"), "/a/c/d");
        assert_eq!(absolute("/a", "//x//y/"), "/x/y");
        assert_eq!(absolute("/", "../.."), "/");
    }
}
