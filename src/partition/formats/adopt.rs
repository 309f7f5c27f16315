//! Makes a plan from the *lid files* of LDMS, each of which lists the ports of one LDMS sampler.
//! A site can thus change from LDMS to ibnet and keep its assignments.
//!
//! Each device stays with the sampler that has most of its ports. Two kinds of repairs can be
//! necessary, which are counted and reported: a switch with several samplers gets a single one,
//! and a device that no lid file contains goes to the sampler of its switch or, if that sampler
//! lacks capacity, to the nearest one with enough. If a sampler has more ports than the cap, this
//! module returns an error with the necessary cap.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ibnet_record::types::{Guid, NodeKind, PortNum, Printable};
use miette::Diagnostic;

use super::ldms::LidLine;
use crate::partition::hosts::{self, Host, HostsError, SamplerSpec};
use crate::partition::planning::plan_of;
use crate::partition::planning::proof::{self, ProofError};
use crate::partition::planning::task::Task;
use crate::partition::{Plan, PlanError, Reason, something_to_sample};
use crate::topology::{DeviceId, Fabric, Graph};

/// A plan made from lid files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// The plan.
    pub plan: Plan,
    /// Differences between the plan and the lid files.
    pub repairs: Repairs,
}

/// Differences between a plan and its lid files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repairs {
    /// Number of lines of the lid files.
    pub lines: usize,
    /// Number of ports that stay with their host.
    pub kept: usize,
    /// Number of ports of split devices that the lid files assigned to another host, or to
    /// several hosts.
    pub moved: usize,
    /// Number of ports that are in no lid file.
    pub added: usize,
    /// Names of switches whose ports had several samplers.
    pub split: Vec<String>,
    /// Lines whose GUID is not in the net file, each with the device that has the LID of the
    /// line, if there is one.
    pub unknown: Vec<String>,
    /// Number of lines whose device now has another LID.
    pub new_lids: usize,
    /// Number of ports in the lid files that now have no link, or are left out.
    pub dropped: usize,
}

/// Reason why no plan can be made from the lid files.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum AdoptError {
    /// No plan is possible for the fabric, for example because it has no port to sample.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    /// A sampler is not in the fabric.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hosts(#[from] HostsError),
    /// The proof found an error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Proof(#[from] ProofError),
    /// No line matches the net file.
    #[error("cannot use the lid files: none of their devices is in the net file")]
    #[diagnostic(help("give the net file of the fabric that these lid files were made for"))]
    OtherFabric,
    /// A sampler has more ports than the cap.
    #[error(
        "cannot keep the assignments: `{}` samples {ports} ports in the lid files, more than the cap of {cap}",
        Printable(host)
    )]
    #[diagnostic(help(
        "keep the assignments with `--cap {enough}`, or make a new plan with `--samplers '{list}'`"
    ))]
    OverCap {
        /// Sampler with most ports.
        host: String,
        /// Number of its ports.
        ports: u32,
        /// The cap.
        cap: u32,
        /// Cap that is large enough.
        enough: u32,
        /// All samplers as a host list.
        list: String,
    },
}

/// Makes a plan from lid files.
///
/// # Errors
/// Returns an error if a sampler is not in the fabric, no line matches the fabric, or the cap is
/// too low.
pub fn adopt(
    fabric: &Fabric,
    lines: &[LidLine],
    guids: &[(String, Guid)],
    cap: u32,
) -> Result<Adopted, AdoptError> {
    let left_out = something_to_sample(fabric)?;
    let samplers = hosts::locate(&samplers(lines), guids, fabric)?;
    let graph = Graph::new(fabric);
    let task = Task::new(fabric, &graph, &samplers, cap, None);
    let mut repairs = Repairs {
        lines: lines.len(),
        ..Repairs::default()
    };
    let listed = listed_ports(fabric, lines, &samplers, &mut repairs);
    if listed.is_empty() {
        return Err(AdoptError::OtherFabric);
    }
    let owners = owners(&task, &listed, &mut repairs);
    let plan = plan_of(&task, &owners, left_out);
    let most = plan
        .shares
        .iter()
        .rev()
        .filter(|share| share.devices.len() > 1)
        .max_by_key(|share| share.ports);
    if let Some(share) = most.filter(|share| share.ports > cap) {
        let names: Vec<_> = samplers.iter().map(ToString::to_string).collect();
        let (host, ports, list) = (share.host.name.clone(), share.ports, hosts::fold(&names));
        return Err(AdoptError::OverCap {
            host,
            ports,
            cap,
            enough: ports,
            list,
        });
    }
    proof::prove(fabric, cap, plan.port_assignments(fabric))?;
    Ok(Adopted { plan, repairs })
}

/// Returns the samplers of all lines, each once.
fn samplers(lines: &[LidLine]) -> Vec<SamplerSpec> {
    let mut by_host: BTreeMap<&str, &SamplerSpec> = BTreeMap::new();
    for line in lines {
        by_host.entry(&line.sampler.host).or_insert(&line.sampler);
    }
    by_host.into_values().cloned().collect()
}

/// Lid files by device and port: for each port, the indices of its samplers.
type ListedPorts = BTreeMap<DeviceId, BTreeMap<PortNum, BTreeSet<usize>>>;

fn listed_ports(
    fabric: &Fabric,
    lines: &[LidLine],
    samplers: &[Host],
    repairs: &mut Repairs,
) -> ListedPorts {
    let by_lid: BTreeMap<_, _> = fabric.iter().map(|(id, device)| (device.lid, id)).collect();
    let mut listed = ListedPorts::new();
    for line in lines {
        let Ok(sampler) = samplers.binary_search_by(|host| host.name.cmp(&line.sampler.host))
        else {
            continue;
        };
        let by_guid = line
            .ports
            .iter()
            .find_map(|port| fabric.find(line.guid, *port));
        // LDMS queries devices by LID and ignores the GUID, so a line may have a node GUID
        // instead of a port GUID.
        let found = by_guid.or_else(|| by_lid.get(&line.lid).copied());
        if by_guid.is_none() {
            let place = format!("{}:{}: {}", Printable(&line.name), line.line, line.guid);
            let instead = found.map(|id| {
                format!(
                    ", used as `{}` by its LID {}",
                    Printable(&fabric.device(id).name),
                    line.lid
                )
            });
            repairs.unknown.push(place + &instead.unwrap_or_default());
        } else if found.is_some_and(|id| fabric.device(id).lid != line.lid) {
            repairs.new_lids += 1;
        }
        for port in &line.ports {
            let is_sampled = |id: &DeviceId| {
                let device = fabric.device(*id);
                Reason::of(fabric, device).is_none()
                    && device.port(*port).is_some_and(|port| port.peer.is_some())
            };
            match found.filter(is_sampled) {
                Some(id) => drop(
                    listed
                        .entry(id)
                        .or_default()
                        .entry(*port)
                        .or_default()
                        .insert(sampler),
                ),
                None => repairs.dropped += 1,
            }
        }
    }
    listed
}

fn owners(task: &Task<'_>, listed: &ListedPorts, repairs: &mut Repairs) -> Vec<Option<usize>> {
    let fabric = task.fabric;
    let mut owners = vec![None; fabric.devices().len()];
    let mut load = vec![0_u32; task.samplers.len()];
    for (id, ports) in listed {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        ports
            .values()
            .flatten()
            .for_each(|sampler| *counts.entry(*sampler).or_default() += 1);
        // On a tie, the first sampler keeps the device.
        let Some((owner, _)) = counts.iter().rev().max_by_key(|(_, count)| **count) else {
            continue;
        };
        let device = fabric.device(*id);
        owners[id.0 as usize] = Some(*owner);
        load[*owner] += device.linked_ports() as u32;
        let kept = ports
            .values()
            .filter(|samplers| samplers.len() == 1 && samplers.contains(owner))
            .count();
        repairs.kept += kept;
        repairs.moved += ports.len() - kept;
        repairs.added += device.linked_ports() - ports.len();
        if counts.len() > 1 && device.kind == NodeKind::Switch {
            repairs.split.push(device.name.clone());
        }
    }
    let is_open = |owners: &[Option<usize>], id: DeviceId| {
        let device = fabric.device(id);
        owners[id.0 as usize].is_none()
            && device.linked_ports() > 0
            && Reason::of(fabric, device).is_none()
    };
    let switches = fabric
        .iter()
        .filter(|(_, device)| device.kind == NodeKind::Switch);
    let others = fabric
        .iter()
        .filter(|(_, device)| device.kind != NodeKind::Switch);
    // Switches come first, so that their HCA ports can follow them.
    for (id, device) in switches.chain(others) {
        if is_open(&owners, id) {
            let ports = device.linked_ports() as u32;
            let with = device
                .linked()
                .find_map(|(_, peer)| fabric.find(peer.guid, peer.port))
                .and_then(|peer| owners[peer.0 as usize]);
            let follows = with.filter(|_| device.kind == NodeKind::Hca);
            let key = |sampler: &usize| {
                (
                    load[*sampler] + ports > task.cap,
                    follows != Some(*sampler),
                    task.hops(*sampler, id),
                    load[*sampler],
                    *sampler,
                )
            };
            let nearest = (0..load.len()).min_by_key(key).unwrap_or_default();
            owners[id.0 as usize] = Some(nearest);
            load[nearest] += ports;
            repairs.added += device.linked_ports();
        }
    }
    owners
}

impl fmt::Display for Repairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_ITEMS: usize = 10;
        let count = |number: usize, one: &str, many: &str| {
            format!("{number} {}", if number == 1 { one } else { many })
        };
        let Self {
            lines,
            kept,
            moved,
            added,
            new_lids,
            dropped,
            ..
        } = self;
        writeln!(
            f,
            "\nLDMS      {}: {} kept",
            count(*lines, "line", "lines"),
            count(*kept, "port", "ports")
        )?;
        let mut note = |number: usize, text: String| {
            if number > 0 {
                writeln!(f, "          {text}")
            } else {
                Ok(())
            }
        };
        let in_no_file = count(*added, "port was", "ports were");
        note(
            *added,
            format!(
                "{in_no_file} in no lid file: added to the sampler of the device or switch, else to the nearest one"
            ),
        )?;
        let split = count(*moved, "port", "ports");
        note(
            *moved,
            format!(
                "{split} of split devices moved to the sampler with most ports of their device"
            ),
        )?;
        note(
            *new_lids,
            format!(
                "{} of devices with another LID now",
                count(*new_lids, "line", "lines")
            ),
        )?;
        note(
            *dropped,
            format!(
                "{} dropped: no link now, or left out",
                count(*dropped, "port", "ports")
            ),
        )?;
        for (heading, items) in [
            ("split between samplers, now with one", &self.split),
            ("GUID not in the net file", &self.unknown),
        ] {
            if !items.is_empty() {
                writeln!(f, "          {heading}: {}", items.len())?;
                items
                    .iter()
                    .take(MAX_ITEMS)
                    .try_for_each(|item| writeln!(f, "            {}", Printable(item)))?;
                if items.len() > MAX_ITEMS {
                    writeln!(f, "            and {} more", items.len() - MAX_ITEMS)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::formats::ldms::{lid_file, parse};
    use crate::partition::{PlanOptions, Request, plan_with};
    use crate::topology::{ports_report, synthetic};

    const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "net.p")
            .unwrap()
            .fabric
    }

    fn planned(fabric: &Fabric) -> Plan {
        let samplers = hosts::locate(&hosts::parse_list(EIGHT).unwrap(), &[], fabric).unwrap();
        plan_with(
            &Request {
                fabric,
                samplers,
                cap: 150,
            },
            &PlanOptions {
                optimize: false,
                ..PlanOptions::default()
            },
        )
        .unwrap()
    }

    fn written(fabric: &Fabric, plan: &Plan) -> String {
        plan.shares
            .iter()
            .map(|share| lid_file(fabric, share))
            .collect()
    }

    fn adopted(fabric: &Fabric, text: &str, cap: u32) -> Result<Adopted, AdoptError> {
        adopt(fabric, &parse(text, "x", None).unwrap(), &[], cap)
    }

    #[test]
    fn plan_survives_lid_files() {
        let fabric = stria();
        let plan = planned(&fabric);
        let adopted = adopted(&fabric, &written(&fabric, &plan), 150).unwrap();
        assert_eq!(adopted.plan, plan);
        assert_eq!(
            adopted.repairs,
            Repairs {
                lines: 338,
                kept: 968,
                ..Repairs::default()
            }
        );
    }

    #[test]
    fn missing_devices_are_added_and_split_switches_joined() {
        let fabric = stria();
        let plan = planned(&fabric);
        let text = written(&fabric, &plan);
        let leaf = fabric
            .iter()
            .find(|(_, device)| device.name == "leaf01")
            .unwrap()
            .1;
        let whole = format!("{} {} 36 *\n", leaf.lid, leaf.guid);
        assert!(text.contains(&whole));
        // A split switch, a device in no file, another LID, and a node GUID in place of a port
        // GUID.
        let host = fabric
            .iter()
            .find(|(_, device)| device.name == "node00002 mlx5_0")
            .unwrap()
            .1;
        let gone = fabric
            .iter()
            .find(|(_, device)| device.name == "node00003 mlx5_0")
            .unwrap()
            .1;
        let line =
            |device: &crate::topology::Device| format!("{} {} 1 1\n", device.lid, device.guid);
        let half = (1..=20)
            .map(|port| port.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let text = text
            .replace(&whole, &format!("{} {} 20 {half}\n", leaf.lid, leaf.guid))
            .replace(&line(host), &format!("{} 0x1234 1 1\n", host.lid))
            .replace(&line(gone), "")
            + &format!("4711 {} 3 21,22,23\n48000 0x77 1 1\n", leaf.guid);
        let Adopted {
            plan: found,
            repairs,
        } = adopted(&fabric, &text, 150).unwrap();
        assert_eq!(
            found, plan,
            "the sampler of the last file had three ports of another sampler's leaf"
        );
        assert_eq!(
            (
                repairs.kept,
                repairs.moved,
                repairs.added,
                repairs.dropped,
                repairs.new_lids
            ),
            (968 - 16 - 1, 3, 14, 1, 1)
        );
        assert_eq!(repairs.split, ["leaf01"]);
        assert_eq!(repairs.unknown.len(), 2);
        assert!(repairs.unknown[0].ends_with(&format!(
            "0x0000000000001234, used as `node00002 mlx5_0` by its LID {}",
            host.lid
        )));
        let report = repairs.to_string();
        assert!(
            report.contains("14 ports were in no lid file")
                && report.contains("split between samplers, now with one: 1\n            leaf01"),
            "{report}"
        );
    }

    #[test]
    fn too_low_cap_error_names_a_sufficient_cap() {
        let fabric = stria();
        let text = written(&fabric, &planned(&fabric));
        let error = adopted(&fabric, &text, 100).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot keep the assignments: `admin1` samples 136 ports in the lid files, more than the cap of 100"
        );
        assert_eq!(
            error.help().unwrap().to_string(),
            "keep the assignments with `--cap 136`, or make a new plan with `--samplers 'admin1,node[00001,00025,00049,00073,00097,00121],oss1'`"
        );
        assert!(adopted(&fabric, &text, 136).is_ok());
        let other =
            "# ibnet-gen: LID, port GUID, number of ports, ports\n# sampler oss1\n48000 0x77 1 1\n";
        assert!(matches!(
            adopted(&fabric, other, 100),
            Err(AdoptError::OtherFabric)
        ));
    }
}
