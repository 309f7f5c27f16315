//! Which groups of counters a device has, as far as that is known.
//!
//! 1. ClassPortInfo and OptionMask of PortSamplesControl say what is there. What is not is not asked, and absent from the records.
//! 2. Where OptionMask is not answered, each optional group is probed: one that answers is there, one that refuses is not, and one that never
//!    answers while the device answers others is set aside.
//! 3. A lost answer never means that something is not there. What was set aside is probed again every ten minutes, at no port's cost. One that answered
//!    once is set aside only after sixty requests in vain.

use std::time::Duration;

use crate::mad::pma::{Capabilities, Group, Sampling};
use crate::time::Instant;
use crate::types::NodeKind;

/// For how long a group is set aside that no mask told of, and one that the device says it has: it may only be slow for a while.
const ASIDE: Duration = Duration::from_secs(600);
const ASIDE_CLAIMED: Duration = Duration::from_secs(60);

/// After how many requests for a port's counters in vain: at a loss of one in ten it happens once in a hundred million times by chance.
const ASIDE_AFTER: u8 = 8;

/// And one that answered before: then somebody else may have, at the same LID.
const ASIDE_AFTER_ANSWERS: u8 = 60;

/// After how many probes in vain.
const PROBES: u8 = 3;

/// How often PortSamplesControl is asked before it is done without.
const SAMPLING_TRIES: u8 = 3;

/// What is known of an agent; a bit a group, by its place among those that are swept.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    kind: NodeKind,
    /// ClassPortInfo, with OptionMask in it once that is known.
    pub(super) capabilities: Known<Capabilities>,
    /// Tick of PortSamplesControl, and its OptionMask.
    pub(super) tick: Known<u8>,
    option_mask: Option<u64>,
    /// Requests for PortSamplesControl that are left.
    pub(super) sampling_tries: u8,
    /// Those that it does not have by what it says of itself.
    lacks: u32,
    /// Those that it refused.
    refused: u32,
    /// Those that it never answered while it answered others, and when they were set aside.
    aside: u32,
    aside_since: [Instant; 32],
    /// Those whose being set aside was told.
    told: u32,
    /// Those that it answered.
    pub(super) answers: u32,
    /// How often each was asked in vain since it was answered last.
    unanswered: [u8; 32],
    /// Those that are to be probed.
    pub(super) probe: u32,
    /// Whether probing began.
    probing: bool,
    /// Those of which it has every counter wider in another that is swept: they are not asked for.
    superseded: u32,
    /// How many are swept.
    swept: u8,
    /// Those that no bit of ClassPortInfo tells of.
    optional: u32,
    /// Those that are asked for whatever it says of itself.
    forced: u32,
}

/// What is known of an answer that is asked for once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known<T> {
    /// It was not answered yet.
    Not,
    Yes(T),
    /// It was answered with an error.
    Refused,
}

impl<T: Copy> Known<T> {
    /// What was told, if it was.
    pub(super) fn known(self) -> Option<T> {
        match self {
            Self::Yes(value) => Some(value),
            Self::Not | Self::Refused => None,
        }
    }
}

impl Groups {
    pub(super) fn new(kind: NodeKind, swept: u8, optional: u32, forced: u32) -> Self {
        Self {
            kind,
            swept,
            optional,
            forced,
            capabilities: Known::Not,
            tick: Known::Not,
            option_mask: None,
            sampling_tries: SAMPLING_TRIES,
            lacks: 0,
            refused: 0,
            aside: 0,
            aside_since: [Instant::ZERO; 32],
            told: 0,
            answers: 0,
            unanswered: [0; 32],
            probe: 0,
            probing: false,
            superseded: 0,
        }
    }

    /// Knows nothing of it any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.kind, self.swept, self.optional, self.forced);
    }

    /// Groups that it refused or that were set aside.
    pub(super) fn unsupported(&self) -> u32 {
        (self.refused | self.aside) & !self.forced
    }

    /// Groups that are asked for whatever it says of itself.
    pub(super) fn forced(&self) -> u32 {
        self.forced
    }

    /// Whether a group is to be asked for.
    pub(super) fn has(&self, place: u8) -> bool {
        let bit = 1 << place;
        // One that refused any group may have refused the wider one.
        let superseded = self.unsupported() == 0 && self.superseded & bit != 0;
        self.forced & bit != 0 || (self.lacks | self.refused | self.aside | self.undecided()) & bit == 0 && !superseded
    }

    /// How many groups are asked for of each port.
    pub(super) fn count(&self) -> u32 {
        (0..self.swept).filter(|place| self.has(*place)).count() as u32
    }

    /// Groups of which it is not known yet whether it has them.
    fn undecided(&self) -> u32 {
        match self.tick {
            Known::Yes(_) => 0,
            _ if self.probing => self.probe & !self.answers,
            _ => self.optional & !self.answers,
        }
    }

    /// Those of these groups that no bit of ClassPortInfo tells of.
    pub(super) fn optional(groups: &[Group]) -> u32 {
        let optional = (0..).zip(groups).filter(|(_, group)| !matches!(group, Group::Base | Group::Extended));
        optional.fold(0, |bits, (place, _)| bits | 1 << place)
    }

    /// Takes what it says that it can do.
    pub(super) fn learn(&mut self, capabilities: Capabilities, groups: &[Group]) {
        let capabilities = Capabilities { option_mask: self.option_mask, ..capabilities };
        self.capabilities = Known::Yes(capabilities);
        let bits = |is: &dyn Fn(Group) -> bool| (0..).zip(groups).fold(0, |bits, (place, group)| bits | u32::from(is(*group)) << place);
        self.lacks = bits(&|group| !group.is_supported(self.kind, capabilities));
        self.superseded = bits(&|group| group.is_superseded(groups, capabilities));
    }

    /// Takes its OptionMask and its tick.
    pub(super) fn learn_sampling(&mut self, sampling: Sampling, groups: &[Group]) {
        self.tick = Known::Yes(sampling.tick);
        self.probe = 0;
        self.option_mask = Some(sampling.option_mask);
        if let Known::Yes(known) = self.capabilities {
            self.learn(known, groups);
        }
    }

    /// Begins to probe what no mask tells of, once PortSamplesControl was asked in vain.
    pub(super) fn begin_probing(&mut self) {
        let in_vain = self.tick == Known::Refused || self.tick == Known::Not && self.sampling_tries == 0;
        if in_vain && !std::mem::replace(&mut self.probing, true) {
            self.probe = self.optional & !(self.lacks | self.refused | self.aside | self.answers | self.forced);
        }
    }

    /// A group was answered.
    pub(super) fn answered(&mut self, place: u8) {
        self.answers |= 1 << place;
        self.unanswered[usize::from(place)] = 0;
        self.probe &= !(1 << place);
        self.aside &= !(1 << place);
    }

    /// A group was refused. Tells whether that is news.
    pub(super) fn refuse(&mut self, place: u8) -> bool {
        let bit = 1 << place;
        let news = self.refused & bit == 0;
        (self.refused, self.probe, self.aside) = (self.refused | bit, self.probe & !bit, self.aside & !bit);
        let untold = self.told & bit == 0;
        self.told |= bit;
        news && untold
    }

    /// A request for a port's counters was given up, of a device that answers or not. Tells whether it is news that the group is set aside for that.
    pub(super) fn give_up(&mut self, place: u8, answers: bool, now: Instant) -> bool {
        self.ask_in_vain(place, ASIDE_AFTER, answers, now)
    }

    /// So was a probe.
    pub(super) fn give_up_probe(&mut self, place: u8, answers: bool, now: Instant) -> bool {
        self.ask_in_vain(place, PROBES, answers, now)
    }

    fn ask_in_vain(&mut self, place: u8, most: u8, answers: bool, now: Instant) -> bool {
        let bit = 1 << place;
        if self.refused & bit != 0 {
            return false;
        }
        let most = if self.answers & bit != 0 { ASIDE_AFTER_ANSWERS } else { most };
        let times = &mut self.unanswered[usize::from(place)];
        *times = times.saturating_add(1);
        // It is asked again.
        if *times < most || !answers {
            return false;
        }
        (self.aside, self.probe, self.answers) = (self.aside | bit, self.probe & !bit, self.answers & !bit);
        self.aside_since[usize::from(place)] = now;
        let untold = self.told & bit == 0;
        self.told |= bit;
        untold
    }

    /// Probes again what was set aside long ago: once, and it stays aside meanwhile.
    pub(super) fn try_again(&mut self, now: Instant) {
        if self.aside == 0 {
            return;
        }
        for place in 0..32 {
            let claimed = self.option_mask.is_some() || self.optional & 1 << place == 0 && self.capabilities != Known::Not;
            let since = &mut self.aside_since[place];
            if self.aside & 1 << place != 0 && now - *since >= if claimed { ASIDE_CLAIMED } else { ASIDE } {
                (*since, self.probe) = (now, self.probe | 1 << place);
            }
        }
    }
}
