//! The summary that `ibnet-sweep --summary` prints at the end of a sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use ibnet::sweep::driver::{PortReport, SlotReport};
use ibnet::sweep::port_record::Shares;
use ibnet_record::Status;
use ibnet_record::count;
use ibnet_record::types::{Guid, PortNum, Printable};

use ibnet::sweep::stats;

use super::table;

/// Number of links that are listed.
const BUSIEST: usize = 5;

/// Totals over all slots of all workers.
#[derive(Debug)]
pub(super) struct Summary {
    workers: BTreeMap<WorkerName, Worker>,
    links: BTreeMap<(Guid, PortNum), Link>,
    /// Number of slots of the worker that has the most.
    slots: u64,
    missed: u64,
    lost: u64,
    /// Number of port records by status, in the order of [`Status::ALL`].
    by_status: [u64; Status::ALL.len()],
    /// Durations of sweeps in nanoseconds.
    durations: stats::Durations,
    longest: Duration,
}

/// Sampler, HCA, port of the HCA, and whether it is a secondary sampler.
type WorkerName = (String, String, PortNum, bool);

/// Totals over the slots of one worker.
#[derive(Debug, Default)]
struct Worker {
    /// Number of ports in the last slot.
    ports: u32,
    mads: u64,
    time: Duration,
}

/// One direction of a link.
#[derive(Debug)]
struct Link {
    from: String,
    to: String,
    rate: String,
    gbps: f64,
    utilization: f64,
    slots: u32,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            workers: BTreeMap::new(),
            links: BTreeMap::new(),
            slots: 0,
            missed: 0,
            lost: 0,
            by_status: [0; Status::ALL.len()],
            durations: stats::durations(),
            longest: Duration::ZERO,
        }
    }
}

impl Summary {
    /// Adds a slot of one worker.
    pub(super) fn add(&mut self, report: SlotReport<'_>) {
        let SlotReport {
            stats, settings, ..
        } = report;
        let name = (
            settings.sampler.clone(),
            settings.ca.clone(),
            settings.ca_port,
            settings.is_secondary,
        );
        let worker = self.workers.entry(name).or_default();
        worker.ports = stats.total();
        worker.mads += stats.mads_sent;
        worker.time += settings.interval;
        self.slots = self.slots.max(report.done);
        self.missed += report.missed;
        self.lost += report.lines_lost;
        for (sum, status) in self.by_status.iter_mut().zip(Status::ALL) {
            *sum += u64::from(stats.count(status));
        }
        let duration = stats.ended - stats.started;
        self.longest = self.longest.max(duration);
        self.durations
            .saturating_record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        report.ports().for_each(|port| self.add_port(&port));
    }

    fn add_port(&mut self, port: &PortReport<'_>) {
        let PortReport {
            identity,
            sample,
            reading,
            ..
        } = port;
        let Some(gbps) = reading.rates.xmit_gbps else {
            return;
        };
        let link = self
            .links
            .entry((identity.guid, identity.port))
            .or_insert_with(|| Link {
                from: format!("{} port {}", Printable(&identity.node), identity.port),
                to: identity.peer.as_ref().map_or_else(
                    || "?".to_owned(),
                    |(_, port, name)| format!("{} port {port}", Printable(name)),
                ),
                rate: identity.link.to_string(),
                gbps: 0.0,
                utilization: 0.0,
                slots: 0,
            });
        link.gbps += gbps;
        link.utilization += Shares::of(identity, sample, reading.rates)
            .xmit
            .unwrap_or(0.0);
        link.slots += 1;
    }

    /// Returns the links with the highest average rate, the highest first.
    fn busiest(&self) -> Vec<&Link> {
        let mut links: Vec<&Link> = self.links.values().filter(|link| link.gbps > 0.0).collect();
        links.sort_by(|a, b| b.mean_gbps().total_cmp(&a.mean_gbps()));
        links.truncate(BUSIEST);
        links
    }
}

impl Link {
    fn mean_gbps(&self) -> f64 {
        self.gbps / f64::from(self.slots)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            durations,
            longest,
            slots,
            missed,
            lost,
            ..
        } = self;
        let ports: u32 = self.workers.values().map(|worker| worker.ports).sum();
        let samplers = self
            .workers
            .keys()
            .map(|(sampler, ..)| sampler)
            .collect::<BTreeSet<_>>()
            .len();
        let count = |status: Status| self.by_status[status as usize];
        let others = Status::ALL
            .into_iter()
            .filter(|status| ![Status::Ok, Status::Timeout].contains(status) && count(*status) > 0);
        let statuses: Vec<_> = [Status::Ok, Status::Timeout]
            .into_iter()
            .chain(others)
            .map(|status| format!("{status} {}", count(status)))
            .collect();
        let mads: f64 = self
            .workers
            .values()
            .map(|worker| worker.mads as f64 / worker.time.as_secs_f64())
            .sum();
        let millis = |nanos: u64| nanos as f64 / 1e6;
        let max = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        // The histogram has two significant digits, so a quantile may be rounded to a value above
        // the max.
        let [p50, p99] =
            [0.5, 0.99].map(|quantile| millis(durations.value_at_quantile(quantile).min(max)));

        let mut table = table::new();
        table.add_row([
            "ports",
            &format!("{ports} on {}", count::count(samplers, "sampler")),
        ]);
        table.add_row(["slots", &format!("{slots} each, {missed} missed")]);
        table.add_row([
            "records",
            &format!(
                "{}: {}",
                self.by_status.iter().sum::<u64>(),
                statuses.join(", ")
            ),
        ]);
        table.add_row([
            "sweep",
            &format!(
                "p50 {p50:.2} ms, p99 {p99:.2} ms, max {:.2} ms",
                millis(max)
            ),
        ]);
        table.add_row(["MADs", &format!("{mads:.0} a second")]);
        if *lost > 0 {
            table.add_row(["dropped", &count::count(*lost, "record")]);
        }
        writeln!(f, "{}", table::show(table, &[]))?;

        let busiest = self.busiest();
        if busiest.is_empty() {
            return Ok(());
        }
        let mut table = table::new();
        table.set_header(["busiest links", "to", "link", "mean Gb/s", "utilization"]);
        for link in busiest {
            let (gbps, share) = (
                format!("{:.1}", link.mean_gbps()),
                format!("{:.0} %", 100.0 * link.utilization / f64::from(link.slots)),
            );
            table.add_row([&link.from, &link.to, &link.rate, &gbps, &share]);
        }
        writeln!(f, "\n{}", table::show(table, &[3, 4]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_links_are_sorted_by_their_mean_and_names_are_escaped() {
        let mut summary = Summary::default();
        for (number, (gbps, slots)) in [
            (30.0, 3),
            (50.0, 1),
            (0.0, 1),
            (40.0, 1),
            (1.0, 1),
            (2.0, 1),
            (3.0, 1),
        ]
        .into_iter()
        .enumerate()
        {
            let from = format!("n{number}{} port 1", Printable("\u{1b}[2J"));
            let link = Link {
                from,
                to: "?".to_owned(),
                rate: "4xEDR".to_owned(),
                gbps,
                utilization: gbps / 100.0,
                slots,
            };
            summary
                .links
                .insert((Guid(number as u64), PortNum(1)), link);
        }
        assert_eq!(
            summary
                .busiest()
                .iter()
                .map(|link| link.gbps)
                .collect::<Vec<_>>(),
            [50.0, 40.0, 30.0, 3.0, 2.0]
        );
        let text = summary.to_string();
        assert!(
            text.contains("50.0") && text.contains("50 %") && text.contains("n1\\u{1b}[2J port 1"),
            "{text}"
        );
    }

    #[test]
    fn summary_of_no_slot_has_no_links() {
        let text = Summary::default().to_string();
        assert!(
            text.contains("0 on 0 samplers")
                && text.contains("0 a second")
                && !text.contains("busiest"),
            "{text}"
        );
    }
}
