//! Settings of an engine, and the devices that it sweeps.

use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

use super::PhysicalConfig;
use crate::mad::exchange::index_of_pkey;
use crate::mad::pma::Clearable;
use crate::sweep::cadence::Cadence;
use crate::sweep::clearing::Clearing;
use crate::sweep::group_list::GroupList;

/// The way of SMPs to the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SmpWay {
    /// By LID, and by a directed route to a device that answers no SMP by LID.
    #[default]
    Auto,
    /// By LID.
    Lid,
    /// By directed routes from the sending port.
    Directed,
}

/// Settings of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Max number of MADs in flight at once.
    pub window: usize,
    /// Max number of MADs per second. 0 means no limit.
    pub max_mads_per_second: u32,
    /// Time after which a MAD frees its place in the window.
    pub timeout: Duration,
    /// Time during which a late reply is accepted. Like the timeout, it counts from the sending of
    /// the MAD.
    pub grace: Duration,
    /// Number of consecutive MADs without a reply after which a device gets no more requests.
    pub silence: u8,
    /// Counter groups that are requested for each port, in this order.
    pub groups: GroupList,
    /// Cadences: in which slots each group is requested.
    pub cadence: Cadence,
    /// Counter groups that are requested from every device, whatever capabilities it reports.
    pub force_groups: Vec<Group>,
    /// Counters that are cleared, or `None`: all requests are Get.
    pub clearing: Option<Clearing>,
    /// Service level of every MAD to an agent.
    pub sl: u8,
    /// Whether the service level to each device comes from the subnet manager's path record. `sl`
    /// is used until the record is known.
    pub path_sl: bool,
    /// Time between two verifications of a device's identity and links.
    pub identity_every: Duration,
    /// The way of SMPs to the devices.
    pub smp: SmpWay,
    /// Whether the states of all ports of a switch are read in each slot, at most once a second,
    /// where the switch has SwitchPortStateTable.
    pub state_tables: bool,
    /// Whether the caller has the engine verify the peers of the ports: see
    /// [`Engine::verify_peers`](super::Engine::verify_peers).
    pub verify_peers: bool,
    /// Time between two rounds of SMInfo queries. `None` disables them.
    pub managers_every: Option<Duration>,
    /// Whether the forwarding tables of switches are read.
    pub forwarding: bool,
    /// Settings of the physical layer. `None` if it is not read.
    pub physical: Option<PhysicalConfig>,
    /// P_Key index of every MAD, unless a redirection names another P_Key.
    pub pkey_index: u16,
    /// P_Key table of the sending port, by index. An empty table stands for the default P_Key
    /// 0xffff at `pkey_index` and no other.
    pub pkey_table: Vec<u16>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: 32,
            max_mads_per_second: 0,
            timeout: Duration::from_millis(5),
            grace: Duration::from_millis(50),
            silence: 3,
            groups: GroupList::from(Group::DEFAULT),
            cadence: Cadence::EVERY_SLOT,
            force_groups: Vec::new(),
            clearing: None,
            sl: 0,
            path_sl: false,
            identity_every: Duration::from_secs(60),
            smp: SmpWay::Auto,
            state_tables: false,
            verify_peers: false,
            managers_every: None,
            forwarding: false,
            physical: None,
            pkey_index: 0,
            pkey_table: Vec::new(),
        }
    }
}

impl Config {
    /// Returns the settings of a second sampler of its ports. It does not read the physical layer
    /// and the forwarding tables, which need no second reading. It does not clear counters, and
    /// does not query those that the first sampler clears: when they decrease between two of its
    /// readings, it cannot know by how much they had grown.
    #[must_use]
    pub fn of_secondary(&self) -> Self {
        let is_kept = |group: Group| {
            !Clearable::of(group).is_some_and(|of| self.cleared().any(|cleared| cleared == of))
        };
        let groups = self.groups.iter().copied();
        Self {
            groups: groups.filter(|group| is_kept(*group)).collect(),
            cadence: self.cadence.only(|place| is_kept(self.groups[place])),
            clearing: None,
            forwarding: false,
            physical: None,
            ..self.clone()
        }
    }

    /// Iterates over the counters that are cleared.
    pub fn cleared(&self) -> impl Iterator<Item = Clearable> + '_ {
        let of = self.clearing.iter().flat_map(|clearing| &clearing.of);
        of.copied()
    }

    /// Returns the index of a P_Key for an agent in the partition of `pkey`, like
    /// [`index_of_pkey`].
    pub(super) fn index_of_pkey(&self, pkey: u16) -> Option<u16> {
        index_of_pkey(pkey, self.pkey_index, &self.pkey_table)
    }
}

/// A device to sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePlan {
    /// Port GUID. For a switch it is the GUID of port 0.
    pub guid: Guid,
    /// LID at which the device answers.
    pub lid: Lid,
    /// Type of the device.
    pub kind: NodeKind,
    /// Ports to sweep.
    pub ports: Vec<PortNum>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkeys_match_by_partition_if_one_is_a_full_member_s() {
        let config = |pkey_index, table: &[u16]| Config {
            pkey_index,
            pkey_table: table.to_vec(),
            ..Config::default()
        };
        let table = config(1, &[0x7fff, 0x8001, 0x0002, 0xffff]);
        assert_eq!(
            [0x8001, 0x0001].map(|pkey| table.index_of_pkey(pkey)),
            [Some(1); 2]
        );
        assert_eq!(
            table.index_of_pkey(0xffff),
            Some(0),
            "a limited member can talk to a full member"
        );
        assert_eq!(
            table.index_of_pkey(0x7fff),
            Some(3),
            "two limited members cannot talk to each other"
        );
        assert_eq!(
            (table.index_of_pkey(0x8002), table.index_of_pkey(0x0002)),
            (Some(2), None)
        );
        assert_eq!(table.index_of_pkey(0x8003), None);
        assert_eq!(table.index_of_pkey(0), Some(1), "no partition is named");
        let none = config(5, &[]);
        assert_eq!(
            [0xffff, 0x7fff, 0x8001].map(|pkey| none.index_of_pkey(pkey)),
            [Some(5), Some(5), None]
        );
    }
}
