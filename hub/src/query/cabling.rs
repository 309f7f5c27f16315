//! The cables that differ from the plan, as in `ibnet-gen cabling`.
//!
//! The cables are those of the records: those of the plan of the samplers, corrected by what the
//! devices have reported since (`peer_changed`). A link that is down counts as plugged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ibnet::cabling::compare::Finding;
use ibnet::cabling::{Modules, Plan, compare};
use ibnet::sweep::driver::peer_in;
use ibnet::topology::{Peer, net_file, ports_report};
use ibnet_analysis::ports::PortKey;
use ibnet_record::EventName;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use serde::Serialize;

use crate::events::Filter;
use crate::live::topology::Topology;
use crate::query::error::ApiError;
use crate::state::Hub;

/// Reason for missing findings.
const NO_PLAN: &str = "the configuration of the hub has no planned cabling; set the key cabling";

/// The comparison of the cables with the plan.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CablingAnswer {
    /// Number of planned cables, and of those that are as planned.
    planned: usize,
    right: usize,
    /// Number of cables at devices that the plan does not name.
    beyond: usize,
    /// Number of devices of the plan that the records do not have.
    not_found: usize,
    /// Number of lines of the plan that were not compared.
    remarks: usize,
    /// Differences, the worst kind first.
    rows: Vec<Finding>,
    /// Why nothing was compared.
    reason: Option<String>,
}

/// The last comparison, and what it is of: the plan, the topology, and the changed peers.
#[derive(Debug, Default)]
pub(crate) struct LastComparison(Mutex<Option<(Compared, Arc<CablingAnswer>)>>);

#[derive(Debug)]
struct Compared {
    plan: Arc<Plan>,
    /// Generation of the topology.
    generation: u32,
    /// Ports whose peer is not that of the plan of the samplers, and this peer.
    changed: Vec<(PortKey, PortKey)>,
}

/// Compares the cables with the plan.
pub(crate) fn find(hub: &Hub, last: &LastComparison) -> Result<Arc<CablingAnswer>, ApiError> {
    let without = |reason| {
        Arc::new(CablingAnswer {
            reason: Some(reason),
            ..CablingAnswer::default()
        })
    };
    let plan = match hub.cabling.as_ref().map(crate::reread::Reread::get) {
        None => return Ok(without(NO_PLAN.to_owned())),
        Some(Err(reason)) => return Ok(without(reason)),
        Some(Ok(plan)) => plan,
    };
    let (topology, changed) = {
        let state = hub.read();
        let filter = Filter {
            names: vec![EventName::PeerChanged.as_str().to_owned()],
            ..Filter::all()
        };
        let mut newest = BTreeMap::new();
        for event in state.events.select(&filter) {
            if let (Some(guid), Some(port)) = (event.guid, event.port) {
                newest
                    .entry((guid, port))
                    .or_insert_with(|| peer_in(&event.detail));
            }
        }
        let changed = newest.into_iter();
        let changed = changed.filter_map(|(port, peer)| Some((port, peer?)));
        (Arc::clone(&state.topology), changed.collect::<Vec<_>>())
    };
    if topology.ports.is_empty() {
        return Ok(without("no record has arrived yet".to_owned()));
    }
    let mut last = last.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, answer)) = &*last
        && Arc::ptr_eq(&known.plan, &plan)
        && (known.generation, &known.changed) == (topology.generation, &changed)
    {
        return Ok(Arc::clone(answer));
    }
    let answer = Arc::new(compared_with(&plan, &topology, &changed)?);
    let generation = topology.generation;
    let compared = Compared {
        plan,
        generation,
        changed,
    };
    *last = Some((compared, Arc::clone(&answer)));
    Ok(answer)
}

fn compared_with(
    plan: &Plan,
    topology: &Topology,
    changed: &[(PortKey, PortKey)],
) -> Result<CablingAnswer, ApiError> {
    let text = net(topology, changed);
    let nets = net_file::parse_all(&[("the records".to_owned(), text.into_bytes())])
        .map_err(|error| ApiError::failed(error.to_string()))?;
    let found = compare(plan, &nets, &Modules::default());
    Ok(CablingAnswer {
        planned: found.planned,
        right: found.right,
        beyond: found.beyond,
        not_found: found.not_found.len(),
        remarks: found.remarks.len(),
        rows: found.findings,
        reason: None,
    })
}

/// Returns the links as a net file, the form that the comparison reads.
fn net(topology: &Topology, changed: &[(PortKey, PortKey)]) -> String {
    let mut links: BTreeMap<PortKey, PortKey> = BTreeMap::new();
    for port in &topology.ports {
        if let (Some(guid), Some(number)) = (port.peer_guid, port.peer_port) {
            links.insert((port.guid, port.port), (guid, number));
            links.insert((guid, number), (port.guid, port.port));
        }
    }
    for (port, peer) in changed {
        for end in [port, peer] {
            if let Some(other) = links.remove(end) {
                links.remove(&other);
            }
        }
    }
    for (port, peer) in changed {
        links.insert(*port, *peer);
        links.insert(*peer, *port);
    }
    let mut devices: BTreeMap<Guid, Peer> = BTreeMap::new();
    for device in &topology.devices {
        let kind = device.kind.unwrap_or(match device.tier {
            None | Some(0) => NodeKind::Hca,
            Some(_) => NodeKind::Switch,
        });
        let guid = device.guid;
        let peer = Peer {
            guid,
            lid: device.lid.unwrap_or(Lid(0)),
            port: PortNum(0),
            kind,
            // A quotation mark would end the name.
            name: device
                .node
                .replace(|c: char| c == '\'' || c.is_control(), "_"),
        };
        devices.insert(guid, peer);
    }
    let end = |(guid, port): PortKey| {
        let device = devices.get(&guid)?.clone();
        Some(Peer { port, ..device })
    };
    let rates: BTreeMap<PortKey, &str> = topology
        .ports
        .iter()
        .map(|port| ((port.guid, port.port), &*port.link))
        .collect();
    let mut text = String::new();
    for (port, peer) in links {
        let (Some(own), Some(other)) = (end(port), end(peer)) else {
            continue;
        };
        let rate = rates.get(&port).or_else(|| rates.get(&peer));
        let place = rate.and_then(|rate| rate.find('x')).map_or(0, |x| x + 1);
        let (width, speed) = rate.map_or(("??", "???"), |rate| rate.split_at(place));
        ports_report::write_line(&mut text, &own, &format!("{width} {speed}"), Some(&other));
    }
    text
}
