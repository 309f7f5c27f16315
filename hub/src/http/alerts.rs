//! Handlers for alerts: their list, and the marks of users.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use super::posting::{Posted, Sender};
use super::values::now_ns;
use crate::alerts::machine::{Alert, Phase};
use crate::alerts::marks::Mark;
use crate::alerts::status::ReceiverState;
use crate::query::error::ApiError;
use crate::state::Hub;

/// Max length of a reason in bytes, and max duration of a mark.
const MAX_REASON: usize = 500;
const MAX_MARK_NS: u64 = 366 * 86_400_000_000_000;

#[derive(Serialize)]
struct Alerts {
    /// Time of the last look for conditions. 0 before the first one.
    looked_ns: u64,
    /// Why the last look failed. Null if it did not.
    error: Option<String>,
    /// Number of alerts that are not listed, because there are too many.
    left_out: usize,
    /// Number of firing alerts that are not silenced.
    firing: usize,
    /// Whether users may mark alerts.
    markable: bool,
    rows: Vec<Row>,
    receivers: Vec<ReceiverState>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    alert: Alert,
    /// Who has seen or silenced the alert.
    mark: Option<Mark>,
}

/// A request to mark an alert. A time in the past removes the mark.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    id: String,
    why: String,
    silent: bool,
    until_ns: u64,
}

fn answer(hub: &Hub) -> Result<Answer, ApiError> {
    let alerts = hub.alerts();
    let is_loud =
        |alert: &&Alert| alert.state == Phase::Firing && !alerts.marks.is_silent(&alert.id);
    let row = |alert: &Alert| Row {
        alert: alert.clone(),
        mark: alerts.marks.get(&alert.id).cloned(),
    };
    Answer::json(&Alerts {
        looked_ns: alerts.looked_ns,
        error: alerts.error.clone(),
        left_out: alerts.machine.left_out,
        firing: alerts.machine.alerts().filter(is_loud).count(),
        markable: hub.users.may_post(),
        rows: alerts.machine.alerts().map(row).collect(),
        receivers: alerts.receivers.clone(),
    })
}

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    Ok(answer(&app.hub)?.respond(&headers))
}

pub(crate) async fn mark(posted: Posted) -> Answered {
    let work = |hub: &Hub, sender: &Sender, request| {
        set(hub, sender, request)?;
        answer(hub)
    };
    posted.serve("id, why, silent and until_ns", work).await
}

fn set(hub: &Hub, sender: &Sender, request: Request) -> Result<(), ApiError> {
    let Request {
        id,
        why,
        silent,
        until_ns,
    } = request;
    let at_ns = now_ns();
    if why.trim().is_empty() || why.len() > MAX_REASON {
        return Err(ApiError::wrong("give a reason of 1 to 500 bytes in why"));
    }
    if until_ns > at_ns.saturating_add(MAX_MARK_NS) {
        return Err(ApiError::wrong("until_ns is more than a year away"));
    }
    let mut alerts = hub.alerts();
    if !alerts.machine.alerts().any(|alert| alert.id == id) {
        return Err(ApiError::missing("there is no alert with this id"));
    }
    let was_silent = alerts.marks.is_silent(&id);
    let more = json!({"alert": id, "why": why, "until_ns": until_ns});
    let mark = Mark {
        by: sender.name.clone(),
        why,
        silent,
        at_ns,
        until_ns,
    };
    if !alerts.marks.set(&id, mark) {
        return Err(ApiError::wrong(
            "there are too many marks, or their texts are too long; remove some",
        ));
    }
    drop(alerts);
    let what = match (until_ns > at_ns, silent, was_silent) {
        (true, true, _) => "silence",
        (true, false, _) => "seen",
        (false, _, true) => "unsilence",
        (false, _, false) => "unseen",
    };
    sender.note(hub, what, more);
    Ok(())
}
