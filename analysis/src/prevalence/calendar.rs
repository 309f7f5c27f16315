//! The calendar: hours of the day by days, as a heat map.

use super::{Prevalence, Sums, ratio};
use crate::cell::Cell;
use crate::heat::grid::{Grid, Panel};
use crate::heat::order::{RowKind, RowLabel};
use crate::metric::{Metric, Unit};

/// Nominal length of a day. A day with a change of the clock has another length.
const DAY_NS: u64 = 86_400_000_000_000;

impl Prevalence {
    /// Returns the calendar of a time range in nanoseconds since 1970, with the days and hours of
    /// the local time zone. Its panels are the share of the time above the limit, or the middle of
    /// its bounds, and the blocked time per byte sent; both of all ports.
    pub fn calendar(&self, (from, to): (u64, u64)) -> Grid {
        let zone = self.hours.zone();
        let first = zone.start_of_day(from).unwrap_or(from);
        let next = |day: &u64| zone.next_day(*day).filter(|next| *next < to);
        let days: Vec<u64> = std::iter::successors(Some(first), next).collect();
        let mut sums = vec![vec![Sums::default(); days.len()]; 24];
        for (start_ns, of_hour) in self.hours.iter() {
            let day = days.partition_point(|day| *day <= start_ns);
            if let Some(day) = day.checked_sub(1) {
                sums[zone.hour_of_week(start_ns) % 24][day].merge(*of_hour);
            }
        }
        let panel = |name: &str, title: &str, unit, value: fn(&Sums) -> Option<f64>| {
            let cell = |sums: &Sums| match value(sums) {
                Some(value) => Cell::Value(value),
                None if sums.known > 0.0 => Cell::Unknown,
                None => Cell::NoRecord,
            };
            let row = |sums: &Vec<Sums>| sums.iter().map(cell).collect();
            Panel {
                metric: Metric::of_hosts(name, title, unit),
                summed: 1,
                full: None,
                ports: Vec::new(),
                cells: sums.iter().map(row).collect(),
            }
        };
        let title = format!("time blocked for more than {} %", 100.0 * self.limit);
        let panels = vec![
            panel("above", &title, Unit::ShareOfTime, |sums| {
                ratio((sums.above[0] + sums.above[1]) / 2.0, sums.known)
            }),
            panel(
                "blocked_ns_per_byte",
                "blocked time per byte sent",
                Unit::Nanoseconds,
                Sums::blocked_seconds_per_gb,
            ),
        ];
        Grid {
            start_ns: first,
            step_ns: DAY_NS,
            columns: days.len(),
            by: RowKind::Hour,
            rows: (0..24)
                .map(|hour| RowLabel::new(format!("{hour:02}:00")))
                .collect(),
            panels,
        }
    }
}
