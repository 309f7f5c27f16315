//! A simulated fleet of node_exporters: one page for each host of a simulated fabric.
//!
//! Start it together with `ibnet-sweep --simulate` and the same scenario. Then the counters of the
//! hosts (IPoIB octets, NFS requests) agree with the port counters of the simulated fabric.
//!
//!     cargo run --example host_exporters -- --net examples/stria.p --scenario storms --prometheus fleet.yml
//!     prometheus --config.file=fleet.yml
//!
//! With `--lines FILE` it writes JSON lines, as the collector in docs/hosts.md does.

#![expect(clippy::disallowed_methods, reason = "programs read clocks")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use ibnet::mad::transport::sim::storms::{HostCounters, StormHosts, StormKind, StormOrder};
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::time;
use ibnet::topology::{DeviceId, Fabric, net_file};
use ibnet_record::types::NodeKind;

#[derive(Debug, Parser)]
struct Args {
    /// Net file of the simulated fabric
    #[arg(long)]
    net: PathBuf,
    /// Scenario of ibnet-sweep: ipoib_flood, nfs_storm or storms
    #[arg(long, default_value = "storms")]
    scenario: String,
    /// Time from the start of this program to the start of the scenario
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    start: Duration,
    /// The time of the scenario begins with the last change of this file, not with this program.
    /// Before the file exists, nothing happens
    #[arg(long)]
    begin: Option<PathBuf>,
    /// Length of the flood and of the storm
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    length: Duration,
    /// Seed of ibnet-sweep
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Address of the pages: http://ADDRESS/HOST/metrics
    #[arg(long, default_value = "127.0.0.1:9500")]
    listen: String,
    /// Write a configuration of Prometheus that scrapes all hosts once a second
    #[arg(long)]
    prometheus: Option<PathBuf>,
    /// Write JSON lines of all hosts once a second, instead of pages
    #[arg(long, requires = "seconds")]
    lines: Option<PathBuf>,
    /// Number of seconds with JSON lines
    #[arg(long)]
    seconds: Option<u32>,
}

/// The hosts and their counters.
struct Fleet {
    started: Instant,
    begin: Option<PathBuf>,
    fabric: Fabric,
    storms: StormHosts,
    traffic: Traffic,
}

/// A counter of a host: name, labels and value.
type Counter = (&'static str, Vec<(&'static str, String)>, u64);

/// Value of the counters before the start. A host that runs for some time has large counters.
const BEFORE: u64 = 987_654_321_000;

impl Fleet {
    /// Returns the hosts with their HCAs.
    fn hosts(&self) -> BTreeMap<&str, Vec<DeviceId>> {
        let mut hosts: BTreeMap<&str, Vec<DeviceId>> = BTreeMap::new();
        for (id, device) in self
            .fabric
            .iter()
            .filter(|(_, device)| device.kind == NodeKind::Hca && device.linked_ports() > 0)
        {
            hosts.entry(device.host()).or_default().push(id);
        }
        hosts
    }

    /// Returns the time of the scenario.
    fn now(&self) -> Duration {
        match &self.begin {
            None => self.started.elapsed(),
            Some(file) => {
                let begin = std::fs::metadata(file)
                    .and_then(|file| file.modified())
                    .ok();
                begin
                    .and_then(|begin| begin.elapsed().ok())
                    .unwrap_or_default()
            }
        }
    }

    /// Returns the counters of a host. Each HCA has an IPoIB interface.
    fn counters(&self, hcas: &[DeviceId]) -> Vec<Counter> {
        let now = self.now();
        let seconds = now.as_secs();
        let mut all = Vec::new();
        let mut octets = |device: String, received: u64, sent: u64| {
            all.push((
                "node_network_receive_bytes_total",
                vec![("device", device.clone())],
                BEFORE + received,
            ));
            all.push((
                "node_network_transmit_bytes_total",
                vec![("device", device)],
                BEFORE + sent,
            ));
        };
        octets("eth0".to_owned(), seconds * 3000, seconds * 2000);
        let mut writes = 0;
        for (number, hca) in hcas.iter().enumerate() {
            let HostCounters {
                ipoib_sent,
                ipoib_received,
                nfs_writes,
            } = self
                .storms
                .counters(*hca, &self.traffic, time::Instant::ZERO + now);
            octets(format!("ib{number}"), ipoib_received, ipoib_sent);
            writes += nfs_writes;
        }
        let requests = |method: &str, value: u64| {
            (
                "node_nfs_requests_total",
                vec![("proto", "4".to_owned()), ("method", method.to_owned())],
                value,
            )
        };
        all.push(requests("Write", 7_000_000 + writes));
        // A client asks for the attributes of a file now and then.
        all.push(requests("Getattr", 9_000_000 + seconds * 2 + writes / 16));
        all
    }

    /// Returns the page of a host in the text format of Prometheus.
    fn page(&self, name: &str) -> Option<String> {
        let hosts = self.hosts();
        let hcas = hosts.get(name)?;
        let mut page = format!(
            "# TYPE node_uname_info gauge\nnode_uname_info{{nodename=\"{name}\",sysname=\"Linux\"}} 1\n"
        );
        for (metric, labels, value) in self.counters(hcas) {
            let labels: Vec<_> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{value}\""))
                .collect();
            page += &format!("{metric}{{{}}} {value}\n", labels.join(","));
        }
        Some(page)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut request = String::new();
            if reader.read_line(&mut request)? == 0 {
                return Ok(());
            }
            let mut header = String::new();
            while reader.read_line(&mut header)? > 2 {
                header.clear();
            }
            let host = request
                .split(' ')
                .nth(1)
                .and_then(|path| path.strip_prefix('/')?.strip_suffix("/metrics"));
            let (status, body) = match host.and_then(|host| self.page(host)) {
                Some(page) => ("200 OK", page),
                None => ("404 Not Found", "no such host\n".to_owned()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all((head + &body).as_bytes())?;
        }
    }

    fn write_lines(&self, path: &PathBuf, seconds: u32) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for second in 0..seconds {
            thread::sleep(
                (self.started + Duration::from_secs(second.into()))
                    .saturating_duration_since(Instant::now()),
            );
            let time = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            for (name, hcas) in self.hosts() {
                for (metric, labels, value) in self.counters(&hcas) {
                    let labels: String = labels
                        .iter()
                        .map(|(name, value)| format!(",\"{name}\":\"{value}\""))
                        .collect();
                    let time = format!("{}.{:03}", time.as_secs(), time.subsec_millis());
                    writeln!(
                        file,
                        "{{\"time\":{time},\"host\":\"{name}\",\"metric\":\"{metric}\",\"value\":{value}{labels}}}"
                    )?;
                }
            }
            file.flush()?;
        }
        Ok(())
    }

    /// Returns a configuration of Prometheus. Each host is a target `HOST:9100`, as with real
    /// exporters. The relabelling directs the requests to this program.
    fn configuration(&self, address: &str) -> String {
        let targets: Vec<String> = self
            .hosts()
            .keys()
            .map(|host| format!("'{host}:9100'"))
            .collect();
        format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs:\n\
             - job_name: node\n\
             \x20 static_configs: [{{targets: [{}]}}]\n\
             \x20 relabel_configs:\n\
             \x20 - {{source_labels: [__address__], target_label: instance}}\n\
             \x20 - {{source_labels: [__address__], regex: '(.*):9100', target_label: __metrics_path__, replacement: '/$1/metrics'}}\n\
             \x20 - {{target_label: __address__, replacement: '{address}'}}\n",
            targets.join(", ")
        )
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let args = Args::parse();
    let fabric =
        net_file::parse(&std::fs::read(&args.net)?, &args.net.display().to_string())?.fabric;
    let order = match &*args.scenario {
        "ipoib_flood" => StormOrder::Only(StormKind::IpoibFlood),
        "nfs_storm" => StormOrder::Only(StormKind::NfsStorm),
        "storms" => StormOrder::FloodThenStorm,
        other => return Err(format!("unknown scenario {other}").into()),
    };
    let storms = order
        .storms(&fabric, time::Instant::ZERO + args.start, args.length)
        .ok_or("the fabric is too small")?;
    let (storms, traffic) = StormHosts::with_traffic(&fabric, args.seed, &storms);
    let fleet = Arc::new(Fleet {
        started,
        begin: args.begin,
        fabric,
        storms,
        traffic,
    });
    if let (Some(path), Some(seconds)) = (&args.lines, args.seconds) {
        return Ok(fleet.write_lines(path, seconds)?);
    }
    let listener = TcpListener::bind(&args.listen)?;
    if let Some(path) = &args.prometheus {
        // A reader never finds a part of the file.
        let part = path.with_extension("part");
        std::fs::write(
            &part,
            fleet.configuration(&listener.local_addr()?.to_string()),
        )?;
        std::fs::rename(part, path)?;
    }
    for stream in listener.incoming() {
        let (stream, fleet) = (stream?, Arc::clone(&fleet));
        thread::spawn(move || fleet.serve(stream));
    }
    Ok(())
}
