//! Sums of the hours of the local time.

use super::Sums;
use crate::when::Zone;

/// Hours of the local time begin at multiples of a quarter of an hour.
pub(super) const QUARTER_NS: u64 = 900_000_000_000;

/// Sums by hour, without the days that have no records. A sampler with a wrong clock therefore
/// needs little memory.
#[derive(Clone, Debug)]
pub(super) struct Hours {
    zone: Zone,
    /// Quarters by which the hours of the zone begin earlier than those of UTC, if known.
    shift: Option<u64>,
    /// Sums of the hours of each day, in ascending order of the days.
    days: Vec<(u64, [Sums; 24])>,
    /// Index of the day that was used last.
    last: usize,
}

impl Hours {
    pub(super) const fn new(zone: Zone) -> Self {
        Self {
            zone,
            shift: None,
            days: Vec::new(),
            last: 0,
        }
    }

    /// Returns the sums of the hour that has a quarter, counted since 1970.
    pub(super) fn at(&mut self, quarter: u64) -> &mut Sums {
        let shift = *self
            .shift
            .get_or_insert_with(|| self.zone.quarter_of_hour(quarter * QUARTER_NS));
        let hour = (quarter + shift) / 4;
        let index = self.day(hour / 24);
        &mut self.days[index].1[(hour % 24) as usize]
    }

    fn day(&mut self, day: u64) -> usize {
        if self.days.get(self.last).is_none_or(|last| last.0 != day) {
            self.last = match self.days.binary_search_by_key(&day, |day| day.0) {
                Ok(found) => found,
                Err(place) => {
                    self.days.insert(place, (day, [Sums::default(); 24]));
                    place
                }
            };
        }
        self.last
    }

    /// Returns the start of each hour with records in nanoseconds since 1970, and its sums.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Sums)> {
        let shift = self.shift.unwrap_or(0);
        self.days.iter().flat_map(move |(day, hours)| {
            let starts = (day * 24..).map(move |hour| (hour * 4).saturating_sub(shift));
            let starts = starts.map(|quarter| quarter.saturating_mul(QUARTER_NS));
            starts.zip(hours).filter(|(_, sums)| !sums.is_empty())
        })
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.shift = self.shift.or(other.shift);
        for (day, hours) in other.days {
            let index = self.day(day);
            let own = self.days[index].1.iter_mut().zip(hours);
            own.for_each(|(own, other)| own.merge(other));
        }
    }

    pub(super) const fn zone(&self) -> &Zone {
        &self.zone
    }
}
