//! The addresses of the interface. `docs/hub.md` and `hub/openapi.json` describe them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::answer::{Answer, ApiError};
use super::params::{Params, port_key};
use super::{access, assets, live};
use crate::query::{port, series};
use crate::state::{Hub, InputState};
use crate::store::{Counts, Kept};

/// Number of queries that are computed at the same time. Further queries wait.
const QUERIES: usize = 2;

/// State of all handlers.
#[derive(Clone)]
pub(crate) struct App {
    hub: Arc<Hub>,
    queries: Arc<Semaphore>,
}

/// Returns all routes.
pub(crate) fn router(hub: Arc<Hub>) -> Router {
    let app = App { hub, queries: Arc::new(Semaphore::new(QUERIES)) };
    let api = Router::new()
        .route("/health", get(health))
        .route("/live", get(live))
        .route("/topology", get(topology))
        .route("/series", get(series))
        .route("/port/{guid}/{number}", get(one_port))
        .fallback(no_such_address);
    Router::new().nest("/api/v1", api).fallback(page).layer(from_fn_with_state(app.clone(), guard)).with_state(app)
}

/// Checks each request, and adds the headers of each response.
async fn guard(State(_app): State<App>, request: Request, next: Next) -> Response {
    let response = match access::check(request.method(), request.headers(), None) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal,
    };
    access::add_headers(response)
}

type Answered = Result<Response, ApiError>;

impl App {
    /// Computes an answer on a thread for blocking work.
    async fn compute(&self, headers: HeaderMap, work: impl FnOnce(&Hub) -> Result<Answer, ApiError> + Send + 'static) -> Answered {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.queries).acquire_owned().await;
        let hub = Arc::clone(&self.hub);
        let computed = tokio::task::spawn_blocking(move || {
            let answer = work(&hub).map(|answer| answer.respond(&headers));
            drop(permit);
            answer
        });
        computed.await.unwrap_or_else(|_| Err(ApiError::failed("the query failed; the log of the hub has the reason")))
    }
}

#[derive(Serialize)]
struct Health {
    /// `ok`, `waiting` before the first slot, or `silent` if no sampler sends records.
    status: &'static str,
    version: &'static str,
    fabric: String,
    records: u64,
    samplers: usize,
    samplers_connected: usize,
    last_slot: u64,
    last_ts: u64,
    interval_ns: u64,
    generation: u32,
    kept: Kept,
    counts: Counts,
    inputs: Vec<InputState>,
}

async fn health(State(app): State<App>, headers: HeaderMap, RawQuery(query): RawQuery) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let health = {
        let state = app.hub.read();
        let (samplers, samplers_connected) = state.samplers.counts();
        Health {
            status: match (samplers, samplers_connected) {
                (0, _) => "waiting",
                (_, 0) => "silent",
                _ => "ok",
            },
            version: env!("CARGO_PKG_VERSION"),
            fabric: app.hub.fabric.clone(),
            records: state.store.counts().added,
            samplers,
            samplers_connected,
            last_slot: state.last_slot(),
            last_ts: state.store.last_ts(),
            interval_ns: state.samplers.interval_ns(),
            generation: state.topology.generation,
            kept: state.store.kept(),
            counts: state.store.counts(),
            inputs: state.inputs.clone(),
        }
    };
    Ok(Answer::json(&health)?.respond(&headers))
}

async fn topology(State(app): State<App>, headers: HeaderMap, RawQuery(query): RawQuery) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    app.compute(headers, |hub| {
        let topology = Arc::clone(&hub.read().topology);
        Answer::json(&*topology)
    })
    .await
}

async fn one_port(
    State(app): State<App>,
    Path((guid, number)): Path<(String, String)>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answered {
    Params::parse(query.as_deref(), &[])?;
    let key = port_key(&format!("{guid}/{number}"))?;
    app.compute(headers, move |hub| Answer::json(&port::find(hub, key)?)).await
}

/// Largest number of series in one answer.
const MOST_SERIES: usize = 256;

#[derive(Serialize)]
struct NamedSeries {
    port: String,
    metric: String,
    #[serde(flatten)]
    series: series::Series,
}

#[derive(Serialize)]
struct AllSeries {
    from_ns: u64,
    to_ns: u64,
    series: Vec<NamedSeries>,
}

async fn series(State(app): State<App>, headers: HeaderMap, RawQuery(query): RawQuery) -> Answered {
    let params = Params::parse(query.as_deref(), &["port", "metric", "from", "to", "step", "as"])?;
    app.compute(headers, move |hub| {
        let (first, last) = kept_range(hub);
        let range = params.range((first, last))?;
        let step = params.parsed::<u64>("step", "a time in nanoseconds")?.filter(|step| *step > 0);
        let form = series::form(params.one("as")?)?;
        let ports = params.all("port").map(|text| Ok((text, port_key(text)?))).collect::<Result<Vec<_>, ApiError>>()?;
        let wishes = params.all("metric").map(|name| series::Wish::parse(name, form)).collect::<Result<Vec<_>, ApiError>>()?;
        if ports.is_empty() || wishes.is_empty() {
            return Err(ApiError::wrong("give port=0xGUID/NUM and metric=NAME, each once or several times"));
        }
        if ports.len() * wishes.len() > MOST_SERIES {
            return Err(ApiError::wrong(format!("the answer has more than {MOST_SERIES} series; ask for fewer ports or metrics")));
        }
        let mut all = Vec::with_capacity(ports.len() * wishes.len());
        for (text, key) in &ports {
            for (wish, series) in wishes.iter().zip(series::find(hub, *key, &wishes, range, step)?) {
                all.push(NamedSeries { port: (*text).to_owned(), metric: wish.name().to_owned(), series });
            }
        }
        match &all[..] {
            [one] => Answer::json(&one.series),
            _ => Answer::json(&AllSeries { from_ns: range.0, to_ns: range.1, series: all }),
        }
    })
    .await
}

/// Returns the time from the oldest minute or record to the newest record.
fn kept_range(hub: &Hub) -> (u64, u64) {
    let kept = hub.read().store.kept();
    (kept.minutes_from_ns.or(kept.from_ns).unwrap_or(0), kept.to_ns.unwrap_or(0))
}

async fn live(
    State(app): State<App>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => {
            let hub = Arc::clone(&app.hub);
            upgrade.max_message_size(live::LONGEST_MESSAGE).on_upgrade(move |socket| live::serve(socket, hub))
        }
        Err(_) => ApiError { status: StatusCode::UPGRADE_REQUIRED, reason: "connect with a WebSocket".to_owned() }.into_response(),
    }
}

async fn no_such_address(uri: Uri) -> ApiError {
    ApiError::missing(format!("there is no address {}; docs/hub.md lists all addresses", ibnet::types::Printable(uri.path())))
}

/// Returns a file of the page.
async fn page(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let found = assets::find(uri.path(), &headers);
    let mut response = found.unwrap_or_else(|| ApiError::missing("there is no such file; the page is at /").into_response());
    if method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    response
}
