//! Returns the last record of a port.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibnet_analysis::ports::{PortKey, PortName};
use ibnet_analysis::record::{Port, Value};
use ibnet_record::schema::Kind;
use ibnet_record::types::{Lid, LinkRate};
use ibnet_record::{FieldValue, PortField, Role, Says, is_dt_slots_field, openapi};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::events::{EventRow, Filter};
use crate::query::error::ApiError;
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// Time before the newest record in which a record has the limits of PortInfo, which is read about
/// once a minute.
const PORT_INFO_NS: u64 = 150_000_000_000;

/// Number of events in the answer.
const EVENTS: usize = 50;

/// Max integer that every JSON reader represents exactly. A larger counter is written as a string.
const EXACT: u64 = 1 << 53;

/// One port with everything in its last record.
#[derive(Debug, Serialize)]
pub(crate) struct PortAnswer {
    #[serde(flatten)]
    record: Fields,
    gbps: Option<f64>,
    role: &'static str,
    /// Page of the hub of the part to which the sampler belongs.
    #[serde(serialize_with = "crate::shared::optional")]
    part_page: Option<Arc<str>>,
    /// Index in the topology.
    index: Option<usize>,
    peer: Option<PortName>,
    counters: BTreeMap<String, CounterValue>,
    /// Time of the record with the counters. It can be older than `ts`, because the record of a
    /// port that did not answer has none.
    counters_ts: Option<u64>,
    rates: Fields,
    saturated: Vec<String>,
    port_info: PortInfo,
    events: Vec<EventRow>,
}

/// What the records contain of the attribute PortInfo.
#[derive(Debug, Serialize)]
struct PortInfo {
    /// `active` or `down`. Null if the port did not answer.
    port_state: Option<&'static str>,
    link_width_active: Option<String>,
    link_speed_active: Option<String>,
    /// NeighborMTU in bytes. Null before PortInfo was read.
    mtu: Option<u16>,
    /// Number of data VLs in OperationalVLs. Null before PortInfo was read.
    vls: Option<u8>,
    /// What the last reading of PortInfo reports besides. Null if no recent record has it.
    limits: Option<PortLimits>,
    /// Whether width and speed come from the device (`live`) or from the net file (`file`).
    source: String,
    lid: Lid,
    /// Time and kind of the last event about the link.
    changed_ns: Option<u64>,
    changed: Option<String>,
}

/// Fields of PortInfo that are not those of the link, as in the record.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PortLimits {
    mtu_cap: Option<u16>,
    vl_cap: Option<u8>,
    vl_high_limit: Option<u8>,
    vl_stall_count: Option<u8>,
    /// Exponent n of 4.096 us x 2^n; from 20 on without a limit.
    hoq_life: Option<u8>,
    mkey_violations: Option<u16>,
    pkey_violations: Option<u16>,
    qkey_violations: Option<u16>,
}

impl PortLimits {
    /// Returns those of a record. `None` if it has none.
    fn of(port: &Port<'_>) -> Option<Self> {
        port.hoq_life.map(|hoq_life| Self {
            mtu_cap: port.mtu_cap,
            vl_cap: port.vl_cap,
            vl_high_limit: port.vl_high_limit,
            vl_stall_count: port.vl_stall_count,
            hoq_life: Some(hoq_life),
            mkey_violations: port.mkey_violations,
            pkey_violations: port.pkey_violations,
            qkey_violations: port.qkey_violations,
        })
    }
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
            limits: None,
            source: last.link_source.to_string(),
            lid: last.lid,
            changed_ns: change.map(|event| event.ts),
            changed: change.map(|event| event.event.clone()),
        }
    }
}

/// Fields of the record by their names.
type Fields = BTreeMap<&'static str, Json>;

/// Returns the rates of the record, or the fields beside them.
fn fields(port: &Port<'_>, are_rates: bool) -> Fields {
    openapi::fields(are_rates)
        .map(|field| (field.name(), value(port, field)))
        .collect()
}

fn value(port: &Port<'_>, field: PortField) -> Json {
    match port.get(field) {
        FieldValue::Null => Json::Null,
        FieldValue::Integer(value) if field.kind() == Some(Kind::Signed) => {
            json!(value.cast_signed())
        }
        FieldValue::Integer(value) => json!(value),
        FieldValue::Float(value) => json!(value),
        FieldValue::Guid(guid) => json!(guid),
        FieldValue::Text(text) => json!(text),
        FieldValue::Texts(texts) => json!(texts),
    }
}

/// A counter. Numbers that some JSON readers cannot represent exactly are strings.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum CounterValue {
    One(u64),
    Large(String),
    Many(Vec<Self>),
}

impl CounterValue {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::One(value) => Some(Self::one(*value)),
            Value::Many(values) => Some(Self::many(values)),
            Value::Real(_) | Value::Other => None,
        }
    }

    pub(crate) fn one(value: u64) -> Self {
        if value > EXACT {
            Self::Large(value.to_string())
        } else {
            Self::One(value)
        }
    }

    pub(crate) fn many(values: &[u64]) -> Self {
        Self::Many(values.iter().map(|value| Self::one(*value)).collect())
    }
}

/// Returns the error of a request for a port that the hub does not have.
pub(crate) fn no_port(key: PortKey) -> ApiError {
    ApiError::missing(format!(
        "there is no port {}/{} in the records; /api/v1/topology lists all ports",
        key.0, key.1
    ))
}

/// Returns the last record of a port: that of the primary sampler, or of the secondary if it is
/// newer by more than two intervals.
pub(crate) fn find(hub: &Hub, key: PortKey) -> Result<PortAnswer, ApiError> {
    let state = hub.read();
    let missing = || no_port(key);
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
    let from = state
        .newest_ns()
        .saturating_sub(PORT_INFO_NS.max(3 * interval_ns));
    let recent = state.store.chunks(key, from, u64::MAX);
    drop(state);
    let limits = recent.and_then(|chunks| {
        let records = chunks.read(&Wanted::Named(Default::default()));
        let known = |port: &Port<'_>| Some((port.ts, PortLimits::of(port)?));
        let newest = records.iter().filter_map(known).max_by_key(|(ts, _)| *ts);
        newest.map(|(_, limits)| limits)
    });
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
    let mut answer = answer(last, read, events);
    (answer.index, answer.port_info.limits) = (index, limits);
    answer.part_page = hub.read().samplers.part_page(&last.sampler);
    Ok(answer)
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
        record: fields(last, false),
        gbps: gbps(&last.link),
        role: Role::of(last.is_secondary()).as_str(),
        part_page: None,
        index: None,
        peer: peer.map(|peer| PortName::new(last.peer.as_deref().unwrap_or_default(), peer)),
        counters: counters
            .filter_map(|(name, value)| Some(((*name).to_owned(), CounterValue::of(value)?)))
            .collect(),
        counters_ts: read.map(|port| port.ts),
        rates: fields(last, true),
        port_info: PortInfo::of(last, &events),
        saturated: read
            .into_iter()
            .flat_map(|port| port.saturated.iter().map(ToString::to_string))
            .collect(),
        events,
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::schema::Kind;
    use ibnet_record::types::{Guid, NodeKind, PortNum};

    use super::*;
    use crate::query::tests::hub;

    /// Each field of the record has a value of its own.
    #[test]
    fn answer_has_the_fields_of_the_record() {
        let mut record = json!({"type": "port"});
        for field in PortField::fixed() {
            let number = 100 + field as u8;
            record[field.name()] = match (field, field.kind()) {
                (PortField::guid | PortField::peer_guid, _) => json!(Guid(number.into())),
                (PortField::kind, _) => json!(NodeKind::Router.as_str()),
                (_, Some(Kind::Unsigned(_))) => json!(number),
                (_, Some(Kind::Signed)) => json!(-5),
                (_, Some(Kind::Float)) => json!(f64::from(number) / 1e3),
                (_, Some(Kind::Texts)) => json!([format!("text {number}")]),
                _ => json!(format!("text {number}")),
            };
        }
        let hub = hub(&[format!("{record}\n")]);
        let key = (
            Guid(100 + PortField::guid as u64),
            PortNum(100 + PortField::port as u8),
        );
        let answer = find(&hub, key).expect("the port has a record");
        let answer = serde_json::to_value(answer).expect("JSON");
        for (place, are_rates) in [(&answer, false), (&answer["rates"], true)] {
            for field in openapi::fields(are_rates).map(PortField::name) {
                assert_eq!(place[field], record[field], "{field}");
            }
        }
    }
}
