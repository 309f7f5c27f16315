//! Links: their utilization, blocked time and errors, and links whose two ends counted different
//! numbers of bytes.
//!
//! A link is in the result if at least one of its ends has records. The traffic of a direction is
//! the number of bytes that the sending end transmitted, or, if that end was not queried, the
//! number that the other end received. Blocked time is counted by the sending end alone, so it is
//! unknown if that end was not queried.

use std::collections::BTreeMap;
use std::fmt;

use ibnet_record::types::NodeKind;
use serde::Serialize;

use crate::hosts::Hosts;
use crate::ports::checkpoints::EndComparison;
use crate::ports::{PortKey, PortName, PortSummary};
use crate::rows::Row;
use crate::shares::Distributions;
use crate::stat::Stat;

/// A link: its two ends and its two directions.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Both ends.
    pub ends: [End; 2],
    /// Last known width and speed, such as `4xEDR`.
    pub rate: Box<str>,
    /// Traffic that leaves the first end, and traffic that leaves the second end.
    pub directions: [Direction; 2],
    /// Increase of the error counters of both ends in the time range.
    pub errors: u64,
    /// Comparison of the bytes that both ends counted. `None` if only one end was queried.
    pub compared: Option<EndComparison>,
}

/// One end of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// The port.
    pub port: PortName,
    /// Kind of the device. `None` if it was not queried.
    pub kind: Option<NodeKind>,
}

/// Traffic of one direction, with `None` for unknown values. `utilization` and `blocked` are the
/// statistic that was given to [`find_by`], or means from [`find`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Direction {
    /// Mean data rate in Gb/s.
    pub gbps: Option<f64>,
    /// Share of the data rate of the link, 0 to 1.
    pub utilization: Option<f64>,
    /// Max share of the data rate in a slot, 0 to 1.
    pub peak: Option<f64>,
    /// Share of the time in which the sending port had data and no credit, 0 to 1.
    pub blocked: Option<f64>,
}

/// Order of a list of links, largest value first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinkOrder {
    /// Share of the data rate; the direction with the larger value counts.
    #[default]
    Utilization,
    /// Share of the time in which a port was blocked; the direction with the larger value counts.
    Blocked,
    /// Errors of both ends.
    Errors,
}

/// A link in the JSON output, seen from the end that sends more.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkRow {
    /// The sending port.
    pub from: PortName,
    /// The receiving port.
    pub to: PortName,
    /// Width and speed, such as `4xEDR`.
    pub link: String,
    /// Statistic of the utilizations and blocked shares below, over all slots: `mean`, `peak`, or
    /// a percentile such as `p95`.
    pub stat: String,
    /// Mean data rate in Gb/s.
    pub xmit_gbps: Option<f64>,
    /// Share of the data rate of the link, 0 to 1.
    pub xmit_utilization: Option<f64>,
    /// Max share of the data rate in a slot, 0 to 1.
    pub xmit_utilization_peak: Option<f64>,
    /// Share of the time in which the sending port had data and no credit, 0 to 1.
    pub blocked: Option<f64>,
    /// Share of the data rate in the other direction, 0 to 1.
    pub back_utilization: Option<f64>,
    /// Share of the time in which the receiving port was blocked as a sender, 0 to 1.
    pub back_blocked: Option<f64>,
    /// Increase of the error counters of both ends in the time range.
    pub errors: u64,
    /// Whether the bytes counted by both ends differ by more than the tolerance.
    pub ends_disagree: bool,
}

impl Row for LinkRow {
    const COLUMNS: &'static [&'static str] = &[
        "from_guid",
        "from_port",
        "from_node",
        "to_guid",
        "to_port",
        "to_node",
        "link",
        "stat",
        "xmit_gbps",
        "xmit_utilization",
        "xmit_utilization_peak",
        "blocked",
        "back_utilization",
        "back_blocked",
        "errors",
        "ends_disagree",
    ];
}

/// A direction of a link whose ends disagree, in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DisagreementRow {
    /// The sending port.
    pub from: PortName,
    /// The receiving port.
    pub to: PortName,
    /// Bytes that the sending port counted.
    pub sent_bytes: u64,
    /// Bytes that the receiving port counted.
    pub received_bytes: u64,
    /// Difference between the bytes sent and the bytes received.
    pub difference_bytes: u64,
    /// Max difference in bytes that can arise because the two ends were read at different times.
    pub tolerance_bytes: u64,
    /// Time between the compared readings, in seconds.
    pub seconds: f64,
}

/// Returns all links of the ports with their means, in the order of the GUIDs.
pub fn find(ports: &BTreeMap<PortKey, PortSummary>) -> Vec<Link> {
    find_by(ports, Stat::Mean, &Distributions::default())
}

/// Returns all links of the ports in the order of the GUIDs. `stat` is the statistic of their
/// utilization and blocked time; percentiles come from `distributions`.
pub fn find_by(
    ports: &BTreeMap<PortKey, PortSummary>,
    stat: Stat,
    distributions: &Distributions,
) -> Vec<Link> {
    let mut links = Vec::new();
    for (key, port) in ports {
        let Some(peer) = port.peer else { continue };
        // If both ends have records, the port with the lower key adds the link.
        if peer < *key && ports.contains_key(&peer) {
            continue;
        }
        let other = ports.get(&peer).filter(|other| other.peer == Some(*key));
        let far = End {
            port: PortName::new(other.map_or(&port.peer_name, |other| &other.node), peer),
            kind: other.and_then(|other| other.kind),
        };
        links.push(Link {
            ends: [
                End {
                    port: PortName::new(&port.node, *key),
                    kind: port.kind,
                },
                far,
            ],
            rate: port.link.clone(),
            directions: {
                let (one, two) = (
                    Load::of(*key, port, stat, distributions),
                    other.map(|other| Load::of(peer, other, stat, distributions)),
                );
                [
                    Direction::between(Some(&one), two.as_ref()),
                    Direction::between(two.as_ref(), Some(&one)),
                ]
            },
            errors: port
                .error_sum()
                .saturating_add(other.map_or(0, PortSummary::error_sum)),
            compared: other.and_then(|other| {
                port.checkpoints
                    .compare(&other.checkpoints, port.gbps()?.max(port.fastest_gbps))
            }),
        });
    }
    links
}

/// Returns the links in this order, each turned so that its direction with the larger value is
/// first.
pub fn sorted(links: &[Link], order: LinkOrder) -> Vec<Link> {
    let mut sorted: Vec<Link> = links
        .iter()
        .cloned()
        .map(|link| link.turned(order))
        .collect();
    // The sort is stable, so links of equal value stay in the order of their GUIDs.
    sorted.sort_by(|a, b| {
        b.value(order)
            .partial_cmp(&a.value(order))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    sorted
}

/// Load of a port over the time range. In each pair, the first value is sent data and the second
/// one received data.
struct Load {
    gbps: [Option<f64>; 2],
    utilization: [Option<f64>; 2],
    peak: [Option<f64>; 2],
    blocked: Option<f64>,
    /// Seconds for which the data rates are known.
    seconds: [f64; 2],
}

impl Load {
    fn of(key: PortKey, port: &PortSummary, stat: Stat, distributions: &Distributions) -> Self {
        let all = &port.all;
        let means = [all.xmit_utilization, all.rcv_utilization, all.blocked];
        let [xmit, rcv, blocked] = match stat {
            Stat::Mean => means.map(|mean| mean.mean()),
            Stat::Peak => means.map(|mean| mean.peak()),
            Stat::Percentile(thousandths) => distributions.get(key).map_or([None; 3], |shares| {
                [
                    &shares.xmit_utilization,
                    &shares.rcv_utilization,
                    &shares.blocked,
                ]
                .map(|shares| shares.percentile(thousandths))
            }),
        };
        Self {
            gbps: [all.xmit.mean(), all.rcv.mean()],
            utilization: [xmit, rcv],
            peak: [all.xmit_utilization.peak(), all.rcv_utilization.peak()],
            blocked,
            seconds: [all.xmit.seconds(), all.rcv.seconds()],
        }
    }
}

impl Direction {
    /// Evaluates the traffic from one port to the other. The values of the receiving port are
    /// used only if its data rate is known for over an eighth more time.
    fn between(from: Option<&Load>, to: Option<&Load>) -> Self {
        let [sent_for, received_for] =
            [(from, 0), (to, 1)].map(|(load, of)| load.map_or(0.0, |load| load.seconds[of]));
        let is_received = received_for * 8.0 > sent_for * 9.0;
        let pick = |sent: fn(&Load) -> Option<f64>, received: fn(&Load) -> Option<f64>| {
            let (sent, received) = (from.and_then(sent), to.and_then(received));
            if is_received {
                received.or(sent)
            } else {
                sent.or(received)
            }
        };
        Self {
            gbps: pick(|load| load.gbps[0], |load| load.gbps[1]),
            utilization: pick(|load| load.utilization[0], |load| load.utilization[1]),
            peak: pick(|load| load.peak[0], |load| load.peak[1]),
            blocked: from.and_then(|load| load.blocked),
        }
    }

    fn value(&self, order: LinkOrder) -> Option<f64> {
        match order {
            LinkOrder::Utilization => self.utilization,
            LinkOrder::Blocked => self.blocked,
            LinkOrder::Errors => None,
        }
    }
}

impl Link {
    /// Returns the value for this order: the larger value of both directions, or the errors.
    pub fn value(&self, order: LinkOrder) -> Option<f64> {
        match order {
            LinkOrder::Errors => Some(self.errors as f64),
            _ => self
                .directions
                .iter()
                .filter_map(|direction| direction.value(order))
                .reduce(f64::max),
        }
    }

    /// Turns the link so that the direction with the larger value is first.
    #[must_use]
    pub fn turned(self, order: LinkOrder) -> Self {
        let order = if order == LinkOrder::Errors {
            LinkOrder::Utilization
        } else {
            order
        };
        if self.directions[0].value(order) >= self.directions[1].value(order) {
            self
        } else {
            self.reversed()
        }
    }

    /// Swaps the ends.
    #[must_use]
    pub fn reversed(self) -> Self {
        let [one, other] = self.ends;
        let compared = self.compared.map(
            |EndComparison {
                 seconds,
                 out,
                 back,
                 tolerance,
             }| EndComparison {
                seconds,
                out: back,
                back: out,
                tolerance,
            },
        );
        Self {
            ends: [other, one],
            directions: [self.directions[1], self.directions[0]],
            compared,
            ..self
        }
    }

    /// Returns whether one of the ends belongs to one of these hosts.
    pub fn is_at(&self, hosts: &Hosts) -> bool {
        self.ends
            .iter()
            .any(|end| hosts.contains_node(&end.port.node))
    }

    /// Returns whether the bytes counted by both ends differ by more than the tolerance.
    pub fn disagrees(&self) -> bool {
        self.compared
            .is_some_and(|compared| compared.missing() != (0, 0))
    }

    /// Returns the row of the link in the JSON output. `stat` must be the statistic that was given
    /// to [`find_by`]; [`find`] uses the mean.
    pub fn row(&self, stat: Stat) -> LinkRow {
        let ([from, to], [out, back]) = (&self.ends, &self.directions);
        LinkRow {
            from: from.port.clone(),
            to: to.port.clone(),
            link: self.rate.to_string(),
            stat: stat.to_string(),
            xmit_gbps: out.gbps,
            xmit_utilization: out.utilization,
            xmit_utilization_peak: out.peak,
            blocked: out.blocked,
            back_utilization: back.utilization,
            back_blocked: back.blocked,
            errors: self.errors,
            ends_disagree: self.disagrees(),
        }
    }

    /// Returns a row for each direction in which the ends disagree.
    pub fn disagreements(&self) -> Vec<DisagreementRow> {
        let Some(compared) = self.compared else {
            return Vec::new();
        };
        let (out, back) = compared.missing();
        let directions = [(out, compared.out, [0, 1]), (back, compared.back, [1, 0])];
        let row = |(difference_bytes, (sent_bytes, received_bytes), [from, to]): (
            u64,
            (u64, u64),
            [usize; 2],
        )| DisagreementRow {
            from: self.ends[from].port.clone(),
            to: self.ends[to].port.clone(),
            sent_bytes,
            received_bytes,
            difference_bytes,
            tolerance_bytes: compared.tolerance as u64,
            seconds: compared.seconds,
        };
        directions
            .into_iter()
            .filter(|(difference, ..)| *difference > 0)
            .map(row)
            .collect()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.port.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, port};
    use crate::ports::Ports;

    /// Returns the links of a host on a leaf switch, and of the leaf switch on a core switch that
    /// is not queried.
    fn links(lost: u64) -> Vec<Link> {
        let (leaf, host, core) = (0x1, 0x101, 0x2);
        let mut lines = Vec::new();
        for slot in 1..=3 {
            let data = |xmit: u64, rcv: u64, used: f64, blocked: f64| {
                [
                    ("port_xmit_data_bytes", xmit.into()),
                    ("port_rcv_data_bytes", rcv.into()),
                    ("xmit_utilization", used.into()),
                    ("xmit_gbps", (used * 100.0).into()),
                    ("xmit_blocked", blocked.into()),
                    ("port_rcv_errors", (slot * 2).into()),
                ]
            };
            let moved = slot * 1_000_000_000;
            lines.push(port(
                slot,
                (leaf, 1),
                "leaf",
                (host, 1, "n1 mlx5_0"),
                &data(moved, moved - lost * slot, 0.25, 0.0),
            ));
            lines.push(port(
                slot,
                (host, 1),
                "n1 mlx5_0",
                (leaf, 1, "leaf"),
                &data(moved, moved, 0.5, 0.125),
            ));
            let rest = [
                ("rcv_utilization", 0.75.into()),
                ("rcv_gbps", 75.into()),
                ("xmit_blocked", serde_json::Value::Null),
            ];
            lines.push(port(
                slot,
                (leaf, 2),
                "leaf",
                (core, 9, "<core>\u{1b}"),
                &rest,
            ));
        }
        find(&fold(Ports::with_bins(1), &lines).finish())
    }

    #[test]
    fn direction_uses_the_end_that_was_queried() {
        let links = links(0);
        assert_eq!(links.len(), 2);
        let [to_host, to_core] = [&links[0], &links[1]];
        assert_eq!(
            to_host.directions[0],
            Direction {
                gbps: Some(25.0),
                utilization: Some(0.25),
                peak: Some(0.25),
                blocked: Some(0.0)
            }
        );
        assert_eq!(
            to_host.directions[1],
            Direction {
                gbps: Some(50.0),
                utilization: Some(0.5),
                peak: Some(0.5),
                blocked: Some(0.125)
            }
        );
        assert_eq!(
            (to_host.errors, to_core.errors),
            (8, 0),
            "2 to 6 at each of two ends"
        );
        assert_eq!(
            to_core.directions[1],
            Direction {
                gbps: Some(75.0),
                utilization: Some(0.75),
                peak: Some(0.75),
                blocked: None
            }
        );
        assert_eq!(to_core.compared, None);
    }

    #[test]
    fn direction_uses_the_end_that_is_known_for_longer() {
        let of = |known: u64| {
            let mut lines = Vec::new();
            for slot in 1..=20 {
                let sent = [
                    ("xmit_gbps", 0.into()),
                    ("xmit_utilization", 0.into()),
                    ("rcv_gbps", 0.into()),
                ];
                let received = [("rcv_gbps", 90.into()), ("rcv_utilization", 0.9.into())];
                if slot <= known {
                    lines.push(port(slot, (0x101, 1), "n1", (1, 1, "leaf"), &sent));
                }
                lines.push(port(slot, (1, 1), "leaf", (0x101, 1, "n1"), &received));
            }
            let links = find(&fold(Ports::with_bins(1), &lines).finish());
            links[0].clone().turned(LinkOrder::Utilization).directions[0]
        };
        assert_eq!(of(2).gbps, Some(90.0));
        assert_eq!((of(2).utilization, of(2).peak), (Some(0.9), Some(0.9)));
        // Both ends are known for about the same time.
        assert_eq!(of(19).gbps, Some(0.0));
    }

    #[test]
    fn statistic_selects_the_shares() {
        let used = |slot: u64| if slot == 4 { 0.9 } else { 0.1 * slot as f64 };
        let lines: Vec<String> = (1..=4)
            .map(|slot| {
                let values = [
                    ("xmit_utilization", used(slot).into()),
                    ("xmit_blocked", (used(slot) / 2.0).into()),
                ];
                port(slot, (1, 1), "leaf", (0x101, 1, "n1"), &values)
            })
            .collect();
        for (stat, used, blocked) in [
            ("mean", 0.375, 0.1875),
            ("peak", 0.9, 0.45),
            ("p50", 0.2, 0.1),
            ("p75", 0.3, 0.15),
            ("p99.9", 0.9, 0.45),
        ] {
            let stat = stat.parse().expect("a statistic");
            let (ports, distributions) =
                fold((Ports::with_bins(1), Distributions::for_stat(stat)), &lines);
            let row = find_by(&ports.finish(), stat, &distributions)[0].row(stat);
            let near = |value: Option<f64>, expected: f64| {
                value.is_some_and(|value| (value - expected).abs() < 1e-9)
            };
            assert!(
                near(row.xmit_utilization, used) && near(row.blocked, blocked),
                "{stat}: {row:?}"
            );
            assert!(
                near(row.xmit_utilization_peak, 0.9) && row.stat == stat.to_string(),
                "{row:?}"
            );
        }
    }

    #[test]
    fn rows_start_at_the_end_that_sends_more() {
        let sorted = sorted(&links(100_000_000), LinkOrder::Blocked);
        let row = sorted[0].row(Stat::Mean);
        assert_eq!(
            (row.from.to_string(), row.to.to_string()),
            ("n1 mlx5_0 port 1".to_owned(), "leaf port 1".to_owned())
        );
        assert_eq!(
            (
                row.xmit_utilization,
                row.blocked,
                row.back_utilization,
                row.errors
            ),
            (Some(0.5), Some(0.125), Some(0.25), 8)
        );
        let rows = sorted[0].disagreements();
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (
                rows[0].sent_bytes,
                rows[0].received_bytes,
                rows[0].difference_bytes
            ),
            (2_000_000_000, 1_800_000_000, 200_000_000)
        );
        assert!(row.ends_disagree && sorted[1].disagreements().is_empty());
    }

    #[test]
    fn json_fields_of_a_row_have_documented_names() {
        let row = serde_json::to_value(links(0)[0].row(Stat::Mean)).expect("a row");
        assert_eq!(
            (
                &row["from"]["guid"],
                &row["from"]["port"],
                &row["from"]["node"]
            ),
            (&"0x0000000000000001".into(), &1.into(), &"leaf".into())
        );
        assert_eq!(
            (
                &row["link"],
                &row["xmit_utilization"],
                &row["blocked"],
                &row["errors"]
            ),
            (&"4xEDR".into(), &0.25.into(), &0.0.into(), &8.into())
        );
    }
}
