//! The tables of an archive and their columns. `docs/archive.md` describes them.
//!
//! A column has the name of the field of the records. All files of a table have all of its columns,
//! so that every reader can use many files as one table. A column without a value costs a few
//! octets in each file.

use std::sync::LazyLock;

use ibnet::record::{counter_lengths, reader::Type};
use rustc_hash::FxHashMap;

/// Version of the schema, in the metadata of each file. Columns can be added without a new version.
pub const VERSION: u32 = 1;

/// Name of the column for everything that has no column.
pub const EXTRA: &str = "extra";

/// A table of the archive. Each table has a separate folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TableName {
    /// One row for each `port` record.
    Ports,
    /// One row for each `sweep` record.
    Sweeps,
    /// One row for each `event` record.
    Events,
    /// One row for each `histogram` record.
    Histograms,
    /// One row for each `start` record.
    Starts,
    /// One row for each record of a type that this version does not have.
    Others,
    /// Computed from `ports`: one row for each change of a device or its link.
    Devices,
    /// Computed from `ports`: one row for each port, sampler and minute.
    PortsMinute,
}

impl TableName {
    /// All tables that contain records.
    pub const ALL: [Self; 6] = [Self::Ports, Self::Sweeps, Self::Events, Self::Histograms, Self::Starts, Self::Others];

    /// All tables that are computed from the table `ports` of the same hour.
    pub const DERIVED: [Self; 2] = [Self::Devices, Self::PortsMinute];

    /// Returns the name of the folder.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Sweeps => "sweeps",
            Self::Events => "events",
            Self::Histograms => "histograms",
            Self::Starts => "starts",
            Self::Others => "others",
            Self::Devices => "devices",
            Self::PortsMinute => "ports_1m",
        }
    }

    /// Returns the table for records of a type.
    pub const fn of(kind: Option<Type>) -> Self {
        match kind {
            Some(Type::Port) => Self::Ports,
            Some(Type::Sweep) => Self::Sweeps,
            Some(Type::Event) => Self::Events,
            Some(Type::Histogram) => Self::Histograms,
            Some(Type::Start) => Self::Starts,
            None => Self::Others,
        }
    }

    /// Returns the type of the records, or `None` if the column `type` has it.
    pub const fn kind(self) -> Option<Type> {
        match self {
            Self::Ports | Self::Devices | Self::PortsMinute => Some(Type::Port),
            Self::Sweeps => Some(Type::Sweep),
            Self::Events => Some(Type::Event),
            Self::Histograms => Some(Type::Histogram),
            Self::Starts => Some(Type::Start),
            Self::Others => None,
        }
    }

    /// Returns the columns.
    pub fn schema(self) -> &'static Schema {
        static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| TableName::every().map(|table| Schema::new(columns(table))).collect());
        &SCHEMAS[self as usize]
    }

    /// Returns whether the rows are sorted by port, sampler and time. Other tables are sorted by time.
    pub const fn is_by_port(self) -> bool {
        matches!(self, Self::Ports | Self::Devices | Self::PortsMinute)
    }

    /// Returns all tables: those with records, and those that are computed from them.
    pub fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::DERIVED)
    }
}

/// Type of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned integer of 8, 16, 32 or 64 bits.
    Unsigned(u8),
    /// Signed integer of 32 or 64 bits.
    Signed(u8),
    /// Number with six decimals, as the records have. Parquet stores it as an integer, which takes
    /// half of the octets of a floating-point number.
    Decimal,
    /// UTF-8 text.
    Text,
    /// List of unsigned integers of 64 bits.
    Integers,
    /// List of texts.
    Texts,
}

/// What a line has if the column has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Empty {
    /// The field is absent.
    Absent,
    /// The field is null.
    Null,
    /// A row always has a value.
    Never,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Name of the field in the records.
    pub name: &'static str,
    /// Type of the values.
    pub kind: Kind,
    /// Meaning of a missing value.
    pub empty: Empty,
}

/// The columns of a table.
#[derive(Debug)]
pub struct Schema {
    /// Columns in the order of the fields of a line. The last one is [`EXTRA`].
    pub columns: Vec<ColumnSpec>,
    by_name: FxHashMap<&'static str, usize>,
}

impl Schema {
    fn new(columns: Vec<ColumnSpec>) -> Self {
        let by_name = columns.iter().enumerate().map(|(index, column)| (column.name, index)).collect();
        Self { columns, by_name }
    }

    /// Returns the number of the column with a name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the number of the column for everything that has no column.
    pub fn extra(&self) -> usize {
        self.columns.len() - 1
    }
}

const U8: Kind = Kind::Unsigned(8);
const U16: Kind = Kind::Unsigned(16);
const U32: Kind = Kind::Unsigned(32);
const U64: Kind = Kind::Unsigned(64);
const I32: Kind = Kind::Signed(32);
const I64: Kind = Kind::Signed(64);

/// A field that every line has. Its value can be null.
const fn always(name: &'static str, kind: Kind) -> ColumnSpec {
    ColumnSpec { name, kind, empty: Empty::Null }
}

/// A field that is absent if it has no value.
const fn optional(name: &'static str, kind: Kind) -> ColumnSpec {
    ColumnSpec { name, kind, empty: Empty::Absent }
}

/// A field that every row has.
const fn required(name: &'static str, kind: Kind) -> ColumnSpec {
    ColumnSpec { name, kind, empty: Empty::Never }
}

fn columns(table: TableName) -> Vec<ColumnSpec> {
    let mut columns = Vec::new();
    if table == TableName::Others {
        columns.push(required("type", Kind::Text));
    }
    columns.extend([required("ts", I64), always("slot", U64), always("sampler", Kind::Text)]);
    let source = [always("ca", Kind::Text), always("ca_port", U8), always("role", Kind::Text)];
    match table {
        TableName::Devices => columns.extend(DEVICE),
        TableName::Ports | TableName::PortsMinute => {
            columns.extend(PORT_HEAD);
            // Several groups can have the same counter.
            for (name, values) in counter_lengths() {
                if columns.iter().all(|column| column.name != name) {
                    columns.push(optional(name, if values == 1 { U64 } else { Kind::Integers }));
                }
            }
            columns.extend(PORT_TAIL);
            if table == TableName::PortsMinute {
                columns.extend(["records", "answered"].map(|name| required(name, U32)));
                columns.extend(
                    MINUTE_RATES.into_iter().flat_map(|[_, most, percentile]| [most, percentile]).map(|name| optional(name, Kind::Decimal)),
                );
                columns.extend(["rtt_ns_max", "rtt_ns_p95"].map(|name| optional(name, U64)));
            }
        }
        TableName::Sweeps => {
            columns.extend(source);
            columns.extend(["duration_ns", "decode_ns"].map(|name| always(name, U64)));
            columns.extend(SWEEP_PORTS.map(|name| always(name, U32)));
            columns.extend(SWEEP_TOTALS.map(|name| always(name, U64)));
        }
        TableName::Events => {
            columns.extend(source);
            columns.extend([always("event", Kind::Text), always("guid", Kind::Text), always("port", U8)]);
            columns.extend([always("lid", U16), always("detail", Kind::Text)]);
        }
        TableName::Histograms => {
            columns.extend(source);
            columns.extend(["kind", "device_kind", "guid"].map(|name| always(name, Kind::Text)));
            columns.extend([always("lid", U16), always("hops", U16)]);
            columns.extend(["clock_ns", "mean_ns", "count"].map(|name| always(name, U64)));
            columns.push(always("v2", Kind::Text));
        }
        TableName::Starts => {
            columns.extend([always("schema", U32), always("version", Kind::Text), always("boot_id", Kind::Text), always("pid", U32)]);
            columns.extend(source);
            columns.extend([always("interval_ns", U64), always("groups", Kind::Texts), always("ports", U64)]);
            columns.extend([always("mads_per_slot", U64), always("assignments_sha256", Kind::Text), always("clock_ns", U64)]);
            columns.push(always("file_seq", U32));
        }
        TableName::Others => {}
    }
    columns.push(optional(EXTRA, Kind::Text));
    columns
}

/// Fields of a device and its link, after the common fields.
const DEVICE: [ColumnSpec; 11] = [
    required("guid", Kind::Text),
    required("port", U8),
    always("lid", U16),
    always("node", Kind::Text),
    always("kind", Kind::Text),
    always("hops", U16),
    always("peer_guid", Kind::Text),
    always("peer_port", U8),
    always("peer", Kind::Text),
    always("link", Kind::Text),
    always("link_source", Kind::Text),
];

/// Columns of `ports_1m` with the mean, the largest value and the 95th percentile of a rate.
pub(crate) const MINUTE_RATES: [[&str; 3]; 5] = [
    ["xmit_gbps", "xmit_gbps_max", "xmit_gbps_p95"],
    ["rcv_gbps", "rcv_gbps_max", "rcv_gbps_p95"],
    ["xmit_utilization", "xmit_utilization_max", "xmit_utilization_p95"],
    ["rcv_utilization", "rcv_utilization_max", "rcv_utilization_p95"],
    ["xmit_blocked", "xmit_blocked_max", "xmit_blocked_p95"],
];

/// Fields of a port before its counters, after the common fields.
const PORT_HEAD: [ColumnSpec; 19] = [
    optional("role", Kind::Text),
    required("guid", Kind::Text),
    required("port", U8),
    always("lid", U16),
    always("node", Kind::Text),
    always("kind", Kind::Text),
    always("hops", U16),
    always("peer_guid", Kind::Text),
    always("peer_port", U8),
    always("peer", Kind::Text),
    always("link", Kind::Text),
    always("link_source", Kind::Text),
    always("status", Kind::Text),
    always("rtt_ns", U64),
    always("rtt_min_ns", U64),
    always("mads", U32),
    optional("mad_status", U16),
    optional("errno", I32),
    always("identity", Kind::Text),
];

/// Fields of a port after its counters.
const PORT_TAIL: [ColumnSpec; 8] = [
    optional("saturated", Kind::Texts),
    always("dt_ns", U64),
    always("xmit_gbps", Kind::Decimal),
    always("rcv_gbps", Kind::Decimal),
    always("xmit_utilization", Kind::Decimal),
    always("rcv_utilization", Kind::Decimal),
    always("xmit_blocked", Kind::Decimal),
    optional("xmit_blocked_dt_ns", U64),
];

const SWEEP_PORTS: [&str; 8] = ["ports", "ok", "late", "timeout", "unreachable", "skipped", "down", "errors"];

const SWEEP_TOTALS: [&str; 16] = [
    "mads_sent",
    "mads_late",
    "mads_rejected",
    "mads_duplicate",
    "mads_foreign",
    "mads_bad_length",
    "mads_bad_class",
    "mads_bad_attribute",
    "mads_bad_port",
    "mads_refused",
    "load_bytes",
    "slots_missed",
    "lines_lost",
    "rtt_p50_ns",
    "rtt_p99_ns",
    "rtt_max_ns",
];
