//! The wall clock of the program.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the wall clock in nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "programs read clocks")]
pub(super) fn wall_clock() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}
