//! The status of a port in a slot, and what it indicates about the device. The sampler writes it,
//! and all readers of the records use it.

words! {
    /// Status of a port in a slot. Every assigned port has exactly one in every slot that ran.
    pub enum Status {
        /// All replies arrived within their timeout.
        Ok = "ok",
        /// A reply arrived after its timeout, but within the grace period. The counters in the
        /// record are valid.
        Late = "late",
        /// A MAD was not answered within the grace period.
        Timeout = "timeout",
        /// Replies to a MAD arrived, but none of them matches the request.
        BadReply = "bad_reply",
        /// A MAD could not be sent.
        SendError = "send_error",
        /// The agent returned an error status.
        MadError = "mad_error",
        /// The port was not queried, because its device did not answer three consecutive MADs.
        Unreachable = "unreachable",
        /// The port was not queried, or not completely, because the slot was over.
        Skipped = "skipped",
        /// The port was not queried in this slot, because its link is down. Such a port is queried
        /// only once in several slots.
        Down = "down",
        /// Another device answers at the LID. Its data is dropped.
        WrongDevice = "wrong_device",
    }
}

/// What a status indicates about the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// It answers.
    Answers,
    /// It answers, and the link of the port is down.
    Down,
    /// It does not answer, or another device answers.
    Silent,
    /// Nothing: the sampler did not query it.
    Nothing,
}

impl Status {
    /// Returns whether all queries of the slot were answered, in time or late.
    pub const fn is_answered(self) -> bool {
        matches!(self, Self::Ok | Self::Late)
    }

    /// Returns what the status indicates about the device.
    pub const fn says(self) -> Says {
        match self {
            Self::Ok | Self::Late | Self::MadError | Self::BadReply => Says::Answers,
            Self::Down => Says::Down,
            Self::Timeout | Self::Unreachable | Self::WrongDevice => Says::Silent,
            Self::Skipped | Self::SendError => Says::Nothing,
        }
    }
}
