//! A picture of a plan: the switches, coloured by who samples them, in rows by tier.
//!
//! Adapters are folded into their switch as counts, and parallel cables into one line, so that a hundred switches can still be read.
//! [`drawing`](crate::drawing) finds the places; [`svg`] draws them; [`dot`] writes the same as a graph for Graphviz. Where a fabric has no tiers (a torus,
//! a mesh) the rows are steps from a switch at its rim.
//!
//! Names are written by strangers: they are shown through [`Printable`](crate::types::Printable) and escaped for the format in question.

use std::collections::BTreeMap;

use crate::partition::Plan;
use crate::topology::{DeviceId, Fabric, Graph};
use crate::types::{Guid, NodeKind};

pub mod dot;
mod layout;
pub mod svg;

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// The names of the net files.
    pub source: String,
    /// The most ports of a sampler.
    pub cap: u32,
    /// In the order of the plan.
    pub samplers: Vec<Sampler>,
    /// In the order of their GUIDs.
    pub switches: Vec<Switch>,
    /// By the places of both ends in [`Picture::switches`], the first lower than the second.
    pub links: BTreeMap<(usize, usize), usize>,
    /// Ports of adapters that are sampled.
    pub adapter_ports: usize,
}

/// A sampler in the legend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sampler {
    /// The host.
    pub host: String,
    /// Its ports.
    pub ports: u32,
}

/// A switch with its adapters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Its port GUID.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: String,
    /// As [`Graph::tiers`] tells it: 1 for a leaf, 0 where no leaf can be reached.
    pub tier: u16,
    /// Its linked ports.
    pub ports: usize,
    /// Who samples it; nobody if it is left out.
    pub sampler: Option<usize>,
    /// Ports of adapters on it, by who samples them.
    pub adapters: BTreeMap<Option<usize>, usize>,
    /// Samplers that hang on it, ascending.
    pub seats: Vec<usize>,
}

impl Picture {
    /// The picture of a plan; `source` names the net files.
    pub fn of(fabric: &Fabric, plan: &Plan, source: &str) -> Self {
        let graph = Graph::new(fabric);
        let tiers = graph.tiers(fabric);
        let mut owners = vec![None; fabric.devices().len()];
        for (sampler, share) in plan.shares.iter().enumerate() {
            share.devices.iter().for_each(|held| owners[held.id.0 as usize] = Some(sampler));
        }
        let linked = |id: &DeviceId| fabric.device(*id).linked_ports() > 0;
        let is_switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let ids: Vec<_> = fabric.iter().map(|(id, _)| id).filter(is_switch).filter(linked).collect();
        let place = |id: DeviceId| ids.binary_search(&id).ok();

        let mut switches: Vec<_> = ids.iter().map(|id| Switch::of(fabric, *id, tiers[id.0 as usize], owners[id.0 as usize])).collect();
        for (id, device) in fabric.iter().filter(|(_, device)| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device)) {
            if let Some(switch) = graph.neighbours(id).iter().find_map(|switch| place(*switch)) {
                *switches[switch].adapters.entry(owners[id.0 as usize]).or_default() += device.linked_ports();
            }
        }
        for (sampler, share) in plan.shares.iter().enumerate() {
            let mut on: Vec<_> = share.host.at.iter().flat_map(|port| graph.neighbours(*port)).filter_map(|id| place(*id)).collect();
            on.sort_unstable();
            on.dedup();
            on.into_iter().for_each(|switch| switches[switch].seats.push(sampler));
        }
        let adapter = |id: DeviceId| fabric.device(id).kind == NodeKind::Hca;
        Self {
            source: source.to_owned(),
            cap: plan.cap,
            samplers: plan.shares.iter().map(|share| Sampler { host: share.host.to_string(), ports: share.ports }).collect(),
            switches,
            links: links(fabric, &ids),
            adapter_ports: plan.shares.iter().flat_map(|share| &share.devices).filter(|held| adapter(held.id)).count(),
        }
    }

    /// A sentence on what is seen.
    fn summary(&self) -> String {
        let ports: u32 = self.samplers.iter().map(|sampler| sampler.ports).sum();
        format!(
            "{}: {} of {} and {} on {}, at most {} each",
            self.source,
            count(ports as usize, "port", "ports"),
            count(self.switches.iter().filter(|switch| switch.sampler.is_some()).count(), "switch", "switches"),
            count(self.adapter_ports, "adapter port", "adapter ports"),
            count(self.samplers.len(), "sampler", "samplers"),
            self.cap
        )
    }

    /// All that is known of a switch, line by line.
    fn told(&self, switch: &Switch) -> String {
        let host = |sampler: Option<usize>| sampler.map_or_else(|| "nobody".to_owned(), |sampler| self.sampler_name(sampler));
        let mut lines = vec![format!("{} {}", switch.name, switch.guid)];
        lines.push(format!("{}, sampled by {}", count(switch.ports, "port", "ports"), host(switch.sampler)));
        let adapters = |ports| count(ports, "adapter port", "adapter ports");
        lines.extend(switch.adapters.iter().map(|(sampler, ports)| format!("{}, sampled by {}", adapters(*ports), host(*sampler))));
        let seats: Vec<_> = switch.seats.iter().map(|sampler| self.sampler_name(*sampler)).collect();
        if !seats.is_empty() {
            lines.push(format!("samplers on it: {}", seats.join(", ")));
        }
        lines.join("\n")
    }

    /// A sampler by its number, from 1, and its host.
    fn sampler_name(&self, sampler: usize) -> String {
        format!("{} {}", sampler + 1, self.samplers[sampler].host)
    }
}

impl Switch {
    fn of(fabric: &Fabric, id: DeviceId, tier: u16, sampler: Option<usize>) -> Self {
        let device = fabric.device(id);
        let (adapters, seats) = (BTreeMap::new(), Vec::new());
        Self { guid: device.guid, name: device.name.clone(), tier, ports: device.linked_ports(), sampler, adapters, seats }
    }

    /// Ports of adapters on it.
    pub fn adapter_ports(&self) -> usize {
        self.adapters.values().sum()
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Cables between switches. Each is told of by both ends, or by one where the file is cut.
fn links(fabric: &Fabric, ids: &[DeviceId]) -> BTreeMap<(usize, usize), usize> {
    let mut told: BTreeMap<(usize, usize), [usize; 2]> = BTreeMap::new();
    for (from, id) in ids.iter().enumerate() {
        for (_, peer) in fabric.device(*id).linked() {
            let to = fabric.find(peer.guid, peer.port).and_then(|id| ids.binary_search(&id).ok());
            if let Some(to) = to.filter(|to| *to != from) {
                told.entry((from.min(to), from.max(to))).or_default()[usize::from(to < from)] += 1;
            }
        }
    }
    told.into_iter().map(|(ends, [one, other])| (ends, one.max(other))).collect()
}

/// With more lines than these the number of cables does not stand beside each.
const MOST_COUNTS: usize = 60;

/// Fills that people with any kind of colour vision tell apart and on which black can be read: the "light" scheme of P. Tol, *Colour Schemes*
/// (SRON/EPS/TN/09-002), without its grey.
const FILLS: [[u8; 3]; 8] = [
    [0x77, 0xaa, 0xdd],
    [0xee, 0x88, 0x66],
    [0xee, 0xdd, 0x88],
    [0x44, 0xbb, 0x99],
    [0xff, 0xaa, 0xbb],
    [0x99, 0xdd, 0xff],
    [0xbb, 0xcc, 0x33],
    [0xaa, 0xaa, 0x00],
];

/// The fill of a sampler's switches; white where nobody samples. Numbers tell samplers of the same colour apart.
fn fill(sampler: Option<usize>) -> String {
    let [r, g, b] = sampler.map_or([0xff; 3], |sampler| FILLS[sampler % FILLS.len()]);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The same, dark enough for a line.
fn stroke(sampler: usize) -> String {
    let [r, g, b] = FILLS[sampler % FILLS.len()].map(|part| u32::from(part) * 7 / 10);
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::{Request, hosts, plan};
    use crate::topology::ports_report;
    use crate::topology::synthetic::{self, Blueprint};

    pub(super) fn picture(net: &Blueprint, samplers: &str, cap: u32) -> Picture {
        picture_of(&net.ports_report(), samplers, cap)
    }

    pub(super) fn picture_of(text: &str, samplers: &str, cap: u32) -> Picture {
        let fabric = ports_report::parse(text.as_bytes(), "net.p").unwrap().fabric;
        let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], &fabric).unwrap();
        let plan = plan(&Request { fabric: &fabric, samplers, cap }).unwrap();
        Picture::of(&fabric, &plan, "net.p")
    }

    #[test]
    fn every_port_of_the_plan_is_in_the_picture() {
        let picture = picture(&synthetic::stria(), "node[00001,00025,00049,00073,00097,00121],admin1,oss1", 150);
        assert_eq!(picture.switches.len(), 22);
        for (number, sampler) in picture.samplers.iter().enumerate() {
            let own = picture.switches.iter().filter(|switch| switch.sampler == Some(number)).map(|switch| switch.ports).sum::<usize>();
            let adapters = picture.switches.iter().filter_map(|switch| switch.adapters.get(&Some(number))).sum::<usize>();
            assert_eq!(own + adapters, sampler.ports as usize, "{}", sampler.host);
        }
        // Each leaf has two cables to each of six cores, each switch of the island one.
        assert_eq!((picture.links.len(), picture.links.values().sum::<usize>()), (16 * 6, 12 * 12 + 4 * 6));
        let seats: Vec<_> =
            picture.switches.iter().filter(|switch| !switch.seats.is_empty()).map(|switch| (&*switch.name, &*switch.seats)).collect();
        assert_eq!(seats[..2], [("leaf01", &[1][..]), ("leaf02", &[2][..])]);
        assert_eq!(picture.summary(), "net.p: 968 ports of 22 switches and 316 adapter ports on 8 samplers, at most 150 each");
    }

    #[test]
    fn fills_are_light_enough_for_black_text() {
        // Contrast with black of at least 7, WCAG 2.1's highest grade.
        let part = |part: u8| {
            let share = f64::from(part) / 255.0;
            if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        for [r, g, b] in FILLS {
            let contrast = (0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05) / 0.05;
            assert!(contrast >= 7.0, "{r} {g} {b}: {contrast}");
        }
    }
}
