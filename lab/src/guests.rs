//! The small ARM programs that come with the project, built in `guest/`.

/// A program or data file.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// Its name, without a directory.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

macro_rules! guests {
    ($($name:literal),* $(,)?) => {
        const GUESTS: &[Guest] = &[
            $(Guest { name: $name, bytes: include_bytes!(concat!("../../guest/bin/", $name)) }),*
        ];
    };
}

guests!(
    "args",
    "badptr",
    "bench",
    "big",
    "bigwrite",
    "cat",
    "dl",
    "execer",
    "forkbomb",
    "forker",
    "jit",
    "libdemo.so",
    "liblarge.so",
    "libtext.so",
    "limits",
    "loop",
    "patchlib",
    "patchlib.code",
    "pipes",
    "script",
    "selfcheck",
    "sig",
    "testsimple",
    "testsimple1k",
    "testsimple4",
    "testsimple8",
    "tracer",
);

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Guest> {
    GUESTS.iter()
}

/// The one of that name.
pub fn by_name(name: &str) -> Option<&'static Guest> {
    all().find(|g| g.name == name)
}
