//! A real Prometheus scrapes two samplers, one without and one with TLS and a password, and answers
//! the queries of the dashboards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ibnet_record::strict::{self, Line};
use serde_json::Value;

use crate::tools::{self, SWEEP, TIMEOUT};

/// Alert rules for Prometheus.
const RULES: &str = include_str!("../../../packaging/prometheus/ibnet.rules.yml");

/// Metric of the rules that simulated HCAs do not have. Its name is checked beside the names of
/// metrics.
const NOT_SIMULATED: &str = "infiniband_hca_port_qp1_dropped_total";

/// Family of a dashboard that simulated devices do not have. Prometheus only parses its queries.
const LANES: &str = "_port_lane_raw_bit_error_ratio";

/// Folder of the dashboards.
const DASHBOARDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/grafana");

/// Settings for the dashboard of the physical layer: each value is read soon.
const PHYSICAL: &str = "[physical]\nenabled = true\nevery = \"1s\"\nmodules_every = \"1s\"\nsensors_every = \"1s\"\nbudget = 1.0\n";

/// Selector of a dashboard for the sampler without a password, instead of all samplers.
const ONE_JOB: &str = "job=\"plain\"";

const PASSWORD: &str = "a-password-of-the-test";

/// Pause between two queries that are repeated until Prometheus has the values.
const WAIT: Duration = Duration::from_millis(100);

/// Largest number of such queries.
const QUERIES: u128 = TIMEOUT.as_millis() / WAIT.as_millis();

/// A program, which is killed on drop.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Waits until the program listens on a TCP port of the loopback address, and returns it. So
    /// the system chooses the port, and no other program can take it before.
    #[track_caller]
    pub(crate) fn address(&mut self) -> SocketAddr {
        for _ in 0..QUERIES {
            assert_eq!(self.0.try_wait().unwrap(), None, "the program has ended");
            if let Some(port) = listening_port(self.0.id()) {
                return SocketAddr::from(([127, 0, 0, 1], port));
            }
            thread::sleep(WAIT);
        }
        panic!("the program does not listen");
    }
}

/// Returns the port on which a process listens.
fn listening_port(process: u32) -> Option<u16> {
    /// State of a listening socket in /proc/net/tcp.
    const LISTEN: &str = "0A";
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let inodes: BTreeSet<String> = links
        .filter_map(|link| {
            Some(
                link.to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_own = fields.get(3) == Some(&LISTEN)
            && fields.get(9).is_some_and(|inode| inodes.contains(*inode));
        is_own
            .then(|| u16::from_str_radix(fields[1].split_once(':')?.1, 16).ok())
            .flatten()
    };
    table.lines().find_map(port)
}

/// Starts a sampler that serves metrics. Returns its address.
fn sampler(dir: &Path, config: &str, lines: &str) -> (Running, SocketAddr) {
    let name = format!("{lines}.toml");
    // On a busy machine, replies are late. They count for most of the slot.
    let all = format!(
        "simulate = \"net.p\"\ninterval = \"1s\"\ntimeout = \"100ms\"\ngrace = \"900ms\"\noutput = \"{lines}\"\n{config}"
    );
    fs::write(dir.join(&name), all).unwrap();
    let mut child = Command::new(SWEEP)
        .current_dir(dir)
        .args(["-c", &name])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let running = Running(child);
    let address = log
        .find_map(|line| Some(line.split_once("serving metrics url=")?.1.to_owned()))
        .expect("the address is logged");
    // A full pipe would block the sampler.
    thread::spawn(move || log.for_each(drop));
    let address = address
        .split("://")
        .nth(1)
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap();
    (running, address.parse().unwrap())
}

/// A running Prometheus.
pub(crate) struct Prometheus {
    _running: Running,
    pub(crate) address: SocketAddr,
}

impl Prometheus {
    pub(crate) fn start(program: &Path, dir: &Path, jobs: &str) -> Self {
        Self::start_with(program, dir, jobs, &[])
    }

    /// Starts Prometheus with more arguments.
    pub(crate) fn start_with(program: &Path, dir: &Path, jobs: &str, more: &[&str]) -> Self {
        fs::write(
            dir.join("prometheus.yml"),
            format!("global:\n  scrape_interval: 500ms\nscrape_configs:\n{jobs}"),
        )
        .unwrap();
        let child = Command::new(program)
            .current_dir(dir)
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--log.level=warn",
            ])
            .arg("--web.listen-address=127.0.0.1:0")
            .args(more)
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        // Prometheus does not report the port of `:0`.
        let address = running.address();
        Self {
            _running: running,
            address,
        }
    }

    /// Returns the response to a query; `None` if Prometheus does not accept connections yet.
    fn query(&self, query: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let escaped: String = query.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let request = format!(
            "GET /api/v1/query?query={escaped} HTTP/1.0\r\nHost: {}\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }

    /// Repeats a query until its series satisfy the condition. Returns labels and values.
    #[track_caller]
    pub(crate) fn wait(
        &self,
        query: &str,
        is_expected: impl Fn(&[(BTreeMap<String, String>, f64)]) -> bool,
    ) -> Vec<(BTreeMap<String, String>, f64)> {
        let mut last = None;
        for _ in 0..QUERIES {
            if let Some(answer) = self.query(query) {
                assert_eq!(answer["status"], "success", "{query}: {answer}");
                let series = series(&answer);
                if is_expected(&series) {
                    return series;
                }
                last = Some(series);
            }
            thread::sleep(WAIT);
        }
        panic!("{query} returned {last:?}");
    }
}

fn series(answer: &Value) -> Vec<(BTreeMap<String, String>, f64)> {
    let value = |value: &Value| value[1].as_str().unwrap().parse().unwrap();
    match answer["data"]["resultType"].as_str().unwrap() {
        "vector" => {
            let one = |one: &Value| {
                (
                    serde_json::from_value(one["metric"].clone()).unwrap(),
                    value(&one["value"]),
                )
            };
            answer["data"]["result"]
                .as_array()
                .unwrap()
                .iter()
                .map(one)
                .collect()
        }
        "scalar" => vec![(BTreeMap::new(), value(&answer["data"]["result"]))],
        other => panic!("{other}"),
    }
}

#[test]
fn prometheus_scrapes_samplers_and_answers_every_query_of_the_dashboards() {
    let Some(program) = tools::prometheus() else {
        return;
    };
    let dir = tools::small();
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o600)).unwrap();
    };
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write("cert.pem", &own.cert.pem());
    write("key.pem", &own.signing_key.serialize_pem());
    write("password", PASSWORD);
    let dead = "[simulated]\ndead = [\"node00002\", \"spine02\"]\n";
    let (_plain, plain) = sampler(
        dir.path(),
        &format!(
            "ca = [\"mlx5_0\", \"mlx5_1\"]\n{dead}{PHYSICAL}[metrics]\nlisten = \"127.0.0.1:0\"\nfamilies = [\"*\"]"
        ),
        "plain.jsonl",
    );
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\npassword_file = \"password\"";
    let (_closed, closed) = sampler(dir.path(), metrics, "closed.jsonl");
    let job = |name: &str, rest: &str, target: SocketAddr| {
        format!(
            "- job_name: {name}\n  static_configs: [{{targets: ['localhost:{}']}}]\n{rest}",
            target.port()
        )
    };
    let tls = "  scheme: https\n  tls_config: {ca_file: cert.pem}\n";
    let jobs = [
        job("plain", "", plain),
        job(
            "token",
            &format!("{tls}  authorization: {{credentials_file: password}}\n"),
            closed,
        ),
        job(
            "user",
            &format!("{tls}  basic_auth: {{username: ibnet, password_file: password}}\n"),
            closed,
        ),
        job("no_password", tls, closed),
        job(
            "clear",
            "  authorization: {credentials_file: password}\n",
            closed,
        ),
    ];
    let prometheus = Prometheus::start(&program, dir.path(), &jobs.concat());

    for (job, up) in [
        ("plain", 1.0),
        ("token", 1.0),
        ("user", 1.0),
        ("no_password", 0.0),
        ("clear", 0.0),
    ] {
        prometheus.wait(&format!("up{{job='{job}'}}"), |series| {
            series.len() == 1 && series[0].1 == up
        });
    }
    // 5 ports of each leaf and 2 of a spine; the other spine is dead, and so is one of six hosts.
    let count = |query: &str, expected: f64| {
        prometheus.wait(query, |series| series.len() == 1 && series[0].1 == expected)
    };
    count(
        "count(infiniband_switch_port_transmit_data_bytes_total{job='plain'})",
        12.0,
    );
    count(
        "count(infiniband_hca_port_transmit_data_bytes_total{job='plain'})",
        5.0,
    );
    count(
        "count(infiniband_switch_port_transmit_data_bytes_total{job='token'})",
        14.0,
    );
    count("sum(ibnet_up{job='plain'})", 2.0);
    count("sum(infiniband_switch_up{job='plain'})", 3.0);
    // The join of the dashboards made for infiniband_exporter, whose metric names these are.
    let joined = "rate(infiniband_switch_port_transmit_data_bytes_total{job='token'}[30s]) * on(guid,port) \
                  group_left(switch,uplink,uplink_port) infiniband_switch_uplink_info{job='token'}";
    let joined = prometheus.wait(joined, |series| {
        series.len() == 14 && series.iter().any(|(_, rate)| *rate > 0.0)
    });
    assert!(joined.iter().all(|(labels, _)| {
        ["switch", "uplink", "uplink_port"]
            .iter()
            .all(|label| !labels[*label].is_empty())
    }));

    for dashboard in dashboards() {
        run_queries(&prometheus, &dashboard);
    }
    check_with_promtool(plain);
    for metric in metrics_of_the_rules()
        .into_iter()
        .filter(|metric| metric != NOT_SIMULATED)
    {
        prometheus.wait(&format!("count({metric}{{job='plain'}})"), |series| {
            series.len() == 1
        });
    }
    check_values_against_records(&prometheus, dir.path());
    let log = fs::read_to_string(dir.path().join("prometheus.log")).unwrap();
    assert!(!log.contains("ingest"), "Prometheus dropped samples: {log}");
}

/// Checks the metrics of a sampler with promtool, which must complain of nothing.
fn check_with_promtool(sampler: SocketAddr) {
    let Some(promtool) = tools::promtool() else {
        return;
    };
    let mut stream = TcpStream::connect(sampler).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
        .write_all(format!("GET /metrics HTTP/1.0\r\nHost: {sampler}\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
    assert!(metrics.lines().count() > 500, "{answer}");
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let complaints = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && complaints.is_empty(),
        "{}",
        String::from_utf8_lossy(&complaints)
    );
}

/// Returns all dashboards.
fn dashboards() -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(DASHBOARDS)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    files
        .iter()
        .map(|file| serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns a query with the values of the dashboard's variables. Two jobs scrape the same process,
/// so the sampler is selected by its job.
fn substituted(query: &str, variables: &BTreeMap<String, String>) -> String {
    let mut query = query
        .replace("$__rate_interval", "30s")
        .replace("$__range", "60s")
        .replace("instance=~\"$instance\"", ONE_JOB);
    for (name, value) in variables {
        query = query.replace(&format!("${name}"), value);
    }
    assert!(!query.contains('$'), "{query} has an unknown variable");
    query
}

/// Evaluates the variables of a dashboard as Grafana does. A variable for a device gets a device
/// that answers.
fn variables(prometheus: &Prometheus, dashboard: &Value) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for variable in list(&dashboard["templating"], "list") {
        let (name, query) = (text(variable, "name"), text(variable, "query"));
        let (function, arguments) = query.split_once('(').unwrap_or((query, ""));
        let arguments = substituted(arguments.strip_suffix(')').unwrap_or(arguments), &variables);
        let (expression, label) = match function {
            "query_result" => (arguments.as_str(), group(variable, "value")),
            "label_values" => arguments.rsplit_once(", ").unwrap(),
            _ => {
                assert_eq!((name, query), ("datasource", "prometheus"));
                continue;
            }
        };
        let series = prometheus.wait(expression, |series| !series.is_empty());
        assert!(
            series.iter().all(|(labels, _)| !labels[label].is_empty()),
            "{expression} has no {label}"
        );
        let chosen = match function {
            "query_result" => {
                let shown = group(variable, "text");
                let is_chosen = |labels: &BTreeMap<String, String>| {
                    ["leaf01", "node00001"]
                        .iter()
                        .any(|name| labels[shown].starts_with(name))
                };
                series
                    .iter()
                    .find(|(labels, _)| is_chosen(labels))
                    .expect("the device is there")
            }
            _ => &series[0],
        };
        variables.insert(name.to_owned(), chosen.0[label].clone());
    }
    variables
}

/// Returns the label that a named group of a variable's regular expression captures:
/// `guid="(?<value>[^"]+)"`.
fn group<'a>(variable: &'a Value, name: &str) -> &'a str {
    let regex = text(variable, "regex");
    let (before, _) = regex.split_once(&format!("=\"(?<{name}>")).expect(regex);
    before
        .rsplit(|one: char| !one.is_ascii_alphanumeric() && one != '_')
        .next()
        .unwrap()
}

/// Runs all queries of a dashboard. Checks that its data links find the labels that they use.
fn run_queries(prometheus: &Prometheus, dashboard: &Value) {
    let variables = variables(prometheus, dashboard);
    let mut queries = 0;
    for panel in list(dashboard, "panels") {
        let (mut labels, mut has_all) = (BTreeSet::new(), true);
        for target in list(panel, "targets") {
            let expression = substituted(text(target, "expr"), &variables);
            let is_simulated = !expression.contains(LANES);
            let series = prometheus.wait(&expression, |series| {
                !is_simulated || series.iter().any(|(_, value)| value.is_finite())
            });
            has_all &= is_simulated;
            labels.extend(
                series
                    .into_iter()
                    .flat_map(|(labels, _)| labels.into_keys()),
            );
            queries += 1;
        }
        for link in list(&panel["fieldConfig"]["defaults"], "links") {
            if !has_all {
                break;
            }
            for used in text(link, "url")
                .split("${__")
                .skip(1)
                .filter_map(|rest| rest.split_once('}'))
                .map(|(used, _)| used)
            {
                let Some(label) = used
                    .strip_prefix("field.labels.")
                    .or_else(|| used.strip_prefix("data.fields."))
                else {
                    assert_eq!(used, "url_time_range");
                    continue;
                };
                assert!(
                    labels.contains(label),
                    "{}: {used} is not in {labels:?}",
                    text(panel, "title")
                );
                assert_eq!(
                    used.starts_with("data."),
                    panel["type"] == "table",
                    "a row has fields, a curve has labels"
                );
                for transformation in list(panel, "transformations") {
                    let is_hidden = &transformation["options"]["excludeByName"][label] == true;
                    let has_other_name =
                        transformation["options"]["renameByName"][label].is_string();
                    assert!(
                        !is_hidden && !has_other_name,
                        "{}: {label} is hidden or renamed",
                        text(panel, "title")
                    );
                }
            }
        }
    }
    assert!(queries >= 15, "{queries} queries in {}", dashboard["title"]);
}

#[test]
fn dashboards_are_consistent() {
    let dashboards = dashboards();
    let uids: BTreeMap<&str, BTreeSet<&str>> = dashboards
        .iter()
        .map(|dashboard| {
            (
                text(dashboard, "uid"),
                list(&dashboard["templating"], "list")
                    .iter()
                    .map(|one| text(one, "name"))
                    .collect(),
            )
        })
        .collect();
    assert_eq!(uids.len(), dashboards.len(), "two dashboards have one UID");
    let mut reached = BTreeSet::new();
    for dashboard in &dashboards {
        let mut ids = BTreeSet::new();
        let mut places = BTreeSet::new();
        for panel in list(dashboard, "panels") {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
            let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(of("x") + of("w") <= 24, "{panel}");
            for (x, y) in (of("x")..of("x") + of("w"))
                .flat_map(|x| (of("y")..of("y") + of("h")).map(move |y| (x, y)))
            {
                assert!(
                    places.insert((x, y)),
                    "panels of {} overlap: {}",
                    dashboard["title"],
                    panel["title"]
                );
            }
            for link in list(&panel["fieldConfig"]["defaults"], "links") {
                let (path, query) = text(link, "url").split_once('?').unwrap();
                let uid = path.strip_prefix("/d/").unwrap();
                let known = uids
                    .get(uid)
                    .unwrap_or_else(|| panic!("{uid} does not exist"));
                reached.insert(uid);
                for name in query
                    .split('&')
                    .filter_map(|part| part.strip_prefix("var-"))
                {
                    assert!(
                        known.contains(name.split('=').next().unwrap()),
                        "{uid} has no variable {name}"
                    );
                }
            }
        }
    }
    // Every dashboard but the overview is reached from another one.
    assert_eq!(reached.len(), dashboards.len() - 1, "{reached:?}");
}

/// Returns the metrics of ibnet that the alert rules use.
fn metrics_of_the_rules() -> BTreeSet<String> {
    let words = RULES.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let metrics =
        words.filter(|word| word.starts_with("ibnet_") || word.starts_with("infiniband_"));
    let metrics: BTreeSet<_> = metrics.map(str::to_owned).collect();
    assert!(metrics.len() > 10, "{metrics:?}");
    metrics
}

#[test]
fn alert_rules_fire_on_each_fault_and_on_no_healthy_fabric() {
    let Some(promtool) = tools::promtool() else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/prometheus");
    let run = |args: &[&str]| {
        let output = Command::new(&promtool)
            .current_dir(&folder)
            .args(args)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&text)
        );
    };
    run(&["check", "rules", "ibnet.rules.yml"]);
    run(&["test", "rules", "ibnet.rules.test.yml"]);
    // Each alert has a test.
    let tests = fs::read_to_string(folder.join("ibnet.rules.test.yml")).unwrap();
    for alert in RULES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        assert!(
            tests.contains(&format!("alertname=\"{alert}\"")),
            "{alert} has no test"
        );
    }
}

/// Checks that every scraped value is in a record of its port. A sampler may write a record after
/// the scrape of its values, so the file is read again until it has them.
fn check_values_against_records(prometheus: &Prometheus, dir: &Path) {
    let query = "infiniband_switch_port_transmit_data_bytes_total{job='plain'}";
    let scraped = prometheus.wait(query, |series| series.len() == 12);
    let missing = || {
        let text = fs::read_to_string(dir.join("plain.jsonl")).unwrap();
        let lines: Vec<_> = text
            .lines()
            .filter_map(|text| strict::parse(text).ok())
            .collect();
        scraped
            .iter()
            .find(|(labels, value)| !is_recorded(&lines, labels, *value))
            .cloned()
    };
    let is_complete = (0..QUERIES).any(|_| {
        missing().is_none() || {
            thread::sleep(WAIT);
            false
        }
    });
    assert!(is_complete, "{:?} is in no record", missing());
}

fn is_recorded(lines: &[Line], labels: &BTreeMap<String, String>, value: f64) -> bool {
    let of = |line: &&Line| matches!(line, Line::Port(port) if port.guid.to_string() == labels["guid"] && port.port.to_string() == labels["port"]);
    let written = |line: &Line| {
        if let Line::Port(port) = line {
            port.counter("port_xmit_data_bytes")
        } else {
            None
        }
    };
    lines
        .iter()
        .filter(of)
        .filter_map(written)
        .any(|written| written as f64 == value)
}
