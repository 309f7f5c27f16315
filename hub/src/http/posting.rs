//! Reads a request that changes something: who sends it, and what. The check of its `Origin` is in
//! [`super::access`], as for all requests.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::Answer;
use super::app::{Answered, App};
use super::params::Params;
use super::values::now_ns;
use crate::query::error::ApiError;
use crate::state::Hub;
use crate::users::Identity;

/// Max size of a request body, and max time until it has arrived.
const MAX_BODY: usize = 16 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The user who sends a request.
pub(super) struct Sender {
    pub(super) name: String,
    identity: Identity,
}

impl Sender {
    /// Adds a line to the audit log.
    pub(super) fn note(&self, hub: &Hub, what: &str, more: Value) {
        hub.users
            .audit
            .write(now_ns(), what, &self.identity.by(), more);
    }
}

/// A request that changes something.
pub(super) struct Posted {
    app: App,
    identity: Identity,
    request: Request,
}

impl FromRequest<App> for Posted {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let identity = request.extensions().get::<Identity>().cloned();
        Ok(Self {
            app: app.clone(),
            identity: identity.ok_or_else(unnamed)?,
            request,
        })
    }
}

impl Posted {
    /// Calls `work` with the user and the content. `fields` names the fields of the content.
    pub(super) async fn serve<T: DeserializeOwned>(
        self,
        fields: &'static str,
        work: impl FnOnce(&Hub, &Sender, T) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Answered {
        let (parts, body) = self.request.into_parts();
        Params::parse(parts.uri.query(), &[])?;
        let read = tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY));
        let body = read.await.ok().and_then(Result::ok).ok_or_else(|| {
            ApiError::wrong("the body does not arrive, or it is longer than 16 KiB")
        })?;
        let identity = self.identity;
        let compute = self.app.compute(parts.headers, move |hub| {
            let sender = sender(hub, identity)?;
            let content = serde_json::from_slice(&body).map_err(|error| {
                ApiError::wrong(format!("cannot read the body: {error}; send {fields}"))
            })?;
            work(hub, &sender, content)
        });
        compute.await
    }
}

/// Returns the user who sends a request.
fn sender(hub: &Hub, identity: Identity) -> Result<Sender, ApiError> {
    if !hub.users.may_post() {
        return Err(ApiError::missing(
            "the configuration of the hub has no users",
        ));
    }
    let name = identity.name.clone().ok_or_else(unnamed)?;
    Ok(Sender { name, identity })
}

fn unnamed() -> ApiError {
    ApiError {
        status: StatusCode::FORBIDDEN,
        reason: "the request names no user: send a token in the header Ibnet-Token".to_owned(),
    }
}
