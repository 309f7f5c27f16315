//! The facts of a plan, counted once: for the report that people read, and as JSON for programs.
//!
//! `docs/report.md` describes each field; units are in the names. A field that cannot be known is null.

use serde::Serialize;

use crate::partition::{self, Changes, Held, Plan, Reason, Share, Unit};
use crate::topology::{Device, DeviceId, Fabric, NetFile, Place, RemarkKind};
use crate::types::{Guid, Lid, NodeKind, PortNum, misleads};

/// The version of the JSON.
pub const SCHEMA: u32 = 1;

/// All that there is to tell of a plan.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Facts {
    /// What the subnet is called; absent if it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The most ports that a sampler was to get.
    pub cap_ports: u32,
    /// What was read.
    pub read: Read,
    /// What was given to samplers.
    pub assigned: Assigned,
    /// What was given to nobody.
    pub left_out: LeftOut,
    /// How even it came out.
    pub balance: Balance,
    /// Where the plan had to give way.
    pub gave_way: GaveWay,
    /// How the second role came out; null if there is none.
    pub second: Option<Second>,
    /// What was known of service times; null if ports were balanced.
    pub measured: Option<Measured>,
    /// What is no more as in the plan before; null if none was given.
    pub changes: Option<Changes>,
    /// One a sampler, in the order of their names.
    pub samplers: Vec<Sampler>,
}

/// How the second role came out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Second {
    /// The least that a sampler has in it.
    pub least_ports: u32,
    /// The most that a sampler has in it.
    pub greatest_ports: u32,
    /// Ports whose two samplers both hang on some leaf switch, and on another one besides.
    pub sharing_a_leaf_ports: u32,
}

/// What was known of service times.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Measured {
    /// Devices that were measured.
    pub devices: usize,
    /// Lines that are no record and were skipped.
    pub bad_lines: usize,
    /// The most that a sampler has: one MAD to each of its ports, one after another.
    pub greatest_load_ns: u64,
    /// However the switches are divided, some sampler has this at least.
    pub lower_bound_load_ns: u64,
}

/// What was read.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Read {
    /// Lines that told of a port.
    pub port_lines: usize,
    /// Those of them that told of a link.
    pub linked_lines: usize,
    /// What a person should know of single lines.
    pub remarks: Vec<Remark>,
    /// What a person should know beyond single lines.
    pub notes: Vec<String>,
}

/// Something about one line of the net file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Remark {
    /// The file's name.
    pub file: String,
    /// The line's number, from 1.
    pub line: u32,
    /// Both in words, as short as they can be.
    #[serde(skip)]
    pub place: String,
    /// What it is.
    pub kind: RemarkKind,
    /// Whether the line gave no port.
    pub loses_a_port: bool,
    /// What was found, in words; may hold names that strangers wrote.
    pub text: String,
}

/// What was given to samplers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Assigned {
    /// Linked ports.
    pub ports: u32,
    /// Switches.
    pub switches: usize,
    /// Ports of adapters.
    pub adapter_ports: usize,
}

/// What was given to nobody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOut {
    /// Linked ports.
    pub ports: u32,
    /// The devices that have them.
    pub devices: Vec<LeftOutDevice>,
}

/// A device that nobody samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LeftOutDevice {
    /// Why.
    pub reason: Reason,
    /// The name of the file that tells of it.
    pub file: String,
    /// The line of its first linked port.
    pub line: u32,
    /// Both in words, as short as they can be.
    #[serde(skip)]
    pub place: String,
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID; 0 if none was known.
    pub lid: Lid,
    /// What it is.
    pub kind: NodeKind,
    /// Its name; written by strangers.
    pub name: String,
    /// Its linked ports.
    pub ports: u32,
}

/// How even a plan came out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Balance {
    /// The least that a sampler has.
    pub least_ports: u32,
    /// The most that a sampler has.
    pub greatest_ports: u32,
    /// All ports by all samplers.
    pub mean_ports: f64,
    /// No plan with these samplers has a lower greatest load: their mean, rounded up, or what switches come to that stay whole, each with its adapters
    /// where none had to be parted from it.
    pub lower_bound_ports: u32,
    /// How much greater the greatest load is.
    pub above_lower_bound_ports: u32,
    /// Links from a port's sampler to its device, on average over the ports to which a way is known.
    pub mean_hops: Option<f64>,
    /// The greatest of these numbers.
    pub greatest_hops: Option<u16>,
}

/// Where a plan had to give way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GaveWay {
    /// Room was so scarce that switches were placed by size, not by neighbourhood.
    pub packed: bool,
    /// Devices with more ports than the cap; each has a sampler to itself.
    pub oversized: Vec<Oversized>,
    /// Switches next to one sampler only that went to another.
    pub own_switches_elsewhere: usize,
    /// Adapter ports, but for samplers' own, that are with another sampler than their switch.
    pub parted_adapter_ports: usize,
    /// Devices to which no way leads from their sampler.
    pub devices_without_way: usize,
    /// Samplers that got nothing.
    pub idle_samplers: usize,
}

/// A device that is larger than the cap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Oversized {
    /// Its port GUID.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: String,
    /// Its linked ports.
    pub ports: u32,
    /// Its sampler.
    pub host: String,
}

/// What one sampler got.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sampler {
    /// The host.
    pub host: String,
    /// The adapter that sends, if the administrator named it.
    pub ca: Option<String>,
    /// Its port, if the administrator named it.
    pub ca_port: Option<PortNum>,
    /// Linked ports.
    pub ports: u32,
    /// Linked ports in the second role; null if there is none.
    pub second_ports: Option<u32>,
    /// What one MAD to each of its ports takes, one after another; null if ports were balanced.
    pub load_ns: Option<u64>,
    /// The same by the cap: 1 is full.
    pub share_of_cap: f64,
    /// Ports of adapters.
    pub adapter_ports: usize,
    /// As in [`Balance`].
    pub mean_hops: Option<f64>,
    /// As in [`Balance`].
    pub greatest_hops: Option<u16>,
    /// Its switches, by GUID.
    pub switches: Vec<Switch>,
}

/// A switch of a sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Switch {
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID.
    pub lid: Lid,
    /// Its name; written by strangers.
    pub name: String,
    /// Its linked ports.
    pub ports: u32,
    /// Links between the sampler and it.
    pub hops: Option<u16>,
}

/// The whole of a JSON report: where the facts come from, and the facts.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    command: &'a str,
    sources: Vec<Source<'a>>,
    #[serde(flatten)]
    facts: OneOrMore<'a>,
}

/// Of one subnet, or of each.
#[derive(Serialize)]
#[serde(untagged)]
enum OneOrMore<'a> {
    One(&'a Facts),
    More { subnets: Vec<&'a Facts> },
}

#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    sha256: &'a str,
}

/// The report as JSON, of one subnet or of several; `sources` are names and SHA-256 of what was read, `command` is what was typed.
pub fn to_json<'a>(subnets: impl IntoIterator<Item = &'a Facts>, sources: &[(String, String)], command: &str) -> String {
    let sources = sources.iter().map(|(name, sha256)| Source { name, sha256 }).collect();
    let subnets: Vec<_> = subnets.into_iter().collect();
    let facts = if let [only] = subnets[..] { OneOrMore::One(only) } else { OneOrMore::More { subnets } };
    let document = Document { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), command, sources, facts };
    // Numbers, texts and lists only: nothing in it can fail.
    shown(&serde_json::to_string_pretty(&document).unwrap_or_default()) + "\n"
}

/// The name of the file where something stands.
fn name_of(net: &NetFile, place: Place) -> String {
    net.names.get(usize::from(place.file)).cloned().unwrap_or_default()
}

impl Facts {
    /// Counts.
    pub fn of(net: &NetFile, plan: &Plan) -> Self {
        let view = View { fabric: &net.fabric, plan };
        Self {
            subnet: None,
            cap_ports: plan.cap,
            read: Read::of(net),
            assigned: view.assigned(),
            left_out: LeftOut::of(net, plan),
            balance: view.balance(),
            gave_way: view.gave_way(),
            second: view.second(),
            measured: view.measured(),
            changes: plan.changes.clone(),
            samplers: (0..).zip(&plan.shares).map(|(place, share)| view.sampler(place, share)).collect(),
        }
    }
}

/// JSON whose texts no terminal obeys: what does not show is written as `\u` and four digits. Outside of texts only line feeds are such.
fn shown(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !misleads(c) {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

impl Read {
    fn of(net: &NetFile) -> Self {
        let remark = |remark: &crate::topology::Remark| Remark {
            file: name_of(net, remark.place()),
            line: remark.line,
            place: net.place(remark.place()),
            kind: remark.kind,
            loses_a_port: remark.kind.loses_a_port(),
            text: remark.text.clone(),
        };
        let NetFile { port_lines, linked_lines, remarks, notes, .. } = net;
        Self { port_lines: *port_lines, linked_lines: *linked_lines, remarks: remarks.iter().map(remark).collect(), notes: notes.clone() }
    }
}

impl LeftOut {
    fn of(net: &NetFile, plan: &Plan) -> Self {
        let place = |out: &partition::LeftOut| Place { file: out.file, line: out.line };
        let device = |out: &partition::LeftOut| LeftOutDevice {
            reason: out.reason,
            file: name_of(net, place(out)),
            line: out.line,
            place: net.place(place(out)),
            guid: out.guid,
            lid: out.lid,
            kind: out.kind,
            name: out.name.clone(),
            ports: out.ports,
        };
        let devices: Vec<_> = plan.left_out.iter().map(device).collect();
        Self { ports: devices.iter().map(|device| device.ports).sum(), devices }
    }
}

/// A plan and its fabric.
#[derive(Clone, Copy)]
struct View<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
}

impl<'a> View<'a> {
    fn assigned(self) -> Assigned {
        let of_kind = |kind| self.held().filter(|held| self.device(held).kind == kind).count();
        Assigned {
            ports: self.plan.shares.iter().map(|share| share.ports).sum(),
            switches: of_kind(NodeKind::Switch),
            adapter_ports: of_kind(NodeKind::Hca),
        }
    }

    fn balance(self) -> Balance {
        let loads = self.plan.shares.iter().map(|share| share.ports);
        let (all, samplers) = (loads.clone().sum::<u32>(), self.plan.shares.len().max(1) as u32);
        let greatest_ports = loads.clone().max().unwrap_or(0);
        let largest = self.held().map(|held| self.device(held).linked_ports() as u32).max().unwrap_or(0);
        let whole = if self.plan.unit == Unit::Ports { self.plan.lower_bound as u32 } else { 0 };
        let lower_bound_ports = all.div_ceil(samplers).max(largest).max(whole);
        let (mean_hops, greatest_hops) = self.hops(self.held());
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

    fn second(self) -> Option<Second> {
        let ports = self.plan.secondary.iter().map(|share| share.ports);
        let (least_ports, greatest_ports) = (ports.clone().min()?, ports.max()?);
        Some(Second { least_ports, greatest_ports, sharing_a_leaf_ports: self.plan.sharing_a_leaf })
    }

    fn measured(self) -> Option<Measured> {
        let Plan { measured, figures, lower_bound, .. } = self.plan;
        let partition::Measured { devices, bad } = measured.as_ref()?;
        Some(Measured { devices: *devices, bad_lines: bad.len(), greatest_load_ns: figures.greatest, lower_bound_load_ns: *lower_bound })
    }

    fn sampler(self, place: usize, share: &Share) -> Sampler {
        let (mean_hops, greatest_hops) = self.hops(share.devices.iter());
        let (switches, others): (Vec<&Held>, Vec<&Held>) =
            share.devices.iter().partition(|held| self.device(held).kind == NodeKind::Switch);
        let switch = |held: &&Held| {
            let Device { guid, lid, name, .. } = self.device(held);
            Switch { guid: *guid, lid: *lid, name: name.clone(), ports: self.device(held).linked_ports() as u32, hops: held.hops }
        };
        Sampler {
            host: share.host.name.clone(),
            ca: share.host.ca.clone(),
            ca_port: share.host.ca_port,
            ports: share.ports,
            second_ports: self.plan.secondary.get(place).map(|share| share.ports),
            load_ns: (self.plan.unit == Unit::Nanoseconds).then_some(share.load),
            share_of_cap: f64::from(share.ports) / f64::from(self.plan.cap),
            adapter_ports: others.len(),
            mean_hops,
            greatest_hops,
            switches: switches.iter().map(switch).collect(),
        }
    }

    /// Mean and greatest, by port since that is what travels; nothing where no way is known.
    fn hops<'b>(self, held: impl Iterator<Item = &'b Held>) -> (Option<f64>, Option<u16>) {
        let (mut way, mut ports, mut greatest) = (0, 0, None);
        for held in held {
            if let Some(hops) = held.hops {
                let of_device = self.device(held).linked_ports() as u64;
                (way, ports, greatest) = (way + u64::from(hops) * of_device, ports + of_device, greatest.max(Some(hops)));
            }
        }
        ((ports > 0).then(|| way as f64 / ports as f64), greatest)
    }

    fn gave_way(self) -> GaveWay {
        let owners = self.owners();
        let owner = |device: DeviceId| owners[device.0 as usize];
        let elsewhere = self.own_switches().into_iter().filter(|(sampler, switch)| owner(*switch) != Some(*sampler));
        GaveWay {
            packed: self.plan.packed,
            oversized: self.oversized(),
            own_switches_elsewhere: elsewhere.count(),
            parted_adapter_ports: self.followers().filter(|(adapter, switch)| owner(*adapter) != owner(*switch)).count(),
            devices_without_way: self.held().filter(|held| held.hops.is_none()).count(),
            idle_samplers: self.plan.shares.iter().filter(|share| share.ports == 0).count(),
        }
    }

    fn oversized(self) -> Vec<Oversized> {
        let cap = self.plan.cap;
        let of_share = move |share: &'a Share| share.devices.iter().map(move |held| (share, self.device(held)));
        let over = self.plan.shares.iter().flat_map(of_share).filter(|(_, device)| device.linked_ports() as u32 > cap);
        over.map(|(share, device)| Oversized {
            guid: device.guid,
            name: device.name.clone(),
            ports: device.linked_ports() as u32,
            host: share.host.name.clone(),
        })
        .collect()
    }

    fn held(self) -> impl Iterator<Item = &'a Held> {
        self.plan.shares.iter().flat_map(|share| &share.devices)
    }

    fn device(self, held: &Held) -> &'a Device {
        self.fabric.device(held.id)
    }

    /// The sampler of each device, by index.
    fn owners(self) -> Vec<Option<usize>> {
        let mut owners = vec![None; self.fabric.devices().len()];
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            share.devices.iter().for_each(|held| owners[held.id.0 as usize] = Some(sampler));
        }
        owners
    }

    /// Sampled switches on which one sampler hangs and no other, with that sampler.
    fn own_switches(self) -> Vec<(usize, DeviceId)> {
        let mut pairs: Vec<(DeviceId, usize)> = Vec::new();
        for (sampler, share) in self.plan.shares.iter().enumerate() {
            pairs.extend(share.host.at.iter().filter_map(|port| self.switch_of(*port)).map(|switch| (switch, sampler)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() == 1).map(|group| (group[0].1, group[0].0)).collect()
    }

    /// Sampled adapters with their sampled switches, but for the adapters of samplers.
    fn followers(self) -> impl Iterator<Item = (DeviceId, DeviceId)> {
        let mut own: Vec<_> = self.plan.shares.iter().flat_map(|share| &share.host.own).copied().collect();
        own.sort_unstable();
        let adapters =
            self.fabric.iter().filter(move |(_, device)| device.kind == NodeKind::Hca && Reason::of(self.fabric, device).is_none());
        let others = adapters.map(|(id, _)| id).filter(move |id| own.binary_search(id).is_err());
        others.filter_map(move |id| self.switch_of(id).map(|switch| (id, switch)))
    }

    fn switch_of(self, adapter: DeviceId) -> Option<DeviceId> {
        let (_, peer) = self.fabric.device(adapter).linked().next()?;
        let switch = self.fabric.find(peer.guid, peer.port)?;
        let device = self.fabric.device(switch);
        (device.kind == NodeKind::Switch && Reason::of(self.fabric, device).is_none()).then_some(switch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::partition::{Options, Previous, Request, hosts, plan, plan_with};
    use crate::topology::{ports_report, synthetic};

    fn of(text: &str, samplers: &str, cap: u32) -> (Facts, Plan) {
        let net = ports_report::parse(text.as_bytes(), "net.p").unwrap();
        let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], &net.fabric).unwrap();
        let plan = plan(&Request { fabric: &net.fabric, samplers, cap }).unwrap();
        (Facts::of(&net, &plan), plan)
    }

    #[test]
    fn the_sums_of_a_plan_are_those_of_its_samplers() {
        let (facts, plan) = of(&synthetic::stria().ports_report(), "node[00001,00025,00049,00073,00097,00121],admin1,oss1", 150);
        assert_eq!(facts.samplers.iter().map(|sampler| sampler.ports).sum::<u32>(), facts.assigned.ports);
        assert_eq!(facts.samplers.iter().map(|sampler| sampler.switches.len()).sum::<usize>(), facts.assigned.switches);
        assert_eq!(facts.samplers.iter().map(|sampler| sampler.adapter_ports).sum::<usize>(), facts.assigned.adapter_ports);
        let Balance { greatest_ports, lower_bound_ports, above_lower_bound_ports, mean_ports, .. } = facts.balance;
        assert_eq!((lower_bound_ports, mean_ports), (121, 121.0), "968 ports, 8 samplers");
        assert_eq!(greatest_ports, plan.shares.iter().map(|share| share.ports).max().unwrap());
        assert_eq!(above_lower_bound_ports, greatest_ports - 121);
        let weighted: f64 = facts.samplers.iter().map(|sampler| sampler.mean_hops.unwrap() * f64::from(sampler.ports)).sum();
        assert!((weighted / 968.0 - facts.balance.mean_hops.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn the_largest_switch_with_its_adapters_is_a_lower_bound() {
        let (facts, _) = of(&synthetic::stria().ports_report(), "node[00001-00048]", 150);
        assert_eq!(facts.balance.lower_bound_ports, 36 + 24);
    }

    #[test]
    fn json_has_stable_names_and_texts_that_no_terminal_obeys() {
        let nasty = "x\" \u{1b}[2J\u{9b}\u{202e}\u{e0001} <y>";
        let text = synthetic::stria().ports_report().replace("'leaf12'", &format!("'{nasty}'"));
        let (facts, _) = of(&text, "node00001", 968);
        let json = to_json([&facts], &[("net.p".to_owned(), "ab".to_owned())], "ibnet-gen --net net.p");
        assert!(!json.contains(|c| c != '\n' && misleads(c)));
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["samplers"][0]["switches"][11]["name"], nasty, "it reads as it was");
        assert_eq!((&value["schema"], &value["assigned"]["ports"]), (&Value::from(1), &Value::from(968)));
        // Each of these names stands in docs/report.md, and programs rely on it.
        let document = include_str!("../../../docs/report.md");
        let mut names = Vec::new();
        keys(&value, &mut names);
        names.extend(["line", "kind", "loses_a_port", "text", "reason", "guid", "lid", "name", "ports", "host"].map(str::to_owned));
        let unknown: Vec<_> = names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
        assert!(unknown.is_empty(), "docs/report.md does not describe {unknown:?}");
    }

    #[test]
    fn a_second_role_times_and_changes_are_facts_too() {
        let net = ports_report::parse(synthetic::stria().ports_report().as_bytes(), "net.p").unwrap();
        let samplers =
            hosts::locate(&hosts::parse_list("node[00001,00025,00049,00073,00097,00121],admin1,oss1").unwrap(), &[], &net.fabric).unwrap();
        let request = Request { fabric: &net.fabric, samplers, cap: 150 };
        let plan = plan_with(&request, &Options { redundant: true, previous: Some(&Previous::default()), ..Options::default() }).unwrap();
        let facts = Facts::of(&net, &plan);
        assert_eq!(facts.samplers.iter().filter_map(|sampler| sampler.second_ports).sum::<u32>(), 968);
        let second = facts.second.unwrap();
        assert!(second.least_ports <= 121 && (121..=150).contains(&second.greatest_ports));
        let new = facts.changes.unwrap().new_ports;
        assert_eq!(new.iter().map(|device| device.ports.len()).sum::<usize>(), 968, "nothing was there before");
        assert!(facts.measured.is_none() && facts.samplers.iter().all(|sampler| sampler.load_ns.is_none()));
    }

    #[test]
    fn of_several_subnets_each_has_its_facts() {
        let (facts, _) = of(&synthetic::stria().ports_report(), "node00001", 968);
        let rails = ["rail0", "rail1"].map(|name| Facts { subnet: Some(name.to_owned()), ..facts.clone() });
        let value: Value = serde_json::from_str(&to_json(&rails, &[], "")).unwrap();
        assert_eq!((&value["subnets"][1]["subnet"], &value["subnets"][1]["assigned"]["ports"]), (&"rail1".into(), &968.into()));
        assert!(value.get("assigned").is_none() && value["schema"] == 1);
    }

    fn keys(value: &Value, to: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                to.push(name.clone());
                keys(value, to);
            }),
            Value::Array(values) => values.iter().for_each(|value| keys(value, to)),
            _ => {}
        }
    }
}
