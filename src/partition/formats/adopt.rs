//! A plan out of what LDMS samples already: whoever moves over keeps who asks what.
//!
//! Each device stays with the sampler that has most of its ports. What the lid files cannot know or lack is mended, and said: a switch that was split goes
//! whole to one, and devices that are in no file go to their switch's sampler, or to the nearest with room. Where the cap is too low for it nothing is
//! moved behind anyone's back: the error names the cap that it would take.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use miette::Diagnostic;

use crate::partition::proof::{self, Uncovered};
use crate::partition::hosts::{self, Host, HostsError, Wanted};
use super::ldms::LidLine;
use crate::partition::planning::plan_of;
use crate::partition::planning::task::Task;
use crate::partition::{Plan, PlanError, Reason, something_to_sample};
use crate::topology::{DeviceId, Fabric, Graph};
use crate::types::{Guid, NodeKind, PortNum, Printable};

/// A plan, and how it differs from the lid files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adopted {
    /// Who samples what from now on.
    pub plan: Plan,
    /// What had to be mended.
    pub mended: Mended,
}

/// How a plan differs from the lid files that it was made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mended {
    /// Lines of the files.
    pub lines: usize,
    /// Ports that are sampled by the host that had them.
    pub kept: usize,
    /// Ports that another host had too, or alone: of switches that were split.
    pub moved: usize,
    /// Ports that no file had.
    pub added: usize,
    /// Switches that several samplers had.
    pub split: Vec<String>,
    /// Lines whose GUID no device has, and which device has their LID; nothing if none has.
    pub strangers: Vec<String>,
    /// Lines whose device has another LID now.
    pub new_lids: usize,
    /// Ports in the files that have no link now, or that are left out.
    pub dropped: usize,
}

/// Why there is no such plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum AdoptError {
    /// Nothing to sample.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    /// A sampler is not in the fabric.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hosts(#[from] HostsError),
    /// An error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Uncovered(#[from] Uncovered),
    /// Not one line fits the net file.
    #[error("no line of the lid files tells of a device of the net file")]
    #[diagnostic(help("give the net file of the fabric that these lid files were made for"))]
    OtherFabric,
    /// Somebody has more than the cap.
    #[error("`{}` samples {ports} ports in the lid files, more than the cap of {cap}", Printable(host))]
    #[diagnostic(help("keep it so with `--cap {enough}`, or plan anew with `--samplers '{list}'`"))]
    OverCap {
        /// The sampler with most.
        host: String,
        /// Its ports.
        ports: u32,
        /// The cap.
        cap: u32,
        /// A cap that would do.
        enough: u32,
        /// All samplers.
        list: String,
    },
}

/// Makes a plan of lid files.
///
/// # Errors
/// When a sampler is not in the fabric, nothing fits, or the cap is too low.
pub fn adopt(fabric: &Fabric, lines: &[LidLine], guids: &[(String, Guid)], cap: u32) -> Result<Adopted, AdoptError> {
    let left_out = something_to_sample(fabric)?;
    let samplers = hosts::locate(&samplers(lines), guids, fabric)?;
    let graph = Graph::new(fabric);
    let task = Task::new(fabric, &graph, &samplers, cap, None);
    let mut mended = Mended { lines: lines.len(), ..Mended::default() };
    let told = votes(fabric, lines, &samplers, &mut mended);
    if told.is_empty() {
        return Err(AdoptError::OtherFabric);
    }
    let owners = owners(&task, &told, &mut mended);
    let plan = plan_of(&task, &owners, left_out);
    let most = plan.shares.iter().rev().filter(|share| share.devices.len() > 1).max_by_key(|share| share.ports);
    if let Some(share) = most.filter(|share| share.ports > cap) {
        let names: Vec<_> = samplers.iter().map(ToString::to_string).collect();
        let (host, ports, list) = (share.host.name.clone(), share.ports, hosts::fold(&names));
        return Err(AdoptError::OverCap { host, ports, cap, enough: ports, list });
    }
    proof::prove(fabric, cap, plan.given(fabric))?;
    Ok(Adopted { plan, mended })
}

/// The samplers of all lines, each once.
fn samplers(lines: &[LidLine]) -> Vec<Wanted> {
    let mut by_host: BTreeMap<&str, &Wanted> = BTreeMap::new();
    for line in lines {
        by_host.entry(&line.sampler.host).or_insert(&line.sampler);
    }
    by_host.into_values().cloned().collect()
}

/// Ports of each device that is to be sampled, with the samplers that have them.
type Votes = BTreeMap<DeviceId, BTreeMap<PortNum, BTreeSet<usize>>>;

fn votes(fabric: &Fabric, lines: &[LidLine], samplers: &[Host], mended: &mut Mended) -> Votes {
    let by_lid: BTreeMap<_, _> = fabric.iter().map(|(id, device)| (device.lid, id)).collect();
    let mut told = Votes::new();
    for line in lines {
        let Ok(sampler) = samplers.binary_search_by(|host| host.name.cmp(&line.sampler.host)) else { continue };
        let by_guid = line.ports.iter().find_map(|port| fabric.find(line.guid, *port));
        // LDMS asks by LID, and takes any GUID: a node's for a port's, too.
        let found = by_guid.or_else(|| by_lid.get(&line.lid).copied());
        if by_guid.is_none() {
            let place = format!("{}:{}: {}", Printable(&line.name), line.line, line.guid);
            let instead = found.map(|id| format!(", taken for `{}` by its LID {}", Printable(&fabric.device(id).name), line.lid));
            mended.strangers.push(place + &instead.unwrap_or_default());
        } else if found.is_some_and(|id| fabric.device(id).lid != line.lid) {
            mended.new_lids += 1;
        }
        for port in &line.ports {
            let is_sampled = |id: &DeviceId| {
                let device = fabric.device(*id);
                Reason::of(fabric, device).is_none() && device.port(*port).is_some_and(|port| port.peer.is_some())
            };
            match found.filter(is_sampled) {
                Some(id) => drop(told.entry(id).or_default().entry(*port).or_default().insert(sampler)),
                None => mended.dropped += 1,
            }
        }
    }
    told
}

fn owners(task: &Task<'_>, told: &Votes, mended: &mut Mended) -> Vec<Option<usize>> {
    let fabric = task.fabric;
    let mut owners = vec![None; fabric.devices().len()];
    let mut load = vec![0_u32; task.samplers.len()];
    for (id, ports) in told {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        ports.values().flatten().for_each(|sampler| *counts.entry(*sampler).or_default() += 1);
        // Of equals the first.
        let Some((owner, _)) = counts.iter().rev().max_by_key(|(_, count)| **count) else { continue };
        let device = fabric.device(*id);
        owners[id.0 as usize] = Some(*owner);
        load[*owner] += device.linked_ports() as u32;
        let kept = ports.values().filter(|samplers| samplers.len() == 1 && samplers.contains(owner)).count();
        mended.kept += kept;
        mended.moved += ports.len() - kept;
        mended.added += device.linked_ports() - ports.len();
        if counts.len() > 1 && device.kind == NodeKind::Switch {
            mended.split.push(device.name.clone());
        }
    }
    let is_open = |owners: &[Option<usize>], id: DeviceId| {
        let device = fabric.device(id);
        owners[id.0 as usize].is_none() && device.linked_ports() > 0 && Reason::of(fabric, device).is_none()
    };
    let switches = fabric.iter().filter(|(_, device)| device.kind == NodeKind::Switch);
    let others = fabric.iter().filter(|(_, device)| device.kind != NodeKind::Switch);
    // Switches first, so that their adapters can follow.
    for (id, device) in switches.chain(others) {
        if is_open(&owners, id) {
            let ports = device.linked_ports() as u32;
            let with = device.linked().find_map(|(_, peer)| fabric.find(peer.guid, peer.port)).and_then(|peer| owners[peer.0 as usize]);
            let follows = with.filter(|_| device.kind == NodeKind::Hca);
            let key = |sampler: &usize| {
                (load[*sampler] + ports > task.cap, follows != Some(*sampler), task.hops(*sampler, id), load[*sampler], *sampler)
            };
            let nearest = (0..load.len()).min_by_key(key).unwrap_or_default();
            owners[id.0 as usize] = Some(nearest);
            load[nearest] += ports;
            mended.added += device.linked_ports();
        }
    }
    owners
}

impl fmt::Display for Mended {
    /// Lines for a report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 10;
        let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        let Self { lines, kept, moved, added, new_lids, dropped, .. } = self;
        writeln!(f, "\nLDMS      {}: {} as they were", count(*lines, "line", "lines"), count(*kept, "port stays", "ports stay"))?;
        let mut note = |number: usize, text: String| if number > 0 { writeln!(f, "          {text}") } else { Ok(()) };
        note(
            *added,
            format!(
                "{} in no lid file: with their device or switch now, else with the nearest sampler",
                count(*added, "port was", "ports were")
            ),
        )?;
        note(
            *moved,
            format!("{} with several samplers, or with another than the rest of the device", count(*moved, "port was", "ports were")),
        )?;
        note(*new_lids, format!("{} of devices that have another LID now", count(*new_lids, "line tells", "lines tell")))?;
        note(*dropped, format!("{} not sampled: no link now, or left out", count(*dropped, "port of them is", "ports of them are")))?;
        for (heading, items) in [("split between samplers, now with one", &self.split), ("GUID not in the net file", &self.strangers)] {
            if !items.is_empty() {
                writeln!(f, "          {heading}: {}", items.len())?;
                items.iter().take(MOST).try_for_each(|item| writeln!(f, "            {}", Printable(item)))?;
                if items.len() > MOST {
                    writeln!(f, "            and {} more", items.len() - MOST)?;
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
    use crate::partition::{Options, Request, plan_with};
    use crate::topology::{ports_report, synthetic};

    const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "net.p").unwrap().fabric
    }

    fn planned(fabric: &Fabric) -> Plan {
        let samplers = hosts::locate(&hosts::parse_list(EIGHT).unwrap(), &[], fabric).unwrap();
        plan_with(&Request { fabric, samplers, cap: 150 }, &Options { optimize: false, ..Options::default() }).unwrap()
    }

    fn written(fabric: &Fabric, plan: &Plan) -> String {
        plan.shares.iter().map(|share| lid_file(fabric, share)).collect()
    }

    fn adopted(fabric: &Fabric, text: &str, cap: u32) -> Result<Adopted, AdoptError> {
        adopt(fabric, &parse(text, "x", None).unwrap(), &[], cap)
    }

    #[test]
    fn a_plan_that_was_written_as_lid_files_comes_back() {
        let fabric = stria();
        let plan = planned(&fabric);
        let adopted = adopted(&fabric, &written(&fabric, &plan), 150).unwrap();
        assert_eq!(adopted.plan, plan);
        assert_eq!(adopted.mended, Mended { lines: 338, kept: 968, ..Mended::default() });
    }

    #[test]
    fn what_the_lid_files_lack_is_added_and_what_is_split_is_joined() {
        let fabric = stria();
        let plan = planned(&fabric);
        let text = written(&fabric, &plan);
        let leaf = fabric.iter().find(|(_, device)| device.name == "leaf01").unwrap().1;
        let whole = format!("{} {} 36 *\n", leaf.lid, leaf.guid);
        assert!(text.contains(&whole));
        // LDMS's own generator loses links of unknown speed; hands split a switch; a device is gone; a LID moved; a node's GUID stands for a port's.
        let host = fabric.iter().find(|(_, device)| device.name == "node00002 mlx5_0").unwrap().1;
        let gone = fabric.iter().find(|(_, device)| device.name == "node00003 mlx5_0").unwrap().1;
        let line = |device: &crate::topology::Device| format!("{} {} 1 1\n", device.lid, device.guid);
        let half = (1..=20).map(|port| port.to_string()).collect::<Vec<_>>().join(",");
        let text = text
            .replace(&whole, &format!("{} {} 20 {half}\n", leaf.lid, leaf.guid))
            .replace(&line(host), &format!("{} 0x1234 1 1\n", host.lid))
            .replace(&line(gone), "")
            + &format!("4711 {} 3 21,22,23\n48000 0x77 1 1\n", leaf.guid);
        let Adopted { plan: found, mended } = adopted(&fabric, &text, 150).unwrap();
        assert_eq!(found, plan, "the last file's sampler had three ports of a leaf that is another's");
        assert_eq!((mended.kept, mended.moved, mended.added, mended.dropped, mended.new_lids), (968 - 16 - 1, 3, 14, 1, 1));
        assert_eq!(mended.split, ["leaf01"]);
        assert_eq!(mended.strangers.len(), 2);
        assert!(mended.strangers[0].ends_with(&format!("0x0000000000001234, taken for `node00002 mlx5_0` by its LID {}", host.lid)));
        let told = mended.to_string();
        assert!(
            told.contains("14 ports were in no lid file") && told.contains("split between samplers, now with one: 1\n            leaf01"),
            "{told}"
        );
    }

    #[test]
    fn a_cap_that_is_too_low_is_said_with_one_that_would_do() {
        let fabric = stria();
        let text = written(&fabric, &planned(&fabric));
        let error = adopted(&fabric, &text, 100).unwrap_err();
        assert_eq!(error.to_string(), "`admin1` samples 136 ports in the lid files, more than the cap of 100");
        assert_eq!(
            error.help().unwrap().to_string(),
            "keep it so with `--cap 136`, or plan anew with `--samplers 'admin1,node[00001,00025,00049,00073,00097,00121],oss1'`"
        );
        assert!(adopted(&fabric, &text, 136).is_ok());
        let strange = "# ibnet-gen: LID, port GUID, number of ports, ports\n# sampler oss1\n48000 0x77 1 1\n";
        assert!(matches!(adopted(&fabric, strange, 100), Err(AdoptError::OtherFabric)));
    }
}
