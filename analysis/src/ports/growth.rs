//! Computes the bytes that a port sent and received from its counters.
//!
//! A rate is missing after a missed slot or a change of the sampler, but the counters include the
//! bytes of that time. Totals are therefore the growth from one reading to the next, no matter
//! which sampler made the readings.

use ibnet_record::interval::Interval;

use super::rate;

/// Max error of the times of two readings, apart from the round-trip time. A growth that the link
/// cannot carry even in this extra time is not counted.
const INEXACT_NS: u64 = 100_000_000;

/// Max time between readings that are compared to detect that clocks differ.
const RECENT_NS: u64 = 60_000_000_000;

/// The last readings of both counters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Growth {
    counters: [Counter; 2],
    /// Time of the newest reading, even if it was ignored because it is out of order.
    newest: u64,
    /// The last readings of the last two samplers, newest first.
    read: [Reading; 2],
}

/// A reading of both counters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) ts: u64,
    /// Id of the sampler. 0 at an edge, where the values are interpolated between two readings.
    pub(crate) sampler: u64,
    /// Max time from the moment at which the device read its counters to `ts`.
    pub(crate) rtt_ns: u64,
    pub(crate) values: [Option<u64>; 2],
    /// Whether the counters are saturated.
    pub(crate) full: [bool; 2],
}

/// The last reading of a counter.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Counter {
    /// Time, max time from the reading in the device to this time, and value.
    last: Option<(u64, u64, u64)>,
    /// Whether the counter was saturated. Rates then replace no reading.
    was_full: bool,
    /// End of the time for which rates replaced the first reading, and the bytes of these rates.
    stood_in: (u64, f64),
}

/// Bytes of one direction over a time.
pub(crate) type Moved = (Interval, f64);

impl Growth {
    /// Adds the values of a record: its reading, and both rates in Gb/s with the time that they
    /// describe. Returns the bytes sent and received since the last reading of each counter, or, as
    /// long as there is no reading, those that follow from the rates of the record. They are
    /// unknown after a reset and next to a saturated value.
    pub(crate) fn add_reading(
        &mut self,
        Reading {
            ts,
            sampler,
            rtt_ns,
            mut values,
            full,
        }: Reading,
        rated: Option<Interval>,
        gbps: [Option<f64>; 2],
        link: &str,
    ) -> [Option<Moved>; 2] {
        for (of, counter) in self.counters.iter_mut().enumerate() {
            if full[of] && values[of].take().is_some() {
                (counter.last, counter.was_full) = (None, true);
            }
        }
        let newest = self.newest;
        let mut is_continued = false;
        if values != [None; 2] {
            self.newest = ts;
            is_continued = sampler != 0
                && self.continues(Reading {
                    ts,
                    sampler,
                    rtt_ns,
                    values,
                    full,
                });
        }
        let has_decreased =
            self.counters
                .iter()
                .zip(values)
                .any(|(counter, now)| match (counter.last, now) {
                    (Some((.., before)), Some(now)) => now < before,
                    _ => false,
                });
        // If counters have a rate, they were not reset between the two readings of their sampler.
        // If such a counter is nevertheless smaller than a reading of this time, a clock was set
        // back, and the records before and after that have the same times.
        let has_rates = values
            .iter()
            .zip(gbps)
            .all(|(value, gbps)| value.is_none() || gbps.is_some());
        let is_older = |rated: Interval| {
            has_rates && rated.from() <= newest.saturating_add(rated.length_ns() / 2)
        };
        if has_decreased && (is_continued || rated.is_some_and(is_older)) {
            return [None; 2];
        }
        let most = rate(link).and_then(|rate| rate.data_gbps());
        let mut moved = [None; 2];
        for (of, counter) in self.counters.iter_mut().enumerate() {
            let last = counter.last;
            counter.last = values[of].map(|now| (ts, rtt_ns, now)).or(last);
            moved[of] = match last {
                None => rated
                    .zip(gbps[of])
                    .and_then(|(time, gbps)| counter.stand_in(time, gbps)),
                // A reset affects both counters.
                Some(_) if has_decreased => None,
                // If the record has no counters, the next reading includes its bytes.
                Some(last) => values[of].and_then(|now| counter.grown(last, (ts, now), most)),
            };
        }
        moved
    }

    /// Notes a reading. Returns whether the counters have not decreased since a recent reading of
    /// the same sampler. If they are nevertheless smaller than a reading of another sampler, the
    /// clocks of the two samplers differ, and there was no reset.
    fn continues(&mut self, reading: Reading) -> bool {
        let place = usize::from(self.read[0].sampler != reading.sampler);
        let before = self.read[place];
        if place == 1 {
            self.read[1] = self.read[0];
        }
        self.read[0] = reading;
        let is_recent = |ts: u64| ts.saturating_add(RECENT_NS) >= reading.ts;
        let has_grown = before
            .values
            .iter()
            .zip(reading.values)
            .all(|(before, now)| before.is_none_or(|before| now.is_none_or(|now| now >= before)));
        let last = self.counters.iter().filter_map(|counter| counter.last);
        before.sampler == reading.sampler
            && is_recent(before.ts)
            && has_grown
            && last.map(|(ts, ..)| ts).all(is_recent)
    }
}

impl Counter {
    /// Returns the bytes of a rate, which replaces the first reading.
    fn stand_in(&mut self, time: Interval, gbps: f64) -> Option<Moved> {
        if self.was_full {
            return None;
        }
        // 1 Gb/s for 1 ns is 1 bit.
        let octets = gbps * time.length_ns() as f64 / 8.0;
        self.stood_in = (time.to(), self.stood_in.1 + octets);
        Some((time, octets))
    }

    /// Returns the bytes since the previous reading. `gbps` is the data rate of the link.
    fn grown(
        &self,
        (since, late_ns, before): (u64, u64, u64),
        (ts, now): (u64, u64),
        gbps: Option<f64>,
    ) -> Option<Moved> {
        let time = Interval::new(since, ts)?;
        let longest_ns = late_ns
            .saturating_add(time.length_ns())
            .saturating_add(INEXACT_NS) as f64;
        let most = gbps.map_or(f64::INFINITY, |gbps| gbps * longest_ns / 8.0);
        let octets = now
            .checked_sub(before)
            .map(|octets| octets as f64)
            .filter(|octets| *octets <= most)?;
        // The first reading of a time range, at its start, arrives only with the next reading;
        // records with rates but without counters can come before. Their bytes were already
        // returned.
        let (until, given) = if self.stood_in.0 > since {
            self.stood_in
        } else {
            (since, 0.0)
        };
        Some((Interval::new(until, ts)?, (octets - given).max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(ts: u64, values: [Option<u64>; 2]) -> Reading {
        Reading {
            ts,
            sampler: 1,
            values,
            ..Reading::default()
        }
    }

    fn moved(
        growth: &mut Growth,
        second: u64,
        xmit: Option<u64>,
        gbps: Option<f64>,
    ) -> Option<(u64, u64, f64)> {
        let rated = gbps.and_then(|_| Interval::new((second - 1) * SECOND, second * SECOND));
        let (time, octets) = growth.add_reading(
            reading(second * SECOND, [xmit, Some(0)]),
            rated,
            [gbps, None],
            "4xEDR",
        )[0]?;
        Some((time.from() / SECOND, time.to() / SECOND, octets))
    }

    #[test]
    fn octets_of_a_gap_are_the_growth_of_the_counter() {
        let mut growth = Growth::default();
        assert_eq!(moved(&mut growth, 1, Some(100), None), None);
        assert_eq!(
            moved(&mut growth, 2, Some(200), Some(8e-7)),
            Some((1, 2, 100.0))
        );
        // The slots 3 and 4 were missed, so the record of slot 5 has no rate.
        assert_eq!(moved(&mut growth, 5, Some(900), None), Some((2, 5, 700.0)));
        assert_eq!(moved(&mut growth, 6, Some(50), None), None, "a reset");
        assert_eq!(
            moved(&mut growth, 7, Some(60), Some(8e-8)),
            Some((6, 7, 10.0))
        );
        assert_eq!(
            moved(&mut growth, 8, Some(60_000_000_000), None),
            None,
            "more than the link can carry"
        );
    }

    #[test]
    fn reading_at_the_start_of_a_range_counts_no_octets_of_rates_again() {
        let mut growth = Growth::default();
        let mut add = |second: u64, value: Option<u64>, rated| {
            let rtt_ns = if second == 10 { u64::MAX } else { 0 };
            let gbps = if rated { [Some(8e-7); 2] } else { [None; 2] };
            let rated = Interval::new(10 * SECOND, 11 * SECOND).filter(|_| rated);
            let moved = growth.add_reading(
                Reading {
                    rtt_ns,
                    ..reading(second * SECOND, [value; 2])
                },
                rated,
                gbps,
                "4xEDR",
            );
            assert_eq!(moved[0], moved[1]);
            moved[0].map(|(time, octets)| (time.from() / SECOND, time.to() / SECOND, octets))
        };
        // The counters of this record are left out, because another sampler read at the same time.
        assert_eq!(add(11, None, true), Some((10, 11, 100.0)));
        assert_eq!(add(10, Some(500), false), None);
        assert_eq!(add(12, Some(750), false), Some((11, 12, 150.0)));
        assert_eq!(add(13, Some(850), false), Some((12, 13, 100.0)));
    }

    #[test]
    fn reading_from_before_the_clock_was_set_back_is_left_out() {
        let mut growth = Growth::default();
        let mut moved = |ts, xmit, gbps: Option<f64>| {
            let rated = gbps.and_then(|_| Interval::new(ts - SECOND + 1000, ts));
            Some(
                growth.add_reading(
                    reading(ts, [Some(xmit), Some(0)]),
                    rated,
                    [gbps, Some(0.0)],
                    "4xEDR",
                )[0]?
                    .1,
            )
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
    fn no_octet_counts_twice_if_the_clocks_of_two_samplers_are_apart() {
        // The clock of the second sampler is five seconds behind, so its values of a time are later
        // ones. No record has a rate, as after lost ones.
        let mut growth = Growth::default();
        let mut sum = |readings: &[(u64, u64, u64)]| {
            let moved = readings.iter().filter_map(|(sampler, ts, value)| {
                let reading = Reading {
                    sampler: *sampler,
                    ..reading(*ts, [Some(*value); 2])
                };
                Some(growth.add_reading(reading, None, [None; 2], "4xEDR")[0]?.1)
            });
            moved.sum::<f64>()
        };
        let of = |second: u64| {
            [
                (1, second * SECOND, 100 * second),
                (2, second * SECOND + SECOND / 2, 100 * (second + 5) + 50),
            ]
        };
        assert_eq!(
            sum(&(10..20).flat_map(of).collect::<Vec<_>>()),
            1450.0,
            "from 1000 to 2450"
        );
        // A real reset is one for the sampler too.
        assert_eq!(
            sum(&[
                (1, 20 * SECOND, 7),
                (2, 20 * SECOND + SECOND / 2, 57),
                (1, 21 * SECOND, 107)
            ]),
            100.0
        );
        // A sampler takes over long after its last reading.
        assert_eq!(
            sum(&[
                (2, 99 * SECOND, 8000),
                (1, 100 * SECOND, 200),
                (1, 101 * SECOND, 300)
            ]),
            8000.0 - 107.0 + 100.0
        );
    }

    #[test]
    fn rates_stand_in_before_the_first_reading() {
        let mut growth = Growth::default();
        assert_eq!(moved(&mut growth, 5, None, Some(8.0)), Some((4, 5, 1e9)));
        assert_eq!(
            moved(&mut growth, 6, Some(900), Some(8.0)),
            Some((5, 6, 1e9)),
            "the first reading"
        );
        assert_eq!(
            moved(&mut growth, 7, None, Some(8.0)),
            None,
            "the next reading has these octets"
        );
        assert_eq!(
            moved(&mut growth, 8, Some(1000), Some(8.0)),
            Some((6, 8, 100.0))
        );
    }

    #[test]
    fn saturated_counter_takes_nothing_from_the_other_direction() {
        let mut growth = Growth::default();
        let mut add = |second: u64, xmit: u64, is_full: bool, rcv: u64| {
            let moved = growth.add_reading(
                Reading {
                    full: [is_full, false],
                    ..reading(second * SECOND, [Some(xmit), Some(rcv)])
                },
                None,
                [None; 2],
                "4xEDR",
            );
            moved.map(|moved| {
                moved.map(|(time, octets)| (time.from() / SECOND, time.to() / SECOND, octets))
            })
        };
        assert_eq!(add(1, 100, false, 10), [None; 2]);
        assert_eq!(
            add(2, 200, false, 20),
            [Some((1, 2, 100.0)), Some((1, 2, 10.0))]
        );
        assert_eq!(add(3, 999, true, 25), [None, Some((2, 3, 5.0))]);
        assert_eq!(add(4, 999, true, 30), [None, Some((3, 4, 5.0))]);
        // The counter was cleared, and is larger than before it was full.
        assert_eq!(add(5, 300, false, 31), [None, Some((4, 5, 1.0))]);
        assert_eq!(
            add(6, 310, false, 40),
            [Some((5, 6, 10.0)), Some((5, 6, 9.0))]
        );
        assert_eq!(
            add(7, 400, false, 3),
            [None; 2],
            "a reset concerns both counters"
        );
    }
}
