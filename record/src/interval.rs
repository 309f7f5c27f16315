//! The time that a port record describes.
//!
//! The rates of a port record are means over the time between two readings of its counters. This
//! time ends at `ts` and has the length `dt_ns`. All code that draws, bins, filters or sums records
//! uses [`Interval`]. It follows three rules:
//!
//! - An interval is half open: it includes its start and excludes its end. So two consecutive
//!   records of a port have no nanosecond in common.
//! - **Rates** are constant over the interval. A part of the interval has the same rate. The octets
//!   in a part are the rate times the length of the part ([`Interval::split`]).
//! - **Counters** grow evenly between two readings, in whole numbers: see [`Interval::grown`].
//!
//! So the time can be divided into parts in any way: the sum over the parts equals the sum over the
//! whole time.

/// A half-open range of time in nanoseconds since 1970. It is never empty.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    from: u64,
    to: u64,
}

impl Interval {
    /// Returns the time from `from` (inclusive) to `to` (exclusive), or `None` if it is empty.
    pub const fn new(from: u64, to: u64) -> Option<Self> {
        if from < to {
            Some(Self { from, to })
        } else {
            None
        }
    }

    /// Returns the time that a record describes: it has the length `dt_ns` and ends at `ts`.
    /// Returns `None` without `dt_ns`: the record then has no rates.
    pub fn ending_at(ts: u64, dt_ns: Option<u64>) -> Option<Self> {
        Self::new(ts.saturating_sub(dt_ns?), ts)
    }

    /// Returns the start in nanoseconds since 1970, inclusive.
    pub const fn from(self) -> u64 {
        self.from
    }

    /// Returns the end in nanoseconds since 1970, exclusive.
    pub const fn to(self) -> u64 {
        self.to
    }

    /// Returns the length in nanoseconds.
    pub const fn length_ns(self) -> u64 {
        self.to - self.from
    }

    /// Returns the part of the interval from `from` (inclusive) to `to` (exclusive), or `None` if
    /// there is no such part.
    pub fn within(self, from: u64, to: u64) -> Option<Self> {
        Self::new(self.from.max(from), self.to.min(to))
    }

    /// Splits the interval at the multiples of `width_ns`. Returns each part of the interval with
    /// the number of its bin. Bin `n` starts at `n * width_ns`.
    pub fn split(self, width_ns: u64) -> impl Iterator<Item = (u64, Self)> {
        let width_ns = width_ns.max(1);
        let pieces = self.from / width_ns..=(self.to - 1) / width_ns;
        pieces.filter_map(move |piece| {
            let start = piece * width_ns;
            Some((piece, self.within(start, start.saturating_add(width_ns))?))
        })
    }

    /// Returns the increase of a counter from the start of the interval to `at`. `increase` is its
    /// increase over the whole interval. The result grows in proportion to the time and is rounded
    /// down.
    ///
    /// The increase over a part of the interval is the difference of two results. So the increases
    /// over all parts add up exactly to `increase`. A single event counts at the end of the
    /// interval, where it was read.
    pub fn grown(self, increase: u64, at: u64) -> u64 {
        let passed = at.clamp(self.from, self.to) - self.from;
        let grown = u128::from(increase) * u128::from(passed) / u128::from(self.length_ns());
        // The result never exceeds `increase`.
        u64::try_from(grown).unwrap_or(increase)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn record_describes_the_time_before_it() {
        assert_eq!(Interval::ending_at(10, Some(4)), Interval::new(6, 10));
        assert_eq!(Interval::ending_at(10, None), None);
        assert_eq!(Interval::ending_at(10, Some(0)), None);
        assert_eq!(
            Interval::ending_at(10, Some(11)),
            Interval::new(0, 10),
            "before 1970"
        );
    }

    #[test]
    fn interval_is_split_at_the_multiples_of_the_width() {
        let parts: Vec<_> = Interval::new(8, 21)
            .unwrap()
            .split(10)
            .map(|(piece, part)| (piece, part.from(), part.to()))
            .collect();
        assert_eq!(parts, [(0, 8, 10), (1, 10, 20), (2, 20, 21)]);
        assert_eq!(
            Interval::new(10, 20).unwrap().split(10).count(),
            1,
            "the end is exclusive"
        );
        assert_eq!(
            Interval::new(0, u64::MAX)
                .unwrap()
                .split(u64::MAX / 2)
                .count(),
            3
        );
        assert_eq!(Interval::new(5, 10).unwrap().within(10, 20), None);
    }

    #[test]
    fn counter_grows_evenly_in_whole_numbers() {
        let interval = Interval::new(100, 110).unwrap();
        assert_eq!(
            [0, 100, 104, 109, 110, 200].map(|at| interval.grown(3, at)),
            [0, 0, 1, 2, 3, 3]
        );
        assert_eq!(
            interval.grown(1, 109),
            0,
            "an event counts where it was read"
        );
        assert_eq!(
            Interval::new(0, u64::MAX)
                .unwrap()
                .grown(u64::MAX, u64::MAX - 1),
            u64::MAX - 1
        );
    }

    proptest! {
        /// 10 Hz, 1 Hz and 0.2 Hz; bins from a millisecond to a minute.
        #[test]
        fn parts_of_a_partition_add_up_to_the_whole(
            from in 0_u64..1 << 60,
            length in prop::sample::select(vec![100_000_000_u64, 1_000_000_000, 5_000_000_000]),
            jitter in 0_u64..50_000_000,
            width in 1_000_000_u64..60_000_000_000,
            increase in any::<u64>(),
        ) {
            let whole = Interval::new(from, from + length + jitter).unwrap();
            let parts: Vec<Interval> = whole.split(width).map(|(_, part)| part).collect();
            prop_assert_eq!(parts.first().map(|part| part.from()), Some(whole.from()));
            prop_assert_eq!(parts.last().map(|part| part.to()), Some(whole.to()));
            prop_assert!(parts.windows(2).all(|pair| pair[0].to() == pair[1].from()));
            prop_assert_eq!(parts.iter().map(|part| part.length_ns()).sum::<u64>(), whole.length_ns());
            let grown = parts.iter().map(|part| whole.grown(increase, part.to()) - whole.grown(increase, part.from()));
            prop_assert_eq!(grown.sum::<u64>(), increase);
        }
    }
}
