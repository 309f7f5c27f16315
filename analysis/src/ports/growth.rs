//! The octets that a port sent and received, from its counters.
//!
//! A rate is not known after a missed slot or a change of the sampler. The counters know the octets of
//! this time too. So totals are the growth from one reading to the next, whichever sampler read.

use ibnet::record::interval::Interval;

use super::{DATA_COUNTERS, rate};
use crate::record::Port;

/// The times of two readings are exact to this time, beside the round-trip time. A growth that the link
/// cannot carry in the time between the readings and these times is not counted.
const INEXACT_NS: u64 = 100_000_000;

/// The last reading of both counters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Growth {
    /// Its time, the longest time from the reading of the device to this time, and the counters.
    last: Option<(u64, u64, [u64; 2])>,
    /// Time of the newest reading, also of one that was left out because it is out of order.
    newest: u64,
    /// End of the time for which rates stood in for the first reading, and their octets.
    stood_in: (u64, [f64; 2]),
}

/// Octets that were sent and received over a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Moved {
    /// The time.
    pub(crate) time: Interval,
    /// Octets sent and received. `None` for a direction that the record does not have.
    pub(crate) octets: [Option<f64>; 2],
}

impl Growth {
    /// Adds a record. Returns the octets since the last reading, or those of the rates of the record if
    /// there is no reading yet. After a reset, and next to a saturated value, they are not known.
    pub(crate) fn add(&mut self, port: &Port<'_>) -> Option<Moved> {
        let values = DATA_COUNTERS.map(|name| port.counter(name).filter(|_| !port.is_saturated(name)));
        // A value at an edge has been interpolated between two readings, of which one may be late.
        let rtt_ns = if port.is_edge { u64::MAX } else { port.rtt_ns };
        self.add_reading((port.ts, rtt_ns), values, port.time, [port.xmit_gbps, port.rcv_gbps], &port.link)
    }

    /// Adds the values of a record: its time and round-trip time, both counters, and both rates in Gb/s
    /// with the time that they describe.
    pub(crate) fn add_reading(
        &mut self,
        (ts, rtt_ns): (u64, u64),
        values: [Option<u64>; 2],
        rated: Option<Interval>,
        gbps: [Option<f64>; 2],
        link: &str,
    ) -> Option<Moved> {
        let now = if let [Some(xmit), Some(rcv)] = values { Some([xmit, rcv]) } else { None };
        let last = self.last;
        let newest = self.newest;
        self.newest = if now.is_some() { ts } else { newest };
        if let (Some((.., before)), Some(now), Some(rated)) = (last, now, rated) {
            // Both counters have a rate, so they were not reset between the two readings of their
            // sampler. If they are smaller than a reading of this time, a clock was set back: the
            // records before and after it have the same times.
            let is_older = gbps.iter().all(Option::is_some) && before.iter().zip(now).any(|(before, now)| now < *before);
            if is_older && rated.from() <= newest.saturating_add(rated.length_ns() / 2) {
                return None;
            }
        }
        self.last = now.map(|now| (ts, rtt_ns, now)).or(last);
        let Some((since, late_ns, before)) = last else {
            let time = rated?;
            // 1 Gb/s for 1 ns is 1 bit.
            let octets = gbps.map(|gbps| Some(gbps? * time.length_ns() as f64 / 8.0));
            self.stood_in.0 = time.to();
            self.stood_in.1.iter_mut().zip(octets).for_each(|(sum, octets)| *sum += octets.unwrap_or(0.0));
            return octets.iter().any(Option::is_some).then_some(Moved { time, octets });
        };
        // The next reading counts the octets of a record without counters too.
        let (now, time) = (now?, Interval::new(since, ts)?);
        let longest_ns = late_ns.saturating_add(time.length_ns()).saturating_add(INEXACT_NS) as f64;
        let most = rate(link).and_then(|rate| rate.data_gbps()).map_or(f64::INFINITY, |gbps| gbps * longest_ns / 8.0);
        let grown = |of: usize| now[of].checked_sub(before[of]).map(|octets| octets as f64).filter(|octets| *octets <= most);
        let grown = [grown(0)?, grown(1)?];
        // The first reading of a time range is that at its start. It arrives with the next reading,
        // after records that have rates and no counters.
        let (until, given) = if self.stood_in.0 > since { self.stood_in } else { (since, [0.0; 2]) };
        let octets = [0, 1].map(|of| Some((grown[of] - given[of]).max(0.0)));
        Some(Moved { time: Interval::new(until, ts)?, octets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn moved(growth: &mut Growth, second: u64, xmit: Option<u64>, gbps: Option<f64>) -> Option<(u64, u64, f64)> {
        let rated = gbps.and_then(|_| Interval::new((second - 1) * SECOND, second * SECOND));
        let moved = growth.add_reading((second * SECOND, 0), [xmit, Some(0)], rated, [gbps, None], "4xEDR")?;
        Some((moved.time.from() / SECOND, moved.time.to() / SECOND, moved.octets[0]?))
    }

    #[test]
    fn octets_of_a_gap_are_the_growth_of_the_counter() {
        let mut growth = Growth::default();
        assert_eq!(moved(&mut growth, 1, Some(100), None), None);
        assert_eq!(moved(&mut growth, 2, Some(200), Some(8e-7)), Some((1, 2, 100.0)));
        // The slots 3 and 4 were missed, so the record of slot 5 has no rate.
        assert_eq!(moved(&mut growth, 5, Some(900), None), Some((2, 5, 700.0)));
        assert_eq!(moved(&mut growth, 6, Some(50), None), None, "a reset");
        assert_eq!(moved(&mut growth, 7, Some(60), Some(8e-8)), Some((6, 7, 10.0)));
        assert_eq!(moved(&mut growth, 8, Some(60_000_000_000), None), None, "more than the link can carry");
    }

    #[test]
    fn reading_at_the_start_of_a_range_counts_no_octets_of_rates_again() {
        let mut growth = Growth::default();
        let rated = Interval::new(10 * SECOND, 11 * SECOND);
        let gbps = [Some(8e-7), Some(8e-7)];
        let octets = |moved: Option<Moved>| moved.map(|moved| (moved.time.from(), moved.time.to(), moved.octets));
        // The counters of this record are left out, because another sampler read at the same time.
        let first = octets(growth.add_reading((11 * SECOND, 0), [None, None], rated, gbps, "4xEDR"));
        assert_eq!(first, Some((10 * SECOND, 11 * SECOND, [Some(100.0); 2])));
        assert_eq!(growth.add_reading((10 * SECOND, u64::MAX), [Some(500); 2], None, [None; 2], "4xEDR"), None);
        let rest = octets(growth.add_reading((12 * SECOND, 0), [Some(750); 2], None, [None; 2], "4xEDR"));
        assert_eq!(rest, Some((11 * SECOND, 12 * SECOND, [Some(150.0); 2])));
        let next = octets(growth.add_reading((13 * SECOND, 0), [Some(850); 2], None, [None; 2], "4xEDR"));
        assert_eq!(next, Some((12 * SECOND, 13 * SECOND, [Some(100.0); 2])));
    }

    #[test]
    fn reading_from_before_the_clock_was_set_back_is_left_out() {
        let mut growth = Growth::default();
        let mut moved = |ts, xmit, gbps: Option<f64>| {
            let rated = gbps.and_then(|_| Interval::new(ts - SECOND + 1000, ts));
            let moved = growth.add_reading((ts, 0), [Some(xmit), Some(0)], rated, [gbps, Some(0.0)], "4xEDR")?;
            moved.octets[0]
        };
        assert_eq!(moved(SECOND, 100, None), None);
        assert_eq!(moved(2 * SECOND, 200, Some(8e-7)), Some(100.0));
        // Two seconds later, the clock was set back by one second. The records of both times
        // alternate.
        assert_eq!(moved(2 * SECOND + 10, 400, None), Some(200.0));
        assert_eq!(moved(3 * SECOND, 300, Some(8e-7)), None, "read before");
        assert_eq!(moved(3 * SECOND + 10, 500, Some(8e-7)), Some(100.0));
        assert_eq!(moved(4 * SECOND, 310, Some(8e-7)), None);
        assert_eq!(moved(5 * SECOND, 320, Some(8e-7)), None);
        assert_eq!(moved(5 * SECOND + 10, 700, Some(8e-7)), Some(200.0));
        assert_eq!(moved(6 * SECOND, 50, None), None, "a reset");
        assert_eq!(moved(7 * SECOND, 60, Some(8e-8)), Some(10.0));
        // The reset may have been before the time of the rate.
        assert_eq!(moved(12 * SECOND, 30, Some(8e-8)), None);
        assert_eq!(moved(13 * SECOND, 40, Some(8e-8)), Some(10.0));
    }

    #[test]
    fn rates_stand_in_before_the_first_reading() {
        let mut growth = Growth::default();
        assert_eq!(moved(&mut growth, 5, None, Some(8.0)), Some((4, 5, 1e9)));
        assert_eq!(moved(&mut growth, 6, Some(900), Some(8.0)), Some((5, 6, 1e9)), "the first reading");
        assert_eq!(moved(&mut growth, 7, None, Some(8.0)), None, "the next reading has these octets");
        assert_eq!(moved(&mut growth, 8, Some(1000), Some(8.0)), Some((6, 8, 100.0)));
    }
}
