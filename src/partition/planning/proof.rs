//! Proves a plan before it is written: each linked port that is not left out has exactly one
//! sampler, no sampler exceeds the cap, and no switch is split.
//!
//! The proof shares no code with the rules. It counts ports instead of devices, and reads only
//! the fabric and the plan. With redundancy, it proves both roles, and also that the two samplers
//! of a port are on two hosts that no single switch disconnects.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::{Guid, NodeKind, PortNum};
use miette::Diagnostic;

use super::hosts::Host;
use super::plan::{Plan, Reason, Share};
use crate::topology::{DeviceId, Fabric};

/// A port and its sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortAssignment {
    /// Index of the sampler.
    pub sampler: usize,
    /// Port GUID.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
}

/// A fault that the proof found in a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
#[diagnostic(help(
    "this is an error of the program, not of your input: nothing was written; please report it with the net file and the samplers"
))]
pub enum ProofError {
    /// A port has no sampler.
    #[error("cannot verify the plan: port {port} of {guid} has no sampler")]
    Missing {
        /// Port GUID.
        guid: Guid,
        /// Port number.
        port: PortNum,
    },
    /// A port is assigned twice in one role.
    #[error("cannot verify the plan: port {port} of {guid} is assigned twice")]
    Twice {
        /// Port GUID.
        guid: Guid,
        /// Port number.
        port: PortNum,
    },
    /// An assigned port does not exist, has no link or is left out.
    #[error("cannot verify the plan: port {port} of {guid} is assigned but must not be sampled")]
    Foreign {
        /// Port GUID.
        guid: Guid,
        /// Port number.
        port: PortNum,
    },
    /// A switch has two samplers.
    #[error("cannot verify the plan: the switch {guid} is split between samplers")]
    Split {
        /// GUID of the switch.
        guid: Guid,
    },
    /// A sampler has more ports than the cap allows.
    #[error("cannot verify the plan: a sampler has {ports} ports, more than the cap of {cap}")]
    OverCap {
        /// Number of its ports.
        ports: u32,
        /// The cap.
        cap: u32,
    },
    /// The two samplers of a port are on one host, or a single leaf switch connects both to the
    /// fabric.
    #[error(
        "cannot verify the plan: one switch disconnects both samplers of port {port} of {guid}"
    )]
    Together {
        /// Port GUID.
        guid: Guid,
        /// Port number.
        port: PortNum,
    },
}

impl Plan {
    /// Returns all ports of the primary role, each with the index of its sampler.
    pub fn port_assignments<'a>(
        &'a self,
        fabric: &'a Fabric,
    ) -> impl Iterator<Item = PortAssignment> + 'a {
        port_assignments(fabric, &self.shares)
    }

    /// Proves both roles.
    ///
    /// # Errors
    /// Returns the first fault of the plan.
    pub fn prove(&self, fabric: &Fabric) -> Result<(), ProofError> {
        prove(fabric, self.cap, self.port_assignments(fabric))?;
        if self.secondary.is_empty() {
            return Ok(());
        }
        prove(fabric, self.cap, port_assignments(fabric, &self.secondary))?;
        let hosts: Vec<_> = self.shares.iter().map(|share| share.host.clone()).collect();
        prove_apart(
            fabric,
            &hosts,
            self.port_assignments(fabric),
            port_assignments(fabric, &self.secondary),
        )
    }
}

/// Returns all ports of the shares, each with the index of its sampler.
pub fn port_assignments<'a>(
    fabric: &'a Fabric,
    shares: &'a [Share],
) -> impl Iterator<Item = PortAssignment> + 'a {
    let of_share = move |(sampler, share): (usize, &'a Share)| {
        let devices = share
            .devices
            .iter()
            .map(move |planned| fabric.device(planned.id));
        devices.flat_map(move |device| {
            device.linked().map(move |(port, _)| PortAssignment {
                sampler,
                guid: device.guid,
                port: port.num,
            })
        })
    };
    shares.iter().enumerate().flat_map(of_share)
}

/// Proves that no single switch disconnects both samplers of a port.
///
/// # Errors
/// Returns the first port for which this is not true, or that has only one sampler.
pub fn prove_apart(
    fabric: &Fabric,
    hosts: &[Host],
    primary: impl Iterator<Item = PortAssignment>,
    secondary: impl Iterator<Item = PortAssignment>,
) -> Result<(), ProofError> {
    let leaf = |port: &DeviceId| {
        let (_, peer) = fabric.device(*port).linked().next()?;
        fabric
            .find(peer.guid, peer.port)
            .filter(|id| fabric.device(*id).kind == NodeKind::Switch)
    };
    let leaves: Vec<BTreeSet<_>> = hosts
        .iter()
        .map(|host| host.sending.iter().filter_map(leaf).collect())
        .collect();
    let seconds: BTreeMap<_, _> = secondary
        .map(|assigned| ((assigned.guid, assigned.port), assigned.sampler))
        .collect();
    for PortAssignment {
        sampler,
        guid,
        port,
    } in primary
    {
        let second = *seconds
            .get(&(guid, port))
            .ok_or(ProofError::Missing { guid, port })?;
        if sampler == second || leaves[sampler].len() == 1 && leaves[sampler] == leaves[second] {
            return Err(ProofError::Together { guid, port });
        }
    }
    Ok(())
}

/// Proves one role of a plan.
///
/// # Errors
/// Returns the first fault of the plan.
pub fn prove(
    fabric: &Fabric,
    cap: u32,
    assigned: impl Iterator<Item = PortAssignment>,
) -> Result<(), ProofError> {
    let mut owners: BTreeMap<(Guid, PortNum), usize> = BTreeMap::new();
    let mut loads: BTreeMap<usize, (u32, Guid, bool)> = BTreeMap::new();
    for PortAssignment {
        sampler,
        guid,
        port,
    } in assigned
    {
        if owners.insert((guid, port), sampler).is_some() {
            return Err(ProofError::Twice { guid, port });
        }
        let (ports, first, alone) = loads.entry(sampler).or_insert((0, guid, true));
        *ports += 1;
        *alone &= *first == guid;
    }
    for device in fabric
        .devices()
        .iter()
        .filter(|device| Reason::of(fabric, device).is_none())
    {
        let mut one = None;
        for (port, _) in device.linked() {
            let owner = owners
                .remove(&(device.guid, port.num))
                .ok_or(ProofError::Missing {
                    guid: device.guid,
                    port: port.num,
                })?;
            if device.kind == NodeKind::Switch && *one.get_or_insert(owner) != owner {
                return Err(ProofError::Split { guid: device.guid });
            }
        }
    }
    if let Some((&(guid, port), _)) = owners.first_key_value() {
        return Err(ProofError::Foreign { guid, port });
    }
    // A switch may have more ports than the cap if it is the only device of its sampler.
    let is_switch = |guid| {
        fabric
            .find(guid, PortNum(1))
            .is_some_and(|id| fabric.device(id).kind == NodeKind::Switch)
    };
    match loads
        .into_values()
        .find(|(ports, guid, alone)| *ports > cap && !(*alone && is_switch(*guid)))
    {
        Some((ports, ..)) => Err(ProofError::OverCap { ports, cap }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::FatTree;

    fn fabric() -> Fabric {
        let tree = FatTree {
            leaves: 2,
            hosts: 2,
            spines: 1,
            trunk: 1,
            radix: 4,
        };
        ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
            .expect("the format of this crate")
            .fabric
    }

    /// Assigns every port to sampler 0.
    fn all(fabric: &Fabric) -> Vec<PortAssignment> {
        let of = |device: &crate::topology::Device| {
            let assigned = |(port, _): (&crate::topology::Port, _)| PortAssignment {
                sampler: 0,
                guid: device.guid,
                port: port.num,
            };
            device.linked().map(assigned).collect::<Vec<_>>()
        };
        fabric.devices().iter().flat_map(of).collect()
    }

    #[test]
    fn complete_plan_is_accepted() {
        let fabric = fabric();
        assert_eq!(prove(&fabric, 12, all(&fabric).into_iter()), Ok(()));
    }

    #[test]
    fn each_error_is_found() {
        let fabric = fabric();
        let whole = all(&fabric);
        let PortAssignment { guid, port, .. } = whole[0];
        let error = |assigned: Vec<PortAssignment>, cap| {
            prove(&fabric, cap, assigned.into_iter()).unwrap_err()
        };
        assert_eq!(
            error(whole[1..].to_vec(), 12),
            ProofError::Missing { guid, port }
        );
        assert_eq!(
            error([&whole[..], &whole[..1]].concat(), 12),
            ProofError::Twice { guid, port }
        );
        let foreign = PortAssignment {
            sampler: 0,
            guid: Guid(7),
            port,
        };
        assert_eq!(
            error([&whole[..], &[foreign]].concat(), 13),
            ProofError::Foreign {
                guid: Guid(7),
                port
            }
        );
        assert_eq!(
            error(whole.clone(), 11),
            ProofError::OverCap { ports: 12, cap: 11 }
        );
        let mut split = whole.clone();
        let last = split.last_mut().unwrap();
        last.sampler = 1;
        let guid = last.guid;
        assert_eq!(error(split, 12), ProofError::Split { guid });
    }

    #[test]
    fn only_a_single_switch_may_exceed_the_cap() {
        let fabric = fabric();
        let index = |guid: Guid| {
            fabric
                .devices()
                .iter()
                .position(|device| device.guid == guid)
                .unwrap()
        };
        let mut assigned = all(&fabric);
        assigned
            .iter_mut()
            .for_each(|assigned| assigned.sampler = index(assigned.guid));
        // Each leaf has three ports and its own sampler.
        assert_eq!(prove(&fabric, 1, assigned.clone().into_iter()), Ok(()));
        let leaf = assigned
            .iter()
            .map(|assigned| assigned.sampler)
            .max()
            .unwrap();
        assigned[0].sampler = leaf;
        assert!(matches!(
            prove(&fabric, 1, assigned.into_iter()),
            Err(ProofError::OverCap { .. })
        ));
    }

    #[test]
    fn samplers_on_one_leaf_are_not_apart() {
        let fabric = fabric();
        let wanted = crate::partition::hosts::parse_list("node[00001-00003]").unwrap();
        // The first two hosts are on one leaf.
        let hosts = crate::partition::hosts::locate(&wanted, &[], &fabric).unwrap();
        let by = |sampler| {
            all(&fabric)
                .into_iter()
                .map(move |assigned| PortAssignment {
                    sampler,
                    ..assigned
                })
        };
        let PortAssignment { guid, port, .. } = all(&fabric)[0];
        assert_eq!(prove_apart(&fabric, &hosts, by(0), by(2)), Ok(()));
        assert_eq!(
            prove_apart(&fabric, &hosts, by(0), by(1)),
            Err(ProofError::Together { guid, port })
        );
        assert_eq!(
            prove_apart(&fabric, &hosts, by(2), by(2)),
            Err(ProofError::Together { guid, port })
        );
        assert_eq!(
            prove_apart(&fabric, &hosts, by(0), by(2).skip(1)),
            Err(ProofError::Missing { guid, port })
        );
    }
}
