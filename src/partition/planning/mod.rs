//! The planner assigns every device to one *sampler*, the process that queries the ports of the
//! device; with redundancy, to two samplers. A device is a switch with all its ports or one port
//! of an HCA, so the planner never splits a switch. Its terms:
//!
//! - *cap*: the max number of ports of a sampler in one role;
//! - *load* of a sampler: its number of ports, or the measured time to query them;
//! - *hops*: the number of links between a sampler and a device.
//!
//! The planner works in these steps:
//!
//! 1. [`hosts`] finds the samplers in the fabric, and [`rails`] finds them in several subnets.
//! 2. [`rules`] assigns the devices. With a previous plan, [`previous`] first decides which
//!    assignments stay.
//! 3. [`search`] improves the result: first the max load, then the hops.
//! 4. With redundancy, [`secondary`] finds a second sampler for each port.
//! 5. [`proof`] verifies the plan with the fabric alone, independently of the rules.
//!
//! A plan can balance measured times instead of port counts; [`weights`] reads these times.

use std::collections::BTreeMap;

use crate::topology::graph::UNREACHABLE;
use crate::topology::{Fabric, Graph};

pub mod cables;
pub mod changes;
pub mod error;
pub mod hosts;
pub mod plan;
pub mod previous;
pub mod proof;
pub mod rails;
pub mod rules;
pub mod search;
pub mod secondary;
pub(crate) mod task;
pub mod weights;

use error::PlanError;
use hosts::Host;
use plan::{
    Figures, LeftOut, LoadUnit, Measured, Plan, PlanOptions, PlannedDevice, Request, Share,
    left_out,
};
use task::{Owners, Task};

/// Makes a plan with the default options: by the rules, and then improved by the search.
///
/// Equal input gives an equal plan, because nothing is random.
///
/// # Errors
/// Returns an error if there is nothing to sample, or if the samplers are too few for the cap.
pub fn plan(request: &Request<'_>) -> Result<Plan, PlanError> {
    plan_with(request, &PlanOptions::default())
}

/// Makes a plan with options.
///
/// # Errors
/// Returns the errors of [`plan()`]. With redundancy it also returns [`PlanError::NoSecondary`].
pub fn plan_with(request: &Request<'_>, options: &PlanOptions<'_>) -> Result<Plan, PlanError> {
    let Request {
        fabric,
        samplers,
        cap,
    } = request;
    let left_out = something_to_sample(fabric)?;
    let graph = Graph::new(fabric);
    let task = Task::new(fabric, &graph, samplers, *cap, options.weights);
    let needed = task.samplers_needed(*cap);
    if needed > samplers.len() {
        return Err(PlanError::too_few(&task, needed));
    }
    let Primary {
        owners,
        packed,
        moved_more,
        by_rules,
    } = primary(&task, options);
    let before = options
        .previous
        .map(|previous| previous::owners(&task, &previous.secondary));
    let second = options.redundant.then(|| {
        let before = before.unwrap_or_else(|| vec![None; task.devices()]);
        secondary::second(&task, &owners, &before)
            .map_err(|unpaired| PlanError::no_secondary(&task, &owners, &unpaired))
    });
    let second = second.transpose()?;
    let mut plan = plan_of(&task, &owners, left_out);
    if let Some(second) = second {
        plan.secondary = shares_of(&task, &second);
        plan.sharing_a_leaf = sharing_a_leaf(&task, &owners, &second);
    }
    (plan.packed, plan.by_rules) = (packed, by_rules);
    if let Some(weights) = options.weights {
        plan.unit = LoadUnit::Nanoseconds;
        let sampled = task
            .switches()
            .chain(task.hcas())
            .map(|id| fabric.device(id));
        plan.measured = Some(Measured {
            devices: weights.measured(sampled),
            bad: weights.bad.clone(),
        });
    }
    plan.changes = options.previous.map(|previous| {
        previous::changes(fabric, previous, &plan.shares, &plan.secondary, moved_more)
    });
    plan.prove(fabric)?;
    Ok(plan)
}

/// Returns a plan with the primary role only, and with all optional parts empty.
pub(crate) fn plan_of(task: &Task<'_>, owners: &Owners, left_out: Vec<LeftOut>) -> Plan {
    Plan {
        cap: task.cap,
        shares: shares_of(task, owners),
        secondary: Vec::new(),
        left_out,
        packed: false,
        unit: LoadUnit::Ports,
        measured: None,
        figures: search::figures(task, owners),
        by_rules: None,
        lower_bound: task.lower_bound(task.separated(owners).next().is_none()),
        sharing_a_leaf: 0,
        changes: None,
    }
}

/// The primary role, as the rules and the search have made it.
struct Primary {
    owners: Owners,
    packed: bool,
    moved_more: bool,
    by_rules: Option<Figures>,
}

fn primary(task: &Task<'_>, options: &PlanOptions<'_>) -> Primary {
    let nothing = vec![None; task.devices()];
    let kept = options.previous.map_or_else(
        || nothing.clone(),
        |previous| previous::kept(task, &previous.primary),
    );
    // If all kept devices stay, the capacity may be too small for the other devices. In this case
    // only the samplers' own devices stay and, if that is not enough, no device stays.
    let all = rules::by_the_rules(task, &kept).map(|owners| (owners, kept.clone()));
    let moved_more = options.previous.is_some() && all.is_none();
    let less = || {
        options
            .previous
            .map(|_| previous::own_only(task, &kept))
            .and_then(|kept| Some((rules::by_the_rules(task, &kept)?, kept)))
    };
    let none = || rules::by_the_rules(task, &nothing).map(|owners| (owners, nothing.clone()));
    let by_the_rules = all.or_else(less).or_else(none);
    let packed = by_the_rules.is_none();
    let (mut owners, mut kept) = by_the_rules.unwrap_or_else(|| (rules::by_size(task), nothing));
    if let Some(previous) = options.previous {
        let before = previous::owners(task, &previous.primary);
        search::restore(task, &mut owners, &kept, &before);
        // The search must not move a device that is with its previous sampler.
        let stays =
            |(owner, before): (&Option<usize>, Option<usize>)| before.filter(|_| *owner == before);
        kept = owners.iter().zip(before).map(stays).collect();
    }
    let by_rules = options.optimize.then(|| search::figures(task, &owners));
    if options.optimize {
        search::improve(task, &mut owners, &kept);
    }
    Primary {
        owners,
        packed,
        moved_more,
        by_rules,
    }
}

/// Returns the devices that are left out, after checking that others remain to be sampled.
///
/// # Errors
/// Returns [`PlanError::NothingToSample`] if there is no linked port to sample.
pub fn something_to_sample(fabric: &Fabric) -> Result<Vec<LeftOut>, PlanError> {
    let left_out = left_out(fabric);
    let ports = left_out.iter().map(|device| device.ports).sum();
    if fabric.linked_ports() > ports as usize {
        Ok(left_out)
    } else {
        Err(PlanError::NothingToSample { left_out: ports })
    }
}

fn shares_of(task: &Task<'_>, owners: &Owners) -> Vec<Share> {
    let share = |host: &Host| Share {
        host: host.clone(),
        devices: Vec::new(),
        ports: 0,
        load: 0,
    };
    let mut shares: Vec<_> = task.samplers.iter().map(share).collect();
    for (id, owner) in task
        .ids()
        .zip(owners)
        .filter_map(|(id, owner)| owner.map(|owner| (id, owner)))
    {
        let hops = task.hops(owner, id);
        let share = &mut shares[owner];
        share.devices.push(PlannedDevice {
            id,
            hops: (hops != UNREACHABLE).then_some(hops),
        });
        share.ports += task.port_count(id);
        share.load += task.cost(id);
    }
    shares
}

/// Returns the number of ports whose two samplers share a leaf switch.
fn sharing_a_leaf(task: &Task<'_>, first: &Owners, second: &Owners) -> u32 {
    let mut pairs: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (id, (first, second)) in task.ids().zip(first.iter().zip(second)) {
        if let (Some(first), Some(second)) = (first, second) {
            *pairs.entry((*first, *second)).or_default() += task.port_count(id);
        }
    }
    pairs
        .into_iter()
        .filter(|((first, second), _)| secondary::share_a_leaf(task, *first, *second))
        .map(|(_, ports)| ports)
        .sum()
}

#[cfg(test)]
mod tests;
