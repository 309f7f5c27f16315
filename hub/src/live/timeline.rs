//! Keeps a few numbers for each past slot, for the strip at the bottom of the web page.
//!
//! A record counts in the bin of the slot in which it was read, even if it arrives late. Recent
//! bins are as long as a slot; older bins are merged into minutes.

use std::collections::VecDeque;

use ibnet_record::minute::MINUTE_NS;

use super::COUNT;
use super::frame::FULL;

/// Max number of slots with a bin of their own.
const MAX_SLOTS: usize = 36_000;

/// Numbers of one slot or minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Bin {
    /// Start in nanoseconds since 1970.
    pub(crate) from_ns: u64,
    /// Max of each metric, as in a frame. `None` without a value.
    max: [Option<u16>; COUNT],
    /// Number of records of the primary samplers.
    records: u32,
    /// Number of these records whose port answered.
    answered: u32,
}

/// The bins, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    slots: VecDeque<Bin>,
    minutes: VecDeque<Bin>,
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Start of the slot in nanoseconds since 1970.
    pub(crate) from_ns: u64,
    pub(crate) values: [u16; COUNT],
    pub(crate) answered: bool,
    pub(crate) is_secondary: bool,
}

/// Columns of an answer.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize)]
pub(crate) struct Columns {
    /// Start of each column in nanoseconds since 1970.
    pub(crate) t: Vec<u64>,
    /// Largest utilization of a port in any direction, 0 to 1.
    pub(crate) utilization_max: Vec<Option<f64>>,
    /// Largest blocked share of a port, 0 to 1.
    pub(crate) blocked_max: Vec<Option<f64>>,
    /// Share of the records whose port answered.
    pub(crate) answered: Vec<Option<f64>>,
    /// Length of a column in nanoseconds.
    pub(crate) step_ns: u64,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        for (max, value) in self.max.iter_mut().zip(other.max) {
            *max = (*max).max(value);
        }
        (self.records, self.answered) = (
            self.records.saturating_add(other.records),
            self.answered.saturating_add(other.answered),
        );
    }
}

impl Timeline {
    pub(crate) fn add(&mut self, sample: Sample) {
        let max = sample.values.map(|value| (value <= FULL).then_some(value));
        let counts = u32::from(!sample.is_secondary);
        let bin = Bin {
            from_ns: sample.from_ns,
            max,
            records: counts,
            answered: counts * u32::from(sample.answered),
        };
        put(&mut self.slots, &bin);
    }

    /// Merges the bins before `recent_ns` into minutes, and drops the minutes before `before_ns`.
    pub(crate) fn trim(&mut self, recent_ns: u64, before_ns: u64) {
        while let Some(first) = self
            .slots
            .front()
            .copied()
            .filter(|bin| bin.from_ns < recent_ns || self.slots.len() > MAX_SLOTS)
        {
            self.slots.pop_front();
            put(
                &mut self.minutes,
                &Bin {
                    from_ns: first.from_ns / MINUTE_NS * MINUTE_NS,
                    ..first
                },
            );
        }
        while self
            .minutes
            .front()
            .is_some_and(|bin| bin.from_ns < before_ns)
        {
            self.minutes.pop_front();
        }
    }

    /// Drops the bins that begin after the newest record, at `newest_ns`. Records of a clock that
    /// was ahead, and has been corrected, leave such bins.
    pub(crate) fn drop_after(&mut self, newest_ns: u64) {
        for bins in [&mut self.slots, &mut self.minutes] {
            bins.truncate(bins.partition_point(|bin| bin.from_ns <= newest_ns));
        }
    }

    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.minutes
            .front()
            .or_else(|| self.slots.front())
            .map(|bin| bin.from_ns)
    }

    /// Returns at most `most` columns from `from` to `to`. `interval_ns` is the length of a slot.
    pub(crate) fn columns(&self, from: u64, to: u64, interval_ns: u64, most: u64) -> Columns {
        let interval_ns = interval_ns.max(1);
        let last = self
            .slots
            .back()
            .or_else(|| self.minutes.back())
            .map_or(0, |bin| bin.from_ns);
        let to = to.min(last.saturating_add(interval_ns));
        let from = from.max(self.first_ns().unwrap_or(from)) / interval_ns * interval_ns;
        let length = to.saturating_sub(from);
        let slots = length.div_ceil(interval_ns).div_ceil(most.max(1)).max(1);
        let step_ns = slots * interval_ns;
        let count = length.div_ceil(step_ns).min(most) as usize;
        let mut bins = vec![Bin::default(); count];
        for bin in self
            .minutes
            .iter()
            .chain(&self.slots)
            .filter(|bin| bin.from_ns < to)
        {
            // A minute counts in the column in which it starts.
            let Some(offset) = bin.from_ns.checked_sub(from) else {
                continue;
            };
            if let Some(column) = bins.get_mut((offset / step_ns) as usize) {
                column.add(bin);
            }
        }
        let share = |value: Option<u16>| value.map(|value| f64::from(value) / f64::from(FULL));
        let answered =
            |bin: &Bin| (bin.records > 0).then(|| f64::from(bin.answered) / f64::from(bin.records));
        Columns {
            t: (0..count as u64)
                .map(|column| from + column * step_ns)
                .collect(),
            utilization_max: bins
                .iter()
                .map(|bin| share(bin.max[0].max(bin.max[1])))
                .collect(),
            blocked_max: bins.iter().map(|bin| share(bin.max[2])).collect(),
            answered: bins.iter().map(answered).collect(),
            step_ns,
        }
    }
}

/// Inserts a bin in the order of time.
fn put(bins: &mut VecDeque<Bin>, bin: &Bin) {
    let place = match bins.back() {
        None => 0,
        Some(last) if last.from_ns < bin.from_ns => bins.len(),
        _ => bins.partition_point(|other| other.from_ns < bin.from_ns),
    };
    match bins
        .get_mut(place)
        .filter(|other| other.from_ns == bin.from_ns)
    {
        Some(other) => other.add(bin),
        None => bins.insert(place, *bin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn timeline(seconds: impl Iterator<Item = u64>) -> Timeline {
        let mut timeline = Timeline::default();
        for second in seconds {
            for answered in [true, false] {
                let values = if answered {
                    [second as u16, 0, 100]
                } else {
                    [65_535; COUNT]
                };
                timeline.add(Sample {
                    from_ns: second * SECOND,
                    values,
                    answered,
                    is_secondary: false,
                });
            }
        }
        timeline
    }

    #[test]
    fn late_slots_find_their_place_and_gaps_stay_gaps() {
        let timeline = timeline([100, 103, 101].into_iter());
        let columns = timeline.columns(0, 104 * SECOND, SECOND, 900);
        assert_eq!(
            columns.t,
            [100, 101, 102, 103].map(|second| second * SECOND)
        );
        let share = |value: u16| Some(f64::from(value) / 64_000.0);
        assert_eq!(
            columns.utilization_max,
            [share(100), share(101), None, share(103)]
        );
        assert_eq!(
            (columns.blocked_max[0], &columns.answered[..]),
            (share(100), &[Some(0.5), Some(0.5), None, Some(0.5)][..])
        );
    }

    #[test]
    fn many_slots_are_joined_to_few_columns() {
        let columns = timeline(0..1000).columns(0, 1000 * SECOND, SECOND, 100);
        assert_eq!((columns.t.len(), columns.step_ns), (100, 10 * SECOND));
        assert_eq!(columns.utilization_max[99], Some(999.0 / 64_000.0));
    }

    #[test]
    fn old_slots_become_minutes_and_disappear() {
        let mut timeline = timeline(0..600);
        timeline.trim(300 * SECOND, 60 * SECOND);
        assert_eq!(
            (
                timeline.minutes.len(),
                timeline.slots.len(),
                timeline.first_ns()
            ),
            (4, 300, Some(60 * SECOND))
        );
        let columns = timeline.columns(0, 600 * SECOND, SECOND, 9);
        assert_eq!(
            (columns.t[0], columns.t.len(), columns.utilization_max[0]),
            (60 * SECOND, 9, Some(119.0 / 64_000.0))
        );
    }
}
