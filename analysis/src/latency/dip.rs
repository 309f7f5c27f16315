//! The dip test, which decides whether a distribution has more than one mode.
//!
//! The dip is the max difference between the cumulative shares of a distribution and those of the
//! nearest unimodal distribution, that is, a distribution with one mode. Algorithm and test are
//! those of J. A. Hartigan and P. M. Hartigan, "The Dip Test of Unimodality", Annals of
//! Statistics 13 (1985), and P. M. Hartigan, "Computation of the Dip Statistic", Applied
//! Statistics 34 (1985), algorithm AS 217.

/// A point of a cumulative distribution function, which is linear between its points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knot {
    /// Position.
    pub x: f64,
    /// Share of the values below `x`, 0 to 1.
    pub share: f64,
}

/// Returns the dip, 0 to 0.25. The knots must be ascending in `x` and in `share`.
pub fn dip(knots: &[Knot]) -> f64 {
    let Some(last) = knots.len().checked_sub(1) else {
        return 0.0;
    };
    let (mut low, mut high) = (0, last);
    let mut dip = 0.0_f64;
    loop {
        let span = &knots[low..=high];
        let (below, above) = (hull(span, Side::Below), hull(span, Side::Above));
        let Gap { height, begin, end } = widest_gap(span, &below, &above);
        if height <= dip || (begin == 0 && end == span.len() - 1) {
            return dip.max(height) / 2.0;
        }
        // The nearest unimodal distribution is convex before the modal interval and concave after
        // it.
        dip =
            dip.max(misfit(span, &below, 0, begin))
                .max(misfit(span, &above, end, span.len() - 1));
        (low, high) = (low + begin, low + end);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The largest convex function that is nowhere above the knots.
    Below,
    /// The smallest concave function that is nowhere below the knots.
    Above,
}

/// Returns the indices of the first knot, the last knot, and the knots at which a hull changes
/// its slope.
fn hull(knots: &[Knot], side: Side) -> Vec<usize> {
    let sign = if side == Side::Below { 1.0 } else { -1.0 };
    let mut hull: Vec<usize> = Vec::new();
    for (index, next) in knots.iter().enumerate() {
        while let [.., before, last] = hull[..] {
            let (a, b) = (knots[before], knots[last]);
            let turn = (b.share - a.share) * (next.x - a.x) - (next.share - a.share) * (b.x - a.x);
            if sign * turn < 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(index);
    }
    hull
}

/// Returns the height of a hull at each knot from `from` to `to`.
fn heights<'a>(
    knots: &'a [Knot],
    hull: &'a [usize],
    from: usize,
    to: usize,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let mut part = 0;
    (from..=to).map(move |index| {
        while part + 2 < hull.len() && hull[part + 1] <= index {
            part += 1;
        }
        let end = hull[(part + 1).min(hull.len() - 1)];
        let (a, b) = (knots[hull[part]], knots[end]);
        let height = if index == end {
            b.share
        } else if b.x > a.x {
            a.share + (b.share - a.share) / (b.x - a.x) * (knots[index].x - a.x)
        } else {
            a.share
        };
        (index, height)
    })
}

/// Returns the max distance between the knots and a hull.
fn misfit(knots: &[Knot], hull: &[usize], from: usize, to: usize) -> f64 {
    heights(knots, hull, from, to)
        .map(|(index, height)| (knots[index].share - height).abs())
        .fold(0.0, f64::max)
}

/// The max distance between the two hulls, and the modal interval at this distance.
struct Gap {
    height: f64,
    begin: usize,
    end: usize,
}

fn widest_gap(knots: &[Knot], below: &[usize], above: &[usize]) -> Gap {
    let last = knots.len() - 1;
    let mut gap = Gap {
        height: 0.0,
        begin: 0,
        end: last,
    };
    let (lower, upper) = (
        heights(knots, below, 0, last),
        heights(knots, above, 0, last),
    );
    // The next knots at which each hull touches the distribution. Both hulls end at the last
    // knot.
    let (mut next_below, mut next_above) = (0, 0);
    for ((index, low), (_, high)) in lower.zip(upper) {
        while below[next_below] < index {
            next_below += 1;
        }
        while above[next_above] < index {
            next_above += 1;
        }
        if high - low <= gap.height {
            continue;
        }
        if below[next_below] == index {
            gap = Gap {
                height: high - low,
                begin: index,
                end: above[next_above],
            };
        } else if above[next_above] == index {
            gap = Gap {
                height: high - low,
                begin: below[next_below.saturating_sub(1)],
                end: index,
            };
        }
    }
    gap
}

/// Critical values by the number `n` of values: for a uniform distribution, `sqrt(n) * dip`
/// exceeds the critical value in 1 % of the samples.
///
/// Of all unimodal distributions, the uniform one has the largest dips (Hartigan and Hartigan,
/// section 4). Each value is a quantile of 20,000 samples, which the test function `uniform_dips`
/// simulated with seed 1.
const CRITICAL: [(f64, f64); 8] = [
    (10.0, 0.5054),
    (20.0, 0.5417),
    (50.0, 0.5757),
    (100.0, 0.5922),
    (500.0, 0.6177),
    (1_000.0, 0.6197),
    (5_000.0, 0.6253),
    (10_000.0, 0.6249),
];

/// Min number of values for a test.
pub const MIN_VALUES: f64 = CRITICAL[0].0;

/// Returns the ratio of a dip to the critical value of the test, at a significance level of 1 %.
/// Above 1, the distribution has more than one mode. `count` is the number of values; below
/// [`MIN_VALUES`] the ratio is 0.
pub fn significance(dip: f64, count: f64) -> f64 {
    if count < MIN_VALUES {
        return 0.0;
    }
    let scaled = dip * count.sqrt();
    let after = CRITICAL
        .iter()
        .position(|(n, _)| *n >= count)
        .unwrap_or(CRITICAL.len() - 1)
        .max(1);
    let ((n0, c0), (n1, c1)) = (CRITICAL[after - 1], CRITICAL[after]);
    let part = ((count.ln() - n0.ln()) / (n1.ln() - n0.ln())).min(1.0);
    scaled / (c0 + part * (c1 - c0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cumulative distribution of a sample, which rises at each value.
    fn sample(mut values: Vec<f64>) -> Vec<Knot> {
        values.sort_by(f64::total_cmp);
        let share = 1.0 / values.len() as f64;
        let rise = |(index, x): (usize, &f64)| {
            [
                Knot {
                    x: *x,
                    share: index as f64 * share,
                },
                Knot {
                    x: *x,
                    share: (index + 1) as f64 * share,
                },
            ]
        };
        values.iter().enumerate().flat_map(rise).collect()
    }

    /// Returns the dips of samples of the uniform distribution, multiplied by the square root of
    /// `count`, in ascending order.
    pub(super) fn uniform_dips(count: usize, samples: usize, seed: u64) -> Vec<f64> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut dips: Vec<f64> = (0..samples)
            .map(|_| dip(&sample((0..count).map(|_| rng.f64()).collect())) * (count as f64).sqrt())
            .collect();
        dips.sort_by(f64::total_cmp);
        dips
    }

    #[test]
    fn critical_values_are_quantiles_of_uniform_samples() {
        for (count, samples, tolerance) in [
            (10_usize, 4_000, 0.02),
            (50, 4_000, 0.02),
            (500, 1_000, 0.04),
        ] {
            let quantile = uniform_dips(count, samples, 2)[samples * 99 / 100];
            let (_, critical) = CRITICAL
                .into_iter()
                .find(|(n, _)| *n == count as f64)
                .expect("a row of the table");
            assert!(
                (quantile / critical - 1.0).abs() < tolerance,
                "{count}: {quantile} {critical}"
            );
        }
        assert_eq!(
            (
                significance(0.1, 9.0),
                significance(0.6249 / 100.0, 10_000.0)
            ),
            (0.0, 1.0)
        );
    }

    #[test]
    fn dips_of_simple_samples_are_known() {
        // Equal distances: 1/2n. Two values: 1/4, the largest dip. From Hartigan and Hartigan,
        // section 2.
        for count in [2_u32, 5, 100] {
            let even = dip(&sample((0..count).map(f64::from).collect()));
            assert!((even - 0.5 / f64::from(count)).abs() < 1e-12, "{even}");
        }
        let two: Vec<f64> = (0..100)
            .map(|index| f64::from(index % 2) + f64::from(index) * 1e-9)
            .collect();
        assert!((dip(&sample(two)) - 0.25).abs() < 1e-3);
        assert_eq!((dip(&[]), dip(&sample(vec![3.0]))), (0.0, 0.0));
        // The expected values are from the package `diptest` 0.12, a port of the R package of the
        // same name.
        let clusters = [
            1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 20.0, 21.0, 22.0, 22.5, 23.0, 30.0, 31.0, 31.5, 32.0,
            40.0,
        ];
        assert!((dip(&sample(clusters.to_vec())) - 0.138_157_894_736_842).abs() < 1e-12);
        let squares = (0..20)
            .map(|i| f64::from(i * i))
            .chain((0..30).map(|i| 1000.0 + f64::from(i).powf(1.5)));
        assert!((dip(&sample(squares.collect())) - 0.1278).abs() < 1e-12);
        // A density of 1/2, 1/6 and 1/3. The straight line from 1 to 3 is 1/12 above the shares at
        // 2.
        let valley = [(0.0, 0.0), (1.0, 0.5), (2.0, 2.0 / 3.0), (3.0, 1.0)]
            .map(|(x, share)| Knot { x, share });
        assert!((dip(&valley) - 1.0 / 24.0).abs() < 1e-12);
    }
}
