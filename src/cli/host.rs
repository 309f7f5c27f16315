//! Properties of this host: its name and its source of random numbers.

use std::fs;

/// Returns the name of this host up to its first dot.
pub fn short_host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().split('.').next().unwrap_or_default().to_owned()
}

/// Returns a random number of the operating system. Transaction IDs start with it.
pub fn random_seed() -> u64 {
    // On Linux this fails only if the system call is blocked. A number from a weaker source is
    // then sufficient.
    getrandom::u64().unwrap_or_else(|_| fastrand::u64(..))
}
