//! The proof that runs before anything is written: each linked port that is not left out is with exactly one sampler, the cap
//! holds, no switch is split.
//!
//! It knows nothing of the rules: it counts ports, not devices, and takes the fabric's word only. With redundancy all of that is proved of each role, and
//! that no port has both of its samplers on one host, or on hosts that one switch cuts off.

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;

use super::{Host, Reason, Share};
use crate::topology::{DeviceId, Fabric};
use crate::types::{Guid, NodeKind, PortNum};

/// A port that was given to a sampler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// The sampler's index.
    pub sampler: usize,
    /// The port's GUID.
    pub guid: Guid,
    /// The port's number.
    pub port: PortNum,
}

/// What a plan must never be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
#[diagnostic(help(
    "this is an error of the program, not of your input: nothing was written; please report it with the net file and the samplers"
))]
pub enum Uncovered {
    /// A port that nobody samples.
    #[error("port {port} of {guid} was given to no sampler")]
    Missing {
        /// The port's GUID.
        guid: Guid,
        /// Its number.
        port: PortNum,
    },
    /// A port that two samplers ask, or one asks twice.
    #[error("port {port} of {guid} was given twice")]
    Twice {
        /// The port's GUID.
        guid: Guid,
        /// Its number.
        port: PortNum,
    },
    /// A port that does not exist, has no link or is to be left out.
    #[error("port {port} of {guid} was given to a sampler but is not to be sampled")]
    Foreign {
        /// The port's GUID.
        guid: Guid,
        /// Its number.
        port: PortNum,
    },
    /// A switch with two samplers.
    #[error("the switch {guid} was split between samplers")]
    Split {
        /// The switch's GUID.
        guid: Guid,
    },
    /// A sampler with more than it may have.
    #[error("a sampler was given {ports} ports, {cap} are allowed")]
    OverCap {
        /// Its ports.
        ports: u32,
        /// The cap.
        cap: u32,
    },
    /// Two samplers of a port that are one, or hang on the same leaf switch only.
    #[error("port {port} of {guid} was given to two samplers that one switch cuts off")]
    Together {
        /// The port's GUID.
        guid: Guid,
        /// Its number.
        port: PortNum,
    },
}

/// Every port of these shares, with the sampler's index.
pub fn given<'a>(fabric: &'a Fabric, shares: &'a [Share]) -> impl Iterator<Item = Given> + 'a {
    let of_share = move |(sampler, share): (usize, &'a Share)| {
        let devices = share.devices.iter().map(move |held| fabric.device(held.id));
        devices.flat_map(move |device| device.linked().map(move |(port, _)| Given { sampler, guid: device.guid, port: port.num }))
    };
    shares.iter().enumerate().flat_map(of_share)
}

/// Proves that the two samplers of each port are apart.
///
/// # Errors
/// The first port whose samplers are not, or that has one sampler only.
pub fn prove_apart(
    fabric: &Fabric,
    hosts: &[Host],
    primary: impl Iterator<Item = Given>,
    secondary: impl Iterator<Item = Given>,
) -> Result<(), Uncovered> {
    let leaf = |port: &DeviceId| {
        let (_, peer) = fabric.device(*port).linked().next()?;
        fabric.find(peer.guid, peer.port).filter(|id| fabric.device(*id).kind == NodeKind::Switch)
    };
    let leaves: Vec<BTreeSet<_>> = hosts.iter().map(|host| host.at.iter().filter_map(leaf).collect()).collect();
    let seconds: BTreeMap<_, _> = secondary.map(|given| ((given.guid, given.port), given.sampler)).collect();
    for Given { sampler, guid, port } in primary {
        let second = *seconds.get(&(guid, port)).ok_or(Uncovered::Missing { guid, port })?;
        if sampler == second || leaves[sampler].len() == 1 && leaves[sampler] == leaves[second] {
            return Err(Uncovered::Together { guid, port });
        }
    }
    Ok(())
}

/// Proves a plan.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn prove(fabric: &Fabric, cap: u32, given: impl Iterator<Item = Given>) -> Result<(), Uncovered> {
    let mut owners: BTreeMap<(Guid, PortNum), usize> = BTreeMap::new();
    let mut loads: BTreeMap<usize, (u32, Guid, bool)> = BTreeMap::new();
    for Given { sampler, guid, port } in given {
        if owners.insert((guid, port), sampler).is_some() {
            return Err(Uncovered::Twice { guid, port });
        }
        let (ports, first, alone) = loads.entry(sampler).or_insert((0, guid, true));
        *ports += 1;
        *alone &= *first == guid;
    }
    for device in fabric.devices().iter().filter(|device| Reason::of(fabric, device).is_none()) {
        let mut one = None;
        for (port, _) in device.linked() {
            let owner = owners.remove(&(device.guid, port.num)).ok_or(Uncovered::Missing { guid: device.guid, port: port.num })?;
            if device.kind == NodeKind::Switch && *one.get_or_insert(owner) != owner {
                return Err(Uncovered::Split { guid: device.guid });
            }
        }
    }
    if let Some((&(guid, port), _)) = owners.first_key_value() {
        return Err(Uncovered::Foreign { guid, port });
    }
    // A switch may be larger than the cap, and then it is alone.
    let is_switch = |guid| fabric.find(guid, PortNum(1)).is_some_and(|id| fabric.device(id).kind == NodeKind::Switch);
    match loads.into_values().find(|(ports, guid, alone)| *ports > cap && !(*alone && is_switch(*guid))) {
        Some((ports, ..)) => Err(Uncovered::OverCap { ports, cap }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::FatTree;

    fn fabric() -> Fabric {
        let tree = FatTree { leaves: 2, hosts: 2, spines: 1, trunk: 1, radix: 4 };
        ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
    }

    /// Everything to sampler 0.
    fn all(fabric: &Fabric) -> Vec<Given> {
        let of = |device: &crate::topology::Device| {
            let given = |(port, _): (&crate::topology::Port, _)| Given { sampler: 0, guid: device.guid, port: port.num };
            device.linked().map(given).collect::<Vec<_>>()
        };
        fabric.devices().iter().flat_map(of).collect()
    }

    #[test]
    fn a_whole_cover_is_one() {
        let fabric = fabric();
        assert_eq!(prove(&fabric, 12, all(&fabric).into_iter()), Ok(()));
    }

    #[test]
    fn each_way_to_be_wrong_is_found() {
        let fabric = fabric();
        let whole = all(&fabric);
        let Given { guid, port, .. } = whole[0];
        let wrong = |given: Vec<Given>, cap| prove(&fabric, cap, given.into_iter()).unwrap_err();
        assert_eq!(wrong(whole[1..].to_vec(), 12), Uncovered::Missing { guid, port });
        assert_eq!(wrong([&whole[..], &whole[..1]].concat(), 12), Uncovered::Twice { guid, port });
        let foreign = Given { sampler: 0, guid: Guid(7), port };
        assert_eq!(wrong([&whole[..], &[foreign]].concat(), 13), Uncovered::Foreign { guid: Guid(7), port });
        assert_eq!(wrong(whole.clone(), 11), Uncovered::OverCap { ports: 12, cap: 11 });
        let mut split = whole.clone();
        let last = split.last_mut().unwrap();
        last.sampler = 1;
        let guid = last.guid;
        assert_eq!(wrong(split, 12), Uncovered::Split { guid });
    }

    #[test]
    fn only_a_switch_that_is_alone_may_exceed_the_cap() {
        let fabric = fabric();
        let apart = |guid: Guid| fabric.devices().iter().position(|device| device.guid == guid).unwrap();
        let mut given = all(&fabric);
        given.iter_mut().for_each(|given| given.sampler = apart(given.guid));
        // Leaves have three ports each and a sampler each.
        assert_eq!(prove(&fabric, 1, given.clone().into_iter()), Ok(()));
        let leaf = given.iter().map(|given| given.sampler).max().unwrap();
        given[0].sampler = leaf;
        assert!(matches!(prove(&fabric, 1, given.into_iter()), Err(Uncovered::OverCap { .. })));
    }

    #[test]
    fn two_samplers_of_a_port_that_one_switch_cuts_off_are_found() {
        let fabric = fabric();
        let wanted = crate::partition::hosts::parse_list("node[00001-00003]").unwrap();
        // The first two are on one leaf.
        let hosts = crate::partition::hosts::locate(&wanted, &[], &fabric).unwrap();
        let by = |sampler| all(&fabric).into_iter().map(move |given| Given { sampler, ..given });
        let Given { guid, port, .. } = all(&fabric)[0];
        assert_eq!(prove_apart(&fabric, &hosts, by(0), by(2)), Ok(()));
        assert_eq!(prove_apart(&fabric, &hosts, by(0), by(1)), Err(Uncovered::Together { guid, port }));
        assert_eq!(prove_apart(&fabric, &hosts, by(2), by(2)), Err(Uncovered::Together { guid, port }));
        assert_eq!(prove_apart(&fabric, &hosts, by(0), by(2).skip(1)), Err(Uncovered::Missing { guid, port }));
    }
}
