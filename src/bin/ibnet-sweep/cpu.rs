//! Binds threads to CPUs.

use std::io;
use std::thread;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::failure::Failure;

/// Checks that a thread can run on a CPU. A separate thread does this, so that the caller is not
/// bound.
pub(super) fn check_cpu(cpu: usize) -> Result<(), Failure> {
    let pinned = thread::spawn(move || pin(cpu))
        .join()
        .map_err(|_| Failure::Crashed)?;
    pinned.map_err(|source| Failure::Pin { cpu, source })
}

/// Binds the current thread to a CPU.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    // `None` means the current thread.
    Ok(sched_setaffinity(None, &only)?)
}
