//! Sums of the hours of the local time.

use std::ops::Range;

use ibnet_record::interval::Interval;

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
    /// The hour that was used last in nanoseconds since 1970, the index of its day, and its number.
    last: (Range<u64>, usize, usize),
}

impl Hours {
    pub(super) const fn new(zone: Zone) -> Self {
        Self {
            zone,
            shift: None,
            days: Vec::new(),
            last: (0..0, 0, 0),
        }
    }

    /// Calls `add` for each hour of a time with the sums of the hour, and its part of the time in
    /// seconds.
    #[inline]
    pub(super) fn spread(&mut self, time: Interval, mut add: impl FnMut(&mut Sums, f64)) {
        let mut from = time.from();
        while from < time.to() {
            if !self.last.0.contains(&from) {
                self.find(from);
            }
            let (ref hour, day, number) = self.last;
            let to = time.to().min(hour.end);
            add(&mut self.days[day].1[number], (to - from) as f64 / 1e9);
            from = to;
        }
    }

    /// Makes the hour of a point in time the last one.
    fn find(&mut self, ns: u64) {
        let zone = &self.zone;
        let shift = *self.shift.get_or_insert_with(|| zone.quarter_of_hour(ns));
        let hour = (ns / QUARTER_NS + shift) / 4;
        let start = |hour: u64| (hour * 4).saturating_sub(shift).saturating_mul(QUARTER_NS);
        let day = self.day(hour / 24);
        self.last = (start(hour)..start(hour + 1), day, (hour % 24) as usize);
    }

    /// Returns the index of a day.
    fn day(&mut self, day: u64) -> usize {
        let found = self.days.binary_search_by_key(&day, |day| day.0);
        found.unwrap_or_else(|place| {
            self.days.insert(place, (day, [Sums::default(); 24]));
            place
        })
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
        // The indices of the days change.
        self.last.0 = 0..0;
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
