//! Keeps the newest values of each port.
//!
//! The frame of a slot has the values that the primary sampler read in this slot. If the primary
//! did not reach the port, the frame has the values of the secondary. A value that a sampler reads
//! only every few slots is held until the next reading is due. A port without a recent record has
//! no value; an old value is never repeated as a new one.

use std::time::Duration;

use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::Port;
use ibnet_record::{Says, Status};
use rustc_hash::FxHashMap;

use super::frame::{LINK_DOWN, NO_ANSWER, NO_COUNTER, NO_DATA, NOT_ASSIGNED, quantized};
use super::{COUNT, COUNTERS, most_slots};

/// What a record shows about its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// The port answered.
    Answered,
    /// The port answered that its link is down.
    Down,
    /// The device answered only a part of the queries, or the sampler did not query it.
    Incomplete,
    #[default]
    NoAnswer,
}

/// The record of one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    slot: u64,
    /// Last slot for which the record is valid. It equals `slot` if the interval of the sampler is
    /// that of the frames.
    until: u64,
    ts: u64,
    state: State,
    values: [u16; COUNT],
    /// Last slot for which each value is valid.
    valid_until: [u64; COUNT],
    /// For each metric: number of complete answers without its counter, or [`HAS_COUNTER`].
    without: [u8; COUNT],
}

/// Marks that a record of the port had the counter.
const HAS_COUNTER: u8 = u8::MAX;

/// After this many complete answers without a counter, the device is assumed not to have it.
const LACKS_COUNTER: u8 = 60;

impl Reading {
    /// Counts a record with or without a value of a metric.
    fn count(&mut self, metric: usize, has_value: bool, port: &Port<'_>) {
        let count = &mut self.without[metric];
        if *count != HAS_COUNTER && (has_value || port.value(COUNTERS[metric]).is_some()) {
            *count = HAS_COUNTER;
        } else if *count < LACKS_COUNTER && port.status() == Some(Status::Ok) {
            *count += 1;
        }
    }
}

/// Readings of both roles in slot order, as far as the next frames need them. Records of later
/// slots can arrive before the frame of a slot is complete.
type PortReadings = [Vec<Reading>; 2];

/// The newest values of all ports.
#[derive(Debug, Default)]
pub(crate) struct Board {
    ids: FxHashMap<PortKey, u32>,
    ports: Vec<PortReadings>,
}

/// The slots for which a record is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotTime {
    /// Slot number at the interval of the frames.
    pub(crate) slot: u64,
    /// Number of slots until the next record of the port arrives.
    pub(crate) every: u64,
    /// Length of a slot of the frames in nanoseconds.
    pub(crate) interval_ns: u64,
}

impl Board {
    /// Adds a record and returns its values of the metrics. Frames before slot `shown` are no
    /// longer made.
    pub(crate) fn add(&mut self, port: &Port<'_>, at: SlotTime, shown: u64) -> [u16; COUNT] {
        let id = self.id(port.key());
        let readings = &mut self.ports[id][usize::from(port.is_secondary())];
        let most = most_slots(Duration::from_nanos(at.interval_ns));
        if readings
            .last()
            .is_some_and(|last| last.slot.saturating_sub(at.slot) > most)
        {
            // The clock was set back.
            readings.clear();
        }
        let place = readings.partition_point(|reading| reading.slot < at.slot);
        let before = place
            .checked_sub(1)
            .map(|place| readings[place])
            .unwrap_or_default();
        let state = match port.says() {
            _ if port.answered() => State::Answered,
            Says::Down => State::Down,
            Says::Silent => State::NoAnswer,
            Says::Answers | Says::Nothing => State::Incomplete,
        };
        let mut reading = Reading {
            slot: at.slot,
            until: at.slot + at.every - 1,
            ts: port.ts,
            state,
            values: [NO_DATA; COUNT],
            valid_until: [0; COUNT],
            without: before.without,
        };
        let slots =
            |dt_ns: Option<u64>| (dt_ns.unwrap_or(0) + at.interval_ns / 2) / at.interval_ns.max(1);
        let values = [
            (port.xmit_utilization, port.dt_ns),
            (port.rcv_utilization, port.dt_ns),
            (port.xmit_blocked, port.xmit_blocked_dt_ns.or(port.dt_ns)),
        ];
        let mut new = [NO_DATA; COUNT];
        for (metric, (value, dt_ns)) in values.into_iter().enumerate() {
            reading.count(metric, value.is_some(), port);
            match value {
                Some(value) => {
                    new[metric] = quantized(value);
                    reading.values[metric] = new[metric];
                    // `dt_ns` is long after a gap, which does not mean that the next reading is
                    // far away.
                    reading.valid_until[metric] =
                        at.slot + slots(dt_ns).clamp(at.every, at.every.max(MAX_HELD)) - 1;
                }
                None if state == State::Answered && before.valid_until[metric] >= at.slot => {
                    (reading.values[metric], reading.valid_until[metric]) =
                        (before.values[metric], before.valid_until[metric]);
                }
                None if reading.without[metric] == LACKS_COUNTER => {
                    reading.values[metric] = NO_COUNTER;
                }
                None => {}
            }
        }
        match readings
            .get_mut(place)
            .filter(|other| other.slot == at.slot)
        {
            Some(other) => *other = reading,
            None => readings.insert(place, reading),
        }
        let is_past = |readings: &[Reading]| {
            readings.get(1).is_some_and(|next| next.slot <= shown)
                || readings.len() as u64 > most + 1
        };
        while is_past(readings) {
            readings.remove(0);
        }
        new
    }

    /// Adds a port without values, because its sampler has a wrong clock.
    pub(crate) fn add_empty(&mut self, key: PortKey) {
        self.id(key);
    }

    fn id(&mut self, key: PortKey) -> usize {
        let next = self.ports.len() as u32;
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.ports.push(PortReadings::default());
        }
        id as usize
    }

    /// Removes the ports that are not in the list.
    pub(crate) fn retain(&mut self, keys: &[PortKey]) {
        if keys.len() < self.ports.len() {
            let mut take = |key| {
                Some((
                    key,
                    std::mem::take(&mut self.ports[*self.ids.get(&key)? as usize]),
                ))
            };
            let kept: Vec<_> = keys.iter().filter_map(|key| take(*key)).collect();
            self.ids = kept
                .iter()
                .zip(0..)
                .map(|((key, _), id)| (*key, id))
                .collect();
            self.ports = kept.into_iter().map(|(_, readings)| readings).collect();
        }
    }

    /// Returns whether the device of a port does not have the counter of a metric.
    pub(crate) fn lacks_counter(&self, key: PortKey, metric: usize) -> bool {
        let readings = self
            .ids
            .get(&key)
            .into_iter()
            .flat_map(|id| &self.ports[*id as usize]);
        readings
            .filter_map(|readings| readings.last())
            .any(|last| last.without[metric] == LACKS_COUNTER)
    }

    /// Returns the values of a port in a slot, and the time of its record.
    pub(crate) fn values(&self, key: PortKey, slot: u64) -> ([u16; COUNT], u64) {
        let Some(id) = self.ids.get(&key) else {
            return ([NOT_ASSIGNED; COUNT], 0);
        };
        let [primary, secondary] = &self.ports[*id as usize];
        // The secondary reads a port half an interval after the primary, so its newest record can
        // belong to the slot before.
        let valid = |readings: &[Reading], also: u64| {
            let last = readings.iter().rev().find(|reading| reading.slot <= slot);
            last.filter(|reading| reading.until + also >= slot).copied()
        };
        let (primary, secondary) = (valid(primary, 0), valid(secondary, 1));
        let answered =
            |reading: &Option<Reading>| reading.filter(|reading| reading.state == State::Answered);
        match answered(&primary)
            .or_else(|| answered(&secondary))
            .or(primary)
            .or(secondary)
        {
            None => ([NO_DATA; COUNT], 0),
            Some(Reading {
                state: State::Answered | State::Incomplete,
                values,
                ts,
                ..
            }) => (values, ts),
            Some(Reading {
                state: State::Down,
                ts,
                ..
            }) => ([LINK_DOWN; COUNT], ts),
            Some(Reading {
                state: State::NoAnswer,
                ..
            }) => ([NO_ANSWER; COUNT], 0),
        }
    }
}

/// Max number of slots for which a value is held.
const MAX_HELD: u64 = 60;

#[cfg(test)]
mod tests {
    use ibnet_analysis::record::{Record, Type};
    use ibnet_record::types::{Guid, PortNum};

    use super::*;

    const KEY: PortKey = (Guid(1), PortNum(1));
    const SECOND: u64 = 1_000_000_000;

    fn add(board: &mut Board, role: &str, slot: u64, rest: &str) {
        let line = format!(
            r#"{{"type":"port","ts":{},"slot":{slot},"sampler":"s","role":"{role}","guid":"{}","port":1,{rest}}}"#,
            slot * SECOND,
            Guid(1)
        );
        let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else {
            panic!("a port record: {line}")
        };
        board.add(
            &port,
            SlotTime {
                slot,
                every: 1,
                interval_ns: SECOND,
            },
            slot.saturating_sub(4),
        );
    }

    fn ok(xmit: &str, blocked: &str, blocked_dt: &str) -> String {
        format!(
            r#""status":"ok","dt_ns":1000000000,"xmit_utilization":{xmit},"rcv_utilization":0.25,"xmit_blocked":{blocked}{blocked_dt}"#
        )
    }

    fn first(board: &Board, slot: u64) -> u16 {
        board.values(KEY, slot).0[0]
    }

    #[test]
    fn value_of_the_slot_is_shown_and_an_old_one_is_not() {
        let mut board = Board::default();
        assert_eq!(first(&board, 10), NOT_ASSIGNED);
        add(&mut board, "primary", 10, &ok("0.5", "0.1", ""));
        add(&mut board, "primary", 11, &ok("0.75", "0.1", ""));
        assert_eq!(
            (
                first(&board, 10),
                first(&board, 11),
                first(&board, 12),
                first(&board, 9)
            ),
            (32_000, 48_000, NO_DATA, NO_DATA)
        );
        assert_eq!(
            board.values(KEY, 10),
            ([32_000, 16_000, 6_400], 10 * SECOND)
        );
    }

    #[test]
    fn readings_that_no_frame_needs_are_dropped() {
        let mut board = Board::default();
        for slot in (10..1000).chain(10..20) {
            add(&mut board, "primary", slot, &ok("0.5", "0.1", ""));
            assert!(board.ports[0][0].len() <= 6, "slot {slot}");
            assert_eq!(first(&board, slot), 32_000, "slot {slot}");
        }
        assert_eq!(first(&board, 900), NO_DATA, "the clock was set back");
    }

    #[test]
    fn late_record_does_not_hide_the_newest_one() {
        let mut board = Board::default();
        for slot in [10, 12, 11, 13] {
            add(
                &mut board,
                "primary",
                slot,
                &ok(&format!("0.{slot}"), "0.1", ""),
            );
        }
        assert_eq!(
            [10, 11, 12, 13].map(|slot| first(&board, slot)),
            [6_400, 7_040, 7_680, 8_320]
        );
    }

    #[test]
    fn states_without_values_have_their_own_numbers() {
        let mut board = Board::default();
        add(&mut board, "primary", 10, r#""status":"timeout""#);
        add(&mut board, "primary", 11, r#""status":"down""#);
        assert_eq!(
            (first(&board, 10), first(&board, 11)),
            (NO_ANSWER, LINK_DOWN)
        );
    }

    #[test]
    fn port_that_the_sampler_did_not_query_is_not_silent() {
        for status in [
            "skipped",
            "send_error",
            "mad_error",
            "bad_reply",
            "of a later version",
        ] {
            let mut board = Board::default();
            add(
                &mut board,
                "primary",
                10,
                &format!(r#""status":"{status}""#),
            );
            assert_eq!(first(&board, 10), NO_DATA, "{status}");
            add(&mut board, "secondary", 10, &ok("0.5", "0.1", ""));
            assert_eq!(
                first(&board, 10),
                32_000,
                "{status}: the secondary has a value"
            );
            let of_one_group = r#","dt_ns":1000000000,"xmit_utilization":0.25"#;
            add(
                &mut board,
                "primary",
                20,
                &format!(r#""status":"{status}"{of_one_group}"#),
            );
            assert_eq!(first(&board, 20), 16_000, "{status}: a group was read");
        }
    }

    #[test]
    fn port_that_never_has_the_counter_is_distinguished() {
        let mut board = Board::default();
        let blocked = |board: &Board, slot: u64| board.values(KEY, slot).0[2];
        let without = || ok("0.5", "null", "");
        // An incomplete answer, and none, do not count.
        for slot in 1..=80 {
            let rest = if slot <= 20 {
                without().replace("ok", if slot <= 10 { "late" } else { "timeout" })
            } else {
                without()
            };
            add(&mut board, "primary", slot, &rest);
            let expected = match slot {
                11..=20 => NO_ANSWER,
                80 => 65_530,
                _ => NO_DATA,
            };
            assert_eq!(blocked(&board, slot), expected, "slot {slot}");
        }
        add(&mut board, "primary", 81, r#""status":"timeout""#);
        add(&mut board, "primary", 82, &without());
        assert_eq!(
            [81, 82, 83].map(|slot| blocked(&board, slot)),
            [NO_ANSWER, 65_530, NO_DATA]
        );
        // The counter was there once: the value is missing for another reason.
        add(
            &mut board,
            "primary",
            83,
            &(without() + r#","port_xmit_wait_ticks":5"#),
        );
        for slot in 84..=200 {
            add(&mut board, "primary", slot, &without());
            assert_eq!(blocked(&board, slot), NO_DATA, "slot {slot}");
        }
    }

    #[test]
    fn secondary_fills_in_for_a_primary_without_an_answer() {
        let mut board = Board::default();
        add(&mut board, "primary", 10, r#""status":"unreachable""#);
        add(&mut board, "secondary", 9, &ok("0.5", "0.1", ""));
        assert_eq!(
            first(&board, 10),
            32_000,
            "the newest record of the secondary"
        );
        add(&mut board, "primary", 11, &ok("0.25", "0.1", ""));
        add(&mut board, "secondary", 11, &ok("0.5", "0.1", ""));
        assert_eq!(first(&board, 11), 16_000, "the primary wins");
    }

    #[test]
    fn value_that_is_read_seldom_is_held_until_the_next_reading() {
        let mut board = Board::default();
        add(
            &mut board,
            "primary",
            10,
            &ok("0.5", "0.5", r#","xmit_blocked_dt_ns":5000000000"#),
        );
        for slot in 11..20 {
            add(&mut board, "primary", slot, &ok("0.5", "null", ""));
            let expected = if slot < 15 { 32_000 } else { NO_DATA };
            assert_eq!(board.values(KEY, slot).0[2], expected, "slot {slot}");
        }
    }
}
