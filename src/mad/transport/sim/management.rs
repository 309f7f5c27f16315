//! Subnet management and subnet administration of a simulated fabric: identities, links and paths.

use std::collections::BTreeSet;
use std::iter;

use ibnet_record::types::{LinkRate, NodeKind, PortNum};

use super::SimFabric;
use crate::mad::directed::{self, Route};
use crate::mad::header::{Header, METHOD_GET, METHOD_GET_RESP, MadStatus};
use crate::mad::inform::InformInfo;
use crate::mad::pma::{Bits, data, data_mut};
use crate::mad::sa::{self, PathRecord};
use crate::mad::sm_info::{IS_SM, SM_INFO, SmInfo, SmState};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::mad::vendor::subnet::{EXTENDED_PORT_INFO, ExtendedPortInfo};
use crate::mad::{MAD_LEN, Mad, vendor};
use crate::topology::DeviceId;

/// The default subnet prefix of IBA.
pub(super) const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// Status ERR_NO_RECORDS of subnet administration (IBA vol. 1, 15.4.4): class-specific code 3.
const NO_RECORDS: MadStatus = MadStatus(0x0300);

/// Answers a request of subnet management that a port of the device received. Returns `None` if the
/// device requires an M_Key.
pub(super) fn manage(
    fabric: &SimFabric,
    (id, received_by): (DeviceId, PortNum),
    request: &Mad,
) -> Option<Mad> {
    let header = Header::parse(request);
    // A subnet manager answers SMInfo without an M_Key.
    let is_closed = fabric.agents[id.0 as usize].m_key && header.attribute != SM_INFO;
    if (header.class_version, header.method) != (smp::CLASS_VERSION, METHOD_GET) || is_closed {
        return None;
    }
    if header.attribute == smp::PORT_INFO && fabric.agents[id.0 as usize].drops_port_info {
        return None;
    }
    let device = fabric.fabric.device(id);
    let mut reply = [0; MAD_LEN];
    let mut status = MadStatus::OK;
    let port = PortNum(header.modifier as u8);
    Header {
        method: METHOD_GET_RESP,
        ..header
    }
    .emit(&mut reply);
    let data = data_mut(&mut reply);
    match header.attribute {
        smp::NODE_INFO => NodeInfo {
            local_port: received_by,
            ..node_info(fabric, id)
        }
        .emit(data),
        smp::NODE_DESCRIPTION => data
            .iter_mut()
            .zip(device.name.bytes().take(64))
            .for_each(|(octet, byte)| *octet = byte),
        smp::PORT_INFO => match port_info(fabric, id, port) {
            Some(info) => {
                info.emit(data);
                let is_up = info.state != PortInfo::DOWN;
                let physical = if is_up { smp::LINK_UP } else { smp::POLLING };
                smp::PHYSICAL_STATE.set_raw(data, 0, physical);
                smp::PORT_LID.set_raw(data, 0, fabric.lid(id).0.into());
            }
            None => status = MadStatus::INVALID_VALUE,
        },
        smp::SWITCH_PORT_STATE_TABLE => match port_info(fabric, id, PortNum(0)) {
            Some(info) if info.has_state_table() => {
                let len = smp::PORT_STATES.len;
                let ports = device.ports.iter().map(|port| port.num);
                // Port 0 is active, which was not seen on hardware. ibnet does not use it.
                for num in iter::once(PortNum(0)).chain(ports) {
                    if let Some(info) = port_info(fabric, id, num)
                        && u32::from(num.0 / len) == header.modifier & 1
                    {
                        smp::PORT_STATES.set_raw(data, num.0 % len, info.state.into());
                    }
                }
            }
            _ => status = MadStatus::UNSUPPORTED_ATTRIBUTE,
        },
        EXTENDED_PORT_INFO => match device.port(port) {
            Some(found) => ExtendedPortInfo {
                is_fdr10: &*found.rate.speed == "FDR10",
                ..ExtendedPortInfo::default()
            }
            .emit(data),
            None => status = MadStatus::INVALID_VALUE,
        },
        SM_INFO => match fabric.managers.get(&id) {
            Some(info) => info.emit(data),
            None => status = MadStatus::UNSUPPORTED_ATTRIBUTE,
        },
        _ => status = MadStatus::UNSUPPORTED_ATTRIBUTE,
    }
    reply[4..6].copy_from_slice(&status.0.to_be_bytes());
    Some(reply)
}

/// Returns the device at the end of a directed route, and its port that receives the request.
/// `first` is the device at which the route begins. Only switches forward requests, except the HCA
/// of the sender, and only if they are alive.
pub(super) fn end_of_route(
    fabric: &SimFabric,
    first: DeviceId,
    request: &Mad,
) -> Option<(DeviceId, PortNum)> {
    let route = Route::parse(request)?;
    let mut forwards = route.begins_at_sender();
    let mut at = (first, first_port(fabric, first));
    for port in route.ports().iter().copied() {
        let device = fabric.fabric.device(at.0);
        if !(forwards || device.kind == NodeKind::Switch && !fabric.agents[at.0.0 as usize].dead) {
            return None;
        }
        let of_net_file = || {
            let peer = device.port(port)?.peer.as_ref()?;
            Some((fabric.fabric.find(peer.guid, peer.port)?, peer.port))
        };
        let changed = fabric.cables.get(&(at.0, port)).copied();
        at = changed.unwrap_or_else(of_net_file)?;
        forwards = false;
    }
    Some(at)
}

/// Answers a request that took a directed route to this end.
pub(super) fn manage_by_route(
    fabric: &SimFabric,
    end: (DeviceId, PortNum),
    request: &Mad,
) -> Option<Mad> {
    if fabric.agents[end.0.0 as usize].dead {
        return None;
    }
    let answer = manage(fabric, end, request)?;
    let mut reply = directed::reply_to(request);
    reply[4] |= answer[4];
    reply[5] |= answer[5];
    *data_mut(&mut reply) = *data(&answer);
    Some(reply)
}

/// Returns the port that receives requests to the LID of a device.
pub(super) fn first_port(fabric: &SimFabric, id: DeviceId) -> PortNum {
    let ports = &fabric.fabric.device(id).ports;
    ports.first().map_or(PortNum(1), |port| port.num)
}

impl SimFabric {
    /// Starts a subnet manager on a device, or changes its SMInfo; `None` ends it. A subnet
    /// manager in the state [`SmState::Master`] becomes the subnet manager of all ports.
    pub fn set_subnet_manager(&mut self, id: DeviceId, info: Option<SmInfo>) {
        if info.is_some_and(|info| info.state == SmState::Master) {
            self.manager = Some(id);
        }
        match info {
            Some(info) => self.managers.insert(id, info),
            None => self.managers.remove(&id),
        };
    }

    /// Makes the subnet manager refuse subscriptions.
    pub fn refuse_subscriptions(&mut self) {
        self.refuses_subscriptions = true;
    }

    /// Subscribes to a trap or ends a subscription. Returns `None` for another request.
    pub(super) fn subscribe(&mut self, request: &Mad) -> Option<Mad> {
        let InformInfo { trap, subscribe } = InformInfo::parse(request)?;
        match subscribe && !self.refuses_subscriptions {
            true => self.subscribed.insert(trap),
            false => self.subscribed.remove(&trap),
        };
        Some(subscription_reply(request, self.refuses_subscriptions))
    }

    /// Returns the traps to which the subnet manager has a subscriber.
    pub fn subscribed(&self) -> &BTreeSet<u16> {
        &self.subscribed
    }
}

/// Status ERR_REQ_INVALID of subnet administration (IBA vol. 1, 15.4.4): class-specific code 2.
const REQUEST_INVALID: MadStatus = MadStatus(0x0200);

/// Returns the reply to a subscription to traps.
fn subscription_reply(request: &Mad, is_refused: bool) -> Mad {
    let mut reply = *request;
    reply[3] = METHOD_GET_RESP;
    if is_refused {
        reply[4..6].copy_from_slice(&REQUEST_INVALID.0.to_be_bytes());
    }
    reply
}

/// Answers a request of subnet administration.
pub(super) fn administer(fabric: &SimFabric, request: &Mad) -> Option<Mad> {
    let header = Header::parse(request);
    if (header.class_version, header.method, header.attribute)
        != (sa::CLASS_VERSION, METHOD_GET, sa::PATH_RECORD)
    {
        return None;
    }
    let wanted = sa::Query::parse(request).destination;
    let found = fabric
        .fabric
        .iter()
        .find(|(id, device)| device.guid == wanted.guid && !fabric.agents[id.0 as usize].dead);
    let mut reply = *request;
    reply[3] = METHOD_GET_RESP;
    match found {
        Some((id, _)) => PathRecord {
            dlid: fabric.lid(id),
            sl: fabric.options.path_sl,
        }
        .emit(&mut reply),
        None => reply[4..6].copy_from_slice(&NO_RECORDS.0.to_be_bytes()),
    }
    Some(reply)
}

/// Returns the NodeInfo of a device. The net file has no device ID, so a switch gets the device ID
/// of a Quantum switch, and an HCA that of a ConnectX-6.
pub(super) fn node_info(fabric: &SimFabric, id: DeviceId) -> NodeInfo {
    let device = fabric.fabric.device(id);
    let device_id = if device.kind == NodeKind::Switch {
        0xd2f0
    } else {
        0x101b
    };
    NodeInfo {
        kind: Some(device.kind),
        ports: device
            .ports
            .iter()
            .map(|port| port.num.0)
            .max()
            .unwrap_or(1),
        system_guid: device.guid,
        node_guid: device.guid,
        port_guid: device.guid,
        device_id,
        revision: 0,
        vendor_id: vendor::NVIDIA,
        local_port: first_port(fabric, id),
    }
}

fn port_info(fabric: &SimFabric, id: DeviceId, port: PortNum) -> Option<PortInfo> {
    let device = fabric.fabric.device(id);
    if let Some(changed) = fabric.links.get(&(id, port)) {
        return Some(*changed);
    }
    let info = unchanged_port_info(fabric, id, port)?;
    if device.kind == NodeKind::Switch && port.0 != 0 {
        return Some(info);
    }
    let is_sm = if fabric.managers.contains_key(&id) {
        IS_SM
    } else {
        0
    };
    let master_sm_lid = fabric.manager.map(|id| fabric.lid(id)).unwrap_or_default();
    Some(PortInfo {
        master_sm_lid,
        capability_mask: info.capability_mask | is_sm,
        ..info
    })
}

/// Returns the state and the rate of a port as in the net file.
fn unchanged_port_info(fabric: &SimFabric, id: DeviceId, port: PortNum) -> Option<PortInfo> {
    let device = fabric.fabric.device(id);
    if port.0 == 0 && device.kind == NodeKind::Switch {
        return Some(PortInfo {
            capability_mask2: smp::IS_SWITCH_PORT_STATE_TABLE_SUPPORTED,
            ..PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE)
        });
    }
    let found = device.port(port)?;
    Some(PortInfo::of_rate(
        &found.rate,
        if found.peer.is_some() {
            PortInfo::ACTIVE
        } else {
            PortInfo::DOWN
        },
    ))
}
