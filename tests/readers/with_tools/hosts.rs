//! Metrics of hosts beside the fabric: a real Prometheus scrapes a simulated fleet of exporters and
//! a real node_exporter, the collector of the documentation runs, and `ibnet-view` reads both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;

use super::prometheus::{Prometheus, Running};
use crate::recorded;
use crate::tools::{self, SWEEP, TIMEOUT};

const DOCUMENTATION: &str = include_str!("../../../docs/hosts.md");

/// Slots with the scenario of the fleet.
const STORMS: &str = "interval = \"250ms\"\n[simulated]\nscenario = \"storms\"\nscenario_start = \"1s\"\nscenario_length = \"2s\"\n";

/// Seconds after which the storms are over.
const STORMS_SECONDS: u64 = 7;

/// Host that does not accept connections: no program listens on this port.
const CLOSED: &str = "127.0.0.1:1";

const SECOND_NS: u64 = 1_000_000_000;

fn view() -> Option<PathBuf> {
    tools::built(Path::new(SWEEP).with_file_name("ibnet-view"))
}

/// Repeats until a condition is true.
fn until(what: &str, is_true: impl Fn() -> bool) {
    const WAIT: Duration = Duration::from_millis(50);
    let is_in_time = (0..TIMEOUT.as_millis() / WAIT.as_millis()).any(|_| {
        let is_true = is_true();
        if !is_true {
            thread::sleep(WAIT);
        }
        is_true
    });
    assert!(is_in_time, "{what} did not happen");
}

fn start(dir: &Path, program: &Path, args: &[&str]) -> Child {
    Command::new(program)
        .current_dir(dir)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the rows of a heat map by metric and host, and what was written to standard error.
fn rows(
    view: &Path,
    dir: &Path,
    source: &str,
    more: &[&str],
) -> (BTreeMap<(String, String), Value>, String) {
    let args = [
        "heatmap",
        "lines.jsonl",
        "--by",
        "host",
        "--format",
        "json",
        "--host-metrics",
        source,
    ];
    let done = Command::new(view)
        .current_dir(dir)
        .args(args)
        .args(more)
        .output()
        .unwrap();
    let notes = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{notes}");
    let document: Value = serde_json::from_slice(&done.stdout).unwrap();
    let key = |row: &Value| {
        (
            row["metric"].as_str().unwrap().to_owned(),
            row["node"].as_str().unwrap().to_owned(),
        )
    };
    (
        document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (key(row), row.clone()))
            .collect(),
        notes,
    )
}

fn cells(row: &Value) -> Vec<(&str, Option<f64>)> {
    row["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| (cell["state"].as_str().unwrap(), cell["value"].as_f64()))
        .collect()
}

/// Returns the sum of a row over time, in its unit times seconds.
fn total(row: &Value) -> f64 {
    let seconds = row["bin_ns"].as_f64().unwrap() / 1e9;
    cells(row)
        .iter()
        .filter_map(|(_, value)| *value)
        .sum::<f64>()
        * seconds
}

#[expect(
    clippy::disallowed_methods,
    reason = "Prometheus reads now, and the records have the same time"
)]
fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos()
        .try_into()
        .unwrap()
}

#[test]
fn prometheus_has_the_storms_of_the_fabric_on_the_hosts() {
    let fleet = tools::built(
        Path::new(SWEEP)
            .with_file_name("examples")
            .join("host_exporters"),
    );
    let (Some(prometheus), Some(view), Some(fleet)) = (tools::prometheus(), view(), fleet) else {
        return;
    };
    let Some(exporter) = tools::node_exporter() else {
        return;
    };
    let dir = tools::small();
    let dir = dir.path();
    let scenario = [
        "--net", "net.p", "--start", "1s", "--length", "2s", "--begin", "begin",
    ];
    let files = ["--listen", "127.0.0.1:0", "--prometheus", "fleet.yml"];
    let _fleet = Running(start(dir, &fleet, &[&scenario[..], &files].concat()));
    let mut exporter = Running(start(
        dir,
        &exporter,
        &[
            "--collector.mountstats",
            "--web.listen-address",
            "127.0.0.1:0",
        ],
    ));
    until("the fleet", || dir.join("fleet.yml").exists());
    let jobs = fs::read_to_string(dir.join("fleet.yml")).unwrap();
    let jobs = jobs.split_once("scrape_configs:\n").unwrap().1;
    let real = format!(
        "- job_name: real\n  static_configs: [{{targets: ['{}']}}]\n",
        exporter.address()
    );
    let prometheus = Prometheus::start(&prometheus, dir, &(jobs.to_owned() + &real));
    prometheus.wait("node_uname_info{job='real'}", |series| series.len() == 1);
    // Prometheus has read each host before the storms begin, and again when they are over.
    prometheus.wait("up{job='node'} == 1", |series| series.len() == 6);
    fs::write(dir.join("begin"), "").unwrap();
    let begin = fs::metadata(dir.join("begin"))
        .unwrap()
        .modified()
        .unwrap()
        .duration_since(UNIX_EPOCH)
        .unwrap();
    let over = (begin + Duration::from_secs(STORMS_SECONDS)).as_secs_f64();
    let read = prometheus.wait("timestamp(up{job='node'} == 1)", |series| {
        series.len() == 6 && series.iter().all(|(_, time)| *time > over)
    });
    // The records have the storms at the same time, and end after the last of these readings.
    let begin_ns = u64::try_from(begin.as_nanos()).unwrap();
    let last = read.iter().map(|(_, time)| *time).fold(0.0, f64::max) - begin.as_secs_f64();
    recorded::record(dir, STORMS, 4 * (last as u64 + 3), begin_ns);

    let url = format!("http://{}", prometheus.address);
    let (found, notes) = rows(&view, dir, &url, &[]);
    assert!(notes.contains("no source has the metric lustre"), "{notes}");
    let hosts: Vec<&str> = found
        .keys()
        .filter(|(metric, _)| metric == "ipoib")
        .map(|(_, host)| &**host)
        .collect();
    assert_eq!(hosts.len(), 6, "{hosts:?}");
    let of = |metric: &str, host: &str| total(&found[&(metric.to_owned(), host.to_owned())]);
    // The last host is the server: it receives and sends no requests.
    let (server, clients) = hosts.split_last().unwrap();
    assert!(of("ipoib", server) > 1e9, "{}", of("ipoib", server));
    for client in clients {
        assert!(
            of("nfs", client) > 100.0 && of("nfs", client) > 5.0 * of("nfs", server),
            "{client}: {}",
            of("nfs", client)
        );
        assert!(
            of("ipoib", client) > 1e9,
            "{client}: {}",
            of("ipoib", client)
        );
        // IPoIB is a part of the traffic of the port.
        let sent = of("xmit_gbps", client) * 1e9 / 8.0;
        assert!(of("ipoib", client) < 20.0 * sent + 1e9, "{client}: {sent}");
    }
    // The machine of this test is not in the fabric.
    let (_, notes) = rows(
        &view,
        dir,
        &url,
        &[
            "--host-metric",
            "ipoib",
            "--host-metric",
            "node_network_*_packets_total",
            "--host-metric",
            "nfs",
        ],
    );
    assert!(
        notes.contains("hosts of the sources that are not selected or not in the records: 1"),
        "{notes}"
    );
    check_long_range(&view, dir, &url);
    check_errors(&view, dir, &url);
}

/// Checks that Prometheus accepts the queries for a long time range.
fn check_long_range(view: &Path, dir: &Path, url: &str) {
    // The first record gets a time of eight hours before.
    let text = fs::read_to_string(dir.join("lines.jsonl")).unwrap();
    let first = text
        .lines()
        .find(|line| line.contains("\"type\":\"port\"") && line.contains("\"kind\":\"hca\""))
        .unwrap();
    let mut early: Value = serde_json::from_str(first).unwrap();
    for (field, by) in [("ts", 8 * 3600 * 1_000_000_000_u64), ("slot", 8 * 3600 * 4)] {
        early[field] = (early[field].as_u64().unwrap() - by).into();
    }
    fs::write(dir.join("early.jsonl"), format!("{early}\n")).unwrap();
    let args = [
        "heatmap",
        "early.jsonl",
        "lines.jsonl",
        "--by",
        "host",
        "--format",
        "json",
        "--host-metrics",
        url,
    ];
    let done = Command::new(view)
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let document: Value = serde_json::from_slice(&done.stdout).unwrap();
    let ipoib = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["metric"] == "ipoib");
    let states: Vec<Vec<&str>> = ipoib
        .map(|row| cells(row).into_iter().map(|(state, _)| state).collect())
        .collect();
    assert!(
        !states.is_empty() && states.iter().all(|states| states.contains(&"no_record")),
        "eight hours without data are not zero"
    );
    assert!(
        states.iter().all(|states| states.contains(&"value")),
        "{states:?}"
    );
}

fn check_errors(view: &Path, dir: &Path, url: &str) {
    let closed = format!("http://{CLOSED}");
    for (source, metric, expected) in [
        (&*closed, "nfs", "cannot reach Prometheus"),
        (&*format!("{url}/wrong"), "nfs", "HTTP status 404"),
        (
            url,
            "node_nfs_request_total",
            "did you mean --host-metric node_nfs_requests_total?",
        ),
        (
            url,
            "lustre",
            "queries without a result: {__name__=\"lustre_read_bytes_total\"}",
        ),
        ("net.p", "nfs", "cannot read net.p:1: "),
    ] {
        let args = [
            "heatmap",
            "lines.jsonl",
            "-o",
            "x.png",
            "--host-metrics",
            source,
            "--host-metric",
            metric,
        ];
        let done = Command::new(view)
            .current_dir(dir)
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).replace('\n', " ");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            done.status.code() == Some(1) && words(&text).contains(&words(expected)),
            "{expected}: {text}"
        );
    }
}

/// The bcrypt hash of `PASSWORD` with the smallest cost.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuujE09iTL9IekHse/v52aT4z76Rb17j3a";
const PASSWORD: &str = "a-password-of-the-test";

/// Writes the certificate of an authority (`ca.pem`), and a certificate with its key that this
/// authority signed for `localhost`.
fn write_certificates(dir: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signing_key = KeyPair::generate().unwrap();
    fs::write(
        dir.join("ca.pem"),
        authority.self_signed(&signing_key).unwrap().pem(),
    )
    .unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    fs::write(
        dir.join("cert.pem"),
        signed
            .signed_by(&key, &Issuer::new(authority, signing_key))
            .unwrap()
            .pem(),
    )
    .unwrap();
    fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
}

#[test]
fn prometheus_with_tls_and_a_password_is_read() {
    let (Some(prometheus), Some(view), Some(exporter)) =
        (tools::prometheus(), view(), tools::node_exporter())
    else {
        return;
    };
    let dir = tools::small();
    let dir = dir.path();
    write_certificates(dir);
    let web = format!(
        "tls_server_config: {{cert_file: cert.pem, key_file: key.pem}}\nbasic_auth_users: {{ada: '{HASH}'}}\n"
    );
    for (name, text) in [
        ("web.yml", &*web),
        ("password", &format!("{PASSWORD}\n")),
        ("wrong", "x"),
        ("no.pem", "no certificate\n"),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    let mut exporter = Running(start(
        dir,
        &exporter,
        &[
            "--collector.disable-defaults",
            "--collector.loadavg",
            "--web.listen-address",
            "127.0.0.1:0",
        ],
    ));
    let target = exporter.address();
    // The exporter runs on this machine, and has the name of a host of the simulated fabric.
    let job = format!(
        "- job_name: real\n  static_configs: [{{targets: ['{target}'], labels: {{instance: 'node00001:9100'}}}}]\n"
    );
    let prometheus = Prometheus::start_with(&prometheus, dir, &job, &["--web.config.file=web.yml"]);
    let begin_ns = now_ns();
    recorded::record(dir, "interval = \"1s\"\n", 3, begin_ns);
    let url = |user: &str| format!("https://{user}localhost:{}", prometheus.address.port());
    let read = |url: &str, more: &[&str]| {
        let args = [
            "heatmap",
            "lines.jsonl",
            "--by",
            "host",
            "--format",
            "json",
            "--host-metric",
            "node_load1",
            "--host-metrics",
            url,
        ];
        let done = Command::new(&view)
            .current_dir(dir)
            .args(args)
            .args(more)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&done.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        (
            done.status.success(),
            String::from_utf8_lossy(&done.stdout).into_owned(),
            words,
        )
    };
    // The records end now. Repeats until Prometheus has two readings in their time.
    until("a value of Prometheus", || {
        recorded::record(
            dir,
            "interval = \"1s\"\n",
            3 + (now_ns() - begin_ns) / SECOND_NS,
            begin_ns,
        );
        let (_, rows, _) = read(
            &url("ada@"),
            &[
                "--host-metrics-ca-file",
                "ca.pem",
                "--host-metrics-password-file",
                "password",
            ],
        );
        let document: Value = serde_json::from_str(&rows).unwrap_or_default();
        let row = document["rows"].as_array().and_then(|rows| {
            rows.iter()
                .find(|row| row["metric"] == "node_load1" && row["node"] == "node00001")
        });
        row.is_some_and(|row| cells(row).iter().any(|(state, _)| *state == "value"))
    });
    let ca = ["--host-metrics-ca-file", "ca.pem"];
    let with_password = |file| [&ca[..], &["--host-metrics-password-file", file]].concat();
    let refused = "it refuses the access (HTTP status 401)";
    let plain = format!("http://localhost:{}", prometheus.address.port());
    let by_number = format!("https://ada@127.0.0.1:{}", prometheus.address.port());
    for (url, more, expected) in [
        (&*url("ada@"), vec![], "UnknownIssuer"),
        (&*url("ada@"), vec![], "with --host-metrics-ca-file FILE"),
        (&*url("ada@"), with_password("wrong"), refused),
        (&*url(""), with_password("password"), refused),
        (
            &*url(""),
            ca.to_vec(),
            "the password with --host-metrics-password-file",
        ),
        (
            &*by_number,
            with_password("password"),
            "use a name of the certificate of Prometheus in the address",
        ),
        (
            &*url("ada@"),
            vec!["--host-metrics-ca-file", "no.pem"],
            "it has no certificate",
        ),
        (
            &*url("ada@"),
            vec!["--host-metrics-ca-file", "missing.pem"],
            "cannot use missing.pem as the certificates of an authority",
        ),
        (
            &*format!("https://{target}"),
            ca.to_vec(),
            "check that Prometheus serves TLS at this address",
        ),
        (&*plain, vec![], "HTTP status 400"),
    ] {
        let (is_ok, _, text) = read(url, &more);
        assert!(
            !is_ok && text.contains(expected) && !text.contains(PASSWORD),
            "{url} {more:?}: {text}"
        );
    }
}

#[test]
fn collector_of_the_documentation_writes_what_the_viewer_reads() {
    let Some(view) = view() else { return };
    let dir = tools::small();
    let dir = dir.path();
    let start_of = DOCUMENTATION.find("cat > host-lines").unwrap();
    let script = &DOCUMENTATION[start_of..];
    let script = &script[..script.find("srun").unwrap()];
    // This machine has the name of a host of the simulated fabric.
    fs::write(
        dir.join("run"),
        format!(
            "{script}\nhostname() {{ echo node00001.example; }}\n. ./host-lines > hosts.jsonl\n"
        ),
    )
    .unwrap();
    let collector = Running(start(dir, Path::new("sh"), &["run"]));
    // The collector has written three times, and the last line is whole.
    let times = || -> Vec<f64> {
        let text = fs::read_to_string(dir.join("hosts.jsonl")).unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut times: Vec<f64> = lines.map(|line| line["time"].as_f64().unwrap()).collect();
        times.dedup();
        times
    };
    until("three readings of the collector", || times().len() > 2);
    drop(collector);
    let times = times();
    let (first, last) = (times[0] as u64, times[times.len() - 1] as u64);
    recorded::record(
        dir,
        "interval = \"1s\"\n",
        last - first + 2,
        first * SECOND_NS,
    );
    let metrics = ["--host-metric", "node_network_receive_bytes_total"];
    let (found, notes) = rows(&view, dir, "hosts.jsonl", &metrics);
    let row = &found[&(
        "node_network_receive_bytes_total".to_owned(),
        "node00001".to_owned(),
    )];
    assert!(
        cells(row).iter().any(|(state, _)| *state == "value"),
        "{row}"
    );
    assert!(
        notes.contains("selected hosts without host metrics: 5"),
        "{notes}"
    );
}
