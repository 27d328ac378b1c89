//! To be written.

pub mod oracle;
