//! Bins of a distribution, logarithmic or of a fixed width. Their densities do not depend on
//! their widths.

use std::str::FromStr;

use serde::Serialize;

use super::distribution::{Distribution, overlap};

/// Scale and bins with which a distribution is evaluated and drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bins {
    /// Bins of equal width on a logarithmic scale. Densities are per decade.
    Log {
        /// Number of bins from a value to ten times this value.
        per_decade: u32,
    },
    /// Bins of equal width. Densities are per microsecond.
    Fixed {
        /// Width in nanoseconds. With `None`, [`Bins::width`] computes it.
        width: Option<f64>,
    },
}

/// Max number of bins.
const MAX_BINS: f64 = 1_000.0;

/// Max number of logarithmic bins per decade: those that the buckets of a [`Distribution`] can
/// fill.
const MAX_PER_DECADE: u32 = 1_000;

/// A bin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bin {
    /// Lower end in nanoseconds, inclusive.
    pub from: f64,
    /// Upper end in nanoseconds, exclusive.
    pub to: f64,
    /// Share of the values, 0 to 1.
    pub share: f64,
    /// Share divided by the width of the bin: per decade or per microsecond.
    pub density: f64,
}

/// A bin with values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counted {
    /// Lower end in nanoseconds, inclusive.
    pub start_ns: u64,
    /// Upper end in nanoseconds, exclusive.
    pub end_ns: u64,
    /// Number of values.
    pub count: u64,
}

impl Bins {
    /// Logarithmic bins, each 12 % wider than the one before.
    pub const LOG: Self = Self::Log { per_decade: 20 };

    /// Returns the position of a value on the axis: its decimal logarithm, or microseconds.
    pub fn position(self, ns: f64) -> f64 {
        match self {
            Self::Log { .. } => ns.max(1.0).log10(),
            Self::Fixed { .. } => ns / 1e3,
        }
    }

    /// Returns the value in nanoseconds at a position.
    pub fn value(self, position: f64) -> f64 {
        match self {
            Self::Log { .. } => 10_f64.powf(position),
            Self::Fixed { .. } => position * 1e3,
        }
    }

    /// Returns the unit of the densities.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Log { .. } => "per decade",
            Self::Fixed { .. } => "per us",
        }
    }

    /// Returns the width of a bin as a difference of positions. If no width was given for fixed
    /// bins, it follows D. Freedman and P. Diaconis (1981): twice the interquartile range,
    /// divided by the cube root of the number of values, and rounded up to 1, 2 or 5 times a
    /// power of ten.
    pub fn width(self, values: &Distribution) -> f64 {
        match self {
            Self::Log { per_decade } => 1.0 / f64::from(per_decade),
            Self::Fixed { width: Some(ns) } => ns / 1e3,
            Self::Fixed { width: None } => {
                let range = values
                    .percentile(75.0)
                    .saturating_sub(values.percentile(25.0))
                    .max(1) as f64
                    / 1e3;
                let width = 2.0 * range / (values.count().max(1) as f64).cbrt();
                let decade = 10_f64.powf(width.log10().floor());
                [1.0, 2.0, 5.0, 10.0]
                    .map(|nice| nice * decade)
                    .into_iter()
                    .find(|nice| *nice >= 0.99 * width)
                    .unwrap_or(width)
            }
        }
    }

    /// Returns these bins with a width: the given one, or that for the values.
    #[must_use]
    pub fn with_width(self, values: &Distribution) -> Self {
        match self {
            Self::Log { .. } => self,
            Self::Fixed { .. } => Self::Fixed {
                width: Some(self.width(values) * 1e3),
            },
        }
    }

    /// Returns the number of the bin with a value. Bin 0 starts at position 0.
    fn index(self, ns: f64, width: f64) -> f64 {
        (self.position(ns) / width + 1e-9).floor()
    }

    /// Returns all bins with values. Their counts add up to the number of values. All values of a
    /// bucket of the distribution are in the same bin, so a value within 0.2 % of an end of a bin
    /// can be in the bin next to it.
    pub fn counts(self, values: &Distribution) -> Vec<Counted> {
        let width = self.width(values);
        let [least, greatest] = [values.least(), values.greatest()].map(|ns| ns as f64);
        let (mut below, mut counted) = (0.0, 0);
        let mut bins: Vec<Counted> = Vec::new();
        for step in values.steps() {
            let ns = if step.to > greatest {
                greatest
            } else {
                f64::midpoint(step.from, step.to - 1.0).max(least)
            };
            let index = self.index(ns, width);
            let [start_ns, end_ns] =
                [index, index + 1.0].map(|bin| self.value(bin * width).round() as u64);
            // Values of a histogram can be in parts. Only whole ones are counted.
            below += step.count;
            let count = below.round() as u64 - counted;
            counted += count;
            match bins.last_mut() {
                Some(last) if last.start_ns == start_ns => last.count += count,
                _ if count == 0 => {}
                _ => bins.push(Counted {
                    start_ns,
                    end_ns,
                    count,
                }),
            }
        }
        bins
    }

    /// Returns the bins from the first to the last one with a value, including empty ones in
    /// between. Their number is limited, and values above the last bin are in no bin.
    pub fn of(self, values: &Distribution, width: f64) -> Vec<Bin> {
        let (Some(begin), Some(end)) = (values.steps().next(), values.steps().next_back()) else {
            return Vec::new();
        };
        let index = |ns| self.index(ns, width);
        let first = index(begin.from);
        let count =
            ((self.position(end.to) / width - 1e-9).ceil() - first).clamp(1.0, MAX_BINS) as usize;
        let edge = |bin: usize| self.value((first + bin as f64) * width);
        let mut bins: Vec<Bin> = (0..count)
            .map(|bin| Bin {
                from: edge(bin),
                to: edge(bin + 1),
                share: 0.0,
                density: 0.0,
            })
            .collect();
        let at = |ns: f64| (index(ns) - first).max(0.0) as usize;
        for step in values.steps() {
            let share = step.count / values.count() as f64;
            let begin = at(step.from).min(count);
            let end = (at(step.to) + 1).clamp(begin, count);
            for bin in &mut bins[begin..end] {
                bin.share += share * overlap(step, bin.from, bin.to);
            }
        }
        bins.iter_mut()
            .for_each(|bin| bin.density = bin.share / width);
        bins
    }
}

impl FromStr for Bins {
    type Err = String;

    /// Parses `log`, `log:N` with the number of bins per decade, `fixed` or `fixed:WIDTH`, where
    /// the width is a duration such as `5us`.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected log, log:N with 1 to {MAX_PER_DECADE} bins per decade, fixed or fixed:WIDTH such as fixed:5us (found {text})"
            )
        };
        match text.split_once(':') {
            None if text == "log" => Ok(Self::LOG),
            Some(("log", number)) => {
                let per_decade = number
                    .parse()
                    .ok()
                    .filter(|number| (1..=MAX_PER_DECADE).contains(number))
                    .ok_or_else(expected)?;
                Ok(Self::Log { per_decade })
            }
            None if text == "fixed" => Ok(Self::Fixed { width: None }),
            Some(("fixed", width)) => {
                let width = humantime::parse_duration(width)
                    .ok()
                    .filter(|width| !width.is_zero())
                    .ok_or_else(expected)?;
                Ok(Self::Fixed {
                    width: Some(width.as_nanos() as f64),
                })
            }
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::distribution::of;
    use super::*;

    #[test]
    fn logarithmic_bins_have_the_shares_of_the_values() {
        let bins = Bins::LOG.of(&of([100, 100, 1000, 101]), 0.05);
        assert_eq!(bins.len(), 21, "10^2 to 10^3 in 20 bins and one more");
        assert!((bins[0].from - 100.0).abs() < 1e-9 && (bins[20].from - 1000.0).abs() < 1e-9);
        assert!(
            (bins[0].share - 0.75).abs() < 1e-9 && (bins[20].share - 0.25).abs() < 1e-9,
            "{bins:?}"
        );
        assert!(
            (bins[0].density - 15.0).abs() < 1e-6,
            "0.75 in a twentieth of a decade"
        );
        assert!(Bins::LOG.of(&of([]), 0.05).is_empty());
    }

    #[test]
    fn densities_do_not_depend_on_the_width() {
        let even = of((0..100_000).map(|step| 100_000 + 2 * step));
        for width in [1.0, 10.0, 25.0] {
            let bins = Bins::Fixed {
                width: Some(width * 1e3),
            }
            .of(&even, width);
            let inner = &bins[1..bins.len() - 2];
            assert!(
                inner.iter().all(|bin| (bin.density - 0.005).abs() < 0.0003),
                "200 us: 0.005 per us; {inner:?}"
            );
            assert!((bins.iter().map(|bin| bin.share).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn bins_are_limited_in_number() {
        let bins = Bins::Fixed { width: Some(1e3) }.of(&of([1_000, 1_000_000_000]), 1.0);
        assert_eq!(
            (bins.len(), bins[0].share, bins[999].share),
            (1000, 0.5, 0.0)
        );
    }

    #[test]
    fn counts_are_of_whole_values_from_zero_to_the_largest() {
        let bins = |width| Bins::Fixed { width: Some(width) };
        let counts = |bins: Bins, values: &Distribution| -> Vec<_> {
            let counts = bins.counts(values).into_iter();
            counts
                .map(|bin| (bin.start_ns, bin.end_ns, bin.count))
                .collect()
        };
        assert_eq!(
            counts(bins(100.0), &of([0, 99, 100, 199, 200, 1_000])),
            [(0, 100, 2), (100, 200, 2), (200, 300, 1), (1_000, 1_100, 1)],
            "an end is in the bin above it, and bins without values are left out"
        );
        // The bucket of 50.001 ms begins below 50 ms.
        let mut values = vec![10_000_000; 1_000];
        values.extend([49_000_000, 50_001_000]);
        assert_eq!(
            counts(bins(1e7), &of(values)),
            [
                (10_000_000, 20_000_000, 1_000),
                (40_000_000, 50_000_000, 1),
                (50_000_000, 60_000_000, 1)
            ]
        );
        let tail = of([1_000, 1_000_000_000_000]);
        assert_eq!(
            counts(bins(1.0), &tail),
            [(1_000, 1_001, 1), (1_000_000_000_000, 1_000_000_000_001, 1)],
            "bins that are narrower than buckets"
        );
        assert_eq!(
            counts(Bins::LOG, &of([100, 101, 1_000])),
            [(100, 112, 2), (1_000, 1_122, 1)]
        );
        assert!(counts(bins(1.0), &of([])).is_empty());
        // A histogram has parts of values.
        let mut histogram = hdrhistogram::Histogram::<u64>::new(1).unwrap();
        (0..7).for_each(|_| histogram.record(1_000_000).unwrap());
        let mut values = Distribution::default();
        values.add(&histogram);
        let counts = bins(1e3).counts(&values);
        assert_eq!(counts.iter().map(|bin| bin.count).sum::<u64>(), 7);
    }

    #[test]
    fn options_are_read() {
        assert_eq!(
            ["log", "log:50", "fixed", "fixed:5us"].map(str::parse),
            [
                Ok(Bins::LOG),
                Ok(Bins::Log { per_decade: 50 }),
                Ok(Bins::Fixed { width: None }),
                Ok(Bins::Fixed {
                    width: Some(5_000.0)
                })
            ]
        );
        for text in [
            "",
            "log:",
            "log:0",
            "log:1001",
            "fixed:",
            "fixed:0us",
            "fixed:x",
        ] {
            assert!(text.parse::<Bins>().is_err(), "{text}");
        }
        let even = of((0..1_000).map(|step| 10_000 + 100 * step));
        assert_eq!(
            Bins::Fixed { width: None }.width(&even),
            10.0,
            "2 x 50 us / 10"
        );
    }
}
