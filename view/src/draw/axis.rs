//! Marks of axes and their labels.

use ibnet_analysis::when::Zone;

/// Returns about `most` marks of a linear axis, at round numbers.
pub fn marks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) {
        return vec![low];
    }
    let rough = span / most.max(1) as f64;
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|nice| nice * decade).into_iter().find(|step| *step >= rough * (1.0 - 1e-9)).unwrap_or(10.0 * decade);
    let first = (low / step - 1e-9).ceil();
    (0..=most).map(|mark| (first + mark as f64) * step).take_while(|mark| *mark <= high + step * 1e-9).collect()
}

/// Formats a number with few digits; large numbers get an SI prefix.
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
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{prefix}")
}

/// Formats a duration with its unit: `38 us`.
pub fn nanos(ns: f64) -> String {
    let (scaled, unit) = match ns.abs() {
        1e9.. => (ns / 1e9, "s"),
        1e6.. => (ns / 1e6, "ms"),
        1e3.. => (ns / 1e3, "us"),
        _ => (ns, "ns"),
    };
    format!("{} {unit}", number(scaled))
}

const SECOND: u64 = 1_000_000_000;

/// Possible distances between the marks of a time axis, in nanoseconds.
const STEPS: [u64; 22] = [
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
    86_400 * SECOND,
    7 * 86_400 * SECOND,
    28 * 86_400 * SECOND,
];

/// Returns about `most` marks of a time axis with their labels, at round local times.
pub fn times(zone: &Zone, from: u64, to: u64, most: usize) -> Vec<(u64, String)> {
    let fits = |step: &&u64| to.saturating_sub(from) / **step <= most.max(1) as u64;
    let step = STEPS.iter().find(fits).copied().unwrap_or(u64::MAX / 4);
    let format = if step < SECOND {
        "%H:%M:%S%.3f"
    } else if step < 60 * SECOND {
        "%H:%M:%S"
    } else if to.saturating_sub(from) > 86_400 * SECOND {
        "%m-%d %H:%M"
    } else {
        "%H:%M"
    };
    // The marks are round in local time, so the offset of the zone is added.
    let offset = zone.zoned(from).map_or(0, |zoned| i128::from(zoned.offset().seconds()) * i128::from(SECOND));
    let first = (i128::from(from) + offset).div_euclid(i128::from(step)) * i128::from(step) - offset;
    let marks = (0..).map(|mark: i128| first + mark * i128::from(step)).take_while(|mark| *mark <= i128::from(to));
    marks.filter_map(|mark| u64::try_from(mark).ok()).filter(|mark| *mark >= from).map(|mark| (mark, zone.format(mark, format))).collect()
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
        assert_eq!([0.0, 0.5, 98.123, 1234.0, 25_000.0, 3.2e9].map(number), ["0", "0.5", "98.1", "1234", "25k", "3.2G"]);
        assert_eq!([0.0042, 1e-7, 2e15].map(number), ["0.0042", "1.0e-7", "2.000e15"]);
        assert_eq!([38_000.0, 1.5e6, 12.0].map(nanos), ["38 us", "1.5 ms", "12 ns"]);
    }

    #[test]
    fn time_marks_are_at_round_times() {
        let noon = 1_795_262_400 * SECOND;
        let marks = times(&Zone::utc(), noon + 90 * SECOND, noon + 600 * SECOND, 6);
        let texts: Vec<_> = marks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["12:02", "12:04", "12:06", "12:08", "12:10"]);
        assert_eq!(marks[0].0, noon + 120 * SECOND);
    }
}
