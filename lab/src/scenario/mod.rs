//! Scenarios: stories on a booted machine, told as a table with policies as rows.

mod clusters;
pub mod company;
pub mod predictions;
pub mod sheevaplug;
pub mod shell;
pub mod stage;
mod table;

pub use table::table;

/// Names and what they are.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        (
            "sheevaplug",
            "seeds/001: a program slows down after somebody read its file; then one overwrites code",
        ),
        (
            "shell",
            "the same in one shell script: a copied program runs, is read, runs again (--root for a real shell)",
        ),
    ]
    .into_iter()
}
