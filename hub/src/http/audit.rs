//! Handler for the newest entries of the audit log.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use serde::Serialize;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use crate::audit::Entry;
use crate::query::error::ApiError;

#[derive(Serialize)]
struct Entries {
    rows: Vec<Entry>,
    /// Why there are no entries.
    reason: Option<&'static str>,
}

pub(crate) async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    app.compute(headers, |hub| {
        let rows = hub.users.audit.newest().map_err(|error| {
            ApiError::failed(format!(
                "cannot read the audit log: {error}; correct users.audit"
            ))
        })?;
        let reason = rows
            .is_none()
            .then_some("users.audit of the configuration names no file");
        Answer::json(&Entries {
            rows: rows.unwrap_or_default(),
            reason,
        })
    })
    .await
}
