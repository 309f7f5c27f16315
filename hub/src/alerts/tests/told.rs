//! What receivers get, and what a failing one does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use super::super::receivers::Receivers;
use super::*;

/// Time after which a test that hangs fails. It is no limit of speed.
const PATIENCE: Duration = Duration::from_secs(600);

/// Starts a server that refuses some requests and then accepts all. Returns its URL, and a receiver
/// of the first line and the body of each request.
fn server(refused: usize) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            let request = request(&stream);
            if number < refused {
                continue;
            }
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(request).is_err() {
                break;
            }
        }
    });
    (url, requests)
}

fn request(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).expect("a line");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let line = line.trim().to_lowercase();
        if let Some(found) = line.strip_prefix("content-length:") {
            length = found.trim().parse().expect("a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (
        first.trim().to_owned(),
        serde_json::from_slice(&body).expect("JSON"),
    )
}

/// Returns a hub whose machine has a firing and a pending alert, and the receivers.
pub(super) fn told(change: impl FnOnce(&mut Raw)) -> (Arc<Hub>, Receivers, Vec<Alert>) {
    let hub = Arc::new(state::new(state::LIMITS));
    let settings = settings(change);
    let (threads, _) = Threads::new();
    let receivers = Receivers::start(&hub, &settings, &threads).expect("started");
    let mut alerts = hub.alerts();
    let mut step = |second, found| alerts.machine.step(at(second), found, |_| true, &settings);
    step(0, vec![dead(1)]);
    let changes = step(120, vec![dead(1), dead(2)]);
    drop(alerts);
    (hub, receivers, changes)
}

fn now(second: u64) -> Now {
    let (monotonic, wall_ns) = at(second);
    Now { monotonic, wall_ns }
}

pub(super) fn wait_for(hub: &Hub, is_expected: impl Fn(&[Value]) -> bool) {
    // Ends a test that hangs after ten minutes.
    for _ in 0..60_000 {
        let found = serde_json::to_value(&hub.alerts().receivers).expect("JSON");
        if is_expected(found.as_array().expect("a list")) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", hub.alerts().receivers);
}

#[test]
fn alertmanager_gets_firing_alerts_again_each_minute() {
    let (url, requests) = server(0);
    let (_hub, mut receivers, changes) = told(|raw| {
        raw.alertmanager = vec![url + "/"];
        raw.watchdog = true;
    });
    receivers.tell(now(120), &changes);
    let (first, body) = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(first, "POST /api/v2/alerts HTTP/1.1");
    assert_eq!(
        body[1],
        json!({
            "labels": {"alertname": "InfinibandHcaDead", "severity": "warning", "fabric": "test", "guid": "0x0000000000000001"},
            "annotations": {"summary": "x", "runbook_url": "file:///usr/share/doc/ibnet/docs/runbook.md#infinibandhcadead"},
            "startsAt": "1970-01-01T00:00:00.000000000Z",
            "endsAt": "1970-01-01T00:06:00.000000000Z",
        })
    );
    let watchdog = (
        &body[0]["labels"]["alertname"],
        body.as_array().map(Vec::len),
    );
    assert_eq!(watchdog, (&json!("IbnetWatchdog"), Some(2)));
    // Nothing is due, then the next message is.
    receivers.tell(now(130), &[]);
    receivers.tell(now(180), &[]);
    let (_, body) = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(body[1]["endsAt"], "1970-01-01T00:07:00.000000000Z");
}

#[test]
fn resolved_alert_has_the_time_of_its_end() {
    let (url, requests) = server(0);
    let (hub, mut receivers, _) = told(|raw| raw.alertmanager = vec![url]);
    let changes = hub
        .alerts()
        .machine
        .step(at(180), Vec::new(), |_| true, &settings(|_| ()));
    receivers.tell(now(180), &changes);
    let (_, body) = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(
        (body.as_array().map(Vec::len), &body[0]["endsAt"]),
        (Some(1), &json!("1970-01-01T00:03:00.000000000Z"))
    );
}

#[test]
fn webhook_gets_each_change_once_after_failed_attempts() {
    let (url, requests) = server(2);
    let (hub, mut receivers, changes) = told(|raw| raw.webhook = url + "/secret?token=secret");
    receivers.tell(now(120), &changes);
    receivers.tell(now(180), &[]);
    let (first, body) = requests.recv_timeout(PATIENCE).expect("a request");
    assert_eq!(first, "POST /secret?token=secret HTTP/1.1");
    assert_eq!(
        [
            &body["fabric"],
            &body["alert"],
            &body["state"],
            &body["guid"]
        ],
        ["test", "InfinibandHcaDead", "firing", "0x0000000000000001"]
    );
    wait_for(&hub, |found| found[0]["sent"] == 1);
    let state = hub.alerts().receivers[0].clone();
    assert_eq!((state.failed, state.dropped, state.error), (2, 0, None));
    assert!(!state.receiver.contains("secret"), "{}", state.receiver);
    assert!(requests.try_recv().is_err(), "one change");
}

#[test]
fn failing_receiver_delays_no_other_one() {
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("bound");
    let silent_url = format!("http://{}", silent.local_addr().expect("an address"));
    let (url, requests) = server(0);
    let (hub, mut receivers, changes) = told(|raw| {
        raw.webhook = silent_url;
        raw.beat = url;
    });
    for second in 0..2000 {
        receivers.tell(now(120 + second), &changes);
    }
    let (_, body) = requests.recv_timeout(PATIENCE).expect("a beat");
    assert_eq!(body, json!({}));
    assert!(hub.alerts().receivers[0].dropped >= 900);
}

/// Writes a shell script. Returns its path.
pub(super) fn script(folder: &Path, text: &str) -> PathBuf {
    let program = folder.join("page");
    std::fs::write(&program, format!("#!/bin/sh\n{text}")).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("mode");
    program
}

#[test]
fn command_reads_the_alert_and_is_run_again_after_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    // It fails at its first run.
    let program = script(
        folder.path(),
        "if [ ! -e \"$1.1\" ]; then touch \"$1.1\"; exit 3; fi\ncat >\"$1\"\n",
    );
    let output = folder.path().join("output");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    // An argument is no text of a shell.
    let argument = text(&output) + "; exit 1 $(touch x)";
    let (hub, mut receivers, changes) =
        told(|raw| raw.command = vec![text(&program), argument.clone()]);
    receivers.tell(now(120), &changes);
    wait_for(&hub, |found| found[0]["sent"] == 1);
    let written = std::fs::read(&argument).expect("written");
    let found: Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(found["id"], "InfinibandHcaDead/0x0000000000000001");
    assert_eq!(hub.alerts().receivers[0].failed, 1);
}

#[test]
fn request_that_is_refused_is_not_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            request(&stream);
            let _ = stream
                .write_all(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let (hub, mut receivers, changes) = told(|raw| raw.webhook = url);
    receivers.tell(now(120), &changes);
    wait_for(&hub, |found| found[0]["dropped"] == 1);
    let state = hub.alerts().receivers[0].clone();
    assert_eq!(
        (state.failed, state.error.as_deref()),
        (1, Some("it answers with the status 404"))
    );
}
