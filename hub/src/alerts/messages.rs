//! What receivers get: JSON.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use super::machine::{Alert, Phase};

/// Time after which Alertmanager resolves an alert that the hub no longer repeats.
const VALID: Duration = Duration::from_secs(240);

/// A change of state, for a webhook or a command.
#[derive(Serialize)]
struct Change<'a> {
    /// Name of the fabric.
    fabric: &'a str,
    #[serde(flatten)]
    alert: &'a Alert,
}

/// An alert in the API of Alertmanager, version 2.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    /// Identity of the alert, without texts of the fabric.
    labels: BTreeMap<&'static str, String>,
    annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<String>,
    ends_at: String,
}

/// Returns the message about a change of state.
pub(crate) fn change(fabric: &str, alert: &Alert) -> Vec<u8> {
    json(&Change { fabric, alert })
}

/// Returns the message to Alertmanager: the firing alerts, which end soon unless they are repeated,
/// and the resolved ones. With `has_watchdog`, it contains an alert that always fires.
pub(crate) fn alertmanager<'a>(
    fabric: &str,
    alerts: impl Iterator<Item = &'a Alert>,
    now_ns: u64,
    has_watchdog: bool,
) -> Vec<u8> {
    let until = time(now_ns + VALID.as_nanos() as u64);
    let watchdog = has_watchdog.then(|| Posted {
        labels: labels(fabric, "IbnetWatchdog", "none"),
        annotations: BTreeMap::from([(
            "summary",
            "This alert always fires. Without it, the hub does not work".to_owned(),
        )]),
        starts_at: None,
        ends_at: until.clone(),
    });
    let posted = |alert: &Alert| {
        let mut labels = labels(fabric, alert.condition.name, alert.condition.severity);
        let subject = &alert.subject;
        for (name, value) in [
            ("guid", subject.guid.map(|guid| guid.to_string())),
            ("port", subject.port.map(|port| port.to_string())),
            ("sampler", subject.sampler.clone()),
        ] {
            labels.extend(value.map(|value| (name, value)));
        }
        let mut annotations = BTreeMap::from([
            ("summary", alert.summary.clone()),
            ("runbook_url", alert.runbook.clone()),
        ]);
        annotations.extend(alert.node.clone().map(|node| ("node", node)));
        annotations.extend(alert.region.clone().map(|region| ("region", region)));
        Posted {
            labels,
            annotations,
            starts_at: Some(time(alert.since_ns)),
            ends_at: alert.resolved_ns.map_or_else(|| until.clone(), time),
        }
    };
    let alerts = alerts.filter(|alert| alert.state != Phase::Pending);
    json(
        &watchdog
            .into_iter()
            .chain(alerts.map(posted))
            .collect::<Vec<_>>(),
    )
}

fn labels(fabric: &str, name: &str, severity: &str) -> BTreeMap<&'static str, String> {
    let all = [
        ("alertname", name),
        ("severity", severity),
        ("fabric", fabric),
    ];
    // Alertmanager treats an empty label as a missing one.
    let all = all.into_iter().filter(|(_, value)| !value.is_empty());
    all.map(|(name, value)| (name, value.to_owned())).collect()
}

fn time(ns: u64) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Strings and numbers can always be written.
    serde_json::to_vec(value).unwrap_or_default()
}
