//! Alerts: conditions that need a person, and who is told about them.
//!
//! ```text
//! records, events, samplers -> watch (what is true now) -> machine (pending, firing, resolved)
//!     -> status (API and web page), receivers
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`conditions`] | the conditions, with their names, severities, hold times and limits |
//! | [`settings`] | the table `[alerts]` of the configuration |
//! | [`watch`] | finds the conditions that are true |
//! | [`machine`] | the state machine, without I/O and without a clock |
//! | [`marks`] | who has seen or silenced an alert |
//! | [`restart`] | what a restart of the hub continues |
//! | [`receivers`], [`messages`] | who is told, and what |
//! | [`status`] | what the API shows |

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::machine::{Alert, Finding, Phase};
use self::marks::Marks;
use self::receivers::Receivers;
use self::restart::StateFile;
use self::settings::Settings;
use self::status::Alerts;
use self::watch::Watch;
use crate::ingest::Clock;
use crate::kept;
use crate::query::error::ApiError;
use crate::state::{Hub, Now};
use crate::threads::Threads;

mod conditions;
pub(crate) mod machine;
pub(crate) mod marks;
mod messages;
mod receivers;
mod restart;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod watch;

/// Starts the thread that looks for conditions. Returns the file with the state, if there is one.
pub(crate) fn start(
    hub: Arc<Hub>,
    settings: Settings,
    clock: Clock,
    threads: &Threads,
) -> io::Result<Option<Arc<StateFile>>> {
    hub.alerts().marks = Marks::load(settings.marks.clone());
    let mut watch = Watch::default();
    let mut receivers = Receivers::start(&hub, &settings, threads)?;
    let file = settings
        .state
        .as_deref()
        .map(|path| StateFile::load(&hub, path, &settings, &mut watch, &receivers));
    let file = file.map(Arc::new);
    let returned = file.clone();
    threads.start("alerts", move || {
        loop {
            let now = clock.now();
            let found = watch.look(&hub, now, &settings);
            let file = file.as_deref().map(StateFile::lock);
            // If the look fails, no beat is sent, and Alertmanager resolves its alerts.
            if let Some(changes) = change(&hub, &watch, now, found, &settings) {
                receivers.tell(now, &changes);
            }
            if let Some(mut file) = file {
                file.save_if_due(&hub, &watch, now.monotonic);
            }
            let change = hub.alerts().marks.take_change();
            if let Some((path, content)) = change {
                kept::write(&path, &content);
            }
            thread::sleep(Duration::from_nanos(watch::EVERY_NS));
        }
    })?;
    Ok(returned)
}

/// Changes the alerts after a look. Returns those that fire or are resolved since the last look, or
/// `None` if the look failed.
fn change(
    hub: &Hub,
    watch: &Watch,
    now: Now,
    found: Result<Vec<Finding>, ApiError>,
    settings: &Settings,
) -> Option<Vec<Alert>> {
    let mut alerts = hub.alerts();
    match found {
        Ok(found) => {
            alerts.error = None;
            alerts.looked_ns = now.wall_ns;
            let at = (now.monotonic, now.wall_ns);
            let Alerts { machine, marks, .. } = &mut *alerts;
            let mut changes = machine.step(at, found, |alert| watch.knows(alert), settings);
            for alert in &changes {
                tracing::info!(alert = alert.id, state = ?alert.state, "an alert has changed");
            }
            changes.retain(|alert| alert.state == Phase::Resolved);
            // Receivers get an alert that fires again when its silence ends.
            machine.forget_told(&marks.expire(now.wall_ns));
            changes.extend(machine.take_untold(|id| marks.is_silent(id)));
            alerts.is_changed |= !changes.is_empty();
            Some(changes)
        }
        Err(error) => {
            // Only the first failure in a series is reported.
            if alerts.error.replace(error.reason.clone()).is_none() {
                tracing::warn!(error = ?error.reason, "cannot evaluate the records, so alerts do not change; trying again");
            }
            None
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
