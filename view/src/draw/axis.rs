//! Computes axis marks and their labels, and formats values with units.

use ibnet_analysis::heat::range::{ColorRange, Origin};
use ibnet_analysis::metric::Unit;
use ibnet_analysis::when::Zone;

/// Returns about `most` marks of a linear axis, at round numbers.
pub fn marks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![low];
    }
    let rough = span / most.max(1) as f64;
    let decade = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|nice| nice * decade)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * decade);
    let first = (low / step - 1e-9).ceil();
    (0..=most)
        .map(|mark| (first + mark as f64) * step)
        .take_while(|mark| *mark <= high + step * 1e-9)
        .collect()
}

/// Formats a number with few digits. Large numbers get an SI prefix.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let (scaled, prefix) = match size {
        1e12.. => return format!("{value:.3e}"),
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = match scaled.abs() {
        0.0 => "0".to_owned(),
        100.0.. => format!("{scaled:.0}"),
        10.0.. => format!("{scaled:.1}"),
        0.1.. => format!("{scaled:.2}"),
        0.001.. => format!("{scaled:.4}"),
        _ => return format!("{scaled:.1e}"),
    };
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{prefix}")
}

/// Formats a duration with its unit: `38 us`.
pub fn nanos(ns: f64) -> String {
    quantity(ns, Unit::Nanoseconds)
}

/// Unit and digits for values of about the same size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    /// Factor from the unit of the metric to the displayed unit.
    pub factor: f64,
    /// The displayed unit.
    pub unit: &'static str,
}

impl Scale {
    /// Returns the scale for values up to `most`, in the unit of the metric.
    pub fn of(unit: Unit, most: f64) -> Self {
        // Displayed units with their sizes in the unit of the metric, largest first.
        let units: &[(f64, &'static str)] = match unit {
            Unit::Gbps => &[(1e3, "Tb/s"), (1.0, "Gb/s"), (1e-3, "Mb/s"), (1e-6, "kb/s")],
            Unit::ShareOfLink | Unit::ShareOfTime => &[(0.01, "%")],
            Unit::Nanoseconds => &[
                (86_400e9, "d"),
                (1e9, "s"),
                (1e6, "ms"),
                (1e3, "us"),
                (1.0, "ns"),
            ],
            Unit::OctetsPerSecond => &[
                (1e12, "TB/s"),
                (1e9, "GB/s"),
                (1e6, "MB/s"),
                (1e3, "kB/s"),
                (1.0, "B/s"),
            ],
            Unit::TicksPerSecond => &[(1.0, "ticks/s")],
            Unit::PerSecond => &[(1.0, "/s")],
            Unit::Octets => &[
                (1e12, "TB"),
                (1e9, "GB"),
                (1e6, "MB"),
                (1e3, "kB"),
                (1.0, "B"),
            ],
            Unit::Number => &[(1.0, "")],
        };
        // Zero gets the unit of the metric. A value that rounding has put slightly below a unit
        // still gets this unit.
        let (size, unit) = if most == 0.0 {
            units.iter().find(|(size, _)| *size <= 1.0)
        } else {
            units
                .iter()
                .find(|(size, _)| most.abs() >= size * (1.0 - 1e-9))
                .or_else(|| units.last())
        }
        .copied()
        .unwrap_or((1.0, ""));
        Self {
            factor: 1.0 / size,
            unit,
        }
    }

    /// Formats a value with its unit.
    pub fn format(&self, value: f64) -> String {
        let space = if self.unit.is_empty() || self.unit.starts_with('/') {
            ""
        } else {
            " "
        };
        format!("{}{space}{}", number(value * self.factor), self.unit)
    }
}

/// Formats a value with the unit that fits its size: `2.65 ms`, `98.1 Gb/s`, `31 %`.
pub fn quantity(value: f64, unit: Unit) -> String {
    Scale::of(unit, value).format(value)
}

/// Describes the colours of a range: `colours: 0 to a full link (100 Gb/s)`.
pub fn colours(range: &ColorRange, unit: Unit) -> String {
    let (low, high) = (quantity(range.low, unit), quantity(range.high, unit));
    match range.origin {
        Origin::Full if unit == Unit::ShareOfTime => {
            format!("colours: 0 to all of the time ({high})")
        }
        Origin::Full => format!("colours: 0 to a full link ({high})"),
        Origin::Largest if range.is_log => {
            format!("colours: logarithmic from {low} to {high}; 0 has its own colour")
        }
        Origin::Largest => format!("colours: 0 to the largest value ({high})"),
        Origin::MeanDeviation => format!(
            "colours: 0 to mean + mean absolute deviation ({high}); larger values look alike"
        ),
        Origin::Percentile(percent) => {
            format!("colours: 0 to percentile {percent} ({high}); larger values look alike")
        }
        Origin::Given => format!("colours: {low} to {high}, as given"),
    }
}

/// Returns about `most` marks of a range of colours with their labels.
pub fn color_marks(range: &ColorRange, unit: Unit, most: usize) -> Vec<(f64, String)> {
    if !range.is_log {
        let scale = Scale::of(unit, range.high);
        let marks = marks(range.low * scale.factor, range.high * scale.factor, most);
        return marks
            .into_iter()
            .map(|mark| (mark / scale.factor, format_mark(mark, scale.unit)))
            .collect();
    }
    let (first, last) = (
        range.low.log10().ceil() as i32,
        range.high.log10().floor() as i32,
    );
    let step = ((last - first) / most.max(1) as i32 + 1).max(1) as usize;
    let decades: Vec<f64> = (first..=last)
        .step_by(step)
        .map(|decade| 10_f64.powi(decade))
        .collect();
    // In a range shorter than a decade, the two ends are the marks.
    let marks = if decades.len() > 1 {
        decades
    } else {
        vec![range.low, range.high]
    };
    [0.0]
        .into_iter()
        .chain(marks)
        .map(|mark| (mark, quantity(mark, unit)))
        .collect()
}

fn format_mark(mark: f64, unit: &'static str) -> String {
    Scale { factor: 1.0, unit }.format(mark)
}

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Possible distances between the marks of a time axis, in nanoseconds.
const STEPS: [u64; 24] = [
    SECOND / 1000,
    SECOND / 100,
    SECOND / 10,
    SECOND / 2,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
    600 * SECOND,
    1800 * SECOND,
    3600 * SECOND,
    7200 * SECOND,
    6 * 3600 * SECOND,
    12 * 3600 * SECOND,
    DAY,
    7 * DAY,
    28 * DAY,
    91 * DAY,
    364 * DAY,
];

/// Returns about `most` marks of a time axis with their labels, at round local times.
pub fn times(zone: &Zone, from: u64, to: u64, most: usize) -> Vec<(u64, String)> {
    let fits = |step: &&u64| to.saturating_sub(from) / **step <= most.max(1) as u64;
    let step = STEPS.iter().find(fits).copied().unwrap_or(u64::MAX / 4);
    let format = if step < SECOND {
        "%H:%M:%S%.3f"
    } else if step < 60 * SECOND {
        "%H:%M:%S"
    } else if step >= 28 * DAY {
        "%Y-%m-%d"
    } else if step >= DAY {
        "%m-%d"
    } else if to.saturating_sub(from) > DAY {
        "%m-%d %H:%M"
    } else {
        "%H:%M"
    };
    // Marks are at round local times, so the zone offset is added.
    let offset = zone.zoned(from).map_or(0, |zoned| {
        i128::from(zoned.offset().seconds()) * i128::from(SECOND)
    });
    let first =
        (i128::from(from) + offset).div_euclid(i128::from(step)) * i128::from(step) - offset;
    // The clock may have changed since the first mark, so a day can begin up to an hour later.
    let clock = if step >= DAY { 3600 * SECOND } else { 0 };
    let marks = (0..)
        .map(|mark: i128| first + mark * i128::from(step))
        .take_while(|mark| *mark <= i128::from(to));
    marks
        .filter_map(|mark| u64::try_from(mark).ok())
        .filter(|mark| *mark >= from)
        .map(|mark| (mark, zone.format(mark + clock, format)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_at_round_numbers() {
        assert_eq!(marks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(marks(3.0, 9.5, 4), [4.0, 6.0, 8.0]);
        assert_eq!(marks(1.0, 1.0, 4), [1.0]);
        assert_eq!(marks(0.0, f64::INFINITY, 4), [0.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.5, 98.123, 1234.0, 25_000.0, 3.2e9].map(number),
            ["0", "0.5", "98.1", "1234", "25k", "3.2G"]
        );
        assert_eq!(
            [0.0042, 1e-7, 2e15].map(number),
            ["0.0042", "1.0e-7", "2.000e15"]
        );
        assert_eq!(
            [38_000.0, 1.5e6, 12.0].map(nanos),
            ["38 us", "1.5 ms", "12 ns"]
        );
    }

    #[test]
    fn time_marks_are_at_round_times() {
        let noon = 1_795_262_400 * SECOND;
        let marks = times(&Zone::utc(), noon + 90 * SECOND, noon + 600 * SECOND, 6);
        let texts: Vec<_> = marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["12:02", "12:04", "12:06", "12:08", "12:10"]);
        assert_eq!(marks[0].0, noon + 120 * SECOND);
    }

    #[test]
    fn units_follow_the_size_of_the_value() {
        for (value, unit, text) in [
            (2_650_000.0, Unit::Nanoseconds, "2.65 ms"),
            (0.0, Unit::Nanoseconds, "0 ns"),
            (0.31, Unit::PerSecond, "0.31/s"),
            (12_000.0, Unit::PerSecond, "12k/s"),
            (0.981, Unit::ShareOfLink, "98.1 %"),
            (0.0, Unit::ShareOfTime, "0 %"),
            (100.0, Unit::Gbps, "100 Gb/s"),
            (3600.0, Unit::Gbps, "3.6 Tb/s"),
            (0.02, Unit::Gbps, "20 Mb/s"),
            (12.5e9, Unit::OctetsPerSecond, "12.5 GB/s"),
            (2.65e6, Unit::TicksPerSecond, "2.65M ticks/s"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
    }

    #[test]
    fn colours_have_marks_and_a_description() {
        let range = |low, high, is_log, origin| ColorRange {
            low,
            high,
            is_log,
            origin,
        };
        let link = range(0.0, 1.0, false, Origin::Full);
        assert_eq!(
            colours(&link, Unit::ShareOfLink),
            "colours: 0 to a full link (100 %)"
        );
        let marks = |range, unit, most| {
            color_marks(&range, unit, most)
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            marks(link, Unit::ShareOfLink, 5),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        let errors = range(0.05, 3000.0, true, Origin::Largest);
        assert_eq!(
            colours(&errors, Unit::PerSecond),
            "colours: logarithmic from 0.05/s to 3000/s; 0 has its own colour"
        );
        assert_eq!(
            marks(errors, Unit::PerSecond, 9),
            ["0/s", "0.1/s", "1/s", "10/s", "100/s", "1000/s"]
        );
        assert_eq!(
            marks(range(2.0, 5.0, true, Origin::Largest), Unit::PerSecond, 9),
            ["0/s", "2/s", "5/s"]
        );
    }
}
