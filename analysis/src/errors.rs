//! Faults of links and increases of error counters.
//!
//! `ibqueryerrors` reports the current values of counters. This module reports only increases
//! within the time range of the input.

use std::collections::BTreeMap;

use ibnet::types::Printable;
use serde::Serialize;

use crate::ports::change::CounterChange;
use crate::ports::{ERRORS, PortKey, PortName, PortSummary};

/// Thresholds of the counters in [`ERRORS`]: a larger increase is reported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thresholds([u64; ERRORS.len()]);

/// Index of `port_rcv_switch_relay_errors` in [`ERRORS`].
const SWITCH_RELAY_ERRORS: usize = 13;

impl Default for Thresholds {
    /// Returns 0 for all counters except `port_rcv_switch_relay_errors`, which gets 100. Switches
    /// also count packets in this counter that they discard by design, such as a multicast packet
    /// whose only output is the port that received it.
    fn default() -> Self {
        let mut thresholds = Self([0; ERRORS.len()]);
        thresholds.0[SWITCH_RELAY_ERRORS] = 100;
        thresholds
    }
}

/// A malformed threshold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ThresholdError {
    /// The text is not `NAME=N`.
    #[error("cannot read the threshold `{}`: expected NAME=N", Printable(found))]
    #[diagnostic(help("write a counter and a number, such as `symbol_error_counter=10`; larger increases are shown"))]
    Form {
        /// The text.
        found: String,
    },
    /// No error counter has this name.
    #[error("cannot set a threshold for `{}`: there is no error counter of this name", Printable(found))]
    #[diagnostic(help("the most similar name is `{}`; the counters are {}", nearest, ERRORS.join(", ")))]
    Name {
        /// The name.
        found: String,
        /// The counter with the most similar name.
        nearest: &'static str,
    },
}

impl Thresholds {
    /// Sets a threshold from `NAME=N`. The name is that of the records or of `perfquery`, or `all`.
    ///
    /// # Errors
    /// Returns an error if the text is malformed or names no error counter.
    pub fn set(&mut self, text: &str) -> Result<(), ThresholdError> {
        let (name, number) = text
            .split_once('=')
            .and_then(|(name, number)| Some((name.trim(), number.trim().parse().ok()?)))
            .ok_or_else(|| ThresholdError::Form { found: text.to_owned() })?;
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let matches = |known: &str| [plain(name), plain(name) + "counter", plain(name) + "errors"].contains(&plain(known));
        if name == "all" {
            self.0 = [number; ERRORS.len()];
        } else if let Some(index) = ERRORS.iter().position(|known| matches(known)) {
            self.0[index] = number;
        } else {
            let similarity = |known: &str| strsim::jaro(&plain(name), &plain(known));
            let nearest = ERRORS.into_iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b))).unwrap_or(ERRORS[0]);
            return Err(ThresholdError::Name { found: name.to_owned(), nearest });
        }
        Ok(())
    }
}

/// Fault of a link, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LinkFault {
    /// The link is down at the end of the time range.
    Down,
    /// The link went down, or changed its rate, more than once.
    Flapping,
    /// The link is slower than before, or slower than in the net file.
    Degraded,
    /// The ends report different widths or speeds.
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
    /// Indices in [`ERRORS`] of the counters whose increase exceeds the threshold.
    pub counters: Vec<usize>,
}

/// All faults of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Errors<'a> {
    /// Ports with link faults by severity, then ports by their number of errors.
    pub faulty: Vec<FaultyPort<'a>>,
    /// Number of all ports.
    pub ports: usize,
    /// Number of ports with increases that are all within the thresholds.
    pub below: usize,
    /// Number of ports with a counter that was saturated from the beginning.
    pub saturated: usize,
    /// Number of ports that never answered.
    pub silent: usize,
}

/// A fault in the JSON output. A port has one row for its link and one for each counter.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ErrorRow {
    /// The port.
    #[serde(flatten)]
    pub port: PortName,
    /// The port at the other end of the link, if it is known.
    pub peer: Option<PortName>,
    /// Width and speed of the link, such as `4xEDR`.
    pub link: String,
    /// The fault: `link_down`, `flapping`, `degraded`, `ends_differ`, `was_down`, or the name of a
    /// counter.
    pub what: &'static str,
    /// Increase of the counter over the time range; null for a link fault.
    pub increase: Option<u64>,
    /// Whether the true increase is larger: the counter was reset in between, or it is saturated.
    pub is_lower_bound: bool,
    /// Increase per second; null for a link fault, and for a time range of zero length.
    pub rate: Option<f64>,
    /// Last value of the counter; null for a link fault.
    pub value: Option<u64>,
    /// Time of the first record of the port, in nanoseconds since 1970.
    pub since_ns: u64,
}

impl<'a> Errors<'a> {
    /// Finds the faults of all ports.
    pub fn find(ports: &'a BTreeMap<PortKey, PortSummary>, thresholds: &Thresholds) -> Self {
        let mut found = Self { faulty: Vec::new(), ports: ports.len(), below: 0, saturated: 0, silent: 0 };
        for (key, summary) in ports {
            let increase = |index: &usize| summary.errors[*index].map_or(0, |change| change.increase);
            let counters: Vec<usize> = (0..ERRORS.len()).filter(|index| increase(index) > thresholds.0[*index]).collect();
            let peer = summary.peer.and_then(|peer| ports.get(&peer));
            let fault = link_fault(summary, peer);
            found.silent += usize::from(summary.records.1 == 0);
            found.saturated += usize::from(summary.errors.iter().flatten().any(|change| change.increase == 0 && change.is_lower_bound));
            if fault.is_some() || !counters.is_empty() {
                found.faulty.push(FaultyPort { key: *key, summary, fault, counters });
            } else {
                found.below += usize::from((0..ERRORS.len()).any(|index| increase(&index) > 0));
            }
        }
        // Ports without a link fault come last; equal ports stay in the order of their GUIDs.
        found.faulty.sort_by_key(|port| (port.fault.is_none(), port.fault, std::cmp::Reverse(port.summary.error_sum())));
        found
    }

    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<ErrorRow> {
        self.faulty.iter().flat_map(FaultyPort::rows).collect()
    }
}

/// Returns the fault of a link as seen from one of its ports.
fn link_fault(port: &PortSummary, peer: Option<&PortSummary>) -> Option<LinkFault> {
    let events = &port.events;
    let downs = events.downs.max(port.errors[0].map_or(0, |change| change.increase));
    let is_slower = |peer: &PortSummary| port.gbps().zip(peer.gbps()).is_some_and(|(own, other)| own < other);
    if events.is_down() {
        Some(LinkFault::Down)
    } else if downs > 1 || events.rate_changes > 2 {
        Some(LinkFault::Flapping)
    } else if port.is_degraded() {
        Some(LinkFault::Degraded)
    } else if peer.is_some_and(is_slower) {
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
        self.counters.iter().filter_map(|index| Some((*index, self.summary.errors[*index]?)))
    }

    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<ErrorRow> {
        let Self { key, summary, fault, .. } = self;
        let row = |what: &'static str, change: Option<CounterChange>| ErrorRow {
            port: PortName::new(&summary.node, *key),
            peer: summary.peer_port(),
            link: summary.link.to_string(),
            what,
            increase: change.map(|change| change.increase),
            is_lower_bound: change.is_some_and(|change| change.is_lower_bound),
            rate: change.map(|change| change.increase as f64 / summary.seconds()).filter(|rate| rate.is_finite()),
            value: change.map(|change| change.last),
            since_ns: summary.span.0,
        };
        let of_link = fault.map(|fault| row(fault.what(), None));
        of_link.into_iter().chain(self.changes().map(|(index, change)| row(ERRORS[index], Some(change)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use ibnet::types::{Guid, PortNum};

    use super::*;
    use crate::fixtures::{event, fold, port};
    use crate::ports::Ports;

    /// Ten seconds of a leaf switch: port 1 has errors, port 2 is down, port 3 is degraded, port 4
    /// has no fault, port 5 flaps, port 6 counts relay errors, port 7 never answers.
    fn ports() -> BTreeMap<PortKey, PortSummary> {
        let mut lines = Vec::new();
        for slot in [10, 15, 20] {
            let one = |number, rest: &[(&str, serde_json::Value)]| {
                port(slot, (1, number), "leaf", (0x100 + u64::from(number), 1, "n\u{1b}[2J"), rest)
            };
            lines.push(one(
                1,
                &[
                    ("symbol_error_counter", (slot * 3).into()),
                    ("port_xmit_discards", (slot * 100).into()),
                    ("port_sw_hoq_lifetime_limit_discards", (slot * 50).into()),
                ],
            ));
            lines.push(one(2, &[("symbol_error_counter", 65535.into()), ("saturated", ["symbol_error_counter"].into())]));
            lines.push(one(3, &[("link", if slot < 15 { "4xEDR" } else { "1xEDR" }.into())]));
            lines.push(one(4, &[("port_rcv_errors", 7.into())]));
            lines.push(one(5, &[("link_downed_counter", (slot / 5).into())]));
            lines.push(one(7, &[("status", "timeout".into())]));
            lines.push(one(6, &[("port_rcv_switch_relay_errors", slot.into())]));
        }
        lines.extend([
            event(12, (1, 2), "link_down", "down"),
            event(13, (1, 5), "link_down", "down"),
            event(14, (1, 5), "link_up", "active"),
        ]);
        fold(Ports::with_bins(1), &lines).finish()
    }

    #[test]
    fn link_faults_come_before_error_counters() {
        let ports = ports();
        let errors = Errors::find(&ports, &Thresholds::default());
        let found: Vec<_> = errors.faulty.iter().map(|port| (port.key.1.0, port.fault)).collect();
        assert_eq!(found, [(2, Some(LinkFault::Down)), (5, Some(LinkFault::Flapping)), (3, Some(LinkFault::Degraded)), (1, None)]);
        assert_eq!((errors.ports, errors.below, errors.saturated, errors.silent), (7, 1, 1, 1));
        assert_eq!(errors.faulty[3].summary.error_sum(), 30 + 1000, "a part of a counter is not added");
    }

    #[test]
    fn rows_have_one_fault_each() {
        let ports = ports();
        let rows = Errors::find(&ports, &Thresholds::default()).rows();
        let whats: Vec<_> = rows.iter().map(|row| (row.port.port.0, row.what, row.increase)).collect();
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
        assert_eq!((rows[4].rate, rows[4].value, rows[4].since_ns), (Some(3.0), Some(60), 10_000_000_000));
        let json = serde_json::to_value(&rows[0]).expect("a row");
        assert_eq!((&json["guid"], &json["port"], &json["node"]), (&"0x0000000000000001".into(), &2.into(), &"leaf".into()));
        assert_eq!((&json["what"], &json["increase"]), (&"link_down".into(), &serde_json::Value::Null));
    }

    #[test]
    fn thresholds_accept_any_name_of_a_counter() {
        let mut thresholds = Thresholds::default();
        for (text, index) in [
            ("symbol_error_counter=30", 2),
            ("SymbolErrorCounter = 30", 2),
            ("PortXmitDiscards=1000", 14),
            ("port_sw_hoq_lifetime_limit_discards=500", 18),
        ] {
            thresholds.set(text).expect("a counter");
            assert!(thresholds.0[index] >= 30, "{text}");
        }
        let ports = ports();
        assert!(Errors::find(&ports, &thresholds).faulty.iter().all(|port| port.fault.is_some()), "30 is not more than 30");
        thresholds.set("all=0").expect("all of them");
        assert_eq!(Errors::find(&ports, &thresholds).below, 0);
        assert_eq!(thresholds.set("symbols=1"), Err(ThresholdError::Name { found: "symbols".to_owned(), nearest: "symbol_error_counter" }));
        for text in ["symbol_error_counter", "symbol_error_counter=-1", "=", ""] {
            assert!(thresholds.set(text).is_err(), "{text}");
        }
    }

    #[test]
    fn port_slower_than_its_peer_is_a_mismatch() {
        let lines =
            [port(1, (1, 1), "leaf", (0x101, 1, "n1"), &[("link", "4xQDR".into())]), port(1, (0x101, 1), "n1", (1, 1, "leaf"), &[])];
        let ports = fold(Ports::with_bins(1), &lines).finish();
        let errors = Errors::find(&ports, &Thresholds::default());
        assert_eq!(
            errors.faulty.iter().map(|port| (port.key, port.fault)).collect::<Vec<_>>(),
            [((Guid(1), PortNum(1)), Some(LinkFault::Mismatch))]
        );
    }
}
