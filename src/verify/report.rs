//! The results as JSON for a site to publish, with replaced names and GUIDs.
//!
//! LIDs, port numbers, device IDs and the values of fields that differ stay, so a report without
//! differences has no counter value.

use std::fmt;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use serde::Serialize;

use super::compare::{Comparison, Difference, Fault, Values};
use super::device::{AttributeResult, DeviceResult, Outcome};
use super::models::Model;
use super::timing::Times;

/// Version of the format.
const SCHEMA: u32 = 1;

/// The document.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    schema: u32,
    /// Version of ibnet.
    version: &'static str,
    /// Name and release of the kernel.
    pub kernel: String,
    /// The HCA that sends. `None` on a simulated fabric.
    pub hca: Option<HcaReport>,
    /// The second reader.
    pub reference: &'static str,
    /// Number of devices of the plan or of the net file.
    pub devices_known: usize,
    /// Number of devices whose model was queried.
    pub devices_identified: usize,
    /// The models, each with its number of identified devices.
    pub models: Vec<ModelReport>,
    /// The verified devices.
    pub devices: Vec<DeviceReport>,
    /// Times to the replies, for each model.
    pub service_times: Vec<ServiceReport>,
    /// Times of requests to a LID that does not exist.
    pub silent_lid: Option<SilentReport>,
    /// Comparisons with other programs.
    pub programs: Vec<ProgramReport>,
    /// Number of MADs that ibnet and the second reader sent.
    pub mads_sent: u64,
    /// Number of differences.
    pub differences: usize,
}

/// The HCA that sends, as its driver describes it in sysfs. A driver may leave out any of these.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HcaReport {
    /// Type, such as `MT4123`.
    pub hca_type: Option<String>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// Board, such as `MT_0000000224`. It names the product, not the single device.
    pub board: Option<String>,
}

/// A model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ModelReport {
    kind: Option<&'static str>,
    vendor_id: u32,
    device_id: u16,
    revision: u32,
    /// Number of identified devices.
    pub devices: usize,
}

/// A device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceReport {
    guid: String,
    name: String,
    lid: u16,
    port: u8,
    kind: &'static str,
    model: String,
    attributes: Vec<AttributeReport>,
    redirected_to: Option<u16>,
    is_same_agent: bool,
    path_sl: Option<u8>,
}

/// An attribute of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct AttributeReport {
    name: &'static str,
    /// `equal`, `different`, `unanswered`, `only_ibnet`, `only_reference`, or `not_supported`.
    result: &'static str,
    /// The reason for a missing answer, or the answer of a device without this group.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    values: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<DifferenceReport>,
}

/// A field that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct DifferenceReport {
    field: &'static str,
    index: u8,
    /// `decoding`, `not_between` or `changed`.
    fault: &'static str,
    /// The values as in [`Values`], in the order of its fields; left out for a GUID or a GID.
    values: Option<[u64; 4]>,
}

/// Times to the replies of one device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ServiceReport {
    /// The model of the device.
    pub model: String,
    /// Number of requests in flight.
    pub in_flight: u32,
    /// Number of replies.
    pub replies: usize,
    /// Number of requests without a reply.
    pub unanswered: usize,
    /// Shortest time to a reply, in nanoseconds.
    pub min_ns: Option<u64>,
    /// Median, in nanoseconds.
    pub median_ns: Option<u64>,
    /// Longest time, in nanoseconds.
    pub max_ns: Option<u64>,
}

/// Times of requests to a LID that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SilentReport {
    /// The LID.
    pub lid: Lid,
    /// Configured timeout, in nanoseconds.
    pub timeout_ns: u64,
    /// Time to the timeout of one request, in nanoseconds.
    pub reported_ns: Option<u64>,
    /// Times to the timeouts of several requests in flight, in nanoseconds.
    pub burst_ns: Vec<u64>,
}

/// Comparison with another program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProgramReport {
    /// Name of the program.
    pub program: &'static str,
    /// Version of rdma-core, as the program prints it.
    pub version: Option<String>,
    /// Number of values that were compared.
    pub compared: usize,
    /// Number of values that differ.
    pub different: usize,
    /// The values that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ProgramDifference>,
}

/// A value of another program that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProgramDifference {
    /// LID of the device in the plan.
    pub lid: Lid,
    /// Number of the port.
    pub port: PortNum,
    /// `LID`, `link`, or the name of a counter.
    pub what: String,
    /// Value of ibnet.
    pub ibnet: String,
    /// Value of the program. For a counter, the values before and after the slot.
    pub program: String,
}

/// The name and the GUID of a device in a report, and its other properties.
#[derive(Clone, PartialEq, Debug)]
pub struct Identity {
    /// Substitute of the port GUID.
    pub guid: Guid,
    /// Substitute of the name.
    pub name: String,
    /// LID.
    pub lid: Lid,
    /// Port number.
    pub port: PortNum,
    /// Kind of the device.
    pub kind: NodeKind,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            kernel: String::new(),
            hca: None,
            reference: "",
            devices_known: 0,
            devices_identified: 0,
            models: Vec::new(),
            devices: Vec::new(),
            service_times: Vec::new(),
            silent_lid: None,
            programs: Vec::new(),
            mads_sent: 0,
            differences: 0,
        }
    }
}

impl Report {
    /// Returns the document.
    pub fn to_json(&self) -> String {
        // The document has only numbers, texts and lists, so it can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl fmt::Display for HcaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hca_type,
            firmware,
            board,
        } = self;
        let parts = [("type", hca_type), ("firmware", firmware), ("board", board)];
        let known = parts
            .into_iter()
            .filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)));
        f.write_str(&known.collect::<Vec<_>>().join(", "))
    }
}

impl ModelReport {
    /// Returns the entry of a model.
    pub fn new(model: &Model, devices: usize) -> Self {
        let Model {
            kind,
            vendor_id,
            device_id,
            revision,
        } = *model;
        Self {
            kind: kind.map(NodeKind::as_str),
            vendor_id,
            device_id,
            revision,
            devices,
        }
    }
}

impl DeviceReport {
    /// Returns the entry of a device.
    pub fn new(identity: Identity, model: &Model, result: &DeviceResult) -> Self {
        let Identity {
            guid,
            name,
            lid,
            port,
            kind,
        } = identity;
        Self {
            guid: guid.to_string(),
            name,
            lid: lid.0,
            port: port.0,
            kind: kind.as_str(),
            model: model.to_string(),
            attributes: result.attributes.iter().map(AttributeReport::new).collect(),
            redirected_to: result.redirected_to.map(|lid| lid.0),
            is_same_agent: result.other_agent.is_none(),
            path_sl: result.path_sl,
        }
    }
}

impl AttributeReport {
    fn new(attribute: &AttributeResult) -> Self {
        let (result, detail) = match &attribute.outcome {
            Outcome::Compared(Comparison { differences, .. }) if differences.is_empty() => {
                ("equal", String::new())
            }
            Outcome::Compared(_) => ("different", String::new()),
            Outcome::Unanswered(ours, theirs) => ("unanswered", format!("{ours}; {theirs}")),
            Outcome::OnlyOurs(theirs) => ("only_ibnet", theirs.to_string()),
            Outcome::OnlyTheirs(ours) => ("only_reference", ours.to_string()),
            Outcome::Lacking(how) => ("not_supported", how.to_string()),
        };
        let (values, differences) = match &attribute.outcome {
            Outcome::Compared(comparison) => (
                comparison.fields,
                comparison
                    .differences
                    .iter()
                    .map(DifferenceReport::new)
                    .collect(),
            ),
            _ => (0, Vec::new()),
        };
        Self {
            name: attribute.name,
            result,
            detail,
            values,
            differences,
        }
    }
}

impl DifferenceReport {
    fn new(difference: &Difference) -> Self {
        let Difference {
            field,
            index,
            values,
            fault,
        } = difference;
        let fault = match fault {
            Fault::Decoding => "decoding",
            Fault::NotBetween => "not_between",
            Fault::Changed => "changed",
        };
        let is_private = ["GUID", "GID"].iter().any(|end| field.name.ends_with(end));
        let Values {
            before,
            theirs,
            theirs_by_us,
            after,
        } = *values;
        Self {
            field: field.name,
            index: *index,
            fault,
            values: (!is_private).then_some([before, theirs, theirs_by_us, after]),
        }
    }
}

impl ServiceReport {
    /// Returns the entry of a burst.
    pub fn new(model: &Model, in_flight: u32, times: &Times) -> Self {
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            model: model.to_string(),
            in_flight,
            replies: times.replies.len(),
            unanswered: times.timeouts.len() + times.lost as usize,
            min_ns: times.replies.first().copied().map(nanos),
            median_ns: times.median().map(nanos),
            max_ns: times.replies.last().copied().map(nanos),
        }
    }
}
