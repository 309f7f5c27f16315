//! The records of `ibnet-sweep`: one JSON object per line. `docs/records.md` describes them.
//!
//! Each field has one definition. The writer and both readers use this definition. Every other
//! package of the workspace uses this one. So it also has the types and the small tools that all of
//! them need.
//!
//! | module | contents |
//! |---|---|
//! | [`fields`] | the fields of `start`, `sweep`, `histogram`, `event` and `routes` records |
//! | [`port`] | the fields of `port` records, with counters |
//! | [`physical`] | the records of the physical layer |
//! | [`strict`] | a reader that rejects everything that this version does not write |
//! | [`reader`] | a fast reader that skips unknown fields |
//! | `value` | values of fields without their types |
//! | `vocabulary` | roles, results of checks, and names of events |
//! | `status` | the status of a port and what it says about the device |
//! | [`interval`] | the time that a port record describes |
//! | [`slots`] | the slots in this time, and the time between two slots |
//! | [`minute`] | means of minutes and of other bins of time |
//! | [`attributes`] | the counters: attributes as tables of fields, and their groups |
//! | [`registers`] | the registers of the physical layer and of switches, as tables of fields |
//! | [`tables`] | the documents with parts that are made from the code |
//! | [`openapi`] | schemas of the interface of the hub |
//! | [`text`] | JSON strings that are safe on a terminal |
//! | [`types`] | GUIDs, LIDs, port numbers, link rates |
//! | [`words`](macro@words) | enums whose variants have a word each |
//! | [`limits`] | limits of the sizes of inputs |
//! | [`suggest`] | the name that a user probably meant |
//! | [`hostlist`] | host lists in the notation of Slurm and ClusterShell |
//! | [`rail`] | the rail of an HCA port: its place in its host |
//!
//! `type` is the first field of every record. Numbers are integers unless `docs/records.md` gives
//! another type.

use serde::Serialize;

use crate::attributes::Group;

#[macro_use]
mod words;

pub mod attributes;
pub mod count;
pub mod fields;
pub mod hostlist;
pub mod interval;
mod json;
pub mod limits;
pub mod minute;
pub mod openapi;
pub mod physical;
pub mod port;
pub mod rail;
pub mod reader;
pub mod registers;
pub mod schema;
pub mod slots;
pub mod sql;
mod status;
pub mod strict;
pub mod suggest;
pub mod tables;
pub mod text;
pub mod types;
mod value;
mod vocabulary;

pub use fields::{EventRecord, HistogramRecord, RoutesRecord, Start, SweepRecord};
pub use interval::Interval;
pub use physical::{PhysicalHead, PhysicalKind, PhysicalRecord};
pub use port::{Change, PortField, PortFields, Presence};
pub use status::{Says, Status};
pub use value::FieldValue;
pub use vocabulary::{EventName, HistogramKind, Identity, LinkSource, Of, Role, RoutesTable};

/// Version of the records. New fields may be added without a new version. Within a version, no
/// field changes its meaning.
pub const SCHEMA: u32 = 1;

/// The error counters, the most important first. All tables, pictures and sums of errors use this
/// list. Some counters are the sum of others, their *parts*. The parts follow the sum.
pub const ERROR_COUNTERS: [&str; 23] = [
    "link_downed_counter",
    "link_error_recovery_counter",
    "symbol_error_counter",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_local_physical_errors",
    "port_malformed_packet_errors",
    "port_buffer_overrun_errors",
    "port_dlid_mapping_errors",
    "port_vl_mapping_errors",
    "port_looping_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_inactive_discards",
    "port_neighbor_mtu_discards",
    "port_sw_lifetime_limit_discards",
    "port_sw_hoq_lifetime_limit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "vl15_dropped",
    "qp1_dropped",
];

/// Indices in [`ERROR_COUNTERS`] of the counters that are parts of another counter. They are not
/// summed.
const ERROR_PARTS: [std::ops::Range<usize>; 2] = [6..12, 15..19];

/// Returns whether the counter at this index of [`ERROR_COUNTERS`] is a part of another counter.
pub fn is_error_part(index: usize) -> bool {
    ERROR_PARTS.iter().any(|range| range.contains(&index))
}

/// Returns the counters whose sum is the number of all errors: [`ERROR_COUNTERS`] without the
/// parts.
pub fn summed_error_counters() -> impl Iterator<Item = &'static str> {
    ERROR_COUNTERS
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !is_error_part(*index))
        .map(|(_, name)| name)
}

/// Returns the name of each counter with the name of its counter group. If several groups have a
/// counter, it is returned once for each group.
pub fn counters() -> impl Iterator<Item = (&'static str, &'static str)> {
    Group::ALL.into_iter().flat_map(|group| {
        group
            .fields()
            .map(move |field| (field.json, group.as_str()))
    })
}

/// Returns the name of each counter with the number of its values: 1, or one for each SL, VL or
/// lane. A counter that several groups have is returned several times.
pub fn counter_lengths() -> impl Iterator<Item = (&'static str, usize)> {
    Group::ALL.into_iter().flat_map(|group| {
        group
            .fields()
            .map(|field| (field.json, usize::from(field.len)))
    })
}

/// Returns the fields of a `port` record with the numbers of slots since the last reading of each
/// group. They follow the counters.
pub fn dt_slots_fields() -> [&'static str; Group::ALL.len()] {
    Group::ALL.map(Group::dt_slots_field)
}

/// Returns whether a field is one of [`dt_slots_fields`].
pub fn is_dt_slots_field(name: &str) -> bool {
    Group::of_dt_slots_field(name).is_some()
}

/// Appends a record and a line feed.
pub fn write(record: &impl Serialize, lines: &mut Vec<u8>) {
    // This cannot fail: a Vec accepts all octets, and all keys are strings.
    if record.serialize(json::Json(lines)).is_ok() {
        lines.push(b'\n');
    }
}

/// Returns the names of counter groups as a `start` record lists them.
pub fn group_names(groups: &[Group]) -> Vec<&'static str> {
    groups.iter().map(|group| group.as_str()).collect()
}
