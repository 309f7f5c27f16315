//! Whether a device answers.

/// Whether a device answers, over slots and in the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sweep::engine) struct Reachability {
    state: State,
    /// MADs left unanswered since the performance management agent answered last.
    unanswered: u32,
    /// Highest kind of reply in this slot.
    replies: Replies,
    /// Whether a MAD expired in this slot.
    expired: bool,
    /// MADs sent in this slot.
    mads: u32,
    /// Those of `mads` that expired although the device must answer them.
    expiries: u32,
}

/// State after the last slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Answering,
    /// It was reported as reachable again: the next slot discards what was learned before.
    Returned,
    /// Its agent did not answer in the last slot.
    Silent,
    /// It is silent and was reported as unreachable.
    Unreachable,
}

/// Highest kind of reply in a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Replies {
    #[default]
    None,
    /// Subnet management only.
    Subnet,
    /// The performance management agent.
    Agent,
}

impl Reachability {
    /// Starts a slot. Returns whether the device has returned from being unreachable.
    pub(super) fn restart(&mut self) -> bool {
        let returned = self.state == State::Returned;
        if returned {
            self.state = State::Answering;
        }
        (self.replies, self.expired, self.mads, self.expiries) = (Replies::None, false, 0, 0);
        returned
    }

    /// A MAD is sent.
    pub(in crate::sweep::engine) fn send(&mut self) {
        self.mads += 1;
    }

    /// The device replied: its performance management agent, or subnet management.
    pub(in crate::sweep::engine) fn answer(&mut self, by_agent: bool) {
        self.replies = self.replies.max(if by_agent { Replies::Agent } else { Replies::Subnet });
        if by_agent {
            self.unanswered = 0;
        }
    }

    /// A MAD expired, which the device must answer or need not.
    pub(in crate::sweep::engine) fn expire(&mut self, must_answer: bool) {
        self.expired = true;
        self.expiries += u32::from(must_answer);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// The expired MADs of this slot do not count against the device.
    pub(in crate::sweep::engine) fn forgive(&mut self) {
        self.expired = false;
    }

    /// Returns whether the device answered anything in this slot.
    pub(in crate::sweep::engine) fn has_answered(&self) -> bool {
        self.replies > Replies::None
    }

    /// Returns whether the agent did not answer in the last slot.
    pub(in crate::sweep::engine) fn was_silent(&self) -> bool {
        matches!(self.state, State::Silent | State::Unreachable)
    }

    /// MADs sent in this slot and those that expired, if the agent answered at all.
    pub(in crate::sweep::engine) fn losses(&self) -> Option<(u64, u64)> {
        (self.replies == Replies::Agent).then(|| (self.mads.into(), self.expiries.into()))
    }

    /// Ends a slot, or a discovery. Returns whether the device is reachable, if that has changed.
    ///
    /// A device that got no requests stays as it was. Fewer than `silence` unanswered MADs are no
    /// reason to report a device with one port: one of them may have been lost.
    pub(in crate::sweep::engine) fn finish(&mut self, silence: u8, in_slot: bool) -> Option<bool> {
        let was_unreachable = self.state == State::Unreachable;
        let silent = self.replies < Replies::Agent && (self.expired || self.was_silent());
        let unreachable = silent && (was_unreachable || self.unanswered >= u32::from(silence));
        self.state = match (silent, unreachable) {
            (_, true) => State::Unreachable,
            (true, false) => State::Silent,
            (false, false) if was_unreachable && in_slot => State::Returned,
            (false, false) => State::Answering,
        };
        (unreachable != was_unreachable).then_some(!unreachable)
    }

    /// Makes the device one that did not answer in the last slot.
    #[cfg(test)]
    pub(in crate::sweep::engine) fn set_silent(&mut self) {
        self.state = State::Silent;
    }
}
