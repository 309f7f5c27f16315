//! Sends notifications to the service manager: `ready` after the first slot, `alive` after each
//! slot, `reloading` and `stopping`. Does nothing without a service manager.

use std::time::Duration;

use sd_notify::NotifyState;

/// Watchdog time in slots. If no slot ends within this time, the service manager may assume that
/// the sweep hangs.
const WATCHDOG_SLOTS: u32 = 3;

/// The connection to the service manager.
pub(super) struct Manager {
    has_watchdog: bool,
    /// Whether the last report was `ready` or `stopping`, after which no further `ready` is sent.
    is_ready: bool,
}

impl Manager {
    pub(super) fn new() -> Self {
        Self {
            has_watchdog: sd_notify::watchdog_enabled().is_some(),
            is_ready: false,
        }
    }

    /// Extends the watchdog time if slots of this interval need more.
    pub(super) fn expect_slots_every(&self, interval: Duration) {
        let needed = interval * WATCHDOG_SLOTS;
        if sd_notify::watchdog_enabled().is_some_and(|watchdog| watchdog < needed) {
            let needed = format!("WATCHDOG_USEC={}", needed.as_micros());
            notify(&[NotifyState::Custom(&needed)]);
        }
    }

    /// Reports that every worker has ended a slot.
    pub(super) fn alive(&self) {
        if self.has_watchdog {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// Reports that all workers sweep. Does nothing if this was already reported.
    pub(super) fn ready(&mut self, status: &str) {
        if !std::mem::replace(&mut self.is_ready, true) {
            notify(&[NotifyState::Ready, NotifyState::Status(status)]);
        }
    }

    /// Reports that a reload starts. Does nothing before the first slot.
    pub(super) fn reloading(&mut self) {
        if std::mem::take(&mut self.is_ready) {
            // systemd 253 and later requires the time.
            let when = NotifyState::monotonic_usec_now().unwrap_or(NotifyState::MonotonicUsec(0));
            notify(&[
                NotifyState::Reloading,
                when,
                NotifyState::Status("reloading"),
            ]);
        }
    }

    /// Reports that the program stops.
    pub(super) fn stopping(&mut self) {
        self.is_ready = true;
        notify(&[
            NotifyState::Stopping,
            NotifyState::Status("closing the current slot"),
        ]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
