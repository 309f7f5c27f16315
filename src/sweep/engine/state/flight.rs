//! MADs in flight to one device.

/// MADs in flight to one device. At most one of them holds a place in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::sweep::engine) struct Flight {
    turn: Turn,
    /// Number of consecutive MADs without a reply.
    silent: u8,
    /// Number of expired MADs whose grace period has not ended.
    in_grace: u16,
    /// Number of MADs of `in_grace` that will not be answered: a later MAD was answered in time,
    /// and an agent answers in order.
    lost: u16,
}

/// Permission to query the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Turn {
    /// The next MAD may be sent.
    #[default]
    Free,
    /// A MAD holds a place in the window.
    Outstanding,
    /// The device is silent. No MAD is sent until it answers, or until a grace period ends.
    Suspended,
}

/// Consequence of the end of a grace period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sweep::engine) enum AfterGrace {
    /// Nothing changes.
    Unchanged,
    /// The device may be queried again.
    Resumed,
    /// The device did not answer its last MADs. It gets no more requests in this slot.
    GivenUp,
}

impl Flight {
    pub(in crate::sweep::engine) fn is_free(self) -> bool {
        self.turn == Turn::Free
    }

    /// Returns whether requests are held back because the device is silent.
    pub(in crate::sweep::engine) fn is_suspended(self) -> bool {
        self.turn == Turn::Suspended
    }

    pub(in crate::sweep::engine) fn is_over(self) -> bool {
        self.turn != Turn::Outstanding && self.in_grace == 0
    }

    /// Returns whether this number of MADs in a row had no reply.
    pub(in crate::sweep::engine) fn is_silent(self, silence: u8) -> bool {
        self.silent >= silence
    }

    #[cfg(test)]
    pub(in crate::sweep::engine) fn unanswered(self) -> u16 {
        self.in_grace - self.lost
    }

    pub(in crate::sweep::engine) fn send(&mut self) {
        self.turn = Turn::Outstanding;
    }

    /// Records that a MAD was answered, in time or after it had expired. Returns whether the next
    /// MAD may now be sent at once.
    pub(in crate::sweep::engine) fn answer(&mut self, expired: bool) -> bool {
        self.silent = 0;
        self.in_grace -= u16::from(expired);
        self.lost = if expired {
            self.lost.min(self.in_grace)
        } else {
            self.in_grace
        };
        self.free_turn(expired)
    }

    /// Returns whether one more unanswered request would give up the device.
    pub(in crate::sweep::engine) const fn one_before(&self, silence: u8) -> bool {
        self.silent + 1 >= silence
    }

    /// Records that the MAD in the window expired. `counts` is false for a request that the device
    /// may ignore. Returns whether the next MAD may be sent.
    pub(in crate::sweep::engine) fn expire(&mut self, counts: bool, silence: u8) -> bool {
        self.in_grace += 1;
        self.silent = self.silent.saturating_add(u8::from(counts));
        let suspend = self.silent >= silence || self.in_grace - self.lost >= u16::from(silence);
        self.turn = if suspend { Turn::Suspended } else { Turn::Free };
        !suspend
    }

    pub(in crate::sweep::engine) fn end_grace(&mut self, silence: u8) -> AfterGrace {
        self.in_grace -= 1;
        self.lost = self.lost.min(self.in_grace);
        match self.turn {
            Turn::Suspended if self.silent < silence => {
                self.turn = Turn::Free;
                AfterGrace::Resumed
            }
            Turn::Suspended if self.in_grace == 0 => AfterGrace::GivenUp,
            _ => AfterGrace::Unchanged,
        }
    }

    /// Records that a MAD was not sent, or was lost with the transport. Returns whether the next
    /// MAD may now be sent at once.
    pub(in crate::sweep::engine) fn fail(&mut self, expired: bool) -> bool {
        self.in_grace -= u16::from(expired);
        self.lost = self.lost.min(self.in_grace);
        self.free_turn(expired)
    }

    /// Sets the number of unanswered MADs to 0, because they are not the fault of the device.
    pub(in crate::sweep::engine) fn ignore_losses(&mut self) {
        self.silent = 0;
    }

    /// Ends the silence of a device that was found at another LID. The device stays suspended
    /// while expired MADs may still be answered. Returns whether the next MAD may be sent.
    pub(in crate::sweep::engine) fn resume(&mut self) -> bool {
        self.silent = 0;
        if self.turn == Turn::Suspended && self.in_grace == 0 {
            self.turn = Turn::Free;
        }
        self.is_free()
    }

    /// Permits the next MAD after a MAD has ended. Does nothing if the ended MAD had expired and
    /// another one is now in flight.
    fn free_turn(&mut self, expired: bool) -> bool {
        let free = !expired || self.turn == Turn::Suspended;
        if free {
            self.turn = Turn::Free;
        }
        free
    }
}
