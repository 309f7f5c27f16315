//! The last record of a port.

use std::collections::BTreeMap;

use ibnet_analysis::ports::{PortKey, PortName};
use ibnet_analysis::record::{Port, Value};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};
use ibnet_record::{Role, Says, is_dt_slots_field};
use serde::Serialize;

use crate::events::{EventRow, Filter};
use crate::query::error::ApiError;
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// Number of events in the answer.
const EVENTS: usize = 50;

/// Largest number that every JSON reader keeps exactly. A larger counter is written as text.
const EXACT: u64 = 1 << 53;

/// One port with everything that its last record shows.
#[derive(Debug, Serialize)]
pub(crate) struct PortAnswer {
    guid: Guid,
    port: PortNum,
    node: String,
    kind: Option<NodeKind>,
    lid: Lid,
    hops: Option<u16>,
    link: String,
    link_source: String,
    gbps: Option<f64>,
    sampler: String,
    role: &'static str,
    status: String,
    identity: String,
    ts: u64,
    slot: u64,
    rtt_ns: u64,
    rtt_min_ns: Option<u64>,
    mads: u64,
    mad_status: Option<u16>,
    dt_ns: Option<u64>,
    /// Index in the topology.
    index: Option<usize>,
    peer: Option<PortName>,
    counters: BTreeMap<String, CounterValue>,
    /// Time of the record with the counters. A record without an answer has none, so it can be older
    /// than `ts`.
    counters_ts: Option<u64>,
    rates: Rates,
    saturated: Vec<String>,
    port_info: PortInfo,
    events: Vec<EventRow>,
}

/// What the records have of the attribute PortInfo.
#[derive(Debug, Serialize)]
struct PortInfo {
    /// `active` or `down`. Null if the port did not answer.
    port_state: Option<&'static str>,
    link_width_active: Option<String>,
    link_speed_active: Option<String>,
    /// NeighborMTU in octets. Null before PortInfo was read.
    mtu: Option<u16>,
    /// Number of data VLs in OperationalVLs. Null before PortInfo was read.
    vls: Option<u8>,
    /// Whether the device reported width and speed (`live`), or the net file has them (`file`).
    source: String,
    lid: Lid,
    /// Time and kind of the last event about the link.
    changed_ns: Option<u64>,
    changed: Option<String>,
}

impl PortInfo {
    fn of(last: &Port<'_>, events: &[EventRow]) -> Self {
        let rate = last
            .link
            .split_at_checked(last.link.find('x').map_or(0, |place| place + 1))
            .filter(|(width, _)| !width.is_empty());
        let change = events
            .iter()
            .find(|event| ["link_down", "link_up", "link_change"].contains(&event.event.as_str()));
        Self {
            port_state: match last.says() {
                Says::Down => Some("down"),
                Says::Answers => Some("active"),
                Says::Silent | Says::Nothing => None,
            },
            link_width_active: rate.map(|(width, _)| width.to_owned()),
            link_speed_active: rate.map(|(_, speed)| speed.to_owned()),
            mtu: last.mtu,
            vls: last.vls,
            source: last.link_source.to_string(),
            lid: last.lid,
            changed_ns: change.map(|event| event.ts),
            changed: change.map(|event| event.event.clone()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Rates {
    xmit_gbps: Option<f64>,
    rcv_gbps: Option<f64>,
    xmit_utilization: Option<f64>,
    rcv_utilization: Option<f64>,
    xmit_blocked: Option<f64>,
}

/// A counter. Numbers that not every reader of JSON keeps exactly are text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum CounterValue {
    One(u64),
    Large(String),
    Many(Vec<Self>),
}

impl CounterValue {
    fn of(value: &Value) -> Option<Self> {
        let one = |value: u64| {
            if value > EXACT {
                Self::Large(value.to_string())
            } else {
                Self::One(value)
            }
        };
        match value {
            Value::One(value) => Some(one(*value)),
            Value::Many(values) => {
                Some(Self::Many(values.iter().map(|value| one(*value)).collect()))
            }
            Value::Real(_) | Value::Other => None,
        }
    }
}

/// Returns the last record of a port: that of the primary sampler, or of the secondary if it is
/// newer by more than two intervals.
pub(crate) fn find(hub: &Hub, key: PortKey) -> Result<PortAnswer, ApiError> {
    let state = hub.read();
    let missing = || {
        ApiError::missing(format!(
            "there is no port {}/{} in the records; /api/v1/topology lists all ports",
            key.0, key.1
        ))
    };
    let chunks = state.store.last_chunk(key).ok_or_else(missing)?;
    let filter = Filter {
        from: 0,
        to: u64::MAX,
        names: Vec::new(),
        guid: Some(key.0),
        port: Some(key.1),
        limit: EVENTS,
    };
    let events = state.events(&filter);
    let interval_ns = state.samplers.interval_ns();
    let index = state.topology.find(key);
    drop(state);
    let records = chunks.read(&Wanted::All);
    let newest = |is_secondary| {
        records
            .iter()
            .filter(move |port: &&Port<'_>| port.is_secondary() == is_secondary)
            .max_by_key(|port| port.ts)
    };
    let (primary, secondary) = (newest(false), newest(true));
    let is_stale = |port: &Port<'_>| {
        secondary.is_some_and(|secondary| secondary.ts > port.ts.saturating_add(2 * interval_ns))
    };
    let last = primary
        .filter(|port| !is_stale(port))
        .or(secondary)
        .or(primary)
        .ok_or_else(missing)?;
    let of_sampler = records
        .iter()
        .filter(|port| port.is_secondary() == last.is_secondary());
    let read = of_sampler
        .filter(|port| !port.counters.is_empty())
        .max_by_key(|port| port.ts);
    Ok(PortAnswer {
        index,
        ..answer(last, read, events)
    })
}

fn answer(last: &Port<'_>, read: Option<&Port<'_>>, events: Vec<EventRow>) -> PortAnswer {
    let gbps = |link: &str| {
        let (width, speed) = link.split_at_checked(link.find('x')? + 1)?;
        LinkRate::new(width, speed).data_gbps()
    };
    let peer = last.peer_guid.zip(last.peer_port);
    let counters = read
        .iter()
        .flat_map(|port| &port.counters)
        .filter(|(name, _)| !is_dt_slots_field(name));
    PortAnswer {
        guid: last.guid,
        port: last.port,
        node: last.node.to_string(),
        kind: last.kind,
        lid: last.lid,
        hops: last.hops,
        link: last.link.to_string(),
        link_source: last.link_source.to_string(),
        gbps: gbps(&last.link),
        sampler: last.sampler.to_string(),
        role: Role::of(last.is_secondary()).as_str(),
        status: last.status.to_string(),
        identity: last.identity.to_string(),
        ts: last.ts,
        slot: last.slot,
        rtt_ns: last.rtt_ns,
        rtt_min_ns: last.rtt_min_ns,
        mads: last.mads,
        mad_status: last.mad_status,
        dt_ns: last.dt_ns,
        index: None,
        peer: peer.map(|peer| PortName::new(last.peer.as_deref().unwrap_or_default(), peer)),
        counters: counters
            .filter_map(|(name, value)| Some(((*name).to_owned(), CounterValue::of(value)?)))
            .collect(),
        counters_ts: read.map(|port| port.ts),
        rates: Rates {
            xmit_gbps: last.xmit_gbps,
            rcv_gbps: last.rcv_gbps,
            xmit_utilization: last.xmit_utilization,
            rcv_utilization: last.rcv_utilization,
            xmit_blocked: last.xmit_blocked,
        },
        port_info: PortInfo::of(last, &events),
        saturated: read
            .into_iter()
            .flat_map(|port| port.saturated.iter().map(ToString::to_string))
            .collect(),
        events,
    }
}
