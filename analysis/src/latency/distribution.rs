//! An empirical distribution: moments, percentiles, logarithmic bins, modes, and how far two of them are apart.

use hdrhistogram::Histogram;

/// Positive values in nanoseconds, to three digits.
#[derive(Clone, Debug)]
pub struct Distribution(Histogram<u64>);

/// What takes longer counts as this: 1000 seconds.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Bins of a decade: each 12 % wider than the one before.
const BINS_A_DECADE: f64 = 20.0;

/// A bin: its lower and upper end, and the share of the values in it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bin {
    /// In nanoseconds, included.
    pub from: f64,
    /// Likewise, not included.
    pub to: f64,
    /// Of 1.
    pub share: f64,
}

/// Central moments of a distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    /// In nanoseconds.
    pub mean: f64,
    /// Standard deviation in nanoseconds.
    pub deviation: f64,
    /// 0 for a symmetric one, above for a long tail to the right.
    pub skewness: f64,
    /// 3 for a normal one, above for heavier tails.
    pub kurtosis: f64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("constant bounds that are in order"))
    }
}

impl Distribution {
    /// Takes a value.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Takes all values of a histogram of any resolution, each at the middle of what it may be.
    pub fn add(&mut self, other: &Histogram<u64>) {
        for value in other.iter_recorded() {
            let middle = other.median_equivalent(value.value_iterated_to());
            self.0.saturating_record_n(middle, value.count_at_value());
        }
    }

    /// Takes all values of another one.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds: nothing can be out of them.
        let _ = self.0.add(&other.0);
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The value that so many percent of the values do not exceed, in nanoseconds.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// Values and how often they are, ascending.
    fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value()))
    }

    /// Its moments; of a single value all but the mean are 0.
    pub fn moments(&self) -> Moments {
        let count = self.count().max(1) as f64;
        let values: Vec<(f64, f64)> = self.values().map(|(value, count)| (self.0.median_equivalent(value) as f64, count as f64)).collect();
        let mean = values.iter().map(|(value, times)| value * times).sum::<f64>() / count;
        let moment = |power| values.iter().map(|(value, times)| (value - mean).powi(power) * times).sum::<f64>() / count;
        let deviation = moment(2).sqrt();
        let scaled = |power| if deviation > 0.0 { moment(power) / deviation.powi(power) } else { 0.0 };
        Moments { mean, deviation, skewness: scaled(3), kurtosis: scaled(4) }
    }

    /// Shares by logarithmic bins, from the first to the last that has a value, the empty ones between included.
    pub fn bins(&self) -> Vec<Bin> {
        let place = |value: u64| ((value.max(1) as f64).log10() * BINS_A_DECADE).floor() as i64;
        let (Some(first), Some(last)) = (self.values().next(), self.values().last()) else { return Vec::new() };
        let first = place(self.0.median_equivalent(first.0));
        let last = place(self.0.median_equivalent(last.0));
        let edge = |bin: i64| 10_f64.powf(bin as f64 / BINS_A_DECADE);
        let mut bins: Vec<Bin> = (first..=last).map(|bin| Bin { from: edge(bin), to: edge(bin + 1), share: 0.0 }).collect();
        for (value, count) in self.values() {
            bins[(place(self.0.median_equivalent(value)) - first) as usize].share += count as f64 / self.count() as f64;
        }
        bins
    }

    /// Values, each with the share of all that do not exceed it.
    pub fn cumulated(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let share = |(value, count): (u64, u64)| {
            below += count;
            (value as f64, below as f64 / self.count() as f64)
        };
        self.values().map(share).collect()
    }

    /// The most frequent value: the middle of its bin, in nanoseconds.
    pub fn mode(&self) -> f64 {
        let most = self.bins().into_iter().reduce(|most, bin| if bin.share > most.share { bin } else { most });
        most.map_or(0.0, |bin| (bin.from * bin.to).sqrt())
    }

    /// Where values gather: peaks of the smoothed bins that are no mere ripples. Middles of bins in nanoseconds, ascending.
    pub fn modes(&self) -> Vec<f64> {
        /// Of the greatest peak; less is noise.
        const LEAST: f64 = 0.05;
        /// The valley between two peaks is lower than so much of the lower one.
        const VALLEY: f64 = 0.7;
        let bins = self.bins();
        let share = |place: usize| bins.get(place).map_or(0.0, |bin| bin.share);
        let smooth: Vec<f64> =
            (0..bins.len()).map(|place| (place.checked_sub(1).map_or(0.0, share) + 2.0 * share(place) + share(place + 1)) / 4.0).collect();
        let highest = smooth.iter().copied().fold(0.0, f64::max);
        let mut peaks: Vec<usize> = Vec::new();
        // The lowest place since the last peak.
        let mut valley = f64::INFINITY;
        for (place, height) in smooth.iter().copied().enumerate() {
            valley = valley.min(height);
            let rises = place.checked_sub(1).is_none_or(|before| smooth[before] < height);
            let falls = smooth.get(place + 1).is_none_or(|after| *after <= height);
            if !(rises && falls) || height < LEAST * highest {
                continue;
            }
            match peaks.last().copied() {
                Some(last) if valley >= VALLEY * smooth[last].min(height) => {
                    // One hill with a dent: its higher top counts.
                    if height > smooth[last] {
                        *peaks.last_mut().expect("there is one") = place;
                        valley = height;
                    }
                }
                _ => {
                    peaks.push(place);
                    valley = height;
                }
            }
        }
        peaks.into_iter().map(|place| (bins[place].from * bins[place].to).sqrt()).collect()
    }

    /// The share of the values that are about as long: less than a quarter away.
    pub fn share_near(&self, ns: f64) -> f64 {
        let near = self.values().filter(|(value, _)| (*value as f64) > ns * 0.75 && (*value as f64) < ns * 1.25);
        near.map(|(_, count)| count as f64).sum::<f64>() / self.count().max(1) as f64
    }

    /// The distance of Kolmogorov and Smirnov: the most by which the two cumulated shares differ, 0 to 1.
    pub fn distance(&self, other: &Self) -> f64 {
        let (ours, theirs) = (self.cumulated(), other.cumulated());
        let (mut here, mut there, mut most) = (0, 0, 0.0_f64);
        let share = |cumulated: &[(f64, f64)], place: usize| place.checked_sub(1).map_or(0.0, |place| cumulated[place].1);
        while here < ours.len() || there < theirs.len() {
            let next = |cumulated: &[(f64, f64)], place: usize| cumulated.get(place).map_or(f64::INFINITY, |(value, _)| *value);
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
    fn moments_of_few_values() {
        // 1, 2, 3, 10: mean 4, squares 9 + 4 + 1 + 36 = 50, cubes -27 - 8 - 1 + 216 = 180, fourths 81 + 16 + 1 + 1296 = 1394.
        let Moments { mean, deviation, skewness, kurtosis } = of(&[1, 2, 3, 10]).moments();
        assert_eq!((mean, deviation), (4.0, 12.5_f64.sqrt()));
        assert!((skewness - 45.0 / 12.5_f64.powf(1.5)).abs() < 1e-12 && (kurtosis - 348.5 / 156.25).abs() < 1e-12);
        assert_eq!(of(&[7]).moments(), Moments { mean: 7.0, deviation: 0.0, skewness: 0.0, kurtosis: 0.0 });
    }

    #[test]
    fn bins_are_logarithmic_and_their_shares_sum_up() {
        let bins = of(&[100, 100, 1000, 101]).bins();
        assert_eq!(bins.len(), 21, "from 10^2 to 10^3 in twentieths");
        assert!((bins[0].from - 100.0).abs() < 1e-9 && (bins[20].from - 1000.0).abs() < 1e-9);
        assert_eq!((bins[0].share, bins[20].share), (0.75, 0.25));
        assert!(of(&[]).bins().is_empty());
        assert_eq!(of(&[5, 6, 6]).cumulated(), [(5.0, 1.0 / 3.0), (6.0, 1.0)]);
    }

    #[test]
    fn modes_are_hills_and_not_ripples() {
        let hill = |middle: u64| (0..200_u64).map(move |step| middle + middle / 400 * (step % 40) + step);
        let two: Vec<u64> = hill(38_000).chain(hill(38_000)).chain(hill(61_000)).collect();
        let modes = of(&two).modes();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!((36_000.0..44_000.0).contains(&modes[0]) && (58_000.0..70_000.0).contains(&modes[1]), "{modes:?}");
        let flat: Vec<u64> = (100..2000).map(|step| step * 10).collect();
        assert_eq!(of(&flat).modes().len(), 1, "a slope has one top");
        assert_eq!((of(&[]).modes(), of(&[]).mode()), (vec![], 0.0));
    }

    #[test]
    fn distances_of_few_values() {
        assert_eq!(of(&[1, 2, 3, 4]).distance(&of(&[1, 2, 3, 4])), 0.0);
        assert_eq!(of(&[1, 2]).distance(&of(&[3, 4])), 1.0);
        // Cumulated at 2: a half and a quarter... at 1: 1/4 and 0, at 3: 3/4 and 1/2, at 5: 1 and 3/4.
        assert_eq!(of(&[1, 2, 3, 5]).distance(&of(&[2, 3, 4, 6])), 0.25);
        assert_eq!(of(&[1, 1, 1, 9]).distance(&of(&[9])), 0.75);
    }
}
