//! Shares the last passes over the records among all clients, so a picture that fifty clients watch
//! costs one pass for each slot.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::query::error::ApiError;
use crate::state::Revision;

/// Start and end of a time range in nanoseconds since 1970, and the revision of the records.
pub(crate) type Asked = ((u64, u64), Revision);

/// Results of the last passes by time range and revision, at most `KEPT` of them.
#[derive(Debug)]
pub(crate) struct LastPasses<T, const KEPT: usize>(Mutex<VecDeque<Arc<Pass<T>>>>);

#[derive(Debug)]
struct Pass<T> {
    asked: Asked,
    /// `None` until the pass ends.
    result: Mutex<Option<Arc<T>>>,
}

impl<T, const KEPT: usize> Default for LastPasses<T, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, const KEPT: usize> LastPasses<T, KEPT> {
    /// Returns the result of the pass over a time range, and calls `make` if these records have
    /// none. A second request for the same range waits for the first one; a request for another
    /// range does not.
    pub(crate) fn find(
        &self,
        asked: Asked,
        make: impl FnOnce() -> Result<T, ApiError>,
    ) -> Result<Arc<T>, ApiError> {
        let pass = self.pass(asked);
        let mut result = lock(&pass.result);
        if let Some(known) = &*result {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(make()?);
        *result = Some(Arc::clone(&new));
        Ok(new)
    }

    fn pass(&self, asked: Asked) -> Arc<Pass<T>> {
        let mut passes = lock(&self.0);
        if let Some(known) = passes.iter().find(|pass| pass.asked == asked) {
            return Arc::clone(known);
        }
        let new = Arc::new(Pass {
            asked,
            result: Mutex::new(None),
        });
        if passes.len() == KEPT {
            passes.pop_front();
        }
        passes.push_back(Arc::clone(&new));
        new
    }
}

/// Locks a value. It stays valid even if a thread panics.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_kept_and_failed_ones_are_made_again() {
        const KEPT: usize = 4;
        let asked = |from, to| ((from, to), (9, 9, None));
        let passes = LastPasses::<u64, KEPT>::default();
        let fail = || Err(ApiError::missing("no records"));
        assert!(passes.find(asked(1, 2), fail).is_err());
        assert_eq!(passes.find(asked(1, 2), || Ok(7)).as_deref(), Ok(&7));
        assert_eq!(passes.find(asked(1, 2), fail).as_deref(), Ok(&7));
        for to in 3..3 + KEPT as u64 {
            assert_eq!(passes.find(asked(1, to), || Ok(to)).as_deref(), Ok(&to));
        }
        assert!(
            passes.find(asked(1, 2), fail).is_err(),
            "the oldest pass is dropped"
        );
    }

    #[test]
    fn pass_does_not_wait_for_a_pass_over_another_range() {
        let passes = LastPasses::<u64, 2>::default();
        let during = passes.find(((0, 100), (9, 9, None)), || {
            let short = passes.find(((90, 100), (9, 9, None)), || Ok(1));
            short.map(|short| *short + 1)
        });
        assert_eq!(during.as_deref(), Ok(&2));
    }
}
