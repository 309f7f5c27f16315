//! The exact interval of a Poisson mean.

/// Probability on each side outside of the interval: together 5 %.
const OUTSIDE: f64 = 0.025;

/// Quantile of the normal distribution for [`OUTSIDE`].
const Z: f64 = 1.959_963_984_540_054;

/// From this count on, the approximation of Wilson and Hilferty replaces the exact quantile. Its
/// relative error is below 2e-8 there.
const LARGE: f64 = 10_000.0;

/// Returns the 95 % interval of the mean of a Poisson distribution of which `count` events were
/// seen (Garwood, Biometrika 28, 1936: quantiles of gamma distributions).
pub(super) fn interval(count: u64) -> [f64; 2] {
    let count = count as f64;
    let lower = if count > 0.0 {
        quantile(count, false)
    } else {
        0.0
    };
    [lower, quantile(count + 1.0, true)]
}

/// Returns the quantile of a gamma distribution with the scale 1 and an integer shape from 1: the
/// lower or the upper one.
fn quantile(shape: f64, is_upper: bool) -> f64 {
    let (z, p) = if is_upper {
        (Z, 1.0 - OUTSIDE)
    } else {
        (-Z, OUTSIDE)
    };
    let mut x = shape * (1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt())).powi(3);
    if shape > LARGE {
        return x;
    }
    // Newton's method; the derivative is the density.
    let log_gamma = log_gamma(shape);
    for _ in 0..50 {
        let density = ((shape - 1.0) * x.ln() - x - log_gamma).exp();
        let step = (distribution(shape, x, log_gamma) - p) / density;
        x = (x - step).max(x / 2.0);
        if step.abs() < 1e-12 * x {
            break;
        }
    }
    x
}

/// Returns the logarithm of the gamma function for an integer from 1.
fn log_gamma(shape: f64) -> f64 {
    if shape < 20.0 {
        return (1..shape as u64).map(|factor| (factor as f64).ln()).sum();
    }
    let half_log_two_pi = 0.5 * std::f64::consts::TAU.ln();
    let correction =
        1.0 / (12.0 * shape) - 1.0 / (360.0 * shape.powi(3)) + 1.0 / (1260.0 * shape.powi(5));
    (shape - 0.5) * shape.ln() - shape + half_log_two_pi + correction
}

/// Returns the distribution function of the gamma distribution: below its mean by its series, else
/// by its continued fraction (Abramowitz and Stegun, 6.5.29 and 6.5.31).
fn distribution(shape: f64, x: f64, log_gamma: f64) -> f64 {
    let front = (shape * x.ln() - x - log_gamma).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * 1e-16 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    // The method of Lentz.
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (f64::MAX, 1.0 / b);
    let mut fraction = d;
    for i in (1..).map(f64::from) {
        let a = -i * (i - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 || i > 1e5 {
            break;
        }
    }
    1.0 - front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of published tables: Ulm, American Journal of Epidemiology 131, 1990, and chi-square
    /// quantiles divided by 2.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (count, lower, upper) in [
            (0, 0.0, 3.688_879),
            (1, 0.025_318, 5.571_643),
            (2, 0.242_209, 7.224_688),
            (5, 1.623_486, 11.668_332),
            (10, 4.795_389, 18.390_356),
            (20, 12.216_520, 30.888_381),
            (100, 81.363_995, 121.627_343),
        ] {
            let [low, high] = interval(count);
            assert!(
                (low - lower).abs() < 1e-5 && (high - upper).abs() < 1e-5,
                "{count}: {low} to {high}"
            );
        }
    }

    #[test]
    fn probability_outside_is_that_of_poisson() {
        for count in [1_u64, 3, 17, 25, 400, 9_999] {
            let [lower, upper] = interval(count);
            // Poisson probabilities, summed one by one.
            let sum = |mean: f64, counts: std::ops::RangeInclusive<u64>| {
                let log = |n: u64| (1..=n).map(|factor| (factor as f64).ln()).sum::<f64>();
                let mut term =
                    (*counts.start() as f64 * mean.ln() - mean - log(*counts.start())).exp();
                let mut sum = 0.0;
                for n in counts {
                    sum += term;
                    term *= mean / (n + 1) as f64;
                }
                sum
            };
            let (above, below) = (sum(lower, count..=2 * count + 60), sum(upper, 0..=count));
            // The sum from 0 underflows for large means.
            assert!((above - OUTSIDE).abs() < 1e-8, "{count}: {above}");
            assert!(
                count > 500 || (below - OUTSIDE).abs() < 1e-8,
                "{count}: {below}"
            );
        }
    }

    #[test]
    fn approximation_for_large_counts_continues_the_exact_values() {
        let exact = quantile(LARGE, true) / LARGE.sqrt();
        let next = quantile(LARGE + 1e-6, true) / LARGE.sqrt();
        assert!((exact - next).abs() < 1e-5, "{exact} {next}");
    }
}
