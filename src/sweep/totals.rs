//! Totals of counters that ibnet clears. They continue over the clearing, so readers of the records
//! need not know of it.

use std::time::Duration;

use ibnet_record::attributes::Field;

use super::clearing::{Cleared, Outcome};
use crate::mad::pma::{Bits, Data};

/// Number of service levels.
const LEVELS: usize = 16;

/// The totals of an array of counters of one port.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// For each service level, the total at the last clearing, in words.
    base: [u64; LEVELS],
    /// Service levels of a Set without a reply, one bit each: it is unknown whether they were
    /// cleared.
    unsure: u16,
    /// Whether a counter was saturated at the last reading.
    pub(super) is_saturated: bool,
}

impl Totals {
    /// Takes a reading. `last` has the totals of the last reading, `elapsed` is the time since
    /// then, if there was one. Returns whether the new totals can be compared with the last ones.
    pub(super) fn read(
        &mut self,
        counter: &Field,
        data: &Data,
        last: &[u64],
        elapsed: Option<Duration>,
        gbps: Option<f64>,
    ) -> bool {
        let mut is_comparable = true;
        self.is_saturated = false;
        for ((sl, base), last) in (0..).zip(&mut self.base).zip(last) {
            let words = counter.raw(data, sl);
            self.is_saturated |= counter.is_saturated(words);
            if self.unsure & 1 << sl == 0 {
                continue;
            }
            let before = last - *base;
            match Outcome::of(before, words, gbps, elapsed.unwrap_or(Duration::MAX)) {
                Outcome::NotCleared => {}
                Outcome::Unknown => is_comparable = false,
                Outcome::Cleared => {
                    *base = *last;
                    is_comparable = false;
                }
            }
        }
        self.unsure = 0;
        is_comparable
    }

    /// Returns the total for a counter with this number of words.
    pub(super) fn of(&self, sl: usize, words: u64) -> u64 {
        self.base[sl] + words
    }

    /// Takes the clearing that followed a reading with these totals.
    pub(super) fn clear(&mut self, cleared: Cleared, totals: &[u64]) {
        if cleared.took.is_none() {
            self.unsure = cleared.select;
            return;
        }
        for ((sl, base), total) in (0..).zip(&mut self.base).zip(totals) {
            if cleared.select & 1 << sl != 0 {
                *base = *total;
            }
        }
    }
}
