//! The state machine of the alerts. It performs no I/O and reads no clock.
//!
//! A condition that is found becomes a *pending* alert, which *fires* after the hold time of the
//! condition. A firing alert is *resolved* when its condition has not been found for the recovery
//! time. While nothing is known about a condition, because no record of its device arrives, its
//! alert keeps its state for [`REMEMBERED`].

use std::collections::BTreeMap;
use std::time::Duration;

use ibnet_record::types::{Guid, PortNum};
use serde::{Deserialize, Serialize};

use super::conditions::Condition;
use super::settings::Settings;

/// Time for which an alert keeps its state if nothing is known about its condition.
const REMEMBERED: Duration = Duration::from_secs(900);

/// Time for which a resolved alert is kept, as Prometheus does.
const KEPT: Duration = Duration::from_secs(900);

/// Max number of alerts. Further conditions are counted.
const MAX: usize = 5000;

/// What an alert is about: a port, a device, a sampler, or the whole fabric.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
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
    /// Time from which the condition is true, if the records have it.
    pub(crate) since_ns: Option<u64>,
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
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
    /// Whether receivers got that it fires, since the last silence.
    #[serde(skip)]
    pub(super) is_told: bool,
    /// Time in the phase while the hub ran.
    #[serde(skip)]
    pub(super) held: Duration,
    /// Monotonic times: the last time with the condition, and the last time at which something was
    /// known about it.
    #[serde(skip)]
    seen: Duration,
    #[serde(skip)]
    known: Duration,
}

impl Alert {
    /// Returns a pending alert.
    pub(super) fn new(
        finding: Finding,
        (now, wall_ns): (Duration, u64),
        settings: &Settings,
    ) -> Self {
        let condition = finding.condition;
        Self {
            id: finding.subject.id(condition.name),
            condition,
            state: Phase::Pending,
            subject: finding.subject,
            node: finding.node,
            summary: finding.summary,
            region: finding.region,
            runbook: settings.runbook(condition),
            since_ns: finding.since_ns.unwrap_or(wall_ns),
            resolved_ns: None,
            is_told: false,
            held: Duration::ZERO,
            seen: now,
            known: now,
        }
    }
}

/// All alerts by their conditions and subjects.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    alerts: BTreeMap<(&'static str, Subject), Alert>,
    /// Monotonic time of the last step.
    now: Duration,
    /// Number of conditions in the last step that exceeded [`MAX`].
    pub(crate) left_out: usize,
}

impl Machine {
    /// Compares the alerts with what is found at a monotonic time and at a time in nanoseconds
    /// since 1970. Returns the alerts that fire or are resolved since the last step. `is_known`
    /// returns whether something is known about the condition of an alert.
    pub(crate) fn step(
        &mut self,
        (now, wall_ns): (Duration, u64),
        found: Vec<Finding>,
        is_known: impl Fn(&Alert) -> bool,
        settings: &Settings,
    ) -> Vec<Alert> {
        self.left_out = 0;
        let passed = now.saturating_sub(std::mem::replace(&mut self.now, now));
        for alert in self.alerts.values_mut() {
            alert.held = alert.held.saturating_add(passed);
        }
        for finding in found {
            if !settings.off.contains(finding.condition.name) {
                self.find(finding, (now, wall_ns), settings);
            }
        }
        let mut changed = Vec::new();
        self.alerts.retain(|_, alert| {
            if alert.state == Phase::Resolved {
                return alert.held < KEPT;
            }
            let is_found = alert.seen == now;
            if is_found || is_known(alert) {
                alert.known = now;
            } else if now.saturating_sub(alert.known) < REMEMBERED {
                alert.seen = now;
                return true;
            }
            let next = match alert.state {
                Phase::Pending if !is_found => return false,
                Phase::Pending if alert.held >= settings.hold(alert.condition) => Phase::Firing,
                Phase::Firing
                    if !is_found && now.saturating_sub(alert.seen) >= settings.recovery =>
                {
                    alert.resolved_ns = Some(wall_ns);
                    Phase::Resolved
                }
                _ => return true,
            };
            (alert.state, alert.held) = (next, Duration::ZERO);
            changed.push(alert.clone());
            true
        });
        changed
    }

    fn find(&mut self, finding: Finding, (now, wall_ns): (Duration, u64), settings: &Settings) {
        let is_full = self.alerts.len() >= MAX;
        let key = (finding.condition.name, finding.subject.clone());
        match self.alerts.get_mut(&key) {
            Some(known) if known.state != Phase::Resolved => {
                (known.seen, known.node) = (now, finding.node);
                (known.summary, known.region) = (finding.summary, finding.region);
                known.since_ns = finding.since_ns.unwrap_or(known.since_ns);
            }
            None if is_full => self.left_out += 1,
            _ => {
                let alert = Alert::new(finding, (now, wall_ns), settings);
                self.alerts.insert(key, alert);
            }
        }
    }

    /// Continues with an alert of an earlier run. Its recovery time begins anew, because nothing is
    /// known about its condition in between. Returns whether there was room for it.
    pub(super) fn restore(&mut self, alert: Alert) -> bool {
        let has_room = self.alerts.len() < MAX;
        if has_room {
            let key = (alert.condition.name, alert.subject.clone());
            self.alerts.insert(key, alert);
        }
        has_room
    }

    /// Sends the firing alerts among these again.
    pub(super) fn forget_told(&mut self, ids: &[String]) {
        for alert in self.alerts.values_mut() {
            alert.is_told &= !ids.contains(&alert.id);
        }
    }

    /// Returns the firing alerts that receivers have not got, except the silent ones, as sent.
    pub(super) fn take_untold(&mut self, is_silent: impl Fn(&str) -> bool) -> Vec<Alert> {
        let is_due = |alert: &&mut Alert| {
            alert.state == Phase::Firing && !alert.is_told && !is_silent(&alert.id)
        };
        let due = self.alerts.values_mut().filter(is_due);
        due.map(|alert| {
            alert.is_told = true;
            alert.clone()
        })
        .collect()
    }

    /// Returns all alerts in the order of their names and subjects.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }
}
