//! Finds the device and the port that a plan names, in the fabric as it is.
//!
//! A plan names a device by its GUID, its node description, the host name of an HCA, or the system
//! name of a managed switch: `leaf01` in `MF0;leaf01:MQM8700/U1`. Names are compared without case.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::hostlist;
use ibnet_record::types::{Guid, NodeKind, PortNum};
use rustc_hash::FxHashMap;

use super::plan::PlannedEnd;
use crate::topology::{Device, Fabric, NetFile, Peer, system};

/// Index of a site.
pub(super) type SiteId = u32;

/// A port: its site and its number.
pub(super) type Port = (SiteId, PortNum);

/// A device of the fabric, or one that only the plan or a peer names.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) name: String,
    pub(super) guid: Option<Guid>,
    /// `None` if only the plan names the device.
    pub(super) kind: Option<NodeKind>,
    /// The device and the index of its subnet, if the fabric has it.
    pub(super) device: Option<(usize, &'a Device)>,
}

/// All sites: first the devices of all subnets, and then others.
pub(super) struct Sites<'a> {
    fabrics: Vec<&'a Fabric>,
    /// Index of the first device of each subnet.
    starts: Vec<SiteId>,
    sites: Vec<Site<'a>>,
    by_name: FxHashMap<String, Vec<SiteId>>,
    by_guid: FxHashMap<Guid, Vec<SiteId>>,
    /// Sites that the fabric does not have.
    others: BTreeMap<(Option<Guid>, String), SiteId>,
    /// GUIDs of a planned net file. Another device with one of them is not a replacement.
    planned_guids: BTreeSet<Guid>,
    /// Devices with another GUID than planned: they were found by their name.
    pub(super) replaced: BTreeSet<SiteId>,
}

/// Returns a name for comparisons: in lower case, and with single blanks for blanks and slashes.
fn normal(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '/');
    let words: Vec<_> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join(" ")
}

impl<'a> Sites<'a> {
    pub(super) fn new(nets: &'a [NetFile], planned_guids: BTreeSet<Guid>) -> Self {
        let mut new = Self {
            fabrics: nets.iter().map(|net| &net.fabric).collect(),
            starts: Vec::new(),
            sites: Vec::new(),
            by_name: FxHashMap::default(),
            by_guid: FxHashMap::default(),
            others: BTreeMap::new(),
            planned_guids,
            replaced: BTreeSet::new(),
        };
        for (subnet, net) in nets.iter().enumerate() {
            new.starts.push(new.sites.len() as SiteId);
            for device in net.fabric.devices() {
                let id = new.sites.len() as SiteId;
                let mut names = BTreeSet::from([normal(&device.name)]);
                names.insert(match device.kind {
                    NodeKind::Hca => normal(device.host()),
                    _ => {
                        system(&device.name).map_or_else(String::new, |(system, ..)| normal(system))
                    }
                });
                names.remove("");
                for name in names {
                    new.by_name.entry(name).or_default().push(id);
                }
                let guids = [Some(device.guid), device.node.guid];
                for guid in guids.into_iter().flatten().collect::<BTreeSet<_>>() {
                    new.by_guid.entry(guid).or_default().push(id);
                }
                new.sites.push(Site {
                    name: device.name.clone(),
                    guid: Some(device.guid),
                    kind: Some(device.kind),
                    device: Some((subnet, device)),
                });
            }
        }
        new
    }

    pub(super) fn get(&self, id: SiteId) -> &Site<'a> {
        &self.sites[id as usize]
    }

    /// Returns the port of a device of a subnet.
    pub(super) fn of_device(&self, subnet: usize, id: u32, port: PortNum) -> Port {
        (self.starts[subnet] + id, port)
    }

    /// Returns the port at the other end of a link.
    pub(super) fn of_peer(&mut self, subnet: usize, peer: &Peer) -> Port {
        match self.fabrics[subnet].find(peer.guid, peer.port) {
            Some(id) => self.of_device(subnet, id.0, peer.port),
            None => (
                self.other(Some(peer.guid), &peer.name, Some(peer.kind)),
                peer.port,
            ),
        }
    }

    /// Returns whether two sites are ports of one device: a switch, or an HCA with two ports.
    pub(super) fn same_device(&self, one: SiteId, two: SiteId) -> bool {
        let (a, b) = (self.get(one), self.get(two));
        let node = |site: &Site<'_>| site.device.and_then(|(_, device)| device.node.guid);
        let is_near = || match (node(a), node(b), a.guid, b.guid) {
            (Some(one), Some(two), ..) => one == two,
            // The port GUIDs of an HCA follow one another.
            (_, _, Some(one), Some(two)) => {
                one.0.abs_diff(two.0) < 16 && normal(&a.name) == normal(&b.name)
            }
            _ => normal(&a.name) == normal(&b.name),
        };
        one == two
            || a.kind != Some(NodeKind::Switch) && b.kind != Some(NodeKind::Switch) && is_near()
    }

    /// Returns the port that a plan names. A device that the fabric does not have becomes a site of
    /// its own.
    ///
    /// # Errors
    /// Returns a description if the text does not lead to one port.
    pub(super) fn resolve(&mut self, end: &PlannedEnd) -> Result<Port, String> {
        match end {
            PlannedEnd::Port { guid, port, name } => Ok(self.planned_port(*guid, *port, name)),
            PlannedEnd::Named { device, port } => self.named(device, port),
        }
    }

    fn planned_port(&mut self, guid: Guid, port: PortNum, name: &str) -> Port {
        let of_guid = (0..).zip(&self.fabrics).find_map(|(subnet, fabric)| {
            fabric.find(guid, port).map(|id| self.starts[subnet] + id.0)
        });
        if let Some(site) = of_guid {
            return (site, port);
        }
        // An HCA or a switch that was exchanged has another GUID, and usually the same name.
        let named = self
            .by_name
            .get(&normal(name))
            .map_or(&[][..], Vec::as_slice);
        let mut new = named.iter().copied().filter(|id| {
            let site = self.get(*id);
            normal(&site.name) == normal(name)
                && site
                    .guid
                    .is_some_and(|guid| !self.planned_guids.contains(&guid))
                && self.has_port(*id, port)
        });
        match (new.next(), new.next()) {
            (Some(site), None) => {
                self.replaced.insert(site);
                (site, port)
            }
            _ => (self.other(Some(guid), name, None), port),
        }
    }

    /// Returns whether a device can have a port. Each port of an HCA is a device of its own.
    fn has_port(&self, id: SiteId, port: PortNum) -> bool {
        self.get(id).device.is_some_and(|(_, device)| {
            device.kind == NodeKind::Switch || device.port(port).is_some()
        })
    }

    fn named(&mut self, device: &str, text: &str) -> Result<Port, String> {
        let (place, port) = place(text);
        if let Place::Unknown = place {
            return Err(format!("cannot read the port `{text}` of `{device}`"));
        }
        if let (Ok(guid), Some(port)) = (device.parse::<Guid>(), port) {
            let sites = self.by_guid.get(&guid).map_or(&[][..], Vec::as_slice);
            return match sites.iter().copied().find(|id| self.has_port(*id, port)) {
                Some(site) => self.possible(site, port),
                None => Ok((self.other(Some(guid), device, None), port)),
            };
        }
        let with_hca = |hca: &str| {
            let (device, hca) = (normal(device), normal(hca));
            if hca.starts_with(&device) {
                hca
            } else {
                format!("{device} {hca}")
            }
        };
        let name = match &place {
            Place::Hca(hca) => with_hca(hca),
            _ => normal(device),
        };
        let fits = |id: &SiteId| {
            let site = self.get(*id);
            let on_board = match place {
                Place::Board(board, asic) => {
                    system(&site.name).is_some_and(|(_, l, u)| (l, u) == (board, asic))
                }
                _ => true,
            };
            on_board && port.is_none_or(|port| self.has_port(*id, port))
        };
        let known = self.by_name.get(&name).map_or(&[][..], Vec::as_slice);
        let fitting: Vec<_> = known.iter().copied().filter(fits).collect();
        let first_port = |site: &Site<'_>| {
            site.device
                .and_then(|(_, device)| device.ports.first().map(|port| port.num))
        };
        match fitting[..] {
            [site] => {
                let port = port.or_else(|| first_port(self.get(site)));
                let port = port.ok_or_else(|| format!("the port of `{device}` is missing"))?;
                self.possible(site, port)
            }
            [] if matches!(place, Place::Hca(_)) && self.is_switch(device) => {
                Err(format!("cannot read the port `{text}` of `{device}`"))
            }
            [] => {
                // A port of an HCA without a link has no device in the fabric.
                let shown = match &place {
                    Place::Hca(hca) if normal(hca).starts_with(&normal(device)) => hca.clone(),
                    Place::Hca(hca) => format!("{device} {hca}"),
                    Place::Board(board, asic) => format!("{device}/L{board:02}/U{asic}"),
                    Place::Device | Place::Unknown => device.to_owned(),
                };
                Ok((self.other(None, &shown, None), port.unwrap_or(PortNum(1))))
            }
            ref several => {
                let names: BTreeSet<_> = several.iter().map(|id| &*self.get(*id).name).collect();
                Err(match names.len() {
                    1 => format!(
                        "`{device}` is the name of {} devices: give the GUID",
                        several.len()
                    ),
                    _ => format!(
                        "`{device}` has {} devices: name one of them with the port, such as `{}`",
                        several.len(),
                        names.first().unwrap_or(&"")
                    ),
                })
            }
        }
    }

    fn is_switch(&self, name: &str) -> bool {
        let known = self.by_name.get(&normal(name));
        known.is_some_and(|known| {
            let mut known = known.iter();
            known.any(|id| self.get(*id).kind == Some(NodeKind::Switch))
        })
    }

    /// Returns a port of a device.
    ///
    /// # Errors
    /// Returns a description if the device has fewer ports.
    fn possible(&self, id: SiteId, port: PortNum) -> Result<Port, String> {
        let site = self.get(id);
        let ports = site.device.and_then(|(_, device)| {
            // A net file that lists a port without a link lists all ports.
            let lists_all = device.ports.iter().any(|port| port.peer.is_none());
            let last = || device.ports.last().filter(|_| lists_all);
            device.node.ports.or_else(|| Some(last()?.num.0))
        });
        match ports {
            Some(ports) if port.0 > ports => {
                let name = &site.name;
                Err(format!("`{name}` has {ports} ports, and no port {port}"))
            }
            _ => Ok((id, port)),
        }
    }

    fn other(&mut self, guid: Option<Guid>, name: &str, kind: Option<NodeKind>) -> SiteId {
        let key = (
            guid,
            if guid.is_some() {
                String::new()
            } else {
                normal(name)
            },
        );
        *self.others.entry(key).or_insert_with(|| {
            self.sites.push(Site {
                name: name.to_owned(),
                guid,
                kind,
                device: None,
            });
            self.sites.len() as SiteId - 1
        })
    }

    /// Returns the device of the fabric that a plan probably meant by the name of a missing device.
    /// Only devices that the plan does not name are possible.
    pub(super) fn hint(&self, id: SiteId, planned: &BTreeSet<SiteId>) -> Option<SiteId> {
        let free = (0..)
            .zip(&self.sites)
            .filter(|(id, site)| site.device.is_some() && !planned.contains(id));
        let names: BTreeMap<&str, SiteId> = free
            .map(|(id, site)| match system(&site.name) {
                Some((system, ..)) => (system, id),
                None => (&*site.name, id),
            })
            .collect();
        let similar = hostlist::nearest(&self.get(id).name, names.keys().copied())?;
        names.get(similar).copied()
    }
}

/// What the text of a port names, beside the number of the port.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    /// The device itself: `Port 21`, `P21`, `21`.
    Device,
    /// A board and an ASIC of a director: `Blade 16_Port 2/20`.
    Board(u32, u32),
    /// An HCA: `mlx5_0`, `node1 mlx5_0`, `mlx5_0/2`, `HCA-1 P2`.
    Hca(String),
    /// An empty text, or a wrong number.
    Unknown,
}

/// Splits the text of a port into what it names and the number of the port.
fn place(text: &str) -> (Place, Option<PortNum>) {
    let number = |text: &str| {
        text.trim()
            .parse()
            .ok()
            .filter(|port| (1..=254).contains(port))
            .map(PortNum)
    };
    let lower = text.trim().to_ascii_lowercase();
    let after = |text: &str| {
        let rest = text
            .strip_prefix("port")
            .or_else(|| text.strip_prefix('p'))?;
        number(rest)
    };
    if let Some(port) = number(&lower).or_else(|| after(&lower)) {
        return (Place::Device, Some(port));
    }
    let board = || {
        let (board, port) = lower.strip_prefix("blade")?.split_once("_port")?;
        let (asic, port) = port.split_once('/')?;
        Some((
            Place::Board(board.trim().parse().ok()?, asic.trim().parse().ok()?),
            Some(number(port)?),
        ))
    };
    if let Some(found) = board() {
        return found;
    }
    let text = text.trim();
    let is_name = |name: &str| {
        name.contains(|c: char| c.is_ascii_alphabetic())
            && !["port ", "blade "]
                .iter()
                .any(|word| name.to_ascii_lowercase().starts_with(word))
    };
    let parts = text.rsplit_once([' ', '/', ':']).and_then(|(hca, port)| {
        let port = number(port).or_else(|| after(&port.to_ascii_lowercase()))?;
        let hca = hca.trim();
        let end = hca
            .to_ascii_lowercase()
            .strip_suffix(" port")
            .map_or(hca.len(), str::len);
        Some((&hca[..end], port))
    });
    match parts {
        Some((hca, port)) if is_name(hca) => (Place::Hca(hca.to_owned()), Some(port)),
        None if is_name(text) && !text.to_ascii_lowercase().starts_with("blade") => {
            (Place::Hca(text.to_owned()), None)
        }
        _ => (Place::Unknown, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_texts_of_all_forms_are_read() {
        let hca = |name: &str| Place::Hca(name.to_owned());
        for (text, expected, port) in [
            ("Port 21", Place::Device, Some(21)),
            ("P1", Place::Device, Some(1)),
            ("port7", Place::Device, Some(7)),
            ("36", Place::Device, Some(36)),
            ("Blade 16_Port 2/20", Place::Board(16, 2), Some(20)),
            ("Blade 01_Port 1/3", Place::Board(1, 1), Some(3)),
            ("SAT111 ibp11s0f0", hca("SAT111 ibp11s0f0"), None),
            ("mlx5_0", hca("mlx5_0"), None),
            ("mlx5_0/2", hca("mlx5_0"), Some(2)),
            ("mlx5_0:1", hca("mlx5_0"), Some(1)),
            ("HCA-1 P2", hca("HCA-1"), Some(2)),
            ("HCA-1 port 2", hca("HCA-1"), Some(2)),
            ("", Place::Unknown, None),
            ("Port 0", Place::Unknown, None),
            ("Port 1/2/3", Place::Unknown, None),
            ("Blade 16_Port 20", Place::Unknown, None),
            ("999", Place::Unknown, None),
        ] {
            assert_eq!(place(text), (expected, port.map(PortNum)), "{text}");
        }
    }
}
