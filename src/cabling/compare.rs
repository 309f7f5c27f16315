//! Compares planned and found cables: the kind of each finding, and the steps of a technician.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::rail;
use ibnet_record::types::{Guid, NodeKind, PortNum};
use serde::Serialize;

use super::devices::{Port, SiteId, Sites};
use super::groups::{self, Ends, groups};
use super::modules::{Module, Modules};
use super::plan::{Plan, PlannedCable, PlannedEnd};
use crate::topology::NetFile;

/// One end of a cable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct End {
    /// Port GUID. `None` if only the plan names the device.
    pub guid: Option<Guid>,
    /// Node description, or the name in the plan. The text is untrusted.
    pub name: String,
    /// Port number.
    pub port: PortNum,
}

/// Kind of a finding, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No cable is left for the planned one.
    Missing,
    /// The cable ends at an HCA or a leaf switch of another rail, or in another subnet.
    WrongRail,
    /// The cable exchanged its port with other planned cables.
    Swapped,
    /// The cable ends at another device.
    WrongDevice,
    /// The cable ends at another port of the right device.
    WrongPort,
    /// The planned cable is there and slower than planned.
    WrongSpeed,
    /// The planned cable is there and has another part number.
    WrongPart,
    /// The planned cable is there and has another length.
    WrongLength,
    /// A cable between planned devices that the plan does not have.
    Unplanned,
}

impl Kind {
    /// All kinds, in the order of a report.
    pub const ALL: [Self; 9] = [
        Self::Missing,
        Self::WrongRail,
        Self::Swapped,
        Self::WrongDevice,
        Self::WrongPort,
        Self::WrongSpeed,
        Self::WrongPart,
        Self::WrongLength,
        Self::Unplanned,
    ];

    /// Returns the words of a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongRail => "wrong rail",
            Self::Swapped => "swapped",
            Self::WrongDevice => "wrong device",
            Self::WrongPort => "wrong port",
            Self::WrongSpeed => "wrong speed",
            Self::WrongPart => "wrong part",
            Self::WrongLength => "wrong length",
            Self::Unplanned => "unplanned",
        }
    }

    /// Returns the kind of a cable of which one end is in a wrong port. This is the whole table:
    ///
    /// | the wrong port is on | in a closed group | in an open group |
    /// |---|---|---|
    /// | another rail or subnet | wrong rail | wrong rail |
    /// | another device | swapped | wrong device |
    /// | the right device | swapped | wrong port |
    ///
    /// A group is closed if its cables are plugged into one another's planned ports: two exchanged
    /// cables, a cycle of three, and so on. If one cable of it is missing, the group is open: its
    /// planned cable is missing, and the others end in wrong ports.
    const fn moved(closed: bool, same_device: bool, other_rail: bool) -> Self {
        match (other_rail, closed, same_device) {
            (true, ..) => Self::WrongRail,
            (_, true, _) => Self::Swapped,
            (_, _, true) => Self::WrongPort,
            _ => Self::WrongDevice,
        }
    }
}

/// A difference between the plan and the fabric.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// Kind.
    pub kind: Kind,
    /// Findings and steps with the same number belong together, from 1.
    pub group: usize,
    /// The planned cable. `None` for an unplanned one.
    pub planned: Option<[End; 2]>,
    /// The cable as it is. `None` for a missing one.
    pub found: Option<[End; 2]>,
    /// File and line of the planned cable.
    pub line: Option<String>,
    /// Label of the planned cable.
    pub label: Option<String>,
    /// Planned and found value of a wrong speed, part or length.
    pub values: Option<[String; 2]>,
}

/// What a technician does in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Unplugs one end of a cable and plugs it into another port.
    Move,
    /// Connects two ports with a new cable.
    Connect,
    /// Removes a cable.
    Remove,
}

/// A step that corrects the cabling.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// Group of the findings that the step corrects.
    pub group: usize,
    /// What to do.
    pub action: Action,
    /// The end that stays.
    pub end: End,
    /// Port from which the other end is unplugged. `None` for a new cable.
    pub from: Option<End>,
    /// Port into which the other end is plugged. `None` for a cable that is removed.
    pub to: Option<End>,
    /// Label of the cable in the plan.
    pub label: Option<String>,
    /// Serial number of the cable as it is.
    pub serial: Option<String>,
}

/// A device of the plan that the fabric does not have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NotFound {
    /// Name in the plan.
    pub name: String,
    /// Port GUID, if the plan is a net file.
    pub guid: Option<Guid>,
    /// File and line of its first cable.
    pub line: String,
    /// A similar name in the fabric that the plan does not have.
    pub similar: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Comparison {
    /// Number of planned cables.
    pub planned: usize,
    /// Number of planned cables that are as planned.
    pub right: usize,
    /// Number of cables at devices that the plan does not name.
    pub beyond: usize,
    /// Number of devices that have another GUID than in the plan, and the same name.
    pub replaced: usize,
    /// Differences, the worst kind first.
    pub findings: Vec<Finding>,
    /// Steps that lead from the fabric to the plan. No other list is shorter.
    pub steps: Vec<Step>,
    /// Devices that were not found.
    pub not_found: Vec<NotFound>,
    /// Lines of the plan that were not compared, or not with all values, with the reason.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// Returns whether the fabric is as planned and every line of the plan was compared.
    pub fn is_right(&self) -> bool {
        self.findings.is_empty() && self.not_found.is_empty() && self.remarks.is_empty()
    }
}

/// Max number of missing devices for which a similar name is searched.
const HINTS: usize = 50;

/// Relative difference of two rates or lengths that is not reported.
const TOLERANCE: f64 = 0.02;

/// Compares the planned cables with those of all subnets.
pub fn compare(plan: &Plan, nets: &[NetFile], modules: &Modules) -> Comparison {
    let planned_guids = plan.cables.iter().flat_map(|cable| &cable.ends);
    let planned_guids = planned_guids.filter_map(|end| match end {
        PlannedEnd::Port { guid, .. } => Some(*guid),
        PlannedEnd::Named { .. } => None,
    });
    let mut sites = Sites::new(nets, planned_guids.collect());
    let mut remarks = plan.remarks.clone();
    let planned = planned(plan, &mut sites, &mut remarks);
    let found = found(nets, &mut sites);
    let named: BTreeSet<SiteId> = planned.keys().flatten().map(|port| port.0).collect();
    let absent = absent(&planned, &sites, &named);
    let judge = Judge {
        rails: rails(planned.keys(), &sites),
        sites: &sites,
        modules,
    };
    let mut result = Comparison {
        planned: planned.len(),
        remarks,
        replaced: sites.replaced.len(),
        ..Comparison::default()
    };
    for (ends, cable) in &planned {
        if let Some(gbps) = found.get(ends) {
            let group = result.findings.len() + 1;
            match judge.in_place(*ends, cable, *gbps, group) {
                Some(finding) => result.findings.push(finding),
                None => result.right += 1,
            }
        }
    }
    let missing: Vec<_> = planned
        .keys()
        .filter(|ends| !found.contains_key(*ends))
        .copied()
        .collect();
    let surplus: Vec<_> = found
        .keys()
        .filter(|ends| !planned.contains_key(*ends))
        .copied()
        .collect();
    let groups = groups(&missing, &surplus, |fixed, from, to| {
        judge.cost(fixed, from, to)
    });
    for group in groups {
        let is_beyond = |index: usize| surplus[index].iter().any(|port| !named.contains(&port.0));
        if group.pairs.is_empty() && group.unplanned.is_some_and(is_beyond) {
            result.beyond += 1;
            continue;
        }
        let number = 1 + result.findings.last().map_or(0, |finding| finding.group);
        for (want, have) in group.pairs {
            let (want, have) = (missing[want], surplus[have]);
            let fixed = if have.contains(&want[0]) {
                want[0]
            } else {
                want[1]
            };
            let (from, to) = (groups::other(have, fixed), groups::other(want, fixed));
            // The plan writes the name of the device in another way.
            if absent
                .get(&to.0)
                .is_some_and(|(_, similar)| *similar == Some(from.0))
            {
                continue;
            }
            let kind = Kind::moved(
                group.closed,
                sites.same_device(from.0, to.0),
                judge.other_rail(from.0, to.0),
            );
            result.findings.push(judge.finding(
                kind,
                number,
                Some((want, planned[&want])),
                Some(have),
            ));
            result.steps.push(judge.step(
                number,
                Action::Move,
                fixed,
                Some(from),
                Some(to),
                planned.get(&want).copied(),
            ));
        }
        if let Some(want) = group.missing.map(|index| missing[index]) {
            result.findings.push(judge.finding(
                Kind::Missing,
                number,
                Some((want, planned[&want])),
                None,
            ));
            result.steps.push(judge.step(
                number,
                Action::Connect,
                want[0],
                None,
                Some(want[1]),
                planned.get(&want).copied(),
            ));
        }
        if let Some(have) = group.unplanned.map(|index| surplus[index]) {
            result
                .findings
                .push(judge.finding(Kind::Unplanned, number, None, Some(have)));
            result.steps.push(judge.step(
                number,
                Action::Remove,
                have[0],
                Some(have[1]),
                None,
                None,
            ));
        }
    }
    result
        .findings
        .sort_by_key(|finding| (finding.kind, finding.group));
    result.not_found = absent
        .iter()
        .map(|(site, (cable, similar))| NotFound {
            name: sites.get(*site).name.clone(),
            guid: sites.get(*site).guid,
            line: cable.at.clone(),
            similar: similar.map(|similar| sites.get(similar).name.clone()),
        })
        .collect();
    result
}

fn sorted([one, two]: Ends<Port>) -> Ends<Port> {
    if one <= two { [one, two] } else { [two, one] }
}

/// Returns the planned cables by their ports. Lines without two ports, and those that use a port
/// again, become remarks.
fn planned<'a>(
    plan: &'a Plan,
    sites: &mut Sites<'_>,
    remarks: &mut Vec<String>,
) -> BTreeMap<Ends<Port>, &'a PlannedCable> {
    let (mut planned, mut used) = (BTreeMap::new(), BTreeMap::<Port, &PlannedCable>::new());
    for cable in &plan.cables {
        let [one, two] = &cable.ends;
        let ends = sites
            .resolve(one)
            .and_then(|one| Ok(sorted([one, sites.resolve(two)?])));
        let ends = match ends {
            Ok(ends) if ends[0] == ends[1] => Err("both ends are the same port".to_owned()),
            Ok(ends) if planned.contains_key(&ends) => continue,
            Ok(ends) => match ends.iter().find_map(|port| Some((port, used.get(port)?))) {
                Some(((site, port), first)) => Err(format!(
                    "port {port} of `{}` already has the cable of {}, which counts",
                    sites.get(*site).name,
                    first.at
                )),
                None => Ok(ends),
            },
            Err(error) => Err(error),
        };
        match ends {
            Ok(ends) => {
                used.extend(ends.map(|port| (port, cable)));
                planned.insert(ends, cable);
            }
            Err(error) => remarks.push(format!("{}: {error}", cable.at)),
        }
    }
    planned
}

/// Returns the cables of all subnets with their data rates, without those of aggregation nodes.
fn found(nets: &[NetFile], sites: &mut Sites<'_>) -> BTreeMap<Ends<Port>, Option<f64>> {
    let (mut found, mut used) = (BTreeMap::new(), BTreeSet::new());
    for (subnet, NetFile { fabric, .. }) in nets.iter().enumerate() {
        for (id, device) in fabric.iter() {
            if fabric.is_aggregation_node(device) {
                continue;
            }
            for (port, peer) in device.linked() {
                let far = fabric
                    .find(peer.guid, peer.port)
                    .map(|id| fabric.device(id));
                let ends = [
                    sites.of_device(subnet, id.0, port.num),
                    sites.of_peer(subnet, peer),
                ];
                // If the lines of the two ends differ, the first line counts.
                if far.is_some_and(|far| fabric.is_aggregation_node(far))
                    || ends.iter().any(|port| used.contains(port))
                {
                    continue;
                }
                used.extend(ends);
                found.insert(sorted(ends), port.rate.data_gbps());
            }
        }
    }
    found
}

/// Returns the rail of each HCA port of hosts with several, and of each leaf switch that has
/// planned cables of one rail only.
fn rails<'a>(
    planned: impl Iterator<Item = &'a Ends<Port>>,
    sites: &Sites<'_>,
) -> BTreeMap<SiteId, String> {
    let host_of = |id: SiteId| {
        let site = sites.get(id);
        let host = site.name.split_whitespace().next().unwrap_or_default();
        (site.kind != Some(NodeKind::Switch)).then_some(host)
    };
    let mut hosts: BTreeMap<&str, Vec<(Port, SiteId)>> = BTreeMap::new();
    for [one, two] in planned {
        for (own, far) in [(one, two), (two, one)] {
            let is_leaf = sites.get(far.0).kind == Some(NodeKind::Switch);
            if let Some(host) = host_of(own.0).filter(|host| is_leaf && !host.is_empty()) {
                hosts.entry(host).or_default().push((*own, far.0));
            }
        }
    }
    // The rails of the planned ports of each leaf switch.
    let mut leaves: BTreeMap<SiteId, Vec<(SiteId, String)>> = BTreeMap::new();
    for ports in hosts.values().filter(|ports| ports.len() > 1) {
        let names: Vec<_> = ports
            .iter()
            .map(|((id, port), _)| {
                (
                    sites.get(*id).guid.unwrap_or_default(),
                    *port,
                    &*sites.get(*id).name,
                )
            })
            .collect();
        for (((id, _), leaf), rail) in ports.iter().zip(rail::of_host(&names)) {
            leaves.entry(*leaf).or_default().push((*id, rail));
        }
    }
    let is_of_rail = |ports: &[(SiteId, String)]| {
        ports.len() > 1 && ports.iter().all(|(_, rail)| *rail == ports[0].1)
    };
    let mut rails = BTreeMap::new();
    for (leaf, ports) in leaves {
        if is_of_rail(&ports) {
            rails.insert(leaf, ports[0].1.clone());
            rails.extend(ports);
        }
    }
    rails
}

/// Returns the devices of the plan that the fabric does not have, each with its first cable and a
/// device of a similar name.
fn absent<'a>(
    planned: &BTreeMap<Ends<Port>, &'a PlannedCable>,
    sites: &Sites<'_>,
    named: &BTreeSet<SiteId>,
) -> BTreeMap<SiteId, (&'a PlannedCable, Option<SiteId>)> {
    let mut absent = BTreeMap::new();
    for (ends, cable) in planned {
        for (site, _) in ends
            .iter()
            .filter(|(site, _)| sites.get(*site).device.is_none())
        {
            absent.entry(*site).or_insert((*cable, None));
        }
    }
    // A GUID is no misspelled name.
    let misspelled = |(site, _): &(&SiteId, &mut _)| sites.get(**site).guid.is_none();
    for (site, (_, similar)) in absent.iter_mut().filter(misspelled).take(HINTS) {
        *similar = sites.hint(*site, named);
    }
    absent
}

/// What the kind of a finding depends on.
struct Judge<'a> {
    sites: &'a Sites<'a>,
    rails: BTreeMap<SiteId, String>,
    modules: &'a Modules,
}

impl Judge<'_> {
    /// Returns how unlikely it is that someone plugged a cable of `fixed` into `to` instead of
    /// `from`. Host names and labels are at hosts, so a cable is that of its host.
    fn cost(&self, fixed: Port, from: Port, to: Port) -> u32 {
        if self.sites.same_device(from.0, to.0) {
            0
        } else if self.sites.get(fixed.0).kind == Some(NodeKind::Switch) {
            2
        } else {
            1
        }
    }

    fn other_rail(&self, one: SiteId, two: SiteId) -> bool {
        let subnet = |id| self.sites.get(id).device.map(|(subnet, _)| subnet);
        let differ = |one: Option<_>, two: Option<_>| one.is_some() && two.is_some() && one != two;
        differ(subnet(one), subnet(two))
            || self
                .rails
                .get(&one)
                .is_some_and(|rail| self.rails.get(&two).is_some_and(|other| other != rail))
    }

    /// Returns a finding about a cable that connects the planned ports.
    fn in_place(
        &self,
        ends: Ends<Port>,
        cable: &PlannedCable,
        found: Option<f64>,
        group: usize,
    ) -> Option<Finding> {
        let modules: Vec<_> = ends.iter().filter_map(|port| self.module(*port)).collect();
        let speed = || {
            let (planned, found) = (cable.gbps?, found?);
            (found < planned * (1.0 - TOLERANCE)).then(|| {
                (
                    Kind::WrongSpeed,
                    [format!("{planned:.0} Gb/s"), format!("{found:.0} Gb/s")],
                )
            })
        };
        let part = || {
            let planned = cable.part.as_deref()?;
            let found = modules
                .iter()
                .find_map(|module| module.vendor_pn.as_deref())?
                .trim();
            (!found.eq_ignore_ascii_case(planned))
                .then(|| (Kind::WrongPart, [planned.to_owned(), found.to_owned()]))
        };
        let length = || {
            let planned = cable.length_m?;
            let found = modules.iter().find_map(|module| module.length_m())?;
            let is_right = (found - planned).abs() <= (planned * TOLERANCE).max(0.5);
            (!is_right).then(|| {
                (
                    Kind::WrongLength,
                    [format!("{planned} m"), format!("{found} m")],
                )
            })
        };
        let (kind, values) = speed().or_else(part).or_else(length)?;
        let mut finding = self.finding(kind, group, Some((ends, cable)), Some(ends));
        finding.values = Some(values);
        Some(finding)
    }

    fn module(&self, (site, port): Port) -> Option<&Module> {
        self.modules.get(self.sites.get(site).guid?, port)
    }

    fn end(&self, (site, port): Port) -> End {
        let site = self.sites.get(site);
        End {
            guid: site.guid,
            name: site.name.clone(),
            port,
        }
    }

    fn finding(
        &self,
        kind: Kind,
        group: usize,
        planned: Option<(Ends<Port>, &PlannedCable)>,
        found: Option<Ends<Port>>,
    ) -> Finding {
        let ends = |ends: Ends<Port>| ends.map(|port| self.end(port));
        Finding {
            kind,
            group,
            planned: planned.map(|(planned, _)| ends(planned)),
            found: found.map(ends),
            line: planned.map(|(_, cable)| cable.at.clone()),
            label: planned.and_then(|(_, cable)| cable.label.clone()),
            values: None,
        }
    }

    fn step(
        &self,
        group: usize,
        action: Action,
        end: Port,
        from: Option<Port>,
        to: Option<Port>,
        cable: Option<&PlannedCable>,
    ) -> Step {
        let serial = || {
            let module = self.module(end).or_else(|| self.module(from?))?;
            module
                .vendor_sn
                .as_deref()
                .map(|serial| serial.trim().to_owned())
        };
        Step {
            group,
            action,
            end: self.end(end),
            from: from.map(|port| self.end(port)),
            to: to.map(|port| self.end(port)),
            label: cable.and_then(|cable| cable.label.clone()),
            serial: from.and_then(|_| serial()),
        }
    }
}
