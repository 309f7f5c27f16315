//! Types of the planner: the request, the options, and the plan that the planner returns.

use ibnet_record::types::{Guid, Lid, NodeKind};
use serde::Serialize;

use super::changes::{Changes, Previous};
use super::hosts::Host;
use super::weights::{BadLine, Weights};
use crate::topology::{Device, DeviceId, Fabric};

/// The fabric to divide and the samplers that share it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Fabric to sample.
    pub fabric: &'a Fabric,
    /// Samplers, sorted by name, as [`locate`](super::hosts::locate) returns them.
    pub samplers: Vec<Host>,
    /// Largest number of ports of a sampler in one role.
    pub cap: u32,
}

/// Options of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions<'a> {
    /// Whether local search improves the result of the rules.
    pub optimize: bool,
    /// Whether each port gets a second sampler.
    pub redundant: bool,
    /// Measured service times. With them, the plan balances time instead of ports.
    pub weights: Option<&'a Weights>,
    /// Previous plan. With it, as many ports as possible stay with their sampler.
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
    /// Largest number of ports of a sampler in each of its roles.
    pub cap: u32,
    /// Primary role: one share for each sampler, in the order of the request.
    pub shares: Vec<Share>,
    /// Secondary role: one share for each sampler, in the same order. Empty without redundancy.
    pub secondary: Vec<Share>,
    /// Devices that have links but that no sampler queries, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Whether the rules found no plan within the cap. Switches were then placed by size alone.
    pub packed: bool,
    /// Unit of the loads.
    pub unit: LoadUnit,
    /// Number of measured devices, if the plan balances time.
    pub measured: Option<Measured>,
    /// Quality of the primary role.
    pub figures: Figures,
    /// Quality of the result of the rules, if local search was used.
    pub by_rules: Option<Figures>,
    /// Lower bound of the largest load of a sampler. It holds for every plan that splits no switch.
    /// If this plan gives every HCA port to the sampler of its switch, the bound holds only for
    /// plans that do the same.
    pub lower_bound: u64,
    /// Number of ports whose two samplers share a leaf switch. Each of these two samplers is also
    /// connected to another leaf switch.
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

/// Extent of the measured service times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Number of sampled devices with a measured time. For other devices the planner assumes the
    /// median of their kind.
    pub devices: usize,
    /// Number of lines that are not records. They were skipped.
    pub bad: Vec<BadLine>,
}

/// Quality of a plan. Smaller values are better. The largest load is more important than the hops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Figures {
    /// Largest load of a sampler.
    pub greatest: u64,
    /// Sum of the hops between each port and its sampler. A port without a path counts as 65535.
    pub hops: u64,
}

/// The devices of one sampler in one role.
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
    /// Links between the sampler and the device. `None` if the net file has no path.
    pub hops: Option<u16>,
}

/// A device that has links but that no sampler queries.
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

/// Reason why no sampler queries a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The net file has no LID for the device, so no MAD can be addressed to it.
    NoLid,
    /// The device is a router. Its other side belongs to another subnet.
    Router,
    /// The device is the SHARP engine of a switch. The switch port that leads to the engine is
    /// sampled.
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
