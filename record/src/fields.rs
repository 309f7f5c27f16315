//! The fields of `start`, `sweep`, `histogram`, `event` and `routes` records. Each field is listed
//! once, in the order of the line.
//!
//! The writer, the strict reader and the tolerant reader use the same types. Only the type
//! parameter `Text` differs: `&str` in the writer, [`String`] in [`strict`](super::strict), and
//! [`Cow`](std::borrow::Cow) in [`reader`](super::reader). The readers skip unknown fields while
//! parsing. A field marked `default` may be missing in the lines of another version.
//!
//! `ts` is in nanoseconds since 1970 (UTC). A slot number is the start time of the slot divided by
//! the interval. So all samplers give the same number to the same slot. Durations are in
//! nanoseconds.

use serde::{Deserialize, Serialize};

use crate::types::{Guid, Lid, PortNum};

/// The first record of a stream. The sampler writes it again after a change of the assignments. No
/// two files or streams begin with equal `start` records.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "start")]
pub struct Start<Text> {
    /// Time at which the record was made.
    pub ts: u64,
    /// Slot in which the record was made.
    #[serde(default)]
    pub slot: u64,
    /// Name of the sampler.
    pub sampler: Text,
    /// Version of the records: [`SCHEMA`](super::SCHEMA).
    #[serde(default)]
    pub schema: u32,
    /// Version of the program.
    #[serde(default)]
    pub version: Text,
    /// Boot identifier of the running kernel.
    #[serde(default)]
    pub boot_id: Text,
    /// Process identifier.
    #[serde(default)]
    pub pid: u32,
    /// Name of the sending HCA. It is `sim` for the simulated fabric.
    #[serde(default)]
    pub ca: Text,
    /// Number of the sending HCA port.
    #[serde(default)]
    pub ca_port: PortNum,
    /// Role of the sampler: `primary`, or `secondary` if it is the second sampler of its ports.
    #[serde(default)]
    pub role: Text,
    /// Time between the starts of two slots.
    pub interval_ns: u64,
    /// Names of the counter groups that are queried.
    #[serde(default = "Vec::new")]
    pub groups: Vec<Text>,
    /// Names of the counter groups whose counters are cleared. All requests for counters are Get if
    /// it is empty.
    #[serde(default = "Vec::new")]
    pub clear: Vec<Text>,
    /// Number of assigned ports.
    #[serde(default)]
    pub ports: usize,
    /// Number of counter queries in an average slot. `None` only if the line lacks the field.
    pub mads_per_slot: Option<u64>,
    /// SHA-256 of the assignments file in hexadecimal. Null without a file.
    pub assignments_sha256: Option<Text>,
    /// Shortest time that one reading of the clock takes. Every measured round-trip time includes
    /// it. `None` only if the line does not have the field.
    pub clock_ns: Option<u64>,
    /// Number of the file or stream, counted from 0 by each output of a process.
    #[serde(default)]
    pub file_seq: u32,
}

/// Totals of one slot. Each HCA port of a sampler writes this record at the end of the slot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "sweep")]
pub struct SweepRecord<Text> {
    /// Time at which the slot ended.
    pub ts: u64,
    /// Slot number.
    pub slot: u64,
    /// Name of the sampler.
    pub sampler: Text,
    /// Name of the sending HCA.
    #[serde(default)]
    pub ca: Text,
    /// Number of the sending HCA port.
    #[serde(default)]
    pub ca_port: PortNum,
    /// Role of the sampler: `primary` or `secondary`.
    #[serde(default)]
    pub role: Text,
    /// Time from the start of the slot to its last reply or timeout.
    pub duration_ns: u64,
    /// Time spent on decoding replies.
    #[serde(default)]
    pub decode_ns: u64,
    /// Number of assigned ports, whatever their status.
    #[serde(default)]
    pub ports: u32,
    /// Number of ports with the status `ok`.
    #[serde(default)]
    pub ok: u32,
    /// Number of ports with the status `late`.
    #[serde(default)]
    pub late: u32,
    /// Number of ports with the status `timeout`.
    #[serde(default)]
    pub timeout: u32,
    /// Number of ports with the status `unreachable`.
    #[serde(default)]
    pub unreachable: u32,
    /// Number of ports with the status `skipped`.
    #[serde(default)]
    pub skipped: u32,
    /// Number of ports with the status `down`.
    #[serde(default)]
    pub down: u32,
    /// Number of ports with any other status.
    #[serde(default)]
    pub errors: u32,
    /// Number of requests sent.
    #[serde(default)]
    pub mads_sent: u64,
    /// Number of replies that came after their timeout.
    #[serde(default)]
    pub mads_late: u64,
    /// Number of rejected replies: the sum of `mads_duplicate`, `mads_foreign` and the four
    /// `mads_bad_*` fields.
    #[serde(default)]
    pub mads_rejected: u64,
    /// Number of replies to a request that already had a reply.
    #[serde(default)]
    pub mads_duplicate: u64,
    /// Number of replies that match no request, or came from a LID other than the destination of
    /// the request.
    #[serde(default)]
    pub mads_foreign: u64,
    /// Number of replies that are not 256 octets long.
    #[serde(default)]
    pub mads_bad_length: u64,
    /// Number of replies with an unexpected class, class version or method.
    #[serde(default)]
    pub mads_bad_class: u64,
    /// Number of replies with an unexpected attribute.
    #[serde(default)]
    pub mads_bad_attribute: u64,
    /// Number of replies for another port than the requested one.
    #[serde(default)]
    pub mads_bad_port: u64,
    /// Number of replies with an error status.
    #[serde(default)]
    pub mads_refused: u64,
    /// Octets of the requests on each link of their path: 288 for one request. The replies use the
    /// same number of octets again.
    #[serde(default)]
    pub load_bytes: u64,
    /// Number of missed slots since the previous `sweep` record. A missed slot could not start in
    /// time.
    #[serde(default)]
    pub slots_missed: u64,
    /// Number of records that this output dropped since the previous `sweep` record.
    #[serde(default)]
    pub lines_lost: u64,
    /// Median of the round-trip times of accepted replies. Null without a reply.
    pub rtt_p50_ns: Option<u64>,
    /// 99th percentile of the round-trip times of accepted replies. Null without a reply.
    pub rtt_p99_ns: Option<u64>,
    /// Longest round-trip time of an accepted reply. Null without a reply.
    pub rtt_max_ns: Option<u64>,
}

/// Fields of a `histogram` record that are absent without a value. Versions before them have no
/// such fields.
pub(super) const ABSENT: [&str; 4] = ["system_guid", "vendor_id", "device_id", "min_ns"];

/// Distribution of durations, written once a minute.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "histogram")]
pub struct HistogramRecord<Text> {
    /// Time at which the record was made.
    pub ts: u64,
    /// Slot in which the record was made.
    #[serde(default)]
    pub slot: u64,
    /// Name of the sampler.
    #[serde(default)]
    pub sampler: Text,
    /// Name of the sending HCA.
    #[serde(default)]
    pub ca: Text,
    /// Number of the sending HCA port.
    #[serde(default)]
    pub ca_port: PortNum,
    /// Role of the sampler: `primary` or `secondary`.
    #[serde(default)]
    pub role: Text,
    /// Measured quantity: `rtt` (round trips by kind of device), `service` (round trips of one
    /// device), `sweep` (durations of slots) or `clock` (times of single readings of the clock).
    pub kind: Text,
    /// Kind of the devices that replied: `switch` or `hca`. Null for `sweep` and `clock`.
    pub device_kind: Option<Text>,
    /// GUID of the device. Null except for `service`.
    pub guid: Option<Guid>,
    /// LID of the device. Null except for `service`.
    pub lid: Option<Lid>,
    /// Distance of the device in hops. Null except for `service`. Also null if the plan does not
    /// state the distance.
    pub hops: Option<u16>,
    /// SystemImageGUID of the device, which all switches of a chassis share. Absent except for
    /// `service`, and if the device did not answer NodeInfo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_guid: Option<Guid>,
    /// Vendor ID of the device. Absent like `system_guid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<u32>,
    /// Device ID, assigned by the vendor. Absent like `system_guid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<u16>,
    /// Shortest time that one reading of the clock takes, measured when the record was made. `None`
    /// only if the line does not have the field.
    pub clock_ns: Option<u64>,
    /// Mean of the values. `None` only if the line does not have the field.
    pub mean_ns: Option<u64>,
    /// The shortest value, exactly. Absent except for `service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Number of values.
    #[serde(default)]
    pub count: u64,
    /// The values in HdrHistogram's V2 format, deflated, in base64.
    #[serde(default)]
    pub v2: Text,
}

/// Event of a sampler, a device or a port. [`EventName`](super::EventName) lists the names.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "event")]
pub struct EventRecord<Text> {
    /// Time of the event.
    pub ts: u64,
    /// Slot of the event.
    pub slot: u64,
    /// Name of the sampler.
    pub sampler: Text,
    /// Name of the sending HCA.
    #[serde(default)]
    pub ca: Text,
    /// Number of the sending HCA port.
    #[serde(default)]
    pub ca_port: PortNum,
    /// Role of the sampler: `primary` or `secondary`.
    #[serde(default)]
    pub role: Text,
    /// Name of the event.
    pub event: Text,
    /// GUID of the device. Null for an event of the sampler.
    pub guid: Option<Guid>,
    /// Port number. Null except for an event of a port.
    pub port: Option<PortNum>,
    /// LID of the device. Null for an event of the sampler.
    pub lid: Option<Lid>,
    /// Details as text.
    #[serde(default)]
    pub detail: Text,
}

/// How a switch forwards packets: a part of one of its tables. Which fields a record has depends on
/// `table`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename = "routes")]
pub struct RoutesRecord<Text> {
    /// Time of the reply.
    pub ts: u64,
    /// Slot in which the reply arrived.
    #[serde(default)]
    pub slot: u64,
    /// Name of the sampler.
    #[serde(default)]
    pub sampler: Text,
    /// Port GUID of the switch.
    pub guid: Guid,
    /// LID of the switch.
    #[serde(default)]
    pub lid: Lid,
    /// Name of the switch.
    #[serde(default)]
    pub node: Text,
    /// The table: [`RoutesTable`](super::RoutesTable).
    pub table: Text,
    /// Largest LID in the linear forwarding table: LinearFDBTop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<u16>,
    /// LID of the first of `ports`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_lid: Option<u16>,
    /// Port through which the switch forwards to each LID, 255 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u8>>,
    /// Port by which the packets leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNum>,
    /// Ports that receive the packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_ports: Option<Vec<u8>>,
    /// VL of each SL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vls: Option<Vec<u8>>,
    /// Number of entries that the linear forwarding table can have: LinearFDBCap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u16>,
    /// Time that the round took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_ns: Option<u64>,
    /// Number of entries that have changed since the previous round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<u32>,
    /// Whether adaptive routing is on: 1 or 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ar_enabled: Option<u8>,
    /// Number of the last group of ports of adaptive routing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ar_group_top: Option<u16>,
    /// SLs that are routed adaptively, one bit each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ar_sl_mask: Option<u16>,
}
