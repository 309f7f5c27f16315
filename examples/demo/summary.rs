//! Summary of a recording: statistics of the sweeps, and the busiest links.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};

use comfy_table::{CellAlignment, Table, presets};
use ibnet::sweep::record::line::{self, Line, Port, Sweep};
use ibnet::types::{Guid, PortNum, Printable};

/// Summary of all streams that were read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    samplers: BTreeMap<String, Sampler>,
    links: BTreeMap<(Guid, PortNum), Link>,
    by_status: BTreeMap<String, u64>,
    /// Number of lines that are not records.
    pub(crate) unreadable: u64,
}

#[derive(Clone, Debug, Default)]
struct Sampler {
    interval_ns: u64,
    ports: u32,
    durations_ns: Vec<u64>,
    mads: u64,
    slots: u64,
    missed: u64,
    lost: u64,
}

#[derive(Clone, Debug, Default)]
struct Link {
    from: String,
    to: String,
    rate: String,
    gbps: f64,
    utilization: f64,
    readings: u32,
}

impl Summary {
    /// Adds all lines of a stream; counts lines that are not records.
    ///
    /// # Errors
    /// Returns an error if the stream is unreadable.
    pub(crate) fn read(&mut self, stream: impl BufRead) -> io::Result<()> {
        for line in stream.split(b'\n') {
            match std::str::from_utf8(&line?).ok().and_then(|text| line::parse(text).ok()) {
                Some(line) => self.add(line),
                None => self.unreadable += 1,
            }
        }
        Ok(())
    }

    /// Adds one record.
    pub(crate) fn add(&mut self, line: Line) {
        match line {
            Line::Start(start) => self.samplers.entry(start.sampler).or_default().interval_ns = start.interval_ns,
            Line::Port(port) => self.add_port(*port),
            Line::Sweep(sweep) => self.add_sweep(sweep),
            Line::Histogram(_) | Line::Event(_) => {}
        }
    }

    fn add_port(&mut self, port: Port) {
        *self.by_status.entry(port.status).or_default() += 1;
        let Some(gbps) = port.xmit_gbps else { return };
        let link = self.links.entry((port.guid, port.port)).or_default();
        if link.readings == 0 {
            link.from = format!("{} port {}", Printable(&port.node), port.port);
            link.to = match (port.peer, port.peer_port) {
                (Some(name), Some(num)) => format!("{} port {num}", Printable(&name)),
                _ => "?".to_owned(),
            };
            link.rate = Printable(&port.link).to_string();
        }
        link.gbps += gbps;
        link.utilization += port.xmit_utilization.unwrap_or(0.0);
        link.readings += 1;
    }

    fn add_sweep(&mut self, sweep: Sweep) {
        let sampler = self.samplers.entry(sweep.sampler).or_default();
        sampler.ports = sweep.ports;
        sampler.durations_ns.push(sweep.duration_ns);
        sampler.slots += 1;
        for (sum, more) in
            [(&mut sampler.mads, sweep.mads_sent), (&mut sampler.missed, sweep.slots_missed), (&mut sampler.lost, sweep.lines_lost)]
        {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the number of ports of all samplers.
    pub(crate) fn ports(&self) -> u32 {
        self.samplers.values().fold(0, |sum, sampler| sum.saturating_add(sampler.ports))
    }

    /// Returns the number of port records with a status.
    pub(crate) fn count(&self, status: &str) -> u64 {
        self.by_status.get(status).copied().unwrap_or(0)
    }

    /// Returns the number of MADs per second of all samplers.
    pub(crate) fn mads_per_second(&self) -> f64 {
        let rate = |sampler: &Sampler| sampler.mads as f64 * 1e9 / (sampler.slots as f64 * sampler.interval_ns as f64).max(1.0);
        self.samplers.values().map(rate).sum()
    }

    /// Sums over all samplers. The sum saturates, because records can have any numbers.
    fn sum(&self, of: impl Fn(&Sampler) -> u64) -> u64 {
        self.samplers.values().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the durations of all sweeps in nanoseconds, ascending.
    fn durations_ns(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.samplers.values().flat_map(|sampler| sampler.durations_ns.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Returns the directions of links with the largest mean rates, largest first.
    fn busiest(&self, most: usize) -> Vec<&Link> {
        let mean = |link: &Link| link.gbps / f64::from(link.readings);
        let mut links: Vec<&Link> = self.links.values().filter(|link| link.gbps > 0.0).collect();
        links.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
        links.truncate(most);
        links
    }
}

/// Returns the quantile of ascending values.
fn quantile(ascending: &[u64], share: f64) -> u64 {
    let index = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(index.saturating_sub(1)).copied().unwrap_or(0)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let durations = self.durations_ns();
        let millis = |nanos: u64| format!("{:.2} ms", nanos as f64 / 1e6);
        let slots = self.samplers.values().map(|sampler| sampler.slots).max().unwrap_or(0);
        let records: u64 = self.by_status.values().sum();
        let others = |(status, count): (&String, &u64)| format!("{} {count}", Printable(status));
        let mut statuses: Vec<_> = ["ok", "timeout"].iter().map(|status| format!("{status} {}", self.count(status))).collect();
        statuses.extend(self.by_status.iter().filter(|(status, _)| !["ok", "timeout"].contains(&status.as_str())).map(others));

        let mut table = new_table();
        table.add_row(["ports", &format!("{} on {} samplers", self.ports(), self.samplers.len())]);
        table.add_row(["slots", &format!("{slots} each, {} missed", self.sum(|sampler| sampler.missed))]);
        table.add_row(["records", &format!("{records}: {}", statuses.join(", "))]);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| millis(quantile(&durations, share)));
        table.add_row(["sweep", &format!("p50 {p50}, p99 {p99}, max {max}")]);
        table.add_row(["MADs", &format!("{:.0} a second", self.mads_per_second())]);
        let lost = self.sum(|sampler| sampler.lost);
        if lost > 0 || self.unreadable > 0 {
            table.add_row(["lines", &format!("{lost} lost, {} unreadable", self.unreadable)]);
        }
        writeln!(f, "{}", text_of(table, &[]))?;

        let busiest = self.busiest(5);
        if busiest.is_empty() {
            return Ok(());
        }
        let mut table = new_table();
        table.set_header(["busiest links", "to", "link", "mean Gb/s", "of its rate"]);
        for link in busiest {
            let readings = f64::from(link.readings);
            let (gbps, share) = (format!("{:.1}", link.gbps / readings), format!("{:.0} %", 100.0 * link.utilization / readings));
            table.add_row([&link.from, &link.to, &link.rate, &gbps, &share]);
        }
        writeln!(f, "\n{}", text_of(table, &[3, 4]))
    }
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// The text of a table; the columns `right` are aligned to the right.
fn text_of(mut table: Table, right: &[usize]) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_few_values_are_exact() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&[1, 2, 3, 4], share)), [2, 4, 4]);
    }

    #[test]
    fn invalid_lines_are_counted() {
        let mut summary = Summary::default();
        summary.read(&b"{\"type\":\"start\"}\nnonsense\n{\"type\":\"else\"}\n"[..]).expect("read");
        assert_eq!(summary.unreadable, 3);
    }

    #[test]
    fn control_characters_of_records_are_escaped() {
        let line = r#"{"type":"port","ts":1,"slot":1,"sampler":"a","guid":"0x0000000000000001","port":1,"lid":1,"node":"n","kind":"hca","hops":null,"peer_guid":null,"peer_port":null,"peer":null,"link":"4x\u001b[2J","link_source":"file","status":"ok","rtt_ns":0,"mads":1,"identity":"ok","dt_ns":1,"xmit_gbps":1.0,"rcv_gbps":null,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":null}"#;
        let mut summary = Summary::default();
        summary.read(line.as_bytes()).expect("read");
        let text = summary.to_string();
        assert!(text.contains(r"4x\u{1b}[2J"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || matches!(c, ' '..='~')), "{text:?}");
    }

    /// Returns a `start` and two `sweep` records.
    fn stream(interval_ns: u64, mads: u64) -> String {
        let sweep = |ts, ns| {
            format!(
                r#"{{"type":"sweep","ts":{ts},"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","duration_ns":{ns},"decode_ns":0,"ports":7,"ok":7,"late":0,"timeout":0,"unreachable":0,"skipped":0,"errors":0,"mads_sent":{mads},"mads_late":0,"mads_rejected":0,"mads_duplicate":0,"mads_foreign":0,"mads_bad_length":0,"mads_bad_class":0,"mads_bad_attribute":0,"mads_bad_port":0,"mads_refused":0,"load_bytes":0,"slots_missed":0,"lines_lost":0,"rtt_p50_ns":null,"rtt_p99_ns":null,"rtt_max_ns":null}}"#
            )
        };
        let start = format!(
            r#"{{"type":"start","ts":1,"slot":1,"sampler":"a","schema":1,"version":"0","boot_id":"","pid":1,"ca":"sim","ca_port":1,"role":"primary","interval_ns":{interval_ns},"groups":[],"ports":7,"assignments_sha256":null,"clock_ns":30,"file_seq":0}}"#
        );
        format!("{start}\n{}\n{}\n", sweep(1, 2_000_000), sweep(2, 4_000_000))
    }

    #[test]
    fn rates_and_durations_are_those_of_the_records() {
        let mut summary = Summary::default();
        summary.read(stream(500_000_000, 28).as_bytes()).expect("read");
        assert_eq!((summary.unreadable, summary.ports(), summary.mads_per_second()), (0, 7, 56.0));
        assert!(summary.to_string().contains("p50 2.00 ms, p99 4.00 ms, max 4.00 ms"), "{summary}");
    }

    #[test]
    fn sums_of_large_numbers_saturate() {
        let mut summary = Summary::default();
        let huge = stream(u64::MAX, u64::MAX).reindex(r#""ports":7"#, r#""ports":4294967295"#);
        summary.read(huge.as_bytes()).expect("read");
        summary.read(huge.reindex(r#""sampler":"a""#, r#""sampler":"b""#).as_bytes()).expect("read");
        assert_eq!((summary.unreadable, summary.ports()), (0, u32::MAX));
        assert!(summary.mads_per_second() > 0.0 && summary.to_string().contains("slots"));
    }

    #[test]
    fn torn_character_costs_only_its_line() {
        let mut bytes = stream(500_000_000, 28).into_bytes();
        bytes.extend_from_slice(b"{\"type\":\"port\",\"node\":\"n\xc3\n");
        bytes.extend_from_slice(stream(500_000_000, 28).as_bytes());
        let mut summary = Summary::default();
        summary.read(&bytes[..]).expect("read");
        assert_eq!((summary.unreadable, summary.samplers["a"].slots), (1, 4));
    }
}
