//! Events of an engine.

use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::physical::PhysicalKind;
use ibnet_record::types::{Guid, Lid};

use super::{Lacking, ManagerPort, SubnetManager};
use crate::sweep::routes::End;
use crate::sweep::window::Change;

/// An event. A device is given by its index in the plan, a port by its index among the ports of
/// all devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A port has its final status for this slot: see [`Engine::sample`](super::Engine::sample).
    Port(usize),
    /// A device does not support a counter group, or never answered for it although it answers for
    /// other groups. The group is not requested for some time.
    GroupUnsupported {
        /// The device.
        device: usize,
        /// The group.
        group: Group,
    },
    /// A device that answered in earlier slots has answered nothing in this slot, and its last
    /// MADs were unanswered too.
    Unreachable(usize),
    /// An unreachable device answers again.
    Reachable(usize),
    /// Another device answers at the LID of a device. Its data is not used.
    WrongDevice {
        /// The planned device.
        device: usize,
        /// Port GUID of the device that answers.
        found: Guid,
    },
    /// The planned device answers at its LID again.
    RightDevice(usize),
    /// A device was found at another LID.
    LidChange {
        /// The device.
        device: usize,
        /// Previous LID.
        from: Lid,
        /// New LID.
        to: Lid,
    },
    /// A port's link is known for the first time, or has changed: see
    /// [`Engine::link`](super::Engine::link).
    Link(usize),
    /// The device at the other end of a port's cable has changed. The first such event of a port
    /// means that the device differs from the planned one.
    Peer {
        /// The port.
        port: usize,
        /// Port at the other end of the cable: the planned one if the cable was moved back.
        found: End,
    },
    /// No known route leads to a device any more.
    NoRoute(usize),
    /// Another agent answers for a device's performance management.
    Redirected {
        /// The device.
        device: usize,
        /// LID of the other agent.
        to: Lid,
        /// P_Key of the other agent, if no entry in the P_Key table of this port matches it.
        unserved_pkey: Option<u16>,
    },
    /// A reading of the physical layer is complete: see
    /// [`Engine::take_physical`](super::Engine::take_physical).
    Physical,
    /// A forwarding table or a part of it was read: see
    /// [`Engine::take_forwarding`](super::Engine::take_forwarding).
    Forwarding,
    /// The linear forwarding table of a switch has changed.
    RoutesChanged {
        /// The switch.
        device: usize,
        /// Number of entries that have changed since the last round.
        entries: u32,
    },
    /// A device does not give its physical layer, or a part of it. It is tried again in an hour.
    PhysicalUnsupported {
        /// The device.
        device: usize,
        /// What it does not give.
        lacking: Lacking,
    },
    /// Readings of the physical layer are much later than configured, or are in time again.
    PhysicalLate {
        /// Type of their records.
        kind: PhysicalKind,
        /// Time between the last two readings.
        every: Duration,
        /// Whether they are late.
        is_late: bool,
    },
    /// A device requires a key.
    KeyDemanded {
        /// The device.
        device: usize,
        /// The key.
        key: Key,
    },
    /// A device did not clear its counters several times. It gets no more such requests.
    ClearRefused(usize),
    /// A subnet manager is new, has another state or priority, or no longer answers.
    SubnetManager(SubnetManager),
    /// No port names this subnet manager any more.
    SubnetManagerGone(SubnetManager),
    /// Another subnet manager has become the master.
    MasterChange {
        /// The previous master.
        from: ManagerPort,
        /// The new master.
        to: ManagerPort,
    },
    /// The window was halved, or has its configured size again.
    Window(Change),
    /// The discovery is over: all devices were queried for identity and capabilities.
    DiscoveryDone,
    /// The slot is over: see [`Engine::stats`](super::Engine::stats).
    SlotDone,
}

/// Key that a device may require in requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// M_Key, of subnet management: without it, identity and links cannot be verified.
    M,
    /// PM_Key, of performance management: without it, there are no counters.
    Pm,
    /// VS_Key, of vendor-specific management: without it, there is no physical layer.
    Vendor,
}
