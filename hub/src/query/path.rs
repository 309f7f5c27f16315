//! The links between two hosts by the forwarding tables, as in `ibnet-view path`.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_analysis::links;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::routing::{self, DeviceIndex, Net, PathRow, Paths};
use ibnet_analysis::stat::Stat;
use ibnet_record::types::Printable;
use serde::Serialize;

use crate::forwarding::Condition;
use crate::query::error::ApiError;
use crate::query::evaluated::Evaluated;
use crate::state::Hub;

/// Max number of rails whose paths are in the answer.
const MAX_RAILS: usize = 16;

/// The paths of two hosts, there and back.
#[derive(Debug, Serialize)]
pub(crate) struct PathAnswer {
    from_ns: u64,
    to_ns: u64,
    /// Links from the sender to the receiver, one rail after the other.
    rows: Vec<PathRow>,
    /// Links of the way back, which can be another one.
    back: Vec<PathRow>,
    /// Why a path is not known, or not to its end.
    reason: Option<String>,
    /// Condition of the tables. Null without tables.
    tables: Option<Condition>,
}

/// Finds the paths of two hosts in the records of a time range.
pub(crate) fn find(
    hub: &Hub,
    found: &Evaluated,
    (sender, receiver): (&str, &str),
) -> Result<PathAnswer, ApiError> {
    let mut answer = PathAnswer {
        from_ns: found.range.0,
        to_ns: found.range.1,
        rows: Vec::new(),
        back: Vec::new(),
        reason: None,
        tables: None,
    };
    let routes = match hub.forwarding() {
        Ok((routes, condition)) => {
            answer.tables = Some(condition);
            routes
        }
        Err(reason) => {
            answer.reason = Some(reason);
            return Ok(answer);
        }
    };
    let net = Net::of_records(found.ports(), &routes);
    let paths = Paths::new(&net, &routes);
    let [senders, receivers] = [sender, receiver].map(|name| (name, net.find(name)));
    for (name, devices) in [&senders, &receivers] {
        if devices.is_empty() {
            return Err(ApiError::missing(format!(
                "there is no host {} in the records; /api/v1/topology lists all devices",
                Printable(name)
            )));
        }
    }
    let pairs = routing::pairs(&net, &senders.1, &receivers.1);
    let mut trace = |from: DeviceIndex, to: DeviceIndex| {
        let mut path = Vec::new();
        if let Err(stopped) = paths.trace(from, to, &mut path) {
            let name = |device: DeviceIndex| Printable(net.devices()[device as usize].name.trim());
            let why = stopped.reason(&paths, to);
            let reason = format!("no path from {} to {}: {why}", name(from), name(to));
            answer.reason.get_or_insert(reason);
        }
        let keys: BTreeSet<PortKey> = path
            .iter()
            .map(|channel| net.channel(*channel))
            .flat_map(|channel| [channel.from, channel.to])
            .map(|port| net.key(port))
            .collect();
        let ports = found.ports();
        let own = keys
            .iter()
            .filter_map(|key| Some((*key, ports.get(key)?.clone())));
        let links = links::find(&own.collect::<BTreeMap<_, _>>());
        routing::path_rows(&paths, &path, &links, Stat::Mean)
    };
    for (from, to) in pairs.into_iter().take(MAX_RAILS) {
        let rows = trace(from, to);
        answer.rows.extend(rows);
        let rows = trace(to, from);
        answer.back.extend(rows);
    }
    Ok(answer)
}
