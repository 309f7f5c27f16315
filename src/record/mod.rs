//! The records: what is written for downstream tools, one flat JSON object a line.
//!
//! `type` comes first and tells the rest: [`Start`] opens a stream, [`PortRecord`] is one port in one slot, [`SweepRecord`] closes a slot,
//! [`EventRecord`] and [`HistogramRecord`] tell what they are named for. `ts` is in nanoseconds since 1970, of the event or of a port's last
//! reply; `slot` is the slot's start divided by the interval, the same on all samplers. Numbers are integers unless it is said otherwise.
//! Only what truly answered in a slot is in its record. Lines of one type have their fields in one order.
//!
//! [`strict`] reads them again, strictly.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use crate::mad::pma::{Field, Group};
use crate::sweep::counter::{Columns, Rates, Reading};
use crate::sweep::sample::Sample;
use crate::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

pub mod reader;
pub mod strict;
mod text;

/// The version of the records: fields may be added, none changes its meaning.
pub const SCHEMA: u32 = 1;

/// What `identity` can say: that NodeInfo named the device that is meant, or that it did not.
pub const IDENTITY: [&str; 2] = ["ok", "unverified"];

/// What `role` can say.
pub const ROLES: [&str; 2] = ["primary", "secondary"];

/// Of what a `histogram` is.
pub const HISTOGRAMS: [&str; 3] = ["rtt", "service", "sweep"];

/// What an event can be called, and whose it is.
pub const EVENTS: [(&str, Of); 23] = [
    ("clock_step", Of::Sampler),
    ("group_unsupported", Of::Device),
    ("implausible", Of::Port),
    ("key_demanded", Of::Device),
    ("lid_change", Of::Device),
    ("lines_lost", Of::Sampler),
    ("link_change", Of::Port),
    ("link_down", Of::Port),
    ("link_up", Of::Port),
    ("local_change", Of::Sampler),
    ("reachable", Of::Device),
    ("redirected", Of::Device),
    ("reload", Of::Sampler),
    ("reset", Of::Port),
    ("right_device", Of::Device),
    ("send_error", Of::Sampler),
    ("slot_missed", Of::Sampler),
    ("umad_back", Of::Sampler),
    ("umad_lost", Of::Sampler),
    ("unreachable", Of::Device),
    ("window_halved", Of::Sampler),
    ("window_restored", Of::Sampler),
    ("wrong_device", Of::Device),
];

/// Whose an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The sampler's: no GUID, no LID, no port.
    Sampler,
    /// A device's: the GUID that its ports have in the records, and its LID.
    Device,
    /// A port's: its device's, and its number.
    Port,
}

impl Of {
    /// Whose events of this name are; `None` if there are none.
    pub fn event(name: &str) -> Option<Self> {
        EVENTS.iter().find(|(event, _)| *event == name).map(|(_, of)| *of)
    }
}

/// What is the same in every record of a port.
#[derive(Clone, PartialEq, Debug)]
pub struct PortIdentity {
    /// The port GUID.
    pub guid: Guid,
    /// Its number.
    pub port: PortNum,
    /// Where its device answers.
    pub lid: Lid,
    /// Its node's name, as strangers wrote it.
    pub node: String,
    /// What its node is.
    pub kind: NodeKind,
    /// How far it is from the sampler, by the plan: the host's own HCA 0, its switch 1.
    pub hops: Option<u16>,
    /// The other end: GUID, port and name.
    pub peer: Option<(Guid, PortNum, String)>,
    /// The link.
    pub link: LinkRate,
    /// Who told it.
    pub link_source: LinkSource,
}

/// Who told how a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkSource {
    /// The net file.
    File,
    /// PortInfo, not long ago.
    Live,
}

impl LinkSource {
    /// Both.
    pub const ALL: [Self; 2] = [Self::File, Self::Live];

    /// The word of the records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Live => "live",
        }
    }
}

/// The first line of a stream: no two are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Start<'a> {
    /// `start`.
    pub r#type: &'static str,
    /// Now.
    pub ts: u64,
    /// Of this instant.
    pub slot: u64,
    /// Whose stream it is.
    pub sampler: &'a str,
    /// [`SCHEMA`].
    pub schema: u32,
    /// Of this program.
    pub version: &'static str,
    /// Of the running kernel.
    pub boot_id: &'a str,
    /// Of this process.
    pub pid: u32,
    /// The adapter that sends; `sim` for the simulated fabric.
    pub ca: &'a str,
    /// Its port.
    pub ca_port: PortNum,
    /// `primary`, or `secondary`: of each port that has two samplers, which one this is.
    pub role: &'static str,
    /// Between two slots.
    pub interval_ns: u64,
    /// What is asked, by name.
    pub groups: Vec<&'static str>,
    /// How many ports there are.
    pub ports: usize,
    /// Of the assignments file; null without one.
    pub assignments_sha256: Option<&'a str>,
    /// What it takes to read the clock, which every duration has in it.
    pub clock_ns: u64,
    /// Counts the files of one process.
    pub file_seq: u32,
}

/// One port in one slot.
#[derive(Clone, Copy, Debug)]
pub struct PortRecord<'a> {
    /// When its last reply came.
    pub ts: u64,
    /// Which slot.
    pub slot: u64,
    /// Who asked.
    pub sampler: &'a str,
    /// Which port.
    pub identity: &'a PortIdentity,
    /// What came.
    pub sample: &'a Sample<'a>,
    /// The counters in it.
    pub reading: &'a Reading,
    /// What they are called.
    pub columns: &'a Columns,
}

/// The end of a slot.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRecord<'a> {
    /// `sweep`.
    pub r#type: &'static str,
    /// When the slot was settled.
    pub ts: u64,
    /// Which slot.
    pub slot: u64,
    /// Whose.
    pub sampler: &'a str,
    /// The adapter that sent.
    pub ca: &'a str,
    /// Its port.
    pub ca_port: PortNum,
    /// `primary`, or `secondary`: of each port that has two samplers, which one this is.
    pub role: &'static str,
    /// From its start to the last reply or expiry.
    pub duration_ns: u64,
    /// Spent on making values of replies.
    pub decode_ns: u64,
    /// Of all statuses.
    pub ports: u32,
    /// Ports `ok`.
    pub ok: u32,
    /// Ports `late`.
    pub late: u32,
    /// Ports `timeout`.
    pub timeout: u32,
    /// Ports `unreachable`.
    pub unreachable: u32,
    /// Ports `skipped`.
    pub skipped: u32,
    /// Ports of any other status.
    pub errors: u32,
    /// Requests.
    pub mads_sent: u64,
    /// Replies after their deadline.
    pub mads_late: u64,
    /// Replies that were not taken: the sum of the next six.
    pub mads_rejected: u64,
    /// Of a transaction that had its reply already.
    pub mads_duplicate: u64,
    /// Of no transaction of ours, or of another sender than the one asked.
    pub mads_foreign: u64,
    /// Not 256 octets.
    pub mads_bad_length: u64,
    /// Another class or version of it, or no response.
    pub mads_bad_class: u64,
    /// Another attribute.
    pub mads_bad_attribute: u64,
    /// Another port.
    pub mads_bad_port: u64,
    /// Replies with an error status.
    pub mads_refused: u64,
    /// What our requests were on each link that they passed, in octets (288 each); replies are as much again.
    pub load_bytes: u64,
    /// Slots that could not start since the one before.
    pub slots_missed: u64,
    /// Lines that could not be written since the one before.
    pub lines_lost: u64,
    /// Round trips of the replies that were taken; null if none was.
    pub rtt_p50_ns: Option<u64>,
    /// Likewise.
    pub rtt_p99_ns: Option<u64>,
    /// Likewise.
    pub rtt_max_ns: Option<u64>,
}

/// A distribution.
#[derive(Clone, Debug, Serialize)]
pub struct HistogramRecord<'a> {
    /// `histogram`.
    pub r#type: &'static str,
    /// Now.
    pub ts: u64,
    /// Of this instant.
    pub slot: u64,
    /// Whose.
    pub sampler: &'a str,
    /// The adapter that sent.
    pub ca: &'a str,
    /// Its port.
    pub ca_port: PortNum,
    /// `primary`, or `secondary`: of each port that has two samplers, which one this is.
    pub role: &'static str,
    /// `rtt`, `service` or `sweep`, in nanoseconds.
    pub kind: &'static str,
    /// Whose round trips: `switch` or `hca`; null for sweeps.
    pub device_kind: Option<&'static str>,
    /// Of which device; null but for `service`.
    pub guid: Option<Guid>,
    /// Where it answers; likewise.
    pub lid: Option<Lid>,
    /// How far it is from the sampler; likewise, and where no plan tells.
    pub hops: Option<u16>,
    /// The mean of the values.
    pub mean_ns: u64,
    /// How many values.
    pub count: u64,
    /// HdrHistogram's V2 format, deflated, in base64.
    pub v2: String,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct EventRecord<'a> {
    /// `event`.
    pub r#type: &'static str,
    /// When.
    pub ts: u64,
    /// In which slot.
    pub slot: u64,
    /// To whom.
    pub sampler: &'a str,
    /// The adapter that was sending.
    pub ca: &'a str,
    /// Its port.
    pub ca_port: PortNum,
    /// `primary`, or `secondary`: of each port that has two samplers, which one this is.
    pub role: &'static str,
    /// What.
    pub event: &'static str,
    /// Of which device, if of one.
    pub guid: Option<Guid>,
    /// Of which port, if of one.
    pub port: Option<PortNum>,
    /// Where it answers.
    pub lid: Option<Lid>,
    /// In words.
    pub detail: &'a str,
}

impl Serialize for PortRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { ts, slot, sampler, identity, sample, reading, columns } = self;
        let (peer_guid, peer_port, peer) = match &identity.peer {
            Some((guid, port, name)) => (Some(guid), Some(port), Some(name)),
            None => (None, None, None),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "port")?;
        map.serialize_entry("ts", ts)?;
        map.serialize_entry("slot", slot)?;
        map.serialize_entry("sampler", sampler)?;
        map.serialize_entry("guid", &identity.guid)?;
        map.serialize_entry("port", &identity.port)?;
        map.serialize_entry("lid", &identity.lid)?;
        map.serialize_entry("node", &identity.node)?;
        map.serialize_entry("kind", identity.kind.as_str())?;
        map.serialize_entry("hops", &identity.hops)?;
        map.serialize_entry("peer_guid", &peer_guid)?;
        map.serialize_entry("peer_port", &peer_port)?;
        map.serialize_entry("peer", &peer)?;
        map.serialize_entry("link", &Shown(&identity.link))?;
        map.serialize_entry("link_source", identity.link_source.as_str())?;
        map.serialize_entry("status", sample.status.as_str())?;
        map.serialize_entry("rtt_ns", &u64::try_from(sample.rtt.as_nanos()).unwrap_or(u64::MAX))?;
        map.serialize_entry("mads", &sample.mads)?;
        if let Some(status) = sample.mad_status {
            map.serialize_entry("mad_status", &status.0)?;
        }
        if let Some(errno) = sample.errno {
            map.serialize_entry("errno", &errno)?;
        }
        map.serialize_entry("identity", IDENTITY[usize::from(!sample.verified)])?;
        for (field, raw) in reading.counters(columns) {
            match raw {
                [raw] => map.serialize_entry(field.json, &field.value(*raw))?,
                raws => map.serialize_entry(field.json, &Values { field, raws })?,
            }
        }
        let saturated = Saturated { reading, columns };
        if saturated.names().next().is_some() {
            map.serialize_entry("saturated", &saturated)?;
        }
        let Rates { interval, xmit_gbps, rcv_gbps, .. } = reading.rates;
        let shares = Shares::of(identity, sample, reading);
        map.serialize_entry("dt_ns", &interval.map(|interval| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)))?;
        map.serialize_entry("xmit_gbps", &rounded(xmit_gbps))?;
        map.serialize_entry("rcv_gbps", &rounded(rcv_gbps))?;
        map.serialize_entry("xmit_utilization", &rounded(shares.xmit))?;
        map.serialize_entry("rcv_utilization", &rounded(shares.rcv))?;
        map.serialize_entry("xmit_blocked", &rounded(shares.blocked))?;
        map.end()
    }
}

/// Shares of what a link can do, from 0 to 1; `None` where they cannot be known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Shares {
    /// Of its data rate, transmitted.
    pub xmit: Option<f64>,
    /// Of its data rate, received.
    pub rcv: Option<f64>,
    /// Of time, in which there was data to send and it was not sent.
    pub blocked: Option<f64>,
}

impl Shares {
    /// From the rates of a slot and the link as it is now.
    pub fn of(identity: &PortIdentity, sample: &Sample<'_>, reading: &Reading) -> Self {
        let Rates { xmit_gbps, rcv_gbps, wait_ticks, .. } = reading.rates;
        let capacity = identity.link.data_gbps();
        let utilization = |gbps: Option<f64>| Some(gbps? / capacity?);
        let blocked = || sample.tick?.share(wait_ticks?, identity.link.lanes()?, capacity?);
        Self { xmit: utilization(xmit_gbps), rcv: utilization(rcv_gbps), blocked: blocked() }
    }
}

/// Six digits behind the point: a bit a second of a Gb/s is nobody's.
fn rounded(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1e6).round() / 1e6)
}

/// Serialises what a value displays, without a copy.
struct Shown<'a, T>(&'a T);

impl<T: std::fmt::Display> Serialize for Shown<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// One value for each SL, VL or lane.
struct Values<'a> {
    field: &'static Field,
    raws: &'a [u64],
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.raws.iter().map(|raw| self.field.value(*raw)))
    }
}

/// The names of the counters that are full; of an array once, if any of its values is.
struct Saturated<'a> {
    reading: &'a Reading,
    columns: &'a Columns,
}

impl Saturated<'_> {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let full = |(field, raws): &(&Field, &[u64])| raws.iter().any(|raw| field.is_saturated(*raw));
        self.reading.counters(self.columns).filter(full).map(|(field, _)| field.json)
    }
}

impl Serialize for Saturated<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        self.names().try_for_each(|name| names.serialize_element(name))?;
        names.end()
    }
}

/// Appends a record and its line feed.
pub fn write(record: &impl Serialize, lines: &mut Vec<u8>) {
    // A Vec takes all that it is given, and all keys are strings.
    if record.serialize(&mut serde_json::Serializer::with_formatter(&mut *lines, text::Shown)).is_ok() {
        lines.push(b'\n');
    }
}

/// The names of groups, as a `start` record lists them.
pub fn group_names(groups: &[Group]) -> Vec<&'static str> {
    groups.iter().map(|group| group.as_str()).collect()
}
