//! Encodes slots as OpenMetrics text, ordered by metric family, then by HCA port worker, then by
//! port.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use ibnet_record::Status;
use ibnet_record::types::{Guid, NodeKind, Printable};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::snapshot::{BOUNDS, Distribution, Port, Snapshot};
use super::{Content, LastSlot, Peers, names};
use crate::sweep::engine::SubnetManager;
use crate::sweep::physical_record::{Gauge, Measured};

/// The last slots of all workers, and the peers of their ports.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) last_slots: Vec<LastSlot>,
    pub(super) peers: Arc<Peers>,
    pub(super) content: Arc<Content>,
}

/// Encodes those metric families that are served.
struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
    content: Arc<Content>,
}

impl Page<'_> {
    /// Begins a family, or returns `None` if it is not served. `name` is without `_total`.
    fn family<'a>(
        &'a mut self,
        name: &'a str,
        help: &'a str,
        kind: MetricType,
    ) -> Result<Option<MetricEncoder<'a>>, fmt::Error> {
        let families = &self.content.families;
        let is_served = match kind {
            MetricType::Counter => families.serves(&format!("{name}_total")),
            _ => families.serves(name),
        };
        if is_served {
            self.encoder
                .encode_descriptor(name, help, None, kind)
                .map(Some)
        } else {
            Ok(None)
        }
    }
}

/// Ports of one kind of node with their labels, in the order of the text.
struct PortsOfKind<'a> {
    kind: NodeKind,
    ports: Vec<LabelledPort<'a>>,
}

struct LabelledPort<'a> {
    worker: &'a Snapshot,
    is_fresh: bool,
    /// Index of the port in the worker's snapshot.
    index: usize,
    port: &'a Port,
    /// Whether this is the first port of its device.
    is_first: bool,
    labels: Labels,
}

/// Label with the role of a worker.
const ROLE: &str = "role";

/// Label with the name of a sampler.
const SAMPLER: &str = "sampler";

type Labels = Vec<(&'static str, String)>;

impl Collector for Fabric {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let page = &mut Page {
            encoder,
            content: Arc::clone(&self.content),
        };
        for kind in NodeKind::ALL {
            let kind = PortsOfKind::new(kind, self.slots_with_ports());
            if !kind.ports.is_empty() {
                kind.counters(page)?;
                kind.gauges(page)?;
                kind.physical(page)?;
                kind.infos(&self.peers, page)?;
            }
        }
        self.port_gauges(page)?;
        self.worker_metrics(page)
    }
}

impl<'a> PortsOfKind<'a> {
    fn new(kind: NodeKind, last_slots: impl Iterator<Item = &'a LastSlot>) -> Self {
        let mut ports: Vec<LabelledPort<'a>> = Vec::new();
        for LastSlot { snapshot, is_fresh } in last_slots {
            for (index, port) in snapshot
                .ports
                .iter()
                .enumerate()
                .filter(|(_, port)| port.identity.kind == kind)
            {
                let is_first = ports
                    .last()
                    .is_none_or(|last| last.port.identity.guid != port.identity.guid);
                ports.push(LabelledPort {
                    worker: snapshot,
                    is_fresh: *is_fresh,
                    index,
                    port,
                    is_first,
                    labels: labels(snapshot, port),
                });
            }
        }
        Self { kind, ports }
    }

    fn name(&self, name: &str) -> String {
        format!("infiniband_{}_{name}", self.kind.as_str())
    }

    /// Encodes the counters of the ports that answered in the last slot.
    fn counters(&self, page: &mut Page<'_>) -> fmt::Result {
        let mut written: Vec<&str> = Vec::new();
        for worker in self.ports.iter().map(|port| port.worker) {
            for family in worker.layout.families.iter() {
                if written.contains(&family.json) {
                    continue;
                }
                written.push(family.json);
                self.family(&family.name, &family.help, family.json, family.index, page)?;
                if family.json == names::SECOND_SPELLING.0 {
                    self.family(
                        names::SECOND_SPELLING.1,
                        &family.help,
                        family.json,
                        family.index,
                        page,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn family(
        &self,
        name: &str,
        help: &str,
        json: &str,
        index: Option<&'static str>,
        page: &mut Page<'_>,
    ) -> fmt::Result {
        let values = |port: &LabelledPort<'a>| {
            let family = port
                .worker
                .layout
                .families
                .iter()
                .position(|family| family.json == json)?;
            port.worker
                .values(port.index, family)
                .filter(|_| port.is_fresh)
        };
        if !self.ports.iter().any(|port| values(port).is_some()) {
            return Ok(());
        }
        let name = self.name(name);
        let Some(mut metric) = page.family(&name, help, MetricType::Counter)? else {
            return Ok(());
        };
        for port in &self.ports {
            let Some(values) = values(port) else { continue };
            let Some(index) = index else {
                counter(&mut metric, &port.labels, values[0])?;
                continue;
            };
            for (place, value) in values.iter().enumerate() {
                counter(
                    &mut metric,
                    &with(&port.labels, index, place.to_string()),
                    *value,
                )?;
            }
        }
        Ok(())
    }

    fn gauges(&self, page: &mut Page<'_>) -> fmt::Result {
        const GIGABIT: f64 = 1e9 / 8.0;
        let bytes = |gbps: Option<f64>| gbps.map(|gbps| gbps * GIGABIT);
        let data = |port: &LabelledPort<'_>| bytes(port.port.identity.link.data_gbps());
        let signal = |port: &LabelledPort<'_>| bytes(port.port.identity.link.signal_gbps());
        self.gauge(
            "port_rate_bytes_per_second",
            "Present data rate of the link in bytes per second",
            data,
            page,
        )?;
        self.gauge(
            "port_raw_rate_bytes_per_second",
            "Present signal rate of the link, line code included, in bytes per second",
            signal,
            page,
        )?;
        let state = |port: &LabelledPort<'_>| {
            port.port
                .active
                .filter(|_| port.is_fresh)
                .map(|active| f64::from(u8::from(active)))
        };
        self.gauge(
            "port_state",
            "1 if PortInfo reports the link as active, else 0",
            state,
            page,
        )?;
        let own = |rate: &dyn Fn(&LabelledPort<'_>) -> Option<f64>, port: &LabelledPort<'_>| {
            rate(port).filter(|_| port.is_first)
        };
        if self.kind == NodeKind::Hca {
            // Each port of an HCA is a device by itself.
            self.labelled_gauge(
                "rate_bytes_per_second",
                "Same value as port_rate_bytes_per_second",
                &["guid"],
                |port| own(&data, port),
                page,
            )?;
            self.labelled_gauge(
                "raw_rate_bytes_per_second",
                "Same value as port_raw_rate_bytes_per_second",
                &["guid"],
                |port| own(&signal, port),
                page,
            )?;
        }
        let answered = self
            .ports
            .iter()
            .filter(|port| port.is_fresh && port.port.is_up);
        let answered: BTreeSet<Guid> = answered.map(|port| port.port.identity.guid).collect();
        let answers = |device: &LabelledPort<'_>| {
            device
                .is_first
                .then(|| f64::from(u8::from(answered.contains(&device.port.identity.guid))))
        };
        self.labelled_gauge(
            "up",
            "1 if a port of the device answered in the last slot, else 0",
            &["guid", self.kind.as_str()],
            answers,
            page,
        )
    }

    fn gauge(
        &self,
        name: &str,
        help: &str,
        value: impl Fn(&LabelledPort<'_>) -> Option<f64>,
        page: &mut Page<'_>,
    ) -> fmt::Result {
        self.labelled_gauge(
            name,
            help,
            &["guid", "port", self.kind.as_str()],
            value,
            page,
        )
    }

    /// Encodes a gauge of a port, with those labels of the port that are listed in `keys`.
    fn labelled_gauge(
        &self,
        name: &str,
        help: &str,
        keys: &[&str],
        value: impl Fn(&LabelledPort<'_>) -> Option<f64>,
        page: &mut Page<'_>,
    ) -> fmt::Result {
        let name = self.name(name);
        let Some(mut metric) = page.family(&name, help, MetricType::Gauge)? else {
            return Ok(());
        };
        for port in &self.ports {
            if let Some(value) = value(port) {
                let labels: Labels = port
                    .labels
                    .iter()
                    .filter(|(key, _)| *key == ROLE || keys.contains(key))
                    .cloned()
                    .collect();
                gauge(&mut metric, &labels, value)?;
            }
        }
        Ok(())
    }

    /// Encodes the newest values of the physical layer of ports that answered in the last slot.
    fn physical(&self, page: &mut Page<'_>) -> fmt::Result {
        let values = |port: &LabelledPort<'a>, gauge| {
            let is_valid = port.is_fresh && port.port.is_up;
            let ts = if is_valid { port.worker.ts } else { u64::MAX };
            let of_gauge = move |of: &&Measured| of.gauge == gauge;
            port.port.physical.at(ts).filter(of_gauge)
        };
        for of in Gauge::ALL {
            let name = self.name(of.as_str());
            if self
                .ports
                .iter()
                .all(|port| values(port, of).next().is_none())
            {
                continue;
            }
            let help = help(of);
            let Some(mut metric) = page.family(&name, help, MetricType::Gauge)? else {
                continue;
            };
            let is_of_port = of.as_str().starts_with("port_");
            for port in &self.ports {
                let key = |name: &str| name != "port" || is_of_port;
                let labels = port.labels.iter().filter(|(name, _)| key(name));
                let labels: Labels = labels.cloned().collect();
                let each = match of {
                    Gauge::SensorTemperature => "sensor",
                    Gauge::FanSpeed | Gauge::FanFault => "fan",
                    _ => "lane",
                };
                for Measured { item, value, .. } in values(port, of) {
                    match item {
                        Some(item) => {
                            let labels = with(&labels, each, item.to_string());
                            gauge(&mut metric, &labels, *value)?;
                        }
                        None => gauge(&mut metric, &labels, *value)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Encodes the info metrics, which dashboards join with other metrics: names, LIDs and peers.
    ///
    /// Their values come from the plan, so they exist even if a device does not answer.
    fn infos(&self, peers: &Peers, page: &mut Page<'_>) -> fmt::Result {
        let (info, uplink) = (self.name("info"), self.name("uplink_info"));
        if let Some(mut metric) = page.family(
            &info,
            "Name and LID of a device; the value is 1",
            MetricType::Gauge,
        )? {
            for port in self.ports.iter().filter(|port| port.is_first) {
                let identity = &port.port.identity;
                let device: Labels = port
                    .labels
                    .iter()
                    .filter(|(key, _)| *key != "port")
                    .cloned()
                    .collect();
                gauge(
                    &mut metric,
                    &with(&device, "lid", identity.lid.to_string()),
                    1.0,
                )?;
            }
        }
        let Some(mut metric) =
            page.family(&uplink, "Peer of a port; the value is 1", MetricType::Gauge)?
        else {
            return Ok(());
        };
        for port in &self.ports {
            let Some((guid, number, name)) = &port.port.identity.peer else {
                continue;
            };
            let known = peers.get(guid);
            let (kind, lid) = (
                known.and_then(|(kind, _)| *kind),
                known.map(|(_, lid)| *lid),
            );
            let uplink = [
                ("uplink", label(name)),
                ("uplink_guid", guid.to_string()),
                (
                    "uplink_type",
                    kind.map(type_of).unwrap_or_default().to_owned(),
                ),
                ("uplink_port", number.to_string()),
                (
                    "uplink_lid",
                    lid.map(|lid| lid.to_string()).unwrap_or_default(),
                ),
            ];
            let labels: Labels = port.labels.iter().cloned().chain(uplink).collect();
            gauge(&mut metric, &labels, 1.0)?;
        }
        Ok(())
    }
}

/// Returns the explanation of a value of the physical layer.
const fn help(of: Gauge) -> &'static str {
    match of {
        Gauge::RawBer => "Bit error ratio before error correction, as the device computes it",
        Gauge::EffectiveBer => "Bit error ratio after error correction (FEC)",
        Gauge::SymbolBer => "Bit error ratio after error correction and retransmission (PLR)",
        Gauge::LaneBer => "Bit error ratio of a lane before error correction",
        Gauge::ModuleTemperature => "Temperature of the module or cable",
        Gauge::ReceivePower => "Optical power that the module receives",
        Gauge::TransmitPower => "Optical power that the module sends",
        Gauge::Temperature => "Temperature of the chip of the switch or HCA",
        Gauge::Uptime => "Time since the switch or HCA was started",
        Gauge::SensorTemperature => "Temperature of a sensor of the switch",
        Gauge::FanSpeed => "Speed of a fan in rotations per minute",
        Gauge::FanFault => "Whether a fan is slower or faster than its limits: 0 or 1",
    }
}

impl Fabric {
    /// Iterates over the slots whose ports are encoded.
    fn slots_with_ports(&self) -> impl Iterator<Item = &LastSlot> {
        self.last_slots
            .iter()
            .filter(|slot| self.content.secondary || !slot.snapshot.is_secondary())
    }

    /// Returns the labels of a worker. They include the name of the sampler if this process
    /// sweeps for several samplers.
    fn worker_labels(&self, snapshot: &Snapshot) -> Labels {
        let labels = role_labels(snapshot);
        if self
            .last_slots
            .iter()
            .all(|slot| slot.snapshot.sampler == snapshot.sampler)
        {
            return labels;
        }
        with(&labels, SAMPLER, label(&snapshot.sampler))
    }

    /// Encodes the port gauges that only ibnet has.
    fn port_gauges(&self, page: &mut Page<'_>) -> fmt::Result {
        type Value = fn(&Port) -> Option<f64>;
        let families: [(&str, &str, Value); 8] = [
            (
                "ibnet_port_up",
                "1 if the port answered in the last slot, else 0",
                |port| Some(f64::from(u8::from(port.is_up))),
            ),
            (
                "ibnet_port_transmit_utilization_ratio",
                "Share of the link's data rate that was transmitted in the last slot, 0 to 1",
                |port| port.shares.xmit,
            ),
            (
                "ibnet_port_receive_utilization_ratio",
                "Share of the link's data rate that was received in the last slot, 0 to 1",
                |port| port.shares.rcv,
            ),
            (
                "ibnet_port_transmit_blocked_ratio",
                "Share of time in the last slot in which data waited for credits, 0 to 1",
                |port| port.shares.blocked,
            ),
            (
                "ibnet_port_transmit_utilization_peak_ratio",
                "Largest transmit utilization of the last one to two minutes, 0 to 1",
                |port| port.peaks.xmit,
            ),
            (
                "ibnet_port_receive_utilization_peak_ratio",
                "Largest receive utilization of the last one to two minutes, 0 to 1",
                |port| port.peaks.rcv,
            ),
            (
                "ibnet_port_transmit_blocked_peak_ratio",
                "Largest blocked share of the last one to two minutes, 0 to 1",
                |port| port.peaks.blocked,
            ),
            (
                "ibnet_port_saturated_counters",
                "Number of saturated counters; their true values are at least those shown",
                |port| Some(f64::from(port.saturated)),
            ),
        ];
        for (name, help, value) in families {
            let Some(mut metric) = page.family(name, help, MetricType::Gauge)? else {
                continue;
            };
            for LastSlot { snapshot, is_fresh } in self.slots_with_ports() {
                for port in &snapshot.ports {
                    let value = match name {
                        // A port that does not answer has no other gauge.
                        "ibnet_port_up" => Some(if *is_fresh {
                            value(port).unwrap_or_default()
                        } else {
                            0.0
                        }),
                        _ => value(port).filter(|_| *is_fresh && port.is_up),
                    };
                    if let Some(value) = value {
                        let key: Labels = labels(snapshot, port)
                            .into_iter()
                            .filter(|(key, _)| ["guid", "port", ROLE].contains(key))
                            .collect();
                        gauge(&mut metric, &key, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Encodes the metrics of ibnet-sweep itself.
    fn worker_metrics(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(mut metric) = page.family(
            "ibnet_build_info",
            "Version of ibnet-sweep; the value is 1",
            MetricType::Gauge,
        )? {
            gauge(
                &mut metric,
                &vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
                1.0,
            )?;
        }
        let help = "HCA port that sends MADs, and its sampler; the value is 1";
        if let Some(mut metric) = page.family("ibnet_lane_info", help, MetricType::Gauge)? {
            for LastSlot { snapshot, .. } in &self.last_slots {
                gauge(
                    &mut metric,
                    &with(&role_labels(snapshot), SAMPLER, label(&snapshot.sampler)),
                    1.0,
                )?;
            }
        }
        type Gauge = (&'static str, &'static str, fn(&LastSlot) -> f64);
        let gauges: [Gauge; 4] = [
            (
                "ibnet_up",
                "1 if the last slot is recent and the transport is open, else 0",
                |slot| f64::from(u8::from(slot.is_up())),
            ),
            (
                "ibnet_interval_seconds",
                "Time between the starts of two slots in seconds",
                |slot| slot.snapshot.interval.as_secs_f64(),
            ),
            (
                "ibnet_last_slot_timestamp_seconds",
                "End of the last slot in seconds since 1970",
                |slot| slot.snapshot.ts as f64 / 1e9,
            ),
            (
                "ibnet_assigned_ports",
                "Ports that the sampler queries",
                |slot| slot.snapshot.ports.len() as f64,
            ),
        ];
        for (name, help, value) in gauges {
            let Some(mut metric) = page.family(name, help, MetricType::Gauge)? else {
                continue;
            };
            for slot in &self.last_slots {
                gauge(
                    &mut metric,
                    &self.worker_labels(&slot.snapshot),
                    value(slot),
                )?;
            }
        }
        if let Some(mut metric) = page.family(
            "ibnet_ports",
            "Ports by their status in the last slot",
            MetricType::Gauge,
        )? {
            for LastSlot { snapshot, .. } in self.last_slots.iter().filter(|slot| slot.is_fresh) {
                for (status, ports) in Status::ALL.into_iter().zip(snapshot.statuses) {
                    gauge(
                        &mut metric,
                        &with(&self.worker_labels(snapshot), "status", status.to_string()),
                        ports.into(),
                    )?;
                }
            }
        }
        self.managers(page)?;
        self.totals(page)?;
        self.distributions(page)
    }

    /// Encodes the metrics of subnet managers.
    fn managers(&self, page: &mut Page<'_>) -> fmt::Result {
        type Value = fn(&SubnetManager) -> u32;
        let families: [(&str, &str, MetricType, Value); 4] = [
            (
                "ibnet_sm_up",
                "1 if the subnet manager answered its last queries, else 0",
                MetricType::Gauge,
                |sm| sm.is_answering.into(),
            ),
            (
                "ibnet_sm_state",
                "0 not active, 1 discovering, 2 standby, 3 master",
                MetricType::Gauge,
                |sm| sm.info.state.number().into(),
            ),
            (
                "ibnet_sm_priority",
                "Priority of the subnet manager, 0 to 15",
                MetricType::Gauge,
                |sm| sm.info.priority.into(),
            ),
            (
                "ibnet_sm_activity",
                "Actions of the subnet manager (ActCount)",
                MetricType::Counter,
                |sm| sm.info.act_count,
            ),
        ];
        for (name, help, kind, value) in families {
            let Some(mut metric) = page.family(name, help, kind)? else {
                continue;
            };
            for LastSlot { snapshot, .. } in self.last_slots.iter().filter(|slot| slot.is_fresh) {
                for manager in &snapshot.managers {
                    let place = [
                        ("guid", manager.info.guid.to_string()),
                        ("lid", manager.lid.to_string()),
                    ];
                    let labels = self
                        .worker_labels(snapshot)
                        .into_iter()
                        .chain(place)
                        .collect();
                    match kind {
                        MetricType::Counter => {
                            counter(&mut metric, &labels, value(manager).into())?;
                        }
                        _ => gauge(&mut metric, &labels, value(manager).into())?,
                    }
                }
            }
        }
        Ok(())
    }

    fn totals(&self, page: &mut Page<'_>) -> fmt::Result {
        type Total = (&'static str, &'static str, fn(&Snapshot) -> u64);
        let totals: [Total; 10] = [
            ("ibnet_slots", "Slots that ran", |worker| {
                worker.totals.slots
            }),
            (
                "ibnet_slots_missed",
                "Slots that could not start in time",
                |worker| worker.totals.missed,
            ),
            (
                "ibnet_lines_lost",
                "Records that an output dropped",
                |worker| worker.totals.lines_lost,
            ),
            (
                "ibnet_mads_sent",
                "Requests sent, of all classes",
                |worker| worker.totals.mads_sent,
            ),
            (
                "ibnet_mads_late",
                "Replies received after the timeout",
                |worker| worker.totals.mads_late,
            ),
            (
                "ibnet_mads_refused",
                "Replies with an error status",
                |worker| worker.totals.mads_refused,
            ),
            (
                "ibnet_send_errors",
                "Requests that could not be sent",
                |worker| worker.totals.send_errors,
            ),
            (
                "ibnet_load_bytes",
                "Load of the requests on each link of their path, in bytes",
                |worker| worker.totals.load_bytes,
            ),
            (
                "ibnet_port_resets",
                "Ports in whose counters a decrease was seen: cleared, or the device restarted",
                |worker| worker.totals.resets,
            ),
            (
                "ibnet_sm_master_changes",
                "Times that another subnet manager became the master",
                |worker| worker.totals.master_changes,
            ),
        ];
        for (name, help, value) in totals {
            let Some(mut metric) = page.family(name, help, MetricType::Counter)? else {
                continue;
            };
            for LastSlot { snapshot, .. } in &self.last_slots {
                counter(&mut metric, &self.worker_labels(snapshot), value(snapshot))?;
            }
        }
        let help = "Replies that matched no outstanding request, by reason";
        let Some(mut metric) = page.family("ibnet_mads_rejected", help, MetricType::Counter)?
        else {
            return Ok(());
        };
        for LastSlot { snapshot, .. } in &self.last_slots {
            let rejected = snapshot.totals.rejected;
            for (reason, count) in [
                ("duplicate", rejected.duplicate),
                ("foreign", rejected.foreign),
                ("length", rejected.length),
                ("class", rejected.class),
                ("attribute", rejected.attribute),
                ("port", rejected.port),
            ] {
                counter(
                    &mut metric,
                    &with(&self.worker_labels(snapshot), "reason", reason.to_owned()),
                    count,
                )?;
            }
        }
        Ok(())
    }

    fn distributions(&self, page: &mut Page<'_>) -> fmt::Result {
        let help = "Time from the start of a slot to its last reply or timeout, in seconds";
        if let Some(mut metric) =
            page.family("ibnet_slot_duration_seconds", help, MetricType::Histogram)?
        {
            for LastSlot { snapshot, .. } in &self.last_slots {
                distribution(
                    &mut metric,
                    &self.worker_labels(snapshot),
                    &snapshot.totals.duration,
                )?;
            }
        }
        let help = "Round-trip time of the accepted replies by kind of device, in seconds";
        let Some(mut metric) = page.family("ibnet_rtt_seconds", help, MetricType::Histogram)?
        else {
            return Ok(());
        };
        for LastSlot { snapshot, .. } in &self.last_slots {
            for (kind, of_kind) in [
                ("switch", &snapshot.totals.rtt_switch),
                ("hca", &snapshot.totals.rtt_hca),
            ] {
                distribution(
                    &mut metric,
                    &with(&self.worker_labels(snapshot), "kind", kind.to_owned()),
                    of_kind,
                )?;
            }
        }
        Ok(())
    }
}

/// Returns the labels of a port: its key (GUID and port number) and the name of its node. For a
/// secondary sampler, there is also a label with the role.
fn labels(snapshot: &Snapshot, port: &Port) -> Labels {
    let identity = &port.identity;
    let node = label(&identity.node);
    let labels = [
        ("guid", identity.guid.to_string()),
        ("port", identity.port.to_string()),
        (identity.kind.as_str(), node),
    ];
    let role = snapshot
        .is_secondary()
        .then(|| (ROLE, snapshot.role.to_owned()));
    labels.into_iter().chain(role).collect()
}

/// Returns the labels that distinguish the workers of one sampler: the HCA port and the role.
fn role_labels(snapshot: &Snapshot) -> Labels {
    let ca = label(&snapshot.ca);
    vec![
        ("ca", ca),
        ("ca_port", snapshot.ca_port.to_string()),
        (ROLE, snapshot.role.to_owned()),
    ]
}

/// Returns the label value for an untrusted name. The encoder escapes what the format requires;
/// this function also escapes invisible characters, because people read the text.
fn label(text: &str) -> String {
    Printable(text).to_string()
}

fn with(labels: &Labels, key: &'static str, value: String) -> Labels {
    labels.iter().cloned().chain([(key, value)]).collect()
}

/// Returns the abbreviation of a kind as `ibnetdiscover -p` prints it.
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
    metric
        .encode_family(labels)?
        .encode_histogram::<NoLabelSet>(of.sum_seconds, of.count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge as Value;
    use prometheus_client::registry::Registry;

    use super::*;

    /// Returns the value of the only label of a line, as the Prometheus text format defines it.
    fn read(line: &str) -> String {
        let (_, rest) = line.split_once("{node=\"").expect("a label");
        let (mut value, mut characters) = (String::new(), rest.chars());
        loop {
            match characters.next().expect("the value ends") {
                '"' => break,
                '\\' => value.push(match characters.next().expect("an escape") {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("{c:?} is no escape"),
                }),
                c => value.push(c),
            }
        }
        assert_eq!(characters.as_str(), "} 1", "{line:?}");
        value
    }

    #[test]
    fn every_character_is_valid_and_visible_in_a_label() {
        let characters: Vec<char> = ('\0'..=char::MAX).collect();
        let mut registry = Registry::default();
        let family = Family::<Labels, Value>::default();
        registry.register("a", "b", family.clone());
        // The numbers make the values of different chunks distinct.
        let chunks: Vec<String> = characters
            .chunks(256)
            .enumerate()
            .map(|(number, of)| format!("{number} {}", String::from_iter(of)))
            .collect();
        for chunk in &chunks {
            family.get_or_create(&vec![("node", label(chunk))]).set(1);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("it is written");
        assert!(
            !text
                .chars()
                .any(|c| c != '\n' && ibnet_record::types::misleads(c))
        );
        let mut found: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(read)
            .collect();
        let mut expected: Vec<String> = chunks
            .iter()
            .map(|chunk| Printable(chunk).to_string())
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found.len(), characters.len().div_ceil(256));
        assert!(found == expected);
    }
}
