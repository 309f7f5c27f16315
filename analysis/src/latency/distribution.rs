//! Empirical distributions of durations: counts in narrow buckets, moments, percentiles, and the
//! distance between two distributions.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Positive durations in nanoseconds.
///
/// The moments, the min and the max are exact, because they are computed from the recorded
/// values. Everything else is computed from counts in buckets, whose widths are 0.1 to 0.2 % of
/// their values; values below 1024 ns are exact there too. Values from a histogram are only as
/// exact as its buckets.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Number of values in each bucket, multiplied by [`UNIT`].
    buckets: BTreeMap<u32, u64>,
    sums: Sums,
    least: u64,
    greatest: u64,
}

/// Max value: 1000 s. Longer durations are recorded as this value.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Number of leading binary digits of a value that determine its bucket.
const DIGITS: u32 = 10;

/// Number of buckets from one power of two to the next.
const PER_OCTAVE: u64 = 1 << (DIGITS - 1);

/// Count of one value. The values of a histogram bucket are spread over all buckets that it
/// covers here, which therefore hold fractions of values. If they were rounded to whole values,
/// most values of small histograms would pile up in the middles of their buckets and look like
/// modes.
const UNIT: u64 = 1 << 20;

/// The values of a bucket: from `low` (inclusive) to `low + width` (exclusive).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bucket {
    low: u64,
    width: u64,
}

impl Bucket {
    fn index_of(ns: u64) -> u32 {
        let excess = (u64::BITS - ns.leading_zeros()).saturating_sub(DIGITS);
        // At most 31 x 512 + 1024, because values are limited.
        (u64::from(excess) * PER_OCTAVE + (ns >> excess)) as u32
    }

    fn at(index: u32) -> Self {
        let index = u64::from(index);
        let excess = (index / PER_OCTAVE).saturating_sub(1);
        Self {
            low: (index - excess * PER_OCTAVE) << excess,
            width: 1 << excess,
        }
    }

    fn middle(self) -> f64 {
        self.low as f64 + (self.width - 1) as f64 / 2.0
    }
}

/// Count, mean and sums of the powers of the deviations from the mean.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sums {
    count: f64,
    mean: f64,
    second: f64,
    third: f64,
    fourth: f64,
}

impl Sums {
    /// Returns the sums of equal values.
    fn of(value: f64, count: u64) -> Self {
        Self {
            count: count as f64,
            mean: value,
            ..Self::default()
        }
    }

    /// Returns the sums of both sets of values together (P. Pébay, "Formulas for robust, one-pass
    /// parallel computation of covariances and arbitrary-order statistical moments",
    /// SAND2008-6212, equations 1.3 and 2.1 to 2.3). These equations never subtract large sums,
    /// so they lose few digits.
    fn merged(self, other: Self) -> Self {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let (a, b, n) = (self.count, other.count, self.count + other.count);
        let delta = other.mean - self.mean;
        let square = delta * delta;
        Self {
            count: n,
            mean: self.mean + delta * b / n,
            second: self.second + other.second + square * a * b / n,
            third: self.third
                + other.third
                + square * delta * a * b * (a - b) / (n * n)
                + 3.0 * delta * (a * other.second - b * self.second) / n,
            fourth: self.fourth
                + other.fourth
                + square * square * a * b * (a * a - a * b + b * b) / (n * n * n)
                + 6.0 * square * (a * a * other.second + b * b * self.second) / (n * n)
                + 4.0 * delta * (a * other.third - b * self.third) / n,
        }
    }
}

/// Central moments of a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    /// Mean in nanoseconds.
    pub mean: f64,
    /// Standard deviation in nanoseconds, with the number of values as the divisor.
    pub deviation: f64,
    /// Skewness: 0 for a symmetric distribution, positive for a long tail to the right.
    pub skewness: f64,
    /// Kurtosis: 3 for a normal distribution, larger for heavier tails.
    pub kurtosis: f64,
}

/// A range with the number of recorded values in it, which count as spread evenly over it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Min value in nanoseconds, inclusive.
    pub from: f64,
    /// Max value in nanoseconds, exclusive.
    pub to: f64,
    /// Number of values in this range. It can be a fraction if the values come from wider buckets
    /// of a histogram.
    pub count: f64,
}

impl Distribution {
    /// Adds a value. 0 is recorded as 1 ns.
    pub fn record(&mut self, ns: u64) {
        let ns = ns.clamp(1, LONGEST_NS);
        *self.buckets.entry(Bucket::index_of(ns)).or_default() += UNIT;
        self.extend(ns, ns);
        self.sums = self.sums.merged(Sums::of(ns as f64, 1));
    }

    fn extend(&mut self, least: u64, greatest: u64) {
        // 0 means that there is no value so far.
        self.least = if self.least == 0 {
            least
        } else {
            self.least.min(least)
        };
        self.greatest = self.greatest.max(greatest);
    }

    /// Adds all values of a histogram of any resolution. The values of a histogram bucket are
    /// spread evenly over it; for the moments, they count as being in its middle.
    pub fn add(&mut self, other: &Histogram<u64>) {
        for value in other.iter_recorded() {
            let ns = value.value_iterated_to();
            let (low, high) = (
                other.lowest_equivalent(ns).max(1),
                other.highest_equivalent(ns).min(LONGEST_NS),
            );
            let (first, last) = (Bucket::index_of(low), Bucket::index_of(high.max(low)));
            let (count, parts) = (value.count_at_value(), u64::from(last - first) + 1);
            // The parts add up to exactly the count, so no unit is lost.
            let below = |part: u64| {
                (u128::from(count) * u128::from(UNIT) * u128::from(part) / u128::from(parts)) as u64
            };
            for (part, index) in (0..parts).zip(first..=last) {
                *self.buckets.entry(index).or_default() += below(part + 1) - below(part);
            }
            // The first and the last value, if the values are spread evenly.
            let margin = (high.max(low) - low) / (2 * count.max(1));
            self.extend(low + margin, high.max(low) - margin);
            self.sums = self.sums.merged(Sums::of((low + high) as f64 / 2.0, count));
        }
    }

    /// Adds all values of another distribution.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.extend(other.least, other.greatest);
        self.sums = self.sums.merged(other.sums);
        for (index, count) in &other.buckets {
            *self.buckets.entry(*index).or_default() += count;
        }
    }

    /// Returns the distribution of all values minus a constant. A value that would not stay
    /// positive becomes 1 ns.
    #[must_use]
    pub fn less(&self, ns: u64) -> Self {
        let mut less = Self {
            sums: self.sums,
            ..Self::default()
        };
        less.sums.mean = (self.sums.mean - ns as f64).max(1.0);
        let shifted = |value: u64| value.saturating_sub(ns).max(1);
        (less.least, less.greatest) = (shifted(self.least), shifted(self.greatest));
        for (index, count) in &self.buckets {
            *less
                .buckets
                .entry(Bucket::index_of(
                    shifted(Bucket::at(*index).middle() as u64),
                ))
                .or_default() += count;
        }
        less
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.sums.count as u64
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.sums.count == 0.0
    }

    /// Returns the min in nanoseconds, or 0 without values.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// Returns the max in nanoseconds, or 0 without values.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Returns the moments. If all values are equal, every moment except the mean is 0.
    pub fn moments(&self) -> Moments {
        let Sums {
            count,
            mean,
            second,
            third,
            fourth,
        } = self.sums;
        let deviation = (second / count.max(1.0)).sqrt();
        let scaled = |sum: f64, power| {
            if deviation > 0.0 {
                sum / count / deviation.powi(power)
            } else {
                0.0
            }
        };
        Moments {
            mean,
            deviation,
            skewness: scaled(third, 3),
            kurtosis: scaled(fourth, 4),
        }
    }

    /// Returns a percentile in nanoseconds: `percent` of the values are at most this large.
    /// Returns 0 without values.
    pub fn percentile(&self, percent: f64) -> u64 {
        // The factor is needed because 99.9 % of 1000 is not exactly 999 in binary.
        let rank = (percent / 100.0 * self.sums.count * (1.0 - 1e-12))
            .ceil()
            .max(1.0);
        let mut below = 0.0;
        for (index, count) in &self.buckets {
            let bucket = Bucket::at(*index);
            let count = counted(*count);
            if below + count >= rank {
                // The values of a bucket are spread evenly.
                let within = (rank - below - 0.5) / count * bucket.width as f64;
                return (bucket.low + within as u64).clamp(self.least, self.greatest);
            }
            below += count;
        }
        self.greatest
    }

    /// Iterates over the ranges with values, in ascending order and without overlap.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = Step> + Clone {
        self.buckets.iter().map(|(index, count)| {
            let Bucket { low, width } = Bucket::at(*index);
            Step {
                from: low as f64,
                to: (low + width) as f64,
                count: counted(*count),
            }
        })
    }

    /// Returns the number of values from `from` (inclusive) to `to` (exclusive). The values of a
    /// bucket count as spread evenly over it.
    pub fn between(&self, from: f64, to: f64) -> f64 {
        self.steps()
            .map(|step| step.count * overlap(step, from, to))
            .sum()
    }

    /// Returns the ends of all ranges with values, each with the share of values below it.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut below = 0.0;
        let mut points = Vec::with_capacity(2 * self.buckets.len());
        for Step { from, to, count } in self.steps() {
            points.push((from, below / self.sums.count));
            below += count;
            points.push((to, below / self.sums.count));
        }
        points
    }

    /// Returns the Kolmogorov-Smirnov distance, 0 to 1: the max difference between the cumulative
    /// shares of both distributions. A distribution without values has distance 1 from all
    /// others.
    pub fn distance(&self, other: &Self) -> f64 {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() && other.is_empty() {
                0.0
            } else {
                1.0
            };
        }
        // Both distributions have the same buckets, so the max difference is at the end of a
        // bucket.
        let (mut ours, mut theirs) = (
            self.buckets.iter().peekable(),
            other.buckets.iter().peekable(),
        );
        let (mut below, mut most) = ([0_u64; 2], 0.0_f64);
        loop {
            let next = match (ours.peek(), theirs.peek()) {
                (Some((a, _)), Some((b, _))) => **a.min(b),
                (Some((index, _)), None) | (None, Some((index, _))) => **index,
                (None, None) => return most,
            };
            below[0] += ours
                .next_if(|(index, _)| **index == next)
                .map_or(0, |(_, count)| *count);
            below[1] += theirs
                .next_if(|(index, _)| **index == next)
                .map_or(0, |(_, count)| *count);
            most = most.max(
                (counted(below[0]) / self.sums.count - counted(below[1]) / other.sums.count).abs(),
            );
        }
    }
}

/// Converts a count in units to a number of values.
fn counted(units: u64) -> f64 {
    units as f64 / UNIT as f64
}

/// Returns the share of a step that is between `from` and `to`.
pub(super) fn overlap(step: Step, from: f64, to: f64) -> f64 {
    ((step.to.min(to) - step.from.max(from)) / (step.to - step.from)).max(0.0)
}

#[cfg(test)]
pub(super) fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
    let mut distribution = Distribution::default();
    values
        .into_iter()
        .for_each(|value| distribution.record(value));
    distribution
}

#[cfg(test)]
mod tests {
    use super::super::modes::modes;
    use super::*;

    #[test]
    fn buckets_are_narrow_and_leave_no_gap() {
        for index in 0..20_000 {
            let (bucket, next) = (Bucket::at(index), Bucket::at(index + 1));
            assert_eq!(bucket.low + bucket.width, next.low, "{index}");
            assert_eq!(
                [bucket.low, next.low - 1].map(Bucket::index_of),
                [index, index]
            );
            assert!(bucket.width == 1 || bucket.width * PER_OCTAVE <= bucket.low);
        }
        assert!(Bucket::at(20_000).low > LONGEST_NS);
    }

    #[test]
    fn moments_of_a_few_values_are_exact() {
        // 1, 2, 3, 10: mean 4, squares 9 + 4 + 1 + 36 = 50, cubes -27 - 8 - 1 + 216 = 180, fourths
        // 81 + 16 + 1 + 1296 = 1394.
        let expected = [
            4.0,
            12.5_f64.sqrt(),
            45.0 / 12.5_f64.powf(1.5),
            348.5 / 156.25,
        ];
        let mut merged = of([10, 1]);
        merged.merge(&of([3, 2]));
        merged.merge(&Distribution::default());
        for values in [
            of([1, 2, 3, 10]),
            merged,
            of([101, 102, 103, 110]).less(100),
        ] {
            let Moments {
                mean,
                deviation,
                skewness,
                kurtosis,
            } = values.moments();
            for (found, expected) in [mean, deviation, skewness, kurtosis]
                .into_iter()
                .zip(expected)
            {
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
            assert_eq!(
                (values.count(), values.least(), values.greatest()),
                (4, 1, 10)
            );
        }
        assert_eq!(
            of([7]).moments(),
            Moments {
                mean: 7.0,
                deviation: 0.0,
                skewness: 0.0,
                kurtosis: 0.0
            }
        );
        assert_eq!(
            Distribution::default().moments(),
            Moments {
                mean: 0.0,
                deviation: 0.0,
                skewness: 0.0,
                kurtosis: 0.0
            }
        );
    }

    #[test]
    fn percentiles_are_values_of_that_rank() {
        let all = of(1..=1000);
        assert_eq!(
            [0.0, 1.0, 50.0, 99.9, 100.0].map(|percent| all.percentile(percent)),
            [1, 10, 500, 999, 1000]
        );
        let large = of((0..10_000).map(|step| 50_000 + 10 * step));
        assert!(
            large.percentile(25.0).abs_diff(75_000) < 20,
            "{}",
            large.percentile(25.0)
        );
        assert_eq!(
            (
                of([777_777]).percentile(50.0),
                Distribution::default().percentile(50.0)
            ),
            (777_777, 0)
        );
    }

    #[test]
    fn values_of_a_coarse_histogram_are_spread_over_its_buckets() {
        let mut coarse = Histogram::<u64>::new_with_bounds(1_000, 10_000_000_000, 1).unwrap();
        coarse.record_n(65_000, 1000).unwrap();
        let (low, high) = (
            coarse.lowest_equivalent(65_000) as f64,
            coarse.highest_equivalent(65_000) as f64 + 1.0,
        );
        let mut values = Distribution::default();
        values.add(&coarse);
        assert_eq!(values.count(), 1000);
        assert!(
            (values.between(low, (low + high) / 2.0) - 500.0).abs() < 10.0,
            "half of the values are below the middle"
        );
        assert!((values.percentile(50.0) as f64 - (low + high) / 2.0).abs() < 100.0);
        assert_eq!(values.moments().mean, (low + high - 1.0) / 2.0);
        assert!(
            (low..low + 100.0).contains(&(values.least() as f64)),
            "{}",
            values.least()
        );
        let mut single = Distribution::default();
        coarse.reset();
        coarse.record(65_000).unwrap();
        single.add(&coarse);
        assert!(
            (single.moments().mean - (low + high) / 2.0).abs() < 100.0,
            "a single value is in the middle"
        );
    }

    #[test]
    fn small_histograms_invent_no_modes() {
        let (mut values, mut random) = (Distribution::default(), fastrand::Rng::with_seed(7));
        for _ in 0..3_000 {
            let mut coarse = Histogram::<u64>::new_with_bounds(1_000, 10_000_000_000, 1).unwrap();
            for _ in 0..random.u32(1..4) {
                // One peak at 90 us.
                coarse
                    .record(60_000 + random.u64(0..30_000) + random.u64(0..30_000))
                    .unwrap();
            }
            values.add(&coarse);
        }
        for bins in ["log", "fixed", "fixed:5us", "fixed:1us"] {
            let found = modes(&values, bins.parse().unwrap());
            assert!(
                found.len() == 1 && (80_000.0..100_000.0).contains(&found[0].at),
                "{bins}: {found:?}"
            );
        }
    }

    #[test]
    fn distances_of_a_few_values_are_exact() {
        assert_eq!(of([1, 2, 3, 4]).distance(&of([1, 2, 3, 4])), 0.0);
        assert_eq!(of([1, 2]).distance(&of([3, 4])), 1.0);
        // Cumulative shares: at 1 1/4 and 0, at 2 1/2 and 1/4, at 3 3/4 and 1/2, at 5 1 and 3/4.
        assert_eq!(of([1, 2, 3, 5]).distance(&of([2, 3, 4, 6])), 0.25);
        assert_eq!(of([1, 1, 1, 9]).distance(&of([9])), 0.75);
        assert_eq!(
            (of([]).distance(&of([9])), of([]).distance(&of([]))),
            (1.0, 0.0)
        );
    }

    #[test]
    fn cumulative_shares_rise_to_one() {
        assert_eq!(
            of([5, 6, 6]).cumulative(),
            [(5.0, 0.0), (6.0, 1.0 / 3.0), (6.0, 1.0 / 3.0), (7.0, 1.0)]
        );
        assert_eq!(of([5, 6, 6, 9]).between(6.0, 9.0), 2.0);
    }
}
