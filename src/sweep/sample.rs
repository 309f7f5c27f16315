//! The sample of one port: the result of its queries in one slot.

use std::fmt;
use std::time::Duration;

use super::blocked::WaitTick;
use super::cadence::{Cadence, Circumstances};
use crate::mad::header::MadStatus;
use crate::mad::pma::{Capabilities, Data, Group};
use crate::time::Instant;

/// Status of a port in a slot. Every assigned port has exactly one in every slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// All replies came within their timeout.
    Ok,
    /// A reply came after its timeout, within the grace period. The counters that are present are
    /// valid.
    Late,
    /// A MAD was not answered within the grace period.
    Timeout,
    /// A MAD had only replies that do not match it.
    BadReply,
    /// A MAD could not be sent.
    SendError,
    /// The agent returned an error status.
    MadError,
    /// The port was not queried, because its device did not answer three MADs in a row.
    Unreachable,
    /// The port was not queried, or not completely, because the slot was over.
    Skipped,
    /// The port was not queried, because its link is down and the port is not due.
    Down,
    /// Another device answers at the LID; its data is dropped.
    WrongDevice,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Late,
        Self::Timeout,
        Self::BadReply,
        Self::SendError,
        Self::MadError,
        Self::Unreachable,
        Self::Skipped,
        Self::Down,
        Self::WrongDevice,
    ];

    /// Returns the value of `status` in the records.
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
            Self::Down => "down",
            Self::WrongDevice => "wrong_device",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The cadence of a sample without an engine.
static EVERY_SLOT: Cadence = Cadence::EVERY_SLOT;

/// The sample of one port. It has only the data of replies in this slot.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Status of the port.
    pub status: Status,
    /// Sum of the round trips of its MADs.
    pub rtt: Duration,
    /// Shortest of these round trips; `None` without a reply.
    pub rtt_min: Option<Duration>,
    /// MADs sent for the port.
    pub mads: u32,
    /// Time of its last reply, or the time when its status was settled if it had no reply.
    pub at: Instant,
    /// Last error status of the agent.
    pub mad_status: Option<MadStatus>,
    /// Errno of the last MAD that could not be sent.
    pub errno: Option<i32>,
    /// Whether NodeInfo has confirmed the GUID of the device.
    pub verified: bool,
    /// Capabilities of the device; `None` if unknown.
    pub capabilities: Option<Capabilities>,
    /// Whether the FEC of the link is a Reed-Solomon code; `None` without a reply for
    /// PortInfoExtended.
    pub rs_fec: Option<bool>,
    /// Length of a tick of PortXmitWait; `None` if unknown.
    pub tick: Option<WaitTick>,
    /// Groups that the device does not support: one bit each, by their index in
    /// [`groups`](Self::groups).
    pub unsupported: u32,
    /// Groups that are queried regardless of the device's capabilities: one bit each, by their
    /// index in [`groups`](Self::groups).
    pub forced: u32,
    /// Cadences of the groups.
    pub(super) cadence: &'a Cadence,
    /// What the cadences of the port depend on.
    pub(super) circumstances: Circumstances,
    pub(super) groups: &'a [Group],
    pub(super) answers: &'a [Answer],
}

/// The answer for one group.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Time of the reply; `None` without a reply in this slot.
    pub(super) at: Option<Instant>,
    pub(super) data: Data,
}

impl<'a> Sample<'a> {
    /// Creates a sample with a status and answers, and nothing else.
    pub(super) fn new(status: Status, groups: &'a [Group], answers: &'a [Answer]) -> Self {
        Self {
            status,
            rtt: Duration::ZERO,
            rtt_min: None,
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
            cadence: &EVERY_SLOT,
            circumstances: Circumstances::default(),
            groups,
            answers,
        }
    }

    /// Returns whether the device supports the group at this index, as far as known.
    pub fn has(&self, group: usize) -> bool {
        self.unsupported & (1 << group) == 0
    }

    /// Returns the number of slots in which the group at this index is queried once.
    pub fn every(&self, group: usize) -> u64 {
        self.groups.get(group).map_or(1, |of| self.cadence.of(group, *of, self.circumstances).every.into())
    }

    /// Returns the groups that are swept, in their order.
    pub fn groups(&self) -> &'a [Group] {
        self.groups
    }

    /// Returns the data of a group and the time of its reply; `None` without a reply in this slot.
    /// The group is given by its index in [`groups`](Self::groups).
    pub fn answer(&self, group: usize) -> Option<(Instant, &'a Data)> {
        let answer = self.answers.get(group)?;
        Some((answer.at?, &answer.data))
    }
}
