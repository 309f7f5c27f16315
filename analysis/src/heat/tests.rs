use super::grid::Cell::{Increase, NoAnswer, NoRecord, Unknown, Value};
use super::*;

const SECOND: u64 = 1_000_000_000;
/// A slot of one second.
const SLOT: u64 = 1_795_262_400;

/// Returns the record of a switch port for the second before a slot; `rest` adds fields.
fn line(slot: u64, port: u8, status: &str, rest: &str) -> String {
    let ts = slot * SECOND;
    let dt_ns = if status == "ok" {
        SECOND.to_string()
    } else {
        "null".to_owned()
    };
    format!(
        r#"{{"type":"port","ts":{ts},"slot":{slot},"sampler":"s","guid":"0x0000000000000001","port":{port},"lid":1,"node":"leaf1","kind":"switch","peer_guid":"0x000000000000000{port}","peer_port":1,"peer":"node{port} mlx5_0","status":"{status}","dt_ns":{dt_ns}{rest}}}"#
    )
}

pub(super) fn heat(metrics: &[&str], lines: &[String]) -> HeatMap {
    let mut heat = HeatMap::new(
        metrics.iter().map(|name| name.parse().unwrap()).collect(),
        None,
    );
    for line in lines {
        heat.add(&Record::parse(line.as_bytes(), Type::Port).unwrap());
    }
    heat
}

fn cells(heat: HeatMap) -> Vec<Vec<Vec<Cell>>> {
    heat.finish(RowKind::Port)
        .unwrap()
        .panels
        .into_iter()
        .map(|panel| panel.cells)
        .collect()
}

/// Returns records of five slots of two ports, for the five seconds from `SLOT - 1`: rates, a
/// counter reset, a port that does not answer, a slot without a record.
pub(super) fn records() -> Vec<String> {
    let gbps = |slot, port, gbps: f64, count: u64| {
        line(
            SLOT + slot,
            port,
            "ok",
            &format!(r#","port_rcv_errors":{count},"xmit_gbps":{gbps}"#),
        )
    };
    vec![
        line(SLOT, 2, "ok", r#","port_rcv_errors":10,"xmit_gbps":null"#),
        gbps(0, 3, 1.0, 0),
        gbps(1, 2, 2.5, 14),
        line(SLOT + 1, 3, "timeout", ""),
        gbps(2, 2, 3.0, 4),
        // Another device may have answered.
        gbps(2, 3, 0.0, 7).replace('}', r#","base_dt_slots":0}"#),
        gbps(3, 2, 3.5, 5),
        gbps(4, 2, 4.0, 5),
        gbps(4, 3, 9.0, 7),
    ]
}

fn expected() -> Vec<Vec<Vec<Cell>>> {
    vec![
        vec![
            vec![Unknown, Value(2.5), Value(3.0), Value(3.5), Value(4.0)],
            vec![Value(1.0), NoAnswer, Value(0.0), NoRecord, Value(9.0)],
        ],
        // An increase of 4 in a second; then a reset; an increase in a gap has no rate.
        vec![
            vec![NoRecord, Value(4.0), Increase, Value(1.0), Value(0.0)],
            vec![NoRecord, NoAnswer, Increase, NoRecord, Unknown],
        ],
    ]
}

#[test]
fn cells_have_the_values_of_the_records() {
    assert_eq!(
        cells(heat(&["xmit_gbps", "port_rcv_errors"], &records())),
        expected()
    );
}

#[test]
fn record_is_drawn_in_the_time_before_it() {
    let late = |text: String| {
        text.replace(
            &format!("\"ts\":{}", SLOT * SECOND),
            &format!("\"ts\":{}", SLOT * SECOND + SECOND / 4),
        )
    };
    let grid = heat(
        &["xmit_gbps"],
        &[late(line(SLOT, 2, "ok", r#","xmit_gbps":8.0"#))],
    )
    .finish(RowKind::Port)
    .unwrap();
    // From a quarter after SLOT - 1 to a quarter after SLOT: the slot SLOT - 1.
    assert_eq!(
        (grid.start_ns, grid.panels[0].cells[0].clone()),
        ((SLOT - 1) * SECOND, vec![Value(8.0)])
    );
    let next = late(line(SLOT, 2, "timeout", "")).replace(
        &format!("{}", SLOT * SECOND + SECOND / 4),
        &format!("{}", (SLOT + 1) * SECOND),
    );
    let lines = [line(SLOT, 2, "ok", r#","xmit_gbps":8.0"#), next];
    assert_eq!(
        cells(heat(&["xmit_gbps"], &lines))[0],
        [[Value(8.0), NoAnswer]]
    );
}

/// Each slot has one value, whenever in the slot its readings are.
#[test]
fn columns_of_whole_slots_have_the_values_whose_time_has_their_end() {
    let read_at = |slot: u64, thousandths: u64, length: u64, gbps: u64| {
        let second = SECOND.to_string();
        line(SLOT + slot, 2, "ok", &format!(r#","xmit_gbps":{gbps}"#))
            .replace(
                &format!("\"ts\":{}", (SLOT + slot) * SECOND),
                &format!(
                    "\"ts\":{}",
                    (SLOT + slot) * SECOND + thousandths * SECOND / 1000
                ),
            )
            .replace(
                &format!("\"dt_ns\":{second}"),
                &format!("\"dt_ns\":{}", length * SECOND / 1000),
            )
    };
    let lines = [
        read_at(0, 100, 1000, 1),
        read_at(1, 900, 1800, 2),
        read_at(2, 100, 200, 3),
        // Late: in the next slot.
        read_at(3, 1050, 1950, 4),
        read_at(4, 200, 150, 5),
        read_at(6, 300, 2100, 6),
    ];
    let expected = [1, 2, 3, 4, 4, 6, 6].map(|gbps| Value(f64::from(gbps)));
    let grid = heat(&["xmit_gbps"], &lines).finish(RowKind::Port).unwrap();
    assert_eq!(grid.start_ns, (SLOT - 1) * SECOND);
    // The reading of slot 4 describes the end of no slot.
    assert_eq!(grid.panels[0].cells[0], expected);
}

#[test]
fn result_does_not_depend_on_the_parts() {
    let (two, three): (Vec<_>, Vec<_>) = records()
        .into_iter()
        .partition(|line| line.contains("\"port\":2,"));
    let mut whole = heat(&["xmit_gbps", "port_rcv_errors"], &two);
    whole.merge(heat(&["xmit_gbps", "port_rcv_errors"], &three));
    assert_eq!(cells(whole), expected());
}

#[test]
fn long_recording_has_longer_columns_of_means() {
    let lines: Vec<_> = (0..3600)
        .map(|slot| {
            line(
                SLOT + slot + 1,
                2,
                "ok",
                &format!(r#","xmit_gbps":{}"#, slot % 10),
            )
        })
        .collect();
    let grid = heat(&["xmit_gbps"], &lines).finish(RowKind::Port).unwrap();
    assert_eq!(
        (grid.step_ns, grid.columns, grid.start_ns),
        (2 * SECOND, 1800, SLOT * SECOND)
    );
    assert_eq!(
        grid.panels[0].cells[0][..6],
        [0.5, 2.5, 4.5, 6.5, 8.5, 0.5].map(Value)
    );
    let sum: f64 = grid.panels[0].values().sum();
    assert_eq!(sum * 2.0, 16_200.0, "360 times 0 to 9");
}

#[test]
fn columns_add_up_to_the_octets_of_the_records() {
    // 10 Hz, 1 Hz and 0.2 Hz, with slots that begin between two columns.
    for step in [SECOND / 10, SECOND, 5 * SECOND] {
        let start = SLOT * SECOND + 2_400_000_001;
        let lines: Vec<_> = (1..=500)
            .map(|number| {
                line(0, 2, "ok", &format!(r#","xmit_gbps":{}"#, number % 7))
                    .replace("\"ts\":0", &format!("\"ts\":{}", start + number * step))
                    .replace(&format!("\"dt_ns\":{SECOND}"), &format!("\"dt_ns\":{step}"))
            })
            .collect();
        let grid = heat(&["xmit_gbps"], &lines).finish(RowKind::Port).unwrap();
        let covered = |column: usize| {
            let from = grid.start_ns + column as u64 * grid.step_ns;
            Interval::new(start, start + 500 * step)
                .unwrap()
                .within(from, from + grid.step_ns)
                .unwrap()
                .length_ns()
        };
        let sum: f64 = grid.panels[0]
            .values()
            .enumerate()
            .map(|(column, value)| value * covered(column) as f64)
            .sum();
        let whole: f64 = (1..=500)
            .map(|number| f64::from(number % 7) * step as f64)
            .sum();
        assert!((sum / whole - 1.0).abs() < 1e-9, "{step}: {sum} {whole}");
    }
}

#[test]
fn wrong_time_of_a_record_does_not_use_more_memory() {
    let lines = [
        line(1_000_001, 2, "ok", r#","xmit_gbps":1.0"#),
        line(SLOT, 2, "ok", r#","xmit_gbps":2.0"#),
    ];
    let grid = heat(&["xmit_gbps"], &lines).finish(RowKind::Port).unwrap();
    assert!(grid.columns <= 2000, "{} columns", grid.columns);
    assert_eq!(grid.panels[0].values().collect::<Vec<_>>(), [1.0, 2.0]);
}

#[test]
fn largest_possible_time_is_accepted() {
    let last = line(SLOT, 2, "ok", r#","xmit_gbps":1.0"#).replace(
        &format!("\"ts\":{}", SLOT * SECOND),
        &format!("\"ts\":{}", u64::MAX),
    );
    for lines in [
        &[last.clone()][..],
        &[line(1, 2, "ok", r#","xmit_gbps":1.0"#), last.clone()],
    ] {
        let grid = heat(&["xmit_gbps"], lines).finish(RowKind::Port).unwrap();
        assert!(grid.columns <= 2000, "{} columns", grid.columns);
        assert!(
            grid.end_ns() >= grid.start_ns,
            "{} to {}",
            grid.start_ns,
            grid.end_ns()
        );
    }
}

#[test]
fn time_between_slots_follows_from_the_slot_number() {
    for interval in [100_000_000, 333_000_000, SECOND, 60 * SECOND, 900 * SECOND] {
        let slot = 1_795_262_400 * SECOND / interval;
        let text = line(slot, 2, "ok", "").replace(
            &format!("\"ts\":{}", slot * SECOND),
            &format!("\"ts\":{}", slot * interval + interval / 10 * 9),
        );
        let Record::Port(port) = Record::parse(text.as_bytes(), Type::Port).unwrap() else {
            panic!("a port")
        };
        assert_eq!(slot_interval(&port), interval);
    }
}

/// A record without rates does not state its time: the slot number alone has to.
#[test]
fn sampler_that_stopped_within_a_slot_does_not_hide_the_time_between_slots() {
    for (interval, late) in [(100_000_000, 231), (100_000_000, 60_000), (SECOND, 3_200)] {
        let slot = 1_795_262_400 * SECOND / interval;
        let text = line(slot, 2, "skipped", "").replace(
            &format!("\"ts\":{}", slot * SECOND),
            &format!("\"ts\":{}", slot * interval + late * 1_000_000),
        );
        let Record::Port(port) = Record::parse(text.as_bytes(), Type::Port).unwrap() else {
            panic!("a port")
        };
        assert_eq!(slot_interval(&port), interval, "{late} ms");
    }
}

#[test]
fn end_of_the_selected_time_in_a_gap_does_not_make_columns_longer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let after = line(SLOT + 9, 2, "ok", r#","xmit_gbps":2.0"#).replace(
        &format!("\"dt_ns\":{SECOND}"),
        &format!("\"dt_ns\":{}", 7 * SECOND),
    );
    let lines = [
        line(SLOT + 1, 2, "ok", r#","xmit_gbps":1.0"#),
        line(SLOT + 2, 2, "ok", r#","xmit_gbps":1.0"#),
        after,
    ];
    std::fs::write(&path, lines.join("\n")).unwrap();
    let inputs = crate::input::Inputs {
        files: vec![path],
        from: None,
        to: Some((SLOT + 5) * SECOND),
    };
    let empty = HeatMap::new(vec!["xmit_gbps".parse().unwrap()], None);
    let grid = crate::input::read(&inputs, &empty)
        .unwrap()
        .0
        .finish(RowKind::Port)
        .unwrap();
    assert_eq!(
        (grid.step_ns, grid.panels[0].cells[0].clone()),
        (SECOND, [1.0, 1.0, 2.0, 2.0, 2.0].map(Value).to_vec())
    );
}

#[test]
fn counter_with_a_cadence_does_not_make_columns_longer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let count = |slot: u64| {
        if slot.is_multiple_of(10) {
            format!(r#","port_rcv_errors":{slot}"#)
        } else {
            String::new()
        }
    };
    let dt = |text: String| {
        text.replace(
            &format!("\"dt_ns\":{SECOND}"),
            &format!("\"dt_ns\":{}", SECOND + 1),
        )
    };
    let lines: Vec<_> = (0..=20)
        .map(|slot| dt(line(SLOT + slot, 2, "ok", &count(slot))))
        .collect();
    std::fs::write(&path, lines.join("\n")).unwrap();
    let inputs = crate::input::Inputs {
        files: vec![path],
        from: Some((SLOT + 7) * SECOND),
        to: None,
    };
    let empty = HeatMap::new(vec!["port_rcv_errors".parse().unwrap()], None);
    assert_eq!(
        crate::input::read(&inputs, &empty)
            .unwrap()
            .0
            .finish(RowKind::Port)
            .unwrap()
            .step_ns,
        SECOND
    );
}

#[test]
fn errors_are_those_of_the_table_of_errors() {
    for (index, name) in ibnet_record::ERROR_COUNTERS.iter().enumerate() {
        let lines: Vec<_> = (0..=3)
            .map(|slot| line(SLOT + slot, 2, "ok", &format!(r#","{name}":{}"#, 9 * slot)))
            .collect();
        let ports = crate::fixtures::fold(crate::ports::Ports::for_errors(), &lines).finish();
        let increase = ports
            .into_values()
            .map(|port| port.error_sum())
            .sum::<u64>();
        assert_eq!(
            increase,
            if ibnet_record::is_error_part(index) {
                0
            } else {
                27
            },
            "{name}"
        );
        if increase == 0 {
            continue;
        }
        let found: Vec<_> = cells(heat(&["errors"], &lines))[0]
            .concat()
            .into_iter()
            .filter(|cell| matches!(cell, Value(_)))
            .collect();
        assert_eq!(found, [Value(9.0); 3], "{name}");
    }
}

#[test]
fn rate_continues_over_a_change_of_the_sampler() {
    let lines = (0..4).map(|slot| {
        let text = line(
            SLOT + slot,
            2,
            "ok",
            &format!(r#","port_rcv_errors":{}"#, 10 * slot),
        );
        if slot < 2 {
            text
        } else {
            text.replace("\"sampler\":\"s\"", "\"sampler\":\"t\"")
        }
    });
    assert_eq!(
        cells(heat(&["port_rcv_errors"], &lines.collect::<Vec<_>>()))[0],
        [[Value(10.0), Value(10.0), Value(10.0)]]
    );
}

/// Returns records of one port for slots 0 to 25. A counter that grows by 3 a second is read in
/// slots 0, 10 and 20, and the blocked time in the same slots.
fn with_cadence() -> Vec<String> {
    let rest = |slot: u64| match slot {
        0 => r#","symbol_error_counter":7"#.to_owned(),
        10 | 20 => format!(
            r#","symbol_error_counter":{},"xmit_blocked":0.25,"xmit_blocked_dt_ns":{}"#,
            7 + 3 * slot,
            10 * SECOND
        ),
        _ => String::new(),
    };
    (0..26)
        .map(|slot| line(SLOT + slot, 2, "ok", &rest(slot)))
        .collect()
}

#[test]
fn value_with_a_cadence_is_drawn_over_its_cadence() {
    for (metric, value) in [
        ("symbol_error_counter", 3.0),
        ("errors", 3.0),
        ("xmit_blocked", 0.25),
    ] {
        let cells = cells(heat(&[metric], &with_cadence()))[0][0].clone();
        let (known, rest) = cells.split_at(cells.len() - 5);
        assert_eq!(
            known[known.len() - 20..],
            vec![Value(value); 20],
            "{metric}"
        );
        assert_eq!(
            rest,
            vec![Unknown; 5],
            "{metric}: the next reading is not recorded"
        );
    }
}

#[test]
fn lost_reading_of_a_counter_with_a_cadence_is_unknown() {
    let mut lines = with_cadence();
    lines[20] = line(SLOT + 20, 2, "timeout", "");
    lines[21] = line(
        SLOT + 21,
        2,
        "ok",
        r#","symbol_error_counter":70,"base_dt_slots":5"#,
    );
    let cells = cells(heat(&["symbol_error_counter"], &lines))[0][0].clone();
    assert_eq!(
        cells[cells.len() - 15..],
        [
            vec![Increase; 9],
            vec![NoAnswer],
            vec![Increase],
            vec![Unknown; 4]
        ]
        .concat()
    );
}

#[test]
fn parts_of_a_time_range_have_the_values_of_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    // The intervals of records are slightly longer than a slot.
    std::fs::write(
        &path,
        with_cadence()
            .join("\n")
            .replace("\"dt_ns\":1000000000", "\"dt_ns\":1004000000"),
    )
    .unwrap();
    let empty = HeatMap::new(vec!["symbol_error_counter".parse().unwrap()], None);
    for (from, to) in [(0, 20), (3, 7), (3, 13), (7, 19)] {
        let at = |slot: u64| Some((SLOT + slot) * SECOND);
        let inputs = crate::input::Inputs {
            files: vec![path.clone()],
            from: at(from),
            to: at(to),
        };
        let grid = crate::input::read(&inputs, &empty)
            .unwrap()
            .0
            .finish(RowKind::Port)
            .unwrap();
        assert_eq!(
            (grid.step_ns, grid.columns as u64),
            (SECOND, to - from),
            "{from} to {to}"
        );
        let sum: f64 = grid.panels[0].values().sum();
        assert!(
            (sum - 3.0 * (to - from) as f64).abs() < 1.0,
            "{from} to {to}: {:?}",
            grid.panels[0].cells
        );
    }
}

#[test]
fn unknown_counter_is_an_error_with_a_suggestion() {
    for (wrong, right) in [
        ("port_rcv_error", "port_rcv_errors"),
        ("xmit_gbsp", "xmit_gbps"),
        ("rcv_errors", "port_rcv_errors"),
    ] {
        let error = heat(&[wrong], &records())
            .finish(RowKind::Port)
            .unwrap_err();
        assert!(
            matches!(&error, AnalysisError::Metric { help, .. } if *help == format!("did you mean `{right}`?")),
            "{error:?}"
        );
    }
    let error = heat(&["bogus"], &records())
        .finish(RowKind::Port)
        .unwrap_err();
    assert!(
        matches!(&error, AnalysisError::Metric { help, .. } if help.starts_with("give xmit_gbps, ")),
        "{error:?}"
    );
    let error = heat(&["port_xmit_data_sl_bytes"], &records())
        .finish(RowKind::Port)
        .unwrap_err();
    assert!(
        matches!(&error, AnalysisError::NotRecorded { group: "xmtsl", .. }),
        "{error:?}"
    );
    let error = heat(&["port_rcv_errors[0]"], &records())
        .finish(RowKind::Port)
        .unwrap_err();
    assert!(
        matches!(&error, AnalysisError::Metric { help, .. } if help.contains("without an index")),
        "{error:?}"
    );
    assert!(matches!(
        heat(&["xmit_gbps"], &[]).finish(RowKind::Port),
        Err(AnalysisError::Nothing { .. })
    ));
    assert!(matches!(
        heat(&["xmit_gbps"], &records()).finish(RowKind::Host),
        Err(AnalysisError::Nothing { .. })
    ));
}

#[test]
fn only_ports_of_the_selected_hosts_are_included() {
    let mut heat = HeatMap::new(
        vec!["xmit_gbps".parse().unwrap()],
        Some(Hosts::parse("node3").unwrap()),
    );
    records()
        .iter()
        .for_each(|line| heat.add(&Record::parse(line.as_bytes(), Type::Port).unwrap()));
    assert_eq!(heat.finish(RowKind::Port).unwrap().rows.len(), 1);
}

/// Returns records of three slots of two ports with four service levels.
fn levels() -> Vec<String> {
    let level = |slot, port, values: [u64; 4]| {
        line(
            SLOT + slot,
            port,
            "ok",
            &format!(r#","link":"4xEDR","port_xmit_data_sl_bytes":{values:?}"#),
        )
    };
    vec![
        level(0, 2, [0, 0, 0, 7]),
        level(0, 3, [1, 0, 0, 0]),
        level(1, 2, [5, 0, 0, 9]),
        level(1, 3, [2, 0, 0, 3]),
        level(2, 2, [5, 0, 0, 9]),
        level(2, 3, [1, 0, 0, 3]),
    ]
}

#[test]
fn array_is_drawn_as_its_sum_or_as_an_element() {
    let grid = heat(
        &["port_xmit_data_sl_bytes", "port_xmit_data_sl_bytes[3]"],
        &levels(),
    )
    .finish(RowKind::Port)
    .unwrap();
    assert_eq!(
        grid.panels[0].cells,
        [[Value(7.0), Value(0.0)], [Value(4.0), Unknown]],
        "the last one decreased"
    );
    assert_eq!(
        grid.panels[1].cells,
        [[Value(2.0), Value(0.0)], [Value(3.0), Value(0.0)]]
    );
    assert_eq!(
        grid.panels
            .iter()
            .map(|panel| (panel.summed, panel.full))
            .collect::<Vec<_>>(),
        [(4, Some(12.5e9)), (1, Some(12.5e9))]
    );
}

/// Returns the heat map of these records by service level.
pub(super) fn by_level() -> Grid {
    let mut heat = HeatMap::by_element(
        &["port_xmit_data_sl_bytes".parse().unwrap()],
        None,
        RowKind::Sl,
    )
    .unwrap();
    levels()
        .iter()
        .for_each(|line| heat.add(&Record::parse(line.as_bytes(), Type::Port).unwrap()));
    heat.finish(RowKind::Sl).unwrap()
}

#[test]
fn elements_are_rows_that_sum_all_ports() {
    let grid = by_level();
    assert_eq!(
        grid.rows.iter().map(|row| &*row.row).collect::<Vec<_>>(),
        ["SL 0", "SL 1", "SL 2", "SL 3"]
    );
    assert_eq!(
        grid.panels[0].cells[0],
        [Value(6.0), Unknown],
        "one of the two decreased: at least 0 says nothing"
    );
    assert_eq!(grid.panels[0].cells[1], [Value(0.0), Value(0.0)]);
    assert_eq!(grid.panels[0].cells[3], [Value(5.0), Value(0.0)]);
    assert_eq!(grid.panels[0].metric.name(), "port_xmit_data_sl_bytes");
    for (metric, by) in [
        ("xmit_gbps", RowKind::Sl),
        ("port_xmit_data_sl_bytes", RowKind::Vl),
        ("port_vl_op_data[1]", RowKind::Vl),
    ] {
        assert!(
            matches!(
                HeatMap::by_element(&[metric.parse().unwrap()], None, by),
                Err(AnalysisError::Metric { .. })
            ),
            "{metric}"
        );
    }
}

/// Returns the state, the value and the known share of each cell of a row.
fn states(grid: &Grid, row: usize) -> Vec<(String, Option<f64>, Option<f64>)> {
    let row = serde_json::to_value(&grid.heat_rows()[row]).unwrap();
    let cell = |cell: &serde_json::Value| {
        (
            cell["state"].as_str().unwrap().to_owned(),
            cell["value"].as_f64(),
            cell["covered"].as_f64(),
        )
    };
    row["cells"].as_array().unwrap().iter().map(cell).collect()
}

fn state(
    state: &str,
    value: Option<f64>,
    covered: Option<f64>,
) -> (String, Option<f64>, Option<f64>) {
    (state.to_owned(), value, covered)
}

#[test]
fn wait_counter_of_a_lane_that_becomes_full_shows_only_that_the_lane_waited() {
    let waits = |slot, port, rest: &str| {
        let rest = format!(r#","port_vl_xmit_wait_ticks":{rest}"#);
        line(SLOT + slot, port, "ok", &rest)
    };
    let full = r#"[65535,0],"saturated":["port_vl_xmit_wait_ticks"]"#;
    let lines: Vec<_> = (0..5)
        .flat_map(|slot| {
            let two = if slot < 2 { "[7,0]" } else { full };
            [waits(slot, 2, two), waits(slot, 3, "[0,0]")]
        })
        .collect();
    let metric = "port_vl_xmit_wait_ticks".parse().unwrap();
    let mut heat = HeatMap::by_element(&[metric], None, RowKind::Vl).unwrap();
    lines
        .iter()
        .for_each(|line| heat.add(&Record::parse(line.as_bytes(), Type::Port).unwrap()));
    let grid = heat.finish(RowKind::Vl).unwrap();
    let zero = || state("value", Some(0.0), None);
    let unknown = || state("unknown", None, None);
    assert_eq!(
        states(&grid, 0),
        [zero(), state("increase", None, None), unknown(), unknown()],
        "never 0"
    );
    assert_eq!(states(&grid, 1), vec![zero(); 4]);
}

#[test]
fn sum_over_ports_that_lacks_a_port_is_no_value() {
    let level = |slot, port, rest: &str| {
        line(
            SLOT + slot,
            port,
            "ok",
            &format!(r#","port_xmit_data_sl_bytes":{rest}"#),
        )
    };
    // Port 2 is saturated from the second slot on, port 3 grows by 5, and port 4 does not have the
    // counter.
    let full = r#"[4294967295,0],"saturated":["port_xmit_data_sl_bytes"]"#;
    let lines: Vec<_> = (0..4)
        .flat_map(|slot| {
            let two = if slot < 2 {
                format!("[{},0]", 1000 * slot)
            } else {
                full.to_owned()
            };
            [
                level(slot, 2, &two),
                level(slot, 3, &format!("[{},0]", 5 * slot)),
                line(SLOT + slot, 4, "ok", ""),
            ]
        })
        .collect();
    let mut heat = HeatMap::by_element(
        &["port_xmit_data_sl_bytes".parse().unwrap()],
        None,
        RowKind::Sl,
    )
    .unwrap();
    lines
        .iter()
        .for_each(|line| heat.add(&Record::parse(line.as_bytes(), Type::Port).unwrap()));
    let grid = heat.finish(RowKind::Sl).unwrap();
    let partly = state("at_least", Some(5.0), Some(0.5));
    assert_eq!(
        states(&grid, 0),
        [state("value", Some(1005.0), None), partly.clone(), partly]
    );
    assert_eq!(
        states(&grid, 1),
        vec![state("value", Some(0.0), None); 3],
        "the other element is not saturated"
    );
    assert_eq!(
        serde_json::to_value(&grid.heat_rows()[0]).unwrap()["ports"],
        2,
        "port 4 does not have the counter"
    );
    // The sum over the elements of one port lacks the saturated element. At least 0 says nothing.
    let sums = self::heat(&["port_xmit_data_sl_bytes"], &lines)
        .finish(RowKind::Port)
        .unwrap();
    let none = state("unknown", None, None);
    assert_eq!(
        states(&sums, 0),
        [state("value", Some(1000.0), None), none.clone(), none]
    );
    // So does the sum over the ports of the switch.
    let sums = self::heat(&["port_xmit_data_sl_bytes"], &lines)
        .finish(RowKind::Switch)
        .unwrap();
    assert_eq!(states(&sums, 0)[1], state("at_least", Some(5.0), Some(0.5)));
}

#[test]
fn port_that_is_down_adds_nothing_to_a_sum_and_silent_port_makes_it_a_lower_bound() {
    let of = |status: &str| {
        let lines: Vec<_> = (0..3)
            .flat_map(|slot| {
                [
                    line(SLOT + slot, 2, "ok", r#","xmit_gbps":2.0"#),
                    line(SLOT + slot, 3, status, ""),
                ]
            })
            .collect();
        states(
            &heat(&["xmit_gbps"], &lines)
                .finish(RowKind::Switch)
                .unwrap(),
            0,
        )[1]
        .clone()
    };
    assert_eq!(of("down"), state("value", Some(2.0), None));
    assert_eq!(of("timeout"), state("at_least", Some(2.0), Some(0.5)));
}

/// Increases that `errors` lists are not hidden by a state or by a value of 0.
#[test]
fn increase_at_an_unknown_time_is_marked() {
    let symbols = |slot, status: &str, rest: &str| {
        line(
            SLOT + slot,
            2,
            status,
            &format!(r#","port_rcv_errors":0{rest}"#),
        )
    };
    let late = [
        symbols(0, "ok", r#","symbol_error_counter":3"#),
        symbols(1, "late", ""),
        symbols(2, "late", ""),
        symbols(3, "ok", r#","symbol_error_counter":163,"base_dt_slots":0"#),
        symbols(4, "ok", r#","symbol_error_counter":163"#),
    ];
    let increase = state("increase", None, None);
    let zero = state("value", Some(0.0), None);
    for metric in ["symbol_error_counter", "errors"] {
        let grid = heat(&[metric], &late).finish(RowKind::Port).unwrap();
        assert_eq!(
            states(&grid, 0)[..4],
            [
                increase.clone(),
                increase.clone(),
                increase.clone(),
                zero.clone()
            ],
            "{metric}"
        );
    }
    let full = r#","symbol_error_counter":65535,"saturated":["symbol_error_counter"]"#;
    let saturated = [
        symbols(0, "ok", r#","symbol_error_counter":0"#),
        symbols(1, "ok", full),
        symbols(2, "ok", full),
    ];
    let grid = heat(&["errors"], &saturated).finish(RowKind::Port).unwrap();
    assert_eq!(states(&grid, 0), [increase, state("unknown", None, None)]);
    let grid = heat(&["symbol_error_counter"], &saturated)
        .finish(RowKind::Switch)
        .unwrap();
    assert_eq!(
        states(&grid, 0)[1],
        state("unknown", None, None),
        "a saturated counter does not increase"
    );
    // A counter that is no error increases all the time.
    let packets = late.map(|line| {
        line.replace("symbol_error_counter", "port_xmit_pkts")
            .replace("base_dt_slots", "extended_dt_slots")
    });
    let grid = heat(&["port_xmit_pkts"], &packets)
        .finish(RowKind::Port)
        .unwrap();
    assert_eq!(states(&grid, 0)[2], state("unknown", None, None));
}

#[test]
fn blocked_time_per_byte_is_the_ratio_of_the_means() {
    use crate::fixtures::{fold, port};
    let sent = |slot, host: u64, gbps: f64, blocked: serde_json::Value| {
        let rest = [("xmit_gbps", gbps.into()), ("xmit_blocked", blocked)];
        port(
            SLOT + slot,
            (0x100 + host, 1),
            &format!("n{} mlx5_{host}", host / 3),
            (1, host as u8, "leaf"),
            &rest,
        )
    };
    // Host n0 has two HCAs, host n1 one. The columns have 1 s.
    let lines = [
        sent(0, 1, 80.0, 0.5.into()),
        sent(0, 2, 0.0, 0.25.into()),
        sent(0, 3, 0.0, 0.0.into()),
        sent(1, 1, 8.0, 0.5.into()),
        sent(1, 2, 32.0, serde_json::Value::Null),
        sent(1, 3, 16.0, 0.1.into()),
    ];
    let metrics = ["rcv_gbps", "blocked_ns_per_byte", "xmit_gbps"];
    let metrics: Vec<Metric> = metrics.map(|name| name.parse().unwrap()).to_vec();
    let heat = fold(HeatMap::new(metrics.clone(), None), &lines);
    let of = |by| {
        let grid = heat.clone().finish(by).unwrap();
        let shown: Vec<Metric> = grid
            .panels
            .iter()
            .map(|panel| panel.metric.clone())
            .collect();
        assert_eq!(shown, metrics);
        (grid.panels[1].cells.clone(), grid.panels[2].cells.clone())
    };
    let (per_byte, sent) = of(RowKind::Port);
    assert_eq!(
        per_byte,
        [
            [Value(8.0 * 0.5 / 80.0), Value(0.5)],
            [Unknown, Unknown],
            [Value(0.0), Value(0.05)]
        ]
    );
    assert_eq!(sent[0], [Value(80.0), Value(8.0)]);
    // All blocked time of a host by all of its bytes.
    assert_eq!(
        of(RowKind::Host).0,
        [
            [Value(8.0 * 0.75 / 80.0), Unknown],
            [Value(0.0), Value(0.05)]
        ]
    );
}
