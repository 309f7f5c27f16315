//! The rates of counters: which time a rate describes, and when a rate is not known.
//!
//! The rate of a counter is its increase between two readings, divided by the time between them. It
//! describes this whole time. A counter group with a cadence of 10 slots is read once in 10 slots,
//! so its rates describe 10 slots each.
//!
//! A counter can be absent from a record for two reasons: its group was not due in this slot, or
//! the reply was lost. The records do not contain the cadence. These rules decide if a rate is
//! known:
//!
//! 1. A slot is *complete* if its record has the status `ok` or `down`. A record with the status
//!    `ok` has all counters that were due. A port with the status `down` was not queried.
//! 2. If the slot before a reading is complete, no reading was lost, because `ibnet-sweep` repeats a
//!    query without a reply in every slot until it has a reply. The rate is known. The distance
//!    from the last reading, in slots, is the *cadence* of the counter at this port. The records
//!    that count are those before the reading in time: two samplers of a port can be in different
//!    slots. If the last reading is of the same slot or a later one, no reading was lost either.
//! 3. If the slot before a reading is not complete, or has no record, the rate is known only if the
//!    distance from the last reading is not longer than the cadence. The counter was then not due
//!    in between. Before rule 2 applied for the first time, the cadence is one slot.
//! 4. In all other cases there is a *gap*: a reading was lost, and the rate is not known. A record
//!    with the status `unreachable` or `wrong_device` between two readings is always a gap.
//!
//! A rate is also not known if one of the two values is saturated, or if a counter of the metric
//! decreased: its device was reset, or its counters were cleared.

use ibnet::record::Status;

use crate::metric::Metric;
use crate::record::{Interval, Port, Value};

/// The slots of a port so far. They show where readings of its counters can be missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// The slots of the last records and what they lack, the newest record first. Of two samplers,
    /// one can be several slots behind the other: two entries for each.
    last: [Option<(u64, Loss)>; 4],
    /// Time of the last record of a device that did not answer at all.
    away: Option<u64>,
}

/// What can be missing in the record of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Loss {
    /// The slot is complete.
    Nothing,
    /// Replies of some groups.
    Replies,
    /// The device: it did not answer, or another device answered.
    Device,
}

/// The last reading of a counter of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastReading {
    /// Time of the reading.
    pub ts: u64,
    slot: u64,
    /// Number of slots between two readings, as far as it is known.
    cadence: u64,
}

impl Slots {
    /// Adds a record. Records must be added in the order of time.
    pub fn add(&mut self, port: &Port<'_>) {
        self.add_slot(port.ts, port.slot, &port.status);
    }

    /// Adds the time, the slot and the status of a record.
    pub(crate) fn add_slot(&mut self, ts: u64, slot: u64, status: &str) {
        let loss = match Status::named(status) {
            Some(Status::Ok | Status::Down) => Loss::Nothing,
            Some(Status::Unreachable | Status::WrongDevice) => Loss::Device,
            _ => Loss::Replies,
        };
        if loss == Loss::Device {
            self.away = Some(ts);
        }
        // Two samplers of the port have a record each.
        let known = self
            .last
            .iter()
            .position(|last| last.is_some_and(|(other, _)| other == slot));
        let place = known.unwrap_or(self.last.len() - 1);
        let other = known
            .and_then(|place| self.last[place])
            .map_or(Loss::Nothing, |(_, loss)| loss);
        self.last.copy_within(..place, 1);
        self.last[0] = Some((slot, loss.max(other)));
    }

    /// Returns whether a reading was lost between an earlier reading of a counter and its reading
    /// in the current slot.
    pub fn has_gap(&self, before: &LastReading, slot: u64) -> bool {
        let distance = slot.saturating_sub(before.slot);
        self.away > Some(before.ts)
            || (distance > before.cadence && !self.is_joined(slot, distance))
    }

    /// Returns whether no reading can have been lost, whatever the cadence of the counter is.
    fn is_joined(&self, slot: u64, distance: u64) -> bool {
        distance <= 1
            || slot
                .checked_sub(1)
                .is_some_and(|before| self.last.contains(&Some((before, Loss::Nothing))))
    }
}

impl LastReading {
    /// Takes the reading of a counter in the current slot. `before` is its last reading.
    pub fn new(port: &Port<'_>, slots: &Slots, before: Option<&Self>) -> Self {
        let known = before.map_or(1, |before| before.cadence);
        let distance = before.map_or(0, |before| port.slot.saturating_sub(before.slot));
        let cadence = if distance > 0 && slots.is_joined(port.slot, distance) {
            distance
        } else {
            known
        };
        Self {
            ts: port.ts,
            slot: port.slot,
            cadence,
        }
    }
}

/// The last readings of the counters of a metric at one port.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Elements of each counter of the metric. A counter that is no array has one element.
    last: Vec<Vec<Option<Reading>>>,
    /// Time until which the metric has values.
    until: u64,
    /// Times in which counters have a rate, and times in which counters lack it: those that a later
    /// reading can still overlap.
    rated: Vec<Interval>,
    lacking: Vec<Interval>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    value: u64,
    is_saturated: bool,
    last: LastReading,
    /// For a value at an edge of the selected time: whether there is a gap between the readings
    /// before and after the edge.
    edge: Option<bool>,
}

/// What a record adds to the values of a metric.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Added {
    /// The rates of the counters since their last readings.
    pub rates: Vec<Rate>,
    /// Times in which some counters of the metric have a rate, and others do not: the sum is a lower
    /// bound.
    pub partial: Vec<Interval>,
    /// Times in which a counter increased, but its rate is not known.
    pub increased: Vec<Interval>,
}

/// A part of a metric: the increase per second of all counters that were read at the same times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// The time that the rate describes.
    pub time: Interval,
    /// Increase per second.
    pub per_second: f64,
    /// Whether other counters of the metric already have a rate for this time. The sum of both is
    /// the value of the metric.
    pub is_addition: bool,
}

/// Largest number of times that are kept to find overlaps.
const MOST_TIMES: usize = 16;

impl Readings {
    /// Adds the counters of a record. Returns the rates of these counters since their last
    /// readings, and what they lack. The slot of the record must have been added to `slots`, unless
    /// the record is at an edge of the selected time.
    pub fn add(&mut self, port: &Port<'_>, metric: &Metric, slots: &Slots) -> Added {
        let [mut increases, mut unknown]: [Vec<(Interval, u64)>; 2] = Default::default();
        let mut has_decreased = false;
        self.last.resize_with(metric.counters().len(), Vec::new);
        for (name, elements) in metric.counters().iter().zip(&mut self.last) {
            let Some(values) = values(port, name, metric.index()) else {
                continue;
            };
            elements.resize(values.len(), None);
            for ((value, is_saturated), last) in values.zip(elements) {
                let before = last.take();
                if let Some(before) = before {
                    let edge = if port.is_edge {
                        Some(port.has_gap)
                    } else {
                        before.edge
                    };
                    let is_known = !before.is_saturated && !is_saturated;
                    let has_gap = edge.unwrap_or_else(|| slots.has_gap(&before.last, port.slot));
                    has_decreased |= value < before.value && is_known;
                    if let Some(time) = Interval::new(before.last.ts, port.ts) {
                        let to = if is_known && !has_gap {
                            &mut increases
                        } else {
                            &mut unknown
                        };
                        add_to(to, time, value.checked_sub(before.value).unwrap_or(value));
                    }
                }
                let reading =
                    LastReading::new(port, slots, before.as_ref().map(|before| &before.last));
                *last = Some(Reading {
                    value,
                    is_saturated,
                    last: reading,
                    edge: port.is_edge.then_some(port.has_gap),
                });
            }
        }
        if has_decreased {
            unknown.append(&mut increases);
        }
        let increased = unknown
            .iter()
            .filter(|(_, increase)| *increase > 0)
            .map(|(time, _)| *time)
            .collect();
        let rated = increases.iter().map(|(time, _)| *time).collect();
        let partial = self.partial(rated, unknown.into_iter().map(|(time, _)| time).collect());
        Added {
            rates: self.rates(increases),
            partial,
            increased,
        }
    }

    /// Takes times with and without rates. Returns the times that have both.
    fn partial(&mut self, rated: Vec<Interval>, lacking: Vec<Interval>) -> Vec<Interval> {
        let is_single = self.last.len() < 2 && self.last.iter().all(|elements| elements.len() < 2);
        if is_single {
            return Vec::new();
        }
        let overlaps = |a: &[Interval], b: &[Interval]| -> Vec<Interval> {
            a.iter()
                .flat_map(|a| b.iter().filter_map(|b| a.within(b.from(), b.to())))
                .collect()
        };
        let mut partial = overlaps(&lacking, &self.rated);
        self.lacking.extend(lacking);
        partial.extend(overlaps(&rated, &self.lacking));
        rated
            .into_iter()
            .for_each(|time| join(&mut self.rated, time));
        // A later reading describes the time since the last reading of its counter.
        let first = self
            .last
            .iter()
            .flatten()
            .flatten()
            .map(|reading| reading.last.ts)
            .min()
            .unwrap_or(0);
        for times in [&mut self.rated, &mut self.lacking] {
            times.retain(|time| time.to() > first);
            times.drain(..times.len().saturating_sub(MOST_TIMES));
        }
        partial
    }

    /// Divides each time into the part that already has a value of the metric, and the new part.
    fn rates(&mut self, increases: Vec<(Interval, u64)>) -> Vec<Rate> {
        let mut rates = Vec::with_capacity(increases.len());
        for (time, increase) in increases {
            let per_second = increase as f64 * 1e9 / time.length_ns() as f64;
            let parts = [
                (time.within(0, self.until), true),
                (time.within(self.until, u64::MAX), false),
            ];
            rates.extend(parts.into_iter().filter_map(|(time, is_addition)| {
                Some(Rate {
                    time: time?,
                    per_second,
                    is_addition,
                })
            }));
            self.until = self.until.max(time.to());
        }
        rates
    }
}

/// Adds a time to a list of times. It joins a time that ends where it begins.
fn join(times: &mut Vec<Interval>, time: Interval) {
    match times
        .iter_mut()
        .find(|known| known.to() >= time.from() && known.from() <= time.from())
    {
        Some(known) => {
            *known = Interval::new(known.from(), known.to().max(time.to())).unwrap_or(*known);
        }
        None => times.push(time),
    }
}

fn add_to(increases: &mut Vec<(Interval, u64)>, time: Interval, increase: u64) {
    match increases.iter_mut().find(|(known, _)| *known == time) {
        Some((_, sum)) => *sum = sum.saturating_add(increase),
        None => increases.push((time, increase)),
    }
}

/// Returns the values of a counter, or of one element of it, and whether each is saturated.
/// Returns `None` if the record does not have the counter or the element.
fn values<'a>(
    port: &'a Port<'_>,
    name: &str,
    index: Option<usize>,
) -> Option<impl ExactSizeIterator<Item = (u64, bool)> + 'a> {
    let (all, values) = match (port.value(name)?, index) {
        (Value::One(value), None) => (std::slice::from_ref(value), std::slice::from_ref(value)),
        (Value::Many(all), None) => (&all[..], &all[..]),
        (Value::Many(all), Some(index)) => (&all[..], all.get(index..=index)?),
        _ => return None,
    };
    // All bits of a saturated value are set, so it is the largest value of an array.
    let saturated = if port.is_saturated(name) {
        all.iter().max()
    } else {
        None
    };
    Some(
        values
            .iter()
            .map(move |value| (*value, Some(value) == saturated)),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fixtures;
    use crate::record::{Record, Type};

    const SECOND: u64 = 1_000_000_000;

    /// Evaluates records of a port. Each has a slot of one second, a status and other fields.
    struct Recording {
        metric: Metric,
        slots: Slots,
        readings: Readings,
    }

    impl Recording {
        fn of(metric: &str) -> Self {
            Self {
                metric: metric.parse().unwrap(),
                slots: Slots::default(),
                readings: Readings::default(),
            }
        }

        /// Adds a record. Returns the rates: start and end in seconds, and value.
        fn add(
            &mut self,
            slot: u64,
            status: &str,
            rest: &[(&str, serde_json::Value)],
        ) -> Vec<(u64, u64, f64)> {
            self.add_record(slot, status, rest, None)
        }

        fn at_edge(
            &mut self,
            slot: u64,
            has_gap: bool,
            rest: &[(&str, serde_json::Value)],
        ) -> Vec<(u64, u64, f64)> {
            self.add_record(slot, "ok", rest, Some(has_gap))
        }

        fn add_record(
            &mut self,
            slot: u64,
            status: &str,
            rest: &[(&str, serde_json::Value)],
            edge: Option<bool>,
        ) -> Vec<(u64, u64, f64)> {
            let rest = [&[("status", status.into())], rest].concat();
            let line = fixtures::port(slot, (1, 1), "leaf", (0x101, 1, "n1"), &rest);
            let Record::Port(mut port) = Record::parse(line.as_bytes(), Type::Port).unwrap() else {
                panic!("a port")
            };
            (port.is_edge, port.has_gap) = (edge.is_some(), edge.unwrap_or(false));
            if edge.is_none() {
                self.slots.add(&port);
            }
            let rates = self.readings.add(&port, &self.metric, &self.slots).rates;
            assert!(
                rates
                    .iter()
                    .all(|rate| !rate.is_addition || self.metric.name() == "errors"),
                "{rates:?}"
            );
            rates
                .iter()
                .map(|rate| {
                    (
                        rate.time.from() / SECOND,
                        rate.time.to() / SECOND,
                        rate.per_second,
                    )
                })
                .collect()
        }
    }

    fn symbols(value: u64) -> Vec<(&'static str, serde_json::Value)> {
        vec![("symbol_error_counter", value.into())]
    }

    #[test]
    fn rate_is_the_increase_per_second() {
        let mut errors = Recording::of("errors");
        let of = |symbols: u64, received: u64| {
            [
                ("symbol_error_counter", symbols.into()),
                ("port_rcv_errors", received.into()),
            ]
        };
        assert_eq!(errors.add(1, "ok", &of(10, 5)), []);
        assert_eq!(errors.add(2, "ok", &of(13, 6)), [(1, 2, 4.0)]);
        assert_eq!(
            errors.add(3, "timeout", &of(13, 6)),
            [(2, 3, 0.0)],
            "what a record has is true"
        );
    }

    #[test]
    fn counter_with_a_cadence_has_its_rate_over_the_cadence() {
        let mut errors = Recording::of("symbol_error_counter");
        errors.add(1, "ok", &symbols(100));
        (2..7).for_each(|slot| assert_eq!(errors.add(slot, "ok", &[]), []));
        assert_eq!(errors.add(7, "ok", &symbols(112)), [(1, 7, 2.0)]);
        (8..17).for_each(|slot| {
            assert_eq!(
                errors.add(slot, if slot == 12 { "down" } else { "ok" }, &[]),
                []
            );
        });
        assert_eq!(errors.add(17, "ok", &symbols(142)), [(7, 17, 3.0)]);
    }

    #[test]
    fn sampler_that_is_slots_behind_the_other_one_leaves_no_gap() {
        let mut errors = Recording::of("symbol_error_counter");
        let reading = |ts: u64, value: u64| {
            vec![
                ("symbol_error_counter", value.into()),
                ("ts", (ts * SECOND).into()),
            ]
        };
        errors.add(7, "ok", &reading(10, 0));
        assert_eq!(
            errors.add(9, "ok", &reading(12, 2)),
            [],
            "slot 8 has no record yet"
        );
        assert_eq!(
            errors.add(8, "ok", &reading(13, 4)),
            [(12, 13, 2.0)],
            "no reading is between the two"
        );
        errors.add(9, "timeout", &[("ts", (14 * SECOND).into())]);
        assert_eq!(
            errors.add(10, "ok", &reading(15, 8)),
            [],
            "slot 9 lacks a reply of one sampler"
        );
        assert_eq!(errors.add(10, "ok", &reading(16, 9)), [(15, 16, 1.0)]);
        errors.add(11, "ok", &[("ts", (17 * SECOND).into())]);
        assert_eq!(
            errors.add(12, "ok", &reading(18, 11)),
            [(16, 18, 1.0)],
            "slot 11 is complete"
        );
    }

    #[test]
    fn lost_reply_of_another_group_is_no_gap() {
        let mut errors = Recording::of("symbol_error_counter");
        errors.add(1, "ok", &symbols(0));
        errors.add(2, "ok", &[]);
        errors.add(3, "late", &[]);
        errors.add(5, "ok", &[]);
        assert_eq!(
            errors.add(6, "ok", &symbols(10)),
            [(1, 6, 2.0)],
            "the counter would have been queried again in slot 4 or 5"
        );
    }

    #[test]
    fn reading_later_than_the_cadence_is_a_gap() {
        for lost in [Some("timeout"), Some("late"), Some("skipped"), None] {
            let mut errors = Recording::of("symbol_error_counter");
            errors.add(1, "ok", &symbols(0));
            (2..4).for_each(|slot| assert_eq!(errors.add(slot, "ok", &[]), []));
            assert_eq!(
                errors.add(4, "ok", &symbols(3)),
                [(1, 4, 1.0)],
                "the cadence is three slots"
            );
            errors.add(5, "ok", &[]);
            lost.map(|status| errors.add(6, status, &[]));
            assert_eq!(
                errors.add(7, "ok", &symbols(6)),
                [(4, 7, 1.0)],
                "{lost:?}: nothing was due in slot 6"
            );
            (8..10).for_each(|slot| assert_eq!(errors.add(slot, "ok", &[]), []));
            lost.map(|status| errors.add(10, status, &[]));
            assert_eq!(
                errors.add(11, "ok", &symbols(10)),
                [],
                "{lost:?}: the reading of slot 10 was lost"
            );
            errors.add(12, "ok", &[]);
            assert_eq!(errors.add(13, "ok", &symbols(14)), [(11, 13, 2.0)]);
        }
    }

    #[test]
    fn lost_reply_without_a_cadence_is_a_gap() {
        let mut errors = Recording::of("symbol_error_counter");
        errors.add(1, "ok", &symbols(0));
        errors.add(2, "timeout", &[]);
        assert_eq!(errors.add(3, "ok", &symbols(4)), []);
        assert_eq!(errors.add(4, "ok", &symbols(5)), [(3, 4, 1.0)]);
        assert_eq!(errors.add(6, "ok", &symbols(7)), [], "a slot is missing");
        assert_eq!(errors.add(5, "ok", &symbols(8)), [], "time runs back");
    }

    #[test]
    fn device_that_was_away_is_a_gap_at_any_cadence() {
        for status in ["unreachable", "wrong_device"] {
            let mut errors = Recording::of("symbol_error_counter");
            errors.add(1, "ok", &symbols(0));
            (2..11).for_each(|slot| assert_eq!(errors.add(slot, "ok", &[]), []));
            assert_eq!(errors.add(11, "ok", &symbols(10)), [(1, 11, 1.0)]);
            errors.add(12, status, &[]);
            assert_eq!(errors.add(13, "ok", &symbols(20)), [], "{status}");
        }
    }

    #[test]
    fn reset_or_saturated_counter_has_no_rate() {
        let mut errors = Recording::of("errors");
        let of = |symbols: u64, received: u64| {
            vec![
                ("symbol_error_counter", symbols.into()),
                ("port_rcv_errors", received.into()),
            ]
        };
        errors.add(1, "ok", &of(10, 5));
        assert_eq!(
            errors.add(2, "ok", &of(9, 6)),
            [],
            "a part of the sum is not known"
        );
        assert_eq!(errors.add(3, "ok", &of(10, 7)), [(2, 3, 2.0)]);
        let full = [
            of(65535, 8),
            vec![("saturated", ["symbol_error_counter"].into())],
        ]
        .concat();
        assert_eq!(errors.add(4, "ok", &full), [(3, 4, 1.0)]);
        assert_eq!(
            errors.add(5, "ok", &of(3, 9)),
            [(4, 5, 1.0)],
            "the increase to a saturated value is not known"
        );
    }

    #[test]
    fn counters_of_different_cadences_are_added() {
        let mut errors = Recording::of("errors");
        let of = |symbols: u64, received: Option<u64>| {
            let received = received.map(|received| ("port_rcv_errors", received.into()));
            [("symbol_error_counter", symbols.into())]
                .into_iter()
                .chain(received)
                .collect::<Vec<_>>()
        };
        errors.add(1, "ok", &of(0, Some(0)));
        assert_eq!(errors.add(2, "ok", &of(5, None)), [(1, 2, 5.0)]);
        assert_eq!(errors.add(3, "ok", &of(5, None)), [(2, 3, 0.0)]);
        assert_eq!(
            errors.add(4, "ok", &of(6, Some(9))),
            [(3, 4, 1.0), (1, 4, 3.0)]
        );
    }

    #[test]
    fn array_is_read_as_an_element_or_as_the_sum() {
        let rate = |metric: &str, before: serde_json::Value, after: serde_json::Value| {
            let mut recording = Recording::of(metric);
            recording.add(1, "ok", &[("port_vl_op_packets", before)]);
            let saturated = after
                .to_string()
                .contains("65535")
                .then(|| ("saturated", ["port_vl_op_packets"].into()));
            let rest: Vec<_> = [("port_vl_op_packets", after)]
                .into_iter()
                .chain(saturated)
                .collect();
            recording.add(2, "ok", &rest).first().map(|rate| rate.2)
        };
        assert_eq!(
            rate("port_vl_op_packets", json!([5, 0, 7]), json!([6, 0, 9])),
            Some(3.0)
        );
        assert_eq!(
            rate("port_vl_op_packets[2]", json!([5, 0, 7]), json!([6, 0, 9])),
            Some(2.0)
        );
        assert_eq!(
            rate("port_vl_op_packets[3]", json!([5, 0, 7]), json!([6, 0, 9])),
            None
        );
        assert_eq!(
            rate("port_vl_op_packets[0]", json!(5), json!(6)),
            None,
            "a single value has no elements"
        );
        assert_eq!(
            rate("port_vl_op_packets", json!([5, 0, 7]), json!([65535, 3, 7])),
            Some(3.0),
            "the other elements are known"
        );
        assert_eq!(
            rate(
                "port_vl_op_packets[1]",
                json!([5, 0, 7]),
                json!([65535, 3, 7])
            ),
            Some(3.0)
        );
    }

    #[test]
    fn edge_of_the_selected_time_has_the_gap_of_its_readings() {
        for has_gap in [false, true] {
            let known = |rate| if has_gap { vec![] } else { vec![rate] };
            let mut errors = Recording::of("symbol_error_counter");
            errors.add(3, "ok", &[]);
            errors.at_edge(2, has_gap, &symbols(4));
            assert_eq!(errors.add(6, "ok", &symbols(12)), known((2, 6, 2.0)));
            assert_eq!(errors.at_edge(9, has_gap, &symbols(15)), known((6, 9, 1.0)));
        }
    }

    proptest! {
        /// Whatever the cadence, the rates over time add up to the increase of the counter.
        #[test]
        fn rates_add_up_to_the_increase(cadence in 1_u64..20, phase in 0_u64..20, grown in prop::collection::vec(0_u64..1000, 2..120)) {
            let mut recording = Recording::of("symbol_error_counter");
            let (mut value, mut sum, mut read) = (0, 0.0, 0);
            recording.add(1, "ok", &symbols(0));
            for (slot, more) in (2..).zip(grown) {
                value += more;
                let is_due = slot % cadence == phase % cadence;
                let counters = if is_due { symbols(value) } else { Vec::new() };
                read = if is_due { value } else { read };
                sum += recording.add(slot, "ok", &counters).iter().map(|(from, to, rate)| rate * (to - from) as f64).sum::<f64>();
            }
            prop_assert!((sum - read as f64).abs() < 1e-6, "{sum} {read}");
        }
    }
}
