use ibnet_analysis::record::{Record as Any, Type};
use ibnet_record::schema::Kind;
use serde_json::{Value as Json, json};

use super::*;

/// Minutes are counted from this second.
const START: u64 = 1_700_000_000;

const KEY: Key = (Guid(1), Some(PortNum(2)));

fn at(minute: u64) -> u64 {
    (START + 60 * minute) * SECOND_NS
}

fn source(minute: u64) -> Source {
    Source {
        name: "s".into(),
        interval_ns: SECOND_NS,
        is_apart: false,
        newest_ns: at(minute),
    }
}

/// Adds a record of a port with these values, while the sampler has this minute. Returns whether
/// there is memory for it.
fn add_at(
    store: &mut Physical,
    (kind, guid, minute, now): (Type, u64, u64, u64),
    values: &Json,
) -> bool {
    let mut line = json!({"type": kind.as_str(), "ts": at(minute), "slot": 1, "sampler": "s", "lid": 7,
        "guid": Guid(guid).to_string(), "port": 2, "node": "leaf", "dt_ns": null});
    let of_line = line.as_object_mut().expect("an object");
    of_line.extend(values.as_object().expect("values").clone());
    let line = line.to_string();
    let Ok(Any::Physical(record)) = Any::parse(line.as_bytes(), kind) else {
        panic!("a record of the physical layer")
    };
    store.add(&record, &source(now), Some(800.0))
}

fn add(store: &mut Physical, minute: u64, values: &Json) -> bool {
    add_at(store, (Type::Phy, 1, minute, minute), values)
}

/// Bit errors since the counters were cleared in minute 0.
fn bits(minute: u64, received: u64, corrected: u64) -> Json {
    json!({"time_since_last_clear_ms": 60_000 * minute, "phy_received_bits": received,
        "phy_corrected_bits": corrected, "phy_effective_errors": 0, "phy_symbol_errors": 0})
}

/// Returns minutes, received and wrong bits of the points.
fn points(store: &Physical) -> Vec<(u64, u64, u64, u64)> {
    let subject = store.get(KEY).expect("readings");
    let minute = |seconds: u32| (u64::from(seconds) - START) / 60;
    subject
        .errors
        .0
        .iter()
        .map(|point| {
            (
                minute(point.from_s),
                minute(point.to_s),
                point.of.bits,
                point.of.raw,
            )
        })
        .collect()
}

/// Returns the minute of a page and one of its values.
fn page(store: &Physical, page: Page, name: &str) -> Option<(u64, Value)> {
    let subject = store.get(KEY)?;
    let found = subject.pages().find(|found| found.page == page)?;
    let value = found.values.iter().find(|(column, _)| column.name == name);
    Some(((found.ts / SECOND_NS - START) / 60, value?.1.clone()))
}

#[test]
fn bit_errors_are_differences_of_consecutive_readings() {
    let mut store = Physical::new(usize::MAX);
    for (minute, received, corrected) in [(1, 1_000, 5), (2, 4_000, 6), (3, 9_000, 10)] {
        assert!(add(&mut store, minute, &bits(minute, received, corrected)));
    }
    assert_eq!(points(&store), [(1, 2, 3_000, 1), (2, 3, 5_000, 4)]);
}

#[test]
fn copies_and_late_records_change_nothing() {
    let mut store = Physical::new(usize::MAX);
    for minute in [1, 3, 3, 2, 1, 4, 3, 4] {
        add_at(
            &mut store,
            (Type::Phy, 1, minute, 4),
            &bits(minute, 1_000 * minute, minute),
        );
    }
    assert_eq!(points(&store), [(1, 3, 2_000, 2), (3, 4, 1_000, 1)]);
    let newest = page(&store, Page::Ber, "phy_received_bits");
    assert_eq!(newest, Some((4, Value::Integer(4_000))));
}

#[test]
fn no_difference_is_taken_over_cleared_or_decreased_counters() {
    let mut store = Physical::new(usize::MAX);
    let lines = [
        bits(100, 9_000, 90),
        // Cleared, although all counters are larger already.
        bits(1, 10_000, 100),
        bits(2, 11_000, 101),
        // A counter has decreased.
        bits(3, 12_000, 5),
        bits(4, 13_000, 6),
    ];
    for (minute, line) in (1..).zip(&lines) {
        add(&mut store, minute, line);
    }
    assert_eq!(points(&store), [(2, 3, 1_000, 1), (4, 5, 1_000, 1)]);
}

#[test]
fn pages_that_a_record_lacks_keep_their_last_values() {
    let mut store = Physical::new(usize::MAX);
    let mut first = bits(1, 1_000, 5);
    first["local_reason_opcode"] = json!(23);
    first["rs_fec_corrected_blocks"] = json!(7);
    add(&mut store, 1, &first);
    add(&mut store, 2, &bits(2, 2_000, 6));
    // A record without bit errors: the time since the clear may come from another page.
    add(
        &mut store,
        3,
        &json!({"time_since_last_clear_ms": 9, "rs_fec_corrected_blocks": 8}),
    );
    let reason = page(&store, Page::LinkDown, "local_reason_opcode");
    assert_eq!(reason, Some((1, Value::Integer(23))));
    let blocks = page(&store, Page::Fec, "rs_fec_corrected_blocks");
    assert_eq!(blocks, Some((3, Value::Integer(8))));
    let received = page(&store, Page::Ber, "phy_received_bits");
    assert_eq!(received, Some((2, Value::Integer(2_000))));
    assert_eq!(page(&store, Page::Plr, "plr_rcv_codes"), None);
}

#[test]
fn module_has_its_values_and_a_series() {
    let mut store = Physical::new(usize::MAX);
    for (minute, celsius) in [(1, 48.5), (6, 50.25)] {
        let module = json!({"vendor_sn": "SN1", "temperature_c": celsius, "rx_power_uw": [900, 0, 850, 1000]});
        add_at(&mut store, (Type::Module, 1, minute, minute), &module);
    }
    let serial = page(&store, Page::Module, "vendor_sn");
    assert_eq!(serial, Some((6, Value::Text("SN1".to_owned()))));
    let subject = store.get(KEY).expect("readings");
    let measured: Vec<_> = subject.module.0.iter().map(|point| point.of).collect();
    let of = |celsius| Module {
        temperature_c: Some(celsius),
        rx_power_uw: Some(850.0),
    };
    // The unused lane receives no light.
    assert_eq!(measured, [of(48.5), of(50.25)]);
}

#[test]
fn limits_follow_from_all_pages_that_were_read() {
    let mut store = Physical::new(usize::MAX);
    let cable = json!({"cable_type": 1, "cable_length": 120, "cable_identifier": 0});
    for (minute, values, expected) in [
        (
            1,
            json!({"fec_mode_active": 1 << 2}),
            "medium, no limit for FEC RS(528,514)",
        ),
        (2, cable, "medium, no limit for FEC RS(528,514)"),
        (
            3,
            json!({"fec_mode_active": 1 << 13}),
            "active FEC RS(271,257) with PLR",
        ),
        (
            4,
            json!({"fec_mode_active": 0}),
            "active FEC RS(271,257) with PLR",
        ),
        (
            5,
            json!({"fec_mode_active": 1 << 7}),
            "active FEC RS(544,514)",
        ),
    ] {
        add_at(&mut store, (Type::Module, 1, minute, minute), &values);
        let limits = store.get(KEY).expect("readings").end.limits();
        assert_eq!(limits.to_string(), expected, "{minute}");
        let is_strict = [2, 5].contains(&minute);
        assert_eq!(limits.effective()[1] == 1e-14, is_strict, "{minute}");
    }
}

/// The sum of a series is that of all readings, however long it is.
#[test]
fn long_series_has_few_points_and_keeps_its_sums() {
    let mut store = Physical::new(usize::MAX);
    let day = 24 * 60;
    for minute in 1..=7 * day {
        add(
            &mut store,
            minute,
            &bits(minute, 1_000 * minute, 3 * minute),
        );
        let points = points(&store);
        assert!(points.len() < 160, "{} points", points.len());
    }
    let points = points(&store);
    let sum = |of: fn(&(u64, u64, u64, u64)) -> u64| points.iter().map(of).sum::<u64>();
    let minutes = 7 * day - 1;
    assert_eq!(
        (sum(|point| point.2), sum(|point| point.3)),
        (1_000 * minutes, 3 * minutes)
    );
    assert!(points.windows(2).all(|pair| pair[0].1 == pair[1].0));
    for (from, to, ..) in &points {
        let age = 7 * day - to;
        assert!(
            to - from <= 1.max(age / u64::from(SHARE_OF_AGE)),
            "{from} to {to}"
        );
    }
}

#[test]
fn record_from_the_future_is_ignored_and_a_clock_that_was_set_back_starts_anew() {
    let mut store = Physical::new(usize::MAX);
    add(&mut store, 10, &bits(10, 1_000, 1));
    add_at(&mut store, (Type::Phy, 1, 5_000, 10), &bits(11, 2_000, 2));
    add(&mut store, 11, &bits(11, 2_000, 2));
    assert_eq!(points(&store), [(10, 11, 1_000, 1)]);
    // The sampler was an hour ahead.
    for minute in [100, 101] {
        add(&mut store, minute, &bits(minute, 1_000 * minute, minute));
    }
    for minute in [40, 41] {
        add(
            &mut store,
            minute,
            &bits(100 + minute, 1_000_000 + 500 * minute, 200),
        );
    }
    assert_eq!(points(&store), [(40, 41, 500, 0)]);
}

#[test]
fn records_of_a_wrong_clock_are_ignored() {
    let mut store = Physical::new(usize::MAX);
    let line = json!({"type": "phy", "ts": at(1), "sampler": "s", "guid": Guid(1).to_string(), "port": 2,
        "dt_ns": null, "phy_received_bits": 1, "phy_corrected_bits": 0});
    let line = line.to_string();
    let Ok(Any::Physical(record)) = Any::parse(line.as_bytes(), Type::Phy) else {
        panic!("a record of the physical layer")
    };
    let wrong = Source {
        is_apart: true,
        ..source(1)
    };
    assert!(store.add(&record, &wrong, None) && store.get(KEY).is_none());
    assert!(store.add(&record, &source(1), None) && store.get(KEY).is_some());
}

/// Returns the size of all subjects, counted anew.
fn counted(store: &Physical) -> usize {
    store
        .subjects
        .values()
        .map(|subject| subject.octets())
        .sum()
}

#[test]
fn memory_is_limited_and_known_ports_keep_their_newest_values() {
    const MAX: usize = 32 << 10;
    let mut store = Physical::new(MAX);
    let mut known = Vec::new();
    for guid in 1..1_000 {
        if add_at(&mut store, (Type::Phy, guid, 1, 1), &bits(1, 1_000, 1)) {
            known.push(guid);
        }
    }
    assert!(known.len() > 10 && known.len() < 100, "{}", known.len());
    for minute in 2..500 {
        for guid in &known {
            let line = bits(minute, 1_000 * minute, minute);
            assert!(add_at(
                &mut store,
                (Type::Phy, *guid, minute, minute),
                &line
            ));
        }
    }
    // Values can become a little longer than those with which a port was admitted.
    assert!(store.octets() < MAX + MAX / 4, "{}", store.octets());
    assert_eq!(store.octets(), counted(&store));
    let newest = page(&store, Page::Ber, "phy_received_bits");
    assert_eq!(newest, Some((499, Value::Integer(499_000))));
}

/// All values of a record, each as long as in a record of a link that has been up for a month.
fn every_value(of: PhysicalKind, minute: u64) -> Json {
    let counted = 1_000_000_000 * minute;
    let value = |column: &Column| match column.kind {
        Kind::Text | Kind::Texts => json!("SERIAL-NUMBER-16"),
        Kind::Integers => json!(vec![counted; usize::from(column.field.len)]),
        Kind::Float => json!(48.515625),
        _ if column.field.width > 32 => json!(1_000_000 * counted),
        _ => json!(minute),
    };
    let values = columns(of).iter();
    values
        .map(|column| (column.name.to_owned(), value(column)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn port_with_a_day_of_all_readings_takes_few_octets() {
    let mut store = Physical::new(usize::MAX);
    for minute in 1..=24 * 60 {
        let all = every_value(PhysicalKind::Phy, minute);
        add(&mut store, minute, &all);
        if minute % 5 == 0 {
            let all = every_value(PhysicalKind::Module, minute);
            add_at(&mut store, (Type::Module, 1, minute, minute), &all);
        }
    }
    let points = points(&store).len();
    assert!(
        store.octets() < 12 << 10,
        "{} bytes with {points} points",
        store.octets()
    );
    let mut pages = store.get(KEY).expect("readings").pages();
    assert!(pages.all(|page| !page.values.is_empty()));
}

#[test]
fn old_data_is_dropped_and_its_memory_is_free() {
    let mut store = Physical::new(usize::MAX);
    for minute in 1..=100 {
        add(&mut store, minute, &bits(minute, 1_000 * minute, minute));
    }
    add_at(&mut store, (Type::Phy, 2, 10, 100), &bits(10, 1, 1));
    assert_eq!(store.octets(), counted(&store));
    store.drop_before(at(50));
    assert!(points(&store).iter().all(|point| point.1 >= 50));
    assert_eq!(store.ports().count(), 1);
    assert_eq!(store.octets(), counted(&store));
    store.drop_before(at(101));
    assert_eq!((store.ports().count(), store.octets()), (0, 0));
}
