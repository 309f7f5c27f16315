//! Finds the modes of a distribution: their number, their positions, and the share of the values
//! that belongs to each.
//!
//! 1. Candidates are the peaks of a kernel density estimate. The kernel is Gaussian, and its
//!    width follows B. W. Silverman, "Density Estimation" (1986), equation 3.31.
//! 2. The [dip test](super::dip) decides whether two neighbouring peaks are one mode. It tests
//!    the values between the outer valleys of both peaks, and if they have only one mode, the
//!    peaks are merged, the least significant pair first.
//! 3. Both steps are repeated within each mode, because close peaks need a narrower kernel than
//!    distant ones (as in SkinnyDip: S. Maurer and C. Plant, KDD 2016).
//!
//! A large recording has millions of values, but those of one device are not independent: a pause
//! of the sampler, for example, delays all MADs in flight by the same time. Therefore the test
//! never assumes more than [`MAX_VALUES`] values, and a mode has at least [`MIN_SHARE`] of all
//! values.

use super::bins::Bins;
use super::dip::{self, Knot};
use super::distribution::Distribution;

/// Max number of values that the dip test assumes.
pub const MAX_VALUES: f64 = 50_000.0;

/// Min share of all values in a mode.
pub const MIN_SHARE: f64 = 0.01;

/// A mode: a peak of the density, and the values up to the valleys at both sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mode {
    /// Value with the highest density, in nanoseconds.
    pub at: f64,
    /// Valley below the peak, in nanoseconds; 0 for the first mode.
    pub from: f64,
    /// Valley above the peak, in nanoseconds; infinite for the last mode.
    pub to: f64,
    /// Share of the values from `from` to `to`, 0 to 1.
    pub share: f64,
}

/// Returns the modes in ascending order: none without values, otherwise at least one. The density
/// is per decade or per unit of time, according to the scale of `bins`.
pub fn modes(values: &Distribution, bins: Bins) -> Vec<Mode> {
    if values.is_empty() {
        return Vec::new();
    }
    let mut knots = Vec::new();
    for (ns, share) in values.cumulative() {
        knots.push(Knot {
            x: bins.position(ns),
            share,
        });
    }
    let count = (values.count() as f64).min(MAX_VALUES);
    let mut peaks = Vec::new();
    split(&knots, (count, 1.0), DEPTH, &mut peaks);
    let inner: Vec<f64> = peaks
        .iter()
        .skip(1)
        .map(|peak| bins.value(peak.from))
        .collect();
    let from = [0.0].into_iter().chain(inner.iter().copied());
    let to = inner.iter().copied().chain([f64::INFINITY]);
    let valleys = from.zip(to);
    let share = |from, to| values.between(from, to) / values.count() as f64;
    peaks
        .iter()
        .zip(valleys)
        .map(|(peak, (from, to))| Mode {
            at: bins.value(peak.at),
            from,
            to,
            share: share(from, to),
        })
        .collect()
}

/// Max depth to which the search is repeated within modes.
const DEPTH: u32 = 3;

/// A peak and its valleys as positions on the axis.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Peak {
    at: f64,
    height: f64,
    /// Height of the valley at `from`.
    valley: f64,
    from: f64,
    to: f64,
}

/// Appends the modes of a part of the values. `count` is the number of these values, and
/// `portion` their share of all values.
fn split(knots: &[Knot], (count, portion): (f64, f64), depth: u32, found: &mut Vec<Peak>) {
    let mut peaks = Density::of(knots, count).peaks();
    // Significance of each pair of neighbours, above 1 for two modes. It is negative if a peak is
    // too small, so that such pairs are merged first, those with the flattest valleys before the
    // others.
    let pair = |left: Peak, right: Peak| {
        let is_small = [left, right]
            .into_iter()
            .any(|peak| portion * share(knots, peak.from, peak.to) < MIN_SHARE);
        if is_small {
            -right.valley / left.height.min(right.height)
        } else {
            significance(knots, (left.from, right.to), count)
        }
    };
    let mut pairs: Vec<f64> = peaks
        .windows(2)
        .map(|peaks| pair(peaks[0], peaks[1]))
        .collect();
    while let Some((weakest, _)) = pairs
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.total_cmp(b.1))
        .filter(|(_, ratio)| **ratio <= 1.0)
    {
        let (left, right) = (peaks[weakest], peaks.remove(weakest + 1));
        let higher = if right.height > left.height {
            right
        } else {
            left
        };
        peaks[weakest] = Peak {
            from: left.from,
            valley: left.valley,
            to: right.to,
            ..higher
        };
        pairs.remove(weakest);
        for changed in [weakest.checked_sub(1), Some(weakest)]
            .into_iter()
            .flatten()
            .filter(|changed| *changed + 1 < peaks.len())
        {
            pairs[changed] = pair(peaks[changed], peaks[changed + 1]);
        }
    }
    if depth == 0 || peaks.len() == 1 {
        found.extend(peaks);
        return;
    }
    for peak in peaks {
        let (part, share) = (
            part(knots, peak.from, peak.to),
            share(knots, peak.from, peak.to),
        );
        split(&part, (count * share, portion * share), depth - 1, found);
    }
}

/// Returns the ratio of the dip of the values in an interval to its critical value.
fn significance(knots: &[Knot], (from, to): (f64, f64), count: f64) -> f64 {
    dip::significance(
        dip::dip(&part(knots, from, to)),
        count * share(knots, from, to),
    )
}

fn share_below(knots: &[Knot], x: f64) -> f64 {
    let after = knots.partition_point(|knot| knot.x <= x);
    match (
        after.checked_sub(1).map(|before| knots[before]),
        knots.get(after),
    ) {
        (None, _) => 0.0,
        (Some(before), None) => before.share,
        (Some(before), Some(next)) => {
            before.share + (next.share - before.share) * (x - before.x) / (next.x - before.x)
        }
    }
}

fn share(knots: &[Knot], from: f64, to: f64) -> f64 {
    share_below(knots, to) - share_below(knots, from)
}

/// Returns the distribution of the values in an interval.
fn part(knots: &[Knot], from: f64, to: f64) -> Vec<Knot> {
    let (low, high) = (share_below(knots, from), share_below(knots, to));
    let scaled = |share: f64| {
        if high > low {
            (share - low) / (high - low)
        } else {
            0.0
        }
    };
    let first = knots.partition_point(|knot| knot.x <= from);
    let last = knots.partition_point(|knot| knot.x < to);
    let inner = knots[first.min(last)..last].iter().map(|knot| Knot {
        x: knot.x,
        share: scaled(knot.share),
    });
    [Knot {
        x: from,
        share: 0.0,
    }]
    .into_iter()
    .chain(inner)
    .chain([Knot { x: to, share: 1.0 }])
    .collect()
}

/// A density estimate on a grid.
struct Density {
    /// Position of the first grid cell.
    begin: f64,
    step: f64,
    heights: Vec<f64>,
    /// First and last position of the values.
    ends: (f64, f64),
}

/// Grid cells per kernel width.
const CELLS: f64 = 4.0;

/// Max number of grid cells.
const MAX_CELLS: f64 = 8_192.0;

/// Number of kernel widths at which the kernel is cut off.
const REACH: f64 = 4.0;

impl Density {
    fn of(knots: &[Knot], count: f64) -> Self {
        let ends = (
            knots.first().map_or(0.0, |knot| knot.x),
            knots.last().map_or(0.0, |knot| knot.x),
        );
        // The tails can be ignored, because a mode needs at least a hundredth of the values.
        let (low, high) = (quantile(knots, 0.001), quantile(knots, 0.999));
        let kernel = kernel_width(knots, count)
            .max(CELLS * (high - low) / MAX_CELLS)
            .max(f64::MIN_POSITIVE);
        let step = kernel / CELLS;
        let margin = REACH * kernel;
        let begin = low - margin;
        let cells = ((high + margin - begin) / step)
            .ceil()
            .clamp(1.0, 2.0 * MAX_CELLS) as usize;
        let edges: Vec<f64> = (0..=cells)
            .map(|cell| share_below(knots, begin + cell as f64 * step))
            .collect();
        let reach = (REACH * CELLS) as usize;
        let weights: Vec<f64> = (0..=2 * reach)
            .map(|cell| (-0.5 * ((cell as f64 - reach as f64) / CELLS).powi(2)).exp())
            .collect();
        let mut heights = vec![0.0; cells];
        for (cell, pair) in edges
            .windows(2)
            .enumerate()
            .filter(|(_, pair)| pair[1] > pair[0])
        {
            let first = cell.saturating_sub(reach);
            for (at, height) in heights
                .iter_mut()
                .enumerate()
                .take(cell + reach + 1)
                .skip(first)
            {
                *height += (pair[1] - pair[0]) * weights[at + reach - cell];
            }
        }
        Self {
            begin,
            step,
            heights,
            ends,
        }
    }

    /// Returns the peaks with the valleys between them, at least one.
    fn peaks(&self) -> Vec<Peak> {
        let position = |cell: usize| self.begin + (cell as f64 + 0.5) * self.step;
        let mut peaks: Vec<Peak> = Vec::new();
        let (mut valley, mut valley_height) = (self.ends.0, f64::INFINITY);
        let mut is_rising = true;
        for (cell, height) in self.heights.iter().copied().enumerate() {
            let next = self.heights.get(cell + 1).copied().unwrap_or(0.0);
            if is_rising && next < height {
                if let Some(last) = peaks.last_mut() {
                    last.to = valley;
                }
                let (from, valley) = if peaks.is_empty() {
                    (self.ends.0, 0.0)
                } else {
                    (valley, valley_height)
                };
                peaks.push(Peak {
                    at: position(cell),
                    height,
                    valley,
                    from,
                    to: self.ends.1,
                });
                (is_rising, valley_height) = (false, f64::INFINITY);
            } else if !is_rising && next > height {
                is_rising = true;
            }
            if height < valley_height {
                (valley, valley_height) = (position(cell), height);
            }
        }
        if peaks.is_empty() {
            let at = (self.ends.0 + self.ends.1) / 2.0;
            peaks.push(Peak {
                at,
                height: 0.0,
                valley: 0.0,
                from: self.ends.0,
                to: self.ends.1,
            });
        }
        peaks
    }
}

/// Returns the position below which this share of the values lies.
fn quantile(knots: &[Knot], share: f64) -> f64 {
    let after = knots.partition_point(|knot| knot.share < share);
    match (
        after.checked_sub(1).map(|before| knots[before]),
        knots.get(after),
    ) {
        (Some(before), Some(next)) if next.share > before.share => {
            before.x + (next.x - before.x) * (share - before.share) / (next.share - before.share)
        }
        (_, Some(next)) => next.x,
        (before, None) => before.map_or(0.0, |knot| knot.x),
    }
}

/// Returns the standard deviation of the Gaussian kernel.
fn kernel_width(knots: &[Knot], count: f64) -> f64 {
    let parts = || {
        knots
            .windows(2)
            .map(|pair| (pair[1].share - pair[0].share, (pair[0].x + pair[1].x) / 2.0))
    };
    let mean: f64 = parts().map(|(share, x)| share * x).sum();
    let deviation = parts()
        .map(|(share, x)| share * (x - mean).powi(2))
        .sum::<f64>()
        .sqrt();
    let range = (quantile(knots, 0.75) - quantile(knots, 0.25)) / 1.34;
    let spread = if range > 0.0 {
        deviation.min(range)
    } else {
        deviation
    };
    0.9 * spread * count.powf(-0.2)
}
