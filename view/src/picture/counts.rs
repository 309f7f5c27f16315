//! Lays out histograms with numbers of values on a logarithmic axis, as in figures 4 and 5 of the
//! LDMS paper.

use ibnet_analysis::latency::bins::{Bins, Counted};

use crate::draw::axis;

/// The axes of a histogram. The horizontal one begins at zero, or at the first bin if the bins are
/// logarithmic, and ends after the longest duration.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    bins: Bins,
    /// Ends of the axis of durations as positions.
    pub(super) range: (f64, f64),
    /// Upper end of the vertical axis.
    pub(super) top: f64,
    /// Marks of the vertical axis.
    pub(super) marks: Vec<(f64, String)>,
    /// Width of the narrowest column as a difference of positions.
    column: f64,
}

/// Width of the narrowest column in pixels.
const COLUMN: i32 = 2;

/// A count of 1 is above the lower end of a logarithmic axis: that is at this count.
const LOWEST: f64 = 0.5;

/// Returns the height of a count on a logarithmic axis.
fn height(count: f64) -> f64 {
    (count / LOWEST).log10()
}

impl Counts {
    /// Lays out the axes for all bins of a histogram that is `pixels` wide.
    pub(super) fn new<'a>(
        bins: Bins,
        all: impl Iterator<Item = &'a Counted> + Clone,
        pixels: i32,
    ) -> Self {
        let most = all.clone().map(|bin| bin.count).max().unwrap_or(1) as f64;
        let end = all.clone().map(|bin| bin.end_ns).max().unwrap_or(1);
        let start = match bins {
            Bins::Log { .. } => all.map(|bin| bin.start_ns).min().unwrap_or(1),
            Bins::Fixed { .. } => 0,
        };
        let steps: &[f64] = if most < 50.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let marks = (0..=most.log10() as i32)
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .map(|count| (height(count), axis::number(count)));
        let top = 1.08 * height(most);
        let (from, end) = (bins.position(start as f64), bins.position(end as f64));
        // The last bin does not touch the frame.
        let to = end + 0.02 * (end - from);
        Self {
            bins,
            range: (from, to),
            top,
            marks: marks.filter(|(at, _)| *at <= top).collect(),
            column: (to - from) / f64::from(pixels / COLUMN),
        }
    }

    /// Describes the bins.
    pub(super) fn width(&self) -> String {
        match self.bins {
            Bins::Log { per_decade } => format!("{per_decade} bins per decade"),
            Bins::Fixed { width } => format!("bins of {}", axis::nanos(width.unwrap_or_default())),
        }
    }

    /// Returns a line for each run of neighbouring bins with values. A column of pixels with
    /// several bins has the largest count.
    pub(super) fn lines(&self, counted: &[Counted]) -> Vec<Vec<(f64, f64)>> {
        let (from, column) = (self.range.0, self.column);
        let at = |ns: u64| ((self.bins.position(ns as f64) - from) / column).round();
        let mut columns: Vec<(f64, f64, u64)> = Vec::new();
        for bin in counted {
            let start = at(bin.start_ns);
            let end = at(bin.end_ns).max(start + 1.0);
            match columns.last_mut() {
                Some(last) if last.0 == start => {
                    *last = (start, last.1.max(end), last.2.max(bin.count));
                }
                _ => columns.push((start, end, bin.count)),
            }
        }
        let runs = columns.chunk_by(|column, next| column.1 == next.0);
        let line = |run: &[(f64, f64, u64)]| {
            let steps = run.iter().flat_map(|(start, end, count)| {
                [start, end].map(|at| (from + at * column, height(*count as f64)))
            });
            let mut points: Vec<_> = steps.collect();
            let [first, last] = [points[0], points[points.len() - 1]];
            points.insert(0, (first.0, 0.0));
            points.push((last.0, 0.0));
            points
        };
        runs.map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_bin_and_a_single_count_are_visible() {
        let bin = |start_ns, count| Counted {
            start_ns,
            end_ns: start_ns + 10_000,
            count,
        };
        let bins = Bins::Fixed {
            width: Some(10_000.0),
        };
        let of = |counted: &[Counted]| {
            let counts = Counts::new(bins, counted.iter(), 370);
            let lines = counts.lines(counted);
            (counts, lines)
        };
        let (counts, lines) = of(&[bin(10_000, 1_000), bin(20_000, 10), bin(970_000, 1)]);
        assert!(
            counts.range.0 == 0.0 && (counts.range.1 - 1.02 * 980.0).abs() < 1e-9,
            "in us: from zero, without a cut"
        );
        let marks: Vec<_> = counts.marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(marks, ["1", "10", "100", "1000"]);
        let [one, ten, thousand] = [1.0, 10.0, 1_000.0].map(height);
        let expected = [
            vec![
                (10.0, 0.0),
                (10.0, thousand),
                (20.0, thousand),
                (20.0, ten),
                (30.0, ten),
                (30.0, 0.0),
            ],
            vec![(970.0, 0.0), (970.0, one), (980.0, one), (980.0, 0.0)],
        ];
        assert_eq!(lines.len(), 2);
        for (line, expected) in lines.iter().zip(&expected) {
            assert_eq!(line.len(), expected.len());
            for ((x, y), (at, height)) in line.iter().zip(expected) {
                assert!((x - at).abs() < 3.0 && y == height, "{x} {at} {y}");
            }
        }
        assert!(one * 230.0 / counts.top > 10.0, "pixels");
        // A bin that is narrower than a pixel beside a higher one, and one at the end of the axis.
        let (_, narrow) = of(&[bin(10_000, 3), bin(20_000, 7), bin(100_000_000, 1)]);
        let heights = narrow.iter().map(|line| line[1].1);
        assert_eq!(heights.collect::<Vec<_>>(), [7.0, 1.0].map(height));
        assert_eq!(of(&[bin(0, 6)]).0.marks.len(), 3, "1, 2 and 5");
        assert!(of(&[]).1.is_empty());
    }
}
