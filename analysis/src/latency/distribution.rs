//! Empirical distributions: moments, percentiles, logarithmic bins, modes, and the distance of two
//! of them.

use hdrhistogram::Histogram;

/// Positive values in nanoseconds, with a resolution of three digits.
#[derive(Clone, Debug)]
pub struct Distribution(Histogram<u64>);

/// Largest value: 1000 s. Longer times are recorded as this value.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Number of bins per decade. Each bin is 12 % wider than the one before.
const BINS_PER_DECADE: f64 = 20.0;

/// A logarithmic bin and the share of the values in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogBin {
    /// Lower end in nanoseconds, inclusive.
    pub from: f64,
    /// Upper end in nanoseconds, exclusive.
    pub to: f64,
    /// Share of the values, 0 to 1.
    pub share: f64,
}

/// Central moments of a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    /// Mean in nanoseconds.
    pub mean: f64,
    /// Standard deviation in nanoseconds.
    pub deviation: f64,
    /// Skewness: 0 for a symmetric distribution, positive for a long tail to the right.
    pub skewness: f64,
    /// Kurtosis: 3 for a normal distribution, larger for heavier tails.
    pub kurtosis: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constant and in order"))
    }
}

impl Distribution {
    /// Adds a value.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all values of a histogram of any resolution, each at the middle of its bucket.
    pub fn add(&mut self, other: &Histogram<u64>) {
        for value in other.iter_recorded() {
            let middle = other.median_equivalent(value.value_iterated_to());
            self.0.saturating_record_n(middle, value.count_at_value());
        }
    }

    /// Adds all values of another distribution.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds, so no value is out of range.
        let _ = self.0.add(&other.0);
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Returns the value in nanoseconds that `percent` of the values do not exceed.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Returns values and their counts, ascending.
    fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value()))
    }

    /// Returns the moments. For a single value all but the mean are 0.
    pub fn moments(&self) -> Moments {
        let count = self.count().max(1) as f64;
        let values: Vec<(f64, f64)> = self.values().map(|(value, count)| (self.0.median_equivalent(value) as f64, count as f64)).collect();
        let mean = values.iter().map(|(value, times)| value * times).sum::<f64>() / count;
        let moment = |power| values.iter().map(|(value, times)| (value - mean).powi(power) * times).sum::<f64>() / count;
        let deviation = moment(2).sqrt();
        let scaled = |power| if deviation > 0.0 { moment(power) / deviation.powi(power) } else { 0.0 };
        Moments { mean, deviation, skewness: scaled(3), kurtosis: scaled(4) }
    }

    /// Returns logarithmic bins from the first to the last one with a value, including empty ones
    /// in between.
    pub fn bins(&self) -> Vec<LogBin> {
        let index = |value: u64| ((value.max(1) as f64).log10() * BINS_PER_DECADE).floor() as i64;
        let (Some(first), Some(last)) = (self.values().next(), self.values().last()) else { return Vec::new() };
        let first = index(self.0.median_equivalent(first.0));
        let last = index(self.0.median_equivalent(last.0));
        let edge = |bin: i64| 10_f64.powf(bin as f64 / BINS_PER_DECADE);
        let mut bins: Vec<LogBin> = (first..=last).map(|bin| LogBin { from: edge(bin), to: edge(bin + 1), share: 0.0 }).collect();
        for (value, count) in self.values() {
            bins[(index(self.0.median_equivalent(value)) - first) as usize].share += count as f64 / self.count() as f64;
        }
        bins
    }

    /// Returns each value with the share of values that do not exceed it.
    pub fn cumulative(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let share = |(value, count): (u64, u64)| {
            below += count;
            (value as f64, below as f64 / self.count() as f64)
        };
        self.values().map(share).collect()
    }

    /// Returns the middle of the bin with the most values, in nanoseconds.
    pub fn mode(&self) -> f64 {
        let most = self.bins().into_iter().reduce(|most, bin| if bin.share > most.share { bin } else { most });
        most.map_or(0.0, |bin| (bin.from * bin.to).sqrt())
    }

    /// Returns the peaks of the smoothed bins, as middles of bins in nanoseconds, ascending. Small
    /// peaks and peaks without a deep valley between them are not modes.
    pub fn modes(&self) -> Vec<f64> {
        /// Smallest height of a peak, as a share of the highest one.
        const LEAST: f64 = 0.05;
        /// Largest height of the valley between two peaks, as a share of the lower peak.
        const VALLEY: f64 = 0.7;
        let bins = self.bins();
        let share = |index: usize| bins.get(index).map_or(0.0, |bin| bin.share);
        let smooth: Vec<f64> =
            (0..bins.len()).map(|index| (index.checked_sub(1).map_or(0.0, share) + 2.0 * share(index) + share(index + 1)) / 4.0).collect();
        let highest = smooth.iter().copied().fold(0.0, f64::max);
        let mut peaks: Vec<usize> = Vec::new();
        // Lowest height since the last peak.
        let mut valley = f64::INFINITY;
        for (index, height) in smooth.iter().copied().enumerate() {
            valley = valley.min(height);
            let rises = index.checked_sub(1).is_none_or(|before| smooth[before] < height);
            let falls = smooth.get(index + 1).is_none_or(|after| *after <= height);
            if !(rises && falls) || height < LEAST * highest {
                continue;
            }
            match peaks.last().copied() {
                Some(last) if valley >= VALLEY * smooth[last].min(height) => {
                    // No valley: both are one peak, at the higher of the two.
                    if height > smooth[last] {
                        *peaks.last_mut().expect("the list has a last peak") = index;
                        valley = height;
                    }
                }
                _ => {
                    peaks.push(index);
                    valley = height;
                }
            }
        }
        peaks.into_iter().map(|index| (bins[index].from * bins[index].to).sqrt()).collect()
    }

    /// Returns the share of the values that differ from `ns` by less than a quarter.
    pub fn share_near(&self, ns: f64) -> f64 {
        let near = self.values().filter(|(value, _)| (*value as f64) > ns * 0.75 && (*value as f64) < ns * 1.25);
        near.map(|(_, count)| count as f64).sum::<f64>() / self.count().max(1) as f64
    }

    /// Returns the Kolmogorov-Smirnov distance: the largest difference of the cumulative shares, 0
    /// to 1.
    pub fn distance(&self, other: &Self) -> f64 {
        let (ours, theirs) = (self.cumulative(), other.cumulative());
        let (mut here, mut there, mut most) = (0, 0, 0.0_f64);
        let share = |cumulative: &[(f64, f64)], count: usize| count.checked_sub(1).map_or(0.0, |last| cumulative[last].1);
        while here < ours.len() || there < theirs.len() {
            let next = |cumulative: &[(f64, f64)], count: usize| cumulative.get(count).map_or(f64::INFINITY, |(value, _)| *value);
            let (a, b) = (next(&ours, here), next(&theirs, there));
            here += usize::from(a <= b);
            there += usize::from(b <= a);
            most = most.max((share(&ours, here) - share(&theirs, there)).abs());
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Distribution {
        let mut distribution = Distribution::default();
        values.iter().for_each(|value| distribution.record(*value));
        distribution
    }

    #[test]
    fn moments_of_a_few_values_are_exact() {
        // 1, 2, 3, 10: mean 4, squares 9 + 4 + 1 + 36 = 50, cubes -27 - 8 - 1 + 216 = 180, fourths
        // 81 + 16 + 1 + 1296 = 1394.
        let Moments { mean, deviation, skewness, kurtosis } = of(&[1, 2, 3, 10]).moments();
        assert_eq!((mean, deviation), (4.0, 12.5_f64.sqrt()));
        assert!((skewness - 45.0 / 12.5_f64.powf(1.5)).abs() < 1e-12 && (kurtosis - 348.5 / 156.25).abs() < 1e-12);
        assert_eq!(of(&[7]).moments(), Moments { mean: 7.0, deviation: 0.0, skewness: 0.0, kurtosis: 0.0 });
    }

    #[test]
    fn bins_are_logarithmic_and_have_the_shares_of_the_values() {
        let bins = of(&[100, 100, 1000, 101]).bins();
        assert_eq!(bins.len(), 21, "10^2 to 10^3 in 20 bins and one more");
        assert!((bins[0].from - 100.0).abs() < 1e-9 && (bins[20].from - 1000.0).abs() < 1e-9);
        assert_eq!((bins[0].share, bins[20].share), (0.75, 0.25));
        assert!(of(&[]).bins().is_empty());
        assert_eq!(of(&[5, 6, 6]).cumulative(), [(5.0, 1.0 / 3.0), (6.0, 1.0)]);
    }

    #[test]
    fn modes_are_peaks_with_deep_valleys_between_them() {
        let hill = |middle: u64| (0..200_u64).map(move |step| middle + middle / 400 * (step % 40) + step);
        let two: Vec<u64> = hill(38_000).chain(hill(38_000)).chain(hill(61_000)).collect();
        let modes = of(&two).modes();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!((36_000.0..44_000.0).contains(&modes[0]) && (58_000.0..70_000.0).contains(&modes[1]), "{modes:?}");
        let flat: Vec<u64> = (100..2000).map(|step| step * 10).collect();
        assert_eq!(of(&flat).modes().len(), 1, "a slope has one peak");
        assert_eq!((of(&[]).modes(), of(&[]).mode()), (vec![], 0.0));
    }

    #[test]
    fn distances_of_a_few_values_are_exact() {
        assert_eq!(of(&[1, 2, 3, 4]).distance(&of(&[1, 2, 3, 4])), 0.0);
        assert_eq!(of(&[1, 2]).distance(&of(&[3, 4])), 1.0);
        // Cumulative shares: at 1 1/4 and 0, at 2 1/2 and 1/4, at 3 3/4 and 1/2, at 5 1 and 3/4.
        assert_eq!(of(&[1, 2, 3, 5]).distance(&of(&[2, 3, 4, 6])), 0.25);
        assert_eq!(of(&[1, 1, 1, 9]).distance(&of(&[9])), 0.75);
    }
}
