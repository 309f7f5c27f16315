//! Devices that do not answer, faults of links, and increases of error counters. Unlike
//! `ibqueryerrors`, which reports the current values of counters, this module reports only
//! increases within the time range of the input.

use std::collections::BTreeMap;

use ibnet_record::ERROR_COUNTERS;
use ibnet_record::types::PortNum;
use serde::Serialize;

use crate::devices::{Devices, FaultyDevice};
use crate::hosts::Hosts;
use crate::ports::change::CounterChange;
use crate::ports::{PortKey, PortName, PortSummary};
use crate::rows::Row;

mod thresholds;

pub use thresholds::{ThresholdError, Thresholds};

/// Index of `link_downed_counter` in [`ERROR_COUNTERS`].
const LINK_DOWNED: usize = 0;

/// Fault of a link, in the order of severity, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkFault {
    /// The link is down at the end of the time range.
    Down,
    /// The link went down more than once, or changed its rate, MTU or VLs more than twice.
    Flapping,
    /// The link is slower than before, or slower than in the net file.
    Degraded,
    /// The ends report different rates or MTUs, and this end has the smaller value.
    Mismatch,
    /// The link went down once and is up again.
    WasDown,
}

impl LinkFault {
    /// Returns the name in tables.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Flapping => "flapping",
            Self::Degraded => "degraded",
            Self::Mismatch => "ends differ",
            Self::WasDown => "was down",
        }
    }

    /// Returns the name in the JSON output.
    const fn what(self) -> &'static str {
        match self {
            Self::Down => "link_down",
            Self::Flapping => "flapping",
            Self::Degraded => "degraded",
            Self::Mismatch => "ends_differ",
            Self::WasDown => "was_down",
        }
    }
}

/// A port with a link fault or with errors.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultyPort<'a> {
    /// GUID and number of the port.
    pub key: PortKey,
    /// Summary of the port.
    pub summary: &'a PortSummary,
    /// Fault of the link, if it has one.
    pub fault: Option<LinkFault>,
    /// Start of the fault in nanoseconds since 1970, if the records show it.
    pub since_ns: Option<u64>,
    /// Indices in [`ERROR_COUNTERS`] of the counters whose increase exceeds the threshold.
    pub counters: Vec<usize>,
}

/// All faults of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors<'a> {
    /// Devices with faults: unreachable devices first, and switches before hosts.
    pub devices: Vec<FaultyDevice>,
    /// Ports with link faults by severity, then ports by their number of errors.
    pub faulty: Vec<FaultyPort<'a>>,
    /// Number of evaluated ports.
    pub ports: usize,
    /// Number of ports whose error counters increased without exceeding a threshold.
    pub below: usize,
    /// Number of ports with a counter that was saturated from the start.
    pub saturated: usize,
    /// Number of ports without a reply, on devices that are not in `devices`.
    pub silent: usize,
    /// Number of ports with a link fault that belong to an unreachable device, or whose peer
    /// does. They are not in `faulty`.
    pub at_unreachable: usize,
}

/// A fault in the JSON output. A device with a fault has one row; a port has one row for its link
/// and one for each counter.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ErrorRow {
    /// The port. For a device with a fault, it is the port with the GUID of the device, which for
    /// a switch is port 0.
    #[serde(flatten)]
    pub port: PortName,
    /// The port at the other end of the link. Null for a device, or if unknown.
    pub peer: Option<PortName>,
    /// Width and speed of the link, such as `4xEDR`. Null for a device.
    pub link: Option<String>,
    /// The fault: `unreachable`, `wrong_device`, `was_unreachable`, `link_down`, `flapping`,
    /// `degraded`, `ends_differ`, `was_down`, or the name of a counter.
    pub what: &'static str,
    /// Increase of the counter in the time range. Null for other faults.
    pub increase: Option<u64>,
    /// Whether the true increase may be larger, because the counter was reset in between or is
    /// saturated.
    pub is_lower_bound: bool,
    /// Increase per second. Null for other faults, and for a time range of zero length.
    pub rate: Option<f64>,
    /// Last value of the counter. Null for other faults.
    pub value: Option<u64>,
    /// Start of the fault in nanoseconds since 1970: for a device, the first record or event
    /// without an answer; for a link that is down or changed, the time of the event; for other
    /// faults, the first record of the port.
    pub since_ns: u64,
    /// Whether the fault began within the time range. Null if unknown.
    pub began_in_range: Option<bool>,
    /// Number of unreachable devices whose only connection is through this device.
    pub devices_behind: usize,
    /// Unreachable devices whose only connection is through this device. Not in the CSV output.
    pub behind: Vec<PortName>,
}

impl Row for ErrorRow {
    const COLUMNS: &'static [&'static str] = &[
        "guid",
        "port",
        "node",
        "peer_guid",
        "peer_port",
        "peer_node",
        "link",
        "what",
        "increase",
        "is_lower_bound",
        "rate",
        "value",
        "since_ns",
        "began_in_range",
        "devices_behind",
    ];
}

impl<'a> Errors<'a> {
    /// Finds the faults of all devices and ports. With `hosts`, finds only the faults of these
    /// hosts, of the devices and links next to them, and of the devices that separate them from
    /// the fabric.
    pub fn find(
        ports: &'a BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        thresholds: &Thresholds,
        hosts: Option<&Hosts>,
    ) -> Self {
        let contains = |node: &str| hosts.is_none_or(|hosts| hosts.contains_node(node));
        let is_selected = |port: &PortSummary| contains(&port.node) || contains(&port.peer_name);
        let is_near = |device: &FaultyDevice| {
            let mut ports =
                ports.range((device.port.guid, PortNum(0))..=(device.port.guid, PortNum(u8::MAX)));
            contains(&device.port.node)
                || ports.any(|(_, port)| is_selected(port))
                || device.behind.iter().any(|port| contains(&port.node))
        };
        let mut found = Self {
            devices: devices.faults(),
            faulty: Vec::new(),
            ports: 0,
            below: 0,
            saturated: 0,
            silent: 0,
            at_unreachable: 0,
        };
        found.devices.retain(is_near);
        for (key, summary) in ports.iter().filter(|(_, port)| is_selected(port)) {
            found.ports += 1;
            let is_unreachable = devices.is_unreachable(key.0);
            let is_at_unreachable = is_unreachable
                || summary
                    .peer
                    .is_some_and(|peer| devices.is_unreachable(peer.0));
            let increase =
                |index: &usize| summary.errors[*index].map_or(0, |change| change.increase);
            let mut counters: Vec<usize> = (0..ERROR_COUNTERS.len())
                .filter(|index| increase(index) > thresholds.of(*index))
                .collect();
            let peer = summary.peer.and_then(|peer| ports.get(&peer));
            let mut fault = link_fault(summary, peer, devices.down_since(*key));
            if is_at_unreachable && (fault.take().is_some() | counters.contains(&LINK_DOWNED)) {
                counters.retain(|index| *index != LINK_DOWNED);
                found.at_unreachable += 1;
            }
            let is_silent = summary.records.0 > 0 && summary.records.1 == 0;
            found.silent += usize::from(is_silent && !is_unreachable);
            found.saturated += usize::from(
                summary
                    .errors
                    .iter()
                    .flatten()
                    .any(|change| change.increase == 0 && change.is_lower_bound),
            );
            if fault.is_some() || !counters.is_empty() {
                let since_ns = match fault {
                    Some(LinkFault::Down) => summary
                        .events
                        .last
                        .map(|(ts, _)| ts)
                        .or_else(|| devices.down_since(*key)),
                    Some(_) => summary
                        .events
                        .last_change
                        .max(summary.events.last.map(|(ts, _)| ts)),
                    None => None,
                };
                found.faulty.push(FaultyPort {
                    key: *key,
                    summary,
                    fault,
                    since_ns,
                    counters,
                });
            } else if !is_at_unreachable {
                found.below +=
                    usize::from((0..ERROR_COUNTERS.len()).any(|index| increase(&index) > 0));
            }
        }
        // Ports without a link fault come last. The sort is stable, so equal ports stay in the
        // order of their GUIDs.
        found.faulty.sort_by_key(|port| {
            (
                port.fault.is_none(),
                port.fault,
                std::cmp::Reverse(port.summary.error_sum()),
            )
        });
        found
    }

    /// Returns whether no device and no port has a fault.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.faulty.is_empty()
    }

    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<ErrorRow> {
        self.devices
            .iter()
            .map(device_row)
            .chain(self.faulty.iter().flat_map(FaultyPort::rows))
            .collect()
    }
}

fn device_row(device: &FaultyDevice) -> ErrorRow {
    ErrorRow {
        port: device.port.clone(),
        peer: None,
        link: None,
        what: device.fault.what(),
        increase: None,
        is_lower_bound: false,
        rate: None,
        value: None,
        since_ns: device.since_ns,
        began_in_range: Some(device.answered_before),
        devices_behind: device.behind.len(),
        behind: device.behind.clone(),
    }
}

/// Returns the fault of a link as seen from one of its ports. `down_since` is the time since
/// which PortInfo reports the link as down.
fn link_fault(
    port: &PortSummary,
    peer: Option<&PortSummary>,
    down_since: Option<u64>,
) -> Option<LinkFault> {
    let events = &port.events;
    let downs = events
        .downs
        .max(port.errors[LINK_DOWNED].map_or(0, |change| change.increase));
    let has_less = |peer: &PortSummary| {
        port.gbps()
            .zip(peer.gbps())
            .is_some_and(|(own, other)| own < other)
            || port
                .mtu
                .zip(peer.mtu)
                .is_some_and(|(own, other)| own < other)
    };
    if events.is_down() || down_since.is_some() {
        Some(LinkFault::Down)
    } else if downs > 1 || events.changes > 2 {
        Some(LinkFault::Flapping)
    } else if port.is_degraded() {
        Some(LinkFault::Degraded)
    } else if peer.is_some_and(has_less) {
        Some(LinkFault::Mismatch)
    } else if downs == 1 {
        Some(LinkFault::WasDown)
    } else {
        None
    }
}

impl FaultyPort<'_> {
    /// Returns the changes of the counters that exceed their thresholds, with their indices.
    pub fn changes(&self) -> impl Iterator<Item = (usize, CounterChange)> {
        self.counters
            .iter()
            .filter_map(|index| Some((*index, self.summary.errors[*index]?)))
    }

    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<ErrorRow> {
        let Self {
            key,
            summary,
            fault,
            since_ns,
            ..
        } = self;
        let row =
            |what: &'static str, change: Option<CounterChange>, since_ns: Option<u64>| ErrorRow {
                port: PortName::new(&summary.node, *key),
                peer: summary.peer_port(),
                link: Some(summary.link.to_string()),
                what,
                increase: change.map(|change| change.increase),
                is_lower_bound: change.is_some_and(|change| change.is_lower_bound),
                rate: change
                    .map(|change| change.increase as f64 / summary.seconds())
                    .filter(|rate| rate.is_finite()),
                value: change.map(|change| change.last),
                since_ns: since_ns.unwrap_or(summary.span.0),
                began_in_range: since_ns.map(|_| true),
                devices_behind: 0,
                behind: Vec::new(),
            };
        let of_link = fault.map(|fault| row(fault.what(), None, *since_ns));
        let of_counters = self
            .changes()
            .map(|(index, change)| row(ERROR_COUNTERS[index], Some(change), None));
        of_link.into_iter().chain(of_counters).collect()
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::Guid;

    use super::*;
    use crate::fixtures::{error_lines, event, fold, port};
    use crate::ports::Ports;

    fn read(lines: &[String]) -> (BTreeMap<PortKey, PortSummary>, Devices) {
        let (ports, devices) = fold((Ports::with_bins(1), Devices::default()), lines);
        (ports.finish(), devices)
    }

    #[test]
    fn link_faults_come_before_error_counters() {
        let (ports, devices) = read(&error_lines());
        let errors = Errors::find(&ports, &devices, &Thresholds::default(), None);
        let found: Vec<_> = errors
            .faulty
            .iter()
            .map(|port| (port.key.1.0, port.fault))
            .collect();
        assert_eq!(
            found,
            [
                (2, Some(LinkFault::Down)),
                (5, Some(LinkFault::Flapping)),
                (3, Some(LinkFault::Degraded)),
                (1, None)
            ]
        );
        assert_eq!(
            (errors.ports, errors.below, errors.saturated, errors.silent),
            (7, 1, 1, 1)
        );
        assert_eq!(
            errors.faulty[3].summary.error_sum(),
            30 + 1000,
            "a part of a counter is not added"
        );
    }

    #[test]
    fn rows_have_one_fault_each() {
        let (ports, devices) = read(&error_lines());
        let rows = Errors::find(&ports, &devices, &Thresholds::default(), None).rows();
        let whats: Vec<_> = rows
            .iter()
            .map(|row| (row.port.port.0, row.what, row.increase))
            .collect();
        assert_eq!(
            whats,
            [
                (2, "link_down", None),
                (5, "flapping", None),
                (5, "link_downed_counter", Some(2)),
                (3, "degraded", None),
                (1, "symbol_error_counter", Some(30)),
                (1, "port_xmit_discards", Some(1000)),
                (1, "port_sw_hoq_lifetime_limit_discards", Some(500)),
            ]
        );
        assert_eq!(
            (rows[4].rate, rows[4].value, rows[4].since_ns),
            (Some(3.0), Some(60), 10_000_000_000)
        );
        let json = serde_json::to_value(&rows[0]).expect("a row");
        assert_eq!(
            (&json["guid"], &json["port"], &json["node"]),
            (&"0x0000000000000001".into(), &2.into(), &"leaf".into())
        );
        assert_eq!(
            (&json["what"], &json["increase"]),
            (&"link_down".into(), &serde_json::Value::Null)
        );
        assert_eq!(
            (rows[0].since_ns, rows[0].began_in_range),
            (11_999_999_900, Some(true))
        );
    }

    #[test]
    fn counter_within_its_threshold_is_not_a_fault() {
        let (ports, devices) = read(&error_lines());
        let mut thresholds = Thresholds::default();
        for text in [
            "symbol_error_counter=30",
            "port_xmit_discards=1000",
            "port_sw_hoq_lifetime_limit_discards=500",
        ] {
            thresholds.set(text).expect("a counter");
        }
        let errors = Errors::find(&ports, &devices, &thresholds, None);
        assert!(
            errors.faulty.iter().all(|port| port.fault.is_some()),
            "30 is not more than 30"
        );
        assert_eq!(errors.below, 2);
        thresholds.set("all=0").expect("all of them");
        assert_eq!(Errors::find(&ports, &devices, &thresholds, None).below, 0);
    }

    /// A host on a leaf switch that dies: the link of the host goes down, and the host is not
    /// reachable any more.
    #[test]
    fn dead_device_is_first_and_its_links_are_only_counted() {
        let (leaf, core, host) = (0x1, 0x2, 0x900);
        let mut lines = error_lines();
        for slot in 1..=4_u64 {
            let dies = [("status", if slot < 3 { "ok" } else { "unreachable" }.into())];
            let downs = [
                ("link_downed_counter", u64::from(slot > 2).into()),
                ("symbol_error_counter", (slot * 2).into()),
            ];
            lines.push(port(slot, (0x20, 1), "dead", (host, 1, "n1"), &dies));
            lines.push(port(slot, (0x20, 9), "dead", (core, 9, "core"), &dies));
            lines.push(port(slot, (host, 1), "n1", (0x20, 1, "dead"), &dies));
            lines.push(port(slot, (core, 9), "core", (0x20, 9, "dead"), &downs));
            lines.push(port(slot, (core, 1), "core", (leaf, 9, "leaf"), &[]));
        }
        lines.push(event(3, (core, 9), "link_down", "down"));
        let (ports, devices) = read(&lines);
        let errors = Errors::find(&ports, &devices, &Thresholds::default(), None);
        assert_eq!(
            (errors.at_unreachable, errors.silent),
            (1, 1),
            "the core's port; port 7 of the leaf switch"
        );
        let rows = errors.rows();
        assert_eq!(
            (rows[0].what, &*rows[0].port.node, rows[0].since_ns),
            ("unreachable", "dead", 3_000_000_000)
        );
        assert_eq!(
            (
                rows[0].devices_behind,
                &*rows[0].behind[0].node,
                rows[0].began_in_range
            ),
            (1, "n1", Some(true))
        );
        assert_eq!(
            rows.iter().filter(|row| row.what == "unreachable").count(),
            1,
            "the host is behind the switch"
        );
        let at_core: Vec<_> = rows
            .iter()
            .filter(|row| &*row.port.node == "core")
            .map(|row| row.what)
            .collect();
        assert_eq!(
            at_core,
            ["symbol_error_counter"],
            "the link that is down is not listed"
        );
    }

    #[test]
    fn faults_are_selected_by_their_hosts() {
        let dead = |slot: u64| {
            [(
                "status",
                if slot == 1 { "ok" } else { "unreachable" }.into(),
            )]
        };
        let mut lines = error_lines();
        for slot in 1..=3 {
            lines.push(port(slot, (0x20, 1), "dead", (0x900, 1, "n9"), &dead(slot)));
            lines.push(port(slot, (0x900, 1), "n9", (0x20, 1, "dead"), &dead(slot)));
            lines.push(port(slot, (0x20, 9), "dead", (2, 9, "core"), &dead(slot)));
            lines.push(port(slot, (2, 9), "core", (0x20, 9, "dead"), &[]));
            lines.push(port(
                slot,
                (0x800, 1),
                "n8 mlx5_0",
                (1, 8, "leaf"),
                &[("port_rcv_errors", slot.into())],
            ));
        }
        let (ports, devices) = read(&lines);
        for (hosts, count, devices_found, faulty) in [
            ("n8", 1, &[][..], 1),
            ("n9", 2, &["dead"][..], 0),
            ("leaf", 8, &[], 5),
            ("n1", 0, &[], 0),
        ] {
            let hosts = Hosts::parse(hosts).expect("a host list");
            let errors = Errors::find(&ports, &devices, &Thresholds::default(), Some(&hosts));
            let names: Vec<_> = errors
                .devices
                .iter()
                .map(|device| &*device.port.node)
                .collect();
            assert_eq!(
                (errors.ports, &names[..], errors.faulty.len()),
                (count, devices_found, faulty),
                "{hosts:?}"
            );
        }
    }

    #[test]
    fn link_that_is_down_in_the_records_is_a_fault() {
        let status = |slot, status: &str| {
            port(
                slot,
                (1, 1),
                "leaf",
                (0x101, 1, "n1"),
                &[("status", status.into())],
            )
        };
        let (ports, devices) = read(&[status(1, "ok"), status(2, "down"), status(3, "down")]);
        let rows = Errors::find(&ports, &devices, &Thresholds::default(), None).rows();
        assert_eq!(
            (rows.len(), rows[0].what, rows[0].since_ns),
            (1, "link_down", 2_000_000_000)
        );
    }

    /// Returns the faults of a link, of which the switch and the host have these fields.
    fn faults_of_ends(
        of_switch: &[(&str, serde_json::Value)],
        of_host: &[(&str, serde_json::Value)],
    ) -> Vec<(PortKey, Option<LinkFault>)> {
        let (ports, devices) = read(&[
            port(1, (1, 1), "leaf", (0x101, 1, "n1"), of_switch),
            port(1, (0x101, 1), "n1", (1, 1, "leaf"), of_host),
        ]);
        let errors = Errors::find(&ports, &devices, &Thresholds::default(), None);
        errors
            .faulty
            .iter()
            .map(|port| (port.key, port.fault))
            .collect()
    }

    #[test]
    fn port_slower_than_its_peer_is_a_mismatch() {
        let switch = ((Guid(1), PortNum(1)), Some(LinkFault::Mismatch));
        assert_eq!(faults_of_ends(&[("link", "4xQDR".into())], &[]), [switch]);
    }

    #[test]
    fn port_with_a_smaller_mtu_than_its_peer_is_a_mismatch() {
        let mtu = |octets: u16| [("mtu", octets.into())];
        let host = ((Guid(0x101), PortNum(1)), Some(LinkFault::Mismatch));
        assert_eq!(faults_of_ends(&mtu(4096), &mtu(2048)), [host]);
        assert_eq!(faults_of_ends(&mtu(4096), &mtu(4096)), []);
        assert_eq!(
            faults_of_ends(&mtu(4096), &[]),
            [],
            "one end did not report it"
        );
    }
}
