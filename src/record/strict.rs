//! Reading the records again: strict mirrors of what is written.
//!
//! A field, a status, an event or any other word that is not known here is an error, so that nothing is written that is not described. So these
//! mirrors read what their own version wrote, and no later one; `docs/records.md` says what another reader should do.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{EVENTS, HISTOGRAMS, IDENTITY, LinkSource, ROLES};
use crate::mad::pma::Group;
use crate::sweep::sample::Status;
use crate::types::{Guid, Lid, NodeKind, PortNum};

/// A line of a stream.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Line {
    /// See [`Start`](super::Start).
    Start(Start),
    /// See [`PortRecord`](super::PortRecord).
    Port(Box<Port>),
    /// See [`SweepRecord`](super::SweepRecord).
    Sweep(Sweep),
    /// See [`HistogramRecord`](super::HistogramRecord).
    Histogram(Histogram),
    /// See [`EventRecord`](super::EventRecord).
    Event(Event),
}

/// Mirror of [`super::Start`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Start {
    pub ts: u64,
    pub slot: u64,
    pub sampler: String,
    pub schema: u32,
    pub version: String,
    pub boot_id: String,
    pub pid: u32,
    pub ca: String,
    pub ca_port: PortNum,
    #[serde(deserialize_with = "role")]
    pub role: String,
    pub interval_ns: u64,
    pub groups: Vec<String>,
    pub ports: usize,
    pub assignments_sha256: Option<String>,
    pub clock_ns: u64,
    pub file_seq: u32,
}

/// Mirror of [`super::PortRecord`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Port {
    pub ts: u64,
    pub slot: u64,
    pub sampler: String,
    pub guid: Guid,
    pub port: PortNum,
    pub lid: Lid,
    pub node: String,
    pub kind: NodeKind,
    pub hops: Option<u16>,
    pub peer_guid: Option<Guid>,
    pub peer_port: Option<PortNum>,
    pub peer: Option<String>,
    pub link: String,
    #[serde(deserialize_with = "link_source")]
    pub link_source: String,
    #[serde(deserialize_with = "status")]
    pub status: String,
    pub rtt_ns: u64,
    pub mads: u32,
    pub mad_status: Option<u16>,
    pub errno: Option<i32>,
    #[serde(deserialize_with = "identity")]
    pub identity: String,
    #[serde(default)]
    pub saturated: Vec<String>,
    pub dt_ns: Option<u64>,
    pub xmit_gbps: Option<f64>,
    pub rcv_gbps: Option<f64>,
    pub xmit_utilization: Option<f64>,
    pub rcv_utilization: Option<f64>,
    pub xmit_blocked: Option<f64>,
    /// All others: counters by name.
    #[serde(flatten, deserialize_with = "counters")]
    pub counters: BTreeMap<String, Value>,
}

/// What a counter has: one value, or one for each SL, VL or lane.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One.
    One(u64),
    /// By SL, VL or lane.
    Many(Vec<u64>),
}

impl Port {
    /// A counter that has one value, if it is there.
    pub fn counter(&self, name: &str) -> Option<u64> {
        match self.counters.get(name) {
            Some(Value::One(value)) => Some(*value),
            _ => None,
        }
    }
}

/// Refuses a word that is none of these.
fn one_of<'de, D: Deserializer<'de>>(deserializer: D, what: &str, words: &[&str]) -> Result<String, D::Error> {
    let word = String::deserialize(deserializer)?;
    if words.contains(&word.as_str()) { Ok(word) } else { Err(D::Error::custom(format_args!("unknown {what} `{word}`"))) }
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "status", &Status::ALL.map(Status::as_str))
}

fn link_source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "link source", &LinkSource::ALL.map(LinkSource::as_str))
}

fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "identity", &IDENTITY)
}

fn role<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "role", &ROLES)
}

fn histogram<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "histogram", &HISTOGRAMS)
}

fn event<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    one_of(deserializer, "event", &EVENTS.map(|(name, _)| name))
}

/// Refuses names that no group declares, and as many values as it does not.
fn counters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let counters = BTreeMap::<String, Value>::deserialize(deserializer)?;
    for (name, value) in &counters {
        let Some(declared) = values_of(name) else { return Err(D::Error::custom(format_args!("unknown field `{name}`"))) };
        let found = if let Value::Many(values) = value { values.len() } else { 1 };
        if found != declared {
            return Err(D::Error::custom(format_args!("`{name}` has {found} values instead of {declared}")));
        }
    }
    Ok(counters)
}

/// How many values a counter of this name has; `None` if there is none.
fn values_of(name: &str) -> Option<usize> {
    static DECLARED: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let fields = Group::ALL.into_iter().flat_map(Group::fields);
        fields.map(|field| (field.json, usize::from(field.len))).collect()
    });
    DECLARED.get(name).copied()
}

/// Mirror of [`super::SweepRecord`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Sweep {
    pub ts: u64,
    pub slot: u64,
    pub sampler: String,
    pub ca: String,
    pub ca_port: PortNum,
    #[serde(deserialize_with = "role")]
    pub role: String,
    pub duration_ns: u64,
    pub decode_ns: u64,
    pub ports: u32,
    pub ok: u32,
    pub late: u32,
    pub timeout: u32,
    pub unreachable: u32,
    pub skipped: u32,
    pub errors: u32,
    pub mads_sent: u64,
    pub mads_late: u64,
    pub mads_rejected: u64,
    pub mads_duplicate: u64,
    pub mads_foreign: u64,
    pub mads_bad_length: u64,
    pub mads_bad_class: u64,
    pub mads_bad_attribute: u64,
    pub mads_bad_port: u64,
    pub mads_refused: u64,
    pub load_bytes: u64,
    pub slots_missed: u64,
    pub lines_lost: u64,
    pub rtt_p50_ns: Option<u64>,
    pub rtt_p99_ns: Option<u64>,
    pub rtt_max_ns: Option<u64>,
}

/// Mirror of [`super::HistogramRecord`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Histogram {
    pub ts: u64,
    pub slot: u64,
    pub sampler: String,
    pub ca: String,
    pub ca_port: PortNum,
    #[serde(deserialize_with = "role")]
    pub role: String,
    #[serde(deserialize_with = "histogram")]
    pub kind: String,
    pub device_kind: Option<String>,
    pub guid: Option<Guid>,
    pub lid: Option<Lid>,
    pub hops: Option<u16>,
    pub mean_ns: u64,
    pub count: u64,
    pub v2: String,
}

/// Mirror of [`super::EventRecord`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Event {
    pub ts: u64,
    pub slot: u64,
    pub sampler: String,
    pub ca: String,
    pub ca_port: PortNum,
    #[serde(deserialize_with = "role")]
    pub role: String,
    #[serde(deserialize_with = "event")]
    pub event: String,
    pub guid: Option<Guid>,
    pub port: Option<PortNum>,
    pub lid: Option<Lid>,
    pub detail: String,
}

/// Reads a line.
///
/// # Errors
/// When it is no record of this version.
pub fn parse(line: &str) -> Result<Line, serde_json::Error> {
    serde_json::from_str(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"type":"event","ts":1,"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","event":"reset","guid":null,"port":null,"lid":null,"detail":""}"#;

    #[test]
    fn words_that_are_not_described_are_refused() {
        assert!(parse(EVENT).is_ok());
        let unknown = parse(&EVENT.replace("reset", "resett")).expect_err("there is no such event").to_string();
        assert!(unknown.contains("unknown event `resett`"), "{unknown}");
        assert!(parse(&EVENT.replace("detail", "details")).is_err(), "nor such a field");
        assert!(parse(&EVENT.replace("\"event\",\"ts", "\"evnt\",\"ts")).is_err(), "nor such a record");
    }
}
