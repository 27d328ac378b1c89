//! Scenarios: stories on a booted machine, told as a table with policies as rows.

/// Names and what they are.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    [(
        "sheevaplug",
        "seeds/001: a program slows down after somebody read its file",
    )]
    .into_iter()
}
