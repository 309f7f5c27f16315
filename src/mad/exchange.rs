//! What an engine and a transport say to each other: plain data, so that neither knows the other.

use crate::types::{Lid, Tid};

/// Where a MAD goes. The queue pair is always 1, the well-known one of general management packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Destination.
    pub lid: Lid,
    /// Service level. A general management packet rides a data VL that the SL picks, never VL15.
    pub sl: u8,
    /// Index into the P_Key table of the port that sends.
    pub pkey_index: u16,
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
}
