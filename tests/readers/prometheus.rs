//! A real Prometheus scrapes two samplers, one without and one with TLS and a password, and answers
//! the queries of the dashboards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use ibnet::record::strict::{self, Line};
use serde_json::Value;

use super::tools::{self, SWEEP, TIMEOUT};

/// Alert rules for Prometheus.
const RULES: &str = include_str!("../../packaging/prometheus/ibnet.rules.yml");

const DASHBOARD: &str = include_str!("../../packaging/grafana/ibnet.json");

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

/// Starts a sampler that serves metrics. Returns its address.
fn sampler(dir: &Path, config: &str, lines: &str) -> (Running, SocketAddr) {
    let name = format!("{lines}.toml");
    fs::write(dir.join(&name), format!("simulate = \"net.p\"\ninterval = \"100ms\"\noutput = \"{lines}\"\n{config}")).unwrap();
    let mut child = Command::new(SWEEP).current_dir(dir).args(["-c", &name]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let running = Running(child);
    let address = log.find_map(|line| Some(line.split_once("serving metrics url=")?.1.to_owned())).expect("the address is logged");
    // A full pipe would block the sampler.
    thread::spawn(move || log.for_each(drop));
    let address = address.split("://").nth(1).and_then(|rest| rest.strip_suffix("/metrics")).unwrap();
    (running, address.parse().unwrap())
}

/// A running Prometheus.
pub(crate) struct Prometheus {
    _running: Running,
    pub(crate) address: SocketAddr,
}

impl Prometheus {
    pub(crate) fn start(program: &Path, dir: &Path, jobs: &str) -> Self {
        fs::write(dir.join("prometheus.yml"), format!("global:\n  scrape_interval: 500ms\nscrape_configs:\n{jobs}")).unwrap();
        // Prometheus does not report the port of `:0`, so the test takes one that was free a moment
        // ago.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .current_dir(dir)
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        Self { _running: Running(child), address }
    }

    /// Returns the response to a query; `None` if Prometheus does not accept connections yet.
    fn query(&self, query: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let escaped: String = query.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let request = format!("GET /api/v1/query?query={escaped} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
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
            let one = |one: &Value| (serde_json::from_value(one["metric"].clone()).unwrap(), value(&one["value"]));
            answer["data"]["result"].as_array().unwrap().iter().map(one).collect()
        }
        "scalar" => vec![(BTreeMap::new(), value(&answer["data"]["result"]))],
        other => panic!("{other}"),
    }
}

#[test]
fn prometheus_scrapes_samplers_and_answers_every_query_of_the_dashboards() {
    let Some(program) = tools::prometheus() else { return };
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
    let (_plain, plain) =
        sampler(dir.path(), &format!("ca = [\"mlx5_0\", \"mlx5_1\"]\n{dead}[metrics]\nlisten = \"127.0.0.1:0\""), "plain.jsonl");
    let metrics = "[metrics]\nlisten = \"127.0.0.1:0\"\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\npassword_file = \"password\"";
    let (_closed, closed) = sampler(dir.path(), metrics, "closed.jsonl");
    let job = |name: &str, rest: &str, target: SocketAddr| {
        format!("- job_name: {name}\n  static_configs: [{{targets: ['localhost:{}']}}]\n{rest}", target.port())
    };
    let tls = "  scheme: https\n  tls_config: {ca_file: cert.pem}\n";
    let jobs = [
        job("plain", "", plain),
        job("token", &format!("{tls}  authorization: {{credentials_file: password}}\n"), closed),
        job("user", &format!("{tls}  basic_auth: {{username: ibnet, password_file: password}}\n"), closed),
        job("no_password", tls, closed),
        job("clear", "  authorization: {credentials_file: password}\n", closed),
    ];
    let prometheus = Prometheus::start(&program, dir.path(), &jobs.concat());

    for (job, up) in [("plain", 1.0), ("token", 1.0), ("user", 1.0), ("no_password", 0.0), ("clear", 0.0)] {
        prometheus.wait(&format!("up{{job='{job}'}}"), |series| series.len() == 1 && series[0].1 == up);
    }
    // 5 ports of each leaf and 2 of a spine; the other spine is dead, and so is one of six hosts.
    let count = |query: &str, expected: f64| prometheus.wait(query, |series| series.len() == 1 && series[0].1 == expected);
    count("count(infiniband_switch_port_transmit_data_bytes_total{job='plain'})", 12.0);
    count("count(infiniband_hca_port_transmit_data_bytes_total{job='plain'})", 5.0);
    count("count(infiniband_switch_port_transmit_data_bytes_total{job='token'})", 14.0);
    count("sum(ibnet_up{job='plain'})", 2.0);
    count("sum(infiniband_switch_up{job='plain'})", 3.0);
    // The join of the dashboards made for infiniband_exporter, whose metric names these are.
    let joined = "rate(infiniband_switch_port_transmit_data_bytes_total{job='token'}[30s]) * on(guid,port) \
                  group_left(switch,uplink,uplink_port) infiniband_switch_uplink_info{job='token'}";
    let joined = prometheus.wait(joined, |series| series.len() == 14 && series.iter().any(|(_, rate)| *rate > 0.0));
    assert!(joined.iter().all(|(labels, _)| ["switch", "uplink", "uplink_port"].iter().all(|label| !labels[*label].is_empty())));

    let expressions = expressions();
    assert!(expressions.len() > 20, "{}", expressions.len());
    for expression in expressions {
        let expression = expression.replace("$__rate_interval", "30s").replace("$instance", ".*");
        assert!(!expression.contains('$'), "{expression} has an unknown variable");
        // Two jobs scrape the same process; a dashboard selects one of them.
        let expression = expression.replace("instance=~\".*\"", "job=\"plain\"").replace("_uplink_info{", "_uplink_info{job=\"plain\",");
        prometheus.wait(&expression, |series| series.iter().any(|(_, value)| value.is_finite()));
    }
    for metric in metrics_of_the_rules() {
        prometheus.wait(&format!("count({metric}{{job='plain'}})"), |series| series.len() == 1);
    }
    check_values_against_records(&prometheus, dir.path());
    let log = fs::read_to_string(dir.path().join("prometheus.log")).unwrap();
    assert!(!log.contains("ingest"), "Prometheus dropped samples: {log}");
}

/// Returns the queries of the dashboard's panels.
fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Returns the metrics of ibnet that the alert rules use.
fn metrics_of_the_rules() -> BTreeSet<String> {
    let words = RULES.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let metrics = words.filter(|word| word.starts_with("ibnet_") || word.starts_with("infiniband_"));
    let metrics: BTreeSet<_> = metrics.map(str::to_owned).collect();
    assert!(metrics.len() > 10, "{metrics:?}");
    metrics
}

#[test]
fn alert_rules_fire_on_each_fault_and_on_no_healthy_fabric() {
    let Some(promtool) = tools::promtool() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/prometheus");
    let run = |args: &[&str]| {
        let output = Command::new(&promtool).current_dir(&folder).args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    };
    run(&["check", "rules", "ibnet.rules.yml"]);
    run(&["test", "rules", "ibnet.rules.test.yml"]);
    // Each alert has a test.
    let tests = fs::read_to_string(folder.join("ibnet.rules.test.yml")).unwrap();
    for alert in RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname=\"{alert}\"")), "{alert} has no test");
    }
}

/// Checks that every scraped value is in a record of its port.
fn check_values_against_records(prometheus: &Prometheus, dir: &Path) {
    let query = "infiniband_switch_port_transmit_data_bytes_total{job='plain'}";
    let scraped = prometheus.wait(query, |series| series.len() == 12);
    let text = fs::read_to_string(dir.join("plain.jsonl")).unwrap();
    let lines: Vec<_> = text.lines().filter_map(|text| strict::parse(text).ok()).collect();
    for (labels, value) in scraped {
        let of = |line: &&Line| matches!(line, Line::Port(port) if port.guid.to_string() == labels["guid"] && port.port.to_string() == labels["port"]);
        let values: Vec<_> = lines
            .iter()
            .filter(of)
            .filter_map(|line| if let Line::Port(port) = line { port.counter("port_xmit_data_bytes") } else { None })
            .collect();
        assert!(values.iter().any(|written| *written as f64 == value), "{labels:?}: {value} is in no record");
    }
}
