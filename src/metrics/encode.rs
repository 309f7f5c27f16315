//! Encoding of slots as OpenMetrics: by family, within a family by worker, then by port.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::snapshot::{BOUNDS, Distribution, PortState, Snapshot};
use super::{Peers, Shown, names};
use crate::sweep::sample::Status;
use crate::types::{Guid, NodeKind, Printable};

/// All slots to encode.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) shown: Vec<Shown>,
    pub(super) peers: Arc<Peers>,
}

/// The ports of one kind of device in the order of their appearance, with their labels.
struct Kind<'a> {
    kind: NodeKind,
    ports: Vec<Labelled<'a>>,
}

struct Labelled<'a> {
    worker: &'a Snapshot,
    is_fresh: bool,
    /// Index of the port in its worker.
    index: usize,
    port: &'a PortState,
    /// Whether the port is the first of its device.
    is_first: bool,
    labels: Labels,
}

type Labels = Vec<(&'static str, String)>;

impl Collector for Fabric {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for kind in [NodeKind::Switch, NodeKind::Hca, NodeKind::Router] {
            let kind = Kind::of(kind, &self.shown);
            if !kind.ports.is_empty() {
                kind.counters(&mut encoder)?;
                kind.gauges(&mut encoder)?;
                kind.infos(&self.peers, &mut encoder)?;
            }
        }
        self.shares(&mut encoder)?;
        self.of_workers(&mut encoder)
    }
}

impl<'a> Kind<'a> {
    fn of(kind: NodeKind, shown: &'a [Shown]) -> Self {
        let mut ports: Vec<Labelled<'a>> = Vec::new();
        for Shown { snapshot, is_fresh } in shown {
            for (index, port) in snapshot.ports.iter().enumerate().filter(|(_, port)| port.identity.kind == kind) {
                let is_first = ports.last().is_none_or(|last| last.port.identity.guid != port.identity.guid);
                ports.push(Labelled { worker: snapshot, is_fresh: *is_fresh, index, port, is_first, labels: labels(port) });
            }
        }
        Self { kind, ports }
    }

    fn name(&self, name: &str) -> String {
        format!("infiniband_{}_{name}", self.kind.as_str())
    }

    /// Encodes the counters of the ports that answered in the last slot.
    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut encoded: Vec<&str> = Vec::new();
        for worker in self.ports.iter().map(|port| port.worker) {
            for family in worker.layout.families.iter() {
                if encoded.contains(&family.json) {
                    continue;
                }
                encoded.push(family.json);
                self.family(&family.name, &family.help, family.json, family.index, encoder)?;
                if family.json == names::SECOND_NAME.0 {
                    self.family(names::SECOND_NAME.1, &family.help, family.json, family.index, encoder)?;
                }
            }
        }
        Ok(())
    }

    fn family(&self, name: &str, help: &str, json: &str, index: Option<&'static str>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let values = |port: &Labelled<'a>| {
            let family = port.worker.layout.families.iter().position(|family| family.json == json)?;
            port.worker.values(port.index, family).filter(|_| port.is_fresh)
        };
        if !self.ports.iter().any(|port| values(port).is_some()) {
            return Ok(());
        }
        let name = self.name(name);
        let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
        for port in &self.ports {
            let Some(values) = values(port) else { continue };
            let Some(index) = index else {
                counter(&mut metric, &port.labels, values[0])?;
                continue;
            };
            for (place, value) in values.iter().enumerate() {
                counter(&mut metric, &with(&port.labels, index, place.to_string()), *value)?;
            }
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        const GIGABIT: f64 = 1e9 / 8.0;
        let bytes = |gbps: Option<f64>| gbps.map(|gbps| gbps * GIGABIT);
        let data = |port: &Labelled<'_>| bytes(port.port.identity.link.data_gbps());
        let signal = |port: &Labelled<'_>| bytes(port.port.identity.link.signal_gbps());
        self.gauge("port_rate_bytes_per_second", "Current data rate of the link in octets per second", data, encoder)?;
        self.gauge("port_raw_rate_bytes_per_second", "Current signalling rate of the link in octets per second", signal, encoder)?;
        let state = |port: &Labelled<'_>| port.port.active.filter(|_| port.is_fresh).map(|active| f64::from(u8::from(active)));
        self.gauge("port_state", "Whether the link is active according to PortInfo, 0 or 1", state, encoder)?;
        let own = |rate: &dyn Fn(&Labelled<'_>) -> Option<f64>, port: &Labelled<'_>| rate(port).filter(|_| port.is_first);
        if self.kind == NodeKind::Hca {
            // Each port of an HCA is a device of its own.
            self.of_devices("rate_bytes_per_second", "Same as port_rate_bytes_per_second", &["guid"], |port| own(&data, port), encoder)?;
            self.of_devices(
                "raw_rate_bytes_per_second",
                "Same as port_raw_rate_bytes_per_second",
                &["guid"],
                |port| own(&signal, port),
                encoder,
            )?;
        }
        let answered = self.ports.iter().filter(|port| port.is_fresh && port.port.is_up);
        let answered: BTreeSet<Guid> = answered.map(|port| port.port.identity.guid).collect();
        let answers = |device: &Labelled<'_>| device.is_first.then(|| f64::from(u8::from(answered.contains(&device.port.identity.guid))));
        self.of_devices(
            "up",
            "Whether a port of the device answered in the last slot, 0 or 1",
            &["guid", self.kind.as_str()],
            answers,
            encoder,
        )
    }

    fn gauge(
        &self,
        name: &str,
        help: &str,
        value: impl Fn(&Labelled<'_>) -> Option<f64>,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        self.of_devices(name, help, &["guid", "port", self.kind.as_str()], value, encoder)
    }

    /// Encodes a gauge with some of the labels of a port.
    fn of_devices(
        &self,
        name: &str,
        help: &str,
        keys: &[&str],
        value: impl Fn(&Labelled<'_>) -> Option<f64>,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let name = self.name(name);
        let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
        for port in &self.ports {
            if let Some(value) = value(port) {
                let labels: Labels = port.labels.iter().filter(|(key, _)| keys.contains(key)).cloned().collect();
                gauge(&mut metric, &labels, value)?;
            }
        }
        Ok(())
    }

    /// Encodes the metrics that dashboards join by: names, LIDs and the other ends of links. They
    /// come from the plan, so they exist for devices that do not answer.
    fn infos(&self, peers: &Peers, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (info, uplink) = (self.name("info"), self.name("uplink_info"));
        let mut metric = encoder.encode_descriptor(&info, "A device, its name and LID", None, MetricType::Gauge)?;
        for port in self.ports.iter().filter(|port| port.is_first) {
            let identity = &port.port.identity;
            let device: Labels = port.labels.iter().filter(|(key, _)| *key != "port").cloned().collect();
            gauge(&mut metric, &with(&device, "lid", identity.lid.to_string()), 1.0)?;
        }
        let mut metric = encoder.encode_descriptor(&uplink, "A port and the other end of its link", None, MetricType::Gauge)?;
        for port in &self.ports {
            let Some((guid, number, name)) = &port.port.identity.peer else { continue };
            let known = peers.get(guid);
            let (kind, lid) = (known.and_then(|(kind, _)| *kind), known.map(|(_, lid)| *lid));
            let uplink = [
                ("uplink", Printable(name).to_string()),
                ("uplink_guid", guid.to_string()),
                ("uplink_type", kind.map(type_of).unwrap_or_default().to_owned()),
                ("uplink_port", number.to_string()),
                ("uplink_lid", lid.map(|lid| lid.to_string()).unwrap_or_default()),
            ];
            let labels: Labels = port.labels.iter().cloned().chain(uplink).collect();
            gauge(&mut metric, &labels, 1.0)?;
        }
        Ok(())
    }
}

impl Fabric {
    /// Encodes the metrics of ports that only ibnet has.
    fn shares(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Value = fn(&PortState) -> Option<f64>;
        let families: [(&str, &str, Value); 8] = [
            ("ibnet_port_up", "Whether the port answered in the last slot, 0 or 1", |port| Some(f64::from(u8::from(port.is_up)))),
            ("ibnet_port_transmit_utilization_ratio", "Share of the link's data rate that was transmitted in the last slot", |port| {
                port.shares.xmit
            }),
            ("ibnet_port_receive_utilization_ratio", "Share of the link's data rate that was received in the last slot", |port| {
                port.shares.rcv
            }),
            ("ibnet_port_transmit_blocked_ratio", "Share of time in which data waited for credits in the last slot", |port| {
                port.shares.blocked
            }),
            ("ibnet_port_transmit_utilization_peak_ratio", "Largest value of the last one to two minutes", |port| port.peaks.xmit),
            ("ibnet_port_receive_utilization_peak_ratio", "Largest value of the last one to two minutes", |port| port.peaks.rcv),
            ("ibnet_port_transmit_blocked_peak_ratio", "Largest value of the last one to two minutes", |port| port.peaks.blocked),
            ("ibnet_port_saturated_counters", "Counters at their maximum", |port| Some(f64::from(port.saturated))),
        ];
        for (name, help, value) in families {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for Shown { snapshot, is_fresh } in &self.shown {
                for port in &snapshot.ports {
                    let shown = match name {
                        // The only metric of a port whose worker has no fresh slot.
                        "ibnet_port_up" => Some(if *is_fresh { value(port).unwrap_or_default() } else { 0.0 }),
                        _ => value(port).filter(|_| *is_fresh && port.is_up),
                    };
                    if let Some(shown) = shown {
                        gauge(&mut metric, &labels(port)[..2].to_vec(), shown)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Encodes the metrics of the sweep itself.
    fn of_workers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        gauge(&mut encoder.encode_descriptor("ibnet_build_info", "Version of ibnet-sweep", None, MetricType::Gauge)?, &version, 1.0)?;
        let help = "An HCA port that sends MADs, and its sampler";
        let mut metric = encoder.encode_descriptor("ibnet_lane_info", help, None, MetricType::Gauge)?;
        for Shown { snapshot, .. } in &self.shown {
            gauge(&mut metric, &with(&worker(snapshot), "sampler", Printable(&snapshot.sampler).to_string()), 1.0)?;
        }
        type Gauge = (&'static str, &'static str, fn(&Shown) -> f64);
        let gauges: [Gauge; 4] = [
            ("ibnet_up", "Whether the last slot is recent and the transport is open, 0 or 1", |shown| f64::from(u8::from(shown.is_up()))),
            ("ibnet_interval_seconds", "Time between two slots", |shown| shown.snapshot.interval.as_secs_f64()),
            ("ibnet_last_slot_timestamp_seconds", "End of the last slot, since 1970", |shown| shown.snapshot.ts as f64 / 1e9),
            ("ibnet_assigned_ports", "Ports in each slot", |shown| shown.snapshot.ports.len() as f64),
        ];
        for (name, help, value) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for shown in &self.shown {
                gauge(&mut metric, &worker(&shown.snapshot), value(shown))?;
            }
        }
        let mut metric = encoder.encode_descriptor("ibnet_ports", "Ports by status in the last slot", None, MetricType::Gauge)?;
        for Shown { snapshot, .. } in self.shown.iter().filter(|shown| shown.is_fresh) {
            for (status, ports) in Status::ALL.into_iter().zip(snapshot.statuses) {
                gauge(&mut metric, &with(&worker(snapshot), "status", status.to_string()), ports.into())?;
            }
        }
        self.totals(encoder)?;
        self.distributions(encoder)
    }

    fn totals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Total = (&'static str, &'static str, fn(&Snapshot) -> u64);
        let totals: [Total; 9] = [
            ("ibnet_slots", "Slots that ran", |worker| worker.totals.slots),
            ("ibnet_slots_missed", "Slots that did not start in time", |worker| worker.totals.missed),
            ("ibnet_lines_lost", "Records that an output did not accept", |worker| worker.totals.lines_lost),
            ("ibnet_mads_sent", "Requests for counters and identities", |worker| worker.totals.mads_sent),
            ("ibnet_mads_late", "Replies after their timeout", |worker| worker.totals.mads_late),
            ("ibnet_mads_refused", "Replies with an error status", |worker| worker.totals.mads_refused),
            ("ibnet_send_errors", "Requests that were not sent", |worker| worker.totals.send_errors),
            ("ibnet_load_bytes", "Octets of the requests on each link of their path", |worker| worker.totals.load_bytes),
            ("ibnet_port_resets", "Ports whose counters decreased: cleared, or the device restarted", |worker| worker.totals.resets),
        ];
        for (name, help, value) in totals {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for Shown { snapshot, .. } in &self.shown {
                counter(&mut metric, &worker(snapshot), value(snapshot))?;
            }
        }
        let mut metric = encoder.encode_descriptor("ibnet_mads_rejected", "Replies that were not accepted", None, MetricType::Counter)?;
        for Shown { snapshot, .. } in &self.shown {
            let rejected = snapshot.totals.rejected;
            for (reason, count) in [
                ("duplicate", rejected.duplicate),
                ("foreign", rejected.foreign),
                ("length", rejected.length),
                ("class", rejected.class),
                ("attribute", rejected.attribute),
                ("port", rejected.port),
            ] {
                counter(&mut metric, &with(&worker(snapshot), "reason", reason.to_owned()), count)?;
            }
        }
        Ok(())
    }

    fn distributions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time from the start of a slot to its last reply or timeout";
        let mut metric = encoder.encode_descriptor("ibnet_slot_duration_seconds", help, None, MetricType::Histogram)?;
        for Shown { snapshot, .. } in &self.shown {
            distribution(&mut metric, &worker(snapshot), &snapshot.totals.duration)?;
        }
        let help = "Round trips of accepted replies, by kind of device";
        let mut metric = encoder.encode_descriptor("ibnet_rtt_seconds", help, None, MetricType::Histogram)?;
        for Shown { snapshot, .. } in &self.shown {
            for (kind, of_kind) in [("switch", &snapshot.totals.rtt_switch), ("hca", &snapshot.totals.rtt_hca)] {
                distribution(&mut metric, &with(&worker(snapshot), "kind", kind.to_owned()), of_kind)?;
            }
        }
        Ok(())
    }
}

/// Returns the labels of a port: its key, then the name of its node.
fn labels(port: &PortState) -> Labels {
    let identity = &port.identity;
    let node = Printable(&identity.node).to_string();
    vec![("guid", identity.guid.to_string()), ("port", identity.port.to_string()), (identity.kind.as_str(), node)]
}

/// Returns the labels of a worker.
fn worker(snapshot: &Snapshot) -> Labels {
    let ca = Printable(&snapshot.ca).to_string();
    vec![("ca", ca), ("ca_port", snapshot.ca_port.to_string()), ("role", snapshot.role.to_owned())]
}

fn with(labels: &Labels, key: &'static str, value: String) -> Labels {
    labels.iter().cloned().chain([(key, value)]).collect()
}

/// Returns the word of `ibnetdiscover -p` for a kind of node.
fn type_of(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Switch => "SW",
        NodeKind::Hca => "CA",
        NodeKind::Router => "RT",
    }
}

fn counter(metric: &mut MetricEncoder<'_>, labels: &Labels, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(metric.encode_family(labels)?)
}

fn gauge(metric: &mut MetricEncoder<'_>, labels: &Labels, value: f64) -> fmt::Result {
    ConstGauge::new(value).encode(metric.encode_family(labels)?)
}

fn distribution(metric: &mut MetricEncoder<'_>, labels: &Labels, of: &Distribution) -> fmt::Result {
    let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(of.buckets).collect();
    metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(of.sum_seconds, of.count, &buckets, None)
}
