//! Computes the increase of a counter over the time range.

use std::ops::Range;

use ibnet_store::column::Integers;

/// Increase of a counter over the time range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterChange {
    /// Increase, including what was counted after a reset.
    pub increase: u64,
    /// Whether the true increase may be larger, because the counter was reset in between or is
    /// saturated.
    pub is_lower_bound: bool,
    /// Last value of the counter.
    pub last: u64,
}

impl CounterChange {
    /// Takes the first reading.
    pub const fn new(value: u64, is_saturated: bool) -> Self {
        Self {
            increase: 0,
            is_lower_bound: is_saturated,
            last: value,
        }
    }

    /// Adds the next reading.
    pub const fn add(&mut self, value: u64, is_saturated: bool) {
        let was_reset = value < self.last;
        let between = if was_reset { value } else { value - self.last };
        self.increase = self.increase.saturating_add(between);
        self.is_lower_bound = self.is_lower_bound || is_saturated || was_reset;
        self.last = value;
    }

    /// Adds a reading, which is the first one if `change` is `None`.
    pub(super) const fn add_to(change: &mut Option<Self>, value: u64, is_saturated: bool) {
        match change {
            Some(change) => change.add(value, is_saturated),
            None => *change = Some(Self::new(value, is_saturated)),
        }
    }

    /// Adds the readings of consecutive records, as [`add_to`](Self::add_to) does for each of them.
    pub(super) fn add_run(
        change: &mut Option<Self>,
        values: &Integers,
        rows: Range<usize>,
        is_saturated: bool,
    ) {
        let mut add = |value: u64| Self::add_to(change, value, is_saturated);
        match values {
            Integers::Same { value, .. } => {
                value.filter(|_| !rows.is_empty()).into_iter().for_each(add);
            }
            Integers::Each {
                values,
                present: None,
            } => {
                // A repeated value changes nothing, and most error counters never change, so one
                // reading of each group of equal values is enough.
                for same in values[rows].chunk_by(|a, b| a == b) {
                    add(same[0]);
                }
            }
            values => rows.filter_map(|row| values.get(row)).for_each(add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(values: &[u64]) -> CounterChange {
        let mut change = CounterChange::new(values[0], false);
        values[1..]
            .iter()
            .for_each(|value| change.add(*value, false));
        change
    }

    #[test]
    fn increases_are_summed_and_a_reset_does_not_count_as_one() {
        assert_eq!(change(&[7]).increase, 0);
        assert_eq!(
            (
                change(&[7, 9, 9, 12]).increase,
                change(&[7, 9, 9, 12]).is_lower_bound
            ),
            (5, false)
        );
        // The counter grows from 7 to 9, is reset, and grows from 0 to 3 and from 3 to 4.
        assert_eq!(
            (
                change(&[7, 9, 3, 4]).increase,
                change(&[7, 9, 3, 4]).is_lower_bound
            ),
            (6, true)
        );
    }

    #[test]
    fn increase_of_a_saturated_counter_is_a_lower_bound() {
        let mut change = CounterChange::new(200, false);
        change.add(255, true);
        assert_eq!((change.increase, change.is_lower_bound), (55, true));
    }
}
