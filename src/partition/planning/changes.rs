//! The previous plan, and the differences between two plans.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::cables::{Cables, TopologyChanges};

/// The previous plan: which sampler had which port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Previous {
    /// Ports and their primary samplers.
    pub primary: PreviousPorts,
    /// Ports and their secondary samplers. Empty if the plan had no secondary role.
    pub secondary: PreviousPorts,
    /// Cables of both roles. Empty if they are not known.
    pub cables: Cables,
}

/// Host of the sampler and name of the device, for each port.
pub type PreviousPorts = BTreeMap<(Guid, PortNum), (String, String)>;

/// Differences between the previous plan and the new one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Changes {
    /// Whether more devices moved than the changes of the fabric and the samplers require,
    /// because the kept assignments left too little capacity for the other devices.
    #[serde(rename = "anew")]
    pub moved_more: bool,
    /// Hosts that are samplers only in the new plan.
    pub new_samplers: Vec<String>,
    /// Hosts that were samplers only in the previous plan.
    pub gone_samplers: Vec<String>,
    /// Ports that are only in the new plan, grouped by device.
    pub new_ports: Vec<ChangedPorts>,
    /// Ports that were only in the previous plan, grouped by device.
    pub gone_ports: Vec<ChangedPorts>,
    /// Devices and cables that are in only one of the two plans.
    pub topology: TopologyChanges,
    /// Devices with another primary sampler.
    pub moved: Vec<Moved>,
    /// Devices with another secondary sampler.
    pub moved_secondary: Vec<Moved>,
    /// Number of ports that kept their primary sampler.
    #[serde(rename = "kept_ports")]
    pub kept: u32,
}

/// Some ports of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChangedPorts {
    /// Port GUID of the device.
    pub guid: Guid,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Port numbers.
    pub ports: Vec<PortNum>,
}

/// A device whose sampler differs from that of the previous plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Moved {
    /// Port GUID.
    pub guid: Guid,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Number of ports of the device whose sampler changed.
    pub ports: u32,
    /// Host of the previous sampler.
    pub from: String,
    /// Host of the new sampler.
    pub to: String,
}
