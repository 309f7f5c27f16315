//! The course of a duration over time, in a limited number of steps.

use std::collections::BTreeMap;

/// Values over time. If there are too many steps, neighbouring ones are merged.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// Length of a step in nanoseconds.
    width: u64,
    steps: BTreeMap<u64, Step>,
}

/// The values in one time step, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
    /// Min of the values.
    pub min: u64,
    /// Max of the values.
    pub max: u64,
}

/// Max number of steps.
const MAX_STEPS: usize = 2_000;

/// Initial length of a step: a sixteenth of a second, in nanoseconds.
const FIRST_WIDTH: u64 = 62_500_000;

impl Default for Course {
    fn default() -> Self {
        Self {
            width: FIRST_WIDTH,
            steps: BTreeMap::new(),
        }
    }
}

impl Step {
    fn merged(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Course {
    /// Adds a value at a time in nanoseconds since 1970.
    pub fn record(&mut self, ts: u64, value: u64) {
        self.put(
            ts / self.width,
            Step {
                count: 1,
                sum: value as f64,
                min: value,
                max: value,
            },
        );
    }

    fn put(&mut self, index: u64, step: Step) {
        self.steps
            .entry(index)
            .and_modify(|known| *known = known.merged(step))
            .or_insert(step);
        while self.steps.len() > MAX_STEPS {
            self.coarsen();
        }
    }

    /// Doubles the length of the steps.
    fn coarsen(&mut self) {
        self.width *= 2;
        for (index, step) in std::mem::take(&mut self.steps) {
            self.steps
                .entry(index / 2)
                .and_modify(|known| *known = known.merged(step))
                .or_insert(step);
        }
    }

    /// Adds the values of another course.
    pub fn merge(&mut self, other: &Self) {
        while self.width < other.width {
            self.coarsen();
        }
        for (index, step) in &other.steps {
            // Adding a step can lengthen all steps, so the index is computed anew for each of
            // them.
            self.put(index * other.width / self.width, *step);
        }
    }

    /// Iterates over the steps that have values: the middle of a step in nanoseconds since 1970,
    /// and its values.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Step)> + '_ {
        self.steps
            .iter()
            .map(|(index, step)| (index * self.width + self.width / 2, *step))
    }

    /// Returns the length of a step in nanoseconds.
    pub fn width(&self) -> u64 {
        self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_steps_is_bounded_and_no_value_is_lost() {
        const SECOND: u64 = 1_000_000_000;
        let (mut whole, mut first, mut second) =
            (Course::default(), Course::default(), Course::default());
        for slot in 0..10_000 {
            whole.record(slot * SECOND, slot);
            if slot < 100 { &mut first } else { &mut second }.record(slot * SECOND, slot);
        }
        first.merge(&second);
        assert_eq!(first, whole);
        assert!(whole.steps().count() <= MAX_STEPS);
        let sum = whole
            .steps()
            .map(|(_, step)| step)
            .reduce(Step::merged)
            .unwrap();
        assert_eq!(
            sum,
            Step {
                count: 10_000,
                sum: 49_995_000.0,
                min: 0,
                max: 9_999
            }
        );
        assert!(whole.steps().all(|(middle, step)| {
            (step.min * SECOND..=step.max * SECOND + whole.width()).contains(&middle)
        }));
    }
}
