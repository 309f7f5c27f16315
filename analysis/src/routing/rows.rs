//! The rows of the results.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::bisection::Bisection;
use super::census::{Census, Uplinks};
use super::loops::{Certainty, Loops};
use super::net::{ChannelIndex, DeviceIndex};
use super::paths::{Paths, Stop, Stopped};
use crate::links::{Link, LinkRow};
use crate::ports::{PortKey, PortName};
use crate::rows::Row;
use crate::stat::Stat;

/// What a row of [`RoutingRow`] is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// All pairs of hosts, and those that are lost.
    Pairs,
    /// A port without a link is in the table of a switch.
    DeadPort,
    /// A switch on the path of a pair has no port for the receiver.
    NoRoute,
    /// A switch has no table in the file.
    NoTable,
    /// Switches send packets around in a loop.
    ForwardingLoop,
    /// A port leads to another host than that with the LID.
    WrongHost,
    /// The paths of the uplinks of a switch.
    Uplinks,
    /// A switch has fewer links to one switch above it than to another.
    UnequalLinks,
    /// Switches whose adaptive routing has the same settings.
    AdaptiveRouting,
    /// The effective bisection bandwidth.
    Bisection,
    /// A credit loop.
    CreditLoop,
    /// A credit loop that exists only if all pairs use one service level, or one virtual lane, or
    /// if the switches without lanes use VL 0.
    PossibleCreditLoop,
}

/// A result about the forwarding tables.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoutingRow {
    /// What the row is about.
    pub what: What,
    /// The port or, with port number 0, the switch. Null for a row about the whole fabric.
    pub at: Option<PortName>,
    /// The port at the other end of its link, or the switch with fewer links. Null for others.
    pub to: Option<PortName>,
    /// Number of uplinks, or of links to the switch `to`. Null for others.
    pub links: Option<usize>,
    /// Number of paths of the port `at`, which has most of the uplinks of the switch, or number of
    /// links to the switch with most. Null for others.
    pub most: Option<u64>,
    /// Mean number of paths of an uplink. Null for others.
    pub mean: Option<f64>,
    /// Number of LIDs with this fault. Null for others.
    pub lids: Option<u64>,
    /// Number of pairs of a sender and a receiver whose packets do not arrive. Null for others.
    pub lost_pairs: Option<u64>,
    /// Number of all pairs. Null for others.
    pub pairs: Option<u64>,
    /// Effective bisection bandwidth, as a share of that of the hosts' links, 0 to 1. Null for
    /// others.
    pub share: Option<f64>,
    /// Its standard error. Null for others.
    pub error: Option<f64>,
    /// The service level that all pairs must use for a possible credit loop. Null if it is another
    /// row, if the virtual lanes are unknown, or if the service levels are known.
    pub sl: Option<u8>,
    /// Number of switches with the settings `adaptive_sls`. Null for others.
    pub switches: Option<usize>,
    /// The service levels that these switches route adaptively, one bit each, and 0 if adaptive
    /// routing is off. Null for others.
    pub adaptive_sls: Option<u16>,
    /// The largest number of a group of ports that these switches use. Null for others, and if
    /// adaptive routing is off.
    pub adaptive_group_top: Option<u16>,
    /// The sending ports of a credit loop. Each waits for the next one, and the last one for the
    /// first.
    pub cycle: Vec<CyclePort>,
}

/// A sending port of a credit loop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CyclePort {
    /// Port GUID.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
    /// Node description.
    pub node: Box<str>,
    /// Virtual lane.
    pub vl: u8,
}

impl Row for RoutingRow {
    const COLUMNS: &'static [&'static str] = &[
        "what",
        "at_guid",
        "at_port",
        "at_node",
        "to_guid",
        "to_port",
        "to_node",
        "links",
        "most",
        "mean",
        "lids",
        "lost_pairs",
        "pairs",
        "share",
        "error",
        "sl",
        "switches",
        "adaptive_sls",
        "adaptive_group_top",
        "cycle_guid",
        "cycle_port",
        "cycle_node",
        "cycle_vl",
    ];
}

impl What {
    /// Returns whether a row reports a fault.
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::DeadPort
                | Self::NoRoute
                | Self::NoTable
                | Self::ForwardingLoop
                | Self::WrongHost
                | Self::CreditLoop
        )
    }

    const fn row(self, at: Option<PortName>) -> RoutingRow {
        RoutingRow {
            what: self,
            at,
            to: None,
            links: None,
            most: None,
            mean: None,
            lids: None,
            lost_pairs: None,
            pairs: None,
            share: None,
            error: None,
            sl: None,
            switches: None,
            adaptive_sls: None,
            adaptive_group_top: None,
            cycle: Vec::new(),
        }
    }
}

/// Returns the rows of the results, in the order of [`What`].
pub fn routing_rows(
    paths: &Paths<'_>,
    census: &Census,
    adaptive: &BTreeMap<u16, (usize, Option<u16>)>,
    bisection: Option<Bisection>,
    loops: &Loops,
) -> Vec<RoutingRow> {
    let net = paths.net;
    let name = |port| Some(net.name(port));
    let mut rows = vec![RoutingRow {
        pairs: Some(census.pairs),
        lost_pairs: Some(census.lost_pairs()),
        ..What::Pairs.row(None)
    }];
    rows.extend(faults(paths, census));
    for uplinks in Uplinks::of(paths, census) {
        let (channel, most) = uplinks.most;
        rows.push(RoutingRow {
            to: name(net.channel(channel).to),
            links: Some(uplinks.ports),
            most: Some(most),
            mean: Some(uplinks.mean()),
            ..What::Uplinks.row(name(net.channel(channel).from))
        });
        let [(to, fewest), (_, largest)] = uplinks.groups;
        if fewest < largest {
            rows.push(RoutingRow {
                to: name((to, PortNum(0))),
                links: Some(fewest),
                most: Some(largest as u64),
                ..What::UnequalLinks.row(name((uplinks.switch, PortNum(0))))
            });
        }
    }
    rows.extend(adaptive.iter().map(|(sls, (switches, top))| RoutingRow {
        switches: Some(*switches),
        adaptive_sls: Some(*sls),
        adaptive_group_top: *top,
        ..What::AdaptiveRouting.row(None)
    }));
    if let Some(Bisection { share, error, .. }) = bisection {
        rows.push(RoutingRow {
            share: Some(share),
            error: Some(error),
            ..What::Bisection.row(None)
        });
    }
    let what = match loops.certainty {
        Certainty::Possible => What::PossibleCreditLoop,
        Certainty::Known | Certainty::Never => What::CreditLoop,
    };
    for found in &loops.loops {
        let port = |(channel, vl): &(ChannelIndex, u8)| {
            let PortName { guid, port, node } = net.name(net.channel(*channel).from);
            CyclePort {
                guid,
                port,
                node,
                vl: *vl,
            }
        };
        rows.push(RoutingRow {
            sl: found.sl,
            cycle: found.links.iter().map(port).collect(),
            ..what.row(None)
        });
    }
    // The sort is stable.
    rows.sort_by_key(|row| row.what);
    rows
}

/// Returns the rows of faults of the tables.
fn faults(paths: &Paths<'_>, census: &Census) -> Vec<RoutingRow> {
    let net = paths.net;
    let whole = |switch: DeviceIndex| (switch, PortNum(0));
    let mut found: BTreeMap<(What, (DeviceIndex, PortNum)), (u64, u64)> = BTreeMap::new();
    for (port, lids) in &census.dead {
        found.entry((What::DeadPort, *port)).or_default().0 = *lids;
    }
    for switch in &census.without_table {
        found.entry((What::NoTable, whole(*switch))).or_default();
    }
    for (Stopped { at, why }, lost) in &census.lost {
        let what = match why {
            Stop::NoTable => What::NoTable,
            Stop::NoRoute => What::NoRoute,
            Stop::DeadPort(_) => What::DeadPort,
            Stop::Elsewhere(_) => What::WrongHost,
            Stop::Loop(_) => What::ForwardingLoop,
        };
        let (lids, pairs) = found.entry((what, (*at, why.port()))).or_default();
        *lids = (*lids).max(lost.destinations);
        *pairs += lost.pairs;
    }
    let row = |((what, port), (lids, pairs)): ((What, (DeviceIndex, PortNum)), (u64, u64))| {
        let channel = net.channel_of(port.0, port.1);
        RoutingRow {
            to: channel.map(|channel| net.name(net.channel(channel).to)),
            lids: Some(lids),
            lost_pairs: Some(pairs),
            ..what.row(Some(net.name(port)))
        }
    };
    found.into_iter().map(row).collect()
}

/// A link of a path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PathRow {
    /// The first port of the path.
    pub sender: PortName,
    /// The last port of the path.
    pub receiver: PortName,
    /// Number of the link on the path, from 1.
    pub hop: usize,
    /// The link, as in `links`.
    #[serde(flatten)]
    pub link: LinkRow,
}

impl Row for PathRow {
    const COLUMNS: &'static [&'static str] = &[
        "sender_guid",
        "sender_port",
        "sender_node",
        "receiver_guid",
        "receiver_port",
        "receiver_node",
        "hop",
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

/// Returns the links of a path. `stat` must be the statistic with which the links were found.
pub fn path_rows(
    paths: &Paths<'_>,
    path: &[ChannelIndex],
    links: &[Link],
    stat: Stat,
) -> Vec<PathRow> {
    let net = paths.net;
    let key = |link: &Link, end: usize| -> PortKey {
        let PortName { guid, port, .. } = link.ends[end].port;
        (guid, port)
    };
    let by_port: BTreeMap<PortKey, (&Link, usize)> = links
        .iter()
        .flat_map(|link| [0, 1].map(|end| (key(link, end), (link, end))))
        .collect();
    let (Some(first), Some(last)) = (path.first(), path.last()) else {
        return Vec::new();
    };
    let (sender, receiver) = (
        net.name(net.channel(*first).from),
        net.name(net.channel(*last).to),
    );
    let row = |(hop, channel): (usize, &ChannelIndex)| {
        let from = net.channel(*channel).from;
        let (link, end) = by_port.get(&net.key(from))?;
        let link = if *end == 0 {
            (*link).clone()
        } else {
            (*link).clone().reversed()
        };
        Some(PathRow {
            sender: sender.clone(),
            receiver: receiver.clone(),
            hop,
            link: link.row(stat),
        })
    };
    (1..).zip(path).filter_map(row).collect()
}
