//! Moments about the minimum and a log-normal fit: descriptions of a distribution that has a least
//! value and a long tail, which are the future work of Confidence.

use super::distribution::{Distribution, Moments};

/// Moments of the *excess*: a value minus the min of all values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Excess {
    /// Mean in nanoseconds.
    pub mean: f64,
    /// Root of the mean square in nanoseconds.
    pub rms: f64,
    /// Mean of the cubes, divided by the cube of `rms`. 0 if all values are equal.
    pub third: f64,
    /// Mean of the fourth powers, divided by the fourth power of `rms`. 0 if all values are equal.
    pub fourth: f64,
}

impl Excess {
    /// Computes the moments from those about the mean.
    pub fn of(moments: Moments, least: f64) -> Self {
        let Moments {
            mean,
            deviation,
            skewness,
            kurtosis,
        } = moments;
        let shift = mean - least;
        let [second, third, fourth] = [
            deviation.powi(2),
            skewness * deviation.powi(3),
            kurtosis * deviation.powi(4),
        ];
        let rms = (second + shift.powi(2)).sqrt();
        let scaled = |sum: f64, power| {
            if rms > 0.0 {
                sum / rms.powi(power)
            } else {
                0.0
            }
        };
        Self {
            mean: shift,
            rms,
            third: scaled(third + 3.0 * shift * second + shift.powi(3), 3),
            fourth: scaled(
                fourth + 4.0 * shift * third + 6.0 * shift.powi(2) * second + shift.powi(4),
                4,
            ),
        }
    }
}

/// A log-normal distribution of the excess: its logarithm has a normal distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogNormal {
    /// Min of all values in nanoseconds, where the distribution begins.
    pub least: f64,
    /// Median of the excess in nanoseconds.
    pub median: f64,
    /// Standard deviation of the natural logarithm of the excess.
    pub sigma: f64,
}

/// Distance of the quartiles of a normal distribution in standard deviations.
const QUARTILES: f64 = 1.348_979_500_392_163;

impl LogNormal {
    /// Fits the median and both quartiles. A fit to these is independent of the tail and of the few
    /// values next to the min, whose logarithms would dominate a fit to all of them. Returns `None`
    /// if the quartiles are equal, or if a quarter of the values is at the min.
    pub fn of(values: &Distribution) -> Option<Self> {
        let least = values.least() as f64;
        let [low, median, high] =
            [25.0, 50.0, 75.0].map(|percent| values.percentile(percent) as f64 - least);
        (low > 0.0 && high > low).then(|| Self {
            least,
            median,
            sigma: (high / low).ln() / QUARTILES,
        })
    }

    /// Returns the share of values below `ns`.
    pub fn below(&self, ns: f64) -> f64 {
        if ns <= self.least {
            return 0.0;
        }
        normal(((ns - self.least) / self.median).ln() / self.sigma)
    }

    /// Returns the Kolmogorov-Smirnov distance from the values, 0 to 1.
    pub fn distance(&self, values: &Distribution) -> f64 {
        values
            .cumulative()
            .into_iter()
            .map(|(ns, share)| (self.below(ns) - share).abs())
            .fold(0.0, f64::max)
    }
}

/// Returns the share of a standard normal distribution below `x`, with an error below 1e-7 (M.
/// Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 26.2.17).
fn normal(x: f64) -> f64 {
    const FACTORS: [f64; 5] = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    let above = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * series;
    if x < 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::super::distribution::of;
    use super::*;

    /// Returns values whose excess over `least` has a log-normal distribution.
    fn log_normal(least: f64, median: f64, sigma: f64, count: u32) -> Distribution {
        let mut random = fastrand::Rng::with_seed(7);
        of((0..count).map(|_| {
            // G. E. P. Box and M. E. Muller (1958).
            let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
            let z = radius * (std::f64::consts::TAU * random.f64()).cos();
            (least + median * (sigma * z).exp()).round() as u64
        }))
    }

    #[test]
    fn known_log_normal_distribution_is_found() {
        for (median, sigma) in [(20_000.0, 0.5), (150_000.0, 1.0), (5_000.0, 1.5)] {
            let values = log_normal(50_000.0, median, sigma, 100_000);
            let fit = LogNormal::of(&values).unwrap();
            assert!(
                (fit.least + fit.median - 50_000.0 - median).abs() < 0.03 * median,
                "{fit:?}"
            );
            // The min of the values is above the true one, which widens the logarithms.
            assert!((fit.sigma / sigma - 1.0).abs() < 0.12, "{fit:?}");
            assert!(
                fit.distance(&values) < 0.03,
                "{fit:?} {}",
                fit.distance(&values)
            );
        }
    }

    #[test]
    fn other_distributions_have_a_large_error() {
        let even = of((0..50_000).map(|step| 10_000 + 2 * step));
        assert!(LogNormal::of(&even).unwrap().distance(&even) > 0.08);
        let two = of((0..10_000).map(|step| step % 100 + if step < 5_000 { 1_000 } else { 9_000 }));
        assert!(LogNormal::of(&two).unwrap().distance(&two) > 0.15);
        for few in [of([]), of([7]), of([7, 7, 7, 7, 9])] {
            assert_eq!(LogNormal::of(&few), None);
        }
    }

    #[test]
    fn shares_of_the_normal_distribution_are_those_of_the_tables() {
        for (x, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_75),
            (-1.96, 0.024_997_9),
            (3.0, 0.998_650_1),
        ] {
            assert!((normal(x) - share).abs() < 1e-6, "{x}: {}", normal(x));
        }
        assert!((normal(QUARTILES / 2.0) - 0.75).abs() < 1e-7);
    }

    #[test]
    fn moments_about_the_minimum_are_those_of_the_values() {
        // Excesses 0, 1, 2, 9: squares 86, cubes 738, fourth powers 6578.
        let values = of([1, 2, 3, 10]);
        let excess = Excess::of(values.moments(), 1.0);
        let rms = (86.0_f64 / 4.0).sqrt();
        let expected = [
            3.0,
            rms,
            738.0 / 4.0 / rms.powi(3),
            6578.0 / 4.0 / rms.powi(4),
        ];
        for (found, expected) in [excess.mean, excess.rms, excess.third, excess.fourth]
            .into_iter()
            .zip(expected)
        {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
        let equal = Excess::of(of([7, 7]).moments(), 7.0);
        assert_eq!((equal.rms, equal.third, equal.fourth), (0.0, 0.0, 0.0));
    }
}
