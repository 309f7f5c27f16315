//! Pictures and tables of what was recorded. Reads [`sweep::record`](crate::sweep::record) only, never a fabric.

pub mod once;
pub mod summary;
mod table;
