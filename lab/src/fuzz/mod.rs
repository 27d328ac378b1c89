//! Bodies of the fuzz targets: each takes bytes and panics if what it claims does not hold.

pub mod differential;
