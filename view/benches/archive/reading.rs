//! Evaluations of an archive, and the same queries in DuckDB.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::errors::{Errors, Thresholds};
use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::{self, Fold, Inputs};
use ibnet_analysis::job::Job;
use ibnet_analysis::links;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::shares::Distributions;
use ibnet_analysis::stat::Stat;
use ibnet_record::ERROR_COUNTERS;
use ibnet_store::archive::Archive;
use ibnet_store::derive;
use ibnet_store::hour::Hour;
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use ibnet_store::write::FileWriter;

use crate::measure::Rows;
use crate::traffic::{FIRST_SLOT, PORTS, SECOND, Traffic};

const HOUR: u64 = 3600;

/// Ports of which the rows are in memory at a time.
const AT_A_TIME: usize = 50;

/// A port whose time series is read.
const HOST: &str = "node00042";

/// Hosts of a job.
const JOB: &str = "node[00100-00163]";

fn writer(archive: &Archive, table: TableName, hour: u64) -> FileWriter<BufWriter<File>> {
    let path = archive.path(table, Hour::of((FIRST_SLOT + hour * HOUR) * SECOND));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    FileWriter::new(BufWriter::new(File::create(path).unwrap()), table).unwrap()
}

fn all_rows(table: &Table) -> Vec<u32> {
    (0..table.len() as u32).collect()
}

/// Writes an archive of some hours. Without records, it has only the tables computed from them.
pub(crate) fn write(root: &Path, hours: u64, with_records: bool) {
    let archive = Archive::create(root).unwrap();
    let mut traffic = Traffic::new();
    for hour in 0..hours {
        let slots = FIRST_SLOT + hour * HOUR..FIRST_SLOT + (hour + 1) * HOUR;
        let mut ports = with_records.then(|| writer(&archive, TableName::Ports, hour));
        let mut derived = TableName::DERIVED.map(Table::new);
        for first in (0..PORTS).step_by(AT_A_TIME) {
            let table = traffic.by_port(first..first + AT_A_TIME, slots.clone());
            let order = all_rows(&table);
            if let Some(ports) = &mut ports {
                ports.write(&table, &order).unwrap();
            }
            for own in &mut derived {
                let more = derive::derived(own.name(), &table, &order);
                own.append(&more, &all_rows(&more));
            }
        }
        let of = ports.map(|ports| ports.finish().unwrap().1);
        for table in derived {
            let mut file = writer(&archive, table.name(), hour);
            of.into_iter().for_each(|of| file.set_of(of));
            file.write(&table, &all_rows(&table)).unwrap();
            file.finish().unwrap();
        }
    }
}

/// Measures reading an archive of [`write`].
pub(crate) fn run(root: &Path, table: &Rows<'_>) {
    let files = |table: TableName| Archive::open(root).unwrap().files(table).unwrap();
    let size = |table: TableName| {
        files(table)
            .iter()
            .map(|(_, path)| fs::metadata(path).unwrap().len())
            .sum::<u64>()
    };
    let hours = files(TableName::Ports).len() as u64;
    let rows = hours * HOUR * PORTS as u64;
    let [records, minutes] = [TableName::Ports, TableName::PortsMinute].map(size);
    println!();
    println!(
        "archive   {rows} records of {hours} hours, {:.2} GB, {:.1} octets each",
        records as f64 / 1e9,
        records as f64 / rows as f64
    );
    println!(
        "          one-minute means: {:.1} MB, {:.1} octets for each record",
        minutes as f64 / 1e6,
        minutes as f64 / rows as f64
    );
    table.head();
    let ports = format!("read_parquet('{}/ports/**/*.parquet')", root.display());
    let archive = Measured {
        root,
        hours,
        inputs: Inputs {
            files: vec![root.to_owned()],
            ..Inputs::default()
        },
        ports,
    };
    archive.heat_maps(table);
    archive.hour(table);
    archive.one_port(table);
}

/// An archive that is measured.
struct Measured<'a> {
    root: &'a Path,
    hours: u64,
    inputs: Inputs,
    /// The records in SQL.
    ports: String,
}

impl Measured<'_> {
    fn heat_maps(&self, table: &Rows<'_>) {
        let Self {
            root,
            hours,
            inputs,
            ports,
        } = self;
        // The length of a column depends on all records.
        if !table.only.is_empty() && !table.only.contains("heat map") {
            return;
        }
        let draw = |empty: HeatMap| {
            input::read(inputs, &empty)
                .unwrap()
                .0
                .finish(RowKind::Port)
                .unwrap()
        };
        // The columns of the picture, which depend on the length of the recording.
        let step_ns = draw(map("xmit_gbps", None)).step_ns;
        let by_step = |value: &str, time: &str, from: &str| {
            let steps = format!(
                "SELECT guid, port, ts // {step_ns} AS step, sum({value} * {time}) / sum({time}) AS mean FROM {from} GROUP BY ALL"
            );
            format!("SELECT count(*), max(mean) FROM ({steps})")
        };
        let query = by_step("xmit_gbps", "dt_ns", ports);
        table.compare(
            &format!("heat map of {hours} h, columns of {} s", step_ns / SECOND),
            &query,
            || {
                let (heat, _) = input::read(inputs, &Records(map("xmit_gbps", None))).unwrap();
                drop(heat.0.finish(RowKind::Port).unwrap());
            },
        );
        let query = by_step(
            "xmit_gbps",
            "dt_ns",
            &format!("read_parquet('{}/ports_1m/**/*.parquet')", root.display()),
        );
        if step_ns >= 60 * SECOND {
            table.compare(
                &format!("heat map of {hours} h, one-minute means"),
                &query,
                || drop(draw(map("xmit_gbps", None))),
            );
        }
        let query = by_step("xmit_blocked", "dt_ns", ports);
        table.compare(
            &format!("heat map of {hours} h, of the blocked share"),
            &query,
            || {
                let (heat, _) = input::read(inputs, &Records(map("xmit_blocked", None))).unwrap();
                drop(heat.0.finish(RowKind::Port).unwrap());
            },
        );
    }

    /// Evaluations of one hour.
    fn hour(&self, table: &Rows<'_>) {
        let Self { inputs, ports, .. } = self;
        let (from, to) = (FIRST_SLOT * SECOND, (FIRST_SLOT + HOUR) * SECOND);
        let hour = Inputs {
            from: Some(from),
            to: Some(to),
            ..inputs.clone()
        };
        // As the job: mean and maximum of the five values of each port, over the hour and in steps
        // of 8 s.
        let times = [
            ("xmit_gbps", "dt_ns"),
            ("rcv_gbps", "dt_ns"),
            ("xmit_utilization", "dt_ns"),
            ("rcv_utilization", "dt_ns"),
            ("xmit_blocked", "coalesce(xmit_blocked_dt_ns, dt_ns)"),
        ];
        let sums: Vec<String> = (times.iter().enumerate())
            .map(|(number, (value, time))| {
                format!("sum({value} * {time}) AS s{number}, sum({time}) AS t{number}, max({value}) AS m{number}")
            })
            .collect();
        let means: Vec<String> = (0..times.len())
            .map(|number| format!("sum(s{number}) / sum(t{number}), max(m{number})"))
            .collect();
        let query = format!(
            "WITH steps AS (SELECT guid, port, ts // {} AS step, {} FROM {ports} WHERE ts >= {from} AND ts < {to} GROUP BY ALL) \
             SELECT guid, port, {} FROM steps GROUP BY guid, port",
            8 * SECOND,
            sums.join(", "),
            means.join(", ")
        );
        table.compare("job of 64 nodes, one hour", &query, || {
            let ((ports, _), _) =
                input::read(&hour, &(Ports::for_jobs(600), Devices::default())).unwrap();
            assert_eq!(
                Job::of(&ports.finish(), &Hosts::parse(JOB).unwrap())
                    .nodes
                    .len(),
                64
            );
        });
        // As `links`: means and maxima of the five values and increases of all counters of each
        // port, and the two ends of each link together.
        let increases: Vec<String> = ERROR_COUNTERS
            .iter()
            .map(|name| format!("max({name}) - min({name}) AS {name}"))
            .collect();
        let means: Vec<String> = times
            .iter()
            .map(|(value, time)| {
                format!(
                    "sum({value} * {time}) / sum({time}) AS {value}, max({value}) AS most_{value}"
                )
            })
            .collect();
        let within = format!("FROM {ports} WHERE ts >= {from} AND ts < {to} GROUP BY guid, port");
        let of_port = "guid, port, max(node) AS node, max(peer_guid) AS peer_guid, max(peer_port) AS peer_port, max(link) AS link";
        let query = format!(
            "WITH all_ports AS (SELECT {of_port}, {}, {}, \
             max(port_xmit_data_bytes) - min(port_xmit_data_bytes) AS sent, max(port_rcv_data_bytes) - min(port_rcv_data_bytes) AS received {within}) \
             SELECT * FROM all_ports LEFT JOIN all_ports AS other ON all_ports.peer_guid = other.guid AND all_ports.peer_port = other.port",
            means.join(", "),
            increases.join(", ")
        );
        table.compare("links, one hour", &query, || {
            let ((ports, _), _) = input::read(&hour, &of_links()).unwrap();
            assert_eq!(links::find(&ports.finish()).len(), PORTS);
        });
        // As `errors`: increases of all error counters of each port, and its records without an
        // answer.
        let query = format!(
            "SELECT {of_port}, {}, count(*) FILTER (status NOT IN ('ok', 'late')) AS silent {within}",
            increases.join(", ")
        );
        table.compare("errors, one hour", &query, || {
            let ((ports, devices), _) =
                input::read(&hour, &(Ports::for_errors(), Devices::default())).unwrap();
            assert_eq!(
                Errors::find(&ports.finish(), &devices, &Thresholds::default(), None).ports,
                PORTS
            );
        });
    }

    fn one_port(&self, table: &Rows<'_>) {
        let Self {
            hours,
            inputs,
            ports,
            ..
        } = self;
        let query = format!(
            "SELECT count(*), sum(xmit_gbps) FROM {ports} WHERE guid = '0x0000000000200002' AND port = 3"
        );
        table.compare(&format!("one port, {hours} h"), &query, || {
            let (heat, _) = input::read(inputs, &Records(map("xmit_gbps", Some(HOST)))).unwrap();
            assert_eq!(heat.0.finish(RowKind::Port).unwrap().rows.len(), 1);
        });
    }
}

fn map(metric: &str, hosts: Option<&str>) -> HeatMap {
    HeatMap::new(
        vec![metric.parse().unwrap()],
        hosts.map(|hosts| Hosts::parse(hosts).unwrap()),
    )
}

/// Returns what the command `links` reads.
fn of_links() -> (Ports, (Devices, Distributions)) {
    (
        Ports::with_bins(0),
        (Devices::default(), Distributions::for_stat(Stat::Mean)),
    )
}

/// A heat map that does not read the one-minute means.
#[derive(Clone)]
struct Records(HeatMap);

impl Fold for Records {
    fn uses(&self, kind: ibnet_analysis::record::Type) -> bool {
        self.0.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.0.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        self.0.fields()
    }

    fn hosts(&self) -> Option<&Hosts> {
        self.0.hosts()
    }

    fn takes_runs(&self) -> bool {
        self.0.takes_runs()
    }

    fn add_run(&mut self, run: &input::run::Run<'_>) {
        self.0.add_run(run);
    }

    fn add(&mut self, record: &ibnet_analysis::record::Record<'_>) {
        self.0.add(record);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}
