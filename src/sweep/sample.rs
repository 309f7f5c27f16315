//! The sample of one port: the result of its queries in one slot.

use std::time::Duration;

use ibnet_record::Status;
use ibnet_record::attributes::Group;

use super::blocked::WaitTick;
use super::cadence::{Cadence, Circumstances};
use super::clearing::Cleared;
use crate::mad::header::MadStatus;
use crate::mad::pma::{Capabilities, Clearable, Data};
use crate::time::Instant;

/// The cadence of a sample that no engine made.
static EVERY_SLOT: Cadence = Cadence::EVERY_SLOT;

/// The sample of one port. It has only data from replies in this slot.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Status of the port.
    pub status: Status,
    /// Sum of the round trips of the port's MADs.
    pub rtt: Duration,
    /// Shortest of these round trips. `None` without a reply.
    pub rtt_min: Option<Duration>,
    /// Number of MADs sent for the port.
    pub mads: u32,
    /// Time of the last reply of the port or, without a reply, the time at which the port got its
    /// status.
    pub at: Instant,
    /// Last error status of the agent.
    pub mad_status: Option<MadStatus>,
    /// Errno of the last MAD that could not be sent.
    pub errno: Option<i32>,
    /// Whether NodeInfo has confirmed the GUID of the device.
    pub verified: bool,
    /// Capabilities of the device. `None` if unknown.
    pub capabilities: Option<Capabilities>,
    /// Whether the FEC of the link is a Reed-Solomon code. `None` without a reply for
    /// PortInfoExtended.
    pub rs_fec: Option<bool>,
    /// Length of a tick of PortXmitWait. `None` if unknown.
    pub tick: Option<WaitTick>,
    /// Mask of the groups that the device does not support. The bit of a group is its index in
    /// [`groups`](Self::groups).
    pub unsupported: u32,
    /// Mask of the groups that are queried whatever capabilities the device reports. The bit of a
    /// group is its index in [`groups`](Self::groups).
    pub forced: u32,
    /// Counters that were cleared after their reading, by the index of [`Clearable::ALL`].
    pub(super) cleared: [Option<Cleared>; Clearable::ALL.len()],
    /// Cadences of the groups.
    pub(super) cadence: &'a Cadence,
    /// State of the device and port on which the cadences depend.
    pub(super) circumstances: Circumstances,
    pub(super) groups: &'a [Group],
    pub(super) answers: &'a [Answer],
}

/// The answer for one group.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// Time of the reply. `None` without a reply in this slot.
    pub(super) at: Option<Instant>,
    pub(super) data: Data,
}

impl<'a> Sample<'a> {
    /// Creates a sample with this status and these answers. All other fields are empty.
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
            cleared: Default::default(),
            cadence: &EVERY_SLOT,
            circumstances: Circumstances::default(),
            groups,
            answers,
        }
    }

    /// Returns whether the device supports the group at this index, as far as is known.
    pub fn has(&self, group: usize) -> bool {
        self.unsupported & (1 << group) == 0
    }

    /// Returns the cadence of the group at this index: it is queried once in this number of slots.
    pub fn every(&self, group: usize) -> u64 {
        self.groups.get(group).map_or(1, |of| {
            self.cadence.of(group, *of, self.circumstances).every.into()
        })
    }

    /// Returns the groups that are swept, in their order.
    pub fn groups(&self) -> &'a [Group] {
        self.groups
    }

    /// Returns the data of a group and the time of its reply, or `None` without a reply in this
    /// slot. The group is given by its index in [`groups`](Self::groups).
    pub fn answer(&self, group: usize) -> Option<(Instant, &'a Data)> {
        let answer = self.answers.get(group)?;
        Some((answer.at?, &answer.data))
    }
}
