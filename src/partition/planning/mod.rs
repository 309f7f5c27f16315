//! Every port to exactly one sampler, near it, and no more to any than it can ask.
//!
//! [`hosts`] tells which hosts sample and where they sit, [`rails`] in several subnets; [`rules`] gives them the devices; [`search`] improves what the rules leave
//! open; [`standin`] finds a second sampler for each port; [`previous`] keeps what need not change; [`weights`] tells what a device
//! costs where that was measured; [`cover`] proves, before anything is written, that the result is what was asked for; [`facts`]
//! counts how even it came out, [`report`] and [`notes`] tell it to people and [`picture`] draws it; [`suggest`] finds hosts that
//! would do; [`ldms`] reads and writes the files of LDMS's sampler, and [`adopt`] makes a plan of them.
//!
//! The unit is the device: a switch is never split, and a port of an adapter is a device of its own. Sampled are all linked
//! ports, but for those of devices that [`Reason`] names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use miette::Diagnostic;
use serde::Serialize;

use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph};
use crate::types::{Guid, Lid, NodeKind, Printable};

pub mod hosts;
pub mod previous;
pub mod proof;
pub mod rails;
pub mod rules;
pub mod search;
pub mod secondary;
pub(crate) mod task;
pub mod weights;

pub use hosts::{Host, HostsError};
pub use previous::{Changes, Previous};
pub use weights::{BadLine, Weights, WeightsError};

use task::{Owners, Task};

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

/// How it is to be divided.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether what the rules leave open is improved by search.
    pub optimize: bool,
    /// Whether each port gets a second sampler.
    pub redundant: bool,
    /// What was measured, if time is to be balanced instead of ports.
    pub weights: Option<&'a Weights>,
    /// The plan before this one, if as much of it as possible is to stay.
    pub previous: Option<&'a Previous>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { optimize: true, redundant: false, weights: None, previous: None }
    }
}

/// Who samples what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The most ports of one sampler, in each of its roles.
    pub cap: u32,
    /// One a sampler, in the order of the request.
    pub shares: Vec<Share>,
    /// The second role: as many, and the same hosts in the same order. Empty if none was asked for.
    pub secondary: Vec<Share>,
    /// Devices that nobody samples, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Whether the rules alone led to no plan that fits, so that room went before neighbourhood.
    pub packed: bool,
    /// What a load is measured in.
    pub unit: Unit,
    /// What was measured, if time was balanced.
    pub measured: Option<Measured>,
    /// What came of it in the first role.
    pub figures: Figures,
    /// What the rules alone came to, if the result was improved by search.
    pub by_rules: Option<Figures>,
    /// However the switches are divided, some sampler has this load at least: each whole, and with its adapters if none had to be parted from it.
    pub lower_bound: u64,
    /// Ports whose two samplers both hang on some switch; another one keeps them apart.
    pub sharing_a_leaf: u32,
    /// What is no more as it was in the plan before.
    pub changes: Option<Changes>,
}

/// What a load is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Ports.
    Ports,
    /// Nanoseconds: what one MAD to each port takes, one after another, as it was measured.
    Nanoseconds,
}

/// How much was known of service times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Sampled devices that were measured; all others are taken for the median of their kind.
    pub devices: usize,
    /// Lines that are no record and were skipped.
    pub bad: Vec<BadLine>,
}

/// How good a plan is: less is better, the first before the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Figures {
    /// The greatest load of a sampler.
    pub greatest: u64,
    /// Links between each port and its sampler, in all; 65535 where no way leads there.
    pub hops: u64,
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
    /// Their load, in the plan's unit.
    pub load: u64,
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
    /// No second sampler for some ports.
    #[error("{ports} ports of `{}` find no second sampler: {}: at least {} missing", Printable(host), apart(*permitted, *samplers), counted(*missing))]
    #[diagnostic(help("{}{}", places(suggested, *missing), if *permitted == 0 { "" } else { ";\nor raise the cap (--cap)" }))]
    NoStandIn {
        /// The sampler whose ports these are.
        host: String,
        /// Its ports.
        ports: u32,
        /// How many samplers hang on other leaf switches.
        permitted: usize,
        /// How many samplers there are.
        samplers: usize,
        /// How many more there would have to be, on other leaf switches.
        missing: usize,
        /// Leaf switches without a sampler, the best places first.
        suggested: Vec<Suggestion>,
    },
    /// The check before writing found an error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Uncovered(#[from] proof::Uncovered),
}

/// A good place for one more sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// A leaf switch without a sampler.
    pub switch: String,
    /// The first of its hosts.
    pub host: String,
}

/// Divides the fabric: by the rules, then improved.
///
/// Same fabric and samplers, same plan; nothing is random.
///
/// # Errors
/// When there is nothing to sample, or more than these samplers may take.
pub fn plan(request: &Request<'_>) -> Result<Plan, PlanError> {
    plan_with(request, &Options::default())
}

/// Divides the fabric as it is wished.
///
/// # Errors
/// As [`plan`]; and where a port finds no second sampler, if it was to have one.
pub fn plan_with(request: &Request<'_>, options: &Options<'_>) -> Result<Plan, PlanError> {
    let Request { fabric, samplers, cap } = request;
    let left_out = something_to_sample(fabric)?;
    let graph = Graph::new(fabric);
    let task = Task::new(fabric, &graph, samplers, *cap, options.weights);
    let needed = task.samplers_needed(*cap);
    if needed > samplers.len() {
        return Err(too_few(&task, needed));
    }
    let First { owners, packed, anew, by_rules } = first(&task, options);
    let before = options.previous.map(|previous| previous::owners(&task, &previous.secondary));
    let second = options.redundant.then(|| {
        let before = before.unwrap_or_else(|| vec![None; task.devices()]);
        secondary::second(&task, &owners, &before).map_err(|alone| no_stand_in(&task, &owners, &alone))
    });
    let second = second.transpose()?;
    let mut plan = plan_of(&task, &owners, left_out);
    if let Some(second) = second {
        plan.secondary = shares_of(&task, &second);
        plan.sharing_a_leaf = sharing_a_leaf(&task, &owners, &second);
    }
    (plan.packed, plan.by_rules) = (packed, by_rules);
    if let Some(weights) = options.weights {
        plan.unit = Unit::Nanoseconds;
        plan.measured = Some(Measured { devices: weights.measured(&task), bad: weights.bad.clone() });
    }
    plan.changes = options.previous.map(|previous| Changes::new(fabric, previous, &plan.shares, &plan.secondary, anew));
    plan.prove(fabric)?;
    Ok(plan)
}

/// A plan with one role, of which nothing is known but who samples what.
pub(crate) fn plan_of(task: &Task<'_>, owners: &Owners, left_out: Vec<LeftOut>) -> Plan {
    Plan {
        cap: task.cap,
        shares: shares_of(task, owners),
        secondary: Vec::new(),
        left_out,
        packed: false,
        unit: Unit::Ports,
        measured: None,
        figures: search::figures(task, owners),
        by_rules: None,
        lower_bound: task.lower_bound(task.strays(owners).next().is_none()),
        sharing_a_leaf: 0,
        changes: None,
    }
}

/// The first role.
struct First {
    owners: Owners,
    packed: bool,
    anew: bool,
    by_rules: Option<Figures>,
}

fn first(task: &Task<'_>, options: &Options<'_>) -> First {
    let nothing = vec![None; task.devices()];
    let kept = options.previous.map_or_else(|| nothing.clone(), |previous| previous::kept(task, &previous.primary));
    // What is kept may leave gaps that are too small for the rest: then only what is a sampler's own is kept, then nothing.
    let all = rules::by_the_rules(task, &kept).map(|owners| (owners, kept.clone()));
    let anew = options.previous.is_some() && all.is_none();
    let less =
        || options.previous.map(|_| previous::own_only(task, &kept)).and_then(|kept| Some((rules::by_the_rules(task, &kept)?, kept)));
    let none = || rules::by_the_rules(task, &nothing).map(|owners| (owners, nothing.clone()));
    let by_the_rules = all.or_else(less).or_else(none);
    let packed = by_the_rules.is_none();
    let (mut owners, mut kept) = by_the_rules.unwrap_or_else(|| (rules::room_first(task), nothing));
    if let Some(previous) = options.previous {
        let before = previous::owners(task, &previous.primary);
        search::restore(task, &mut owners, &kept, &before);
        // What is where it was stays there.
        let stays = |(owner, before): (&Option<usize>, Option<usize>)| before.filter(|_| *owner == before);
        kept = owners.iter().zip(before).map(stays).collect();
    }
    let by_rules = options.optimize.then(|| search::figures(task, &owners));
    if options.optimize {
        search::improve(task, &mut owners, &kept);
    }
    First { owners, packed, anew, by_rules }
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

fn shares_of(task: &Task<'_>, owners: &Owners) -> Vec<Share> {
    let share = |host: &Host| Share { host: host.clone(), devices: Vec::new(), ports: 0, load: 0 };
    let mut shares: Vec<_> = task.samplers.iter().map(share).collect();
    for (id, owner) in task.ids().zip(owners).filter_map(|(id, owner)| owner.map(|owner| (id, owner))) {
        let hops = task.hops(owner, id);
        let share = &mut shares[owner];
        share.devices.push(Held { id, hops: (hops != UNREACHABLE).then_some(hops) });
        share.ports += task.port_count(id);
        share.load += task.cost(id);
    }
    shares
}

/// Ports whose samplers both hang on some switch.
fn sharing_a_leaf(task: &Task<'_>, first: &Owners, second: &Owners) -> u32 {
    let mut pairs: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (id, (first, second)) in task.ids().zip(first.iter().zip(second)) {
        if let (Some(first), Some(second)) = (first, second) {
            *pairs.entry((*first, *second)).or_default() += task.port_count(id);
        }
    }
    pairs.into_iter().filter(|((first, second), _)| secondary::share_a_leaf(task, *first, *second)).map(|(_, ports)| ports).sum()
}

fn no_stand_in(task: &Task<'_>, owners: &Owners, alone: &secondary::Alone) -> PlanError {
    let of_host = task.ids().zip(owners).filter(|(_, owner)| **owner == Some(alone.sampler));
    PlanError::NoStandIn {
        host: task.samplers[alone.sampler].name.clone(),
        ports: of_host.map(|(id, _)| task.port_count(id)).sum(),
        permitted: alone.permitted,
        samplers: task.samplers.len(),
        missing: alone.missing,
        suggested: suggestions(task, alone.missing),
    }
}

fn too_few(task: &Task<'_>, needed: usize) -> PlanError {
    let samplers = task.samplers.len();
    PlanError::TooFewSamplers {
        ports: task.all_ports(),
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
    pub fn given<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = proof::Given> + 'a {
        proof::given(fabric, &self.shares)
    }

    /// Proves both roles.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn prove(&self, fabric: &Fabric) -> Result<(), proof::Uncovered> {
        proof::prove(fabric, self.cap, self.given(fabric))?;
        if self.secondary.is_empty() {
            return Ok(());
        }
        proof::prove(fabric, self.cap, proof::given(fabric, &self.secondary))?;
        let hosts: Vec<_> = self.shares.iter().map(|share| share.host.clone()).collect();
        proof::prove_apart(fabric, &hosts, self.given(fabric), proof::given(fabric, &self.secondary))
    }
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (on {})", Printable(&self.host), Printable(&self.switch))
    }
}

/// `1 sampler`, `2 samplers`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Who could stand in for a sampler.
fn apart(permitted: usize, samplers: usize) -> String {
    match permitted {
        0 => "all samplers hang on the same leaf switch".to_owned(),
        _ => format!("{permitted} of {samplers} samplers hang on other leaf switches, without room for them"),
    }
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
