//! Keeps the state of the alerts in a file, so that a restart of the hub repeats no message and
//! forgets none.
//!
//! The file has the alerts, whether receivers got them, the changes that wait for a
//! receiver, and what [`Watch`] remembers. It is written once a minute, at the look after each
//! change of what receivers got, and when the hub stops. A receiver can get a change again if
//! the hub stops while it is sent, or is killed before the next look.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::machine::{Alert, Finding, Phase, Subject};
use super::receivers::Receivers;
use super::settings::{Settings, named};
use super::watch::{Remembered, Watch};
use crate::state::Hub;
use crate::state_file::{self, Lines};

/// What the file keeps.
const STATE: &str = "alerts";

/// Longest time between two writes.
const EVERY: Duration = Duration::from_secs(60);

/// The file. Its lock is held from a change of an alert until its message waits for the receivers,
/// so no write is in between.
#[derive(Debug)]
pub(crate) struct StateFile(Mutex<Content>);

/// What is written.
#[derive(Debug)]
pub(super) struct Content {
    path: PathBuf,
    /// What [`Watch`] remembered after its last look.
    remembered: Vec<Remembered>,
    /// Monotonic time of the last write.
    written: Duration,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Alert(Saved),
    /// A change that a receiver does not have yet.
    Waiting {
        receiver: String,
        message: String,
    },
    Remembered(Remembered),
}

/// An alert.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    condition: String,
    state: Phase,
    subject: Subject,
    node: Option<String>,
    summary: String,
    region: Option<String>,
    since_ns: u64,
    resolved_ns: Option<u64>,
    is_told: bool,
    held: Duration,
}

impl Saved {
    fn of(alert: &Alert) -> Self {
        Self {
            condition: alert.condition.name.to_owned(),
            state: alert.state,
            subject: alert.subject.clone(),
            node: alert.node.clone(),
            summary: alert.summary.clone(),
            region: alert.region.clone(),
            since_ns: alert.since_ns,
            resolved_ns: alert.resolved_ns,
            is_told: alert.is_told,
            held: alert.held,
        }
    }

    /// Returns the alert, or `None` if this version does not have its condition.
    fn alert(self, settings: &Settings) -> Option<Alert> {
        let finding = Finding {
            condition: named(&self.condition)?,
            subject: self.subject,
            node: self.node,
            summary: self.summary,
            region: self.region,
            since_ns: None,
        };
        let mut alert = Alert::new(finding, (Duration::ZERO, self.since_ns), settings);
        (alert.state, alert.held) = (self.state, self.held);
        (alert.resolved_ns, alert.is_told) = (self.resolved_ns, self.is_told);
        Some(alert)
    }
}

impl StateFile {
    /// Continues with the state of a file.
    pub(super) fn load(
        hub: &Hub,
        path: &Path,
        settings: &Settings,
        watch: &mut Watch,
        receivers: &Receivers,
    ) -> Self {
        state_file::load(path, STATE, |line| match line {
            Line::Alert(saved) => {
                let alert = saved.alert(settings);
                alert.is_some_and(|alert| hub.alerts().machine.restore(alert))
            }
            Line::Waiting { receiver, message } => {
                receivers.send_again(&receiver, message);
                true
            }
            Line::Remembered(remembered) => watch.restore(remembered),
        });
        Self::new(path, watch)
    }

    pub(super) fn new(path: &Path, watch: &Watch) -> Self {
        Self(Mutex::new(Content {
            path: path.to_owned(),
            remembered: watch.remembered(),
            written: Duration::ZERO,
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the file.
    pub(crate) fn save(&self, hub: &Hub) {
        self.lock().write(hub);
    }
}

impl Content {
    /// Writes the file if receivers got something since the last write, and once a minute.
    pub(super) fn save_if_due(&mut self, hub: &Hub, watch: &Watch, now: Duration) {
        self.remembered = watch.remembered();
        if hub.alerts().is_changed || now.saturating_sub(self.written) >= EVERY {
            self.written = now;
            self.write(hub);
        }
    }

    fn write(&self, hub: &Hub) {
        let lines = {
            let mut alerts = hub.alerts();
            alerts.is_changed = false;
            let saved = alerts
                .machine
                .alerts()
                .map(|alert| Line::Alert(Saved::of(alert)));
            let waiting = alerts.receivers.iter().flat_map(|state| {
                state.waiting.iter().map(|message| Line::Waiting {
                    receiver: state.receiver.clone(),
                    message: String::from_utf8_lossy(message).into_owned(),
                })
            });
            let remembered = self.remembered.iter().cloned().map(Line::Remembered);
            saved.chain(waiting).chain(remembered).collect::<Vec<_>>()
        };
        let content = Lines::new().and_then(|mut file| {
            lines.iter().try_for_each(|line| file.add(line))?;
            file.finish()
        });
        state_file::save(&self.path, STATE, content);
    }
}
