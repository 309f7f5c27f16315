//! Prevents core dumps of a process that has secrets in memory.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Makes the kernel write no core dump of this process. Other processes of the same user can no
/// longer read its memory either: prctl(2), PR_SET_DUMPABLE.
///
/// # Errors
/// Returns the error of the operating system.
pub fn forbid_core_dumps() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
