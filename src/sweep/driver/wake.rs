//! Wakes a driver that waits for its next slot.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A counter whose changes other threads can wait for.
///
/// A waiter reads the [count](Self::count), checks its conditions, and then waits for a change of
/// the count. A change between the check and the wait is therefore not lost.
#[derive(Debug, Default)]
pub struct Wake {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Wake {
    /// Returns how often [`raise`](Self::raise) was called.
    pub fn count(&self) -> u64 {
        *self.lock()
    }

    /// Wakes all threads that wait.
    pub fn raise(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until the count differs from `seen`, for at most `limit` if there is one.
    pub fn wait(&self, seen: u64, limit: Option<Duration>) {
        let is_same = |count: &mut u64| *count == seen;
        match limit {
            Some(limit) => drop(self.changed.wait_timeout_while(self.lock(), limit, is_same)),
            None => drop(self.changed.wait_while(self.lock(), is_same)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn change_between_check_and_wait_is_not_lost() {
        let wake = Wake::default();
        let seen = wake.count();
        wake.raise();
        // If the change was lost, this call blocks forever.
        wake.wait(seen, None);
    }

    #[test]
    fn raise_wakes_a_thread_that_waits() {
        let wake = Arc::new(Wake::default());
        let waiter = thread::spawn({
            let wake = Arc::clone(&wake);
            move || wake.wait(0, None)
        });
        wake.raise();
        waiter.join().expect("it was woken");
    }

    #[test]
    fn wait_ends_at_its_limit() {
        Wake::default().wait(0, Some(Duration::from_millis(1)));
    }
}
