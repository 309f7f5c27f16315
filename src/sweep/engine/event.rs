//! What an engine tells.

use crate::mad::pma::Group;
use crate::sweep::window::Change;
use crate::types::{Guid, Lid};

/// Something that happened. Ports and devices are told by their place in the plan, ports counted through all devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A port is settled for this slot: see [`Engine::sample`](super::Engine::sample).
    Port(usize),
    /// An agent said that it does not have a group's attribute, or never answered for it while it answered for others; it is not asked for it for
    /// now.
    GroupUnsupported {
        /// The device.
        device: usize,
        /// The group.
        group: Group,
    },
    /// A device that answered before answered nothing in this slot, nor any of its last MADs, as many as make it silent.
    Unreachable(usize),
    /// A device that did not answer anything in the last slot does again.
    Reachable(usize),
    /// At the LID of a device is another, whose data is withheld.
    WrongDevice {
        /// The device that should be there.
        device: usize,
        /// The port GUID of the one that is.
        found: Guid,
    },
    /// A device that was not at its LID is there again.
    RightDevice(usize),
    /// A device was found at another LID.
    LidChange {
        /// The device.
        device: usize,
        /// Where it was.
        from: Lid,
        /// Where it is.
        to: Lid,
    },
    /// A port's link is not as it was, or was told for the first time: see [`Engine::link`](super::Engine::link).
    Link(usize),
    /// Another agent answers for a device's performance management.
    Redirected {
        /// The device.
        device: usize,
        /// Where the other agent is.
        to: Lid,
    },
    /// A device keeps something to who has its key.
    KeyDemanded {
        /// The device.
        device: usize,
        /// Which key.
        key: Key,
    },
    /// The window was halved, or is what is configured again.
    Window(Change),
    /// All devices were asked who they are and what they can do.
    DiscoveryDone,
    /// Every port is settled: see [`Engine::stats`](super::Engine::stats).
    SlotDone,
}

/// What a device may demand before it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// M_Key: for subnet management, so its identity and its links cannot be checked.
    M,
    /// PM_Key: for performance management, so there are no counters.
    Pm,
}
