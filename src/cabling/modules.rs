//! Part number, length and serial number of the cables, from `module` records.

use std::collections::BTreeMap;

use ibnet_record::registers::pddr;
use ibnet_record::types::{Guid, PortNum};
use serde::Deserialize;

/// The newest `module` record of each port.
#[derive(Clone, Debug, Default)]
pub struct Modules(BTreeMap<(Guid, PortNum), Module>);

/// The properties of a module that concern its cable. Values that the device did not report are
/// absent.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Module {
    /// Part number of the vendor.
    pub vendor_pn: Option<String>,
    /// Serial number of the vendor. Both ends of a cable have the same one.
    pub vendor_sn: Option<String>,
    /// Length, in the form of [`pddr::cable_length_m`].
    pub cable_length: Option<u64>,
    /// Kind of the module.
    pub cable_identifier: Option<u64>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    guid: Option<Guid>,
    port: Option<u8>,
    #[serde(flatten)]
    module: Module,
}

impl Modules {
    /// Adds the `module` records of JSON lines. Lines of other types and faulty lines are skipped.
    pub fn add(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Line>(line) else {
                continue;
            };
            // A record can have only what was read of the link.
            if let (Some(guid), Some(port), "module") = (line.guid, line.port, &*line.kind)
                && line.module != Module::default()
            {
                self.0.insert((guid, PortNum(port)), line.module);
            }
        }
    }

    /// Returns the number of ports with a record.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the module of a port.
    pub(super) fn get(&self, guid: Guid, port: PortNum) -> Option<&Module> {
        self.0.get(&(guid, port))
    }
}

impl Module {
    /// Returns the length in meters, if it is known.
    pub(super) fn length_m(&self) -> Option<f64> {
        pddr::cable_length_m(self.cable_length?, self.cable_identifier)
    }
}
