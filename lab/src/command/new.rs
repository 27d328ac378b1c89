//! `pmaplab new`: a policy, a case or a machine to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use machine::Profile;

use super::{Ended, Failure, print};

const POLICY: &str = include_str!("template/policy.rs.txt");
const CASE: &str = include_str!("template/case.kdl.txt");
/// The machine that a new one is a copy of.
const MODEL: &str = "sheevaplug";
const NAME_MAX: usize = 80;

/// Arguments of `new`.
#[derive(Args)]
#[command(after_help = "Examples:
  pmaplab new policy write-drop-at-exec
  pmaplab new case kernel-write-reaches-the-fetch
  pmaplab new machine my-board --directory .")]
pub struct NewArgs {
    /// What to write
    what: What,
    /// Its name: lower-case words joined by dashes; a case is named by its claim
    name: String,
    /// Where to write it; by default where the repository keeps its kind
    #[arg(long)]
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Policy,
    Case,
    Machine,
}

/// Runs the call.
pub fn run(args: &NewArgs) -> super::Result {
    check_name(&args.name)?;
    let (directory, file, text) = match args.what {
        What::Policy => (
            "pmap/src/rule",
            format!("{}.rs", args.name.replace(['-', '.'], "_")),
            POLICY.replace("NAME", &args.name),
        ),
        What::Case => (
            "tests/cases/vivt",
            format!("{}.kdl", args.name),
            CASE.replace("TITLE", &args.name.replace('-', " ")),
        ),
        What::Machine => (
            "machine/profiles",
            format!("{}.toml", args.name),
            profile(&args.name),
        ),
    };
    let directory = args.directory.as_deref().unwrap_or(Path::new(directory));
    let path = directory.join(file);
    write_new(&path, &text)?;
    print(&format!("{}\n{}", path.display(), advice(args, &path)));
    Ok(Ended::Clean)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.len() <= NAME_MAX && name.chars().all(word) && !name.contains("..") {
        return Ok(());
    }
    Err(Failure(format!(
        "`{name}` is no name; expected lower-case words joined by dashes, as freebsd-2010-ref"
    )))
}

/// A copy of the model's profile under another name.
fn profile(name: &str) -> String {
    let model = Profile::embedded_text(MODEL).unwrap_or("");
    let mut out =
        format!("# {name}: a copy of {MODEL} to change; say where each figure is from.\n");
    for line in model.lines().skip_while(|l| l.starts_with('#')) {
        match line.split('=').next().map(str::trim) {
            Some("name") => out.push_str(&format!("name = \"{name}\"")),
            Some("about") => out.push_str("about = \"one line about it\""),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let shown = path.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => Failure(format!("{shown}: it is there already; not touched")),
        ErrorKind::NotFound => Failure(format!(
            "{shown}: no such directory; run this at the root of the repository, or say --directory"
        )),
        _ => Failure(format!("{shown}: {e}")),
    })?;
    file.write_all(text.as_bytes())
        .map_err(|e| Failure(format!("{shown}: {e}")))
}

/// What to add where, and what to run.
fn advice(args: &NewArgs, path: &Path) -> String {
    let (name, shown) = (&args.name, path.display());
    match args.what {
        What::Policy => {
            let module = name.replace(['-', '.'], "_");
            format!(
                "Add to pmap/src/rule/mod.rs:\n    pub mod {module};\n\
                 Add to POLICIES in pmap/src/policy.rs:\n    (\"{name}\", \"one line about it\", \
                 skeleton::freebsd_2010, rule::{module}::plan, Status::Proposal),\n\
                 Then: cargo run -- diff freebsd-2010 {name}\n"
            )
        }
        What::Case => format!(
            "Nothing to add: the gate finds it. Try: cargo run -- replay {shown}\n\
             Then: INSTA_UPDATE=always cargo test -p tests --test cases\n"
        ),
        What::Machine => format!(
            "Nothing to add to use it: cargo run -- run --machine {shown}\n\
             To embed it, add to EMBEDDED in machine/src/profile.rs:\n    \
             (\"{name}\", include_str!(\"../profiles/{name}.toml\")),\n"
        ),
    }
}
