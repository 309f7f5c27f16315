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
//! | [`receivers`], [`messages`] | who is told, and what |
//! | [`status`] | what the API shows |

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::machine::{Alert, Phase};
use self::marks::Marks;
use self::receivers::Receivers;
use self::settings::Settings;
use self::watch::Watch;
use crate::ingest::Clock;
use crate::kept;
use crate::state::{Hub, Now};
use crate::threads::Threads;

mod conditions;
pub(crate) mod machine;
pub(crate) mod marks;
mod messages;
mod receivers;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod watch;

/// Starts the thread that looks for conditions.
pub(crate) fn start(
    hub: Arc<Hub>,
    settings: Settings,
    clock: Clock,
    threads: &Threads,
) -> io::Result<()> {
    hub.alerts().marks = Marks::load(settings.marks.clone());
    let mut watch = Watch::default();
    let mut receivers = Receivers::start(&hub, &settings, threads)?;
    threads.start("alerts", move || {
        loop {
            let now = clock.now();
            // If the look fails, no beat is sent, and Alertmanager resolves its alerts.
            if let Some(changes) = look(&hub, &mut watch, now, &settings) {
                receivers.tell(now, &changes);
            }
            let change = hub.alerts().marks.take_change();
            if let Some((path, content)) = change {
                kept::write(&path, &content);
            }
            thread::sleep(Duration::from_nanos(watch::EVERY_NS));
        }
    })
}

/// Looks for conditions once, and changes the alerts. Returns those that fire or are resolved
/// since the last look, or `None` if the look failed.
fn look(hub: &Hub, watch: &mut Watch, now: Now, settings: &Settings) -> Option<Vec<Alert>> {
    let found = watch.look(hub, now, settings);
    let mut alerts = hub.alerts();
    match found {
        Ok(found) => {
            alerts.error = None;
            alerts.looked_ns = now.wall_ns;
            let known = |subject: &_| watch.knows(subject);
            let at = (now.monotonic, now.wall_ns);
            let mut changes = alerts.machine.step(at, found, known, settings);
            let ended = alerts.marks.expire(now.wall_ns);
            // Who was not told that an alert fires is told when the silence ends.
            let late = alerts
                .machine
                .alerts()
                .filter(|alert| alert.state == Phase::Firing && ended.contains(&alert.id));
            let known: BTreeSet<String> = changes.iter().map(|alert| alert.id.clone()).collect();
            changes.extend(late.filter(|alert| !known.contains(&alert.id)).cloned());
            for alert in &changes {
                tracing::info!(alert = alert.id, state = ?alert.state, "an alert has changed");
            }
            let marks = &alerts.marks;
            changes.retain(|alert| alert.state != Phase::Firing || !marks.is_silent(&alert.id));
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
