//! What an engine and a transport say to each other: plain data, so that neither knows the other.

use std::time::Duration;

use super::sa::Gid;
use crate::types::{Lid, Tid};

/// Where a MAD goes, and how long its sender waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Destination.
    pub lid: Lid,
    /// Queue pair: 0 for subnet management, 1 for all else unless an agent redirects.
    pub qp: u32,
    /// The queue pair's key.
    pub qkey: u32,
    /// Service level. A general management packet rides a data VL that the SL picks; only subnet management rides VL15.
    pub sl: u8,
    /// Index into the P_Key table of the port that sends.
    pub pkey_index: u16,
    /// When the transport may give up, counted from sending.
    pub give_up: Duration,
}

/// The well-known key of queue pair 1 (IBA vol. 1, 3.5.3). The kernel uses it whatever is asked for.
pub const QP1_QKEY: u32 = 0x8001_0000;

impl Target {
    /// The agent of general management at a LID.
    pub const fn general(lid: Lid, sl: u8, pkey_index: u16, give_up: Duration) -> Self {
        Self { lid, qp: 1, qkey: QP1_QKEY, sl, pkey_index, give_up }
    }

    /// The agent of subnet management at a LID.
    pub const fn subnet_management(lid: Lid, give_up: Duration) -> Self {
        Self { lid, qp: 0, qkey: 0, sl: 0, pkey_index: 0, give_up }
    }
}

/// Where the port that sends is on its subnet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// Its LID.
    pub lid: Lid,
    /// The subnet manager's; 0 if none is known.
    pub sm_lid: Lid,
    /// The service level to the subnet manager.
    pub sm_sl: u8,
    /// Its own GID.
    pub gid: Gid,
}

/// What became of a MAD that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The transaction.
    pub tid: Tid,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a transaction ended, as a transport sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Something came from the fabric; whether it answers a request is for the engine to say. The MAD is in the buffer beside.
    Reply {
        /// Who sent it.
        slid: Lid,
        /// Its octets; anything but 256 is malformed.
        len: usize,
    },
    /// The transport has given up waiting; a later reply would not be delivered.
    TimedOut,
    /// It was never sent. The errno of the call.
    SendFailed(i32),
    /// The MAD was not sent: the transport has no agent for its management class. MADs of other
    /// classes can still be sent.
    NoAgent,
}
