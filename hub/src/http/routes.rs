//! The addresses of the API. `docs/hub.md` and `hub/openapi.json` describe them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use ibnet::http_limits::Visitor;

use super::app::{App, CLIENTS};
use super::server::Access;
use super::{access, alerts, assets, groups, jobs, lists, live, marks, values};
use crate::query::error::ApiError;
use crate::state::Hub;

/// Addresses of the API, without the prefix `/api/v1`.
#[cfg(test)]
pub(crate) const ADDRESSES: [&str; 27] = [
    "/alerts",
    "/alerts/mark",
    "/cabling",
    "/errors",
    "/events",
    "/group/{name}",
    "/groups",
    "/health",
    "/heat",
    "/job/{id}",
    "/job/{id}/matrix",
    "/jobs",
    "/links",
    "/links/health",
    "/live",
    "/marks",
    "/marks/remove",
    "/path",
    "/port/{guid}/{number}",
    "/port/{guid}/{number}/physical",
    "/ports",
    "/samplers",
    "/series",
    "/sm",
    "/timeline",
    "/topology",
    "/trees",
];

/// Returns all routes, with a new state.
pub(crate) fn router(hub: Arc<Hub>, access: Access) -> Router {
    router_of(App::new(hub, access))
}

/// Returns all routes with this state.
pub(super) fn router_of(app: App) -> Router {
    let api = Router::new()
        .route("/alerts", get(alerts::list))
        .route("/alerts/mark", post(alerts::mark))
        .route("/cabling", get(lists::cabling))
        .route("/errors", get(lists::errors))
        .route("/events", get(lists::events))
        .route("/group/{name}", get(groups::one))
        .route("/groups", get(groups::list))
        .route("/health", get(values::health))
        .route("/heat", get(values::heat))
        .route("/job/{id}", get(jobs::one))
        .route("/job/{id}/matrix", get(jobs::matrix))
        .route("/jobs", get(jobs::list))
        .route("/links", get(lists::links))
        .route("/links/health", get(lists::links_health))
        .route("/live", get(live))
        .route("/marks", get(marks::list).post(marks::post))
        .route("/marks/remove", post(marks::remove))
        .route("/path", get(lists::path))
        .route("/port/{guid}/{number}", get(values::one_port))
        .route("/port/{guid}/{number}/physical", get(values::physical))
        .route("/ports", get(lists::ports))
        .route("/samplers", get(lists::samplers))
        .route("/series", get(values::series))
        .route("/sm", get(lists::sm))
        .route("/timeline", get(values::timeline))
        .route("/topology", get(values::topology))
        .route("/trees", get(lists::trees))
        .fallback(no_such_address);
    Router::new()
        .nest("/api/v1", api)
        .fallback(page)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Checks each request, and adds the headers of each response.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let refusal = {
        let secrets = app.access.lock();
        let authorizes = |given: Option<&str>| secrets.authorizes(given);
        let scheme = if secrets.tls().is_some() {
            "https"
        } else {
            "http"
        };
        access::refusal(
            request.method(),
            request.headers(),
            scheme,
            if secrets.has_password() {
                Some(&authorizes)
            } else {
                None
            },
            app.hub.users.is_some(),
        )
    };
    let response = match refusal {
        Some(refusal) => refusal,
        None => {
            if let Some(visitor) = request.extensions().get::<Visitor>() {
                visitor.admit();
            }
            next.run(request).await
        }
    };
    access::add_headers(response)
}

async fn live(
    State(app): State<App>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        return ApiError {
            status: StatusCode::UPGRADE_REQUIRED,
            reason: "connect with a WebSocket".to_owned(),
        }
        .into_response();
    };
    let Ok(permit) = Arc::clone(&app.clients).try_acquire_owned() else {
        let reason = format!("{CLIENTS} clients receive the stream of slots; close one of them");
        return ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason,
        }
        .into_response();
    };
    let hub = Arc::clone(&app.hub);
    upgrade
        .max_message_size(live::LONGEST_MESSAGE)
        .on_upgrade(async move |socket| {
            live::serve(socket, &hub, app.send_timeout).await;
            drop(permit);
        })
}

async fn no_such_address(uri: Uri) -> ApiError {
    ApiError::missing(format!(
        "there is no address {}; docs/hub.md lists all addresses",
        ibnet_record::types::Printable(uri.path())
    ))
}

/// Returns a file of the web page.
async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let found = assets::find(uri.path(), &headers);
    let mut response = found.unwrap_or_else(|| {
        ApiError::missing("there is no such file; the page is at /").into_response()
    });
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}
