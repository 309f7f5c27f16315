use ibnet_analysis::record::Type;

use super::*;

const SECOND: u64 = 1_000_000_000;

const UNLIMITED: Limits = Limits {
    recent_ns: 3600 * SECOND,
    recent_max: usize::MAX,
    minutes_ns: 86_400 * SECOND,
    minutes_max: usize::MAX,
};

/// Adds a record of a second. Returns whether it was new.
fn add(store: &mut Store, sampler: &str, guid: u64, second: u64) -> bool {
    let line = format!(
        r#"{{"type":"port","ts":{},"slot":{second},"sampler":"{sampler}","guid":"{}","port":1,"node":"n","status":"ok","port_xmit_pkts":{second},"dt_ns":{SECOND},"xmit_gbps":1.5}}"#,
        second * SECOND,
        Guid(guid)
    );
    let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else {
        panic!("a port record")
    };
    store.add(
        &port,
        &Source {
            name: sampler.into(),
            interval_ns: SECOND,
            is_apart: false,
            newest_ns: u64::MAX,
        },
    )
}

/// Drops old data at a second of all clocks.
fn trim(store: &mut Store, second: u64) {
    let now = second * SECOND;
    store.trim(
        &|_| now,
        Times {
            newest_ns: now,
            wall_ns: now,
        },
    );
}

fn times(store: &Store, guid: u64) -> Vec<u64> {
    let Some(chunks) = store.chunks((Guid(guid), PortNum(1)), 0, u64::MAX) else {
        return Vec::new();
    };
    let mut times: Vec<u64> = chunks
        .read(&Wanted::Named(Default::default()))
        .iter()
        .map(|port| port.ts / SECOND)
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn only_records_near_a_time_range_are_read() {
    let mut store = Store::new(UNLIMITED);
    for second in 100..155 {
        add(&mut store, "s", 1, second);
    }
    let key = (Guid(1), PortNum(1));
    let chunks = store.chunks(key, 0, u64::MAX).expect("records");
    let read = |from: u64| chunks.records_from(&Wanted::All, from * SECOND).len();
    // Ten seconds before the range have the counters at its begin.
    assert_eq!(read(140), 25);
    // No record is before this range, so older ones are read too.
    assert_eq!(read(100), 55);
}

#[test]
fn late_records_are_kept_and_copies_are_dropped() {
    let mut store = Store::new(UNLIMITED);
    for second in [100, 101, 103, 102, 103, 100, 104] {
        add(&mut store, "s", 1, second);
    }
    assert_eq!(times(&store, 1), [100, 101, 102, 103, 104]);
    assert_eq!(
        store.counts(),
        Counts {
            added: 5,
            late: 1,
            copies: 2,
            refused: 0
        }
    );
}

#[test]
fn restarted_sampler_with_lower_slots_is_kept() {
    let mut store = Store::new(UNLIMITED);
    (1000..1100).for_each(|second| assert!(add(&mut store, "s", 1, second)));
    (500..520).for_each(|second| assert!(add(&mut store, "s", 1, second)));
    assert_eq!(times(&store, 1).len(), 120);
}

#[test]
fn records_of_two_samplers_are_kept_apart() {
    let mut store = Store::new(UNLIMITED);
    assert!(
        add(&mut store, "a", 1, 100)
            && add(&mut store, "b", 1, 100)
            && !add(&mut store, "a", 1, 100)
    );
    assert_eq!(times(&store, 1), [100, 100]);
}

#[test]
fn records_are_dropped_after_the_time_and_minutes_stay() {
    let mut store = Store::new(Limits {
        recent_ns: 300 * SECOND,
        ..UNLIMITED
    });
    (1..=1000).for_each(|second| {
        add(&mut store, "s", 1, second);
    });
    trim(&mut store, 1000);
    let kept = times(&store, 1);
    // A chunk of 60 records is dropped as a whole.
    assert!(
        (301..=360).contains(&kept.len()) && kept.last() == Some(&1000),
        "{}",
        kept.len()
    );
    let minutes = store.minutes((Guid(1), PortNum(1)), 0, u64::MAX);
    assert_eq!(
        (minutes.len(), minutes[3].values[0]),
        (17, Some((1.5, 1.5)))
    );
    assert_eq!(
        (store.kept(0).minutes_from_ns, store.kept(0).ports),
        (Some(0), 1)
    );
}

#[test]
fn record_of_the_future_removes_no_other_record() {
    let mut store = Store::new(Limits {
        recent_ns: 300 * SECOND,
        ..UNLIMITED
    });
    // The wrong record is within 60 records, after which a chunk is complete.
    for second in (1..=100).chain([5000]).chain(101..=200) {
        add(&mut store, "s", 1, second);
    }
    trim(&mut store, 200);
    assert_eq!(times(&store, 1), (1..=200).collect::<Vec<_>>());
    assert_eq!(store.first_ts(), Some(SECOND));
}

#[test]
fn time_of_one_wrong_record_makes_no_other_record_old() {
    let mut store = Store::new(Limits {
        recent_ns: 300 * SECOND,
        ..UNLIMITED
    });
    for (guid, seconds) in [(1, 1..=150), (2, 1..=149)] {
        for second in seconds {
            add(&mut store, "s", guid, second);
        }
    }
    add(&mut store, "s", 1, 5000);
    store.trim(
        &|_| 5000 * SECOND,
        Times {
            newest_ns: 150 * SECOND,
            wall_ns: 150 * SECOND,
        },
    );
    assert_eq!((times(&store, 1).len(), times(&store, 2).len()), (151, 149));
}

#[test]
fn oldest_records_are_dropped_at_the_limit_of_octets() {
    let mut store = Store::new(UNLIMITED);
    (1..=3000).for_each(|second| {
        add(&mut store, "s", 1, second);
        add(&mut store, "s", 2, second);
    });
    let (octets, open) = (
        store.octets,
        store.kept(0).octets - store.octets - store.minute_octets,
    );
    store.limits.recent_max = octets / 2 + open;
    trim(&mut store, 3000);
    assert!(
        store.octets <= octets / 2 && store.octets > octets / 3,
        "{} of {octets}",
        store.octets
    );
    let (one, two) = (times(&store, 1), times(&store, 2));
    assert!(
        one.last() == Some(&3000) && one.first() > Some(&1000) && one.first() == two.first(),
        "{:?}",
        one.first()
    );
}

/// The physical layer takes its memory from that of the records.
#[test]
fn physical_layer_counts_towards_the_limit_of_octets() {
    let mut store = Store::new(UNLIMITED);
    (1..=3000).for_each(|second| {
        add(&mut store, "s", 1, second);
    });
    trim(&mut store, 3000);
    let kept = store.kept(0).octets;
    let line = format!(
        r#"{{"type":"module","ts":{},"sampler":"s","guid":"{}","port":1,"dt_ns":null,"vendor_sn":"{}"}}"#,
        3000 * SECOND,
        Guid(1),
        "x".repeat(50_000)
    );
    let Ok(Record::Physical(record)) = Record::parse(line.as_bytes(), Type::Module) else {
        panic!("a record of the physical layer")
    };
    let source = Source {
        name: "s".into(),
        interval_ns: SECOND,
        is_apart: false,
        newest_ns: u64::MAX,
    };
    assert!(store.physical.add(&record, &source, None));
    assert!(store.kept(0).octets > kept + 50_000);
    let records = times(&store, 1).len();
    store.limits.recent_max = kept + 30_000;
    trim(&mut store, 3000);
    assert!(times(&store, 1).len() < records);
    store.limits.recent_max = 40_000;
    assert!(!add(&mut store, "s", 2, 3000), "a new port is refused");
}

#[test]
fn port_without_records_is_forgotten() {
    let mut store = Store::new(Limits {
        recent_ns: 60 * SECOND,
        minutes_ns: 3600 * SECOND,
        ..UNLIMITED
    });
    add(&mut store, "s", 1, 1);
    (1..=10_000).for_each(|second| {
        add(&mut store, "s", 2, second);
    });
    trim(&mut store, 10_000);
    assert_eq!(
        (store.keys(), times(&store, 1).len()),
        (vec![(Guid(2), PortNum(1))], 0)
    );
    assert!(add(&mut store, "s", 1, 10_001), "the port comes back");
}

#[test]
fn open_chunks_count_towards_the_limit() {
    const MAX: usize = 16 << 20;
    let mut store = Store::new(Limits {
        recent_max: MAX,
        ..UNLIMITED
    });
    for guid in 1..=8000 {
        for sampler in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            add(&mut store, sampler, guid, 100);
        }
    }
    trim(&mut store, 100);
    assert!(
        store.kept(0).octets <= MAX && store.counts().refused > 0,
        "{} octets, {:?}",
        store.kept(0).octets,
        store.counts()
    );
    assert!(add(&mut store, "a", 1, 101), "a port that is known");
}
