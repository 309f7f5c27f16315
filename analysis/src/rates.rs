//! The rates of counters: which time a rate describes, and when a rate is unknown.
//!
//! The rate of a counter is its increase between two readings, divided by the time between them,
//! and it describes this whole time. A counter group with a cadence of 10 slots is read once in
//! 10 slots, so each of its rates describes 10 slots.
//!
//! If a record lacks a counter, either its group was not due in this slot, or the reply was lost.
//! The field `GROUP_dt_slots` distinguishes the two: a record with counters of a group states how
//! many slots ago the group was read before, so the reader can check that it has that record.
//! There is a *gap*, and no rate, if
//!
//! 1. `GROUP_dt_slots` is 0: there is no earlier reading to compare with.
//! 2. The last reading is older than `GROUP_dt_slots` states: a record was lost. Readings of
//!    another sampler of the port count too.
//! 3. The field is absent, which means that the group was also read in the slot before, but that
//!    slot has neither the reading nor any other record of the port. (Recordings from before this
//!    field never have it, whatever the distance.)
//! 4. A record between the two has the status `unreachable` or `wrong_device`.
//!
//! The rate is also unknown if one of the two values is saturated, or if a counter of the metric
//! decreased, because its device was reset or its counters were cleared.

use ibnet_record::Status;
use ibnet_record::attributes::Group;

use crate::metric::Metric;
use crate::record::{Interval, Port, Value};

/// The latest slots of a port, which reveal lost readings of its counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots {
    /// The latest slot with a record, and the one before it.
    latest: [Option<u64>; 2],
    /// Time of the last record with the status `unreachable` or `wrong_device`.
    away: Option<u64>,
    /// `GROUP_dt_slots` of the last record.
    since: Vec<(Group, u64)>,
}

/// The last reading of a counter of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastReading {
    /// Time of the reading.
    pub ts: u64,
    /// The latest slot of any reading so far, because one of two samplers can be several slots
    /// behind.
    slot: u64,
}

impl Slots {
    /// Adds a record. Records must be added in time order.
    pub fn add(&mut self, port: &Port<'_>) {
        self.add_slot(port.ts, port.slot, port.status());
        let stated = port.counters.iter().filter_map(|(name, value)| {
            match (Group::of_dt_slots_field(name), value) {
                (Some(group), Value::One(slots)) => Some((group, *slots)),
                _ => None,
            }
        });
        self.since.clear();
        self.since.extend(stated);
    }

    /// Adds the time, the slot and the status of a record.
    pub(crate) fn add_slot(&mut self, ts: u64, slot: u64, status: Option<Status>) {
        if let Some(Status::Unreachable | Status::WrongDevice) = status {
            self.away = Some(ts);
        }
        if self.latest[0] < Some(slot) {
            self.latest = [Some(slot), self.latest[0]];
        }
    }

    /// Returns whether a reading was lost between the reading `before` and the reading in the
    /// last record, whose slot is `slot`.
    pub fn has_gap(&self, before: &LastReading, counter: &str, slot: u64) -> bool {
        let is_lost = match self.stated(counter) {
            Some(slots) => slots == 0 || before.slot < slot.saturating_sub(slots),
            None => before.slot.saturating_add(1) < slot && !self.has(slot - 1),
        };
        is_lost || self.away > Some(before.ts)
    }

    fn has(&self, slot: u64) -> bool {
        self.latest.contains(&Some(slot))
    }

    /// Returns `GROUP_dt_slots` of the group of this counter, if the last record has it.
    fn stated(&self, counter: &str) -> Option<u64> {
        // Fast path: nearly all groups are read in each slot.
        if self.since.is_empty() {
            return None;
        }
        let stated = |group: &Group| self.since.iter().find(|(of, _)| of == group);
        let (_, slots) = Group::of_counter(counter).iter().find_map(stated)?;
        Some(*slots)
    }
}

impl LastReading {
    /// Takes the reading of a counter from a record. `before` is its previous reading.
    pub fn new(port: &Port<'_>, before: Option<&Self>) -> Self {
        Self {
            ts: port.ts,
            slot: before.map_or(0, |before| before.slot).max(port.slot),
        }
    }
}

/// The last readings of the counters of a metric at one port.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// For each counter of the metric, its elements. A counter that is no array has one element.
    last: Vec<Vec<Option<Reading>>>,
    /// Time up to which the metric already has values.
    until: u64,
    /// Times for which counters have a rate, and below, times for which counters lack one. Only
    /// those that a later reading can still overlap are kept.
    rated: Vec<Interval>,
    lacking: Vec<Interval>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    value: u64,
    is_saturated: bool,
    last: LastReading,
    /// For a value at an edge of the selected time range: whether a gap lies between the readings
    /// around the edge.
    edge: Option<bool>,
}

/// What one record contributes to the values of a metric.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Added {
    /// Rates of the counters since their last readings.
    pub rates: Vec<Rate>,
    /// Times for which some counters of the metric have a rate and others have none, so the sum
    /// is only a lower bound.
    pub partial: Vec<Interval>,
    /// Times in which a counter increased, although its rate is unknown.
    pub increased: Vec<Interval>,
}

/// One part of a metric: the rate of all counters that were read at the same two times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    /// The time that the rate describes.
    pub time: Interval,
    /// Increase per second.
    pub per_second: f64,
    /// Whether other counters of the metric already have a rate for this time. The metric is then
    /// the sum of both.
    pub is_addition: bool,
}

/// Max number of times that are kept to find overlaps.
const MAX_TIMES: usize = 16;

impl Readings {
    /// Adds the counters of a record. Returns their rates since their last readings, and which of
    /// them have none. The slot of the record must already be in `slots`, unless the record is at
    /// an edge of the selected time range.
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
                    let edge = port.has_gap.or(before.edge);
                    // Only a counter that ibnet has cleared increases after it was saturated.
                    let continues = !before.is_saturated || value > before.value;
                    let is_known = continues && !is_saturated;
                    let has_gap =
                        edge.unwrap_or_else(|| slots.has_gap(&before.last, name, port.slot));
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
                let reading = LastReading::new(port, before.as_ref().map(|before| &before.last));
                *last = Some(Reading {
                    value,
                    is_saturated,
                    last: reading,
                    edge: port.has_gap,
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

    /// Takes the new times with and without a rate. Returns the times in which both overlap.
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
        // A later reading describes the time since the last reading of its counter, so times
        // before the earliest of them are no longer needed.
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
            times.drain(..times.len().saturating_sub(MAX_TIMES));
        }
        partial
    }

    /// Splits each time into the part for which the metric already has a value, and the new part.
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

/// Adds a time to a list, or extends the entry that overlaps or touches its start.
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

/// Returns the values of a counter, or of one of its elements, each with whether it is saturated.
/// Returns `None` if the record lacks the counter or the element.
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
    let full = port.is_saturated(name).then(|| saturated_from(name, all));
    Some(
        values
            .iter()
            .map(move |value| (*value, full.is_some_and(|full| *value >= full))),
    )
}

/// Returns the smallest saturated element of an array that has saturated elements.
///
/// A saturated counter has all bits set, so it is the max of the array. The totals of counters that
/// ibnet clears exceed the max of a counter, and each of them may be the saturated one.
pub(crate) fn saturated_from(name: &str, elements: &[u64]) -> u64 {
    let mut fields = Group::of_counter(name)
        .iter()
        .flat_map(|group| group.fields());
    let field = fields.find(|field| field.json == name);
    let full = field.map_or(u64::MAX, |field| field.value(field.all_ones()));
    elements.iter().max().map_or(full, |max| full.min(*max))
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
            (port.is_edge, port.has_gap) = (edge.is_some(), edge);
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

    /// A reading with the slots since the last one.
    fn stated(value: u64, slots: u64) -> Vec<(&'static str, serde_json::Value)> {
        [symbols(value), vec![("base_dt_slots", slots.into())]].concat()
    }

    #[test]
    fn sampler_that_is_slots_behind_the_other_one_leaves_no_gap() {
        let mut errors = Recording::of("symbol_error_counter");
        let at = |ts: u64, fields: Vec<(&'static str, serde_json::Value)>| {
            [fields, vec![("ts", (ts * SECOND).into())]].concat()
        };
        errors.add(7, "ok", &at(10, symbols(0)));
        assert_eq!(errors.add(9, "ok", &at(12, stated(2, 2))), [(10, 12, 1.0)]);
        assert_eq!(
            errors.add(8, "ok", &at(13, symbols(4))),
            [(12, 13, 2.0)],
            "no reading is between the two"
        );
        assert_eq!(
            errors.add(11, "ok", &at(14, stated(5, 2))),
            [(13, 14, 1.0)],
            "the last reading of this sampler was that of slot 9"
        );
        errors.add(10, "ok", &at(15, vec![]));
        assert_eq!(
            errors.add(13, "ok", &at(16, symbols(9))),
            [],
            "its record of slot 12 is not there"
        );
    }

    #[test]
    fn reading_that_is_not_of_the_stated_slot_is_a_gap() {
        for (slots, is_known) in [(3, true), (4, true), (2, false), (1, false), (0, false)] {
            let mut errors = Recording::of("symbol_error_counter");
            errors.add(1, "ok", &symbols(0));
            let rates = errors.add(4, "timeout", &stated(6, slots));
            let expected = if is_known { vec![(1, 4, 2.0)] } else { vec![] };
            assert_eq!(rates, expected, "{slots}");
            assert_eq!(errors.add(5, "ok", &symbols(7)), [(4, 5, 1.0)]);
        }
    }

    #[test]
    fn slots_of_another_group_state_nothing() {
        let mut errors = Recording::of("symbol_error_counter");
        let [mut first, mut second] = [symbols(0), symbols(6)];
        first.push(("extended_dt_slots", 0.into()));
        second.push(("rcverr_dt_slots", 0.into()));
        errors.add(1, "ok", &first);
        assert_eq!(errors.add(2, "ok", &second), [(1, 2, 6.0)]);
        let both = [
            stated(8, 2),
            vec![
                ("extended_dt_slots", 1.into()),
                ("xmtdisc_dt_slots", 1.into()),
            ],
        ];
        assert_eq!(errors.add(4, "ok", &both.concat()), [(2, 4, 1.0)]);
    }

    #[test]
    fn records_that_do_not_state_the_slots_have_a_gap_only_without_the_slot_before() {
        let mut errors = Recording::of("symbol_error_counter");
        errors.add(1, "ok", &symbols(0));
        errors.add(2, "late", &[]);
        assert_eq!(errors.add(3, "ok", &symbols(4)), [(1, 3, 2.0)]);
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
    fn totals_of_cleared_counters_are_unknown_only_while_one_is_saturated() {
        const NAME: &str = "port_xmit_data_sl_bytes";
        const FULL: u64 = 4 * u32::MAX as u64;
        let mut recordings = [0, 1].map(|sl| Recording::of(&format!("{NAME}[{sl}]")));
        let mut add = |slot, values: [u64; 2], is_full: bool| {
            let mut rest = vec![(NAME, json!(values))];
            rest.extend(is_full.then(|| ("saturated", json!([NAME]))));
            recordings
                .each_mut()
                .map(|recording| recording.add(slot, "ok", &rest).first().map(|rate| rate.2))
        };
        assert_eq!(add(1, [100, 7], false), [None, None]);
        assert_eq!(add(2, [100 + FULL, 9], true), [None, Some(2.0)]);
        // The full counter was cleared.
        assert_eq!(add(3, [300 + FULL, 9], false), [Some(200.0), Some(0.0)]);
        // Now either of two totals above the max of a counter may be the saturated one.
        assert_eq!(
            add(4, [2 * FULL, 10 + FULL], false)[0],
            Some(FULL as f64 - 300.0)
        );
        assert_eq!(add(5, [3 * FULL, 11 + FULL], true), [None, None]);
        assert_eq!(
            add(6, [3 * FULL + 1, 12 + FULL], false),
            [Some(1.0), Some(1.0)]
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
