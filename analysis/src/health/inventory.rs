//! The switches, HCAs and modules of a fabric: type, firmware, serial number, temperature.
//!
//! Both ends of a cable report the same serial number. If they do not, the net file or one of the
//! readings is wrong, or the cable is not where the plan expects it; the row then has a remark.

use std::collections::BTreeMap;

use ibnet_record::physical::{ReadValues, Value};
use ibnet_record::registers::pddr::cable_length_m;
use ibnet_record::registers::port::round_trip_ns;
use ibnet_record::types::{Guid, NodeKind, PortNum};
use serde::Serialize;

use crate::input::Fold;
use crate::ports::{PortKey, PortName};
use crate::record::{Physical, Record, Type};
use crate::rows::Row;

/// Where a port is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Node description.
    pub node: Box<str>,
    /// The port at the other end of the link.
    pub peer: Option<PortName>,
    /// Width and speed of the link, such as `4xNDR`.
    pub link: Box<str>,
    /// Kind of the device.
    pub kind: Option<NodeKind>,
}

/// The last `module` record of a port.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// Vendor.
    pub vendor: Box<str>,
    /// Part number.
    pub part: Box<str>,
    /// Revision.
    pub revision: Box<str>,
    /// Serial number.
    pub serial: Box<str>,
    /// Length of the cable in meters.
    pub length_m: Option<f64>,
    /// Temperature in degrees Celsius.
    pub celsius: Option<f64>,
    /// Type of the cable: [`ACTIVE`], [`OPTICAL`], [`PASSIVE`], or another one.
    pub cable_type: Option<u64>,
    /// Version of the firmware of the module.
    pub firmware: Option<u64>,
    /// Number of the active FEC of the link: a bit of `fec_mode_active`.
    pub fec: Option<u32>,
    /// Measured latency of the cable in both directions, in nanoseconds.
    pub round_trip_ns: Option<u64>,
}

/// Type of a cable with electronics in its ends.
pub const ACTIVE: u64 = 1;
/// Type of an optical module, whose fiber can be unplugged.
pub const OPTICAL: u64 = 2;
/// Type of a copper cable without electronics.
pub const PASSIVE: u64 = 3;

/// A temperature sensor of a switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sensor {
    /// Number of the sensor.
    pub sensor: u64,
    /// Name that the switch gives it.
    pub name: Box<str>,
    /// Temperature in degrees Celsius.
    pub celsius: f64,
    /// Highest temperature since the switch was started or the value was cleared.
    pub max_celsius: f64,
}

/// A fan of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fan {
    /// Number of the fan.
    pub fan: u64,
    /// Rotations per minute. Null if the switch did not return it.
    pub rpm: Option<u64>,
    /// Whether it is slower than its limit.
    pub is_slow: bool,
    /// Whether it is faster than its limit.
    pub is_fast: bool,
}

/// The last `sensors` record of a switch or an HCA.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Device {
    node: Box<str>,
    product: Box<str>,
    part: Box<str>,
    revision: Box<str>,
    serial: Box<str>,
    psid: Box<str>,
    firmware: Option<[u64; 3]>,
    celsius: Option<f64>,
    sensors: Vec<Sensor>,
    fans: Vec<Fan>,
}

/// The switches, HCAs, modules and links of the records.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Where each port is.
    pub places: BTreeMap<PortKey, Place>,
    /// The module of each port.
    pub modules: BTreeMap<PortKey, Module>,
    devices: BTreeMap<Guid, Device>,
}

/// A switch, a port of an HCA or a module in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct InventoryRow {
    /// `switch`, `hca` or `module`.
    pub what: &'static str,
    /// GUID of the device.
    pub guid: Guid,
    /// Port of the module or of the HCA. Null for a switch.
    pub port: Option<PortNum>,
    /// Node description of the device.
    pub node: Box<str>,
    /// The port at the other end of the link, if it is known.
    pub peer: Option<PortName>,
    /// Width and speed of the link. Null for a switch.
    pub link: Option<Box<str>>,
    /// Vendor of the module, or product name of the switch.
    pub vendor: Box<str>,
    /// Part number.
    pub part: Box<str>,
    /// Revision.
    pub revision: Box<str>,
    /// Serial number.
    pub serial: Box<str>,
    /// Version of the firmware.
    pub firmware: Option<String>,
    /// PSID of a switch or an HCA: the configuration that its firmware belongs to.
    pub psid: Option<Box<str>>,
    /// Length of the cable in meters.
    pub length_m: Option<f64>,
    /// Measured latency of the cable in both directions, in nanoseconds.
    pub round_trip_ns: Option<u64>,
    /// Temperature in degrees Celsius.
    pub celsius: Option<f64>,
    /// The temperature sensors of a switch, with that of the chip.
    pub sensors: Vec<Sensor>,
    /// The fans of a switch.
    pub fans: Vec<Fan>,
    /// What is wrong, or null.
    pub remark: Option<String>,
}

impl Row for InventoryRow {
    const COLUMNS: &'static [&'static str] = &[
        "what",
        "guid",
        "port",
        "node",
        "peer_guid",
        "peer_port",
        "peer_node",
        "link",
        "vendor",
        "part",
        "revision",
        "serial",
        "firmware",
        "psid",
        "length_m",
        "round_trip_ns",
        "celsius",
        "remark",
    ];
}

impl Module {
    /// Takes the values of a `module` record.
    pub fn of(values: &ReadValues) -> Self {
        Self {
            vendor: text(values, "vendor_name"),
            part: text(values, "vendor_pn"),
            revision: text(values, "vendor_rev"),
            serial: text(values, "vendor_sn"),
            length_m: integer(values, "cable_length")
                .and_then(|length| cable_length_m(length, integer(values, "cable_identifier"))),
            celsius: float(values, "temperature_c"),
            cable_type: integer(values, "cable_type"),
            firmware: integer(values, "fw_version").filter(|version| *version > 0),
            // A link that is down has none.
            fec: integer(values, "fec_mode_active")
                .filter(|active| *active > 0)
                .map(u64::trailing_zeros),
            round_trip_ns: round_trip_ns(|name| integer(values, name)),
        }
    }

    /// Keeps what a record lacks because the device did not answer a page.
    fn keep(&mut self, before: &Self) {
        let (fec, round_trip_ns) = (
            self.fec.or(before.fec),
            self.round_trip_ns.or(before.round_trip_ns),
        );
        if !self.was_read() {
            self.clone_from(before);
        }
        (self.fec, self.round_trip_ns) = (fec, round_trip_ns);
    }

    /// Returns whether the port has a module, and the device returned its page.
    const fn was_read(&self) -> bool {
        self.cable_type.is_some()
    }

    /// Returns whether the module is one end of a cable that cannot be unplugged from it.
    fn is_of_cable(&self) -> bool {
        matches!(self.cable_type, Some(ACTIVE | PASSIVE)) && !self.serial.is_empty()
    }
}

impl Device {
    fn of(record: &Physical<'_>) -> Self {
        let values = &record.values;
        let version = |name| integer(values, name);
        Self {
            node: record.head.node.as_ref().into(),
            product: text(values, "product_name"),
            part: text(values, "part_number"),
            revision: text(values, "revision"),
            serial: text(values, "serial_number"),
            psid: text(values, "psid"),
            firmware: version("extended_major")
                .zip(version("extended_minor"))
                .zip(version("extended_sub_minor"))
                .map(|((major, minor), sub_minor)| [major, minor, sub_minor]),
            celsius: float(values, "temperature_c"),
            sensors: sensors(values),
            fans: fans(values),
        }
    }

    /// Keeps what a record lacks because the device did not answer a page.
    fn keep(&mut self, before: Self) {
        for (text, known) in [
            (&mut self.product, before.product),
            (&mut self.part, before.part),
            (&mut self.revision, before.revision),
            (&mut self.serial, before.serial),
            (&mut self.psid, before.psid),
        ] {
            if text.is_empty() {
                *text = known;
            }
        }
        self.firmware = self.firmware.or(before.firmware);
        self.celsius = self.celsius.or(before.celsius);
        if self.sensors.is_empty() {
            self.sensors = before.sensors;
        }
        if self.fans.is_empty() {
            self.fans = before.fans;
        }
    }
}

fn sensors(values: &ReadValues) -> Vec<Sensor> {
    let names = values.get("sensor_names").and_then(Value::texts);
    let all = numbers(values, "sensor_numbers").zip(names.into_iter().flatten());
    let now = numbers(values, "sensor_temperatures_mc");
    let all = all.zip(now.zip(numbers(values, "sensor_max_temperatures_mc")));
    all.map(|((sensor, name), (now, most))| Sensor {
        sensor,
        name: name.trim().into(),
        celsius: now as f64 / 1000.0,
        max_celsius: most as f64 / 1000.0,
    })
    .collect()
}

/// Returns the fans that have a speed, and those that are outside of their limits.
fn fans(values: &ReadValues) -> Vec<Fan> {
    let speeds: BTreeMap<u64, u64> = numbers(values, "fan_numbers")
        .zip(numbers(values, "fan_rpm"))
        .collect();
    let limits = ["fan_under_limit", "fan_over_limit"].map(|name| integer(values, name));
    let is_in = |set: Option<u64>, fan: u64| set.is_some_and(|set| set >> fan & 1 == 1);
    let all = (0..u64::BITS.into()).map(|fan| Fan {
        fan,
        rpm: speeds.get(&fan).copied(),
        is_slow: is_in(limits[0], fan),
        is_fast: is_in(limits[1], fan),
    });
    all.filter(|fan| fan.rpm.is_some() || fan.is_slow || fan.is_fast)
        .collect()
}

fn numbers(values: &ReadValues, name: &str) -> impl Iterator<Item = u64> {
    let list = values.get(name).and_then(Value::integers);
    list.unwrap_or_default().iter().copied()
}

fn integer(values: &ReadValues, name: &str) -> Option<u64> {
    values.get(name)?.integer()
}

fn float(values: &ReadValues, name: &str) -> Option<f64> {
    values.get(name)?.float()
}

fn text(values: &ReadValues, name: &str) -> Box<str> {
    let text = values.get(name).and_then(Value::text);
    text.unwrap_or_default().trim().into()
}

impl Inventory {
    /// Returns the name of a port.
    pub fn name(&self, key: PortKey) -> PortName {
        let node = self.places.get(&key).map_or("", |place| &*place.node);
        PortName::new(node, key)
    }

    /// Returns the port at the other end of the link.
    pub fn peer(&self, key: PortKey) -> Option<&PortName> {
        self.places.get(&key)?.peer.as_ref()
    }

    /// Returns one row for each switch, each port of an HCA and each module.
    pub fn rows(&self) -> Vec<InventoryRow> {
        let mut ends: BTreeMap<&str, Vec<PortKey>> = BTreeMap::new();
        for (key, module) in self
            .modules
            .iter()
            .filter(|(_, module)| module.is_of_cable())
        {
            ends.entry(&module.serial).or_default().push(*key);
        }
        let (switches, hcas): (Vec<_>, Vec<_>) = self
            .devices
            .iter()
            .map(|(guid, device)| device_row(self.hca_port(*guid), *guid, device))
            .partition(|row| row.what != HCA);
        let devices = switches.into_iter().chain(hcas);
        let modules = self.modules.iter().filter(|(_, module)| module.was_read());
        let modules = modules.map(|(key, module)| {
            let name = self.name(*key);
            InventoryRow {
                what: "module",
                guid: name.guid,
                port: Some(name.port),
                node: name.node,
                peer: self.peer(*key).cloned(),
                link: self.places.get(key).map(|place| place.link.clone()),
                vendor: module.vendor.clone(),
                part: module.part.clone(),
                revision: module.revision.clone(),
                serial: module.serial.clone(),
                firmware: module.firmware.map(|version| version.to_string()),
                psid: None,
                length_m: module.length_m,
                round_trip_ns: module.round_trip_ns,
                celsius: module.celsius,
                sensors: Vec::new(),
                fans: Vec::new(),
                remark: self.contradiction(*key, module, &ends),
            }
        });
        devices.chain(modules).collect()
    }

    /// Returns the port of an HCA: each port has a GUID of its own. A device without `port` records
    /// is taken for a switch.
    fn hca_port(&self, guid: Guid) -> Option<PortNum> {
        let ports = (guid, PortNum(0))..=(guid, PortNum(u8::MAX));
        let mut known = self.places.range(ports);
        let ((_, port), _) = known.find(|(_, place)| place.kind == Some(NodeKind::Hca))?;
        Some(*port)
    }

    /// Describes how the serial numbers of a cable contradict the peers of the records.
    fn contradiction(
        &self,
        key: PortKey,
        module: &Module,
        ends: &BTreeMap<&str, Vec<PortKey>>,
    ) -> Option<String> {
        let peer = self.peer(key)?;
        let other = self.modules.get(&(peer.guid, peer.port))?;
        if !module.is_of_cable() || !other.is_of_cable() || module.serial == other.serial {
            return None;
        }
        let found = ends.get(&*module.serial)?.iter().find(|end| **end != key);
        let place = match found {
            Some(end) => format!("; its other end is at {}", self.name(*end)),
            None => String::new(),
        };
        Some(format!(
            "the peer has the serial number {}{place}",
            other.serial
        ))
    }
}

const HCA: &str = "hca";

fn device_row(port: Option<PortNum>, guid: Guid, switch: &Device) -> InventoryRow {
    let fans = |name: &str, is_of: fn(&Fan) -> bool| {
        let fans = switch.fans.iter().filter(|fan| is_of(fan));
        let fans: Vec<String> = fans.map(|fan| fan.fan.to_string()).collect();
        (!fans.is_empty()).then(|| format!("{name} fans: {}", fans.join(", ")))
    };
    let remarks = [
        fans("slow", |fan| fan.is_slow),
        fans("fast", |fan| fan.is_fast),
    ];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    InventoryRow {
        what: if port.is_some() { HCA } else { "switch" },
        guid,
        port,
        node: switch.node.clone(),
        peer: None,
        link: None,
        vendor: switch.product.clone(),
        part: switch.part.clone(),
        revision: switch.revision.clone(),
        serial: switch.serial.clone(),
        firmware: switch
            .firmware
            .map(|[major, minor, sub_minor]| format!("{major}.{minor}.{sub_minor:04}")),
        psid: Some(switch.psid.clone()),
        length_m: None,
        round_trip_ns: None,
        celsius: switch.celsius,
        sensors: switch.sensors.clone(),
        fans: switch.fans.clone(),
        remark: (!remarks.is_empty()).then(|| remarks.join("; ")),
    }
}

impl Fold for Inventory {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Module | Type::Sensors)
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn fields(&self) -> Option<Vec<String>> {
        let names = ["node", "kind", "peer", "peer_guid", "peer_port", "link"];
        Some(names.map(str::to_owned).to_vec())
    }

    fn takes_minutes(&self, _: u64) -> bool {
        true
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => {
                let place = self.places.entry((port.guid, port.port)).or_default();
                if *place.node != *port.node {
                    place.node = port.node.as_ref().into();
                }
                place.kind = port.kind;
                let link = port.link.to_string();
                if *place.link != *link {
                    place.link = link.into();
                }
                if let Some(peer) = port.peer_guid.zip(port.peer_port) {
                    let name = port.peer.as_deref().unwrap_or_default();
                    if place.peer.as_ref().is_none_or(|known| {
                        (known.guid, known.port) != peer || *known.node != *name
                    }) {
                        place.peer = Some(PortName::new(name, peer));
                    }
                }
            }
            Record::Physical(record) => match (record.kind(), record.head.port) {
                (Type::Module, Some(port)) => {
                    let key = (record.head.guid, port);
                    let mut module = Module::of(&record.values);
                    if let Some(before) = self.modules.get(&key) {
                        module.keep(before);
                    }
                    self.modules.insert(key, module);
                }
                (Type::Sensors, _) => {
                    let known = self.devices.entry(record.head.guid).or_default();
                    let before = std::mem::replace(known, Device::of(record));
                    known.keep(before);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn merge(&mut self, other: Self) {
        self.places.extend(other.places);
        self.modules.extend(other.modules);
        self.devices.extend(other.devices);
    }
}
