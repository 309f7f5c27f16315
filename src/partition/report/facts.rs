//! The facts of a plan, from which the text report and the JSON report are made.
//!
//! `docs/results.md` describes each field. The name of a field contains its unit, and a field is
//! null if its value is unknown.

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use serde::Serialize;

use crate::cost::PlanCost;
use crate::partition::{self, Changes, LoadUnit, Plan, PlannedDevice, Reason, Share};
use crate::topology::{Device, DeviceId, Fabric, LinePosition, NetFile, Remark, RemarkKind};

/// The facts of a plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Facts {
    /// Name of the subnet. Absent if there is only one subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The cap: max number of ports that a sampler may get in one role.
    pub cap_ports: u32,
    /// Lines of the net file.
    pub read: ReadFacts,
    /// Devices that have a sampler.
    pub assigned: AssignedFacts,
    /// Devices without a sampler.
    pub left_out: LeftOutFacts,
    /// Balance of the primary role.
    pub balance: Balance,
    /// Rules that the plan could not follow.
    #[serde(rename = "gave_way")]
    pub compromises: Compromises,
    /// Secondary role. Null without redundancy.
    pub second: Option<SecondFacts>,
    /// Measured service times. Null if the plan balances port counts.
    pub measured: Option<MeasuredFacts>,
    /// Differences to the previous plan. Null without one.
    pub changes: Option<Changes>,
    /// Expected cost of the samplers. Null if it was not computed.
    pub cost: Option<PlanCost>,
    /// Samplers, in the order of their names.
    pub samplers: Vec<SamplerFacts>,
}

/// Balance of the secondary role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SecondFacts {
    /// Min number of ports of a sampler.
    pub least_ports: u32,
    /// Max number of ports of a sampler.
    pub greatest_ports: u32,
    /// Number of ports whose two samplers share a leaf switch. Each of the two is also connected
    /// to another leaf switch.
    pub sharing_a_leaf_ports: u32,
}

/// Measured service times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MeasuredFacts {
    /// Number of measured devices.
    pub devices: usize,
    /// Number of lines that are not records, which were skipped.
    pub bad_lines: usize,
    /// Max load of a sampler: the time of one MAD to each of its ports, one after another.
    pub greatest_load_ns: u64,
    /// Lower bound of the max load for all plans that split no switch.
    pub lower_bound_load_ns: u64,
}

/// Lines of the net file.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReadFacts {
    /// Number of lines that describe a port.
    pub port_lines: usize,
    /// Number of lines that describe a linked port.
    pub linked_lines: usize,
    /// Remarks about single lines.
    pub remarks: Vec<RemarkFacts>,
    /// Remarks about the net files as a whole.
    pub notes: Vec<String>,
}

/// A remark about one line of the net file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RemarkFacts {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// File and line as short text.
    #[serde(skip)]
    pub place: String,
    /// Kind of the remark.
    pub kind: RemarkKind,
    /// Whether the line was skipped, so that its port is missing.
    pub loses_a_port: bool,
    /// Description. It may contain node descriptions, which are untrusted.
    pub text: String,
}

/// Devices that have a sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AssignedFacts {
    /// Number of linked ports.
    pub ports: u32,
    /// Number of switches.
    pub switches: usize,
    /// Number of HCA ports.
    pub adapter_ports: usize,
}

/// Devices without a sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOutFacts {
    /// Number of linked ports.
    pub ports: u32,
    /// The devices of these ports.
    pub devices: Vec<LeftOutDevice>,
}

/// A device without a sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOutDevice {
    /// Reason.
    pub reason: Reason,
    /// Name of the net file.
    pub file: String,
    /// Line of the first linked port.
    pub line: u32,
    /// File and line as short text.
    #[serde(skip)]
    pub place: String,
    /// Port GUID.
    pub guid: Guid,
    /// LID. The value is 0 if the net file had none.
    pub lid: Lid,
    /// Kind of the device.
    pub kind: NodeKind,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Number of linked ports.
    pub ports: u32,
}

/// Balance of the primary role.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Balance {
    /// Min number of ports of a sampler.
    pub least_ports: u32,
    /// Max number of ports of a sampler.
    pub greatest_ports: u32,
    /// Mean number of ports of a sampler.
    pub mean_ports: f64,
    /// Lower bound of the max number of ports. It holds for every plan with these samplers that
    /// splits no switch. If this plan gives every HCA port to the sampler of its switch, the
    /// bound holds only for plans that do the same.
    pub lower_bound_ports: u32,
    /// Difference between the max number of ports and the lower bound.
    pub above_lower_bound_ports: u32,
    /// Mean number of links between a device and its sampler, weighted by ports and without
    /// devices whose path is unknown.
    pub mean_hops: Option<f64>,
    /// Max number of links between a device and its sampler.
    pub greatest_hops: Option<u16>,
}

/// Rules that a plan could not follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Compromises {
    /// Whether switches were placed by size instead of distance, because the cap is tight.
    pub packed: bool,
    /// Devices with more ports than the cap. The sampler of such a device has no other device.
    pub oversized: Vec<Oversized>,
    /// Number of switches that are connected to exactly one sampler host, but have another sampler.
    pub own_switches_elsewhere: usize,
    /// Number of HCA ports whose sampler is not that of their switch. Ports of sampler hosts do
    /// not count.
    pub parted_adapter_ports: usize,
    /// Number of devices without a known path to their sampler.
    pub devices_without_way: usize,
    /// Number of samplers without ports.
    pub idle_samplers: usize,
}

/// A device with more ports than the cap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Oversized {
    /// Port GUID.
    pub guid: Guid,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Number of linked ports.
    pub ports: u32,
    /// Host of its sampler.
    pub host: String,
}

/// Devices of one sampler.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SamplerFacts {
    /// Name of the host.
    pub host: String,
    /// HCA that sends the queries, if the administrator named it.
    pub ca: Option<String>,
    /// Port of the HCA, if the administrator named it.
    pub ca_port: Option<PortNum>,
    /// Number of linked ports.
    pub ports: u32,
    /// Number of linked ports in the secondary role. Null without redundancy.
    pub second_ports: Option<u32>,
    /// Time of one MAD to each of its ports, one after another. Null if the plan balances port
    /// counts.
    pub load_ns: Option<u64>,
    /// Number of linked ports divided by the cap: 1 means that the sampler is full.
    pub share_of_cap: f64,
    /// Number of HCA ports.
    pub adapter_ports: usize,
    /// Mean number of links between a device and the sampler, weighted by ports.
    pub mean_hops: Option<f64>,
    /// Max number of links between a device and the sampler.
    pub greatest_hops: Option<u16>,
    /// Switches of the sampler, by GUID.
    pub switches: Vec<SwitchFacts>,
}

/// A switch of a sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SwitchFacts {
    /// Port GUID.
    pub guid: Guid,
    /// LID.
    pub lid: Lid,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Number of linked ports.
    pub ports: u32,
    /// Number of links between the sampler and the switch. Null if no path is known.
    pub hops: Option<u16>,
}

/// Returns the name of the file of a line.
fn name_of(net: &NetFile, place: LinePosition) -> String {
    net.names
        .get(usize::from(place.file))
        .cloned()
        .unwrap_or_default()
}

impl Facts {
    /// Returns the facts of a plan.
    pub fn of(net: &NetFile, plan: &Plan) -> Self {
        let view = View {
            fabric: &net.fabric,
            plan,
        };
        Self {
            subnet: None,
            cap_ports: plan.cap,
            read: ReadFacts::of(net),
            assigned: view.assigned(),
            left_out: LeftOutFacts::of(net, plan),
            balance: view.balance(),
            compromises: view.compromises(),
            second: view.second(),
            measured: view.measured(),
            changes: plan.changes.clone(),
            cost: None,
            samplers: (0..)
                .zip(&plan.shares)
                .map(|(index, share)| view.sampler(index, share))
                .collect(),
        }
    }
}

impl ReadFacts {
    fn of(net: &NetFile) -> Self {
        let remark = |remark: &Remark| RemarkFacts {
            file: name_of(net, remark.position()),
            line: remark.line,
            place: net.position(remark.position()),
            kind: remark.kind,
            loses_a_port: remark.kind.loses_a_port(),
            text: remark.text.clone(),
        };
        let NetFile {
            port_lines,
            linked_lines,
            remarks,
            notes,
            ..
        } = net;
        Self {
            port_lines: *port_lines,
            linked_lines: *linked_lines,
            remarks: remarks.iter().map(remark).collect(),
            notes: notes.clone(),
        }
    }
}

impl LeftOutFacts {
    fn of(net: &NetFile, plan: &Plan) -> Self {
        let place = |out: &partition::LeftOut| LinePosition {
            file: out.file,
            line: out.line,
        };
        let device = |out: &partition::LeftOut| LeftOutDevice {
            reason: out.reason,
            file: name_of(net, place(out)),
            line: out.line,
            place: net.position(place(out)),
            guid: out.guid,
            lid: out.lid,
            kind: out.kind,
            name: out.name.clone(),
            ports: out.ports,
        };
        let devices: Vec<_> = plan.left_out.iter().map(device).collect();
        Self {
            ports: devices.iter().map(|device| device.ports).sum(),
            devices,
        }
    }
}

/// A plan and its fabric.
#[derive(Clone, Copy)]
struct View<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
}

impl<'a> View<'a> {
    fn assigned(self) -> AssignedFacts {
        let of_kind = |kind| {
            self.planned()
                .filter(|planned| self.device(planned).kind == kind)
                .count()
        };
        AssignedFacts {
            ports: self.plan.shares.iter().map(|share| share.ports).sum(),
            switches: of_kind(NodeKind::Switch),
            adapter_ports: of_kind(NodeKind::Hca),
        }
    }

    fn balance(self) -> Balance {
        let loads = self.plan.shares.iter().map(|share| share.ports);
        let (all, samplers) = (
            loads.clone().sum::<u32>(),
            self.plan.shares.len().max(1) as u32,
        );
        let greatest_ports = loads.clone().max().unwrap_or(0);
        let largest = self
            .planned()
            .map(|planned| self.device(planned).linked_ports() as u32)
            .max()
            .unwrap_or(0);
        let whole = if self.plan.unit == LoadUnit::Ports {
            self.plan.lower_bound as u32
        } else {
            0
        };
        let lower_bound_ports = all.div_ceil(samplers).max(largest).max(whole);
        let (mean_hops, greatest_hops) = self.hops(self.planned());
        Balance {
            least_ports: loads.min().unwrap_or(0),
            greatest_ports,
            mean_ports: f64::from(all) / f64::from(samplers),
            lower_bound_ports,
            above_lower_bound_ports: greatest_ports.saturating_sub(lower_bound_ports),
            mean_hops,
            greatest_hops,
        }
    }

    fn second(self) -> Option<SecondFacts> {
        let ports = self.plan.secondary.iter().map(|share| share.ports);
        let (least_ports, greatest_ports) = (ports.clone().min()?, ports.max()?);
        Some(SecondFacts {
            least_ports,
            greatest_ports,
            sharing_a_leaf_ports: self.plan.sharing_a_leaf,
        })
    }

    fn measured(self) -> Option<MeasuredFacts> {
        let Plan {
            measured,
            figures,
            lower_bound,
            ..
        } = self.plan;
        let partition::Measured { devices, bad } = measured.as_ref()?;
        Some(MeasuredFacts {
            devices: *devices,
            bad_lines: bad.len(),
            greatest_load_ns: figures.greatest,
            lower_bound_load_ns: *lower_bound,
        })
    }

    fn sampler(self, index: usize, share: &Share) -> SamplerFacts {
        let (mean_hops, greatest_hops) = self.hops(share.devices.iter());
        let (switches, others): (Vec<&PlannedDevice>, Vec<&PlannedDevice>) = share
            .devices
            .iter()
            .partition(|planned| self.device(planned).kind == NodeKind::Switch);
        let switch = |planned: &&PlannedDevice| {
            let Device {
                guid, lid, name, ..
            } = self.device(planned);
            SwitchFacts {
                guid: *guid,
                lid: *lid,
                name: name.clone(),
                ports: self.device(planned).linked_ports() as u32,
                hops: planned.hops,
            }
        };
        SamplerFacts {
            host: share.host.name.clone(),
            ca: share.host.ca.clone(),
            ca_port: share.host.ca_port,
            ports: share.ports,
            second_ports: self.plan.secondary.get(index).map(|share| share.ports),
            load_ns: (self.plan.unit == LoadUnit::Nanoseconds).then_some(share.load),
            share_of_cap: f64::from(share.ports) / f64::from(self.plan.cap),
            adapter_ports: others.len(),
            mean_hops,
            greatest_hops,
            switches: switches.iter().map(switch).collect(),
        }
    }

    /// Returns the mean over the ports and the max of the number of hops. Devices without a known
    /// path do not count.
    fn hops<'b>(
        self,
        planned: impl Iterator<Item = &'b PlannedDevice>,
    ) -> (Option<f64>, Option<u16>) {
        let (mut sum, mut ports, mut greatest) = (0, 0, None);
        for planned in planned {
            if let Some(hops) = planned.hops {
                let of_device = self.device(planned).linked_ports() as u64;
                (sum, ports, greatest) = (
                    sum + u64::from(hops) * of_device,
                    ports + of_device,
                    greatest.max(Some(hops)),
                );
            }
        }
        ((ports > 0).then(|| sum as f64 / ports as f64), greatest)
    }

    fn compromises(self) -> Compromises {
        let owners = self.owners();
        let owner = |device: DeviceId| owners[device.0 as usize];
        let elsewhere = self
            .own_switches()
            .into_iter()
            .filter(|(sampler, switch)| owner(*switch) != Some(*sampler));
        Compromises {
            packed: self.plan.packed,
            oversized: self.oversized(),
            own_switches_elsewhere: elsewhere.count(),
            parted_adapter_ports: self
                .followers()
                .filter(|(hca, switch)| owner(*hca) != owner(*switch))
                .count(),
            devices_without_way: self
                .planned()
                .filter(|planned| planned.hops.is_none())
                .count(),
            idle_samplers: self
                .plan
                .shares
                .iter()
                .filter(|share| share.ports == 0)
                .count(),
        }
    }

    fn oversized(self) -> Vec<Oversized> {
        let cap = self.plan.cap;
        let of_share = move |share: &'a Share| {
            share
                .devices
                .iter()
                .map(move |planned| (share, self.device(planned)))
        };
        let over = self
            .plan
            .shares
            .iter()
            .flat_map(of_share)
            .filter(|(_, device)| device.linked_ports() as u32 > cap);
        over.map(|(share, device)| Oversized {
            guid: device.guid,
            name: device.name.clone(),
            ports: device.linked_ports() as u32,
            host: share.host.name.clone(),
        })
        .collect()
    }

    fn planned(self) -> impl Iterator<Item = &'a PlannedDevice> {
        self.plan.shares.iter().flat_map(|share| &share.devices)
    }

    fn device(self, planned: &PlannedDevice) -> &'a Device {
        self.fabric.device(planned.id)
    }

    /// Returns the index of the sampler of each device.
    fn owners(self) -> Vec<Option<usize>> {
        let mut owners = vec![None; self.fabric.devices().len()];
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            share
                .devices
                .iter()
                .for_each(|planned| owners[planned.id.0 as usize] = Some(sampler));
        }
        owners
    }

    /// Returns each sampled switch to which exactly one sampler is connected, with this sampler.
    fn own_switches(self) -> Vec<(usize, DeviceId)> {
        let mut pairs: Vec<(DeviceId, usize)> = Vec::new();
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            pairs.extend(
                share
                    .host
                    .sending
                    .iter()
                    .filter_map(|port| self.switch_of(*port))
                    .map(|switch| (switch, sampler)),
            );
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|group| group.len() == 1)
            .map(|group| (group[0].1, group[0].0))
            .collect()
    }

    /// Returns the pairs of a sampled HCA port and its sampled switch, without the ports of
    /// sampler hosts.
    fn followers(self) -> impl Iterator<Item = (DeviceId, DeviceId)> {
        let mut own: Vec<_> = self
            .plan
            .shares
            .iter()
            .flat_map(|share| &share.host.own)
            .copied()
            .collect();
        own.sort_unstable();
        let hcas = self.fabric.iter().filter(move |(_, device)| {
            device.kind == NodeKind::Hca && Reason::of(self.fabric, device).is_none()
        });
        let others = hcas
            .map(|(id, _)| id)
            .filter(move |id| own.binary_search(id).is_err());
        others.filter_map(move |id| self.switch_of(id).map(|switch| (id, switch)))
    }

    fn switch_of(self, hca: DeviceId) -> Option<DeviceId> {
        let (_, peer) = self.fabric.device(hca).linked().next()?;
        let switch = self.fabric.find(peer.guid, peer.port)?;
        let device = self.fabric.device(switch);
        (device.kind == NodeKind::Switch && Reason::of(self.fabric, device).is_none())
            .then_some(switch)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::partition::{PlanOptions, Previous, Request, hosts, plan, plan_with};
    use crate::topology::{ports_report, synthetic};

    pub(in super::super) fn of(text: &str, samplers: &str, cap: u32) -> (Facts, Plan) {
        let net = ports_report::parse(text.as_bytes(), "net.p").unwrap();
        let samplers =
            hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], &net.fabric).unwrap();
        let plan = plan(&Request {
            fabric: &net.fabric,
            samplers,
            cap,
        })
        .unwrap();
        (Facts::of(&net, &plan), plan)
    }

    #[test]
    fn totals_are_the_sums_of_the_samplers() {
        let (facts, plan) = of(
            &synthetic::stria().ports_report(),
            "node[00001,00025,00049,00073,00097,00121],admin1,oss1",
            150,
        );
        assert_eq!(
            facts
                .samplers
                .iter()
                .map(|sampler| sampler.ports)
                .sum::<u32>(),
            facts.assigned.ports
        );
        assert_eq!(
            facts
                .samplers
                .iter()
                .map(|sampler| sampler.switches.len())
                .sum::<usize>(),
            facts.assigned.switches
        );
        assert_eq!(
            facts
                .samplers
                .iter()
                .map(|sampler| sampler.adapter_ports)
                .sum::<usize>(),
            facts.assigned.adapter_ports
        );
        let Balance {
            greatest_ports,
            lower_bound_ports,
            above_lower_bound_ports,
            mean_ports,
            ..
        } = facts.balance;
        assert_eq!(
            (lower_bound_ports, mean_ports),
            (121, 121.0),
            "968 ports, 8 samplers"
        );
        assert_eq!(
            greatest_ports,
            plan.shares.iter().map(|share| share.ports).max().unwrap()
        );
        assert_eq!(above_lower_bound_ports, greatest_ports - 121);
        let weighted: f64 = facts
            .samplers
            .iter()
            .map(|sampler| sampler.mean_hops.unwrap() * f64::from(sampler.ports))
            .sum();
        assert!((weighted / 968.0 - facts.balance.mean_hops.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn largest_switch_with_its_hca_ports_is_a_lower_bound() {
        let (facts, _) = of(&synthetic::stria().ports_report(), "node[00001-00048]", 150);
        assert_eq!(facts.balance.lower_bound_ports, 36 + 24);
    }

    #[test]
    fn facts_have_the_secondary_role_and_the_changes() {
        let net =
            ports_report::parse(synthetic::stria().ports_report().as_bytes(), "net.p").unwrap();
        let samplers = hosts::locate(
            &hosts::parse_list("node[00001,00025,00049,00073,00097,00121],admin1,oss1").unwrap(),
            &[],
            &net.fabric,
        )
        .unwrap();
        let request = Request {
            fabric: &net.fabric,
            samplers,
            cap: 150,
        };
        let plan = plan_with(
            &request,
            &PlanOptions {
                redundant: true,
                previous: Some(&Previous::default()),
                ..PlanOptions::default()
            },
        )
        .unwrap();
        let facts = Facts::of(&net, &plan);
        assert_eq!(
            facts
                .samplers
                .iter()
                .filter_map(|sampler| sampler.second_ports)
                .sum::<u32>(),
            968
        );
        let second = facts.second.unwrap();
        assert!(second.least_ports <= 121 && (121..=150).contains(&second.greatest_ports));
        let new = facts.changes.unwrap().new_ports;
        assert_eq!(
            new.iter().map(|device| device.ports.len()).sum::<usize>(),
            968,
            "the previous plan was empty"
        );
        assert!(
            facts.measured.is_none()
                && facts
                    .samplers
                    .iter()
                    .all(|sampler| sampler.load_ns.is_none())
        );
    }
}
