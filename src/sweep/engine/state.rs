//! What the engine knows of each device and of each port while a slot runs.

use std::ops::Range;
use std::time::Duration;

use crate::mad::header::MadStatus;
use crate::mad::pma::{Capabilities, Group};
use crate::sweep::sample::Status;
use crate::time::Instant;
use crate::types::{Lid, NodeKind, PortNum};

/// For how long a group is set aside, and after how many requests in vain: at a loss of one in ten it happens once in a hundred million times by
/// chance.
const ASIDE: Duration = Duration::from_secs(600);
const ASIDE_AFTER: u8 = 8;

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) lid: Lid,
    pub(super) kind: NodeKind,
    pub(super) ports: Range<u32>,
    pub(super) capabilities: Known,
    /// Groups that it said it does not have, a bit each.
    pub(super) unsupported: u32,
    /// Those of them that it never said it lacks, but never answered while it answered others; asked again after [`ASIDE`].
    pub(super) aside: u32,
    /// When they were set aside.
    pub(super) aside_since: Instant,
    /// Groups that it answered, a bit each.
    pub(super) answers: u32,
    /// How often each group was given up without ever having been answered.
    pub(super) unanswered: [u8; 32],
    /// Groups of which it has every counter wider in another that is swept: they are not asked for.
    pub(super) superseded: u32,
    /// How many ports the first one of this slot is behind the first of all.
    pub(super) first: u32,
    /// Ports of which all was asked in this slot.
    pub(super) done: u32,
    /// The group of it that is asked next.
    pub(super) group: u8,
    /// Requests for capabilities that are left in this phase.
    pub(super) tries: u8,
    /// MADs in a row without a reply.
    pub(super) silent: u8,
    /// Transactions that wait for the end of their grace.
    pub(super) in_grace: u16,
    /// Whether a MAD of it holds a place in the window.
    pub(super) outstanding: bool,
    /// Left alone because it is silent.
    pub(super) suspended: bool,
    /// Whether it was counted in the discovery.
    pub(super) discovered: bool,
    /// Whether anything answered in this slot, and whether anything expired.
    pub(super) answered: bool,
    pub(super) expired: bool,
    /// Whether nothing answered in the last slot.
    pub(super) was_silent: bool,
    /// Whether the next slot asks anew what it has; until then the samples of this one are read by what was known.
    pub(super) to_forget: bool,
    /// How many slots in a row were too short for it.
    pub(super) skipped_for: u32,
    /// Where the next slot begins, if this one is too short for it.
    pub(super) next_first: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Not,
    Yes(Capabilities),
    /// It answered the question with an error.
    Refused,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) device: u32,
    pub(super) num: PortNum,
    pub(super) status: Option<Status>,
    pub(super) rtt: Duration,
    pub(super) mads: u32,
    pub(super) at: Option<Instant>,
    pub(super) mad_status: Option<MadStatus>,
    /// Transactions that may still be answered.
    pub(super) open: u8,
    /// Whether all that will be asked of it was asked.
    pub(super) asked: bool,
    /// Whether the slot ended before all was asked.
    pub(super) cut_short: bool,
    pub(super) late: bool,
    pub(super) lost: bool,
    pub(super) bad_reply: bool,
    /// The errno of a MAD that could not be sent.
    pub(super) send_failed: Option<i32>,
}

impl Known {
    /// What it can do, if it told.
    pub(super) fn known(self) -> Option<Capabilities> {
        match self {
            Self::Yes(capabilities) => Some(capabilities),
            Self::Not | Self::Refused => None,
        }
    }
}

impl Device {
    pub(super) fn new(lid: Lid, kind: NodeKind, ports: Range<u32>) -> Self {
        Self {
            lid,
            kind,
            first: 0,
            done: 0,
            ports,
            capabilities: Known::Not,
            unsupported: 0,
            aside: 0,
            aside_since: Instant::ZERO,
            answers: 0,
            unanswered: [0; 32],
            superseded: 0,
            group: 0,
            tries: 0,
            silent: 0,
            in_grace: 0,
            outstanding: false,
            suspended: false,
            discovered: false,
            answered: false,
            expired: false,
            was_silent: false,
            to_forget: false,
            skipped_for: 0,
            next_first: None,
        }
    }

    pub(super) fn restart(&mut self, tries: u8) {
        if std::mem::take(&mut self.to_forget) {
            self.forget();
        }
        (self.done, self.group, self.tries) = (0, 0, tries);
        self.skipped_for = if self.next_first.is_some() { self.skipped_for + 1 } else { 0 };
        self.first = self.next_first.take().unwrap_or(0);
        (self.silent, self.in_grace, self.outstanding, self.suspended, self.discovered) = (0, 0, false, false, false);
        (self.answered, self.expired) = (false, false);
    }

    /// The port that is asked now or next; `None` once all were.
    pub(super) fn current(&self) -> Option<u32> {
        let count = self.ports.end - self.ports.start;
        (self.done < count).then(|| self.ports.start + (self.first + self.done) % count)
    }

    /// The next slot begins where this one has come to.
    pub(super) fn keep_place(&mut self) {
        self.next_first = self.current().map(|port| port - self.ports.start);
    }

    /// Takes what it says that it can do.
    pub(super) fn learn(&mut self, capabilities: Capabilities, groups: &[Group]) {
        self.capabilities = Known::Yes(capabilities);
        let bit = |(place, group): (usize, &Group)| u32::from(group.is_superseded(groups, capabilities)) << place;
        self.superseded = groups.iter().enumerate().map(bit).fold(0, |all, bit| all | bit);
    }

    /// Knows nothing of it any more.
    pub(super) fn forget(&mut self) {
        (self.capabilities, self.unsupported, self.superseded) = (Known::Not, 0, 0);
        (self.aside, self.answers, self.unanswered) = (0, 0, [0; 32]);
    }

    /// A request for a group was given up. Tells whether the group is set aside for that: if it was never answered while the device answers
    /// others.
    pub(super) fn give_up_group(&mut self, place: u8, now: Instant) -> bool {
        let bit = 1 << place;
        if self.answers & bit != 0 || self.unsupported & bit != 0 {
            return false;
        }
        let times = &mut self.unanswered[usize::from(place)];
        *times = times.saturating_add(1);
        if *times < ASIDE_AFTER || !self.answered {
            return false;
        }
        (self.unsupported, self.aside, self.aside_since) = (self.unsupported | bit, self.aside | bit, now);
        true
    }

    /// Asks again for what was set aside long ago.
    pub(super) fn try_again(&mut self, now: Instant) {
        if self.aside != 0 && now - self.aside_since >= ASIDE {
            self.unsupported &= !self.aside;
            (self.aside, self.unanswered) = (0, [0; 32]);
        }
    }

    /// Whether a group is to be asked for: it did not say that it has not, nor is it all in another.
    pub(super) fn has(&self, group: Group, place: u8) -> bool {
        let capable = self.capabilities.known().is_none_or(|capabilities| capabilities.have(group.attribute().needs));
        let bit = 1 << place;
        // One that refused any group may have refused the wider one.
        let superseded = self.unsupported == 0 && self.superseded & bit != 0;
        capable && self.unsupported & bit == 0 && !superseded
    }
}

impl Port {
    pub(super) fn new(device: u32, num: PortNum) -> Self {
        Self {
            device,
            num,
            status: None,
            rtt: Duration::ZERO,
            mads: 0,
            at: None,
            mad_status: None,
            open: 0,
            asked: false,
            cut_short: false,
            late: false,
            lost: false,
            bad_reply: false,
            send_failed: None,
        }
    }
}
