//! Every port to exactly one sampler, near it, and no more to any than it can ask.
//!
//! [`hosts`] tells which hosts sample and where they sit, [`rails`] in several subnets; [`rules`] gives them the devices; [`cover`] proves, before anything is
//! written, that the result is what was asked for; [`facts`] counts how even it came out, [`report`] tells it to people
//! and [`picture`] draws it; [`suggest`] finds hosts that would do; [`ldms`] reads and writes the files of LDMS's sampler, and [`adopt`] makes a plan of them.
//!
//! The unit is the device: a switch is never split, and a port of an adapter is a device of its own. Sampled are all linked
//! ports, but for those of devices that [`Reason`] names.

use std::collections::BTreeSet;
use std::fmt;

use miette::Diagnostic;
use rayon::prelude::*;
use serde::Serialize;

use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph};
use crate::types::{Guid, Lid, NodeKind, Printable};

pub mod adopt;
pub mod cover;
pub mod facts;
pub mod hosts;
pub mod ldms;
pub mod picture;
pub mod rails;
pub mod report;
pub mod rules;
pub mod suggest;

pub use hosts::{Host, HostsError};
pub use report::Report;

use rules::{Owners, Task};

/// What is to be divided among whom.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What there is.
    pub fabric: &'a Fabric,
    /// Who samples, as [`hosts::locate`] found them: sorted by name.
    pub samplers: Vec<Host>,
    /// The most ports of one sampler.
    pub cap: u32,
}

/// Who samples what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The most ports of one sampler.
    pub cap: u32,
    /// One a sampler, in the order of the request.
    pub shares: Vec<Share>,
    /// Devices that nobody samples, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Whether the rules alone led to no plan that fits, so that room went before neighbourhood.
    pub packed: bool,
}

/// What one sampler got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The sampler.
    pub host: Host,
    /// Ascending by (GUID, port).
    pub devices: Vec<Held>,
    /// Linked ports of these devices.
    pub ports: u32,
}

/// A device in the hands of a sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The device.
    pub id: DeviceId,
    /// Links between the sampler and the device; `None` where no way leads there.
    pub hops: Option<u16>,
}

/// A device with a link that nobody samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID.
    pub lid: Lid,
    /// What it is.
    pub kind: NodeKind,
    /// Its name; written by strangers.
    pub name: String,
    /// Its linked ports.
    pub ports: u32,
    /// The line of the net file that tells of the first of them.
    pub line: u32,
    /// Which of the net files.
    pub file: u16,
    /// Why.
    pub reason: Reason,
}

/// Why nobody samples a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No LID was known: it cannot be addressed.
    NoLid,
    /// A router: its counters are another administrator's, too.
    Router,
    /// The SHARP engine of a switch. The switch's port that leads to it is sampled.
    AggregationNode,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum PlanError {
    /// No port at all.
    #[error("nothing to sample: the net file tells of no linked port{}", but(*left_out))]
    #[diagnostic(help("run `ibnetdiscover -p` while the fabric is up; in its output a linked port has ` - ` and a peer"))]
    NothingToSample {
        /// Linked ports that are there but are left out.
        left_out: u32,
    },
    /// The samplers are too few.
    #[error(
        "{ports} ports do not fit on {} with at most {cap} ports each: at least {} missing",
        count(*samplers, "sampler"), counted(*missing)
    )]
    #[diagnostic(help("{}{}", places(suggested, *missing), caps(*enough, *samplers)))]
    TooFewSamplers {
        /// Linked ports to sample.
        ports: u32,
        /// How many samplers there are.
        samplers: usize,
        /// The cap.
        cap: u32,
        /// How many more there would have to be.
        missing: usize,
        /// Leaf switches without a sampler, the best places first.
        suggested: Vec<Suggestion>,
        /// The cap that these samplers would need.
        enough: u32,
    },
    /// The check before writing found an error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Uncovered(#[from] cover::Uncovered),
}

/// A good place for one more sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// A leaf switch without a sampler.
    pub switch: String,
    /// The first of its hosts.
    pub host: String,
}

/// Divides the fabric.
///
/// Same fabric and samplers, same plan; nothing is random.
///
/// # Errors
/// When there is nothing to sample, or more than these samplers may take.
pub fn plan(request: &Request<'_>) -> Result<Plan, PlanError> {
    let Request { fabric, samplers, cap } = request;
    let left_out = something_to_sample(fabric)?;
    let task = Task::new(fabric, samplers, *cap);
    let needed = task.samplers_needed(*cap);
    if needed > samplers.len() {
        return Err(too_few(&task, needed));
    }
    let (owners, packed) = match rules::by_the_rules(&task) {
        Some(owners) => (owners, false),
        None => (rules::room_first(&task), true),
    };
    let plan = Plan { cap: *cap, shares: shares(&task, &owners), left_out, packed };
    cover::prove(fabric, *cap, plan.given(fabric))?;
    Ok(plan)
}

/// The devices that are left out, if there are others.
///
/// # Errors
/// When there is no linked port to sample.
pub fn something_to_sample(fabric: &Fabric) -> Result<Vec<LeftOut>, PlanError> {
    let left_out = left_out(fabric);
    let ports = left_out.iter().map(|device| device.ports).sum();
    if fabric.linked_ports() > ports as usize { Ok(left_out) } else { Err(PlanError::NothingToSample { left_out: ports }) }
}

/// Devices with a link that are not sampled, ascending by (GUID, port).
pub fn left_out(fabric: &Fabric) -> Vec<LeftOut> {
    let out = |device: &Device| {
        let (first, _) = device.linked().next()?;
        let reason = Reason::of(fabric, device)?;
        let (ports, line, file) = (device.linked_ports() as u32, first.line, first.file);
        Some(LeftOut { guid: device.guid, lid: device.lid, kind: device.kind, name: device.name.clone(), ports, line, file, reason })
    };
    fabric.devices().iter().filter_map(out).collect()
}

fn shares(task: &Task<'_>, owners: &Owners) -> Vec<Share> {
    let mut shares: Vec<_> = task.samplers.iter().map(|host| Share { host: host.clone(), devices: Vec::new(), ports: 0 }).collect();
    for (id, device) in task.fabric.iter() {
        if let Some(owner) = owners[id.0 as usize] {
            let hops = task.hops(owner, id);
            let share = &mut shares[owner];
            share.devices.push(Held { id, hops: (hops != UNREACHABLE).then_some(hops) });
            share.ports += device.linked_ports() as u32;
        }
    }
    shares
}

/// Links from each sampler to each device.
fn distances(graph: &Graph, samplers: &[Host]) -> Vec<Vec<u16>> {
    samplers.par_iter().map(|host| graph.hops_from(host.at.iter().copied())).collect()
}

fn too_few(task: &Task<'_>, needed: usize) -> PlanError {
    let samplers = task.samplers.len();
    PlanError::TooFewSamplers {
        ports: task.ports(),
        samplers,
        cap: task.cap,
        missing: needed - samplers,
        suggested: suggestions(task, needed - samplers),
        enough: task.cap_needed(samplers),
    }
}

/// Leaf switches with no sampler on them, those with most to sample first.
fn suggestions(task: &Task<'_>, most: usize) -> Vec<Suggestion> {
    let mut free: Vec<_> = task.leaves().filter(|leaf| task.attached(*leaf).next().is_none()).collect();
    free.sort_by_key(|leaf| (std::cmp::Reverse(task.weight(*leaf)), *leaf));
    // A host is suggested once, however many leaves it touches, and never if it samples already.
    let mut taken: BTreeSet<&str> = task.samplers.iter().map(|host| &*host.name).chain([""]).collect();
    let mut suggestion = |leaf| {
        let on_leaf = task.graph.neighbours(leaf).iter().map(|id| task.fabric.device(*id));
        let adapters = on_leaf.filter(|device| device.kind == NodeKind::Hca && Reason::of(task.fabric, device).is_none());
        let hosts = adapters.filter(|device| !task.fabric.is_aggregation_node(device)).map(Device::host);
        let host = hosts.filter(|host| !taken.contains(host)).min()?;
        taken.insert(host);
        Some(Suggestion { switch: task.fabric.device(leaf).name.clone(), host: host.to_owned() })
    };
    free.into_iter().filter_map(&mut suggestion).take(most).collect()
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NoLid, Self::Router, Self::AggregationNode];

    /// Why a device is left out, if it is.
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

    /// The heading of such devices in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoLid => "no LID: cannot be addressed",
            Self::Router => "router",
            Self::AggregationNode => "aggregation node (SHARP)",
        }
    }
}

impl Plan {
    /// Every port that was given to a sampler, with the sampler's index.
    pub fn given<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = cover::Given> + 'a {
        let of_share = move |(sampler, share): (usize, &'a Share)| {
            let devices = share.devices.iter().map(move |held| fabric.device(held.id));
            devices
                .flat_map(move |device| device.linked().map(move |(port, _)| cover::Given { sampler, guid: device.guid, port: port.num }))
        };
        self.shares.iter().enumerate().flat_map(of_share)
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (on {})", Printable(&self.host), Printable(&self.switch))
    }
}

/// `1 sampler`, `2 samplers`.
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn counted(missing: usize) -> String {
    if missing == 1 { "1 is".to_owned() } else { format!("{missing} are") }
}

fn but(left_out: u32) -> String {
    if left_out == 0 { String::new() } else { format!(" but {left_out} of routers, aggregation nodes and devices without a LID") }
}

fn places(suggested: &[Suggestion], missing: usize) -> String {
    const MOST: usize = 5;
    let some: Vec<_> = suggested.iter().take(MOST).map(ToString::to_string).collect();
    match some.is_empty() {
        true => format!("add {}; every leaf switch has one already, so any hosts will do", count(missing, "sampler")),
        false => {
            let more = if missing > some.len() { format!(" and {} more", missing - some.len()) } else { String::new() };
            format!("add {}, best on leaf switches without one: {}{more}", count(missing, "sampler"), some.join(", "))
        }
    }
}

fn caps(enough: u32, samplers: usize) -> String {
    format!(";\nor raise the cap: {} would do with `--cap {enough}`", count(samplers, "sampler"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::{self, Blueprint, FatTree};

    fn read(blueprint: &Blueprint) -> Fabric {
        ports_report::parse(blueprint.ports_report().as_bytes(), "net.p").unwrap().fabric
    }

    fn planned(fabric: &Fabric, samplers: &str, cap: u32) -> Result<Plan, PlanError> {
        let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], fabric).unwrap();
        plan(&Request { fabric, samplers, cap })
    }

    /// The host that samples each device, by the device's name.
    fn sampler_of<'a>(plan: &'a Plan, fabric: &Fabric, name: &str) -> &'a str {
        let has = |share: &&Share| share.devices.iter().any(|held| fabric.device(held.id).name == name);
        &plan.shares.iter().find(has).unwrap_or_else(|| panic!("{name} is sampled")).host.name
    }

    const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

    #[test]
    fn the_fabric_of_the_paper_on_eight_samplers() {
        let fabric = read(&synthetic::stria());
        let plan = planned(&fabric, EIGHT, 150).unwrap();
        let ports: Vec<_> = plan.shares.iter().map(|share| share.ports).collect();
        assert_eq!((ports.iter().sum::<u32>(), plan.packed, plan.left_out.len()), (968, false, 0));
        // As even as switches that stay whole with their adapters allow by these rules: 121 would be the mean.
        assert_eq!(ports, [136, 108, 108, 120, 120, 120, 120, 136]);
        for (host, leaf) in [("node00001", "leaf01"), ("node00121", "leaf06")] {
            assert_eq!(sampler_of(&plan, &fabric, leaf), host);
            assert_eq!(sampler_of(&plan, &fabric, &format!("{host} mlx5_0")), host);
        }
        assert_eq!(sampler_of(&plan, &fabric, "node00002 mlx5_0"), "node00001", "an adapter follows its switch");
    }

    #[test]
    fn of_several_samplers_on_a_switch_the_least_loaded_takes_it() {
        let mut net = Blueprint::new("EDR");
        let (a, b) = (net.switch("a", 8), net.switch("b", 8));
        let one = net.adapter("one mlx5_0", 2);
        let two = net.adapter("two mlx5_0", 1);
        net.cable((one, 1), (a, 1));
        net.cable((one, 2), (b, 1));
        net.cable((two, 1), (b, 2));
        net.cable((a, 8), (b, 8));
        let fabric = read(&net);
        let plan = planned(&fabric, "one,two", 150).unwrap();
        assert_eq!((sampler_of(&plan, &fabric, "b"), sampler_of(&plan, &fabric, "a")), ("two", "one"));
        let hops: Vec<_> = plan.shares[1].devices.iter().map(|held| held.hops).collect();
        assert_eq!(hops, [Some(0), Some(1)]);
    }

    #[test]
    fn higher_tiers_go_round() {
        let fabric = read(&FatTree { leaves: 4, hosts: 4, spines: 4, trunk: 1, radix: 8 }.blueprint());
        let plan = planned(&fabric, "node[00001,00005,00009,00013]", 150).unwrap();
        let spines: Vec<_> = (1..=4).map(|n| sampler_of(&plan, &fabric, &format!("spine{n:02}"))).collect();
        assert_eq!(spines, ["node00001", "node00005", "node00009", "node00013"]);
    }

    #[test]
    fn a_host_with_many_rails_takes_as_many_leaves_as_the_cap_allows() {
        let mut net = Blueprint::new("NDR");
        let leaves: Vec<_> = (0..4).map(|n| net.switch(&format!("leaf{n}"), 16)).collect();
        for host in 0..8 {
            let gpu = net.adapter(&format!("gpu{host} mlx5_0"), 4);
            for (rail, leaf) in leaves.iter().enumerate() {
                net.cable((gpu, rail + 1), (*leaf, host + 1));
            }
        }
        let fabric = read(&net);
        // 4 leaves of 8 ports, 8 hosts of 4 ports: 64 ports; own adapters 4, then two leaves of 8 fit into 20.
        let plan = planned(&fabric, "gpu[0-3]", 20).unwrap();
        let switches = |share: &Share| share.devices.iter().filter(|held| fabric.device(held.id).kind == NodeKind::Switch).count();
        assert!(plan.shares.iter().all(|share| switches(share) <= 2 && share.ports <= 20));
        assert_eq!(plan.shares.iter().map(switches).sum::<usize>(), 4);
        let own = |share: &Share| share.host.own.iter().all(|own| share.devices.iter().any(|held| held.id == *own));
        assert!(plan.shares.iter().all(own), "own adapters go before own switches");
    }

    #[test]
    fn what_cannot_or_should_not_be_asked_is_left_out_with_its_reason() {
        let text = "\
SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )
SW     4  2 0x0000000000200006 4x EDR - CA    18  1 0x000000000020000e ( 'leaf0' - 'Mellanox Technologies Aggregation Node' )
SW     4  3 0x0000000000200006 4x EDR - RT    19  1 0x0000000000300001 ( 'leaf0' - 'router' )
SW     4  4 0x0000000000200006 4x EDR - SW     0  1 0x0000000000400001 ( 'leaf0' - 'dumb' )
CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )
CA    18  1 0x000000000020000e 4x EDR - SW     4  2 0x0000000000200006 ( 'Mellanox Technologies Aggregation Node' - 'leaf0' )
RT    19  1 0x0000000000300001 4x EDR - SW     4  3 0x0000000000200006 ( 'router' - 'leaf0' )
SW     0  1 0x0000000000400001 ?? ??? - SW     4  4 0x0000000000200006 ( 'dumb' - 'leaf0' )
SW     0  2 0x0000000000400001 ?? ??? - CA    20  1 0x0000000000100002 ( 'dumb' - 'node2 mlx5_0' )
CA    20  1 0x0000000000100002 4x EDR - SW     0  2 0x0000000000400001 ( 'node2 mlx5_0' - 'dumb' )
";
        let fabric = ports_report::parse(text.as_bytes(), "net.p").unwrap().fabric;
        let plan = planned(&fabric, "node1", 150).unwrap();
        let told: Vec<_> = plan.left_out.iter().map(|out| (out.line, out.ports, out.reason)).collect();
        assert_eq!(told, [(6, 1, Reason::AggregationNode), (7, 1, Reason::Router), (8, 2, Reason::NoLid)]);
        // The leaf's ports that lead to them are sampled, and so is the adapter behind a switch without a LID.
        assert_eq!(plan.shares[0].ports, 6);
    }

    #[test]
    fn nothing_to_sample_is_said() {
        let down = b"SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'\n";
        let fabric = ports_report::parse(down, "net.p").unwrap().fabric;
        let error = plan(&Request { fabric: &fabric, samplers: Vec::new(), cap: 150 }).unwrap_err();
        assert_eq!(error.to_string(), "nothing to sample: the net file tells of no linked port");
    }

    #[test]
    fn too_few_samplers_are_told_how_many_more_and_where() {
        let fabric = read(&synthetic::stria());
        let error = planned(&fabric, "node[00001,00025]", 150).unwrap_err();
        assert_eq!(error.to_string(), "968 ports do not fit on 2 samplers with at most 150 ports each: at least 5 are missing");
        let help = error.help().unwrap().to_string();
        assert!(help.contains("add 5 samplers, best on leaf switches without one: node00049 (on leaf03), node00073 (on leaf04)"), "{help}");
        assert!(help.contains("2 samplers would do with `--cap 484`"), "{help}");
        assert!(planned(&fabric, "node[00001,00025]", 484).is_ok());
        assert!(planned(&fabric, "node[00001,00025,00049,00073,00097,00121,00145]", 150).is_ok());
    }

    #[test]
    fn a_switch_larger_than_the_cap_has_a_sampler_to_itself() {
        let fabric = read(&FatTree { leaves: 1, hosts: 20, spines: 1, trunk: 1, radix: 36 }.blueprint());
        let plan = planned(&fabric, "node[00001-00004]", 15).unwrap();
        let over: Vec<_> = plan.shares.iter().filter(|share| share.ports > 15).collect();
        assert_eq!((over.len(), over[0].devices.len(), over[0].ports), (1, 1, 21));
    }

    #[test]
    fn room_goes_before_neighbourhood() {
        // 16 leaves of 4 ports and 8 ports of spines and 32 adapters in 104 ports: not one may stay free.
        let fabric = read(&FatTree { leaves: 8, hosts: 4, spines: 2, trunk: 1, radix: 8 }.blueprint());
        for cap in 8..=104 {
            let most = 96_u32.div_ceil(cap);
            let names: Vec<_> = (1..=most).map(|n| format!("node{n:05}")).collect();
            match planned(&fabric, &names.join(","), cap) {
                Ok(plan) => assert_eq!(plan.shares.iter().map(|share| share.ports).sum::<u32>(), fabric.linked_ports() as u32),
                Err(error) => assert!(matches!(error, PlanError::TooFewSamplers { missing: 1.., .. }), "{error}"),
            }
        }
    }

    #[test]
    fn leaves_go_before_spines_where_that_keeps_adapters_with_their_switch() {
        let fabric = read(&FatTree { leaves: 4, hosts: 4, spines: 4, trunk: 2, radix: 12 }.blueprint());
        let plan = planned(&fabric, "node[00001,00002,00005]", 34).unwrap();
        for n in (1..=16).filter(|n| ![1, 2, 5].contains(n)) {
            let leaf = format!("leaf{:02}", (n - 1) / 4 + 1);
            assert_eq!(sampler_of(&plan, &fabric, &format!("node{n:05} mlx5_0")), sampler_of(&plan, &fabric, &leaf));
        }
    }

    #[test]
    fn adapters_without_room_go_to_the_nearest_sampler() {
        let mut net = Blueprint::new("EDR");
        let row: Vec<_> = ["a", "b", "c"].iter().map(|name| net.switch(name, 12)).collect();
        net.cable((row[0], 12), (row[1], 11));
        net.cable((row[1], 12), (row[2], 11));
        for (switch, hosts) in [(0, 6), (1, 1), (2, 1)] {
            for n in 1..=hosts {
                let host = net.adapter(&format!("{}{n} mlx5_0", ["a", "b", "c"][switch]), 1);
                net.cable((host, 1), (row[switch], n));
            }
        }
        let fabric = read(&net);
        let plan = planned(&fabric, "a1,b1,c1", 10).unwrap();
        // The sampler at c has less to do, but is one hop farther.
        assert_eq!(plan.shares.iter().map(|share| share.ports).collect::<Vec<_>>(), [10, 7, 3]);
    }

    #[test]
    fn a_tie_goes_to_the_nearer_sampler() {
        let mut net = Blueprint::new("EDR");
        let (a, b, far) = (net.switch("a", 8), net.switch("b", 8), net.switch("far", 8));
        net.cable((a, 8), (b, 8));
        net.cable((b, 7), (far, 7));
        net.cable((b, 6), (far, 6));
        for (name, switch, port) in [("a1", a, 1), ("a2", a, 2), ("b1", b, 1)] {
            let host = net.adapter(&format!("{name} mlx5_0"), 1);
            net.cable((host, 1), (switch, port));
        }
        let fabric = read(&net);
        // Both have five ports before `far` is given; `a1` is the earlier name.
        assert_eq!(sampler_of(&planned(&fabric, "a1,b1", 150).unwrap(), &fabric, "far"), "b1");
    }

    #[test]
    fn a_host_with_many_rails_is_suggested_once() {
        let mut net = Blueprint::new("EDR");
        let (top, one, two) = (net.switch("top", 8), net.switch("one", 8), net.switch("two", 8));
        let admin = net.adapter("admin mlx5_0", 1);
        net.cable((admin, 1), (top, 1));
        net.cable((top, 7), (one, 7));
        net.cable((top, 8), (two, 7));
        for n in 1..=3 {
            let host = net.adapter(&format!("n{n} mlx5_0"), 2);
            net.cable((host, 1), (one, n));
            net.cable((host, 2), (two, n));
        }
        let error = planned(&read(&net), "admin", 5).unwrap_err();
        let PlanError::TooFewSamplers { suggested, .. } = error else { panic!("{error}") };
        assert_eq!(suggested.iter().map(ToString::to_string).collect::<Vec<_>>(), ["n1 (on one)", "n2 (on two)"]);
    }

    fn trees() -> impl Strategy<Value = FatTree> {
        (1..8_usize, 1..7_usize, 1..4_usize, 1..3_usize).prop_map(|(leaves, hosts, spines, trunk)| FatTree {
            leaves,
            hosts,
            spines,
            trunk,
            radix: 36,
        })
    }

    proptest! {
        #[test]
        fn every_plan_covers_each_port_once_under_the_cap_and_splits_no_switch(
            (tree, picks) in trees().prop_flat_map(|tree| (Just(tree), proptest::collection::btree_set(1..=tree.leaves * tree.hosts, 1..12))),
            cap in 1..80_u32,
        ) {
            let fabric = read(&tree.blueprint());
            let names: Vec<_> = picks.iter().map(|n| format!("node{n:05}")).collect();
            match planned(&fabric, &names.join(","), cap) {
                Ok(plan) => {
                    // The prover is another witness than the plan: it has its own tests.
                    prop_assert_eq!(cover::prove(&fabric, cap, plan.given(&fabric)), Ok(()));
                    prop_assert_eq!(plan.given(&fabric).count(), fabric.linked_ports());
                    let alone = |share: &Share| share.ports <= cap || share.devices.len() == 1;
                    prop_assert!(plan.shares.iter().all(alone));
                    let counted = |share: &Share| share.devices.iter().map(|held| fabric.device(held.id).linked_ports() as u32).sum::<u32>();
                    prop_assert!(plan.shares.iter().all(|share| counted(share) == share.ports));
                }
                Err(PlanError::TooFewSamplers { missing, enough, .. }) => {
                    prop_assert!(planned(&fabric, &names.join(","), enough).is_ok(), "cap {} is not enough", enough);
                    let more: Vec<_> = (1..=tree.leaves * tree.hosts).filter(|n| !picks.contains(n)).take(missing).collect();
                    if more.len() == missing {
                        let names: Vec<_> = picks.iter().chain(&more).map(|n| format!("node{n:05}")).collect();
                        prop_assert!(planned(&fabric, &names.join(","), cap).is_ok(), "{} more are not enough", missing);
                    }
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }

        #[test]
        fn the_order_of_lines_and_names_changes_nothing(
            tree in trees(),
            shuffled in Just((0..400).collect::<Vec<usize>>()).prop_shuffle(),
        ) {
            let text = tree.blueprint().ports_report();
            let lines: Vec<_> = text.lines().collect();
            let other: Vec<_> = shuffled.iter().chain(&(400..lines.len()).collect::<Vec<_>>()).filter_map(|n| lines.get(*n).copied()).collect();
            let hosts = tree.leaves * tree.hosts;
            let names: Vec<_> = (1..=hosts.min(5)).map(|n| format!("node{n:05}")).collect();
            let backwards: Vec<_> = names.iter().rev().cloned().collect();
            let (one, two) = (read(&tree.blueprint()), ports_report::parse(other.join("\n").as_bytes(), "net.p").unwrap().fabric);
            let (one, two) = (planned(&one, &names.join(","), 500).unwrap(), planned(&two, &backwards.join(","), 500).unwrap());
            prop_assert_eq!(one, two);
        }
    }
}
