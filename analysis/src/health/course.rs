//! The bit errors of a port over time, with a limited number of points.

use super::reading::{Counter, Reading};

/// Max number of points. With one more, every second point is dropped.
const POINTS: usize = 128;

/// Counters at some times. Counters are sums, so the ratio between two points is exact, whatever
/// was dropped between them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Course {
    /// Time, received bits, and bit errors before error correction.
    points: Vec<(u64, u64, u64)>,
    /// Min time between two points.
    spacing_ns: u64,
}

impl Course {
    /// Adds a reading.
    pub(super) fn add(&mut self, reading: &Reading) {
        let (bits, errors) = (reading.get(Counter::Bits), reading.get(Counter::Corrected));
        let (Some(bits), Some(errors)) = (bits, errors) else {
            return;
        };
        let is_due = |(last, ..): &(u64, u64, u64)| reading.ts >= last + self.spacing_ns;
        if self.points.last().is_none_or(is_due) {
            self.points.push((reading.ts, bits, errors));
        }
        if self.points.len() > POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.spacing_ns = (reading.ts - self.points[0].0) / POINTS as u64 * 2;
        }
    }

    /// Returns the ratio of bit errors between each two points, with the time in the middle. A
    /// time without errors has no ratio on a logarithmic axis, so it is joined with the next one.
    pub fn ratios(&self) -> Vec<(u64, f64)> {
        let Some(mut start) = self.points.first().copied() else {
            return Vec::new();
        };
        let mut ratios = Vec::new();
        for point in &self.points {
            let (increase, errors) = (point.1.checked_sub(start.1), point.2.checked_sub(start.2));
            match (increase, errors) {
                (Some(bits @ 1..), Some(errors @ 1..)) => {
                    let middle = start.0 + (point.0 - start.0) / 2;
                    ratios.push((middle, errors as f64 / bits as f64));
                    start = *point;
                }
                (None, _) | (_, None) => start = *point,
                _ => {}
            }
        }
        ratios
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::physical::Value;

    use super::*;

    #[test]
    fn ratios_are_exact_after_points_were_dropped() {
        let mut course = Course::default();
        for minute in 0..5_000_u64 {
            let values = [
                ("phy_received_bits", minute * 1_000_000),
                ("phy_corrected_bits", minute * 20),
            ];
            let values = values.map(|(name, value)| (name.to_owned(), Value::Integer(value)));
            let reading = Reading::of(minute * 60_000_000_000, &values.into());
            course.add(&reading.expect("two counters"));
        }
        let ratios = course.ratios();
        assert!(
            (POINTS / 2..=POINTS).contains(&ratios.len()),
            "{}",
            ratios.len()
        );
        assert!(ratios.iter().all(|(_, ratio)| *ratio == 20e-6));
    }
}
