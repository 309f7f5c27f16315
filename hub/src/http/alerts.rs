//! Handlers for alerts.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use serde::Serialize;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use crate::alerts::machine::{Alert, Phase};
use crate::alerts::status::ReceiverState;

#[derive(Serialize)]
struct Alerts {
    /// Time of the last look for conditions. 0 before the first one.
    looked_ns: u64,
    /// Why the last look failed. Null if it did not.
    error: Option<String>,
    /// Number of alerts that are not listed, because there are too many.
    left_out: usize,
    /// Number of firing alerts.
    firing: usize,
    rows: Vec<Alert>,
    receivers: Vec<ReceiverState>,
}

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let answer = {
        let alerts = app.hub.alerts();
        let rows: Vec<Alert> = alerts.machine.alerts().cloned().collect();
        Alerts {
            looked_ns: alerts.looked_ns,
            error: alerts.error.clone(),
            left_out: alerts.machine.left_out,
            firing: rows.iter().filter(|row| row.state == Phase::Firing).count(),
            rows,
            receivers: alerts.receivers.clone(),
        }
    };
    Ok(Answer::json(&answer)?.respond(&headers))
}
