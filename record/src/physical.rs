//! The records of the physical layer: `phy` (one port), `module` (its module), `planes` (one plane
//! of a port) and `sensors` (one switch).
//!
//! A record has a head, which is the same for all of them, and the values of the
//! [registers](crate::registers) that were read for it. A value has the name of its register field,
//! and is absent if the device does not have the register or did not answer. If several pages of a
//! record have a field of the same name, the first page with an answer gives the value.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::attributes::{Field, Unit};
use crate::registers::Page;
use crate::types::{Guid, Lid, PortNum};
use crate::value::Kind;

words! {
    /// Types of these records.
    pub enum PhysicalKind {
        /// The physical layer of a port.
        Phy = "phy",
        /// The module of a port.
        Module = "module",
        /// The sensors of a switch, and the chip of an HCA.
        Sensors = "sensors",
        /// One plane of a port with several planes (XDR).
        Planes = "planes",
    }
}

impl PhysicalKind {
    /// Returns the pages that are read for a record, the most important first.
    pub const fn pages(self) -> &'static [Page] {
        match self {
            Self::Phy => &[
                Page::Ber,
                Page::Fec,
                Page::Plr,
                Page::FecHistogram,
                Page::LinkDown,
            ],
            Self::Module => &[Page::Module, Page::FecMode, Page::Latency],
            Self::Sensors => &[
                Page::Sensor,
                Page::FanLimits,
                Page::Fans,
                Page::Device,
                Page::System,
                Page::Sensors,
                Page::FanSpeed,
            ],
            // The counters come last: the time of a record is that of its last reply.
            Self::Planes => &[Page::Planes, Page::Operation, Page::PlaneCounters],
        }
    }

    /// Returns whether a record is about a port, and not about a whole device.
    pub const fn is_of_port(self) -> bool {
        !matches!(self, Self::Sensors)
    }
}

/// Max number of pages of a record.
pub const MAX_PAGES: usize = 7;

/// Max number of temperature sensors, and of fans, that are read of a switch.
pub const MAX_ITEMS: usize = 16;

/// Max number of planes that are read of a port. Known devices have four.
pub const MAX_PLANES: u8 = 8;

/// The fields that all records of the physical layer have.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PhysicalHead<Text> {
    /// Type of the record: `phy`, `module`, `sensors` or `planes`.
    #[serde(rename = "type")]
    pub kind: Text,
    /// Time of the last reply.
    pub ts: u64,
    /// Slot in which the last reply arrived.
    #[serde(default)]
    pub slot: u64,
    /// Name of the sampler.
    #[serde(default)]
    pub sampler: Text,
    /// Port GUID of the device, as in `port` records.
    pub guid: Guid,
    /// Port number. Null in `sensors`.
    pub port: Option<PortNum>,
    /// LID to which the queries were sent.
    #[serde(default)]
    pub lid: Lid,
    /// Name of the device.
    #[serde(default)]
    pub node: Text,
    /// Time since the previous record of this type and port, for `planes` of this plane, in
    /// nanoseconds. Null in the first one, and in one that has only the reason why a link went
    /// down.
    pub dt_ns: Option<u64>,
}

/// A record of the physical layer. `Values` are its values by name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(bound(deserialize = "Text: Default + Deserialize<'de>, Values: Deserialize<'de>"))]
pub struct PhysicalRecord<Text, Values> {
    /// The fields that all of these records have.
    #[serde(flatten)]
    pub head: PhysicalHead<Text>,
    /// The values of the registers.
    #[serde(flatten)]
    pub values: Values,
}

/// Values by name, in the order of the line.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Values(pub Vec<(&'static str, Value)>);

/// Values by name, as they are read.
pub type ReadValues = BTreeMap<String, Value>;

/// A value of a register.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A counter, a state or a setting.
    Integer(u64),
    /// A measured value.
    Float(f64),
    /// One value for each lane or bin.
    Integers(Vec<u64>),
    /// One text for each sensor.
    Texts(Vec<String>),
    /// A text.
    Text(String),
}

impl Value {
    /// Returns a counter, a state or a setting.
    pub const fn integer(&self) -> Option<u64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a measured value. In JSON, one without a fraction looks like an integer.
    pub const fn float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// Returns one value for each lane or bin.
    pub fn integers(&self) -> Option<&[u64]> {
        match self {
            Self::Integers(values) => Some(values),
            _ => None,
        }
    }

    /// Returns one text for each sensor.
    pub fn texts(&self) -> Option<&[String]> {
        match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// Returns a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Values {
    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    /// Returns an integer with this name.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.get(name)?.integer()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The names of a cable or a module that identify it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cable {
    /// Name of the vendor.
    pub vendor: Box<str>,
    /// Part number.
    pub part: Box<str>,
    /// Serial number. The same at both ends of most cables.
    pub serial: Box<str>,
}

impl Cable {
    /// Finds the names in a `module` record. Returns `None` if it has no serial number.
    pub fn of(values: &Values) -> Option<Self> {
        let text = |name| values.get(name)?.text().filter(|text| !text.is_empty());
        Some(Self {
            serial: text("vendor_sn")?.into(),
            vendor: text("vendor_name").unwrap_or_default().into(),
            part: text("vendor_pn").unwrap_or_default().into(),
        })
    }
}

impl Display for Cable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            vendor,
            part,
            serial,
        } = self;
        write!(f, "serial number {serial}, part {part} of {vendor}")
    }
}

/// The bias current of the laser, one value for each lane, in microamperes: the register has it
/// without its scaling factor.
pub const TX_BIAS: &str = "tx_bias_ua";

/// Returns the name and the type of a field in the records.
pub fn column(field: &Field) -> (&'static str, Kind) {
    match field.unit {
        Some(Unit::Text) => (field.json, Kind::Text),
        Some(Unit::Measure(.., divisor)) if divisor != 1 && field.len > 1 => {
            (TX_BIAS, Kind::Integers)
        }
        Some(Unit::Celsius(_)) => (field.json, Kind::Float),
        Some(Unit::Measure(.., divisor)) if divisor != 1 => (field.json, Kind::Float),
        _ if field.len > 1 => (field.json, Kind::Integers),
        _ => (field.json, Kind::Unsigned(64)),
    }
}

/// A value that a record can have.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the value.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// The page that has it.
    pub page: Page,
    /// The field of the page.
    pub field: &'static Field,
}

impl Column {
    /// Returns the unit of the value. `None` for a text, a setting or a state.
    pub fn unit(&self) -> Option<String> {
        match (self.name, self.field.unit?) {
            (TX_BIAS, _) => Some("uA".to_owned()),
            (_, Unit::Setting | Unit::Text) => None,
            (_, unit) => Some(unit.to_string()),
        }
    }
}

/// A value of each sensor or fan that a switch lists.
const fn listed(page: Page, kind: Kind, field: &'static Field) -> Column {
    let name = field.json;
    Column {
        name,
        kind,
        page,
        field,
    }
}

/// One value of each temperature sensor or fan that a switch lists, at most [`MAX_ITEMS`]. The
/// arrays of sensors are equally long, and so are those of fans. A temperature is in thousandths of
/// a degree Celsius, because an array has integers only; a sensor below 0 is left out.
pub static LISTED: [Column; 6] = {
    const fn field(json: &'static str, unit: Unit) -> Field {
        Field::new(json, json, 0, 32)
            .array(MAX_ITEMS as u8)
            .counts(unit)
    }
    const MILLICELSIUS: Unit = Unit::Measure("mC", 1, 1);
    const RPM: Unit = Unit::Measure("rpm", 1, 1);
    static SENSORS: Field = field("sensor_numbers", Unit::Setting);
    static NAMES: Field = field("sensor_names", Unit::Text);
    static NOW: Field = field("sensor_temperatures_mc", MILLICELSIUS);
    static MOST: Field = field("sensor_max_temperatures_mc", MILLICELSIUS);
    static FANS: Field = field("fan_numbers", Unit::Setting);
    static SPEEDS: Field = field("fan_rpm", RPM);
    [
        listed(Page::Sensors, Kind::Integers, &SENSORS),
        listed(Page::Sensors, Kind::Texts, &NAMES),
        listed(Page::Sensors, Kind::Integers, &NOW),
        listed(Page::Sensors, Kind::Integers, &MOST),
        listed(Page::FanSpeed, Kind::Integers, &FANS),
        listed(Page::FanSpeed, Kind::Integers, &SPEEDS),
    ]
};

/// Returns the values of a record in the order of the line.
pub fn columns(of: PhysicalKind) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for page in of.pages().iter().copied() {
        for field in page.register().fields {
            // The speed of each fan is in the list.
            if page == Page::FanSpeed {
                continue;
            }
            let (name, kind) = column(field);
            if columns.iter().all(|known| known.name != name) {
                columns.push(Column {
                    name,
                    kind,
                    page,
                    field,
                });
            }
        }
        columns.extend(LISTED.iter().filter(|column| column.page == page));
    }
    columns
}
