//! Samplers with wrong clocks and hostile records, in virtual time.

use ibnet_analysis::record::Head;
use ibnet_record::types::{Guid, PortNum};
use serde_json::json;

use super::*;
use crate::live::topology::MAX_OCTETS;
use crate::query::heat::{self, Join, Request};
use crate::store::chunk::Wanted;

const SECOND: u64 = 1_000_000_000;
pub(crate) const START: u64 = 1_700_000_000;

pub(crate) const LIMITS: Limits = Limits {
    recent_ns: 900 * SECOND,
    recent_max: usize::MAX,
    minutes_ns: 86_400 * SECOND,
    minutes_max: usize::MAX,
};

pub(crate) fn new(limits: Limits) -> Hub {
    Hub::new("test".to_owned(), false, limits, &[Arc::from("a")])
}

/// Returns a second of the clock of the hub.
pub(crate) fn at(second: u64) -> Now {
    Now {
        monotonic: Duration::from_secs(second - START + 1),
        wall_ns: second * SECOND,
    }
}

/// Adds lines that arrive live in a second of the clock of the hub.
pub(crate) fn add(hub: &Hub, second: u64, lines: &str) {
    let now = at(second);
    for line in lines.lines() {
        let kind = Head::of(line.as_bytes())
            .expect("a record")
            .kind
            .expect("a kind");
        hub.add(
            0,
            &[Record::parse(line.as_bytes(), kind).expect("a record")],
            Some(now.wall_ns),
            now,
        );
    }
}

fn tick(hub: &Hub, second: u64) {
    hub.tick(at(second));
}

/// Returns the records of a slot of a sampler. Each sampler reads one port.
pub(crate) fn slot(sampler: &str, guid: u64, second: u64) -> String {
    slot_of(sampler, guid, (second * SECOND, second), SECOND)
}

/// The same for a sampler with another interval, and with any time and slot.
fn slot_of(sampler: &str, guid: u64, (ts, slot): (u64, u64), interval_ns: u64) -> String {
    let port = json!({"type": "port", "ts": ts, "slot": slot, "sampler": sampler, "guid": Guid(guid).to_string(), "port": 1,
        "lid": guid, "node": sampler, "status": "ok", "dt_ns": interval_ns, "xmit_gbps": 50.0, "xmit_utilization": 0.5, "rcv_utilization": 0.5, "xmit_blocked": 0.0});
    let sweep = json!({"type": "sweep", "ts": ts, "slot": slot, "sampler": sampler, "ca": "x", "ca_port": 1, "role": "primary", "duration_ns": 1, "ports": 1, "ok": 1});
    format!("{port}\n{sweep}\n")
}

/// A sampler of [`run_live`].
#[derive(Clone, Copy, Debug)]
struct Live {
    interval_ms: u64,
    /// Distance of its clock from that of the hub.
    ahead_ms: i64,
    /// Time that its records need on their way.
    delay_ms: u64,
}

const fn live(interval_ms: u64, ahead_ms: i64, delay_ms: u64) -> Live {
    Live {
        interval_ms,
        ahead_ms,
        delay_ms,
    }
}

/// Lets samplers send records without a `start` record for some seconds, in virtual time. Returns
/// the values of their ports in each frame, with its slot.
fn run_live<const N: usize>(hub: &Hub, seconds: u64, samplers: [Live; N]) -> Vec<(u64, [u16; N])> {
    let (mut frames, mut number) = (Vec::new(), None);
    for at_ms in (0..seconds * 1000).step_by(10) {
        let wall_ns = START * SECOND + at_ms * 1_000_000;
        let now = Now {
            monotonic: Duration::from_millis(at_ms + 1000),
            wall_ns,
        };
        for (place, sampler) in samplers.iter().enumerate() {
            let (clock_ms, interval_ns) = (
                (START * 1000 + at_ms - sampler.delay_ms).saturating_add_signed(sampler.ahead_ms),
                sampler.interval_ms * 1_000_000,
            );
            if clock_ms.is_multiple_of(sampler.interval_ms) {
                let at = (clock_ms * 1_000_000, clock_ms / sampler.interval_ms);
                for line in slot_of(&format!("s{place}"), place as u64 + 1, at, interval_ns).lines()
                {
                    let kind = Head::of(line.as_bytes())
                        .expect("a record")
                        .kind
                        .expect("a kind");
                    hub.add(
                        0,
                        &[Record::parse(line.as_bytes(), kind).expect("a record")],
                        Some(wall_ns),
                        now,
                    );
                }
            }
        }
        hub.tick(now);
        if let Some(frame) = hub
            .frame()
            .filter(|frame| number.replace(frame.number) != Some(frame.number))
        {
            let value = |place: usize| {
                frame
                    .topology
                    .find((Guid(place as u64 + 1), PortNum(1)))
                    .map_or(NO_DATA, |port| frame.values[0][port])
            };
            frames.push((frame.slot, std::array::from_fn(value)));
        }
    }
    frames
}

fn records(hub: &Hub, guid: u64) -> usize {
    let chunks = hub
        .read()
        .store
        .chunks((Guid(guid), PortNum(1)), 0, u64::MAX);
    chunks.map_or(0, |chunks| {
        chunks.read(&Wanted::Named(Default::default())).len()
    })
}

fn events(hub: &Hub) -> Vec<String> {
    let rows = hub.read().events(&Filter::all());
    rows.into_iter()
        .rev()
        .filter(|row| row.event.ends_with("_clock"))
        .map(|row| row.event)
        .collect()
}

/// Returns the value of a port in the newest frame.
fn shown(hub: &Hub, guid: u64) -> u16 {
    let frame = hub.frame().expect("a frame");
    frame.values[0][frame
        .topology
        .find((Guid(guid), PortNum(1)))
        .expect("a port")]
}

/// Lets samplers `a` (port 1) and `b` (port 2) send records, with the offsets of their clocks in
/// seconds.
fn run(hub: &Hub, seconds: std::ops::Range<u64>, a: i64, b: i64) {
    for second in seconds {
        let second = START + second;
        add(hub, second, &slot("a", 1, second.saturating_add_signed(a)));
        add(hub, second, &slot("b", 2, second.saturating_add_signed(b)));
        tick(hub, second);
    }
}

#[test]
fn sampler_that_is_ahead_deletes_no_records_of_others() {
    for ahead in [1200, 3500, 7200] {
        let hub = new(LIMITS);
        for second in START..START + 100 {
            add(&hub, second, &slot("a", 1, second));
        }
        run(&hub, 100..200, 0, ahead);
        assert_eq!(
            (records(&hub, 1), records(&hub, 2)),
            (200, 100),
            "{ahead} s"
        );
        assert_eq!(events(&hub), ["wrong_clock"]);
        assert_eq!(hub.read().newest_ns(), (START + 199) * SECOND);
    }
}

#[test]
fn sampler_that_is_ahead_does_not_move_the_live_slot() {
    for ahead in [3, 5, 70, 86_400] {
        let hub = new(LIMITS);
        for second in 0..30 {
            run(&hub, second..second + 1, 0, ahead);
            assert_eq!(hub.read().last_slot(), START + second, "{ahead} s");
        }
        assert_eq!((shown(&hub, 1), shown(&hub, 2)), (32_000, NO_DATA));
        let rows = hub.read().samplers.rows();
        assert_eq!(
            (
                rows[0].wrong_clock,
                rows[1].wrong_clock,
                rows[1].clock_distance_ns
            ),
            (false, true, Some(ahead * SECOND as i64))
        );
    }
}

#[test]
fn sampler_that_is_behind_is_kept_apart_and_its_records_stay() {
    let hub = new(LIMITS);
    run(&hub, 0..100, 0, -3600);
    assert_eq!(
        (events(&hub), records(&hub, 1), records(&hub, 2)),
        (vec!["wrong_clock".to_owned()], 100, 100)
    );
    assert!(
        hub.read().store.first_ts() >= Some(START * SECOND),
        "the range of the answers begins with the right records"
    );
}

#[test]
fn corrected_sampler_is_shown_again() {
    let hub = new(LIMITS);
    run(&hub, 0..30, 0, 1200);
    run(&hub, 30..60, 0, 0);
    assert_eq!(events(&hub), ["wrong_clock", "right_clock"]);
    assert_eq!((shown(&hub, 1), shown(&hub, 2)), (32_000, 32_000));
    assert_eq!(hub.read().newest_ns(), (START + 59) * SECOND);
}

#[test]
fn only_sampler_is_shown_although_its_clock_is_wrong() {
    let hub = new(LIMITS);
    for second in START..START + 60 {
        add(&hub, second, &slot("a", 1, second + 600));
        tick(&hub, second);
    }
    assert_eq!(
        (events(&hub), shown(&hub, 1), records(&hub, 1)),
        (vec!["wrong_clock".to_owned()], 32_000, 60)
    );
    assert_eq!(hub.read().last_slot(), START + 659);
}

#[test]
fn samplers_that_are_wrong_alike_are_shown_without_an_event() {
    let hub = new(LIMITS);
    for second in START..START + 30 {
        for (guid, sampler) in [(1, "a"), (2, "b"), (3, "c")] {
            add(&hub, second, &slot(sampler, guid, second + 50));
        }
        tick(&hub, second);
    }
    assert_eq!(
        (events(&hub), shown(&hub, 1), shown(&hub, 3)),
        (Vec::new(), 32_000, 32_000)
    );
}

#[test]
fn event_of_a_wrong_clock_is_kept_for_its_time() {
    let hub = new(LIMITS);
    run(&hub, 0..20, 0, 86_400 * 30);
    let event = |ts: u64| json!({"type": "event", "ts": ts * SECOND, "slot": 1, "sampler": "b", "ca": "x", "ca_port": 1, "role": "primary", "event": "reset", "detail": ""});
    add(&hub, START + 20, &event(START + 86_400 * 30).to_string());
    let count = |hub: &Hub| {
        hub.read()
            .events(&Filter {
                names: vec!["reset".to_owned()],
                ..Filter::all()
            })
            .len()
    };
    run(&hub, 20..40, 0, 86_400 * 30);
    assert_eq!(count(&hub), 1);
    // Two days later.
    run(&hub, 172_800..172_830, 0, 86_400 * 30);
    assert_eq!(count(&hub), 0);
}

#[test]
fn minutes_have_no_values_of_a_wrong_clock() {
    let hub = new(LIMITS);
    // Both samplers read port 1.
    for second in START..START + 600 {
        add(&hub, second, &slot("b", 1, second + 1200));
        add(&hub, second, &slot("a", 1, second));
    }
    let minutes = hub.read().store.minutes((Guid(1), PortNum(1)), 0, u64::MAX);
    assert!(
        minutes
            .iter()
            .filter(|minute| minute.values[0].is_some())
            .count()
            >= 9,
        "{}",
        minutes.len()
    );
}

/// Lets the only sampler send records for a time, with the offset of its clock in seconds. With an
/// offset, the data rate is 70 Gb/s instead of 50.
fn run_alone(hub: &Hub, seconds: std::ops::Range<u64>, offset: u64) {
    for second in seconds {
        let lines = slot("a", 1, START + second + offset);
        add(
            hub,
            START + second,
            &if offset > 0 {
                lines.replace(":50.0", ":70.0")
            } else {
                lines
            },
        );
        tick(hub, START + second);
    }
}

/// Lets the only sampler send records after its clock was set back. In a slot that it uses again,
/// no reply has the same nanosecond as before.
fn run_set_back(hub: &Hub, seconds: std::ops::Range<u64>) {
    for second in seconds.map(|second| START + second) {
        add(
            hub,
            second,
            &slot_of("a", 1, (second * SECOND + 1000, second), SECOND),
        );
        tick(hub, second);
    }
}

/// Returns the minutes with values, counted from the start, and their largest data rates.
fn minutes(hub: &Hub) -> Vec<(u64, f64)> {
    let minutes = hub.read().store.minutes((Guid(1), PortNum(1)), 0, u64::MAX);
    minutes
        .iter()
        .filter_map(|minute| Some((minute.number - START / 60, minute.values[0]?.1)))
        .collect()
}

#[test]
fn minutes_go_on_after_records_of_the_future() {
    for ahead in [300, 3600, 7200] {
        let hub = new(LIMITS);
        run_alone(&hub, 0..600, 0);
        run_alone(&hub, 600..1200, ahead);
        run_alone(&hub, 1200..2400, 0);
        // The first minute has 40 seconds.
        let times = (0..600)
            .chain(
                (600..1200)
                    .map(|second| second + ahead)
                    .filter(|second| *second < 1180),
            )
            .chain(1180..2400);
        let expected: std::collections::BTreeSet<u64> =
            times.map(|second| (second + START % 60) / 60).collect();
        let found = minutes(&hub);
        assert_eq!(
            found.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            expected.into_iter().collect::<Vec<_>>(),
            "{ahead} s"
        );
        assert!(
            found
                .iter()
                .all(|(number, max)| *max < 60.0 || (11..20).contains(number)),
            "{ahead} s: {found:?}"
        );
    }
}

#[test]
fn slots_that_a_wrong_clock_used_have_records_and_values() {
    for back in [1, 20, 70, 600] {
        let hub = new(LIMITS);
        run_alone(&hub, 0..100, back);
        for second in 100..130 {
            run_set_back(&hub, second..second + 1);
            assert!(
                second < 105 || shown(&hub, 1) == 32_000,
                "{back} s, second {second}"
            );
        }
        let counts = hub.read().store.counts();
        assert_eq!(
            (records(&hub, 1), counts.added, counts.copies),
            (130, 130, 0),
            "{back} s"
        );
        // A second input with the same records.
        for second in START + 120..START + 130 {
            add(
                &hub,
                START + 130,
                &slot_of("a", 1, (second * SECOND + 1000, second), SECOND),
            );
        }
        assert_eq!(
            (records(&hub, 1), hub.read().store.counts().copies),
            (130, 10),
            "{back} s"
        );
    }
}

#[test]
fn records_after_a_step_back_are_not_late_when_the_step_is_known() {
    for back in [20, 3600, 86_400] {
        let hub = new(LIMITS);
        let late = || hub.read().store.counts().late;
        run_alone(&hub, 0..100, back);
        run_set_back(&hub, 100..115);
        let before = late();
        run_set_back(&hub, 115..300);
        assert_eq!(late(), before, "{back} s");
        // A record that is late is counted as before.
        add(
            &hub,
            START + 300,
            &slot_of("a", 1, ((START + 290) * SECOND, START + 290), SECOND),
        );
        assert_eq!(late(), before + 1, "{back} s");
    }
}

#[test]
fn no_minute_mixes_the_values_before_and_after_a_step_back() {
    for back in [20, 40, 100, 290] {
        for end in (600..660).step_by(20) {
            let hub = new(LIMITS);
            run_alone(&hub, 0..end, back);
            run_set_back(&hub, end..end + 300);
            let minutes = hub.read().store.minutes((Guid(1), PortNum(1)), 0, u64::MAX);
            let means: Vec<_> = minutes
                .iter()
                .filter_map(|minute| Some((minute.number - START / 60, minute.values[0]?.0)))
                .collect();
            let mixed = means.iter().find(|(_, mean)| ![50.0, 70.0].contains(mean));
            assert_eq!(mixed, None, "{back} s at {end} s: {means:?}");
        }
    }
}

#[test]
fn records_of_the_future_remove_no_older_data() {
    // Further ahead than the time for which minutes are kept.
    const AHEAD: u64 = 172_800;
    for wrong in [600..601, 600..640] {
        let hub = new(LIMITS);
        let event = |second: u64| {
            let event = json!({"type": "event", "ts": (START + second) * SECOND, "slot": 1, "sampler": "a", "ca": "x", "ca_port": 1, "role": "primary", "event": "reset", "detail": ""});
            add(&hub, START + second, &event.to_string());
        };
        run_alone(&hub, 0..600, 0);
        event(600);
        run_alone(&hub, wrong.clone(), AHEAD);
        // The clock is right again, and the next removal follows at once.
        run_alone(&hub, wrong.end..wrong.end + 6, 0);
        event(wrong.end);
        let count = hub
            .read()
            .events(&Filter {
                names: vec!["reset".to_owned()],
                ..Filter::all()
            })
            .len();
        assert_eq!((records(&hub, 1) >= 600, count), (true, 2), "{wrong:?}");
        run_alone(&hub, wrong.end + 6..1200, 0);
        let expected: Vec<(u64, f64)> = (0..=20).map(|minute| (minute, 50.0)).collect();
        assert_eq!(minutes(&hub), expected, "{wrong:?}");
        let columns = hub.read().timeline.columns(0, u64::MAX, SECOND, 10_000);
        // The oldest slots are joined to minutes.
        let expected = (
            Some(&(START / 60 * 60 * SECOND)),
            Some(&((START + 1199) * SECOND)),
        );
        assert_eq!((columns.t.first(), columns.t.last()), expected, "{wrong:?}");
    }
}

#[test]
fn long_texts_of_events_take_little_memory() {
    let hub = new(LIMITS);
    let clock = crate::ingest::Clock::start();
    for number in 0..300_u64 {
        let event = json!({"type": "event", "ts": START * SECOND + number, "slot": 1, "sampler": format!("{number}{}", "x".repeat(10_000)), "ca": "x",
            "ca_port": 1, "role": "primary", "event": "reset", "detail": "x".repeat(100_000)});
        let lines = crate::input::What::Lines((event.to_string() + "\n").into_bytes());
        crate::ingest::handle(
            &hub,
            crate::input::Message {
                input: 0,
                live_ns: None,
                what: lines,
            },
            clock,
        );
    }
    let rows = hub.read().events(&Filter::all());
    assert!(
        rows.len() == 300
            && rows
                .iter()
                .all(|row| row.detail.len() == 1024 && row.sampler.len() == 1024)
    );
}

#[test]
fn names_of_invented_ports_are_refused_beyond_their_limit() {
    let hub = new(LIMITS);
    let counts = || {
        let counts = hub.read().store.counts();
        (counts.added, counts.refused)
    };
    let port = |guid: u64, second: u64, name: &str| {
        let (guid, ts) = (Guid(guid).to_string(), (START + second) * SECOND);
        json!({"type": "port", "ts": ts, "slot": START + second, "sampler": "a", "guid": guid, "port": 1, "lid": 1, "node": name,
            "peer_guid": guid, "peer_port": 2, "peer": name, "status": "ok"})
        .to_string()
    };
    let name = "x".repeat(1000);
    // As after many ports: three more have room.
    hub.write().collector.octets = MAX_OCTETS - 3 * 2000;
    (1..=5).for_each(|guid| add(&hub, START, &port(guid, 0, &name)));
    assert_eq!(
        (counts(), hub.read().collector.octets),
        ((3, 2), MAX_OCTETS)
    );
    // A port that is known stays, but its name does not become longer.
    add(&hub, START + 1, &port(1, 1, &name));
    add(&hub, START + 1, &port(2, 1, &"y".repeat(1001)));
    assert_eq!(counts(), (4, 3));
    // Ports that are no longer read make room.
    let collector = &mut hub.write().collector;
    collector.retain(&[(Guid(1), PortNum(1))]);
    assert_eq!(collector.octets, 2000);
}

#[test]
fn lag_is_stated_and_unknown_records_are_counted() {
    let hub = new(LIMITS);
    let clock = crate::ingest::Clock::start();
    let lines = |text: &str| crate::input::What::Lines(text.as_bytes().to_vec());
    let text = "{\"type\":\"new_type\",\"ts\":1,\"field\":[1]}\nno record\n";
    let live_ns = Some(clock.now().wall_ns - 10 * SECOND);
    crate::ingest::handle(
        &hub,
        crate::input::Message {
            input: 0,
            live_ns,
            what: lines(text),
        },
        clock,
    );
    let state = hub.read();
    assert!(state.is_behind() && state.lag_ns() >= 10 * SECOND);
    assert_eq!(
        (
            state.inputs[0].lines,
            state.inputs[0].unknown,
            state.inputs[0].malformed
        ),
        (2, 1, 1)
    );
}

#[test]
fn every_port_has_values_in_each_frame_while_the_clocks_are_right() {
    for interval in [1000, 100] {
        for (ahead, behind, delay) in [
            (350, 0, 0),
            (500, 0, 100),
            (1900, 0, 0),
            (0, 1900, 0),
            (1000, 900, 0),
            (600, 0, 1500),
        ] {
            let hub = new(LIMITS);
            let samplers = [
                live(interval, ahead, 0),
                live(interval, -behind, 0),
                live(interval, 0, delay),
                live(interval, 0, 10),
            ];
            let frames = run_live(&hub, 40, samplers);
            let settled: Vec<_> = frames
                .iter()
                .skip_while(|(slot, _)| *slot < (START + 15) * 1000 / interval)
                .collect();
            assert!(
                settled.len() as u64 >= 20_000 / interval,
                "{samplers:?}: {}",
                settled.len()
            );
            assert_eq!(
                settled.iter().find(|(_, values)| *values != [32_000; 4]),
                None,
                "{samplers:?}"
            );
            assert!(
                settled.is_sorted_by(|one, other| one.0 + 1 == other.0),
                "{samplers:?}: each slot has one frame"
            );
            assert_eq!(events(&hub), [""; 0]);
        }
    }
}

#[test]
fn interval_of_a_sampler_without_a_start_record_is_learned() {
    for intervals in [
        [100, 100],
        [10_000, 10_000],
        [1000, 100],
        [1000, 10_000],
        [1000, 1500],
    ] {
        let hub = new(LIMITS);
        let frames = run_live(&hub, 60, intervals.map(|interval| live(interval, 0, 20)));
        let rows = hub.read().samplers.rows();
        assert_eq!(
            rows.iter()
                .map(|row| row.interval_ns / 1_000_000)
                .collect::<Vec<_>>(),
            intervals
        );
        let settled = &frames[frames.len() / 2..];
        assert_eq!(
            settled.iter().find(|(_, values)| *values != [32_000; 2]),
            None,
            "{intervals:?}"
        );
        assert!(
            settled.len() as u64 >= 25_000 / intervals[0].min(intervals[1]),
            "{intervals:?}: {}",
            settled.len()
        );
        let names: Vec<_> = hub
            .read()
            .events(&Filter::all())
            .into_iter()
            .map(|row| row.event)
            .collect();
        assert_eq!(names, [""; 0], "{intervals:?}");
    }
}

#[test]
fn one_record_of_another_time_changes_nothing() {
    let hub = new(LIMITS);
    run(&hub, 0..100, 0, 0);
    let far = START + 86_400 * 365;
    add(
        &hub,
        START + 100,
        slot("a", 1, far).lines().next().expect("a port record"),
    );
    run(&hub, 100..200, 0, 0);
    assert_eq!(
        (
            records(&hub, 1),
            records(&hub, 2),
            hub.read().store.counts().refused
        ),
        (200, 200, 1)
    );
    assert_eq!(
        (events(&hub), hub.read().newest_ns(), hub.read().last_slot()),
        (Vec::new(), (START + 199) * SECOND, START + 199)
    );
}

#[test]
fn port_without_the_counter_is_the_same_in_frames_and_in_matrices() {
    let hub = new(LIMITS);
    for second in START..START + 100 {
        // Sampler b is silent for a while.
        let b = slot("b", 2, second).replace("\"xmit_blocked\":0.0", "\"xmit_blocked\":null");
        let b = if (80..90).contains(&(second - START)) {
            String::new()
        } else {
            b
        };
        add(&hub, second, &(slot("a", 1, second) + &b));
        tick(&hub, second);
    }
    let frame = hub.frame().expect("a frame");
    let place = |guid| {
        frame
            .topology
            .find((Guid(guid), PortNum(1)))
            .expect("a port")
    };
    let (a, b) = (place(1), place(2));
    assert_eq!(
        (frame.values[2][a], frame.values[2][b], frame.values[0][b]),
        (0, 65_530, 32_000)
    );
    let metric = *heat::METRICS
        .iter()
        .find(|metric| metric.name == "xmit_blocked")
        .expect("a metric");
    let (from, to) = ((START + 70) * SECOND, (START + 99) * SECOND);
    let matrix = heat::find(
        &hub,
        Request {
            metric,
            join: Join::Max,
            from,
            to,
            step: Some(SECOND),
        },
    )
    .expect("a matrix");
    let numbers: Vec<u16> = matrix[32..]
        .chunks_exact(2)
        .map(|octets| u16::from_le_bytes([octets[0], octets[1]]))
        .collect();
    let of = |port: usize| {
        numbers
            .iter()
            .skip(port)
            .step_by(2)
            .copied()
            .collect::<Vec<_>>()
    };
    // The values of slot 80 are in column 79.
    assert_eq!(
        of(b),
        (70..99)
            .map(|column| if (79..89).contains(&column) {
                NO_DATA
            } else {
                65_530
            })
            .collect::<Vec<_>>()
    );
    assert_eq!(of(a), [0; 29]);
}

#[test]
fn slot_of_another_time_moves_no_frame() {
    let hub = new(LIMITS);
    run(&hub, 0..20, 0, 0);
    for second in 20..40 {
        let at = (START + second) * SECOND;
        add(&hub, START + second, &slot("a", 1, START + second));
        add(
            &hub,
            START + second,
            &slot_of("b", 2, (at, START + second + 1000), SECOND),
        );
        tick(&hub, START + second);
        // Until the sampler counts as silent, a frame waits for it, and this test looks once a
        // second.
        let waits = u64::from(second < 22);
        assert_eq!(
            (hub.read().last_slot(), shown(&hub, 1)),
            (START + second - waits, 32_000)
        );
    }
    assert_eq!(shown(&hub, 2), NO_DATA);
    assert_eq!(records(&hub, 2), 40, "the record is kept");
}
