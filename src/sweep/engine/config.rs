//! How an engine sweeps, and what.

use std::time::Duration;

use crate::mad::pma::Group;
use crate::types::{Guid, Lid, NodeKind, PortNum};

/// How an engine sweeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// MADs outstanding in all, at most.
    pub window: usize,
    /// Whether the window becomes smaller while more expires than usual.
    pub adaptive: bool,
    /// A ceiling of MADs a second; 0 for none.
    pub most_per_second: u32,
    /// When a MAD's place is free again.
    pub deadline: Duration,
    /// Until when its reply still counts; counted from sending, like the deadline.
    pub grace: Duration,
    /// MADs in a row without a reply, after which a device is left alone.
    pub silence: u8,
    /// What is asked of each port, in this order; at most 32.
    pub groups: Vec<Group>,
    /// What is asked of every device, whatever it says that it has.
    pub force_groups: Vec<Group>,
    /// Service level of every MAD to an agent.
    pub sl: u8,
    /// Whether the service level to each device is taken from the subnet manager's path record; until that is known it is `sl`.
    pub path_sl: bool,
    /// Between two checks of a device's identity and of its links.
    pub identity_every: Duration,
    /// P_Key index of every MAD.
    pub pkey_index: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: 32,
            adaptive: true,
            most_per_second: 0,
            deadline: Duration::from_millis(5),
            grace: Duration::from_millis(50),
            silence: 3,
            groups: Group::DEFAULT.to_vec(),
            force_groups: Vec::new(),
            sl: 0,
            path_sl: false,
            identity_every: Duration::from_secs(60),
            pkey_index: 0,
        }
    }
}

/// A device to be swept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePlan {
    /// Who it is: its port GUID; a switch's is that of port 0.
    pub guid: Guid,
    /// Where it answers.
    pub lid: Lid,
    /// What it is.
    pub kind: NodeKind,
    /// Which of its ports.
    pub ports: Vec<PortNum>,
}
