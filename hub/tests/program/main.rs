//! The program `ibnet-hub` as a whole: it simulates a fabric, reads sockets and files, and serves
//! clients.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ibnet::topology::synthetic::FatTree;
use serde_json::{Value, json};
use tungstenite::{Bytes, Message};

use self::hub::Hub;

mod archive;
mod hub;
#[cfg(feature = "nats")]
mod with_nats;
mod with_tools;

fn number(octets: &[u8], at: usize, length: usize) -> u64 {
    octets[at..at + length]
        .iter()
        .rev()
        .fold(0, |number, octet| number << 8 | u64::from(*octet))
}

/// Returns the text of the last record of a port, and of the sums of its slot.
fn lines(sampler: &str, slot: u64, utilization: f64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let port = json!({
        "type": "port", "ts": slot * SECOND + 1000, "slot": slot, "sampler": sampler, "guid": "0x0000000000000001", "port": 1, "lid": 1,
        "node": "<b>leaf</b>", "kind": "switch", "peer_guid": "0x0000000000000101", "peer_port": 1, "peer": "n1", "link": "4xEDR",
        "link_source": "live", "status": "ok", "rtt_ns": 5, "mads": 1, "identity": "ok", "port_xmit_pkts": slot,
        "dt_ns": SECOND, "xmit_gbps": 100.0 * utilization, "rcv_gbps": 0.0, "xmit_utilization": utilization, "rcv_utilization": 0.0, "xmit_blocked": 0.0,
    });
    let sweep = json!({"type": "sweep", "ts": slot * SECOND + 2000, "slot": slot, "sampler": sampler, "ca": "x", "ca_port": 1, "role": "primary", "duration_ns": 2000, "ports": 1, "ok": 1});
    format!("{port}\n{sweep}\n")
}

fn start_line(sampler: &str, pid: u32) -> String {
    json!({"type": "start", "ts": 1, "slot": 1, "sampler": sampler, "schema": 1, "version": "x", "boot_id": "b", "pid": pid, "ca": "x", "ca_port": 1, "role": "primary", "interval_ns": 1_000_000_000_u64, "ports": 1}).to_string() + "\n"
}

/// Net file of two hosts at one switch.
const NET: &str = "\
CA    2  1 0x0000000000000101 4x EDR - SW    1  1 0x0000000000000001 ( 'n1 mlx5_0' - 'leaf' )
CA    3  1 0x0000000000000102 4x EDR - SW    1  2 0x0000000000000001 ( 'n2 mlx5_0' - 'leaf' )
SW    1  1 0x0000000000000001 4x EDR - CA    2  1 0x0000000000000101 ( 'leaf' - 'n1 mlx5_0' )
SW    1  2 0x0000000000000001 4x EDR - CA    3  1 0x0000000000000102 ( 'leaf' - 'n2 mlx5_0' )
";

#[test]
fn samplers_of_an_input_with_a_page_are_linked_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| folder.path().join(file).display().to_string();
    fs::write(name("a.jsonl"), start_line("a", 1) + &lines("a", 1000, 0.1)).unwrap();
    let other = lines("b", 1000, 0.1).replace("0x0000000000000001", "0x0000000000000002");
    fs::write(name("b.jsonl"), start_line("b", 1) + &other).unwrap();
    let config = format!(
        "inputs = [{{ url = \"file:{}\", page = \"https://hub1:8080\" }}, \"file:{}\"]\n",
        name("a.jsonl"),
        name("b.jsonl")
    );
    fs::write(name("hub.toml"), config).unwrap();
    let hub = Hub::start(&["-c", &name("hub.toml")]);
    hub.wait_for("health", |health| health["records"] == 2);
    let has_both = |found: &Value| found["rows"].as_array().is_some_and(|rows| rows.len() == 2);
    let samplers = hub.wait_for("samplers", has_both);
    let pages = ["a", "b"].map(|sampler| {
        let mut rows = samplers["rows"].as_array().unwrap().iter();
        rows.find(|row| row["sampler"] == sampler).unwrap()["part_page"].clone()
    });
    assert_eq!(pages, [json!("https://hub1:8080"), json!(null)]);
    for (guid, page) in [(1, json!("https://hub1:8080")), (2, json!(null))] {
        let port = hub.get(&format!("port/0x{guid:016x}/1"));
        assert_eq!(port["part_page"], page);
    }
}

#[test]
fn simulated_fabric_is_shown_live() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("net.p");
    fs::write(&net, NET).unwrap();
    let hub = Hub::start(&["--simulate", net.to_str().unwrap()]);
    let mut live = hub.live();
    live.send(Message::text(
        r#"{"metrics":["xmit_utilization","xmit_blocked"]}"#,
    ))
    .unwrap();
    // The sampler of a busy machine misses slots and reads late. So the test takes the first two
    // slots in a row, and the first record that was read in its slot.
    let (mut generation, mut frames) = (0, Vec::<Bytes>::new());
    let (topology, value) = loop {
        match live.read().unwrap() {
            Message::Text(text) => {
                let head: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(
                    (&head["metrics"], &head["interval_ns"]),
                    (
                        &json!(["xmit_utilization", "xmit_blocked"]),
                        &json!(1_000_000_000)
                    )
                );
                generation = head["generation"].as_u64().unwrap();
                frames.clear();
            }
            Message::Binary(frame) => frames.push(frame),
            other => panic!("{other}"),
        }
        let [.., before, last] = &frames[..] else {
            continue;
        };
        let (before, slot) = (number(before, 8, 8), number(last, 8, 8));
        assert!(before < slot, "one frame for each slot: {before}, {slot}");
        let topology = hub.get("topology");
        if slot > before + 1 || topology["generation"] != generation {
            continue;
        }
        // The value in the frame is the value of the series at the time of this slot.
        let series = hub.get("series?port=0x0000000000000001/1&metric=xmit_utilization");
        let place = series["t"]
            .as_array()
            .unwrap()
            .iter()
            .position(|t| t.as_u64().unwrap() / 1_000_000_000 == slot);
        if let Some(value) = place.and_then(|place| series["v"][place].as_f64()) {
            break (topology, value);
        }
    };
    let ports = topology["ports"].as_array().unwrap();
    assert_eq!(
        (ports.len(), &ports[0]["node"], &ports[1]["node"]),
        (4, &json!("leaf"), &json!("n1 mlx5_0"))
    );
    for frame in &frames {
        assert_eq!(
            (
                &frame[..4],
                number(frame, 4, 4),
                number(frame, 24, 4),
                frame.len()
            ),
            (&b"IBB1"[..], generation, 4, 32 + 2 * 2 * 4)
        );
    }
    assert_eq!(
        number(frames.last().unwrap(), 32, 2),
        (value * 64_000.0).round() as u64
    );
    assert_eq!(hub.get("health")["simulated"], true);
    assert_eq!(hub.stop(), Some(0));
}

#[test]
fn lost_connection_of_a_sampler_is_counted_and_opened_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let input = format!("tcp://{}", listener.local_addr().unwrap());
    let hub = Hub::start(&["--input", &input]);
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .write_all((start_line("s", 1) + &lines("s", 100, 0.5) + &lines("s", 101, 0.5)).as_bytes())
        .unwrap();
    hub.wait_for("health", |health| health["last_slot"] == 101);
    drop(stream);
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .write_all((start_line("s", 1) + &lines("s", 105, 0.25)).as_bytes())
        .unwrap();
    let health = hub.wait_for("health", |health| health["last_slot"] == 105);
    assert_eq!(
        (
            &health["inputs"][0]["lost"],
            &health["inputs"][0]["connections"],
            &health["records"]
        ),
        (&json!(1), &json!(2), &json!(3))
    );
    let samplers = hub.get("samplers");
    assert_eq!(
        (
            &samplers["rows"][0]["slots_lost"],
            &samplers["rows"][0]["restarts"]
        ),
        (&json!(3), &json!(0))
    );
    let names: Vec<_> = hub.get("events")["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["event"].clone())
        .collect();
    assert!(
        names.contains(&json!("input_lost")) && names.contains(&json!("input_back")),
        "{names:?}"
    );
    let series = hub.get("series?port=0x0000000000000001/1&metric=port_xmit_pkts");
    assert_eq!(series["v"], json!([100, 101, 105]));
    // Names are data: the page escapes them, the interface does not change them.
    assert_eq!(hub.get("port/0x0000000000000001/1")["node"], "<b>leaf</b>");
}

#[test]
fn files_are_read_again_after_a_restart_of_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.jsonl");
    let pattern = format!("file:{}/lines*.jsonl", folder.path().display());
    fs::write(&path, start_line("s", 1) + &lines("s", 100, 0.5)).unwrap();
    let count =
        |hub: &Hub, records: u64| hub.wait_for("health", |health| health["records"] == records);
    let hub = Hub::start(&["--input", &pattern, "--recent", "7days"]);
    count(&hub, 1);
    append(&path, &lines("s", 101, 0.5));
    count(&hub, 2);
    fs::rename(&path, folder.path().join("lines-1.jsonl")).unwrap();
    append(&path, &(start_line("s", 1) + &lines("s", 102, 0.5)));
    let health = count(&hub, 3);
    assert_eq!(
        (
            &health["counts"]["copies"],
            &health["inputs"][0]["malformed"]
        ),
        (&json!(0), &json!(0))
    );
    assert_eq!(hub.stop(), Some(0));
    // The file times are of now, the records are old: files are chosen by their times.
    let again = Hub::start(&["--input", &pattern, "--input", &pattern]);
    let health = again.wait_for("health", |health| health["counts"]["copies"] == 3);
    assert_eq!(health["records"], 3, "two inputs with the same records");
}

#[test]
fn standard_input_is_read_to_its_end() {
    let (hub, mut input) = Hub::reading(&["--recent", "7days"]);
    input
        .write_all((start_line("s", 1) + &lines("s", 100, 0.5) + "no record\n").as_bytes())
        .unwrap();
    let health = hub.wait_for("health", |health| health["records"] == 1);
    assert_eq!(health["inputs"][0]["connected"], true);
    drop(input);
    let health = hub.wait_for("health", |health| health["inputs"][0]["connected"] == false);
    assert_eq!(
        (&health["records"], &health["inputs"][0]["malformed"]),
        (&json!(1), &json!(1)),
        "the records stay"
    );
}

#[test]
fn jobs_of_a_file_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    let header = "job,user,nodes,start,end,state\n";
    fs::write(&path, format!("{header}7,user01,n[1-2],1700000100,1700000200,completed\n8,user01,n3,1700000300,,running\n")).unwrap();
    let config = folder.path().join("hub.toml");
    fs::write(
        &config,
        format!("jobs = \"{}\"\nhide_users = true\n", path.display()),
    )
    .unwrap();
    let hub = Hub::start(&[
        "-c",
        config.to_str().unwrap(),
        "--input",
        &format!("file:{}/none", folder.path().display()),
    ]);
    let jobs = hub.wait_for("jobs", |jobs| jobs["known"] == 2);
    assert_eq!(
        (
            &jobs["running"],
            &jobs["rows"][0]["job"],
            &jobs["rows"][0]["user"]
        ),
        (&json!(1), &json!("8"), &json!(null))
    );
    assert_eq!(hub.get("jobs?q=n2")["rows"][0]["job"], "7");
    assert_eq!(hub.get("job/7")["missing"], json!(["n1", "n2"]));
}

fn append(path: &Path, text: &str) {
    fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

#[test]
fn foreign_hosts_and_sites_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hub = Hub::start(&["--input", &format!("file:{}/none", folder.path().display())]);
    let path = "/api/v1/health";
    assert_eq!(hub.request(path, "").0, 200);
    assert_eq!(hub.request(path, "Host: evil.example\r\n").0, 421);
    assert_eq!(hub.request(path, "Origin: http://evil.example\r\n").0, 403);
    assert_eq!(hub.request("/", "Host: evil.example:80\r\n").0, 421);
    let stream = TcpStream::connect(&hub.address).unwrap();
    let request = tungstenite::http::Request::get(format!("ws://{}/api/v1/live", hub.address))
        .header("Host", &hub.address)
        .header("Origin", "http://evil.example")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(())
        .unwrap();
    assert!(
        tungstenite::client(request, stream).is_err(),
        "a WebSocket of another site"
    );
    // The hub closes the connection of a large request, at the latest after its answer.
    let mut stream = TcpStream::connect(&hub.address).unwrap();
    let _ = write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n",
        hub.address,
        "x".repeat(100_000)
    );
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "a large request");
}

#[test]
fn wrong_arguments_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub.toml");
    fs::write(&file, "lisen = \"x\"\n").unwrap();
    let (secret, short) = (
        folder.path().join("secret.toml"),
        folder.path().join("password"),
    );
    fs::write(&short, "short").unwrap();
    fs::set_permissions(&short, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(
        &secret,
        format!("inputs = [\"-\"]\npassword_file = {short:?}\n"),
    )
    .unwrap();
    let refused = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ibnet-hub"))
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for (arguments, expected) in [
        (&[][..], "there is no input"),
        (&["--input", "ftp://x"], "cannot use the input \"ftp://x\""),
        (
            &["--input", "-", "--listen", "0.0.0.0:8080"],
            "tls_cert, tls_key, password_file",
        ),
        (&["--input", "-", "--recent", "soon"], "cannot use recent"),
        (&["-c", file.to_str().unwrap()], "hub.toml:1: "),
        (
            &["-c", secret.to_str().unwrap()],
            "password for password_file: the password is shorter than 16 characters",
        ),
        (
            &["--input", "-", "--group", "oss*"],
            "cannot use groups: expected NAME=HOSTLIST",
        ),
        (
            &["--simulate", "/nonexistent"],
            "cannot read the net file /nonexistent",
        ),
    ] {
        let (code, text) = refused(arguments);
        assert!(
            code == Some(1) && text.contains(expected),
            "{arguments:?}: {text}"
        );
    }
    assert_eq!(refused(&["--no-such-flag"]).0, Some(2));
}

#[test]
fn users_mark_alerts_and_nobody_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("tokens"), "ada 0123456789abcdef\n").unwrap();
    fs::set_permissions(path("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path("net.p"), NET).unwrap();
    let write = |name: &str, users: &str| {
        let text = format!(
            "simulate = {:?}\n[simulated]\ndead = [\"n2\"]\n[alerts]\nmarks = {:?}\nhold = [\"InfinibandHcaDead=0s\"]\n{users}",
            path("net.p"),
            path("marks.json")
        );
        fs::write(path(name), text).unwrap();
    };
    write("without.toml", "");
    write(
        "with.toml",
        &format!("[users]\ntokens_file = {:?}\n", path("tokens")),
    );
    let id = "InfinibandHcaDead/0x0000000000000102";
    let body = |id: &str, silent: bool, until_ns: u64| {
        json!({"id": id, "why": "at the vendor", "silent": silent, "until_ns": until_ns})
            .to_string()
    };
    let token = "Ibnet-Token: 0123456789abcdef\r\n";
    let without = Hub::start(&["-c", path("without.toml").to_str().unwrap()]);
    assert_eq!(
        without.post("alerts/mark", token, &body(id, true, 1)).0,
        405
    );
    assert_eq!(without.stop(), Some(0));
    let hub = Hub::start(&["-c", path("with.toml").to_str().unwrap()]);
    hub.wait_for("alerts", |alerts| alerts["firing"] == 1);
    let until = hub.get("health")["now_ns"].as_u64().unwrap() + 3_600_000_000_000;
    for (headers, body, status) in [
        ("", body(id, true, until), 403),
        (
            "Ibnet-Token: 0123456789abcdee\r\n",
            body(id, true, until),
            403,
        ),
        (
            "Origin: http://evil.example\r\nIbnet-Token: 0123456789abcdef\r\n",
            body(id, true, until),
            403,
        ),
        (token, "{}".to_owned(), 400),
        (token, body("x", true, until), 404),
        (token, body(id, true, u64::MAX), 400),
        (token, "x".repeat(100_000), 400),
    ] {
        let (found, text) = hub.post("alerts/mark", headers, &body);
        assert_eq!(found, status, "{headers} {text}");
    }
    assert_eq!(hub.post("health", token, "{}").0, 405, "no other address");
    let (status, text) = hub.post("alerts/mark", token, &body(id, true, until));
    assert_eq!(status, 200, "{text}");
    let alerts = hub.get("alerts");
    let row = alerts["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == id);
    assert_eq!(
        (&alerts["firing"], &row.unwrap()["mark"]["by"]),
        (&json!(0), &json!("ada"))
    );
    // The file is written at the next look, and the mark outlives the hub.
    hub.wait_for("alerts", |_| path("marks.json").exists());
    assert_eq!(hub.stop(), Some(0));
    let hub = Hub::start(&["-c", path("with.toml").to_str().unwrap()]);
    let is_marked = |row: &Value| row["id"] == id && row["mark"]["why"] == "at the vendor";
    hub.wait_for("alerts", |alerts| {
        alerts["rows"].as_array().unwrap().iter().any(is_marked)
    });
}

#[test]
fn command_gets_each_change_once_over_a_restart() {
    const TREE: FatTree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("net.p"), TREE.blueprint().ports_report()).unwrap();
    let script = format!("#!/bin/sh\n(cat; echo) >>{:?}\n", path("told"));
    fs::write(path("page"), script).unwrap();
    fs::set_permissions(path("page"), fs::Permissions::from_mode(0o700)).unwrap();
    let start = |dead: [&str; 2]| {
        let config = format!(
            "simulate = {:?}\n[simulated]\ndead = {dead:?}\n[alerts]\nstate = {:?}\ncommand = [{:?}]\nhold = [\"InfinibandHcaDead=0s\"]\nrecovery = \"0s\"\n",
            path("net.p"),
            path("alerts"),
            path("page")
        );
        fs::write(path("hub.toml"), config).unwrap();
        Hub::start(&["-c", path("hub.toml").to_str().unwrap()])
    };
    let told = || -> Vec<String> {
        let text = fs::read_to_string(path("told")).unwrap_or_default();
        // The last line can be half written.
        let rows = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let hosts = rows.filter(|row: &Value| row["alert"] == "InfinibandHcaDead");
        let name = |row: Value| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let node = text("node");
            format!(
                "{} {}",
                node.split(' ').next().unwrap_or_default(),
                text("state")
            )
        };
        hosts.map(name).collect()
    };
    let hub = start(["node00004", "node00005"]);
    hub.wait_for("alerts", |alerts| {
        told().len() == 2 && alerts["receivers"][0]["sent"].as_u64() >= Some(2)
    });
    assert_eq!(hub.stop(), Some(0));
    // One host answers again, one is dead as before, and another one is dead now.
    let hub = start(["node00005", "node00006"]);
    hub.wait_for("alerts", |_| told().len() >= 4);
    assert_eq!(hub.stop(), Some(0));
    let expected = [
        "node00004 firing",
        "node00005 firing",
        "node00004 resolved",
        "node00006 firing",
    ];
    assert_eq!(told(), expected);
}

#[test]
fn users_post_marks_which_outlive_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let tokens = "ada 0123456789abcdef\neve fedcba9876543210\n";
    fs::write(path("tokens"), tokens).unwrap();
    fs::set_permissions(path("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
    let input = format!("inputs = [\"file:{}/none\"]\n", folder.path().display());
    fs::write(path("without.toml"), &input).unwrap();
    let users = format!(
        "[users]\ntokens_file = {:?}\nmarks_file = {:?}\n",
        path("tokens"),
        path("posted.json")
    );
    fs::write(path("with.toml"), input + &users).unwrap();
    let (ada, eve) = (
        "Ibnet-Token: 0123456789abcdef\r\n",
        "Ibnet-Token: fedcba9876543210\r\n",
    );
    let without = Hub::start(&["-c", path("without.toml").to_str().unwrap()]);
    let body = json!({"name": "deploy"}).to_string();
    assert_eq!(without.post("marks", ada, &body).0, 405);
    assert_eq!(without.stop(), Some(0));

    let hub = Hub::start(&["-c", path("with.toml").to_str().unwrap()]);
    let foreign = format!("Origin: http://evil.example\r\n{ada}");
    let long = json!({"name": "x".repeat(201)}).to_string();
    let control = json!({"name": "a\u{7}b"}).to_string();
    let unknown = json!({"name": "a", "x": 1}).to_string();
    for (headers, body, status, reason) in [
        ("", &body, 403, "names no user"),
        (
            "Ibnet-Token: 0123456789abcdee\r\n",
            &body,
            403,
            "names no user",
        ),
        (&foreign, &body, 403, "other sites"),
        (ada, &long, 400, "200 bytes"),
        (ada, &control, 400, "control characters"),
        (ada, &unknown, 400, "unknown field"),
        (ada, &"x".repeat(100_000), 400, "16 KiB"),
    ] {
        let (found, text) = hub.post("marks", headers, body);
        assert!(found == status && text.contains(reason), "{headers} {text}");
    }
    assert_eq!(
        hub.get("marks?from=0&to=9000000000000000000")["rows"],
        json!([])
    );
    let second = 1_000_000_000_u64;
    let start = hub.get("health")["now_ns"].as_u64().unwrap() - 100 * second;
    let moment = json!({"name": "deploy 1.2", "start_ns": start, "nodes": "n[1-3]", "job": "7"});
    let span = json!({"name": "test", "start_ns": start + second, "end_ns": start + 9 * second});
    for (headers, mark) in [(ada, &moment), (eve, &span)] {
        let (status, text) = hub.post("marks", headers, &mark.to_string());
        assert_eq!(status, 200, "{text}");
    }
    assert_eq!(hub.stop(), Some(0));

    let hub = Hub::start(&["-c", path("with.toml").to_str().unwrap()]);
    let rows = |query: &str| hub.get(&format!("marks?{query}"))["rows"].clone();
    // A moment is in the range that begins with it, and not in the one that ends with it.
    let all = rows(&format!("from={start}&to={}", start + 90 * second));
    let expected = json!([
        {"name": "deploy 1.2", "nodes": "n[1-3]", "start_ns": start, "end_ns": start, "value": null, "kind": "mark", "id": 1,
            "by": "ada", "job": "7"},
        {"name": "test", "nodes": null, "start_ns": start + second, "end_ns": start + 9 * second, "value": null, "kind": "mark",
            "id": 2, "by": "eve", "job": null},
    ]);
    assert_eq!(all, expected);
    assert_eq!(rows(&format!("from=0&to={start}")), json!([]));
    let of_another = format!("node=n4&from={start}&to={}", start + 90 * second);
    assert_eq!(rows(&of_another)[0]["id"], 2);
    // Only its user removes a mark.
    let id = |id: u64| json!({ "id": id }).to_string();
    assert_eq!(hub.post("marks/remove", eve, &id(1)).0, 403);
    assert_eq!(hub.post("marks/remove", eve, &id(9)).0, 404);
    assert_eq!(hub.post("marks/remove", ada, &id(1)).0, 200);
    let left = rows(&format!("from={start}&to={}", start + 90 * second));
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["id"]),
        (1, &json!(2))
    );
}
