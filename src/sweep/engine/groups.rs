//! The counter groups of a device, as far as they are known. A counter group is one attribute,
//! such as PortCountersExtended.
//!
//! 1. The masks of a device (in ClassPortInfo, and OptionMask in PortSamplesControl) have a bit
//!    for each optional group. If the bit is not set, the engine does not request the group, which
//!    is then absent from the records.
//! 2. If the device does not report its OptionMask, the engine *probes* each optional group with
//!    one query. A device that answers has the group, and a device that refuses does not have it.
//!    If the device never answers for this group but answers for other groups, the engine disables
//!    the group.
//! 3. A single lost reply never disables a group, and a group that was answered once is disabled
//!    only after sixty failed requests. The engine probes a disabled group again every ten minutes,
//!    or every minute if the masks of the device report it; these probes do not change the status
//!    of a port.

use std::time::Duration;

use ibnet_record::attributes::{Group, Needs};
use ibnet_record::types::NodeKind;

use crate::mad::pma::{Capabilities, Sampling};
use crate::sweep::group_list::MAX_GROUPS;
use crate::time::Instant;

/// Time for which a group is disabled if the device has not reported the mask with its bit.
const DISABLED: Duration = Duration::from_secs(600);

/// Time for which a group is disabled although the masks of the device report it. It is shorter,
/// because the device may only be slow for a while.
const DISABLED_CLAIMED: Duration = Duration::from_secs(60);

/// Number of failed requests for counters after which a group is disabled. If 10 % of the MADs are
/// lost, this happens by chance with a probability of one in a hundred million.
const MAX_FAILED: u8 = 8;

/// Number of failed requests after which a group is disabled although it was answered before,
/// possibly by another device that had the same LID.
const MAX_FAILED_ANSWERED: u8 = 60;

/// Number of failed probes after which a group is disabled.
const MAX_FAILED_PROBES: u8 = 3;

/// Number of requests for PortSamplesControl. If none is answered, the engine probes the groups.
const SAMPLING_TRIES: u8 = 3;

/// The groups of a device. Each mask has one bit per group, in the order of the configured list.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    swept: Swept,
    /// Capabilities from ClassPortInfo, with OptionMask as soon as it is known.
    pub(super) capabilities: Learned<Capabilities>,
    /// Tick of PortSamplesControl, which is learned together with OptionMask.
    pub(super) tick: Learned<u8>,
    option_mask: Option<u64>,
    /// Requests for PortSamplesControl that are left.
    sampling_tries: u8,
    /// Groups whose bit in the device's masks is not set.
    lacks: u32,
    /// Groups that the device refused.
    refused: u32,
    /// Groups that are disabled, because the device answered only for other groups.
    disabled: u32,
    /// Time at which each group was disabled.
    disabled_since: [Instant; MAX_GROUPS],
    /// Groups that were reported as unsupported.
    reported: u32,
    /// Groups that were answered.
    answered: u32,
    /// Failed requests for each group since its last reply.
    failed: [u8; MAX_GROUPS],
    /// Groups to be probed.
    probe: u32,
    /// Whether the optional groups are probed because OptionMask was not answered.
    probing: bool,
    /// Superseded groups: another swept group has the same counters with more bits.
    superseded: u32,
}

/// Configuration of the groups, as masks.
#[derive(Clone, Copy, Debug)]
struct Swept {
    kind: NodeKind,
    /// Number of groups.
    count: u8,
    /// Groups that have no bit in ClassPortInfo.
    optional: u32,
    /// Groups of the key `force_groups`, which are requested whatever the device reports.
    forced: u32,
    /// Index of PortCountersExtended, if it is one of the groups.
    extended: Option<u8>,
}

/// An answer of the agent. The request is repeated until the agent replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Learned<T> {
    /// No reply yet.
    Unknown,
    /// The answer.
    Known(T),
    /// The agent does not have the attribute.
    Refused,
}

impl<T: Copy> Learned<T> {
    pub(super) fn known(self) -> Option<T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown | Self::Refused => None,
        }
    }
}

fn mask_of(groups: &[Group], condition: impl Fn(Group) -> bool) -> u32 {
    (0..).zip(groups).fold(0, |bits, (place, group)| {
        bits | u32::from(condition(*group)) << place
    })
}

impl Groups {
    /// Creates the state of a device before its first reply, for these configured groups.
    pub(super) fn new(groups: &[Group], forced: &[Group]) -> Self {
        Self::of(Swept {
            kind: NodeKind::Hca,
            count: groups.len() as u8,
            optional: mask_of(groups, |group| {
                !matches!(group, Group::Base | Group::Extended)
            }),
            forced: mask_of(groups, |group| forced.contains(&group)),
            extended: groups
                .iter()
                .position(|group| *group == Group::Extended)
                .map(|place| place as u8),
        })
    }

    /// Returns a copy for a device of this type.
    pub(super) fn of_kind(&self, kind: NodeKind) -> Self {
        Self::of(Swept { kind, ..self.swept })
    }

    fn of(swept: Swept) -> Self {
        Self {
            swept,
            capabilities: Learned::Unknown,
            tick: Learned::Unknown,
            option_mask: None,
            sampling_tries: SAMPLING_TRIES,
            lacks: 0,
            refused: 0,
            disabled: 0,
            disabled_since: [Instant::ZERO; MAX_GROUPS],
            reported: 0,
            answered: 0,
            failed: [0; MAX_GROUPS],
            probe: 0,
            probing: false,
            superseded: 0,
        }
    }

    pub(super) fn discard_learned(&mut self) {
        *self = Self::of(self.swept);
    }

    pub(super) fn unsupported(&self) -> u32 {
        (self.refused | self.disabled) & !self.swept.forced
    }

    pub(super) fn forced(&self) -> u32 {
        self.swept.forced
    }

    pub(super) fn has_no_answers(&self) -> bool {
        self.answered == 0
    }

    pub(super) fn has(&self, group: u8) -> bool {
        let bit = 1 << group;
        // A device that has refused a group may lack the wider one, so superseded groups are
        // requested too.
        let superseded = self.unsupported() == 0 && self.superseded & bit != 0;
        let absent = self.lacks | self.refused | self.disabled | self.undecided();
        self.swept.forced & bit != 0 || absent & bit == 0 && !superseded
    }

    pub(super) fn all(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.swept.count).filter(|group| self.has(*group))
    }

    /// Returns whether the device has PortXmitWait only in PortCounters, or its capabilities are
    /// unknown.
    pub(super) fn wait_in_base(&self) -> bool {
        let extended = self.swept.extended.is_some_and(|group| self.has(group));
        let of_base = |known: Capabilities| {
            known.have(Needs::XmitWait) && !(extended && known.have(Needs::ExtendedErrors))
        };
        self.capabilities.known().is_none_or(of_base)
    }

    /// Returns the groups that the device may or may not have, because no answer has decided it
    /// yet.
    fn undecided(&self) -> u32 {
        match self.tick {
            Learned::Known(_) => 0,
            _ if self.probing => self.probe & !self.answered,
            _ => self.swept.optional & !self.answered,
        }
    }

    pub(super) fn learn(&mut self, capabilities: Capabilities, groups: &[Group]) {
        let capabilities = Capabilities {
            option_mask: self.option_mask,
            ..capabilities
        };
        self.capabilities = Learned::Known(capabilities);
        self.lacks = mask_of(groups, |group| {
            !capabilities.support(group, self.swept.kind)
        });
        self.superseded = mask_of(groups, |group| capabilities.supersede(group, groups));
    }

    pub(super) fn learn_sampling(&mut self, sampling: Sampling, groups: &[Group]) {
        self.tick = Learned::Known(sampling.tick);
        self.probe = 0;
        self.option_mask = Some(sampling.option_mask);
        if let Learned::Known(known) = self.capabilities {
            self.learn(known, groups);
        }
    }

    /// Returns whether PortSamplesControl is requested now, and counts the request.
    pub(super) fn take_sampling_try(&mut self) -> bool {
        let requested = self.tick == Learned::Unknown && self.sampling_tries > 0;
        self.sampling_tries -= u8::from(requested);
        requested
    }

    /// Permits one more request for PortSamplesControl if none is left.
    pub(super) fn retry_sampling(&mut self) {
        self.sampling_tries = self.sampling_tries.max(1);
    }

    /// Returns whether a group must be probed. If PortSamplesControl was refused or never
    /// answered, this starts to probe the optional groups.
    pub(super) fn needs_probe(&mut self, group: u8) -> bool {
        let no_mask = self.tick == Learned::Refused
            || self.tick == Learned::Unknown && self.sampling_tries == 0;
        if no_mask && !std::mem::replace(&mut self.probing, true) {
            let decided =
                self.lacks | self.refused | self.disabled | self.answered | self.swept.forced;
            self.probe = self.swept.optional & !decided;
        }
        self.probe & 1 << group != 0
    }

    pub(super) fn take_answer(&mut self, group: u8) {
        let bit = 1 << group;
        (self.answered, self.probe, self.disabled) =
            (self.answered | bit, self.probe & !bit, self.disabled & !bit);
        self.failed[usize::from(group)] = 0;
    }

    /// Records the refusal of a group. Returns whether it must be reported.
    pub(super) fn refuse(&mut self, group: u8) -> bool {
        let bit = 1 << group;
        let is_new = self.refused & bit == 0;
        (self.refused, self.probe, self.disabled) =
            (self.refused | bit, self.probe & !bit, self.disabled & !bit);
        self.report(bit) && is_new
    }

    /// Counts a request for counters without a reply. `answers` is true if the agent answered any
    /// request in this slot. Returns whether the group was disabled and must be reported.
    pub(super) fn fail(&mut self, group: u8, answers: bool, now: Instant) -> bool {
        self.count_failure(group, MAX_FAILED, answers, now)
    }

    /// Counts a probe without a reply. The arguments and the result are those of
    /// [`fail`](Self::fail).
    pub(super) fn fail_probe(&mut self, group: u8, answers: bool, now: Instant) -> bool {
        self.count_failure(group, MAX_FAILED_PROBES, answers, now)
    }

    fn count_failure(&mut self, group: u8, max_failed: u8, answers: bool, now: Instant) -> bool {
        let bit = 1 << group;
        if self.refused & bit != 0 {
            return false;
        }
        let max_failed = if self.answered & bit != 0 {
            MAX_FAILED_ANSWERED
        } else {
            max_failed
        };
        let failed = &mut self.failed[usize::from(group)];
        *failed = failed.saturating_add(1);
        if *failed < max_failed || !answers {
            return false;
        }
        (self.disabled, self.probe, self.answered) =
            (self.disabled | bit, self.probe & !bit, self.answered & !bit);
        self.disabled_since[usize::from(group)] = now;
        self.report(bit)
    }

    /// Marks a group as reported. Returns whether this is its first report.
    fn report(&mut self, bit: u32) -> bool {
        let is_new = self.reported & bit == 0;
        self.reported |= bit;
        is_new
    }

    /// Schedules probes of groups that were disabled long ago. A group stays disabled until it is
    /// answered.
    pub(super) fn retry_disabled(&mut self, now: Instant) {
        if self.disabled == 0 {
            return;
        }
        for (group, since) in self.disabled_since.iter_mut().enumerate() {
            let bit = 1 << group;
            let mandatory = self.swept.optional & bit == 0;
            let claimed =
                self.option_mask.is_some() || mandatory && self.capabilities != Learned::Unknown;
            if self.disabled & bit != 0
                && now - *since >= if claimed { DISABLED_CLAIMED } else { DISABLED }
            {
                (*since, self.probe) = (now, self.probe | bit);
            }
        }
    }
}
