//! The addresses of the API. `docs/hub.md` and `hub/openapi.json` describe them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{RawQuery, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use ibnet::http_limits::Visitor;
use serde_json::json;

use super::answer::Answer;
use super::app::{Answered, App, CLIENTS};
use super::others::{self, Served};
use super::params::Params;
use super::server::Access;
use super::values::now_ns;
use super::{access, alerts, assets, audit, groups, jobs, lists, live, marks, values};
use crate::audit::By;
use crate::query::error::ApiError;
use crate::state::Hub;
use crate::users::{Identity, Peer, TOKEN};

/// Returns the addresses of the API without the prefix `/api/v1`, each with how it serves the
/// roles, and its handler.
pub(super) fn addresses() -> Vec<(&'static str, Served, MethodRouter<App>)> {
    use Served::{Filtered, Refused, ToAdmin, Whole};
    vec![
        ("/alerts", Filtered, get(alerts::list)),
        ("/alerts/mark", Refused, post(alerts::mark)),
        ("/audit", ToAdmin, get(audit::list)),
        ("/cabling", Filtered, get(lists::cabling)),
        ("/errors", Filtered, get(lists::errors)),
        ("/events", Filtered, get(lists::events)),
        ("/group/{name}", Filtered, get(groups::one)),
        ("/groups", Filtered, get(groups::list)),
        ("/health", Filtered, get(values::health)),
        ("/heat", Whole, get(values::heat)),
        ("/job/{id}", Filtered, get(jobs::one)),
        ("/job/{id}/matrix", Filtered, get(jobs::matrix)),
        ("/jobs", Filtered, get(jobs::list)),
        ("/links", Filtered, get(lists::links)),
        ("/links/health", Filtered, get(lists::links_health)),
        ("/live", Whole, get(live)),
        ("/marks", Filtered, get(marks::list).post(marks::post)),
        ("/marks/remove", Refused, post(marks::remove)),
        ("/path", Filtered, get(lists::path)),
        ("/port/{guid}/{number}", Filtered, get(values::one_port)),
        (
            "/port/{guid}/{number}/physical",
            Filtered,
            get(values::physical),
        ),
        ("/ports", Filtered, get(lists::ports)),
        ("/samplers", Filtered, get(lists::samplers)),
        ("/series", Whole, get(values::series)),
        ("/sm", Filtered, get(lists::sm)),
        ("/timeline", Filtered, get(values::timeline)),
        ("/topology", Filtered, get(values::topology)),
        ("/trees", Filtered, get(lists::trees)),
        ("/whoami", Whole, get(whoami)),
    ]
}

/// Returns all routes, with a new state.
pub(crate) fn router(hub: Arc<Hub>, access: Access) -> Router {
    router_of(App::new(hub, access))
}

/// Returns all routes with this state.
pub(super) fn router_of(app: App) -> Router {
    let add = |api: Router<App>, (address, served, methods): (_, _, MethodRouter<App>)| {
        let state = (app.clone(), address, served);
        api.route(
            address,
            methods.layer(from_fn_with_state(state, others::serve)),
        )
    };
    let api = addresses().into_iter().fold(Router::new(), add);
    let api = api.fallback(no_such_address);
    Router::new()
        .nest("/api/v1", api)
        .fallback(page)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Checks each request, and adds the headers of each response.
async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
    let (password, scheme) = {
        let secrets = app.access.lock();
        let given = headers
            .get(AUTHORIZATION)
            .map(|value| value.to_str().unwrap_or("?"));
        let password = secrets.has_password().then(|| secrets.authorizes(given));
        let scheme = if secrets.tls().is_some() {
            "https"
        } else {
            "http"
        };
        (password, scheme)
    };
    let users = &app.hub.users;
    let (identity, is_needed) = match users.identify(headers, peer, password) {
        Ok(found) => found,
        Err(error) => return access::add_headers(error.into_response()),
    };
    let has_credentials =
        headers.contains_key(TOKEN) || (is_needed && headers.contains_key(AUTHORIZATION));
    // The proxy can end TLS.
    let schemes = if users.trusts(peer) {
        &["http", "https"][..]
    } else {
        &[scheme]
    };
    let is_known = is_needed.then_some(identity.is_some());
    let refusal = access::refusal(
        request.method(),
        headers,
        schemes,
        is_known,
        users.may_post(),
    );
    note(
        &app,
        // Where no user must be identified, only a token names one.
        identity
            .as_ref()
            .filter(|identity| is_needed || identity.name.is_some()),
        has_credentials,
        peer,
    );
    let response = match (refusal, identity) {
        (Some(refusal), _) => refusal,
        (None, identity) => {
            if let Some(visitor) = request.extensions().get::<Visitor>() {
                visitor.admit();
            }
            identity.map(|identity| request.extensions_mut().insert(identity));
            next.run(request).await
        }
    };
    access::add_headers(response)
}

/// Notes a login, or that it failed.
fn note(app: &App, identity: Option<&Identity>, has_credentials: bool, peer: Option<IpAddr>) {
    let (audit, now_ns) = (&app.hub.users.audit, now_ns());
    let (what, by, more) = match identity {
        Some(identity) if audit.is_login(now_ns, &identity.by()) => {
            ("login", identity.by(), json!({}))
        }
        None if has_credentials => {
            let Some(left_out) = audit.is_failure(now_ns) else {
                return;
            };
            let address = peer.map_or_else(String::new, |peer| peer.to_canonical().to_string());
            let by = By {
                address,
                ..By::default()
            };
            ("login_failed", by, json!({"left_out": left_out}))
        }
        _ => return,
    };
    // A slow disk delays no request.
    let hub = Arc::clone(&app.hub);
    drop(tokio::task::spawn_blocking(move || {
        hub.users.audit.write(now_ns, what, &by, more);
    }));
}

/// Returns name and role of the sender.
async fn whoami(
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let who = json!({"name": identity.name, "role": identity.role.as_str()});
    Ok(Answer::json(&who)?.respond(&headers))
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
