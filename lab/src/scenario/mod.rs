//! Scenarios: stories on a booted machine, told as a table with policies as rows.

pub mod predictions;
pub mod sheevaplug;
mod table;

pub use table::table;

/// Names and what they are.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    [(
        "sheevaplug",
        "seeds/001: a program slows down after somebody read its file; then one overwrites code",
    )]
    .into_iter()
}
