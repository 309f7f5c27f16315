//! Correlation coefficients, and a test of whether a correlation is more than chance.

use serde::Serialize;

/// Up to this number of pairs, the test counts all orders (9! = 362,880).
const MAX_EXACT: usize = 9;

/// Number of random orders for more pairs.
const RANDOM: u32 = 99_999;

/// Returns the correlation coefficient (Pearson) of pairs. Returns `None` with fewer than three
/// pairs, or if one of the two is constant.
pub(crate) fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let (mean_a, mean_b) = (
        pairs.iter().map(|pair| pair.0).sum::<f64>() / count,
        pairs.iter().map(|pair| pair.1).sum::<f64>() / count,
    );
    let product = |f: fn(f64, f64) -> f64| {
        pairs
            .iter()
            .map(|(a, b)| f(a - mean_a, b - mean_b))
            .sum::<f64>()
    };
    let (both, of_a, of_b) = (
        product(|a, b| a * b),
        product(|a, _| a * a),
        product(|_, b| b * b),
    );
    // Rounding makes equal values differ slightly.
    let differs = |squares: f64, mean: f64| squares > count * mean * mean * 1e-18;
    (pairs.len() >= 3 && differs(of_a, mean_a) && differs(of_b, mean_b))
        .then(|| both / (of_a * of_b).sqrt())
}

/// A rank correlation and its significance.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RankTest {
    /// Spearman's rank correlation coefficient, -1 to 1.
    pub rho: f64,
    /// Probability of a coefficient that is at least as far from 0, if the two values of the pairs
    /// are independent (two-sided permutation test).
    pub p: f64,
    /// Whether all orders were counted. Otherwise the test took 99,999 random ones.
    pub is_exact: bool,
}

impl RankTest {
    /// Tests pairs. Returns `None` with fewer than three pairs, or if one of the two is constant.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let ranked = ranked(pairs);
        let rho = pearson(&ranked)?;
        let (a, mut b): (Vec<f64>, Vec<f64>) = ranked.into_iter().unzip();
        // Only this sum depends on the order.
        let mean = a.iter().sum::<f64>() * b.iter().sum::<f64>() / b.len() as f64;
        let distance = |b: &[f64]| (a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() - mean).abs();
        // Ranks are multiples of a half, so no other order has a sum this close.
        let least = distance(&b) - 0.1;
        let (mut orders, mut extreme) = (0_u32, 0_u32);
        let mut count = |b: &[f64]| {
            orders += 1;
            extreme += u32::from(distance(b) > least);
        };
        let is_exact = b.len() <= MAX_EXACT;
        if is_exact {
            permutations(&mut b, &mut count);
        } else {
            let mut rng = fastrand::Rng::with_seed(1);
            // The order that was found counts as one of them.
            count(&b);
            for _ in 0..RANDOM {
                rng.shuffle(&mut b);
                count(&b);
            }
        }
        Some(Self {
            rho,
            p: f64::from(extreme) / f64::from(orders),
            is_exact,
        })
    }
}

/// Returns Spearman's rank correlation coefficient of pairs, under the conditions of [`pearson`].
pub(crate) fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    pearson(&ranked(pairs))
}

/// Returns the ranks of both values of each pair.
fn ranked(pairs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    ranks(&a).into_iter().zip(ranks(&b)).collect()
}

/// Returns the rank of each value, from 1. Equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// Calls a function for each order of the values (Heap's algorithm).
fn permutations(values: &mut [f64], call: &mut impl FnMut(&[f64])) {
    let mut counts = vec![0; values.len()];
    call(values);
    let mut at = 1;
    while at < values.len() {
        if counts[at] < at {
            let other = if at % 2 == 0 { 0 } else { counts[at] };
            values.swap(other, at);
            call(values);
            counts[at] += 1;
            at = 1;
        } else {
            counts[at] = 0;
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(values: &[f64]) -> RankTest {
        let pairs: Vec<(f64, f64)> = (0..).map(f64::from).zip(values.iter().copied()).collect();
        RankTest::of(&pairs).unwrap()
    }

    #[test]
    fn exact_test_counts_all_orders() {
        // Of 120 orders only two are perfectly ordered; of 24 as well.
        let five = test(&[1.0, 3.0, 4.0, 8.0, 9.0]);
        assert!((five.rho - 1.0).abs() < 1e-12 && (five.p - 2.0 / 120.0).abs() < 1e-12);
        assert!(five.is_exact);
        assert!((test(&[4.0, 3.0, 2.0, 1.0]).p - 2.0 / 24.0).abs() < 1e-12);
        // Published critical value for n = 7: |rho| >= 0.786 for p <= 0.05 (two-sided).
        let seven = test(&[2.0, 1.0, 4.0, 3.0, 7.0, 5.0, 6.0]);
        assert!((seven.rho - (1.0 - 6.0 * 10.0 / 336.0)).abs() < 1e-12);
        assert!(seven.p > 0.02 && seven.p < 0.05, "{seven:?}");
    }

    #[test]
    fn random_orders_agree_with_the_t_distribution() {
        // For n = 12, rho = 0.587 has p = 0.049 to 0.05 by published tables.
        let twelve = test(&[
            4.0, 1.0, 2.0, 8.0, 3.0, 11.0, 5.0, 7.0, 6.0, 12.0, 10.0, 9.0,
        ]);
        assert!(!twelve.is_exact);
        let t = twelve.rho * (10.0 / (1.0 - twelve.rho * twelve.rho)).sqrt();
        assert!(t > 2.23 && twelve.p < 0.05, "{twelve:?} {t}");
        let none = test(&[6.0, 7.0, 5.0, 8.0, 4.0, 9.0, 3.0, 10.0, 2.0, 11.0]);
        assert!(none.p > 0.5, "{none:?}");
    }

    #[test]
    fn ties_share_their_ranks_and_constant_values_have_no_test() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(RankTest::of(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
        assert_eq!(RankTest::of(&[(1.0, 2.0), (2.0, 3.0)]), None);
    }
}
