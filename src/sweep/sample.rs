//! What a slot brought of one port.

use std::fmt;
use std::time::Duration;

use super::blocked::WaitTick;
use crate::mad::header::MadStatus;
use crate::mad::pma::{Capabilities, Data, Group};
use crate::time::Instant;

/// How a port fared in a slot. Every assigned port has exactly one in every slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// All that was asked for came in time.
    Ok,
    /// All or part of it came after the deadline; what is present is true.
    Late,
    /// A MAD was not answered.
    Timeout,
    /// Only replies that did not fit came.
    BadReply,
    /// A MAD could not be sent.
    SendError,
    /// The agent answered with an error status.
    MadError,
    /// Not asked: its device did not answer three MADs one after another.
    Unreachable,
    /// Not asked: the slot was over.
    Skipped,
    /// The LID is another device's now; its data is withheld.
    WrongDevice,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Late,
        Self::Timeout,
        Self::BadReply,
        Self::SendError,
        Self::MadError,
        Self::Unreachable,
        Self::Skipped,
        Self::WrongDevice,
    ];

    /// The word of the records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Late => "late",
            Self::Timeout => "timeout",
            Self::BadReply => "bad_reply",
            Self::SendError => "send_error",
            Self::MadError => "mad_error",
            Self::Unreachable => "unreachable",
            Self::Skipped => "skipped",
            Self::WrongDevice => "wrong_device",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The sample of one port, as the engine hands it out. Only what truly answered in this slot is in it.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// How the port fared.
    pub status: Status,
    /// The sum of the round trips of its MADs.
    pub rtt: Duration,
    /// MADs that were sent for it.
    pub mads: u32,
    /// When its last reply came, or when it was settled if none did.
    pub at: Instant,
    /// The last error status of its agent, if there was one.
    pub mad_status: Option<MadStatus>,
    /// The errno of the last MAD that could not be sent, if there was one.
    pub errno: Option<i32>,
    /// Whether NodeInfo says that the device is the one that is meant.
    pub verified: bool,
    /// What its device can do, as far as that is known.
    pub capabilities: Option<Capabilities>,
    /// Whether its FEC is a Reed-Solomon code; `None` if PortInfoExtended was not asked or not answered.
    pub rs_fec: Option<bool>,
    /// How long a tick of PortXmitWait is; `None` if the device does not tell.
    pub tick: Option<WaitTick>,
    /// Groups that its device said it does not have, a bit each by their place in [`groups`](Self::groups).
    pub unsupported: u32,
    /// Groups that are asked for whatever the device says of itself, likewise.
    pub forced: u32,
    pub(super) groups: &'a [Group],
    pub(super) answers: &'a [Answer],
}

/// One group's answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// When it came; `None` if it did not in this slot.
    pub(super) at: Option<Instant>,
    pub(super) data: Data,
}

impl<'a> Sample<'a> {
    /// A sample of which nothing else is known.
    pub(super) fn new(status: Status, groups: &'a [Group], answers: &'a [Answer]) -> Self {
        Self {
            status,
            rtt: Duration::ZERO,
            mads: 0,
            at: Instant::ZERO,
            mad_status: None,
            errno: None,
            verified: false,
            capabilities: None,
            rs_fec: None,
            tick: None,
            unsupported: 0,
            forced: 0,
            groups,
            answers,
        }
    }

    /// Whether the device has the group at this place, for all that it said.
    pub fn has(&self, group: usize) -> bool {
        self.unsupported & (1 << group) == 0
    }

    /// The groups that are swept, in their order.
    pub fn groups(&self) -> &'a [Group] {
        self.groups
    }

    /// The octets of a group's attribute and when they came; `None` if they did not, in this slot. By the place of the group in
    /// [`groups`](Self::groups).
    pub fn answer(&self, group: usize) -> Option<(Instant, &'a Data)> {
        let answer = self.answers.get(group)?;
        Some((answer.at?, &answer.data))
    }
}
