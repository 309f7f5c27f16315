//! Packing.
use std::path::Path;
pub(crate) fn run(_: &Path, _: u64) {}
