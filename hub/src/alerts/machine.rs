//! The state machine of the alerts. It performs no I/O and reads no clock.
//!
//! A condition that is found becomes a *pending* alert, which *fires* after the hold time of the
//! condition. A firing alert is *resolved* when its condition has not been found for the recovery
//! time. While nothing is known about a condition, because no record of its device arrives, its
//! alert keeps its state for [`REMEMBERED`].

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use super::conditions::Condition;
use super::settings::Settings;

/// Time for which an alert keeps its state if nothing is known about its condition.
const REMEMBERED: Duration = Duration::from_secs(900);

/// Time for which a resolved alert is kept, as Prometheus does.
const KEPT: Duration = Duration::from_secs(900);

/// Max number of alerts. Further conditions are counted.
const MAX: usize = 5000;

/// What an alert is about: a port, a device, a sampler, or the whole fabric.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
pub(crate) struct Subject {
    /// Port GUID of the device.
    pub(crate) guid: Option<Guid>,
    pub(crate) port: Option<PortNum>,
    pub(crate) sampler: Option<String>,
}

/// A condition that is true now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) condition: &'static Condition,
    pub(crate) subject: Subject,
    /// Node description of the device. Untrusted text.
    pub(crate) node: Option<String>,
    /// A sentence about the condition, with names.
    pub(crate) summary: String,
    /// Name of the region of congestion.
    pub(crate) region: Option<String>,
}

impl Subject {
    /// Returns the identity of the alert of a condition with this name.
    fn id(&self, name: &str) -> String {
        let parts = [
            self.guid.map(|guid| guid.to_string()),
            self.port.map(|port| port.to_string()),
            self.sampler.clone(),
        ];
        parts
            .into_iter()
            .flatten()
            .fold(name.to_owned(), |id, part| id + "/" + &part)
    }
}

/// The state of an alert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// The condition is true, for less than its hold time.
    Pending,
    /// The condition is true.
    Firing,
    /// The condition was true.
    Resolved,
}

/// An alert.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Alert {
    /// Identity: the name and the subject.
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) condition: &'static Condition,
    pub(crate) state: Phase,
    #[serde(flatten)]
    pub(crate) subject: Subject,
    /// Node description of the device, if it has one.
    pub(crate) node: Option<String>,
    /// A sentence about the condition.
    pub(crate) summary: String,
    /// Name of the region of congestion, for an alert about its root.
    pub(crate) region: Option<String>,
    /// Address of the section of the runbook.
    pub(crate) runbook: String,
    /// Time from which the condition was true, in nanoseconds since 1970.
    pub(crate) since_ns: u64,
    /// Time at which the condition was found to be over.
    pub(crate) resolved_ns: Option<u64>,
    /// Monotonic times: start of the phase, the last time with the condition, and the last time at
    /// which something was known about it.
    #[serde(skip)]
    entered: Duration,
    #[serde(skip)]
    seen: Duration,
    #[serde(skip)]
    known: Duration,
}

/// All alerts by their conditions and subjects.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    alerts: BTreeMap<(&'static str, Subject), Alert>,
    /// Number of conditions in the last step that exceeded [`MAX`].
    pub(crate) left_out: usize,
}

impl Machine {
    /// Compares the alerts with what is found at a monotonic time and at a time in nanoseconds
    /// since 1970. Returns the alerts that fire or are resolved since the last step. `is_known`
    /// tells whether something is known about the conditions of a subject.
    pub(crate) fn step(
        &mut self,
        (now, wall_ns): (Duration, u64),
        found: Vec<Finding>,
        is_known: impl Fn(&Subject) -> bool,
        settings: &Settings,
    ) -> Vec<Alert> {
        self.left_out = 0;
        for finding in found {
            if !settings.off.contains(finding.condition.name) {
                self.find(finding, (now, wall_ns), settings);
            }
        }
        let mut changed = Vec::new();
        self.alerts.retain(|(_, subject), alert| {
            if alert.state == Phase::Resolved {
                return now.saturating_sub(alert.entered) < KEPT;
            }
            let is_found = alert.seen == now;
            if is_found || is_known(subject) {
                alert.known = now;
            } else if now.saturating_sub(alert.known) < REMEMBERED {
                alert.seen = now;
                return true;
            }
            let next = match alert.state {
                Phase::Pending if !is_found => return false,
                Phase::Pending
                    if now.saturating_sub(alert.entered) >= settings.hold(alert.condition) =>
                {
                    Phase::Firing
                }
                Phase::Firing
                    if !is_found && now.saturating_sub(alert.seen) >= settings.recovery =>
                {
                    alert.resolved_ns = Some(wall_ns);
                    Phase::Resolved
                }
                _ => return true,
            };
            (alert.state, alert.entered) = (next, now);
            changed.push(alert.clone());
            true
        });
        changed
    }

    fn find(&mut self, finding: Finding, (now, wall_ns): (Duration, u64), settings: &Settings) {
        let Finding {
            condition,
            subject,
            node,
            summary,
            region,
        } = finding;
        let is_full = self.alerts.len() >= MAX;
        let key = (condition.name, subject);
        match self.alerts.get_mut(&key) {
            Some(known) if known.state != Phase::Resolved => {
                (known.seen, known.node) = (now, node);
                (known.summary, known.region) = (summary, region);
            }
            None if is_full => self.left_out += 1,
            _ => {
                let alert = Alert {
                    id: key.1.id(condition.name),
                    condition,
                    state: Phase::Pending,
                    subject: key.1.clone(),
                    node,
                    summary,
                    region,
                    runbook: settings.runbook(condition),
                    since_ns: wall_ns,
                    resolved_ns: None,
                    entered: now,
                    seen: now,
                    known: now,
                };
                self.alerts.insert(key, alert);
            }
        }
    }

    /// Returns all alerts in the order of their names and subjects.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }
}
