//! Distributions of the utilization and the blocked time of each port. Percentiles over time are
//! computed from them.

use rustc_hash::FxHashMap;

use crate::input::Fold;
use crate::input::run::{Measured, Run};
use crate::ports::PortKey;
use crate::record::{Interval, Record, Type};
use crate::stat::Stat;

/// Number of steps of a distribution from 0 to 1. So percentiles are rounded to 0.1 %.
const STEPS: f64 = 1000.0;

/// Distributions of all ports. They need much memory, so they are built only for percentiles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distributions {
    by_port: FxHashMap<PortKey, PortShares>,
    is_used: bool,
}

impl Distributions {
    /// Creates an empty state. It stays empty if the statistic is not a percentile.
    pub fn for_stat(stat: Stat) -> Self {
        Self {
            is_used: matches!(stat, Stat::Percentile(_)),
            ..Self::default()
        }
    }

    /// Returns the distributions of a port.
    pub fn get(&self, port: PortKey) -> Option<&PortShares> {
        self.by_port.get(&port)
    }
}

impl Fold for Distributions {
    fn uses(&self, kind: Type) -> bool {
        self.is_used && kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            [
                "xmit_utilization",
                "rcv_utilization",
                "xmit_blocked",
                "xmit_blocked_dt_ns",
            ]
            .map(str::to_owned)
            .to_vec(),
        )
    }

    fn takes_runs(&self) -> bool {
        true
    }

    fn add_run(&mut self, run: &Run<'_>) {
        if self.is_used {
            let shares = self.by_port.entry(run.port().key()).or_default();
            run.measured().for_each(|measured| shares.add(&measured));
        }
    }

    fn add(&mut self, record: &Record<'_>) {
        if let Record::Port(port) = record
            && self.is_used
        {
            self.by_port
                .entry(port.key())
                .or_default()
                .add(&Measured::of(port));
        }
    }

    fn merge(&mut self, later: Self) {
        for (port, shares) in later.by_port {
            self.by_port.entry(port).or_default().merge(shares);
        }
    }
}

/// Distributions of a port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortShares {
    /// Data transmitted, as a share of the data rate of the link.
    pub xmit_utilization: Shares,
    /// Data received, as a share of the data rate of the link.
    pub rcv_utilization: Shares,
    /// Share of the time in which the port had data to send and no credit.
    pub blocked: Shares,
}

/// For each value, in steps of 0.1 %, the time for which it was the value. Only values that
/// occurred need memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shares {
    /// A value in steps, and the time for which the share had this value, in nanoseconds.
    times: Vec<(u16, u64)>,
}

impl Shares {
    /// Adds the share of this time. Shares are usually from 0 to 1; shares up to 65 are stored
    /// correctly.
    fn add(&mut self, share: f64, time: Option<Interval>) {
        if let Some(time) = time.filter(|_| share.is_finite()) {
            // The conversion saturates.
            self.add_step((share * STEPS).round() as u16, time.length_ns());
        }
    }

    fn add_step(&mut self, step: u16, time_ns: u64) {
        match self.times.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(index) => self.times[index].1 = self.times[index].1.saturating_add(time_ns),
            Err(index) => self.times.insert(index, (step, time_ns)),
        }
    }

    fn merge(&mut self, later: Self) {
        later
            .times
            .into_iter()
            .for_each(|(step, time)| self.add_step(step, time));
    }

    /// Returns a percentile: the smallest value that was not exceeded for this part of the time.
    /// `thousandths` is 950 for the 95th percentile. Returns `None` without values.
    pub fn percentile(&self, thousandths: u16) -> Option<f64> {
        let all: u128 = self.times.iter().map(|(_, time)| u128::from(*time)).sum();
        let mut sum = 0;
        let found = self.times.iter().find(|(_, time)| {
            sum += u128::from(*time);
            sum * 1000 >= all * u128::from(thousandths)
        });
        found
            .filter(|_| all > 0)
            .map(|(step, _)| f64::from(*step) / STEPS)
    }
}

impl PortShares {
    #[inline]
    fn add(&mut self, measured: &Measured) {
        let ([data, blocked], [.., xmit, rcv]) = (measured.times, measured.data);
        self.xmit_utilization.add(xmit, data);
        self.rcv_utilization.add(rcv, data);
        self.blocked.add(measured.blocked, blocked);
    }

    fn merge(&mut self, later: Self) {
        self.xmit_utilization.merge(later.xmit_utilization);
        self.rcv_utilization.merge(later.rcv_utilization);
        self.blocked.merge(later.blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(values: &[(f64, u64)]) -> Shares {
        let mut shares = Shares::default();
        values
            .iter()
            .for_each(|(share, time)| shares.add(*share, Interval::new(0, *time)));
        shares
    }

    #[test]
    fn percentile_is_weighted_by_time() {
        // The value is 0.2 for 90 % of the time.
        let shares = shares(&[(0.9, 1), (0.2, 9)]);
        assert_eq!(
            [500, 900, 901, 999].map(|percentile| shares.percentile(percentile)),
            [Some(0.2), Some(0.2), Some(0.9), Some(0.9)]
        );
        assert_eq!(Shares::default().percentile(500), None);
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let values = [
            (0.1, 5),
            (0.5, 2),
            (0.1004, 3),
            (2.0, 1),
            (f64::NAN, 9),
            (-1.0, 1),
        ];
        for cut in 0..values.len() {
            let mut first = shares(&values[..cut]);
            first.merge(shares(&values[cut..]));
            assert_eq!(first, shares(&values), "cut at {cut}");
        }
    }
}
