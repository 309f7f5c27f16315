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
mod tests;
