//! The tables of an archive and their columns. `docs/archive.md` describes them for users.
//!
//! A column has the name of its field in the records. All files of a table have all of its columns,
//! so every reader can use many files as one table. A column without any value costs a few bytes in
//! each file.

use std::ops::Range;
use std::sync::LazyLock;

use ibnet_record::reader::Type;
use ibnet_record::schema::{self, Field};
use ibnet_record::{Change, PortField, Presence, dt_slots_fields};
use rustc_hash::FxHashMap;

/// Version of the schema, in the metadata of each file. Columns can be added without a new version.
pub const VERSION: u32 = 1;

/// Name of the column for everything in a line that has no column of its own.
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
    /// One row for each `phy` record.
    Phy,
    /// One row for each `module` record.
    Modules,
    /// One row for each `sensors` record.
    Sensors,
    /// One row for each `planes` record.
    Planes,
    /// One row for each `routes` record.
    Routes,
    /// One row for each record of an unknown type, which a later version may write.
    Others,
    /// Derived from `ports`: one row for each change of a device or its link.
    Devices,
    /// Derived from `ports`: one row for each port, sampler and minute.
    PortsMinute,
}

impl TableName {
    /// All tables with records.
    pub const ALL: [Self; 11] = [
        Self::Ports,
        Self::Sweeps,
        Self::Events,
        Self::Histograms,
        Self::Starts,
        Self::Phy,
        Self::Modules,
        Self::Sensors,
        Self::Planes,
        Self::Routes,
        Self::Others,
    ];

    /// All derived tables, which are computed from the table `ports` of the same hour.
    pub const DERIVED: [Self; 2] = [Self::Devices, Self::PortsMinute];

    /// Returns the name of the folder.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Sweeps => "sweeps",
            Self::Events => "events",
            Self::Histograms => "histograms",
            Self::Starts => "starts",
            Self::Phy => "phy",
            Self::Modules => "modules",
            Self::Sensors => "sensors",
            Self::Planes => "planes",
            Self::Routes => "routes",
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
            Some(Type::Phy) => Self::Phy,
            Some(Type::Module) => Self::Modules,
            Some(Type::Sensors) => Self::Sensors,
            Some(Type::Planes) => Self::Planes,
            Some(Type::Routes) => Self::Routes,
            None => Self::Others,
        }
    }

    /// Returns the type of the records, or `None` if the rows have it in the column `type`.
    pub const fn kind(self) -> Option<Type> {
        match self {
            Self::Ports | Self::Devices | Self::PortsMinute => Some(Type::Port),
            Self::Sweeps => Some(Type::Sweep),
            Self::Events => Some(Type::Event),
            Self::Histograms => Some(Type::Histogram),
            Self::Starts => Some(Type::Start),
            Self::Phy => Some(Type::Phy),
            Self::Modules => Some(Type::Module),
            Self::Sensors => Some(Type::Sensors),
            Self::Planes => Some(Type::Planes),
            Self::Routes => Some(Type::Routes),
            Self::Others => None,
        }
    }

    /// Returns the columns.
    pub fn schema(self) -> &'static Schema {
        static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
            TableName::every()
                .map(|table| Schema::new(columns(table)))
                .collect()
        });
        &SCHEMAS[self as usize]
    }

    /// Returns whether the rows are sorted by port, sampler and time. Other tables are sorted
    /// by time.
    pub const fn is_by_port(self) -> bool {
        matches!(self, Self::Ports | Self::Devices | Self::PortsMinute)
    }

    /// Returns all tables, with records and derived.
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
    /// Number with six decimals, as in the records. Parquet stores it as an integer, which takes
    /// half of the space of a floating-point number.
    Decimal,
    /// UTF-8 text.
    Text,
    /// List of unsigned integers of 64 bits.
    Integers,
    /// List of strings.
    Texts,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSpec {
    /// Name of the field in the records.
    pub name: &'static str,
    /// Type of the values.
    pub kind: Kind,
    /// What a line contains if the column has no value.
    pub presence: Presence,
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
        let by_name = columns
            .iter()
            .enumerate()
            .map(|(index, column)| (column.name, index))
            .collect();
        Self { columns, by_name }
    }

    /// Returns the index of the column with this name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the index of [`EXTRA`].
    pub fn extra(&self) -> usize {
        self.columns.len() - 1
    }
}

/// Indices of the counter columns in `ports` and `ports_1m`.
pub static COUNTERS: LazyLock<Range<usize>> = LazyLock::new(|| {
    let first = PortField::counters as usize;
    // The list of fields counts all of these as one field, and lacks the type.
    first..first + schema::fields(Type::Port).len() - PortField::ALL.len() - dt_slots_fields().len()
});

/// Indices of the columns that count the slots since the last reading of each counter group. They
/// follow [`COUNTERS`].
pub static DT_SLOTS: LazyLock<Range<usize>> =
    LazyLock::new(|| COUNTERS.end..COUNTERS.end + dt_slots_fields().len());

/// Returns the index of a field's column in `ports` and `ports_1m`.
pub fn column_of(field: PortField) -> usize {
    let after_counters = if field > PortField::counters {
        COUNTERS.len() + DT_SLOTS.len() - 1
    } else {
        0
    };
    field as usize + after_counters
}

/// Returns whether the table `devices` has a field of a port record.
fn is_of_device(field: PortField) -> bool {
    match field.change() {
        Change::Link => true,
        Change::Rare => field != PortField::identity,
        Change::Key => field != PortField::role,
        Change::Slot => matches!(field, PortField::ts | PortField::slot),
    }
}

/// Columns of `ports_1m` with the mean, the max and the 95th percentile of a rate.
pub const MINUTE_RATES: [[&str; 3]; 5] = [
    ["xmit_gbps", "xmit_gbps_max", "xmit_gbps_p95"],
    ["rcv_gbps", "rcv_gbps_max", "rcv_gbps_p95"],
    [
        "xmit_utilization",
        "xmit_utilization_max",
        "xmit_utilization_p95",
    ],
    [
        "rcv_utilization",
        "rcv_utilization_max",
        "rcv_utilization_p95",
    ],
    ["xmit_blocked", "xmit_blocked_max", "xmit_blocked_p95"],
];

const fn required(name: &'static str, kind: Kind) -> ColumnSpec {
    ColumnSpec {
        name,
        kind,
        presence: Presence::Required,
    }
}

const fn optional(name: &'static str, kind: Kind) -> ColumnSpec {
    ColumnSpec {
        name,
        kind,
        presence: Presence::Optional,
    }
}

fn columns(table: TableName) -> Vec<ColumnSpec> {
    let mut columns = match table.kind() {
        // All records begin with the same fields.
        None => [
            vec![required("type", Kind::Text)],
            of_records(Type::Port)[..3].to_vec(),
        ]
        .concat(),
        Some(kind) => of_records(kind),
    };
    match table {
        TableName::Devices => {
            columns.retain(|column| PortField::named(column.name).is_some_and(is_of_device));
        }
        TableName::PortsMinute => {
            columns.extend(["records", "answered"].map(|name| required(name, Kind::Unsigned(32))));
            let rates = MINUTE_RATES
                .into_iter()
                .flat_map(|[_, most, percentile]| [most, percentile]);
            columns.extend(rates.map(|name| optional(name, Kind::Decimal)));
            columns.extend(
                ["rtt_ns_max", "rtt_ns_p95"].map(|name| optional(name, Kind::Unsigned(64))),
            );
        }
        _ => {}
    }
    columns.push(optional(EXTRA, Kind::Text));
    columns
}

/// Returns the columns for the fields of a record type. The field `type` is left out, because the
/// table implies it.
fn of_records(of: Type) -> Vec<ColumnSpec> {
    let fields = schema::fields(of)
        .into_iter()
        .filter(|field| field.name != "type");
    fields
        .map(
            |Field {
                 name,
                 kind,
                 presence,
             }| ColumnSpec {
                name,
                kind: kind_of(name, kind),
                presence,
            },
        )
        .collect()
}

/// Returns the type of a column for a field.
fn kind_of(name: &str, kind: schema::Kind) -> Kind {
    match kind {
        // Parquet readers convert signed integers to timestamps.
        _ if name == "ts" => Kind::Signed(64),
        // A port has few MADs in a slot.
        _ if name == "mads" => Kind::Unsigned(32),
        schema::Kind::Unsigned(bits) => Kind::Unsigned(bits),
        schema::Kind::Signed => Kind::Signed(32),
        schema::Kind::Float => Kind::Decimal,
        schema::Kind::Text => Kind::Text,
        schema::Kind::Integers => Kind::Integers,
        schema::Kind::Texts => Kind::Texts,
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::counter_lengths;

    use super::*;

    /// Returns name, type and meaning of a missing value of each column: `!` for a value that is
    /// always there, `?` for an absent field. Counters are left out.
    fn written(table: TableName) -> String {
        let counters: Vec<&str> = counter_lengths()
            .map(|(name, _)| name)
            .chain(dt_slots_fields())
            .collect();
        let column = |column: &ColumnSpec| {
            let kind = match column.kind {
                Kind::Unsigned(bits) => format!("u{bits}"),
                Kind::Signed(bits) => format!("i{bits}"),
                other => format!("{other:?}").to_lowercase(),
            };
            let presence = match column.presence {
                Presence::Required => "!",
                Presence::Optional => "?",
                Presence::Always => "",
            };
            format!("{} {kind}{presence}", column.name)
        };
        let all = table
            .schema()
            .columns
            .iter()
            .filter(|column| !counters.contains(&column.name));
        all.map(column).collect::<Vec<_>>().join(", ")
    }

    const HEAD: &str = "ts i64!, slot u64, sampler text";
    const SOURCE: &str = "ca text, ca_port u8, role text";
    const LINK: &str = "lid u16, node text, kind text, hops u16, peer_guid text, peer_port u8, peer text, link text, link_source text, \
                        mtu u16?, vls u8?";

    /// Files of earlier versions have these columns. The type of a column never changes. Columns of
    /// new fields are not listed here: `packaging/clickhouse/tables.sql` has their types.
    #[test]
    fn columns_have_the_types_of_existing_files() {
        let port = format!(
            "{HEAD}, role text?, guid text!, port u8!, {LINK}, status text, rtt_ns u64, rtt_min_ns u64, mads u32, mad_status u16?, \
             errno i32?, identity text, saturated texts?, clear_lost_bytes u64?, dt_ns u64, xmit_gbps decimal, rcv_gbps decimal, xmit_utilization decimal, \
             rcv_utilization decimal, xmit_blocked decimal, xmit_blocked_dt_ns u64?"
        );
        let rates = [
            "xmit_gbps",
            "rcv_gbps",
            "xmit_utilization",
            "rcv_utilization",
            "xmit_blocked",
        ]
        .map(|name| format!("{name}_max decimal?, {name}_p95 decimal?"))
        .join(", ");
        let sweep = "duration_ns u64, decode_ns u64, ports u32, ok u32, late u32, timeout u32, unreachable u32, skipped u32, down u32, \
                     errors u32, mads_sent u64, mads_late u64, mads_rejected u64, mads_duplicate u64, mads_foreign u64, \
                     mads_bad_length u64, mads_bad_class u64, mads_bad_attribute u64, mads_bad_port u64, mads_refused u64, \
                     load_bytes u64, slots_missed u64, lines_lost u64, rtt_p50_ns u64, rtt_p99_ns u64, rtt_max_ns u64";
        let start = format!(
            "{HEAD}, schema u32, version text, boot_id text, pid u32, {SOURCE}, interval_ns u64, groups texts, clear texts?, ports u64, \
             mads_per_slot u64, assignments_sha256 text, clock_ns u64, file_seq u32"
        );
        let histogram = "kind text, device_kind text, guid text, lid u16, hops u16, system_guid text?, vendor_id u32?, device_id u16?, clock_ns u64, \
                         mean_ns u64, min_ns u64?, count u64, v2 text";
        for (table, expected) in [
            (TableName::Ports, port.clone()),
            (
                TableName::PortsMinute,
                format!(
                    "{port}, records u32!, answered u32!, {rates}, rtt_ns_max u64?, rtt_ns_p95 u64?"
                ),
            ),
            (
                TableName::Devices,
                format!("{HEAD}, guid text!, port u8!, {LINK}"),
            ),
            (TableName::Sweeps, format!("{HEAD}, {SOURCE}, {sweep}")),
            (
                TableName::Events,
                format!("{HEAD}, {SOURCE}, event text, guid text, port u8, lid u16, detail text"),
            ),
            (
                TableName::Histograms,
                format!("{HEAD}, {SOURCE}, {histogram}"),
            ),
            (TableName::Starts, start),
            (TableName::Others, format!("type text!, {HEAD}")),
        ] {
            let written = written(table);
            let columns: Vec<_> = written.split(", ").collect();
            for column in expected.split(", ").chain(["extra text?"]) {
                assert!(
                    columns.contains(&column),
                    "{}: {column} is missing in {written}",
                    table.as_str()
                );
            }
        }
        let ports = &TableName::Ports.schema().columns;
        for (name, values) in counter_lengths() {
            let column = ports.iter().find(|column| column.name == name).unwrap();
            let kind = if values == 1 {
                Kind::Unsigned(64)
            } else {
                Kind::Integers
            };
            assert_eq!(
                (column.kind, column.presence),
                (kind, Presence::Optional),
                "{name}"
            );
        }
        for table in [TableName::Ports, TableName::PortsMinute] {
            for field in PortField::fixed() {
                assert_eq!(
                    table.schema().index(field.name()),
                    Some(column_of(field)),
                    "{}",
                    field.name()
                );
            }
        }
        for name in dt_slots_fields() {
            let column = ports.iter().find(|column| column.name == name).unwrap();
            assert_eq!(
                (column.kind, column.presence),
                (Kind::Unsigned(32), Presence::Optional),
                "{name}"
            );
        }
        let names: Vec<&str> = ports[COUNTERS.clone()]
            .iter()
            .map(|column| column.name)
            .collect();
        assert!(
            counter_lengths().all(|(name, _)| names.contains(&name))
                && names.len() == COUNTERS.len()
        );
    }
}
