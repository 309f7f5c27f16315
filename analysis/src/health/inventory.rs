//! The switches and the modules of a fabric: type, firmware, serial number, temperature.
//!
//! Both ends of a cable report the same serial number. If they do not, the net file or one of the
//! readings is wrong, or the cable is not where the plan expects it; the row then has a remark.

use std::collections::BTreeMap;

use ibnet_record::physical::{ReadValues, Value};
use ibnet_record::registers::pddr::cable_length_m;
use ibnet_record::registers::port::round_trip_ns;
use ibnet_record::types::{Guid, PortNum};
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

/// The last `sensors` record of a switch.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Switch {
    node: Box<str>,
    product: Box<str>,
    part: Box<str>,
    revision: Box<str>,
    serial: Box<str>,
    psid: Box<str>,
    firmware: Option<[u64; 3]>,
    celsius: Option<f64>,
    slow_fans: u64,
}

/// The switches, modules and links of the records.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Where each port is.
    pub places: BTreeMap<PortKey, Place>,
    /// The module of each port.
    pub modules: BTreeMap<PortKey, Module>,
    switches: BTreeMap<Guid, Switch>,
}

/// A switch or a module in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct InventoryRow {
    /// `switch` or `module`.
    pub what: &'static str,
    /// GUID of the device.
    pub guid: Guid,
    /// Port of the module. Null for a switch.
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
    /// PSID of a switch: the configuration that its firmware belongs to.
    pub psid: Option<Box<str>>,
    /// Length of the cable in meters.
    pub length_m: Option<f64>,
    /// Measured latency of the cable in both directions, in nanoseconds.
    pub round_trip_ns: Option<u64>,
    /// Temperature in degrees Celsius.
    pub celsius: Option<f64>,
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

impl Switch {
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
            slow_fans: version("fan_under_limit").unwrap_or(0),
        }
    }
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

    /// Returns one row for each switch and each module.
    pub fn rows(&self) -> Vec<InventoryRow> {
        let mut ends: BTreeMap<&str, Vec<PortKey>> = BTreeMap::new();
        for (key, module) in self
            .modules
            .iter()
            .filter(|(_, module)| module.is_of_cable())
        {
            ends.entry(&module.serial).or_default().push(*key);
        }
        let switches = self
            .switches
            .iter()
            .map(|(guid, switch)| switch_row(*guid, switch));
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
                remark: self.contradiction(*key, module, &ends),
            }
        });
        switches.chain(modules).collect()
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

fn switch_row(guid: Guid, switch: &Switch) -> InventoryRow {
    let slow: Vec<String> = (0..u64::BITS)
        .filter(|fan| switch.slow_fans >> fan & 1 == 1)
        .map(|fan| fan.to_string())
        .collect();
    InventoryRow {
        what: "switch",
        guid,
        port: None,
        node: switch.node.clone(),
        peer: None,
        link: None,
        vendor: switch.product.clone(),
        part: switch.part.clone(),
        revision: switch.revision.clone(),
        serial: switch.serial.clone(),
        firmware: switch
            .firmware
            .map(|[major, minor, sub_minor]| format!("{major}.{minor:04}.{sub_minor:04}")),
        psid: Some(switch.psid.clone()),
        length_m: None,
        round_trip_ns: None,
        celsius: switch.celsius,
        remark: (!slow.is_empty()).then(|| format!("slow fans: {}", slow.join(", "))),
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
        let names = ["node", "peer", "peer_guid", "peer_port", "link"];
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
                    self.switches.insert(record.head.guid, Switch::of(record));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn merge(&mut self, other: Self) {
        self.places.extend(other.places);
        self.modules.extend(other.modules);
        self.switches.extend(other.switches);
    }
}
