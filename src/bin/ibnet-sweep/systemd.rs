//! What a service manager is told: ready after the first slot, alive after each, reloading, stopping. Without one, nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// So many slots may fail to end before the service manager may think that the sweep hangs.
const SLOTS_OF_PATIENCE: u32 = 3;

/// The service manager's view of this process.
pub(super) struct Manager {
    watched: bool,
    /// Whether it was told that we are ready and nothing else since.
    ready: bool,
}

impl Manager {
    pub(super) fn new() -> Self {
        Self { watched: sd_notify::watchdog_enabled().is_some(), ready: false }
    }

    /// Gives slots of this interval the time that they need, if the manager's is shorter.
    pub(super) fn expect_slots_every(&self, interval: Duration) {
        let needed = interval * SLOTS_OF_PATIENCE;
        if sd_notify::watchdog_enabled().is_some_and(|watchdog| watchdog < needed) {
            let needed = format!("WATCHDOG_USEC={}", needed.as_micros());
            tell(&[NotifyState::Custom(&needed)]);
        }
    }

    /// Every lane ended a slot.
    pub(super) fn beat(&self) {
        if self.watched {
            tell(&[NotifyState::Watchdog]);
        }
    }

    /// All sweep; told once until something else is.
    pub(super) fn ready(&mut self, status: &str) {
        if !std::mem::replace(&mut self.ready, true) {
            tell(&[NotifyState::Ready, NotifyState::Status(status)]);
        }
    }

    pub(super) fn reloading(&mut self) {
        // Before the first slot nothing that was promised is interrupted.
        if std::mem::take(&mut self.ready) {
            // Managers of 2023 and later want to know when.
            let when = NotifyState::monotonic_usec_now().unwrap_or(NotifyState::MonotonicUsec(0));
            tell(&[NotifyState::Reloading, when, NotifyState::Status("reloading")]);
        }
    }

    pub(super) fn stopping(&mut self) {
        // Nothing more is said of readiness.
        self.ready = true;
        tell(&[NotifyState::Stopping, NotifyState::Status("closing the slot that runs")]);
    }
}

fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
