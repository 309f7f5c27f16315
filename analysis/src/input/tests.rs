use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::limits::{CHUNK, KINDS, LINE, PORTS, SAMPLERS};
use super::*;
use crate::ports::{PortKey, PortSummary, Ports};

const SECOND: u64 = 1_000_000_000;

/// The times of the records in the order of arrival; 0 for a `start` record.
#[derive(Clone, PartialEq, Debug, Default)]
struct Times(Vec<u64>);

impl Fold for Times {
    fn uses(&self, kind: Type) -> bool {
        kind != Type::Event
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.0.push(port.ts),
            Record::Start(_) => self.0.push(0),
            other => panic!("{other:?}"),
        }
    }

    fn merge(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

fn port(ts: u64) -> String {
    format!("{{\"type\":\"port\",\"ts\":{ts},\"guid\":\"0x0000000000000001\",\"port\":1}}\n")
}

fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

fn times(inputs: &Inputs) -> Result<(Vec<u64>, ReadSummary), AnalysisError> {
    // The records of different ports, and those without a port, come in any order.
    read(inputs, &Times::default()).map(|(mut times, summary)| {
        times.0.sort_unstable();
        (times.0, summary)
    })
}

#[test]
fn files_are_merged_by_time_with_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    // More than two chunks.
    let count = 3 * CHUNK as u64 / 60;
    let text: String = (10..10 + count).map(port).collect();
    assert!(text.len() > 2 * CHUNK);
    let young = file(dir.path(), "a.jsonl", text.as_bytes());
    let old = file(
        dir.path(),
        "b.jsonl.zst",
        &zstd::encode_all((port(1) + &port(2)).as_bytes(), 0).unwrap(),
    );
    let inputs = Inputs::new(&[young, old]).unwrap();
    let all: Vec<u64> = [1, 2].into_iter().chain(10..10 + count).collect();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let (times, summary) = pool.install(|| times(&inputs)).unwrap();
        assert!(times == all, "{threads} threads");
        assert_eq!(
            (summary.lines, summary.invalid, summary.span),
            (count + 2, 0, Some((1, 9 + count)))
        );
    }
}

#[test]
fn invalid_lines_are_counted_and_the_first_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!(
        "{{\"type\":\"port\",\"x\":\"{}\"}}\n",
        "x".repeat(LINE + CHUNK)
    );
    let text = format!(
        "{}\r\n\nnonsense\n{}{long}{}{{\"type\":\"po",
        port(1).trim_end(),
        port(2),
        port(3)
    );
    let later =
        "{\"type\":\"weather\",\"ts\":9}\n{\"type\":\"event\",\"ts\":8,\"not\":\"looked at\"}\n";
    let inputs = Inputs::new(&[
        file(dir.path(), "a", text.as_bytes()),
        file(dir.path(), "b", later.as_bytes()),
    ])
    .unwrap();
    let (times, summary) = times(&inputs).unwrap();
    assert_eq!(
        (times, summary.lines, summary.invalid),
        (vec![1, 2, 3], 8, 3)
    );
    let invalid = summary.first_invalid.unwrap();
    assert!(
        invalid.file.ends_with("/a") && invalid.line == 3,
        "{invalid:?}"
    );
}

/// Counts the names of samplers.
#[derive(Clone, Default)]
struct Names(std::collections::BTreeSet<String>);

impl Fold for Names {
    fn add(&mut self, record: &Record<'_>) {
        if let Record::Start(start) = record {
            self.0.insert(start.sampler.to_string());
        }
    }

    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[test]
fn records_of_more_samplers_than_the_limit_are_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let start = |name: usize| {
        format!(
            "{{\"type\":\"start\",\"ts\":{},\"sampler\":\"s{name}\",\"interval_ns\":1}}\n",
            name + 1
        )
    };
    let text: String = (0..SAMPLERS + 500).map(start).chain([start(0)]).collect();
    let inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
    let (names, summary) = read(&inputs, &Names::default()).unwrap();
    assert_eq!((names.0.len(), summary.invalid), (SAMPLERS, 500));
    let first = summary.first_invalid.unwrap();
    assert_eq!(
        (first.line, first.why),
        (
            SAMPLERS as u64 + 1,
            format!("the input has more than {SAMPLERS} names of samplers")
        )
    );
}

#[test]
fn records_of_more_kinds_than_the_limit_are_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let histogram = |number: usize| {
        format!(
            "{{\"type\":\"histogram\",\"ts\":{},\"slot\":1,\"sampler\":\"a\",\"kind\":\"rtt\",\"device_kind\":\"k{number}\",\"guid\":null,\
             \"count\":1,\"v2\":\"\"}}\n",
            number + 1
        )
    };
    let text: String = (0..KINDS + 7).map(histogram).collect();
    let inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
    let (_, summary) = read(&inputs, &Names::default()).unwrap();
    assert_eq!(
        (summary.invalid, summary.first_invalid.unwrap().why),
        (7, "the input has more than 16 kinds of devices".to_owned())
    );
}

#[test]
fn records_of_more_ports_than_the_limit_are_invalid() {
    let dir = tempfile::tempdir().unwrap();
    // All ports of a device are in one part, and each device has 256 ports.
    let part_of_first = (0..).filter(|guid: &u64| key::Key::of_device(*guid).shard() == 0);
    let ports = part_of_first
        .take(PORTS / 256 + 2)
        .flat_map(|guid| (0..256).map(move |port| (guid, port)));
    let line = |(ts, (guid, port)): (usize, (u64, u16))| {
        format!(
            "{{\"type\":\"port\",\"ts\":{},\"guid\":\"0x{guid:016x}\",\"port\":{port}}}\n",
            ts + 1
        )
    };
    let text: String = ports.enumerate().map(line).collect();
    let inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
    let (times, summary) = times(&inputs).unwrap();
    assert_eq!((times.len(), summary.invalid), (PORTS, 512));
    assert!(
        summary
            .first_invalid
            .unwrap()
            .why
            .contains("65536 ports in a part of the fabric")
    );
}

#[test]
fn number_of_an_invalid_line_is_exact_anywhere_in_a_chunk() {
    let dir = tempfile::tempdir().unwrap();
    for valid in [0, 1, 90, 91, 92, 3000] {
        let text: String = (1..=valid)
            .map(port)
            .chain(["nonsense\n".to_owned(), port(9999), "more\n".to_owned()])
            .collect();
        let (_, summary) =
            times(&Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap()).unwrap();
        assert_eq!(
            (summary.invalid, summary.first_invalid.unwrap().line),
            (2, valid + 1)
        );
    }
}

#[test]
fn time_range_selects_records_and_keeps_start_records() {
    let dir = tempfile::tempdir().unwrap();
    let start = "{\"type\":\"start\",\"ts\":1,\"sampler\":\"a\",\"interval_ns\":1}\n";
    let text = [start.to_owned(), port(2), port(3), port(4)].concat();
    let mut inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
    (inputs.from, inputs.to) = (Some(3), Some(4));
    let (times, summary) = times(&inputs).unwrap();
    assert_eq!(
        (times, summary.lines, summary.span),
        (vec![0, 3], 4, Some((3, 3)))
    );
}

#[test]
fn patterns_expand_to_each_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        file(dir.path(), "a.jsonl", b""),
        file(dir.path(), "b[1].jsonl", b""),
    );
    let all = dir.path().join("*.jsonl");
    assert_eq!(Inputs::new(&[b.clone(), all]).unwrap().files, [b, a]);
    assert!(matches!(
        Inputs::new(&[dir.path().join("*.zst")]),
        Err(AnalysisError::NoFile { .. })
    ));
    assert!(matches!(
        Inputs::new(&[dir.path().join("[")]),
        Err(AnalysisError::Pattern { .. })
    ));
}

#[test]
fn file_without_a_record_is_an_error_only_if_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (text, reason) in [
        ("", "it is empty"),
        ("\n\n", "it is empty"),
        ("<html>\n", "first line: expected value"),
    ] {
        let empty = file(dir.path(), "b", text.as_bytes());
        let error = times(&Inputs::new(std::slice::from_ref(&empty)).unwrap())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/b: it has no record") && error.contains(reason),
            "{error}"
        );
        let (times, summary) =
            times(&Inputs::new(&[file(dir.path(), "a", port(1).as_bytes()), empty]).unwrap())
                .unwrap();
        let warning = summary.incomplete[0].to_string();
        assert!(
            times == [1] && warning.contains("/b: it has no record") && warning.contains(reason),
            "{warning}"
        );
    }
    assert!(matches!(
        times(&Inputs {
            files: vec![dir.path().join("none")],
            ..Inputs::default()
        }),
        Err(AnalysisError::Read { .. })
    ));
}

#[test]
fn compressed_file_is_read_up_to_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut encoder = zstd::Encoder::new(Vec::new(), 0).unwrap();
    for ts in 1..=1000 {
        encoder.write_all(port(ts).as_bytes()).unwrap();
        // Each block can be decompressed alone.
        encoder.flush().unwrap();
    }
    let whole = encoder.finish().unwrap();
    let (times, summary) =
        times(&Inputs::new(&[file(dir.path(), "a.zst", &whole[..whole.len() / 2])]).unwrap())
            .unwrap();
    assert!((100..1000).contains(&times.len()), "{}", times.len());
    assert_eq!(
        summary
            .incomplete
            .iter()
            .map(|file| &file.fault)
            .collect::<Vec<_>>(),
        [&FileFault::Cut]
    );
    assert!(summary.invalid <= 1, "the last line may be torn");
}

#[test]
fn long_line_in_a_file_out_of_order_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!(
        "{{\"type\":\"port\",\"x\":\"{}\"}}\n",
        "x".repeat(LINE + CHUNK)
    );
    let text = [
        port(9 * SECOND),
        long,
        port(8 * SECOND),
        "nonsense\n".to_owned(),
        port(SECOND),
        port(2 * SECOND),
    ]
    .concat();
    let (times, summary) =
        times(&Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap()).unwrap();
    assert_eq!(
        (times, summary.invalid),
        ([1, 2, 8, 9].map(|seconds| seconds * SECOND).to_vec(), 2)
    );
    assert_eq!(summary.first_invalid.map(|invalid| invalid.line), Some(2));
}

#[test]
fn invalid_line_of_a_sorted_file_has_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = port(5 * SECOND).replace("\"port\":1}", "\"port\":1,\"xmit_gbps\":-1}");
    let text = [port(9 * SECOND), port(SECOND), wrong, port(2 * SECOND)].concat();
    let (times, summary) =
        times(&Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap()).unwrap();
    assert_eq!(
        (
            times.len(),
            summary.first_invalid.map(|invalid| invalid.line)
        ),
        (3, Some(3))
    );
}

/// Returns a record of a sampler for the interval before `ts`.
fn reading(sampler: &str, role: Option<&str>, (ts, dt_ns): (u64, u64), errors: u64) -> String {
    let mut line = json!({
        "type": "port", "ts": ts, "slot": ts / SECOND, "sampler": sampler, "guid": "0x0000000000000001", "port": 1, "node": "leaf",
        "kind": "switch", "status": "ok", "rtt_ns": 1000, "mads": 1, "port_rcv_errors": errors, "dt_ns": dt_ns,
        "xmit_gbps": 8.0, "xmit_blocked": 0.5,
    });
    if let Some(role) = role {
        line["role"] = role.into();
    }
    if dt_ns == 0 {
        for name in ["dt_ns", "xmit_gbps", "xmit_blocked"] {
            line[name] = Value::Null;
        }
    }
    format!("{line}\n")
}

fn summary_of(files: &[String], from: Option<u64>, to: Option<u64>) -> (PortSummary, ReadSummary) {
    let dir = tempfile::tempdir().unwrap();
    let files = files
        .iter()
        .enumerate()
        .map(|(number, text)| file(dir.path(), &number.to_string(), text.as_bytes()));
    let inputs = Inputs {
        files: files.collect(),
        from,
        to,
    };
    let (ports, summary) = read(&inputs, &Ports::with_bins(1000)).unwrap();
    let ports: BTreeMap<PortKey, PortSummary> = ports.finish();
    (ports.into_values().next().unwrap(), summary)
}

/// Octets, seconds blocked, errors.
fn totals(port: &PortSummary) -> (f64, f64, u64) {
    (
        port.all.xmit.octets(),
        port.all.blocked.mean().unwrap_or(0.0) * port.all.blocked.seconds(),
        port.error_sum(),
    )
}

fn sequence(
    sampler: &str,
    role: Option<&str>,
    slots: std::ops::Range<u64>,
    late_ns: u64,
) -> Vec<String> {
    let first = slots.start;
    slots
        .map(|slot| {
            reading(
                sampler,
                role,
                (
                    slot * SECOND + late_ns,
                    if slot == first { 0 } else { SECOND },
                ),
                10 * slot,
            )
        })
        .collect()
}

#[test]
fn change_of_the_plan_keeps_the_whole_recording() {
    let (a, b) = (
        sequence("a", None, 100..110, 0).concat(),
        sequence("b", None, 110..120, 0).concat(),
    );
    let again = sequence("a", None, 120..130, 0).concat();
    let files = [[a, again].concat(), b];
    let (port, summary) = summary_of(&files, None, None);
    // Each of three runs has nine intervals of a second; the counter grows by 10 a second.
    assert_eq!(totals(&port), (27e9, 13.5, 290));
    assert_eq!(
        (port.records, summary.copies, summary.covered),
        ((30, 30), 0, 0)
    );
    assert_eq!(summary.span, Some((100 * SECOND, 129 * SECOND)));
}

#[test]
fn copies_count_once() {
    let lines = sequence("a", None, 100..110, 0);
    let (expected, _) = summary_of(&[lines.concat()], None, None);
    let reversed: String = lines.iter().rev().cloned().collect();
    let spaced = lines.concat().replace("\":", "\": ");
    let (port, summary) = summary_of(&[lines.concat(), reversed, spaced], None, None);
    assert_eq!((port, summary.copies), (expected.clone(), 20));
    // A second process of the same sampler, slightly later.
    let (port, summary) = summary_of(
        &[
            lines.concat(),
            sequence("a", None, 100..110, 1_000_000).concat(),
        ],
        None,
        None,
    );
    assert_eq!((port, summary.copies), (expected, 10));
}

#[test]
fn secondary_fills_only_the_gaps_of_the_primary() {
    let primary: String = sequence("a", None, 100..104, 0)
        .into_iter()
        .chain(sequence("a", None, 107..111, 0))
        .collect();
    let secondary = sequence("b", Some("secondary"), 100..111, SECOND / 2).concat();
    let (port, summary) = summary_of(&[primary.clone(), secondary.clone()], None, None);
    // From 100 to 110.5 s: the secondary has the time from 103 to 107 s, and the last half second.
    assert_eq!(totals(&port), (10.5e9, 5.25, 100));
    assert!(summary.covered >= 5, "{summary:?}");
    let (alone, _) = summary_of(&[secondary], None, None);
    assert_eq!(totals(&alone), (10e9, 5.0, 100));
}

#[test]
fn port_without_a_record_in_the_range_has_the_growth_between_its_readings() {
    let second = |ts: u64, errors: u64| reading("a", None, (ts * SECOND, 0), errors);
    let lines = second(100, 1000) + &second(110, 1100);
    let (port, _) = summary_of(&[lines], Some(103 * SECOND), Some(106 * SECOND));
    assert_eq!((port.error_sum(), port.records), (30, (0, 0)));
    assert_eq!(&*port.node, "leaf");
}

/// A full data counter has no rate, but the error counters beside it count.
#[test]
fn counters_of_a_secondary_without_rates_count_if_the_primary_has_no_answer() {
    let line = |sampler: &str, role: Option<&str>, ts: u64, status: &str, rest: &str| {
        let role = role.map_or_else(String::new, |role| format!(r#""role":"{role}","#));
        format!(
            r#"{{"type":"port","ts":{ts},"slot":{},"sampler":"{sampler}",{role}"guid":"0x0000000000000001","port":1,"status":"{status}","rtt_ns":2000000,"dt_ns":null{rest}}}"#,
            ts / SECOND
        ) + "\n"
    };
    let secondary: String = (100..110)
        .map(|slot| {
            let errors = format!(r#","symbol_error_counter":{}"#, slot * 10);
            let ts = slot * SECOND + SECOND / 2;
            line("b", Some("secondary"), ts, "ok", &errors)
        })
        .collect();
    for status in ["timeout", "unreachable", "send_error"] {
        // Also during the query of the secondary, which took 2 ms.
        for late in [0, SECOND / 2 - 1_000_000] {
            let primary: String = (100..110)
                .map(|slot| line("a", None, slot * SECOND + late, status, ""))
                .collect();
            let (port, _) = summary_of(&[primary, secondary.clone()], None, None);
            assert_eq!(port.error_sum(), 90, "{status}, {late} ns");
        }
    }
    let primary: String = (100..110)
        .map(|slot| {
            let errors = format!(r#","symbol_error_counter":{}"#, slot * 10);
            line("a", None, slot * SECOND, "ok", &errors)
        })
        .collect();
    let (port, summary) = summary_of(&[primary, secondary], None, None);
    assert_eq!((port.error_sum(), summary.covered), (90, 10));
}

#[test]
fn octets_of_two_samplers_are_the_growth_of_the_counter() {
    // Data counters are read at the start of a slot, or half a slot later. The last reply comes up
    // to 60 ms after it, so intervals that end at the last reply overlap, or leave a short time
    // between them.
    let octets = |ns: u64| (ns / 1_000_000).pow(2);
    let sequence = |sampler: &str, role, offset: u64, slots: std::ops::Range<u64>| -> String {
        let record = |slot: u64| {
            let read = slot * SECOND + offset;
            let gbps = (octets(read) - octets(read - SECOND)) as f64 * 8.0 / 1e9;
            let late = slot * 37 % 7 * 10_000_000;
            reading(sampler, role, (read + late, SECOND), 0)
                .replace("\"xmit_gbps\":8.0", &format!("\"xmit_gbps\":{gbps}"))
        };
        slots.map(record).collect()
    };
    let (primary, secondary) = (
        sequence("a", None, 0, 101..120),
        sequence("b", Some("secondary"), SECOND / 2, 102..119),
    );
    let (port, _) = summary_of(&[primary, secondary], None, None);
    let grown = (octets(119 * SECOND) - octets(100 * SECOND)) as f64;
    assert!(
        (port.all.xmit.octets() / grown - 1.0).abs() < 1e-9,
        "{} instead of {grown}",
        port.all.xmit.octets()
    );
    assert_eq!(port.all.xmit.seconds(), 19.0);
}

/// The blocked share has a cadence of five slots, so the records of the primary that come between
/// those of the secondary and the next blocked share describe other times.
#[test]
fn moment_counts_once_if_a_secondary_filled_it_before_a_longer_time_of_the_primary() {
    let sequence = |sampler: &str, role, late_ns: u64, blocked: f64| -> String {
        let record = |slot: u64| {
            let line = reading(sampler, role, (slot * SECOND + late_ns, SECOND), 0);
            let of_cadence =
                format!("\"xmit_blocked\":{blocked},\"xmit_blocked_dt_ns\":5000000000");
            let share = if slot.is_multiple_of(5) {
                &of_cadence
            } else {
                "\"xmit_blocked\":null"
            };
            line.replace("\"xmit_blocked\":0.5", share)
        };
        (101..=110).map(record).collect()
    };
    let (primary, secondary) = (
        sequence("a", None, 0, 0.25),
        sequence("b", Some("secondary"), SECOND / 2, 0.75),
    );
    let (port, _) = summary_of(&[primary, secondary], None, None);
    // The secondary has half a second after each share of the primary.
    assert_eq!(port.all.blocked.seconds(), 10.5);
    assert_eq!(totals(&port).1, 9.5 * 0.25 + 0.75);
}

#[test]
fn overlapping_samplers_describe_each_moment_once() {
    let files = [
        sequence("a", None, 100..110, 0).concat(),
        sequence("b", None, 105..115, SECOND / 4).concat(),
    ];
    let (port, _) = summary_of(&files, None, None);
    assert_eq!(totals(&port), (14.25e9, 7.125, 140));
    assert_eq!(
        port.errors
            .iter()
            .flatten()
            .filter(|change| change.is_lower_bound)
            .count(),
        0
    );
}

#[test]
fn reading_that_began_before_another_sampler_ended_is_no_reset() {
    let slow = |line: String| line.replace("\"rtt_ns\":1000", "\"rtt_ns\":900000000");
    let a = sequence("a", None, 100..103, 0).concat();
    // Read before the last reading of `a`, replied after it.
    let b = slow(reading("b", None, (102 * SECOND + 1000, 0), 1015))
        + &reading("b", None, (103 * SECOND, 999_999_000), 1030);
    let (port, _) = summary_of(&[a, b], None, None);
    assert_eq!(
        (
            port.error_sum(),
            port.errors
                .iter()
                .flatten()
                .any(|change| change.is_lower_bound)
        ),
        (30, false)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// 10 Hz, 1 Hz and 0.2 Hz: the parts of a time add up to the whole, for rates and counters.
    #[test]
    fn totals_over_a_partition_equal_the_whole(
        step in prop::sample::select(vec![SECOND / 10, SECOND, 5 * SECOND]),
        growth in prop::collection::vec(0_u64..9, 2..40),
        cuts in prop::collection::vec(0.0..1.0_f64, 0..4),
        late in 0_u64..90_000_000,
    ) {
        let start = 1000 * SECOND + late;
        let mut errors = 7;
        let lines = growth.iter().enumerate().map(|(number, growth)| {
            errors += growth;
            let ts = start + number as u64 * step;
            reading("a", None, (ts, if number == 0 { 0 } else { step }), errors).replace(&format!("\"slot\":{}", ts / SECOND), &format!("\"slot\":{}", number + 1))
        });
        let text: String = lines.collect();
        let end = start + growth.len() as u64 * step;
        let mut edges: Vec<u64> = cuts.iter().map(|cut| start + ((end - start) as f64 * cut) as u64).collect();
        edges.extend([start, end]);
        edges.sort_unstable();
        let (whole, _) = summary_of(std::slice::from_ref(&text), None, None);
        let mut sums = (0.0, 0.0, 0);
        for part in edges.windows(2).filter(|part| part[0] < part[1]) {
            let dir = tempfile::tempdir().unwrap();
            let inputs = Inputs { files: vec![file(dir.path(), "a", text.as_bytes())], from: Some(part[0]), to: Some(part[1]) };
            let (ports, summary) = read(&inputs, &Ports::with_bins(1000)).unwrap();
            prop_assert!(summary.span.is_none_or(|(from, to)| part[0] <= from && to <= part[1]), "{:?} {part:?}", summary.span);
            for port in ports.finish().values() {
                let (octets, blocked, errors) = totals(port);
                sums = (sums.0 + octets, sums.1 + blocked, sums.2 + errors);
                prop_assert!(part[0] <= port.span.0 && port.span.1 <= part[1]);
            }
        }
        let (octets, blocked, errors) = totals(&whole);
        prop_assert!((sums.0 - octets).abs() <= octets * 1e-9 && (sums.1 - blocked).abs() <= blocked.max(1.0) * 1e-9, "{sums:?} {octets} {blocked}");
        prop_assert_eq!(sums.2, errors);
    }

    /// Shuffled lines, files and copies: the result stays the same.
    #[test]
    fn order_of_the_input_does_not_matter(
        order in Just((0..80_usize).collect::<Vec<_>>()).prop_shuffle(),
        cut in 0_usize..80,
        copies in 0_usize..20,
    ) {
        let mut lines = sequence("a", None, 100..120, 0);
        lines.extend(sequence("b", None, 118..140, 300_000_000));
        lines.extend(sequence("c", Some("secondary"), 100..138, 500_000_000));
        let (expected, before) = summary_of(&[lines.concat()], None, None);
        let shuffled: Vec<String> = order.iter().filter_map(|index| lines.get(*index).cloned()).collect();
        let (first, second) = shuffled.split_at(cut.min(shuffled.len()));
        let files = [first.concat(), second.concat() + &shuffled[..copies].concat()];
        let files: Vec<String> = files.into_iter().filter(|text| !text.is_empty()).collect();
        let (found, after) = summary_of(&files, None, None);
        prop_assert_eq!(found, expected);
        prop_assert_eq!((after.copies, after.covered), (before.copies + copies as u64, before.covered));
    }
}

#[test]
fn last_interval_of_a_job_is_not_lost() {
    let lines = sequence("a", None, 100..111, 20_000_000).concat();
    let (port, summary) = summary_of(&[lines], Some(102 * SECOND), Some(104 * SECOND));
    assert_eq!(totals(&port), (2e9, 1.0, 20));
    assert_eq!(summary.span, Some((102 * SECOND, 104 * SECOND)));
}

#[test]
fn counter_at_an_edge_is_interpolated_and_a_reset_counts_where_it_was_read() {
    let line = |slot: u64, errors| reading("a", None, (slot * SECOND, SECOND), errors);
    let text = [line(100, 10), line(101, 20), line(102, 4), line(103, 6)].concat();
    let errors = |from, to| {
        let (port, _) = summary_of(std::slice::from_ref(&text), Some(from), Some(to));
        (
            port.error_sum(),
            port.errors
                .iter()
                .flatten()
                .any(|change| change.is_lower_bound),
        )
    };
    let half = SECOND / 2;
    assert_eq!(errors(100 * SECOND + half, 101 * SECOND + 1), (5, false));
    assert_eq!(
        errors(101 * SECOND + half, 103 * SECOND + 1),
        (6, true),
        "0 to 4 after the reset, and 4 to 6"
    );
    assert_eq!(errors(100 * SECOND, 101 * SECOND + half), (10, false));
}
