//! A picture of a plan: the switches in rows by tier, each in the colour of its sampler.
//!
//! Two simplifications keep a picture of a hundred switches readable: each switch is labelled
//! with the number of its HCA ports instead of showing them, and one line stands for all cables
//! between two switches. [`drawing`](crate::drawing) places the switches, and [`svg`] draws them.
//! In a fabric without tiers (torus, mesh), the row of a switch is its distance from a switch at
//! the edge.
//!
//! Node descriptions are untrusted: [`Printable`](ibnet_record::types::Printable) replaces their
//! control characters, and [`svg`] escapes them.

use std::collections::BTreeMap;

use ibnet_record::count::count;
use ibnet_record::types::{Guid, NodeKind};

use crate::partition::Plan;
use crate::topology::{DeviceId, Fabric, Graph};

mod layout;
pub mod svg;

/// Content of the picture.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// Names of the net files.
    pub source: String,
    /// The cap: max number of ports of a sampler.
    pub cap: u32,
    /// Samplers in the order of the plan.
    pub samplers: Vec<LegendEntry>,
    /// Switches in the order of their GUIDs.
    pub switches: Vec<DrawnSwitch>,
    /// Number of cables between two switches. The key contains the indices of the switches in
    /// [`Picture::switches`], the lower one first.
    pub links: BTreeMap<(usize, usize), usize>,
    /// Number of sampled HCA ports.
    pub hca_ports: usize,
}

/// A sampler in the legend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LegendEntry {
    /// Host name, with the HCA and the port if they were named.
    pub host: String,
    /// Number of ports.
    pub ports: u32,
}

/// A switch with its HCA ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrawnSwitch {
    /// Port GUID.
    pub guid: Guid,
    /// Node description. The text is untrusted.
    pub name: String,
    /// Tier as in [`Graph::tiers`]: 1 for a leaf, 0 if no leaf can be reached.
    pub tier: u16,
    /// Number of linked ports.
    pub ports: usize,
    /// Index of the sampler, or `None` if the switch is left out.
    pub sampler: Option<usize>,
    /// Number of HCA ports on the switch, by the index of their sampler.
    pub hcas: BTreeMap<Option<usize>, usize>,
    /// Indices of the samplers attached to the switch, in ascending order.
    pub attached: Vec<usize>,
}

impl Picture {
    /// Returns the picture of a plan. `source` has the names of the net files.
    pub fn of(fabric: &Fabric, plan: &Plan, source: &str) -> Self {
        let graph = Graph::new(fabric);
        let tiers = graph.tiers(fabric);
        let mut owners = vec![None; fabric.devices().len()];
        for (sampler, share) in plan.shares.iter().enumerate() {
            share
                .devices
                .iter()
                .for_each(|planned| owners[planned.id.0 as usize] = Some(sampler));
        }
        let linked = |id: &DeviceId| fabric.device(*id).linked_ports() > 0;
        let is_switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let ids: Vec<_> = fabric
            .iter()
            .map(|(id, _)| id)
            .filter(is_switch)
            .filter(linked)
            .collect();
        let place = |id: DeviceId| ids.binary_search(&id).ok();

        let mut switches: Vec<_> = ids
            .iter()
            .map(|id| DrawnSwitch::of(fabric, *id, tiers[id.0 as usize], owners[id.0 as usize]))
            .collect();
        for (id, device) in fabric.iter().filter(|(_, device)| {
            device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device)
        }) {
            if let Some(switch) = graph
                .neighbours(id)
                .iter()
                .find_map(|switch| place(*switch))
            {
                *switches[switch]
                    .hcas
                    .entry(owners[id.0 as usize])
                    .or_default() += device.linked_ports();
            }
        }
        for (sampler, share) in plan.shares.iter().enumerate() {
            let mut on: Vec<_> = share
                .host
                .sending
                .iter()
                .flat_map(|port| graph.neighbours(*port))
                .filter_map(|id| place(*id))
                .collect();
            on.sort_unstable();
            on.dedup();
            on.into_iter()
                .for_each(|switch| switches[switch].attached.push(sampler));
        }
        let is_hca = |id: DeviceId| fabric.device(id).kind == NodeKind::Hca;
        Self {
            source: source.to_owned(),
            cap: plan.cap,
            samplers: plan
                .shares
                .iter()
                .map(|share| LegendEntry {
                    host: share.host.to_string(),
                    ports: share.ports,
                })
                .collect(),
            switches,
            links: links(fabric, &ids),
            hca_ports: plan
                .shares
                .iter()
                .flat_map(|share| &share.devices)
                .filter(|planned| is_hca(planned.id))
                .count(),
        }
    }

    fn summary(&self) -> String {
        let ports: u32 = self.samplers.iter().map(|sampler| sampler.ports).sum();
        format!(
            "{}: {} of {} and {} on {}, cap {}",
            self.source,
            count(ports as usize, "port"),
            count(
                self.switches
                    .iter()
                    .filter(|switch| switch.sampler.is_some())
                    .count(),
                "switch",
            ),
            count(self.hca_ports, "HCA port"),
            count(self.samplers.len(), "sampler"),
            self.cap
        )
    }

    /// Returns the description of a switch, one fact per line.
    fn description(&self, switch: &DrawnSwitch) -> String {
        let host = |sampler: Option<usize>| {
            sampler.map_or_else(
                || "no sampler".to_owned(),
                |sampler| self.sampler_name(sampler),
            )
        };
        let mut lines = vec![format!("{} {}", switch.name, switch.guid)];
        lines.push(format!(
            "{}, sampled by {}",
            count(switch.ports, "port"),
            host(switch.sampler)
        ));
        let hcas = |ports| count(ports, "HCA port");
        lines.extend(
            switch
                .hcas
                .iter()
                .map(|(sampler, ports)| format!("{}, sampled by {}", hcas(*ports), host(*sampler))),
        );
        let attached: Vec<_> = switch
            .attached
            .iter()
            .map(|sampler| self.sampler_name(*sampler))
            .collect();
        if !attached.is_empty() {
            lines.push(format!("attached samplers: {}", attached.join(", ")));
        }
        lines.join("\n")
    }

    /// Returns the number of a sampler, counted from 1, and its host.
    fn sampler_name(&self, sampler: usize) -> String {
        format!("{} {}", sampler + 1, self.samplers[sampler].host)
    }
}

impl DrawnSwitch {
    fn of(fabric: &Fabric, id: DeviceId, tier: u16, sampler: Option<usize>) -> Self {
        let device = fabric.device(id);
        let (hcas, attached) = (BTreeMap::new(), Vec::new());
        Self {
            guid: device.guid,
            name: device.name.clone(),
            tier,
            ports: device.linked_ports(),
            sampler,
            hcas,
            attached,
        }
    }

    /// Returns the number of HCA ports on the switch.
    pub fn hca_ports(&self) -> usize {
        self.hcas.values().sum()
    }
}

/// Returns the cables between switches. The net file lists each cable at both ends, except if the
/// file is truncated.
fn links(fabric: &Fabric, ids: &[DeviceId]) -> BTreeMap<(usize, usize), usize> {
    let mut listed: BTreeMap<(usize, usize), [usize; 2]> = BTreeMap::new();
    for (from, id) in ids.iter().enumerate() {
        for (_, peer) in fabric.device(*id).linked() {
            let to = fabric
                .find(peer.guid, peer.port)
                .and_then(|id| ids.binary_search(&id).ok());
            if let Some(to) = to.filter(|to| *to != from) {
                listed.entry((from.min(to), from.max(to))).or_default()[usize::from(to < from)] +=
                    1;
            }
        }
    }
    listed
        .into_iter()
        .map(|(ends, [one, other])| (ends, one.max(other)))
        .collect()
}

/// Max number of links that are labelled with their number of cables. With more links, none is.
const MAX_COUNTS: usize = 60;

/// Fill colours that are distinct for every kind of colour vision and light enough for black text:
/// the "light" scheme of P. Tol, *Colour Schemes* (SRON/EPS/TN/09-002), without its grey.
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

/// Returns the fill colour for the switches of a sampler, or white if they have none. Samplers
/// can share a colour, but not a number.
fn fill(sampler: Option<usize>) -> String {
    let [r, g, b] = sampler.map_or([0xff; 3], |sampler| FILLS[sampler % FILLS.len()]);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Returns the line colour of a sampler, which is darker than its fill colour.
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
        let fabric = ports_report::parse(text.as_bytes(), "net.p")
            .unwrap()
            .fabric;
        let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], &fabric).unwrap();
        let plan = plan(&Request {
            fabric: &fabric,
            samplers,
            cap,
        })
        .unwrap();
        Picture::of(&fabric, &plan, "net.p")
    }

    #[test]
    fn picture_has_every_port_of_the_plan() {
        let picture = picture(
            &synthetic::stria(),
            "node[00001,00025,00049,00073,00097,00121],admin1,oss1",
            150,
        );
        assert_eq!(picture.switches.len(), 22);
        for (number, sampler) in picture.samplers.iter().enumerate() {
            let own = picture
                .switches
                .iter()
                .filter(|switch| switch.sampler == Some(number))
                .map(|switch| switch.ports)
                .sum::<usize>();
            let hcas = picture
                .switches
                .iter()
                .filter_map(|switch| switch.hcas.get(&Some(number)))
                .sum::<usize>();
            assert_eq!(own + hcas, sampler.ports as usize, "{}", sampler.host);
        }
        // Each compute leaf has two cables to each of six cores, each switch of the island one.
        assert_eq!(
            (picture.links.len(), picture.links.values().sum::<usize>()),
            (16 * 6, 12 * 12 + 4 * 6)
        );
        let attached: Vec<_> = picture
            .switches
            .iter()
            .filter(|switch| !switch.attached.is_empty())
            .map(|switch| (&*switch.name, &*switch.attached))
            .collect();
        assert_eq!(attached[..2], [("leaf01", &[1][..]), ("leaf02", &[2][..])]);
        assert_eq!(
            picture.summary(),
            "net.p: 968 ports of 22 switches and 316 HCA ports on 8 samplers, cap 150"
        );
    }

    #[test]
    fn fills_are_light_enough_for_black_text() {
        // The contrast with black must be at least 7, the highest grade of WCAG 2.1.
        let part = |part: u8| {
            let share = f64::from(part) / 255.0;
            if share <= 0.03928 {
                share / 12.92
            } else {
                ((share + 0.055) / 1.055).powf(2.4)
            }
        };
        for [r, g, b] in FILLS {
            let contrast = (0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b) + 0.05) / 0.05;
            assert!(contrast >= 7.0, "{r} {g} {b}: {contrast}");
        }
    }
}
