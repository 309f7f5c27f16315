//! Builds the topology from the records: switches with their tiers and hosts, and the links
//! between switches. Each record names the peer of its port, so no net file is necessary.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ibnet_record::types::{Guid, NodeKind};

use crate::cell::Cell;
use crate::devices::{Devices, FaultyDevice};
use crate::heat::grid::{Grid, Panel};
use crate::heat::range::{ColorRange, Range};
use crate::hosts::Hosts;
use crate::links::Link;
use crate::metric::Metric;
use crate::ports::PortKey;
use crate::stat::Stat;
use crate::trees::{RootCause, Trees};

/// Switches, links and roots of congestion.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    /// Switches in the order of their GUIDs.
    pub switches: Vec<MapSwitch>,
    /// Links between switches. The key is the pair of switch indices, lower index first, and the
    /// first end of each link is at the first switch.
    pub trunks: BTreeMap<(usize, usize), Vec<Link>>,
    /// Roots of congestion trees, the one with the longest blocked time first.
    pub roots: Vec<PortKey>,
    /// Devices with faults, as in [`Devices::faults`].
    pub faults: Vec<FaultyDevice>,
    /// Devices that do not answer, including those behind others.
    pub unreachable: BTreeSet<Guid>,
    /// The job that is emphasized. `None` for all hosts.
    pub job: Option<MapJob>,
    /// Statistic of the links.
    pub stat: Stat,
    /// Metric of the colours and widths of the links. `None` for the utilization.
    pub metric: Option<MapMetric>,
    /// Values of the first and the last colour.
    pub range: ColorRange,
    /// Time range and time zone, for the caption.
    pub when: String,
}

/// A job on the map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapJob {
    /// Text for the caption.
    pub title: String,
    /// GUIDs of its HCA ports.
    pub ports: BTreeSet<Guid>,
    /// The roots of congestion that held up its hosts, and the ports that waited between them.
    pub waited: BTreeSet<PortKey>,
}

/// A metric of the ports on the map.
#[derive(Clone, PartialEq, Debug)]
pub struct MapMetric {
    /// The metric.
    pub metric: Metric,
    /// Time of a value in nanoseconds. The statistic summarizes these values.
    pub step_ns: u64,
    /// Value of each port.
    pub values: BTreeMap<PortKey, Cell>,
    /// Value of a full link, if the data rate limits the metric.
    full: Option<f64>,
}

/// A switch and its hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct MapSwitch {
    /// Port GUID of the switch.
    pub guid: Guid,
    /// Node description as the device returned it.
    pub name: Box<str>,
    /// Tier of the switch: 1 for a switch with hosts, 2 for its neighbours without hosts, and so
    /// on; 0 if no path leads from the switch to a host.
    pub tier: u16,
    /// Links to HCAs. The first end of each link is the switch port.
    pub hosts: Vec<Link>,
}

impl Map {
    /// Builds the map of all links. `when` is the text of the time range.
    pub fn of(links: &[Link], when: &str) -> Self {
        let mut names: BTreeMap<Guid, &str> = BTreeMap::new();
        let mut hosts: BTreeSet<Guid> = BTreeSet::new();
        for end in links.iter().flat_map(|link| &link.ends) {
            names
                .entry(end.port.guid)
                .and_modify(|name| {
                    if name.is_empty() {
                        *name = &end.port.node;
                    }
                })
                .or_insert(&end.port.node);
            if end.kind == Some(NodeKind::Hca) {
                hosts.insert(end.port.guid);
            }
        }
        // A device that was not queried is taken for an HCA if its only known link leads to a
        // switch.
        let mut degree: BTreeMap<Guid, usize> = BTreeMap::new();
        links
            .iter()
            .flat_map(|link| &link.ends)
            .for_each(|end| *degree.entry(end.port.guid).or_default() += 1);
        for end in links
            .iter()
            .flat_map(|link| &link.ends)
            .filter(|end| end.kind.is_none())
        {
            if degree[&end.port.guid] == 1 {
                hosts.insert(end.port.guid);
            }
        }
        let guids: Vec<Guid> = names
            .keys()
            .copied()
            .filter(|guid| !hosts.contains(guid))
            .collect();
        let new = |guid: &Guid| MapSwitch {
            guid: *guid,
            name: names[guid].into(),
            tier: 0,
            hosts: Vec::new(),
        };
        let mut map = Self {
            switches: guids.iter().map(new).collect(),
            trunks: BTreeMap::new(),
            roots: Vec::new(),
            faults: Vec::new(),
            unreachable: BTreeSet::new(),
            job: None,
            stat: Stat::Mean,
            metric: None,
            range: Range::Auto.of(&panel(Metric::xmit_utilization(), None, Vec::new())),
            when: when.to_owned(),
        };
        for link in links {
            let index = |end: usize| guids.binary_search(&link.ends[end].port.guid).ok();
            match (index(0), index(1)) {
                (Some(one), Some(other)) if one != other => {
                    let link = if one < other {
                        link.clone()
                    } else {
                        link.clone().reversed()
                    };
                    map.trunks
                        .entry((one.min(other), one.max(other)))
                        .or_default()
                        .push(link);
                }
                (Some(switch), None) => map.switches[switch].hosts.push(link.clone()),
                (None, Some(switch)) => map.switches[switch].hosts.push(link.clone().reversed()),
                // A link from a switch to itself, or between two HCAs: the map leaves it out.
                _ => {}
            }
        }
        map.find_tiers();
        map
    }

    /// Marks the roots of the first three congestion trees that have victims and a known cause.
    #[must_use]
    pub fn with_roots(mut self, trees: &Trees) -> Self {
        const MAX: usize = 3;
        let roots = trees
            .trees
            .iter()
            .filter(|tree| tree.cause != RootCause::Unclear && !tree.branches.is_empty())
            .map(|tree| tree.root);
        self.roots = roots.take(MAX).collect();
        self
    }

    /// Sets the statistic with which the links were found.
    #[must_use]
    pub const fn with_stat(mut self, stat: Stat) -> Self {
        self.stat = stat;
        self
    }

    /// Shows the first metric of a heat map of ports instead of the utilization. Call
    /// [`Self::with_stat`] before.
    #[must_use]
    pub fn with_metric(mut self, grid: &Grid) -> Self {
        let Some(panel) = grid.panels.first() else {
            return self;
        };
        let rows = grid.rows.iter().zip(&panel.cells);
        let values = rows.filter_map(|(row, cells)| {
            let key = row.id.guid.zip(row.id.port)?;
            Some((key, self.stat.of_cells(cells)?))
        });
        self.metric = Some(MapMetric {
            metric: panel.metric.clone(),
            step_ns: grid.step_ns,
            values: values.collect(),
            full: panel.full,
        });
        self
    }

    /// Sets the range of the colours, from the values of all links.
    #[must_use]
    pub fn with_range(mut self, range: Range) -> Self {
        let (metric, full) = self.metric.as_ref().map_or_else(
            || (Metric::xmit_utilization(), None),
            |own| (own.metric.clone(), own.full),
        );
        let hosts = self.switches.iter().flat_map(|switch| &switch.hosts);
        let links = self.trunks.values().flatten().chain(hosts);
        let cells = links.map(|link| self.value(link).into()).collect();
        self.range = range.of(&panel(metric, full, cells));
        self
    }

    /// Returns the value of a link: the larger one of its two directions.
    pub fn value(&self, link: &Link) -> Option<f64> {
        let of = |end: usize| match &self.metric {
            Some(metric) => metric.of(link, end).and_then(|cell| cell.value()),
            None => link.directions[end].utilization,
        };
        of(0).into_iter().chain(of(1)).reduce(f64::max)
    }

    /// Marks the devices that do not answer.
    #[must_use]
    pub fn with_devices(mut self, devices: &Devices) -> Self {
        self.faults = devices.faults();
        let hosts = self
            .switches
            .iter()
            .flat_map(|switch| &switch.hosts)
            .map(|link| link.ends[1].port.guid);
        let all = self.switches.iter().map(|switch| switch.guid).chain(hosts);
        self.unreachable = all.filter(|guid| devices.is_unreachable(*guid)).collect();
        self
    }

    /// Emphasizes the hosts of a job, and the ports between these hosts and the marked roots for
    /// which they waited. `title` is its text for the caption.
    #[must_use]
    pub fn with_job(mut self, hosts: &Hosts, trees: &Trees, title: &str) -> Self {
        let ends = self
            .switches
            .iter()
            .flat_map(|switch| &switch.hosts)
            .map(|link| &link.ends[1].port);
        let ports = ends
            .filter(|port| hosts.contains_node(&port.node))
            .map(|port| port.guid)
            .collect();
        let mut waited = BTreeSet::new();
        let shown = |root: &PortKey| self.roots.contains(root);
        for tree in trees.trees.iter().filter(|tree| shown(&tree.root)) {
            let is_own = |port: &&PortKey| hosts.contains_node(&trees.name(**port).node);
            for port in tree.branches.keys().filter(is_own) {
                // Each port is visited once, so a circle ends too.
                let mut next = Some(*port);
                while let Some(port) = next.filter(|port| waited.insert(*port)) {
                    next = tree.branches.get(&port).map(|branch| branch.next);
                }
            }
        }
        self.job = Some(MapJob {
            title: title.to_owned(),
            ports,
            waited,
        });
        self
    }

    /// Returns whether a link is emphasized: it leads to a host of the job, or a port waited on it
    /// as in [`MapJob::waited`]. Returns true if there is no job.
    pub fn is_emphasized(&self, link: &Link) -> bool {
        self.job.as_ref().is_none_or(|job| {
            let mut ports = link.ends.iter().map(|end| (end.port.guid, end.port.port));
            ports.any(|port| job.ports.contains(&port.0) || job.waited.contains(&port))
        })
    }

    /// Returns whether a switch has hosts of the job. Returns true if there is no job.
    pub fn is_of_job(&self, switch: usize) -> bool {
        self.job.as_ref().is_none_or(|job| {
            self.switches[switch]
                .hosts
                .iter()
                .any(|link| job.ports.contains(&link.ends[1].port.guid))
        })
    }

    /// Returns whether a port of a switch is in [`MapJob::waited`].
    pub fn has_waited(&self, switch: usize) -> bool {
        let of_switch = |port: &PortKey| port.0 == self.switches[switch].guid;
        let job = self.job.as_ref();
        job.is_some_and(|job| job.waited.iter().any(of_switch))
    }

    fn find_tiers(&mut self) {
        let mut neighbours = vec![Vec::new(); self.switches.len()];
        for (one, other) in self.trunks.keys() {
            neighbours[*one].push(*other);
            neighbours[*other].push(*one);
        }
        let leaves =
            (0..self.switches.len()).filter(|switch| !self.switches[*switch].hosts.is_empty());
        let mut queue: VecDeque<usize> = leaves.collect();
        queue.iter().for_each(|leaf| self.switches[*leaf].tier = 1);
        while let Some(switch) = queue.pop_front() {
            for next in &neighbours[switch] {
                if self.switches[*next].tier == 0 {
                    self.switches[*next].tier = self.switches[switch].tier + 1;
                    queue.push_back(*next);
                }
            }
        }
    }
}

impl MapMetric {
    /// Returns the value of an end of a link.
    pub fn of(&self, link: &Link, end: usize) -> Option<Cell> {
        let port = &link.ends[end].port;
        self.values.get(&(port.guid, port.port)).copied()
    }
}

/// Returns a panel with one value for each link.
fn panel(metric: Metric, full: Option<f64>, cells: Vec<Cell>) -> Panel {
    Panel {
        metric,
        summed: 1,
        full,
        ports: Vec::new(),
        cells: vec![cells],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibnet_record::types::PortNum;

    use crate::fixtures::{CORE, LEAF, fold, incast_lines, map_lines};
    use crate::links;
    use crate::ports::{PortSummary, Ports};
    use crate::trees::Limits;

    fn ports() -> BTreeMap<PortKey, PortSummary> {
        fold(Ports::with_bins(1), &map_lines()).finish()
    }

    fn map() -> Map {
        Map::of(&links::find(&ports()), "from then to now (UTC)")
    }

    #[test]
    fn switches_have_tiers_and_hosts() {
        let map = map();
        let switches: Vec<_> = map
            .switches
            .iter()
            .map(|switch| (switch.guid.0, switch.tier, switch.hosts.len()))
            .collect();
        assert_eq!(switches, [(1, 1, 2), (2, 1, 2), (9, 2, 0)]);
        let trunks: Vec<_> = map
            .trunks
            .iter()
            .map(|(ends, cables)| (*ends, cables.len()))
            .collect();
        assert_eq!(trunks, [((0, 2), 2), ((1, 2), 2)]);
    }

    #[test]
    fn dead_devices_and_jobs_are_marked() {
        let mut lines = map_lines();
        let trees = Trees::find(&ports(), &Devices::default(), Limits::default());
        lines.push(crate::fixtures::event(2, (1, 0), "unreachable", ""));
        let map = map()
            .with_devices(&fold(Devices::default(), &lines))
            .with_job(&Hosts::parse("n").expect("a host list"), &trees, "job 7");
        assert_eq!(
            (
                map.faults.len(),
                map.unreachable
                    .iter()
                    .map(|guid| guid.0)
                    .collect::<Vec<_>>()
            ),
            (1, vec![1])
        );
        assert_eq!(map.job.as_ref().map(|job| job.ports.len()), Some(4));
        assert_eq!(
            [0, 1, 2].map(|switch| map.is_of_job(switch)),
            [true, true, false]
        );
    }

    #[test]
    fn ports_between_a_job_and_the_root_that_held_it_up_are_emphasized() {
        let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &incast_lines());
        let ports = ports.finish();
        let trees = Trees::find(&ports, &devices, Limits::default());
        let map = Map::of(&links::find(&ports), "").with_roots(&trees);
        let of = |hosts: &str| {
            let hosts = Hosts::parse(hosts).expect("a host list");
            let waited = map.clone().with_job(&hosts, &trees, "job").job;
            waited.map(|job| job.waited.into_iter().collect::<Vec<_>>())
        };
        let key = |guid, port| (Guid(guid), PortNum(port));
        let way = [(CORE, 2), (LEAF, 9), (0x101, 1), (0x102, 1)];
        let mut way = way.map(|(guid, port)| key(guid, port)).to_vec();
        way.sort_unstable();
        assert_eq!(of("n"), Some(way));
        assert_eq!(of("other"), Some(Vec::new()));
    }
}
