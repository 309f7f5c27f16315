//! Reachability: whether a device answers.

/// Reachability of a device, over all slots and in the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sweep::engine) struct Reachability {
    state: State,
    /// Number of MADs without a reply since the last reply of the performance management agent.
    unanswered: u32,
    /// Highest kind of reply in this slot.
    replies: Replies,
    /// Whether a MAD expired in this slot.
    expired: bool,
    /// MADs sent in this slot.
    mads: u32,
    /// Number of MADs that expired in this slot, without requests that a device may ignore.
    expiries: u32,
}

/// State after the last slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Answering,
    /// The device was reported as reachable again. The next slot discards everything learned
    /// before.
    Returned,
    /// The agent of the device did not answer in the last slot.
    Silent,
    /// The device is silent and was reported as unreachable.
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
    /// Starts a slot. Returns whether the device has become reachable again.
    pub(super) fn restart(&mut self) -> bool {
        let returned = self.state == State::Returned;
        if returned {
            self.state = State::Answering;
        }
        (self.replies, self.expired, self.mads, self.expiries) = (Replies::None, false, 0, 0);
        returned
    }

    pub(in crate::sweep::engine) fn send(&mut self) {
        self.mads += 1;
    }

    /// Records a reply of the performance management agent (`by_agent`) or of subnet management.
    pub(in crate::sweep::engine) fn answer(&mut self, by_agent: bool) {
        self.replies = self.replies.max(if by_agent {
            Replies::Agent
        } else {
            Replies::Subnet
        });
        if by_agent {
            self.unanswered = 0;
        }
    }

    /// Counts an expired MAD. `must_answer` is false for a request that a device may ignore.
    pub(in crate::sweep::engine) fn expire(&mut self, must_answer: bool) {
        self.expired = true;
        self.expiries += u32::from(must_answer);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Ignores the expired MADs of this slot, because they are not the fault of the device.
    pub(in crate::sweep::engine) fn ignore_losses(&mut self) {
        self.expired = false;
    }

    pub(in crate::sweep::engine) fn has_answered(&self) -> bool {
        self.replies > Replies::None
    }

    /// Returns whether MADs were sent in this slot and none was answered.
    pub(super) fn is_silent(&self) -> bool {
        self.mads > 0 && !self.has_answered()
    }

    pub(in crate::sweep::engine) fn has_agent_answered(&self) -> bool {
        self.replies == Replies::Agent
    }

    pub(in crate::sweep::engine) fn was_silent(&self) -> bool {
        matches!(self.state, State::Silent | State::Unreachable)
    }

    /// Returns how many MADs were sent and how many expired in this slot, or `None` if the agent
    /// did not answer.
    pub(in crate::sweep::engine) fn losses(&self) -> Option<(u64, u64)> {
        self.has_agent_answered()
            .then(|| (self.mads.into(), self.expiries.into()))
    }

    /// Ends a slot or a discovery. Returns whether the device is reachable, if this has changed.
    ///
    /// A device without requests keeps its state. It becomes unreachable only after `silence`
    /// unanswered MADs, because single MADs may have been lost.
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

    #[cfg(test)]
    pub(in crate::sweep::engine) fn set_silent(&mut self) {
        self.state = State::Silent;
    }
}
