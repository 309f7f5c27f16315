//! `ibnet-view health` and `ibnet-view inventory`.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use ibnet_record::types::Guid;
use serde_json::{Value, json};

use super::{Run, on_lines, run};

/// Time of the first record in nanoseconds since 1970.
const START_NS: u64 = 1_795_000_200_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;

/// Bits that a link of 400 Gb/s receives in a minute.
const BITS: u64 = 25_500_000_000_000;

/// Number of links; one end of each is a port of a switch.
const LINKS: u64 = 12;

/// The counters of one end of a link.
#[derive(Default)]
struct End {
    bits: u64,
    lanes: [u64; 4],
    effective: u64,
    blocks: u64,
    symbols: u64,
    codes: u64,
    downs: u64,
    celsius: f64,
}

/// Returns the GUID and the port of an end, and the name of its device.
fn place(link: u64, is_switch: bool) -> (String, u64, String) {
    if is_switch {
        (Guid(1).to_string(), link + 1, "leaf".to_owned())
    } else {
        (Guid(0x100 + link).to_string(), 1, format!("n{link} mlx5_0"))
    }
}

/// Writes eight hours of readings, one in about a minute. Errors, link downs, resets of counters
/// and temperatures are random; those of link 0 are always good, link 1 loses blocks at both ends,
/// and one lane of link 2 has many more errors than the others. The active FEC is known of the
/// links from 2 on; that of link 3 has stricter limits. Link 0 is disabled once on purpose. The links 9 and 10 have four planes: one of
/// link 9 carries 20 % less than the others, and one of link 10 is down.
fn records(seed: u64) -> String {
    let (mut rng, mut text) = (fastrand::Rng::with_seed(seed), String::new());
    let mut ends: Vec<[End; 2]> = (0..LINKS).map(|_| Default::default()).collect();
    for minute in 0..480 {
        for (link, ends) in (0..).zip(&mut ends) {
            let went_down = link > 2 && rng.u32(..300) == 0;
            for (is_switch, end) in [false, true].into_iter().zip(ends) {
                let ts = START_NS + minute * MINUTE_NS + rng.u64(..MINUTE_NS / 2);
                let ((guid, port, node), (peer_guid, peer_port, peer)) =
                    (place(link, is_switch), place(link, !is_switch));
                if link > 3 && rng.u32(..400) == 0 {
                    *end = End::default();
                }
                end.bits += BITS + rng.u64(..1000);
                for (lane, errors) in end.lanes.iter_mut().enumerate() {
                    let is_worse = link == 2 && lane == 3;
                    *errors += rng.u64(50..150) * if is_worse { 1000 } else { 1 };
                }
                let blocks = match link {
                    0 | 2 => 0,
                    1 => 20,
                    3 => u64::from(rng.u32(..20) == 0),
                    _ => u64::from(rng.u32(..100) == 0),
                };
                end.blocks += blocks;
                end.effective += 160 * blocks;
                let symbols = if link > 3 && rng.u32(..200) == 0 {
                    rng.u64(1..5)
                } else {
                    0
                };
                end.symbols += symbols;
                end.codes += u64::from(symbols > 0);
                end.downs += u64::from(went_down || link > 2 && rng.u32(..500) == 0);
                let wave = ((minute / 5 + link * 7) % 40) as f64 / 4.0;
                end.celsius = 45.0 + wave + if link == 5 { 16.0 } else { 0.0 };
                let common = json!({"ts": ts, "slot": minute, "sampler": "s1", "guid": guid, "port": port, "lid": 1, "node": node});
                let line = |kind: &str, fields: Value| {
                    let mut line = common.clone();
                    line["type"] = kind.into();
                    let fields = fields.as_object().unwrap().clone();
                    line.as_object_mut().unwrap().extend(fields);
                    line
                };
                let of_port = line(
                    "port",
                    json!({
                        "kind": if is_switch { "switch" } else { "hca" }, "hops": 1, "peer_guid": peer_guid, "peer_port": peer_port,
                        "peer": peer, "link": "4xNDR", "link_source": "live", "status": "ok", "rtt_ns": 1, "mads": 1, "identity": "ok",
                    }),
                );
                let mut phy = line(
                    "phy",
                    json!({
                        "phy_received_bits": end.bits, "phy_corrected_bits": end.lanes.iter().sum::<u64>(),
                        "phy_raw_errors_lane": [end.lanes[0], end.lanes[1], end.lanes[2], end.lanes[3], 0, 0, 0, 0],
                        "phy_effective_errors": end.effective, "phy_symbol_errors": end.symbols,
                        "rs_fec_uncorrectable_blocks": end.blocks, "plr_rcv_uncorrectable_code": end.codes,
                        "unintentional_link_down_events": end.downs,
                        "intentional_link_down_events": u64::from(link == 0 && minute > 20), "raw_ber_coef": 2, "raw_ber_magnitude": 11,
                        "hist": [end.bits / 5440, end.lanes[0], end.lanes[0] / 50, end.blocks],
                    }),
                );
                if link == 1 && minute == 300 {
                    for (name, value) in [
                        ("local_reason_opcode", 23),
                        ("remote_reason_opcode", 0),
                        ("e2e_reason_opcode", 23),
                        ("down_blame", 1),
                        ("down_intent", 2),
                    ] {
                        phy[name] = value.into();
                    }
                }
                let _ = writeln!(text, "{of_port}\n{phy}");
                if minute % 5 == 0 {
                    // The cables of the links 7 and 8 are exchanged at the switch.
                    let cable = match (link, is_switch) {
                        (7, true) => 8,
                        (8, true) => 7,
                        _ => link,
                    };
                    let mut module = line(
                        "module",
                        json!({
                            "cable_type": 1, "cable_length": 30, "cable_identifier": 8, "vendor_name": "V", "vendor_pn": "P-1",
                            "vendor_sn": format!("SN{cable:03}"), "temperature_c": end.celsius, "fw_version": 0,
                        }),
                    );
                    // A link that was just down has no FEC, and a device can leave out a page.
                    match (link, minute % 25) {
                        (0 | 1, _) | (_, 10) => {}
                        (_, 5) => module["fec_mode_active"] = 0.into(),
                        (3, _) => module["fec_mode_active"] = (1 << 7).into(),
                        _ => module["fec_mode_active"] = (1 << 13).into(),
                    }
                    if minute % 25 == 15 {
                        let module = module.as_object_mut().unwrap();
                        module.retain(|name, _| {
                            !name.starts_with("cable") && !name.starts_with("vendor")
                        });
                    }
                    let _ = writeln!(text, "{module}");
                    for plane in 1..=if matches!(link, 9 | 10) { 4 } else { 0 } {
                        let (share, state) = match (link, plane) {
                            (9, 3) => (0.8, 3),
                            (10, 2) => (0.0, 2),
                            _ => (1.0, 3),
                        };
                        // A quarter of the link is used, and read after the other planes.
                        let bytes = (end.bits as f64 / 8.0 / 16.0 * share) as u64;
                        let mut record = line(
                            "planes",
                            json!({
                                "planes": 4, "plane": plane, "phy_mngr_fsm_state": state,
                                "port_xmit_data_bytes": bytes, "port_rcv_data_bytes": 0,
                            }),
                        );
                        record["ts"] = (ts + plane * 20_000_000).into();
                        let _ = writeln!(text, "{record}");
                    }
                }
            }
        }
    }
    let sensors = json!({
        "type": "sensors", "ts": START_NS, "sampler": "s1", "guid": Guid(1).to_string(), "port": null, "node": "leaf", "psid": "X1",
        "temperature_c": 61, "fan_under_limit": 5, "fan_over_limit": 8, "product_name": "Switch", "part_number": "P-S", "serial_number": "SW1",
        "extended_major": 31, "extended_minor": 2012, "extended_sub_minor": 1024,
        "sensor_numbers": [0, 2], "sensor_names": ["asic", "board"], "sensor_temperatures_mc": [61_000, 48_125],
        "sensor_max_temperatures_mc": [66_000, 50_000], "fan_numbers": [0, 1], "fan_rpm": [900, 7050],
    });
    // The last record lacks what the switch did not answer.
    let last = json!({
        "type": "sensors", "ts": START_NS + 1, "sampler": "s1", "guid": Guid(1).to_string(), "port": null, "node": "leaf",
        "temperature_c": 62,
    });
    let hca = json!({
        "type": "sensors", "ts": START_NS, "sampler": "s1", "guid": Guid(0x103).to_string(), "port": null, "node": "n3 mlx5_0",
        "psid": "H1", "temperature_c": 70.5, "extended_major": 28, "extended_minor": 39, "extended_sub_minor": 1002,
    });
    let _ = writeln!(text, "{sensors}\n{last}\n{hca}");
    text
}

fn recorded(seed: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lines.jsonl"), records(seed)).unwrap();
    dir
}

fn rows(folder: &std::path::Path, args: &[&str]) -> Vec<Value> {
    let (code, stdout, stderr) = on_lines(folder, &[args, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn worst_links_are_listed_first_with_their_rules() {
    let dir = recorded(1);
    let rows = rows(dir.path(), &["health"]);
    let of = |guid: u64| {
        let guid = Value::from(Guid(guid).to_string());
        rows.iter().find(|row| row["guid"] == guid).unwrap()
    };
    assert_eq!(rows.len() as u64, 2 * LINKS);
    assert_eq!(of(0x100)["verdict"], "good");
    assert_eq!(
        (&of(0x101)["verdict"], &of(0x101)["rules"][0]["rule"]),
        (&"replace".into(), &"effective".into())
    );
    assert_eq!(
        (
            &of(0x102)["verdict"],
            &of(0x102)["rules"][0]["rule"],
            &of(0x102)["rules"][0]["lane"]
        ),
        (&"watch".into(), &"lane".into(), &3.into())
    );
    assert_eq!(
        (&of(0x101)["serial"], &of(0x101)["seen_minutes"]),
        (&"SN001".into(), &125.into())
    );
    let order = ["replace", "clean", "watch", "good"];
    let place = |row: &Value| {
        order
            .iter()
            .position(|verdict| row["verdict"] == *verdict)
            .unwrap()
    };
    assert!(rows.iter().map(place).is_sorted());
    let (code, text, _) = on_lines(dir.path(), &["health", "--check"]);
    assert_eq!(code, 3);
    assert!(
        text.contains("SN001") && text.contains("lane 3: at least"),
        "{text}"
    );
}

#[test]
fn new_cable_has_no_faults_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let verdicts = |serials: &[&str]| {
        let mut text = records(1);
        for (minute, serial) in (480..).zip(serials) {
            for is_switch in [false, true] {
                let (guid, port, node) = place(1, is_switch);
                let module = json!({
                    "type": "module", "ts": START_NS + minute * MINUTE_NS, "slot": minute, "sampler": "s1", "guid": guid,
                    "port": port, "lid": 1, "node": node, "cable_type": 1, "vendor_sn": serial,
                });
                let _ = writeln!(text, "{module}");
            }
        }
        fs::write(dir.path().join("lines.jsonl"), text).unwrap();
        let rows = rows(dir.path(), &["health"]);
        [false, true].map(|is_switch| {
            let (guid, port, _) = place(1, is_switch);
            let is_end = |row: &&Value| row["guid"] == *guid && row["port"] == port;
            let row = rows.iter().find(is_end).unwrap();
            (row["verdict"].clone(), row["raw"].is_null())
        })
    };
    let [old, new] = ["replace", "good"].map(Value::from);
    for (serials, expected) in [
        (&["SN001", ""][..], (old, false)),
        (&["", "SN999"], (new, true)),
    ] {
        assert_eq!(
            verdicts(serials),
            [expected.clone(), expected],
            "{serials:?}"
        );
    }
}

#[test]
fn limits_are_those_of_the_active_fec_and_an_assumption_is_stated() {
    let dir = recorded(1);
    let rows = rows(dir.path(), &["health"]);
    for link in 0..LINKS {
        for row in &rows {
            let (guid, port, _) = place(link, row["guid"] == Guid(1).to_string());
            if (&row["guid"], &row["port"]) != (&guid.into(), &port.into()) {
                continue;
            }
            let expected = match link {
                0 | 1 => "medium, FEC not read",
                3 => "active FEC RS(544,514)",
                _ => "active FEC RS(271,257) with PLR",
            };
            assert_eq!(row["limits_by"], expected, "{row}");
            let why = row["why"].to_string();
            assert_eq!(why.contains("(medium, FEC not read)"), link == 1, "{why}");
            for rule in row["rules"].as_array().unwrap() {
                if rule["rule"] == "effective" {
                    let limits = if link == 3 {
                        [5e-15, 1e-14]
                    } else {
                        [5e-12, 1e-11]
                    };
                    assert!(limits.map(Value::from).contains(&rule["limit"]), "{rule}");
                }
            }
        }
    }
    let is_strict = |row: &Value| {
        let rules = row["rules"].as_array().unwrap();
        rules
            .iter()
            .any(|rule| rule["rule"] == "effective" && rule["limit"] == 1e-14)
    };
    assert!(rows.iter().any(is_strict), "link 3 lost blocks");
    let (_, text, _) = on_lines(dir.path(), &["health"]);
    for line in [
        "limits of bit errors by active FEC RS(271,257) with PLR: 18 ends\n",
        "limits of bit errors by active FEC RS(544,514): 2 ends\n",
        "limits of bit errors by medium, FEC not read: 4 ends\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn planes_that_are_down_or_slow_are_named() {
    let dir = recorded(1);
    for row in rows(dir.path(), &["health"]) {
        let why = row["why"].as_array().unwrap();
        let of_planes: Vec<&str> = why
            .iter()
            .filter_map(Value::as_str)
            .filter(|why| why.starts_with("plane"))
            .collect();
        let is_of = |link: u64| {
            let ends = [place(link, false), place(link, true)];
            ends.iter()
                .any(|(guid, port, _)| row["guid"] == **guid && row["port"] == *port)
        };
        let expected: &[&str] = match (is_of(9), is_of(10)) {
            (true, _) => &["plane 3 carries 20 % less than the others"],
            (_, true) => &["plane 2 is down (state 2)"],
            _ => &[],
        };
        assert_eq!(of_planes, expected, "{row}");
    }
}

#[test]
fn option_of_a_manager_that_is_not_asked_is_refused() {
    let dir = recorded(1);
    for command in ["health", "congestion"] {
        let Run { code, stderr, .. } =
            run(dir.path(), &[command, "lines.jsonl", "--scheduler", "pbs"]);
        assert!(code == 2 && stderr.contains("--scheduler"), "{stderr}");
    }
}

#[test]
fn reason_of_the_last_link_down_is_named() {
    const REASON: &str = "reason 23 (cable unplugged), intended: no, blamed: this end";
    let dir = recorded(1);
    for row in rows(dir.path(), &["health"]) {
        let is_of = [&row["node"], &row["peer"]["node"]].contains(&&"n1 mlx5_0".into());
        let expected = if is_of { REASON.into() } else { Value::Null };
        assert_eq!(row["link_down"], expected, "{row}");
    }
    let (_, text, _) = on_lines(dir.path(), &["health"]);
    let line = format!("\n         last link down: {REASON}\n");
    assert_eq!(text.matches(&line).count(), 2, "{text}");
}

#[test]
fn jobs_on_listed_links_are_named() {
    let dir = recorded(1);
    let jobs = "job,user,nodes,start,end,state\n\
                11,u,n[0-2],2026-11-18T10:00:00Z,2026-11-18T23:00:00Z,COMPLETED\n\
                12,u,n1,2026-11-17T10:00:00Z,2026-11-17T23:00:00Z,COMPLETED\n";
    fs::write(dir.path().join("jobs.csv"), jobs).unwrap();
    let rows = rows(dir.path(), &["health", "--jobs-file", "jobs.csv"]);
    for row in rows {
        let is_near = ["n1 mlx5_0", "n2 mlx5_0"].map(Value::from);
        let is_near = is_near.contains(&row["node"]) || is_near.contains(&row["peer"]["node"]);
        let expected = if is_near && row["verdict"] != "good" {
            json!(["11"])
        } else {
            json!([])
        };
        assert_eq!(row["jobs"], expected, "{row}");
    }
}

#[test]
fn links_are_only_watched_before_125_minutes() {
    let dir = recorded(1);
    let to = (START_NS + 60 * MINUTE_NS) / 1_000_000_000;
    let (code, text, _) = on_lines(dir.path(), &["health", "--check", "--to", &to.to_string()]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains(" (59 of 125 minutes seen)\n"), "{text}");
    let all = format!(
        "\n36 to 59 of 125 minutes seen, so the verdict is good or watch: {} ends\n",
        2 * LINKS
    );
    assert!(text.contains(&all), "{text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?} columns: {text}");
    assert!(text.contains(" 0 replace, 0 clean,"), "{text}");
}

#[test]
fn archive_gives_the_same_verdicts_as_lines() {
    let dir = recorded(2);
    assert_eq!(
        run(dir.path(), &["pack", "lines.jsonl", "-o", "archive"]).code,
        0
    );
    for args in [
        &["health"][..],
        &["inventory"],
        &["health", "--rule", "pdr"],
    ] {
        let mut of_archive = args.to_vec();
        of_archive.insert(1, "archive");
        let (_, lines, _) = on_lines(dir.path(), args);
        assert_eq!(run(dir.path(), &of_archive).stdout, lines);
    }
}

#[test]
fn exchanged_cables_and_slow_fans_are_named() {
    let dir = recorded(1);
    let rows = rows(dir.path(), &["inventory"]);
    assert_eq!(rows.len() as u64, 2 * LINKS + 2);
    assert_eq!(
        (&rows[0]["what"], &rows[0]["remark"]),
        (&"switch".into(), &"slow fans: 0, 2; fast fans: 3".into())
    );
    assert_eq!(rows[0]["firmware"], "31.2012.1024");
    let sensor = |number: u64, name: &str, celsius: f64, max_celsius: f64| json!({"sensor": number, "name": name, "celsius": celsius, "max_celsius": max_celsius});
    let sensors = [
        sensor(0, "asic", 61.0, 66.0),
        sensor(2, "board", 48.125, 50.0),
    ];
    assert_eq!(rows[0]["sensors"], json!(sensors));
    assert_eq!(rows[0]["celsius"], 62.0);
    let fans = rows[0]["fans"].as_array().unwrap().iter();
    let fans: Vec<_> = fans
        .map(|fan| [&fan["fan"], &fan["rpm"], &fan["is_slow"], &fan["is_fast"]])
        .collect();
    let expected = [
        json!([0, 900, true, false]),
        json!([1, 7050, false, false]),
        json!([2, null, true, false]),
        json!([3, null, false, true]),
    ];
    assert_eq!(json!(fans), json!(expected));
    let hca =
        ["what", "port", "node", "firmware", "psid", "celsius"].map(|name| rows[1][name].clone());
    let expected = json!(["hca", 1, "n3 mlx5_0", "28.39.1002", "H1", 70.5]);
    assert_eq!(json!(hca), expected);
    let (_, text, _) = on_lines(dir.path(), &["inventory"]);
    for part in [
        "48 C board",
        "2 x 900 to 7050 rpm",
        "\n1 HCA port\n",
        "n3 mlx5_0 port 1  28.39.1002  H1    70 C",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let remarks: Vec<&str> = rows[2..]
        .iter()
        .filter_map(|row| row["remark"].as_str())
        .collect();
    assert_eq!(remarks.len(), 4, "both ends of two links: {remarks:?}");
    assert!(
        remarks.contains(&"the peer has the serial number SN008; its other end is at leaf port 9")
    );
    let (code, csv, _) = on_lines(dir.path(), &["inventory", "--format", "csv"]);
    assert_eq!((code, csv.lines().count() as u64), (0, 2 * LINKS + 3));
}

#[test]
fn picture_has_a_curve_for_each_of_the_worst_links() {
    let dir = recorded(1);
    let Run { code, stderr, .. } = run(dir.path(), &["health", "lines.jsonl", "-o", "health.svg"]);
    assert_eq!(code, 0, "{stderr}");
    let svg = fs::read_to_string(dir.path().join("health.svg")).unwrap();
    assert!(svg.contains("n1 mlx5_0 port 1 (replace)") && svg.contains("and 12 more"));
}

#[test]
fn input_without_readings_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let ports = records(1)
        .lines()
        .filter(|line| line.contains("\"type\":\"port\""))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    fs::write(dir.path().join("lines.jsonl"), ports).unwrap();
    for command in ["health", "inventory"] {
        let (code, _, stderr) = on_lines(dir.path(), &[command]);
        assert_eq!(code, 1);
        assert!(stderr.contains("[physical]"), "{stderr}");
    }
}

#[test]
fn pdr_counts_intended_link_downs_and_the_verdict_does_not() {
    let dir = recorded(1);
    for is_switch in [false, true] {
        let (guid, port, _) = place(0, is_switch);
        let is_end = |row: &Value| row["guid"] == *guid && row["port"] == port;
        let decided = rows(dir.path(), &["health", "--rule", "pdr"]);
        let decided: Vec<_> = decided.iter().filter(|row| is_end(row)).collect();
        assert_eq!(
            (&decided[0]["action"], &decided[0]["reason"]),
            (&"isolate".into(), &"link_down".into()),
            "{decided:?}"
        );
        let judged = rows(dir.path(), &["health"]);
        let judged = judged.iter().find(|row| is_end(row)).unwrap();
        assert_eq!(
            (&judged["verdict"], &judged["downs"]),
            (&"good".into(), &0.into())
        );
    }
}

/// Recomputes the ratios, their intervals and the decisions of the PDR rule by a script that shares
/// no code with the program.
#[test]
fn independent_script_computes_the_same_numbers_and_decisions() {
    const SCRIPT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/recompute/script/health.py"
    );
    for seed in 1..=3 {
        let dir = recorded(seed);
        let output = Command::new("python3")
            .arg(SCRIPT)
            .arg(env!("CARGO_BIN_EXE_ibnet-view"))
            .arg(dir.path().join("lines.jsonl"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "seed {seed}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            text.contains("isolate symbols") && text.contains("isolate link_down"),
            "{text}"
        );
    }
}
