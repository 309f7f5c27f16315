//! Errors of the planner. Each one explains why there is no plan, and how to get one.

use std::collections::BTreeSet;
use std::fmt;

use ibnet_record::count::count;
use ibnet_record::types::{NodeKind, Printable};
use miette::Diagnostic;

use super::plan::Reason;
use super::proof::ProofError;
use super::secondary::Unpaired;
use super::task::{Owners, Task};
use crate::topology::Device;

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum PlanError {
    /// The fabric has no port to sample.
    #[error("cannot make a plan: the net file has no linked port{}", except(*left_out))]
    #[diagnostic(help(
        "run `ibnet-gen discover` while the fabric is up; in its output a linked port has ` - ` and a peer"
    ))]
    NothingToSample {
        /// Number of linked ports that are left out.
        left_out: u32,
    },
    /// The ports do not fit on the samplers.
    #[error(
        "cannot place {ports} ports: they do not fit on {} with at most {cap} ports each; missing samplers: at least {missing}",
        count(*samplers, "sampler")
    )]
    #[diagnostic(help("{}{}", places(suggested, *missing), caps(*enough, *samplers)))]
    TooFewSamplers {
        /// Number of linked ports to sample.
        ports: u32,
        /// Number of samplers.
        samplers: usize,
        /// The cap.
        cap: u32,
        /// Lower bound of the number of missing samplers.
        missing: usize,
        /// Leaf switches without a sampler, the best locations first.
        suggested: Vec<Suggestion>,
        /// Cap with which these samplers would be sufficient.
        enough: u32,
    },
    /// No second sampler can be found for some ports.
    #[error(
        "cannot find a second sampler for {ports} ports of `{}`: {}; missing samplers: at least {missing}",
        Printable(host), candidates(*permitted, *samplers)
    )]
    #[diagnostic(help("{}{}", places(suggested, *missing), if *permitted == 0 { "" } else { ";\nor raise the cap (--cap)" }))]
    NoSecondary {
        /// Primary sampler of these ports.
        host: String,
        /// Number of these ports.
        ports: u32,
        /// Number of samplers on other leaf switches.
        permitted: usize,
        /// Number of samplers.
        samplers: usize,
        /// Lower bound of the number of missing samplers on other leaf switches.
        missing: usize,
        /// Leaf switches without a sampler, the best locations first.
        suggested: Vec<Suggestion>,
    },
    /// The proof found an error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Proof(#[from] ProofError),
}

/// A good location for one more sampler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// Leaf switch without a sampler.
    pub switch: String,
    /// First host on the switch.
    pub host: String,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (on {})",
            Printable(&self.host),
            Printable(&self.switch)
        )
    }
}

impl PlanError {
    pub(super) fn no_secondary(task: &Task<'_>, owners: &Owners, unpaired: &Unpaired) -> Self {
        let of_host = task
            .ids()
            .zip(owners)
            .filter(|(_, owner)| **owner == Some(unpaired.sampler));
        Self::NoSecondary {
            host: task.samplers[unpaired.sampler].name.clone(),
            ports: of_host.map(|(id, _)| task.port_count(id)).sum(),
            permitted: unpaired.permitted,
            samplers: task.samplers.len(),
            missing: unpaired.missing,
            suggested: suggestions(task, unpaired.missing),
        }
    }

    pub(super) fn too_few(task: &Task<'_>, needed: usize) -> Self {
        let samplers = task.samplers.len();
        Self::TooFewSamplers {
            ports: task.all_ports(),
            samplers,
            cap: task.cap,
            missing: needed - samplers,
            suggested: suggestions(task, needed - samplers),
            enough: task.cap_needed(samplers),
        }
    }
}

/// Returns up to `max` leaf switches without a sampler, those with the most ports first.
fn suggestions(task: &Task<'_>, max: usize) -> Vec<Suggestion> {
    let mut free: Vec<_> = task
        .leaves()
        .filter(|leaf| task.attached(*leaf).next().is_none())
        .collect();
    free.sort_by_key(|leaf| (std::cmp::Reverse(task.weight(*leaf)), *leaf));
    // Each host is suggested at most once, even if it is connected to several leaf switches, and
    // never if it is already a sampler.
    let mut taken: BTreeSet<&str> = task
        .samplers
        .iter()
        .map(|host| &*host.name)
        .chain([""])
        .collect();
    let mut suggestion = |leaf| {
        let on_leaf = task
            .graph
            .neighbours(leaf)
            .iter()
            .map(|id| task.fabric.device(*id));
        let hcas = on_leaf.filter(|device| {
            device.kind == NodeKind::Hca && Reason::of(task.fabric, device).is_none()
        });
        let hosts = hcas
            .filter(|device| !task.fabric.is_aggregation_node(device))
            .map(Device::host);
        let host = hosts.filter(|host| !taken.contains(host)).min()?;
        taken.insert(host);
        Some(Suggestion {
            switch: task.fabric.device(leaf).name.clone(),
            host: host.to_owned(),
        })
    };
    free.into_iter()
        .filter_map(&mut suggestion)
        .take(max)
        .collect()
}

fn candidates(permitted: usize, samplers: usize) -> String {
    match permitted {
        0 => "all samplers are on the same leaf switch".to_owned(),
        _ => format!(
            "{permitted} of {samplers} samplers are on other leaf switches and have no capacity"
        ),
    }
}

fn except(left_out: u32) -> String {
    if left_out == 0 {
        String::new()
    } else {
        format!(" except {left_out} of routers, aggregation nodes and devices without a LID")
    }
}

fn places(suggested: &[Suggestion], missing: usize) -> String {
    const MAX_PLACES: usize = 5;
    let some: Vec<_> = suggested
        .iter()
        .take(MAX_PLACES)
        .map(ToString::to_string)
        .collect();
    match some.is_empty() {
        true => format!(
            "add {} on any leaf switch: each has one already",
            count(missing, "sampler")
        ),
        false => {
            let more = if missing > some.len() {
                format!(" and {} more", missing - some.len())
            } else {
                String::new()
            };
            format!(
                "add {}, best on leaf switches without one: {}{more}",
                count(missing, "sampler"),
                some.join(", ")
            )
        }
    }
}

fn caps(enough: u32, samplers: usize) -> String {
    format!(
        ";\nor raise the cap: `--cap {enough}` is enough for {}",
        count(samplers, "sampler")
    )
}
