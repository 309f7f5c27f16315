//! The devices and cables that differ between the previous plan and the new one.
//!
//! A cable connects two ports. A lost cable and a new cable that have one port in common count as
//! one *moved* cable.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use crate::cabling::groups::groups;
use crate::topology::{DeviceId, Fabric};

/// One end of a cable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct End {
    /// Port GUID of the device.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
    /// Node description. The text is untrusted.
    pub name: String,
}

/// A device that is in only one of the two plans.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChangedDevice {
    /// Port GUID.
    pub guid: Guid,
    /// Node description. The text is untrusted.
    pub name: String,
}

/// A cable that was plugged from one port to another at one of its ends.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MovedCable {
    /// The end that is the same in both plans.
    pub end: End,
    /// The other end in the previous plan.
    pub from: End,
    /// The other end in the new plan.
    pub to: End,
}

/// The devices and cables that differ between two plans.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct TopologyChanges {
    /// Devices that are only in the new plan.
    pub new_devices: Vec<ChangedDevice>,
    /// Devices that are only in the previous plan.
    pub lost_devices: Vec<ChangedDevice>,
    /// Cables that are only in the new plan, without the moved ones.
    pub new_cables: Vec<[End; 2]>,
    /// Cables that are only in the previous plan, without the moved ones.
    pub lost_cables: Vec<[End; 2]>,
    /// Cables that have another port at one end.
    pub moved_cables: Vec<MovedCable>,
}

/// Identity of a port.
type Port = (Guid, PortNum);

/// The cables of a plan, by their two ports in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cables(BTreeMap<(Port, Port), [End; 2]>);

impl Cables {
    /// Adds a cable. The order of its ends does not matter.
    pub fn add(&mut self, one: End, other: End) {
        let key = |end: &End| (end.guid, end.port);
        let ends = if key(&one) <= key(&other) {
            [one, other]
        } else {
            [other, one]
        };
        self.0.insert((key(&ends[0]), key(&ends[1])), ends);
    }

    /// Returns the cables of these devices.
    fn of(fabric: &Fabric, devices: impl Iterator<Item = DeviceId>) -> Self {
        let mut cables = Self::default();
        for device in devices.map(|id| fabric.device(id)) {
            for (port, peer) in device.linked() {
                let end = End {
                    guid: device.guid,
                    port: port.num,
                    name: device.name.clone(),
                };
                cables.add(
                    end,
                    End {
                        guid: peer.guid,
                        port: peer.port,
                        name: peer.name.clone(),
                    },
                );
            }
        }
        cables
    }

    /// Returns the devices at the ends of the cables, with their names.
    fn devices(&self) -> BTreeMap<Guid, &str> {
        self.0
            .values()
            .flatten()
            .map(|end| (end.guid, &*end.name))
            .collect()
    }

    /// Returns the cables that `other` does not have.
    fn without(&self, other: &Self) -> Vec<[End; 2]> {
        self.0
            .iter()
            .filter(|(key, _)| !other.0.contains_key(key))
            .map(|(_, ends)| ends.clone())
            .collect()
    }
}

/// Returns the differences between the cables of the previous plan and those of `devices`, the
/// devices of the new plan. If the previous plan contains no cables, the result is empty.
pub(super) fn changes(
    fabric: &Fabric,
    previous: &Cables,
    devices: impl Iterator<Item = DeviceId>,
) -> TopologyChanges {
    if previous.0.is_empty() {
        return TopologyChanges::default();
    }
    let now = Cables::of(fabric, devices);
    let (before_devices, now_devices) = (previous.devices(), now.devices());
    let only_in = |these: &BTreeMap<Guid, &str>, others: &BTreeMap<Guid, &str>| {
        let only = these.iter().filter(|(guid, _)| !others.contains_key(guid));
        only.map(|(guid, name)| ChangedDevice {
            guid: *guid,
            name: (*name).to_owned(),
        })
        .collect()
    };
    let (mut new_cables, mut lost_cables) = (now.without(previous), previous.without(&now));
    let moved_cables = take_moved(&mut lost_cables, &mut new_cables);
    TopologyChanges {
        new_devices: only_in(&now_devices, &before_devices),
        lost_devices: only_in(&before_devices, &now_devices),
        new_cables,
        lost_cables,
        moved_cables,
    }
}

/// Removes each pair of a lost cable and a new cable with a common port, and returns them as moved.
fn take_moved(lost: &mut Vec<[End; 2]>, new: &mut Vec<[End; 2]>) -> Vec<MovedCable> {
    let ports = |cables: &[[End; 2]]| -> Vec<[Port; 2]> {
        let port = |end: &End| (end.guid, end.port);
        cables
            .iter()
            .map(|ends| ends.each_ref().map(port))
            .collect()
    };
    let (before, now) = (ports(lost), ports(new));
    let groups = groups(&before, &now, |_, from, to| u32::from(from.0 != to.0));
    let mut pairs: Vec<_> = groups.into_iter().flat_map(|group| group.pairs).collect();
    pairs.sort_unstable();
    let moved = |(from, to): &(usize, usize)| {
        let fixed = usize::from(!now[*to].contains(&before[*from][0]));
        let is_fixed = now[*to][0] == before[*from][fixed];
        MovedCable {
            end: lost[*from][fixed].clone(),
            from: lost[*from][1 - fixed].clone(),
            to: new[*to][usize::from(is_fixed)].clone(),
        }
    };
    let moved = pairs.iter().map(moved).collect();
    let (from, to): (BTreeSet<_>, BTreeSet<_>) = pairs.into_iter().unzip();
    for (cables, paired) in [(lost, from), (new, to)] {
        let mut index = 0..;
        cables.retain(|_| index.next().is_none_or(|at| !paired.contains(&at)));
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(guid: u64, port: u8) -> End {
        End {
            guid: Guid(guid),
            port: PortNum(port),
            name: format!("device{guid}"),
        }
    }

    #[test]
    fn cable_with_one_common_port_is_moved() {
        let mut lost = vec![
            [end(1, 1), end(9, 1)],
            [end(2, 1), end(9, 2)],
            [end(3, 1), end(9, 3)],
        ];
        let mut new = vec![
            [end(1, 1), end(9, 7)],
            [end(4, 1), end(9, 2)],
            [end(5, 1), end(9, 8)],
        ];
        let moved = take_moved(&mut lost, &mut new);
        assert_eq!(
            moved,
            [
                MovedCable {
                    end: end(1, 1),
                    from: end(9, 1),
                    to: end(9, 7)
                },
                MovedCable {
                    end: end(9, 2),
                    from: end(2, 1),
                    to: end(4, 1)
                },
            ]
        );
        assert_eq!(
            (lost, new),
            (vec![[end(3, 1), end(9, 3)]], vec![[end(5, 1), end(9, 8)]])
        );
    }

    #[test]
    fn cable_is_the_same_from_both_ends() {
        let mut cables = Cables::default();
        cables.add(end(1, 1), end(9, 1));
        cables.add(end(9, 1), end(1, 1));
        assert_eq!(cables.0.len(), 1);
    }
}
