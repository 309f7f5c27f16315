//! Types of the planner: the request, the options, and the resulting plan.

use ibnet_record::types::{Guid, Lid, NodeKind};
use serde::Serialize;

use super::changes::{Changes, Previous};
use super::hosts::Host;
use super::weights::{BadLine, Weights};
use crate::topology::{Device, DeviceId, Fabric};

/// A planning request: the fabric, and the samplers among which it is divided.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Fabric to sample.
    pub fabric: &'a Fabric,
    /// Samplers, sorted by name, as [`locate`](super::hosts::locate) returns them.
    pub samplers: Vec<Host>,
    /// The cap: max number of ports of a sampler in one role.
    pub cap: u32,
}

/// Options of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions<'a> {
    /// Whether the local search improves the result of the rules.
    pub optimize: bool,
    /// Whether each port gets a second sampler.
    pub redundant: bool,
    /// Measured service times, which the plan then balances instead of port counts.
    pub weights: Option<&'a Weights>,
    /// Previous plan. As many ports as possible stay with the sampler that they have there.
    pub previous: Option<&'a Previous>,
}

impl Default for PlanOptions<'_> {
    fn default() -> Self {
        Self {
            optimize: true,
            redundant: false,
            weights: None,
            previous: None,
        }
    }
}

/// A plan: the devices of each sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The cap: max number of ports of a sampler in each of its roles.
    pub cap: u32,
    /// Primary role: the share of each sampler, in the order of the request.
    pub shares: Vec<Share>,
    /// Secondary role: the share of each sampler, in the same order. Empty without redundancy.
    pub secondary: Vec<Share>,
    /// Devices that have links but no sampler, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Whether the rules found no plan within the cap, so that switches were placed by size alone.
    pub packed: bool,
    /// Unit of the loads.
    pub unit: LoadUnit,
    /// Number of measured devices, if the plan balances time.
    pub measured: Option<Measured>,
    /// Quality of the primary role.
    pub figures: Figures,
    /// Quality before the local search. `None` if the search was not used.
    pub by_rules: Option<Figures>,
    /// Lower bound of the max load. It holds for every plan that splits no switch. If this plan
    /// gives every HCA port to the sampler of its switch, the bound holds only for plans that do
    /// the same.
    pub lower_bound: u64,
    /// Number of ports whose two samplers share a leaf switch. Each of the two is also connected
    /// to another leaf switch, so no single switch disconnects both.
    pub sharing_a_leaf: u32,
    /// Differences to the previous plan.
    pub changes: Option<Changes>,
}

/// Unit of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadUnit {
    /// Number of ports.
    Ports,
    /// Nanoseconds: the measured time of one MAD to each port, one after another.
    Nanoseconds,
}

/// Number of devices whose service time was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Number of sampled devices with a measured time. The planner assumes the median of their
    /// kind for the others.
    pub devices: usize,
    /// Lines that are not records, which were skipped.
    pub bad: Vec<BadLine>,
}

/// Quality of a plan, where smaller is better. The max load matters more than the hops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Figures {
    /// Max load of a sampler.
    pub greatest: u64,
    /// Sum over all ports of the hops to their sampler. A port without a path counts as 65535.
    pub hops: u64,
}

/// The devices that one sampler has in one role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// Host of the sampler.
    pub host: Host,
    /// Devices in ascending order of GUID and port.
    pub devices: Vec<PlannedDevice>,
    /// Number of linked ports of these devices.
    pub ports: u32,
    /// Load of these devices, in the unit of the plan.
    pub load: u64,
}

/// A device of a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedDevice {
    /// Device of the fabric.
    pub id: DeviceId,
    /// Number of links between the sampler and the device. `None` if the net file has no path.
    pub hops: Option<u16>,
}

/// A device that has links but no sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Port GUID.
    pub guid: Guid,
    /// LID.
    pub lid: Lid,
    /// Kind of the device.
    pub kind: NodeKind,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Number of linked ports.
    pub ports: u32,
    /// Line of the first linked port in the net file.
    pub line: u32,
    /// Index of the net file.
    pub file: u16,
    /// Reason.
    pub reason: Reason,
}

/// Reason why a device has no sampler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The net file has no LID for the device, so no MAD can be addressed to it.
    NoLid,
    /// The device is a router, whose other side belongs to another subnet.
    Router,
    /// The device is the SHARP engine of a switch. The switch port that leads to the engine is
    /// sampled instead.
    AggregationNode,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NoLid, Self::Router, Self::AggregationNode];

    /// Returns the reason why a device is left out, or `None` if it is sampled.
    pub fn of(fabric: &Fabric, device: &Device) -> Option<Self> {
        if device.kind == NodeKind::Router {
            Some(Self::Router)
        } else if fabric.leaves_out_aggregation_node(device) {
            Some(Self::AggregationNode)
        } else if !device.lid.is_unicast() {
            Some(Self::NoLid)
        } else {
            None
        }
    }

    /// Returns the heading of the devices with this reason in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoLid => "no LID, cannot be addressed",
            Self::Router => "router",
            Self::AggregationNode => "aggregation node (SHARP)",
        }
    }
}

/// Returns the devices that have links and are not sampled, in ascending order of GUID and port.
pub fn left_out(fabric: &Fabric) -> Vec<LeftOut> {
    let left_out = |device: &Device| {
        let (first, _) = device.linked().next()?;
        let reason = Reason::of(fabric, device)?;
        let (ports, line, file) = (device.linked_ports() as u32, first.line, first.file);
        Some(LeftOut {
            guid: device.guid,
            lid: device.lid,
            kind: device.kind,
            name: device.name.clone(),
            ports,
            line,
            file,
            reason,
        })
    };
    fabric.devices().iter().filter_map(left_out).collect()
}
