//! Runs `ibnet-view latency` and `sweeps` on records whose modes, causes and shifts are known.

use std::fs;

use tempfile::TempDir;

use super::{Run, run};

const SECOND: u64 = 1_000_000_000;
const SLOT: u64 = 1_795_262_400;
const SLOTS: u64 = 100;
const DEVICES: u64 = 40;

/// Returns a number from 0 to 65535 that looks random.
fn noise(seed: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32 & 0xffff
}

/// Returns the records of a sampler. Half of the devices are HCAs, at about 65 us, and half are
/// switches, at about 150 us; a tenth of the values is at the other time. Device 7 is `late`
/// slower.
fn lines(late: u64) -> String {
    let mut text = format!(
        "{{\"type\":\"start\",\"ts\":{},\"slot\":{SLOT},\"sampler\":\"s\",\"interval_ns\":{SECOND},\"clock_ns\":25}}\n",
        SLOT * SECOND
    );
    for slot in SLOT..SLOT + SLOTS {
        for device in 0..DEVICES {
            let seed = slot * DEVICES + device;
            let is_hca = !device.is_multiple_of(2);
            let center = if is_hca != noise(seed).is_multiple_of(10) {
                65_000
            } else {
                150_000
            };
            // A triangular distribution, 20 % wide.
            let spread = (noise(seed + 7_000_000) + noise(seed + 9_000_000)) * center / 5 / 0xffff;
            let ns = 25 + center * 8 / 10 + spread + if device == 7 { late } else { 0 };
            let kind = if is_hca { "hca" } else { "switch" };
            text += &format!(
                "{{\"type\":\"port\",\"ts\":{},\"slot\":{slot},\"sampler\":\"s\",\"guid\":\"0x{device:016x}\",\"port\":1,\"lid\":1,\"node\":\"n{device}\",\"kind\":\"{kind}\",\"hops\":{},\"status\":\"ok\",\"rtt_ns\":{},\"rtt_min_ns\":{ns},\"mads\":2}}\n",
                slot * SECOND + 1_000_000 + device,
                device % 3,
                2 * ns
            );
        }
        text += &format!(
            "{{\"type\":\"sweep\",\"ts\":{},\"slot\":{slot},\"sampler\":\"s\",\"ca\":\"sim\",\"ca_port\":1,\"duration_ns\":{},\"decode_ns\":500000,\"ports\":40,\"ok\":39,\"timeout\":1,\"lines_lost\":{}}}\n",
            slot * SECOND + SECOND / 2,
            4_000_000 + slot % 2 * 2_000_000,
            u64::from(slot == SLOT)
        );
    }
    text
}

fn recorded() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("monday.jsonl"), lines(0)).unwrap();
    fs::write(dir.path().join("tuesday.jsonl"), lines(40_000)).unwrap();
    dir
}

fn json(run: &Run) -> serde_json::Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn modes_are_named_with_their_cause() {
    let dir = recorded();
    for bins in ["log", "fixed:5us"] {
        let Run {
            code,
            stdout,
            stderr,
        } = run(
            &dir,
            &[
                "latency",
                "monday.jsonl",
                "--bins",
                bins,
                "-o",
                "latency.png",
            ],
        );
        assert_eq!(code, 0, "{stderr}");
        let modes = stdout
            .lines()
            .find(|line| line.starts_with("two modes: "))
            .unwrap_or_else(|| panic!("{stdout}"));
        let shares: Vec<f64> = modes
            .split(['(', ';'])
            .filter_map(|part| part.split(" %").next()?.trim().parse().ok())
            .collect();
        let numbers: Vec<f64> = modes
            .split([' ', ','])
            .filter_map(|part| part.parse().ok())
            .collect();
        assert!(
            (60.0..70.0).contains(&numbers[0])
                && modes.contains("% hca")
                && modes.contains("% switch"),
            "{modes}"
        );
        assert!(
            shares
                .iter()
                .step_by(2)
                .all(|share| (85.0..95.0).contains(share)),
            "{modes}"
        );
        assert!(
            stdout.contains("kind separates the modes best. Scores: kind 0."),
            "{stdout}"
        );
        assert!(
            stdout.contains("Least of a device: its shortest single round trip."),
            "{stdout}"
        );
        // The line of the modes is prose.
        let is_narrow = |line: &str| line.contains("modes: ") || line.chars().count() <= 80;
        assert!(stdout.lines().all(is_narrow), "{stdout}");
    }
    assert_eq!(
        run(&dir, &["latency", "monday.jsonl", "--bins", "fixed:0us"]).code,
        2
    );
}

#[test]
fn recordings_are_compared_and_devices_ranked() {
    let dir = recorded();
    let args = [
        "latency",
        "tuesday.jsonl",
        "--name",
        "tue",
        "--compare",
        "mon=monday.jsonl",
        "--compare",
        "again=monday.jsonl",
    ];
    let Run {
        code,
        stdout,
        stderr,
    } = run(
        &dir,
        &[&args[..], &["--top", "1", "-o", "compared.svg"]].concat(),
    );
    assert_eq!(code, 0, "{stderr}");
    let devices: Vec<_> = stdout
        .lines()
        .filter(|line| line.starts_with('n'))
        .collect();
    assert!(
        devices.len() == 3 && devices.iter().all(|line| line.starts_with("n7 ")),
        "{stdout}"
    );
    let shift = ["tue", "100", "105", "us", "+40"];
    let cells: Vec<_> = devices[2].split_whitespace().skip(1).collect();
    assert!(
        cells[..2] == shift[..2] && cells.contains(&"us"),
        "{cells:?}"
    );
    assert!(
        stdout.lines().all(|line| line.chars().count() <= 80),
        "{stdout}"
    );
    let svg = fs::read_to_string(dir.path().join("compared.svg")).unwrap();
    assert!(
        svg.contains("all values: cumulative share") && svg.contains(">again<"),
        "{svg}"
    );
    let all = json(&run(&dir, &[&args[..], &["--format", "json"]].concat()));
    let rows = all["rows"].as_array().unwrap();
    let n7 = rows
        .iter()
        .find(|row| row["name"] == "n7" && row["recording"] == "tue")
        .unwrap();
    let shift = n7["shift_ns"].as_f64().unwrap();
    assert!((shift - 40_000.0).abs() < 400.0, "{n7}");
    assert!(
        n7["distance"].as_f64().unwrap() > 0.8 && n7["by"] == "device",
        "{n7}"
    );
    let again = rows
        .iter()
        .find(|row| row["name"] == "all" && row["recording"] == "again")
        .unwrap();
    assert_eq!(
        (&again["shift_ns"], &again["distance"]),
        (&0.0.into(), &0.0.into())
    );
    for wrong in ["=monday.jsonl", "mon="] {
        assert_eq!(
            run(&dir, &["latency", "tuesday.jsonl", "--compare", wrong]).code,
            2,
            "{wrong}"
        );
    }
}

#[test]
fn counts_of_round_trips_add_up_in_fixed_bins_from_zero() {
    let dir = recorded();
    let bins = [
        "latency",
        "monday.jsonl",
        "--counts",
        "--bins",
        "fixed:10us",
    ];
    let found = json(&run(&dir, &[&bins[..], &["--format", "json"]].concat()));
    let rows = found["rows"].as_array().unwrap();
    let count = |by: Option<&str>, name: &str| {
        let bins = rows.iter().filter(|row| {
            row["by"].as_str() == by && row["name"] == name && row["recording"].is_null()
        });
        bins.map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(count(None, "all"), SLOTS * DEVICES);
    assert_eq!(count(Some("kind"), "hca"), SLOTS * DEVICES / 2);
    assert_eq!(count(Some("device"), "n7"), SLOTS);
    assert!(rows.iter().all(|row| {
        let [start, end] = ["start_ns", "end_ns"].map(|name| row[name].as_u64().unwrap());
        start.is_multiple_of(10_000) && end == start + 10_000
    }));
    let drawn = run(&dir, &[&bins[..], &["-o", "counts.svg"]].concat());
    assert_eq!(drawn.code, 0, "{}", drawn.stderr);
    let svg = fs::read_to_string(dir.path().join("counts.svg")).unwrap();
    assert!(
        svg.contains("all values: number of values, bins of 10 us"),
        "{svg}"
    );
    let two = [
        &bins[..],
        &["--compare", "b=tuesday.jsonl", "--format", "csv"],
    ]
    .concat();
    let csv = run(&dir, &two).stdout;
    assert!(csv.contains(",b,,all,,"), "{csv}");
}

#[test]
fn sweeps_are_reported_as_text_json_and_csv() {
    let dir = recorded();
    let text = run(&dir, &["sweeps", "monday.jsonl", "-o", "sweeps.svg"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    let sampler: Vec<_> = text
        .stdout
        .lines()
        .find(|line| line.starts_with("s "))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        sampler,
        [
            "s", "100", "0", "97.5", "%", "1", "5", "ms", "6", "ms", "500", "us", "500", "us"
        ],
        "{}",
        text.stdout
    );
    assert!(
        fs::read_to_string(dir.path().join("sweeps.svg"))
            .unwrap()
            .contains("duration of sweeps by sampler")
    );
    let found = json(&run(&dir, &["sweeps", "monday.jsonl", "--format", "json"]));
    assert_eq!(found["from_ns"].as_u64(), Some(SLOT * SECOND + 1_000_000));
    let row = &found["rows"][0];
    assert_eq!(
        (
            &row["sampler"],
            &row["slots"],
            &row["complete"],
            &row["lost"]
        ),
        (&"s".into(), &100.into(), &0.975.into(), &1.into())
    );
    for (name, expected) in [("min", 4e6), ("mean", 5e6), ("max", 6e6), ("sd", 1e6)] {
        assert!(
            (row["duration_ns"][name].as_f64().unwrap() - expected).abs() < 1.0,
            "{name}: {row}"
        );
        let decode = if name == "sd" { 0.0 } else { 5e5 };
        assert_eq!(
            row["decode_ns"][name].as_f64(),
            Some(decode),
            "{name}: {row}"
        );
    }
    let csv = run(&dir, &["sweeps", "monday.jsonl", "--format", "csv"]).stdout;
    assert!(
        csv.starts_with(
            "from_ns,to_ns,sampler,ca,ca_port,slots,missed,complete,lost,duration_ns_min,"
        ),
        "{csv}"
    );
    let wrong = run(&dir, &["sweeps", "monday.jsonl", "-o", "sweeps.pdf"]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("FILE.svg or FILE.png"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn histograms_have_all_sweeps_and_queries_up_to_the_longest() {
    let dir = recorded();
    // A sweep that is a hundred times as long as the others.
    let mut text = lines(0);
    text += &format!(
        "{{\"type\":\"sweep\",\"ts\":{},\"slot\":{SLOT},\"sampler\":\"t\",\"ca\":\"sim\",\"ca_port\":1,\"duration_ns\":777000000,\"decode_ns\":500000,\"ports\":40,\"ok\":40}}\n",
        SLOT * SECOND + SECOND / 2
    );
    fs::write(dir.path().join("tail.jsonl"), text).unwrap();
    let bins = ["sweeps", "tail.jsonl", "--bins", "fixed:10ms,fixed:50us"];
    let csv = run(&dir, &[&bins[..], &["--format", "csv"]].concat());
    assert_eq!(csv.code, 0, "{}", csv.stderr);
    let mut found: Vec<(String, [u64; 3])> = Vec::new();
    for line in csv.stdout.lines().skip(1) {
        let cells: Vec<_> = line.split(',').collect();
        found.push((
            format!("{}{}", cells[2], cells[3]),
            [4, 5, 6].map(|cell| cells[cell].parse().unwrap()),
        ));
    }
    let of = |name| {
        let bins = found.iter().filter(move |(other, _)| other == name);
        bins.map(|(_, bin)| *bin)
    };
    let ms = 1_000_000;
    assert_eq!(
        of("sweep").collect::<Vec<_>>(),
        [[0, 10 * ms, SLOTS], [770 * ms, 780 * ms, 1]]
    );
    assert_eq!(of("decode").collect::<Vec<_>>(), [[0, 10 * ms, SLOTS + 1]]);
    for kind in ["queryhca", "queryswitch"] {
        assert_eq!(
            of(kind).map(|[.., count]| count).sum::<u64>(),
            SLOTS * DEVICES / 2,
            "{kind}"
        );
        assert!(
            of(kind).all(|[start, end, _]| start.is_multiple_of(50_000) && end - start == 50_000)
        );
    }
    let rows = json(&run(&dir, &[&bins[..], &["--format", "json"]].concat()));
    assert_eq!(
        rows["rows"][1],
        serde_json::json!({"what": "sweep", "kind": null, "start_ns": 770 * ms, "end_ns": 780 * ms, "count": 1})
    );
    let drawn = run(&dir, &[&bins[..], &["-o", "bins.svg"]].concat());
    assert_eq!(drawn.code, 0, "{}", drawn.stderr);
    let svg = fs::read_to_string(dir.path().join("bins.svg")).unwrap();
    for text in [
        "number of slots by duration, bins of 10 ms",
        "bins of 50 us",
        "600 ms",
    ] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    let wrong = run(&dir, &["sweeps", "tail.jsonl", "--bins", "fixed:10ms,5us"]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("such as fixed:5us (found 5us)"),
        "{}",
        wrong.stderr
    );
}
