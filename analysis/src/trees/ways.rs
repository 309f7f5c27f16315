//! Other ways to the hosts behind a root: whether the routes overload it.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::{Guid, Lid, PortNum};

use super::search::LONGEST_PATH;
use crate::ports::{PortKey, PortSummary};
use crate::routes::Routes;

/// Returns the number of other ports of a root's switch that lead to the same host over as many
/// links, and the mean share of their data rates that they used in a time range. `None` if there
/// are none, or if the forwarding tables or the records do not show them.
///
/// It looks at the ways to one of the hosts behind the root: in a fat tree, those to the others
/// are the same.
pub(super) fn other_ways(
    (switch, port): PortKey,
    (from_ns, to_ns): (u64, u64),
    ports: &BTreeMap<PortKey, PortSummary>,
    routes: &Routes,
) -> Option<(usize, f64)> {
    let peer = |port: PortNum| ports.get(&(switch, port))?.peer;
    let mut behind = routes.entries(switch).filter(|(_, out)| *out == port);
    let (host, links) =
        behind.find_map(|(lid, _)| Some((lid, links_to(lid, switch, ports, routes)?)))?;
    let others: BTreeSet<PortNum> = routes.entries(switch).map(|(_, out)| out).collect();
    let is_way = |other: &PortNum| {
        let next = peer(*other).and_then(|peer| links_to(host, peer.0, ports, routes));
        *other != port && next.is_some_and(|next| next + 1 == links)
    };
    let ways: Vec<&PortSummary> = others
        .iter()
        .filter(|other| is_way(other))
        .filter_map(|other| ports.get(&(switch, *other)))
        .collect();
    let bins = ways.iter().flat_map(|port| {
        let width_ns = port.bins.width_ns();
        let in_span = port.bins.iter();
        in_span
            .filter(move |(number, _)| (from_ns..to_ns).contains(&number.saturating_mul(width_ns)))
    });
    let used = bins.filter_map(|(_, bin)| {
        Some((bin.xmit_utilization.mean()?, bin.xmit_utilization.seconds()))
    });
    let (sum, seconds) = used.fold((0.0, 0.0), |(sum, all), (mean, seconds)| {
        (sum + mean * seconds, all + seconds)
    });
    (seconds > 0.0).then(|| (ways.len(), sum / seconds))
}

/// Returns the number of links from a switch to the host with a LID.
fn links_to(
    host: Lid,
    switch: Guid,
    ports: &BTreeMap<PortKey, PortSummary>,
    routes: &Routes,
) -> Option<usize> {
    let mut at = switch;
    for links in 1..=LONGEST_PATH {
        let out = routes.port(at, host)?;
        at = ports.get(&(at, out))?.peer?.0;
        if routes.entries(at).next().is_none() {
            return Some(links);
        }
    }
    None
}
