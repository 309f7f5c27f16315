//! Reads a request that changes something: who sends it, and what. The check of its `Origin` is in
//! [`super::access`], as for all requests.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use crate::query::error::ApiError;
use crate::state::Hub;

/// Header with the token of a user. A page of another site cannot send it, because the hub answers
/// no request for permission (CORS preflight).
const TOKEN: &str = "ibnet-token";

/// Max size of a request body, and max time until it has arrived.
const MAX_BODY: usize = 16 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls `work` with the name of the user and the request. `fields` names the fields of the request.
pub(super) async fn post<T: DeserializeOwned>(
    app: App,
    headers: HeaderMap,
    query: Option<String>,
    body: Body,
    fields: &'static str,
    work: impl FnOnce(&Hub, String, T) -> Result<Answer, ApiError> + Send + 'static,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let token = headers
        .get(TOKEN)
        .and_then(|token| token.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY));
    let body =
        read.await.ok().and_then(Result::ok).ok_or_else(|| {
            ApiError::wrong("the body does not arrive, or it is longer than 16 KiB")
        })?;
    app.compute(headers, move |hub| {
        let by = user(hub, &token)?;
        let request = serde_json::from_slice(&body).map_err(|error| {
            ApiError::wrong(format!("cannot read the body: {error}; send {fields}"))
        })?;
        work(hub, by, request)
    })
    .await
}

/// Returns the name of the user with a token.
fn user(hub: &Hub, token: &str) -> Result<String, ApiError> {
    let users = hub
        .users
        .as_ref()
        .ok_or_else(|| ApiError::missing("the configuration of the hub has no users"))?;
    let found = users
        .name_of(token)
        .map_err(|error| ApiError::failed(error.to_string()))?;
    found.ok_or_else(|| ApiError {
        status: StatusCode::FORBIDDEN,
        reason: "the header Ibnet-Token has no token of a user".to_owned(),
    })
}
